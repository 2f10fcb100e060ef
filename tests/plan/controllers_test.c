// controllers_test.c - many controllers in step act as single ones do.
#include "check.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "members.h"

enum { COUNT = 5, ACTS = 7 };

static firm_controller_params short_search(firm_mode mode, int threads) {
    firm_controller_params p = firm_controller_params_default();
    p.mode = mode, p.threads = threads, p.seed = 40;
    p.candidates = 48, p.iterations = 2, p.elites = 6;
    return p;
}

static void draw(uint8_t* rgb, uint64_t seed) {
    rng r = rng_start(seed, RNG_STREAM(RNG_TEST, 1));
    for (int i = 0; i < COUNT * MEMBER_PICTURE; i++) rgb[i] = (uint8_t)rng_u32(&r);
}

static void run_both(const firm_model* m, firm_mode mode, int threads, uint8_t* rgb) {
    firm_controllers* b;
    firm_controller* one[COUNT];
    firm_error err = {0};
    firm_controller_params p = short_search(mode, threads);
    const int dim = m->task.action_dim;
    firm_step step[COUNT], alone;
    float action[COUNT * FIRM_MAX_ACTION];
    REQUIRE_OK(firm_controllers_create(m, &p, COUNT, &b, &err), err);
    for (int i = 0; i < COUNT; i++) {
        firm_controller_params q = short_search(mode, 1);
        q.seed += (uint64_t)i;
        REQUIRE_OK(firm_controller_create(m, &q, &one[i], &err), err);
    }
    draw(rgb, 1);
    EXPECT_INT(firm_controllers_goal(b, rgb), FIRM_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT_INT(firm_controller_goal(one[i], rgb + i * MEMBER_PICTURE), FIRM_OK);
    for (int k = 0; k < ACTS; k++) {
        draw(rgb, 2 + (uint64_t)k);
        int64_t before = mem_count();
        EXPECT_INT(firm_controllers_push(b, rgb, k ? action : NULL), FIRM_OK);
        EXPECT_INT(firm_controllers_act(b, 0, step), FIRM_OK);
        EXPECT_INT(mem_count() - before, 0);
        for (int i = 0; i < COUNT; i++) {
            EXPECT_INT(
                firm_controller_push(one[i], rgb + i * MEMBER_PICTURE, k ? action + i * dim : NULL),
                FIRM_OK);
            EXPECT_INT(firm_controller_act(one[i], 0, &alone), FIRM_OK);
            EXPECT(memcmp(step[i].action, alone.action, sizeof alone.action) == 0);
            EXPECT(step[i].cost == alone.cost && step[i].solved == alone.solved);
        }
        for (int i = 0; i < COUNT; i++)
            memcpy(action + i * dim, step[i].action, (size_t)dim * sizeof *action);
    }
    for (int i = 0; i < COUNT; i++) firm_controller_free(one[i]);
    firm_controllers_free(b);
}

TEST(plan, controllers_in_step_act_as_single_ones) {
    uint8_t* rgb = malloc(COUNT * MEMBER_PICTURE);
    firm_model *m = member_lively("tworoom", 5), *pair = member_pair("tworoom", 5, 6);
    // the short form: with two threads alone
    for (int way = test_short() ? 2 : 0; way < 4; way++) run_both(m, (firm_mode)(way & 1), 1 + way / 2, rgb);
    run_both(pair, FIRM_MODE_REACH, 2, rgb);
    firm_model_free(m);
    firm_model_free(pair);
    free(rgb);
}

TEST(plan, controllers_are_checked) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controllers *b, *none;
    firm_error err = {0};
    firm_controller_params p = short_search(FIRM_MODE_REACH, 2);
    uint8_t* rgb = calloc(COUNT, MEMBER_PICTURE);
    float action[COUNT * 2] = {0};
    firm_step step[COUNT];
    EXPECT_INT(firm_controllers_create(m, &p, 0, &none, &err), FIRM_E_USAGE);
    EXPECT_INT(firm_controllers_create(m, &p, 2, NULL, &err), FIRM_E_USAGE);
    EXPECT_INT(firm_controllers_create(NULL, &p, 2, &none, &err), FIRM_E_USAGE);
    EXPECT(!none && strstr(err.message, "firm_model_load"));
    p.device = FIRM_DEVICE_CUDA;
    EXPECT_INT(firm_controllers_create(m, &p, 2, &none, &err), FIRM_E_UNAVAILABLE);
    p.device = FIRM_DEVICE_CPU;
    REQUIRE_OK(firm_controllers_create(m, &p, COUNT, &b, &err), err);
    EXPECT(!firm_controllers_at(b, -1) && !firm_controllers_at(b, COUNT));
    EXPECT(!firm_controllers_at(NULL, 0));
    EXPECT_INT(firm_controllers_goal(NULL, rgb), FIRM_E_USAGE);
    EXPECT_INT(firm_controllers_push(NULL, rgb, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controllers_act(NULL, 0, step), FIRM_E_USAGE);
    EXPECT_INT(firm_controllers_goal(b, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controllers_goal(b, rgb), FIRM_OK);
    // one that fails does not keep the others from acting
    action[3 * 2] = NAN;
    EXPECT_INT(firm_controllers_push(b, rgb, action), FIRM_E_VALUE);
    EXPECT(strstr(firm_controller_error(firm_controllers_at(b, 3)), "not finite"));
    EXPECT_INT(firm_controllers_act(b, 0, step), FIRM_E_USAGE);
    EXPECT(step[2].solved && step[4].solved && !step[3].solved);
    EXPECT_TEXT(firm_controller_error(firm_controllers_at(b, 2)), "");
    EXPECT_INT(firm_controllers_act(b, 0, NULL), FIRM_E_USAGE);
    // a deadline that has passed leaves every one with a step
    EXPECT_INT(firm_controllers_push(b, rgb, NULL), FIRM_OK);
    EXPECT_INT(firm_controllers_act(b, clock_ns() - 1, step), FIRM_OK);
    for (int i = 0; i < COUNT; i++) EXPECT(step[i].horizon > 0);
    firm_controllers_free(b);
    firm_controllers_free(NULL);
    free(rgb);
    firm_model_free(m);
}
