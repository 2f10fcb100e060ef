// cem.c - the search: iterations (iterate.c) until done or out of time, at a fixed horizon
// (contract) or a growing one (reach).
//
// Under a deadline the search is anytime. Another iteration begins only if it should end in time.
// When few whole ones fit, each tries fewer candidates; when not even the smallest batch fits at
// this horizon, the horizon is cut. What was found so far, or the plan in hand, is always there.
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "plan/cem_internal.h"
#include "plan/update.h"

// ---- memory -------------------------------------------------------------------------------------

static size_t layout(plan_solver* s, char* memory) {
    const plan_options* o = &s->setup.options;
    size_t n = (size_t)o->candidates, e = (size_t)o->elites, p = (size_t)s->longest;
    size_t a = (size_t)s->setup.world.model.action, c = (size_t)s->setup.world.model.state, at = 0;
    size_t basis = p * (size_t)s->setup.actions.controls * (size_t)s->terms;
    size_t members = plan_doubt_asked(&s->doubt) ? (size_t)s->doubt.members : 0;
    struct {
        void* slot;
        size_t bytes;
    } part[] = {
        {&s->mean, 4 * p * a},
        {&s->spread, 4 * p * a},
        {&s->u, 4 * n * p * a},
        {&s->c, 4 * n * p * c},
        {&s->value, 4 * (n + e)},
        {&s->arrive, 4 * n},
        {&s->order, 4 * (n + e)},
        {&s->best.u, 4 * e * p * a},
        {&s->best.c, 4 * e * p * c},
        {&s->best.value, 4 * e},
        {&s->best.arrival, 4 * e},
        {&s->best.trail, sizeof(plan_trail) * e},
        {&s->last.u, 4 * e * p * a},
        {&s->last.c, 4 * e * p * c},
        {&s->last.value, 4 * e},
        {&s->last.arrival, 4 * e},
        {&s->last.trail, sizeof(plan_trail) * e},
        {&s->trail, sizeof(plan_trail) * n},
        {&s->plan, 4 * p * a},
        {&s->path, 4 * (p + 1) * c},
        {&s->fan_path, 4 * (size_t)s->setup.fan * (p + 1) * c},
        {&s->c0, 4 * c},
        {&s->goal, 4 * c},
        {&s->weight, 8 * (n + e)},
        {&s->basis, 4 * basis},
        {&s->each, 4 * n * members * p * c},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (memory) memcpy(part[i].slot, &(char*){memory + at}, sizeof(char*));
        at += (part[i].bytes + 63) / 64 * 64;
    }
    if (!members) s->each = NULL;
    return at;
}

// How long an iteration on the device takes, for deadlines: nobody can look at the clock in
// between.
static firm_status time_device(plan_solver* s, firm_error* err) {
    const plan_options* o = &s->setup.options;
    const plan_device* device = &s->setup.world.device;
    plan_problem p = {s->c0, s->setup.world.memory, s->goal, 0, 0};
    plan_answer a;
    for (int i = 0; i < 2; i++) {  // the first one loads the kernels
        int64_t begun = clock_ns();
        TRY(device->solve(device->context, 1, &p, o->iterations, 0, &a, err));
        if (i > 0)
            plan_pace_add(&s->pace, plan_units(s, o->candidates), o->iterations * o->horizon,
                          clock_ns() - begun);
    }
    return FIRM_OK;
}

