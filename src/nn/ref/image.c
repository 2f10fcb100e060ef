// image.c - byte images cut into patches, reference. No gradients: images are where the graph
// begins. Image (H, W, 3) -> patches row-major, inside a patch pixels row-major, then channels.
#include <stdlib.h>

#include "nn/ref/ref.h"

// Offset in bytes of pixel `pixel` (row-major) of patch `patch` in an image W wide.
static size_t pixel_at(int W, int p, int patch, int pixel) {
    int y = patch / (W / p) * p + pixel / p, x = patch % (W / p) * p + pixel % p;
    return ((size_t)y * W + x) * 3;
}

void nn_ref_patches_forward(const nn_call* c) {
    const nn_tensor* image = nn_in(c, 0);
    int W = image->dim[image->rank - 2], p = c->node->patch, count = (W / p) * (W / p);
    int images = c->rows * (image->size / (W * W * 3));
    double* y = c->out;
    for (int r = 0; r < images; r++) {
        const uint8_t* o = (const uint8_t*)c->in[0] + (size_t)r * W * W * 3;
        for (int i = 0; i < count * p * p; i++) {
            size_t at = pixel_at(W, p, i / (p * p), i % (p * p));
            for (int ch = 0; ch < 3; ch++)
                *y++ = (o[at + ch] / 255.0 - c->node->mean[ch]) / c->node->std[ch];
        }
    }
}

void nn_ref_patchdiff_forward(const nn_call* c) {
    const nn_tensor* image = nn_in(c, 0);
    int W = image->dim[1], p = c->node->patch, count = nn_out(c)->dim[0];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        const uint8_t* o = (const uint8_t*)c->in[0] + (size_t)r * image->size;
        const uint8_t* before = (const uint8_t*)c->in[1] + (size_t)r * image->size;
        for (int i = 0; i < count * p * p; i++) {
            size_t at = pixel_at(W, p, i / (p * p), i % (p * p));
            for (int ch = 0; ch < 3; ch++)
                *y++ = (o[at + ch] - before[at + ch]) / 255.0 / c->node->std[ch];
        }
    }
}

// a pixel counts as changed when one of its channels moved by more than 8 of 255 levels
void nn_ref_patchmask_forward(const nn_call* c) {
    const nn_tensor* image = nn_in(c, 0);
    int W = image->dim[1], p = c->node->patch, count = nn_out(c)->dim[0];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        const uint8_t* o = (const uint8_t*)c->in[0] + (size_t)r * image->size;
        const uint8_t* before = (const uint8_t*)c->in[1] + (size_t)r * image->size;
        for (int i = 0; i < count * p * p; i++) {
            size_t at = pixel_at(W, p, i / (p * p), i % (p * p));
            int changed = 0;
            for (int ch = 0; ch < 3; ch++) changed |= abs(o[at + ch] - before[at + ch]) > 8;
            *y++ = changed;
        }
    }
}
