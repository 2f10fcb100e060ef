// batch.cu - the batch way: the layered way's six products with large tiles and nothing in between,
// for thousands of rows.
//
// LayerNorm costs no pass over memory: a product that makes h also writes h as operands and, per
// row and 64 features, their sum and squares; the product that reads LN(h) multiplies raw h and
// corrects its own result, LN(h) W = (h W - mean 1'W) / deviation. A block of 4 warps makes 128 x
// 128 outputs, each warp 64 x 64, so that shared memory is read half as often as the tensor cores
// need new operands; two blocks share a multiprocessor, and one finishes while the other
// multiplies.
//
// Weights are stored with the outputs of every 16 permuted, so that the four numbers a thread holds
// in two neighbouring fragments are four neighbouring outputs.
#include "plan/cuda/mma.cuh"

namespace {

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3, THREADS = 128;
constexpr int STRIDE = BK + 8;  // 144 bytes a row: ldmatrix meets every bank once
constexpr int STAGE = (BM + BN) * STRIDE * 2;
constexpr int SHARED = STAGES * STAGE + BM * 8;
constexpr int PART = 64;  // features of one partial sum of a row

// This thread's part of a row: 4 x 4 neighbouring outputs, from `col` on every 16.
template <typename T, product_kind KIND>
__device__ __forceinline__ void finish_row(const batch_product& p, float (&v)[4][4], float2 stats,
                                           int row, int col) {
    constexpr bool NORM = KIND == PRODUCT_GELU || KIND == PRODUCT_HEADS;
    bool inside = row < p.rows;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        int at = col + q * 16;
        float4 b = *(const float4*)(p.l.bias + at);
        if (NORM) {
            float4 s = *(const float4*)(p.sums + at);
            v[q][0] = fmaf(stats.y, fmaf(-stats.x, s.x, v[q][0]), b.x);
            v[q][1] = fmaf(stats.y, fmaf(-stats.x, s.y, v[q][1]), b.y);
            v[q][2] = fmaf(stats.y, fmaf(-stats.x, s.z, v[q][2]), b.z);
            v[q][3] = fmaf(stats.y, fmaf(-stats.x, s.w, v[q][3]), b.w);
        } else {
            v[q][0] = fmaf(v[q][0], p.l.scale, b.x);
            v[q][1] = fmaf(v[q][1], p.l.scale, b.y);
            v[q][2] = fmaf(v[q][2], p.l.scale, b.z);
            v[q][3] = fmaf(v[q][3], p.l.scale, b.w);
        }
    }
    if (KIND == PRODUCT_GELU) {
        T* out = (T*)p.out + (size_t)row * p.out_stride + col;
#pragma unroll
        for (int q = 0; q < 4; q++)
            if (inside && col + q * 16 < p.out_stride)
                *(uint2*)(out + q * 16) =
                    make_uint2(pack_two<T>(gelu_fast(v[q][0]), gelu_fast(v[q][1])),
                               pack_two<T>(gelu_fast(v[q][2]), gelu_fast(v[q][3])));
    } else if (KIND == PRODUCT_HEADS) {
#pragma unroll
        for (int i = 0; i < 16; i += 2)
            if (inside)
                finish_state<T>(p, row, col + i / 4 * 16 + i % 4, v[i / 4][i % 4],
                                v[i / 4][i % 4 + 1]);
    } else {
        float* h = (float*)p.out + (size_t)row * p.out_stride + col;
        T* half = (T*)p.half + (size_t)row * p.out_stride + col;
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            bool there = inside && col + q * 16 < p.out_stride;
            if (KIND == PRODUCT_ADD && there) {
                float4 old = *(const float4*)(h + q * 16);
                v[q][0] += old.x, v[q][1] += old.y, v[q][2] += old.z, v[q][3] += old.w;
            }
            if (there) {
                *(float4*)(h + q * 16) = make_float4(v[q][0], v[q][1], v[q][2], v[q][3]);
                *(uint2*)(half + q * 16) =
                    make_uint2(pack_two<T>(v[q][0], v[q][1]), pack_two<T>(v[q][2], v[q][3]));
            }
            // outputs past the last are 0 and do not change the sum
            sum += (v[q][0] + v[q][1]) + (v[q][2] + v[q][3]);
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        int first = col / PART * PART, n = min(PART, p.outputs - first);
        float mean = sum / (float)n;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float d = v[i / 4][i % 4] - mean;
            if (col + i / 4 * 16 + i % 4 < p.outputs) squares = fmaf(d, d, squares);
        }
        squares += __shfl_xor_sync(~0u, squares, 1);
        squares += __shfl_xor_sync(~0u, squares, 2);
        if (threadIdx.x % 4 == 0 && inside && n > 0)
            p.stats[(size_t)row * p.parts + first / PART] = make_float2(sum, squares);
    }
}

