// taskfile.h - a task by file: what the columns of recorded data, or the parts of a MuJoCo model,
// mean. docs/task-files.md describes the words; nothing in the file is trusted.
//
// The file holds the words of a typed task (task/text.c) and says in [config] how each coordinate
// is computed. What it computes them from are references: numbers of columns (`qpos[0]`), or of a
// simulation (`xpos(ball)[2]`). A state of such a task holds these numbers.
#ifndef ENV_TASKFILE_H
#define ENV_TASKFILE_H

#include "env/expression.h"
#include "task/task.h"

enum { TASKFILE_REFS = 64, TASKFILE_NAME = 64, TASKFILE_LIST = 16, TASKFILE_BYTES = 1 << 16 };

// A list of names, as `actuators = t1 t2`.
typedef struct taskfile_names {
    int count;
    char name[TASKFILE_LIST][TASKFILE_NAME];
} taskfile_names;

// Where a joint begins: evenly between the two.
typedef struct taskfile_start {
    char joint[TASKFILE_NAME];
    double low, high;
} taskfile_start;

// [simulator] and [start]: a MuJoCo model. xml "": recorded data alone.
typedef struct taskfile_simulator {
    char xml[1024];              // path, from the task file's folder
    char camera[TASKFILE_NAME];  // "" : `view`
    double view[6];              // looked-at x y z, distance, azimuth, elevation (degrees)
    int has_view;
    char keyframe[TASKFILE_NAME];  // "": as the model stands
    taskfile_names actuators;      // 0: all
    taskfile_names hide;           // geoms, sites and tendons that are not drawn
    int episode;                   // controls
    int starts;
    taskfile_start start[TASKFILE_LIST];
} taskfile_simulator;

typedef struct taskfile {
    char path[1024];
    task_typed task;
    // columns of a data set
    char image[TASKFILE_NAME], action[TASKFILE_NAME];
    char time[TASKFILE_NAME];  // "": none
    int refs;
    expression_ref ref[TASKFILE_REFS];
    int at[TASKFILE_REFS];  // number of a state that a reference reads
    int formulas;           // angles, then positions
    expression formula[FIRM_MAX_CONFIG];
    taskfile_simulator simulator;
} taskfile;

// Reads the file's words. Of a file with a simulator the task is not complete: its actions come
// from the model, and taskfile_finish follows. Else every reference reads the number of its own.
firm_status taskfile_read(const char* path, taskfile* out, firm_error* err);
firm_status taskfile_read_text(const char* path, const char* text, taskfile* out, firm_error* err);
// With a simulator: how many actions there are, each from -1 to 1, clamped. Checks the task.
firm_status taskfile_finish(taskfile* f, int actions, firm_error* err);

// The configuration of a state.
void taskfile_config(const taskfile* f, const double* state, float* c);

#endif
