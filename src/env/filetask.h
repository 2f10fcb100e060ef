// filetask.h - the env_spec of a task file: recorded data alone, or a MuJoCo model.
#ifndef ENV_FILETASK_H
#define ENV_FILETASK_H

#include "env/env.h"
#include "env/taskfile.h"

struct mjcf;

// A spec is the first member, so that its functions find the file behind it.
typedef struct file_task {
    env_spec spec;
    taskfile file;
    env_state state;
    env_simulator sim;
    env_policy policy;
    env_collection collection;
    env_layout layout;
    env_recording recording;
    env_source source[TASKFILE_REFS];
    char title[128], physics[192];
    struct mjcf* world;  // NULL: recorded data alone
    struct file_task* next;
} file_task;

// The task of a file. It stays in memory until the program ends: environments and data sets refer
// to it.
firm_status filetask_open(const char* path, const env_spec** out, firm_error* err);

#endif
