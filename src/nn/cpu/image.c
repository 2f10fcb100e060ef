// image.c - bytes to standardised patches: a table of 256 values per channel, contiguous reads.
#include "nn/cpu/cpu.h"
#include "nn/cpu/loops.h"

static void patches_forward(const nn_call* c) {
    const nn_tensor* frames = nn_in(c, 0);
    const int size = frames->dim[frames->rank - 2];
    const int64_t images = (int64_t)c->rows * (frames->size / (size * size * 3));
    float table[3][256];
    for (int ch = 0; ch < 3; ch++)
        for (int v = 0; v < 256; v++)
            table[ch][v] = ((float)v / 255.0f - c->node->mean[ch]) / c->node->std[ch];
    nn_loops_get()->patches(images, size, c->node->patch, c->in[0], table, c->out);
}

static void patchdiff_forward(const nn_call* c) {
    float scale[3];
    for (int ch = 0; ch < 3; ch++) scale[ch] = 1.0f / 255.0f / c->node->std[ch];
    nn_loops_get()->patchdiff(c->rows, nn_in(c, 0)->dim[0], c->node->patch, c->in[0], c->in[1],
                              scale, c->out);
}

static void patchmask_forward(const nn_call* c) {
    nn_loops_get()->patchmask(c->rows, nn_in(c, 0)->dim[0], c->node->patch, c->in[0], c->in[1],
                              c->out);
}

const nn_kernel nn_cpu_patches = {patches_forward, NULL, NULL, NULL};
const nn_kernel nn_cpu_patchdiff = {patchdiff_forward, NULL, NULL, NULL};
const nn_kernel nn_cpu_patchmask = {patchmask_forward, NULL, NULL, NULL};
