// Push-T: golden vectors of the physics, the reference package's own runs and pictures, exact
// saving, success, policies, and bad input. Without Chipmunk the task is absent and says so.
#include "env/pusht.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "env/golden.h"
#include "io/image.h"

#ifndef FIRM_CHIPMUNK

TEST(env, pusht_absent) {
    const env_spec* spec;
    firm_error err;
    EXPECT_INT(env_find_or_fail("pusht", &spec, &err), FIRM_E_UNAVAILABLE);
    EXPECT(strstr(err.message, "libchipmunk-dev") != NULL);
    test_skip("built without Chipmunk");
}

#else
#include <chipmunk/chipmunk.h>
#include <chipmunk/chipmunk_structs.h>

static env* make(void) {
    firm_error err;
    env* e = NULL;
    if (env_create(env_find("pusht"), &e, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        exit(1);
    }
    return e;
}

static void compare(const env* e, const double* want, double tolerance, const char* what) {
    double s[PUSHT_STATE];
    e->spec->sim->state_get(e, s);
    for (int i = 0; i < PUSHT_STATE; i++)
        if (!(fabs(s[i] - want[i]) <= tolerance * test_tolerance_scale()))
            test_fail(__FILE__, __LINE__, "%s: component %d is %.17g, expected %.17g", what, i,
                      s[i], want[i]);
}

// ---- golden vectors -----------------------------------------------------------------------------

TEST(env, pusht_sequence_a) {
    static const double want[9][PUSHT_STATE] = {
        [0] = {256, 400, 256, 300, 0, 0, 0},
        [1] = {256, 385.21641070432793, 253.83436345723891, 299.87845575253681, 0.13707884857920355,
               0, -187.07382791603931},
        [2] = {256, 364.83336267407032, 249.04544549612643, 299.00182924474666, 0.22146630294662803,
               0, -185.84805808807209},
        [4] = {256, 324.14040523692341, 232.47263449884068, 277.26904313624607,
               0.085890587173258204, 0, -185.85603711289056},
        [8] = {256, 242.75401582883745, 193.01123974251885, 228.37148444622576, 5.7448663678299541,
               0, -185.85603745546908}};
    env* e = make();
    e->spec->sim->state_set(e, want[0]);
    for (int t = 0; t <= 8; t++) {
        if (t) e->spec->sim->step(e, (float[]){0.0f, -0.5f});
        if (want[t][0] != 0) compare(e, want[t], 1e-9, "sequence A");
    }
    env_free(e);
}

TEST(env, pusht_sequence_b) {
    // the actions are decimal numbers in double: run the world itself
    static const double action[12][2] = {{1, .2},  {1, .2},   {.6, .3},  {.5, .5},
                                         {.2, .9}, {-.3, .4}, {-.9, .1}, {-.4, -.8},
                                         {.1, -1}, {.7, -.6}, {1, 0},    {.5, .5}};
    static const double want[13][PUSHT_STATE] = {
        [1] = {129.56717859134417, 205.91343571826877, 220, 260, 0.78539816339744828,
               374.14765583207861, 74.829531166415876},
        [2] = {170.33327465185951, 214.06665493037184, 224.91027359107647, 265.10563200467163,
               0.84263557961047497, 371.69611617614379, 74.339223235228729},
        [4] = {220.62916180627514, 243.29060108868538, 251.15255627645476, 311.09888318798102,
               1.2743477493378468, 185.61886217211568, 186.34155762918641},
        [6] = {225.43173225364782, 297.34795363992532, 258.15522792915954, 371.67337574794777,
               1.6602040904341395, -112.7266354960728, 147.4606768547516},
        [12] = {257.28233807839922, 222.92251172835526, 258.31937053809855, 372.18918629370597,
                1.6656733137009083, 184.63352177430147, 187.06429463493353}};
    pusht_world w = {0};
    pusht_world_set(&w, (double[]){100, 200, 220, 260, 0.7853981633974483, 0, 0});
    for (int t = 1; t <= 12; t++) {
        double s[PUSHT_STATE];
        pusht_world_step(&w, action[t - 1][0], action[t - 1][1]);
        pusht_world_get(&w, s);
        for (int i = 0; i < PUSHT_STATE && want[t][0] != 0; i++)
            EXPECT_NEAR(s[i], want[t][i], 1e-9);
    }
    pusht_world_close(&w);
}

TEST(env, pusht_free_agent) {
    static const double moved[4] = {29.567179, 40.766096, 40.692717, 40.693198};
    env* e = make();
    double before[PUSHT_STATE] = {60, 60, 400, 400, 0, 0, 0}, s[PUSHT_STATE];
    e->spec->sim->state_set(e, before);
    for (int t = 0; t < 4; t++) {
        e->spec->sim->step(e, (float[]){1, 0});
        e->spec->sim->state_get(e, s);
        EXPECT_NEAR(s[0] - before[0], moved[t], 1e-6);
        memcpy(before, s, sizeof s);
    }
    env_free(e);
}

// Steps that are not run (the agent is clear of the block) and a space that is used again leave the
// same bits as all steps in a fresh space: agent beside the block, far from it, passing a wall.
TEST(env, pusht_shorter_way_same_bits) {
    pusht_world fast = {0}, plain = {.plain = 1};
    rng r = rng_start(4, 0);
    int touched = 0, left_out = 0;
    for (int episode = 0; episode < 60; episode++) {
        double start[PUSHT_STATE] = {rng_uniform(&r, -10, 522), rng_uniform(&r, -10, 522),
                                     rng_uniform(&r, 60, 450),  rng_uniform(&r, 60, 450),
                                     rng_uniform(&r, 0, 6.28),  rng_uniform(&r, -200, 200),
                                     rng_uniform(&r, -200, 200)};
        void (*begin)(pusht_world*, const double*) =
            episode % 3 ? pusht_world_recall : pusht_world_set;
        double a[PUSHT_STATE], b[PUSHT_STATE], push[2] = {0, 0};
        begin(&fast, start);
        begin(&plain, start);
        for (int t = 0; t < 40; t++) {
            pusht_world_get(&fast, a);
            pusht_world_get(&plain, b);
            if (memcmp(a, b, sizeof a) != 0 || fast.contacts != plain.contacts ||
                memcmp(&fast.depth, &plain.depth, sizeof fast.depth) != 0 ||
                memcmp(&fast.shape[4]->bb, &plain.shape[4]->bb, sizeof(cpBB)) != 0) {
                test_fail(__FILE__, __LINE__, "episode %d differs at control %d", episode, t);
                break;
            }
            // now and then towards the block, else on as before
            if (t % 4 == 0)
                for (int k = 0; k < 2; k++)
                    push[k] = rng_gauss(&r) + (episode % 2 ? (a[PUSHT_BX + k] - a[k]) / 200 : 0);
            pusht_world_step(&fast, push[0], push[1]);
            pusht_world_step(&plain, push[0], push[1]);
            touched += fast.contacts > 0;
            left_out += fast.quiet < plain.quiet;
        }
    }
    EXPECT(touched > 400);
    EXPECT(left_out > 400);
    pusht_world_close(&fast);
    pusht_world_close(&plain);
}

// ---- the reference package's own runs -----------------------------------------------------------

static double worst_of(const env* e, const double* want) {
    double s[PUSHT_STATE];
    e->spec->sim->state_get(e, s);
    return golden_worst(s, want, PUSHT_STATE);
}

// Share of pixels more than one level off in some channel, in percent.
static double frame_error(const env* e, const char* name) {
    static uint8_t want[ENV_FRAME_BYTES], got[ENV_FRAME_BYTES];
    char path[1024];
    firm_error err;
    snprintf(path, sizeof path, "%s/tests/golden/pusht-%s.png", test_source_dir(), name);
    if (image_read_png(path, ENV_IMAGE, ENV_IMAGE, want, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return 100;
    }
    e->spec->sim->render(e, got);
    int off = 0;
    for (int i = 0; i < ENV_IMAGE * ENV_IMAGE; i++)
        off += abs(got[3 * i] - want[3 * i]) > 1 || abs(got[3 * i + 1] - want[3 * i + 1]) > 1 ||
               abs(got[3 * i + 2] - want[3 * i + 2]) > 1;
    return 100.0 * off / (ENV_IMAGE * ENV_IMAGE);
}

TEST(env, pusht_golden) {
    golden g;
    if (!golden_open(&g, "pusht")) return;
    env* e = make();
    int sequences = 0, controls = 0, checked = 0, steps = 0, frames = 0;
    double state[PUSHT_STATE], free_run = 0, one_step = 0, picture = 0;
    for (const char* what; (what = golden_next(&g));) {
        float action[2];
        if (strcmp(what, "sequence") == 0) {
            golden_doubles(&g, state, PUSHT_STATE);
            e->spec->sim->state_set(e, state);
            sequences++;
        } else if (strcmp(what, "frame") == 0) {
            const char* name = golden_word(&g);
            double off = frame_error(e, name);
            if (!(off <= 0.1))
                test_fail(__FILE__, __LINE__, "frame %s: %.3f %% of pixels are off", name, off);
            picture = test_worse(picture, off);
            frames++;
        } else if (strcmp(what, "step") == 0) {
            golden_doubles(&g, state, PUSHT_STATE);
            golden_floats(&g, action, 2);
            e->spec->sim->state_set(e, state);
            e->spec->sim->step(e, action);
            golden_doubles(&g, state, PUSHT_STATE);
            one_step = test_worse(one_step, worst_of(e, state));
            steps++;
        } else {
            // a control: its first number stands where others have a word
            action[0] = golden_float(&g, what);
            golden_floats(&g, action + 1, 1);
            e->spec->sim->step(e, action);
            controls++;
            if (*g.next) {
                golden_doubles(&g, state, PUSHT_STATE);
                free_run = test_worse(free_run, worst_of(e, state));
                checked++;
            }
        }
    }
    golden_close(&g);
    env_free(e);
    EXPECT(sequences >= 20 && controls == 100 * sequences && checked == 25 * sequences);
    EXPECT(steps >= 200 && frames >= 12);
    EXPECT_NEAR(one_step, 0, 1e-9);
    EXPECT_NEAR(free_run, 0, 1e-9);
    if (getenv("FIRM_TEST_VERBOSE"))
        printf(
            "  %d sequences: one step %.3g, free run %.3g; %d frames: at most %.4f %% of pixels "
            "off\n",
            sequences, one_step, free_run, frames, picture);
}

// ---- restoring ----------------------------------------------------------------------------------

// pushes that keep touching the block
static void push(const env* e, rng* r, float* action) {
    double s[PUSHT_STATE];
    e->spec->sim->state_get(e, s);
    for (int k = 0; k < 2; k++)
        action[k] = (float)((s[2 + k] - s[k]) / 150.0 + rng_uniform(r, -0.5, 0.5));
}

TEST(env, pusht_exact_save) {
    static uint8_t first[ENV_FRAME_BYTES], second[ENV_FRAME_BYTES];
    const env_spec* spec = env_find("pusht");
    env *a = make(), *b = make();
    void* kept = mem_alloc(spec->sim->save_bytes);
    rng r = rng_start(9, RNG_STREAM(RNG_TEST, 1));
    double sa[PUSHT_STATE], sb[PUSHT_STATE];
    float action[2];
    for (int round = 0; round < 5; round++) {
        spec->sim->reset(a, &r);
        for (int i = 0; i < 30; i++) {
            push(a, &r, action);
            spec->sim->step(a, action);
        }
        EXPECT_INT(spec->sim->save(a, kept), FIRM_OK);
        spec->sim->reset(b, &r);  // whatever b did before must not matter
        spec->sim->restore(b, kept);
        for (int i = 0; i < 30; i++) {
            push(a, &r, action);
            spec->sim->step(a, action);
            spec->sim->step(b, action);
            spec->sim->state_get(a, sa);
            spec->sim->state_get(b, sb);
            EXPECT(memcmp(sa, sb, sizeof sa) == 0);
            spec->sim->render(a, first);
            spec->sim->render(b, second);
            EXPECT(memcmp(first, second, sizeof first) == 0);
        }
    }
    // too long since the last state was set: refused, never wrong
    for (int i = 0; i < 2000; i++) spec->sim->step(a, (float[]){i % 2 ? 0.1f : -0.1f, 0.0f});
    EXPECT_INT(spec->sim->save(a, kept), FIRM_E_UNAVAILABLE);
    mem_free(kept);
    env_free(a);
    env_free(b);
}

TEST(env, pusht_setter_forgets_the_past) {
    const env_spec* spec = env_find("pusht");
    env *a = make(), *b = make();
    rng r = rng_start(10, RNG_STREAM(RNG_TEST, 2));
    double kept[PUSHT_STATE], sa[PUSHT_STATE], sb[PUSHT_STATE];
    float action[2];
    spec->sim->reset(a, &r);
    for (int i = 0; i < 40; i++) {
        push(a, &r, action);
        spec->sim->step(a, action);
    }
    spec->sim->state_get(a, kept);
    spec->sim->state_set(a, kept);  // in the middle of a push
    spec->sim->state_set(b, kept);  // in a new environment
    for (int i = 0; i < 40; i++) {
        push(a, &r, action);
        spec->sim->step(a, action);
        spec->sim->step(b, action);
    }
    spec->sim->state_get(a, sa);
    spec->sim->state_get(b, sb);
    EXPECT(memcmp(sa, sb, sizeof sa) == 0);
    // the settling step carries the agent on
    double moving[PUSHT_STATE] = {100, 100, 300, 300, 1, 200, -100};
    spec->sim->state_set(a, moving);
    spec->sim->state_get(a, sa);
    EXPECT_NEAR(sa[PUSHT_AX], 102, 1e-12);
    EXPECT_NEAR(sa[PUSHT_AY], 99, 1e-12);
    env_free(a);
    env_free(b);
}

TEST(env, pusht_picture_of_a_recorded_state) {
    static uint8_t live[ENV_FRAME_BYTES], later[ENV_FRAME_BYTES];
    const env_spec* spec = env_find("pusht");
    env *a = make(), *b = make();
    rng r = rng_start(11, RNG_STREAM(RNG_TEST, 3));
    double s[PUSHT_STATE];
    float action[2];
    int differing = 0, touching = 0;
    for (int round = 0; round < 4; round++) {
        spec->sim->reset(a, &r);
        for (int i = 0; i < 40; i++) {
            push(a, &r, action);
            spec->sim->step(a, action);
            spec->sim->state_get(a, s);
            spec->sim->render(a, live);
            EXPECT_INT(env_picture(b, s, later), FIRM_OK);
            differing += memcmp(live, later, sizeof live) != 0;
            for (int k = 0; k < ENV_IMAGE * ENV_IMAGE; k++)
                if (live[3 * k] > 200 && live[3 * k + 1] < 150) {  // red: a contact mark
                    touching++;
                    break;
                }
        }
    }
    EXPECT(touching > 10);
    EXPECT_INT(differing, 0);
    env_free(a);
    env_free(b);
}

// ---- task ---------------------------------------------------------------------------------------

TEST(env, pusht_success_and_distances) {
    const env_spec* spec = env_find("pusht");
    const double goal[PUSHT_STATE] = {100, 100, 200, 200, 0.1, 0, 0};
    const struct {
        double state[PUSHT_STATE];
        int success;
    } example[] = {
        {{100, 100, 200, 200, 0.1, 300, -300}, 1},  // velocity does not count
        {{110, 110, 210, 209, 0.1, 0, 0}, 1},       // 19.5 px in four dimensions
        {{110, 110, 210, 210, 0.1, 0, 0}, 0},       // exactly 20
        {{100, 100, 200, 200, 0.1 + 3.14159265 / 9 - 1e-4, 0, 0}, 1},
        {{100, 100, 200, 200, 0.1 + 3.14159265 / 9 + 1e-4, 0, 0}, 0},
        {{100, 100, 200, 200, 2 * 3.14159265 - 0.2, 0, 0}, 1},  // across zero
    };
    for (size_t i = 0; i < sizeof example / sizeof *example; i++) {
        float c[FIRM_MAX_CONFIG], g[FIRM_MAX_CONFIG];
        env_config(spec, example[i].state, c);
        env_config(spec, goal, g);
        EXPECT_INT(env_success(spec, example[i].state, goal), example[i].success);
        EXPECT_INT(task_tolerance_units(&spec->task, c, g) < 1.0f, example[i].success);
    }
    float out[5];
    env_chi(spec, (double[]){110, 90, 200, 205, 0.1, 0, 0}, goal,
            (double[]){100, 100, 200, 200, 2 * 3.14159265 - 0.1, 0, 0}, out);
    const float want[5] = {10 / 256.0f, -10 / 256.0f, 0, 5 / 256.0f, 0.2f};
    for (int i = 0; i < 5; i++) EXPECT_NEAR(out[i], want[i], 1e-6);
}

TEST(env, pusht_weak_policy) {
    const env_spec* spec = env_find("pusht");
    firm_error err;
    env_policy weak;
    REQUIRE_OK(env_policy_find(spec, "weak", &weak, &err), err);
    EXPECT_INT(weak.episode_cap, 100);
    EXPECT_INT(env_policy_find(spec, "strong", &weak, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "demo, weak") != NULL);
    REQUIRE_OK(env_policy_find(spec, "weak", &weak, &err), err);
    env* e = make();
    for (int i = 0; i < 20; i++) {
        rng r = rng_start(3, RNG_STREAM(RNG_TEST, i));
        spec->sim->reset(e, &r);
        for (int t = 0; t < 50; t++) {
            double s[PUSHT_STATE];
            float a[2];
            weak.act(e, &r, a);
            spec->sim->state_get(e, s);
            for (int k = 0; k < 2; k++) {
                EXPECT(a[k] >= -1 && a[k] <= 1);
                // the target is near the block, or the way there is longer than one action
                double target = s[k] + 100.0 * a[k];
                EXPECT(fabs(target - s[2 + k]) <= 100.0 + 1e-4 || fabs(a[k]) > 1 - 1e-6);
            }
            spec->sim->step(e, a);
        }
    }
    env_free(e);
}

TEST(env, pusht_bad_input) {
    const env_spec* spec = env_find("pusht");
    env* e = make();
    double s[PUSHT_STATE] = {256, 400, 256, 256, 0, 0, 0}, before[PUSHT_STATE], after[PUSHT_STATE];
    const float bad_action[][2] = {{NAN, 0}, {0, INFINITY}, {-INFINITY, 0}, {1e30f, 0}};
    for (size_t i = 0; i < sizeof bad_action / sizeof *bad_action; i++) {
        spec->sim->state_set(e, s);
        EXPECT_INT(e->fault, FIRM_OK);
        spec->sim->state_get(e, before);
        spec->sim->step(e, bad_action[i]);
        EXPECT_INT(e->fault, FIRM_E_VALUE);
        spec->sim->step(e, (float[]){0.5f, 0.5f});  // sticky: nothing moves until a state is set
        spec->sim->state_get(e, after);
        EXPECT(memcmp(before, after, sizeof after) == 0);
    }
    const double bad_value[] = {NAN, INFINITY, -INFINITY, 1e300};
    for (int k = 0; k < PUSHT_STATE; k++)
        for (int i = 0; i < 4; i++) {
            static uint8_t rgb[ENV_FRAME_BYTES];
            double wrong[PUSHT_STATE];
            memcpy(wrong, s, sizeof wrong);
            wrong[k] = bad_value[i];
            spec->sim->state_set(e, wrong);
            EXPECT_INT(e->fault, FIRM_E_VALUE);
            spec->sim->render(e, rgb);  // still drawable
            EXPECT_INT(env_picture(e, wrong, rgb), FIRM_E_VALUE);
        }
    // far outside and fast, but legal: no assertion of Chipmunk may fire
    spec->sim->state_set(e, (double[]){-90000, 90000, 90000, -90000, 1e5, 9e5, -9e5});
    for (int i = 0; i < 50 && e->fault == FIRM_OK; i++) spec->sim->step(e, (float[]){1000, -1000});
    EXPECT(e->fault == FIRM_OK || e->fault == FIRM_E_VALUE);
    env_free(e);
}

#endif
