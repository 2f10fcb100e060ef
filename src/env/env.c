// env.c - the registry of tasks, and making and releasing environments.
// First in the flow env -> data -> model -> ...; a new task is one line in COMPILED or `tasks`
// below.
#include "env/env.h"

#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "env/cube.h"
#include "env/plugin.h"
#include "env/pusht.h"
#include "env/reacher.h"
#include "env/tworoom.h"

static const env_spec* const tasks[] = {
    &tworoom_spec,
#ifdef FIRM_CHIPMUNK
    &pusht_spec,
#endif
    &reacher_spec,
    &cube_spec,
};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

// Tasks that are compiled in from the table of firm_task.h, like a plug-in: src/env/tasks/NAME.c,
// X(NAME) here for each.
#define COMPILED(X)

#define DECLARE(name) const firm_task* name##_task_entry(int abi);
COMPILED(DECLARE)
#define ENTRY(name) {#name, name##_task_entry},
static const struct {
    const char* name;
    const firm_task* (*entry)(int abi);
} compiled[] = {COMPILED(ENTRY){NULL, NULL}};
enum { COMPILED_TASKS = sizeof compiled / sizeof compiled[0] - 1 };

static const env_spec* compiled_spec[COMPILED_TASKS + 1];
static pthread_once_t compiled_once = PTHREAD_ONCE_INIT;

static void read_compiled(void) {
    for (int i = 0; i < COMPILED_TASKS; i++) {
        firm_error err = {0};
        const firm_task* t = compiled[i].entry(FIRM_TASK_ABI);
        CHECK(t && plugin_spec(t, compiled[i].name, &compiled_spec[i], &err) == FIRM_OK,
              "the task %s: %s", compiled[i].name, err.message);
    }
}

// Tasks that need a library this program was built without.
static const struct {
    const char *name, *library, *cure;
    const env_sign* signs;
} absent[] = {
#ifndef FIRM_CHIPMUNK
    {"pusht", "Chipmunk 7", "apt-get install libchipmunk-dev (or make setup), then make build",
     pusht_signs},
#endif
    {NULL, NULL, NULL, NULL},
};

const env_spec* env_at(int i) {
    if (i >= 0 && i < TASKS) return tasks[i];
    pthread_once(&compiled_once, read_compiled);
    return i >= TASKS && i - TASKS < COMPILED_TASKS ? compiled_spec[i - TASKS] : NULL;
}

const env_spec* env_find(const char* name) {
    for (int i = 0; env_at(i); i++)
        if (strcmp(env_at(i)->task.name, name) == 0) return env_at(i);
    return NULL;
}

firm_status env_find_or_fail(const char* name, const env_spec** spec, firm_error* err) {
    *spec = name ? env_find(name) : NULL;
    if (*spec) return FIRM_OK;
    for (int i = 0; name && absent[i].name; i++)
        if (strcmp(absent[i].name, name) == 0)
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "the task '%s' needs %s, which this program was built without; run: %s",
                        name, absent[i].library, absent[i].cure);
    char list[256] = "";
    for (int i = 0; env_at(i); i++)
        text_add(list, sizeof list, "%s%s", i ? ", " : "", env_at(i)->task.name);
    return FAIL(err, FIRM_E_USAGE, "there is no task '%.64s'; the tasks are: %s", name ? name : "",
                list);
}

env_demo env_demo_of(const env_spec* spec) {
    return spec->study ? spec->study->demo : (env_demo){.episodes = 50, .offset = 50, .tries = 8};
}

firm_status env_need_simulator(const env_spec* spec, const char* needs, firm_error* err) {
    if (spec->sim) return FIRM_OK;
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "%s needs a simulator, and the task %s is recorded data alone; name a MuJoCo model "
                "in its task file, or write a plug-in",
                needs, spec->task.name);
}

firm_status env_create(const env_spec* spec, env** out, firm_error* err) {
    *out = NULL;
    TRY(env_need_simulator(spec, "an environment", err));
    env* e = mem_calloc(1, spec->sim->bytes);
    if (!e) return FAIL(err, FIRM_E_MEMORY, "no memory for a %s environment", spec->task.name);
    e->spec = spec;
    if (spec->sim->open) {
        firm_status s = spec->sim->open(e, err);
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
    if (e->spec->sim->close) e->spec->sim->close(e);
    mem_free(e);
}

void env_recall(env* e, const double* state) {
    if (e->spec->sim->recall)
        e->spec->sim->recall(e, state);
    else
        e->spec->sim->state_set(e, state);
}

firm_status env_open_without_mujoco(env* e, firm_error* err) {
    return FAIL(
        err, FIRM_E_UNAVAILABLE,
        "the task '%s' needs MuJoCo, which this program was built without; run: make mujoco "
        "build",
        e->spec->task.name);
}

firm_status env_render_ready(env** envs, int count, firm_error* err) {
    for (int i = 0; i < count; i++)
        if (envs[i]->spec->sim->render_ready) TRY(envs[i]->spec->sim->render_ready(envs[i], err));
    return FIRM_OK;
}

firm_status env_picture(env* e, const double* state, uint8_t* rgb) {
    if (e->spec->sim->picture) {
        e->spec->sim->picture(e, state, rgb);
        return e->fault;
    }
    e->spec->sim->state_set(e, state);
    if (e->fault == FIRM_OK) e->spec->sim->render(e, rgb);
    return e->fault;
}

firm_status env_policy_find(const env_spec* spec, const char* name, env_policy* out,
                            firm_error* err) {
    const env_collection* c = spec->collection;
    char list[256] = "";
    for (int i = 0; i < c->policies; i++) {
        if (!name || strcmp(name, c->policy[i].name) == 0) {
            *out = c->policy[i];
            return FIRM_OK;
        }
        text_add(list, sizeof list, "%s%s", i ? ", " : "", c->policy[i].name);
    }
    return FAIL(err, FIRM_E_USAGE, "%s has no collection policy '%.64s'; it has: %s",
                spec->task.name, name, list);
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

static int shows(const env_sign* sign, int (*width)(void* user, const char* column), void* user) {
    for (; sign && sign->column; sign++) {
        int w = width(user, sign->column);
        if (w > 0 && (sign->width == 0 || sign->width == w)) return 1;
    }
    return 0;
}

const char* env_guess_task(int (*width)(void* user, const char* column), void* user) {
    for (int i = TASKS - 1; i >= 0; i--)  // the later ones have the more telling columns
        if (shows(tasks[i]->layout->signs, width, user)) return tasks[i]->task.name;
    for (int i = 0; absent[i].name; i++)
        if (shows(absent[i].signs, width, user)) return absent[i].name;
    return NULL;
}
