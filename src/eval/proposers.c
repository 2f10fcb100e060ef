// proposers.c - see proposers.h.
#include "eval/proposers.h"

#include <string.h>

#include "core/mem.h"
#include "data/searched.h"
#include "eval/settings.h"
#include "plan/cem.h"
#include "plan/controller.h"
#include "plan/typed.h"

// ---- pilots -------------------------------------------------------------------------------------

static void pilot_reset(void* ctx, uint64_t seed) {
    firm_controller_reset(ctx, seed);
}
static firm_status pilot_push(void* ctx, const uint8_t* rgb, const float* action) {
    return firm_controller_push(ctx, rgb, action);
}
static firm_status pilot_goal(void* ctx, const uint8_t* rgb) {
    return firm_controller_goal(ctx, rgb);
}
static void pilot_truth(void* ctx, const float* history, const float* goal) {
    controller_set_truth(ctx, history, goal);
}
static firm_status pilot_act(void* ctx, firm_step* step) {
    return firm_controller_act(ctx, 0, step);
}

static firm_status alloc(int count, pilots* out, firm_error* err) {
    *out = (pilots){.pilot = mem_calloc((size_t)count, sizeof *out->pilot)};
    return out->pilot ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for %d controllers", count);
}

static void add(pilots* p, firm_controller* ctl) {
    p->pilot[p->count++] =
        (data_pilot){ctl, pilot_reset, pilot_push, pilot_goal, pilot_truth, pilot_act};
}

void pilots_free(pilots* p) {
    for (int i = 0; i < p->count; i++) firm_controller_free(p->pilot[i].ctx);
    mem_free(p->pilot);
    *p = (pilots){0};
}

firm_status pilots_open(const firm_model* model, firm_device device, firm_precision precision,
                        int count, pilots* out, firm_error* err) {
    firm_controller_params params = firm_controller_params_default();
    params.mode = FIRM_MODE_CONTRACT;
    params.threads = 1;
    params.device = device;
    params.precision = precision;
    TRY(alloc(count, out, err));
    for (int i = 0; i < count; i++) {
        firm_controller* ctl;
        firm_status st = firm_controller_create(model, &params, &ctl, err);
        if (st != FIRM_OK) {
            pilots_free(out);
            return st;
        }
        add(out, ctl);
    }
    return FIRM_OK;
}

static firm_status contract_options(const firm_model* model, int candidates, plan_options* out,
                                    firm_error* err) {
    config* settings;
    TRY(settings_from_text(model->task.name, model->config, &settings, err));
    settings_plan(settings, FIRM_MODE_CONTRACT, out);
    config_free(settings);
    if (candidates) plan_options_candidates(out, candidates);
    TRY(plan_options_check(out, err));
    if (out->horizon < model->task.horizon)
        return FAIL(err, FIRM_E_VALUE,
                    "plan.contract_horizon = %d, but a branch of %s has %d macro actions; give at "
                    "least as many",
                    out->horizon, model->task.name, model->task.horizon);
    return FIRM_OK;
}

firm_status pilots_open_depths(const firm_model* model, int candidates, int threads, pilots* out,
                               firm_error* err) {
    firm_controller_params params = firm_controller_params_default();
    plan_options options;
    params.mode = FIRM_MODE_CONTRACT;
    params.threads = threads;
    *out = (pilots){0};
    TRY(contract_options(model, candidates, &options, err));
    TRY(alloc(PLANNED_DEPTHS, out, err));
    const int iterations = options.iterations;
    for (int i = 0; i < PLANNED_DEPTHS; i++) {
        firm_controller* ctl;
        options.iterations = iterations >> i ? iterations >> i : 1;
        firm_status st = controller_create_with(model, &params, &options, NULL, &ctl, err);
        if (st != FIRM_OK) {
            pilots_free(out);
            return st;
        }
        add(out, ctl);
    }
    return FIRM_OK;
}

// ---- searches -----------------------------------------------------------------------------------

typedef struct sim_search {
    data_search_setup setup;
    plan_typed typed;  // the price of configurations
    plan_actions actions;
    plan_solver* solver;
    float* raw;  // (candidates, span, action_dim)
} sim_search;

