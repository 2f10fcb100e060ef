// task.h - the typed task: what the numbers of a configuration mean, as pure data.
//
// Names, units, distances, tolerances, actions, picture. It travels in every model file (text.c),
// so that a controller needs no code of its task. Simulators and data files are not its business:
// src/env adds them.
//
// A configuration c holds the named, goal-comparable coordinates: `pairs` (sin, cos) pairs first,
// then plain positions. chi is the auxiliary dynamics target, whose numbers have no names.
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "nn/push.h"

enum {
    TASK_NAME = 48,  // room for a name
    TASK_UNIT = 16,
    TASK_MAX_CHI = 32,
    TASK_MAX_DISTANCE = 16,
    TASK_MAX_POINT = 4,
    TASK_MAX_SITUATION = 12
};

// How a distance comes from two configurations.
typedef struct task_rule {
    int angle;         // 1: the angle between the (sin, cos) pairs at c[first]
    int first, count;  // 0: scale times the Euclidean distance over c[first .. first + count - 1]
    float scale;
} task_rule;

// One named distance, in physical units, with the task's tolerance.
typedef struct task_distance {
    char name[TASK_NAME];  // "agent"
    char unit[TASK_UNIT];  // "px"
    float tolerance;       // the goal is reached when all distances are below theirs
    task_rule rule;
} task_distance;

typedef enum task_cost {
    TASK_COST_SUM,  // squared chords of the pairs plus squared differences of the positions, of the
                    // coordinates that a distance names
    TASK_COST_MAX   // squared maximum of the distances in tolerance units
} task_cost;

// A coordinate that can be read from a picture only within these bounds.
typedef struct task_range {
    int coordinate;
    float low, high;
} task_range;

// Where a moving part appears in the picture: x / w and y / w, each a sum of the coordinates with
// these weights plus the last number. In pixels, x right, y down.
typedef struct task_point {
    char name[TASK_NAME];
    int chain;  // 1: pair k stands for the sum of the angles of pairs 0 .. k, as in an arm
    float x[FIRM_MAX_CONFIG + 1], y[FIRM_MAX_CONFIG + 1], w[FIRM_MAX_CONFIG + 1];
} task_point;

// One number of a moment: a coordinate of it, of its chi or of the goal; TASK_ZERO is 0.
typedef enum task_source { TASK_ZERO, TASK_CONFIG, TASK_CHI, TASK_GOAL } task_source;
typedef struct task_ref {
    task_source of;
    int index;
} task_ref;

// times * (plus - minus) / over
typedef struct task_term {
    float times;
    task_ref plus, minus;
    float over;
} task_term;

enum {
    TASK_IMAGE_LEAST = 64,
    TASK_IMAGE_MOST = 512,
    TASK_IMAGE_STEP = 16,
    TASK_MAX_CONTROLS = 100,
    TASK_MAX_HORIZON = 20,
    TASK_MAX_SPAN = 500,  // controls of all macro actions together
    TASK_HORIZON = 5      // of tasks whose text does not say it
};

typedef struct task_typed {
    char name[TASK_NAME];
    int image;      // pixels a side, a multiple of TASK_IMAGE_STEP
    int period_ms;  // between two frames and controls; 0: the task has no clock
    int controls;   // of a macro action (S)
    int horizon;    // macro actions of a recorded future that models learn from (H)

    int action_dim;                 // numbers of a control
    float action_low, action_high;  // bounds of recorded actions
    int action_clamped;             // the task itself clamps actions to the bounds

    int config_dim, pairs, chi_dim;
    char config_name[FIRM_MAX_CONFIG][TASK_NAME];  // of a pair: NAME_sin, NAME_cos

    // Coordinates that no distance names are free: models learn and show them, and they cost
    // nothing.
    int distances;
    task_distance distance[TASK_MAX_DISTANCE];
    task_cost cost;  // what the contract search minimises

    int ranges;
    task_range visible[FIRM_MAX_CONFIG];
    int points;
    task_point point[TASK_MAX_POINT];

    // What tells whether an action sequence that was good in one moment is good in another:
    // coordinates whose differences compare, about 1 where they begin to matter. Reach mode looks
    // recorded sequences up by it. 0: none
    int situation_dim;
    task_term situation[TASK_MAX_SITUATION];

    // A part that pushes another, for the transition's spatial residual (model.spatial). It belongs
    // to models alone: data files do not depend on it.
    nn_push push;
} task_typed;

// Bytes of a picture, (image, image, 3).
static inline size_t task_frame_bytes(const task_typed* t) {
    return (size_t)t->image * (size_t)t->image * 3;
}

// Controls of a recorded future, and the moments in it that are looked at: its start and the ends
// of its macro actions.
static inline int task_span(const task_typed* t) {
    return t->controls * t->horizon;
}
static inline int task_points(const task_typed* t) {
    return t->horizon + 1;
}

// The task's push with the sizes of its inputs.
static inline nn_push task_push(const task_typed* t) {
    nn_push push = t->push;
    push.config = t->config_dim;
    push.action = t->action_dim;
    push.controls = t->controls;
    return push;
}

// ---- measure.c ----

// A bit for each coordinate that a distance names; the others are free.
uint32_t task_priced(const task_typed* t);

// The named distances between two configurations, in physical units: (distances).
void task_measure(const task_typed* t, const float* c, const float* goal, float* distance);
// The largest distance over its tolerance; below 1 is success.
float task_tolerance_units(const task_typed* t, const float* c, const float* goal);
// What the contract search minimises, the paper's d_C: see task_cost.
float task_cost_value(const task_typed* t, const float* c, const float* goal);
// The same for a goal that names some coordinates only: given (config_dim), 0 where the goal is
// free, NULL for a whole goal. Free coordinates cost nothing; a distance all of whose coordinates
// are free is 0. A pair is given or free as a whole.
void task_measure_given(const task_typed* t, const uint8_t* given, const float* c,
                        const float* goal, float* distance);
float task_tolerance_units_given(const task_typed* t, const uint8_t* given, const float* c,
                                 const float* goal);
float task_cost_value_given(const task_typed* t, const uint8_t* given, const float* c,
                            const float* goal);
int task_is_visible(const task_typed* t, const float* c);           // every range is kept
void task_project(const task_typed* t, const float* c, float* xy);  // (points, 2)
void task_situation(const task_typed* t, const float* c, const float* chi, const float* goal,
                    float* out);  // (situation_dim)
int task_situation_reads_chi(const task_typed* t);

// ---- check.c ----

// Every number is in its range and refers to something; `from` names the task's origin.
firm_status task_check(const task_typed* t, const char* from, firm_error* err);

// ---- text.c, write.c: the task as text, in the words of a task file ----

enum { TASK_TEXT = 65536 };  // room for any task
// The text that reads back as the same task. 0: it does not fit `room`.
int task_write(const task_typed* t, char* out, size_t room);
// Nothing in the text is trusted: a damaged or impossible one is FIRM_E_FORMAT. `from` names it.
firm_status task_read(const char* from, const char* text, task_typed* out, firm_error* err);
// The task of `file` is the wanted one, written in the same words; else a sentence (FIRM_E_TASK).
// Where one of them does not say what is pushed, that is not compared.
firm_status task_expect(const char* file, const task_typed* task, const task_typed* wanted,
                        firm_error* err);
// The tasks of model files that have no such text: version 0.1 wrote their name alone. NULL: none.
const char* task_of_version_1(const char* name);

#endif
