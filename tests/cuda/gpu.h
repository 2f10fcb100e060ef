// gpu.h - the GPU of the tests; where there is none, a test counts as skipped.
#ifndef TESTS_CUDA_GPU_H
#define TESTS_CUDA_GPU_H

#include "nn/cuda/cuda.h"
#include "nn/device.h"

// 1 and the device, or 0; close it with nn_device_close.
int gpu_open(nn_device* d, nn_precision precision);
// A queue on it, or NULL; free it with nn_cuda_queue_free.
nn_cuda_queue* gpu_queue(nn_cuda_precision precision);

#endif
