// controller.c - the public controller: frames and actions in, the next raw control out.
//
// Everything is reserved at creation. A solve runs when the plan in hand is used up (contract:
// after all its macro actions; reach: after each); between solves, act hands out the next control
// of the plan.
//
// What is encoded, predicted and compared is the world's business (world.h); a controller asks it.
#include "plan/controller.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "plan/controller_internal.h"

static const char no_controller[] = "the controller is NULL; make one with firm_controller_create";

// ---- creation -----------------------------------------------------------------------------------

firm_status controller_params_take(const firm_controller_params* given, firm_controller_params* p,
                                   firm_error* err) {
    enum { FIRST = offsetof(firm_controller_params, gpu), MOST = 4096 };
    *p = firm_controller_params_default();
    if (!given) return FIRM_OK;
    const size_t size = given->size, known = size < sizeof *p ? size : sizeof *p;
    if (size < FIRST || size > MOST)
        return FAIL(err, FIRM_E_USAGE,
                    "the controller's params have size %zu; start from "
                    "firm_controller_params_default()",
                    size);
    for (size_t i = known; i < size; i++)
        if (((const char*)given)[i])
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "the controller's params set something that this libfirm (%d) does not "
                        "know; the program was compiled for a newer one",
                        FIRM_VERSION);
    memcpy(p, given, known);
    return FIRM_OK;
}

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
}

static firm_status read_options(const firm_model* m, const firm_controller_params* p,
                                plan_options* o, firm_error* err) {
    TRY(plan_options_of_text("the model", m->config, p->mode, o, err));
    if (p->candidates) plan_options_candidates(o, p->candidates);
    if (p->iterations) o->iterations = p->iterations;
    if (p->elites) o->elites = p->elites;
    if (p->solver) o->solver = (plan_solver_kind)(p->solver - FIRM_SOLVER_CEM);
    if (o->elites > o->candidates) o->elites = o->candidates;
    if (o->keep > o->elites) o->keep = o->elites;
    if (p->horizon) {
        o->horizon = p->horizon;
        if (o->horizon_max < o->horizon || p->mode == FIRM_MODE_CONTRACT)
            o->horizon_max = o->horizon;
        if (p->mode == FIRM_MODE_CONTRACT || o->replan > o->horizon) o->replan = o->horizon;
    }
    return FIRM_OK;
}

firm_status controller_bind(pool* threads, const firm_controller_params* p, firm_error* err) {
    if (p->threads == 0)
        return FAIL(err, FIRM_E_USAGE,
                    "params.affinity names a core for each thread; set params.threads, too");
    return pool_bind(threads, p->affinity, err);
}

// Memory for states and plans.
static firm_status take_memory(firm_controller* c, firm_error* err) {
    const size_t state = (size_t)c->world.model.state, longest = (size_t)c->longest,
                 numbers = longest * (size_t)c->world.model.action;
    float** part[] = {&c->state, &c->goal, &c->truth, &c->truth_goal, &c->aim};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (!(*part[i] = mem_calloc(state, sizeof **part[i]))) return no_memory(err);
    c->named = mem_calloc(state, sizeof *c->named);
    c->raw = mem_calloc(numbers, sizeof *c->raw);
    c->trial = mem_calloc(numbers, sizeof *c->trial);
    c->path = mem_calloc((longest + 1) * state, sizeof *c->path);
    return c->named && c->raw && c->trial && c->path ? FIRM_OK : no_memory(err);
}

static firm_status build(firm_controller* c, const firm_controller_params* p, plan_gpu* shared,
                         firm_error* err) {
    const firm_model* m = c->m;
    TRY(plan_options_check(&c->options, err));
    c->longest =
        c->options.horizon_max > c->options.horizon ? c->options.horizon_max : c->options.horizon;
    TRY(pool_create(p->threads, &c->threads, err));
    if (p->affinity) TRY(controller_bind(c->threads, p, err));
    c->actions = plan_actions_of(&m->task, m->stats.action_mean, m->stats.action_std);
    plan_world_setup world = {.model = m,
                              .options = &c->options,
                              .longest = c->longest,
                              .threads = c->threads,
                              .device = p->device,
                              .precision = (plan_precision)p->precision,
                              .gpu = p->gpu,
                              .shared = shared,
                              .like = c->like ? &c->like->world : NULL};
    TRY(plan_world_open(&world, &c->world, err));
    plan_setup setup = {.world = c->world,
                        .options = c->options,
                        .actions = c->actions,
                        .threads = c->threads,
                        .seed = p->seed,
                        .fan = p->fan};
    TRY(plan_solver_create(&setup, &c->solver, err));
    return take_memory(c, err);
}

