// cem.c - the solver: propose, predict, price, select, refit, until done or out of time.
// The candidates come from propose.c, predictions from a plan_model, costs from cost.c.
#include "plan/cem.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "plan/propose.h"

// Candidates of one piece of work at most; about one cache block of the learned transition.
enum { PIECE = 96 };

// Best candidates, best first.
typedef struct elite_set {
    int count;
    float* u;      // (elites, longest * action), rows of fixed stride
    float* c;      // (elites, longest * config)
    float* value;  // (elites) cost
    int* arrival;  // (elites)
} elite_set;

struct plan_solver {
    plan_setup setup;
    plan_cost cost;
    int longest;        // horizon that memory is taken for
    uint64_t solve;     // number of the next solve, part of the noise key
    int have_plan;      // elites hold (shifted) plans of the last solve
    int horizon;        // of the current or last solve
    int arrival;        // of the last plan, minus what was executed; 0: did not arrive
    double slowest_ns;  // per candidate and macro step, of any iteration so far
    double final_ns;    // of evaluating the final mean

    float *mean, *spread;  // (longest * action)
    float* u;              // (candidates, horizon, action)
    float* c;              // (candidates, horizon, config)
    float* value;         // (candidates + elites): the candidates' costs, then those of kept elites
    int *arrive, *order;  // (candidates), (candidates + elites)
    elite_set best, last;  // of this iteration, of the one before
    float *plan, *path, *fan_path;
    float c0[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG];
    plan_proposal proposal;
    const float* recalled;  // for the next solve; count 0: none
    int recalled_count, recalled_length;
    int nonfinite_piece[1 << 10];
    int pieces;
    char* memory;
    size_t bytes;
};

// ---- memory -------------------------------------------------------------------------------------

static size_t layout(plan_solver* s, char* memory) {
    const plan_options* o = &s->setup.options;
    size_t n = (size_t)o->candidates, e = (size_t)o->elites, p = (size_t)s->longest;
    size_t a = (size_t)s->setup.model.action, c = (size_t)s->setup.model.config, at = 0;
    struct {
        void* slot;
        size_t bytes;
    } part[] = {
        {&s->mean, 4 * p * a},       {&s->spread, 4 * p * a},
        {&s->u, 4 * n * p * a},      {&s->c, 4 * n * p * c},
        {&s->value, 4 * (n + e)},    {&s->arrive, 4 * n},
        {&s->order, 4 * (n + e)},    {&s->best.u, 4 * e * p * a},
        {&s->best.c, 4 * e * p * c}, {&s->best.value, 4 * e},
        {&s->best.arrival, 4 * e},   {&s->last.u, 4 * e * p * a},
        {&s->last.c, 4 * e * p * c}, {&s->last.value, 4 * e},
        {&s->last.arrival, 4 * e},   {&s->plan, 4 * p * a},
        {&s->path, 4 * (p + 1) * c}, {&s->fan_path, 4 * (size_t)s->setup.fan * (p + 1) * c},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (memory) memcpy(part[i].slot, &(char*){memory + at}, sizeof(char*));
        at += (part[i].bytes + 63) / 64 * 64;
    }
    return at;
}

// How long an iteration on the GPU takes, for deadlines: nobody can look at the clock in between.
static firm_status time_gpu(plan_solver* s, firm_error* err) {
    const plan_options* o = &s->setup.options;
    plan_gpu_problem p = {s->c0, s->setup.gpu->m0, s->goal, 0, 0};
    plan_gpu_answer a;
    for (int i = 0; i < 2; i++) {  // the first one loads the kernels
        int64_t begun = clock_ns();
        TRY(plan_gpu_solve(s->setup.gpu->gpu, 1, &p, o->iterations, 0, &a, err));
        s->slowest_ns =
            (double)(clock_ns() - begun) / ((double)o->iterations * o->candidates * o->horizon);
    }
    return FIRM_OK;
}

