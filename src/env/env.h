// env.h - the environments: one env_spec describes a task completely, one env runs it.
//
// First in the flow env -> data -> model -> train -> plan -> eval -> report. Nothing outside
// src/env asks which task it is dealing with: names, sizes, tolerances and conversions all come
// from here.
//
// A spec has parts of one purpose each:
//   task        what the numbers of a configuration mean (task/task.h); travels in model files
//   state       what is recorded of a moment, and the typed numbers that follow from it
//   sim         the simulator; NULL: recorded data alone
//   collection  how episodes and interventions are made with it
//   layout      the columns of the episode files
//   study       what the paper's study adds; NULL: the paper does not have the task
//
// A *state* is what is recorded of a moment, as doubles: first what the environment's state-setting
// interface accepts, enough to restore the moment ("common reset"); then, for some tasks, what only
// the running simulator knows of it (a contact force), which setting a state ignores.
#ifndef ENV_ENV_H
#define ENV_ENV_H

#include <stdint.h>

#include "core/rng.h"
#include "core/status.h"
#include "task/task.h"

enum {
    // of the tasks in src/env
    ENV_IMAGE = 224,  // pixels a side of a picture
    ENV_FRAME_BYTES = ENV_IMAGE * ENV_IMAGE * 3,
    ENV_CONTROLS = 5,  // of a macro action
    ENV_HORIZON = 5,   // macro actions of a recorded future
    ENV_SPAN = ENV_CONTROLS * ENV_HORIZON,
    ENV_POINTS = ENV_HORIZON + 1,
    // of any task
    ENV_MAX_STATE = 64,
    ENV_MAX_COLUMN = 32  // widest env_column
};

typedef struct env env;
typedef struct env_spec env_spec;

// ---- state: what is recorded of a moment ----

// Pure functions of states; call them through env_config and its neighbours, which know what a NULL
// stands for.
typedef struct env_state {
    int dim;
    int drawn;  // leading numbers of a state that its picture depends on; 0: all
    // Can there be such a state: finite, and near enough to what the simulator can run? Recorded
    // states are asked this before anything else is done with them. NULL: every finite one.
    int (*fits)(const env_spec* spec, const double* state);
    // Does the motion at such a state depend on more than it tells? Where it hangs on the last bits
    // of a simulation that cannot be restored to the bit, nobody could replay a recording; such
    // moments are not used as anchors. NULL: nowhere.
    int (*erratic)(const env_spec* spec, const double* state);
    void (*config)(const env_spec* spec, const double* state, float* c);
    // chi at a state, given the state one control and one macro action (or as far back as known)
    // before. NULL: the change of c over the last control, chi_dim = config_dim.
    void (*chi)(const env_spec* spec, const double* state, const double* before,
                const double* macro_before, float* chi);
    // 1 for the task's rare kind of moment, which balanced sampling shows as often as the rest (a
    // block is lifted or pushed); `before` is one control earlier. NULL: none.
    int (*rare)(const env_spec* spec, const double* state, const double* before);
    // the task's own success test. NULL: every distance is within its tolerance.
    int (*success)(const env_spec* spec, const double* state, const double* goal_state);
} env_state;

// ---- sim: the simulator ----

typedef struct env_simulator {
    const char *physics, *renderer;                // one line each, attributes of every file
    size_t bytes;                                  // of one environment, struct env first
    firm_status (*open)(env* e, firm_error* err);  // one-time set-up of *e (bytes, zeroed); or NULL
    void (*close)(env* e);                         // or NULL
    void (*reset)(env* e, rng* r);                 // random start (and target)
    void (*step)(env* e, const float* action);     // one control
    void (*state_get)(const env* e, double* state);
    void (*state_set)(env* e, const double* state);  // the public setter, exactly
    // Brings a recorded moment back better than the public setter does, for branches, audits and
    // predictions; NULL: state_set is exact. Call env_recall.
    void (*recall)(env* e, const double* state);
    // The goal of a trial, where the reference's step depends on it: a goal reached half-way
    // through a control ends the control there. Forgotten by reset and state_set. NULL: steps know
    // no goal.
    void (*goal_set)(env* e, const double* goal_state);
    // Before the first render, where pictures take much memory or may be impossible; NULL: always
    // ready. Call env_render_ready.
    firm_status (*render_ready)(env* e, firm_error* err);
    void (*render)(const env* e, uint8_t* rgb);  // (image, image, 3)
    // A recorded state's picture as it looked then, where setting the state and rendering would not
    // give it; NULL otherwise. Leaves the environment at that state for no other use. Call
    // env_picture.
    void (*picture)(env* e, const double* state, uint8_t* rgb);
    // Exact save and restore for tasks whose state leaves something out; save_bytes 0: the state is
    // exact. save refuses when too much has happened since the last state was set
    // (FIRM_E_UNAVAILABLE).
    size_t save_bytes;
    firm_status (*save)(const env* e, void* bytes);
    void (*restore)(env* e, const void* bytes);
} env_simulator;