static firm_status create(const firm_model* model, const firm_controller_params* params,
                          const plan_options* options, plan_gpu* shared,
                          const firm_controller* like, firm_controller** out, firm_error* err) {
    if (!out) return FAIL(err, FIRM_E_USAGE, "there is nowhere to put the controller: ctl is NULL");
    *out = NULL;
    if (!model)
        return FAIL(err, FIRM_E_USAGE,
                    "a controller needs a model and it is NULL; load one with firm_model_load");
    firm_controller_params p;
    TRY(controller_params_take(params, &p, err));
    if (p.mode != FIRM_MODE_CONTRACT && p.mode != FIRM_MODE_REACH)
        return FAIL(err, FIRM_E_USAGE,
                    "there is no planner mode %d; use FIRM_MODE_CONTRACT or FIRM_MODE_REACH",
                    (int)p.mode);
    if (p.candidates < 0 || p.iterations < 0 || p.elites < 0 || p.horizon < 0 || p.fan < 0 ||
        p.threads < 0 || p.gpu < 0)
        return FAIL(err, FIRM_E_USAGE, "controller parameters must not be negative");
    if ((unsigned)p.device > FIRM_DEVICE_CUDA || (unsigned)p.precision > FIRM_PRECISION_BF16)
        return FAIL(err, FIRM_E_USAGE, "the controller's device or precision does not exist");
    if ((unsigned)p.solver > FIRM_SOLVER_ICEM)
        return FAIL(err, FIRM_E_USAGE, "there is no solver %d; use one of firm_solver",
                    (int)p.solver);
    if (p.device == FIRM_DEVICE_CPU && p.precision == FIRM_PRECISION_TF32)
        return FAIL(err, FIRM_E_USAGE,
                    "the CPU does not plan in tf32; use the precision fp32 or bf16, or the device "
                    "cuda");
    firm_controller* c = mem_calloc(1, sizeof *c);
    if (!c) return no_memory(err);
    c->m = model;
    c->like = like;
    c->fan = p.fan;
    c->weights_sum = like ? like->weights_sum : controller_weights_sum(model);
    firm_status st = FIRM_OK;
    if (options)
        c->options = *options;
    else
        st = read_options(model, &p, &c->options, err);
    if (st == FIRM_OK) st = build(c, &p, shared, err);
    if (st != FIRM_OK) {
        firm_controller_free(c);
        return st;
    }
    *out = c;
    return FIRM_OK;
}

firm_status controller_create_with(const firm_model* model, const firm_controller_params* params,
                                   const plan_options* options, plan_gpu* shared,
                                   firm_controller** out, firm_error* err) {
    return create(model, params, options, shared, NULL, out, err);
}

firm_status controller_create_like(const firm_model* model, const firm_controller_params* params,
                                   const firm_controller* like, firm_controller** out,
                                   firm_error* err) {
    return create(model, params, NULL, NULL, like, out, err);
}

firm_status firm_controller_create(const firm_model* model, const firm_controller_params* params,
                                   firm_controller** ctl, firm_error* err) {
    return create(model, params, NULL, NULL, NULL, ctl, err);
}

void firm_controller_free(firm_controller* c) {
    if (!c) return;
    plan_solver_free(c->solver);
    if (c->world.sight.close) c->world.sight.close(c->world.sight.context);
    pool_free(c->threads);
    float* part[] = {c->state, c->goal, c->truth, c->truth_goal, c->aim, c->raw, c->trial, c->path};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) mem_free(part[i]);
    mem_free(c->named);
    mem_free(c);
}

