// lewm_net.c - see lewm_net.h. The products are nn/cpu/gemm.h's with packed weights or
// lewm_bf16.h's, the loops between them lewm_rows.h's.
#include "plan/lewm_net.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/simd.h"
#include "nn/cpu/gemm.h"
#include "nn/cpu/loops.h"
#include "plan/bf16.h"
#include "plan/lewm_rows.h"
#include "plan/lewm_weights.h"

// Candidates at a time: their activations stay in the second cache.
enum { BLOCK = 96, CHUNKS = LEWM_CHUNKS };

// Numbers from one row to the next where a product reads rows of `width` numbers: a product reads a
// dozen rows at once, and at distances of whole pages these would share a few sets of the first
// cache, which halves the speed.
static size_t apart(int width) {
    enum { LINE = 16, PAGE = 1024 };
    return (size_t)width + (width % PAGE == 0 ? LINE : 0);
}

// y = x w + b
typedef struct layer {
    int in, out;
    float* w;       // packed for nn/cpu/gemm.h,
    uint16_t* w16;  // or for lewm_bf16.h
    float* b;       // (out)
} layer;

typedef struct block {
    layer q, kv, out, up, down;
} block;

struct lewm_net {
    lewm_shape shape;
    int action, inner;  // inner: heads * head of the predictor
    const lewm_rows* rows;
    const nn_loops* loops;
    const lewm_products* products;  // of bfloat16; NULL: float32
    layer patch, embed_up, embed_down;
    layer modulation;  // of all blocks, side by side: shift, scale and gate of either branch
    block* block;      // (depth)
    layer head_up, head_down;
    float* positions;  // (context, width)
    size_t bytes;
};

// ---- packing ------------------------------------------------------------------------------------

// Strips of LEWM_STRIP outputs, pairs of inputs side by side; to starts as zeros.
static void pack_pairs(const lewm_fold* from, int first, int n, uint16_t* to) {
    const int k = lewm_padded(from->in, LEWM_DEPTH);
    for (int i = 0; i < from->in; i++)
        for (int j = 0; j < n; j++) {
            const int strip = j / LEWM_STRIP * LEWM_STRIP;
            const size_t pair = (size_t)strip * (size_t)k + (size_t)(i / 2 * 2 * LEWM_STRIP);
            to[pair + (size_t)(2 * (j - strip) + i % 2)] =
                bf16_of(from->w[(size_t)i * (size_t)from->out + (size_t)(first + j)]);
        }
}

// Columns first .. first + n - 1 of a layer.
static firm_status pack_columns(lewm_net* net, const lewm_fold* from, int first, int n, layer* out,
                                firm_error* err) {
    const size_t packed = net->products ? (size_t)lewm_padded(from->in, LEWM_DEPTH) *
                                              (size_t)lewm_padded(n, LEWM_STRIP)
                                        : nn_gemm_packed(from->in, n);
    out->in = from->in;
    out->out = n;
    if (net->products)
        out->w16 = mem_calloc(packed, sizeof *out->w16);
    else
        out->w = mem_alloc(packed * sizeof *out->w);
    out->b = mem_alloc((size_t)n * sizeof *out->b);
    net->bytes +=
        packed * (out->w16 ? sizeof *out->w16 : sizeof *out->w) + (size_t)n * sizeof *out->b;
    if (!(out->w || out->w16) || !out->b)
        return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's copy of the model");
    if (out->w16)
        pack_pairs(from, first, n, out->w16);
    else
        nn_gemm_pack(from->in, n, from->w + first, from->out, 0, out->w);
    memcpy(out->b, from->b + first, (size_t)n * sizeof *out->b);
    return FIRM_OK;
}

static firm_status pack(lewm_net* net, const lewm_fold* from, layer* out, firm_error* err) {
    return pack_columns(net, from, 0, from->out, out, err);
}

