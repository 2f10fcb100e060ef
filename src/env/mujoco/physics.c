// physics.c - MuJoCo as a well-behaved library: errors become statuses, warnings are counted,
// models are shared, and scene files are found wherever the program runs. Used by the tasks in this
// folder.
#define _GNU_SOURCE  // readlink
#include "env/mujoco/physics.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"

// ---- errors -------------------------------------------------------------------------------------

// MuJoCo's fatal errors do not return to it: the handler leaves through the innermost physics_call
// of its thread. A thread that is not inside one belongs to somebody else, whose handler then gets
// the message.
static _Thread_local jmp_buf* landing;
static _Thread_local char last_text[256];
static mjfLogHandler other_handler;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void on_message(const mjLogMessage* message) {
    if (!landing) {
        if (other_handler) other_handler(message);
        return;
    }
    if (message->level >= mjLOG_WARNING)
        snprintf(last_text, sizeof last_text, "%.240s", message->subject);
    if (message->level >= mjLOG_ERROR) longjmp(*landing, 1);
}

static void install(void) {
    other_handler = mju_setLogHandler(on_message);
}

firm_status physics_call(void (*fn)(void* arg), void* arg, char text[256]) {
    pthread_once(&installed, install);
    jmp_buf here;
    jmp_buf* volatile outer = landing;
    last_text[0] = '\0';
    firm_status status = FIRM_OK;
    if (setjmp(here) == 0) {
        landing = &here;
        fn(arg);
    } else {
        status = FIRM_E_VALUE;
    }
    landing = outer;
    if (text) memcpy(text, last_text, sizeof last_text);
    return status;
}

int physics_broken(const mjModel* m, const mjData* d) {
    for (int i = 0; i < mjNWARNING; i++)
        if (d->warning[i].number) return 1;
    for (int i = 0; i < m->nq; i++)
        if (!isfinite(d->qpos[i])) return 1;
    for (int i = 0; i < m->nv; i++)
        if (!isfinite(d->qvel[i])) return 1;
    return 0;
}

// ---- files --------------------------------------------------------------------------------------

static int there(char path[1024], const char* folder, const char* file) {
    return snprintf(path, 1024, "%s/%s", folder, file) < 1024 && file_exists(path);
}

firm_status physics_find(const char* file, char path[1024], firm_error* err) {
    const char* given = getenv("FIRM_MODELS_DIR");
    if (given && *given) {
        if (there(path, given, file)) return FIRM_OK;
        return FAIL(err, FIRM_E_IO,
                    "there is no scene file %.400s/%s; point FIRM_MODELS_DIR at a folder like "
                    "third_party/scenes, or unset it",
                    given, file);
    }
    if (there(path, FIRM_SCENES_DIR, file)) return FIRM_OK;
    char program[512];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = '\0';
        char* slash = strrchr(program, '/');
        if (slash) *slash = '\0';
        char folder[600];
        snprintf(folder, sizeof folder, "%s/../share/firm/scenes", program);
        if (there(path, folder, file)) return FIRM_OK;
    }
    return FAIL(
        err, FIRM_E_IO,
        "the scene file %s is missing (looked in %s); run `make mujoco`, or set FIRM_MODELS_DIR",
        file, FIRM_SCENES_DIR);
}

typedef struct load_call {
    const char* path;
    mjModel* model;
    char error[200];
} load_call;

static void load(void* arg) {
    load_call* c = arg;
    c->model = mj_loadXML(c->path, NULL, c->error, sizeof c->error);
}

firm_status physics_load(const char* file, mjModel** out, firm_error* err) {
    char path[1024], text[256];
    *out = NULL;
    TRY(physics_find(file, path, err));
    load_call c = {.path = path};
    if (physics_call(load, &c, text) != FIRM_OK)
        return FAIL(err, FIRM_E_FORMAT, "MuJoCo cannot load %s: %s; run `make mujoco` again", path,
                    text);
    if (!c.model)
        return FAIL(err, FIRM_E_FORMAT, "MuJoCo cannot load %.150s: %.*s; run `make mujoco` again",
                    path, (int)strcspn(c.error, "\n"), c.error);
    *out = c.model;
    return FIRM_OK;
}

// ---- shared models ------------------------------------------------------------------------------

static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;

firm_status physics_acquire(physics_shared* s, const mjModel** out, firm_error* err) {
    firm_status status = FIRM_OK;
    pthread_mutex_lock(&sharing);
    if (s->users == 0) status = s->build(&s->model, err);
    if (status == FIRM_OK) s->users++;
    *out = status == FIRM_OK ? s->model : NULL;
    pthread_mutex_unlock(&sharing);
    return status;
}

void physics_release(physics_shared* s) {
    pthread_mutex_lock(&sharing);
    if (--s->users == 0) {
        mj_deleteModel(s->model);
        s->model = NULL;
    }
    pthread_mutex_unlock(&sharing);
}

typedef struct data_call {
    const mjModel* model;
    mjData* data;
} data_call;

static void make_data(void* arg) {
    data_call* c = arg;
    c->data = mj_makeData(c->model);
}

firm_status physics_data(const mjModel* m, mjData** out, firm_error* err) {
    char text[256];
    data_call c = {.model = m};
    firm_status status = physics_call(make_data, &c, text);
    *out = c.data;
    if (status != FIRM_OK || !c.data)
        return FAIL(err, FIRM_E_MEMORY, "no memory for a MuJoCo simulation%s%s",
                    text[0] ? ": " : "", text);
    return FIRM_OK;
}

firm_status physics_id(const mjModel* m, mjtObj type, const char* name, int* id, firm_error* err) {
    *id = mj_name2id(m, type, name);
    if (*id >= 0) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "the scene has no %s '%s'; run `make mujoco` again",
                mju_type2Str(type), name);
}
