// cpu.h - the kernels of the cpu backend, one pair per op, and helpers they share.
#ifndef NN_CPU_CPU_H
#define NN_CPU_CPU_H

#include "nn/backend.h"
#include "nn/cpu/loops.h"

extern const nn_kernel nn_cpu_linear, nn_cpu_conv2d, nn_cpu_convt2d, nn_cpu_layernorm,
    nn_cpu_groupnorm, nn_cpu_gelu, nn_cpu_add, nn_cpu_addp, nn_cpu_mul, nn_cpu_pairnorm,
    nn_cpu_clamp, nn_cpu_concat, nn_cpu_slice, nn_cpu_mean, nn_cpu_attention, nn_cpu_coords,
    nn_cpu_softpool, nn_cpu_spatial, nn_cpu_patches, nn_cpu_patchdiff, nn_cpu_patchmask, nn_cpu_mse,
    nn_cpu_bce, nn_cpu_nll, nn_cpu_relative, nn_cpu_chord, nn_cpu_adanorm, nn_cpu_batchnorm,
    nn_cpu_erfgelu, nn_cpu_silu, nn_cpu_dropout, nn_cpu_prepend, nn_cpu_sigreg;
extern const nn_gather nn_cpu_batchnorm_gather, nn_cpu_sigreg_gather;

// Factors of `count` elements of the batch from `first` on under the node's dropout, in training.
void nn_cpu_dropped(const nn_call* c, uint64_t first, int64_t count, float* factor);

// of linear.c, for the backend's table
size_t nn_cpu_packed(const nn_tensor* w, int back);
void nn_cpu_pack(const nn_tensor* w, const float* value, const nn_pack_job* job, float* to);
void nn_cpu_weight_tile(const nn_weight_tile* t);

// Takes the instruction set that simd_best() says. Tests call it again after they set FIRM_SIMD.
void nn_cpu_choose(void);

#endif
