// together.c - many trials in step, their searches solved as one batch on a GPU.
//
// Every round: those that need a plan state their problem (perception, on all threads), one call
// solves all, then each executes a control and looks (on all threads again). A trial's arithmetic
// is the same as when it runs alone, so its outcome is too.
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "eval/arm_trial.h"

typedef struct slot {
    arm_trial trial;
    int due;  // its search is part of this round's batch
    plan_problem problem;
    firm_status status;
    firm_error error;
} slot;

typedef struct group {
    slot* slot;  // (count)
    int count;
    plan_problem* problem;  // (count) of those that are due
    plan_answer* answer;
} group;

static void begin_piece(void* arg, int item, int worker) {
    (void)worker;
    slot* s = &((group*)arg)->slot[item];
    s->status = arm_trial_begin(&s->trial, &s->error);
}

static void pose_piece(void* arg, int item, int worker) {
    (void)worker;
    slot* s = &((group*)arg)->slot[item];
    eval_arm* arm = s->trial.arm;
    s->due = arm_trial_goes_on(&s->trial) && controller_due(arm->controller);
    if (!s->due) return;
    int64_t begun = clock_ns();
    s->status = arm->ops->pose(arm, &s->problem);
    s->trial.out->seconds += (double)(clock_ns() - begun) * 1e-9;
    if (s->status != FIRM_OK)
        FAIL(&s->error, s->status, "arm '%s' failed in trial %d: %s", arm->ops->name,
             s->trial.number, arm_trial_why(&s->trial, s->status));
}

static void step_piece(void* arg, int item, int worker) {
    (void)worker;
    slot* s = &((group*)arg)->slot[item];
    if (arm_trial_goes_on(&s->trial)) s->status = arm_trial_step(&s->trial, &s->error);
}

// Runs a piece for every slot; the first failure in order is the one reported.
static firm_status all(group* g, pool* threads, pool_fn piece, firm_error* err) {
    pool_for(threads, g->count, piece, g);
    for (int i = 0; i < g->count; i++)
        if (g->slot[i].status != FIRM_OK) {
            if (err) *err = g->slot[i].error;
            return g->slot[i].status;
        }
    return FIRM_OK;
}

// One batch for all that are due.
static firm_status solve(group* g, firm_error* err) {
    int due = 0;
    for (int i = 0; i < g->count; i++)
        if (g->slot[i].due) g->problem[due++] = g->slot[i].problem;
    if (due == 0) return FIRM_OK;
    const eval_setup* setup = &g->slot[0].trial.arm->setup;
    const plan_device device = arm_batch(g->slot[0].trial.arm->ops, setup);
    int64_t begun = clock_ns();
    TRY(device.solve(device.context, due, g->problem, setup->options.iterations, setup->fan > 0,
                     g->answer, err));
    double ms = (double)(clock_ns() - begun) * 1e-6 / due;  // each one's share
    due = 0;
    for (int i = 0; i < g->count; i++) {
        if (!g->slot[i].due) continue;
        controller_accept(g->slot[i].trial.arm->controller, &g->answer[due++], ms);
        g->slot[i].trial.out->seconds += ms * 1e-3;
    }
    return FIRM_OK;
}

static firm_status run(group* g, eval_arm** arm, pool* threads, const eval_trials* trials,
                       frames* pictures, int first, eval_outcome* out, eval_times* times,
                       firm_error* err) {
    for (int i = 0; i < g->count; i++)
        TRY(arm_trial_open(&g->slot[i].trial, arm[i], trials, pictures, first + i, &out[i], NULL,
                           err));
    TRY(all(g, threads, begin_piece, err));
    for (int running = g->count; running;) {
        TRY(all(g, threads, pose_piece, err));
        TRY(solve(g, err));
        for (int i = 0; i < g->count; i++)
            if (arm_trial_goes_on(&g->slot[i].trial))
                TRY(arm_trial_decide(&g->slot[i].trial, times, err));
        TRY(all(g, threads, step_piece, err));
        running = 0;
        for (int i = 0; i < g->count; i++) running += arm_trial_goes_on(&g->slot[i].trial);
    }
    return FIRM_OK;
}

firm_status eval_arms_run(eval_arm** arm, pool* threads, const eval_trials* trials,
                          frames* pictures, int first, int count, eval_outcome* out,
                          eval_times* times, firm_error* err) {
    if (first < 0 || count < 1 || first + count > trials->count)
        return FAIL(err, FIRM_E_USAGE, "trials %d .. %d of %d do not exist", first,
                    first + count - 1, trials->count);
    group g = {.count = count};
    g.slot = mem_calloc((size_t)count, sizeof *g.slot);
    g.problem = mem_calloc((size_t)count, sizeof *g.problem);
    g.answer = mem_calloc((size_t)count, sizeof *g.answer);
    firm_status status = g.slot && g.problem && g.answer
                             ? run(&g, arm, threads, trials, pictures, first, out, times, err)
                             : FAIL(err, FIRM_E_MEMORY, "no memory for %d trials at once", count);
    mem_free(g.slot);
    mem_free(g.problem);
    mem_free(g.answer);
    return status;
}
