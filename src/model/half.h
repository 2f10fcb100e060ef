// half.h - IEEE half precision for shipped weights: 1 sign, 5 exponent and 10 fraction bits, with
// subnormals. Plain integer arithmetic, so the same bits come out on every machine and compiler.
#ifndef MODEL_HALF_H
#define MODEL_HALF_H

#include <stdint.h>

uint16_t half_from_float(float value);  // to nearest, ties to even; too large becomes infinity
float half_to_float(uint16_t half);     // exact

#endif
