// strange.h - how unlike the training data a frame is, in one number: above 1 is outside.
//
// The largest of three: the frame's tokens, averaged per channel, against those of training frames;
// the grounded configuration's distance from the support, in its radius; and where the model is an
// ensemble, how far a member's configuration is from the mean, in tolerances. Each is left out
// where the model file has no such data. Tokens tell blank, foreign and broken pictures. None tells
// a scene that looks as in training and behaves differently.
#ifndef PLAN_STRANGE_H
#define PLAN_STRANGE_H

#include "model/model.h"
#include "plan/support.h"

// tokens (count, width) as the first model sees the frame; each (members, config_dim) and their
// mean. support may be NULL.
float plan_strange(const firm_model* m, const plan_support* support, const float* tokens,
                   const float* each, const float* mean);

#endif
