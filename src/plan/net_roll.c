// net_roll.c - rolls candidates out through the packed net, by one thread or by a team.
//
// Candidates are cut into blocks whose activations stay in the L2 cache through all macro steps, a
// block into panels. For each group of output features the weights stay in L1 while the block's
// panels pass by. In a team, a member computes a share of every product's groups for all panels,
// then what is left of other members' shares, and what goes feature by feature (inputs, LayerNorm,
// outputs) for a share of the panels; the members meet in between. A share is the same at every
// macro step, so its weights stay in its core's L2.
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/meet.h"
#include "plan/net_internal.h"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static inline
#include "nn/spatial.h"
#include "plan/net_claims.h"

// A team's memory; every array holds its panels one after another, each (features, width).
typedef struct scratch {
    float* x;        // c, m, u
    char* operand;   // the same as operands; x itself where these are float32
    float* h;        // residual stream
    char* a;         // operands: normalised h, and behind it the spatial features
    char* g;         // operands: inner activations
    float* spatial;  // spatial features
    float* base;     // (hidden) b_in and what the start adds to it
    float* start;    // one narrow panel of [c0, m0]
    char* start_operand;
} scratch;

// Features that an array has per candidate.
typedef struct strides {
    int x, operand, h, a, g;
} strides;

// One member's view of a rollout.
typedef struct roll {
    const plan_net* net;
    const plan_net_job* job;
    const plan_net_team* team;
    int member;
    scratch s;
    strides of;
    int turn;      // 0 or 1: which of the claims count for the product at work
    int first, n;  // candidates of the block at work
    int count;
    panel panels[NET_MOST_PANELS];
    unsigned char bad[NET_MOST_LANES];  // by candidate of the block
} roll;

// ---- memory -------------------------------------------------------------------------------------

static int larger(int a, int b) {
    return a > b ? a : b;
}

static strides strides_of(const plan_net* net) {
    const plan_net_shape* s = &net->shape;
    const net_kernels* k = net->kernels;
    int state = s->config + s->fiber, inputs = state + s->action;
    return (strides){.x = larger(inputs, net_round_up(state, k->rows)),
                     .operand = net_round_up(inputs, k->depth),
                     .h = net_round_up(s->hidden, k->rows),
                     .a = net_hidden_depth(net) +
                          (s->spatial ? net_round_up(nn_push_features(&net->push), k->depth) : 0),
                     .g = net_round_up(larger(s->spatial, s->inner), k->rows)};
}

// Memory for a block of `lanes` candidates; without any the size alone.
static size_t scratch_layout(const plan_net* net, int lanes, char* memory, scratch* s) {
    const plan_net_shape* shape = &net->shape;
    const net_kernels* k = net->kernels;
    strides of = strides_of(net);
    size_t n = (size_t)lanes, unit = (size_t)k->unit, bytes = (size_t)k->bytes, at = 0;
    size_t state = (size_t)(shape->config + shape->fiber);
    struct {
        void* slot;
        size_t bytes;
    } part[] = {
        {&s->x, 4 * n * (size_t)of.x},
        {&s->operand, k->bytes == 4 ? 0 : bytes * n * (size_t)of.operand},
        {&s->h, 4 * n * (size_t)of.h},
        {&s->a, bytes * n * (size_t)of.a},
        {&s->g, bytes * n * (size_t)of.g},
        {&s->spatial, 4 * n * (size_t)nn_push_features(&net->push)},
        {&s->base, 4 * (size_t)of.h},
        {&s->start, 4 * state * unit},
        {&s->start_operand, bytes * (size_t)net_round_up((int)state, k->depth) * unit},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (memory) memcpy(part[i].slot, &(char*){memory + at}, sizeof(char*));
        at += (part[i].bytes + 63) / 64 * 64;
    }
    if (memory && k->bytes == 4) s->operand = (char*)s->x;
    return at;
}

size_t plan_net_scratch_bytes(const plan_net* net) {
    return scratch_layout(net, plan_net_block_lanes(net), NULL, &(scratch){0});
}

// ---- a member's share ---------------------------------------------------------------------------

// The time since the last call went into this part of plan_net_spent.
#define SPENT(r, part)                                              \
    do {                                                            \
        if ((r)->team->spent) {                                     \
            plan_net_spent* spent = &(r)->team->spent[(r)->member]; \
            int64_t now = clock_ns();                               \
            spent->part += now - spent->since;                      \
            spent->since = now;                                     \
        }                                                           \
    } while (0)

static void wait_for_team(const roll* r) {
    if (r->team->members == 1) return;
    meet_wait(r->team->at);
    SPENT(r, wait);
}

// The first group of a member's share; the last is before the next member's first.
static int share_from(const roll* r, int groups, int member) {
    return groups * member / r->team->members;
}

