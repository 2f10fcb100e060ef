// net.c - packs the transition's weights for the kernels (net_kernels.h); net_roll.c rolls out.
// Each LayerNorm's scale and shift are folded into the product that follows it.
#include "plan/net.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/simd.h"
#include "plan/bf16.h"
#include "plan/net_internal.h"

enum { MAX_SIZE = 1 << 16, ALIGN = 64 };

// ---- choice of kernels --------------------------------------------------------------------------

static const net_kernels* pick_fp32(void) {
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

static const net_kernels* pick_bf16(void) {
#if defined(__x86_64__)
    switch (simd_best_bf16()) {
        case SIMD_AMX: return &net_kernels_amx;
        case SIMD_AVX512BF16: return &net_kernels_avx512bf16;
        default: break;
    }
#endif
    return NULL;
}

firm_status net_kernels_pick(plan_precision precision, const net_kernels** out, firm_error* err) {
    *out = precision == PLAN_FP32 ? pick_fp32() : precision == PLAN_BF16 ? pick_bf16() : NULL;
    if (*out) return FIRM_OK;
    if (precision == PLAN_BF16)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "bf16 on the CPU needs AMX or AVX512-BF16 instructions and this processor has "
                    "neither; use the precision fp32");
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "the CPU does not plan in %s; use the precision fp32 or bf16, or the device cuda",
                plan_precision_name(precision));
}

// ---- packing ------------------------------------------------------------------------------------

// Memory in two passes: without any it only counts.
typedef struct cursor {
    char* memory;
    size_t at;
} cursor;