firm_status plan_solver_create(const plan_setup* setup, plan_solver** out, firm_error* err) {
    *out = NULL;
    TRY(plan_options_check(&setup->options, err));
    int action = setup->actions.dim * setup->actions.controls;
    const plan_model* model = &setup->world.model;
    if (model->action != action || model->state != setup->world.price.state ||
        setup->actions.dim > FIRM_MAX_ACTION)
        return FAIL(err, FIRM_E_TASK,
                    "the model has %d action and %d state numbers, its task has %d and %d",
                    model->action, model->state, action, setup->world.price.state);
    if (!model->whole && model->workers < pool_threads(setup->threads))
        return FAIL(err, FIRM_E_USAGE, "the model serves %d threads, the pool has %d",
                    model->workers, pool_threads(setup->threads));
    if (setup->fan < 0 || setup->fan > setup->options.candidates)
        return FAIL(err, FIRM_E_USAGE, "a fan of %d does not fit %d candidates", setup->fan,
                    setup->options.candidates);
    for (int i = 0; i < setup->actions.dim; i++)
        if (!(setup->actions.deviation[i] > 0.0f) || !isfinite(setup->actions.mean[i]))
            return FAIL(err, FIRM_E_VALUE,
                        "the deviation of action %d must be positive; is the model file damaged?",
                        i);

    int longest = setup->options.mode == FIRM_MODE_REACH ? setup->options.horizon_max
                                                         : setup->options.horizon;
    int terms = plan_colour_terms(&setup->options, longest * setup->actions.controls);
    if ((int64_t)longest * action > 65536 || terms * (setup->actions.dim + 3) > 65536)
        return FAIL(err, FIRM_E_VALUE,
                    "a plan of %d macro actions of %d numbers is too long; lower the horizon",
                    longest, action);

    plan_solver* s = mem_calloc(1, sizeof *s);
    if (!s) return FAIL(err, FIRM_E_MEMORY, "no memory for a planner");
    s->setup = *setup;
    s->now = setup->options;
    s->longest = longest;
    s->terms = terms;
    s->cost = (plan_cost){.by = setup->world.price,
                          .mode = setup->options.mode,
                          .price = setup->options.price,
                          .running = setup->options.running,
                          .arrive = setup->options.arrive,
                          .stray = setup->options.stray,
                          .ahead = setup->options.ahead,
                          .ahead_price = setup->options.ahead_price};
    s->doubt = (plan_doubt){.members = setup->world.model.members,
                            .price = setup->options.ensemble_price,
                            .quantile = setup->options.ensemble_quantile};
    s->bytes = layout(s, NULL);
    s->memory = mem_calloc(s->bytes, 1);
    if (!s->memory) {
        size_t bytes = s->bytes;
        plan_solver_free(s);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %zu bytes of planner", bytes);
    }
    layout(s, s->memory);
    plan_colour_basis(&s->setup.options, longest * setup->actions.controls, s->basis);
    plan_solver_reset(s, setup->seed);
    firm_status status = setup->world.device.context ? time_device(s, err) : FIRM_OK;
    if (status != FIRM_OK) {
        plan_solver_free(s);
        return status;
    }
    *out = s;
    return FIRM_OK;
}

void plan_solver_free(plan_solver* s) {
    if (!s) return;
    mem_free(s->memory);
    mem_free(s);
}

size_t plan_solver_bytes(const plan_solver* s) {
    return s->bytes + sizeof *s;
}

void plan_solver_forget(plan_solver* s) {
    s->have_plan = 0;
    s->horizon = s->setup.options.horizon;
    s->arrival = s->cut = 0;
}

const plan_phases* plan_solver_phases(const plan_solver* s) {
    return &s->phases;
}

int plan_solver_on_device(const plan_solver* s) {
    return s->setup.world.device.context != NULL;
}

void plan_solver_watch(plan_solver* s, plan_watch watch, void* context) {
    s->watch = watch;
    s->watching = context;
    if (watch) s->setup.world.device = (plan_device){0};
}

void plan_solver_reset(plan_solver* s, uint64_t seed) {
    plan_solver_forget(s);
    s->setup.seed = seed;
    s->solve = 0;
}

// ---- deadlines ----------------------------------------------------------------------------------

// Under a deadline: iterations worth having, and candidates worth having in one of them.
enum { FEW_ITERATIONS = 3, FEW_CANDIDATES = 32 };

// Of the time that a solve has, so much is left unplanned, a millisecond at most: a batch that
// takes longer than those before it, and what is read from a plan, should not overrun the deadline.
#define SPARE 0.05
#define SPARE_MOST_NS 1e6

