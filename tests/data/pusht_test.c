// Push-T's data: the demonstrator, thread counts, restored branches and their audit, public
// columns.
#include "env/pusht.h"

#include <unistd.h>

#include "check.h"
#include "data/branches.h"
#include "data/episodes.h"
#include "data/frames.h"
#include "data/hdf5_read.h"
#include "env/env.h"

#ifdef FIRM_CHIPMUNK

static episodes* collect(const char* policy, int count, int threads) {
    firm_error err;
    pool* p;
    episodes* e = NULL;
    collect_options opt = {.episodes = count, .seed = 3, .policy = policy};
    if (pool_create(threads, &p, &err) != FIRM_OK ||
        episodes_collect(env_find("pusht"), &opt, p, &e, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        exit(1);
    }
    pool_free(p);
    return e;
}

TEST(data, pusht_demonstrator) {
    episodes *e = collect(NULL, 10, 2), *again = collect("demo", 10, 1);
    EXPECT(e->hash == again->hash);  // any number of threads
    episodes_free(again);
    EXPECT_TEXT(e->policy, "demo");
    int solved = 0;
    double squares = 0, speed = 0;
    int64_t n = 0;
    for (int i = 0; i < e->count; i++) {
        const int64_t last = e->offset[i] + e->length[i] - 1;
        solved += e->ended[i];
        EXPECT(e->length[i] >= 49 && e->length[i] <= 246);
        if (e->ended[i]) EXPECT(pusht_demo_done(e->state + last * PUSHT_STATE));
        for (int64_t row = e->offset[i]; row < last; row++)
            for (int k = 0; k < 2; k++, n++) {
                squares += (double)e->action[2 * row + k] * e->action[2 * row + k];
                speed += e->state[row * PUSHT_STATE + PUSHT_VX + k] *
                         e->state[row * PUSHT_STATE + PUSHT_VX + k];
            }
    }
    // loose: the figures of a large sample are in docs/environments.md
    EXPECT(solved >= 9);
    EXPECT_NEAR(sqrt(squares / (double)n), 0.21, 0.05);
    EXPECT_NEAR(sqrt(speed / (double)n), 78, 18);
    EXPECT(episodes_solved_at(e, 25) < 6);
    episodes_free(e);
}

TEST(data, pusht_branches_and_audit) {
    firm_error err;
    pool* p;
    branches* b;
    audit_result audit;
    episodes* e = collect(NULL, 8, 2);
    REQUIRE_OK(pool_create(2, &p, &err), err);
    intervene_options opt = {.anchors = 6, .per_anchor = 5, .seed = 1};
    REQUIRE_OK(branches_collect(e, &opt, p, &b, &err), err);
    for (int i = 0; i < b->anchors; i++) {
        for (int k = 0; k < b->per_anchor; k++) {
            const double* s = b->state + (size_t)(i * b->per_anchor + k) * 26 * PUSHT_STATE;
            const float* a = b->action + (size_t)(i * b->per_anchor + k) * 25 * 2;
            // every branch starts at the recorded moment itself
            for (int j = 0; j < PUSHT_STATE; j++)
                EXPECT_NEAR(s[j], e->state[b->row[i] * PUSHT_STATE + j], 1e-9);
            for (int j = 0; j < 50; j++) EXPECT(a[j] >= -1 && a[j] <= 1);
            if (k == 0) EXPECT(memcmp(a, e->action + 2 * b->row[i], 50 * sizeof *a) == 0);
        }
    }
    branches_free(b);
    REQUIRE_OK(branches_audit(e, 6, 1, 1, p, &audit, &err), err);
    EXPECT(audit.pass && audit.h5_p95 <= 0.15 && audit.max <= 1.0);
    pool_free(p);
    episodes_free(e);
}

// Moments before a jam at a wall are not used: nobody could replay them.
TEST(data, pusht_anchors_avoid_jams) {
    firm_error err;
    pool* p;
    branches* b;
    audit_result audit;
    episodes* e = collect("weak", 120, 2);  // jams often, as it pushes at random
    REQUIRE_OK(pool_create(2, &p, &err), err);
    int jammed = 0;
    for (int64_t row = 0; row < e->rows; row++)
        jammed += pusht_wall_gap(e->state + row * PUSHT_STATE) < 6.8;
    EXPECT(jammed > e->rows / 100);
    for (int structured = 0; structured < 2; structured++) {
        intervene_options opt = {
            .anchors = 90, .per_anchor = 1, .structured = structured, .seed = 2};
        REQUIRE_OK(branches_collect(e, &opt, p, &b, &err), err);
        for (int i = 0; i < b->anchors; i++)
            for (int t = 0; t <= 25; t++)
                EXPECT(pusht_wall_gap(e->state + (b->row[i] + t) * PUSHT_STATE) >= 6.8);
        branches_free(b);
    }
    for (uint64_t seed = 0; seed < 4; seed++) {
        REQUIRE_OK(branches_audit(e, 100, seed, 1, p, &audit, &err), err);
        EXPECT(audit.pass && audit.h5_p95 <= 0.15 && audit.max <= 1.0);
    }
    // episodes that are nothing but a jam have no anchor
    for (int64_t row = 0; row < e->rows; row++) e->state[row * PUSHT_STATE + PUSHT_BX] = 5;
    EXPECT_INT(branches_audit(e, 10, 0, 1, p, &audit, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "yield only 0") != NULL);
    pool_free(p);
    episodes_free(e);
}

// From the agent's rim to the block, by walking along the outline of the T.
static double walked_gap(const double* s) {
    static const double corner[9][2] = {{-60, 0},   {60, 0},   {60, 30},  {15, 30}, {15, 120},
                                        {-15, 120}, {-15, 30}, {-60, 30}, {-60, 0}};
    double best = 1e9;
    for (int i = 0; i < 8; i++)
        for (int k = 0; k <= 400; k++) {
            double x = corner[i][0] + (corner[i + 1][0] - corner[i][0]) * k / 400;
            double y = corner[i][1] + (corner[i + 1][1] - corner[i][1]) * k / 400;
            double c = cos(s[PUSHT_ANGLE]), n = sin(s[PUSHT_ANGLE]);
            best = fmin(best, hypot(s[PUSHT_BX] + c * x - n * y - s[PUSHT_AX],
                                    s[PUSHT_BY] + n * x + c * y - s[PUSHT_AY]));
        }
    return best - PUSHT_RADIUS;
}

// As many anchors touching, near and free; manoeuvres that do what they are called.
TEST(data, pusht_structured) {
    enum { ANCHORS = 30, BRANCHES = 11 };
    char path[1024];
    firm_error err;
    pool *one, *two;
    branches *b, *again, *back;
    episodes* e = collect("weak", 80, 2);
    REQUIRE_OK(pool_create(1, &one, &err), err);
    REQUIRE_OK(pool_create(2, &two, &err), err);
    intervene_options opt = {
        .anchors = ANCHORS, .per_anchor = BRANCHES, .structured = 1, .seed = 1};
    REQUIRE_OK(branches_collect(e, &opt, two, &b, &err), err);
    int classes[3] = {0}, pushed = 0, circled = 0;
    for (int i = 0; i < ANCHORS; i++) {
        const double* recorded = e->state + b->row[i] * PUSHT_STATE;
        double now = walked_gap(recorded), least = now;
        for (int t = 1; t <= 5; t++) least = fmin(least, walked_gap(recorded + t * PUSHT_STATE));
        int kind = b->anchor_class[i];
        classes[kind]++;
        // the walk is exact to 0.01 px
        if (kind == 0) EXPECT(least <= 1.01);
        if (kind == 1) EXPECT(least >= 0.99 && now <= 50.01);
        if (kind == 2) EXPECT(least >= 0.99 && now >= 49.99);
        for (int k = 0; k < BRANCHES; k++) {
            const double* s = b->state + (size_t)(i * BRANCHES + k) * 26 * PUSHT_STATE;
            const float* a = b->action + (size_t)(i * BRANCHES + k) * 25 * 2;
            const double* end = s + 25 * PUSHT_STATE;
            int moved = hypot(end[PUSHT_BX] - s[PUSHT_BX], end[PUSHT_BY] - s[PUSHT_BY]) > 1;
            for (int j = 0; j < 50; j++) EXPECT(a[j] >= -1 && a[j] <= 1);
            // branch 0 replays; then push, slide, circle, retreat, wander in turn
            if (k == 0) EXPECT(memcmp(a, e->action + 2 * b->row[i], 50 * sizeof *a) == 0);
            if (k % 5 == 1 && kind < 2) pushed += moved;
            if (k % 5 == 3 && kind > 0) circled += !moved;
        }
    }
    for (int c = 0; c < 3; c++) EXPECT_INT(classes[c], ANCHORS / 3);
    EXPECT(pushed >= 32 && circled >= 24);  // of 40 each

    // any number of threads, and the file brings it all back
    REQUIRE_OK(branches_collect(e, &opt, one, &again, &err), err);
    EXPECT(memcmp(b->state, again->state, sizeof(double) * ANCHORS * BRANCHES * 26 * 7) == 0);
    snprintf(path, sizeof path, "%s/structured.h5", test_temp_dir());
    REQUIRE_OK(branches_write(b, path, &err), err);
    REQUIRE_OK(branches_read(path, e, &back, &err), err);
    EXPECT_TEXT(branches_proposal(back), "structured");
    EXPECT(memcmp(b->anchor_class, back->anchor_class, sizeof(int) * ANCHORS) == 0);
    branches_free(back);
    branches_free(again);
    branches_free(b);

    // an ordinary set says that it is none
    opt.structured = 0;
    REQUIRE_OK(branches_collect(e, &opt, two, &b, &err), err);
    EXPECT_TEXT(branches_proposal(b), "clipped gaussian");
    EXPECT(b->anchor_class == NULL);
    branches_free(b);
    // where nothing ever touches there is nothing to balance
    for (int64_t i = 0; i < e->rows; i++)
        e->state[i * PUSHT_STATE + PUSHT_AX] = e->state[i * PUSHT_STATE + PUSHT_BX] + 1000;
    opt = (intervene_options){.anchors = 3, .structured = 1};
    EXPECT_INT(branches_collect(e, &opt, two, &b, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "balanced") != NULL);
    unlink(path);
    episodes_free(e);
    pool_free(one);
    pool_free(two);
}

TEST(data, pusht_file) {
    static uint8_t live[ENV_FRAME_BYTES], drawn[ENV_FRAME_BYTES];
    char path[1024];
    firm_error err;
    pool* p;
    frames* f;
    episodes *e = collect("weak", 3, 1), *back;
    snprintf(path, sizeof path, "%s/pusht.h5", test_temp_dir());
    REQUIRE_OK(pool_create(1, &p, &err), err);
    REQUIRE_OK(episodes_write(e, NULL, p, path, &err), err);
    REQUIRE_OK(episodes_read(path, env_find("pusht"), &back, &err), err);
    EXPECT(back->hash == e->hash);
    EXPECT(episodes_read(path, env_find("tworoom"), &(episodes*){NULL}, &err) == FIRM_E_TASK);

    // contacts are whole numbers in the file, as the reference writes them
    hdf5_file* file;
    int64_t contacts[400], most = 0, wrong = 0;
    REQUIRE_OK(hdf5_open(path, &file, &err), err);
    EXPECT(e->rows <= 400 && hdf5_get(file, "n_contacts", HDF5_INT64, contacts, &err) == FIRM_OK);
    for (int64_t i = 0; i < e->rows; i++) {
        wrong += (double)contacts[i] != e->extra[i * e->spec->layout->extra_dim + 1];
        if (contacts[i] > most) most = contacts[i];
    }
    EXPECT(most > 0 && wrong == 0);
    hdf5_close(file);

    // a row's frame shows the recorded state, whatever the public setter would make of it
    env* world;
    REQUIRE_OK(env_create(env_find("pusht"), &world, &err), err);
    REQUIRE_OK(frames_open(back, 1, 0, &f, &err), err);
    rng r = rng_start(3, RNG_STREAM(RNG_COLLECT, 1));  // episode 1 once more
    env_policy weak;
    REQUIRE_OK(env_policy_find(world->spec, "weak", &weak, &err), err);
    weak.reset(world, &r);
    for (int t = 0; t < 60; t++) {
        float action[2];
        weak.act(world, &r, action);
        world->spec->sim->step(world, action);
        world->spec->sim->render(world, live);
        EXPECT_INT(frames_get(f, 0, back->offset[1] + t + 1, drawn), FIRM_OK);
        if (memcmp(live, drawn, sizeof live) != 0)
            test_fail(__FILE__, __LINE__, "the frame of row %d differs from what was seen", t + 1);
    }
    frames_free(f);
    env_free(world);
    episodes_free(back);
    episodes_free(e);
    pool_free(p);
    unlink(path);
}

#endif
