// attention.cu - masked multi-head attention without storing the scores. A row is held by a few
// threads (lanes), each with WIDTH numbers of the head in registers; rows of the other side pass by
// in shared memory, TILE at a time, read by a whole warp at once. Forward keeps a running softmax;
// backward computes the scores again, once for the rows' dq and once for the columns' dk and dv, so
// every sum is formed by one thread in a fixed order.
//
// Scores are held in units of log 2: s = q . k * scale * log2(e), p = 2^(s - lse).
// save: y again (T, D) (the backward pass does not get the output), and lse (heads, T) per sample.
// scratch: delta = dy . y, (heads, T) per sample.
#include "nn/cuda/few.cuh"
#include "nn/cuda/queue.cuh"

namespace {

enum { TILE = 32, BLOCK = 64, GROUP = 8 };  // a tile is a word of the mask; a group shares a test

typedef struct sizes {
    int samples, tokens, width, heads, depth, words;
    float scale;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* y = &g->tensor[n->out];
    int tokens = y->dim[y->rank - 2], width = last_of(y), depth = width / n->heads;
    return sizes{rows * nn_attention_groups(y),
                 tokens,
                 width,
                 n->heads,
                 depth,
                 (tokens + TILE - 1) / TILE,
                 (float)(1.0 / sqrt((double)depth))};
}

#define LOG2E 1.4426950408889634f

// W numbers per thread, L threads per row. In shared memory the L parts of a row are PART floats
// apart, so that they lie in different banks.
template <int W, int L>
struct layout {
    enum { ROWS = BLOCK / L, DEPTH = W * L, PART = W + 4, LINE = L * PART };
};

// where a thread works: its sample, head and row, and its lane within the row
struct place {
    int64_t sample;
    int head, row, lane;
};

template <int W, int L>
__device__ __forceinline__ place place_of(const sizes& s) {
    int tiles = (s.tokens + layout<W, L>::ROWS - 1) / layout<W, L>::ROWS;
    int tile = blockIdx.x % tiles, line = blockIdx.x / tiles;
    return place{line / s.heads, line % s.heads, tile * layout<W, L>::ROWS + (int)threadIdx.x / L,
                 (int)threadIdx.x % L};
}

// this thread's part of row `row` of an array with `stride` numbers per row; 0 outside
template <int W>
__device__ __forceinline__ void load_part(float (&x)[W], const float* p, const sizes& s, int row,
                                          int64_t stride, int lane, float factor) {
#pragma unroll
    for (int i = 0; i < W; i++)
        x[i] = row < s.tokens && lane * W + i < s.depth ? p[row * stride + lane * W + i] * factor
                                                        : 0.0f;
}

template <int W>
__device__ __forceinline__ void store_part(float* p, const float (&x)[W], const sizes& s, int row,
                                           int64_t stride, int lane, float factor, int add) {
#pragma unroll
    for (int i = 0; i < W; i++) {
        if (row >= s.tokens || lane * W + i >= s.depth) continue;
        float* at = p + row * stride + lane * W + i;
        *at = add ? *at + x[i] * factor : x[i] * factor;
    }
}

// rows first .. first + TILE - 1 into shared memory, 0 outside; the caller synchronises
template <int W, int L>
__device__ __forceinline__ void load_tile(float* tile, const float* p, const sizes& s, int first,
                                          int64_t stride) {
    typedef layout<W, L> at;
    for (int e = threadIdx.x; e < TILE * at::DEPTH; e += BLOCK) {
        int row = e / at::DEPTH, i = e % at::DEPTH;
        float v = 0;
        if (first + row < s.tokens && i < s.depth) v = p[(first + row) * stride + i];
        tile[row * at::LINE + i / W * at::PART + i % W] = v;
    }
}

// x . (this thread's part of a row in shared memory), summed over the lanes of a row; the part read
// stays in `kept`
template <int W, int L>
__device__ __forceinline__ float dot(const float (&x)[W], const float* part, float (&kept)[W]) {
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < W; i += 4) {
        float4 v = *(const float4*)(part + i);
        kept[i] = v.x, kept[i + 1] = v.y, kept[i + 2] = v.z, kept[i + 3] = v.w;
        sum[0] += x[i] * v.x;
        sum[1] += x[i + 1] * v.y;
        sum[2] += x[i + 2] * v.z;
        sum[3] += x[i + 3] * v.w;
    }
    float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
#pragma unroll
    for (int o = L / 2; o > 0; o /= 2) all += __shfl_xor_sync(0xffffffffu, all, o);
    return all;
}

