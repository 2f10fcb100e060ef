// rounded.h - what the GPU planner's 16-bit modes claim to compute: the transition in double, its
// products' operands rounded to float16 or bfloat16.
#ifndef TESTS_CUDA_ROUNDED_H
#define TESTS_CUDA_ROUNDED_H

#include "../plan/toys.h"
#include "plan/gpu.h"

// c_out (n, horizon, config). raw: h is rounded and LayerNorm applied after the product (batch,
// cluster), not LN(h) before it (layered). No spatial residual.
void rounded_rollout(const toy_net* t, plan_precision precision, int raw, int n, int horizon,
                     const float* c0, const float* m0, const float* u, double* c_out);

#endif
