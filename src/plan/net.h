// net.h - the planner's copy of the recurrent transition T, laid out for speed.
//
// One macro step of a row (c, m, u), with x = [c, m, u]:
//     h  = x W_in + b_in
//     h += GELU(LN(h) W1 + s W_s + b1) W2 + b2    the spatial residual, s = s(c, v, u), v = m W_v +
//                                                 b_v (nn/spatial.h)
//     h += GELU(LN(h) W1 + b1) W2 + b2            for each residual block
//     y  = LN(h);   c' = c + y W_c + b_c;   m' = m + y W_m + b_m
// then every leading (sin, cos) pair of c' is brought back to unit length. Weights are (in, out),
// row-major; LN has eps 1e-5; GELU is the tanh form.
//
// Candidates lie along the vector lanes and features along memory, so a product's output is already
// the next product's input, LayerNorm needs no sum across lanes, and every candidate's arithmetic
// is the same wherever it stands: any split over threads, of candidates or of features, gives the
// same bits. The kernels are behind net_kernels.h; core/simd.h chooses among them when a net is
// created. In PLAN_BF16 the products' operands are rounded to bfloat16, everything else is float32.
#ifndef PLAN_NET_H
#define PLAN_NET_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "nn/push.h"
#include "plan/precision.h"

struct meet;             // core/meet.h
struct plan_net_claims;  // net_claims.h

enum { PLAN_MAX_BLOCKS = 8 };

typedef struct plan_net_shape {
    int config;  // c, 1 .. FIRM_MAX_CONFIG
    int pairs;   // leading (sin, cos) pairs of c
    int fiber;   // m, may be 0
    int action;  // u: raw controls of a macro action, flattened
    int hidden, inner;
    int blocks;   // residual blocks, 0 .. PLAN_MAX_BLOCKS
    int spatial;  // hidden units of the spatial residual; 0: none
} plan_net_shape;

typedef struct plan_net_block {
    const float *ln_scale, *ln_shift;  // (hidden); NULL: 1 and 0
    const float *w1, *b1;              // (hidden, inner), (inner)
    const float *w2, *b2;              // (inner, hidden), (hidden)
} plan_net_block;

typedef struct plan_net_spatial {
    plan_net_block block;    // (hidden, spatial), (spatial, hidden)
    nn_push push;            // what s is computed of; boxes 0: no residual
    const float* w_s;        // (nn_push_features, spatial)
    const float *w_v, *b_v;  // (fiber, 2), (2)
    float mean[2], std[2];   // raw action = u * std + mean, of the two numbers that move the agent
} plan_net_spatial;

typedef struct plan_net_weights {
    const float *w_in, *b_in;  // (config + fiber + action, hidden), (hidden)
    plan_net_spatial spatial;
    plan_net_block block[PLAN_MAX_BLOCKS];
    const float *ln_scale, *ln_shift;  // (hidden); NULL: 1 and 0
    const float *w_c, *b_c;            // (hidden, config), (config)
    const float *w_m, *b_m;            // (hidden, fiber), (fiber)
    // (action) bounds the environment itself applies to actions; both NULL: none. The search may
    // leave them, the prediction sees what will really be executed.
    const float *u_low, *u_high;
} plan_net_weights;

typedef struct plan_net plan_net;

// A spatial residual as planners can use it: the push fits the shape.
int plan_net_spatial_fits(const plan_net_shape* shape, const plan_net_weights* weights);

// Packs a copy of the weights; the originals may go. The net is read-only afterwards and may be
// shared by threads. FIRM_E_UNAVAILABLE where the processor lacks the precision.
firm_status plan_net_create(const plan_net_shape* shape, const plan_net_weights* weights,
                            plan_precision precision, plan_net** out, firm_error* err);
void plan_net_free(plan_net* net);
void plan_net_shape_get(const plan_net* net, plan_net_shape* shape);
const char* plan_net_simd(const plan_net* net);  // "plain", "neon", "avx2", "avx512", ...
int plan_net_lanes(const plan_net* net);         // candidates come cheapest in multiples of this
int plan_net_block_lanes(const plan_net* net);   // candidates that one thread takes at a time
size_t plan_net_bytes(const plan_net* net);      // packed weights
// Multiply-adds of one row and macro step; push NULL: without a spatial residual.
int64_t plan_net_macs(const plan_net_shape* shape, const nn_push* push);

