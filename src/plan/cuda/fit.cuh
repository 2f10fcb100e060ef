// fit.cuh - ranks a search's candidates and fits mean and spread to the best, by one block. Elites
// are ranked by (cost, number) and summed in that order in double, as in plan/update.c: with equal
// predictions the fit is equal to the bit.
#ifndef PLAN_CUDA_FIT_CUH
#define PLAN_CUDA_FIT_CUH

#include "plan/cuda/internal.cuh"

typedef struct fit_ranked {
    int n, most, width;   // candidates, elites, numbers of a plan
    const uint32_t* key;  // (n) order_key of the costs, shared memory
    int* elite;           // (most) their numbers, shared memory
    const float* value;   // (n) costs
    const float* u;       // (n, width)
} fit_ranked;

typedef struct fit_result {
    int elites;
    float cost;  // mean of theirs; thread 0 alone knows it
} fit_result;

// All threads of the block call it, after the keys are there; *count is shared and 0.
static __device__ fit_result fit_elites(const fit_ranked& f, float* mean, float* spread,
                                        int* count) {
    const int tid = (int)threadIdx.x;
    for (int i = tid; i < f.n; i += blockDim.x) {
        uint32_t mine = f.key[i];
        int rank = 0;
        for (int j = 0; j < i; j++) rank += f.key[j] <= mine;
        for (int j = i + 1; j < f.n; j++) rank += f.key[j] < mine;
        if (rank < f.most) {
            f.elite[rank] = i;
            if (isfinite(f.value[i])) atomicAdd(count, 1);
        }
    }
    __syncthreads();
    const int elites = *count;  // finite ones come first
    for (int j = tid; j < f.width && elites > 0; j += blockDim.x) {
        double sum = 0.0, squares = 0.0;
#pragma unroll 8
        for (int i = 0; i < elites; i++) sum += (double)f.u[(size_t)f.elite[i] * f.width + j];
        double centre = sum / elites;
#pragma unroll 8
        for (int i = 0; i < elites; i++) {
            double d = (double)f.u[(size_t)f.elite[i] * f.width + j] - centre;
            squares = __dadd_rn(squares, __dmul_rn(d, d));
        }
        mean[j] = (float)centre;
        if (elites > 1) spread[j] = (float)sqrt(squares / (elites - 1));
    }
    fit_result r = {elites, __int_as_float(0x7f800000)};
    if (tid == 0 && elites) {
        double sum = 0.0;
        for (int i = 0; i < elites; i++) sum += (double)f.value[f.elite[i]];
        r.cost = (float)(sum / elites);
    }
    return r;
}

#endif
