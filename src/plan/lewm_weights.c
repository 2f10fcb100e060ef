// lewm_weights.c - see lewm_weights.h. Folding is done in double and rounded once.
#include "plan/lewm_weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

// How the input of a layer is changed before it: x * gamma + beta, and its sum after it:
// y * scale + shift. NULL: not.
typedef struct fold {
    const float *gamma, *beta;   // (in)
    const float *scale, *shift;  // (out)
} fold;

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's copy of the model");
}

static firm_status make(lewm_fold* l, int in, int out, firm_error* err) {
    l->in = in;
    l->out = out;
    l->w = mem_alloc((size_t)in * (size_t)out * sizeof *l->w);
    l->b = mem_calloc((size_t)out, sizeof *l->b);
    return l->w && l->b ? FIRM_OK : no_memory(err);
}

static const float* part(const lewm_model* m, const char* name, const char* suffix) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    return lewm_weight(m, full);
}

// The layer `name` of the model; biased: it has a bias.
static firm_status take(const lewm_model* m, const char* name, int biased, const fold* f,
                        lewm_fold* out, firm_error* err) {
    const size_t in = (size_t)out->in, n = (size_t)out->out;
    TRY(make(out, out->in, out->out, err));
    const float *w = part(m, name, "weight"), *b = biased ? part(m, name, "bias") : NULL;
    for (size_t j = 0; j < n; j++) {
        double sum = b ? (double)b[j] : 0;
        const double scale = f && f->scale ? (double)f->scale[j] : 1;
        for (size_t i = 0; i < in; i++) {
            double x = (double)w[i * n + j];
            if (f && f->beta) sum += x * (double)f->beta[i];
            out->w[i * n + j] = (float)(x * (f && f->gamma ? (double)f->gamma[i] : 1) * scale);
        }
        out->b[j] = (float)(sum * scale + (f && f->shift ? (double)f->shift[j] : 0));
    }
    return FIRM_OK;
}

static fold norm(const lewm_model* m, const char* name) {
    return (fold){.gamma = part(m, name, "weight"), .beta = part(m, name, "bias")};
}

static const char* in_block(char name[64], int block, const char* of) {
    snprintf(name, 64, "predictor.%d.%s", block, of);
    return name;
}

static firm_status take_block(lewm_weights* w, const lewm_model* m, int i, firm_error* err) {
    const lewm_shape* s = &w->shape;
    lewm_folded* b = &w->block[i];
    char name[64];
    const fold one = norm(m, in_block(name, i, "norm1")), two = norm(m, in_block(name, i, "norm2"));
    b->qkv = (lewm_fold){.in = s->width, .out = 3 * w->inner};
    b->out = (lewm_fold){.in = w->inner, .out = s->width};
    b->up = (lewm_fold){.in = s->width, .out = s->predictor_mlp};
    b->down = (lewm_fold){.in = s->predictor_mlp, .out = s->width};
    TRY(take(m, in_block(name, i, "qkv"), 0, &one, &b->qkv, err));
    TRY(take(m, in_block(name, i, "out"), 1, NULL, &b->out, err));
    TRY(take(m, in_block(name, i, "up"), 1, &two, &b->up, err));
    return take(m, in_block(name, i, "down"), 1, NULL, &b->down, err);
}

static firm_status take_modulation(lewm_weights* w, const lewm_model* m, firm_error* err) {
    const size_t width = (size_t)w->shape.width, each = LEWM_CHUNKS * width,
                 all = (size_t)w->shape.predictor_depth * each;
    TRY(make(&w->modulation, (int)width, (int)all, err));
    for (int d = 0; d < w->shape.predictor_depth; d++) {
        char name[64];
        const float* from = part(m, in_block(name, d, "modulation"), "weight");
        for (size_t i = 0; i < width; i++)
            memcpy(w->modulation.w + i * all + (size_t)d * each, from + i * each,
                   each * sizeof *from);
        memcpy(w->modulation.b + (size_t)d * each, part(m, name, "bias"), each * sizeof *from);
    }
    return FIRM_OK;
}

// head = down(GELU(BN(up(LN(x)))))
static firm_status take_head(lewm_weights* w, const lewm_model* m, firm_error* err) {
    const lewm_shape* s = &w->shape;
    const int n = s->projector;
    const float *gamma = lewm_weight(m, "head.norm.weight"),
                *beta = lewm_weight(m, "head.norm.bias"),
                *mean = lewm_weight(m, "head.norm.running_mean"),
                *variance = lewm_weight(m, "head.norm.running_var");
    float* scale = mem_alloc(2 * (size_t)n * sizeof *scale);
    if (!scale) return no_memory(err);
    for (int i = 0; i < n; i++) {
        double by = (double)gamma[i] / sqrt((double)variance[i] + 1e-5);
        scale[i] = (float)by;
        scale[n + i] = (float)((double)beta[i] - (double)mean[i] * by);
    }
    fold f = norm(m, "predictor.norm");
    f.scale = scale;
    f.shift = scale + n;
    w->head_up = (lewm_fold){.in = s->width, .out = n};
    w->head_down = (lewm_fold){.in = n, .out = s->width};
    firm_status st = take(m, "head.up", 1, &f, &w->head_up, err);
    if (st == FIRM_OK) st = take(m, "head.down", 1, NULL, &w->head_down, err);
    mem_free(scale);
    return st;
}

firm_status lewm_weights_take(const lewm_model* m, lewm_weights* w, firm_error* err) {
    const lewm_shape* s = &m->shape;
    *w = (lewm_weights){
        .shape = *s, .action = lewm_action_dim(m), .inner = s->predictor_heads * s->predictor_head};
    w->patch = (lewm_fold){.in = w->action, .out = s->action_hidden};
    w->embed_up = (lewm_fold){.in = s->action_hidden, .out = s->action_mlp};
    w->embed_down = (lewm_fold){.in = s->action_mlp, .out = s->width};
    TRY(take(m, "actions.patch", 1, NULL, &w->patch, err));
    TRY(take(m, "actions.up", 1, NULL, &w->embed_up, err));
    TRY(take(m, "actions.down", 1, NULL, &w->embed_down, err));
    TRY(take_modulation(w, m, err));
    w->block = mem_calloc((size_t)s->predictor_depth, sizeof *w->block);
    if (!w->block) return no_memory(err);
    for (int i = 0; i < s->predictor_depth; i++) TRY(take_block(w, m, i, err));
    TRY(take_head(w, m, err));
    const size_t bytes = (size_t)(s->context * s->width) * sizeof *w->positions;
    w->positions = mem_alloc(bytes);
    if (!w->positions) return no_memory(err);
    memcpy(w->positions, lewm_weight(m, "predictor.positions"), bytes);
    return FIRM_OK;
}

static void layer_free(lewm_fold* l) {
    mem_free(l->w);
    mem_free(l->b);
}

void lewm_weights_free(lewm_weights* w) {
    lewm_fold* one[] = {&w->patch,      &w->embed_up, &w->embed_down,
                        &w->modulation, &w->head_up,  &w->head_down};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) layer_free(one[i]);
    for (int i = 0; w->block && i < w->shape.predictor_depth; i++) {
        lewm_folded* b = &w->block[i];
        lewm_fold* of[] = {&b->qkv, &b->out, &b->up, &b->down};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++) layer_free(of[k]);
    }
    mem_free(w->block);
    mem_free(w->positions);
    *w = (lewm_weights){0};
}