firm_status plan_solver_create(const plan_setup* setup, plan_solver** out, firm_error* err) {
    *out = NULL;
    TRY(plan_options_check(&setup->options, err));
    int action = setup->actions.dim * setup->actions.controls;
    if (setup->model.action != action || setup->model.config != setup->spec->config_dim ||
        setup->actions.dim > FIRM_MAX_ACTION)
        return FAIL(err, FIRM_E_TASK,
                    "the model has %d action and %d configuration numbers, task %s has %d and %d",
                    setup->model.action, setup->model.config, setup->spec->name, action,
                    setup->spec->config_dim);
    if (!setup->model.whole && setup->model.workers < pool_threads(setup->threads))
        return FAIL(err, FIRM_E_USAGE, "the model serves %d threads, the pool has %d",
                    setup->model.workers, pool_threads(setup->threads));
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
    if ((int64_t)longest * action > 65536)
        return FAIL(err, FIRM_E_VALUE,
                    "a plan of %d macro actions of %d numbers is too long; lower the horizon",
                    longest, action);

    plan_solver* s = mem_calloc(1, sizeof *s);
    if (!s) return FAIL(err, FIRM_E_MEMORY, "no memory for a planner");
    s->setup = *setup;
    s->longest = longest;
    s->cost = (plan_cost){.spec = setup->spec,
                          .mode = setup->options.mode,
                          .price = setup->options.price,
                          .running = setup->options.running,
                          .arrive = setup->options.arrive,
                          .support = setup->options.stray > 0 ? setup->support : NULL,
                          .stray = setup->options.stray};
    s->bytes = layout(s, NULL);
    s->memory = mem_calloc(s->bytes, 1);
    if (!s->memory) {
        size_t bytes = s->bytes;
        plan_solver_free(s);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %zu bytes of planner", bytes);
    }
    layout(s, s->memory);
    plan_solver_reset(s, setup->seed);
    firm_status status = setup->gpu ? time_gpu(s, err) : FIRM_OK;
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
    s->arrival = 0;
}

void plan_solver_reset(plan_solver* s, uint64_t seed) {
    plan_solver_forget(s);
    s->setup.seed = seed;
    s->solve = 0;
}

// ---- one iteration ------------------------------------------------------------------------------

// Pieces are whole units of the model's lanes and as even as these allow; every thread gets equally
// many. Their number depends on the threads, the results do not: see net.h.
static int count_pieces(const plan_solver* s) {
    int lanes = s->setup.model.lanes, units = (s->setup.options.candidates + lanes - 1) / lanes;
    int threads = pool_threads(s->setup.threads), most = PIECE / lanes > 0 ? PIECE / lanes : 1;
    int pieces = (units + threads * most - 1) / (threads * most) * threads;
    int limit = (int)(sizeof s->nonfinite_piece / sizeof *s->nonfinite_piece);
    if (pieces > units) pieces = units;
    return pieces > limit ? limit : pieces;
}

// The candidates of one piece: *from .. *to - 1.
static void piece_range(const plan_solver* s, int item, int* from, int* to) {
    int n = s->setup.options.candidates, lanes = s->setup.model.lanes;
    int units = (n + lanes - 1) / lanes;
    *from = (int)((int64_t)units * item / s->pieces) * lanes;
    *to = (int)((int64_t)units * (item + 1) / s->pieces) * lanes;
    if (*to > n) *to = n;
}

static void draw_piece(void* arg, int item, int worker) {
    (void)worker;
    plan_solver* s = arg;
    int from, to;
    piece_range(s, item, &from, &to);
    size_t us = (size_t)s->horizon * (size_t)s->setup.model.action;
    for (int i = from; i < to; i++) plan_propose(&s->proposal, i, s->u + (size_t)i * us);
}

static void price_piece(void* arg, int item, int worker) {
    (void)worker;
    plan_solver* s = arg;
    int from, to;
    piece_range(s, item, &from, &to);
    size_t cs = (size_t)s->horizon * (size_t)s->setup.model.config;
    for (int i = from; i < to; i++)
        s->value[i] = plan_cost_path(&s->cost, s->c0, s->c + (size_t)i * cs, s->horizon, s->goal,
                                     &s->arrive[i]);
}

