// lewm_few_ops.cuh - src/plan/cuda/lewm_few_ops.cuh on the CPU: the blocks of emulate_together(),
// in clusters of 16. A far address has its block in the bits from 24 on. Stores and copies are
// there at once; products, too: what waits too little is not seen, but a barrier that counts
// wrongly is.
#ifndef PLAN_CUDA_LEWM_FEW_OPS_CUH
#define PLAN_CUDA_LEWM_FEW_OPS_CUH

#include "nn/cuda/mma.cuh"
#include "nn/cuda/warpgroup.cuh"

namespace lewm_few {

static inline int block_in_cluster(void) {
    return (int)(blockIdx.x % 16);
}
static inline unsigned char* far_room(uint32_t at) {
    return room_of(blockIdx.x / 16 * 16 + (at >> 24)) + (at & 0xffffff);
}
static inline uint32_t far_of(uint32_t own, int block) {
    return own | (uint32_t)block << 24;
}

// a barrier of 8 bytes: how many arrive, how many are missing, phases passed, bytes awaited
struct counting {
    uint8_t arrivals, missing;
    uint16_t phase;
    int32_t bytes;
};
static inline void step_on(counting* b) {
    if (b->missing || b->bytes) return;
    b->missing = b->arrivals;
    b->phase++;
}
static inline counting* barrier_here(uint32_t at) {
    return (counting*)(launched_room + at);
}
static inline void barrier_make(uint32_t at, int arrivals) {
    *barrier_here(at) = counting{(uint8_t)arrivals, (uint8_t)arrivals, 0, 0};
}
static inline void barriers_made(void) {}
static inline void barrier_expect(uint32_t at, int bytes) {
    counting* b = barrier_here(at);
    if (!b->missing) abort();
    b->bytes += bytes;
    b->missing--;
    step_on(b);
}
static inline void barrier_arrive(uint32_t at) {
    barrier_expect(at, 0);
}
static inline void barrier_wait(uint32_t at, int parity) {
    while ((barrier_here(at)->phase & 1) == parity) let_others();
}
static inline void bytes_came(counting* b, int bytes) {
    b->bytes -= bytes;
    step_on(b);
}
static inline void put_far(uint32_t at, uint4 v, uint32_t barrier) {
    memcpy(far_room(at), &v, 16);
    if (at >> 24 != barrier >> 24) abort();  // the barrier is where the bytes go
    bytes_came((counting*)far_room(barrier), 16);
}
static inline void bring(uint32_t to, const void* from, int bytes, uint32_t barrier) {
    memcpy(launched_room + to, from, (size_t)bytes);
    bytes_came(barrier_here(barrier), bytes);
}

static inline void cluster_meets(void) {
    all_meet();
}

static inline int uniform(int x) {
    return __shfl_sync(~0u, x, 0);
}
using ::some_arrive;
using ::some_meet;

template <int N>
static inline void put_turned(uint32_t at, const uint32_t (&r)[N]) {
    uint32_t words[6] = {at, N};
    for (int i = 0; i < N; i++) words[2 + i] = r[i];
    warp_instruction(words, 6, [](warp_exchange* e) {
        for (uint32_t m = 0; m < e->in[0][1]; m++)
            for (int l = 0; l < 32; l++)
                for (int h = 0; h < 2; h++) {
                    const uint16_t v = (uint16_t)(e->in[l][2 + m] >> (16 * h));
                    const uint32_t row = e->in[8 * m + (uint32_t)(l % 4 * 2 + h)][0];
                    if (row % 16) abort();
                    memcpy(launched_room + row + l / 4 * 2, &v, 2);
                }
    });
}
static inline uint4 take16(uint32_t at) {
    uint4 v;
    memcpy(&v, launched_room + at, 16);
    return v;
}
static inline uint32_t take4(uint32_t at) {
    uint32_t v;
    memcpy(&v, launched_room + at, 4);
    return v;
}
static inline void put4(uint32_t at, uint32_t v) {
    memcpy(launched_room + at, &v, 4);
}
static inline void put16(uint32_t at, uint4 v) {
    memcpy(launched_room + at, &v, 16);
}
static inline uint32_t fetch4(const void* p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline float2 fetch8(const float* p) {
    return *(const float2*)p;
}
static inline float2 fresh8(const float* p) {
    return *(const float2*)p;
}
static inline uint4 fresh16(const void* p) {
    return *(const uint4*)p;
}
static inline float tanh_fast(float x) {
    return tanhf(x);
}

struct factors {
    uint64_t a, b;
    int add;
};
template <int N>
static void multiply(void** all, const void* how) {
    const factors f = *(const factors*)how;
    static float a[64][16], b[N * 8][16];
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t k = 0; k < 16; k++) a[i][k] = group_number(f.a, i, k);
    for (uint32_t i = 0; i < N * 8; i++)
        for (uint32_t k = 0; k < 16; k++) b[i][k] = group_number(f.b, i, k);
    for (int t = 0; t < 128; t++) {
        float(*d)[4] = (float(*)[4])all[t];
        for (int n = 0; n < N; n++)
            for (int i = 0; i < 4; i++) {
                const float *x = a[t / 32 * 16 + t % 32 / 4 + i / 2 * 8],
                            *y = b[n * 8 + t % 4 * 2 + i % 2];
                float sum = f.add ? d[n][i] : 0.0f;
                for (int k = 0; k < 16; k++) sum += x[k] * y[k];
                d[n][i] = sum;
            }
    }
}
template <int N>
static inline void group_product(float (&d)[N][4], uint64_t a, uint64_t b, int add) {
    const factors f = {a, b, add};
    group_works(a << 32 ^ b, d, multiply<N>, &f);
}

}  // namespace lewm_few

#endif
