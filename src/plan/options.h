// options.h - the planner's settings: section [plan] of a task's config, one set of keys per mode.
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include "core/status.h"

// The update rule of a search, see update.h.
typedef enum plan_solver_kind { PLAN_CEM, PLAN_MPPI, PLAN_ICEM } plan_solver_kind;
const char* plan_solver_name(plan_solver_kind solver);  // "cem", "mppi", "icem"

typedef struct plan_options {
    firm_mode mode;
    plan_solver_kind solver;
    float temperature;  // mppi: of the weights, in units of the elites' range of costs
    float colour;       // icem: noise of frequency f has the power f^-colour; 0 is white
    float decay;     // icem: so many times fewer candidates in each iteration, not below 2 elites
    float momentum;  // icem: share of the old fit that stays
    float carry;     // icem, contract: share of the elites that competes again
    int candidates, iterations, elites;
    int horizon;   // macro actions looked ahead; in reach mode at first
    int replan;    // macro actions executed before the next solve
    float spread;  // start deviation of the proposals, standardised action units
    float ensemble_price, ensemble_quantile;  // see doubt.h; 0: off

    // reach mode only; contract mode ignores these
    int horizon_max;    // looked ahead when nothing shorter arrives
    int knots;          // corners of a proposal's noise over the horizon, per action coordinate
    float box;          // share of the action bounds that proposals use, where the task clamps
    float wide_share;   // share of candidates drawn anew around zero in every iteration
    float wide_spread;  // their deviation
    float recorded;     // share of candidates that are recorded action sequences, if there are any
    float floor;        // smallest deviation after a refit
    int keep;           // elites kept between iterations and, shifted, between solves
    float price;        // per macro step until arrival, in tolerance units
    float running;      // weight of the mean distance until arrival
    float arrive;       // a plan that comes this close, in tolerance units, arrives
    float stray;        // price of leaving the training data's support, per radius and macro step
    int ahead;          // macro steps looked ahead along recordings; 0: no further than the horizon
    float ahead_price;  // per macro step beyond the horizon, in tolerance units
    int patience;  // iterations without a better plan before an arriving search stops; 0: never
} plan_options;

// One key of the section.
typedef struct plan_setting {
    const char* name;
    int real;            // 0: a whole number
    double least, most;  // inclusive
    const char* value;   // default, as text
    const char* help;
} plan_setting;
extern const plan_setting plan_settings[];
extern const int plan_setting_count;

// What `from` says of a key.
typedef double (*plan_value_fn)(const void* from, const char* name);
void plan_options_read(plan_value_fn value, const void* from, firm_mode mode, plan_options* out);
// From the settings that a model file holds as text: lines `key = value` of its section [plan].
// Keys that are not there have their defaults; other keys and sections are passed over. `file`
// names the text in sentences.
firm_status plan_options_of_text(const char* file, const char* text, firm_mode mode,
                                 plan_options* out, firm_error* err);
// So many candidates, and the same share of them as elites: rounded up, two at least.
void plan_options_candidates(plan_options* o, int candidates);
firm_status plan_options_check(const plan_options* o, firm_error* err);

#endif