static void run_piece(void* arg, int item, int worker) {
    plan_solver* s = arg;
    const plan_model* model = &s->setup.model;
    int from, to;
    piece_range(s, item, &from, &to);
    size_t us = (size_t)s->horizon * (size_t)model->action,
           cs = (size_t)s->horizon * (size_t)model->config;
    draw_piece(s, item, worker);
    s->nonfinite_piece[item] = model->rollout(model->context, worker, to - from, s->horizon,
                                              s->u + (size_t)from * us, s->c + (size_t)from * cs);
    price_piece(s, item, worker);
}

// Draws, predicts and prices all candidates; returns how many are not finite.
static int run_candidates(plan_solver* s) {
    const plan_model* model = &s->setup.model;
    int nonfinite = 0;
    s->pieces = count_pieces(s);
    if (model->whole) {
        pool_for(s->setup.threads, s->pieces, draw_piece, s);
        nonfinite =
            model->rollout(model->context, 0, s->setup.options.candidates, s->horizon, s->u, s->c);
        pool_for(s->setup.threads, s->pieces, price_piece, s);
        return nonfinite;
    }
    pool_for(s->setup.threads, s->pieces, run_piece, s);
    for (int i = 0; i < s->pieces; i++) nonfinite += s->nonfinite_piece[i];
    return nonfinite;
}

static int better(const float* value, int a, int b) {
    return value[a] < value[b] || (value[a] == value[b] && a < b);
}

// Heap sort of ids by (value, id): no allocation, and ties have one answer. Costs are never NaN.
static void sort_ids(const float* value, int* id, int n) {
    for (int phase = 0, root = n / 2 - 1, end = n; phase < 2; phase++)
        for (;;) {
            if (phase == 0) {
                if (root < 0) break;
            } else {
                if (--end <= 0) break;
                int top = id[0];
                id[0] = id[end];
                id[end] = top;
                root = 0;
            }
            for (int i = root, child; (child = 2 * i + 1) < end; i = child) {
                if (child + 1 < end && better(value, id[child], id[child + 1])) child++;
                if (!better(value, id[i], id[child])) break;
                int keep = id[i];
                id[i] = id[child];
                id[child] = keep;
            }
            if (phase == 0) root--;
        }
}

// Ranks this iteration's candidates and the kept elites, and copies the best into s->best.
static void select_elites(plan_solver* s, int kept) {
    int n = s->setup.options.candidates, elites = s->setup.options.elites, horizon = s->horizon;
    size_t us = (size_t)horizon * (size_t)s->setup.model.action,
           cs = (size_t)horizon * (size_t)s->setup.model.config;
    size_t eu = (size_t)(s->longest * s->setup.model.action),
           ec = (size_t)(s->longest * s->setup.model.config);
    elite_set swap = s->last;
    s->last = s->best;
    s->best = swap;
    for (int i = 0; i < kept; i++) s->value[n + i] = s->last.value[i];
    for (int i = 0; i < n + kept; i++) s->order[i] = i;
    sort_ids(s->value, s->order, n + kept);
    int count = 0;
    for (; count < elites && isfinite(s->value[s->order[count]]); count++) {
        int id = s->order[count], old = id - n;
        const float* u = old < 0 ? s->u + (size_t)id * us : s->last.u + (size_t)old * eu;
        const float* c = old < 0 ? s->c + (size_t)id * cs : s->last.c + (size_t)old * ec;
        memcpy(s->best.u + (size_t)count * eu, u, us * sizeof(float));
        memcpy(s->best.c + (size_t)count * ec, c, cs * sizeof(float));
        s->best.value[count] = s->value[id];
        s->best.arrival[count] = old < 0 ? s->arrive[id] : s->last.arrival[old];
    }
    s->best.count = count;
}

// Mean and unbiased deviation of the elites; with none (all candidates not finite) the fit stays.
static void refit(plan_solver* s) {
    int n = s->horizon * s->setup.model.action, elites = s->best.count;
    size_t eu = (size_t)(s->longest * s->setup.model.action);
    if (elites == 0) return;
    for (int j = 0; j < n; j++) {
        double sum = 0.0, squares = 0.0;
        for (int i = 0; i < elites; i++) sum += s->best.u[(size_t)i * eu + (size_t)j];
        double mean = sum / elites;
        for (int i = 0; i < elites; i++) {
            double d = s->best.u[(size_t)i * eu + (size_t)j] - mean;
            squares += d * d;
        }
        s->mean[j] = (float)mean;
        if (elites > 1) s->spread[j] = (float)sqrt(squares / (elites - 1));
        if (s->setup.options.mode == FIRM_MODE_REACH && s->spread[j] < s->setup.options.floor)
            s->spread[j] = s->setup.options.floor;
    }
}

