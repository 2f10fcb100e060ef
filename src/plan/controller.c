// controller.c - the public controller: frames and actions in, the next raw control out.
//
// Everything is reserved at creation. A solve runs when the plan in hand is used up (contract:
// after all its macro actions; reach: after each); between solves, act hands out the next control
// of the plan.
//
// A model may be an ensemble: then every member sees the same frames and starts from its own (c,
// m), and what the controller knows and predicts is the members' mean (ensemble.h). Support,
// recorded segments and the reading by which these are looked up are the first member's.
#include "plan/controller.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "plan/controller_internal.h"
#include "plan/net_model.h"
#include "plan/propose.h"
#include "plan/strange.h"
#include "plan/weights.h"

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

static firm_status make_gpu(const firm_controller* c, const firm_model* m, member* e,
                            const firm_controller_params* p, plan_gpu* shared, firm_error* err) {
    plan_weights w;
    if (!shared)
        TRY(plan_gpu_for_model(
            m, &c->options,
            &(plan_gpu_choice){
                .precision = (plan_precision)p->precision, .searches = 1, .device = p->gpu},
            &e->own_gpu, err));
    e->gpu = shared ? shared : e->own_gpu;
    firm_status st = plan_weights_take(m, &w, err);
    if (st == FIRM_OK) st = plan_learned_gpu_create(e->gpu, &w.shape, &e->learned_gpu, err);
    plan_weights_free(&w);
    return st;
}

static firm_status member_open(const firm_controller* c, const firm_model* m, member* e,
                               const firm_controller_params* p, plan_gpu* shared, firm_error* err) {
    TRY(perception_create(m, e > c->member ? c->member->eyes : NULL, c->threads, &e->eyes, err));
    e->fiber = mem_calloc((size_t)m->shape.fiber, sizeof *e->fiber);
    if (!e->fiber) return no_memory(err);
    if (p->device == FIRM_DEVICE_CUDA) return make_gpu(c, m, e, p, shared, err);
    if (c->like)
        e->net = c->like->member[e - c->member].net;
    else
        TRY(plan_net_of_model(m, (plan_precision)p->precision, &e->own_net, err));
    if (e->own_net) e->net = e->own_net;
    return plan_learned_create(e->net, c->threads, &e->learned, err);
}

static void member_close(member* e) {
    plan_learned_free(e->learned);
    plan_net_free(e->own_net);
    plan_learned_gpu_free(e->learned_gpu);
    plan_gpu_free(e->own_gpu);
    perception_free(e->eyes);
    mem_free(e->fiber);
}

static size_t member_bytes(const firm_controller* c, const member* e) {
    size_t bytes = perception_bytes(e->eyes);
    if (e->own_gpu) bytes += plan_gpu_bytes(e->own_gpu);
    if (e->own_net) bytes += plan_net_bytes(e->own_net);
    if (e->net) bytes += (size_t)pool_threads(c->threads) * plan_net_scratch_bytes(e->net);
    return bytes;
}

static plan_model member_model(const member* e) {
    return e->gpu ? plan_learned_gpu_model(e->learned_gpu) : plan_learned_model(e->learned);
}

static void member_start(member* e, const float* c0) {
    if (e->gpu)
        plan_learned_gpu_start(e->learned_gpu, c0, e->fiber);
    else
        plan_learned_start(e->learned, c0, e->fiber);
}

// The model and its further members, and what they predict together.
static firm_status open_members(firm_controller* c, const firm_controller_params* p,
                                plan_gpu* shared, firm_error* err) {
    const firm_model* m = c->m;
    plan_model each[1 + MODEL_MEMBERS];
    if (shared && m->members)
        return FAIL(err, FIRM_E_USAGE,
                    "a GPU planner that controllers share is of one model, not of an ensemble of "
                    "%d; let each controller have its own",
                    m->members + 1);
    for (; c->members <= m->members; c->members++) {
        member* e = &c->member[c->members];
        firm_status st =
            member_open(c, c->members ? m->member[c->members - 1] : m, e, p, shared, err);
        if (st != FIRM_OK) {
            member_close(e);
            return st;
        }
        each[c->members] = member_model(e);
    }
    c->model = each[0];
    if (c->members == 1) return FIRM_OK;
    TRY(plan_ensemble_create(each, c->members, m->task.pairs, c->options.candidates, c->longest,
                             &c->ensemble, err));
    c->model = plan_ensemble_model(c->ensemble);
    return FIRM_OK;
}

