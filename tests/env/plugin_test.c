// plugin_test.c - the interface of plug-ins: its layout, which compiled libraries rely on, and a
// task that is compiled in from the same table. tests/cli/plugin_test.c runs libraries.
#include "env/plugin.h"

#include "check.h"
#include "env/smooth.h"

// A member that moves or a smaller struct breaks libraries of users: raise FIRM_TASK_ABI. New
// members come at the end.
TEST(env, task_interface_keeps_its_layout) {
    EXPECT_INT(FIRM_TASK_ABI, 1);
    EXPECT_INT(offsetof(firm_random, uniform), 8);
    EXPECT_INT(offsetof(firm_random, gauss), 16);
    EXPECT_INT(offsetof(firm_simulator, bytes), 8);
    EXPECT_INT(offsetof(firm_simulator, reset), 16);
    EXPECT_INT(offsetof(firm_simulator, config), 56);
    EXPECT_INT(offsetof(firm_simulator, open), 64);
    EXPECT_INT(offsetof(firm_simulator, close), 72);
    EXPECT_INT(offsetof(firm_simulator, success), 80);
    EXPECT_INT(offsetof(firm_simulator, fits), 88);
    EXPECT_INT(offsetof(firm_simulator, chi), 96);
    EXPECT(sizeof(firm_simulator) >= 104);
    EXPECT_INT(offsetof(firm_collection, policy), 8);
    EXPECT_INT(offsetof(firm_collection, act), 16);
    EXPECT_INT(offsetof(firm_collection, done), 24);
    EXPECT_INT(offsetof(firm_collection, steps), 32);
    EXPECT_INT(offsetof(firm_collection, branches), 44);
    EXPECT_INT(offsetof(firm_task, typed), 8);
    EXPECT_INT(offsetof(firm_task, title), 16);
    EXPECT_INT(offsetof(firm_task, version), 24);
    EXPECT_INT(offsetof(firm_task, state_dim), 32);
    EXPECT_INT(offsetof(firm_task, simulator), 40);
    EXPECT_INT(offsetof(firm_task, collection), 48);
}

// ---- a task from a table: a point on a line ----

static void line_reset(void* sim, firm_random* r) {
    *(double*)sim = firm_random_between(r, -1, 1) + 0 * r->gauss(r);
}

static double lost;  // what a step adds to the state: NAN or an infinity for one that goes wrong

static void line_step(void* sim, const float* action) {
    *(double*)sim += 0.1 * (double)action[0] + lost;
}

static void line_get(const void* sim, double* state) {
    *state = *(const double*)sim;
}

static void line_set(void* sim, const double* state) {
    *(double*)sim = *state;
}

static void line_render(const void* sim, uint8_t* rgb) {
    (void)sim, (void)rgb;
}

static void line_config(const double* state, float* c) {
    *c = (float)*state;
}

static const firm_simulator line = {.size = sizeof line,
                                    .bytes = sizeof(double),
                                    .reset = line_reset,
                                    .step = line_step,
                                    .state_get = line_get,
                                    .state_set = line_set,
                                    .render = line_render,
                                    .config = line_config};

static const char typed[] =
    "[task]\nname = line\nimage = 64\nperiod_ms = 0\ncontrols = 5\ncost = sum\nchi = 1\n"
    "[action]\ncount = 1\nlow = -1\nhigh = 1\nclamped = yes\n"
    "[config]\nx = position\n[distance]\nplace = norm x, 1 m, 0.1\n";

// What a task does not say has the defaults that firm_task.h promises.
TEST(env, plugin_defaults) {
    const firm_task t = {.size = sizeof t, .typed = typed, .state_dim = 1, .simulator = &line};
    const env_spec* spec;
    env* e;
    firm_error err;
    REQUIRE_OK(plugin_spec(&t, "the test", &spec, &err), err);
    EXPECT_INT(spec->collection->episodes, 1000);
    EXPECT_INT(spec->collection->validation, 100);
    EXPECT_TEXT(spec->collection->policy[0].name, "smooth");
    EXPECT_INT(spec->collection->policy[0].episode_cap, 100);
    EXPECT(spec->collection->policy[0].terminated == NULL && spec->study == NULL);
    EXPECT_INT(spec->collection->interventions.anchors, 128);
    EXPECT_INT(spec->collection->interventions.per_anchor, 32);
    const double here = 0.5, near = 0.59, far = 0.61, nowhere = NAN;
    float chi;
    env_chi(spec, &far, &near, &here, &chi);
    EXPECT_NEAR(chi, 0.02, 1e-6);  // since the last control
    EXPECT(env_success(spec, &near, &here) && !env_success(spec, &far, &here));
    EXPECT(env_fits(spec, &here) && !env_fits(spec, &nowhere));
    REQUIRE_OK(env_create(spec, &e, &err), err);
    spec->sim->state_set(e, &here);
    spec->sim->step(e, (float[]){7});  // clamped for the library
    double now;
    spec->sim->state_get(e, &now);
    EXPECT_NEAR(now, 0.6, 1e-12);
    spec->sim->step(e, (float[]){NAN});
    EXPECT(e->fault == FIRM_E_VALUE);
    spec->sim->state_set(e, &here);
    EXPECT(e->fault == FIRM_OK);
    spec->sim->state_set(e, &nowhere);
    EXPECT(e->fault == FIRM_E_VALUE);
    env_free(e);
}

