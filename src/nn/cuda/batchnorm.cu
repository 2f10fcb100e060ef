// batchnorm.cu - batch norm over the last dimension; the batch is one shard, so its statistics are
// sums over all rows. A block takes 32 channels; sums run over its 32 lanes in a fixed order. save:
// mean, 1/deviation and biased variance of every channel. The backward pass, which runs once per
// update, also moves the running statistics. Gradients of few rows are small differences, so
// statistics and slopes are double.
#include "nn/cuda/device.cuh"

namespace {

typedef struct sizes {
    int64_t rows;
    int channels;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n, int rows) {
    int channels = g->tensor[n->in[1]].size;
    return sizes{(int64_t)rows * (g->tensor[n->in[0]].size / channels), channels};
}

struct stats {
    double *mean, *rstd, *var;
};

static double* take(pieces* p, int channels) {
    return (double*)p->take(2 * (size_t)channels);
}

static stats stats_of(const nn_call* c, int channels) {
    pieces p = {(char*)c->save};
    stats s;
    s.mean = take(&p, channels);
    s.rstd = take(&p, channels);
    s.var = take(&p, channels);
    return s;
}

static size_t save_bytes(const nn_graph* g, const nn_node* n, int rows) {
    return 3 * pieces::bytes(2 * (size_t)sizes_of(g, n, rows).channels);
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    return 2 * pieces::bytes(2 * (size_t)sizes_of(g, n, rows).channels);
}

// the sum over a column's lanes, in all of them
__device__ __forceinline__ double column_total(double (*shared)[COLUMN_TILE + 1], double v) {
    lanes_sum(shared, v);
    __syncthreads();
    return shared[0][threadIdx.x];
}

__global__ void __launch_bounds__(COLUMN_TILE* COLUMN_LANES)
    stats_kernel(sizes s, float eps, const float* x, stats to) {
    __shared__ double shared[COLUMN_LANES][COLUMN_TILE + 1];
    int col = blockIdx.x * COLUMN_TILE + threadIdx.x, inside = col < s.channels;
    double sum = 0, square = 0;
    for (int64_t r = threadIdx.y; inside && r < s.rows; r += COLUMN_LANES)
        sum += x[r * s.channels + col];
    double mean = column_total(shared, sum) / (double)s.rows;
    for (int64_t r = threadIdx.y; inside && r < s.rows; r += COLUMN_LANES) {
        double d = x[r * s.channels + col] - mean;
        square += d * d;
    }
    double var = column_total(shared, square) / (double)s.rows;
    if (threadIdx.y != 0 || !inside) return;
    to.mean[col] = mean;
    to.var[col] = var;
    to.rstd[col] = 1 / sqrt(var + eps);
}

__global__ void buffers_kernel(int channels, float eps, const float* mean, const float* var,
                               stats to) {
    int col = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (col >= channels) return;
    to.mean[col] = mean[col];
    to.var[col] = var[col];
    to.rstd[col] = 1 / sqrt((double)var[col] + eps);
}

struct normalise {
    divider channels;
    stats s;
    const float *gamma, *beta;
    __device__ void operator()(const float* x, float* y, uint32_t i) const {
        uint32_t col;
        split(i, channels, &col);
        y[0] = (float)((x[0] - s.mean[col]) * s.rstd[col] * gamma[col] + beta[col]);
    }
};

static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_queue* q = queue_of(c);
    stats to = stats_of(c, s.channels);
    if (c->train)
        launch(q, "batchnorm", stats_kernel, blocks_for(s.channels, COLUMN_TILE),
               dim3(COLUMN_TILE, COLUMN_LANES), s, c->node->eps, input(c, 0), to);
    else
        launch(q, "batchnorm", buffers_kernel, blocks_for(s.channels, 256), 256, s.channels,
               c->node->eps, input(c, 3), input(c, 4), to);
    map_arrays<1, 1> a = {{input(c, 0)}, {(float*)c->out}, {0}};
    map(q, "batchnorm", s.rows * s.channels, a,
        normalise{divide_by((uint32_t)s.channels), to, input(c, 1), input(c, 2)});
}

// where a channel's sums go, and the running statistics
struct back_sinks {
    float *dgamma, *dbeta;        // NULL: not wanted
    double *mean_dy, *mean_dyh;   // (channels)
    float *running_mean, *running_var, *updates;
    float move;
};

__global__ void __launch_bounds__(COLUMN_TILE* COLUMN_LANES)
    sums_kernel(sizes s, const float* x, const float* dy, stats st, back_sinks to) {
    __shared__ double shared[COLUMN_LANES][COLUMN_TILE + 1];
    int col = blockIdx.x * COLUMN_TILE + threadIdx.x, inside = col < s.channels;
    double one = 0, two = 0;
    for (int64_t r = threadIdx.y; inside && r < s.rows; r += COLUMN_LANES) {
        double g = dy[r * s.channels + col];
        one += g;
        two += g * ((x[r * s.channels + col] - st.mean[col]) * st.rstd[col]);
    }
    one = column_total(shared, one);
    __syncthreads();
    two = column_total(shared, two);
    if (threadIdx.y != 0 || !inside) return;
    double n = (double)s.rows, keep = 1 - (double)to.move;
    if (to.dbeta) to.dbeta[col] += (float)one;
    if (to.dgamma) to.dgamma[col] += (float)two;
    to.mean_dy[col] = one / n;
    to.mean_dyh[col] = two / n;
    double var = n > 1 ? st.var[col] * (n / (n - 1)) : st.var[col];
    to.running_mean[col] = (float)(keep * to.running_mean[col] + to.move * st.mean[col]);
    to.running_var[col] = (float)(keep * to.running_var[col] + to.move * var);
    if (col == 0) *to.updates += 1;
}

struct slope {
    divider channels;
    stats s;
    const float* gamma;
    const double *mean_dy, *mean_dyh;
    __device__ void operator()(const float* in, float* dx, uint32_t i) const {
        uint32_t col;
        split(i, channels, &col);
        double h = (in[1] - s.mean[col]) * s.rstd[col];
        dx[0] = (float)(gamma[col] * s.rstd[col] * (in[0] - mean_dy[col] - h * mean_dyh[col]));
    }
};

static void backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_queue* q = queue_of(c);
    stats st = stats_of(c, s.channels);
    pieces p = {(char*)c->scratch};
    back_sinks to = {gradient(c, 1), gradient(c, 2)};
    to.mean_dy = take(&p, s.channels);
    to.mean_dyh = take(&p, s.channels);
    to.running_mean = (float*)c->in[3];
    to.running_var = (float*)c->in[4];
    to.updates = (float*)c->in[5];
    to.move = c->node->alpha;
    const float* dy = (const float*)c->dout;
    launch(q, "batchnorm", sums_kernel, blocks_for(s.channels, COLUMN_TILE),
           dim3(COLUMN_TILE, COLUMN_LANES), s, input(c, 0), dy, st, to);
    if (!c->din[0]) return;
    map_arrays<2, 1> a = {{dy, input(c, 0)}, {gradient(c, 0)}, {adds(c, 0)}};
    map(q, "batchnorm", s.rows * s.channels, a,
        slope{divide_by((uint32_t)s.channels), st, input(c, 1), to.mean_dy, to.mean_dyh});
}

}  // namespace

const nn_kernel nn_cuda_batchnorm = {forward, backward, save_bytes, scratch_bytes};
