// physics.h - what the tasks on MuJoCo share: finding scene files, models shared by all
// environments of a process, and calls into the library that cannot print, exit or reset behind our
// back.
//
// An mjModel is read-only once built and belongs to all threads; an mjData belongs to one
// environment.
#ifndef ENV_MUJOCO_PHYSICS_H
#define ENV_MUJOCO_PHYSICS_H

#include <mujoco/mujoco.h>

#include "env/env.h"

// Calls fn(arg). A fatal MuJoCo error inside comes back as FIRM_E_VALUE with its text in `text`
// (nullable, else 256 bytes), warnings are kept for physics_warning; nothing is printed and the
// process goes on. What the call was working on must be thrown away after an error, or reset.
firm_status physics_call(void (*fn)(void* arg), void* arg, char text[256]);

// 1 if the simulation has lost its footing since the last reset: MuJoCo counted a warning (not a
// number, huge values, too many contacts), or a coordinate is not finite.
int physics_broken(const mjModel* m, const mjData* d);

// Path of a file of third_party/scenes ("reacher/reacher.xml"), looked for in FIRM_MODELS_DIR, the
// source tree, and share/firm/scenes beside the running program's folder.
firm_status physics_find(const char* file, char path[1024], firm_error* err);

// The model of a file of the scenes, as it is.
firm_status physics_load(const char* file, mjModel** out, firm_error* err);

// A model that all environments of the process share: built by the first that asks, freed with the
// last.
typedef struct physics_shared {
    firm_status (*build)(mjModel** out, firm_error* err);
    mjModel* model;
    int users;
} physics_shared;

firm_status physics_acquire(physics_shared* s, const mjModel** out, firm_error* err);
void physics_release(physics_shared* s);  // once per successful acquire

firm_status physics_data(const mjModel* m, mjData** out, firm_error* err);  // mj_deleteData frees

// Object number of a name that the scene must have.
firm_status physics_id(const mjModel* m, mjtObj type, const char* name, int* id, firm_error* err);

#endif
