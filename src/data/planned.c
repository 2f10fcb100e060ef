// planned.c - a pilot is shown a recorded moment and a goal, and its whole plan is taken.
#include "data/planned.h"

#include <string.h>

#include "core/mem.h"
#include "data/frames.h"

struct planned {
    data_pilot pilot[PLANNED_DEPTHS];
    const episodes* e;
    uint64_t seed;
    frames* from;
    uint8_t* rgb;  // (image, image, 3)
};

void planned_free(planned* p) {
    if (!p) return;
    frames_free(p->from);
    mem_free(p->rgb);
    mem_free(p);
}

firm_status planned_open(const data_pilot pilot[PLANNED_DEPTHS], const episodes* e, uint64_t seed,
                         planned** out, firm_error* err) {
    planned* p = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for proposals");
    *p = (planned){.e = e, .seed = seed};
    memcpy(p->pilot, pilot, sizeof p->pilot);
    p->rgb = mem_alloc(task_frame_bytes(&e->spec->task));
    firm_status st = p->rgb ? frames_open(e, 1, 0, &p->from, err)
                            : FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
    if (st != FIRM_OK) {
        planned_free(p);
        return st;
    }
    *out = p;
    return FIRM_OK;
}

// Even numbers: where the recording is a plan later. Odd ones: any moment of the episode.
static int64_t goal_row(const planned* p, int64_t row, int number) {
    if (number % 2 == 0) return row + task_span(&p->e->spec->task);
    int episode = episodes_of_row(p->e, row);
    rng r = rng_start(p->seed, RNG_STREAM(RNG_BRANCH, row * 64 + number));
    return p->e->offset[episode] + rng_below(&r, (uint32_t)p->e->length[episode]);
}

static firm_status show(planned* p, const data_pilot* ctl, int64_t row, int64_t goal) {
    const env_spec* spec = p->e->spec;
    float truth[FIRM_HISTORY * FIRM_MAX_CONFIG], wanted[FIRM_MAX_CONFIG];
    for (int i = 0; i < FIRM_HISTORY; i++) {
        int64_t at = row - (FIRM_HISTORY - 1) + i;
        TRY(frames_get(p->from, 0, at, p->rgb));
        TRY(ctl->push(ctl->ctx, p->rgb,
                      i ? p->e->action + (at - 1) * spec->task.action_dim : NULL));
        env_config(spec, p->e->state + at * spec->state->dim, truth + i * spec->task.config_dim);
    }
    TRY(frames_get(p->from, 0, goal, p->rgb));
    TRY(ctl->goal(ctl->ctx, p->rgb));
    env_config(spec, p->e->state + goal * spec->state->dim, wanted);
    ctl->truth(ctl->ctx, truth, wanted);
    return FIRM_OK;
}

firm_status planned_make(void* ctx, int64_t row, int number, float* action, firm_error* err) {
    planned* p = ctx;
    const data_pilot* ctl = &p->pilot[number / 2 % PLANNED_DEPTHS];
    firm_step step;
    ctl->reset(ctl->ctx, p->seed + (uint64_t)(row * 64 + number));
    firm_status st = show(p, ctl, row, goal_row(p, row, number));
    if (st == FIRM_OK) st = ctl->act(ctl->ctx, &step);
    if (st != FIRM_OK)
        return FAIL(err, st, "no plan for row %lld of the recording", (long long)row);
    const task_typed* task = &p->e->spec->task;
    memcpy(action, step.plan, (size_t)(task_span(task) * task->action_dim) * sizeof *action);
    return FIRM_OK;
}
