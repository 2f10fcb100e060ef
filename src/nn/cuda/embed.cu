// embed.cu - pictures become tokens: launches of the kernels in embed_kernels.cuh around products
// by cuBLASLt on bfloat16.
#include "nn/cuda/device.cuh"
#include "nn/cuda/embed.h"
#include "nn/cuda/embed_kernels.cuh"

namespace {

enum { MOST_STRIPE = 48 << 10 };  // bytes of shared memory

static int patches_of(const nn_cuda_embed* e) {
    return e->side / e->patch * (e->side / e->patch);
}

static int inputs_of(const nn_cuda_embed* e) {
    return e->patch * e->patch * 3;
}

// rows of operands begin at multiples of 16 bytes
static int padded_of(const nn_cuda_embed* e) {
    return (inputs_of(e) + 7) / 8 * 8;
}

struct cutter {
    char* at;
    template <class T>
    T* take(size_t count) {
        T* p = (T*)at;
        at += (count * sizeof(T) + 255) / 256 * 256;
        return p;
    }
};

// what the backward pass needs of the forward pass
struct kept {
    bf16* patches;  // (pictures * patches, padded)
    char* end;
};

static kept kept_of(const nn_cuda_embed* e, void* save) {
    cutter c = {(char*)save};
    kept k;
    k.patches = c.take<bf16>((size_t)e->pictures * (size_t)patches_of(e) * (size_t)padded_of(e));
    k.end = c.at;
    return k;
}

struct rooms {
    bf16 *weight, *products;  // products: their gradient in the backward pass
    float *part, *total, *sums;
    char* end;
};

static rooms rooms_of(const nn_cuda_embed* e, void* scratch) {
    cutter c = {(char*)scratch};
    size_t width = (size_t)e->width, patches = (size_t)patches_of(e), size = (patches + 1) * width;
    rooms r;
    r.weight = c.take<bf16>((size_t)padded_of(e) * width);
    r.products = c.take<bf16>((size_t)e->pictures * patches * width);
    r.part = c.take<float>(EMBED_CHUNKS * size);
    r.total = c.take<float>(size);
    r.sums = (float*)c.take<char>(nn_cuda_column_sums_bytes((int64_t)patches, (int64_t)width));
    r.end = c.at;
    return r;
}

// weights in bfloat16, zeros behind them
__global__ void __launch_bounds__(EMBED_THREADS)
    cast_weight(int count, int padded, const float* from, bf16* to) {
    int i = (int)(blockIdx.x * EMBED_THREADS + threadIdx.x);
    if (i < padded) to[i] = __float2bfloat16(i < count ? from[i] : 0);
}

__global__ void __launch_bounds__(EMBED_THREADS) patches_kernel(stripe s) {
    cut_patches(s);
}
__global__ void __launch_bounds__(EMBED_THREADS) join_kernel(stream s) {
    join_tokens(s);
}
__global__ void __launch_bounds__(EMBED_THREADS) split_kernel(stream_back s) {
    split_tokens(s);
}
__global__ void __launch_bounds__(EMBED_THREADS) chunks_kernel(stream_sums s) {
    add_chunks(s);
}

static void cut(nn_cuda_queue* q, const nn_cuda_embed* e, bf16* to) {
    stripe s = {e->side, e->patch, padded_of(e), {}, {}, e->frames, to};
    for (int i = 0; i < 3; i++) s.scale[i] = e->scale[i], s.shift[i] = e->shift[i];
    uint32_t blocks = (uint32_t)(e->pictures * (e->side / e->patch));
    size_t room = (size_t)e->side * 3 * (size_t)e->patch;
    patches_kernel<<<blocks, EMBED_THREADS, room, (cudaStream_t)nn_cuda_stream(q)>>>(s);
    nn_cuda_check(q, "patches");
}

}  // namespace

int nn_cuda_embed_fits(int side, int patch, int width) {
    int stripe = side * 3 * patch;
    return side % patch == 0 && patch % 2 == 0 && stripe % 16 == 0 && stripe <= MOST_STRIPE &&
           width % EMBED_VEC == 0;
}

size_t nn_cuda_embed_save(const nn_cuda_embed* e) {
    return (size_t)(kept_of(e, NULL).end - (char*)NULL);
}

size_t nn_cuda_embed_scratch(const nn_cuda_embed* e) {
    return (size_t)(rooms_of(e, NULL).end - (char*)NULL);
}

void nn_cuda_embed_forward(nn_cuda_queue* q, const nn_cuda_embed* e) {
    kept k = kept_of(e, e->save);
    rooms r = rooms_of(e, e->scratch);
    int width = e->width, padded = padded_of(e), tokens = patches_of(e) + 1;
    launch(q, "weights in bfloat16", cast_weight, blocks_for(padded * width, EMBED_THREADS),
           EMBED_THREADS, inputs_of(e) * width, padded * width, e->param[EMBED_WEIGHT], r.weight);
    cut(q, e, k.patches);
    nn_cuda_product p = {};
    p.half = p.half_out = 1;
    p.m = (int64_t)e->pictures * patches_of(e), p.k = p.lda = padded, p.n = p.ldb = p.ldc = width;
    p.a = k.patches, p.b = r.weight, p.d = r.products;
    nn_cuda_multiply(q, &p);
    stream s = {(int64_t)e->pictures * tokens,
                tokens,
                width,
                r.products,
                e->param[EMBED_BIAS],
                e->param[EMBED_CLASS],
                e->param[EMBED_POSITIONS],
                e->y};
    launch(q, "tokens", join_kernel, blocks_for(s.rows * width / EMBED_VEC, EMBED_THREADS),
           EMBED_THREADS, s);
}

void nn_cuda_embed_backward(nn_cuda_queue* q, const nn_cuda_embed* e) {
    kept k = kept_of(e, e->save);
    rooms r = rooms_of(e, e->scratch);
    int width = e->width, patches = patches_of(e), size = (patches + 1) * width;
    int blocks = (int)blocks_for(size / EMBED_VEC, EMBED_THREADS);
    stream_back back = {e->pictures, patches + 1, width, blocks, e->dy, r.products, r.part};
    launch(q, "tokens", split_kernel, (uint32_t)(blocks * EMBED_CHUNKS), EMBED_THREADS, back);
    stream_sums sums = {patches + 1,          width,  r.part, e->grad[EMBED_POSITIONS],
                        e->grad[EMBED_CLASS], r.total};
    launch(q, "tokens", chunks_kernel, blocks_for(size, EMBED_THREADS), EMBED_THREADS, sums);
    if (e->grad[EMBED_BIAS])
        nn_cuda_column_sums(q, patches, width, r.total + width, e->grad[EMBED_BIAS], r.sums);
    if (!e->grad[EMBED_WEIGHT]) return;
    nn_cuda_product p = {};
    p.half = 1, p.ta = 1, p.beta = 1;
    p.m = inputs_of(e), p.n = p.ldb = p.ldc = width, p.k = (int64_t)e->pictures * patches;
    p.a = k.patches, p.lda = padded_of(e), p.b = r.products;
    p.c = p.d = e->grad[EMBED_WEIGHT];
    nn_cuda_multiply(q, &p);
}
