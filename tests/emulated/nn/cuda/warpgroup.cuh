// warpgroup.cuh - the products of src/nn/cuda/warpgroup.cuh on the CPU, done at once: what waits
// too little is not seen. Operands in shared memory are found by their descriptor as the GPU does.
#ifndef NN_CUDA_WARPGROUP_CUH
#define NN_CUDA_WARPGROUP_CUH

#include "nn/cuda/warp.cuh"

enum { HAS_WARPGROUPS = 0 };  // tests choose the form themselves

static inline uint64_t group_operand(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(1024 >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

// the number at row `row` and column `col` of rows of 64: the address's bits 4 to 6 are swizzled
static inline float group_number(uint64_t operand, uint32_t row, uint32_t col) {
    uint32_t eight = (uint32_t)(operand >> 32 & 0x3fff) << 4;
    uint32_t at = (uint32_t)(operand & 0x3fff) << 4;
    at += row / 8 * eight + row % 8 * 128 + col * 2;
    at ^= (at >> 7 & 7) << 4;
    uint16_t bits;
    memcpy(&bits, launched_room + at, 2);
    return float_of((uint32_t)bits << 16);
}

static inline void group_publish(void) {}
static inline void group_begin(void) {}
static inline void group_commit(void) {}
template <int LEFT>
static inline void group_wait(void) {}
template <int N>
static inline void group_own(float (&)[N][4]) {}
template <int N>
static inline void group_keep(const uint32_t (&)[N][4]) {}

// A warp's 16 rows. All four warps must name the same matrix, which the last one checks.
template <bool ADD, bool TURNED, int N>
static inline void group_mma(float (&d)[N][4], const uint32_t (&a)[4], uint64_t b) {
    group_meets(b);
    uint32_t words[6] = {a[0], a[1], a[2], a[3], (uint32_t)b, (uint32_t)(b >> 32)};
    warp_words w[N];
    for (int n = 0; n < N; n++) {
        uint32_t all[11];
        memcpy(all, words, sizeof words);
        for (int i = 0; i < 4; i++) all[6 + i] = bits_of(ADD ? d[n][i] : 0.0f);
        all[10] = (uint32_t)(2 * n + TURNED);
        w[n] = warp_instruction(all, 11, [](warp_exchange* e) {
            float a[16][16], b[16][8];
            uint64_t operand = e->in[0][4] | (uint64_t)e->in[0][5] << 32;
            uint32_t first = e->in[0][10] / 2 * 8, turned = e->in[0][10] % 2;
            for (uint32_t k = 0; k < 16; k++)
                for (uint32_t c = 0; c < 8; c++)
                    b[k][c] = turned ? group_number(operand, k, first + c)
                                     : group_number(operand, first + c, k);
            for (int l = 0; l < 32; l++)
                for (int h = 0; h < 2; h++)
                    for (int i = 0; i < 4; i++)
                        a[l / 4 + 8 * (i & 1)][l % 4 * 2 + h + 8 * (i >> 1)] =
                            half_of(e->in[l][i], h);
            for (int l = 0; l < 32; l++)
                for (int i = 0; i < 4; i++) {
                    int row = l / 4 + 8 * (i >> 1), col = l % 4 * 2 + (i & 1);
                    float sum = float_of(e->in[l][6 + i]);
                    for (int k = 0; k < 16; k++) sum += a[row][k] * b[k][col];
                    e->out[l][i] = bits_of(sum);
                }
        });
        for (int i = 0; i < 4; i++) d[n][i] = float_of(w[n].word[i]);
    }
}

#endif
