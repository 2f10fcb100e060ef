// warp.cuh - the instructions of src/nn/cuda/warp.cuh on the CPU. Addresses in shared memory are
// offsets in the block's room.
#ifndef NN_CUDA_WARP_CUH
#define NN_CUDA_WARP_CUH

#include "cuda_bf16.h"

#define LAUNCHED_ROOM(name) unsigned char* name = launched_room

static inline uint32_t shared_address(const void* p) {
    return (uint32_t)((const unsigned char*)p - launched_room);
}

static inline float half_of(uint32_t word, int high) {
    return float_of(high ? word & 0xffff0000u : word << 16);
}

// lane 8 m + i hands in where row i of matrix m begins; lane l gets two numbers of row l / 4
static inline void load_matrices(uint32_t (&r)[4], uint32_t at, uint32_t turned) {
    uint32_t words[2] = {at, turned};
    warp_words w = warp_instruction(words, 2, [](warp_exchange* e) {
        for (int m = 0; m < 4; m++) {
            uint16_t matrix[8][8];
            for (int i = 0; i < 8; i++) {
                if (e->in[8 * m + i][0] % 16) abort();  // a row begins at a multiple of 16 bytes
                memcpy(matrix[i], launched_room + e->in[8 * m + i][0], 16);
            }
            for (int l = 0; l < 32; l++) {
                int row = l / 4, col = l % 4 * 2, t = (int)e->in[l][1];
                uint16_t low = t ? matrix[col][row] : matrix[row][col];
                uint16_t high = t ? matrix[col + 1][row] : matrix[row][col + 1];
                e->out[l][m] = low | (uint32_t)high << 16;
            }
        }
    });
    memcpy(r, w.word, sizeof r);
}
static inline void ldsm4(uint32_t (&r)[4], uint32_t at) {
    load_matrices(r, at, 0);
}
static inline void ldsm4_turned(uint32_t (&r)[4], uint32_t at) {
    load_matrices(r, at, 1);
}

// c += a b, with the fragments of mma.m16n8k16: lane l = 4 g + t has of a the rows g and g + 8,
// columns 2 t, 2 t + 1 and 8 more, of b the column g and these rows, of c the rows g and g + 8,
// columns 2 t and 2 t + 1
static inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    uint32_t words[10] = {a[0], a[1], a[2], a[3], b0, b1};
    for (int i = 0; i < 4; i++) words[6 + i] = bits_of(c[i]);
    warp_words w = warp_instruction(words, 10, [](warp_exchange* e) {
        float a[16][16], b[16][8];
        for (int l = 0; l < 32; l++)
            for (int h = 0; h < 2; h++) {
                int g = l / 4, col = l % 4 * 2 + h;
                for (int i = 0; i < 4; i++)
                    a[g + 8 * (i & 1)][col + 8 * (i >> 1)] = half_of(e->in[l][i], h);
                for (int i = 0; i < 2; i++) b[col + 8 * i][g] = half_of(e->in[l][4 + i], h);
            }
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < 4; i++) {
                int row = l / 4 + 8 * (i >> 1), col = l % 4 * 2 + (i & 1);
                float sum = float_of(e->in[l][6 + i]);
                for (int k = 0; k < 16; k++) sum += a[row][k] * b[k][col];
                e->out[l][i] = bits_of(sum);
            }
    });
    for (int i = 0; i < 4; i++) c[i] = float_of(w.word[i]);
}

static inline float power2(float x) {
    return exp2f(x);
}

static inline void copy16(uint32_t to, const void* from, int bytes) {
    memset(launched_room + to, 0, 16);
    memcpy(launched_room + to, from, (size_t)bytes);
}
static inline void copies_done(void) {}

#endif