// Loops over the member's panels: for (OWN_PANELS(r, q))
#define OWN_PANELS(r, q)                        \
    const panel* q = (r)->panels + (r)->member; \
    q < (r)->panels + (r)->count;               \
    q += (r)->team->members

// Where a panel begins in an array of so many features and bytes a number.
static size_t offset(const panel* q, int stride, int bytes) {
    return (size_t)q->lane * (size_t)stride * (size_t)bytes;
}

// ---- products -----------------------------------------------------------------------------------

typedef struct layer {
    const packed* p;
    int skip;           // inputs that all candidates share, a multiple of the depth: start_group()
    int groups;         // of outputs
    const float* bias;  // (groups * rows)
    const char* in;
    int in_stride;
    void* out;
    int out_stride;
    net_epilogue epilogue;
} layer;

// The panels i .. panels_alike() - 1 have one kind.
static int panels_alike(const roll* r, int i) {
    const net_panel_kernels* kind = r->panels[i].kernels;
    while (i < r->count && r->panels[i].kernels == kind) i++;
    return i;
}

// Inputs of the state that come in whole depths: these are the same for all candidates at the first
// step, and what they add is computed once.
static int shared_inputs(const plan_net* net) {
    int state = net->shape.config + net->shape.fiber;
    return state / net->kernels->depth * net->kernels->depth;
}

// one narrow panel of the start, for share_start()
static void set_start(const roll* r) {
    const plan_net_shape* shape = &r->net->shape;
    const net_kernels* k = r->net->kernels;
    int state = shape->config + shape->fiber;
    for (int f = 0; f < state; f++)
        for (int i = 0; i < k->unit; i++)
            r->s.start[f * k->unit + i] =
                f < shape->config ? r->job->c0[f] : r->job->m0[f - shape->config];
    k->panel[k->panels - 1].round(r->s.start, state, r->s.start_operand);
}

// base = b_in + the shared inputs' products, for one group
static void start_group(const roll* r, const packed* p, int g) {
    const net_kernels* k = r->net->kernels;
    int rows = k->rows;
    _Alignas(64) float tile[NET_MOST_ROWS * NET_MOST_UNIT];
    k->panel[k->panels - 1].product(&(net_products){
        .w = (const char*)p->w + (size_t)g * (size_t)p->inputs * (size_t)(rows * k->bytes),
        .bias = p->bias + g * rows,
        .inputs = shared_inputs(r->net),
        .epilogue = NET_STORE,
        .count = 1,
        .in = r->s.start_operand,
        .out = (char*)tile});
    for (int i = 0; i < rows; i++) r->s.base[g * rows + i] = tile[i * k->unit];
}

// The next group that nobody has begun: of the member's own share, then of the others'. -1: none.
static int next_group(const roll* r, int groups) {
    const int members = r->team->members;
    for (int i = 0; i < members; i++) {
        int of = (r->member + i) % members, from = share_from(r, groups, of),
            count = share_from(r, groups, of + 1) - from;
        atomic_int* taken = &r->team->claims[of].taken[r->turn];
        if (atomic_load_explicit(taken, memory_order_relaxed) >= count) continue;
        int at = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
        if (at < count) return from + at;
    }
    return -1;
}

// One group for all panels. next: 1 if the same thread will probably take the one behind it.
static void multiply_group(const roll* r, const layer* l, int g, int next) {
    const net_kernels* k = r->net->kernels;
    int inputs = l->p->inputs, out_bytes = l->epilogue == NET_GELU ? k->bytes : 4;
    size_t each = (size_t)(k->rows * k->bytes), group = each * (size_t)inputs;
    const char* w = (const char*)l->p->w + (size_t)g * group + (size_t)l->skip * each;
    for (int i = 0, to; i < r->count; i = to) {
        const panel* q = &r->panels[i];
        to = panels_alike(r, i);
        net_products p = {.w = w,
                          .bias = l->bias + g * k->rows,
                          .inputs = inputs - l->skip,
                          .epilogue = l->epilogue,
                          .count = to - i,
                          .in_step = (size_t)(q->width * l->in_stride * k->bytes),
                          .out_step = (size_t)(q->width * l->out_stride * out_bytes),
                          .ahead = k->ahead && i == 0 && next ? w + group : NULL};
        p.in = l->in + offset(q, l->in_stride, k->bytes) + (size_t)(l->skip * q->width * k->bytes);
        p.out = (char*)l->out + offset(q, l->out_stride, out_bytes) +
                (size_t)(g * k->rows * q->width * out_bytes);
        q->kernels->product(&p);
    }
}

