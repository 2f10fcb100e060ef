// mujoco_test.c - the data of Reacher and Cube: thread counts, states spread over several columns,
// public column names, restored branches and their audit, breakdowns that stop a collection.
#include "check.h"
#include "data/branches.h"
#include "data/hdf5.h"
#include "data/support.h"
#include "env/cube.h"
#include "env/env.h"
#include "env/reacher.h"

#ifdef FIRM_MUJOCO

static episodes* collect(const char* task, const char* policy, int count, int threads) {
    firm_error err;
    pool* p = NULL;
    episodes* e = NULL;
    collect_options opt = {.episodes = count, .seed = 3, .policy = policy};
    if (pool_create(threads, &p, &err) != FIRM_OK ||
        episodes_collect(env_find(task), &opt, p, &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    pool_free(p);
    return e;
}

TEST(data, reacher_collects) {
    episodes *e = collect("reacher", NULL, 400, 2), *again = collect("reacher", "uniform", 400, 1);
    if (!e || !again) return;
    EXPECT(e->hash == again->hash);  // any number of threads
    EXPECT_INT(e->rows, 400 * 201);
    EXPECT_NEAR(episodes_solved_at(e, 25), 0.57, 0.12);  // 80,000 rows; a full set: 0.56
    double square = 0, wrist = 0, shoulder = 0;
    for (int64_t row = 0; row < e->rows; row++) {
        for (int k = 0; k < 2; k++) {
            float a = e->action[2 * row + k];
            if (isfinite(a)) square += (double)a * a / 2;
        }
        shoulder = test_worse(shoulder, fabs(e->state[4 * row]));
        wrist = test_worse(wrist, fabs(e->state[4 * row + 1]));
    }
    EXPECT_NEAR(sqrt(square / (400 * 200)), 0.577, 0.005);
    EXPECT(wrist > 2.8 && wrist < 3.0);         // into the soft limit, not through it
    EXPECT(shoulder > 4.0 && shoulder < 12.0);  // it winds up
    episodes_free(e);
    episodes_free(again);
}

TEST(data, reacher_branches_and_audit) {
    firm_error err;
    pool* p;
    branches* b;
    audit_result audit;
    episodes* e = collect("reacher", NULL, 60, 1);
    if (!e) return;
    REQUIRE_OK(pool_create(2, &p, &err), err);
    intervene_options opt = {.anchors = 20, .per_anchor = 4, .seed = 1};
    REQUIRE_OK(branches_collect(e, &opt, p, &b, &err), err);
    for (int i = 0; i < b->anchors * b->per_anchor; i++) {
        const double* s = b->state + (size_t)i * 26 * 4;
        EXPECT(memcmp(s, e->state + b->row[i / 4] * 4, 4 * sizeof *s) == 0);
        // uniform proposals only: none replays the recording
        EXPECT(memcmp(b->action + (size_t)i * 50, e->action + b->row[i / 4] * 2, sizeof(float)) !=
               0);
    }
    branches_free(b);
    REQUIRE_OK(branches_audit(e, 40, 0, 1, p, &audit, &err), err);
    EXPECT(audit.pass && audit.max < 1e-9);
    pool_free(p);
    episodes_free(e);
}

static void check_width(const hdf5_file* file, const char* name, int width) {
    if (hdf5_width(file, name) != width)
        test_fail(__FILE__, __LINE__, "column '%s' has %d numbers per row, expected %d", name,
                  hdf5_width(file, name), width);
}

// Takes away what no reader needs: all attributes and all columns but these.
static void make_bare(const char* path, const char* const* keep) {
    static const char* const attributes[] = {"task",    "kind",     "version", "seed",    "policy",
                                             "physics", "renderer", "config",  "checksum"};
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    for (int i = 0; i < 9; i++) EXPECT(H5Adelete(file, attributes[i]) >= 0);
    for (hsize_t i = 0;;) {
        char name[64];
        if (H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name,
                               H5P_DEFAULT) < 0)
            break;
        int kept = 0;
        for (int k = 0; keep[k]; k++) kept |= strcmp(keep[k], name) == 0;
        if (!kept) EXPECT(H5Ldelete(file, name, H5P_DEFAULT) >= 0);
        i += (hsize_t)kept;
    }
    H5Fclose(file);
}

// What every file has to have is enough to read it, as its own task only.
static void expect_bare_is_read(const episodes* e) {
    static const char* const reacher[] = {"ep_len", "ep_offset", "action", "qpos", "qvel", NULL};
    static const char* const cube[] = {"ep_len",
                                       "ep_offset",
                                       "action",
                                       "qpos",
                                       "qvel",
                                       "proprio_effector_pos",
                                       "proprio_effector_yaw",
                                       "proprio_gripper_contact",
                                       NULL};
    const int is_cube = strcmp(e->spec->task.name, "cube") == 0;
    const char* path = temp_path("bare.h5");
    firm_error err;
    episodes* back;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    REQUIRE_OK(episodes_write(e, NULL, NULL, path, &err), err);
    make_bare(path, is_cube ? cube : reacher);
    REQUIRE_OK(episodes_read(path, e->spec, &back, &err), err);
    EXPECT(back->hash == e->hash);
    episodes_free(back);
    EXPECT(episodes_read(path, env_find(is_cube ? "reacher" : "cube"), &back, &err) != FIRM_OK);
    EXPECT(episodes_read(path, env_find("tworoom"), &back, &err) != FIRM_OK);
}

// Written, read back, also bare, and refused when a part of the state is missing or another task's.
TEST(data, states_in_several_columns) {
    static const struct {
        const char* name;
        int width;
    } cube[] = {{"qpos", 21},
                {"qvel", 20},
                {"control", 7},
                {"time", 1},
                {"success", 1},
                {"reward", 1},
                {"observation", 28},
                {"proprio_joint_pos", 6},
                {"proprio_joint_vel", 6},
                {"proprio_effector_pos", 3},
                {"proprio_effector_yaw", 1},
                {"proprio_gripper_opening", 1},
                {"proprio_gripper_vel", 1},
                {"proprio_gripper_contact", 1},
                {"privileged_block_0_pos", 3},
                {"privileged_block_0_quat", 4},
                {"privileged_block_0_yaw", 1},
                {"privileged_target_block", 1},
                {"privileged_target_block_pos", 3},
                {"privileged_target_block_yaw", 1}},
      reacher[] = {{"qpos", 2},       {"qvel", 2},    {"observation", 6}, {"target_pos", 2},
                   {"finger_pos", 2}, {"success", 1}, {"score", 1},       {"reward", 1}};
    for (int k = 0; k < 2; k++) {
        firm_error err;
        pool* p;
        hdf5_file* columns;
        const char *task = k ? "cube" : "reacher", *path = temp_path(k ? "cube.h5" : "reacher.h5");
        episodes *e = collect(task, NULL, 2, 2), *back;
        if (!e) return;
        REQUIRE_OK(pool_create(1, &p, &err), err);
        REQUIRE_OK(episodes_write(e, NULL, p, path, &err), err);
        REQUIRE_OK(episodes_read(path, env_find(task), &back, &err), err);
        EXPECT(back->hash == e->hash);
        EXPECT(memcmp(back->state, e->state,
                      sizeof(double) * (size_t)(e->rows * e->spec->state->dim)) == 0);
        expect_failure(episodes_read(path, env_find("tworoom"), &(episodes*){NULL}, &err),
                       FIRM_E_TASK, &err, task);
        REQUIRE_OK(hdf5_open(path, &columns, &err), err);
        for (size_t i = 0; k == 1 && i < sizeof cube / sizeof *cube; i++)
            check_width(columns, cube[i].name, cube[i].width);
        for (size_t i = 0; k == 0 && i < sizeof reacher / sizeof *reacher; i++)
            check_width(columns, reacher[i].name, reacher[i].width);
        hdf5_close(columns);
        expect_bare_is_read(e);

        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        EXPECT(file >= 0 && H5Ldelete(file, "qvel", H5P_DEFAULT) >= 0);
        H5Fclose(file);
        expect_failure(episodes_read(path, env_find(task), &(episodes*){NULL}, &err), FIRM_E_FORMAT,
                       &err, "'qvel'");
        episodes_free(back);
        episodes_free(e);
        pool_free(p);
    }
}

// All columns of the public file, read with Python's tools under their public names.
TEST(data, cube_file_opens_in_python) {
    char command[4096];
    firm_error err;
    if (system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
        test_skip("no /usr/bin/python3 with h5py");
        return;
    }
    episodes* e = collect("cube", NULL, 2, 2);
    if (!e) return;
    const char* path = temp_path("cube-python.h5");
    REQUIRE_OK(episodes_write(e, NULL, NULL, path, &err), err);
    snprintf(command, sizeof command, "/usr/bin/python3 %s/tests/data/check_cube.py %s",
             test_source_dir(), path);
    EXPECT_INT(system(command), 0);
    episodes_free(e);
}

TEST(data, cube_branches_and_audit) {
    firm_error err;
    pool* p;
    branches* b;
    audit_result audit;
    episodes *e = collect("cube", NULL, 8, 2), *again = collect("cube", "plan", 8, 1);
    if (!e || !again) return;
    EXPECT(e->hash == again->hash);
    episodes_free(again);
    REQUIRE_OK(pool_create(2, &p, &err), err);
    intervene_options opt = {.anchors = 4, .per_anchor = 3, .seed = 1};
    REQUIRE_OK(branches_collect(e, &opt, p, &b, &err), err);
    for (int i = 0; i < b->anchors; i++)
        for (int k = 0; k < 3; k++) {
            const double* s = b->state + (size_t)(i * 3 + k) * 26 * CUBE_STATE;
            // what the setter accepts, and what was seen at the moment
            EXPECT(memcmp(s, e->state + b->row[i] * CUBE_STATE, CUBE_STATE * sizeof *s) == 0);
            if (k == 0)
                EXPECT(memcmp(b->action + (size_t)(i * 3) * 25 * 5, e->action + b->row[i] * 5,
                              25 * 5 * sizeof(float)) == 0);
        }
    // contact forces and effector poses are recorded along the branches, so chi has all its numbers
    float chi[25];
    const double* last = b->state + (size_t)(26 - 1) * CUBE_STATE;
    env_chi(b->spec, last, last - CUBE_STATE, last - 5 * CUBE_STATE, chi);
    for (int i = 0; i < 25; i++) EXPECT(isfinite(chi[i]));
    branches_free(b);
    REQUIRE_OK(branches_audit(e, 7, 0, 1, p, &audit, &err), err);
    EXPECT(audit.pass && audit.h5_p95 <= 0.02 && audit.max <= 0.1);
    pool_free(p);
    episodes_free(e);
}
#else
TEST(data, reacher_and_cube) {
    test_skip("built without MuJoCo; run `make mujoco`");
}
#endif
