// norm.c - LayerNorm over the last dimension, GroupNorm over positions and a group's channels.
#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"

// ---- layernorm: save holds mean and 1/deviation of every row ----

static size_t ln_save(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* x = &g->tensor[n->in[0]];
    return (size_t)rows * (size_t)(x->size / x->dim[x->rank - 1]) * 2 * sizeof(float);
}

static void ln_forward(const nn_call* c) {
    int width = nn_in(c, 1)->size;
    int64_t rows = (int64_t)c->rows * nn_in(c, 0)->size / width;
    nn_loops_get()->layernorm(rows, width, c->in[0], c->in[1], c->in[2], c->node->eps, c->out,
                              c->save);
}

static void ln_backward(const nn_call* c) {
    int width = nn_in(c, 1)->size;
    int64_t rows = (int64_t)c->rows * nn_in(c, 0)->size / width;
    nn_loops_get()->layernorm_back(rows, width, c->in[0], c->in[1], c->save, c->dout, c->din[0],
                                   c->accumulate[0], c->din[1], c->din[2]);
}

// ---- adanorm: save is layernorm's ----

static void ada_forward(const nn_call* c) {
    const nn_tensor* t = nn_in(c, 0);
    int width = t->dim[t->rank - 1];
    int64_t rows = (int64_t)c->rows * t->size / width;
    const float *scale = c->in[1], *shift = c->in[2];
    float *y = c->out, *stat = c->save;
    nn_loops_get()->standardise(rows, width, c->in[0], c->node->eps, y, stat);
    for (int64_t i = 0; i < rows * width; i++) y[i] = y[i] * (1.0f + scale[i]) + shift[i];
}

static void ada_backward(const nn_call* c) {
    const nn_tensor* t = nn_in(c, 0);
    int width = t->dim[t->rank - 1];
    int64_t rows = (int64_t)c->rows * t->size / width;
    const float *x = c->in[0], *dy = c->dout, *stat = c->save;
    if (c->din[0])
        nn_loops_get()->adanorm_back(rows, width, x, c->in[1], stat, dy, c->din[0],
                                     c->accumulate[0]);
    float* dscale = c->din[1];
    for (int64_t i = 0; dscale && i < rows * width; i++) {
        float h = (x[i] - stat[i / width * 2]) * stat[i / width * 2 + 1];
        dscale[i] = (c->accumulate[1] ? dscale[i] : 0.0f) + dy[i] * h;
    }
    if (c->din[2]) nn_loops_get()->scaled(rows * width, 1, dy, c->din[2], c->accumulate[2]);
}

// ---- groupnorm: save holds mean and 1/deviation of every (sample, group) ----

static size_t gn_save(const nn_graph* g, const nn_node* n, int rows) {
    (void)g;
    return (size_t)rows * (size_t)n->groups * 2 * sizeof(float);
}

static size_t gn_scratch(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    // two double and three float vectors over channels
    return (size_t)g->tensor[n->in[1]].size * (2 * sizeof(double) + 3 * sizeof(float));
}

typedef struct gn_vectors {
    double *a, *b;
    float *scale, *slope, *shift;
} gn_vectors;

static gn_vectors gn_split(void* scratch, int channels) {
    gn_vectors v;
    v.a = scratch;
    v.b = v.a + channels;
    v.scale = (float*)(v.b + channels);
    v.slope = v.scale + channels;
    v.shift = v.slope + channels;
    return v;
}

static void gn_forward(const nn_call* c) {
    int channels = nn_in(c, 1)->size, groups = c->node->groups, per = channels / groups;
    int positions = nn_in(c, 0)->size / channels;
    double count = (double)positions * per;
    const float *gamma = c->in[1], *beta = c->in[2];
    gn_vectors v = gn_split(c->scratch, channels);
    for (int i = 0; i < c->rows; i++) {
        const float* x = (const float*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        float* y = (float*)c->out + (int64_t)i * nn_in(c, 0)->size;
        float* stat = (float*)c->save + (int64_t)i * groups * 2;
        memset(v.a, 0, 2 * (size_t)channels * sizeof *v.a);
        nn_loops_get()->channel_sums(positions, channels, x, x, v.a, v.b);
        for (int g = 0; g < groups; g++) {
            double sum = 0, square = 0;
            for (int j = g * per; j < (g + 1) * per; j++) {
                sum += v.a[j];
                square += v.b[j];
            }
            double mean = sum / count, variance = square / count - mean * mean;
            if (variance < 0) variance = 0;
            stat[2 * g] = (float)mean;
            stat[2 * g + 1] = (float)(1.0 / sqrt(variance + (double)c->node->eps));
            for (int j = g * per; j < (g + 1) * per; j++) {
                v.scale[j] = stat[2 * g + 1] * gamma[j];
                v.shift[j] = beta[j] - stat[2 * g] * v.scale[j];
            }
        }
        nn_loops_get()->channel_affine(positions, channels, x, v.scale, NULL, NULL, v.shift, y, 0);
    }
}

static void gn_backward(const nn_call* c) {
    int channels = nn_in(c, 1)->size, groups = c->node->groups, per = channels / groups;
    int positions = nn_in(c, 0)->size / channels;
    double count = (double)positions * per;
    const float* gamma = c->in[1];
    float *dgamma = c->din[1], *dbeta = c->din[2];
    gn_vectors v = gn_split(c->scratch, channels);
    for (int i = 0; i < c->rows; i++) {
        const float* x = (const float*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        const float* dy = (const float*)c->dout + (int64_t)i * nn_in(c, 0)->size;
        const float* stat = (const float*)c->save + (int64_t)i * groups * 2;
        memset(v.a, 0, 2 * (size_t)channels * sizeof *v.a);
        nn_loops_get()->channel_sums(positions, channels, dy, x, v.a, v.b);  // sum dy, sum dy x
        for (int g = 0; g < groups; g++) {
            double mean = stat[2 * g], rstd = stat[2 * g + 1], s1 = 0, s2 = 0;
            for (int j = g * per; j < (g + 1) * per; j++) {
                double hat = (v.b[j] - mean * v.a[j]) * rstd;  // sum of dy * normalised x
                if (dgamma) dgamma[j] += (float)hat;
                if (dbeta) dbeta[j] += (float)v.a[j];
                s1 += (double)gamma[j] * v.a[j];
                s2 += (double)gamma[j] * hat;
            }
            s1 /= count;
            s2 /= count;
            // dx = rstd (gamma dy - s1 - xhat s2), as dy * scale + x * slope + shift
            for (int j = g * per; j < (g + 1) * per; j++) {
                v.scale[j] = (float)(rstd * (double)gamma[j]);
                v.slope[j] = (float)(-rstd * rstd * s2);
                v.shift[j] = (float)(rstd * (rstd * mean * s2 - s1));
            }
        }
        if (c->din[0])
            nn_loops_get()->channel_affine(positions, channels, dy, v.scale, x, v.slope, v.shift,
                                           (float*)c->din[0] + (int64_t)i * nn_in(c, 0)->size,
                                           c->accumulate[0]);
    }
}

const nn_kernel nn_cpu_layernorm = {ln_forward, ln_backward, ln_save, NULL};
const nn_kernel nn_cpu_adanorm = {ada_forward, ada_backward, ln_save, NULL};
const nn_kernel nn_cpu_groupnorm = {gn_forward, gn_backward, gn_save, gn_scratch};