// the mask's word of row `row` for tile `tile`
__device__ __forceinline__ uint32_t word_of(const uint32_t* bits, const sizes& s, int row,
                                            int tile) {
    return row < s.tokens ? bits[(size_t)row * s.words + tile] : 0;
}

// ---- forward ----

template <int W, int L>
__global__ void __launch_bounds__(BLOCK)
    forward_kernel(sizes s, const uint32_t* bits, const float* qkv, float* y, float* kept_y,
                   float* lse) {
    typedef layout<W, L> at;
    __shared__ __align__(16) float keys[TILE * at::LINE], values[TILE * at::LINE];
    place me = place_of<W, L>(s);
    int64_t stride = 3 * (int64_t)s.width;
    const float* q = qkv + me.sample * s.tokens * stride + me.head * s.depth;
    float x[W], sum[W] = {}, total = 0, largest = -INFINITY;
    load_part<W>(x, q, s, me.row, stride, me.lane, s.scale * LOG2E);
    for (int tile = 0; tile < s.words; tile++) {
        uint32_t word = word_of(bits, s, me.row, tile);
        if (!__syncthreads_or(word != 0)) continue;  // also: the last tile has been read
        load_tile<W, L>(keys, q + s.width, s, tile * TILE, stride);
        load_tile<W, L>(values, q + 2 * s.width, s, tile * TILE, stride);
        __syncthreads();
        for (int first = 0; first < TILE; first += GROUP) {
            uint32_t look = word >> first & ((1u << GROUP) - 1);
            if (!__any_sync(0xffffffffu, look)) continue;
            float score[GROUP], most = largest, row[W];
#pragma unroll
            for (int j = 0; j < GROUP; j++) {
                score[j] = dot<W, L>(x, keys + (first + j) * at::LINE + me.lane * at::PART, row);
                if (!(look >> j & 1)) score[j] = -INFINITY;
                most = fmaxf(most, score[j]);
            }
            // before anything was seen, 0 stands in for the largest score
            float base = most == -INFINITY ? 0.0f : most, shrink = exp2f(largest - base);
            largest = most;
            total *= shrink;
#pragma unroll
            for (int i = 0; i < W; i++) sum[i] *= shrink;
#pragma unroll
            for (int j = 0; j < GROUP; j++) {
                float p = exp2f(score[j] - base);
                const float* v = values + (first + j) * at::LINE + me.lane * at::PART;
                total += p;
#pragma unroll
                for (int i = 0; i < W; i += 4) {
                    float4 part = *(const float4*)(v + i);
                    sum[i] += p * part.x;
                    sum[i + 1] += p * part.y;
                    sum[i + 2] += p * part.z;
                    sum[i + 3] += p * part.w;
                }
            }
        }
    }
    // a row that may look at nothing is 0, and an infinite lse makes its p 0 in the backward pass
    float share = total > 0 ? 1.0f / total : 0.0f;
    int64_t here = me.sample * s.tokens * s.width + me.head * s.depth;
    store_part<W>(y + here, sum, s, me.row, s.width, me.lane, share, 0);
    store_part<W>(kept_y + here, sum, s, me.row, s.width, me.lane, share, 0);
    if (me.row < s.tokens && me.lane == 0)
        lse[(me.sample * s.heads + me.head) * s.tokens + me.row] =
            total > 0 ? largest + log2f(total) : INFINITY;
}

// ---- backward: with g = dy . v, delta = dy . y and ds = p (g - delta)
// --------------------------------

