// few.cu - attention over at most eight tokens, with dropout of the probabilities where asked for: a
// warp per group and head. Nothing is kept: the backward pass computes the scores again.
#include "nn/cuda/few.cuh"

#include "nn/cuda/random.cuh"

namespace {

enum { THREADS = 128, PARTS = 4 };  // a lane holds up to PARTS numbers of a head

struct few {
    int groups, tokens, width, heads, depth;
    float scale, p;  // p: dropout, 0 where none
    device_key key;
    const uint32_t* bits;  // a word of the mask per row
};

static few few_of(const nn_call* c, const uint32_t* bits) {
    const nn_tensor* y = nn_out(c);
    few f;
    f.tokens = y->dim[y->rank - 2];
    f.width = last_of(y);
    f.groups = c->rows * nn_attention_groups(y);
    f.heads = c->node->heads;
    f.depth = f.width / f.heads;
    f.scale = (float)(1.0 / sqrt((double)f.depth));
    f.p = c->train ? c->node->alpha : 0.0f;
    f.key = device_key_of(c, RNG_DROPOUT);
    f.bits = bits;
    return f;
}

// the lane's numbers of row t of part `which` (q, k, v), or of y and dy with one part
__device__ __forceinline__ void take(const few& f, const float* x, int parts, int which, int t,
                                     int64_t group, int head, float (&v)[PARTS]) {
    const float* row = x + ((group * f.tokens + t) * parts + which) * f.width + head * f.depth;
    for (int i = 0; i < PARTS; i++) {
        int at = threadIdx.x % 32 + 32 * i;
        v[i] = at < f.depth ? row[at] : 0.0f;
    }
}

__device__ __forceinline__ float dot(const float (&a)[PARTS], const float (&b)[PARTS]) {
    float sum = 0;
    for (int i = 0; i < PARTS; i++) sum += a[i] * b[i];
    return warp_sum(sum);
}

// probabilities of row t, and each one's factor under dropout
__device__ __forceinline__ void weigh(const few& f, const float* qkv, int t, int64_t group,
                                      int head, float (&p)[NN_CUDA_FEW],
                                      float (&keep)[NN_CUDA_FEW]) {
    float q[PARTS], k[PARTS], largest = -INFINITY, total = 0;
    uint32_t look = f.bits[t];
    take(f, qkv, 3, 0, t, group, head, q);
#pragma unroll
    for (int s = 0; s < NN_CUDA_FEW; s++) {
        p[s] = -INFINITY;
        if (s >= f.tokens || !(look >> s & 1)) continue;
        take(f, qkv, 3, 1, s, group, head, k);
        p[s] = dot(q, k) * f.scale;
        largest = fmaxf(largest, p[s]);
    }
#pragma unroll
    for (int s = 0; s < NN_CUDA_FEW; s++) {
        p[s] = p[s] == -INFINITY ? 0.0f : expf(p[s] - largest);
        total += p[s];
    }
#pragma unroll
    for (int s = 0; s < NN_CUDA_FEW; s++) {
        if (total > 0) p[s] /= total;
        keep[s] = 1;
        if (f.p == 0 || s >= f.tokens) continue;
        uint64_t e = (((uint64_t)group * f.heads + head) * f.tokens + t) * f.tokens + s;
        uint32_t word[4];
        draw(f.key, e / 4, word);
        keep[s] = nn_kept(word[e % 4], f.p) ? 1 / (1 - f.p) : 0.0f;
    }
}

__global__ void __launch_bounds__(THREADS) few_forward(few f, const float* qkv, float* y) {
    int64_t at = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (at >= (int64_t)f.groups * f.heads) return;
    int64_t group = at / f.heads;
    int head = (int)(at % f.heads);
    for (int t = 0; t < f.tokens; t++) {
        float p[NN_CUDA_FEW], keep[NN_CUDA_FEW], v[PARTS], sum[PARTS] = {};
        weigh(f, qkv, t, group, head, p, keep);
#pragma unroll
        for (int s = 0; s < NN_CUDA_FEW; s++) {
            if (s >= f.tokens) break;
            take(f, qkv, 3, 2, s, group, head, v);
            for (int i = 0; i < PARTS; i++) sum[i] += p[s] * keep[s] * v[i];
        }
        float* row = y + (group * f.tokens + t) * f.width + head * f.depth;
        for (int i = 0; i < PARTS; i++)
            if ((int)threadIdx.x % 32 + 32 * i < f.depth) row[threadIdx.x % 32 + 32 * i] = sum[i];
    }
}

__global__ void __launch_bounds__(THREADS)
    few_backward(few f, const float* qkv, const float* dy, float* dqkv, int add) {
    int64_t at = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (at >= (int64_t)f.groups * f.heads) return;
    int64_t group = at / f.heads;
    int head = (int)(at % f.heads);
    float dq[NN_CUDA_FEW][PARTS] = {}, dk[NN_CUDA_FEW][PARTS] = {}, dv[NN_CUDA_FEW][PARTS] = {};
#pragma unroll
    for (int t = 0; t < NN_CUDA_FEW; t++) {
        if (t >= f.tokens) break;
        float p[NN_CUDA_FEW], keep[NN_CUDA_FEW], slope[NN_CUDA_FEW], g[PARTS], q[PARTS], mean = 0;
        weigh(f, qkv, t, group, head, p, keep);
        take(f, dy, 1, 0, t, group, head, g);
        take(f, qkv, 3, 0, t, group, head, q);
#pragma unroll
        for (int s = 0; s < NN_CUDA_FEW; s++) {
            slope[s] = 0;
            if (s >= f.tokens) break;
            float v[PARTS];
            take(f, qkv, 3, 2, s, group, head, v);
            slope[s] = dot(g, v) * keep[s];
            mean += p[s] * slope[s];
        }
#pragma unroll
        for (int s = 0; s < NN_CUDA_FEW; s++) {
            if (s >= f.tokens) break;
            float k[PARTS], ds = p[s] * (slope[s] - mean) * f.scale;
            take(f, qkv, 3, 1, s, group, head, k);
            for (int i = 0; i < PARTS; i++) {
                dq[t][i] += ds * k[i];
                dk[s][i] += ds * q[i];
                dv[s][i] += p[s] * keep[s] * g[i];
            }
        }
    }
#pragma unroll
    for (int t = 0; t < NN_CUDA_FEW; t++) {
        if (t >= f.tokens) break;
        float* row = dqkv + (group * f.tokens + t) * 3 * f.width + head * f.depth;
        for (int i = 0; i < PARTS; i++) {
            int c = threadIdx.x % 32 + 32 * i;
            if (c >= f.depth) continue;
            row[c] = add ? row[c] + dq[t][i] : dq[t][i];
            row[f.width + c] = add ? row[f.width + c] + dk[t][i] : dk[t][i];
            row[2 * f.width + c] = add ? row[2 * f.width + c] + dv[t][i] : dv[t][i];
        }
    }
}

static uint32_t blocks_of(const few& f) {
    return blocks_for((int64_t)f.groups * f.heads, THREADS / 32);
}

}  // namespace

void nn_cuda_few_forward(const nn_call* c, const uint32_t* bits) {
    few f = few_of(c, bits);
    launch(queue_of(c), "attention", few_forward, blocks_of(f), THREADS, f, input(c, 0),
           (float*)c->out);
}

void nn_cuda_few_backward(const nn_call* c, const uint32_t* bits) {
    few f = few_of(c, bits);
    launch(queue_of(c), "attention", few_backward, blocks_of(f), THREADS, f, input(c, 0),
           (const float*)c->dout, gradient(c, 0), adds(c, 0));
}