static void product(roll* r, const layer* l) {
    if (r->team->members == 1) {
        for (int g = 0; g < l->groups; g++) {
            if (l->skip) start_group(r, l->p, g);
            multiply_group(r, l, g, g + 1 < l->groups);
        }
        SPENT(r, product);
        return;
    }
    // nobody is at the other count: all have left the last product, and none begins the next
    // before this member has come to the meeting
    atomic_store_explicit(&r->team->claims[r->member].taken[1 - r->turn], 0, memory_order_relaxed);
    const int end = share_from(r, l->groups, r->member + 1);
    for (int g; (g = next_group(r, l->groups)) >= 0;) {
        if (l->skip) start_group(r, l->p, g);
        multiply_group(r, l, g, g + 1 != end && g + 1 < l->groups);
    }
    r->turn = 1 - r->turn;
    SPENT(r, product);
    wait_for_team(r);
}

static void product_in(roll* r, int first) {
    const packed* p = &r->net->in;
    const int skip = first ? shared_inputs(r->net) : 0;
    product(r, &(layer){.p = p,
                        .skip = skip,
                        .groups = p->groups,
                        .bias = skip ? r->s.base : p->bias,
                        .in = r->s.operand,
                        .in_stride = r->net->kernels->bytes == 4 ? r->of.x : r->of.operand,
                        .out = r->s.h,
                        .out_stride = r->of.h,
                        .epilogue = NET_STORE});
}

// ---- a macro step -------------------------------------------------------------------------------

// s(c, v, u) of every candidate of a panel, behind LN(h); v is read from the fiber
static void spatial_inputs(const roll* r, const panel* q) {
    const plan_net* net = r->net;
    const plan_net_shape* shape = &net->shape;
    const nn_push* push = &net->push;
    int w = q->width, state = shape->config + shape->fiber, bytes = net->kernels->bytes;
    const int features = nn_push_features(push);
    const float* x = r->s.x + offset(q, r->of.x, 1);
    float* to = r->s.spatial + offset(q, features, 1);
    for (int j = 0; j < w; j++) {
        float c[SPATIAL_CONFIG], u[SPATIAL_ACTION], f[NN_PUSH_FEATURES];
        float v[2] = {net->velocity[2 * shape->fiber], net->velocity[2 * shape->fiber + 1]};
        for (int i = 0; i < 2; i++) {
            c[i] = x[(push->angle + i) * w + j];
            c[2 + i] = x[push->agent[i] * w + j];
            c[4 + i] = x[push->block[i] * w + j];
            for (int k = 0; k < push->controls; k++)
                u[2 * k + i] = x[(state + k * push->action + i) * w + j];
        }
        for (int k = 0; k < shape->fiber; k++) {
            float m = x[(shape->config + k) * w + j];
            v[0] += m * net->velocity[2 * k];
            v[1] += m * net->velocity[2 * k + 1];
        }
        spatial_features(push, c, v, u, net->mean, net->std, f);
        for (int k = 0; k < features; k++) to[k * w + j] = f[k];
    }
    q->kernels->round(
        to, features,
        r->s.a + offset(q, r->of.a, bytes) + (size_t)(net_hidden_depth(net) * w * bytes));
}

static void normalise(const roll* r, int with_spatial) {
    for (OWN_PANELS(r, q)) {
        q->kernels->normalise(r->s.h + offset(q, r->of.h, 1), r->net->shape.hidden,
                              r->s.a + offset(q, r->of.a, r->net->kernels->bytes));
        if (with_spatial) spatial_inputs(r, q);
    }
    SPENT(r, normalise);
    wait_for_team(r);
}

// h += GELU(LN(h) W1 + b1) W2 + b2
static void residual(roll* r, const packed* first, const packed* second, int with_spatial) {
    normalise(r, with_spatial);
    product(r, &(layer){.p = first,
                        .groups = first->groups,
                        .bias = first->bias,
                        .in = r->s.a,
                        .in_stride = r->of.a,
                        .out = r->s.g,
                        .out_stride = r->of.g,
                        .epilogue = NET_GELU});
    product(r, &(layer){.p = second,
                        .groups = second->groups,
                        .bias = second->bias,
                        .in = r->s.g,
                        .in_stride = r->of.g,
                        .out = r->s.h,
                        .out_stride = r->of.h,
                        .epilogue = NET_ADD});
}

// One macro step of the block's panels; x holds c, m and u and receives c' and m'.
static void step(roll* r, int first, int last) {
    const plan_net* net = r->net;
    const plan_net_shape* shape = &net->shape;
    int rows = net->kernels->rows;
    product_in(r, first);
    if (shape->spatial) residual(r, &net->spatial_first, &net->spatial_second, 1);
    for (int b = 0; b < shape->blocks; b++) residual(r, &net->first[b], &net->second[b], 0);
    normalise(r, 0);
    // nobody reads m after the last step
    product(r, &(layer){.p = &net->heads,
                        .groups = last ? (shape->config + rows - 1) / rows : net->heads.groups,
                        .bias = net->heads.bias,
                        .in = r->s.a,
                        .in_stride = r->of.a,
                        .out = r->s.x,
                        .out_stride = r->of.x,
                        .epilogue = NET_ADD});
}