static double left_ns(int64_t deadline_ns) {
    return (double)(deadline_ns - clock_ns());
}

// Whether a batch should end within ns.
static int in_time(const plan_solver* s, int units, double ns) {
    return 1.1 * plan_pace_expect(&s->pace, units, s->horizon) <= ns;
}

// Candidates of a batch one unit wide: a unit on every thread.
static int per_unit(const plan_solver* s) {
    return s->setup.world.model.lanes *
           (s->setup.world.model.whole ? 1 : pool_threads(s->setup.threads));
}

static int narrowest(const plan_solver* s) {
    int n = per_unit(s) > 2 ? per_unit(s) : 2;
    return n < s->setup.options.candidates ? n : s->setup.options.candidates;
}

// Candidates of the widest batch that should end within ns at this horizon; 0: none does.
static int widest(const plan_solver* s, double ns) {
    int most = s->setup.options.candidates, low = 0, high = plan_units(s, most);
    if (plan_pace_expect(&s->pace, 1, 1) == 0) return narrowest(s);  // find out
    while (low < high) {  // low units fit, more than high do not
        int middle = (low + high + 1) / 2;
        if (in_time(s, middle, ns))
            low = middle;
        else
            high = middle - 1;
    }
    int64_t n = (int64_t)low * per_unit(s);
    if (n == 1) n = 0;  // elites need two
    return n < most ? (int)n : most;
}

// Macro actions from .. horizon - 1 of elite i: those of the recording that it follows while there
// are any, then the mean action.
static void extend_elite(plan_solver* s, int i, int from) {
    int a = s->setup.world.model.action;
    const plan_sight* sight = &s->setup.world.sight;
    const plan_trail* trail = &s->best.trail[i];
    float* u = s->best.u + (size_t)i * (size_t)(s->longest * a);
    int follows = trail->first >= 0 && sight->follow && s->setup.options.ahead > 0;
    for (int k = from; k < s->horizon; k++) {
        follows = follows && sight->follow(sight->context, trail->first, k, u + k * a);
        if (!follows) memset(u + k * a, 0, (size_t)a * sizeof *u);
    }
}

static void set_horizon(plan_solver* s, int horizon) {
    int old = s->horizon;
    s->horizon = horizon;
    for (int i = 0; i < s->best.count; i++) extend_elite(s, i, old);
}

// Nothing should end in time, and nothing was tried in this solve. If the narrowest batch could
// end in time all the same, it is tried; if only a shorter one could, the horizon is cut.
static int last_resort(plan_solver* s, double ns) {
    if (plan_pace_least(&s->pace, 1, s->horizon) > ns) {
        int steps = (int)(ns / plan_pace_least(&s->pace, 1, 1));
        if (steps < 1) return 0;
        set_horizon(s, steps);
    }
    return narrowest(s);
}

// Sets s->now to as many candidates as the rule wants in this iteration and the time left allows;
// returns 0 when it allows none.
// reserve: macro steps of a single candidate that come after the last iteration.
static int fits(plan_solver* s, int iteration, int64_t deadline_ns, int reserve, plan_result* r) {
    const plan_options* o = &s->setup.options;
    s->now = *o;
    s->now.candidates = plan_update_candidates(o, iteration, o->candidates, o->elites);
    if (deadline_ns == 0) return 1;
    double all = left_ns(deadline_ns);
    double ns = all - s->spare_ns - 1.1 * plan_pace_expect(&s->pace, 1, reserve);
    int n = 0;
    if (ns > 0) {
        // a few iterations find more than one of all candidates does
        int whole = widest(s, ns), more = FEW_ITERATIONS - r->iterations;
        n = more > 1 ? widest(s, ns / more) : whole;
        if (n < FEW_CANDIDATES) n = whole < FEW_CANDIDATES ? whole : FEW_CANDIDATES;
    }
    if (n == 0 && all > 0 && r->iterations == 0) n = last_resort(s, all);
    if (n < s->now.candidates) {
        r->late = 1;
        s->now.candidates = n;
        s->now.elites = (int)((int64_t)o->elites * n / o->candidates);
        if (s->now.elites < 2) s->now.elites = 2;
        if (s->now.keep > s->now.elites) s->now.keep = s->now.elites;
    }
    return n > 0;
}

