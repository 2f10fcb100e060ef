// image.c - bytes to standardised patches: a table of 256 values per channel, contiguous reads.
#include "nn/cpu/cpu.h"

#define CHANGE_LEVELS 8  // a pixel counts as changed if a channel moved by more than this

static void patches_forward(const nn_call* c) {
    const nn_tensor* frames = nn_in(c, 0);
    int size = frames->dim[frames->rank - 2], p = c->node->patch, grid = size / p;
    int bytes = size * size * 3, images = c->rows * (frames->size / bytes);
    float table[3][256];
    for (int ch = 0; ch < 3; ch++)
        for (int v = 0; v < 256; v++)
            table[ch][v] = ((float)v / 255.0f - c->node->mean[ch]) / c->node->std[ch];
    float* out = c->out;
    for (int i = 0; i < images; i++) {
        const uint8_t* image = (const uint8_t*)c->in[0] + (int64_t)i * bytes;
        for (int gy = 0; gy < grid; gy++)
            for (int gx = 0; gx < grid; gx++)
                for (int y = 0; y < p; y++) {
                    const uint8_t* run = image + ((gy * p + y) * size + gx * p) * 3;
                    for (int j = 0; j < 3 * p; j += 3) {
                        *out++ = table[0][run[j]];
                        *out++ = table[1][run[j + 1]];
                        *out++ = table[2][run[j + 2]];
                    }
                }
    }
}

static void patchdiff_forward(const nn_call* c) {
    int size = nn_in(c, 0)->dim[0], p = c->node->patch, grid = size / p;
    float scale[3];
    for (int ch = 0; ch < 3; ch++) scale[ch] = 1.0f / 255.0f / c->node->std[ch];
    float* out = c->out;
    for (int i = 0; i < c->rows; i++) {
        const uint8_t* now = (const uint8_t*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        const uint8_t* before = (const uint8_t*)c->in[1] + (int64_t)i * nn_in(c, 0)->size;
        for (int gy = 0; gy < grid; gy++)
            for (int gx = 0; gx < grid; gx++)
                for (int y = 0; y < p; y++) {
                    int at = ((gy * p + y) * size + gx * p) * 3;
                    for (int j = 0; j < 3 * p; j++)
                        *out++ = (float)(now[at + j] - before[at + j]) * scale[j % 3];
                }
    }
}

static void patchmask_forward(const nn_call* c) {
    int size = nn_in(c, 0)->dim[0], p = c->node->patch, grid = size / p;
    float* out = c->out;
    for (int i = 0; i < c->rows; i++) {
        const uint8_t* now = (const uint8_t*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        const uint8_t* before = (const uint8_t*)c->in[1] + (int64_t)i * nn_in(c, 0)->size;
        for (int gy = 0; gy < grid; gy++)
            for (int gx = 0; gx < grid; gx++)
                for (int y = 0; y < p; y++) {
                    int at = ((gy * p + y) * size + gx * p) * 3;
                    for (int x = 0; x < p; x++, at += 3) {
                        int changed = 0;
                        for (int ch = 0; ch < 3; ch++) {
                            int d = now[at + ch] - before[at + ch];
                            changed |= d > CHANGE_LEVELS || d < -CHANGE_LEVELS;
                        }
                        *out++ = (float)changed;
                    }
                }
    }
}

const nn_kernel nn_cpu_patches = {patches_forward, NULL, NULL, NULL};
const nn_kernel nn_cpu_patchdiff = {patchdiff_forward, NULL, NULL, NULL};
const nn_kernel nn_cpu_patchmask = {patchmask_forward, NULL, NULL, NULL};
