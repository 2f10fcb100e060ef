// support.h - how far a predicted path strays from the configurations the model was trained on.
// Distances are Euclidean in c; the nearest-point search is vectorised (support_simd.c).
#ifndef PLAN_SUPPORT_H
#define PLAN_SUPPORT_H

#include "core/status.h"

typedef struct plan_support plan_support;

// Copies points (count, dim). pairs: leading sine-cosine pairs of c.
firm_status plan_support_create(const float* points, int count, int dim, int pairs, float radius,
                                plan_support** out, firm_error* err);
void plan_support_free(plan_support* s);
// Distance of c (dim) from the nearest point, in radii.
float plan_support_radii(const plan_support* s, const float* c);
// Sum over the macro steps 1 .. steps of how far outside the support a step or its way lies, in
// multiples of the radius (0 inside, at most 4 for a step). path (steps, dim) after c0.
float plan_support_stray(const plan_support* s, const float* c0, const float* path, int steps);

#endif
