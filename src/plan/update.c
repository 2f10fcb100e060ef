// update.c - the update rules; see update.h. Sums run over the candidates in their ranked order and
// in double precision, so that a fit has the same bits for any number of threads.
#include "plan/update.h"

#include <math.h>

static size_t elite_stride(const plan_solver* s) {
    return (size_t)(s->longest * s->setup.world.model.action);
}

static int numbers(const plan_solver* s) {
    return s->horizon * s->setup.world.model.action;
}

// Reach mode keeps looking around.
static void keep_floor(plan_solver* s, int j) {
    if (s->setup.options.mode == FIRM_MODE_REACH && s->spread[j] < s->setup.options.floor)
        s->spread[j] = s->setup.options.floor;
}

// ---- cem, icem ----------------------------------------------------------------------------------

// Mean and unbiased deviation of the elites. share: of the new fit, the rest stays.
static void fit_elites(plan_solver* s, float share) {
    int elites = s->best.count;
    size_t eu = elite_stride(s);
    for (int j = 0; j < numbers(s); j++) {
        double sum = 0.0, squares = 0.0;
        for (int i = 0; i < elites; i++) sum += s->best.u[(size_t)i * eu + (size_t)j];
        double mean = sum / elites;
        for (int i = 0; i < elites; i++) {
            double d = s->best.u[(size_t)i * eu + (size_t)j] - mean;
            squares += d * d;
        }
        float old_mean = s->mean[j], old_spread = s->spread[j];
        s->mean[j] = (float)mean;
        if (elites > 1) s->spread[j] = (float)sqrt(squares / (elites - 1));
        if (share < 1) {
            s->mean[j] = share * s->mean[j] + (1 - share) * old_mean;
            s->spread[j] = share * s->spread[j] + (1 - share) * old_spread;
        }
        keep_floor(s, j);
    }
}

// ---- mppi ---------------------------------------------------------------------------------------

// The plan of rank `rank`: a candidate of this iteration or an elite kept from the last.
static const float* ranked(const plan_solver* s, int rank) {
    int id = s->order[rank], n = s->now.candidates;
    return id < n ? s->u + (size_t)id * (size_t)numbers(s)
                  : s->last.u + (size_t)(id - n) * elite_stride(s);
}

// Weights take the place of the costs, in ranked order. Returns how many candidates are finite.
static int weigh(plan_solver* s, int count, double* sum, double* squares) {
    int finite = 0;
    float best = s->best.value[0], last = s->best.value[s->best.count - 1];
    // equal elites: all that cost as much count alike
    double scale = (double)s->setup.options.temperature * (double)(last - best);
    *sum = *squares = 0;
    for (; finite < count && isfinite(s->value[s->order[finite]]); finite++) {
        double over = (double)(s->value[s->order[finite]] - best);
        double w = over <= 0 ? 1 : scale > 0 ? exp(-over / scale) : 0;
        s->weight[finite] = w;
        *sum += w;
        *squares += w * w;
    }
    return finite;
}

static void fit_weighted(plan_solver* s, int kept) {
    double sum, squares;
    int finite = weigh(s, s->now.candidates + kept, &sum, &squares);
    // as n - 1 of n equal weights
    double rest = sum - squares / sum;
    for (int j = 0; j < numbers(s); j++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < finite; i++) mean += s->weight[i] * (double)ranked(s, i)[j];
        mean /= sum;
        for (int i = 0; i < finite; i++) {
            double d = (double)ranked(s, i)[j] - mean;
            variance += s->weight[i] * d * d;
        }
        s->mean[j] = (float)mean;
        if (rest > 1e-6 * sum) s->spread[j] = (float)sqrt(variance / rest);
        keep_floor(s, j);
    }
}

// ---- the table ----------------------------------------------------------------------------------

void plan_update(plan_solver* s, int kept) {
    const plan_options* o = &s->setup.options;
    if (s->best.count == 0) return;
    if (o->solver == PLAN_MPPI)
        fit_weighted(s, kept);
    else
        fit_elites(s, o->solver == PLAN_ICEM ? 1 - o->momentum : 1);
}

int plan_update_candidates(const plan_options* o, int iteration, int candidates, int elites) {
    if (o->solver != PLAN_ICEM) return candidates;
    double n = candidates;
    for (int i = 0; i < iteration && n > 2 * elites; i++) n /= (double)o->decay;
    int least = 2 * elites < candidates ? 2 * elites : candidates;
    return n > least ? (int)n : least;
}

int plan_update_kept(const plan_options* o, int elites) {
    return o->solver == PLAN_ICEM ? (int)(o->carry * (float)elites) : 0;
}

int plan_update_takes_best(const plan_options* o) {
    return o->solver == PLAN_ICEM;
}
