// device.c - opens the device a run asked for by name.
#include "nn/device.h"

#include <string.h>

#include "nn/gpu.h"

nn_device nn_device_cpu(void) {
    return (nn_device){.name = "cpu", .backend = nn_backend_cpu(), .precision = NN_FP32};
}

firm_status nn_device_open(const char* name, nn_precision precision, nn_device* out,
                           firm_error* err) {
    *out = nn_device_cpu();
    if (strcmp(name, "cpu") == 0) return FIRM_OK;
    if (nn_gpu_linked()) return nn_gpu_linked()->open(precision, out, err);
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "this firm was built without CUDA; run make cuda and use build-cuda/firm, or "
                "--device cpu");
}

firm_status nn_device_check(const char* name, firm_error* err) {
    nn_device d;
    TRY(nn_device_open(name, NN_FP32, &d, err));
    nn_device_close(&d);
    return FIRM_OK;
}

void nn_device_close(nn_device* d) {
    if (d->queue) nn_gpu_linked()->close(d);
    *d = nn_device_cpu();
}
