// records.h - what training reads of episodes and branches, in a form that needs neither.
//
// A record is the paper's (h, U, c_0:H, chi_0:H): a history of three frames and the two actions
// between them, the `span` controls of H macro actions (25 of 5 for most tasks, task_span()), and
// the configurations and dynamics targets at the `points` H + 1 ends of these (task_points()).
// An imagined record (imagined.h) has what a model predicts instead: no frame after it, no chi, not
// rare, and a spread.
// A pair is two frames of one episode or branch with their configurations. Frames are named by
// scene numbers: rows of the episodes first, then the states of the branches, span + 1 each.
#ifndef DATA_RECORDS_H
#define DATA_RECORDS_H

#include "data/branches.h"

enum { RECORD_FRAMES = FIRM_HISTORY };

typedef struct records {
    int count, histories;  // records of one anchor share its history
    int* history;          // (count)
    int64_t* seen;         // (histories, 3) scenes t-2, t-1, t
    float* past;           // (histories, 2, action_dim) the actions between them
    float* action;         // (count, span, action_dim)
    float* config;         // (count, points, config_dim)
    // of what happened; NULL of imagined ones
    int64_t* after;  // (count) the scene after the first control
    float* chi;      // (count, points, chi_dim)
    uint8_t* rare;   // (count) 1: a moment of the task's rare kind is among those after it
    // of imagined ones; NULL of what happened
    float* spread;  // (count, horizon) how far apart the members' predictions are, in tolerances
} records;

// Room for so many, all 0.
firm_status records_alloc(const env_spec* spec, int count, int histories, int imagined,
                          records* out, firm_error* err);

typedef struct pairs {
    int count;
    int64_t* scene;  // (count, 2) a moment and an earlier one
    float* config;   // (count, 2, config_dim)
    float* chi;      // (count, chi_dim) of the first
    uint8_t* rare;   // (count) 1: the first is of the task's rare kind
} pairs;

// Where scenes come from; any of the branches may be NULL.
enum { SCENE_BRANCHES = 2 };
typedef struct scenes {
    const episodes* e;
    const branches* b[SCENE_BRANCHES];
} scenes;
int64_t scenes_count(const scenes* s);
int64_t scene_of_branch(const scenes* s, int which, int branch, int control);  // 0 .. span
const double* scene_state(const scenes* s, int64_t scene);

// Segments of recordings that pass through `rows`.
firm_status records_of_rows(const scenes* s, const int64_t* rows, int count, records* out,
                            firm_error* err);
// All branches of s->b[which].
firm_status records_of_branches(const scenes* s, int which, records* out, firm_error* err);
// Gives every record the future of another one, drawn with the seed: histories, actions and
// outcomes keep their sets, but no longer belong together.
firm_status records_mismatch(records* r, const env_spec* spec, uint64_t seed, firm_error* err);
// Adds a copy of `more`, whose scenes count from `first_scene`; both are imagined, or neither is.
firm_status records_append(const env_spec* spec, const records* more, int64_t first_scene,
                           records* to, firm_error* err);
void records_free(records* r);

// Pairs `lag` controls apart, or as far as the episode goes back: `count` drawn of the training
// episodes' rows, or of all states of s->b[which]; count 0 takes all of them in order. Pairs with a
// frame that does not show all that moves are left out.
firm_status pairs_of_rows(const scenes* s, const data_split* split, int count, int lag, pairs* out,
                          firm_error* err);
firm_status pairs_of_branches(const scenes* s, int which, int count, int lag, pairs* out,
                              firm_error* err);
// The last two frames of the histories.
firm_status pairs_of_records(const scenes* s, const records* r, pairs* out, firm_error* err);
void pairs_free(pairs* p);

#endif
