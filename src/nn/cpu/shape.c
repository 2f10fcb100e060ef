// shape.c - concatenation, slices and means: memory moved in contiguous runs.
#include <string.h>

#include "nn/cpu/cpu.h"

// elements before (outer, with the batch) and after (inner) the axis
static void around(const nn_call* c, const nn_tensor* t, int64_t* outer, int64_t* inner) {
    *outer = c->rows;
    *inner = 1;
    for (int d = 0; d < t->rank; d++) {
        if (d < c->node->axis) *outer *= t->dim[d];
        if (d > c->node->axis) *inner *= t->dim[d];
    }
}

static void put(float* dst, const float* src, int64_t n, int add) {
    if (add)
        nn_loops_get()->scaled(n, 1, src, dst, 1);
    else
        memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void concat_forward(const nn_call* c) {
    int64_t outer, inner, at = 0;
    around(c, nn_out(c), &outer, &inner);
    int64_t whole = nn_out(c)->dim[c->node->axis] * inner;
    for (int i = 0; i < c->node->in_count; i++) {
        int64_t part = nn_in(c, i)->dim[c->node->axis] * inner;
        for (int64_t o = 0; o < outer; o++)
            put((float*)c->out + o * whole + at, (const float*)c->in[i] + o * part, part, 0);
        at += part;
    }
}

static void concat_backward(const nn_call* c) {
    int64_t outer, inner, at = 0;
    around(c, nn_out(c), &outer, &inner);
    int64_t whole = nn_out(c)->dim[c->node->axis] * inner;
    for (int i = 0; i < c->node->in_count; i++) {
        int64_t part = nn_in(c, i)->dim[c->node->axis] * inner;
        for (int64_t o = 0; o < outer && c->din[i]; o++)
            put((float*)c->din[i] + o * part, (const float*)c->dout + o * whole + at, part,
                c->accumulate[i]);
        at += part;
    }
}

static void slice_forward(const nn_call* c) {
    int64_t outer, inner;
    around(c, nn_out(c), &outer, &inner);
    int64_t whole = nn_in(c, 0)->dim[c->node->axis] * inner;
    int64_t part = nn_out(c)->dim[c->node->axis] * inner, at = c->node->from * inner;
    for (int64_t o = 0; o < outer; o++)
        put((float*)c->out + o * part, (const float*)c->in[0] + o * whole + at, part, 0);
}

static void slice_backward(const nn_call* c) {
    int64_t outer, inner;
    around(c, nn_out(c), &outer, &inner);
    int64_t whole = nn_in(c, 0)->dim[c->node->axis] * inner;
    int64_t part = nn_out(c)->dim[c->node->axis] * inner, at = c->node->from * inner;
    if (!c->accumulate[0]) memset(c->din[0], 0, (size_t)(outer * whole) * sizeof(float));
    for (int64_t o = 0; o < outer; o++)
        put((float*)c->din[0] + o * whole + at, (const float*)c->dout + o * part, part, 1);
}

static void mean_forward(const nn_call* c) {
    int tokens = nn_in(c, 0)->dim[0], width = nn_in(c, 0)->dim[1];
    memset(c->out, 0, (size_t)c->rows * (size_t)width * sizeof(float));
    for (int i = 0; i < c->rows; i++) {
        float* y = (float*)c->out + (int64_t)i * width;
        nn_loops_get()->sum_rows(tokens, width,
                                 (const float*)c->in[0] + (int64_t)i * tokens * width, y);
        for (int j = 0; j < width; j++) y[j] /= (float)tokens;
    }
}

static void mean_backward(const nn_call* c) {
    int tokens = nn_in(c, 0)->dim[0], width = nn_in(c, 0)->dim[1];
    for (int64_t i = 0; i < (int64_t)c->rows * tokens; i++)
        nn_loops_get()->scaled(width, 1.0f / (float)tokens,
                               (const float*)c->dout + i / tokens * width,
                               (float*)c->din[0] + i * width, c->accumulate[0]);
}

static void prepend_forward(const nn_call* c) {
    const nn_tensor* x = nn_in(c, 0);
    int64_t width = nn_in(c, 1)->size, part = x->dim[x->rank - 2] * width;
    for (int64_t o = 0; o < (int64_t)c->rows * x->size / part; o++) {
        float* y = (float*)c->out + o * (part + width);
        put(y, c->in[1], width, 0);
        put(y + width, (const float*)c->in[0] + o * part, part, 0);
    }
}

static void prepend_backward(const nn_call* c) {
    const nn_tensor* x = nn_in(c, 0);
    int64_t width = nn_in(c, 1)->size, part = x->dim[x->rank - 2] * width;
    for (int64_t o = 0; o < (int64_t)c->rows * x->size / part; o++) {
        const float* dy = (const float*)c->dout + o * (part + width);
        if (c->din[1]) put(c->din[1], dy, width, 1);
        if (c->din[0]) put((float*)c->din[0] + o * part, dy + width, part, c->accumulate[0]);
    }
}

const nn_kernel nn_cpu_prepend = {prepend_forward, prepend_backward, NULL, NULL};
const nn_kernel nn_cpu_concat = {concat_forward, concat_backward, NULL, NULL};
const nn_kernel nn_cpu_slice = {slice_forward, slice_backward, NULL, NULL};
const nn_kernel nn_cpu_mean = {mean_forward, mean_backward, NULL, NULL};