// A library compiled against an older firm_task.h has a shorter table: what follows it in memory is not ours to read.
TEST(env, plugin_table_of_an_older_library_is_read_to_its_end) {
    firm_simulator old = line;
    old.size = offsetof(firm_simulator, open);
    memset(&old.open, 0xff, sizeof old - old.size);  // whatever stands there
    const firm_task t = {.size = sizeof t, .typed = typed, .state_dim = 1, .simulator = &old};
    const env_spec* spec;
    env* e;
    firm_error err;
    REQUIRE_OK(plugin_spec(&t, "the test", &spec, &err), err);
    EXPECT(spec->sim->close == NULL && spec->state->success == NULL && spec->state->chi == NULL);
    REQUIRE_OK(env_create(spec, &e, &err), err);
    const double here = 0.5;
    EXPECT(env_fits(spec, &here) && env_success(spec, &here, &here));
    env_free(e);
}

// What a library asks for is behind the program's part of a simulator, and starts as zeros.
TEST(env, plugin_simulator_has_the_bytes_it_asks_for) {
    firm_simulator large = line;
    large.bytes = 100000;
    const firm_task t = {.size = sizeof t, .typed = typed, .state_dim = 1, .simulator = &large};
    const env_spec *spec, *small;
    firm_error err;
    REQUIRE_OK(plugin_spec(&t, "the test", &spec, &err), err);
    large.bytes = 100;
    REQUIRE_OK(plugin_spec(&t, "the test", &small, &err), err);
    EXPECT_INT(spec->sim->bytes - small->sim->bytes, 100000 - 100);
    EXPECT(small->sim->bytes >= sizeof(env) + 100);
}

// A step that ends in no number is a fault, until a state is set again.
TEST(env, plugin_steps_that_lose_the_state_are_faults) {
    const firm_task t = {.size = sizeof t, .typed = typed, .state_dim = 1, .simulator = &line};
    const double wrong[] = {NAN, INFINITY, -INFINITY}, here = 0.5;
    const env_spec* spec;
    env* e;
    firm_error err;
    REQUIRE_OK(plugin_spec(&t, "the test", &spec, &err), err);
    REQUIRE_OK(env_create(spec, &e, &err), err);
    for (int i = 0; i < 3; i++) {
        spec->sim->state_set(e, &here);
        EXPECT_INT(e->fault, FIRM_OK);
        lost = wrong[i];
        spec->sim->step(e, (float[]){0});
        lost = 0;
        EXPECT_INT(e->fault, FIRM_E_VALUE);
    }
    env_free(e);
}

// Smooth actions stay in the bounds, fill them, and change little by little.
TEST(env, smooth_policy_fills_the_bounds) {
    const firm_task t = {.size = sizeof t, .typed = typed, .state_dim = 1, .simulator = &line};
    const env_spec* spec;
    env* e;
    firm_error err;
    REQUIRE_OK(plugin_spec(&t, "the test", &spec, &err), err);
    REQUIRE_OK(env_create(spec, &e, &err), err);
    double least = 0, most = 0, square = 0, change = 0;
    for (int i = 0; i < 100; i++) {
        rng r = rng_start(1, RNG_STREAM(RNG_COLLECT, i));
        float before = 0, action;
        spec->collection->policy[0].reset(e, &r);
        for (int k = 0; k < 100; k++) {
            spec->collection->policy[0].act(e, &r, &action);
            least = fmin(least, (double)action);
            most = fmax(most, (double)action);
            square += (double)action * (double)action;
            if (k) change += (double)(action - before) * (double)(action - before);
            before = action;
        }
    }
    EXPECT(least >= -1 && least < -0.95 && most <= 1 && most > 0.95);
    EXPECT(sqrt(square / 10000) > 0.3);
    EXPECT(sqrt(change / 9900) < 0.7 * sqrt(square / 10000));
    env_free(e);
}
