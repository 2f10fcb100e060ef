// attention.c - masked multi-head attention inside one sample, reference.
// qkv (T, 3D): a row is [q | k | v], each D = heads * d with head h at h * d. Per head and row t:
//     p[t, s] = softmax over the s allowed by mask[t, s] of q[t] . k[s] / sqrt(d)
//     y[t] = sum over s of p[t, s] v[s]
// A row that may look at nothing is 0 and has no gradient. In training dropout may take p[t, s] out
// (dropout.c): its elements are counted (group, head, t, s) over all groups of the batch.
#include <math.h>

#include "nn/ref/ref.h"

// One head of one sample. Pointers are to the head's first column; rows of q, k, v are 3D apart.
typedef struct head {
    const nn_call* call;
    const double *q, *k, *v;
    const uint8_t* mask;  // (T, T)
    int T, d, D;
    uint64_t number;  // among all heads of the batch
} head;

static int groups_of(const nn_call* c) {
    return c->rows * nn_attention_groups(nn_in(c, 0));
}

static head head_of(const nn_call* c, int row, int h) {
    const nn_tensor* x = nn_in(c, 0);
    int T = x->dim[x->rank - 2], D = nn_ref_last(x) / 3, d = D / c->node->heads;
    const double* q = (const double*)c->in[0] + (size_t)row * T * 3 * D + (size_t)h * d;
    uint64_t group = (uint64_t)c->first * (uint64_t)nn_attention_groups(x) + (uint64_t)row;
    return (head){c,
                  q,
                  q + D,
                  q + 2 * D,
                  c->node->mask,
                  T,
                  d,
                  D,
                  group * (uint64_t)c->node->heads + (uint64_t)h};
}

static double kept(const head* a, int t, int s) {
    uint64_t T = (uint64_t)a->T;
    return nn_ref_dropped(a->call, (a->number * T + (uint64_t)t) * T + (uint64_t)s);
}

static int may_look(const head* a, int t, int s) {
    return !a->mask || a->mask[(size_t)t * a->T + s];
}

static double score(const head* a, int t, int s) {
    double sum = 0;
    for (int i = 0; i < a->d; i++)
        sum += a->q[(size_t)t * 3 * a->D + i] * a->k[(size_t)s * 3 * a->D + i];
    return sum / sqrt(a->d);
}

// Largest score of row t and the sum of exp(score - largest); the sum is 0 when nothing is allowed.
static double row_norm(const head* a, int t, double* largest) {
    double sum = 0;
    *largest = -INFINITY;
    for (int s = 0; s < a->T; s++) {
        if (may_look(a, t, s)) *largest = fmax(*largest, score(a, t, s));
    }
    for (int s = 0; s < a->T; s++) {
        if (may_look(a, t, s)) sum += exp(score(a, t, s) - *largest);
    }
    return sum;
}

static void head_forward(const head* a, double* y) {  // y: rows D apart
    for (int t = 0; t < a->T; t++) {
        double largest, sum = row_norm(a, t, &largest);
        for (int i = 0; i < a->d; i++) y[(size_t)t * a->D + i] = 0;
        for (int s = 0; s < a->T; s++) {
            if (!may_look(a, t, s)) continue;
            double p = exp(score(a, t, s) - largest) / sum * kept(a, t, s);
            for (int i = 0; i < a->d; i++)
                y[(size_t)t * a->D + i] += p * a->v[(size_t)s * 3 * a->D + i];
        }
    }
}

// dv[s] += p dy[t]; with g = dy[t] . v[s] and its mean under p (= dy[t] . y[t]):
// dscore = p (g - mean), dq[t] += dscore k[s] / sqrt(d), dk[s] += dscore q[t] / sqrt(d)
static void head_backward(const head* a, const double* dy, double* dq) {  // dq: laid out as a->q
    double *dk = dq + a->D, *dv = dq + 2 * a->D;
    for (int t = 0; t < a->T; t++) {
        double largest, sum = row_norm(a, t, &largest), mean = 0;
        for (int pass = 0; pass < 2; pass++) {  // first the mean of g, then the gradients
            for (int s = 0; s < a->T; s++) {
                if (!may_look(a, t, s)) continue;
                size_t row_t = (size_t)t * 3 * a->D, row_s = (size_t)s * 3 * a->D;
                double p = exp(score(a, t, s) - largest) / sum, g = 0, keep = kept(a, t, s);
                for (int i = 0; i < a->d; i++)
                    g += keep * dy[(size_t)t * a->D + i] * a->v[row_s + i];
                if (pass == 0) {
                    mean += p * g;
                    continue;
                }
                double dscore = p * (g - mean) / sqrt(a->d);
                for (int i = 0; i < a->d; i++) {
                    dq[row_t + i] += dscore * a->k[row_s + i];
                    dk[row_s + i] += dscore * a->q[row_t + i];
                    dv[row_s + i] += p * keep * dy[(size_t)t * a->D + i];
                }
            }
        }
    }
}

void nn_ref_attention_forward(const nn_call* c) {
    for (int r = 0; r < groups_of(c); r++) {
        for (int h = 0; h < c->node->heads; h++) {
            head a = head_of(c, r, h);
            head_forward(&a, (double*)c->out + (size_t)r * a.T * a.D + (size_t)h * a.d);
        }
    }
}

void nn_ref_attention_backward(const nn_call* c) {
    double* dqkv = nn_ref_grad(c, 0);
    for (int r = 0; dqkv && r < groups_of(c); r++) {
        for (int h = 0; h < c->node->heads; h++) {
            head a = head_of(c, r, h);
            head_backward(&a, (const double*)c->dout + (size_t)r * a.T * a.D + (size_t)h * a.d,
                          dqkv + (size_t)r * a.T * 3 * a.D + (size_t)h * a.d);
        }
    }
}