// ---- a solve ------------------------------------------------------------------------------------

static void start_fit(plan_solver* s, const float* mean) {
    int n = s->horizon * s->setup.world.model.action;
    for (int j = 0; j < n; j++) {
        s->mean[j] = mean ? mean[j] : 0.0f;
        s->spread[j] = s->setup.options.spread;
    }
}

// The mean was never a candidate: it is predicted once, for its path.
static void take_mean(plan_solver* s, plan_result* r) {
    memcpy(s->plan, s->mean, (size_t)(s->horizon * s->setup.world.model.action) * sizeof(float));
    if (r->iterations == 0) return;
    int64_t begun = clock_ns();
    float* path = s->path + s->setup.world.model.state;
    plan_predict(s, 0, 0, 1, s->plan, path);
    plan_trail trail = plan_mean_trail(s);
    r->cost = plan_cost_of(s, 0, path, &trail, &r->arrival);
    plan_pace_add(&s->pace, 1, s->horizon, clock_ns() - begun);
}

// The best candidate, whose path is known.
static void take_best(plan_solver* s, plan_result* r) {
    int a = s->setup.world.model.action, c = s->setup.world.model.state;
    memcpy(s->plan, s->best.u, (size_t)(s->horizon * a) * sizeof(float));
    memcpy(s->path + c, s->best.c, (size_t)(s->horizon * c) * sizeof(float));
    r->cost = s->best.value[0];
    r->arrival = s->best.arrival[0];
}

static void solve_contract(plan_solver* s, int64_t deadline_ns, plan_result* r) {
    const plan_options* o = &s->setup.options;
    s->horizon = o->horizon;
    start_fit(s, NULL);
    for (int i = 0; i < o->iterations && fits(s, i, deadline_ns, s->horizon, r); i++) {
        int kept = plan_update_kept(o, s->now.elites);
        plan_iterate(s, i, 0, i == 0 ? 0 : kept < s->best.count ? kept : s->best.count, r);
    }
    double sum = 0.0;
    for (int i = 0; i < s->best.count && r->iterations; i++) sum += s->best.value[i];
    if (r->iterations && s->best.count) r->elite_cost = (float)(sum / s->best.count);
    int in_time = !deadline_ns || left_ns(deadline_ns) >= plan_pace_expect(&s->pace, 1, s->horizon);
    if (r->iterations && s->best.count && (!in_time || plan_update_takes_best(o)))
        take_best(s, r);
    else
        take_mean(s, r);
}

static int arrives(const plan_solver* s) {
    if (s->best.count == 0) return 0;
    const float* c = s->best.c + (s->best.arrival[0] - 1) * s->setup.world.model.state;
    return s->cost.by.units(s->cost.by.context, c, s->goal) <= s->setup.options.arrive;
}

// Iterations at one horizon, from the elites in hand if there are any. Returns 0 when out of time.
static int search(plan_solver* s, int64_t deadline_ns, int* iteration, plan_result* r) {
    const plan_options* o = &s->setup.options;
    if (!fits(s, 0, deadline_ns, 0, r)) return 0;
    int given = s->have_plan ? s->best.count : 0;
    if (given > s->now.keep) given = s->now.keep;
    if (given > s->now.candidates - 1) given = s->now.candidates - 1;
    start_fit(s, s->have_plan && s->best.count ? s->best.u : NULL);
    float best = INFINITY;
    for (int i = 0, since = 0; i < o->iterations; i++) {
        if (i > 0 && !fits(s, i, deadline_ns, 0, r)) return 0;
        int kept = i == 0 ? 0 : s->best.count < s->now.keep ? s->best.count : s->now.keep;
        plan_iterate(s, (*iteration)++, i == 0 ? given : 0, kept, r);
        s->have_plan = s->best.count > 0;
        // a hundredth of a tolerance is no gain worth another iteration
        since = s->best.count && s->best.value[0] < best - 0.01f ? 0 : since + 1;
        if (s->best.count) best = s->best.value[0];
        if (o->patience && since >= o->patience && arrives(s)) break;
    }
    return 1;
}

