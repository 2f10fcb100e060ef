// flash_kernels.cuh - attention over a few hundred tokens on tensor cores: a block per group and
// head. Where the processor has products of warpgroups they do the work, and a warp beside them the
// last rows; elsewhere warps do. Both forms are templates, so that tests can run each.
#ifndef NN_CUDA_FLASH_KERNELS_CUH
#define NN_CUDA_FLASH_KERNELS_CUH

#include "nn/cuda/flash_backward.cuh"
#include "nn/cuda/flash_forward.cuh"

#endif
