// net.c - packs the transition's weights for the kernels of net_simd.c and rolls candidates out.
//
// A thread's candidates are cut into blocks whose activations stay in the L2 cache through all
// macro steps, a block into panels. For each group of output features the weights stay in L1 while
// the block's panels pass by. Each LayerNorm's scale and shift are folded into the product that
// follows it.
#include "plan/net.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/simd.h"
#include "plan/net_kernels.h"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static inline
#include "nn/spatial.h"

// Lanes of a block: hidden + hidden + inner = 1536 floats each, 590 KB at 96; measured best between
// 64 and 128 with 1 MB of L2.
enum { BLOCK_LANES = 96, MAX_PANELS = BLOCK_LANES / 4, MAX_SIZE = 1 << 16 };

typedef struct packed {
    int inputs, outputs, groups;
    float* w;     // (groups, inputs, rows)
    float* bias;  // (groups * rows)
} packed;

struct plan_net {
    plan_net_shape shape;
    const net_kernels* kernels;
    packed in, first[PLAN_MAX_BLOCKS], second[PLAN_MAX_BLOCKS], heads;
    packed spatial_first, spatial_second;  // of LN(h) and s, if there is a spatial residual
    float* velocity;                       // (fiber + 1, 2), the last row is b_v
    float mean[2], std[2];                 // of raw actions
    float *u_low, *u_high;                 // (action), inside memory
    float* memory;
    size_t bytes;
};

typedef struct panel {
    const net_panel_kernels* kernels;
    int lane, width;  // first candidate within the block, candidates
} panel;

// One thread's memory; every array holds its panels one after another, each (features, width).
typedef struct scratch {
    float* x;      // c, m, u
    float* h;      // residual stream
    float* a;      // normalised h, and behind it the spatial features
    float* g;      // inner activations
    float* base;   // (hidden) b_in + [c0, m0] W_in
    float* start;  // one narrow panel of [c0, m0]
    float* tile;   // one narrow output group
} scratch;

static int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// ---- choice of instruction set ------------------------------------------------------------------

static const net_kernels* pick_kernels(void) {
#if defined(__x86_64__)
    switch (simd_best()) {
        case SIMD_AVX512: return &net_kernels_avx512;
        case SIMD_AVX2: return &net_kernels_avx2;
        default: break;
    }
#elif defined(__aarch64__)
    if (simd_best() == SIMD_NEON) return &net_kernels_neon;
#endif
    return &net_kernels_plain;
}

// ---- packing ------------------------------------------------------------------------------------

static size_t packed_floats(const plan_net* net, int inputs, int outputs) {
    int rows = net->kernels->rows;
    return (size_t)round_up(outputs, rows) * (size_t)(inputs + 1) + 32;
}

static packed packed_at(const plan_net* net, int inputs, int outputs, float** cursor) {
    int rows = net->kernels->rows;
    packed p = {inputs, outputs, round_up(outputs, rows) / rows, *cursor, NULL};
    size_t w = (size_t)p.groups * (size_t)inputs * (size_t)rows;
    p.bias = *cursor + (w + 15) / 16 * 16;
    *cursor += (packed_floats(net, inputs, outputs) + 15) / 16 * 16;
    return p;
}

// Packs w (inputs, outputs) behind a LayerNorm's scale and shift (nullable) into the outputs
// first .. first + outputs - 1 of p, which was zeroed. `inputs` may be fewer than p has.
static void pack(const plan_net* net, packed* p, int first, int inputs, int outputs, const float* w,
                 const float* b, const float* scale, const float* shift) {
    int rows = net->kernels->rows;
    for (int o = 0; o < outputs; o++) {
        int group = (first + o) / rows, row = (first + o) % rows;
        float* to = p->w + (size_t)group * (size_t)p->inputs * (size_t)rows + row;
        double bias = b[o];
        for (int k = 0; k < inputs; k++) {
            double weight = w[(size_t)k * (size_t)outputs + (size_t)o];
            if (shift) bias += shift[k] * weight;
            to[(size_t)k * (size_t)rows] = (float)(scale ? scale[k] * weight : weight);
        }
        p->bias[first + o] = (float)bias;
    }
}

