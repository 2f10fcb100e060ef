// adamw.h - AdamW with global-norm clipping and learning-rate schedules.
#ifndef NN_ADAMW_H
#define NN_ADAMW_H

#ifndef __CUDACC__  // nvcc brings its own
#include <math.h>
#endif

#include "core/anywhere.h"
#include "nn/exec.h"

typedef enum nn_schedule { NN_CONSTANT, NN_COSINE } nn_schedule;

typedef struct nn_adamw_options {
    float rate, beta1, beta2, eps, decay;  // decay only on tensors of rank >= 2,
    int decay_all;                         // unless on all of them
    float clip;                            // global norm, 0: none
    nn_schedule schedule;
    int warmup, updates;  // linear warm-up, then the schedule over `updates`
    float floor;          // cosine ends at floor * rate
} nn_adamw_options;

typedef struct nn_adamw nn_adamw;

nn_adamw_options nn_adamw_default(void);
// Learning rate of update `step`, 0-based.
ANYWHERE float nn_schedule_rate(const nn_adamw_options* o, int64_t step) {
    double rate = o->rate;
    if (o->schedule == NN_COSINE && step >= o->warmup && o->updates > o->warmup) {
        double x = (double)(step - o->warmup) / (double)(o->updates - o->warmup);
        if (x > 1) x = 1;
        rate *= o->floor + (1.0 - o->floor) * 0.5 * (1.0 + cos(3.14159265358979323846 * x));
    }
    if (step < o->warmup) rate *= (double)(step + 1) / (double)o->warmup;
    return (float)rate;
}

// A gradient block and the parameters it belongs to; borrowed while an optimiser uses them.
typedef struct nn_gradient {
    const nn_trained* trained;
    int entries;
    size_t count;
    float* value;  // (count)
} nn_gradient;

// Moments for the gradient's parameters, zeroed. scale (nullable): per-trained-entry rate factors,
// copied.
firm_status nn_adamw_create(const nn_gradient* g, const nn_adamw_options* opt, const float* scale,
                            nn_adamw** out, firm_error* err);
void nn_adamw_free(nn_adamw* a);
float nn_adamw_rate(const nn_adamw* a, int64_t step);
// One update of the store from the gradient; returns the gradient norm before clipping.
double nn_adamw_step(nn_adamw* a, nn_store* store, pool* p);
// For checkpoints: (2, grad_count) first and second moments, and the step count.
float* nn_adamw_moments(nn_adamw* a, size_t* count);
int64_t* nn_adamw_steps(nn_adamw* a);

#endif