size_t firm_controller_bytes(const firm_controller* c) {
    if (!c) return 0;
    return sizeof *c + plan_solver_bytes(c->solver) + c->world.sight.bytes(c->world.sight.context);
}

// ---- running ------------------------------------------------------------------------------------

void controller_drop_plan(firm_controller* c) {
    c->given = c->ready = 0;
    plan_solver_forget(c->solver);
}

void controller_begin(firm_controller* c) {
    c->error = (firm_error){0};
}

firm_status controller_failed(firm_controller* c, firm_status status, const char* doing) {
    if (status == FIRM_OK || c->error.status != FIRM_OK) return status;
    return FAIL(&c->error, status, "%s failed: %s", doing, firm_status_str(status));
}

const char* firm_controller_error(const firm_controller* c) {
    return c ? c->error.message : no_controller;
}

static firm_status see_frame(firm_controller* c, const uint8_t* rgb, const float* action) {
    plan_seen seen = {.state = c->state};
    TRY(c->world.sight.push(c->world.sight.context, rgb, action, c->ready - c->given <= 1, &seen));
    c->strange = seen.strange;
    return FIRM_OK;
}

firm_status firm_controller_push(firm_controller* c, const uint8_t* rgb, const float* action) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    if (!rgb)
        return FAIL(&c->error, FIRM_E_USAGE, "the frame is NULL; give %d x %d x 3 bytes",
                    c->m->task.image, c->m->task.image);
    for (int i = 0; action && i < c->m->task.action_dim; i++)
        if (!isfinite(action[i]))
            return FAIL(&c->error, FIRM_E_VALUE,
                        "number %d of the action is not finite; give the control that was executed",
                        i);
    c->has_truth = 0;
    return controller_failed(c, see_frame(c, rgb, action), "looking at the frame");
}

void controller_set_truth(firm_controller* c, const float* history, const float* goal) {
    const size_t state = (size_t)c->world.model.state;
    CHECK(c->world.sight.tell, "this world cannot be told the true state");
    c->world.sight.tell(c->world.sight.context, history);
    memcpy(c->truth, history + (MODEL_HISTORY - 1) * state, state * sizeof(float));
    memcpy(c->truth_goal, goal, state * sizeof(float));
    c->has_truth = 1;
}

const float* controller_config(const firm_controller* c) {
    return c->state;
}
const float* controller_goal_config(const firm_controller* c) {
    return c->goal;
}

// The plan of c->result becomes the one in hand.
static void take_plan(firm_controller* c) {
    plan_actions_raw(&c->actions, c->result.plan, c->result.horizon * c->m->task.controls, c->raw);
    c->given = 0;
    int macros = c->options.replan < c->result.horizon ? c->options.replan : c->result.horizon;
    // without a plan the next control searches again
    c->ready = c->result.empty ? 1 : macros * c->m->task.controls;
}

const float* controller_now(const firm_controller* c) {
    return c->has_truth ? c->truth : c->state;
}

int controller_has_seen(const firm_controller* c) {
    return c->world.sight.frames(c->world.sight.context) > 0;
}

firm_status controller_start(firm_controller* c) {
    return c->world.sight.start(c->world.sight.context, c->has_truth ? c->truth : c->state);
}

// The start of a search.
static firm_status perceive(firm_controller* c) {
    TRY(controller_start(c));
    if (c->given) plan_solver_advance(c->solver, c->given / c->m->task.controls);
    return FIRM_OK;
}

static firm_status solve(firm_controller* c, int64_t deadline_ns) {
    TRY(perceive(c));
    const plan_sight* sight = &c->world.sight;
    const float* now = controller_now(c);
    controller_aim(c, now, c->aim);
    if (sight->recall) {
        plan_recalled recalled;
        sight->recall(sight->context, now, c->aim, &recalled);
        plan_solver_recall(c->solver, &recalled);
    }
    plan_solver_solve(c->solver, now, c->aim, deadline_ns, &c->result);
    if (c->result.status != FIRM_OK && c->result.error) c->error = *c->result.error;
    TRY(c->result.status);
    TRY(sight->status(sight->context));
    take_plan(c);
    return FIRM_OK;
}

