// arms.c - the arms and the loop that runs a trial with one of them: act, step, look, until the
// task's success test holds or the budget is spent.
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "eval/arm_trial.h"
#include "model/model.h"

const char eval_arm_names[] = "firm, lewm, oracle-config, oracle-dynamics, random";

static const double* state_now(const eval_arm* arm) {
    return arm->state[FIRM_HISTORY - 1];
}

// ---- firm, lewm, oracle-config ------------------------------------------------------------------

static const firm_model* model_of(const arm_ops* ops, const eval_setup* setup) {
    return ops->needs == ARM_LEWM ? setup->lewm : setup->model;
}

static firm_status firm_open(eval_arm* arm, firm_error* err) {
    firm_controller_params p = firm_controller_params_default();
    p.mode = arm->setup.options.mode;
    p.seed = arm->setup.seed;
    p.threads = arm->setup.threads;
    p.fan = arm->setup.fan;
    p.device = arm->setup.device;
    p.precision = arm->setup.precision;
    return controller_create_with(model_of(arm->ops, &arm->setup), &p, &arm->setup.options, NULL,
                                  &arm->controller, err);
}

static firm_status firm_begin(eval_arm* arm, const arm_start* start) {
    firm_controller_reset(arm->controller, start->seed);
    for (int i = 0; i < FIRM_HISTORY; i++) {
        // earlier frames came in earlier control periods
        arm->seen_ns = clock_ns();
        TRY(firm_controller_push(arm->controller, start->frame[i],
                                 i ? start->action[i - 1] : NULL));
    }
    return firm_controller_goal(arm->controller, start->goal_frame);
}

static firm_status firm_act(eval_arm* arm, int64_t deadline_ns, firm_step* step) {
    return firm_controller_act(arm->controller, deadline_ns, step);
}

static firm_status firm_look(eval_arm* arm, const uint8_t* rgb, const float* action) {
    arm->seen_ns = clock_ns();
    return firm_controller_push(arm->controller, rgb, action);
}

static firm_status firm_pose(eval_arm* arm, plan_problem* problem) {
    return controller_pose(arm->controller, problem);
}

static void tell_truth(eval_arm* arm) {
    const env_spec* spec = arm->setup.spec;
    float history[FIRM_HISTORY * FIRM_MAX_CONFIG];
    for (int i = 0; i < FIRM_HISTORY; i++)
        env_config(spec, arm->state[i], history + i * spec->task.config_dim);
    controller_set_truth(arm->controller, history, arm->goal_config);
}

static firm_status truth_act(eval_arm* arm, int64_t deadline_ns, firm_step* step) {
    tell_truth(arm);
    return firm_controller_act(arm->controller, deadline_ns, step);
}

static firm_status truth_pose(eval_arm* arm, plan_problem* problem) {
    tell_truth(arm);
    return controller_pose(arm->controller, problem);
}

// ---- oracle-dynamics ----------------------------------------------------------------------------

static firm_status oracle_open(eval_arm* arm, firm_error* err) {
    const eval_setup* s = &arm->setup;
    TRY(pool_create(s->threads, &arm->threads, err));
    TRY(eval_oracle_create(s->spec, &s->actions, pool_threads(arm->threads), &arm->oracle, err));
    plan_setup setup = {.world = eval_oracle_world(arm->oracle),
                        .options = s->options,
                        .actions = s->actions,
                        .threads = arm->threads,
                        .seed = s->seed,
                        .fan = s->fan};
    TRY(plan_solver_create(&setup, &arm->solver, err));
    int longest =
        s->options.horizon_max > s->options.horizon ? s->options.horizon_max : s->options.horizon;
    arm->raw =
        mem_calloc((size_t)(longest * s->actions.controls * s->actions.dim), sizeof *arm->raw);
    return arm->raw ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for the oracle's plan");
}

static firm_status oracle_begin(eval_arm* arm, const arm_start* start) {
    plan_solver_reset(arm->solver, start->seed);
    arm->at = arm->until = 0;
    return FIRM_OK;
}