template <typename T, product_kind KIND>
__global__ void __launch_bounds__(THREADS, 2)
    batch_kernel(const __grid_constant__ batch_product p) {
    constexpr bool NORM = KIND == PRODUCT_GELU || KIND == PRODUCT_HEADS;
    extern __shared__ __align__(128) char shared[];
    float2* row_stats = (float2*)(shared + STAGES * STAGE);
    int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    int row0 = (int)blockIdx.y * BM, col0 = (int)blockIdx.x * BN;
    int wrow = warp / 2 * 64, wcol = warp % 2 * 64;
    int in = p.l.in, slices = in / BK;
    const T *a = (const T*)p.a + (size_t)row0 * in, *w = (const T*)p.w + (size_t)col0 * in;
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);

    // each thread copies the same 16-byte column of every 16th row
    int piece = tid % 8, row_of = tid / 8;
    const T *from_a = a + (size_t)row_of * in + piece * 8,
            *from_w = w + (size_t)row_of * in + piece * 8;
    uint32_t to = base + (uint32_t)(row_of * STRIDE + piece * 8) * 2;
    auto load = [&](int slice, int slot) {
        uint32_t at = to + (uint32_t)(slot * STAGE);
#pragma unroll
        for (int i = 0; i < BM / 16; i++)
            copy16(at + (uint32_t)(i * 16 * STRIDE * 2), from_a + (size_t)i * 16 * in + slice * BK);
#pragma unroll
        for (int i = 0; i < BN / 16; i++)
            copy16(at + (uint32_t)((BM + i * 16) * STRIDE * 2),
                   from_w + (size_t)i * 16 * in + slice * BK);
    };
    float acc[4][8][4];
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i / 32][i / 4 % 8][i % 4] = 0.0f;
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < slices) load(i, i);
        asm volatile("cp.async.commit_group;");
    }
    if (NORM) {
        // mean and 1 / deviation of this block's rows, one per thread, while the copies fly
        float sum = 0.0f, squares = 0.0f;
        const float2* part = p.stats + (size_t)(row0 + tid) * p.parts;
        for (int i = 0; i < p.parts; i++) sum += part[i].x;
        float mean = sum / (float)p.features;
        for (int i = 0; i < p.parts; i++) {
            float n = (float)min(PART, p.features - i * PART), d = part[i].x / n - mean;
            squares += fmaf(n * d, d, part[i].y);
        }
        row_stats[tid] = make_float2(mean, p.l.scale * rsqrtf(squares / (float)p.features + 1e-5f));
    }
    int slot = 0;
    for (int slice = 0; slice < slices; slice++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        int next = slice + STAGES - 1;
        if (next < slices) load(next, next % STAGES);
        asm volatile("cp.async.commit_group;");
        uint32_t stage = base + (uint32_t)(slot * STAGE);
        uint32_t at_a = stage + (uint32_t)((wrow + lane % 16) * STRIDE + lane / 16 * 8) * 2;
        uint32_t at_w =
            stage +
            (uint32_t)((BM + wcol + lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8) * 2;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            uint32_t fa[4][4], fw[4][4];
#pragma unroll
            for (int m = 0; m < 4; m++)
                load_matrices(fa[m], at_a + (uint32_t)(m * 16 * STRIDE + k) * 2);
#pragma unroll
            for (int n = 0; n < 4; n++)
                load_matrices(fw[n], at_w + (uint32_t)(n * 16 * STRIDE + k) * 2);
#pragma unroll
            for (int m = 0; m < 4; m++)
#pragma unroll
                for (int n = 0; n < 8; n++)
                    multiply<T>(acc[m][n], fa[m], fw[n / 2][n % 2 * 2], fw[n / 2][n % 2 * 2 + 1]);
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int m = i / 2, half = i % 2, r = wrow + m * 16 + half * 8 + lane / 4;
        float v[4][4];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            v[q][0] = acc[m][2 * q][2 * half], v[q][1] = acc[m][2 * q][2 * half + 1];
            v[q][2] = acc[m][2 * q + 1][2 * half], v[q][3] = acc[m][2 * q + 1][2 * half + 1];
        }
        float2 stats = NORM ? row_stats[r] : make_float2(0.0f, 0.0f);
        finish_row<T, KIND>(p, v, stats, row0 + r, col0 + wcol + lane % 4 * 4);
    }
}

}  // namespace