// Where to look first: two macro steps beyond the last plan's arrival, or further than a search
// that the deadline ended before it arrived.
static int first_horizon(const plan_solver* s) {
    const plan_options* o = &s->setup.options;
    int horizon = s->horizon;
    if (s->have_plan && s->arrival > 0)
        horizon = s->arrival + 2 > o->horizon ? s->arrival + 2 : o->horizon;
    else if (s->cut)
        horizon = 2 * s->horizon > o->horizon ? 2 * s->horizon : o->horizon;
    return horizon < o->horizon_max ? horizon : o->horizon_max;
}

static void solve_reach(plan_solver* s, int64_t deadline_ns, plan_result* r) {
    const plan_options* o = &s->setup.options;
    int iteration = 0;
    set_horizon(s, first_horizon(s));
    while (search(s, deadline_ns, &iteration, r) && !arrives(s) && s->horizon < o->horizon_max)
        set_horizon(s, 2 * s->horizon < o->horizon_max ? 2 * s->horizon : o->horizon_max);
    int a = s->setup.world.model.action;
    s->cut = r->late;
    if (!s->have_plan) {
        memset(s->plan, 0, (size_t)(s->horizon * a) * sizeof(float));
        return;
    }
    s->arrival = 0;
    if (r->iterations == 0) {  // the plan in hand, whose path is not known any more
        memcpy(s->plan, s->best.u, (size_t)(s->horizon * a) * sizeof(float));
        return;
    }
    take_best(s, r);
    if (arrives(s)) s->arrival = r->arrival;
}

// Copies the paths of `fan` candidates of the last iteration, evenly over the ranks.
static void spread_fan(plan_solver* s, plan_result* r) {
    int c = s->setup.world.model.state, finite = plan_rank_candidates(s);
    r->fan = s->setup.fan < finite ? s->setup.fan : finite;
    for (int i = 0; i < r->fan; i++) {
        int id = s->order[r->fan > 1 ? (int)((int64_t)i * (finite - 1) / (r->fan - 1)) : 0];
        float* to = s->fan_path + (size_t)i * (size_t)((s->horizon + 1) * c);
        memcpy(to, s->c0, (size_t)c * sizeof(float));
        memcpy(to + c, s->c + (size_t)id * (size_t)(s->horizon * c),
               (size_t)(s->horizon * c) * sizeof(float));
    }
    if (r->fan) r->fan_path = s->fan_path;
}

// ---- on a device --------------------------------------------------------------------------------

// Iterations that should end before the deadline. One is tried when it could, too.
static int iterations_that_fit(const plan_solver* s, int64_t deadline_ns) {
    int n = s->setup.options.iterations, units = plan_units(s, s->setup.options.candidates);
    if (deadline_ns == 0) return n;
    double ns = left_ns(deadline_ns) - s->spare_ns;
    while (n > 0 && 1.1 * plan_pace_expect(&s->pace, units, n * s->horizon) > ns) n--;
    if (n == 0 && ns > 0 && plan_pace_least(&s->pace, units, s->horizon) <= ns) n = 1;
    return n;
}

