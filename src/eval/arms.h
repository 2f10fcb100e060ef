// arms.h - the arms of an evaluation: who decides, on the same trials.
//
//   firm             pixels through the public controller API, learned transition
//   lewm             the same with a model of LeWM
//   oracle-config    the same, but true configurations instead of grounded ones: what grounding
//   costs oracle-dynamics  the same search through the true simulator: what search alone can reach
//   random           uniform actions
//
// Trials run one after the other, the planner on all threads, or, with the contract planner on a
// GPU, many in step with their searches as one batch (together.c). Each trial restarts the random
// streams from hash(seed, trial), so outcomes depend neither on the order, nor on the thread count,
// nor on how many run together.
#ifndef EVAL_ARMS_H
#define EVAL_ARMS_H

#include "data/frames.h"
#include "eval/timing.h"
#include "eval/trace.h"
#include "eval/trials.h"
#include "plan/dynamics.h"
#include "plan/options.h"
#include "plan/world.h"

typedef struct eval_setup {
    const env_spec* spec;
    const firm_model* model;  // NULL if no arm needs it
    const firm_model* lewm;   // of the arm lewm; NULL if it does not run
    plan_options options;
    plan_actions actions;  // standardisation for the oracle: the model's or the data's
    int threads;           // 0: all cores
    uint64_t seed;
    double deadline_ms;  // per decision, from the moment its frame is there; 0: none
    int fan;             // candidates recorded in traces
    firm_device device;  // where the learned arms plan
    firm_precision precision;
    // contract searches of many trials at once, of `model` (none for an ensemble) and of `lewm`
    plan_device batch, lewm_batch;
} eval_setup;

typedef struct eval_outcome {
    uint64_t hash;  // of the trial's start and goal as this arm met them
    int success;    // the task's success test held after some control
    int solved_at_start;
    int steps;  // controls executed
    int solves, iterations;
    int late, nonfinite;  // solves cut short by the deadline; candidates dropped
    double seconds;       // inside perception and planning
    float closest;        // smallest distance to the goal after any control, in tolerance units
} eval_outcome;

typedef struct eval_arm eval_arm;

extern const char eval_arm_names[];  // "firm, oracle-config, ..." for messages
// Unknown name, or an arm that needs a model where there is none: FIRM_E_USAGE. The setup is
// copied; what it points to must outlive the arm.
firm_status eval_arm_create(const char* name, const eval_setup* setup, eval_arm** out,
                            firm_error* err);
void eval_arm_free(eval_arm* arm);
void eval_arm_deadline(eval_arm* arm, double ms);  // per decision, from now on; 0: none

// Milliseconds past the deadline of every decision that planned so far; the caller frees the list.
eval_times eval_arm_take_late(eval_arm* arm);

// Runs one trial with a budget of 2 x offset controls. times and trace are nullable; a trace given
// is begun here and freed by the caller.
firm_status eval_arm_run(eval_arm* arm, const eval_trials* trials, frames* pictures, int trial,
                         eval_outcome* out, eval_times* times, eval_trace* trace, firm_error* err);

// Whether trials of such an arm can run together: it plans on setup->batch, contract mode, one
// model.
int eval_arms_together(const char* name, const eval_setup* setup);
// Runs trials first .. first + count - 1 together, arm[i] for the i-th; the arms are alike.
// pictures are read by the caller's thread, the rest is shared among the pool's. out (count).
firm_status eval_arms_run(eval_arm** arm, pool* threads, const eval_trials* trials,
                          frames* pictures, int first, int count, eval_outcome* out,
                          eval_times* times, firm_error* err);

#endif
