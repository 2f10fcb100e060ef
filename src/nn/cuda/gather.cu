// gather.cu - the samples of an update, found and fetched on the device: rows of tables picked as
// the host would pick them, and copied into the inputs of the graphs.
#include "core/rng.h"
#include "nn/cuda/device.cuh"
#include "nn/cuda/steps.h"

// nn_pick_row (trainer.c)
__device__ static int64_t pick_row(const nn_cuda_draw& p, int64_t update, int sample) {
    uint32_t word[4];
    rng_block(p.seed, p.stream, ((uint64_t)update << 20) + (uint64_t)sample, word);
    return (int64_t)__umul64hi(((uint64_t)word[0] << 32) | word[1], (uint64_t)p.rows);
}

// the rate of an update and the corrections of AdamW's moments
__device__ static void set_rates(nn_cuda_clock* clock, nn_adamw_options o, int64_t step) {
    clock->rate = nn_schedule_rate(&o, step);
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
        p.row[i] = p.rows > 0 ? pick_row(p, update, i) : update % p.slots * p.batch + i;
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
    uint64_t all = (uint64_t)units * (uint64_t)c.batch * (uint64_t)c.pieces;
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        uint32_t line = (uint32_t)(i / units), at = (uint32_t)(i - (uint64_t)line * units);
        uint32_t sample = line / c.pieces, piece = line % c.pieces;
        int64_t row = c.start ? c.start[c.row[sample]] : c.row[sample];
        row += (int64_t)piece * c.stride;
        const T* from = (const T*)(c.from + row * (int64_t)c.row_bytes);
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
