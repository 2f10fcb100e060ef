// dropout.cu - dropout, a thread for the four elements of a drawn block.
#include "nn/cuda/random.cuh"

namespace {

__global__ void __launch_bounds__(MAP_THREADS)
    drop_kernel(uint32_t count, device_key key, float p, const float* x, float* y, int add) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * 4;
    if (i >= count) return;
    uint32_t word[4];
    draw(key, i / 4, word);
    for (int j = 0; j < 4 && i + j < count; j++) {
        float v = nn_kept(word[j], p) ? x[i + j] * (1 / (1 - p)) : 0.0f;
        y[i + j] = add ? y[i + j] + v : v;
    }
}

struct same {
    __device__ void operator()(const float* x, float* y, uint32_t) const { y[0] = x[0]; }
};

static void run(const nn_call* c, const float* x, float* y, int add) {
    uint32_t count = elements(queue_of(c), (int64_t)c->rows * nn_out(c)->size);
    launch(queue_of(c), "dropout", drop_kernel, blocks_for(count, 4 * MAP_THREADS), MAP_THREADS,
           count, device_key_of(c, RNG_DROPOUT), c->node->alpha, x, y, add);
}

static void forward(const nn_call* c) {
    if (c->train) {
        run(c, input(c, 0), (float*)c->out, 0);
        return;
    }
    map_arrays<1, 1> a = {{input(c, 0)}, {(float*)c->out}, {0}};
    map(queue_of(c), "dropout", (int64_t)c->rows * nn_out(c)->size, a, same{});
}

static void backward(const nn_call* c) {
    run(c, (const float*)c->dout, gradient(c, 0), adds(c, 0));
}

}  // namespace

const nn_kernel nn_cuda_dropout = {forward, backward, NULL, NULL};
