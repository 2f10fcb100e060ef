// batchnorm.c - batch norm, reference: y = gamma (x - mean) / sqrt(var + eps) + beta for every
// channel of the last dimension. In training mean and (biased) variance are those of the whole
// batch, whose sums arrive in c->sum; deployed they are the buffers. An update moves the buffers by
// alpha towards the batch's mean and unbiased variance.
#include <math.h>
#include <string.h>

#include "nn/ref/ref.h"

typedef struct channel {
    double mean, scale;  // scale: 1 / deviation
} channel;

static size_t rows_of(const nn_call* c, int samples) {
    return (size_t)samples * (size_t)(nn_in(c, 0)->size / nn_ref_last(nn_in(c, 0)));
}

static channel channel_of(const nn_call* c, int i) {
    double mean = ((const double*)c->in[3])[i], var = ((const double*)c->in[4])[i];
    if (c->train) {
        double n = (double)rows_of(c, c->batch);
        mean = c->sum[2 * i] / n;
        var = fmax(c->sum[2 * i + 1] / n - mean * mean, 0);
    }
    return (channel){mean, 1 / sqrt(var + (double)c->node->eps)};
}

static size_t count(const nn_graph* g, const nn_node* n, int back) {
    (void)back;
    return 2 * (size_t)g->tensor[n->in[1]].size;
}

// per channel: sums of x and x^2; backward: of dy and dy h, with h the normalised x
static void shard(const nn_call* c, int back, double* sum) {
    int C = nn_ref_last(nn_in(c, 0));
    const double *x = c->in[0], *dy = c->dout;
    memset(sum, 0, 2 * (size_t)C * sizeof *sum);
    for (int i = 0; i < C; i++) {
        channel ch = back ? channel_of(c, i) : (channel){0};
        for (size_t r = 0; r < rows_of(c, c->rows); r++) {
            double v = x[r * (size_t)C + (size_t)i], d = back ? dy[r * (size_t)C + (size_t)i] : 0;
            sum[2 * i] += back ? d : v;
            sum[2 * i + 1] += back ? d * (v - ch.mean) * ch.scale : v * v;
        }
    }
}

static void settle(const nn_call* c) {
    double n = (double)rows_of(c, c->batch), keep = 1 - (double)c->node->alpha;
    double *mean = (double*)c->in[3], *var = (double*)c->in[4], *updates = (double*)c->in[5];
    for (int i = 0; i < nn_ref_last(nn_in(c, 0)); i++) {
        double m = c->sum[2 * i] / n, v = fmax(c->sum[2 * i + 1] / n - m * m, 0);
        mean[i] = keep * mean[i] + (1 - keep) * m;
        var[i] = keep * var[i] + (1 - keep) * (n > 1 ? v * n / (n - 1) : v);
    }
    *updates += 1;
}

const nn_gather nn_ref_batchnorm_gather = {.count = count, .shard = shard, .settle = settle};

void nn_ref_batchnorm_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0));
    const double *x = c->in[0], *gamma = c->in[1], *beta = c->in[2];
    double* y = c->out;
    for (int i = 0; i < C; i++) {
        channel ch = channel_of(c, i);
        for (size_t r = 0; r < rows_of(c, c->rows); r++) {
            size_t at = r * (size_t)C + (size_t)i;
            y[at] = gamma[i] * (x[at] - ch.mean) * ch.scale + beta[i];
        }
    }
}

// with h = (x - mean) scale and means over the batch: dx = gamma scale (dy - mean(dy) - h mean(dy
// h))
void nn_ref_batchnorm_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0));
    double n = (double)rows_of(c, c->batch);
    const double *x = c->in[0], *gamma = c->in[1], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dgamma = nn_ref_grad(c, 1), *dbeta = nn_ref_grad(c, 2);
    for (int i = 0; i < C; i++) {
        channel ch = channel_of(c, i);
        double mean = c->sum_back[2 * i] / n, slope = c->sum_back[2 * i + 1] / n;
        for (size_t r = 0; r < rows_of(c, c->rows); r++) {
            size_t at = r * (size_t)C + (size_t)i;
            double h = (x[at] - ch.mean) * ch.scale;
            if (dx) dx[at] += gamma[i] * ch.scale * (dy[at] - mean - h * slope);
            if (dgamma) dgamma[i] += dy[at] * h;
            if (dbeta) dbeta[i] += dy[at];
        }
    }
}
