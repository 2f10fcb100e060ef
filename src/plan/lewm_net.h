// lewm_net.h - the planner's copy of LeWM's predictor, laid out for speed, and its rollouts.
//
// From one latent z_0 and P macro actions per candidate, step t = 0 .. P - 1 predicts z_{t+1} from
// the last min(t + 1, context) latents and actions (model/lewm/predictor.c says how). Savings that
// change nothing but the order of roundings:
//   - what an action contributes (embedding, modulation of every block) is computed once
//   - while the window grows, what attention reads of earlier tokens is kept: one new token a step.
//     Once it slides, every position moves, and the window is computed anew
//   - attention computes neither keys nor values: a score q . (K u) is (K' q) . u, and mixed values
//     V u are V of the mixed u. That takes a product for each token that asks instead of one for
//     each that is asked
//   - the window's first token sees itself alone: V and the output layer are one layer for it, and
//     it has no query
//   - the last block and the head run for the last token alone
//   - the second norm's gamma and beta, the batch norm and the final norm are folded into weights
// Candidates are rows and do not depend on each other: any split gives the same bits.
#ifndef PLAN_LEWM_NET_H
#define PLAN_LEWM_NET_H

#include "model/lewm/lewm.h"
#include "plan/lewm_bf16.h"

typedef struct lewm_net lewm_net;

enum { LEWM_MOST = 160 };  // candidates that a rollout takes through all steps at a time

// Packs a copy of the weights. Read-only afterwards; threads may share it.
firm_status lewm_net_create(const lewm_model* m, lewm_net** out, firm_error* err);
// The same with products on bfloat16 operands (lewm_bf16.h).
firm_status lewm_net_create_bf16(const lewm_model* m, const lewm_products* with, lewm_net** out,
                                 firm_error* err);
void lewm_net_free(lewm_net* net);
size_t lewm_net_bytes(const lewm_net* net);
// "plain", "neon", "avx2", "avx512"; of bfloat16 "avx512bf16", "amx"
const char* lewm_net_simd(const lewm_net* net);
int lewm_net_width(const lewm_net* net);   // numbers of a latent
int lewm_net_action(const lewm_net* net);  // numbers of a macro action

// Working memory of one thread, 64-byte aligned.
size_t lewm_net_scratch_bytes(const lewm_net* net);
// u (n, horizon, action) standardised -> path (n, horizon, width), from the latent z0 (width).
// Returns the candidates whose prediction is not finite.
int lewm_net_rollout(const lewm_net* net, void* scratch, int n, int horizon, const float* z0,
                     const float* u, float* path);
// Multiply-adds of one rollout with a model.
int64_t lewm_net_macs(const lewm_model* m, int horizon);

#endif
