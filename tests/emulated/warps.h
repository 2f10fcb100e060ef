// warps.h - just enough of CUDA's language to run a kernel on the CPU: the threads of one block
// (or of all) take turns as contexts of one thread, and an instruction of a warp waits until all 32
// lanes are there. Kernels see this file through cuda_bf16.h and nn/cuda/warp.cuh of this folder.
// It checks what a kernel computes; it knows no races, no speed and no registers.
#ifndef EMULATED_WARPS_H
#define EMULATED_WARPS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // blocks run one after the other

struct dim3 {
    unsigned x, y, z;
};
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) {
    return float2{x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}

extern dim3 blockIdx, blockDim, gridDim, threadIdx;
extern unsigned char* launched_room;  // shared memory of the block at work

// Runs a kernel: `kernel` is called once for every thread of every block.
void emulate(unsigned blocks, unsigned threads, size_t room, const std::function<void()>& kernel);
// The same with all blocks at work at once, so that they can wait for one another; threads of a
// block must be a multiple of 32.
void emulate_together(unsigned blocks, unsigned threads, size_t room,
                      const std::function<void()>& kernel);
void __syncthreads(void);
void __syncwarp(void);
unsigned char* room_of(unsigned block);  // shared memory of a block at work
void all_meet(void);                     // the threads of all blocks at work
void let_others(void);                   // a thread that waits

// One instruction of a warp: every lane hands in words; when all have, `work` fills in what each
// lane gets.
enum { WARP_WORDS = 12 };
struct warp_exchange {
    uint32_t in[32][WARP_WORDS], out[32][WARP_WORDS];
};
struct warp_words {
    uint32_t word[WARP_WORDS];
};
warp_words warp_instruction(const uint32_t* words, int count, void (*work)(warp_exchange*));

// One instruction of a warpgroup: waits until the 128 threads are there; all must hand in the same.
void group_meets(uint64_t what);
// The same with something of each thread's own: the last one does the work for all 128.
void group_works(uint64_t what, void* own, void (*work)(void** all, const void* how),
                 const void* how);
// Named barriers of a block: so many threads come, and those that meet also wait.
void some_meet(int number, int threads);
void some_arrive(int number, int threads);

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float __uint_as_float(uint32_t bits) {
    return float_of(bits);
}
static inline float emulated_rsqrt(float x) {
    return 1.0f / sqrtf(x);
}
#define rsqrtf emulated_rsqrt
static inline float __fdividef(float x, float y) {
    return x / y;
}

int __shfl_sync(unsigned lanes, int x, int from);
float __shfl_xor_sync(unsigned lanes, float x, int other);
int __any_sync(unsigned lanes, int x);
int __all_sync(unsigned lanes, int x);

// threads take turns only where they wait
static inline int atomicAdd(int* at, int x) {
    int before = *at;
    *at += x;
    return before;
}

#endif
