// propose.c - draws candidates: independent noise for the contract; smooth and wide noise and
// recorded sequences for reach; coloured noise for the rule icem in either mode.
//
// Philox keys: stream (RNG_PLAN, solve), index (iteration, candidate, coordinate), so that any
// thread, or another device, draws the same candidate.
#include "plan/propose.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"

// normals of one candidate: at most 2^16; of one iteration: at most 2^16 candidates
static uint64_t first_normal(int iteration, int index) {
    return ((uint64_t)iteration << 32) | ((uint64_t)index << 16);
}

static void independent(const plan_proposal* p, int index, float* u) {
    int n = p->horizon * p->actions->controls * p->actions->dim;
    rng_fill_normal(p->seed, RNG_STREAM(RNG_PLAN, p->solve), first_normal(p->iteration, index), u,
                    n);
    for (int i = 0; i < n; i++) u[i] = p->mean[i] + p->spread[i] * u[i];
}

// Piecewise-linear noise: normals at corners that lie evenly over the horizon, moved by a random
// phase, so that a turn can happen at any control.
static void smooth(const plan_proposal* p, int index, int wide, float* u) {
    const plan_actions* a = p->actions;
    int dim = a->dim, controls = p->horizon * a->controls, knots = p->options->knots;
    uint64_t stream = RNG_STREAM(RNG_PLAN, p->solve), first = first_normal(p->iteration, index);
    uint32_t word[4];
    rng_block(p->seed, stream, first / 4, word);
    float phase = rng_unit(word[0]), step = (float)knots / (float)controls;
    float corner[2][FIRM_MAX_ACTION + 3];
    int at = -1;
    for (int t = 0; t < controls; t++) {
        float position = phase + step * (float)t;
        int k = (int)position;
        float f = position - (float)k;
        if (k != at) {
            // each corner has its own 8 normals, so no state is carried from candidate to candidate
            for (int side = 0; side < 2; side++)
                rng_fill_normal(p->seed, stream, first + 8 * (uint64_t)(k + side + 1), corner[side],
                                dim);
            at = k;
        }
        for (int i = 0; i < dim; i++) {
            float noise = corner[0][i] + f * (corner[1][i] - corner[0][i]);
            int j = t * dim + i;
            u[j] = wide ? p->options->wide_spread * noise : p->mean[j] + p->spread[j] * noise;
        }
    }
}

int plan_colour_terms(const plan_options* o, int controls) {
    return o->solver == PLAN_ICEM ? 2 * (controls / 2 + 1) : 0;
}

void plan_colour_basis(const plan_options* o, int controls, float* basis) {
    int terms = plan_colour_terms(o, controls);
    double power = 0;
    for (int k = 0; k < terms / 2; k++) power += pow(k > 1 ? k : 1, -(double)o->colour);
    for (int t = 0; t < controls; t++)
        for (int k = 0; k < terms / 2; k++) {
            // the constant has the power of the lowest frequency
            double amplitude = sqrt(pow(k > 1 ? k : 1, -(double)o->colour) / power);
            double angle = 2 * 3.14159265358979323846 * k * t / controls;
            basis[t * terms + 2 * k] = (float)(amplitude * cos(angle));
            basis[t * terms + 2 * k + 1] = (float)(amplitude * sin(angle));
        }
}

static void coloured(const plan_proposal* p, int index, int wide, float* u) {
    int dim = p->actions->dim, controls = p->horizon * p->actions->controls;
    // each term has its own normals, in whole blocks of four
    uint64_t each = (uint64_t)(dim + 3) / 4 * 4, first = first_normal(p->iteration, index);
    memset(u, 0, (size_t)(controls * dim) * sizeof *u);
    for (int k = 0; k < p->terms; k++) {
        float normal[FIRM_MAX_ACTION + 3];
        rng_fill_normal(p->seed, RNG_STREAM(RNG_PLAN, p->solve), first + each * (uint64_t)k, normal,
                        dim);
        for (int t = 0; t < controls; t++)
            for (int i = 0; i < dim; i++) u[t * dim + i] += p->basis[t * p->terms + k] * normal[i];
    }
    for (int j = 0; j < controls * dim; j++)
        u[j] = wide ? p->options->wide_spread * u[j] : p->mean[j] + p->spread[j] * u[j];
}

// A recorded sequence, cut or continued with the mean action (zero) to the horizon.
static void recall(const plan_proposal* p, int which, float* u) {
    int n = p->horizon * p->actions->controls * p->actions->dim;
    int length = p->recorded.length, take = n < length ? n : length;
    const float* from = p->recorded.plan + (size_t)which * (size_t)length;
    memcpy(u, from, (size_t)take * sizeof *u);
    memset(u + take, 0, (size_t)(n - take) * sizeof *u);
}

static void clip(const plan_proposal* p, float* u) {
    const plan_actions* a = p->actions;
    int controls = p->horizon * a->controls;
    for (int i = 0; i < a->dim; i++) {
        float centre = 0.5f * (a->low + a->high),
              half = 0.5f * p->options->box * (a->high - a->low);
        float low = (centre - half - a->mean[i]) / a->deviation[i],
              high = (centre + half - a->mean[i]) / a->deviation[i];
        for (int t = 0; t < controls; t++) {
            float* x = &u[t * a->dim + i];
            *x = *x < low ? low : *x > high ? high : *x;
        }
    }
}

int plan_recorded_each(const plan_options* o) {
    return (int)(o->recorded * (float)o->candidates);
}

// The last candidates of a reach search are wide.
static int first_wide(const plan_options* o) {
    return o->candidates - (int)(o->wide_share * (float)o->candidates);
}

// Those before them are recorded sequences: which one, -1 for the others.
static int recorded_at(const plan_proposal* p, int index) {
    int each = p->recorded.count ? plan_recorded_each(p->options) : 0,
        wide = first_wide(p->options);
    if (index < wide - each || index >= wide) return -1;
    return (p->iteration * each + index - (wide - each)) % p->recorded.count;
}

void plan_propose(const plan_proposal* p, int index, float* u) {
    const plan_options* o = p->options;
    size_t bytes = (size_t)(p->horizon * p->actions->controls * p->actions->dim) * sizeof(float);
    if (index == 0) {
        memcpy(u, p->mean, bytes);
    } else if (o->mode == FIRM_MODE_CONTRACT) {
        if (o->solver == PLAN_ICEM)
            coloured(p, index, 0, u);
        else
            independent(p, index, u);
    } else if (index <= p->given) {
        memcpy(u, p->given_plan + (size_t)(index - 1) * (size_t)p->given_stride, bytes);
    } else {
        int which = recorded_at(p, index), wide = index >= first_wide(o);
        if (which >= 0)
            recall(p, which, u);
        else if (o->solver == PLAN_ICEM)
            coloured(p, index, wide, u);
        else
            smooth(p, index, wide, u);
    }
    if (o->mode == FIRM_MODE_REACH && p->actions->boxed) clip(p, u);
}

plan_trail plan_propose_trail(const plan_proposal* p, int index) {
    if (index == 0 || p->options->mode == FIRM_MODE_CONTRACT) return p->trail;
    if (index <= p->given) return p->given_trail[index - 1];
    if (index >= first_wide(p->options)) return (plan_trail){.first = -1};
    int which = recorded_at(p, index);
    return which >= 0 ? p->recorded.trail[which] : p->trail;
}
