// net_roll.c - rolls candidates out through the packed net, by one thread or by a team.
//
// Candidates are cut into blocks whose activations stay in the L2 cache through all macro steps, a
// block into panels. For each group of output features the weights stay in L1 while the block's
// panels pass by. In a team, a member computes a share of every product's groups for all panels,
// then what is left of other members' shares, and what goes feature by feature (inputs, LayerNorm,
// outputs) for a share of the panels; the members meet in between. A share is the same at every
// macro step, so its weights stay in its core's L2.
#include "plan/net_roll.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/meet.h"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static inline
#include "nn/spatial.h"
#include "plan/net_claims.h"

// ---- memory -------------------------------------------------------------------------------------

static int larger(int a, int b) {
    return a > b ? a : b;
}

strides net_strides(const plan_net* net) {
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
size_t net_scratch_layout(const plan_net* net, int lanes, char* memory, scratch* s) {
    const plan_net_shape* shape = &net->shape;
    const net_kernels* k = net->kernels;
    strides of = net_strides(net);
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
    return net_scratch_layout(net, plan_net_block_lanes(net), NULL, &(scratch){0});
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
void net_set_start(const roll* r) {
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

// Some consecutive groups for all panels.
typedef struct run_of {
    int group, groups;
    int next;              // 1: the same thread will probably take the group behind them
    net_waiting* waiting;  // by kind of panel, or NULL
} run_of;

// The panels i .. to - 1, of one kind.
static void multiply(const roll* r, const layer* l, const run_of* run, int i, int to) {
    const net_kernels* k = r->net->kernels;
    const panel* q = &r->panels[i];
    const int out_bytes = l->epilogue == NET_GELU ? k->bytes : 4;
    const size_t each = (size_t)(k->rows * k->bytes), group = each * (size_t)l->p->inputs;
    net_products p = {
        .inputs = l->p->inputs - l->skip,
        .w_step = group,
        .epilogue = l->epilogue,
        .count = to - i,
        .in = l->in + offset(q, l->in_stride, k->bytes) + (size_t)(l->skip * q->width * k->bytes),
        .in_step = (size_t)(q->width * l->in_stride * k->bytes),
        .out_step = (size_t)(q->width * l->out_stride * out_bytes),
        .waiting = run->waiting ? &run->waiting[q->kernels - k->panel] : NULL};
    const int end = run->group + run->groups;
    for (int g = run->group; g < end; g += p.groups) {
        p.groups = end - g < q->kernels->groups ? end - g : q->kernels->groups;
        p.w = (const char*)l->p->w + (size_t)g * group + (size_t)l->skip * each;
        p.bias = l->bias + g * k->rows;
        p.out = (char*)l->out + offset(q, l->out_stride, out_bytes) +
                (size_t)(g * k->rows * q->width * out_bytes);
        const int last = g + p.groups == end;
        p.ahead = k->ahead && i == 0 && (run->next || !last)
                      ? (const char*)p.w + (size_t)p.groups * group
                      : NULL;
        q->kernels->product(&p);
    }
}

static void run_groups(const roll* r, const layer* l, const run_of* run) {
    for (int g = run->group; l->skip && g < run->group + run->groups; g++) start_group(r, l->p, g);
    for (int i = 0, to; i < r->count; i = to) {
        to = panels_alike(r, i);
        multiply(r, l, run, i, to);
    }
}

// Nobody shares this product, so what a kernel leaves undone in a group it does in the next one.
static void product_alone(roll* r, const layer* l) {
    const net_kernels* k = r->net->kernels;
    net_waiting waiting[NET_MOST_KINDS];
    for (int i = 0; i < k->panels; i++) waiting[i].left = (net_left){0};
    const int each = r->panels[0].kernels->groups;
    for (int g = 0; g < l->groups; g += each) {
        const int groups = l->groups - g < each ? l->groups - g : each;
        run_groups(r, l, &(run_of){g, groups, g + groups < l->groups, waiting});
        if (r->rest) net_rest_help(r->rest, r->reached);
    }
    for (int i = 0; i < k->panels; i++)
        if (k->panel[i].finish) k->panel[i].finish(&waiting[i], l->epilogue);
    SPENT(r, product);
}

static void product(roll* r, const layer* l) {
    if (r->team->members == 1) {
        product_alone(r, l);
        return;
    }
    // nobody is at the other count: all have left the last product, and none begins the next
    // before this member has come to the meeting
    atomic_store_explicit(&r->team->claims[r->member].taken[1 - r->turn], 0, memory_order_relaxed);
    const int end = share_from(r, l->groups, r->member + 1);
    for (int g; (g = next_group(r, l->groups)) >= 0;) {
        run_groups(r, l, &(run_of){g, 1, g + 1 != end && g + 1 < l->groups, NULL});
    }
    r->turn = 1 - r->turn;
    SPENT(r, product);
    wait_for_team(r);
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

static void normalise(const roll* r, const panel* q, int with_spatial) {
    q->kernels->normalise(r->s.h + offset(q, r->of.h, 1), r->net->shape.hidden,
                          r->s.a + offset(q, r->of.a, r->net->kernels->bytes));
    if (with_spatial) spatial_inputs(r, q);
}

// ---- inputs and outputs of a macro step ---------------------------------------------------------

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

// ---- the parts of a rollout ---------------------------------------------------------------------

// Inputs, W_in, (LN, W1, W2) of every residual, LN, heads, outputs.
int net_parts_of_step(const plan_net* net) {
    return 5 + 3 * (net->shape.blocks + (net->shape.spatial > 0));
}

static layer layer_in(const roll* r, int first_step) {
    const packed* p = &r->net->in;
    const int skip = first_step ? shared_inputs(r->net) : 0;
    return (layer){.p = p,
                   .skip = skip,
                   .groups = p->groups,
                   .bias = skip ? r->s.base : p->bias,
                   .in = r->s.operand,
                   .in_stride = r->net->kernels->bytes == 4 ? r->of.x : r->of.operand,
                   .out = r->s.h,
                   .out_stride = r->of.h,
                   .epilogue = NET_STORE};
}

// h += GELU(LN(h) W1 + b1) W2 + b2: the product with W1 or W2
static layer layer_residual(const roll* r, int residual, int second) {
    const plan_net* net = r->net;
    const int block = residual - (net->shape.spatial > 0);
    const packed* first = block < 0 ? &net->spatial_first : &net->first[block];
    const packed* p = !second ? first : block < 0 ? &net->spatial_second : &net->second[block];
    return (layer){.p = p,
                   .groups = p->groups,
                   .bias = p->bias,
                   .in = second ? r->s.g : r->s.a,
                   .in_stride = second ? r->of.g : r->of.a,
                   .out = second ? (void*)r->s.h : r->s.g,
                   .out_stride = second ? r->of.h : r->of.g,
                   .epilogue = second ? NET_ADD : NET_GELU};
}

// nobody reads m after the last step
static layer layer_heads(const roll* r, int last_step) {
    const packed* p = &r->net->heads;
    const int rows = r->net->kernels->rows;
    return (layer){.p = p,
                   .groups = last_step ? (r->net->shape.config + rows - 1) / rows : p->groups,
                   .bias = p->bias,
                   .in = r->s.a,
                   .in_stride = r->of.a,
                   .out = r->s.x,
                   .out_stride = r->of.x,
                   .epilogue = NET_ADD};
}

part net_part_at(const roll* r, int at) {
    const int each = net_parts_of_step(r->net), step = at / each, i = at % each;
    const int last = step == r->job->horizon - 1;
    if (i == 0) return (part){.kind = INPUTS, .step = step};
    if (i == each - 1) return (part){.kind = OUTPUTS, .step = step};
    if (i == 1) return (part){.kind = PRODUCT, .step = step, .layer = layer_in(r, step == 0)};
    if (i == each - 2) return (part){.kind = PRODUCT, .step = step, .layer = layer_heads(r, last)};
    const int residual = (i - 2) / 3, which = (i - 2) % 3;
    if (which == 0)
        return (part){
            .kind = NORMALISE, .step = step, .spatial = residual == 0 && r->net->shape.spatial > 0};
    return (part){.kind = PRODUCT, .step = step, .layer = layer_residual(r, residual, which == 2)};
}

int net_part_items(const roll* r, const part* p) {
    return p->kind == PRODUCT ? p->layer.groups : r->count;
}

static void run_panel(roll* r, const part* p, const panel* q) {
    switch (p->kind) {
        case INPUTS: set_inputs(r, q, p->step); break;
        case NORMALISE: normalise(r, q, p->spatial); break;
        case OUTPUTS: take_outputs(r, q, p->step); break;
        case PRODUCT: break;
    }
}

void net_run_item(roll* r, const part* p, int item) {
    if (p->kind == PRODUCT)
        run_groups(r, &p->layer, &(run_of){item, 1, 0, NULL});
    else
        run_panel(r, p, &r->panels[item]);
}

// ---- a block ------------------------------------------------------------------------------------

// Returns those of the member's candidates that are not finite.
static int roll_block(roll* r, int block, int blocks) {
    const int parts = r->job->horizon * net_parts_of_step(r->net), unit = r->net->kernels->unit;
    int nonfinite = 0;
    r->count = net_cut(r->net->kernels, (r->n + unit - 1) / unit, r->panels);
    memset(r->bad, 0, (size_t)r->n);
    if (r->member == 0) net_set_start(r);
    for (int at = 0; at < parts; at++) {
        const part p = net_part_at(r, at);
        r->reached = (block * parts + at) / blocks + 1;
        if (p.kind == PRODUCT) {
            product(r, &p.layer);
            continue;
        }
        for (OWN_PANELS(r, q)) run_panel(r, &p, q);
        if (p.kind == NORMALISE)
            SPENT(r, normalise);
        else
            SPENT(r, edges);
        if (p.kind != OUTPUTS) wait_for_team(r);  // a panel's inputs belong to the same member
    }
    for (int i = 0; i < r->n; i++) nonfinite += r->bad[i];
    SPENT(r, edges);
    return nonfinite;
}

int net_roll_job(roll* r) {
    const net_kernels* k = r->net->kernels;
    int most = r->team->members * plan_net_block_lanes(r->net) / k->unit, nonfinite = 0;
    int units = (r->job->n + k->unit - 1) / k->unit, blocks = net_blocks(units, most);
    for (int b = 0; b < blocks; b++) {
        r->first = net_block_from(k, units, blocks, b) * k->unit;
        int end = net_block_from(k, units, blocks, b + 1) * k->unit;
        r->n = (end < r->job->n ? end : r->job->n) - r->first;
        nonfinite += roll_block(r, b, blocks);
        wait_for_team(r);  // the next block's panels lie elsewhere
    }
    return nonfinite;
}

void net_roll_make(roll* r, const plan_net* net, const plan_net_team* team, int member) {
    r->net = net;
    r->team = team;
    r->member = member;
    r->rest = NULL;
    r->of = net_strides(net);
    net_scratch_layout(net, team->members * plan_net_block_lanes(net), team->scratch, &r->s);
    r->turn = 0;
    if (team->members > 1) atomic_store(&team->claims[member].taken[0], 0);
    if (team->spent) team->spent[member].since = clock_ns();
}

int plan_net_rollout_share(const plan_net* net, const plan_net_job* job, const plan_net_team* team,
                           int member) {
    const net_kernels* k = net->kernels;
    roll r;
    net_roll_make(&r, net, team, member);
    r.job = job;
    if (k->begin) k->begin();
    int nonfinite = net_roll_job(&r);
    if (k->end) k->end();
    return nonfinite;
}

int plan_net_rollout(const plan_net* net, void* scratch, int n, int horizon, const float* c0,
                     const float* m0, const float* u, float* c_out) {
    plan_net_job job = {n, horizon, c0, m0, u, c_out};
    plan_net_team alone = {.members = 1, .scratch = scratch};
    return plan_net_rollout_share(net, &job, &alone, 0);
}
