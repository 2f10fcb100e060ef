// search.cu - the search around the predictions: draw candidates, price and rank them, refit.
//
// A candidate's noise is the CPU's: the same Philox words (core/rng.h, plan/propose.c), and Box and
// Muller's functions evaluated in double and rounded, so that the two differ by an ulp here and
// there at most. Elites are ranked by (cost, number) and summed in that order in double, as in
// plan/cem.c: with equal predictions the fit is equal to the bit.
#include "plan/cuda/fit.cuh"
#include "plan/cuda/noise.cuh"

// ---- draw ---------------------------------------------------------------------------------------

enum draw_kind { DRAW_NOISE, DRAW_MEANS, DRAW_GIVEN };

struct draw_args {
    sizes s;
    draw_kind kind;
    int rows, per_search, horizon;
    char* searches;
    float *u, *state;
    void* x;
    size_t x_step;  // elements between the x of one macro step and the next
    const float *u_low, *u_high;
};

// One warp per row: its candidate, and x and state as the first macro step wants them.
template <typename T>
__global__ void __launch_bounds__(256) draw_kernel(const __grid_constant__ draw_args d) {
    int row = (int)(blockIdx.x * 8 + threadIdx.x / 32), lane = threadIdx.x % 32;
    if (row >= d.rows) return;
    const sizes& s = d.s;
    int number = row / d.per_search, candidate = row % d.per_search;
    search* q = search_at(d.searches, s, number);
    const float *mean = search_mean(q, s), *spread = search_spread(q, s), *m0 = search_m0(q, s);
    T* x = (T*)d.x + (size_t)row * s.x_in;
    int n = d.horizon * s.action;
    float* u = d.u + (size_t)row * n;
    for (int quad = lane; 4 * quad < n; quad += 32) {
        float noise[4] = {0, 0, 0, 0};
        if (d.kind == DRAW_NOISE && candidate)
            normals(q->seed, q->solve, q->iteration, candidate, quad, noise);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int j = 4 * quad + i;
            if (j >= n) break;
            float v;
            if (d.kind == DRAW_GIVEN) {
                v = u[j];
            } else {
                v = mean[j];
                if (d.kind == DRAW_NOISE && candidate)
                    v = __fadd_rn(v, __fmul_rn(spread[j], noise[i]));
                u[j] = v;
            }
            // the prediction sees what will really be executed
            int t = j / s.action, k = j % s.action;
            v = v < d.u_low[k] ? d.u_low[k] : v;
            v = v > d.u_high[k] ? d.u_high[k] : v;
            x[t * d.x_step + s.state + k] = operand<T>(v);
        }
    }
    for (int f = lane; f < s.state; f += 32) {
        float v = f < s.config ? q->c0[f] : m0[f - s.config];
        d.state[(size_t)row * s.state + f] = v;
        x[f] = operand<T>(v);
    }
}

// Candidates alone, a quad of coordinates per thread: the fused kernel makes its own operands.
__global__ void __launch_bounds__(256) draw_plain_kernel(const __grid_constant__ draw_args d) {
    const sizes& s = d.s;
    int n = d.horizon * s.action, quads = (n + 3) / 4, i = (int)(blockIdx.x * 256 + threadIdx.x);
    int row = i / quads, quad = i % quads, candidate = row % d.per_search;
    if (row >= d.rows) return;
    search* q = search_at(d.searches, s, row / d.per_search);
    float noise[4] = {0, 0, 0, 0};
    bool drawn = d.kind == DRAW_NOISE && candidate;
    if (drawn) normals(q->seed, q->solve, q->iteration, candidate, quad, noise);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int j = 4 * quad + k;
        if (j >= n) break;
        float v = search_mean(q, s)[j];
        if (drawn) v = __fadd_rn(v, __fmul_rn(search_spread(q, s)[j], noise[k]));
        d.u[(size_t)row * n + j] = v;
    }
}