// the spatial residual: inputs LN(h), then s, which no LayerNorm precedes
static void pack_spatial(plan_net* net, const plan_net_spatial* from, float** cursor) {
    const plan_net_shape* s = &net->shape;
    const plan_net_block* b = &from->block;
    packed* p = &net->spatial_first;
    int rows = net->kernels->rows;
    *p = packed_at(net, s->hidden + SPATIAL_FEATURES, s->spatial, cursor);
    pack(net, p, 0, s->hidden, s->spatial, b->w1, b->b1, b->ln_scale, b->ln_shift);
    for (int o = 0; o < s->spatial; o++)
        for (int k = 0; k < SPATIAL_FEATURES; k++)
            p->w[((o / rows) * p->inputs + s->hidden + k) * rows + o % rows] =
                from->w_s[(size_t)k * (size_t)s->spatial + (size_t)o];
    net->spatial_second = packed_at(net, s->spatial, s->hidden, cursor);
    pack(net, &net->spatial_second, 0, s->spatial, s->hidden, b->w2, b->b2, NULL, NULL);
    net->velocity = *cursor;
    memcpy(*cursor, from->w_v, 2 * (size_t)s->fiber * sizeof(float));
    memcpy(*cursor + 2 * s->fiber, from->b_v, 2 * sizeof(float));
    *cursor += round_up(2 * s->fiber + 2, 16);
    memcpy(net->mean, from->mean, sizeof net->mean);
    memcpy(net->std, from->std, sizeof net->std);
}

static firm_status check_shape(const plan_net_shape* s, firm_error* err) {
    if (s->config < 1 || s->config > FIRM_MAX_CONFIG || s->pairs < 0 || 2 * s->pairs > s->config ||
        s->fiber < 0 || s->action < 1 || s->hidden < 1 || s->inner < 1 || s->blocks < 0 ||
        s->blocks > PLAN_MAX_BLOCKS || s->fiber > MAX_SIZE || s->action > MAX_SIZE ||
        s->hidden > MAX_SIZE || s->inner > MAX_SIZE)
        return FAIL(err, FIRM_E_VALUE,
                    "transition of config %d (pairs %d), fiber %d, action %d, hidden %d, inner %d, "
                    "blocks %d "
                    "cannot be planned with; check the model file's dimensions",
                    s->config, s->pairs, s->fiber, s->action, s->hidden, s->inner, s->blocks);
    if (s->spatial < 0 || s->spatial > MAX_SIZE ||
        (s->spatial && (s->config != SPATIAL_CONFIG || s->action != SPATIAL_ACTION)))
        return FAIL(err, FIRM_E_VALUE,
                    "a spatial residual of %d units with config %d, action %d cannot be planned "
                    "with; check the model file's dimensions",
                    s->spatial, s->config, s->action);
    return FIRM_OK;
}

firm_status plan_net_create(const plan_net_shape* shape, const plan_net_weights* weights,
                            plan_net** out, firm_error* err) {
    *out = NULL;
    TRY(check_shape(shape, err));
    plan_net* net = mem_calloc(1, sizeof *net);
    if (!net) return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's transition");
    net->shape = *shape;
    net->kernels = pick_kernels();

    int x = shape->config + shape->fiber + shape->action, state = shape->config + shape->fiber;
    size_t floats = packed_floats(net, x, shape->hidden) +
                    packed_floats(net, shape->hidden, state) + 32 + 2 * (size_t)shape->action;
    for (int i = 0; i < shape->blocks; i++)
        floats += packed_floats(net, shape->hidden, shape->inner) +
                  packed_floats(net, shape->inner, shape->hidden) + 32;
    if (shape->spatial)
        floats += packed_floats(net, shape->hidden + SPATIAL_FEATURES, shape->spatial) +
                  packed_floats(net, shape->spatial, shape->hidden) + 32 +
                  (size_t)round_up(2 * shape->fiber + 2, 16);
    net->bytes = floats * sizeof(float);
    net->memory = mem_calloc(floats, sizeof(float));
    if (!net->memory) {
        plan_net_free(net);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %zu bytes of packed transition weights",
                    floats * sizeof(float));
    }
    float* cursor = net->memory;
    net->in = packed_at(net, x, shape->hidden, &cursor);
    pack(net, &net->in, 0, x, shape->hidden, weights->w_in, weights->b_in, NULL, NULL);
    if (shape->spatial) pack_spatial(net, &weights->spatial, &cursor);
    for (int i = 0; i < shape->blocks; i++) {
        const plan_net_block* b = &weights->block[i];
        net->first[i] = packed_at(net, shape->hidden, shape->inner, &cursor);
        pack(net, &net->first[i], 0, shape->hidden, shape->inner, b->w1, b->b1, b->ln_scale,
             b->ln_shift);
        net->second[i] = packed_at(net, shape->inner, shape->hidden, &cursor);
        pack(net, &net->second[i], 0, shape->inner, shape->hidden, b->w2, b->b2, NULL, NULL);
    }
    // both heads as one product whose output is added to [c, m]
    net->heads = packed_at(net, shape->hidden, state, &cursor);
    pack(net, &net->heads, 0, shape->hidden, shape->config, weights->w_c, weights->b_c,
         weights->ln_scale, weights->ln_shift);
    if (shape->fiber)
        pack(net, &net->heads, shape->config, shape->hidden, shape->fiber, weights->w_m,
             weights->b_m, weights->ln_scale, weights->ln_shift);
    net->u_low = cursor;
    net->u_high = cursor + shape->action;
    for (int i = 0; i < shape->action; i++) {
        net->u_low[i] = weights->u_low ? weights->u_low[i] : -INFINITY;
        net->u_high[i] = weights->u_high ? weights->u_high[i] : INFINITY;
    }
    cursor += 2 * shape->action;
    CHECK(cursor <= net->memory + floats, "packed weights overrun their block");
    *out = net;
    return FIRM_OK;
}

