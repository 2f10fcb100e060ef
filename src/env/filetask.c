// filetask.c - makes the parts of an env_spec from the words of a task file.
// First in the flow env -> data -> ...; try it: firm train robot.ini --data robot.h5 --sources F -o
// run
#include "env/filetask.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "env/smooth.h"
#ifdef FIRM_MUJOCO
#include "env/mujoco/mjcf.h"
#endif

// One in ten episodes is held out; interventions as the other tasks have them.
enum { EPISODES = 1000, ANCHORS = 128, BRANCHES = 32 };

static void config(const env_spec* spec, const double* state, float* c) {
    taskfile_config(&((const file_task*)(const void*)spec)->file, state, c);
}

static void make_recording(file_task* t) {
    taskfile* f = &t->file;
    for (int i = 0; i < f->refs; i++) {
        t->source[i].column = f->ref[i].name;
        t->source[i].index = f->ref[i].index;
    }
    t->recording = (env_recording){f->image, f->action, f->time[0] ? f->time : NULL, t->source};
    t->layout = (env_layout){.recording = &t->recording};
    t->state = (env_state){.dim = f->refs, .config = config};
    snprintf(t->title, sizeof t->title, "recorded data, by %.100s", f->path);
}

// A part of a model, such as xpos(ball), is no column.
static firm_status check_columns(const taskfile* f, firm_error* err) {
    for (int i = 0; i < f->refs; i++)
        if (f->ref[i].of[0])
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: %s(%s) is a part of a MuJoCo model; write COLUMN or COLUMN[i], or "
                        "name the model under [simulator]",
                        f->path, f->ref[i].name, f->ref[i].of);
    return FIRM_OK;
}

#ifdef FIRM_MUJOCO
static void make_simulator(file_task* t, uint32_t sum) {
    const mjcf* w = t->world;
    const char* slash = strrchr(t->file.simulator.xml, '/');
    snprintf(t->physics, sizeof t->physics, "MuJoCo %s, %.100s %08x", mj_versionString(),
             slash ? slash + 1 : t->file.simulator.xml, (unsigned)sum);
    snprintf(t->title, sizeof t->title, "a MuJoCo model, by %.100s", t->file.path);
    t->sim = mjcf_simulator;
    t->sim.physics = t->physics;
    t->state =
        (env_state){.dim = w->nq + w->nv + w->na + w->seen, .drawn = w->nq, .config = config};
    t->layout = (env_layout){.state_column = "qpos", .state_bits = 64};
    const env_field more[] = {{"qvel", w->nv}, {"act", w->na}, {"seen", w->seen}};
    for (int i = 0, n = 0; i < 3; i++)
        if (more[i].width) t->layout.state_more[n++] = more[i];
    t->spec.sim = &t->sim;
}

static firm_status open_model(file_task* t, firm_error* err) {
    uint32_t sum;
    TRY(mjcf_open(&t->file, &t->world, &sum, err));
    make_simulator(t, sum);
    return FIRM_OK;
}
#else
static firm_status open_model(file_task* t, firm_error* err) {
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "%s names a MuJoCo model, and this program was built without MuJoCo; run: make "
                "mujoco build",
                t->file.path);
}
#endif

static firm_status fill(file_task* t, const char* path, firm_error* err) {
    TRY(taskfile_read(path, &t->file, err));
    if (t->file.simulator.xml[0]) {
        TRY(open_model(t, err));
    } else {
        TRY(check_columns(&t->file, err));
        make_recording(t);
    }
    t->policy = (env_policy){.name = "smooth",
                             .title = "smooth random actions",
                             .episode_cap = t->file.simulator.episode,
                             .reset = env_smooth_reset,
                             .act = env_smooth_act};
    t->collection =
        (env_collection){.episodes = EPISODES,
                         .validation = EPISODES / 10,
                         .policies = t->world ? 1 : 0,
                         .policy = &t->policy,
                         .interventions = {ENV_PROPOSAL_GAUSSIAN, 1, ANCHORS, BRANCHES}};
    t->spec.task = t->file.task;
    t->spec.title = t->title;
    t->spec.state = &t->state;
    t->spec.collection = &t->collection;
    t->spec.layout = &t->layout;
    return FIRM_OK;
}

// ---- opened ones --------------------------------------------------------------------------------

static file_task* opened;  // stay until the program ends
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

firm_status filetask_open(const char* path, const env_spec** out, firm_error* err) {
    *out = NULL;
    file_task* t = mem_calloc(1, sizeof *t);
    if (!t) return FAIL(err, FIRM_E_MEMORY, "no memory for the task %s", path);
    firm_status status = fill(t, path, err);
    if (status != FIRM_OK) {
        mem_free(t);
        return status;
    }
    pthread_mutex_lock(&lock);
    t->next = opened;
    opened = t;
    pthread_mutex_unlock(&lock);
    *out = &t->spec;
    return FIRM_OK;
}
