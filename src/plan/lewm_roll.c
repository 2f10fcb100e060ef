// lewm_roll.c - rollouts of lewm_net.h. The products are nn/cpu/gemm.h's with packed weights or
// lewm_bf16.h's, the loops between them lewm_rows.h's.
//
// The rows of a product are candidates, and where the window slides, the candidates of all its
// tokens, token after token: weights pass through the caches once for all of them.
#include <math.h>

#include "nn/cpu/gemm.h"
#include "plan/lewm_layers.h"
#include "plan/lewm_weights.h"

enum { BLOCK = LEWM_MOST, CHUNKS = LEWM_CHUNKS };

_Static_assert(BLOCK % LEWM_ROWS == 0, "products in bfloat16 read whole blocks of rows");

// Numbers from one row to the next where a product reads rows of `width` numbers: a product reads a
// dozen rows at once, and at distances of whole pages these would share a few sets of the first
// cache, which halves the speed.
static size_t apart(int width) {
    enum { LINE = 16, PAGE = 1024 };
    return (size_t)width + (width % PAGE == 0 ? LINE : 0);
}

static size_t apart16(int width) {
    return (size_t)lewm_padded(width, LEWM_DEPTH) + LEWM_DEPTH;
}

// What a product reads: float32, or bfloat16.
typedef struct rows {
    const float* x;
    const uint16_t* x16;  // NULL: float32
    size_t step;
} rows;

// Rows for a product that are made some columns at a time: float32 in place, or bfloat16 by way of
// a piece in float32.
typedef struct wide {
    int width;
    float* x;
    uint16_t* x16;  // NULL: float32
    float* piece;
} wide;

// Memory of one thread. A token has a row per candidate, and tokens follow each other.
typedef struct work {
    const lewm_net* net;
    int n;              // candidates
    float* action;      // (n, action_hidden) the latest, on its way to
    float* silu;        // (n, width) what its modulations read
    float* modulation;  // (context, depth, BLOCK, 6 * width) of the latest actions, a ring
    float* x;           // (context, n, width) tokens
    float* u;           // (depth, context, n, width) what attention reads of them
    float* y;           // (context, n, width) what a branch adds to them
    float* q;           // (context, n, head) of one head
    float* turned;      // (context, n, width) of one head, and the mixed u
    wide o;             // (context, n, inner) of all heads
    wide h;             // (BLOCK, ...) a hidden layer
    uint16_t* u16;      // (context, n, ...) u rounded,
    uint16_t* t16;      // and whatever else a product reads
} work;

// ---- memory -------------------------------------------------------------------------------------

static int larger(int a, int b) {
    return a > b ? a : b;
}

// The next part of memory, or NULL if there is none.
static void* part_of(char* memory, size_t* at, size_t count, size_t size) {
    void* here = memory ? memory + *at : NULL;
    *at += (count * size + 63) / 64 * 64;
    return here;
}

static void lay_out_wide(const lewm_net* net, char* memory, size_t* at, size_t n, int columns,
                         wide* to) {
    if (net->products) {
        to->x16 = part_of(memory, at, (n + LEWM_ROWS) * apart16(to->width), sizeof *to->x16);
        to->piece = part_of(memory, at, n * (size_t)columns, sizeof *to->piece);
    } else
        to->x = part_of(memory, at, n * apart(to->width), sizeof *to->x);
}

// Lays memory out, or says how much it takes if there is none.
static size_t lay_out(const lewm_net* net, char* memory, work* w) {
    const lewm_shape* s = &net->shape;
    const size_t c = (size_t)s->context, width = (size_t)s->width, d = (size_t)s->predictor_depth,
                 n = BLOCK, all = c * n, each = sizeof(float);
    const int narrow =
        larger(larger(s->width, s->predictor_head), larger(s->action_hidden, net->action));
    size_t at = 0;
    *w = (work){.net = net};
    w->o.width = net->inner;
    w->h.width = larger(larger(s->predictor_mlp, s->projector), s->action_mlp);
    w->action = part_of(memory, &at, n * (size_t)s->action_hidden, each);
    w->silu = part_of(memory, &at, n * width, each);
    w->modulation = part_of(memory, &at, c * d * n * CHUNKS * width, each);
    w->x = part_of(memory, &at, all * width, each);
    w->u = part_of(memory, &at, d * all * width, each);
    w->y = part_of(memory, &at, all * width, each);
    w->q = part_of(memory, &at, all * (size_t)s->predictor_head, each);
    w->turned = part_of(memory, &at, all * width, each);
    lay_out_wide(net, memory, &at, all, s->predictor_head, &w->o);
    lay_out_wide(net, memory, &at, n,
                 larger(net->head_up.each, larger(net->embed_up.each, net->block->up.each)), &w->h);
    if (!net->products) return at;
    w->u16 = part_of(memory, &at, (all + LEWM_ROWS) * apart16(s->width), sizeof *w->u16);
    w->t16 = part_of(memory, &at, (all + LEWM_ROWS) * apart16(narrow), sizeof *w->t16);
    return at;
}