void plan_net_free(plan_net* net) {
    if (!net) return;
    mem_free(net->memory);
    mem_free(net);
}

void plan_net_shape_get(const plan_net* net, plan_net_shape* shape) {
    *shape = net->shape;
}
const char* plan_net_simd(const plan_net* net) {
    return net->kernels->name;
}
int plan_net_lanes(const plan_net* net) {
    return net->kernels->unit;
}
size_t plan_net_bytes(const plan_net* net) {
    return net->bytes;
}

int64_t plan_net_macs(const plan_net_shape* s) {
    int64_t hidden = s->hidden, spatial = s->spatial;
    return (int64_t)(s->config + s->fiber + s->action) * hidden +
           2 * (int64_t)s->blocks * hidden * s->inner + hidden * (s->config + s->fiber) +
           (spatial ? spatial * (2 * hidden + SPATIAL_FEATURES) + 2 * s->fiber : 0);
}

// ---- rollout ------------------------------------------------------------------------------------

static int x_features(const plan_net* net) {
    int state = net->shape.config + net->shape.fiber, padded = round_up(state, net->kernels->rows);
    return state + net->shape.action > padded ? state + net->shape.action : padded;
}

// rows of the normalised h of a panel, and of its inner activations
static int a_features(const plan_net* net) {
    int hidden = net->shape.hidden, padded = round_up(hidden, net->kernels->rows);
    return net->shape.spatial ? hidden + SPATIAL_FEATURES : padded;
}

static int g_features(const plan_net* net) {
    const plan_net_shape* s = &net->shape;
    return round_up(s->spatial > s->inner ? s->spatial : s->inner, net->kernels->rows);
}

static size_t scratch_layout(const plan_net* net, float* memory, scratch* s) {
    int rows = net->kernels->rows, unit = net->kernels->unit;
    int hidden = round_up(net->shape.hidden, rows);
    size_t at = 0;
    struct {
        float** p;
        size_t floats;
    } part[] = {
        {&s->x, (size_t)x_features(net) * BLOCK_LANES},
        {&s->h, (size_t)hidden * BLOCK_LANES},
        {&s->a, (size_t)a_features(net) * BLOCK_LANES},
        {&s->g, (size_t)g_features(net) * BLOCK_LANES},
        {&s->base, (size_t)hidden},
        {&s->start, (size_t)(net->shape.config + net->shape.fiber) * (size_t)unit},
        {&s->tile, (size_t)rows * (size_t)unit},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (memory) *part[i].p = memory + at;
        at += (part[i].floats + 15) / 16 * 16;
    }
    return at * sizeof(float);
}

size_t plan_net_scratch_bytes(const plan_net* net) {
    scratch s;
    return scratch_layout(net, NULL, &s);
}

// Cuts `units` units of candidates into panels, widest first.
static int cut_panels(const net_kernels* k, int units, panel* out) {
    int count = 0, lane = 0;
    for (int i = 0; i < k->panels; i++)
        for (; units >= k->panel[i].units; units -= k->panel[i].units) {
            int width = k->panel[i].units * k->unit;
            out[count++] = (panel){&k->panel[i], lane, width};
            lane += width;
        }
    return count;
}

