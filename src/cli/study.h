// study.h - the parts of `firm reproduce`: what a study is (reproduce.c), how long it will take
// (study_time.c), its steps (study_steps.c) and how they are run (study_chains.c).
//
//   OUT/TASK/episodes.h5, describe.json, branches.h5 (Push-T: structured.h5 too), audit.json,
//            params.json, pack.h5 (what several trainings read, drawn once),
//            study-OFFSET.h5, fresh-OFFSET.h5 (trials), eval-random-MODE-25.json,
//            eval-oracle-fresh-MODE-25.json and oracle-MODE/ (its trials one by one)
//   OUT/TASK/seed-N/             the run, eval-MODE-OFFSET.json, eval-fresh-MODE-OFFSET.json,
//                                trace-*.json
//   OUT/TASK-plus/ensemble-N/    seed N and its members as one model, and its evaluations; member-K
//                                has the K-th one's run: other transitions on seed N's frontend
//   OUT/TASK/lewm/               with --lewm: eval-MODE-OFFSET.json of LeWM, on the seeds' trials
//   OUT/TASK/ablation-X-seed-N/  the run, eval-contract-25.json; X: F, I, no-fiber, mismatch
//   OUT/TASK-plus/               branches, params and seed-N of the settings TASK-plus; where these
//                                ask for attempts, first-N (whose they are), moments-N.h5 and
//                                pack-N.h5, too; for searches before them, moments-0.h5 and
//                                pack-recorded.h5
//   OUT/report/index.html, report.md
//   OUT/speeds.json              speeds of this machine, from which times are estimated
//   OUT/logs/NNN.txt             with several jobs: what the last sitting's steps printed
#ifndef CLI_STUDY_H
#define CLI_STUDY_H

#include <sys/types.h>

#include "cli/cli.h"

enum { STUDY_TASKS = 8, STUDY_SEEDS = 16, STUDY_CHAINS = 2048, STUDY_STEPS = 64 };

typedef struct study_step study_step;
// Steps that follow one another; they begin when chains `after` to `after_end` - 1 have ended.
typedef struct study_chain {
    study_step* step[STUDY_STEPS];
    int steps, after, after_end;
    int task;       // whose steps they are
    int behind;     // others' steps go first where they share a GPU
    int at;         // the next step, or the one that runs
    pid_t process;  // which runs it; 0: none
} study_chain;

// Expected seconds of a step of each kind; relative ones where nothing was measured.
typedef struct study_costs {
    double collect, train, contract, reach, oracle, attempts, searched, other;
} study_costs;

typedef struct study {
    const args* a;
    const env_spec* task[STUDY_TASKS];
    char seed[STUDY_SEEDS][24];
    int tasks, seeds;
    const char* out;
    int only_say;                      // name the steps, run none
    int lock;                          // of the folder
    int unmeasured;                    // no speed is measured, so no time is estimated
    study_costs cost[STUDY_TASKS][2];  // of the steps of a task and of TASK-plus
    int oracle[STUDY_TASKS];           // the true simulator is fast enough to search through
    int attempts[STUDY_TASKS];         // of every seed's first model of TASK-plus; 0: none
    char anew[STUDY_TASKS][32];        // ... and the stage from which on it is then learned anew
    int searched[STUDY_TASKS];         // moments of searches before the attempts; 0: none
    int members[STUDY_TASKS];          // further transitions on each seed's frontend; 0: none
    char apart[STUDY_TASKS][32];       // ... and the stage from which on they learn by themselves
    int packed[STUDY_TASKS][2];        // the trainings (of TASK-plus) can read a pack
    int adding, adding_plus;  // the task whose commands are being added, of TASK-plus, and ...
    char threads[16];         // ... their threads
    study_chain chain[STUDY_CHAINS];
    int chains, to_do;
    cJSON *steps, *step_seconds;  // the command lines that were or would be run, how long they took
    double seconds_there;         // of the steps whose results are there, one after the other
    double seconds_left;          // of the steps that were added, likewise
    double seconds_done;          // of those that have ended, as expected
    double begun;                 // clock_seconds() at the first step
    int done, skipped, gates_missed;
    char missed[256];  // the first gate's sentence
} study;

// An ablation of the paper's: its name in folders, and what `firm train` is told.
typedef struct study_ablation {
    const char *name, *flag, *value;  // value NULL: a switch
    int once;                         // with the first seed only
} study_ablation;

// The i-th ablation of a task in this study, NULL past the last.
const study_ablation* study_ablation_at(const study* s, const env_spec* spec, int i);
// The second settings of a task, TASK-plus: more interventions of a wider kind, and stages of their
// own. NULL if it has none or none are asked for.
const char* study_plus(const study* s, const env_spec* spec);

// A command line under construction; 185 kB, so the steps keep theirs static.
enum { LINE_WORD = 1100, LINE_WORDS = 40 + 2 * ARGS_MAX_VALUES };  // the study's own, and --set
typedef struct line {
    char word[LINE_WORDS][LINE_WORD];
    int words;
} line;
void line_add(line* l, const char* word);
void line_flag(line* l, const char* flag, const char* value);
// The settings that hold for every step, and its threads; config NULL: the study's own (--config,
// or --quick's).
void line_settings(const study* s, const env_spec* spec, const char* config, line* l);

// Adds a chain; the steps added next are its own. whole: they get all threads, also beside others.
firm_status study_chain_begin(study* s, int after, int after_end, int whole, firm_error* err);
typedef struct step_result {
    const char* file;  // the step is done if it is there
    int save;          // the command's JSON goes there
    int ungated;       // a missed gate is a finding, not a failure of the study
} step_result;
// Expected seconds of a command that is being added.
double study_cost(const study* s, const line* l);
// Adds a step to the last chain unless its result is there.
firm_status study_add(study* s, const line* l, step_result r, firm_error* err);
// Says what is there and what is left, by command.
void study_say(const study* s);
// Runs all that was added, --jobs at a time, or only says it.
firm_status study_chains_run(study* s, firm_error* err);
// Seconds of the steps that were run, by command; the caller deletes it.
cJSON* study_seconds(const study* s);
void study_chains_free(study* s);

// What the steps of a task will cost, from speeds that OUT/speeds.json has from an earlier sitting,
// or that are measured now. Fills in s->cost[task], decides s->oracle[task], and looks up
// s->attempts[task], s->searched[task], s->anew[task], s->members[task], s->apart[task] and
// s->packed[task].
firm_status study_estimate(study* s, int task, firm_error* err);
// Controls to the goals of an offset; 0: left out.
enum { STUDY_FAR = -1 };  // the task's farthest goals
int study_controls(const study* s, const env_spec* spec, int offset);
// Pairs of fresh episodes of each evaluation; 0: none.
int study_fresh(const study* s);
// The model of --lewm for a task.
void study_lewm(const study* s, const env_spec* spec, char path[LINE_WORD]);
// Adds everything of one task; then the page and the tables, page receives its path.
firm_status study_add_task(study* s, int task, firm_error* err);
firm_status study_report(study* s, char page[1024], firm_error* err);

#endif
