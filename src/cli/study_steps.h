// study_steps.h - what the steps of a study share: where files lie (study_steps.c), trials and
// evaluations (study_evals.c).
#ifndef CLI_STUDY_STEPS_H
#define CLI_STUDY_STEPS_H

#include "cli/study.h"

// Where the files of a task, or of its second settings, lie.
typedef struct places {
    const env_spec* spec;
    const char* plus;               // its second settings; NULL: the study's own
    int attempts;                   // of plus: moments that each seed's first model attempts
    const char* anew;               // ... and the stage from which on it is then learned anew
    int searched;                   // of plus: moments of searches before the attempts
    int members;                    // of plus: further transitions on each seed's frontend
    const char* apart;              // ... and their first stage, where there are no attempts
    int packed;                     // trainings read pack.h5
    char folder[512], trials[512];  // of the results; of the trials, which plus shares
    char data[LINE_WORD], branches[LINE_WORD], structured[LINE_WORD], file[LINE_WORD];
} places;

void line_begin(line* l, const char* command, const env_spec* spec);

// The same trials for all models, drawn once.
firm_status study_draw_trials(study* s, places* p, firm_error* err);
// Evaluations of a run's model, when the chain `trained` has made it.
firm_status study_evaluate_run(study* s, places* p, const char* run, int trained, firm_error* err);
firm_status study_evaluate_ablation(study* s, places* p, const char* run, firm_error* err);
// Arms without a model, into the task's folder.
firm_status study_evaluate_oracles(study* s, places* p, int task, firm_error* err);
// LeWM on the same trials, when the chain `before` has drawn them.
firm_status study_evaluate_lewm(study* s, places* p, int before, firm_error* err);

#endif
