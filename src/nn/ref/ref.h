// ref.h - the reference backend: every op of ops.h in double with plain loops. This folder is the
// definition; cpu/ and cuda/ are compared with it, and it is compared with finite differences.
//
// Nothing is kept between forward and backward: what backward needs it computes again. Images are
// bytes in every backend, everything else a call points to is double here.
#ifndef NN_REF_REF_H
#define NN_REF_REF_H

#include "nn/backend.h"

// Where the gradient of input i is to be added, or NULL if none is wanted. A value's gradient that
// is to be overwritten is zeroed here, so that a kernel only ever adds. Take all of a call's
// gradients before adding to one: the same tensor may be input twice.
double* nn_ref_grad(const nn_call* c, int i);

int nn_ref_last(const nn_tensor* t);  // last dimension

#define NN_REF_BOTH(name)                           \
    void nn_ref_##name##_forward(const nn_call* c); \
    void nn_ref_##name##_backward(const nn_call* c);
NN_REF_BOTH(linear)
NN_REF_BOTH(conv2d)
NN_REF_BOTH(convt2d)
NN_REF_BOTH(layernorm)
NN_REF_BOTH(groupnorm)
NN_REF_BOTH(adanorm)
NN_REF_BOTH(batchnorm)
NN_REF_BOTH(gelu)
NN_REF_BOTH(erfgelu)
NN_REF_BOTH(silu)
NN_REF_BOTH(add)
NN_REF_BOTH(addp)
NN_REF_BOTH(mul)
NN_REF_BOTH(pairnorm)
NN_REF_BOTH(clamp)
NN_REF_BOTH(relative)
NN_REF_BOTH(dropout)
NN_REF_BOTH(concat)
NN_REF_BOTH(slice)
NN_REF_BOTH(mean)
NN_REF_BOTH(prepend)
NN_REF_BOTH(attention)
NN_REF_BOTH(coords)
NN_REF_BOTH(softpool)
NN_REF_BOTH(spatial)
NN_REF_BOTH(mse)
NN_REF_BOTH(bce)
NN_REF_BOTH(nll)
NN_REF_BOTH(chord)
NN_REF_BOTH(sigreg)
#undef NN_REF_BOTH
extern const nn_gather nn_ref_batchnorm_gather, nn_ref_sigreg_gather;
// Factor of an element of the batch under the node's dropout: 0 or 1 / (1 - alpha); deployed 1.
double nn_ref_dropped(const nn_call* c, uint64_t element);
size_t nn_ref_sigreg_scratch(const nn_graph* g, const nn_node* n, int rows);
size_t nn_ref_softpool_scratch(const nn_graph* g, const nn_node* n, int rows);
void nn_ref_patches_forward(const nn_call* c);
void nn_ref_patchdiff_forward(const nn_call* c);
void nn_ref_patchmask_forward(const nn_call* c);

#endif