size_t lewm_net_scratch_bytes(const lewm_net* net) {
    work w;
    return lay_out(net, NULL, &w);
}

// ---- products -----------------------------------------------------------------------------------

// n rows for a product, rounded into `room` where it multiplies bfloat16.
static rows take(const work* w, int n, int width, const float* x, size_t step, uint16_t* room) {
    if (!w->net->products) return (rows){.x = x, .step = step};
    w->net->products->round(n, width, x, step, room, apart16(width));
    return (rows){.x16 = room, .step = apart16(width)};
}

static rows from_row(rows r, int first) {
    const size_t skip = (size_t)first * r.step;
    if (r.x16)
        r.x16 += skip;
    else
        r.x += skip;
    return r;
}

// c = n rows through a part of a layer
static void multiply(const work* w, const lewm_layer* l, int part, int n, rows a, float* c,
                     size_t c_step) {
    const size_t at = (size_t)part * l->packed;
    const float* bias = l->b + part * l->each;
    const int out = lewm_layer_outputs(l, part);
    if (a.x16)
        w->net->products->product(&(lewm_product){.m = n,
                                                  .n = out,
                                                  .k = lewm_padded(l->in, LEWM_DEPTH),
                                                  .a = a.x16,
                                                  .a_step = a.step,
                                                  .b = l->w16 + at,
                                                  .bias = bias,
                                                  .c = c,
                                                  .c_step = c_step});
    else
        nn_gemm(&(nn_product){.m = n,
                              .k = l->in,
                              .n = out,
                              .packed = 1,
                              .a = a.x,
                              .lda = (int64_t)a.step,
                              .b = l->w + at,
                              .bias = bias,
                              .c = c,
                              .ldc = (int64_t)c_step});
}

// From one row to the next of what multiply_wide() returns.
static size_t wide_step(const lewm_layer* l, const wide* to) {
    return to->x16 ? (size_t)l->each : apart(to->width);
}

// The same with the columns of that part of what the next product reads; returns where they are in
// float32. wide_keep() follows, part after part.
static float* multiply_wide(const work* w, const lewm_layer* l, int part, int n, rows a,
                            const wide* to) {
    float* c = to->x16 ? to->piece : to->x + part * l->each;
    multiply(w, l, part, n, a, c, wide_step(l, to));
    return c;
}

// Rounding pads the columns with zeros: the next part overwrites them.
static void wide_keep(const work* w, const lewm_layer* l, int part, int n, const wide* to) {
    if (to->x16)
        w->net->products->round(n, lewm_layer_outputs(l, part), to->piece, (size_t)l->each,
                                to->x16 + part * l->each, apart16(to->width));
}

static rows wide_rows(const wide* from) {
    return (rows){.x = from->x,
                  .x16 = from->x16,
                  .step = from->x16 ? apart16(from->width) : apart(from->width)};
}

typedef struct hidden_layer {
    const lewm_layer *up, *down;
    void (*between)(int64_t n, const float* x, float* y);
} hidden_layer;

// c = down(between(up(x))) of at most BLOCK rows
static void run_hidden(const work* w, const hidden_layer* l, int n, rows x, float* c,
                       size_t c_step) {
    wide h = w->h;
    h.width = l->up->out;
    for (int part = 0; part < lewm_layer_parts(l->up); part++) {
        float* row = multiply_wide(w, l->up, part, n, x, &h);
        for (int i = 0; i < n; i++, row += wide_step(l->up, &h))
            l->between(lewm_layer_outputs(l->up, part), row, row);
        wide_keep(w, l->up, part, n, &h);
    }
    multiply(w, l->down, 0, n, wide_rows(&h), c, c_step);
}

// ---- parts of the window ------------------------------------------------------------------------

static size_t width_of(const work* w) {
    return (size_t)w->net->shape.width;
}

