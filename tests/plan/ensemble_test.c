// ensemble_test.c - several models as one: it predicts the mean, copies of one model plan as that
// model does, and a controller of an ensemble keeps the promises of any other.
#include "plan/ensemble.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "members.h"
#include "toys.h"

// ---- predictions --------------------------------------------------------------------------------

enum { ROWS = 250, STEPS = 3, FIBER = 12, ACTION = 10, CONFIG = 5 };

// Nets of their own weights, and their dynamics for one thread, started.
typedef struct flock {
    toy_net toy[3];
    plan_net* net[3];
    plan_learned* learned[3];
    plan_model model[3];
} flock;

static void flock_open(flock* f, int pairs, int alike) {
    firm_error err = {0};
    for (int k = 0; k < 3; k++) {
        float c0[CONFIG] = {0.6f, 0.8f, 0, 1, 0.1f}, m0[FIBER];
        for (int i = 0; i < FIBER; i++) m0[i] = 0.1f * (float)(i + (alike ? 0 : k));
        c0[4] += alike ? 0 : 0.05f * (float)k;
        f->toy[k] = toy_net_make((plan_net_shape){CONFIG, pairs, FIBER, ACTION, 40, 64, 2, 0},
                                 alike ? 3 : 3 + 100 * (uint64_t)k);
        REQUIRE_OK(
            plan_net_create(&f->toy[k].shape, &f->toy[k].weights, PLAN_FP32, &f->net[k], &err),
            err);
        REQUIRE_OK(plan_learned_create(f->net[k], NULL, &f->learned[k], &err), err);
        plan_learned_start(f->learned[k], c0, m0);
        f->model[k] = plan_learned_model(f->learned[k]);
    }
}

static void flock_close(flock* f) {
    for (int k = 0; k < 3; k++) {
        plan_learned_free(f->learned[k]);
        plan_net_free(f->net[k]);
        toy_net_free(&f->toy[k]);
    }
}

static float* draw_actions(void) {
    float* u = malloc(ROWS * STEPS * ACTION * sizeof *u);
    rng_fill_normal(4, RNG_STREAM(RNG_TEST, 2), 0, u, ROWS * STEPS * ACTION);
    return u;
}

// The mean of the first `count` members' own predictions, in double precision.
static void mean_of(flock* f, int count, int pairs, const float* u, double* mean) {
    float* c = malloc(ROWS * STEPS * CONFIG * sizeof *c);
    for (int i = 0; i < ROWS * STEPS * CONFIG; i++) mean[i] = 0;
    for (int k = 0; k < count; k++) {
        EXPECT_INT(f->model[k].rollout(f->model[k].context, 0, ROWS, STEPS, u, c), 0);
        for (int i = 0; i < ROWS * STEPS * CONFIG; i++) mean[i] += (double)c[i] / count;
    }
    for (int row = 0; row < ROWS * STEPS; row++)
        for (int p = 0; p < pairs; p++) {
            double* q = mean + row * CONFIG + 2 * p;
            double length = sqrt(q[0] * q[0] + q[1] * q[1]);
            q[0] /= length, q[1] /= length;
        }
    free(c);
}

// on the CPU in blocks and as a device would, in one call; with pairs and without
TEST(plan, ensemble_predicts_the_mean) {
    float *u = draw_actions(), *c = malloc(ROWS * STEPS * CONFIG * sizeof *c);
    double* want = malloc(ROWS * STEPS * CONFIG * sizeof *want);
    for (int pairs = 0; pairs <= 2; pairs += 2)
        for (int whole = 0; whole < 2; whole++) {
            flock f = {0};
            plan_ensemble* e = NULL;
            firm_error err = {0};
            flock_open(&f, pairs, 0);
            for (int k = 0; k < 3; k++) f.model[k].whole = whole;
            mean_of(&f, 3, pairs, u, want);
            REQUIRE_OK(plan_ensemble_create(f.model, 3, pairs, ROWS, STEPS, &e, &err), err);
            plan_model m = plan_ensemble_model(e);
            EXPECT(m.whole == whole && m.state == CONFIG && m.action == ACTION);
            EXPECT_INT(m.rollout(m.context, 0, ROWS, STEPS, u, c), 0);
            double worst = 0, first = 0;
            for (int i = 0; i < ROWS * STEPS * CONFIG; i++)
                worst = test_worse(worst, fabs(c[i] - want[i]));
            EXPECT_NEAR(worst, 0, 1e-6);
            // and that is none of the members' own
            EXPECT_INT(f.model[0].rollout(f.model[0].context, 0, ROWS, STEPS, u, c), 0);
            for (int i = 0; i < ROWS * STEPS * CONFIG; i++)
                first = test_worse(first, fabs(c[i] - want[i]));
            EXPECT(first > 0.01 && isfinite(first));
            plan_ensemble_free(e);
            flock_close(&f);
        }
    free(want), free(c), free(u);
}