static firm_status pack_all(lewm_net* net, lewm_weights* w, firm_error* err) {
    const int inner = net->inner;
    TRY(pack(net, &w->patch, &net->patch, err));
    TRY(pack(net, &w->embed_up, &net->embed_up, err));
    TRY(pack(net, &w->embed_down, &net->embed_down, err));
    TRY(pack(net, &w->modulation, &net->modulation, err));
    for (int i = 0; i < net->shape.predictor_depth; i++) {
        const lewm_folded* from = &w->block[i];
        block* to = &net->block[i];
        TRY(pack_columns(net, &from->qkv, 0, inner, &to->q, err));
        TRY(pack_columns(net, &from->qkv, inner, 2 * inner, &to->kv, err));
        TRY(pack(net, &from->out, &to->out, err));
        TRY(pack(net, &from->up, &to->up, err));
        TRY(pack(net, &from->down, &to->down, err));
    }
    TRY(pack(net, &w->head_up, &net->head_up, err));
    TRY(pack(net, &w->head_down, &net->head_down, err));
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
    if (!net) return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's copy of the model");
    net->shape = m->shape;
    net->action = lewm_action_dim(m);
    net->inner = m->shape.predictor_heads * m->shape.predictor_head;
    net->rows = lewm_rows_get();
    net->loops = nn_loops_get();
    net->products = with;
    net->bytes = sizeof *net;
    net->block = mem_calloc((size_t)m->shape.predictor_depth, sizeof *net->block);
    lewm_weights w = {0};
    firm_status st = net->block ? lewm_weights_take(m, &w, err)
                                : FAIL(err, FIRM_E_MEMORY, "no memory for the planner");
    if (st == FIRM_OK) st = pack_all(net, &w, err);
    lewm_weights_free(&w);
    if (st != FIRM_OK) {
        lewm_net_free(net);
        return st;
    }
    *out = net;
    return FIRM_OK;
}

static void layer_free(layer* l) {
    mem_free(l->w);
    mem_free(l->w16);
    mem_free(l->b);
}

void lewm_net_free(lewm_net* net) {
    if (!net) return;
    layer* part[] = {&net->patch,      &net->embed_up, &net->embed_down,
                     &net->modulation, &net->head_up,  &net->head_down};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) layer_free(part[i]);
    for (int i = 0; net->block && i < net->shape.predictor_depth; i++) {
        layer_free(&net->block[i].q);
        layer_free(&net->block[i].kv);
        layer_free(&net->block[i].out);
        layer_free(&net->block[i].up);
        layer_free(&net->block[i].down);
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

// ---- rollouts -----------------------------------------------------------------------------------

// Memory of one thread; a token's rows are BLOCK candidates.
typedef struct work {
    const lewm_net* net;
    int n;              // candidates of this block
    float* modulation;  // (context, BLOCK, depth * 6 * width) of the latest actions, a ring
    float* kv;          // (depth, context, BLOCK, 2 * inner)
    float* x;           // (context, BLOCK, width) tokens
    float* u;           // (BLOCK, width)
    float* y;           // (BLOCK, width)
    float* q;           // (BLOCK, inner)
    float* o;           // (BLOCK, inner), rows apart(inner)
    float* h;           // (BLOCK, widest hidden layer), rows apart(its width)
    uint16_t* a;        // (BLOCK, widest input), rows apart16(its width): of a product in bfloat16
} work;

_Static_assert(BLOCK % LEWM_ROWS == 0, "products in bfloat16 read whole blocks of rows");

static size_t apart16(int width) {
    return (size_t)lewm_padded(width, LEWM_DEPTH) + LEWM_DEPTH;  // see apart()
}

static size_t widest(const lewm_net* net) {
    const lewm_shape* s = &net->shape;
    const size_t mlp = apart(s->predictor_mlp), head = apart(s->projector),
                 action = apart(s->action_mlp) + (size_t)s->action_hidden;
    const size_t n = mlp > head ? mlp : head;
    return n > action ? n : action;
}

static size_t lay_out(const lewm_net* net, char* memory, work* w) {
    const lewm_shape* s = &net->shape;
    const size_t c = (size_t)s->context, width = (size_t)s->width, d = (size_t)s->predictor_depth,
                 inner = (size_t)net->inner, n = BLOCK;
    struct {
        float** slot;
        size_t count;
    } part[] = {{&w->modulation, c * n * d * CHUNKS * width},
                {&w->kv, d * c * n * 2 * inner},
                {&w->x, c * n * width},
                {&w->u, n * width},
                {&w->y, n * width},
                {&w->q, n * inner},
                {&w->o, n * apart(net->inner)},
                {&w->h, n * widest(net)}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (memory) *part[i].slot = (float*)(void*)(memory + at);
        at += (part[i].count * sizeof(float) + 63) / 64 * 64;
    }
    if (!net->products) return at;
    if (memory) w->a = (uint16_t*)(void*)(memory + at);
    const int inputs[] = {net->action,      s->width,     s->action_hidden, s->action_mlp,
                          s->predictor_mlp, s->projector, net->inner};
    int widest_input = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] > widest_input) widest_input = inputs[i];
    return at + (n * apart16(widest_input) * sizeof *w->a + 63) / 64 * 64;
}

