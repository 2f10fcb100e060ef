// options.c - the planner's settings: declared once, read into a plan_options for one of the two
// modes.
#include "plan/options.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

#define INT(name, min, max, value, help) \
    { name, 0, min, max, value, help }
#define REAL(name, min, max, value, help) \
    { name, 1, min, max, value, help }

const plan_setting plan_settings[] = {
    INT("contract_candidates", 2, 65535, "300", "candidates per iteration, contract mode"),
    INT("contract_iterations", 1, 10000, "30", "iterations of a solve"),
    INT("contract_elites", 2, 65535, "30", "best candidates that the next proposals are fitted to"),
    INT("contract_horizon", 1, 100, "5",
        "macro actions of a plan, all executed before the next solve"),
    REAL("contract_spread", 1e-6, 100, "1", "start deviation in standardised action units"),
    REAL("ensemble_price", 0, 1000, "0",
         "ensembles: price of the members' spread around their mean; 0: none"),
    REAL("ensemble_quantile", 0, 1, "0",
         "ensembles: a plan costs this quantile of the members' costs; 0: the cost of their mean"),
    INT("reach_candidates", 2, 65535, "128", "candidates per iteration, reach mode"),
    INT("reach_iterations", 1, 10000, "6", "most iterations per horizon tried"),
    INT("reach_elites", 2, 65535, "12", "best candidates that the next proposals are fitted to"),
    INT("reach_horizon", 1, 100, "5", "macro actions looked ahead at first"),
    INT("reach_horizon_max", 1, 100, "16",
        "macro actions looked ahead when no shorter plan arrives"),
    INT("reach_replan", 1, 100, "1", "macro actions executed before the next solve"),
    REAL("reach_spread", 1e-6, 100, "1", "start deviation in standardised action units"),
    INT("reach_knots", 1, 1000, "5",
        "corners of a proposal over the horizon, per action coordinate"),
    REAL("reach_box", 0.01, 1, "1", "share of the action bounds that proposals use"),
    REAL("reach_wide_share", 0, 1, "0.3", "share of candidates drawn anew around zero"),
    REAL("reach_wide_spread", 1e-6, 100, "2", "deviation of the candidates drawn anew"),
    REAL("reach_recorded", 0, 1, "0",
         "share of candidates that are recorded action sequences, of the most similar moments"),
    REAL("reach_floor", 0, 100, "0.1", "smallest deviation after a refit"),
    INT("reach_keep", 0, 65535, "6", "elites kept between iterations and, shifted, between solves"),
    REAL("reach_price", 0, 100, "0.2", "cost of a macro step before arrival, in tolerance units"),
    REAL("reach_running", 0, 100, "0.05", "weight of the mean distance before arrival"),
    REAL("reach_arrive", 0, 100, "0.7",
         "a plan this close to the goal arrives, in tolerance units"),
    REAL("reach_stray", 0, 1000, "10",
         "price of a macro step outside the training data, per radius of its support"),
    INT("reach_ahead", 0, 400, "0",
        "macro actions looked ahead along recordings, beyond the horizon; 0: none"),
    REAL("reach_ahead_price", 0, 100, "0.05",
         "cost of a macro step beyond the horizon, in tolerance units"),
    INT("reach_patience", 0, 10000, "3",
        "iterations without gain after which an arriving plan is taken; 0: none"),
    INT("solver", 0, 2, "0", "update rule of both modes; 0: cem, 1: mppi, 2: icem"),
    REAL("mppi_temperature", 1e-6, 1000, "0.5",
         "temperature of the weights, in units of the range of the elites' costs"),
    REAL("icem_colour", 0, 8, "2.5", "noise of frequency f has the power f^-colour; 0: white"),
    REAL("icem_decay", 1, 10, "1.25", "factor by which each iteration has fewer candidates"),
    REAL("icem_momentum", 0, 0.99, "0.1", "share of the old mean and spread that stays"),
    REAL("icem_carry", 0, 1, "0.3", "share of the elites that competes again, contract mode"),
};
const int plan_setting_count = sizeof plan_settings / sizeof *plan_settings;

const char* plan_solver_name(plan_solver_kind solver) {
    return solver == PLAN_MPPI ? "mppi" : solver == PLAN_ICEM ? "icem" : "cem";
}

