// members.h - small ensembles and controllers of them, for the tests on either device.
#ifndef TESTS_PLAN_MEMBERS_H
#define TESTS_PLAN_MEMBERS_H

#include "env/env.h"
#include "plan/controller.h"

enum { MEMBER_PICTURE = ENV_FRAME_BYTES, MEMBER_ACTS = 7 };

// A small model of a task with weights away from their tidy start; the same seed, the same model.
firm_model* member_lively(const char* task, uint64_t seed);
firm_model* member_pair(const char* task, uint64_t first, uint64_t second);  // an ensemble of two
// A short search, float32; NULL after a failure, which is reported.
firm_controller* member_controller(const firm_model* m, firm_mode mode, int threads,
                                   firm_device device);
// Shows it a goal and three frames of noise; rgb is scratch of MEMBER_PICTURE bytes.
void member_show(firm_controller* ctl, uint8_t* rgb);

// What a controller did in MEMBER_ACTS controls, and what it thought in the end.
typedef struct member_deeds {
    float action[MEMBER_ACTS][FIRM_MAX_ACTION], config[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG];
    float path[(1 + ENV_HORIZON) * FIRM_MAX_CONFIG], cost;
    int solves;
} member_deeds;

// All zero bytes where there is no controller.
member_deeds member_run(const firm_model* m, firm_mode mode, int threads, firm_device device);

// Two copies of one model act as the one, to the bit; two different ones do not.
void member_copies(firm_mode mode, int threads, int solves, firm_device device);
// A pair's controller against each member alone, which perceives for itself, starts from its own
// (c, m) and predicts the plan on the CPU: goal and path are the mean.
void member_compare(const char* task, int with_truth, firm_device device, double tolerance);

#endif