// dq[t] = scale * sum over s of ds[t, s] k[s]; delta on the way
template <int W, int L>
__global__ void __launch_bounds__(BLOCK)
    query_kernel(sizes s, const uint32_t* bits, const float* qkv, const float* kept_y,
                 const float* lse, const float* dy, float* delta, float* dqkv, int add) {
    typedef layout<W, L> at;
    __shared__ __align__(16) float keys[TILE * at::LINE], values[TILE * at::LINE];
    place me = place_of<W, L>(s);
    int64_t stride = 3 * (int64_t)s.width, head = me.head * s.depth;
    const float* q = qkv + me.sample * s.tokens * stride + head;
    int64_t here = me.sample * s.tokens * s.width + head;
    float x[W], g[W], row[W], sum[W] = {}, mean = 0, log_sum = INFINITY;
    load_part<W>(row, kept_y + here, s, me.row, s.width, me.lane, 1.0f);
    load_part<W>(g, dy + here, s, me.row, s.width, me.lane, 1.0f);
    load_part<W>(x, q, s, me.row, stride, me.lane, s.scale * LOG2E);
#pragma unroll
    for (int i = 0; i < W; i++) mean += row[i] * g[i];
#pragma unroll
    for (int o = L / 2; o > 0; o /= 2) mean += __shfl_xor_sync(0xffffffffu, mean, o);
    if (me.row < s.tokens) {
        int64_t line = (me.sample * s.heads + me.head) * s.tokens + me.row;
        log_sum = lse[line];
        if (me.lane == 0) delta[line] = mean;
    }
    for (int tile = 0; tile < s.words; tile++) {
        uint32_t word = word_of(bits, s, me.row, tile);
        if (!__syncthreads_or(word != 0)) continue;
        load_tile<W, L>(keys, q + s.width, s, tile * TILE, stride);
        load_tile<W, L>(values, q + 2 * s.width, s, tile * TILE, stride);
        __syncthreads();
        for (int first = 0; first < TILE; first += GROUP) {
            uint32_t look = word >> first & ((1u << GROUP) - 1);
            if (!__any_sync(0xffffffffu, look)) continue;
#pragma unroll 2
            for (int j = 0; j < GROUP; j++) {
                int from = (first + j) * at::LINE + me.lane * at::PART;
                float unused[W];
                float share = dot<W, L>(g, values + from, unused) - mean;
                float score = dot<W, L>(x, keys + from, row);
                float ds = look >> j & 1 ? exp2f(score - log_sum) * share : 0.0f;
#pragma unroll
                for (int i = 0; i < W; i++) sum[i] += ds * row[i];
            }
        }
    }
    store_part<W>(dqkv + me.sample * s.tokens * stride + head, sum, s, me.row, stride, me.lane,
                  s.scale, add);
}

// dv[s] = sum over t of p[t, s] dy[t], dk[s] = scale * sum over t of ds[t, s] q[t]; bits by column
template <int W, int L>
__global__ void __launch_bounds__(BLOCK)
    key_kernel(sizes s, const uint32_t* bits, const float* qkv, const float* lse,
               const float* delta, const float* dy, float* dqkv, int add) {
    typedef layout<W, L> at;
    __shared__ __align__(16) float queries[TILE * at::LINE], slopes[TILE * at::LINE];
    __shared__ float log_sum[TILE], mean[TILE];
    place me = place_of<W, L>(s);
    int64_t stride = 3 * (int64_t)s.width, head = me.head * s.depth;
    const float* q = qkv + me.sample * s.tokens * stride + head;
    const float* g = dy + me.sample * s.tokens * s.width + head;
    int64_t line = (me.sample * s.heads + me.head) * s.tokens;
    float k[W], v[W], dk[W] = {}, dv[W] = {};
    load_part<W>(k, q + s.width, s, me.row, stride, me.lane, s.scale * LOG2E);
    load_part<W>(v, q + 2 * s.width, s, me.row, stride, me.lane, 1.0f);
    for (int tile = 0; tile < s.words; tile++) {
        uint32_t word = word_of(bits, s, me.row, tile);
        if (!__syncthreads_or(word != 0)) continue;
        load_tile<W, L>(queries, q, s, tile * TILE, stride);
        load_tile<W, L>(slopes, g, s, tile * TILE, s.width);
        if (threadIdx.x < TILE) {
            int t = tile * TILE + (int)threadIdx.x;
            log_sum[threadIdx.x] = t < s.tokens ? lse[line + t] : INFINITY;
            mean[threadIdx.x] = t < s.tokens ? delta[line + t] : 0.0f;
        }
        __syncthreads();
        for (int first = 0; first < TILE; first += GROUP) {
            uint32_t look = word >> first & ((1u << GROUP) - 1);
            if (!__any_sync(0xffffffffu, look)) continue;
#pragma unroll 1  // two at a time would not fit in registers
            for (int j = 0; j < GROUP; j++) {
                int t = first + j, from = t * at::LINE + me.lane * at::PART;
                float query[W], slope[W];
                float score = dot<W, L>(k, queries + from, query);
                float share = dot<W, L>(v, slopes + from, slope) - mean[t];
                float p = look >> j & 1 ? exp2f(score - log_sum[t]) : 0.0f, ds = p * share;
#pragma unroll
                for (int i = 0; i < W; i++) {
                    dv[i] += p * slope[i];
                    dk[i] += ds * query[i];
                }
            }
        }
    }
    float* to = dqkv + me.sample * s.tokens * stride + head;
    store_part<W>(to + s.width, dk, s, me.row, stride, me.lane, s.scale, add);
    store_part<W>(to + 2 * s.width, dv, s, me.row, stride, me.lane, 1.0f, add);
}

