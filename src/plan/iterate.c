// iterate.c - one iteration of the search: draw, predict and price the candidates, keep the best,
// fit the next proposals to them by the update rule (update.h).
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "plan/cem_internal.h"
#include "plan/update.h"

// Candidates of one piece of work at most, if the model does not say; about one cache block of the
// learned transition.
enum { PIECE = 96 };

int plan_units(const plan_solver* s, int candidates) {
    int lanes = s->setup.world.model.lanes, threads = pool_threads(s->setup.threads);
    int units = (candidates + lanes - 1) / lanes;
    return s->setup.world.model.whole ? units : (units + threads - 1) / threads;
}

// Candidates come in units of the model's lanes; where it predicts all of them at once, any number
// is drawn and priced together.
static int unit_of(const plan_solver* s) {
    return s->setup.world.model.whole ? 1 : s->setup.world.model.lanes;
}

// Pieces are whole units and as even as these allow; every thread gets equally many. Their number
// depends on the threads, the results do not: see net.h.
static int count_pieces(const plan_solver* s) {
    int lanes = unit_of(s), units = (s->now.candidates + lanes - 1) / lanes;
    int piece = s->setup.world.model.piece ? s->setup.world.model.piece : PIECE;
    int threads = pool_threads(s->setup.threads), most = piece / lanes > 0 ? piece / lanes : 1;
    int pieces = (units + threads * most - 1) / (threads * most) * threads;
    int limit = (int)(sizeof s->nonfinite_piece / sizeof *s->nonfinite_piece);
    if (pieces > units) pieces = units;
    return pieces > limit ? limit : pieces;
}

// The candidates of one piece: *from .. *to - 1.
static void piece_range(const plan_solver* s, int item, int* from, int* to) {
    int n = s->now.candidates, lanes = unit_of(s);
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
    size_t us = (size_t)s->horizon * (size_t)s->setup.world.model.action;
    for (int i = from; i < to; i++) {
        plan_propose(&s->proposal, i, s->u + (size_t)i * us);
        s->trail[i] = plan_propose_trail(&s->proposal, i);
    }
}

// What the members predict for candidate i and later ones, if that is asked for.
static float* each_of(const plan_solver* s, int i) {
    size_t path = (size_t)s->horizon * (size_t)s->setup.world.model.state;
    return s->each ? s->each + (size_t)i * (size_t)s->doubt.members * path : NULL;
}

int plan_predict(plan_solver* s, int worker, int from, int count, const float* u, float* c) {
    const plan_model* model = &s->setup.world.model;
    return s->each ? model->rollout_each(model->context, worker, count, s->horizon, u, c,
                                         each_of(s, from))
                   : model->rollout(model->context, worker, count, s->horizon, u, c);
}

float plan_cost_of(const plan_solver* s, int i, const float* c, const plan_trail* trail,
                   int* arrival) {
    if (!s->each) return plan_cost_trail(&s->cost, s->c0, c, s->horizon, trail, s->goal, arrival);
    const plan_paths path = {
        .mean = c, .each = each_of(s, i), .horizon = s->horizon, .trail = *trail};
    return plan_doubt_cost(&s->doubt, &s->cost, s->c0, &path, s->goal, arrival);
}

static void price_piece(void* arg, int item, int worker) {
    (void)worker;
    plan_solver* s = arg;
    int from, to;
    piece_range(s, item, &from, &to);
    size_t cs = (size_t)s->horizon * (size_t)s->setup.world.model.state;
    for (int i = from; i < to; i++)
        s->value[i] = plan_cost_of(s, i, s->c + (size_t)i * cs, &s->trail[i], &s->arrive[i]);
}

static void run_piece(void* arg, int item, int worker) {
    plan_solver* s = arg;
    const plan_model* model = &s->setup.world.model;
    int from, to;
    piece_range(s, item, &from, &to);
    size_t us = (size_t)s->horizon * (size_t)model->action,
           cs = (size_t)s->horizon * (size_t)model->state;
    draw_piece(s, item, worker);
    s->nonfinite_piece[item] = plan_predict(s, worker, from, to - from, s->u + (size_t)from * us,
                                            s->c + (size_t)from * cs);
    price_piece(s, item, worker);
}

// Adds the time since *begun to a phase; the next one begins.
static void spent(int64_t* phase, int64_t* begun) {
    int64_t now = clock_ns();
    *phase += now - *begun;
    *begun = now;
}

