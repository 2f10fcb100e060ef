// half.c - float32 to float16 and back, bit by bit; used by the model files (safetensors.c).
#include "model/half.h"

#include <string.h>

uint16_t half_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return sign | 0x7e00;   // not a number
    if (size >= 0x477ff000) return sign | 0x7c00;  // 65520 and more round to infinity
    if (size < 0x33000000) return sign;            // below half of the smallest subnormal, 2^-25
    // `kept` is the value in units of the last half bit, `lost` the bits behind it, left-aligned
    uint32_t kept, lost;
    if (size >= 0x38800000) {  // normal: 2^-14 and more; the exponent's bias goes from 127 to 15
        kept = (size - 0x38000000) >> 13;
        lost = size << 19;
    } else {
        int shift = 126 - (int)(size >> 23);  // 14 .. 24
        uint32_t fraction = (size & 0x7fffff) | 0x800000;
        kept = fraction >> shift;
        lost = fraction << (32 - shift);
    }
    // a carry out of the fraction raises the exponent, which is what rounding up means there
    if (lost > 0x80000000 || (lost == 0x80000000 && (kept & 1))) kept++;
    return (uint16_t)(sign | kept);
}

float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3ff, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | fraction << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        float value = (float)fraction * 0x1p-24f;  // subnormal or zero: exact in float32
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