// ---- a solve ------------------------------------------------------------------------------------

static int fits(const plan_solver* s, int64_t deadline_ns, int iterations) {
    if (deadline_ns == 0) return 1;
    double rows = (double)s->setup.options.candidates * s->horizon;
    double need = iterations * 1.1 * s->slowest_ns * rows + 1.1 * s->final_ns;
    return (double)(deadline_ns - clock_ns()) > need;
}

static void iterate(plan_solver* s, int iteration, int given, int kept, plan_result* r) {
    const plan_options* o = &s->setup.options;
    int64_t begun = clock_ns();
    s->proposal = (plan_proposal){.options = o,
                                  .actions = &s->setup.actions,
                                  .seed = s->setup.seed,
                                  .solve = s->solve,
                                  .iteration = iteration,
                                  .horizon = s->horizon,
                                  .mean = s->mean,
                                  .spread = s->spread,
                                  .given = given,
                                  .given_stride = s->longest * s->setup.model.action,
                                  .given_plan = s->best.u,
                                  .recorded = s->recalled_count,
                                  .recorded_length = s->recalled_length,
                                  .recorded_plan = s->recalled};
    r->nonfinite += run_candidates(s);
    select_elites(s, kept);
    refit(s);
    double rows = (double)o->candidates * s->horizon, ns = (double)(clock_ns() - begun) / rows;
    if (ns > s->slowest_ns) s->slowest_ns = ns;
    r->iterations++;
    r->rows += (int64_t)rows;
}

static void start_fit(plan_solver* s, const float* mean) {
    int n = s->horizon * s->setup.model.action;
    for (int j = 0; j < n; j++) {
        s->mean[j] = mean ? mean[j] : 0.0f;
        s->spread[j] = s->setup.options.spread;
    }
}

static void solve_contract(plan_solver* s, int64_t deadline_ns, plan_result* r) {
    const plan_options* o = &s->setup.options;
    start_fit(s, NULL);
    for (int i = 0; i < o->iterations; i++) {
        if (!fits(s, deadline_ns, 1)) {
            r->late = 1;
            break;
        }
        iterate(s, i, 0, 0, r);
    }
    memcpy(s->plan, s->mean, (size_t)(s->horizon * s->setup.model.action) * sizeof(float));
    double sum = 0.0;
    for (int i = 0; i < s->best.count && r->iterations; i++) sum += s->best.value[i];
    if (r->iterations && s->best.count) r->elite_cost = (float)(sum / s->best.count);
    if (r->iterations == 0) return;
    // the mean was never a candidate: predict it once, for its path
    int64_t begun = clock_ns();
    float* path = s->path + s->setup.model.config;
    s->setup.model.rollout(s->setup.model.context, 0, 1, s->horizon, s->plan, path);
    r->cost = plan_cost_path(&s->cost, s->c0, path, s->horizon, s->goal, &r->arrival);
    double ns = (double)(clock_ns() - begun);
    if (ns > s->final_ns) s->final_ns = ns;
}

static int arrives(const plan_solver* s) {
    if (s->best.count == 0) return 0;
    const float* c = s->best.c + (s->best.arrival[0] - 1) * s->setup.model.config;
    return env_tolerance_units(s->setup.spec, c, s->goal) <= s->setup.options.arrive;
}