// A plan_model's rollout.
static int search_rollout(void* context, int worker, int n, int horizon, const float* u,
                          float* path) {
    sim_search* s = context;
    const task_typed* task = &s->setup.spec->task;
    (void)worker, (void)horizon;
    plan_actions_raw(&s->actions, u, n * task_span(task), s->raw);
    return s->setup.simulate(s->setup.arg, n, s->raw, path);
}

static void search_free(void* search) {
    sim_search* s = search;
    if (!s) return;
    plan_solver_free(s->solver);
    mem_free(s->raw);
    mem_free(s);
}

static firm_status search_fill(sim_search* s, firm_error* err) {
    const data_search_setup* of = &s->setup;
    const task_typed* task = &of->spec->task;
    const size_t numbers = (size_t)(task_span(task) * task->action_dim);
    s->typed.task = task;
    s->actions = plan_actions_of(task, of->mean, of->std);
    s->raw = mem_alloc((size_t)of->candidates * numbers * sizeof *s->raw);
    if (!s->raw)
        return FAIL(err, FIRM_E_MEMORY, "no memory for a search of %d candidates", of->candidates);
    plan_setup setup = {.options = {.mode = FIRM_MODE_CONTRACT,
                                    .candidates = of->candidates,
                                    .iterations = of->iterations,
                                    .elites = of->elites,
                                    .horizon = task->horizon,
                                    .replan = task->horizon,
                                    .spread = 1},
                        .actions = s->actions,
                        .world = {.model = {.context = s,
                                            .state = task->config_dim,
                                            .action = task->controls * task->action_dim,
                                            .lanes = 1,
                                            .workers = 1,
                                            .whole = 1,
                                            .rollout = search_rollout},
                                  .price = plan_typed_price(&s->typed)}};
    return plan_solver_create(&setup, &s->solver, err);
}

static firm_status search_open(const data_search_setup* setup, void** out, firm_error* err) {
    sim_search* s = mem_calloc(1, sizeof *s);
    if (!s) return FAIL(err, FIRM_E_MEMORY, "no memory for a search");
    s->setup = *setup;
    firm_status st = search_fill(s, err);
    if (st != FIRM_OK) {
        search_free(s);
        return st;
    }
    *out = s;
    return FIRM_OK;
}

static void search_solve(void* search, uint64_t seed, const float* now, const float* goal) {
    sim_search* s = search;
    plan_result result;
    plan_solver_reset(s->solver, seed);
    plan_solver_solve(s->solver, now, goal, 0, &result);
}

static float search_cost(void* search, const float* now, const float* path, const float* goal) {
    sim_search* s = search;
    const plan_cost cost = {.by = plan_typed_price(&s->typed), .mode = FIRM_MODE_CONTRACT};
    return plan_cost_path(&cost, now, path, s->setup.spec->task.horizon, goal, NULL);
}

const data_searcher proposers_search = {search_open, search_solve, search_cost, search_free};

// ---- imaginers ----------------------------------------------------------------------------------

typedef struct imaginer {
    firm_controller *search, *teach;  // may be the same
    const task_typed* task;
    plan_actions actions;
    // the search in hand
    int keep;
    float* action;  // (iterations x keep + 1, span, action_dim)
    uint8_t* made;
} imaginer;

static firm_status imagine_see(void* ctx, uint64_t seed, uint8_t* const rgb[FIRM_HISTORY],
                               const float* past) {
    imaginer* m = ctx;
    firm_controller* each[2] = {m->search, m->teach};
    for (int i = 0; i < (m->teach == m->search ? 1 : 2); i++) {
        TRY(firm_controller_reset(each[i], seed));
        for (int f = 0; f < FIRM_HISTORY; f++)
            TRY(firm_controller_push(each[i], rgb[f],
                                     f ? past + (f - 1) * m->task->action_dim : NULL));
    }
    return FIRM_OK;
}

