// conv_pass.h - the three products of a convolution, straight from the image: no patch is ever
// written out. An image is read through a grid of patches; a convolution goes from the image to the
// grid, its transpose the other way, and the backward pass of one uses the forward pass of the
// other.
#ifndef NN_CPU_CONV_PASS_H
#define NN_CPU_CONV_PASS_H

#include <stddef.h>

typedef struct nn_conv_shape {
    int height, width, channels;  // image
    int rows, cols, features;     // grid
    int kernel, stride, pad;
    int turned;  // weights are (features, k*k*channels), as in convt2d; else (k*k*channels,
                 // features)
} nn_conv_shape;

typedef enum nn_conv_end { NN_CONV_SET, NN_CONV_ADD } nn_conv_end;

size_t nn_conv_scratch(const nn_conv_shape* q);  // bytes that each of the passes needs

// Weights in the order in which gather and spread read them, into scratch; for any number of
// images.
void nn_conv_pack_gather(const nn_conv_shape* q, const float* w, void* scratch);
void nn_conv_pack_spread(const nn_conv_shape* q, const float* w, void* scratch);

// grid (rows, cols, features) from image; bias (features) or NULL, added where `end` is SET
void nn_conv_gather(const nn_conv_shape* q, const float* image, const float* bias, nn_conv_end end,
                    float* grid, void* scratch);
// image from grid; bias (channels) or NULL
void nn_conv_spread(const nn_conv_shape* q, const float* grid, const float* bias, nn_conv_end end,
                    float* image, void* scratch);
// dw += the weights' gradient, of a gather with gradient `grid` or of a spread with gradient
// `image`
void nn_conv_weights(const nn_conv_shape* q, const float* image, const float* grid, float* dw,
                     void* scratch);

#endif
