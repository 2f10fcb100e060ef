// defaults.h - settings of a task that has no settings file: chosen from its picture, coordinates,
// actions and horizon by the rules of docs/defaults.md. They are written out as text and read like
// a file, so the run's config.ini shows every one of them.
#ifndef EVAL_DEFAULTS_H
#define EVAL_DEFAULTS_H

#include <stddef.h>

#include "task/task.h"

// The name under which --config asks for them, also for tasks with settings of their own.
#define DEFAULTS_NAME "defaults"

typedef struct defaults {
    // model
    int grid, pool;  // cells a side of the feature map; cells a side of a token of the history
    int grounder_hidden;
    // training
    int picture_updates, ground_updates, history_updates, warm_updates, rollout_updates;
    int lag;                           // rows between the frames of a pair
    double ground_gate, rollout_gate;  // in tolerance units
    // planning
    int horizon, horizon_most;  // macro actions looked ahead, at first and at most
    int candidates;             // of the reach mode
} defaults;

defaults defaults_choose(const task_typed* t);

enum { DEFAULTS_TEXT = 4096 };
// As the text of a settings file.
void defaults_settings(const task_typed* t, const defaults* d, char out[DEFAULTS_TEXT]);
// As a few lines for people.
void defaults_say(const task_typed* t, const defaults* d, char out[DEFAULTS_TEXT]);

#endif
