// branches.h - common-reset interventions: the same restored state, other actions.
//
// An anchor is one row of a training episode (anchors use distinct episodes) with 2 earlier
// and `span` later rows that a simulation can follow (env_spec.erratic): task_span(), 25 controls
// for most tasks. Every branch restores the anchor's recorded state and runs that many controls.
// Branch 0 replays the recorded actions (where the task's proposals say so); the others draw from
// the task's proposals, or, in the structured set of a task that has one, follow manoeuvres from
// anchors balanced over classes of moments. All span + 1 raw states of a branch are kept, so
// configurations, chi and frames follow.
#ifndef DATA_BRANCHES_H
#define DATA_BRANCHES_H

#include "data/episodes.h"
#include "data/split.h"

typedef struct branches {
    const env_spec* spec;
    int anchors, per_anchor;
    int mixed;           // actions of the kinds of mixed.h
    int planned;         // actions from elsewhere: a search's
    int64_t* row;        // (anchors) anchor row in the episodes file
    int* anchor_class;   // (anchors) structured sets: env_structured's class; NULL otherwise
    double* state;       // (anchors, per_anchor, span + 1, state_dim); [.., 0, :] is restored
    float* action;       // (anchors, per_anchor, span, action_dim)
    uint64_t data_hash;  // episodes.hash of the source file
    uint64_t seed;
} branches;

typedef struct intervene_options {
    int anchors, per_anchor;  // 0: the task's default
    int structured;           // the task's structured set
    int mixed;                // the kinds of actions of mixed.h
    // Actions from elsewhere for all branches but a replay: fills (span, action_dim) for the
    // `number`-th of them at `row`. NULL: none.
    firm_status (*propose)(void* ctx, int64_t row, int number, float* action, firm_error* err);
    void* ctx;
    uint64_t seed;        // of anchors and actions
    uint64_t split_seed;  // which episodes are training ones; as in data.split_seed
} intervene_options;

firm_status branches_collect(const episodes* e, const intervene_options* opt, pool* p,
                             branches** out, firm_error* err);
firm_status branches_write(const branches* b, const char* path, firm_error* err);
firm_status branches_read(const char* path, const episodes* e, branches** out,
                          firm_error* err);  // checks the hash
void branches_free(branches* b);
// Attribute `proposal` of the file: "uniform", "clipped gaussian", "mixed", "planned" or
// "structured".
const char* branches_proposal(const branches* b);

// Reset-replay audit: restore each anchor, replay its recorded suffix, compare configurations with
// the recording in tolerance units after each of the task's macro actions.
typedef struct audit_result {
    int anchors;
    double h5_mean, h5_p95, max;
    int horizons;
    double p95[TASK_MAX_HORIZON];  // per macro horizon
    int pass;                      // p95 <= 0.25 at every horizon and max <= 1
} audit_result;
firm_status branches_audit(const episodes* e, int anchors, uint64_t seed, uint64_t split_seed,
                           pool* p, audit_result* out, firm_error* err);

#endif