// Draws, predicts and prices all candidates; returns how many are not finite.
static int run_candidates(plan_solver* s, int64_t* begun) {
    const plan_model* model = &s->setup.world.model;
    int nonfinite = 0;
    s->pieces = count_pieces(s);
    if (model->whole) {
        pool_for(s->setup.threads, s->pieces, draw_piece, s);
        spent(&s->phases.draw, begun);
        nonfinite = plan_predict(s, 0, 0, s->now.candidates, s->u, s->c);
        spent(&s->phases.roll, begun);
        pool_for(s->setup.threads, s->pieces, price_piece, s);
        spent(&s->phases.price, begun);
        return nonfinite;
    }
    pool_for(s->setup.threads, s->pieces, run_piece, s);
    for (int i = 0; i < s->pieces; i++) nonfinite += s->nonfinite_piece[i];
    spent(&s->phases.roll, begun);
    return nonfinite;
}

static int better(const float* value, int a, int b) {
    return value[a] < value[b] || (value[a] == value[b] && a < b);
}

// heap sort
void plan_sort_ids(const float* value, int* id, int n) {
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
    int n = s->now.candidates, elites = s->now.elites, horizon = s->horizon;
    size_t us = (size_t)horizon * (size_t)s->setup.world.model.action,
           cs = (size_t)horizon * (size_t)s->setup.world.model.state;
    size_t eu = (size_t)(s->longest * s->setup.world.model.action),
           ec = (size_t)(s->longest * s->setup.world.model.state);
    elite_set swap = s->last;
    s->last = s->best;
    s->best = swap;
    for (int i = 0; i < kept; i++) s->value[n + i] = s->last.value[i];
    for (int i = 0; i < n + kept; i++) s->order[i] = i;
    plan_sort_ids(s->value, s->order, n + kept);
    int count = 0;
    for (; count < elites && isfinite(s->value[s->order[count]]); count++) {
        int id = s->order[count], old = id - n;
        const float* u = old < 0 ? s->u + (size_t)id * us : s->last.u + (size_t)old * eu;
        const float* c = old < 0 ? s->c + (size_t)id * cs : s->last.c + (size_t)old * ec;
        memcpy(s->best.u + (size_t)count * eu, u, us * sizeof(float));
        memcpy(s->best.c + (size_t)count * ec, c, cs * sizeof(float));
        s->best.value[count] = s->value[id];
        s->best.arrival[count] = old < 0 ? s->arrive[id] : s->last.arrival[old];
        s->best.trail[count] = old < 0 ? s->trail[id] : s->last.trail[old];
    }
    s->best.count = count;
}

int plan_rank_candidates(plan_solver* s) {
    int n = s->now.candidates, own = 0, finite = 0;
    for (int i = 0; i < s->now.elites + n && own < n; i++) {
        int id = s->order[i];
        if (id >= n) continue;
        s->order[own++] = id;
        finite += isfinite(s->value[id]) != 0;
    }
    return finite;
}

static void show(plan_solver* s, int iteration) {
    const int finite = plan_rank_candidates(s);
    const plan_look look = {.iteration = iteration,
                            .candidates = s->now.candidates,
                            .horizon = s->horizon,
                            .finite = finite,
                            .elites = s->now.elites,
                            .order = s->order,
                            .u = s->u};
    s->watch(s->watching, &look);
}

plan_trail plan_mean_trail(const plan_solver* s) {
    const plan_trail none = {.first = -1};
    return s->have_plan && s->best.count ? s->best.trail[0] : none;
}

void plan_iterate(plan_solver* s, int iteration, int given, int kept, plan_result* r) {
    const plan_options* o = &s->now;
    const int64_t start = clock_ns();
    int64_t begun = start;
    s->proposal = (plan_proposal){.options = o,
                                  .actions = &s->setup.actions,
                                  .seed = s->setup.seed,
                                  .solve = s->solve,
                                  .iteration = iteration,
                                  .horizon = s->horizon,
                                  .mean = s->mean,
                                  .spread = s->spread,
                                  .basis = s->basis,
                                  .terms = s->terms,
                                  .trail = plan_mean_trail(s),
                                  .given = given,
                                  .given_stride = s->longest * s->setup.world.model.action,
                                  .given_plan = s->best.u,
                                  .given_trail = s->best.trail,
                                  .recorded = s->recalled};
    r->nonfinite += run_candidates(s, &begun);
    select_elites(s, kept);
    plan_update(s, kept);
    spent(&s->phases.fit, &begun);
    plan_pace_add(&s->pace, plan_units(s, o->candidates), s->horizon, begun - start);
    if (s->watch) show(s, iteration);
    r->iterations++;
    r->rows += (int64_t)o->candidates * s->horizon;
}