static firm_status oracle_act(eval_arm* arm, int64_t deadline_ns, firm_step* step) {
    const eval_setup* s = &arm->setup;
    const env_spec* spec = s->spec;
    plan_result* r = &arm->plan;
    float c[FIRM_MAX_CONFIG];
    *step = (firm_step){0};
    env_config(spec, state_now(arm), c);
    if (arm->at == arm->until) {
        if (arm->until) plan_solver_advance(arm->solver, arm->until / s->actions.controls);
        eval_oracle_start(arm->oracle, state_now(arm));
        plan_solver_solve(arm->solver, c, arm->goal_config, deadline_ns, r);
        plan_actions_raw(&s->actions, r->plan, r->horizon * s->actions.controls, arm->raw);
        arm->at = 0;
        arm->until =
            (s->options.replan < r->horizon ? s->options.replan : r->horizon) * s->actions.controls;
        step->solved = 1;
        step->late = r->late;
        step->nonfinite = r->nonfinite;
        step->solve_ms = r->ms;
    }
    memcpy(step->action, arm->raw + arm->at++ * s->actions.dim,
           (size_t)s->actions.dim * sizeof(float));
    step->iterations = r->iterations;
    step->cost = r->cost;
    step->arrival = r->arrival;
    step->horizon = r->horizon;
    step->fan = r->fan;
    step->plan = arm->raw;
    step->path = r->path;
    step->fan_path = r->fan_path;
    step->goal_config = arm->goal_config;
    task_measure(&spec->task, c, arm->goal_config, step->distance_now);
    task_measure(&spec->task, r->path + r->arrival * spec->task.config_dim, arm->goal_config,
                 step->distance_planned);
    return FIRM_OK;
}

// ---- random -------------------------------------------------------------------------------------

static firm_status random_open(eval_arm* arm, firm_error* err) {
    (void)arm, (void)err;
    return FIRM_OK;
}

static firm_status random_begin(eval_arm* arm, const arm_start* start) {
    arm->noise = rng_start(arm->setup.seed, RNG_STREAM(RNG_ARM, start->trial));
    return FIRM_OK;
}

static firm_status random_act(eval_arm* arm, int64_t deadline_ns, firm_step* step) {
    (void)deadline_ns;
    const env_spec* spec = arm->setup.spec;
    *step = (firm_step){0};
    for (int i = 0; i < spec->task.action_dim; i++)
        step->action[i] =
            (float)rng_uniform(&arm->noise, spec->task.action_low, spec->task.action_high);
    return FIRM_OK;
}

// ---- an arm's life ------------------------------------------------------------------------------

static const arm_ops arms[] = {
    {"firm", ARM_FIRM, 1, firm_open, firm_begin, firm_act, firm_look, firm_pose},
    {"lewm", ARM_LEWM, 1, firm_open, firm_begin, firm_act, firm_look, firm_pose},
    {"oracle-config", ARM_FIRM, 1, firm_open, firm_begin, truth_act, firm_look, truth_pose},
    {"oracle-dynamics", ARM_NONE, 0, oracle_open, oracle_begin, oracle_act, NULL, NULL},
    {"random", ARM_NONE, 0, random_open, random_begin, random_act, NULL, NULL},
};

static const arm_ops* find_arm(const char* name) {
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++)
        if (strcmp(arms[i].name, name) == 0) return &arms[i];
    return NULL;
}

plan_device arm_batch(const arm_ops* ops, const eval_setup* setup) {
    return ops->needs == ARM_LEWM ? setup->lewm_batch : setup->batch;
}

int eval_arms_together(const char* name, const eval_setup* setup) {
    const arm_ops* ops = find_arm(name);
    return ops && ops->pose && arm_batch(ops, setup).context &&
           setup->options.mode == FIRM_MODE_CONTRACT && setup->options.solver == PLAN_CEM &&
           !model_of(ops, setup)->members;
}

firm_status eval_arm_create(const char* name, const eval_setup* setup, eval_arm** out,
                            firm_error* err) {
    *out = NULL;
    const arm_ops* ops = find_arm(name);
    if (!ops)
        return FAIL(err, FIRM_E_USAGE, "there is no arm '%s'; the arms are %s", name,
                    eval_arm_names);
    if (ops->needs != ARM_NONE && !model_of(ops, setup))
        return FAIL(err, FIRM_E_USAGE, "the arm '%s' needs a model; give one with --%s", name,
                    ops->needs == ARM_LEWM ? "lewm" : "model");
    eval_arm* arm = mem_calloc(1, sizeof *arm);
    if (!arm) return FAIL(err, FIRM_E_MEMORY, "no memory for the arm '%s'", name);
    arm->ops = ops;
    arm->setup = *setup;
    arm->picture = mem_alloc((FIRM_HISTORY + 1) * task_frame_bytes(&setup->spec->task));
    firm_status status = arm->picture ? env_create(setup->spec, &arm->world, err)
                                      : FAIL(err, FIRM_E_MEMORY, "no memory for pictures");
    if (status == FIRM_OK) status = env_render_ready(&arm->world, 1, err);
    if (status == FIRM_OK) status = ops->open(arm, err);
    if (status != FIRM_OK) {
        eval_arm_free(arm);
        return status;
    }
    *out = arm;
    return FIRM_OK;
}

