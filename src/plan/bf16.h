// bf16.h - float32 to bfloat16, nearest even.
#ifndef PLAN_BF16_H
#define PLAN_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);  // a NaN stays one
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
