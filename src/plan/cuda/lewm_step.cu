// lewm_step.cu - a rollout as a list of products and kernels. Actions first, for all steps at once;
// then step by step: while the window grows, its new token alone, with the keys and values that
// earlier steps left; once it slides, the whole window, whose last block runs for its last token.
#include "plan/cuda/lewm.cuh"

static firm_status embed(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const int rows = j->count * j->each * j->horizon;
    TRY(lewm_embed(g, j, err));
    lewm_product down = {g->embedding, g->embed_down, rows, g->y, LEWM_FLOAT};
    TRY(lewm_product_run(g, &down, err));
    TRY(lewm_silu(g, j, err));
    lewm_product modulation = {g->condition, g->modulation, rows, g->mod, LEWM_OPERANDS};
    return lewm_product_run(g, &modulation, err);
}

// Rows first .. of an array of tokens with so many numbers each.
static char* token(char* of, const lewm_gpu* g, int rows, int number, int width) {
    return of + (size_t)number * (size_t)rows * (size_t)width * g->element;
}

static firm_status block(lewm_gpu* g, const lewm_job* j, int t, int b, int first, int last,
                         firm_error* err) {
    const lewm_sizes* s = &g->size;
    const gpu_block* w = &g->block[b];
    const int rows = j->count * j->each, slides = t >= s->context,
              window = slides ? 0 : b;                            // a sliding window keeps nothing
    const int from = slides && b == s->depth - 1 ? last : first;  // tokens that go through
    char* qkv = token(g->qkv, g, rows, window * s->context + first, 3 * s->inner);
    lewm_product keys = {token(g->a, g, rows, first, s->width), w->qkv, (last - first + 1) * rows,
                         qkv, LEWM_OPERANDS};
    TRY(lewm_product_run(g, &keys, err));
    TRY(lewm_attention(g, j, b, window, from, last, err));
    const int passing = (last - from + 1) * rows;
    lewm_product out = {token(g->o, g, rows, from, s->inner), w->out, passing, g->y, LEWM_FLOAT};
    TRY(lewm_product_run(g, &out, err));
    TRY(lewm_gate(g, j, t, b, 0, from, last, err));
    lewm_product up = {token(g->a, g, rows, from, s->width), w->up, passing, g->h, LEWM_GELU};
    TRY(lewm_product_run(g, &up, err));
    lewm_product down = {g->h, w->down, passing, g->y, LEWM_FLOAT};
    TRY(lewm_product_run(g, &down, err));
    return lewm_gate(g, j, t, b, 1, from, last, err);
}

static firm_status step(lewm_gpu* g, const lewm_job* j, int t, firm_error* err) {
    const lewm_sizes* s = &g->size;
    const int rows = j->count * j->each, slides = t >= s->context,
              last = slides ? s->context - 1 : t, first = slides ? 0 : last;
    TRY(lewm_place(g, j, t, first, last, err));
    for (int b = 0; b < s->depth; b++) TRY(block(g, j, t, b, first, last, err));
    lewm_product up = {token(g->a, g, rows, last, s->width), g->head_up, rows, g->h, LEWM_GELU};
    TRY(lewm_product_run(g, &up, err));
    lewm_product down = {g->h, g->head_down, rows, g->y, LEWM_FLOAT};
    return lewm_product_run(g, &down, err);
}

firm_status lewm_predict(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    TRY(embed(g, j, err));
    if (lewm_few_takes(g, j)) return lewm_few_run(g, j, err);
    for (int t = 0; t < j->horizon; t++) TRY(step(g, j, t, err));
    return lewm_finish(g, j, err);
}
