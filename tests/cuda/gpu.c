// gpu.c - see gpu.h.
#include "gpu.h"

#include "check.h"

static int there(firm_status st, const firm_error* err) {
    if (st == FIRM_E_UNAVAILABLE)
        test_skip(err->message);
    else if (st != FIRM_OK)
        test_fail(__FILE__, __LINE__, "no GPU: %s", err->message);
    return st == FIRM_OK;
}

int gpu_open(nn_device* d, nn_precision precision) {
    firm_error err = {0};
    return there(nn_device_open("cuda", precision, d, &err), &err);
}

nn_cuda_queue* gpu_queue(nn_cuda_precision precision) {
    firm_error err = {0};
    nn_cuda_queue* q = NULL;
    return there(nn_cuda_queue_create(precision, &q, &err), &err) ? q : NULL;
}
