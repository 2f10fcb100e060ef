// mjcf.h - any MuJoCo model as a simulator, by the words of a task file (env/taskfile.h).
//
// A state is qpos, qvel, act and then what the task's formulas read of the model beside these (the
// position of a body, say), which setting a state ignores. The first three say all that the next
// step depends on: every control starts its solver cold, so a restored state continues bit for bit.
#ifndef ENV_MUJOCO_MJCF_H
#define ENV_MUJOCO_MJCF_H

#include <mujoco/mujoco.h>

#include "env/filetask.h"

// A number that a formula reads of a running simulation.
typedef struct mjcf_seen {
    enum {
        MJCF_XPOS,
        MJCF_XMAT,
        MJCF_SITE_XPOS,
        MJCF_SITE_XMAT,
        MJCF_GEOM_XPOS,
        MJCF_GEOM_XMAT
    } of;
    int at;
} mjcf_seen;

typedef struct mjcf_start {
    int qpos;
    double low, high;
} mjcf_start;

typedef struct mjcf {
    mjModel* model;
    int substeps;  // physics steps of a control
    int nq, nv, na, seen;
    mjcf_seen look[TASKFILE_REFS];
    int actuators;
    int actuator[FIRM_MAX_ACTION];
    double low[FIRM_MAX_ACTION], high[FIRM_MAX_ACTION];  // what actions -1 and 1 stand for
    int keyframe;                                        // -1: none
    int starts;
    mjcf_start start[TASKFILE_LIST];
    char camera[TASKFILE_NAME];
    int image;  // pixels a side
} mjcf;

// ---- mjcf_files.c ----

// Every file that the XML names lies below its folder, and sizes are within reason. Fills *sum
// with a checksum of the XML and its includes.
firm_status mjcf_check_files(const char* path, uint32_t* sum, firm_error* err);

// ---- mjcf_model.c ----

// Loads the model that f->simulator names, and completes f: its actions, and where in a state each
// reference is.
firm_status mjcf_open(taskfile* f, mjcf** out, uint32_t* sum, firm_error* err);
void mjcf_free(mjcf* m);

// ---- mjcf_world.c: what an env_simulator holds ----

extern const env_simulator mjcf_simulator;

#endif
