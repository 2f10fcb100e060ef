// paper.h - the figures of the FIRM-WM paper that the report shows beside ours. All of them are
// data: configs/paper/paper.txt, compiled in. Tasks are named as in the commands. NAN: not
// reported.
#ifndef REPORT_PAPER_H
#define REPORT_PAPER_H

typedef struct paper_value {
    double mean, sd;  // success in percent or seconds; sd NAN for a single number
} paper_value;

typedef struct paper_seed {  // Table "Per-seed paired results": FIRM minus LeWM on the same 100
                             // trials
    const char* task;
    int seed;
    double firm, lewm, difference, lo, hi;
    int rescue, harm;
    double firm_seconds, lewm_seconds;
} paper_seed;

typedef struct paper_params {  // Table "Active deployment parameters by module", in millions
    const char* task;
    double frontend, grounder, transition, total;
} paper_params;

typedef struct paper_audit {  // Table "Common-reset factual-suffix replay", in tolerance units
    const char* task;
    int anchors;
    double h5_mean, h5_p95, max;
} paper_audit;

typedef struct paper_data {  // Tables "Dataset statistics" and "Complete recurrent-transition
                             // update schedules"
    const char* task;
    int training, validation, segments, states, per_state;
    int recurrent_updates;
} paper_data;

const char* paper_task_title(const char* task);  // as the paper writes it; an unknown task is returned as it is

// Success of an arm in contract mode at offset 25. variant is "" or one of the ablations "factual
// only", "intervention only", "no history fiber", "mismatched outcomes". mean is NAN if not
// reported.
paper_value paper_success(const char* task, const char* arm, const char* variant);
paper_value paper_seconds(const char* task, const char* arm);   // planner seconds per episode
const paper_seed* paper_find_seed(const char* task, int seed);  // NULL if not reported
const paper_params* paper_find_params(const char* task);
const paper_audit* paper_find_audit(const char* task);
const paper_data* paper_find_data(const char* task);
// The paper's tasks in the order of its main table; NULL past the last.
const char* paper_task(int i);
// The ablations in the paper's order, "" for both sources; NULL past the last.
const char* paper_variant(int i);
// Table "Planning success rate": its rows in the paper's order, NULL past the last; the last one is
// the paper's own method.
const char* paper_method(int i);
paper_value paper_method_success(const char* method, const char* task);

// The text behind all this, by the name of its file; made by the build.
const char* paper_text(const char* name);

#endif
