// device.c - opens the device a run asked for by name.
#include "nn/device.h"

#include <string.h>

nn_device nn_device_cpu(void) {
    return (nn_device){.name = "cpu", .backend = nn_backend_cpu(), .precision = NN_FP32};
}

firm_status nn_device_open(const char* name, nn_precision precision, nn_device* out,
                           firm_error* err) {
    *out = nn_device_cpu();
    if (strcmp(name, "cpu") == 0) return FIRM_OK;
    (void)precision;
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "this firm was built without CUDA; run make cuda and use build-cuda/firm, or "
                "--device cpu");
}

void nn_device_close(nn_device* d) {
    *d = nn_device_cpu();
}