// ---- a block ------------------------------------------------------------------------------------

// The actions of macro step t, and at first the start; idle lanes repeat the last candidate.
static void set_inputs(const roll* r, const panel* q, int t) {
    const plan_net* net = r->net;
    const plan_net_shape* shape = &net->shape;
    const plan_net_job* job = r->job;
    int state = shape->config + shape->fiber;
    float* x = r->s.x + offset(q, r->of.x, 1);
    for (int j = 0; j < q->width; j++) {
        int row = r->first + (q->lane + j < r->n ? q->lane + j : r->n - 1);
        const float* from =
            job->u + ((size_t)row * (size_t)job->horizon + (size_t)t) * (size_t)shape->action;
        for (int a = 0; a < shape->action; a++) {
            float v = from[a] < net->u_low[a] ? net->u_low[a] : from[a];
            x[(state + a) * q->width + j] = v > net->u_high[a] ? net->u_high[a] : v;
        }
    }
    for (int f = 0; f < state && t == 0; f++)
        for (int j = 0; j < q->width; j++)
            x[f * q->width + j] = f < shape->config ? job->c0[f] : job->m0[f - shape->config];
    if (net->kernels->bytes != 4)
        q->kernels->round(x, state + shape->action,
                          r->s.operand + offset(q, r->of.operand, net->kernels->bytes));
}

static void take_outputs(roll* r, const panel* q, int t) {
    const plan_net_shape* shape = &r->net->shape;
    const plan_net_job* job = r->job;
    float* x = r->s.x + offset(q, r->of.x, 1);
    q->kernels->unit_pairs(x, shape->pairs);
    for (int j = 0; j < q->width && q->lane + j < r->n; j++) {
        size_t row = (size_t)(r->first + q->lane + j);
        float* to = job->c_out + (row * (size_t)job->horizon + (size_t)t) * (size_t)shape->config;
        for (int f = 0; f < shape->config; f++) {
            to[f] = x[f * q->width + j];
            if (!isfinite(to[f])) r->bad[q->lane + j] = 1;
        }
    }
}

// Returns those of the member's candidates that are not finite.
static int roll_block(roll* r) {
    int unit = r->net->kernels->unit, nonfinite = 0;
    r->count = net_cut(r->net->kernels, (r->n + unit - 1) / unit, r->panels);
    memset(r->bad, 0, (size_t)r->n);
    if (r->member == 0) set_start(r);
    for (int t = 0; t < r->job->horizon; t++) {
        for (OWN_PANELS(r, q)) set_inputs(r, q, t);
        SPENT(r, edges);
        wait_for_team(r);
        step(r, t == 0, t == r->job->horizon - 1);
        for (OWN_PANELS(r, q)) take_outputs(r, q, t);
    }
    for (int i = 0; i < r->n; i++) nonfinite += r->bad[i];
    SPENT(r, edges);
    return nonfinite;
}

int plan_net_rollout_share(const plan_net* net, const plan_net_job* job, const plan_net_team* team,
                           int member) {
    const net_kernels* k = net->kernels;
    int lanes = team->members * plan_net_block_lanes(net), most = lanes / k->unit;
    int units = (job->n + k->unit - 1) / k->unit, blocks = net_blocks(units, most);
    int nonfinite = 0;
    roll r;  // not cleared: large, and every part is set before it is read
    r.net = net;
    r.job = job;
    r.team = team;
    r.member = member;
    r.of = strides_of(net);
    scratch_layout(net, lanes, team->scratch, &r.s);
    r.turn = 0;
    if (team->members > 1) atomic_store(&team->claims[member].taken[0], 0);
    if (k->begin) k->begin();
    if (team->spent) team->spent[member].since = clock_ns();
    for (int b = 0; b < blocks; b++) {
        r.first = net_block_from(k, units, blocks, b) * k->unit;
        int end = net_block_from(k, units, blocks, b + 1) * k->unit;
        r.n = (end < job->n ? end : job->n) - r.first;
        nonfinite += roll_block(&r);
        wait_for_team(&r);  // the next block's panels lie elsewhere
    }
    if (k->end) k->end();
    return nonfinite;
}

int plan_net_rollout(const plan_net* net, void* scratch, int n, int horizon, const float* c0,
                     const float* m0, const float* u, float* c_out) {
    plan_net_job job = {n, horizon, c0, m0, u, c_out};
    plan_net_team alone = {.members = 1, .scratch = scratch};
    return plan_net_rollout_share(net, &job, &alone, 0);
}