#define GET_INT(name) (int)value(from, name)
#define GET_REAL(name) (float)value(from, name)
static void read_rule(plan_value_fn value, const void* from, plan_options* out) {
    out->solver = (plan_solver_kind)GET_INT("solver");
    out->temperature = GET_REAL("mppi_temperature");
    out->colour = GET_REAL("icem_colour");
    out->decay = GET_REAL("icem_decay");
    out->momentum = GET_REAL("icem_momentum");
    out->carry = GET_REAL("icem_carry");
}

void plan_options_read(plan_value_fn value, const void* from, firm_mode mode, plan_options* out) {
    if (mode == FIRM_MODE_CONTRACT) {
        *out = (plan_options){.mode = mode,
                              .candidates = GET_INT("contract_candidates"),
                              .iterations = GET_INT("contract_iterations"),
                              .elites = GET_INT("contract_elites"),
                              .horizon = GET_INT("contract_horizon"),
                              .spread = GET_REAL("contract_spread"),
                              .ensemble_price = GET_REAL("ensemble_price"),
                              .ensemble_quantile = GET_REAL("ensemble_quantile")};
        out->replan = out->horizon_max = out->horizon;
        read_rule(value, from, out);
        return;
    }
    *out = (plan_options){.mode = mode,
                          .candidates = GET_INT("reach_candidates"),
                          .iterations = GET_INT("reach_iterations"),
                          .elites = GET_INT("reach_elites"),
                          .horizon = GET_INT("reach_horizon"),
                          .replan = GET_INT("reach_replan"),
                          .spread = GET_REAL("reach_spread"),
                          .horizon_max = GET_INT("reach_horizon_max"),
                          .knots = GET_INT("reach_knots"),
                          .box = GET_REAL("reach_box"),
                          .wide_share = GET_REAL("reach_wide_share"),
                          .wide_spread = GET_REAL("reach_wide_spread"),
                          .recorded = GET_REAL("reach_recorded"),
                          .floor = GET_REAL("reach_floor"),
                          .keep = GET_INT("reach_keep"),
                          .price = GET_REAL("reach_price"),
                          .running = GET_REAL("reach_running"),
                          .arrive = GET_REAL("reach_arrive"),
                          .stray = GET_REAL("reach_stray"),
                          .ahead = GET_INT("reach_ahead"),
                          .ahead_price = GET_REAL("reach_ahead_price"),
                          .patience = GET_INT("reach_patience"),
                          .ensemble_price = GET_REAL("ensemble_price"),
                          .ensemble_quantile = GET_REAL("ensemble_quantile")};
    read_rule(value, from, out);
    if (out->horizon_max < out->horizon) out->horizon_max = out->horizon;
    if (out->keep > out->elites) out->keep = out->elites;
    if (out->replan > out->horizon) out->replan = out->horizon;
}

// ---- from a model file ----

enum { MOST = 64, LINE = 128 };
typedef struct values {
    double value[MOST];  // in the order of plan_settings
} values;

static double value_of(const void* from, const char* name) {
    for (int i = 0; i < plan_setting_count; i++)
        if (strcmp(plan_settings[i].name, name) == 0) return ((const values*)from)->value[i];
    CHECK(0, "there is no plan setting %s", name);
    return 0;
}

static firm_status take_value(const char* file, const plan_setting* s, const char* text,
                              double* out, firm_error* err) {
    words w = {text};
    *out = s->real ? words_number(&w, s->least, s->most)
                   : (double)words_whole(&w, (int64_t)s->least, (int64_t)s->most);
    if (words_end(&w)) return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE,
                "%s: its settings say plan.%s = %.32s; it is a %s from %g to %g. Make the file "
                "again",
                file, s->name, text, s->real ? "number" : "whole number", s->least, s->most);
}

// A line of the section: `key = value`.
static firm_status take_line(const char* file, const char* line, values* v, firm_error* err) {
    const char* sign = strstr(line, " = ");
    for (int i = 0; i < plan_setting_count && sign; i++)
        if (strncmp(plan_settings[i].name, line, (size_t)(sign - line)) == 0 &&
            plan_settings[i].name[sign - line] == 0)
            return take_value(file, &plan_settings[i], sign + 3, &v->value[i], err);
    return FIRM_OK;
}

