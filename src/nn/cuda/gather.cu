// gather.cu - the samples of an update, found and fetched on the device: rows of tables picked as
// the host would pick them, and copied into the inputs of the graphs.
#include "nn/cuda/device.cuh"
#include "nn/cuda/steps.h"

// Philox 4x32-10, as core/rng.c has it; the first two words are all a pick needs
__device__ static uint64_t philox_wide(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53ull * c0;
        uint64_t p1 = 0xCD9E8D57ull * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return ((uint64_t)c0 << 32) | c1;
}

// nn_schedule_rate (adamw.c) and the corrections of AdamW's moments
__device__ static void set_rates(nn_cuda_clock* clock, nn_adamw_options o, int64_t step) {
    double rate = o.rate;
    if (o.schedule == NN_COSINE && step >= o.warmup && o.updates > o.warmup) {
        double x = (double)(step - o.warmup) / (double)(o.updates - o.warmup);
        if (x > 1) x = 1;
        rate *= o.floor + (1.0 - o.floor) * 0.5 * (1.0 + cos(3.14159265358979323846 * x));
    }
    if (step < o.warmup) rate *= (double)(step + 1) / (double)o.warmup;
    clock->rate = (float)rate;
    clock->correction1 = (float)(1.0 / (1.0 - pow((double)o.beta1, (double)(step + 1))));
    clock->correction2 = (float)(1.0 / (1.0 - pow((double)o.beta2, (double)(step + 1))));
}

struct draws {
    nn_cuda_draw part[NN_CUDA_MAX_PARTS];
};

// block row y is a part
__global__ static void begin_kernel(draws d, nn_adamw_options adamw, nn_cuda_clock* clock) {
    const nn_cuda_draw& p = d.part[blockIdx.y];
    int64_t update = clock->update;
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < p.batch) {
        if (p.rows > 0) {
            uint64_t index = ((uint64_t)update << 20) + (uint64_t)i;
            p.row[i] =
                (int64_t)__umul64hi(philox_wide(p.seed, p.stream, index), (uint64_t)p.rows);
        } else {
            p.row[i] = update % p.slots * p.batch + i;
        }
    }
    if (i == 0 && blockIdx.y == 0) set_rates(clock, adamw, update);
}

extern "C" void nn_cuda_begin(nn_cuda_queue* q, const nn_cuda_draw* draw, int parts,
                              const nn_adamw_options* adamw, nn_cuda_clock* clock) {
    draws d = {};
    int most = 0;
    for (int i = 0; i < parts; i++) {
        d.part[i] = draw[i];
        if (draw[i].batch > most) most = draw[i].batch;
    }
    dim3 blocks(blocks_for(most, 256), (uint32_t)parts);
    begin_kernel<<<blocks, 256, 0, (cudaStream_t)nn_cuda_stream(q)>>>(d, *adamw, clock);
    nn_cuda_check(q, "rows of an update");
}

// units of `T`; consecutive threads copy consecutive units of a row
template <class T>
__device__ static void copy_rows(const nn_cuda_copy& c) {
    uint32_t units = c.row_bytes / (uint32_t)sizeof(T);
    uint64_t all = (uint64_t)units * (uint64_t)c.batch;
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        uint32_t sample = (uint32_t)(i / units), at = (uint32_t)(i - (uint64_t)sample * units);
        const T* from = (const T*)(c.from + c.row[sample] * (int64_t)c.row_bytes);
        ((T*)c.to)[i] = from[at];
    }
}

// block row y is an input
__global__ static void gather_kernel(const nn_cuda_copy* copy) {
    const nn_cuda_copy c = copy[blockIdx.y];
    if (c.row_bytes % 16 == 0)
        copy_rows<uint4>(c);
    else if (c.row_bytes % 4 == 0)
        copy_rows<uint32_t>(c);
    else
        copy_rows<uint8_t>(c);
}

extern "C" void nn_cuda_gather(nn_cuda_queue* q, const nn_cuda_copy* copy, int count,
                               size_t most_bytes) {
    if (count == 0) return;
    // a thread for 64 bytes of the largest input, within reason
    uint32_t wide = blocks_for((int64_t)(most_bytes / 64 + 1), 256);
    dim3 blocks(wide < 2048 ? wide : 2048, (uint32_t)count);
    gather_kernel<<<blocks, 256, 0, (cudaStream_t)nn_cuda_stream(q)>>>(copy);
    nn_cuda_check(q, "rows into inputs");
}