// What a search on the device found, as if it had been found here.
static void take_answer(plan_solver* s, const plan_answer* a, int iterations, plan_result* r) {
    int n = s->setup.options.candidates, c = s->setup.world.model.state;
    r->iterations = iterations;
    r->rows = (int64_t)iterations * n * s->horizon;
    r->nonfinite = a->nonfinite;
    r->elite_cost = a->elite_cost;
    memcpy(s->plan, a->plan, (size_t)(s->horizon * s->setup.world.model.action) * sizeof(float));
    memcpy(s->path + c, a->path, (size_t)(s->horizon * c) * sizeof(float));
    r->cost = plan_cost_path(&s->cost, s->c0, s->path + c, s->horizon, s->goal, &r->arrival);
    if (!a->value) return;
    memcpy(s->value, a->value, (size_t)n * sizeof(float));
    memcpy(s->c, a->paths, (size_t)n * (size_t)(s->horizon * c) * sizeof(float));
    for (int i = 0; i < n; i++) s->order[i] = i;
    plan_sort_ids(s->value, s->order, n);
}

static void solve_on_device(plan_solver* s, int64_t deadline_ns, plan_result* r) {
    int iterations = iterations_that_fit(s, deadline_ns);
    r->late = iterations < s->setup.options.iterations;
    memset(s->plan, 0, (size_t)(s->horizon * s->setup.world.model.action) * sizeof(float));
    if (iterations == 0) return;
    const plan_device* device = &s->setup.world.device;
    plan_problem p;
    plan_answer a;
    int64_t begun = clock_ns();
    plan_solver_pose(s, s->c0, s->goal, &p);
    r->status = device->solve(device->context, 1, &p, iterations, s->setup.fan > 0, &a, &s->error);
    if (r->status != FIRM_OK) {
        r->error = &s->error;
        return;
    }
    take_answer(s, &a, iterations, r);
    plan_pace_add(&s->pace, plan_units(s, s->setup.options.candidates), iterations * s->horizon,
                  clock_ns() - begun);
}

void plan_solver_pose(plan_solver* s, const float* c0, const float* goal, plan_problem* problem) {
    size_t bytes = (size_t)s->setup.world.model.state * sizeof(float);
    memmove(s->c0, c0, bytes);
    memmove(s->goal, goal, bytes);
    *problem = (plan_problem){.now = s->c0,
                              .memory = s->setup.world.memory,
                              .goal = s->goal,
                              .seed = s->setup.seed,
                              .solve = s->solve};
}

// ---- a solve, wherever --------------------------------------------------------------------------

static void begin(plan_solver* s, const float* c0, const float* goal, plan_result* r) {
    size_t bytes = (size_t)s->setup.world.model.state * sizeof(float);
    *r = (plan_result){.cost = INFINITY, .elite_cost = INFINITY, .arrival = 1};
    memmove(s->c0, c0, bytes);
    memmove(s->goal, goal, bytes);
}

static void end(plan_solver* s, plan_result* r) {
    int c = s->setup.world.model.state;
    s->solve++;
    s->recalled.count = 0;
    // without any prediction the path stays where it starts
    memcpy(s->path, s->c0, (size_t)c * sizeof(float));
    for (int k = 1; k <= s->horizon && r->iterations == 0; k++)
        memcpy(s->path + k * c, s->c0, (size_t)c * sizeof(float));
    if (r->iterations && s->setup.fan) spread_fan(s, r);
    r->empty = r->iterations == 0 && !s->have_plan;
    r->plan = s->plan;
    r->path = s->path;
    r->horizon = s->horizon;
}

void plan_solver_accept(plan_solver* s, const plan_answer* answer, int iterations, double ms,
                        plan_result* result) {
    begin(s, s->c0, s->goal, result);
    take_answer(s, answer, iterations, result);
    end(s, result);
    result->ms = ms;
}

void plan_solver_solve(plan_solver* s, const float* c0, const float* goal, int64_t deadline_ns,
                       plan_result* result) {
    int64_t begun = clock_ns();
    s->spare_ns = deadline_ns ? fmin(SPARE * (double)(deadline_ns - begun), SPARE_MOST_NS) : 0;
    begin(s, c0, goal, result);
    if (s->setup.options.mode == FIRM_MODE_REACH)
        solve_reach(s, deadline_ns, result);
    else if (plan_solver_on_device(s))
        solve_on_device(s, deadline_ns, result);
    else
        solve_contract(s, deadline_ns, result);
    end(s, result);
    int64_t ended = clock_ns();
    if (deadline_ns && ended > deadline_ns) result->late = 1;
    result->ms = (double)(ended - begun) * 1e-6;
}