firm_status plan_options_of_text(const char* file, const char* text, firm_mode mode,
                                 plan_options* out, firm_error* err) {
    _Static_assert(sizeof plan_settings / sizeof *plan_settings <= MOST, "more room is needed");
    values v;
    for (int i = 0; i < plan_setting_count; i++) v.value[i] = strtod(plan_settings[i].value, NULL);
    int inside = 0;
    for (const char* at = text; *at;) {
        char line[LINE];
        size_t n = strcspn(at, "\n"), kept = n < LINE ? n : LINE - 1;
        memcpy(line, at, kept);
        line[kept] = 0;
        if (line[0] == '[')
            inside = strcmp(line, "[plan]") == 0;
        else if (inside)
            TRY(take_line(file, line, &v, err));
        at += n + (at[n] == '\n');
    }
    plan_options_read(value_of, &v, mode, out);
    return FIRM_OK;
}

void plan_options_candidates(plan_options* o, int candidates) {
    int64_t elites = ((int64_t)o->elites * candidates + o->candidates - 1) / o->candidates;
    o->elites = elites < 2 ? 2 : (int)elites;
    o->candidates = candidates;
    if (o->keep > o->elites) o->keep = o->elites;
}

firm_status plan_options_check(const plan_options* o, firm_error* err) {
    if (o->candidates < 2 || o->candidates > 65535 || o->elites < 2 || o->elites > o->candidates ||
        o->iterations < 1 || o->horizon < 1 || o->horizon > 100)
        return FAIL(
            err, FIRM_E_VALUE,
            "a planner with %d candidates, %d elites, %d iterations and horizon %d cannot run; "
            "elites must be 2 .. candidates, the others positive",
            o->candidates, o->elites, o->iterations, o->horizon);
    if (!(o->ensemble_price >= 0.0f) || !(o->ensemble_quantile >= 0.0f) ||
        o->ensemble_quantile > 1.0f)
        return FAIL(
            err, FIRM_E_VALUE,
            "ensemble_price = %g must not be negative, ensemble_quantile = %g must be 0 .. 1",
            (double)o->ensemble_price, (double)o->ensemble_quantile);
    if (!(o->spread > 0.0f))
        return FAIL(err, FIRM_E_VALUE, "the planner's spread must be positive");
    if ((unsigned)o->solver > PLAN_ICEM)
        return FAIL(err, FIRM_E_VALUE, "there is no solver %d; use cem, mppi or icem",
                    (int)o->solver);
    if ((o->solver == PLAN_MPPI && !(o->temperature > 0.0f)) ||
        (o->solver == PLAN_ICEM &&
         (!(o->decay >= 1.0f) || !(o->colour >= 0.0f) || !(o->momentum >= 0.0f) ||
          !(o->momentum < 1.0f) || !(o->carry >= 0.0f) || o->carry > 1.0f)))
        return FAIL(err, FIRM_E_VALUE,
                    "solver settings out of range: temperature %g; colour %g, decay %g, momentum "
                    "%g, carry %g",
                    (double)o->temperature, (double)o->colour, (double)o->decay,
                    (double)o->momentum, (double)o->carry);
    if (o->replan < 1 || o->replan > o->horizon)
        return FAIL(err, FIRM_E_VALUE,
                    "replanning after %d macro actions does not fit a horizon of %d", o->replan,
                    o->horizon);
    if (o->mode == FIRM_MODE_REACH &&
        (o->knots < 1 || o->knots > 1000 || o->horizon_max < o->horizon || o->horizon_max > 100 ||
         o->keep < 0 || o->keep > o->elites || o->keep >= o->candidates ||
         !(o->wide_share >= 0.0f) || !(o->recorded >= 0.0f) || o->wide_share + o->recorded > 1.0f ||
         !(o->box > 0.0f) || o->box > 1.0f))
        return FAIL(
            err, FIRM_E_VALUE,
            "reach settings out of range: knots %d, horizon %d .. %d, keep %d of %d elites, wide "
            "share %g and recorded %g (together at most 1), box %g",
            o->knots, o->horizon, o->horizon_max, o->keep, o->elites, (double)o->wide_share,
            (double)o->recorded, (double)o->box);
    return FIRM_OK;
}