void eval_arm_free(eval_arm* arm) {
    if (!arm) return;
    eval_times_free(&arm->late);
    firm_controller_free(arm->controller);
    plan_solver_free(arm->solver);
    eval_oracle_free(arm->oracle);
    pool_free(arm->threads);
    env_free(arm->world);
    mem_free(arm->raw);
    mem_free(arm->picture);
    mem_free(arm);
}

eval_times eval_arm_take_late(eval_arm* arm) {
    eval_times late = arm->late;
    arm->late = (eval_times){0};
    return late;
}

void eval_arm_deadline(eval_arm* arm, double ms) {
    arm->setup.deadline_ms = ms;
}

// ---- a trial ------------------------------------------------------------------------------------

static uint64_t trial_seed(uint64_t seed, int trial) {
    uint32_t word[4];
    rng_block(seed, RNG_STREAM(RNG_ARM, trial), UINT64_MAX, word);
    return (uint64_t)word[0] << 32 | word[1];
}

static firm_status read_start(eval_arm* arm, const eval_trials* trials, frames* pictures,
                              int number, arm_start* start, firm_error* err) {
    const env_spec* spec = arm->setup.spec;
    const eval_trial* t = &trials->trial[number];
    *start = (arm_start){.seed = trial_seed(arm->setup.seed, number), .trial = number};
    for (int i = 0; i <= FIRM_HISTORY; i++) {
        int64_t row = i < FIRM_HISTORY ? t->start - FIRM_HISTORY + 1 + i : t->goal;
        uint8_t* rgb = arm->picture + (size_t)i * task_frame_bytes(&spec->task);
        firm_status status = frames_get(pictures, 0, row, rgb);
        if (status != FIRM_OK)
            return FAIL(err, status, "the frame of row %lld cannot be read or drawn: %s",
                        (long long)row, firm_status_str(status));
        const double* state = trials->data->state + row * spec->state->dim;
        memcpy(i < FIRM_HISTORY ? arm->state[i] : arm->goal, state,
               sizeof(double) * (size_t)spec->state->dim);
        if (i < FIRM_HISTORY)
            start->frame[i] = rgb;
        else
            start->goal_frame = rgb;
        if (i < FIRM_HISTORY - 1)
            start->action[i] = trials->data->action + row * spec->task.action_dim;
    }
    env_config(spec, arm->goal, arm->goal_config);
    spec->sim->state_set(arm->world, state_now(arm));
    if (spec->sim->goal_set) spec->sim->goal_set(arm->world, arm->goal);
    return arm->world->fault == FIRM_OK
               ? FIRM_OK
               : FAIL(err, FIRM_E_VALUE, "the recorded state of row %lld cannot be restored",
                      (long long)t->row);
}

static firm_status step_world(eval_arm* arm, const float* action, firm_error* err) {
    const env_spec* spec = arm->setup.spec;
    spec->sim->step(arm->world, action);
    if (arm->world->fault != FIRM_OK)
        return FAIL(err, arm->world->fault, "the %s simulation failed under arm '%s': %s",
                    spec->task.name, arm->ops->name, firm_status_str(arm->world->fault));
    memmove(arm->state[0], arm->state[1], sizeof arm->state[0] * (FIRM_HISTORY - 1));
    spec->sim->state_get(arm->world, arm->state[FIRM_HISTORY - 1]);
    return FIRM_OK;
}

static float units_now(const eval_arm* arm) {
    float c[FIRM_MAX_CONFIG];
    env_config(arm->setup.spec, state_now(arm), c);
    return task_tolerance_units(&arm->setup.spec->task, c, arm->goal_config);
}

const char* arm_trial_why(const arm_trial* t, firm_status status) {
    const char* why = t->arm->controller ? firm_controller_error(t->arm->controller) : "";
    return why[0] ? why : firm_status_str(status);
}

// Calls of the arm are timed; the simulator and its pictures are not the planner's.
#define TIMED(call)                                                                        \
    do {                                                                                   \
        int64_t begun_ = clock_ns();                                                       \
        firm_status timed_ = (call);                                                       \
        t->out->seconds += (double)(clock_ns() - begun_) * 1e-9;                           \
        if (timed_ != FIRM_OK)                                                             \
            return FAIL(err, timed_, "arm '%s' failed in trial %d: %s", t->arm->ops->name, \
                        t->number, arm_trial_why(t, timed_));                              \
    } while (0)

