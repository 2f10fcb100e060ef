// reacher_test.c - Reacher against its fact sheet and against trajectories of the reference package
// in tests/golden/reacher.txt; what it refuses; exact saves.
#define _GNU_SOURCE  // setenv
#include "env/reacher.h"

#include "check.h"
#include "env/golden.h"

TEST(env, reacher_typed_conversions) {
    const env_spec* spec = env_find("reacher");
    const double pi = 3.14159265358979323846;
    float a[4], b[4], d[2], xy[2];
    env_config(spec, (double[]){pi / 2, 0, 1.5, -2}, a);
    EXPECT_NEAR(a[0], 1, 1e-7);
    EXPECT_NEAR(a[1], 0, 1e-7);
    EXPECT_NEAR(a[2], 0, 1e-7);
    EXPECT_NEAR(a[3], 1, 1e-7);
    env_config(spec, (double[]){pi / 2 + 0.04, -0.03, 0, 0}, b);
    task_measure(&spec->task, a, b, d);
    EXPECT_NEAR(d[0], 0.04, 1e-6);
    EXPECT_NEAR(d[1], 0.03, 1e-6);
    EXPECT_NEAR(task_tolerance_units(&spec->task, a, b), 0.8, 1e-5);
    // both links up: the finger 0.24 m above the shoulder, on a camera that sees 0.74 tan(22.5 deg)
    task_project(&spec->task, a, xy);
    EXPECT_NEAR(xy[0], 111.5, 1e-3);
    EXPECT_NEAR(xy[1], 111.5 - 112 * 0.24 / (0.74 * 0.41421356), 1e-3);
    // angles are compared as they stand: a full turn away is far, and the boundary is open
    double goal[4] = {0.5, -0.5, 0, 0};
    EXPECT(env_success(spec, (double[]){0.5499, -0.4501, 9, 9}, goal));
    EXPECT(!env_success(spec, (double[]){0.5501, -0.5, 0, 0}, goal));
    EXPECT(!env_success(spec, (double[]){0.5, -0.4499, 0, 0}, goal));
    EXPECT(!env_success(spec, (double[]){0.5 + 2 * pi, -0.5, 0, 0}, goal));
    float chi[2];
    env_chi(spec, (double[]){0, 0, 1.5, -2}, goal, goal, chi);
    EXPECT(chi[0] == 1.5f && chi[1] == -2.0f);
}

#ifndef FIRM_MUJOCO
TEST(env, reacher_and_cube_say_what_to_run) {
    const char* const tasks[] = {"reacher", "cube"};
    for (int i = 0; i < 2; i++) {
        firm_error err;
        env* e;
        EXPECT_INT(env_create(env_find(tasks[i]), &e, &err), FIRM_E_UNAVAILABLE);
        EXPECT(e == NULL && strstr(err.message, "make mujoco") && strstr(err.message, tasks[i]));
    }
    test_skip("built without MuJoCo; run `make mujoco`");
}
#else
#include "env/env.h"
#include "env/mujoco/physics.h"

