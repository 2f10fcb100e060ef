// cube_test.c - Cube against its fact sheet and against the reference package
// (tests/golden/cube.txt): model, kinematics, control, trajectories, both oracles; what it refuses;
// exact saves.
#define _GNU_SOURCE  // setenv, symlink
#include "env/cube.h"

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "env/golden.h"

TEST(env, cube_typed_conversions) {
    const env_spec* spec = env_find("cube");
    double s[CUBE_STATE] = {0}, t[CUBE_STATE] = {0};
    s[CUBE_BLOCK] = 0.425, s[CUBE_BLOCK + 2] = 0.02, s[CUBE_BLOCK + 3] = 1;
    memcpy(t, s, sizeof t);
    t[CUBE_BLOCK] += 0.024, t[CUBE_BLOCK + 1] += 0.032;
    float a[3], b[3], d, chi[25], other[25], xy[2];
    env_config(spec, s, a);
    env_config(spec, t, b);
    task_measure(&spec->task, a, b, &d);
    EXPECT_NEAR(d, 0.04, 1e-7);
    t[CUBE_BLOCK] = s[CUBE_BLOCK], t[CUBE_BLOCK + 1] = 0.04;
    EXPECT(env_success(spec, t, s));  // the boundary counts
    t[CUBE_BLOCK + 1] = 0.0400001;
    EXPECT(!env_success(spec, t, s));

    s[3] = 0.5, s[CUBE_AT_QVEL + 3] = -0.25, s[CUBE_GRIPPER] = 0.4;
    s[CUBE_AT_YAW] = 0.3, s[CUBE_AT_CONTACT] = 0.75, s[CUBE_AT_EFFECTOR + 1] = 0.35;
    const double half = sqrt(0.5);
    s[CUBE_BLOCK + 3] = half, s[CUBE_BLOCK + 6] = half;  // a quarter turn about z
    env_chi(spec, s, s, s, chi);
    EXPECT(chi[3] == 0.5f && chi[9] == -0.25f && chi[17] == 0.5f && chi[18] == 0.75f);
    EXPECT_NEAR(chi[13], 1, 1e-6);
    EXPECT_NEAR(chi[15], sin(0.3), 1e-6);
    EXPECT_NEAR(chi[16], cos(0.3), 1e-6);
    const double turned[6] = {0, 1, 0, -1, 0, 0};  // what x and y became
    for (int i = 0; i < 6; i++) EXPECT_NEAR(chi[19 + i], turned[i], 1e-6);
    for (int i = 3; i < 7; i++) s[CUBE_BLOCK + i] = -s[CUBE_BLOCK + i];
    env_chi(spec, s, s, s, other);  // the same rotation
    EXPECT(memcmp(chi, other, sizeof chi) == 0);

    // a point straight ahead of the camera appears in the middle
    const double camera[3] = {1.053, -0.014, 0.639}, view[3] = {0.778, 0, 0.628};
    for (int i = 0; i < 3; i++) t[CUBE_BLOCK + i] = camera[i] - 0.7 * view[i];
    env_config(spec, t, a);
    task_project(&spec->task, a, xy);
    EXPECT_NEAR(xy[0], 111.5, 0.5);
    EXPECT_NEAR(xy[1], 111.5, 0.5);
}

#ifdef FIRM_MUJOCO
#include "env/env.h"
#include "env/mujoco/cube.h"

