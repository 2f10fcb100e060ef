// lewm_net.c - see lewm_net.h: packs the weights. lewm_roll.c multiplies with them.
#include "plan/lewm_net.h"

#include <string.h>

#include "core/mem.h"
#include "core/simd.h"
#include "nn/cpu/gemm.h"
#include "plan/bf16.h"
#include "plan/lewm_layers.h"
#include "plan/lewm_weights.h"

// Outputs of a hidden layer that are made at a time: their GELU finds them in the second cache.
enum { HIDDEN = 256, CHUNKS = LEWM_CHUNKS };

// ---- packing ------------------------------------------------------------------------------------

// Weight (i, j) is at i * step + j, or turned at j * step + i.
typedef struct matrix {
    const float* w;
    int step, turned;
} matrix;

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's copy of the model");
}

// A layer of zeros.
static firm_status make(lewm_net* net, int in, int out, int each, lewm_layer* l, firm_error* err) {
    *l = (lewm_layer){.in = in, .out = out, .each = each};
    l->packed = net->products
                    ? (size_t)lewm_padded(in, LEWM_DEPTH) * (size_t)lewm_padded(each, LEWM_STRIP)
                    : nn_gemm_packed(in, each);
    const size_t all = (size_t)lewm_layer_parts(l) * l->packed;
    if (net->products)
        l->w16 = mem_calloc(all, sizeof *l->w16);
    else
        l->w = mem_calloc(all, sizeof *l->w);
    l->b = mem_calloc((size_t)out, sizeof *l->b);
    if (!(l->w || l->w16) || !l->b) return no_memory(err);
    net->bytes += all * (l->w16 ? sizeof *l->w16 : sizeof *l->w) + (size_t)out * sizeof *l->b;
    return FIRM_OK;
}

// Strips of LEWM_STRIP outputs, pairs of inputs side by side; to starts as zeros.
static void pack_pairs(const matrix* from, int in, int n, uint16_t* to) {
    const int k = lewm_padded(in, LEWM_DEPTH);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < n; j++) {
            const int strip = j / LEWM_STRIP * LEWM_STRIP;
            const size_t pair = (size_t)strip * (size_t)k + (size_t)(i / 2 * 2 * LEWM_STRIP),
                         at = from->turned ? (size_t)j * (size_t)from->step + (size_t)i
                                           : (size_t)i * (size_t)from->step + (size_t)j;
            to[pair + (size_t)(2 * (j - strip) + i % 2)] = bf16_of(from->w[at]);
        }
}

static void pack_part(const matrix* from, int part, lewm_layer* to) {
    const size_t at = (size_t)part * to->packed;
    const int n = lewm_layer_outputs(to, part);
    if (to->w16)
        pack_pairs(from, to->in, n, to->w16 + at);
    else
        nn_gemm_pack(to->in, n, from->w, from->step, from->turned, to->w + at);
}

// Columns first .. first + n - 1 of a layer, in parts of `each`.
static firm_status pack_columns(lewm_net* net, const lewm_fold* from, int first, int n, int each,
                                lewm_layer* to, firm_error* err) {
    TRY(make(net, from->in, n, each, to, err));
    for (int part = 0; part < lewm_layer_parts(to); part++) {
        const matrix columns = {.w = from->w + first + part * each, .step = from->out};
        pack_part(&columns, part, to);
    }
    memcpy(to->b, from->b + first, (size_t)n * sizeof *to->b);
    return FIRM_OK;
}

static firm_status pack(lewm_net* net, const lewm_fold* from, int each, lewm_layer* to,
                        firm_error* err) {
    return pack_columns(net, from, 0, from->out, each, to, err);
}

static firm_status pack_whole(lewm_net* net, const lewm_fold* from, lewm_layer* to,
                              firm_error* err) {
    return pack(net, from, from->out, to, err);
}

// Biases of keys add the same to every score of a query, so softmax does not see them.
static firm_status pack_turned_keys(lewm_net* net, const lewm_fold* qkv, lewm_layer* to,
                                    firm_error* err) {
    const int head = net->shape.predictor_head, heads = net->shape.predictor_heads;
    TRY(make(net, head, heads * qkv->in, qkv->in, to, err));
    for (int h = 0; h < heads; h++) {
        const matrix keys = {.w = qkv->w + net->inner + h * head, .step = qkv->out, .turned = 1};
        pack_part(&keys, h, to);
    }
    return FIRM_OK;
}

// out(V u) as one layer
static firm_status pack_alone(lewm_net* net, const lewm_fold* qkv, const lewm_fold* out,
                              lewm_layer* to, firm_error* err) {
    const size_t in = (size_t)qkv->in, n = (size_t)out->out;
    float* room = mem_alloc((in + 1) * n * sizeof *room);
    if (!room) return no_memory(err);
    const lewm_fold both = {.in = qkv->in, .out = out->out, .w = room, .b = room + in * n};
    nn_product p = {.m = qkv->in,
                    .k = net->inner,
                    .n = out->out,
                    .a = qkv->w + 2 * net->inner,
                    .lda = qkv->out,
                    .b = out->w,
                    .ldb = out->out,
                    .c = both.w,
                    .ldc = out->out};
    nn_gemm(&p);
    p.m = 1;
    p.a = qkv->b + 2 * net->inner;
    p.bias = out->b;
    p.c = both.b;
    nn_gemm(&p);
    firm_status st = pack_whole(net, &both, to, err);
    mem_free(room);
    return st;
}

