// gpu.h - what nn/cuda provides behind the device "cuda". A program that trains on GPUs links it;
// anywhere else, as in libfirm, nn_gpu_linked() is NULL.
#ifndef NN_GPU_H
#define NN_GPU_H

#include "nn/device.h"
#include "nn/exec_kind.h"
#include "nn/trainer_kind.h"

typedef struct nn_gpu {
    firm_status (*open)(nn_precision precision, nn_device* out, firm_error* err);
    void (*close)(nn_device* d);
    const nn_exec_kind* exec;
    const nn_trainer_kind* trainer;
} nn_gpu;

extern const nn_gpu nn_gpu_cuda __attribute__((weak, visibility("hidden")));

static inline const nn_gpu* nn_gpu_linked(void) {
    return &nn_gpu_cuda;
}

#endif