static env* make(void) {
    firm_error err;
    env* e = NULL;
    if (env_create(env_find("reacher"), &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return e;
}

TEST(env, reacher_worked_case) {
    static const struct {
        float action[2];
        double state[4];
    } steps[] = {
        {{1, 0}, {0.345851055488, -1.031888033063, 1.445226768086, -0.860407195557}},
        {{1, 0.5f}, {0.414741695222, -0.987412351159, 1.879194431557, 1.431505700501}},
        {{-0.3f, 1}, {0.432708745695, -0.797236123723, 0.160174823148, 5.202629670344}},
        {{-1, -1}, {0.461880396175, -0.865028427351, 0.581755490939, -2.641729486747}},
        {{0.2f, -0.7f}, {0.493877572085, -0.998732475701, 0.825977096872, -3.424366668222}},
        {{3, 0}, {0.542383453684, -1.059270844478, 1.421105884192, -1.218207246188}},
    };
    env* e = make();
    double s[4], extra[REACHER_EXTRAS];
    e->spec->sim->state_set(e, (double[]){0.3, -1.0, 0, 0});
    e->spec->layout->extra_get(e, extra);
    EXPECT_NEAR(extra[REACHER_EXTRA_FINGER], 0.206421441, 1e-9);
    EXPECT_NEAR(extra[REACHER_EXTRA_FINGER + 1], -0.041843698, 1e-9);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        e->spec->sim->step(e, steps[i].action);
        e->spec->sim->state_get(e, s);
        // the sheet's figures were made with actions in float64; ours round 0.3, 0.2 and 0.7 to
        // float32
        EXPECT_NEAR(golden_worst(s, steps[i].state, 4), 0, 1e-6);
    }
    env_free(e);
}

TEST(env, reacher_parity) {
    golden g;
    env* e = make();
    if (!golden_open(&g, "reacher") || !e) return;
    const env_spec* spec = e->spec;
    double free_run = 0, one_step = 0, passing = 0;
    int sequences = 0, steps = 0, singles = 0, passes = 0, short_ones = 0;
    for (const char* what; (what = golden_next(&g));) {
        double from[4], goal[4] = {0}, want[4], got[4], whole[4];
        float action[2];
        if (strcmp(what, "start") == 0) {
            golden_doubles(&g, from, 4);
            spec->sim->state_set(e, from);
            sequences++;
        } else if (strcmp(what, "run") == 0) {
            golden_floats(&g, action, 2);
            golden_doubles(&g, want, 4);
            spec->sim->step(e, action);
            spec->sim->state_get(e, got);
            free_run = test_worse(free_run, golden_worst(got, want, 4));
            steps++;
        } else {
            int pass = strcmp(what, "pass") == 0;
            golden_doubles(&g, from, 4);
            if (pass) golden_doubles(&g, goal, 2);
            golden_floats(&g, action, 2);
            golden_doubles(&g, want, 4);
            spec->sim->state_set(e, from);
            spec->sim->step(e, action);
            spec->sim->state_get(e, whole);
            spec->sim->state_set(e, from);
            if (pass) spec->sim->goal_set(e, goal);
            spec->sim->step(e, action);
            spec->sim->state_get(e, got);
            double* worst = pass ? &passing : &one_step;
            *worst = test_worse(*worst, golden_worst(got, want, 4));
            short_ones += memcmp(got, whole, sizeof got) != 0;
            passes += pass;
            singles += !pass;
        }
        EXPECT_INT(e->fault, FIRM_OK);
    }
    golden_close(&g);
    env_free(e);
    printf("  reacher: free run %.2g over %d sequences, one step %.2g, goal in passing %.2g\n",
           free_run, sequences, one_step, passing);
    EXPECT(sequences >= 20 && steps == 50 * sequences && singles >= 200 && passes >= 50);
    EXPECT(short_ones >= 5);  // some goals are reached half-way, and end the control there
    EXPECT_NEAR(free_run, 0, 1e-9);
    EXPECT_NEAR(one_step, 0, 1e-9);
    EXPECT_NEAR(passing, 0, 1e-9);
}

TEST(env, reacher_save_and_continue) {
    env *a = make(), *b = make();
    const env_spec* spec = a->spec;
    rng r = rng_start(3, RNG_STREAM(RNG_TEST, 0));
    float action[2];
    double saved[REACHER_SAVED], sa[4], sb[4];
    spec->sim->reset(a, &r);
    for (int i = 0; i < 60; i++) {
        spec->collection->policy[0].act(a, &r, action);
        spec->sim->step(a, action);
        if (i < 30) continue;
        if (i == 30) {
            EXPECT_INT(spec->sim->save(a, saved), FIRM_OK);
            EXPECT(spec->sim->save_bytes == sizeof saved);
            spec->sim->restore(b, saved);
            continue;
        }
        spec->sim->step(b, action);
        spec->sim->state_get(a, sa);
        spec->sim->state_get(b, sb);
        EXPECT(memcmp(sa, sb, sizeof sa) == 0);
        double ea[REACHER_EXTRAS], eb[REACHER_EXTRAS];
        spec->layout->extra_get(a, ea);
        spec->layout->extra_get(b, eb);
        EXPECT(memcmp(ea, eb, sizeof ea) == 0);
    }
    env_free(a);
    env_free(b);
}

TEST(env, reacher_refuses) {
    env* e = make();
    const env_spec* spec = e->spec;
    double start[4] = {0.1, 0.2, 0.3, 0.4}, s[4];
    const float bad_action[][2] = {{NAN, 0}, {0, INFINITY}, {-INFINITY, 0}};
    for (int i = 0; i < 3; i++) {
        spec->sim->state_set(e, start);
        spec->sim->step(e, bad_action[i]);
        EXPECT_INT(e->fault, FIRM_E_VALUE);
        spec->sim->step(e, (float[]){0.5f, 0.5f});  // the fault stays, and so does the state
        spec->sim->state_get(e, s);
        EXPECT(memcmp(s, start, sizeof s) == 0 && e->fault == FIRM_E_VALUE);
    }
    const double bad_state[][4] = {
        {NAN, 0, 0, 0}, {0, 0, INFINITY, 0}, {0, 3.2, 0, 0}, {0, 0, 0, 1e9}, {1e12, 0, 0, 0}};
    for (int i = 0; i < 5; i++) {
        spec->sim->state_set(e, bad_state[i]);
        EXPECT_INT(e->fault, FIRM_E_VALUE);
        EXPECT_INT(spec->sim->save(e, (double[REACHER_SAVED]){0}), FIRM_E_VALUE);
    }
    spec->sim->state_set(e, start);
    EXPECT_INT(e->fault, FIRM_OK);
    env_free(e);
}

// The finger (its colour is the reddest there is) is seen where `project` says.
TEST(env, reacher_finger_appears_where_projected) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    firm_error err;
    env* e = make();
    REQUIRE_OK(env_render_ready(&e, 1, &err), err);
    for (int k = 0; k < 8; k++) {
        double s[4] = {0.8 * k, 2.4 - 0.6 * k, 0, 0};
        float c[4], xy[2];
        EXPECT_INT(env_picture(e, s, rgb), FIRM_OK);
        env_config(e->spec, s, c);
        task_project(&e->spec->task, c, xy);
        // the reddest spot of 5 x 5 pixels is on the finger's sphere, 4 px in radius
        int best = -100000, x = 0, y = 0;
        for (int row = 2; row < ENV_IMAGE - 2; row++)
            for (int col = 2; col < ENV_IMAGE - 2; col++) {
                int red = 0;
                for (int i = -2; i <= 2; i++)
                    for (int j = -2; j <= 2; j++) {
                        const uint8_t* p = rgb + 3 * ((row + i) * ENV_IMAGE + col + j);
                        red += 2 * p[0] - 3 * p[1];
                    }
                if (red > best) best = red, x = col, y = row;
            }
        EXPECT_NEAR(x, xy[0], 4);
        EXPECT_NEAR(y, xy[1], 4);
    }
    env_free(e);
}

static void give_up(void* arg) {
    (void)arg;
    mju_error("as if by accident, number %d", 7);
}

static void warn(void* arg) {
    (void)arg;
    mju_warning("mind the step");
}

TEST(env, mujoco_errors_become_statuses) {
    char text[256] = "";
    EXPECT_INT(physics_call(give_up, NULL, text), FIRM_E_VALUE);
    EXPECT(strstr(text, "as if by accident, number 7"));
    EXPECT_INT(physics_call(warn, NULL, text), FIRM_OK);
    EXPECT(strstr(text, "mind the step"));
    EXPECT_INT(physics_call(give_up, NULL, NULL), FIRM_E_VALUE);
}

TEST(env, reacher_without_its_scene) {
    firm_error err;
    env* e;
    setenv("FIRM_MODELS_DIR", test_temp_dir(), 1);
    EXPECT_INT(env_create(env_find("reacher"), &e, &err), FIRM_E_IO);
    EXPECT(e == NULL && strstr(err.message, "reacher/reacher.xml") &&
           strstr(err.message, "FIRM_MODELS_DIR"));
    unsetenv("FIRM_MODELS_DIR");
    e = make();
    EXPECT(e != NULL);
    env_free(e);
}
#endif