void plan_solver_recall(plan_solver* s, const plan_recalled* recalled) {
    s->recalled = *recalled;
}

// The recording `macros` macro actions later, or none if it ends before. u: room for one.
static void advance_trail(const plan_solver* s, plan_trail* trail, int macros, float* u) {
    const plan_sight* sight = &s->setup.world.sight;
    if (trail->first < 0) return;
    if (sight->follow(sight->context, trail->first, macros - 1, u))
        trail->first += macros;
    else
        trail->first = -1;
}

void plan_solver_advance(plan_solver* s, int macros) {
    if (!s->have_plan || macros <= 0) return;
    int a = s->setup.world.model.action, left = s->horizon - macros;
    if (left <= 0) {
        plan_solver_forget(s);
        return;
    }
    for (int i = 0; i < s->best.count; i++) {
        float* u = s->best.u + (size_t)i * (size_t)(s->longest * a);
        memmove(u, u + macros * a, (size_t)(left * a) * sizeof(float));
        advance_trail(s, &s->best.trail[i], macros, u + left * a);
        extend_elite(s, i, left);
    }
    s->arrival = s->arrival > macros ? s->arrival - macros : 0;
}

// ---- saved and restored -------------------------------------------------------------------------

static void walk_result(plan_solver* s, blob* b, plan_result* r) {
    int solved = r->path != NULL, fanned = r->fan_path != NULL;
    BLOB_FIELD(b, solved);
    BLOB_FIELD(b, fanned);
    BLOB_FIELD(b, r->empty);
    BLOB_FIELD(b, r->late);
    BLOB_FIELD(b, r->nonfinite);
    BLOB_FIELD(b, r->iterations);
    BLOB_FIELD(b, r->rows);
    BLOB_FIELD(b, r->ms);
    BLOB_FIELD(b, r->cost);
    BLOB_FIELD(b, r->elite_cost);
    BLOB_FIELD(b, r->arrival);
    BLOB_FIELD(b, r->horizon);
    BLOB_FIELD(b, r->fan);
    if (b->way != BLOB_RESTORE) return;
    r->status = FIRM_OK;
    r->error = NULL;
    r->plan = solved ? s->plan : NULL;
    r->path = solved ? s->path : NULL;
    r->fan_path = fanned ? s->fan_path : NULL;
}

void plan_solver_walk(plan_solver* s, blob* b, plan_result* result) {
    size_t p = (size_t)s->longest, a = (size_t)s->setup.world.model.action,
           c = (size_t)s->setup.world.model.state, e = (size_t)s->setup.options.elites;
    BLOB_FIELD(b, s->setup.seed);
    BLOB_FIELD(b, s->solve);
    BLOB_FIELD(b, s->have_plan);
    BLOB_FIELD(b, s->horizon);
    BLOB_FIELD(b, s->arrival);
    BLOB_FIELD(b, s->cut);
    BLOB_FIELD(b, s->best.count);
    blob_field(b, s->best.u, e * p * a * sizeof(float));
    blob_field(b, s->best.c, e * p * c * sizeof(float));
    blob_field(b, s->best.value, e * sizeof(float));
    blob_field(b, s->best.arrival, e * sizeof(int));
    blob_field(b, s->best.trail, e * sizeof(plan_trail));
    blob_field(b, s->plan, p * a * sizeof(float));
    blob_field(b, s->path, (p + 1) * c * sizeof(float));
    blob_field(b, s->fan_path, (size_t)s->setup.fan * (p + 1) * c * sizeof(float));
    walk_result(s, b, result);
}