static firm_status read_options(const firm_model* m, const firm_controller_params* p,
                                plan_options* o, firm_error* err) {
    TRY(plan_options_of_text("the model", m->config, p->mode, o, err));
    if (p->candidates) plan_options_candidates(o, p->candidates);
    if (p->iterations) o->iterations = p->iterations;
    if (p->elites) o->elites = p->elites;
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

static firm_status build(firm_controller* c, const firm_controller_params* p, plan_gpu* shared,
                         firm_error* err) {
    const firm_model* m = c->m;
    TRY(plan_options_check(&c->options, err));
    c->longest =
        c->options.horizon_max > c->options.horizon ? c->options.horizon_max : c->options.horizon;
    TRY(pool_create(p->threads, &c->threads, err));
    if (p->affinity) TRY(controller_bind(c->threads, p, err));
    TRY(open_members(c, p, shared, err));
    c->actions =
        plan_actions_of(&m->task, MODEL_CONTROLS, m->stats.action_mean, m->stats.action_std);
    if (m->support)
        TRY(plan_support_create(m->support, m->support_count, m->task.config_dim, m->task.pairs,
                                m->support_radius, &c->support, err));
    // as many as its iterations can try
    int recalled = plan_recorded_each(&c->options) * c->options.iterations;
    if (recalled > 0 && c->options.mode == FIRM_MODE_REACH)
        TRY(plan_recall_create(m, &c->actions, recalled, &c->recall, err));
    // a whole search on the GPU knows one model; an ensemble's candidates are drawn and priced here
    int on_gpu = c->options.mode == FIRM_MODE_CONTRACT && !c->ensemble;
    plan_setup setup = {.task = &m->task,
                        .options = c->options,
                        .actions = c->actions,
                        .model = c->model,
                        .gpu = on_gpu ? c->member[0].learned_gpu : NULL,
                        .threads = c->threads,
                        .seed = p->seed,
                        .fan = p->fan,
                        .support = c->support};
    TRY(plan_solver_create(&setup, &c->solver, err));
    size_t numbers = (size_t)(c->longest * c->model.action);
    c->raw = mem_calloc(numbers, sizeof *c->raw);
    c->trial = mem_calloc(numbers, sizeof *c->trial);
    c->path = mem_calloc((size_t)((c->longest + 1) * m->task.config_dim), sizeof *c->path);
    return c->raw && c->trial && c->path ? FIRM_OK : no_memory(err);
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
    plan_support_free(c->support);
    plan_ensemble_free(c->ensemble);
    for (int i = c->members - 1; i >= 0; i--) member_close(&c->member[i]);
    pool_free(c->threads);
    plan_recall_free(c->recall);
    mem_free(c->raw);
    mem_free(c->trial);
    mem_free(c->path);
    mem_free(c);
}

size_t firm_controller_bytes(const firm_controller* c) {
    if (!c) return 0;
    size_t bytes = sizeof *c + plan_solver_bytes(c->solver);
    for (int i = 0; i < c->members; i++) bytes += member_bytes(c, &c->member[i]);
    if (c->ensemble) bytes += plan_ensemble_bytes(c->ensemble);
    if (c->recall) bytes += plan_recall_bytes(c->recall);
    return bytes;
}

// ---- running ------------------------------------------------------------------------------------

void controller_drop_plan(firm_controller* c) {
    c->given = c->ready = 0;
    plan_solver_forget(c->solver);
}

void controller_mean(const firm_controller* c, const float* each, float* mean) {
    plan_ensemble_mean(each, c->members, c->m->task.config_dim, c->m->task.pairs, mean);
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
    const int dim = c->m->task.config_dim, soon = c->ready - c->given <= 1;
    float each[(1 + MODEL_MEMBERS) * FIRM_MAX_CONFIG];
    for (int i = 0; i < c->members; i++) {
        perception* eyes = c->member[i].eyes;
        TRY(perception_push(eyes, rgb, action, soon));
        memcpy(each + i * dim, perception_config(eyes), (size_t)dim * sizeof *each);
    }
    controller_mean(c, each, c->config);
    c->strange =
        plan_strange(c->m, c->support, perception_tokens(c->member[0].eyes), each, c->config);
    return FIRM_OK;
}

firm_status firm_controller_push(firm_controller* c, const uint8_t* rgb, const float* action) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    if (!rgb)
        return FAIL(&c->error, FIRM_E_USAGE, "the frame is NULL; give %d x %d x 3 bytes",
                    MODEL_IMAGE, MODEL_IMAGE);
    for (int i = 0; action && i < c->m->task.action_dim; i++)
        if (!isfinite(action[i]))
            return FAIL(&c->error, FIRM_E_VALUE,
                        "number %d of the action is not finite; give the control that was executed",
                        i);
    c->has_truth = 0;
    return controller_failed(c, see_frame(c, rgb, action), "looking at the frame");
}

