// device.c - opens the device a run asked for by name.
#include "nn/device.h"

#include <string.h>

#ifdef FIRM_CUDA
#include "nn/cuda/cuda.h"
#endif

nn_device nn_device_cpu(void) {
    return (nn_device){.name = "cpu", .backend = nn_backend_cpu(), .precision = NN_FP32};
}

firm_status nn_device_open(const char* name, nn_precision precision, nn_device* out,
                           firm_error* err) {
    *out = nn_device_cpu();
    if (strcmp(name, "cpu") == 0) return FIRM_OK;
#ifdef FIRM_CUDA
    static const nn_cuda_precision kind[] = {NN_CUDA_FP32, NN_CUDA_TF32, NN_CUDA_MIXED};
    nn_cuda_queue* q;
    TRY(nn_cuda_queue_create(kind[precision], &q, err));
    *out = (nn_device){
        .name = "cuda", .backend = nn_backend_cuda(), .queue = q, .precision = precision};
    return FIRM_OK;
#else
    (void)precision;
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "this firm was built without CUDA; run make cuda and use build-cuda/firm, or "
                "--device cpu");
#endif
}

firm_status nn_device_check(const char* name, firm_error* err) {
    nn_device d;
    TRY(nn_device_open(name, NN_FP32, &d, err));
    nn_device_close(&d);
    return FIRM_OK;
}

void nn_device_close(nn_device* d) {
#ifdef FIRM_CUDA
    nn_cuda_queue_free(d->queue);
#endif
    *d = nn_device_cpu();
}
