// sigreg.c - SIGReg (ref/sigreg.c says what it is). Directions are drawn once per pass, projections
// are one matrix product; the cosines and sines of the knots follow from the first by turning.
#include "nn/sigreg.h"

#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"
#include "nn/cpu/gemm.h"

typedef struct sizes {
    int T, D, M;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n) {
    const nn_tensor* z = &g->tensor[n->in[0]];
    return (sizes){z->dim[0], z->dim[1], n->groups};
}

// scratch: directions (M, D), then projections or their gradients (rows, T, M)
static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n);
    return ((size_t)s.M * s.D + (size_t)rows * s.T * s.M) * sizeof(float);
}

// directions of length 1 and projections on them
static const float* project(const nn_call* c, sizes s, float** projected) {
    nn_key key = nn_key_of(c, RNG_DIRECTIONS);
    float* a = c->scratch;
    *projected = a + (size_t)s.M * s.D;
    rng_fill_normal(key.seed, key.stream, 4 * key.first, a, (int64_t)s.M * s.D);
    for (int m = 0; m < s.M; m++) {
        float* row = a + (size_t)m * s.D;
        float by = (float)(1 / sqrt(nn_loops_get()->square_sum(s.D, row)));
        for (int d = 0; d < s.D; d++) row[d] *= by;
    }
    nn_gemm(&(nn_product){.m = (int64_t)c->rows * s.T,
                          .k = s.D,
                          .n = s.M,
                          .a = c->in[0],
                          .lda = s.D,
                          .b = a,
                          .ldb = s.D,
                          .turn_b = 1,
                          .c = *projected,
                          .ldc = s.M});
    return a;
}

// ---- sums ---------------------------------------------------------------------------------------

static size_t count(const nn_graph* g, const nn_node* n, int back) {
    sizes s = sizes_of(g, n);
    return back ? 1 : (size_t)s.T * s.M * SIGREG_KNOTS * 2;
}

static void add_waves(float p, double* sum) {
    float step = (float)sigreg_tau(0) * p, c1 = cosf(step), s1 = sinf(step), c = c1, s = s1;
    for (int k = 0; k < SIGREG_KNOTS; k++) {
        sum[2 * k] += (double)c;
        sum[2 * k + 1] += (double)s;
        float turned = c * c1 - s * s1;
        s = s * c1 + c * s1;
        c = turned;
    }
}

static void shard(const nn_call* c, int back, double* sum) {
    sizes s = sizes_of(c->graph, c->node);
    memset(sum, 0, count(c->graph, c->node, back) * sizeof *sum);
    if (back) {
        for (int r = 0; r < c->rows; r++) *sum += (double)((const float*)c->dout)[r];
        return;
    }
    float* p;
    project(c, s, &p);
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < s.T * s.M; i++)
            add_waves(p[(size_t)r * s.T * s.M + i], sum + (size_t)i * SIGREG_KNOTS * 2);
}

const nn_gather nn_cpu_sigreg_gather = {.always = 1, .count = count, .shard = shard};

// ---- passes -------------------------------------------------------------------------------------

static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    float loss = (float)sigreg_loss(c->sum, s.T * s.M, c->batch);
    for (int r = 0; r < c->rows; r++) ((float*)c->out)[r] = loss;
}

typedef struct knots {
    float phi[SIGREG_KNOTS], by[SIGREG_KNOTS];  // by: weight times tau
} knots;

// sum_k W_k tau_k (S_k cos(tau_k p) - (C_k - phi_k) sin(tau_k p))
static float slope(float p, const double* sum, const knots* at, double n) {
    float step = (float)sigreg_tau(0) * p, c1 = cosf(step), s1 = sinf(step), c = c1, s = s1;
    float total = 0;
    for (int k = 0; k < SIGREG_KNOTS; k++) {
        float mean_c = (float)(sum[2 * k] / n) - at->phi[k], mean_s = (float)(sum[2 * k + 1] / n);
        total += at->by[k] * (mean_s * c - mean_c * s);
        float turned = c * c1 - s * s1;
        s = s * c1 + c * s1;
        c = turned;
    }
    return total;
}

static void backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    float* p;
    const float* a = project(c, s, &p);
    float by = (float)(2.0 / ((double)s.T * s.M) * *c->sum_back);
    knots at;
    for (int k = 0; k < SIGREG_KNOTS; k++) {
        at.phi[k] = (float)sigreg_phi(k);
        at.by[k] = (float)(sigreg_weight(k) * sigreg_tau(k));
    }
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < s.T * s.M; i++) {
            float* one = p + (size_t)r * s.T * s.M + i;
            *one = by * slope(*one, c->sum + (size_t)i * SIGREG_KNOTS * 2, &at, c->batch);
        }
    nn_gemm(&(nn_product){.m = (int64_t)c->rows * s.T,
                          .k = s.M,
                          .n = s.D,
                          .a = p,
                          .lda = s.M,
                          .b = a,
                          .ldb = s.D,
                          .add = c->accumulate[0],
                          .c = c->din[0],
                          .ldc = s.D});
}

const nn_kernel nn_cpu_sigreg = {forward, backward, NULL, scratch_bytes};
