// Push-T's data: the demonstrator, thread counts, restored branches and their audit, public
// columns.
#include "env/pusht.h"

#include <unistd.h>

#include "check.h"
#include "data/branches.h"
#include "data/episodes.h"
#include "data/frames.h"

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
    EXPECT_NEAR(audit.paper_p95, 0.1424, 1e-12);
    pool_free(p);
    episodes_free(e);
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
        world->spec->step(world, action);
        world->spec->render(world, live);
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