// Adds the inputs from `skip` on; `in` and `out` have in_stride and out_stride features per panel.
static void product(const plan_net* net, const packed* p, int skip, int groups, const float* bias,
                    const panel* panels, int count, const float* in, int in_stride, float* out,
                    int out_stride, net_epilogue epilogue) {
    int rows = net->kernels->rows;
    for (int g = 0; g < groups; g++) {
        const float* w = p->w + ((size_t)g * (size_t)p->inputs + (size_t)skip) * (size_t)rows;
        for (int i = 0; i < count; i++) {
            const panel* q = &panels[i];
            q->kernels->product(
                w, bias + g * rows, p->inputs - skip,
                in + (size_t)q->lane * (size_t)in_stride + (size_t)skip * (size_t)q->width,
                out + (size_t)q->lane * (size_t)out_stride + (size_t)(g * rows * q->width),
                epilogue);
        }
    }
}

// base = b_in + [c0, m0] W_in, the same for all candidates at the first step
static void share_start(const plan_net* net, scratch* s, const float* c0, const float* m0) {
    const net_kernels* k = net->kernels;
    int state = net->shape.config + net->shape.fiber, unit = k->unit;
    for (int f = 0; f < state; f++)
        for (int i = 0; i < unit; i++)
            s->start[f * unit + i] = f < net->shape.config ? c0[f] : m0[f - net->shape.config];
    for (int g = 0; g < net->in.groups; g++) {
        k->panel[k->panels - 1].product(
            net->in.w + (size_t)g * (size_t)net->in.inputs * (size_t)k->rows,
            net->in.bias + g * k->rows, state, s->start, s->tile, NET_STORE);
        for (int r = 0; r < k->rows; r++) s->base[g * k->rows + r] = s->tile[r * unit];
    }
}

static void normalise(const panel* panels, int count, const float* in, int in_stride, int features,
                      float* out, int out_stride) {
    for (int i = 0; i < count; i++) {
        size_t lane = (size_t)panels[i].lane;
        panels[i].kernels->normalise(in + lane * (size_t)in_stride, features,
                                     out + lane * (size_t)out_stride);
    }
}

// s(c, v, u) of every lane, behind LN(h); v is read from the fiber
static void spatial_inputs(const plan_net* net, scratch* s, const panel* panels, int count) {
    const plan_net_shape* shape = &net->shape;
    int xs = x_features(net), as = a_features(net), state = shape->config + shape->fiber;
    for (int i = 0; i < count; i++) {
        const panel* q = &panels[i];
        int w = q->width;
        const float* x = s->x + (size_t)q->lane * (size_t)xs;
        float* to = s->a + (size_t)q->lane * (size_t)as + (size_t)shape->hidden * (size_t)w;
        for (int j = 0; j < w; j++) {
            float c[SPATIAL_CONFIG], u[SPATIAL_ACTION], f[SPATIAL_FEATURES];
            float v[2] = {net->velocity[2 * shape->fiber], net->velocity[2 * shape->fiber + 1]};
            for (int k = 0; k < SPATIAL_CONFIG; k++) c[k] = x[k * w + j];
            for (int k = 0; k < SPATIAL_ACTION; k++) u[k] = x[(state + k) * w + j];
            for (int k = 0; k < shape->fiber; k++) {
                float m = x[(SPATIAL_CONFIG + k) * w + j];
                v[0] += m * net->velocity[2 * k];
                v[1] += m * net->velocity[2 * k + 1];
            }
            spatial_features(c, v, u, net->mean, net->std, f);
            for (int k = 0; k < SPATIAL_FEATURES; k++) to[k * w + j] = f[k];
        }
    }
}

