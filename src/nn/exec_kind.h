// exec_kind.h - what a device provides behind exec.h. exec.c itself runs graphs on the host; an
// exec made with a queue (device.h) passes every call on to the device's table.
#ifndef NN_EXEC_KIND_H
#define NN_EXEC_KIND_H

#include "nn/exec.h"

typedef struct nn_exec_kind {
    // Options are checked and the graph is whole. *out is what the other functions get.
    firm_status (*create)(const nn_graph* g, const nn_exec_options* opt, pool* p, void** out,
                          firm_error* err);
    void (*free)(void* r);
    size_t (*bytes)(const void* r);
    // `first`: the number of the first sample
    firm_status (*forward)(void* r, int first, int count, int64_t update, nn_fill_fn fill,
                           void* ctx);
    firm_status (*gradient)(void* r, int64_t update, nn_fill_fn fill, void* ctx);
    firm_status (*stream)(void* r, nn_exec* e, int count, int64_t update, nn_fill_fn fill,
                          void* ctx, nn_take_fn take, void* to);
    const float* (*output)(const void* r, nn_id x);
    double (*loss)(const void* r);
    double (*term)(const void* r, int term);
    const nn_layout* (*layout)(const void* r);
    float* (*grad)(void* r);
    void (*pull_params)(void* r);
    const char* (*fault)(const void* r);  // what went wrong on the device, or NULL
} nn_exec_kind;

extern const nn_exec_kind nn_exec_cuda;  // of nn/cuda

#endif
