// net_rest.c - threads that have candidates of their own share the rest: those for which there is
// no full vector for every thread.
//
// The rest is one roll whose parts (net_roll.h) follow one another. Between two groups of its own,
// a thread takes a group or a panel of the rest's part at work, if it has come as far with its own.
// Nobody waits while he has candidates of his own, and a quick thread takes more of the rest.
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/relax.h"
#include "plan/net_roll.h"

// The part at work, how many items it has and how many of them are claimed, in one number. Groups
// and panels are fewer than 2^16.
typedef struct work {
    int at, items, claimed;
} work;

static unsigned long long work_of(int at, int items) {
    return (unsigned long long)at << 32 | (unsigned long long)items << 16;
}

static work work_at(unsigned long long w) {
    return (work){(int)(w >> 32), (int)(w >> 16 & 0xffff), (int)(w & 0xffff)};
}

// Blocks that the rest may fill.
enum { REST_BLOCKS = 2 };

struct plan_net_rest {
    plan_net_job job;
    plan_net_pieces pieces;
    plan_net_team alone;  // for the roll, which is nobody's
    roll roll;            // of the rest's candidates
    int parts;
    char* scratch;
    _Alignas(64) atomic_int claimed;    // pieces
    _Alignas(64) atomic_ullong at;      // work_of() the part at work
    _Alignas(64) atomic_int done;       // items of the part at work
    _Alignas(64) atomic_int nonfinite;  // of the rest
};

firm_status plan_net_rest_create(const plan_net* net, plan_net_rest** out, firm_error* err) {
    const int lanes = REST_BLOCKS * plan_net_block_lanes(net);
    plan_net_rest* rest = *out = mem_calloc(1, sizeof *rest);
    // zeroed, so that the pages are there before the first rollout
    if (rest) rest->scratch = mem_calloc(1, net_scratch_layout(net, lanes, NULL, &(scratch){0}));
    if (!rest || !rest->scratch) {
        plan_net_rest_free(rest);
        *out = NULL;
        return FAIL(err, FIRM_E_MEMORY, "no memory for the candidates that threads share");
    }
    rest->roll.net = net;
    rest->roll.of = net_strides(net);
    net_scratch_layout(net, lanes, rest->scratch, &rest->roll.s);
    return FIRM_OK;
}

void plan_net_rest_free(plan_net_rest* rest) {
    if (!rest) return;
    mem_free(rest->scratch);
    mem_free(rest);
}

size_t plan_net_rest_bytes(const plan_net* net) {
    return sizeof(plan_net_rest) +
           net_scratch_layout(net, REST_BLOCKS * plan_net_block_lanes(net), NULL, &(scratch){0});
}

int plan_net_rest_lanes(const plan_net* net) {
    return REST_BLOCKS * plan_net_block_lanes(net);
}

void plan_net_rest_begin(plan_net_rest* rest, const plan_net_job* job,
                         const plan_net_pieces* pieces) {
    roll* r = &rest->roll;
    const net_kernels* k = r->net->kernels;
    rest->job = *job;
    rest->pieces = *pieces;
    rest->alone = (plan_net_team){.members = 1};
    r->job = &rest->job;
    r->team = &rest->alone;
    r->first = (pieces->units - pieces->rest) * k->unit;
    r->n = pieces->rest ? job->n - r->first : 0;
    r->count = net_cut(k, pieces->rest, r->panels);
    memset(r->bad, 0, (size_t)r->n);
    rest->parts = pieces->rest ? job->horizon * net_parts_of_step(r->net) : 0;
    atomic_store(&rest->claimed, 0);
    atomic_store(&rest->done, 0);
    atomic_store(&rest->nonfinite, 0);
    atomic_store(&rest->at, work_of(0, r->count));  // the first part: inputs
}

static void run_item(plan_net_rest* rest, int at, int item) {
    roll* r = &rest->roll;
    const part p = net_part_at(r, at);
    if (at == 0 && item == 0) net_set_start(r);
    net_run_item(r, &p, item);
    if (at < rest->parts - 1) return;
    const panel* q = &r->panels[item];
    int bad = 0;
    for (int i = q->lane; i < q->lane + q->width && i < r->n; i++) bad += r->bad[i];
    if (bad) atomic_fetch_add_explicit(&rest->nonfinite, bad, memory_order_relaxed);
}

int net_rest_help(plan_net_rest* rest, int reached) {
    unsigned long long now = atomic_load_explicit(&rest->at, memory_order_acquire);
    const work w = work_at(now);
    if (w.at >= rest->parts || w.at >= reached || w.claimed == w.items) return 0;
    // another was quicker: that is something to do, too
    if (!atomic_compare_exchange_strong_explicit(&rest->at, &now, now + 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return 1;
    run_item(rest, w.at, w.claimed);
    if (atomic_fetch_add_explicit(&rest->done, 1, memory_order_acq_rel) + 1 < w.items) return 1;
    int items = 0;
    if (w.at + 1 < rest->parts) {
        const part next = net_part_at(&rest->roll, w.at + 1);
        items = net_part_items(&rest->roll, &next);
    }
    atomic_store_explicit(&rest->done, 0, memory_order_relaxed);
    atomic_store_explicit(&rest->at, work_of(w.at + 1, items), memory_order_release);
    return 1;
}

// Looks at the rest before giving way to another thread that wants the core.
enum { LOOKS = 200 };

// Until the rest is done. What is missing is always an item that another thread is working at.
static void finish_rest(plan_net_rest* rest) {
    for (int idle = 0;
         work_at(atomic_load_explicit(&rest->at, memory_order_acquire)).at < rest->parts;) {
        if (net_rest_help(rest, rest->parts)) {
            idle = 0;
        } else if (++idle < LOOKS) {
            relax();
        } else {
            sched_yield();
        }
    }
}

int plan_net_rest_share(plan_net_rest* rest, void* scratch, plan_net_spent* spent) {
    const plan_net* net = rest->roll.net;
    const net_kernels* k = net->kernels;
    const plan_net_team alone = {.members = 1, .scratch = scratch, .spent = spent};
    const plan_net_shape* shape = &net->shape;
    int nonfinite = 0;
    roll r;
    net_roll_make(&r, net, &alone, 0);
    r.rest = rest->parts ? rest : NULL;
    if (k->begin) k->begin();
    for (int i; (i = atomic_fetch_add(&rest->claimed, 1)) < rest->pieces.count;) {
        int from, to;
        plan_net_job job = rest->job;
        plan_net_piece(net, &rest->pieces, i, &from, &to);
        job.n = to - from;
        job.u += (size_t)from * (size_t)(job.horizon * shape->action);
        job.c_out += (size_t)from * (size_t)(job.horizon * shape->config);
        r.job = &job;
        nonfinite += net_roll_job(&r);
    }
    if (r.rest) finish_rest(rest);
    if (spent) spent->wait += clock_ns() - spent->since;
    if (k->end) k->end();
    return nonfinite;
}

int plan_net_rest_nonfinite(const plan_net_rest* rest) {
    return atomic_load(&rest->nonfinite);
}