firm_status search_draw(plan_gpu* g, int count, int means, int given, int n, int horizon,
                        firm_error* err) {
    draw_args d = {g->size,   means ? DRAW_MEANS : given ? DRAW_GIVEN : DRAW_NOISE,
                   count * n, n,
                   horizon,   g->searches,
                   g->u,      g->state,
                   g->x,      (size_t)g->rows * (size_t)g->size.x_in,
                   g->u_low,  g->u_high};
    int blocks = (d.rows + 7) / 8;
    if (g->fused) {
        if (given) return FIRM_OK;
        int quads = (horizon * g->size.action + 3) / 4;
        draw_plain_kernel<<<(d.rows * quads + 255) / 256, 256, 0, g->stream>>>(d);
        GPU(cudaGetLastError());
        return FIRM_OK;
    }
    switch (g->setup.precision) {
        case PLAN_FP32: draw_kernel<float><<<blocks, 256, 0, g->stream>>>(d); break;
        case PLAN_TF32: draw_kernel<__half><<<blocks, 256, 0, g->stream>>>(d); break;
        case PLAN_BF16: draw_kernel<__nv_bfloat16><<<blocks, 256, 0, g->stream>>>(d); break;
    }
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- all noise of a search at once, for the cluster way -----------------------------------------

struct noise_args {
    sizes s;
    char* searches;
    float* noise;  // (iterations, candidates, 4 quads)
    int quads, total;
    unsigned* barrier;
};

__global__ void __launch_bounds__(256) noise_kernel(const __grid_constant__ noise_args a) {
    int i = (int)(blockIdx.x * 256 + threadIdx.x);
    if (i == 0) *a.barrier = 0;  // the cluster kernel's, which comes next
    if (i >= a.total) return;
    search* q = search_at(a.searches, a.s, 0);
    int quad = i % a.quads, row = i / a.quads;
    float out[4];
    normals(q->seed, q->solve, row / a.s.candidates, row % a.s.candidates, quad, out);
    ((float4*)a.noise)[i] = make_float4(out[0], out[1], out[2], out[3]);
}

firm_status search_noise(plan_gpu* g, int iterations, unsigned* barrier, firm_error* err) {
    int quads = (g->size.horizon * g->size.action + 3) / 4;
    int total = iterations * g->size.candidates * quads;
    noise_args a = {g->size, g->searches, g->noise, quads, total, barrier};
    noise_kernel<<<total / 256 + 1, 256, 0, g->stream>>>(a);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- fit ----------------------------------------------------------------------------------------

struct fit_args {
    sizes s;
    cost_rule cost;
    char* searches;
    const float *u, *c;
    float* value;
};

// One block per search: costs, ranks, elites, the new mean and spread.
__global__ void __launch_bounds__(512) fit_kernel(const __grid_constant__ fit_args f) {
    extern __shared__ uint32_t key[];  // (candidates), then the elites' numbers
    const sizes& s = f.s;
    int n = s.candidates, *elite = (int*)(key + n), tid = (int)threadIdx.x;
    search* q = search_at(f.searches, s, (int)blockIdx.x);
    const float* u = f.u + (size_t)blockIdx.x * n * s.horizon * s.action;
    const float* c = f.c + (size_t)blockIdx.x * n * s.horizon * s.config;
    float* value = f.value + (size_t)blockIdx.x * n;
    __shared__ int count, nonfinite;
    if (tid == 0) count = nonfinite = 0;
    __syncthreads();
    for (int i = tid; i < n; i += blockDim.x) {
        const float* path = c + (size_t)i * s.horizon * s.config;
        int finite = 1;
        for (int k = 0; k < s.horizon * s.config; k++) finite &= isfinite(path[k]) != 0;
        float v = __int_as_float(0x7f800000);
        if (finite) v = cost_of(f.cost, path + (s.horizon - 1) * s.config, q->goal);
        if (!finite) atomicAdd(&nonfinite, 1);
        value[i] = v;
        key[i] = order_key(v);
    }
    __syncthreads();
    const fit_ranked ranked = {n, s.elites, s.horizon * s.action, key, elite, value, u};
    fit_result r = fit_elites(ranked, search_mean(q, s), search_spread(q, s), &count);
    if (tid == 0) {
        q->elites = r.elites;
        q->elite_cost = r.cost;
        q->nonfinite += nonfinite;
        q->iteration++;
    }
}

static size_t fit_bytes(const plan_gpu* g) {
    return (size_t)(g->size.candidates + g->size.elites) * 4;
}

firm_status search_prepare(const plan_gpu* g, firm_error* err) {
    GPU(cudaFuncSetAttribute(fit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)fit_bytes(g)));
    return FIRM_OK;
}

firm_status search_fit(plan_gpu* g, int count, firm_error* err) {
    fit_args f = {g->size, g->cost, g->searches, g->u, g->c, g->value};
    size_t bytes = fit_bytes(g);
    fit_kernel<<<count, 512, bytes, g->stream>>>(f);
    GPU(cudaGetLastError());
    return FIRM_OK;
}