void controller_set_truth(firm_controller* c, const float* history, const float* goal) {
    size_t dim = (size_t)c->m->task.config_dim;
    memcpy(c->truth, history, MODEL_HISTORY * dim * sizeof(float));
    memcpy(c->truth_goal, goal, dim * sizeof(float));
    c->has_truth = 1;
}

const float* controller_config(const firm_controller* c) {
    return c->config;
}
const float* controller_goal_config(const firm_controller* c) {
    return c->goal;
}

// The plan of c->result becomes the one in hand.
static void take_plan(firm_controller* c) {
    plan_actions_raw(&c->actions, c->result.plan, c->result.horizon * MODEL_CONTROLS, c->raw);
    c->given = 0;
    int macros = c->options.replan < c->result.horizon ? c->options.replan : c->result.horizon;
    // without a plan the next control searches again
    c->ready = c->result.empty ? 1 : macros * MODEL_CONTROLS;
}

const float* controller_now(const firm_controller* c) {
    return c->has_truth ? c->truth + (MODEL_HISTORY - 1) * c->m->task.config_dim : c->config;
}

int controller_has_seen(const firm_controller* c) {
    return perception_frames(c->member[0].eyes) > 0;
}

firm_status controller_start(firm_controller* c) {
    for (int i = 0; i < c->members; i++) {
        float own[FIRM_MAX_CONFIG];
        member* e = &c->member[i];
        TRY(perception_state(e->eyes, c->has_truth ? c->truth : NULL, own, e->fiber));
        member_start(e, own);
    }
    return FIRM_OK;
}

// The start of a search.
static firm_status perceive(firm_controller* c) {
    TRY(controller_start(c));
    if (c->given) plan_solver_advance(c->solver, c->given / MODEL_CONTROLS);
    return FIRM_OK;
}

static firm_status solve(firm_controller* c, int64_t deadline_ns) {
    TRY(perceive(c));
    plan_solver_given(c->solver, controller_given(c));
    const float* c0 = controller_now(c);
    if (c->recall) {
        float chi[TASK_MAX_CHI];
        const float* plan;
        perception_chi(c->member[0].eyes, chi);
        int count = plan_recall_find(c->recall, c0, chi, c->aim, &plan);
        plan_solver_recall(c->solver, plan, count, MODEL_RECORDED * c->m->task.action_dim);
    }
    plan_solver_solve(c->solver, c0, c->aim, deadline_ns, &c->result);
    if (c->result.status != FIRM_OK && c->result.error) c->error = *c->result.error;
    TRY(c->result.status);
    for (int i = 0; i < c->members; i++)
        if (c->member[i].gpu) TRY(c->member[i].learned_gpu->status);
    take_plan(c);
    return FIRM_OK;
}

const char* controller_device(const firm_controller* c) {
    const plan_gpu* gpu = c->member[0].gpu;
    return gpu ? plan_gpu_device(gpu) : "cpu";
}

const char* controller_way(const firm_controller* c) {
    const member* e = &c->member[0];
    return e->gpu ? plan_gpu_way_name(e->gpu) : plan_net_simd(e->net);
}

double controller_search_ms(const firm_controller* c) {
    return c->result.ms;
}

int controller_due(const firm_controller* c) {
    return c->given >= c->ready;
}

firm_status controller_pose(firm_controller* c, plan_gpu_problem* problem) {
    if (!c->has_goal || !controller_has_seen(c) || c->ensemble) return FIRM_E_USAGE;
    TRY(perceive(c));
    controller_aim(c, controller_now(c), c->aim);
    plan_solver_pose(c->solver, controller_now(c), c->aim, problem);
    problem->m0 = c->member[0].fiber;
    return FIRM_OK;
}

void controller_accept(firm_controller* c, const plan_gpu_answer* answer, double ms) {
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
    const float* now = controller_now(c);
    controller_aim(c, now, c->aim);
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
    step->fan = r->fan_path ? r->fan : 0;
    step->plan = c->raw;
    step->path = r->path;
    step->fan_path = r->fan_path;
    step->goal_config = c->aim;
    step->strange = c->strange;
    const uint8_t* given = controller_given(c);
    task_measure_given(task, given, now, c->aim, step->distance_now);
    task_measure_given(task, given, r->path + r->arrival * task->config_dim, c->aim,
                       step->distance_planned);
    step->reached = task_tolerance_units_given(task, given, now, c->aim) < 1.0f;
    return FIRM_OK;
}

firm_status firm_controller_reset(firm_controller* c, uint64_t seed) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    for (int i = 0; i < c->members; i++) perception_reset(c->member[i].eyes);
    c->has_goal = c->has_truth = c->partial = 0;
    controller_drop_plan(c);
    plan_solver_reset(c->solver, seed);
    return FIRM_OK;
}