// ---- calls --------------------------------------------------------------------------------------

// the parts of save
typedef struct kept {
    float *y, *lse;
} kept;

static size_t y_floats(sizes s) {
    return (size_t)s.samples * s.tokens * s.width;
}

static size_t row_floats(sizes s) {
    return (size_t)s.samples * s.heads * s.tokens;
}

static kept kept_of(const nn_call* c, sizes s) {
    pieces p = {(char*)c->save};
    kept k;
    k.y = p.take(y_floats(s));
    k.lse = p.take(row_floats(s));
    return k;
}

static size_t save_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n, rows);
    return pieces::bytes(y_floats(s)) + pieces::bytes(row_floats(s));
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    return pieces::bytes(row_floats(sizes_of(g, n, rows)));
}

static nn_cuda_mask* mask_of(const nn_call* c, sizes s) {
    nn_cuda_mask* m = nn_cuda_mask_find(queue_of(c), c->node->mask, s.tokens);
    if (!m) nn_cuda_note(queue_of(c), "attention: nn_cuda_prepare was not called for this graph");
    if (s.depth > NN_CUDA_HEAD_MAX) {
        nn_cuda_note(queue_of(c), "attention heads are %d wide, at most %d", s.depth,
                     NN_CUDA_HEAD_MAX);
        return NULL;
    }
    return m;
}

template <int W, int L>
static uint32_t blocks_of(sizes s) {
    return (uint32_t)s.samples * s.heads * blocks_for(s.tokens, layout<W, L>::ROWS);
}

template <int W, int L>
static void run_forward(const nn_call* c, sizes s, nn_cuda_mask* m) {
    kept k = kept_of(c, s);
    launch(queue_of(c), "attention", forward_kernel<W, L>, blocks_of<W, L>(s), BLOCK, s, m->by_row,
           input(c, 0), (float*)c->out, k.y, k.lse);
}

template <int W, int L>
static void run_backward(const nn_call* c, sizes s, nn_cuda_mask* m) {
    kept k = kept_of(c, s);
    const float* dy = (const float*)c->dout;
    float* delta = (float*)c->scratch;
    launch(queue_of(c), "attention", query_kernel<W, L>, blocks_of<W, L>(s), BLOCK, s, m->by_row,
           input(c, 0), k.y, k.lse, dy, delta, gradient(c, 0), adds(c, 0));
    launch(queue_of(c), "attention", key_kernel<W, L>, blocks_of<W, L>(s), BLOCK, s, m->by_column,
           input(c, 0), k.lse, delta, dy, gradient(c, 0), adds(c, 0));
}

// lanes: as few as registers allow. Backward holds four vectors of a row, forward two.
static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_mask* m = mask_of(c, s);
    if (!m) return;
    if (s.tokens <= NN_CUDA_FEW)
        nn_cuda_few_forward(c, m->by_row);
    else if (s.depth <= 8)
        run_forward<8, 1>(c, s, m);
    else if (s.depth <= 16)
        run_forward<16, 1>(c, s, m);
    else if (s.depth <= 24)
        run_forward<24, 1>(c, s, m);
    else if (s.depth <= 32)
        run_forward<32, 1>(c, s, m);
    else if (s.depth <= 48)
        run_forward<24, 2>(c, s, m);
    else if (s.depth <= 64)
        run_forward<32, 2>(c, s, m);
    else
        run_forward<32, 4>(c, s, m);
}

static void backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_mask* m = c->din[0] ? mask_of(c, s) : NULL;
    if (!m) return;
    if (s.tokens <= NN_CUDA_FEW)
        nn_cuda_few_backward(c, m->by_row);
    else if (s.depth <= 8)
        run_backward<8, 1>(c, s, m);
    else if (s.depth <= 16)
        run_backward<16, 1>(c, s, m);
    else if (s.depth <= 24)
        run_backward<24, 1>(c, s, m);
    else if (s.depth <= 32)
        run_backward<16, 2>(c, s, m);
    else if (s.depth <= 48)
        run_backward<24, 2>(c, s, m);
    else if (s.depth <= 64)
        run_backward<16, 4>(c, s, m);
    else
        run_backward<32, 4>(c, s, m);
}

}  // namespace

const nn_kernel nn_cuda_attention = {forward, backward, save_bytes, scratch_bytes};
