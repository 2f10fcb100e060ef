// controllers.c - many controllers of one model in step: each is worked on by one thread at a time,
// and all share the threads and the planner's weights. A controller's arithmetic does not depend on
// its neighbours.
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "plan/controller_internal.h"

enum { MOST = 65536 };

struct firm_controllers {
    pool* threads;
    int count;
    firm_controller** ctl;  // (count)
    firm_status* status;    // (count) of the call in progress
    // of the call in progress
    const uint8_t* rgb;
    const float* action;
    int64_t deadline_ns;
    firm_step* step;
    size_t bytes;  // of a frame
};

// ---- creation -----------------------------------------------------------------------------------

static firm_status build(const firm_model* model, const firm_controller_params* p, int count,
                         firm_controllers* b, firm_error* err) {
    firm_controller_params each = *p;
    TRY(pool_create(p->threads, &b->threads, err));
    if (p->affinity) TRY(controller_bind(b->threads, p, err));
    b->ctl = mem_calloc((size_t)count, sizeof(firm_controller*));
    b->status = mem_calloc((size_t)count, sizeof *b->status);
    if (!b->ctl || !b->status)
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d controllers", count);
    each.threads = 1;
    each.affinity = NULL;
    for (; b->count < count; b->count++) {
        each.seed = p->seed + (uint64_t)b->count;
        TRY(controller_create_like(model, &each, b->count ? b->ctl[0] : NULL, &b->ctl[b->count],
                                   err));
    }
    b->bytes = task_frame_bytes(&model->task);
    return FIRM_OK;
}

firm_status firm_controllers_create(const firm_model* model, const firm_controller_params* params,
                                    int count, firm_controllers** out, firm_error* err) {
    firm_controller_params p;
    if (!out)
        return FAIL(err, FIRM_E_USAGE, "there is nowhere to put the controllers: ctls is NULL");
    *out = NULL;
    if (count < 1 || count > MOST)
        return FAIL(err, FIRM_E_USAGE, "%d controllers asked for; give 1 to %d", count, MOST);
    TRY(controller_params_take(params, &p, err));
    if (p.device != FIRM_DEVICE_CPU)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "controllers in step plan on the CPU; create them one by one for a GPU");
    firm_controllers* b = mem_calloc(1, sizeof *b);
    if (!b) return FAIL(err, FIRM_E_MEMORY, "no memory for %d controllers", count);
    firm_status st = build(model, &p, count, b, err);
    if (st != FIRM_OK) {
        firm_controllers_free(b);
        return st;
    }
    *out = b;
    return FIRM_OK;
}

void firm_controllers_free(firm_controllers* b) {
    if (!b) return;
    // the first one's weights are used by the others
    for (int i = b->count - 1; i >= 0; i--) firm_controller_free(b->ctl[i]);
    pool_free(b->threads);
    mem_free(b->ctl);
    mem_free(b->status);
    mem_free(b);
}

firm_controller* firm_controllers_at(firm_controllers* b, int i) {
    return b && i >= 0 && i < b->count ? b->ctl[i] : NULL;
}

// ---- running ------------------------------------------------------------------------------------

// Runs a piece for every controller; the first failure in order is returned.
static firm_status all(firm_controllers* b, pool_fn piece) {
    pool_for(b->threads, b->count, piece, b);
    for (int i = 0; i < b->count; i++) TRY(b->status[i]);
    return FIRM_OK;
}

static const uint8_t* frame_of(const firm_controllers* b, int i) {
    return b->rgb ? b->rgb + (size_t)i * b->bytes : NULL;
}

static void goal_piece(void* arg, int item, int worker) {
    (void)worker;
    firm_controllers* b = arg;
    b->status[item] = firm_controller_goal(b->ctl[item], frame_of(b, item));
}

static void push_piece(void* arg, int item, int worker) {
    (void)worker;
    firm_controllers* b = arg;
    const float* action =
        b->action ? b->action + (size_t)(item * b->ctl[item]->m->task.action_dim) : NULL;
    b->status[item] = firm_controller_push(b->ctl[item], frame_of(b, item), action);
}

// The time left is shared out over the rounds that the threads still have to make.
static void act_piece(void* arg, int item, int worker) {
    (void)worker;
    firm_controllers* b = arg;
    int64_t now = clock_ns(), deadline = b->deadline_ns, threads = pool_threads(b->threads);
    if (deadline > now) deadline = now + (deadline - now) / ((b->count - item - 1) / threads + 1);
    b->status[item] = firm_controller_act(b->ctl[item], deadline, b->step ? &b->step[item] : NULL);
}

firm_status firm_controllers_goal(firm_controllers* b, const uint8_t* rgb) {
    if (!b) return FIRM_E_USAGE;
    b->rgb = rgb;
    return all(b, goal_piece);
}

firm_status firm_controllers_push(firm_controllers* b, const uint8_t* rgb, const float* action) {
    if (!b) return FIRM_E_USAGE;
    b->rgb = rgb;
    b->action = action;
    return all(b, push_piece);
}

firm_status firm_controllers_act(firm_controllers* b, int64_t deadline_ns, firm_step* step) {
    if (!b) return FIRM_E_USAGE;
    b->deadline_ns = deadline_ns;
    b->step = step;
    return all(b, act_piece);
}
