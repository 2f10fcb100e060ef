// perceive.h - from pixels to the planner's start (c, m) and goal: E, G, B and R as a controller
// runs them. Every pushed frame is grounded at once. Its change since the frame before is encoded
// beside that when a plan will soon need it, else when a plan is made; so is the belief.
#ifndef PLAN_PERCEIVE_H
#define PLAN_PERCEIVE_H

#include "core/blob.h"
#include "core/pool.h"
#include "model/model.h"

typedef struct perception perception;

// first: that of the ensemble's first model, which must outlive it and be called first. A member
// that shares the first's tokenizer and grounder looks at its frames; others, and NULL, have their
// own.
firm_status perception_create(const firm_model* m, perception* first, pool* p, perception** out,
                              firm_error* err);
void perception_free(perception* p);
size_t perception_bytes(const perception* p);
void perception_reset(perception* p);
// Grounds a picture without touching the history.
firm_status perception_ground(perception* p, const uint8_t* rgb, float* c);
// action: raw control between the previous frame and this one, NULL with the first. soon: a plan
// will start from this frame or the next one. It changes when work is done, not what comes out.
firm_status perception_push(perception* p, const uint8_t* rgb, const float* action, int soon);
int perception_frames(const perception* p);           // frames seen, at most 3
const float* perception_config(const perception* p);  // (config_dim) of the latest frame
const float* perception_tokens(const perception* p);  // (tokens, width) of the latest frame
void perception_walk(perception* p, blob* b);         // the history: counted, saved or restored
// truth: (3, config_dim) to use instead of the grounded configurations, or NULL. Fills c0 and the
// fiber.
firm_status perception_state(perception* p, const float* truth, float* c0, float* fiber);
// (chi_dim) read from the last state; its mean where the model has no reading.
void perception_chi(const perception* p, float* chi);

#endif
