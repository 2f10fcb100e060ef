// pace.h - how fast a trainer updates, beside the machine's multiply-add rate: what the benchmarks
// of both world models measure.
#ifndef TRAIN_PACE_H
#define TRAIN_PACE_H

#include "core/pool.h"
#include "nn/trainer.h"

typedef struct train_pace {
    double updates_per_s;
    double gflop;     // products of one update
    double fma_sum;   // of the multiply-add rates measured in between, GFLOP/s
    int fma_count;    // how many; 0 on a GPU
    double fraction;  // of the multiply-add rate; 0 on a GPU
} train_pace;

// Runs a few updates to warm up (the first two of a GPU are special), then updates for about
// `seconds`. A GPU is only waited for now and then, as in training. On the host the machine's own
// rate is measured after each second of that.
firm_status train_pace_measure(const nn_trainer_options* opt, const nn_part* part, int parts,
                               double seconds, train_pace* out, firm_error* err);

#endif
