// fma.h - the machine's own float32 multiply-add rate, the yardstick of every bench: loops that
// touch nothing but registers, on the threads of a pool. What a product reaches of it says what is
// left to gain, whatever the machine.
#ifndef CORE_FMA_H
#define CORE_FMA_H

#include "core/pool.h"

// GFLOP/s of all threads of p together (two operations a multiply-add), the best of a few rounds
// that take about `ms` milliseconds in all. In the instruction set of simd_best().
double fma_measure(pool* p, double ms);

#endif