static env* make(void) {
    firm_error err;
    env* e = NULL;
    if (env_create(env_find("cube"), &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return e;
}

static const double home[6] = {-mjPI / 2, -mjPI / 2, mjPI / 2, -mjPI / 2, -mjPI / 2, 0};

TEST(env, cube_kinematics) {
    cube* e = (cube*)make();
    if (!e) return;
    const double at_zero[3] = {-0.3898, 0.817, 0.063}, at_home[3] = {0.492, 0.134, 0.3322};
    EXPECT_NEAR(golden_worst(e->pinch, at_zero, 3), 0, 1e-4);
    double s[CUBE_STATE] = {0};
    memcpy(s, home, sizeof home);
    s[CUBE_BLOCK] = 0.4, s[CUBE_BLOCK + 2] = 0.02, s[CUBE_BLOCK + 3] = 1;
    e->base.spec->sim->state_set(&e->base, s);
    EXPECT_NEAR(golden_worst(e->pinch, at_home, 3), 0, 1e-4);
    // the flange in the pinch frame: a quarter turn, 0.1558 m up
    const double turn[4] = {0.70710678, 0, 0, 0.70710678}, shift[3] = {0, 0, -0.1558};
    EXPECT_NEAR(golden_worst(e->pinch_to_flange.q, turn, 4), 0, 1e-8);
    EXPECT_NEAR(golden_worst(e->pinch_to_flange.p, shift, 3), 0, 1e-8);

    static const struct {
        double yaw;
        int iterations;
        double joints[6];
    } cases[] = {
        {0, 3, {-1.891558487, -1.773761573, 1.897744594, -1.694779348, -1.570796327, -0.320762160}},
        {1, 3, {-1.891622463, -1.773776683, 1.897807255, -1.694826899, -1.570796327, -1.320826136}},
        {-1, 3, {-1.891558487, -1.773761573, 1.897744594, -1.694779348, -1.570796327, 0.679237840}},
        {3, 6, {-1.891562898, -1.773760178, 1.897741407, -1.694777556, -1.570796327, -3.320766572}},
        {-3, 5, {-1.891563393, -1.773760192, 1.897742158, -1.694778293, -1.570796327, 2.679232934}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cube_pose flange;
        double joints[6];
        cube_target_pose((double[]){0.425, 0, 0.275}, cases[i].yaw, &flange);
        pose_mul(&flange, &e->pinch_to_flange, &flange);
        EXPECT_NEAR(flange.p[2], 0.4308, 1e-9);
        EXPECT_INT(cube_ik(e->arm, e->arm_data, e->arm_site, &flange, home, joints),
                   cases[i].iterations);
        EXPECT_NEAR(golden_worst(joints, cases[i].joints, 6), 0, 2e-9);
    }

    // one action (1, -0.5, -1, 0.5) further, from the first of them
    const double control[6] = {-1.908937462, -1.619799785, 1.895476343,
                               -1.846472885, -1.570796327, -0.488141136};
    double joints[6];
    cube_pose flange;
    cube_target_pose((double[]){0.475, -0.025, 0.225}, 0.15, &flange);
    pose_mul(&flange, &e->pinch_to_flange, &flange);
    EXPECT_INT(cube_ik(e->arm, e->arm_data, e->arm_site, &flange, cases[0].joints, joints), 2);
    EXPECT_NEAR(golden_worst(joints, control, 6), 0, 2e-9);

    // the same through the control pipeline, which starts from where the pinch really is: 1e-4 m
    // off
    memcpy(s, cases[0].joints, sizeof cases[0].joints);
    e->base.spec->sim->state_set(&e->base, s);
    cube_control(e, (float[]){1, -0.5f, -1, 0.5f, 0.25f});
    EXPECT_NEAR(golden_worst(e->data->ctrl, control, 6), 0, 1e-4);
    EXPECT_NEAR(e->data->ctrl[6], 255 * 0.25, 1e-12);
    env_free(&e->base);
}

// What the sheet says about gains and sizes, and sums over the reference's compiled model.
TEST(env, cube_model) {
    golden g;
    cube* e = (cube*)make();
    if (!e || !golden_open(&g, "cube")) return;
    const mjModel* m = e->model;
    EXPECT(m->nbody == 26 && m->ngeom == 64 && m->njnt == 15 && m->neq == 3 && m->ntendon == 1 &&
           m->nexclude == 6);
    const double kp[7] = {4500, 4500, 4500, 2000, 2000, 500, 0.3137255},
                 kv[7] = {400, 400, 400, 100, 100, 100, 10};
    for (int i = 0; i < 7; i++) {
        EXPECT_NEAR(m->actuator_gainprm[i * mjNGAIN], kp[i], 1e-12);
        EXPECT_NEAR(-m->actuator_biasprm[i * mjNBIAS + 2], kv[i], 1e-12);
    }
    EXPECT(m->geom_size[3 * mj_name2id(m, mjOBJ_GEOM, "object_0")] == 0.019999999552965164);
    const struct {
        const char* name;
        const double* values;
        int n;
    } arrays[] = {
        {"body_mass", m->body_mass, (int)m->nbody},
        {"body_inertia", m->body_inertia, 3 * (int)m->nbody},
        {"body_ipos", m->body_ipos, 3 * (int)m->nbody},
        {"dof_armature", m->dof_armature, (int)m->nv},
        {"actuator_gainprm", m->actuator_gainprm, mjNGAIN * (int)m->nu},
        {"actuator_biasprm", m->actuator_biasprm, mjNBIAS * (int)m->nu},
        {"geom_friction", m->geom_friction, 3 * (int)m->ngeom},
        {"geom_solref", m->geom_solref, mjNREF * (int)m->ngeom},
        {"geom_pos", m->geom_pos, 3 * (int)m->ngeom},
        {"cam_pos", m->cam_pos, 3 * (int)m->ncam},
        {"cam_quat", m->cam_quat, 4 * (int)m->ncam},
    };
    int found = 0;
    for (const char* what; (what = golden_next(&g));) {
        if (strcmp(what, "numbers") != 0) continue;
        const char* name = golden_word(&g);
        double want[3];
        golden_doubles(&g, want, 3);
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
            if (strcmp(arrays[i].name, name) != 0) continue;
            double sum = 0, weighted = 0;
            for (int k = 0; k < arrays[i].n; k++) {
                sum += arrays[i].values[k];
                weighted += arrays[i].values[k] * (k + 1);
            }
            EXPECT_INT(arrays[i].n, want[0]);
            EXPECT_NEAR(sum, want[1], 1e-12 * fmax(1, fabs(want[1])));
            EXPECT_NEAR(weighted, want[2], 1e-12 * fmax(1, fabs(want[2])));
            found++;
        }
    }
    EXPECT_INT(found, 11);
    golden_close(&g);
    env_free(&e->base);
}

// Where the reference, with other last bits in its arithmetic, stays this close to itself, we must
// stay within 1e-9 of it. Beyond, the motion is chaotic (violent actions that clap the gripper):
// nobody could.
#define STEADY 1e-10

TEST(env, cube_parity) {
    golden g;
    env* e = make();
    if (!e || !golden_open(&g, "cube")) return;
    const env_spec* spec = e->spec;
    double free_run = 0, one_step = 0, spread = 0;
    int sequences = 0, controls = 0, judged = 0, whole = 0, singles = 0;
    for (const char* what; (what = golden_next(&g));) {
        double from[CUBE_STATE], want[CUBE_STATE], got[CUBE_STATE], differ;
        float action[CUBE_ACTION];
        if (strcmp(what, "start") == 0) {
            golden_doubles(&g, from, CUBE_STATE);
            spec->sim->state_set(e, from);
            sequences++;
            judged = 0;
            spread = 0;
        } else if (strcmp(what, "act") == 0 || strcmp(what, "run") == 0) {
            int compare = what[0] == 'r';
            golden_floats(&g, action, CUBE_ACTION);
            spec->sim->step(e, action);
            controls++;
            if (!compare) continue;
            golden_doubles(&g, want, CUBE_STATE);
            golden_doubles(&g, &differ, 1);
            spread = test_worse(spread, differ);
            if (spread > STEADY) continue;
            spec->sim->state_get(e, got);
            free_run = test_worse(free_run, golden_worst(got, want, CUBE_STATE));
            whole += ++judged == 10;
        } else if (strcmp(what, "one") == 0) {
            golden_doubles(&g, from, CUBE_STATE);
            golden_floats(&g, action, CUBE_ACTION);
            golden_doubles(&g, want, CUBE_STATE);
            golden_doubles(&g, &differ, 1);
            spec->sim->state_set(e, from);
            spec->sim->step(e, action);
            if (differ > STEADY) continue;
            spec->sim->state_get(e, got);
            one_step = test_worse(one_step, golden_worst(got, want, CUBE_STATE));
            singles++;
        }
        EXPECT_INT(e->fault, FIRM_OK);
    }
    golden_close(&g);
    env_free(e);
    printf("  cube: free run %.2g, %d of %d sequences to their end; one step %.2g over %d\n",
           free_run, whole, sequences, one_step, singles);
    EXPECT(controls == 50 * sequences && whole >= 20 && singles >= 120);
    EXPECT_NEAR(free_run, 0, 1e-9);
    EXPECT_NEAR(one_step, 0, 1e-9);
}

static void read_view(golden* g, cube_view* v) {
    golden_doubles(g, v->effector, 3);
    golden_doubles(g, &v->effector_yaw, 1);
    golden_doubles(g, &v->opening, 1);
    golden_doubles(g, &v->contact, 1);
    golden_doubles(g, v->block, 3);
    golden_doubles(g, &v->block_yaw, 1);
    golden_doubles(g, v->target, 3);
    golden_doubles(g, &v->target_yaw, 1);
    golden_doubles(g, &v->time, 1);
}

TEST(env, cube_oracles_parity) {
    static cube_plan_draws draws;
    static cube_oracle o;
    golden g;
    if (!golden_open(&g, "cube")) return;
    int plans = 0, phases = 0;
    double plan_error = 0, markov_error = 0;
    for (const char* what; (what = golden_next(&g));) {
        cube_view v;
        if (strcmp(what, "plan") == 0) {
            static double want[CUBE_PLAN_LONGEST][CUBE_ACTION];
            read_view(&g, &v);
            golden_doubles(&g, draws.final, 3);
            golden_doubles(&g, &draws.final_yaw, 1);
            golden_doubles(&g, &draws.pick, 1);
            golden_doubles(&g, &draws.place, 1);
            golden_doubles(&g, draws.clearance, 3);
            golden_doubles(&g, draws.jitter, 10);
            int n = atoi(golden_word(&g));
            golden_doubles(&g, draws.noise[0], n * CUBE_ACTION);
            golden_doubles(&g, want[0], n * CUBE_ACTION);
            cube_plan_make(&o, &v, &draws);
            EXPECT_INT(o.length, n);
            plan_error = test_worse(plan_error, golden_worst(o.plan[0], want[0], n * CUBE_ACTION));
            plans++;
        } else if (strcmp(what, "markov") == 0) {
            double action[CUBE_ACTION];
            float want[CUBE_ACTION];
            read_view(&g, &v);
            golden_doubles(&g, o.final, 3);
            golden_doubles(&g, &o.final_yaw, 1);
            golden_floats(&g, want, CUBE_ACTION);
            o.calls = o.done = 0;
            cube_markov_action(&o, &v, action);
            for (int k = 0; k < CUBE_ACTION; k++)
                markov_error = test_worse(markov_error, fabs(action[k] - (double)want[k]));
            phases++;
        }
    }
    golden_close(&g);
    EXPECT(plans >= 3 && phases >= 60);
    EXPECT_NEAR(plan_error, 0, 1e-12);
    EXPECT_NEAR(markov_error, 0, 1e-7);  // recorded in float32
}

// Both policies bring the cube to its target; positions and columns stay what they should be.
TEST(env, cube_collects) {
    env* e = make();
    if (!e) return;
    const env_spec* spec = e->spec;
    for (int k = 0; k < 2; k++) {
        firm_error err;
        env_policy policy;
        REQUIRE_OK(env_policy_find(spec, k ? "markov" : NULL, &policy, &err), err);
        rng r = rng_start(5, RNG_STREAM(RNG_TEST, k));
        double s[CUBE_STATE], x[CUBE_EXTRAS], highest = 0;
        int success = 0;
        spec->sim->reset(e, &r);
        spec->layout->extra_get(e, x);
        EXPECT(isnan(x[CUBE_EXTRA_REWARD]) && x[CUBE_EXTRA_SUCCESS] == 0 &&
               x[CUBE_EXTRA_TIME] == 0);
        for (int t = 0; t < policy.episode_cap; t++) {
            float action[CUBE_ACTION];
            policy.act(e, &r, action);
            for (int i = 0; i < CUBE_ACTION; i++) EXPECT(action[i] >= -1 && action[i] <= 1);
            spec->sim->step(e, action);
            spec->sim->state_get(e, s);
            highest = test_worse(highest, s[CUBE_BLOCK + 2]);
            spec->layout->extra_get(e, x);
            success |= x[CUBE_EXTRA_SUCCESS] != 0;
            EXPECT(x[CUBE_EXTRA_REWARD] == x[CUBE_EXTRA_SUCCESS]);
        }
        EXPECT_INT(e->fault, FIRM_OK);
        EXPECT(success && highest > 0.06 && isfinite(highest));
        EXPECT_NEAR(x[CUBE_EXTRA_TIME], 10, 1e-9);
    }
    env_free(e);
}

TEST(env, cube_save_and_continue) {
    env *a = make(), *b = make();
    if (!a || !b) return;
    const env_spec* spec = a->spec;
    rng r = rng_start(8, RNG_STREAM(RNG_TEST, 0));
    float action[CUBE_ACTION];
    double saved[CUBE_SAVED], sa[CUBE_STATE], sb[CUBE_STATE];
    EXPECT(spec->sim->save_bytes == sizeof saved);
    spec->sim->reset(a, &r);
    for (int i = 0; i < 90; i++) {  // into the grasp, and on to the lift
        spec->collection->policy[0].act(a, &r, action);
        spec->sim->step(a, action);
        if (i == 45) {
            EXPECT_INT(spec->sim->save(a, saved), FIRM_OK);
            spec->sim->restore(b, saved);
        } else if (i > 45) {
            spec->sim->step(b, action);
        }
        if (i < 45) continue;
        spec->sim->state_get(a, sa);
        spec->sim->state_get(b, sb);
        EXPECT(memcmp(sa, sb, sizeof sa) == 0);
    }
    firm_error err;
    if (env_render_ready(&a, 1, &err) == FIRM_OK) {
        static uint8_t one[ENV_FRAME_BYTES], two[ENV_FRAME_BYTES], three[ENV_FRAME_BYTES];
        REQUIRE_OK(env_render_ready(&b, 1, &err), err);
        spec->sim->render(a, one);
        spec->sim->render(b, two);
        EXPECT(memcmp(one, two, sizeof one) == 0);
        EXPECT_INT(env_picture(b, sa, three), FIRM_OK);  // and from the recorded state alone
        EXPECT(memcmp(one, three, sizeof one) == 0);
    }
    env_free(a);
    env_free(b);
}

TEST(env, cube_refuses) {
    env* e = make();
    if (!e) return;
    const env_spec* spec = e->spec;
    rng r = rng_start(2, RNG_STREAM(RNG_TEST, 0));
    double start[CUBE_STATE], s[CUBE_STATE];
    spec->sim->reset(e, &r);
    spec->sim->state_get(e, start);
    spec->sim->step(e, (float[]){0, 0, NAN, 0, 0});
    EXPECT_INT(e->fault, FIRM_E_VALUE);
    spec->sim->step(e, (float[]){1, 0, 0, 0, 0});
    spec->sim->state_get(e, s);
    EXPECT(memcmp(s, start, sizeof s) == 0);
    const struct {
        int at;
        double value;
    } bad[] = {{0, NAN},
               {CUBE_AT_QVEL + 2, INFINITY},
               {CUBE_BLOCK + 3, 7},
               {CUBE_BLOCK, 1e6},
               {CUBE_AT_QVEL, 1e9}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(s, start, sizeof s);
        s[bad[i].at] = bad[i].value;
        spec->sim->state_set(e, s);
        EXPECT_INT(e->fault, FIRM_E_VALUE);
    }
    // what only the simulator knows is not part of what is set
    memcpy(s, start, sizeof s);
    s[CUBE_AT_CONTACT] = NAN;
    spec->sim->state_set(e, s);
    EXPECT_INT(e->fault, FIRM_OK);

    // a physics blow-up is noticed, stays, and is over with the next state
    ((cube*)e)->data->qvel[3] = 1e12;
    spec->sim->step(e, (float[CUBE_ACTION]){0});
    EXPECT_INT(e->fault, FIRM_E_VALUE);
    spec->sim->step(e, (float[CUBE_ACTION]){0});
    EXPECT_INT(e->fault, FIRM_E_VALUE);
    spec->sim->state_set(e, start);
    spec->sim->step(e, (float[CUBE_ACTION]){0});
    EXPECT_INT(e->fault, FIRM_OK);
    env_free(e);
}

// The cube is seen where `project` says, lying and in the gripper's way.
TEST(env, cube_appears_where_projected) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    firm_error err;
    env* e = make();
    if (!e) return;
    REQUIRE_OK(env_render_ready(&e, 1, &err), err);
    for (int k = 0; k < 6; k++) {
        rng r = rng_start(11, RNG_STREAM(RNG_TEST, k));
        double s[CUBE_STATE], x = 0, y = 0, n = 0;
        float c[3], xy[2];
        e->spec->sim->reset(e, &r);
        e->spec->sim->state_get(e, s);
        s[CUBE_BLOCK + 2] += 0.03 * k;  // also in the air
        EXPECT_INT(env_picture(e, s, rgb), FIRM_OK);
        for (int i = 0; i < ENV_IMAGE * ENV_IMAGE; i++)
            if (rgb[3 * i] > 2 * rgb[3 * i + 1] && rgb[3 * i] > 2 * rgb[3 * i + 2] &&
                rgb[3 * i] > 60) {
                x += i % ENV_IMAGE;
                y += (int)(i / ENV_IMAGE);
                n++;
            }
        env_config(e->spec, s, c);
        task_project(&e->spec->task, c, xy);
        if (n < 60) continue;  // behind the arm
        EXPECT_NEAR(x / n, xy[0], 2);
        EXPECT_NEAR(y / n, xy[1], 2);
    }
    env_free(e);
}

// A copy of the scenes in which one mesh is cut short.
TEST(env, cube_with_a_broken_mesh) {
    char from[1024], root[1024], path[4096], target[1200];
    firm_error err;
    env* e = NULL;
    REQUIRE_OK(physics_find("manipspace/floor_wall.xml", from, &err), err);
    *strrchr(from, '/') = '\0';
    snprintf(root, sizeof root, "%s/scenes", test_temp_dir());
    snprintf(path, sizeof path, "mkdir -p '%s' && cp -r '%s' '%s/manipspace'", root, from, root);
    EXPECT_INT(system(path), 0);
    snprintf(target, sizeof target, "%s/manipspace/robotiq_2f85/assets/pad.stl", root);
    EXPECT_INT(truncate(target, 100), 0);
    setenv("FIRM_MODELS_DIR", root, 1);
    EXPECT_INT(env_create(env_find("cube"), &e, &err), FIRM_E_FORMAT);
    EXPECT(e == NULL && strstr(err.message, "pad") && strstr(err.message, "make mujoco"));
    EXPECT_INT(unlink(target), 0);
    EXPECT_INT(env_create(env_find("cube"), &e, &err), FIRM_E_FORMAT);
    EXPECT(e == NULL && strstr(err.message, "pad"));
    unsetenv("FIRM_MODELS_DIR");
    e = make();
    EXPECT(e != NULL);
    env_free(e);
}
#endif