const char* controller_device(const firm_controller* c) {
    return c->world.sight.device(c->world.sight.context);
}

const char* controller_way(const firm_controller* c) {
    return c->world.sight.way(c->world.sight.context);
}

void controller_watch(firm_controller* c, plan_watch watch, void* context) {
    plan_solver_watch(c->solver, watch, context);
}

double controller_search_ms(const firm_controller* c) {
    return c->result.ms;
}

const plan_phases* controller_phases(const firm_controller* c) {
    return plan_solver_phases(c->solver);
}

int controller_due(const firm_controller* c) {
    return c->given >= c->ready;
}

firm_status controller_pose(firm_controller* c, plan_problem* problem) {
    if (!c->has_goal || !controller_has_seen(c) || !c->world.memory) return FIRM_E_USAGE;
    TRY(perceive(c));
    controller_aim(c, controller_now(c), c->aim);
    plan_solver_pose(c->solver, controller_now(c), c->aim, problem);
    return FIRM_OK;
}

void controller_accept(firm_controller* c, const plan_answer* answer, double ms) {
    plan_solver_accept(c->solver, answer, c->options.iterations, ms, &c->result);
    take_plan(c);
    c->accepted_ms = ms;
}

firm_status firm_controller_act(firm_controller* c, int64_t deadline_ns, firm_step* step) {
    if (step) memset(step, 0, sizeof *step);
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    if (!step) return FAIL(&c->error, FIRM_E_USAGE, "there is nowhere to put the step: it is NULL");
    const task_typed* task = &c->m->task;
    if (!c->has_goal)
        return FAIL(&c->error, FIRM_E_USAGE, "there is no goal; set one with firm_controller_goal");
    if (!controller_has_seen(c))
        return FAIL(&c->error, FIRM_E_USAGE,
                    "no frame was seen; give the camera's with firm_controller_push");
    const plan_price* price = &c->world.price;
    if (price->given) price->given(price->context, controller_given(c));
    if (c->given >= c->ready) {
        int64_t started = clock_ns();
        TRY(controller_failed(c, solve(c, deadline_ns), "planning"));
        step->solved = 1;
        step->solve_ms = (double)(clock_ns() - started) * 1e-6;
    } else if (c->accepted_ms > 0) {
        step->solved = 1;
        step->solve_ms = c->accepted_ms;
    }
    c->accepted_ms = 0;
    const float* now = controller_now(c);
    controller_aim(c, now, c->aim);
    const float* next = c->raw + (size_t)c->given * (size_t)task->action_dim;
    for (int i = 0; i < task->action_dim; i++) {
        step->action[i] = next[i];
        if (!isfinite(next[i])) step->action[i] = 0;
        // what the environment would clamp anyway is handed out clamped
        if (task->action_clamped)
            step->action[i] = fminf(fmaxf(step->action[i], task->action_low), task->action_high);
    }
    c->given++;

    const plan_result* r = &c->result;
    step->late = step->solved && r->late;
    step->nonfinite = r->nonfinite;
    step->iterations = r->iterations;
    step->cost = r->cost;
    step->arrival = r->arrival;
    step->horizon = r->horizon;
    step->plan = c->raw;
    if (price->named) {
        step->fan = r->fan_path ? r->fan : 0;
        step->path = r->path;
        step->fan_path = r->fan_path;
        step->goal_config = c->aim;
    }
    step->strange = c->strange;
    price->measure(price->context, now, c->aim, step->distance_now);
    price->measure(price->context, r->path + r->arrival * price->state, c->aim,
                   step->distance_planned);
    step->reached = price->units(price->context, now, c->aim) < 1.0f;
    return FIRM_OK;
}

firm_status firm_controller_reset(firm_controller* c, uint64_t seed) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    c->world.sight.reset(c->world.sight.context);
    c->has_goal = c->has_truth = c->partial = 0;
    controller_drop_plan(c);
    plan_solver_reset(c->solver, seed);
    return FIRM_OK;
}
