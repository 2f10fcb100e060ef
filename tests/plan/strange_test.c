// strange_test.c - frames unlike the training data are told apart from those like it.
#include "plan/strange.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "members.h"

TEST(plan, strange_by_hand) {
    firm_model* m = member_lively("tworoom", 5);
    const int width = model_token_width(m), count = model_token_count(m);
    float* tokens = mem_calloc((size_t)(count * width), sizeof *tokens);
    const float c[4] = {0.1f, 0.2f, 0.1f, 0.2f}, apart[4] = {0.1f, 0.2f + 16.0f / 112, 0.1f, 0.2f};
    firm_error err;
    plan_support* support;
    // nothing is known: nothing is strange
    EXPECT(plan_strange(m, NULL, tokens, c, c) == 0);
    // channel 1 is 8 deviations away from its mean in every token, the others are at theirs
    m->token_stats = mem_calloc((size_t)(2 * width), sizeof *m->token_stats);
    m->token_radius = 0.5f;
    for (int k = 0; k < width; k++) m->token_stats[k] = 1, m->token_stats[width + k] = 0.249f;
    for (int i = 0; i < count * width; i++) tokens[i] = i % width == 1 ? 3 : 1;
    EXPECT_NEAR(plan_strange(m, NULL, tokens, c, c), 8 / sqrt(width) / 0.5, 1e-4);
    tokens[1] = NAN;
    EXPECT(isinf(plan_strange(m, NULL, tokens, c, c)));
    tokens[1] = 3;
    // a configuration three radii from the support
    m->token_radius = 1000;
    REQUIRE_OK(plan_support_create((float[]){0.1f, -0.1f, 5, 5}, 2, 2, 0, 0.1f, &support, &err),
               err);
    EXPECT_NEAR(plan_strange(m, support, tokens, c, c), 3, 1e-4);
    plan_support_free(support);
    // members that disagree: the tolerance is 16 px, a pixel is 1 / 112
    m->member[m->members++] = member_lively("tworoom", 6);
    EXPECT_NEAR(m->task.distance[0].tolerance, 16, 0);
    EXPECT_NEAR(plan_strange(m, NULL, tokens, apart, c), 1, 1e-4);
    mem_free(tokens);
    firm_model_free(m);
}

// A frame's strangeness, seen through the public API; the search is as short as can be.
static float look(firm_controller* ctl, const uint8_t* rgb) {
    firm_step step;
    EXPECT_INT(firm_controller_reset(ctl, 0), FIRM_OK);
    EXPECT_INT(firm_controller_push(ctl, rgb, NULL), FIRM_OK);
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    return step.strange;
}

static firm_controller* watcher(const firm_model* m) {
    firm_controller* ctl = NULL;
    firm_error err = {0};
    firm_controller_params p = firm_controller_params_default();
    p.mode = FIRM_MODE_CONTRACT, p.threads = 1;
    p.candidates = 4, p.elites = 2, p.iterations = 1, p.horizon = 1;
    if (firm_controller_create(m, &p, &ctl, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "no controller: %s", err.message);
    return ctl;
}

// frames of the task's own episodes, from a seed that the statistics have not seen
static void look_at_own_frames(firm_controller* ctl, const env_spec* spec, uint8_t* rgb) {
    env* e = NULL;
    firm_error err = {0};
    if (env_create(spec, &e, &err) != FIRM_OK || env_render_ready(&e, 1, &err) != FIRM_OK) {
        test_skip(err.message);
        env_free(e);
        return;
    }
    rng r = rng_start(4242, RNG_STREAM(RNG_TEST, 7));
    const int frames = test_short() ? 3 : 25;
    for (int i = 0; i < frames; i++) {
        float action[FIRM_MAX_ACTION];
        if (i % 5 == 0) spec->sim->reset(e, &r);
        for (int k = 0; k < 4; k++) {
            spec->collection->policy[0].act(e, &r, action);
            spec->sim->step(e, action);
        }
        spec->sim->render(e, rgb);
        float strange = look(ctl, rgb);
        if (!(strange < 1))
            test_fail(__FILE__, __LINE__, "%s: frame %d has %g", spec->task.name, i,
                      (double)strange);
    }
    env_free(e);
}

TEST(plan, strange_tells_blank_frames_from_the_tasks_own) {
    static const char* const task[] = {"tworoom", "pusht", "reacher", "cube"};
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    rng r = rng_start(1, RNG_STREAM(RNG_TEST, 0));
    for (int t = 0; t < 4; t++) {
        char path[512];
        firm_model* m;
        firm_error err = {0};
        snprintf(path, sizeof path, "%s/models/%s.safetensors", test_source_dir(), task[t]);
        REQUIRE_OK(firm_model_load(path, &m, &err), err);
        EXPECT(m->token_stats != NULL);
        firm_controller* ctl = watcher(m);
        for (int kind = 0; kind < 3; kind++) {  // black, white, noise
            memset(rgb, kind == 1 ? 255 : 0, MEMBER_PICTURE);
            for (int i = 0; i < MEMBER_PICTURE && kind == 2; i++) rgb[i] = (uint8_t)rng_u32(&r);
            float strange = look(ctl, rgb);
            if (!(strange > 1.5f))
                test_fail(__FILE__, __LINE__, "%s: picture %d has %g", task[t], kind,
                          (double)strange);
        }
        if (env_find(task[t])) look_at_own_frames(ctl, env_find(task[t]), rgb);
        firm_controller_free(ctl);
        firm_model_free(m);
    }
    free(rgb);
}
