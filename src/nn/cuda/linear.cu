// linear.cu - y = x w + b over all leading dimensions at once; the bias is added by the product.
#include "nn/cuda/queue.cuh"

namespace {

// sums of columns of a matrix
struct one_column {
    const float* src;
    int64_t cols;
    __device__ void operator()(int64_t row, int col, float* v) const {
        v[0] = src[row * cols + col];
    }
};

// x (m, k), w (k, n)
typedef struct sizes {
    int64_t m;
    int k, n;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* node, int rows) {
    int k = g->tensor[node->in[1]].dim[0];
    return sizes{(int64_t)rows * (g->tensor[node->in[0]].size / k), k,
                 g->tensor[node->in[1]].dim[1]};
}

static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_gemm(queue_of(c), 0, 0, s.m, s.n, s.k, input(c, 0), s.k, input(c, 1), s.n, 0.0f,
                 (float*)c->out, s.n, input(c, 2));
}

static void backward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    sizes s = sizes_of(c->graph, c->node, c->rows);
    const float* dy = (const float*)c->dout;
    // nothing on the way back needs the weights' gradients
    nn_cuda_queue* aside = c->kept && (c->din[1] || c->din[2]) ? nn_cuda_aside(q) : q;
    if (c->din[0])
        nn_cuda_gemm(q, 0, 1, s.m, s.k, s.n, dy, s.n, input(c, 1), s.n, adds(c, 0) ? 1.0f : 0.0f,
                     gradient(c, 0), s.k, NULL);
    if (c->din[1])
        nn_cuda_gemm(aside, 1, 0, s.k, s.n, s.m, input(c, 0), s.k, dy, s.n,
                     adds(c, 1) ? 1.0f : 0.0f, gradient(c, 1), s.n, NULL);
    // scratch is the next step's
    if (c->din[2])
        nn_cuda_column_sums(nn_cuda_column_sums_bytes(s.m, s.n) ? q : aside, s.m, s.n, dy,
                            gradient(c, 2), c->scratch);
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* node, int rows) {
    sizes s = sizes_of(g, node, rows);
    return nn_cuda_column_sums_bytes(s.m, s.n);
}

}  // namespace

size_t nn_cuda_column_sums_bytes(int64_t rows, int64_t cols) {
    return column_scratch<1>(rows, cols);
}

void nn_cuda_column_sums(nn_cuda_queue* q, int64_t rows, int64_t cols, const float* src, float* dst,
                         void* scratch) {
    column_sink<1> sink = {{dst}, (float*)scratch};
    column_sums(q, "sums of columns", rows, cols, sink, one_column{src, cols});
}

const nn_kernel nn_cuda_linear = {forward, backward, NULL, scratch_bytes};