size_t lewm_net_scratch_bytes(const lewm_net* net) {
    work w;
    return lay_out(net, NULL, &w);
}

static void run16(const work* w, const layer* l, const float* a, int64_t lda, float* c,
                  int64_t ldc) {
    const lewm_products* with = w->net->products;
    with->round(w->n, l->in, a, (size_t)lda, w->a, apart16(l->in));
    with->product(&(lewm_product){.m = w->n,
                                  .n = l->out,
                                  .k = lewm_padded(l->in, LEWM_DEPTH),
                                  .a = w->a,
                                  .a_step = apart16(l->in),
                                  .b = l->w16,
                                  .bias = l->b,
                                  .c = c,
                                  .c_step = (size_t)ldc});
}

static void run(const work* w, const layer* l, const float* a, int64_t lda, float* c, int64_t ldc) {
    if (l->w16) {
        run16(w, l, a, lda, c, ldc);
        return;
    }
    nn_gemm(&(nn_product){.m = w->n,
                          .k = l->in,
                          .n = l->out,
                          .packed = 1,
                          .a = a,
                          .lda = lda,
                          .b = l->w,
                          .bias = l->b,
                          .c = c,
                          .ldc = ldc});
}

// c = down(GELU(up(x)))
static void run_hidden(const work* w, const layer* up, const layer* down, const float* x, float* c,
                       int64_t ldc) {
    const size_t step = apart(up->out);
    run(w, up, x, up->in, w->h, (int64_t)step);
    for (int i = 0; i < w->n; i++)
        w->net->loops->erfgelu(up->out, w->h + (size_t)i * step, w->h + (size_t)i * step);
    run(w, down, w->h, (int64_t)step, c, ldc);
}

static size_t modulation_step(const work* w) {
    return (size_t)(w->net->shape.predictor_depth * CHUNKS * w->net->shape.width);
}

// chunk i of the modulation of a block by action t
static const float* chunk(const work* w, int t, int block, int i) {
    const lewm_shape* s = &w->net->shape;
    return w->modulation + (size_t)(t % s->context) * BLOCK * modulation_step(w) +
           (size_t)((block * CHUNKS + i) * s->width);
}

static float* kv_of(const work* w, int block, int token) {
    return w->kv +
           (size_t)(block * w->net->shape.context + token) * BLOCK * 2 * (size_t)w->net->inner;
}

static float* token_of(const work* w, int token) {
    return w->x + (size_t)token * BLOCK * (size_t)w->net->shape.width;
}

// What action t does to every block: u of a candidate is at i * step.
static void embed(const work* w, int t, const float* u, int64_t step) {
    const lewm_net* net = w->net;
    const lewm_shape* s = &net->shape;
    float *first = w->h, *second = w->h + (size_t)w->n * (size_t)s->action_hidden;
    run(w, &net->patch, u, step, first, s->action_hidden);
    run(w, &net->embed_up, first, s->action_hidden, second, s->action_mlp);
    net->loops->silu((int64_t)w->n * s->action_mlp, second, second);
    run(w, &net->embed_down, second, s->action_mlp, w->y, s->width);
    net->loops->silu((int64_t)w->n * s->width, w->y, w->y);
    run(w, &net->modulation, w->y, s->width,
        w->modulation + (size_t)(t % s->context) * BLOCK * modulation_step(w),
        (int64_t)modulation_step(w));
}

// Keys and values of a token, whose action is t; leaves the block's input in w->u.
static void keys(const work* w, int block, int token, int t) {
    const lewm_net* net = w->net;
    const int width = net->shape.width;
    net->rows->modulate(w->n, width, token_of(w, token), chunk(w, t, block, 0),
                        chunk(w, t, block, 1), modulation_step(w), w->u);
    run(w, &net->block[block].kv, w->u, width, kv_of(w, block, token), 2 * net->inner);
}

// The rest of a block for a token, right after its keys.
static void pass(const work* w, int block, int token, int t) {
    const lewm_net* net = w->net;
    const lewm_shape* s = &net->shape;
    const size_t step = modulation_step(w);
    float* x = token_of(w, token);
    run(w, &net->block[block].q, w->u, s->width, w->q, net->inner);
    net->rows->attend(&(lewm_attend){.rows = w->n,
                                     .heads = s->predictor_heads,
                                     .head = s->predictor_head,
                                     .tokens = token + 1,
                                     .q = w->q,
                                     .kv = kv_of(w, block, 0),
                                     .token_step = BLOCK * 2 * (size_t)net->inner,
                                     .out = w->o,
                                     .out_step = apart(net->inner)});
    run(w, &net->block[block].out, w->o, (int64_t)apart(net->inner), w->y, s->width);
    net->rows->gate(w->n, s->width, chunk(w, t, block, 2), step, w->y, x);
    net->rows->modulate(w->n, s->width, x, chunk(w, t, block, 3), chunk(w, t, block, 4), step,
                        w->u);
    run_hidden(w, &net->block[block].up, &net->block[block].down, w->u, w->y, s->width);
    net->rows->gate(w->n, s->width, chunk(w, t, block, 5), step, w->y, x);
}

