// oracle.c - rollouts of candidates in the true simulator.
#include "eval/oracle.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "plan/typed.h"

struct eval_oracle {
    const env_spec* spec;
    plan_actions actions;
    int workers;
    env** world;  // (workers)
    double start[ENV_MAX_STATE];
    plan_typed typed;
};

firm_status eval_oracle_create(const env_spec* spec, const plan_actions* actions, int workers,
                               eval_oracle** out, firm_error* err) {
    *out = NULL;
    eval_oracle* o = mem_calloc(1, sizeof *o);
    if (!o) return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's simulators");
    o->spec = spec;
    o->actions = *actions;
    o->typed.task = &spec->task;
    o->world = mem_calloc((size_t)workers, sizeof *o->world);
    if (!o->world) {
        eval_oracle_free(o);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d planner threads", workers);
    }
    for (; o->workers < workers; o->workers++) {
        firm_status s = env_create(spec, &o->world[o->workers], err);
        if (s != FIRM_OK) {
            eval_oracle_free(o);
            return s;
        }
    }
    *out = o;
    return FIRM_OK;
}

void eval_oracle_free(eval_oracle* o) {
    if (!o) return;
    for (int i = 0; i < o->workers; i++) env_free(o->world[i]);
    mem_free(o->world);
    mem_free(o);
}

void eval_oracle_start(eval_oracle* o, const double* state) {
    memcpy(o->start, state, (size_t)o->spec->state->dim * sizeof(double));
}

static int oracle_rollout(void* context, int worker, int n, int horizon, const float* u,
                          float* c_out) {
    eval_oracle* o = context;
    const env_spec* spec = o->spec;
    env* world = o->world[worker];
    int nonfinite = 0;
    for (int i = 0; i < n; i++) {
        env_recall(world, o->start);
        for (int t = 0; t < horizon; t++) {
            for (int k = 0; k < o->actions.controls; k++, u += o->actions.dim) {
                float raw[FIRM_MAX_ACTION];
                plan_actions_raw(&o->actions, u, 1, raw);
                spec->sim->step(world, raw);
            }
            double state[ENV_MAX_STATE];
            spec->sim->state_get(world, state);
            env_config(spec, state, c_out);
            // a simulator that broke down predicts nothing
            if (world->fault != FIRM_OK)
                for (int j = 0; j < spec->task.config_dim; j++) c_out[j] = NAN;
            c_out += spec->task.config_dim;
        }
        nonfinite += world->fault != FIRM_OK;
    }
    return nonfinite;
}

plan_world eval_oracle_world(eval_oracle* o) {
    return (plan_world){.model = {.context = o,
                                  .state = o->spec->task.config_dim,
                                  .action = o->actions.dim * o->actions.controls,
                                  .lanes = 1,
                                  .workers = o->workers,
                                  .rollout = oracle_rollout},
                        .price = plan_typed_price(&o->typed)};
}
