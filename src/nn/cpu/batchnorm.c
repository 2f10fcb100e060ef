// batchnorm.c - batch norm over the last dimension; the statistics of the whole batch come from
// sums over its shards (backend.h, nn_gather).
#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"

typedef struct vectors {
    double *a, *b;                 // sums over the shard
    float *scale, *slope, *shift;  // y = x scale + z slope + shift, per channel
} vectors;

static vectors split(const nn_call* c) {
    int channels = nn_in(c, 1)->size;
    vectors v;
    v.a = c->scratch;
    v.b = v.a + channels;
    v.scale = (float*)(v.b + channels);
    v.slope = v.scale + channels;
    v.shift = v.slope + channels;
    return v;
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    return (size_t)g->tensor[n->in[1]].size * (2 * sizeof(double) + 3 * sizeof(float));
}

static int64_t positions(const nn_call* c, int samples) {
    return (int64_t)samples * nn_in(c, 0)->size / nn_in(c, 1)->size;
}

typedef struct channel {
    double mean, rstd;
} channel;

static channel channel_of(const nn_call* c, int i) {
    double mean = (double)((const float*)c->in[3])[i], var = (double)((const float*)c->in[4])[i];
    if (c->train) {
        double n = (double)positions(c, c->batch);
        mean = c->sum[2 * i] / n;
        var = fmax(c->sum[2 * i + 1] / n - mean * mean, 0);
    }
    return (channel){mean, 1 / sqrt(var + (double)c->node->eps)};
}

// ---- sums ---------------------------------------------------------------------------------------

static size_t count(const nn_graph* g, const nn_node* n, int back) {
    (void)back;
    return 2 * (size_t)g->tensor[n->in[1]].size;
}

// sums of the shard into v.a and v.b: of x and x^2, or of dy and dy times the normalised x
static void shard_sums(const nn_call* c, int back, vectors* v) {
    int channels = nn_in(c, 1)->size;
    memset(v->a, 0, 2 * (size_t)channels * sizeof *v->a);
    nn_loops_get()->channel_sums(positions(c, c->rows), channels, back ? c->dout : c->in[0],
                                 c->in[0], v->a, v->b);
    for (int i = 0; i < channels && back; i++) {
        channel ch = channel_of(c, i);
        v->b[i] = (v->b[i] - ch.mean * v->a[i]) * ch.rstd;
    }
}

static void shard(const nn_call* c, int back, double* sum) {
    vectors v = split(c);
    shard_sums(c, back, &v);
    for (int i = 0; i < nn_in(c, 1)->size; i++) {
        sum[2 * i] = v.a[i];
        sum[2 * i + 1] = v.b[i];
    }
}

static void settle(const nn_call* c) {
    double n = (double)positions(c, c->batch), move = (double)c->node->alpha;
    float *mean = (float*)c->in[3], *var = (float*)c->in[4], *updates = (float*)c->in[5];
    for (int i = 0; i < nn_in(c, 1)->size; i++) {
        double m = c->sum[2 * i] / n, v = fmax(c->sum[2 * i + 1] / n - m * m, 0);
        if (n > 1) v *= n / (n - 1);
        mean[i] = (float)((1 - move) * (double)mean[i] + move * m);
        var[i] = (float)((1 - move) * (double)var[i] + move * v);
    }
    *updates += 1;
}

const nn_gather nn_cpu_batchnorm_gather = {.count = count, .shard = shard, .settle = settle};

// ---- passes -------------------------------------------------------------------------------------

static void forward(const nn_call* c) {
    int channels = nn_in(c, 1)->size;
    const float *gamma = c->in[1], *beta = c->in[2];
    vectors v = split(c);
    for (int i = 0; i < channels; i++) {
        channel ch = channel_of(c, i);
        v.scale[i] = (float)(ch.rstd * (double)gamma[i]);
        v.shift[i] = (float)((double)beta[i] - ch.mean * ch.rstd * (double)gamma[i]);
    }
    nn_loops_get()->channel_affine(positions(c, c->rows), channels, c->in[0], v.scale, NULL, NULL,
                                   v.shift, c->out, 0);
}

// dx = gamma rstd (dy - mean(dy) - h mean(dy h)), h the normalised x, as dy scale + x slope + shift
static void backward(const nn_call* c) {
    int channels = nn_in(c, 1)->size;
    double n = (double)positions(c, c->batch);
    const float* gamma = c->in[1];
    float *dgamma = c->din[1], *dbeta = c->din[2];
    vectors v = split(c);
    if (dgamma || dbeta) shard_sums(c, 1, &v);
    for (int i = 0; i < channels; i++) {
        channel ch = channel_of(c, i);
        double mean = c->sum_back[2 * i] / n, slope = c->sum_back[2 * i + 1] / n;
        double by = (double)gamma[i] * ch.rstd;
        if (dgamma) dgamma[i] += (float)v.b[i];
        if (dbeta) dbeta[i] += (float)v.a[i];
        v.scale[i] = (float)by;
        v.slope[i] = (float)(-by * slope * ch.rstd);
        v.shift[i] = (float)(by * (slope * ch.rstd * ch.mean - mean));
    }
    if (c->din[0])
        nn_loops_get()->channel_affine(positions(c, c->rows), channels, c->dout, v.scale, c->in[0],
                                       v.slope, v.shift, c->din[0], c->accumulate[0]);
}

const nn_kernel nn_cpu_batchnorm = {forward, backward, NULL, scratch_bytes};