static firm_status pack_block(lewm_net* net, const lewm_folded* from, lewm_packed* to,
                              firm_error* err) {
    const int inner = net->inner, head = net->shape.predictor_head;
    TRY(pack_alone(net, &from->qkv, &from->out, &to->alone, err));
    TRY(pack_columns(net, &from->qkv, 0, inner, head, &to->q, err));
    TRY(pack_turned_keys(net, &from->qkv, &to->turned_k, err));
    TRY(pack_columns(net, &from->qkv, 2 * inner, inner, head, &to->v, err));
    TRY(pack_whole(net, &from->out, &to->out, err));
    TRY(pack(net, &from->up, HIDDEN, &to->up, err));
    return pack_whole(net, &from->down, &to->down, err);
}

static firm_status pack_all(lewm_net* net, lewm_weights* w, firm_error* err) {
    TRY(pack_whole(net, &w->patch, &net->patch, err));
    TRY(pack(net, &w->embed_up, HIDDEN, &net->embed_up, err));
    TRY(pack_whole(net, &w->embed_down, &net->embed_down, err));
    TRY(pack(net, &w->modulation, CHUNKS * net->shape.width, &net->modulation, err));
    for (int i = 0; i < net->shape.predictor_depth; i++)
        TRY(pack_block(net, &w->block[i], &net->block[i], err));
    TRY(pack(net, &w->head_up, HIDDEN, &net->head_up, err));
    TRY(pack_whole(net, &w->head_down, &net->head_down, err));
    net->positions = w->positions;  // taken over
    w->positions = NULL;
    return FIRM_OK;
}

extern const lewm_rows lewm_rows_plain;
#if defined(__x86_64__)
extern const lewm_rows lewm_rows_avx2, lewm_rows_avx512;
#elif defined(__aarch64__)
extern const lewm_rows lewm_rows_neon;
#endif

const lewm_rows* lewm_rows_get(void) {
#if defined(__x86_64__)
    if (simd_best() == SIMD_AVX512) return &lewm_rows_avx512;
    if (simd_best() == SIMD_AVX2) return &lewm_rows_avx2;
#elif defined(__aarch64__)
    if (simd_best() == SIMD_NEON) return &lewm_rows_neon;
#endif
    return &lewm_rows_plain;
}

const lewm_products* lewm_products_get(void) {
#if defined(__x86_64__)
    if (simd_best_bf16() == SIMD_AMX) return &lewm_products_amx;
    if (simd_best_bf16() == SIMD_AVX512BF16) return &lewm_products_avx512bf16;
#endif
    return NULL;
}

firm_status lewm_net_create(const lewm_model* m, lewm_net** out, firm_error* err) {
    return lewm_net_create_bf16(m, NULL, out, err);
}

firm_status lewm_net_create_bf16(const lewm_model* m, const lewm_products* with, lewm_net** out,
                                 firm_error* err) {
    *out = NULL;
    lewm_net* net = mem_calloc(1, sizeof *net);
    if (!net) return no_memory(err);
    net->shape = m->shape;
    net->action = lewm_action_dim(m);
    net->inner = m->shape.predictor_heads * m->shape.predictor_head;
    net->rows = lewm_rows_get();
    net->loops = nn_loops_get();
    net->products = with;
    net->bytes = sizeof *net;
    net->block = mem_calloc((size_t)m->shape.predictor_depth, sizeof *net->block);
    lewm_weights w = {0};
    firm_status st = net->block ? lewm_weights_take(m, &w, err) : no_memory(err);
    if (st == FIRM_OK) st = pack_all(net, &w, err);
    lewm_weights_free(&w);
    if (st != FIRM_OK) {
        lewm_net_free(net);
        return st;
    }
    *out = net;
    return FIRM_OK;
}

static void layer_free(lewm_layer* l) {
    mem_free(l->w);
    mem_free(l->w16);
    mem_free(l->b);
}

void lewm_net_free(lewm_net* net) {
    if (!net) return;
    lewm_layer* part[] = {&net->patch,      &net->embed_up, &net->embed_down,
                          &net->modulation, &net->head_up,  &net->head_down};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) layer_free(part[i]);
    for (int i = 0; net->block && i < net->shape.predictor_depth; i++) {
        lewm_packed* b = &net->block[i];
        lewm_layer* of[] = {&b->alone, &b->q, &b->turned_k, &b->v, &b->out, &b->up, &b->down};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++) layer_free(of[k]);
    }
    mem_free(net->block);
    mem_free(net->positions);
    mem_free(net);
}

size_t lewm_net_bytes(const lewm_net* net) {
    return net->bytes;
}
const char* lewm_net_simd(const lewm_net* net) {
    return net->products ? net->products->name : net->rows->name;
}
int lewm_net_width(const lewm_net* net) {
    return net->shape.width;
}
int lewm_net_action(const lewm_net* net) {
    return net->action;
}