template <typename T>
static void launch(product_kind kind, const batch_product* p, cudaStream_t stream) {
    dim3 grid((unsigned)((p->outputs + BN - 1) / BN), (unsigned)((p->rows + BM - 1) / BM));
    switch (kind) {
        case PRODUCT_STORE:
            batch_kernel<T, PRODUCT_STORE><<<grid, THREADS, SHARED, stream>>>(*p);
            break;
        case PRODUCT_GELU:
            batch_kernel<T, PRODUCT_GELU><<<grid, THREADS, SHARED, stream>>>(*p);
            break;
        case PRODUCT_ADD:
            batch_kernel<T, PRODUCT_ADD><<<grid, THREADS, SHARED, stream>>>(*p);
            break;
        case PRODUCT_HEADS:
            batch_kernel<T, PRODUCT_HEADS><<<grid, THREADS, SHARED, stream>>>(*p);
            break;
    }
}

static firm_status run(const plan_gpu* g, product_kind kind, const batch_product* p,
                       firm_error* err) {
    if (g->setup.precision == PLAN_TF32)
        launch<__half>(kind, p, g->stream);
    else
        launch<__nv_bfloat16>(kind, p, g->stream);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

static batch_product product_of(const plan_gpu* g, int which, int rows, int outputs) {
    batch_product p = {};
    p.l = g->layers[which];
    p.w = g->batch[which].w;
    p.sums = g->batch[which].sums;
    p.rows = rows;
    p.outputs = outputs;
    p.stats = g->stats;
    p.parts = (g->size.hidden + PART - 1) / PART;
    p.features = g->size.hidden;
    return p;
}

firm_status batch_step(plan_gpu* g, int rows, int t, int horizon, float* c_out, firm_error* err) {
    const sizes* s = &g->size;
    size_t x_step = (size_t)g->rows * (size_t)s->x_in * g->element;
    char* x = (char*)g->x + (size_t)t * x_step;
    batch_product in = product_of(g, LAYER_IN, rows, s->hidden);
    in.a = x;
    in.out = g->h;
    in.half = g->a;
    in.out_stride = s->h_in;
    TRY(run(g, PRODUCT_STORE, &in, err));
    if (s->spatial) {
        // the features stand beside LN(h) itself, so its first product is the layered way's
        product up = layered_spatial_up(g, rows);
        TRY(spatial_run(g, rows, t, horizon, err));
        TRY(product_run(g, PRODUCT_GELU, &up, err));
        batch_product down = product_of(g, LAYER_SPATIAL_DOWN, rows, s->hidden);
        down.a = g->gs;
        down.out = g->h;
        down.half = g->a;
        down.out_stride = s->h_in;
        TRY(run(g, PRODUCT_ADD, &down, err));
    }
    for (int b = 0; b < s->blocks; b++) {
        batch_product up = product_of(g, LAYER_UP + b, rows, s->inner);
        up.a = g->a;
        up.out = g->g;
        up.out_stride = s->g_in;
        TRY(run(g, PRODUCT_GELU, &up, err));
        batch_product down = product_of(g, LAYER_DOWN + b, rows, s->hidden);
        down.a = g->g;
        down.out = g->h;
        down.half = g->a;
        down.out_stride = s->h_in;
        TRY(run(g, PRODUCT_ADD, &down, err));
    }
    // nobody reads m after the last step
    batch_product heads = product_of(g, LAYER_HEADS, rows, t + 1 < horizon ? s->state : s->config);
    heads.a = g->a;
    heads.out = g->state;
    heads.out_stride = s->state;
    heads.pairs = s->pairs;
    heads.config = s->config;
    heads.c = c_out + (size_t)t * (size_t)s->config;
    heads.c_stride = horizon * s->config;
    heads.x = t + 1 < horizon ? x + x_step : NULL;
    heads.x_stride = s->x_in;
    return run(g, PRODUCT_HEADS, &heads, err);
}

// ---- set-up -------------------------------------------------------------------------------------

template <typename T>
static firm_status allow_shared(firm_error* err) {
    const auto what = cudaFuncAttributeMaxDynamicSharedMemorySize;
    GPU(cudaFuncSetAttribute(batch_kernel<T, PRODUCT_STORE>, what, SHARED));
    GPU(cudaFuncSetAttribute(batch_kernel<T, PRODUCT_GELU>, what, SHARED));
    GPU(cudaFuncSetAttribute(batch_kernel<T, PRODUCT_ADD>, what, SHARED));
    GPU(cudaFuncSetAttribute(batch_kernel<T, PRODUCT_HEADS>, what, SHARED));
    return FIRM_OK;
}

// The layer's weights once more, outputs permuted, and the sums of its columns.
static firm_status send(plan_gpu* g, int which, firm_error* err) {
    const host_layer* h = &g->host[which];
    const layer* l = &g->layers[which];
    size_t area = (size_t)l->in * (size_t)l->out;
    uint16_t* image = (uint16_t*)mem_calloc(area, 2);
    float* sums = (float*)mem_calloc((size_t)l->out, sizeof(float));
    cudaError_t code = cudaErrorMemoryAllocation;
    if (image && sums) {
        for (int o = 0; o < h->out; o++) {
            int in16 = o % 16, place = in16 / 2 % 2 * 8 + in16 / 4 * 2 + in16 % 2;
            uint16_t* to = image + (size_t)(o / 16 * 16 + place) * (size_t)l->in;
            for (int k = 0; k < h->in; k++)
                to[k] = gpu_operand(h->w[(size_t)k * (size_t)h->out + (size_t)o] / l->scale,
                                    g->setup.precision);
            sums[o] = gpu_column_sum(h, l->scale, o, g->setup.precision);
        }
        code = cudaMemcpy(g->batch[which].w, image, area * 2, cudaMemcpyHostToDevice);
        if (code == cudaSuccess)
            code =
                cudaMemcpy(g->batch[which].sums, sums, (size_t)l->out * 4, cudaMemcpyHostToDevice);
    }
    mem_free(image);
    mem_free(sums);
    GPU(code);
    return FIRM_OK;
}

size_t batch_layout(plan_gpu* g, char* memory) {
    size_t at = 0;
    auto take = [&](size_t bytes) {
        char* p = memory + at;
        at += (bytes + 255) / 256 * 256;
        return p;
    };
    int parts = (g->size.hidden + PART - 1) / PART;
    g->stats = (float2*)take((size_t)g->rows * (size_t)parts * sizeof(float2));
    for (int i = 0; i < LAYERS; i++) {
        const layer* l = &g->layers[i];
        if (!l->w) continue;
        g->batch[i].w = take((size_t)l->in * (size_t)l->out * 2);
        g->batch[i].sums = (float*)take((size_t)l->out * 4);
    }
    return at;
}

firm_status batch_create(plan_gpu* g, firm_error* err) {
    size_t bytes = batch_layout(g, NULL);
    GPU(cudaMalloc((void**)&g->batch_memory, bytes));
    GPU(cudaMemset(g->batch_memory, 0, bytes));
    g->bytes += bytes;
    batch_layout(g, g->batch_memory);
    for (int i = 0; i < LAYERS; i++)
        if (g->host[i].w) TRY(send(g, i, err));
    TRY(allow_shared<__half>(err));
    TRY(allow_shared<__nv_bfloat16>(err));
    g->batched = 1;
    return FIRM_OK;
}
