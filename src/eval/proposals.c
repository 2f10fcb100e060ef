// proposals.c - a controller is shown a recorded moment and a goal, and its whole plan is taken.
#include "eval/proposals.h"

#include <string.h>

#include "core/mem.h"
#include "data/frames.h"
#include "eval/settings.h"
#include "plan/controller.h"

enum { DEPTHS = 3 };

struct proposals {
    const firm_model* model;
    const episodes* e;
    uint64_t seed;
    frames* from;
    firm_controller* depth[DEPTHS];  // all, half and a quarter of the iterations
    uint8_t* rgb;                    // (image, image, 3)
};

void proposals_free(proposals* p) {
    if (!p) return;
    for (int i = 0; i < DEPTHS; i++) firm_controller_free(p->depth[i]);
    frames_free(p->from);
    mem_free(p->rgb);
    mem_free(p);
}

static firm_status fill(proposals* p, int candidates, int threads, firm_error* err) {
    plan_options options;
    config* settings;
    TRY(settings_from_text(p->model->task.name, p->model->config, &settings, err));
    settings_plan(settings, FIRM_MODE_CONTRACT, &options);
    config_free(settings);
    if (candidates) plan_options_candidates(&options, candidates);
    TRY(plan_options_check(&options, err));
    if (options.horizon < p->model->task.horizon)
        return FAIL(err, FIRM_E_VALUE,
                    "plan.contract_horizon = %d, but a branch of %s has %d macro actions; give at "
                    "least as many",
                    options.horizon, p->model->task.name, p->model->task.horizon);
    const int iterations = options.iterations;
    for (int i = 0; i < DEPTHS; i++) {
        firm_controller_params params = firm_controller_params_default();
        params.mode = FIRM_MODE_CONTRACT;
        params.threads = threads;
        options.iterations = iterations >> i ? iterations >> i : 1;
        TRY(controller_create_with(p->model, &params, &options, NULL, &p->depth[i], err));
    }
    p->rgb = mem_alloc(task_frame_bytes(&p->e->spec->task));
    if (!p->rgb) return FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
    return frames_open(p->e, 1, 0, &p->from, err);
}

firm_status proposals_open(const firm_model* model, const episodes* e, uint64_t seed,
                           int candidates, int threads, proposals** out, firm_error* err) {
    proposals* p = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for proposals");
    *p = (proposals){.model = model, .e = e, .seed = seed};
    firm_status st = fill(p, candidates, threads, err);
    if (st != FIRM_OK) {
        proposals_free(p);
        return st;
    }
    *out = p;
    return FIRM_OK;
}

// Even numbers: where the recording is a plan later. Odd ones: any moment of the episode.
static int64_t goal_row(const proposals* p, int64_t row, int number) {
    if (number % 2 == 0) return row + task_span(&p->e->spec->task);
    int episode = episodes_of_row(p->e, row);
    rng r = rng_start(p->seed, RNG_STREAM(RNG_BRANCH, row * 64 + number));
    return p->e->offset[episode] + rng_below(&r, (uint32_t)p->e->length[episode]);
}

static firm_status show(proposals* p, firm_controller* ctl, int64_t row, int64_t goal) {
    const env_spec* spec = p->e->spec;
    float truth[FIRM_HISTORY * FIRM_MAX_CONFIG], wanted[FIRM_MAX_CONFIG];
    for (int i = 0; i < FIRM_HISTORY; i++) {
        int64_t at = row - (FIRM_HISTORY - 1) + i;
        TRY(frames_get(p->from, 0, at, p->rgb));
        TRY(firm_controller_push(ctl, p->rgb,
                                 i ? p->e->action + (at - 1) * spec->task.action_dim : NULL));
        env_config(spec, p->e->state + at * spec->state->dim, truth + i * spec->task.config_dim);
    }
    TRY(frames_get(p->from, 0, goal, p->rgb));
    TRY(firm_controller_goal(ctl, p->rgb));
    env_config(spec, p->e->state + goal * spec->state->dim, wanted);
    controller_set_truth(ctl, truth, wanted);
    return FIRM_OK;
}

firm_status proposals_make(void* ctx, int64_t row, int number, float* action, firm_error* err) {
    proposals* p = ctx;
    firm_controller* ctl = p->depth[number / 2 % DEPTHS];
    firm_step step;
    firm_controller_reset(ctl, p->seed + (uint64_t)(row * 64 + number));
    firm_status st = show(p, ctl, row, goal_row(p, row, number));
    if (st == FIRM_OK) st = firm_controller_act(ctl, 0, &step);
    if (st != FIRM_OK)
        return FAIL(err, st, "no plan for row %lld of the recording", (long long)row);
    const task_typed* task = &p->e->spec->task;
    memcpy(action, step.plan, (size_t)(task_span(task) * task->action_dim) * sizeof *action);
    return FIRM_OK;
}