// (a + a) / 2 is a, to the bit; a pair may lose one in its last place when it is normalised again
TEST(plan, ensemble_of_copies_predicts_the_same) {
    float *u = draw_actions(), *one = malloc(ROWS * STEPS * CONFIG * sizeof *one),
          *two = malloc(ROWS * STEPS * CONFIG * sizeof *two);
    for (int pairs = 0; pairs <= 2; pairs += 2) {
        flock f = {0};
        plan_ensemble* e = NULL;
        firm_error err = {0};
        flock_open(&f, pairs, 1);
        REQUIRE_OK(plan_ensemble_create(f.model, 2, pairs, ROWS, STEPS, &e, &err), err);
        plan_model m = plan_ensemble_model(e);
        EXPECT_INT(f.model[0].rollout(f.model[0].context, 0, ROWS, STEPS, u, one), 0);
        EXPECT_INT(m.rollout(m.context, 0, ROWS, STEPS, u, two), 0);
        for (int i = 0; i < ROWS * STEPS * CONFIG; i++)
            EXPECT_NEAR(two[i], one[i], pairs ? 1e-6 : 0);
        plan_ensemble_free(e);
        flock_close(&f);
    }
    free(two), free(one), free(u);
}

// a candidate is dropped as soon as one member has no finite prediction for it
TEST(plan, ensemble_drops_what_one_member_drops) {
    enum { N = 100 };
    firm_error err = {0};
    echo good = {0}, bad = {.bad_every = 7};
    plan_model model[2] = {echo_setup(&good, FIRM_MODE_CONTRACT).world.model,
                           echo_setup(&bad, FIRM_MODE_CONTRACT).world.model};
    plan_ensemble* e = NULL;
    float u[N * ECHO_HORIZON * ECHO_ACTION], own[N * ECHO_HORIZON * ECHO_CONFIG],
        c[N * ECHO_HORIZON * ECHO_CONFIG];
    rng_fill_normal(4, RNG_STREAM(RNG_TEST, 2), 0, u, N * ECHO_HORIZON * ECHO_ACTION);
    int dropped = model[1].rollout(model[1].context, 0, N, ECHO_HORIZON, u, own);
    EXPECT(dropped > 10);
    bad.rows = 0;
    REQUIRE_OK(plan_ensemble_create(model, 2, 0, N, ECHO_HORIZON, &e, &err), err);
    plan_model m = plan_ensemble_model(e);
    EXPECT_INT(m.rollout(m.context, 0, N, ECHO_HORIZON, u, c), dropped);
    for (int i = 0; i < N * ECHO_HORIZON * ECHO_CONFIG; i++)
        EXPECT(isfinite(c[i]) == isfinite(own[i]));
    plan_ensemble_free(e);
}

// ---- controllers --------------------------------------------------------------------------------

TEST(plan, ensemble_of_copies_plans_as_one) {
    member_copies(FIRM_MODE_CONTRACT, 1, 1, FIRM_DEVICE_CPU);
    member_copies(FIRM_MODE_REACH, 1, 2, FIRM_DEVICE_CPU);
}

TEST(plan, ensemble_same_for_any_threads) {
    firm_model* m = member_pair("tworoom", 5, 6);
    for (int mode = 0; mode < 2; mode++) {
        member_deeds a = member_run(m, (firm_mode)mode, 1, FIRM_DEVICE_CPU);
        for (int threads = 2; threads <= 5; threads += 3) {
            member_deeds b = member_run(m, (firm_mode)mode, threads, FIRM_DEVICE_CPU);
            EXPECT(memcmp(&a, &b, sizeof a) == 0);
        }
    }
    firm_model_free(m);
}

TEST(plan, ensemble_members_see_for_themselves) {
    for (int truth = 0; truth < 2; truth++) {
        // raw controls and back cost a few bits
        member_compare("tworoom", truth, FIRM_DEVICE_CPU, 2e-5);
        member_compare("pusht", truth, FIRM_DEVICE_CPU, 2e-5);  // a configuration with a pair
    }
}

TEST(plan, ensemble_act_does_not_allocate) {
    firm_model* m = member_pair("tworoom", 5, 6);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    for (int mode = 0; mode < 2; mode++) {
        firm_controller* ctl = member_controller(m, (firm_mode)mode, 2, FIRM_DEVICE_CPU);
        if (!ctl) continue;
        firm_step step;
        member_show(ctl, rgb);
        int64_t counted = mem_count(), mallocs = test_malloc_count();
        for (int i = 0; i < 3; i++) {
            member_show(ctl, rgb);
            for (int k = 0; k < MEMBER_ACTS; k++) {
                EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
                EXPECT_INT(firm_controller_push(ctl, rgb, step.action), FIRM_OK);
            }
            firm_controller_reset(ctl, 9);
        }
        EXPECT_INT(mem_count() - counted, 0);
        EXPECT_INT(test_malloc_count() - mallocs, 0);
        firm_controller_free(ctl);
    }
    free(rgb);
    firm_model_free(m);
}

