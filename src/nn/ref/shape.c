// shape.c - joining, cutting and averaging along one dimension, reference. A tensor is seen as
// (outer, size of the axis, inner), where outer counts samples and the dimensions left of the axis.
#include <string.h>

#include "nn/ref/ref.h"

static int inner_of(const nn_tensor* t, int axis) {
    int inner = 1;
    for (int i = axis + 1; i < t->rank; i++) inner *= t->dim[i];
    return inner;
}

static int outer_of(const nn_tensor* t, int axis, int rows) {
    for (int i = 0; i < axis; i++) rows *= t->dim[i];
    return rows;
}

// ---- CONCAT ----

void nn_ref_concat_forward(const nn_call* c) {
    int axis = c->node->axis, outer = outer_of(nn_out(c), axis, c->rows);
    size_t row = (size_t)nn_out(c)->dim[axis] * inner_of(nn_out(c), axis), first = 0;
    double* y = c->out;
    for (int i = 0; i < c->node->in_count; i++) {
        const double* x = c->in[i];
        size_t part = (size_t)nn_in(c, i)->dim[axis] * inner_of(nn_in(c, i), axis);
        for (int o = 0; o < outer; o++)
            memcpy(y + o * row + first, x + o * part, part * sizeof(double));
        first += part;
    }
}

void nn_ref_concat_backward(const nn_call* c) {
    int axis = c->node->axis, outer = outer_of(nn_out(c), axis, c->rows);
    size_t row = (size_t)nn_out(c)->dim[axis] * inner_of(nn_out(c), axis), first = 0;
    const double* dy = c->dout;
    for (int i = 0; i < c->node->in_count; i++) {
        double* dx = nn_ref_grad(c, i);  // one input at a time: a repeated one is set to accumulate
        size_t part = (size_t)nn_in(c, i)->dim[axis] * inner_of(nn_in(c, i), axis);
        for (int o = 0; dx && o < outer; o++) {
            for (size_t j = 0; j < part; j++) dx[o * part + j] += dy[o * row + first + j];
        }
        first += part;
    }
}

// ---- SLICE ----

void nn_ref_slice_forward(const nn_call* c) {
    int axis = c->node->axis, outer = outer_of(nn_in(c, 0), axis, c->rows);
    size_t inner = inner_of(nn_in(c, 0), axis), row = nn_in(c, 0)->dim[axis] * inner;
    size_t first = c->node->from * inner, part = nn_out(c)->dim[axis] * inner;
    const double* x = c->in[0];
    double* y = c->out;
    for (int o = 0; o < outer; o++)
        memcpy(y + o * part, x + o * row + first, part * sizeof(double));
}

void nn_ref_slice_backward(const nn_call* c) {
    int axis = c->node->axis, outer = outer_of(nn_in(c, 0), axis, c->rows);
    size_t inner = inner_of(nn_in(c, 0), axis), row = nn_in(c, 0)->dim[axis] * inner;
    size_t first = c->node->from * inner, part = nn_out(c)->dim[axis] * inner;
    const double* dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (int o = 0; dx && o < outer; o++) {
        for (size_t j = 0; j < part; j++) dx[o * row + first + j] += dy[o * part + j];
    }
}

// ---- MEAN over the first dimension: (T, inner) -> (inner) ----

void nn_ref_mean_forward(const nn_call* c) {
    int T = nn_in(c, 0)->dim[0], inner = nn_in(c, 0)->size / T;
    const double* x = c->in[0];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        for (int j = 0; j < inner; j++) {
            double sum = 0;
            for (int t = 0; t < T; t++) sum += x[((size_t)r * T + t) * inner + j];
            y[(size_t)r * inner + j] = sum / T;
        }
    }
}

void nn_ref_mean_backward(const nn_call* c) {
    int T = nn_in(c, 0)->dim[0], inner = nn_in(c, 0)->size / T;
    const double* dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (int r = 0; dx && r < c->rows; r++) {
        for (int t = 0; t < T; t++) {
            for (int j = 0; j < inner; j++) {
                dx[((size_t)r * T + t) * inner + j] += dy[(size_t)r * inner + j] / T;
            }
        }
    }
}

// ---- PREPEND: a parameter's row before the rows of every sample's (..., T, C) ----

void nn_ref_prepend_forward(const nn_call* c) {
    const nn_tensor* x = nn_in(c, 0);
    size_t C = (size_t)nn_ref_last(x), part = (size_t)x->dim[x->rank - 2] * C;
    const double *from = c->in[0], *p = c->in[1];
    double* y = c->out;
    for (size_t o = 0; o < (size_t)c->rows * (size_t)x->size / part; o++) {
        for (size_t j = 0; j < C; j++) y[o * (part + C) + j] = p[j];
        for (size_t j = 0; j < part; j++) y[o * (part + C) + C + j] = from[o * part + j];
    }
}

void nn_ref_prepend_backward(const nn_call* c) {
    const nn_tensor* x = nn_in(c, 0);
    size_t C = (size_t)nn_ref_last(x), part = (size_t)x->dim[x->rank - 2] * C;
    const double* dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dp = nn_ref_grad(c, 1);
    for (size_t o = 0; o < (size_t)c->rows * (size_t)x->size / part; o++) {
        for (size_t j = 0; dp && j < C; j++) dp[j] += dy[o * (part + C) + j];
        for (size_t j = 0; dx && j < part; j++) dx[o * part + j] += dy[o * (part + C) + C + j];
    }
}
