// device.h - where graphs run: the host ("cpu"), or a GPU ("cuda") in a program built with it.
#ifndef NN_DEVICE_H
#define NN_DEVICE_H

#include "nn/backend.h"

// Of matrix products on a GPU. NN_MIXED: TF32, and bfloat16 inside the blocks of vision
// transformers, whose weights, sums and residual stream stay float32.
typedef enum nn_precision { NN_FP32, NN_TF32, NN_MIXED } nn_precision;

typedef struct nn_device {
    const char* name;  // "cpu" or "cuda"
    const nn_backend* backend;
    void* queue;  // cuda: for nn_exec_options; the host: NULL
    nn_precision precision;
} nn_device;

nn_device nn_device_cpu(void);
// A device that is absent, too old or not built in is refused with a sentence; nothing falls back.
firm_status nn_device_open(const char* name, nn_precision precision, nn_device* out,
                           firm_error* err);
// Whether it could be opened, for commands that read much before they compute.
firm_status nn_device_check(const char* name, firm_error* err);
void nn_device_close(nn_device* d);

#endif