// a planner for one model would leave the others out, so it is not taken, nor a search posed to it
TEST(plan, ensemble_takes_no_planner_of_one_model) {
    firm_model* m = member_pair("tworoom", 5, 6);
    firm_controller* ctl = NULL;
    firm_error err = {0};
    firm_controller_params p = firm_controller_params_default();
    p.device = FIRM_DEVICE_CUDA;
    plan_gpu* shared = (plan_gpu*)(void*)&err;  // refused before it is looked at
    EXPECT_INT(controller_create_with(m, &p, NULL, shared, &ctl, &err), FIRM_E_USAGE);
    EXPECT(!ctl && strstr(err.message, "ensemble of 2"));
    ctl = member_controller(m, FIRM_MODE_CONTRACT, 1, FIRM_DEVICE_CPU);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    plan_problem problem;
    member_show(ctl, rgb);
    EXPECT_INT(controller_pose(ctl, &problem), FIRM_E_USAGE);
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}

// ---- a shared tokenizer and grounder ------------------------------------------------------------

// A pair of which the second sees with the first's weights, said so or not.
static firm_model* alike_pair(const char* task, int shares) {
    firm_model* m = member_pair(task, 5, 6);
    nn_store *to = m->member[0]->store, *from = m->store;
    for (int i = 0; i < to->entries; i++)
        if (model_is_sight(to->entry[i].name))
            memcpy(to->value + to->entry[i].offset, from->value + from->entry[i].offset,
                   to->entry[i].count * sizeof(float));
    m->member[0]->shares = shares;
    EXPECT(model_sees_alike(m->member[0], m));
    return m;
}

TEST(plan, ensemble_sharing_sight_acts_the_same) {
    static const char* const task[] = {"tworoom", "pusht"};
    for (int i = 0; i < 4; i++) {
        firm_mode mode = (firm_mode)(i % 2);
        firm_model *apart = alike_pair(task[i / 2], 0), *shared = alike_pair(task[i / 2], 1);
        member_deeds a = member_run(apart, mode, 2, FIRM_DEVICE_CPU),
                     b = member_run(shared, mode, 2, FIRM_DEVICE_CPU);
        EXPECT(a.solves > 0 && memcmp(&a, &b, sizeof a) == 0);
        firm_controller *two = member_controller(apart, mode, 1, FIRM_DEVICE_CPU),
                        *one = member_controller(shared, mode, 1, FIRM_DEVICE_CPU);
        // three frames of bytes, at least, are there once
        EXPECT(firm_controller_bytes(two) > firm_controller_bytes(one) + 3 * MEMBER_PICTURE);
        EXPECT(firm_controller_state_bytes(two) >
               firm_controller_state_bytes(one) + 3 * MEMBER_PICTURE);
        firm_controller_free(two);
        firm_controller_free(one);
        firm_model_free(shared);
        firm_model_free(apart);
    }
}

// saved in the middle of a plan and restored into another controller, it goes on as if nothing was
TEST(plan, ensemble_sharing_sight_is_saved_whole) {
    firm_model* m = alike_pair("tworoom", 1);
    firm_controller* ctl[2];
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    for (int i = 0; i < 2; i++) ctl[i] = member_controller(m, FIRM_MODE_REACH, 1, FIRM_DEVICE_CPU);
    firm_step a, b;
    member_show(ctl[0], rgb);
    EXPECT_INT(firm_controller_act(ctl[0], 0, &a), FIRM_OK);
    const size_t bytes = firm_controller_state_bytes(ctl[0]);
    void* state = malloc(bytes);
    EXPECT_INT(firm_controller_save(ctl[0], state, bytes), FIRM_OK);
    EXPECT_INT(firm_controller_restore(ctl[1], state, bytes), FIRM_OK);
    for (int i = 0; i < MEMBER_ACTS; i++) {
        for (int k = 0; k < 2; k++)
            EXPECT_INT(firm_controller_push(ctl[k], rgb, a.action), FIRM_OK);
        EXPECT_INT(firm_controller_act(ctl[0], 0, &a), FIRM_OK);
        EXPECT_INT(firm_controller_act(ctl[1], 0, &b), FIRM_OK);
        EXPECT(memcmp(a.action, b.action, sizeof a.action) == 0 && a.cost == b.cost);
    }
    for (int i = 0; i < 2; i++) firm_controller_free(ctl[i]);
    free(state), free(rgb);
    firm_model_free(m);
}