// Iterations at one horizon, from the elites in hand if there are any. Returns 0 when out of time.
static int search(plan_solver* s, int64_t deadline_ns, int* iteration, plan_result* r) {
    const plan_options* o = &s->setup.options;
    int given = s->have_plan ? s->best.count : 0;
    if (given > o->keep) given = o->keep;
    start_fit(s, s->have_plan && s->best.count ? s->best.u : NULL);
    float best = INFINITY;
    for (int i = 0, since = 0; i < o->iterations; i++) {
        if (!fits(s, deadline_ns, 1)) {
            r->late = 1;
            return 0;
        }
        int kept = i == 0 ? 0 : s->best.count < o->keep ? s->best.count : o->keep;
        iterate(s, (*iteration)++, i == 0 ? given : 0, kept, r);
        s->have_plan = s->best.count > 0;
        // a hundredth of a tolerance is no gain worth another iteration
        since = s->best.count && s->best.value[0] < best - 0.01f ? 0 : since + 1;
        if (s->best.count) best = s->best.value[0];
        if (o->patience && since >= o->patience && arrives(s)) break;
    }
    return 1;
}

static void set_horizon(plan_solver* s, int horizon) {
    int a = s->setup.model.action, old = s->horizon;
    s->horizon = horizon;
    for (int i = 0; i < s->best.count && horizon > old; i++)
        memset(s->best.u + (size_t)i * (size_t)(s->longest * a) + (size_t)(old * a), 0,
               (size_t)((horizon - old) * a) * sizeof(float));
}

static void solve_reach(plan_solver* s, int64_t deadline_ns, plan_result* r) {
    const plan_options* o = &s->setup.options;
    int iteration = 0;
    // two macro steps to spare beyond the last plan's arrival
    if (s->have_plan && s->arrival > 0) {
        int horizon = s->arrival + 2 > o->horizon ? s->arrival + 2 : o->horizon;
        set_horizon(s, horizon < o->horizon_max ? horizon : o->horizon_max);
    }
    while (search(s, deadline_ns, &iteration, r) && !arrives(s) && s->horizon < o->horizon_max)
        set_horizon(s, 2 * s->horizon < o->horizon_max ? 2 * s->horizon : o->horizon_max);
    int a = s->setup.model.action, c = s->setup.model.config;
    if (!s->have_plan) {
        memcpy(s->plan, s->mean, (size_t)(s->horizon * a) * sizeof(float));
        return;
    }
    memcpy(s->plan, s->best.u, (size_t)(s->horizon * a) * sizeof(float));
    s->arrival = 0;
    if (r->iterations == 0) return;
    memcpy(s->path + c, s->best.c, (size_t)(s->horizon * c) * sizeof(float));
    r->cost = s->best.value[0];
    r->arrival = s->best.arrival[0];
    if (arrives(s)) s->arrival = r->arrival;
}

