// oracle.h - the true simulator as a world (plan/world.h), one environment per worker. So the arms
// of an evaluation differ in what predicts and in nothing else.
#ifndef EVAL_ORACLE_H
#define EVAL_ORACLE_H

#include "env/env.h"
#include "plan/dynamics.h"

typedef struct eval_oracle eval_oracle;
firm_status eval_oracle_create(const env_spec* spec, const plan_actions* actions, int workers,
                               eval_oracle** out, firm_error* err);
void eval_oracle_free(eval_oracle* o);
void eval_oracle_start(eval_oracle* o, const double* state);  // copies
plan_world eval_oracle_world(eval_oracle* o);

#endif
