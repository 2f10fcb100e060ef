// env.c - the registry of tasks, and making and releasing environments.
// First in the flow env -> data -> model -> ...; a new task is one line in `tasks` below.
#include "env/env.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "env/tworoom.h"

static const env_spec* const tasks[] = {&tworoom_spec};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

const env_spec* env_at(int i) {
    return i >= 0 && i < TASKS ? tasks[i] : NULL;
}

const env_spec* env_find(const char* name) {
    for (int i = 0; i < TASKS; i++)
        if (strcmp(tasks[i]->name, name) == 0) return tasks[i];
    return NULL;
}

firm_status env_find_or_fail(const char* name, const env_spec** spec, firm_error* err) {
    *spec = name ? env_find(name) : NULL;
    if (*spec) return FIRM_OK;
    char list[256] = "";
    for (int i = 0; i < TASKS; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", tasks[i]->name);
    }
    return FAIL(err, FIRM_E_USAGE, "there is no task '%.64s'; the tasks are: %s", name ? name : "",
                list);
}

firm_status env_create(const env_spec* spec, env** out, firm_error* err) {
    *out = NULL;
    env* e = mem_calloc(1, spec->env_bytes);
    if (!e) return FAIL(err, FIRM_E_MEMORY, "no memory for a %s environment", spec->name);
    e->spec = spec;
    if (spec->open) {
        firm_status s = spec->open(e, err);
        if (s != FIRM_OK) {
            mem_free(e);
            return s;
        }
    }
    *out = e;
    return FIRM_OK;
}

void env_free(env* e) {
    if (!e) return;
    if (e->spec->close) e->spec->close(e);
    mem_free(e);
}

firm_status env_create_many(const env_spec* spec, int count, env*** out, firm_error* err) {
    env** envs = mem_calloc((size_t)count, sizeof *envs);
    firm_status status = envs ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for environments");
    for (int i = 0; i < count && status == FIRM_OK; i++) status = env_create(spec, &envs[i], err);
    if (status != FIRM_OK) {
        env_free_many(envs, count);
        envs = NULL;
    }
    *out = envs;
    return status;
}

void env_free_many(env** envs, int count) {
    for (int i = 0; i < count && envs; i++) env_free(envs[i]);
    mem_free(envs);
}

// Columns that give a public file away, the most telling first; width 0 stands for any.
static const struct {
    const char *task, *column;
    int width;
} signs[] = {
    {"cube", "privileged_block_0_pos", 0},
    {"pusht", "block_pose", 0},
    {"pusht", "n_contacts", 0},
    {"pusht", "state", 7},
    {"reacher", "qpos", 2},
    {"tworoom", "pos_target", 2},
    {"tworoom", "distance_to_target", 0},
    {"tworoom", "goal_state", 2},
    {"tworoom", "pos_agent", 2},
};

const char* env_guess_task(int (*width)(void* user, const char* column), void* user) {
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        int w = width(user, signs[i].column);
        if (w > 0 && (signs[i].width == 0 || signs[i].width == w)) return signs[i].task;
    }
    return NULL;
}
