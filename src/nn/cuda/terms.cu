// terms.cu - loss terms and their seeds (d loss / d error), one block per term.
//
// TopMean picks the r largest errors without sorting: four passes over 8 bits each find the r-th
// largest value, and equal ones are taken from the earlier sample on, as exec.c does. Counts are
// whole numbers and sums have a fixed order: the same bits every time.
#include "nn/cuda/device.cuh"
#include "nn/cuda/steps.h"

enum { THREADS = 1024, WARPS = THREADS / 32 };

__device__ static double block_sum(double v) {
    __shared__ double part[WARPS];
    v = warp_sum(v);
    __syncthreads();  // the last sum may still be read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < WARPS; i++) sum += part[i];
    return sum;
}

// unsigned numbers in the order of the floats; -0 counts as 0
__device__ static uint32_t ordered(float x) {
    uint32_t bits = __float_as_uint(x == 0.0f ? 0.0f : x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// the r-th largest key; *above: how many are larger
__device__ static uint32_t select_key(const float* error, int n, int r, int* above) {
    __shared__ int count[256];
    __shared__ uint32_t chosen;
    __shared__ int left;
    uint32_t prefix = 0, mask = 0;
    int wanted = r;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) count[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS) {
            uint32_t key = ordered(error[i]);
            if ((key & mask) == prefix) atomicAdd(&count[key >> shift & 255], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = 255;
            for (; digit > 0 && count[digit] < wanted; digit--) wanted -= count[digit];
            chosen = (uint32_t)digit;
            left = wanted;
        }
        __syncthreads();
        wanted = left;
        prefix |= chosen << shift;
        mask |= 255u << shift;
        __syncthreads();
    }
    *above = r - wanted;
    return prefix;
}

// how many of the threads before this one have the flag; *all: of the whole block
__device__ static int rank_of(int flag, int* all) {
    __shared__ int warp[WARPS];
    unsigned ballot = __ballot_sync(0xffffffffu, flag);
    int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32;
    __syncthreads();  // the last ranks may still be read
    if (lane == 0) warp[mine] = __popc(ballot);
    __syncthreads();
    int before = __popc(ballot & ((1u << lane) - 1)), total = 0;
    for (int i = 0; i < WARPS; i++) {
        if (i < mine) before += warp[i];
        total += warp[i];
    }
    *all = total;
    return before;
}

__device__ static double topmean(const nn_cuda_term& t, int n) {
    int r = (int)ceil((double)t.share * n * (1 - 1e-6));
    if (r < 1) r = 1;
    int above;
    uint32_t key = select_key(t.error, n, r, &above);
    float weight = t.weight / (float)r;
    int room = r - above;  // of the equal ones
    double sum = 0;
    for (int first = 0; first < n; first += THREADS) {
        int i = first + (int)threadIdx.x, equal_all;
        uint32_t mine = i < n ? ordered(t.error[i]) : 0;
        int equal = i < n && mine == key;
        int rank = rank_of(equal, &equal_all);
        int taken = i < n && (mine > key || (equal && rank < room));
        if (taken) sum += (double)t.error[i];
        if (i < n && t.seed) t.seed[i] = taken ? weight : 0.0f;
        room -= equal_all;
    }
    return block_sum(sum) / r;
}

__device__ static double mean(const nn_cuda_term& t, int n) {
    float even = (float)((double)t.weight / (double)n);
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        sum += (double)t.error[i];
        if (t.seed) t.seed[i] = even;
    }
    return block_sum(sum) / n;
}

__global__ static void __launch_bounds__(THREADS)
    terms_kernel(const nn_cuda_term* term, int rows, double* value) {
    const nn_cuda_term t = term[blockIdx.x];
    int n = rows * t.size;
    double v = t.top ? topmean(t, n) : mean(t, n);
    if (threadIdx.x == 0) value[blockIdx.x] = v;
}

extern "C" void nn_cuda_terms(nn_cuda_queue* q, const nn_cuda_term* term, int count, int rows,
                              double* value) {
    launch(q, "loss terms", terms_kernel, (uint32_t)count, THREADS, term, rows, value);
}
