// gpu.c - the device "cuda" for programs that link it (nn/gpu.h).
#include "nn/gpu.h"

#include "nn/cuda/cuda.h"

static firm_status open(nn_precision precision, nn_device* out, firm_error* err) {
    static const nn_cuda_precision kind[] = {NN_CUDA_FP32, NN_CUDA_TF32, NN_CUDA_MIXED};
    nn_cuda_queue* q;
    TRY(nn_cuda_queue_create(kind[precision], &q, err));
    *out = (nn_device){
        .name = "cuda", .backend = nn_backend_cuda(), .queue = q, .precision = precision};
    return FIRM_OK;
}

static void close(nn_device* d) {
    nn_cuda_queue_free(d->queue);
}

const nn_gpu nn_gpu_cuda = {open, close, &nn_exec_cuda, &nn_trainer_cuda};