// ---- collection: how data are made ----

// A way to collect episodes.
typedef struct env_policy {
    const char* name;               // "weak"
    const char* title;              // a few words for people
    int episode_cap;                // steps of an episode
    void (*reset)(env* e, rng* r);  // a start
    void (*act)(env* e, rng* r, float* action);
    int (*terminated)(const env* e);  // after a step: the episode's end. NULL: the cap alone
} env_policy;

// What the actions of interventions are drawn from.
typedef enum env_proposal {
    ENV_PROPOSAL_GAUSSIAN,  // the training split's mean and deviation per component, clipped to the
                            // bounds
    ENV_PROPOSAL_TABLE,     // the same with the mean and deviation of all episodes' actions
    ENV_PROPOSAL_UNIFORM    // uniform in the bounds
} env_proposal;

typedef struct env_interventions {
    env_proposal proposal;
    int replay;               // branch 0 replays the recorded actions
    int anchors, per_anchor;  // default counts
} env_interventions;

// A task's structured interventions: anchors balanced over classes of moments, and branches that
// follow a manoeuvre, reading the state at every control, instead of independent noise. Classes
// decide which moments are drawn and nothing else.
enum { ENV_MAX_CLASS = 4, ENV_MAX_MANOEUVRE = 8, ENV_MANOEUVRE_BYTES = 128 };
typedef struct env_structured {
    int anchors, per_anchor;  // default counts
    const char* column;       // "contact_class": the file's column of the anchors' classes
    int classes;
    const char* class_name[ENV_MAX_CLASS];  // "contact"
    int manoeuvres;
    const char* manoeuvre_name[ENV_MAX_MANOEUVRE];  // "push"
    // the class of a recorded moment: states (rows, state dim), of the moment and of the controls
    // of the macro action after it
    int (*classify)(const double* states, int rows);
    // draws one manoeuvre that leaves from `state` into `memory` (ENV_MANOEUVRE_BYTES)
    void (*begin)(int manoeuvre, const double* state, rng* r, void* memory);
    void (*act)(void* memory, const double* state, rng* r, float* action);  // its next control
} env_structured;

typedef struct env_collection {
    int episodes, validation;  // default count, and how many of so many are held out
    int policies;              // the first one is the default
    const env_policy* policy;
    env_interventions interventions;
    const env_structured* structured;  // NULL: the task has no such set
} env_collection;

// ---- layout: the columns of the episode files ----

// A column that holds a part of the state.
typedef struct env_field {
    const char* name;  // "qvel"
    int width;         // numbers per row
} env_field;

// One column of the public episode files beside actions and the state column: a view of a row's
// state and of what the collector noted there (`extra`: a target position, say), so that the writer
// needs no knowledge of the task.
typedef struct env_column {
    const char* name;  // "pos_target"
    int width;         // numbers per row; 1 makes a plain (rows) column
    int bits;          // 32 or 64: precision in the file; 0: whole numbers, as int64
    // NULL: the same in every row, 0 or `text`, which takes no room in the file
    void (*get)(const double* state, const double* extra, double* out);
    int before;        // 1: what was there a row before; at an episode's start, the row itself
    const char* text;  // of a column of texts
} env_column;

// Recorded data alone, as a task file describes them: which column holds what. Number k of a state
// is number `index` of a row of state[k].column.
typedef struct env_source {
    const char* column;
    int index;
} env_source;

typedef struct env_recording {
    const char *image, *action;
    const char* time;         // of a row, in seconds; NULL: the file tells none
    const env_source* state;  // (state dim)
} env_recording;

// A column that gives a public file away.
typedef struct env_sign {
    const char* column;  // NULL ends a list
    int width;           // numbers per row; 0: any
} env_sign;

