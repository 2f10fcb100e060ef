// world.h - the seam between a world model and all that plans with it.
//
// A world is one table in four parts. The search (cem.h), the controller, the arms of an evaluation
// and batches on a GPU know this table alone; nothing else may ask which model is behind it.
//
//   sight    encodes frames and goals, and starts a search from the latest frames
//   model    rolls candidates out from the start
//   price    says how far a state is from the goal
//   device   runs whole contract searches elsewhere, where it can
//
//   behind it                  state                      price
//   FIRM (firm_world.c)        c, named coordinates       typed distances of the task (typed.h)
//   the true simulator         c                          the same (eval/oracle.h)
//   LeWM (lewm_world.c)        z, a latent                squared distance of latents
//
// A state is `state` numbers, and a goal is a state. What a world remembers beyond the state
// (FIRM's fiber) stays inside it. Nothing called through the table allocates.
#ifndef PLAN_WORLD_H
#define PLAN_WORLD_H

#include "core/blob.h"
#include "core/status.h"

// ---- roll out -----------------------------------------------------------------------------------

typedef struct plan_model {
    void* context;
    int state, action;  // numbers in a state and in a macro action
    int lanes;          // candidates come cheapest in multiples of this
    int piece;          // candidates of one call at most; 0: the search's own choice
    int workers;        // threads that may call rollout at the same time
    int whole;          // 1: all candidates of an iteration in one call, which shares them out
    // Predicts n candidates from the start set before: u (n, horizon, action), path (n, horizon,
    // state). Called from several threads at once, each with its own worker number. Returns the
    // number of candidates that are not finite.
    int (*rollout)(void* context, int worker, int n, int horizon, const float* u, float* path);
    // Of an ensemble: likewise, and what each member predicts, (n, members, horizon, state).
    int members;  // 0 and NULL: a single model
    int (*rollout_each)(void* context, int worker, int n, int horizon, const float* u, float* path,
                        float* each);
} plan_model;

// ---- recordings ---------------------------------------------------------------------------------

// The recording that a candidate follows.
typedef struct plan_trail {
    int first;  // its moment when the candidate begins; -1: the candidate follows none
} plan_trail;

// Recorded action sequences, best first.
typedef struct plan_recalled {
    int count, length;
    const float* plan;        // (count, length) standardised numbers
    const plan_trail* trail;  // (count)
} plan_recalled;

// ---- price --------------------------------------------------------------------------------------

// Every function is called from several threads at once.
typedef struct plan_price {
    void* context;
    int state;      // numbers in a state
    int named;      // how many of them are the task's coordinates: all or none
    int distances;  // named distances that measure() writes
    // What the contract search minimises, at its last state.
    float (*cost)(const void* context, const float* state, const float* goal);
    // How far a state is from the goal; below 1 it is there.
    float (*units)(const void* context, const float* state, const float* goal);
    // The named distances: (distances).
    void (*measure)(const void* context, const float* state, const float* goal, float* distance);
    // How far a path leaves what the model knows, summed over its steps. NULL: it never does.
    float (*stray)(const void* context, const float* now, const float* path, int steps);
    // Where a path that follows a recording leads: with the moment `first` at its start and `end`
    // (state) after `steps` macro actions, the state after `later` of them if what happens between
    // is what was recorded. Returns 0 if the recording ends before. NULL: there are none.
    int (*beyond)(const void* context, int first, int steps, const float* end, int later,
                  float* state);
    // From now on goals name only the coordinates that are not 0 in given (state), which must
    // stay; NULL: all. NULL: the world knows whole goals only.
    void (*given)(void* context, const uint8_t* given);
} plan_price;

// ---- encode and start ---------------------------------------------------------------------------

// What a frame tells at once.
typedef struct plan_seen {
    float* state;   // (state) of the frame, if the world encodes every frame
    float strange;  // how unlike the training data it is; above 1: outside. 0: unknown
} plan_seen;

// NULL functions: the world has no pictures, and its owner starts it (the simulator).
typedef struct plan_sight {
    void* context;
    // Encodes a goal's picture: state (state).
    firm_status (*goal)(void* context, const uint8_t* rgb, float* state);
    // Appends a frame and the raw control before it (NULL: the first frame). soon: a search will
    // start from this frame or the next; it changes when work is done, not what comes out.
    firm_status (*push)(void* context, const uint8_t* rgb, const float* action, int soon,
                        plan_seen* seen);
    // The next rollouts start from the latest frames, whose state is written.
    firm_status (*start)(void* context, float* state);
    // Why rollouts since the start failed, if they did.
    firm_status (*status)(const void* context);
    // Recorded action sequences worth trying between now and goal, valid until the next call.
    // NULL: the world has none.
    void (*recall)(void* context, const float* now, const float* goal, plan_recalled* out);
    // The macro action (standardised) that was recorded `later` ones after the moment `first`.
    // Returns 0 if the recording ends before. NULL where recall is.
    int (*follow)(const void* context, int first, int later, float* u);
    // Uses these true states (3, state) instead of its own until the next push. NULL: it cannot.
    void (*tell)(void* context, const float* history);
    int (*frames)(const void* context);          // seen since the reset, as far as it counts
    void (*reset)(void* context);                // forgets them
    void (*walk)(void* context, blob* b);        // the frames: counted, saved or restored
    size_t (*bytes)(const void* context);        // memory of the whole world
    const char* (*device)(const void* context);  // that predicts: "cpu" or a GPU's name
    const char* (*way)(const void* context);     // instruction set, or the GPU's way
    void (*close)(void* context);                // frees the whole world
} plan_sight;

// ---- whole searches elsewhere -------------------------------------------------------------------

typedef struct plan_problem {
    const float* now;      // (state)
    const float* memory;   // what the world remembers beyond it, in its own layout
    const float* goal;     // (state)
    uint64_t seed, solve;  // key of the noise, as in plan_proposal
} plan_problem;

// Pointers stay valid until the next call on the same device.
typedef struct plan_answer {
    int nonfinite;       // candidates whose prediction was not finite, over all iterations
    int elites;          // finite ones among the last best; 0: the fit never moved
    float elite_cost;    // their mean cost; +inf without any
    const float* plan;   // (horizon, action) the final mean
    const float* path;   // (horizon, state) its prediction
    const float* value;  // (candidates) costs of the last iteration, +inf where not finite
    const float* paths;  // (candidates, horizon, state) of the last iteration
} plan_answer;

typedef struct plan_device {
    void* context;  // NULL: there is none
    // Contract searches of `iterations` iterations, `count` of them. value and paths come back
    // only with `all`.
    firm_status (*solve)(void* context, int count, const plan_problem* problem, int iterations,
                         int all, plan_answer* answer, firm_error* err);
} plan_device;

typedef struct plan_world {
    plan_sight sight;
    plan_model model;
    plan_price price;
    plan_device device;
    const float* memory;  // of the start, for problems; NULL: it cannot pose any
} plan_world;

#endif