firm_status arm_trial_open(arm_trial* t, eval_arm* arm, const eval_trials* trials, frames* pictures,
                           int number, eval_outcome* out, eval_trace* trace, firm_error* err) {
    const env_spec* spec = arm->setup.spec;
    const eval_trial* trial = &trials->trial[number];
    *t = (arm_trial){.arm = arm, .trials = trials, .number = number, .out = out, .trace = trace};
    *out = (eval_outcome){0};
    TRY(read_start(arm, trials, pictures, number, &t->start, err));
    if (trace) {
        const char* mode = arm->setup.options.mode == FIRM_MODE_REACH ? "reach" : "contract";
        TRY(eval_trace_begin(trace, spec, mode, arm->ops->name, trial->row, arm->goal,
                             t->start.goal_frame, err));
    }
    *out = (eval_outcome){.hash = trial->hash,
                          .solved_at_start = env_success(spec, state_now(arm), arm->goal),
                          .closest = INFINITY};
    // holds the start frame
    t->rgb = arm->picture + (FIRM_HISTORY - 1) * task_frame_bytes(&spec->task);
    return FIRM_OK;
}

firm_status arm_trial_begin(arm_trial* t, firm_error* err) {
    TIMED(t->arm->ops->begin(t->arm, &t->start));
    return FIRM_OK;
}

int arm_trial_goes_on(const arm_trial* t) {
    return t->out->steps < 2 * t->trials->offset && !t->out->success;
}

firm_status arm_trial_decide(arm_trial* t, eval_times* times, firm_error* err) {
    eval_arm* arm = t->arm;
    double ms = arm->setup.deadline_ms;
    int64_t from = arm->seen_ns ? arm->seen_ns : clock_ns();
    int64_t deadline = ms > 0 ? from + (int64_t)(ms * 1e6) : 0;
    TIMED(arm->ops->act(arm, deadline, &t->step));
    if (deadline && t->step.solved)
        TRY(eval_times_add(&arm->late, fmax(0, (double)(clock_ns() - deadline) * 1e-6), err));
    t->out->solves += t->step.solved;
    t->out->iterations += t->step.solved ? t->step.iterations : 0;
    t->out->late += t->step.solved && t->step.late;
    t->out->nonfinite += t->step.solved ? t->step.nonfinite : 0;
    if (t->step.solved && times) TRY(eval_times_add(times, t->step.solve_ms, err));
    if (t->trace)
        TRY(eval_trace_frame(t->trace, t->out->steps, state_now(arm), t->rgb, &t->step, err));
    return FIRM_OK;
}

firm_status arm_trial_step(arm_trial* t, firm_error* err) {
    eval_arm* arm = t->arm;
    const env_spec* spec = arm->setup.spec;
    // the step's pointers end here
    TRY(step_world(arm, t->step.action, err));
    t->out->steps++;
    t->out->success = env_success(spec, state_now(arm), arm->goal);
    float units = units_now(arm);
    if (units < t->out->closest) t->out->closest = units;
    if (arm->ops->sees || t->trace) spec->sim->render(arm->world, t->rgb);
    if (arm->ops->look && !t->out->success) TIMED(arm->ops->look(arm, t->rgb, t->step.action));
    return FIRM_OK;
}

firm_status arm_trial_close(arm_trial* t, firm_error* err) {
    eval_arm* arm = t->arm;
    if (!t->trace) return FIRM_OK;
    // the last frame is looked at too, so that its distance is what the controller sees
    float seen[TASK_MAX_DISTANCE];
    const int named = arm->controller && arm->ops->needs == ARM_FIRM;
    if (named) {
        if (t->out->success) TRY(firm_controller_push(arm->controller, t->rgb, t->step.action));
        task_measure(&arm->setup.spec->task, controller_config(arm->controller),
                     controller_goal_config(arm->controller), seen);
    }
    TRY(eval_trace_last(t->trace, t->out->steps, state_now(arm), t->rgb, named ? seen : NULL, err));
    return eval_trace_end(t->trace, t->out->success, err);
}

firm_status eval_arm_run(eval_arm* arm, const eval_trials* trials, frames* pictures, int trial,
                         eval_outcome* out, eval_times* times, eval_trace* trace, firm_error* err) {
    if (trial < 0 || trial >= trials->count)
        return FAIL(err, FIRM_E_USAGE, "trial %d of %d does not exist", trial, trials->count);
    arm_trial t;
    if (trace) *trace = (eval_trace){0};
    TRY(arm_trial_open(&t, arm, trials, pictures, trial, out, trace, err));
    TRY(arm_trial_begin(&t, err));
    while (arm_trial_goes_on(&t)) {
        TRY(arm_trial_decide(&t, times, err));
        TRY(arm_trial_step(&t, err));
    }
    return arm_trial_close(&t, err);
}