// Token `token` of the window starts as latent `t` at its position.
static void place(const work* w, int token, int t, int horizon, const float* z0,
                  const float* path) {
    const int width = w->net->shape.width;
    const float* position = w->net->positions + (size_t)(token * width);
    float* x = token_of(w, token);
    for (int i = 0; i < w->n; i++, x += width) {
        const float* z =
            t ? path + ((size_t)i * (size_t)horizon + (size_t)(t - 1)) * (size_t)width : z0;
        for (int j = 0; j < width; j++) x[j] = z[j] + position[j];
    }
}

// The latent after action t, which needs the window's tokens first .. t.
static void step(const work* w, int t, int horizon, const float* z0, float* path) {
    const lewm_net* net = w->net;
    const lewm_shape* s = &net->shape;
    const int depth = s->predictor_depth, slides = t >= s->context,
              last = slides ? s->context - 1 : t;
    // a growing window keeps what it has: only its last token is new
    for (int token = slides ? 0 : last; token <= last; token++)
        place(w, token, t - last + token, horizon, z0, path);
    for (int b = 0; b < depth; b++)
        for (int token = slides ? 0 : last; token <= last; token++) {
            keys(w, b, token, t - last + token);
            if (token == last || b < depth - 1) pass(w, b, token, t - last + token);
        }
    net->rows->normalise(w->n, s->width, token_of(w, last), w->u);
    run_hidden(w, &net->head_up, &net->head_down, w->u, path + (size_t)(t * s->width),
               (int64_t)horizon * s->width);
}

static int count_nonfinite(const float* path, int n, size_t numbers) {
    int count = 0;
    for (int i = 0; i < n; i++, path += numbers) {
        int finite = 1;
        for (size_t j = 0; j < numbers && finite; j++) finite = isfinite(path[j]) != 0;
        count += !finite;
    }
    return count;
}

int lewm_net_rollout(const lewm_net* net, void* scratch, int n, int horizon, const float* z0,
                     const float* u, float* path) {
    const size_t actions = (size_t)(horizon * net->action),
                 numbers = (size_t)(horizon * net->shape.width);
    work w = {.net = net};
    int nonfinite = 0;
    lay_out(net, scratch, &w);
    if (net->products && net->products->begin) net->products->begin();
    for (int from = 0; from < n; from += BLOCK) {
        const float* own = u + (size_t)from * actions;
        float* to = path + (size_t)from * numbers;
        w.n = n - from < BLOCK ? n - from : BLOCK;
        for (int t = 0; t < horizon; t++) {
            embed(&w, t, own + (size_t)(t * net->action), (int64_t)actions);
            step(&w, t, horizon, z0, to);
        }
        nonfinite += count_nonfinite(to, w.n, numbers);
    }
    if (net->products && net->products->end) net->products->end();
    return nonfinite;
}

int64_t lewm_net_macs(const lewm_model* m, int horizon) {
    const lewm_shape* s = &m->shape;
    const int64_t w = s->width, inner = s->predictor_heads * s->predictor_head, c = s->context,
                  d = s->predictor_depth, keys = w * 2 * inner,
                  rest = w * inner + inner * w + 2 * w * s->predictor_mlp;
    int64_t macs = 0;
    for (int t = 0; t < horizon; t++) {
        const int64_t tokens = t < c ? 1 : c;  // computed in this step
        macs += (int64_t)lewm_action_dim(m) * s->action_hidden +
                (int64_t)s->action_hidden * s->action_mlp + s->action_mlp * w + w * d * CHUNKS * w;
        macs += tokens * d * keys + (tokens * (d - 1) + 1) * rest + 2 * w * s->projector;
        // scores and mixing: token k sees k + 1
        for (int64_t k = t < c ? t : 0; k <= (t < c ? t : c - 1); k++)
            macs += 2 * inner * (k + 1) * (t < c || k == c - 1 ? d : d - 1);
    }
    return macs;
}