// One macro step of the block's panels; x holds c, m and u and receives c' and m'.
static void step(const plan_net* net, scratch* s, const panel* panels, int count, int first,
                 int last) {
    const plan_net_shape* shape = &net->shape;
    int rows = net->kernels->rows, state = shape->config + shape->fiber;
    int xs = x_features(net), hs = round_up(shape->hidden, rows);
    int as = a_features(net), gs = g_features(net);

    product(net, &net->in, first ? state : 0, net->in.groups, first ? s->base : net->in.bias,
            panels, count, s->x, xs, s->h, hs, NET_STORE);
    if (shape->spatial) {
        normalise(panels, count, s->h, hs, shape->hidden, s->a, as);
        spatial_inputs(net, s, panels, count);
        product(net, &net->spatial_first, 0, net->spatial_first.groups, net->spatial_first.bias,
                panels, count, s->a, as, s->g, gs, NET_GELU);
        product(net, &net->spatial_second, 0, net->spatial_second.groups, net->spatial_second.bias,
                panels, count, s->g, gs, s->h, hs, NET_ADD);
    }
    for (int b = 0; b < shape->blocks; b++) {
        normalise(panels, count, s->h, hs, shape->hidden, s->a, as);
        product(net, &net->first[b], 0, net->first[b].groups, net->first[b].bias, panels, count,
                s->a, as, s->g, gs, NET_GELU);
        product(net, &net->second[b], 0, net->second[b].groups, net->second[b].bias, panels, count,
                s->g, gs, s->h, hs, NET_ADD);
    }
    normalise(panels, count, s->h, hs, shape->hidden, s->a, as);
    // nobody reads m after the last step
    int groups = last ? (shape->config + rows - 1) / rows : net->heads.groups;
    product(net, &net->heads, 0, groups, net->heads.bias, panels, count, s->a, as, s->x, xs,
            NET_ADD);
    for (int i = 0; i < count; i++)
        panels[i].kernels->unit_pairs(s->x + (size_t)panels[i].lane * (size_t)xs, shape->pairs);
}

// A block of n candidates, u and c_out at its first one; idle lanes repeat the last candidate.
static int roll_block(const plan_net* net, scratch* s, int n, int horizon, const float* c0,
                      const float* m0, const float* u, float* c_out) {
    const plan_net_shape* shape = &net->shape;
    int unit = net->kernels->unit, xs = x_features(net), state = shape->config + shape->fiber;
    panel panels[MAX_PANELS];
    int count = cut_panels(net->kernels, (n + unit - 1) / unit, panels);
    unsigned char bad[BLOCK_LANES] = {0};

    for (int t = 0; t < horizon; t++) {
        for (int i = 0; i < count; i++) {
            const panel* q = &panels[i];
            float* x = s->x + (size_t)q->lane * (size_t)xs;
            for (int j = 0; j < q->width; j++) {
                int row = q->lane + j < n ? q->lane + j : n - 1;
                const float* from =
                    u + ((size_t)row * (size_t)horizon + (size_t)t) * (size_t)shape->action;
                for (int a = 0; a < shape->action; a++) {
                    float v = from[a] < net->u_low[a] ? net->u_low[a] : from[a];
                    x[(state + a) * q->width + j] = v > net->u_high[a] ? net->u_high[a] : v;
                }
            }
            if (t == 0)
                for (int f = 0; f < state; f++)
                    for (int j = 0; j < q->width; j++)
                        x[f * q->width + j] = f < shape->config ? c0[f] : m0[f - shape->config];
        }
        step(net, s, panels, count, t == 0, t == horizon - 1);
        for (int i = 0; i < count; i++) {
            const panel* q = &panels[i];
            const float* x = s->x + (size_t)q->lane * (size_t)xs;
            for (int j = 0; j < q->width && q->lane + j < n; j++) {
                float* to = c_out + ((size_t)(q->lane + j) * (size_t)horizon + (size_t)t) *
                                        (size_t)shape->config;
                for (int f = 0; f < shape->config; f++) {
                    to[f] = x[f * q->width + j];
                    if (!isfinite(to[f])) bad[q->lane + j] = 1;
                }
            }
        }
    }
    int nonfinite = 0;
    for (int i = 0; i < n; i++) nonfinite += bad[i];
    return nonfinite;
}

int plan_net_rollout(const plan_net* net, void* memory, int n, int horizon, const float* c0,
                     const float* m0, const float* u, float* c_out) {
    scratch s;
    scratch_layout(net, memory, &s);
    share_start(net, &s, c0, m0);
    int unit = net->kernels->unit, units = (n + unit - 1) / unit, most = BLOCK_LANES / unit;
    int blocks = (units + most - 1) / most, nonfinite = 0;
    for (int b = 0; b < blocks; b++) {
        int from = units * b / blocks * unit, to = units * (b + 1) / blocks * unit;
        if (to > n) to = n;
        nonfinite += roll_block(net, &s, to - from, horizon, c0, m0,
                                u + (size_t)from * (size_t)horizon * (size_t)net->shape.action,
                                c_out + (size_t)from * (size_t)horizon * (size_t)net->shape.config);
    }
    return nonfinite;
}
