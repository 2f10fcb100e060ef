// sigreg.c - SIGReg, reference: a sketched test of Epps and Pulley against a standard normal.
//     s[t, b, m] = z[t, b] . a[m]             directions a: M, of length 1, drawn for every update
//     C_k, S_k = mean over the batch of cos(tau_k s), sin(tau_k s), tau_k = 3 k / 16, k = 0 .. 16
//     L = mean over t and m of n sum_k W_k ((C_k - phi_k)^2 + S_k^2), phi_k = exp(-tau_k^2 / 2)
// W is phi times the trapezoid rule on [0, 3], doubled for the other half of the line; k = 0 adds
// nothing, since C_0 = phi_0 and S_0 = 0. Every sample's output is L. The sums of cos and sin over
// the whole batch arrive in c->sum, (T, M, 16, 2); the sum of the outputs' gradients in
// c->sum_back.
#include "nn/sigreg.h"

#include <math.h>
#include <string.h>

#include "nn/ref/ref.h"

typedef struct sizes {
    int T, D, M;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n) {
    const nn_tensor* z = &g->tensor[n->in[0]];
    return (sizes){z->dim[0], z->dim[1], n->groups};
}

// directions of length 1, (M, D) in scratch
static const double* directions(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    nn_key key = nn_key_of(c, RNG_DIRECTIONS);
    double* a = c->scratch;
    for (int i = 0; i < s.M * s.D; i++) {
        uint32_t word[4];
        float four[4];
        rng_block(key.seed, key.stream, key.first + (uint64_t)i / 4, word);
        rng_normal4(word, four);
        a[i] = (double)four[i % 4];
    }
    for (int m = 0; m < s.M; m++) {
        double square = 0;
        for (int d = 0; d < s.D; d++) square += a[m * s.D + d] * a[m * s.D + d];
        for (int d = 0; d < s.D; d++) a[m * s.D + d] /= sqrt(square);
    }
    return a;
}

size_t nn_ref_sigreg_scratch(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    sizes s = sizes_of(g, n);
    return (size_t)s.M * s.D * sizeof(double);
}

static double project(const nn_call* c, const double* a, int row, int t, int m) {
    sizes s = sizes_of(c->graph, c->node);
    const double* z = (const double*)c->in[0] + ((size_t)row * s.T + t) * s.D;
    double sum = 0;
    for (int d = 0; d < s.D; d++) sum += z[d] * a[m * s.D + d];
    return sum;
}

static size_t count(const nn_graph* g, const nn_node* n, int back) {
    sizes s = sizes_of(g, n);
    return back ? 1 : (size_t)s.T * s.M * SIGREG_KNOTS * 2;
}

static void shard(const nn_call* c, int back, double* sum) {
    sizes s = sizes_of(c->graph, c->node);
    const double* a = directions(c);
    memset(sum, 0, count(c->graph, c->node, back) * sizeof *sum);
    for (int r = 0; back && r < c->rows; r++) *sum += ((const double*)c->dout)[r];
    for (int i = 0; !back && i < s.T * s.M; i++)
        for (int r = 0; r < c->rows; r++) {
            double p = project(c, a, r, i / s.M, i % s.M);
            for (int k = 0; k < SIGREG_KNOTS; k++) {
                sum[(i * SIGREG_KNOTS + k) * 2] += cos(sigreg_tau(k) * p);
                sum[(i * SIGREG_KNOTS + k) * 2 + 1] += sin(sigreg_tau(k) * p);
            }
        }
}

const nn_gather nn_ref_sigreg_gather = {.always = 1, .count = count, .shard = shard};

void nn_ref_sigreg_forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    double loss = sigreg_loss(c->sum, s.T * s.M, c->batch);
    for (int r = 0; r < c->rows; r++) ((double*)c->out)[r] = loss;
}

// dL/ds = 2 / (T M) sum_k W_k tau_k (S_k cos(tau_k s) - (C_k - phi_k) sin(tau_k s)), along a
void nn_ref_sigreg_backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    const double* a = directions(c);
    double* dz = nn_ref_grad(c, 0);
    for (int i = 0; dz && i < s.T * s.M; i++) {
        int t = i / s.M, m = i % s.M;
        for (int r = 0; r < c->rows; r++) {
            double p = project(c, a, r, t, m), ds = 0;
            for (int k = 0; k < SIGREG_KNOTS; k++) {
                const double* e = c->sum + (i * SIGREG_KNOTS + k) * 2;
                double tau = sigreg_tau(k);
                ds += sigreg_weight(k) * tau *
                      (e[1] / c->batch * cos(tau * p) -
                       (e[0] / c->batch - sigreg_phi(k)) * sin(tau * p));
            }
            ds *= 2.0 / (s.T * s.M) * *c->sum_back;
            for (int d = 0; d < s.D; d++)
                dz[((size_t)r * s.T + t) * s.D + d] += ds * a[m * s.D + d];
        }
    }
}
