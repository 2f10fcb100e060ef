// arm_trial.h - the parts of a trial, for the loop over one (arms.c) and over many (together.c).
#ifndef EVAL_ARM_TRIAL_H
#define EVAL_ARM_TRIAL_H

#include "eval/arms.h"
#include "eval/oracle.h"
#include "plan/cem.h"
#include "plan/controller.h"

// What a trial starts from, all of it recorded.
typedef struct arm_start {
    const uint8_t* frame[FIRM_HISTORY];     // oldest first
    const float* action[FIRM_HISTORY - 1];  // between them
    const uint8_t* goal_frame;
    uint64_t seed;
    int trial;
} arm_start;

// The model that an arm needs.
typedef enum arm_model { ARM_NONE, ARM_FIRM, ARM_LEWM } arm_model;

typedef struct arm_ops {
    const char* name;
    arm_model needs;
    int sees;  // wants the frames
    firm_status (*open)(eval_arm* arm, firm_error* err);
    firm_status (*begin)(eval_arm* arm, const arm_start* start);
    firm_status (*act)(eval_arm* arm, int64_t deadline_ns, firm_step* step);
    firm_status (*look)(eval_arm* arm, const uint8_t* rgb, const float* action);  // after a control
    firm_status (*pose)(eval_arm* arm, plan_problem* problem);  // NULL: decides alone
} arm_ops;

struct eval_arm {
    const arm_ops* ops;
    eval_setup setup;
    env* world;
    // (FIRM_HISTORY + 1, image, image, 3): history or, in [0], the latest; then the goal
    uint8_t* picture;
    double state[FIRM_HISTORY][ENV_MAX_STATE];  // the last three, latest last
    double goal[ENV_MAX_STATE];
    float goal_config[FIRM_MAX_CONFIG];

    // what a deadline counts from: when the latest frame came; 0: the arm decides without frames
    int64_t seen_ns;
    eval_times late;  // ms past the deadline of each decision that planned, where there is one

    firm_controller* controller;  // firm, oracle-config

    pool* threads;  // oracle-dynamics
    eval_oracle* oracle;
    plan_solver* solver;
    plan_result plan;
    float* raw;     // (longest horizon * controls, action_dim) the plan in hand
    int at, until;  // next control of it, and where the next solve is due

    rng noise;  // random
};

// One trial under way.
typedef struct arm_trial {
    eval_arm* arm;
    const eval_trials* trials;
    int number;  // of the trial
    arm_start start;
    eval_outcome* out;
    eval_trace* trace;  // NULL: none
    uint8_t* rgb;       // the latest picture
    firm_step step;     // the latest decision
} arm_trial;

// The searches of many such arms at once; its context is NULL where there are none.
plan_device arm_batch(const arm_ops* ops, const eval_setup* setup);
// Reads start and goal and sets the world; pictures are used by this call alone.
firm_status arm_trial_open(arm_trial* t, eval_arm* arm, const eval_trials* trials, frames* pictures,
                           int number, eval_outcome* out, eval_trace* trace, firm_error* err);
firm_status arm_trial_begin(arm_trial* t, firm_error* err);  // shows the start to the arm
// Why a call of the arm failed, as a sentence or a phrase.
const char* arm_trial_why(const arm_trial* t, firm_status status);
int arm_trial_goes_on(const arm_trial* t);
firm_status arm_trial_decide(arm_trial* t, eval_times* times, firm_error* err);
firm_status arm_trial_step(arm_trial* t, firm_error* err);  // one control and a look
firm_status arm_trial_close(arm_trial* t, firm_error* err);

#endif