// Where the rows of a token begin.
static float* token_of(const work* w, float* rows, int token) {
    return rows + (size_t)(token * w->n) * width_of(w);
}

static float* u_of(const work* w, int block, int token) {
    return w->u + (size_t)((block * w->net->shape.context + token) * w->n) * width_of(w);
}

// What action t does to a block; chunk i of it is i * width further.
static float* modulation_of(const work* w, int t, int block) {
    const lewm_shape* s = &w->net->shape;
    return w->modulation +
           (size_t)((t % s->context * s->predictor_depth + block) * BLOCK) * CHUNKS * width_of(w);
}

// x += gate * y for tokens first .. last, of which y has the rows; the last one's action is t.
static void add_branch(const work* w, int block, int gate, int first, int last, int t) {
    const lewm_net* net = w->net;
    const size_t width = width_of(w);
    for (int k = first; k <= last; k++)
        net->rows->gate(w->n, net->shape.width,
                        modulation_of(w, t - last + k, block) + (size_t)gate * width,
                        CHUNKS * width, token_of(w, w->y, k), token_of(w, w->x, k));
}

// The input of a branch for tokens first .. last, with chunk `shift` and the next one.
static void enter_branch(const work* w, int block, int shift, int first, int last, int t,
                         float* to) {
    const lewm_net* net = w->net;
    const size_t width = width_of(w);
    for (int k = first; k <= last; k++) {
        const float* by = modulation_of(w, t - last + k, block) + (size_t)shift * width;
        net->rows->modulate(w->n, net->shape.width, token_of(w, w->x, k), by, by + width,
                            CHUNKS * width, token_of(w, to, k));
    }
}

// y of tokens first .. last, of which each has one before it; u: their rows for a product.
static void attend(const work* w, int block, int first, int last, rows u) {
    const lewm_net* net = w->net;
    const lewm_shape* s = &net->shape;
    const lewm_packed* b = &net->block[block];
    const int n = (last - first + 1) * w->n;
    for (int h = 0; h < s->predictor_heads; h++) {
        const size_t head = (size_t)s->predictor_head, width = width_of(w);
        multiply(w, &b->q, h, n, u, w->q, head);
        multiply(w, &b->turned_k, h, n, take(w, n, s->predictor_head, w->q, head, w->t16),
                 w->turned, width);
        for (int k = first; k <= last; k++)
            net->rows->mix(&(lewm_mix){.rows = w->n,
                                       .width = s->width,
                                       .head = s->predictor_head,
                                       .tokens = k + 1,
                                       .u = u_of(w, block, 0),
                                       .token_step = (size_t)w->n * width,
                                       .x = token_of(w, w->turned, k - first)});
        multiply_wide(w, &b->v, h, n, take(w, n, s->width, w->turned, width, w->t16), &w->o);
        wide_keep(w, &b->v, h, n, &w->o);
    }
    multiply(w, &b->out, 0, n, wide_rows(&w->o), token_of(w, w->y, first), width_of(w));
}

// y of tokens first .. last from u of the whole window
static void attention(const work* w, int block, int first, int last) {
    const int width = w->net->shape.width, n = (last - first + 1) * w->n;
    rows u = take(w, n, width, u_of(w, block, first), (size_t)width, w->u16);
    if (first == 0) {
        multiply(w, &w->net->block[block].alone, 0, w->n, u, w->y, (size_t)width);
        u = from_row(u, w->n);
        first = 1;
    }
    if (first <= last) attend(w, block, first, last, u);
}

// y of tokens first .. last through the hidden layer of a block, from the same rows of y
static void feed_forward(const work* w, int block, int first, int last) {
    const lewm_net* net = w->net;
    const lewm_packed* b = &net->block[block];
    const hidden_layer mlp = {&b->up, &b->down, net->loops->erfgelu};
    const int width = net->shape.width, n = (last - first + 1) * w->n,
              pieces = (n + BLOCK - 1) / BLOCK;
    float* y = token_of(w, w->y, first);
    const rows x = take(w, n, width, y, (size_t)width, w->t16);
    for (int i = 0; i < pieces; i++) {
        const int from = n * i / pieces, to = n * (i + 1) / pieces;
        run_hidden(w, &mlp, to - from, from_row(x, from), y + from * width, (size_t)width);
    }
}

// ---- steps --------------------------------------------------------------------------------------