static void* take(cursor* c, size_t bytes) {
    void* p = c->memory ? c->memory + c->at : NULL;
    c->at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static packed reserve(const plan_net* net, int inputs, int outputs, cursor* c) {
    const net_kernels* k = net->kernels;
    packed p = {net_round_up(inputs, k->depth), net_round_up(outputs, k->rows) / k->rows, NULL,
                NULL};
    size_t features = (size_t)(p.groups * k->rows);
    p.w = take(c, features * (size_t)p.inputs * (size_t)k->bytes);
    p.bias = take(c, features * sizeof(float));
    return p;
}

// Weights (inputs, outputs) that go to the inputs and outputs of a product from `input` and
// `output` on, behind a LayerNorm's scale and shift (nullable).
typedef struct matrix {
    int inputs, outputs, input, output;
    const float *w, *b;  // b NULL: nothing is added to the bias
    const float *scale, *shift;
} matrix;

static void put(const net_kernels* k, const packed* p, size_t at, float value) {
    if (k->bytes == 4)
        ((float*)p->w)[at] = value;
    else
        ((uint16_t*)p->w)[at] = bf16_of(value);
}

// Outputs `first` to `first + count` of the matrix, which are in one group: weights are read and
// written in runs. A bias is summed over the inputs in their order.
static void pack_group(const plan_net* net, const packed* p, const matrix* m, int first,
                       int count) {
    const net_kernels* k = net->kernels;
    const int group = (m->output + first) / k->rows, row = (m->output + first) % k->rows;
    double bias[NET_MOST_ROWS];
    for (int r = 0; r < count; r++) bias[r] = m->b ? m->b[first + r] : 0;
    for (int i = 0; i < m->inputs; i++) {
        const float* w = m->w + (size_t)i * (size_t)m->outputs + (size_t)first;
        const double scale = m->scale ? m->scale[i] : 1;
        const int input = m->input + i;
        size_t at = (size_t)group * (size_t)p->inputs * (size_t)k->rows +
                    (size_t)((input / k->depth * k->rows + row) * k->depth + input % k->depth);
        for (int r = 0; r < count; r++, at += (size_t)k->depth) {
            if (m->shift) bias[r] += (double)m->shift[i] * w[r];
            put(k, p, at, (float)(scale * w[r]));
        }
    }
    for (int r = 0; m->b && r < count; r++) p->bias[m->output + first + r] = (float)bias[r];
}

// into zeroed memory
static void pack(const plan_net* net, const packed* p, const matrix* m) {
    const int rows = net->kernels->rows;
    for (int o = 0, count; o < m->outputs; o += count) {
        count = rows - (m->output + o) % rows;
        if (count > m->outputs - o) count = m->outputs - o;
        pack_group(net, p, m, o, count);
    }
}

int net_hidden_depth(const plan_net* net) {
    return net_round_up(net->shape.hidden, net->kernels->depth);
}

// Every array of the net, in the order in which a step reads them.
static void lay_out(plan_net* net, cursor* c) {
    const plan_net_shape* s = &net->shape;
    int state = s->config + s->fiber;
    net->in = reserve(net, state + s->action, s->hidden, c);
    if (s->spatial) {
        net->spatial_first =
            reserve(net, net_hidden_depth(net) + nn_push_features(&net->push), s->spatial, c);
        net->spatial_second = reserve(net, s->spatial, s->hidden, c);
        net->velocity = take(c, 2 * (size_t)(s->fiber + 1) * sizeof(float));
    }
    for (int i = 0; i < s->blocks; i++) {
        net->first[i] = reserve(net, s->hidden, s->inner, c);
        net->second[i] = reserve(net, s->inner, s->hidden, c);
    }
    net->heads = reserve(net, s->hidden, state, c);
    net->u_low = take(c, (size_t)s->action * sizeof(float));
    net->u_high = take(c, (size_t)s->action * sizeof(float));
}

static void pack_block(const plan_net* net, const plan_net_block* b, int inner, const packed* first,
                       const packed* second) {
    int hidden = net->shape.hidden;
    pack(net, first,
         &(matrix){.inputs = hidden,
                   .outputs = inner,
                   .w = b->w1,
                   .b = b->b1,
                   .scale = b->ln_scale,
                   .shift = b->ln_shift});
    pack(net, second, &(matrix){.inputs = inner, .outputs = hidden, .w = b->w2, .b = b->b2});
}

// the spatial residual: inputs LN(h), then s, which no LayerNorm precedes
static void pack_spatial(plan_net* net, const plan_net_spatial* from) {
    const plan_net_shape* s = &net->shape;
    pack_block(net, &from->block, s->spatial, &net->spatial_first, &net->spatial_second);
    pack(net, &net->spatial_first,
         &(matrix){.inputs = nn_push_features(&net->push),
                   .outputs = s->spatial,
                   .input = net_hidden_depth(net),
                   .w = from->w_s});
    memcpy(net->velocity, from->w_v, 2 * (size_t)s->fiber * sizeof(float));
    memcpy(net->velocity + 2 * s->fiber, from->b_v, 2 * sizeof(float));
    memcpy(net->mean, from->mean, sizeof net->mean);
    memcpy(net->std, from->std, sizeof net->std);
}

// both heads as one product whose output is added to [c, m]
static void pack_heads(const plan_net* net, const plan_net_weights* w) {
    const plan_net_shape* s = &net->shape;
    matrix m = {.inputs = s->hidden,
                .outputs = s->config,
                .w = w->w_c,
                .b = w->b_c,
                .scale = w->ln_scale,
                .shift = w->ln_shift};
    pack(net, &net->heads, &m);
    if (!s->fiber) return;
    m.output = s->config;
    m.outputs = s->fiber;
    m.w = w->w_m;
    m.b = w->b_m;
    pack(net, &net->heads, &m);
}

static void pack_all(plan_net* net, const plan_net_weights* w) {
    const plan_net_shape* s = &net->shape;
    pack(net, &net->in,
         &(matrix){.inputs = s->config + s->fiber + s->action,
                   .outputs = s->hidden,
                   .w = w->w_in,
                   .b = w->b_in});
    if (s->spatial) pack_spatial(net, &w->spatial);
    for (int i = 0; i < s->blocks; i++)
        pack_block(net, &w->block[i], s->inner, &net->first[i], &net->second[i]);
    pack_heads(net, w);
    for (int i = 0; i < s->action; i++) {
        net->u_low[i] = w->u_low ? w->u_low[i] : -INFINITY;
        net->u_high[i] = w->u_high ? w->u_high[i] : INFINITY;
    }
}

int plan_net_spatial_fits(const plan_net_shape* s, const plan_net_weights* w) {
    const nn_push* p = &w->spatial.push;
    if (!s->spatial) return p->boxes == 0;
    return s->spatial > 0 && s->spatial <= MAX_SIZE && nn_push_fits(p) && p->config == s->config &&
           p->controls * p->action == s->action;
}

static firm_status check_shape(const plan_net_shape* s, const plan_net_weights* w,
                               firm_error* err) {
    if (s->config < 1 || s->config > FIRM_MAX_CONFIG || s->pairs < 0 || 2 * s->pairs > s->config ||
        s->fiber < 0 || s->action < 1 || s->hidden < 1 || s->inner < 1 || s->blocks < 0 ||
        s->blocks > PLAN_MAX_BLOCKS || s->fiber > MAX_SIZE || s->action > MAX_SIZE ||
        s->hidden > MAX_SIZE || s->inner > MAX_SIZE)
        return FAIL(err, FIRM_E_VALUE,
                    "transition of config %d (pairs %d), fiber %d, action %d, hidden %d, inner %d, "
                    "blocks %d "
                    "cannot be planned with; check the model file's dimensions",
                    s->config, s->pairs, s->fiber, s->action, s->hidden, s->inner, s->blocks);
    if (!plan_net_spatial_fits(s, w))
        return FAIL(err, FIRM_E_VALUE,
                    "a spatial residual of %d units with config %d, action %d cannot be planned "
                    "with; check the model file's dimensions",
                    s->spatial, s->config, s->action);
    return FIRM_OK;
}

firm_status net_create_with(const net_kernels* kernels, const plan_net_shape* shape,
                            const plan_net_weights* weights, plan_net** out, firm_error* err) {
    *out = NULL;
    TRY(check_shape(shape, weights, err));
    plan_net* net = mem_calloc(1, sizeof *net);
    if (!net) return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's transition");
    net->shape = *shape;
    net->kernels = kernels;
    net->block = kernels->block;
    net->push = weights->spatial.push;
    cursor c = {0};
    lay_out(net, &c);
    net->bytes = c.at;
    net->memory = mem_calloc(c.at, 1);
    if (!net->memory) {
        plan_net_free(net);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %zu bytes of packed transition weights",
                    c.at);
    }
    c = (cursor){.memory = net->memory};
    lay_out(net, &c);
    pack_all(net, weights);
    *out = net;
    return FIRM_OK;
}

firm_status plan_net_create(const plan_net_shape* shape, const plan_net_weights* weights,
                            plan_precision precision, plan_net** out, firm_error* err) {
    const net_kernels* kernels;
    *out = NULL;
    TRY(net_kernels_pick(precision, &kernels, err));
    return net_create_with(kernels, shape, weights, out, err);
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
int plan_net_block_lanes(const plan_net* net) {
    return net->block;
}
size_t plan_net_bytes(const plan_net* net) {
    return net->bytes;
}

int64_t plan_net_macs(const plan_net_shape* s, const nn_push* push) {
    int64_t hidden = s->hidden, spatial = s->spatial;
    return (int64_t)(s->config + s->fiber + s->action) * hidden +
           2 * (int64_t)s->blocks * hidden * s->inner + hidden * (s->config + s->fiber) +
           (spatial ? spatial * (2 * hidden + (push ? nn_push_features(push) : 0)) + 2 * s->fiber
                    : 0);
}