typedef struct env_layout {
    const env_recording* recording;  // NULL: the public layout, by the members below
    const char* state_column;        // holds the (leading part of the) state: "pos_agent"
    const char* state_also[3];       // other names of it in public files, tried in order; NULL ends
    int state_bits;                  // 32 or 64: its precision in the file
    env_field state_more[4];         // columns that hold the rest of the state, in order
    const env_sign* signs;       // what a file without the task's name is known by; NULL: nothing
    const char* episode_column;  // of episode numbers; NULL: "ep_idx"
    int extra_dim;               // numbers per row that extra_get notes for the columns below
    void (*extra_get)(const env* e, double* extra);  // at every collected row
    int columns;
    const env_column* column;
} env_layout;

// ---- study: what the paper's study adds ----

// What `firm demo` records and shows, chosen so that it takes about a minute on two cores.
typedef struct env_demo {
    int episodes;  // fresh ones that the goal is picked from
    int offset;    // controls from start to goal in the recording
    int tries;     // goals that a greedy search may solve before one is taken all the same
} env_demo;

typedef struct env_study {
    env_demo demo;
    int ablations;     // how many of `firm reproduce`'s ablations the paper ran on the task
    int far;           // controls to the farthest goals of the tables; episodes must be long enough
    const char* plus;  // second settings, for `firm reproduce --plus`; NULL: none
} env_study;

// ---- a task ----

// What a picture shows that is no part of the task, where a viewer could take it for one.
typedef struct env_scenery {
    const char* sentence;  // NULL: there is nothing
    const char* name;      // a word to stand in the picture
    double at[2];          // where: pixels, x right, y down
} env_scenery;

struct env_spec {
    task_typed task;
    const char* title;  // one line for `firm tasks`
    env_scenery scenery;
    const env_state* state;
    const env_simulator* sim;
    const env_collection* collection;
    const env_layout* layout;
    const env_study* study;
};

struct env {
    const env_spec* spec;
    firm_status fault;  // a physics blow-up noticed by step; sticky until state_set or reset
    // the task's own data follows
};

const env_spec* env_find(const char* name);  // NULL if unknown
const env_spec* env_at(int i);               // i-th task, NULL past the last
firm_status env_find_or_fail(const char* name, const env_spec** spec,
                             firm_error* err);  // message lists the tasks
// A task as users name it: one of these, or the path of a plug-in (`./task.so`, firm_task.h). The
// spec belongs to the program.
firm_status env_open_task(const char* name, const env_spec** spec, firm_error* err);
int env_is_path(const char* name);           // it names a file, not one of the program's tasks
env_demo env_demo_of(const env_spec* spec);  // its own choice or the default

// ---- state.c: what follows from a state ----

int env_fits(const env_spec* spec, const double* state);
int env_erratic(const env_spec* spec, const double* state);
void env_config(const env_spec* spec, const double* state, float* c);
void env_chi(const env_spec* spec, const double* state, const double* before,
             const double* macro_before, float* chi);
int env_rare(const env_spec* spec, const double* state, const double* before);
int env_success(const env_spec* spec, const double* state, const double* goal_state);

// ---- running one ----

firm_status env_create(const env_spec* spec, env** out, firm_error* err);
// The task has a simulator; else one sentence that says what `needs` it.
firm_status env_need_simulator(const env_spec* spec, const char* needs, firm_error* err);
void env_free(env* e);
// Brings a recorded moment back as exactly as its state allows; sets the environment's fault if it
// cannot.
void env_recall(env* e, const double* state);
// Makes environments ready to render; call it before their first picture.
firm_status env_render_ready(env** envs, int count, firm_error* err);
// The picture of a recorded state; fails with the environment's fault when the state cannot be set.
firm_status env_picture(env* e, const double* state, uint8_t* rgb);
// The task's policy of that name, NULL standing for the default one.
firm_status env_policy_find(const env_spec* spec, const char* name, env_policy* out,
                            firm_error* err);
// One per thread. The caller frees *out with env_free_many; NULL is fine there.
firm_status env_create_many(const env_spec* spec, int count, env*** out, firm_error* err);
void env_free_many(env** envs, int count);

// `open` of the tasks on MuJoCo in a build without it: fails and says what to run.
firm_status env_open_without_mujoco(env* e, firm_error* err);

// The name of the task whose public files have such columns, also of tasks that are not in this
// build; NULL if none fits. `width` returns the numbers per row of a column, 0 if
// there is none.
const char* env_guess_task(int (*width)(void* user, const char* column), void* user);

#endif
