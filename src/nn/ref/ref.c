// ref.c - the table of the reference backend: one kernel pair per op, numbers in double, host
// memory. Parameters and inputs arrive as floats (upload) and results leave as floats (download).
#include "nn/ref/ref.h"

#include <string.h>

#include "core/mem.h"

int nn_ref_last(const nn_tensor* t) {
    return t->dim[t->rank - 1];
}

double* nn_ref_grad(const nn_call* c, int i) {
    double* grad = c->din[i];
    const nn_tensor* t = nn_in(c, i);
    int is_param = c->graph->tensor[t->root].kind == NN_PARAM;
    if (grad && !is_param && !c->accumulate[i]) {
        memset(grad, 0, (size_t)c->rows * t->size * sizeof(double));
    }
    return grad;
}

static void* ref_alloc(size_t bytes) {
    return mem_alloc(bytes);
}

static void ref_release(void* p) {
    mem_free(p);
}

static void ref_upload(void* device, const float* host, size_t count) {
    double* d = device;
    for (size_t i = 0; i < count; i++) d[i] = host[i];
}

static void ref_download(float* host, const void* device, size_t count) {
    const double* d = device;
    for (size_t i = 0; i < count; i++) host[i] = (float)d[i];
}

#define BOTH(name) \
    { .forward = nn_ref_##name##_forward, .backward = nn_ref_##name##_backward }
#define FORWARD(name) \
    { .forward = nn_ref_##name##_forward }

const nn_backend* nn_backend_ref(void) {
    static const nn_backend table = {
        .name = "ref",
        .real = sizeof(double),
        .kernel =
            {
                [NN_LINEAR] = BOTH(linear),
                [NN_CONV2D] = BOTH(conv2d),
                [NN_CONVT2D] = BOTH(convt2d),
                [NN_LAYERNORM] = BOTH(layernorm),
                [NN_GROUPNORM] = BOTH(groupnorm),
                [NN_ADANORM] = BOTH(adanorm),
                [NN_BATCHNORM] = BOTH(batchnorm),
                [NN_GELU] = BOTH(gelu),
                [NN_ERFGELU] = BOTH(erfgelu),
                [NN_SILU] = BOTH(silu),
                [NN_ADD] = BOTH(add),
                [NN_ADDP] = BOTH(addp),
                [NN_MUL] = BOTH(mul),
                [NN_PAIRNORM] = BOTH(pairnorm),
                [NN_CLAMP] = BOTH(clamp),
                [NN_RELATIVE] = BOTH(relative),
                [NN_DROPOUT] = BOTH(dropout),
                [NN_CONCAT] = BOTH(concat),
                [NN_SLICE] = BOTH(slice),
                [NN_MEAN] = BOTH(mean),
                [NN_PREPEND] = BOTH(prepend),
                [NN_ATTENTION] = BOTH(attention),
                [NN_COORDS] = BOTH(coords),
                [NN_SOFTPOOL] = {.forward = nn_ref_softpool_forward,
                                 .backward = nn_ref_softpool_backward,
                                 .scratch_bytes = nn_ref_softpool_scratch},
                [NN_SPATIAL] = BOTH(spatial),
                [NN_PATCHES] = FORWARD(patches),
                [NN_PATCHDIFF] = FORWARD(patchdiff),
                [NN_PATCHMASK] = FORWARD(patchmask),
                [NN_MSE] = BOTH(mse),
                [NN_BCE] = BOTH(bce),
                [NN_NLL] = BOTH(nll),
                [NN_CHORD] = BOTH(chord),
                [NN_SIGREG] = {.forward = nn_ref_sigreg_forward,
                               .backward = nn_ref_sigreg_backward,
                               .scratch_bytes = nn_ref_sigreg_scratch},
            },
        .gather = {[NN_BATCHNORM] = &nn_ref_batchnorm_gather, [NN_SIGREG] = &nn_ref_sigreg_gather},
        .alloc = ref_alloc,
        .release = ref_release,
        .upload = ref_upload,
        .download = ref_download,
    };
    return &table;
}
