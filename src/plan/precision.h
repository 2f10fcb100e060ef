// precision.h - what the planner's matrix products multiply; sums, LayerNorm, GELU and the residual
// stream are float32 always.
#ifndef PLAN_PRECISION_H
#define PLAN_PRECISION_H

#include "core/status.h"

typedef enum plan_precision {
    PLAN_FP32,  // float32 operands, fused multiply-adds
    PLAN_TF32,  // operands with TF32's 10-bit mantissa, held as float16; on a GPU
    PLAN_BF16   // bfloat16 operands: 7 bits
} plan_precision;

extern const char plan_precision_names[];  // "fp32|tf32|bf16", for options
firm_status plan_precision_read(const char* name, plan_precision* out, firm_error* err);
const char* plan_precision_name(plan_precision p);

#endif
