// rounded.h - what a planner claims to compute, in plain loops: the transition with the products'
// operands rounded to a precision, and its sums in a precision of choice. With double sums it is
// the reference; with float32 sums it is one of many equally good implementations.
#ifndef TESTS_MEASURE_ROUNDED_H
#define TESTS_MEASURE_ROUNDED_H

#include "plan/gpu.h"
#include "plan/net.h"

typedef enum rounded_sums {
    SUMS_DOUBLE,
    SUMS_FLOAT,   // every sum and everything stored
    SUMS_OPERAND  // products summed in the operands' format: a defect, for tests of the tests
} rounded_sums;

typedef struct rounded_way {
    plan_precision precision;  // of operands; fp32: as they are
    int raw;  // h is rounded and LayerNorm applied after the product (batch, cluster), not LN(h)
              // before it (layered, CPU)
    rounded_sums sums;
    // products begin their sums with this term: another order, other rounding. Not 0 in 16 bits:
    // operands are also moved by up to 2^-20 of themselves, about what sums of several hundred
    // terms leave, so that some are rounded to their other neighbour.
    int turn;
} rounded_way;

// c_out (n, horizon, config).
void rounded_rollout(const plan_net_shape* s, const plan_net_weights* w, rounded_way way, int n,
                     int horizon, const float* c0, const float* m0, const float* u, double* c_out);

#endif