// Copies the paths of `fan` candidates of the last iteration, evenly over the ranks.
static void spread_fan(plan_solver* s, plan_result* r) {
    int n = s->setup.options.candidates, c = s->setup.model.config, kept = 0, finite = 0;
    for (int i = 0; i < s->setup.options.elites + n && kept < n; i++) {
        int id = s->order[i];
        if (id >= n) continue;
        s->order[kept++] = id;
        finite += isfinite(s->value[id]) != 0;
    }
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

// ---- on a GPU -----------------------------------------------------------------------------------

// Iterations that fit before the deadline, none or more.
static int iterations_that_fit(const plan_solver* s, int64_t deadline_ns) {
    int n = s->setup.options.iterations;
    while (n > 0 && !fits(s, deadline_ns, n)) n--;
    return n;
}

// What a search on the GPU found, as if it had been found here.
static void take_answer(plan_solver* s, const plan_gpu_answer* a, int iterations, plan_result* r) {
    int n = s->setup.options.candidates, c = s->setup.model.config;
    r->iterations = iterations;
    r->rows = (int64_t)iterations * n * s->horizon;
    r->nonfinite = a->nonfinite;
    r->elite_cost = a->elite_cost;
    memcpy(s->plan, a->plan, (size_t)(s->horizon * s->setup.model.action) * sizeof(float));
    memcpy(s->path + c, a->path, (size_t)(s->horizon * c) * sizeof(float));
    r->cost = plan_cost_path(&s->cost, s->c0, s->path + c, s->horizon, s->goal, &r->arrival);
    if (!a->value) return;
    memcpy(s->value, a->value, (size_t)n * sizeof(float));
    memcpy(s->c, a->paths, (size_t)n * (size_t)(s->horizon * c) * sizeof(float));
    for (int i = 0; i < n; i++) s->order[i] = i;
    sort_ids(s->value, s->order, n);
}

static void solve_on_gpu(plan_solver* s, int64_t deadline_ns, plan_result* r) {
    int iterations = iterations_that_fit(s, deadline_ns);
    r->late = iterations < s->setup.options.iterations;
    memset(s->plan, 0, (size_t)(s->horizon * s->setup.model.action) * sizeof(float));
    if (iterations == 0) return;
    plan_gpu_problem p;
    plan_gpu_answer a;
    int64_t begun = clock_ns();
    plan_solver_pose(s, s->c0, s->goal, &p);
    p.m0 = s->setup.gpu->m0;
    r->status = plan_gpu_solve(s->setup.gpu->gpu, 1, &p, iterations, s->setup.fan > 0, &a, NULL);
    if (r->status != FIRM_OK) return;
    take_answer(s, &a, iterations, r);
    double ns = (double)(clock_ns() - begun) / (double)r->rows;
    if (ns > s->slowest_ns) s->slowest_ns = ns;
}

void plan_solver_pose(plan_solver* s, const float* c0, const float* goal,
                      plan_gpu_problem* problem) {
    size_t bytes = (size_t)s->setup.model.config * sizeof(float);
    memmove(s->c0, c0, bytes);
    memmove(s->goal, goal, bytes);
    *problem =
        (plan_gpu_problem){.c0 = s->c0, .goal = s->goal, .seed = s->setup.seed, .solve = s->solve};
}

// ---- a solve, wherever --------------------------------------------------------------------------

static void begin(plan_solver* s, const float* c0, const float* goal, plan_result* r) {
    size_t bytes = (size_t)s->setup.model.config * sizeof(float);
    *r = (plan_result){.cost = INFINITY, .elite_cost = INFINITY, .arrival = 1};
    memmove(s->c0, c0, bytes);
    memmove(s->goal, goal, bytes);
}

static void end(plan_solver* s, plan_result* r) {
    int c = s->setup.model.config;
    s->solve++;
    s->recalled_count = 0;
    // without any prediction the path stays where it starts
    memcpy(s->path, s->c0, (size_t)c * sizeof(float));
    for (int k = 1; k <= s->horizon && r->iterations == 0; k++)
        memcpy(s->path + k * c, s->c0, (size_t)c * sizeof(float));
    if (r->iterations && s->setup.fan) spread_fan(s, r);
    r->plan = s->plan;
    r->path = s->path;
    r->horizon = s->horizon;
}

void plan_solver_accept(plan_solver* s, const plan_gpu_answer* answer, int iterations, double ms,
                        plan_result* result) {
    begin(s, s->c0, s->goal, result);
    take_answer(s, answer, iterations, result);
    end(s, result);
    result->ms = ms;
}

void plan_solver_solve(plan_solver* s, const float* c0, const float* goal, int64_t deadline_ns,
                       plan_result* result) {
    int64_t begun = clock_ns();
    begin(s, c0, goal, result);
    if (s->setup.options.mode == FIRM_MODE_REACH)
        solve_reach(s, deadline_ns, result);
    else if (s->setup.gpu)
        solve_on_gpu(s, deadline_ns, result);
    else
        solve_contract(s, deadline_ns, result);
    end(s, result);
    int64_t ended = clock_ns();
    if (deadline_ns && ended > deadline_ns) result->late = 1;
    result->ms = (double)(ended - begun) * 1e-6;
}

void plan_solver_recall(plan_solver* s, const float* plan, int count, int length) {
    s->recalled = plan;
    s->recalled_count = count;
    s->recalled_length = length;
}

void plan_solver_advance(plan_solver* s, int macros) {
    if (!s->have_plan || macros <= 0) return;
    int a = s->setup.model.action, left = s->horizon - macros;
    if (left <= 0) {
        plan_solver_forget(s);
        return;
    }
    for (int i = 0; i < s->best.count; i++) {
        float* u = s->best.u + (size_t)i * (size_t)(s->longest * a);
        memmove(u, u + macros * a, (size_t)(left * a) * sizeof(float));
        memset(u + left * a, 0, (size_t)(macros * a) * sizeof(float));
    }
    s->arrival = s->arrival > macros ? s->arrival - macros : 0;
}