// ---- rollouts -----------------------------------------------------------------------------------

// Working memory for one thread, 64-byte aligned; its size does not depend on the number of
// candidates.
size_t plan_net_scratch_bytes(const plan_net* net);

// Rolls n candidates out from the shared start (c0, m0):
//     u      (n, horizon, action)   standardised macro actions
//     c_out  (n, horizon, config)   configurations after each macro action
// Returns the number of candidates whose prediction is not finite somewhere; these keep their
// non-finite values in c_out.
int plan_net_rollout(const plan_net* net, void* scratch, int n, int horizon, const float* c0,
                     const float* m0, const float* u, float* c_out);

// ---- teams: several threads share candidates and split each product's output features -----------

enum { PLAN_TEAM_MOST = 16 };

typedef struct plan_net_job {
    int n, horizon;
    const float *c0, *m0, *u;
    float* c_out;
} plan_net_job;

// Where a member's time goes, in nanoseconds; for measurements.
typedef struct plan_net_spent {
    int64_t product, normalise, edges;  // edges: inputs and outputs of the macro steps
    int64_t wait;                       // for the other members
    int64_t since;                      // when the part at work began
} plan_net_spent;

typedef struct plan_net_team {
    int members;                     // 1 .. PLAN_TEAM_MOST, threads that run at the same time
    void* scratch;                   // plan_net_scratch_bytes() for every member, in one piece
    struct meet* at;                 // expects the members; NULL: one member
    struct plan_net_claims* claims;  // (members); NULL: one member
    plan_net_spent* spent;           // (members), added to; NULL: not measured
} plan_net_team;

// A member's part of the job; every member must call it. Returns those not finite among the
// candidates that it looked after, so the members' sum is the job's number.
int plan_net_rollout_share(const plan_net* net, const plan_net_job* job, const plan_net_team* team,
                           int member);

// ---- threads with candidates of their own -------------------------------------------------------

// How threads that take candidates of their own share n of them: `count` pieces, to be claimed in
// order, and behind them a rest that all share by features. In units (plan_net_lanes()).
typedef struct plan_net_pieces {
    int n, units;  // candidates, units
    int count;     // pieces
    int wide;      // units of a piece; 0: as even as whole units allow, and no rest
    int rest;
} plan_net_pieces;
plan_net_pieces plan_net_cut(const plan_net* net, int threads, int n);
void plan_net_piece(const plan_net* net, const plan_net_pieces* p, int item, int* from, int* to);

// The rest, and the memory for it.
typedef struct plan_net_rest plan_net_rest;
firm_status plan_net_rest_create(const plan_net* net, plan_net_rest** out, firm_error* err);
void plan_net_rest_free(plan_net_rest* rest);
size_t plan_net_rest_bytes(const plan_net* net);
int plan_net_rest_lanes(const plan_net* net);  // candidates that it can hold
// Before the threads begin; the pieces and their rest are the whole job.
void plan_net_rest_begin(plan_net_rest* rest, const plan_net_job* job,
                         const plan_net_pieces* pieces);
// A thread's part: pieces as long as there are any, and shares of the rest in between. Returns when
// the rest is done, with those not finite among its own pieces' candidates. Any number of threads
// may call it. spent: NULL or added to.
int plan_net_rest_share(plan_net_rest* rest, void* scratch, plan_net_spent* spent);
int plan_net_rest_nonfinite(const plan_net_rest* rest);  // of the rest, once all have returned

// What splits take on this machine, learned as rollouts run, in classes by the number of
// candidates. Every split gives the same bits, so the clock may choose among them. Zeroed at first.
enum { PLAN_SPLIT_SIZES = 13 };
typedef struct plan_net_paces {
    struct {
        double factor;  // time beside the guess; only when tried
        int tried;
    } split[PLAN_SPLIT_SIZES][PLAN_TEAM_MOST + 1];  // by members
    int rollouts[PLAN_SPLIT_SIZES];
} plan_net_paces;

// Members per team that should take least time for n candidates on so many threads; the threads
// form threads / members teams, which share the candidates. 1: each thread by itself. paces NULL:
// by guess alone. A split that may be better is tried now and then.
int plan_net_members(const plan_net* net, const plan_net_paces* paces, int threads, int n);
// A rollout of n candidates took ns.
void plan_net_paced(plan_net_paces* paces, const plan_net* net, int threads, int members,
                    const plan_net_job* job, int64_t ns);

#endif