// A plan_watch.
static void imagine_keep(void* ctx, const plan_look* look) {
    imaginer* m = ctx;
    const int elites = look->elites < look->finite ? look->elites : look->finite;
    const size_t numbers = (size_t)(task_span(m->task) * m->task->action_dim),
                 u = numbers / (size_t)m->task->horizon * (size_t)look->horizon;
    for (int j = 0; j < m->keep && look->finite; j++) {
        size_t at = (size_t)(look->iteration * m->keep + j);
        int id = look->order[searched_rank(j, m->keep, elites, look->finite)];
        plan_actions_raw(&m->actions, look->u + (size_t)id * u, task_span(m->task),
                         m->action + at * numbers);
        m->made[at] = 1;
    }
}

static firm_status imagine_search(void* ctx, const float* goal, int keep, float* action,
                                  uint8_t* made) {
    imaginer* m = ctx;
    firm_step step;
    m->keep = keep;
    m->action = action;
    m->made = made;
    TRY(firm_controller_goal_config(m->search, goal, NULL));
    TRY(firm_controller_act(m->search, 0, &step));
    const size_t numbers = (size_t)(task_span(m->task) * m->task->action_dim),
                 at = (size_t)(step.iterations * keep);
    memcpy(action + at * numbers, step.plan, numbers * sizeof *action);
    made[at] = 1;
    return FIRM_OK;
}

static firm_status imagine_expect(void* ctx, int count, const float* action, float* path,
                                  float* spread) {
    imaginer* m = ctx;
    return controller_predict_many(m->teach, count, m->task->horizon, action, path, spread);
}

static void imaginer_free(imaginer* m) {
    if (!m) return;
    if (m->teach != m->search) firm_controller_free(m->teach);
    firm_controller_free(m->search);
    mem_free(m);
}

void imaginers_free(imaginers* m) {
    for (int i = 0; i < m->count; i++) imaginer_free(m->by[i].ctx);
    mem_free(m->by);
    *m = (imaginers){0};
}

static firm_status imaginer_fill(const imaginer_setup* s, const plan_options* o, imaginer* m,
                                 firm_error* err) {
    firm_controller_params params = firm_controller_params_default();
    params.mode = FIRM_MODE_CONTRACT;
    params.threads = 1;
    params.device = s->device;
    params.precision = s->precision;
    TRY(controller_create_with(s->guide, &params, o, NULL, &m->search, err));
    m->teach = m->search;
    if (s->teacher != s->guide)
        TRY(controller_create_with(s->teacher, &params, o, NULL, &m->teach, err));
    controller_watch(m->search, imagine_keep, m);
    return FIRM_OK;
}

static firm_status imaginer_open(const imaginer_setup* s, const plan_options* o, data_imaginer* out,
                                 firm_error* err) {
    const firm_model* guide = s->guide;
    imaginer* m = mem_calloc(1, sizeof *m);
    if (!m) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
    m->task = &guide->task;
    m->actions = plan_actions_of(&guide->task, guide->stats.action_mean, guide->stats.action_std);
    firm_status st = imaginer_fill(s, o, m, err);
    if (st != FIRM_OK) {
        imaginer_free(m);
        return st;
    }
    *out = (data_imaginer){.ctx = m,
                           .candidates = o->candidates,
                           .iterations = o->iterations,
                           .see = imagine_see,
                           .search = imagine_search,
                           .expect = imagine_expect};
    return FIRM_OK;
}

firm_status imaginers_open(const imaginer_setup* setup, int count, imaginers* out,
                           firm_error* err) {
    plan_options options;
    *out = (imaginers){0};
    TRY(contract_options(setup->guide, setup->candidates, &options, err));
    if (setup->iterations) options.iterations = setup->iterations;
    out->by = mem_calloc((size_t)count, sizeof *out->by);
    if (!out->by) return FAIL(err, FIRM_E_MEMORY, "no memory for %d controllers", count);
    for (; out->count < count; out->count++) {
        firm_status st = imaginer_open(setup, &options, &out->by[out->count], err);
        if (st != FIRM_OK) {
            imaginers_free(out);
            return st;
        }
    }
    return FIRM_OK;
}