// What the modulations read of action t: u of a candidate is at i * step.
static void embed(const work* w, const float* u, size_t step) {
    const lewm_net* net = w->net;
    const lewm_shape* s = &net->shape;
    const hidden_layer up_down = {&net->embed_up, &net->embed_down, net->loops->silu};
    const size_t first = (size_t)s->action_hidden;
    multiply(w, &net->patch, 0, w->n, take(w, w->n, net->action, u, step, w->t16), w->action,
             first);
    run_hidden(w, &up_down, w->n, take(w, w->n, s->action_hidden, w->action, first, w->t16),
               w->silu, width_of(w));
    net->loops->silu((int64_t)w->n * s->width, w->silu, w->silu);
}

// Token `token` of the window starts as latent `t` at its position.
static void place(const work* w, int token, int t, int horizon, const float* z0,
                  const float* path) {
    const int width = w->net->shape.width;
    const float* position = w->net->positions + (size_t)(token * width);
    float* x = token_of(w, w->x, token);
    for (int i = 0; i < w->n; i++, x += width) {
        const float* z =
            t ? path + ((size_t)i * (size_t)horizon + (size_t)(t - 1)) * (size_t)width : z0;
        for (int j = 0; j < width; j++) x[j] = z[j] + position[j];
    }
}

// The latent after action t, which needs the window's tokens first .. last.
static void step(const work* w, int t, int horizon, const float* z0, float* path) {
    const lewm_net* net = w->net;
    const lewm_shape* s = &net->shape;
    const hidden_layer head = {&net->head_up, &net->head_down, net->loops->erfgelu};
    const size_t width = width_of(w);
    const int slides = t >= s->context, last = slides ? s->context - 1 : t,
              // a growing window keeps what it has: only its last token is new
        first = slides ? 0 : last;
    for (int token = first; token <= last; token++)
        place(w, token, t - last + token, horizon, z0, path);
    for (int b = 0; b < s->predictor_depth; b++) {
        // behind the last block only the last token counts
        const int from = b < s->predictor_depth - 1 ? first : last;
        multiply(w, &net->modulation, b, w->n, take(w, w->n, s->width, w->silu, width, w->t16),
                 modulation_of(w, t, b), CHUNKS * width);
        enter_branch(w, b, 0, first, last, t, u_of(w, b, 0));
        attention(w, b, from, last);
        add_branch(w, b, 2, from, last, t);
        enter_branch(w, b, 3, from, last, t, w->y);
        feed_forward(w, b, from, last);
        add_branch(w, b, 5, from, last, t);
    }
    net->rows->normalise(w->n, s->width, token_of(w, w->x, last), w->y);
    run_hidden(w, &head, w->n, take(w, w->n, s->width, w->y, width, w->t16),
               path + (size_t)t * width, (size_t)horizon * width);
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
    work w;
    int nonfinite = 0;
    lay_out(net, scratch, &w);
    if (net->products && net->products->begin) net->products->begin();
    for (int from = 0; from < n; from += BLOCK) {
        const float* own = u + (size_t)from * actions;
        float* to = path + (size_t)from * numbers;
        w.n = n - from < BLOCK ? n - from : BLOCK;
        for (int t = 0; t < horizon; t++) {
            embed(&w, own + (size_t)(t * net->action), actions);
            step(&w, t, horizon, z0, to);
        }
        nonfinite += count_nonfinite(to, w.n, numbers);
    }
    if (net->products && net->products->end) net->products->end();
    return nonfinite;
}

// Of one token that tokens before it precede: q, the turned keys, V and the output layer; alone: V
// and output layer in one.
static int64_t attention_macs(const lewm_shape* s, int token) {
    const int64_t w = s->width, inner = s->predictor_heads * s->predictor_head;
    return token ? 4 * w * inner + 2 * w * s->predictor_heads * (token + 1) : w * w;
}

int64_t lewm_net_macs(const lewm_model* m, int horizon) {
    const lewm_shape* s = &m->shape;
    const int64_t w = s->width, d = s->predictor_depth, mlp = 2 * w * s->predictor_mlp;
    int64_t macs = 0;
    for (int t = 0; t < horizon; t++) {
        const int slides = t >= s->context, last = slides ? s->context - 1 : t;
        macs += (int64_t)lewm_action_dim(m) * s->action_hidden +
                (int64_t)s->action_hidden * s->action_mlp + s->action_mlp * w + w * d * CHUNKS * w;
        for (int k = slides ? 0 : last; k <= last; k++)
            macs += (k == last ? d : d - 1) * (attention_macs(s, k) + mlp);
        macs += 2 * w * s->projector;
    }
    return macs;
}
