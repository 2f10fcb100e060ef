// plugin.c - loads a task from a shared library and adapts its tables to an env_spec.
// First in the flow env -> data -> ...; try it: firm check ./task.so
#define _GNU_SOURCE
#include "env/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "env/smooth.h"

enum { EPISODES = 1000, STEPS = 100, ANCHORS = 128, BRANCHES = 32, MOST = 1 << 20 };
#define SIM_BYTES ((size_t)1 << 30)  // the most one simulator may ask for

typedef struct plugin {
    env_spec spec;         // first: hooks find the rest by it
    firm_task task;        // copies of the library's tables; zeros where it is older than we are
    firm_simulator sim;    //
    firm_collection made;  //
    env_state states;
    env_simulator simulator;
    env_collection collection;
    env_layout layout;
    env_policy policy;
    char path[PATH_MAX];
    struct plugin* next;
} plugin;

// One environment: the program's part, then the library's own bytes.
typedef struct plugin_env {
    env_smooth base;
    alignas(max_align_t) unsigned char sim[];
} plugin_env;

static const plugin* plugin_of(const env_spec* spec) {
    return (const plugin*)(const void*)spec;
}

static void* sim_of(const env* e) {
    return ((plugin_env*)(void*)(uintptr_t)e)->sim;
}

// ---- random numbers ----

typedef struct stream {
    firm_random table;  // first
    rng* r;
} stream;

static double draw_uniform(firm_random* r) {
    return rng_uniform(((stream*)(void*)r)->r, 0.0, 1.0);
}

static double draw_gauss(firm_random* r) {
    return rng_gauss(((stream*)(void*)r)->r);
}

static stream stream_of(rng* r) {
    return (stream){{sizeof(firm_random), draw_uniform, draw_gauss}, r};
}

// ---- running ----

static void note_fault(env* e) {
    double state[ENV_MAX_STATE];
    plugin_of(e->spec)->sim.state_get(sim_of(e), state);
    for (int i = 0; i < e->spec->state->dim; i++)
        if (!isfinite(state[i])) e->fault = FIRM_E_VALUE;
}

static firm_status open_sim(env* e, firm_error* err) {
    const plugin* p = plugin_of(e->spec);
    char why[256] = "";
    if (!p->sim.open || p->sim.open(sim_of(e), why, sizeof why) == 0) return FIRM_OK;
    why[sizeof why - 1] = 0;
    return FAIL(err, FIRM_E_UNAVAILABLE, "%s could not make a simulator: %s", p->path,
                why[0] ? why : "it does not say why");
}

static void close_sim(env* e) {
    plugin_of(e->spec)->sim.close(sim_of(e));
}

static void reset(env* e, rng* r) {
    stream s = stream_of(r);
    e->fault = FIRM_OK;
    plugin_of(e->spec)->sim.reset(sim_of(e), &s.table);
    note_fault(e);
}

static void step(env* e, const float* action) {
    const task_typed* t = &e->spec->task;
    float kept[FIRM_MAX_ACTION];
    for (int i = 0; i < t->action_dim; i++) {
        if (!isfinite(action[i])) {
            e->fault = FIRM_E_VALUE;  // nothing moves
            return;
        }
        kept[i] = !t->action_clamped           ? action[i]
                  : action[i] < t->action_low  ? t->action_low
                  : action[i] > t->action_high ? t->action_high
                                               : action[i];
    }
    plugin_of(e->spec)->sim.step(sim_of(e), kept);
    note_fault(e);
}

static void state_get(const env* e, double* state) {
    plugin_of(e->spec)->sim.state_get(sim_of(e), state);
}

static void state_set(env* e, const double* state) {
    e->fault = env_fits(e->spec, state) ? FIRM_OK : FIRM_E_VALUE;
    if (e->fault == FIRM_OK) plugin_of(e->spec)->sim.state_set(sim_of(e), state);
}

static void render(const env* e, uint8_t* rgb) {
    plugin_of(e->spec)->sim.render(sim_of(e), rgb);
}

// ---- states ----

static int fits(const env_spec* spec, const double* state) {
    for (int i = 0; i < spec->state->dim; i++)
        if (!isfinite(state[i])) return 0;
    return !plugin_of(spec)->sim.fits || plugin_of(spec)->sim.fits(state) != 0;
}

static void config(const env_spec* spec, const double* state, float* c) {
    plugin_of(spec)->sim.config(state, c);
}

static void chi(const env_spec* spec, const double* state, const double* before,
                const double* macro_before, float* out) {
    plugin_of(spec)->sim.chi(state, before, macro_before, out);
}

static int success(const env_spec* spec, const double* state, const double* goal) {
    return plugin_of(spec)->sim.success(state, goal) != 0;
}

// ---- collecting ----

static void act(env* e, rng* r, float* action) {
    stream s = stream_of(r);
    plugin_of(e->spec)->made.act(sim_of(e), &s.table, action);
}

static int done(const env* e) {
    return plugin_of(e->spec)->made.done(sim_of(e)) != 0;
}

// ---- reading the tables ----

// Copies a table that begins with its size; what it lacks stays zero.
static void copy_table(void* to, size_t room, const void* from) {
    size_t size;
    memcpy(&size, from, sizeof size);
    memcpy(to, from, size < room ? size : room);
}

static int in(int value, int least, int most) {
    return value >= least && value <= most;
}

static firm_status check_simulator(const plugin* p, const char* from, firm_error* err) {
    const firm_simulator* s = &p->sim;
    const struct {
        const char* name;
        int given;
    } needed[] = {{"reset", s->reset != NULL},         {"step", s->step != NULL},
                  {"state_get", s->state_get != NULL}, {"state_set", s->state_set != NULL},
                  {"render", s->render != NULL},       {"config", s->config != NULL}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].given)
            return FAIL(err, FIRM_E_FORMAT, "%s: its simulator has no function %s; give it one",
                        from, needed[i].name);
    if (s->bytes < 1 || s->bytes > SIM_BYTES)
        return FAIL(err, FIRM_E_VALUE, "%s: a simulator of %zu bytes; use 1 to %zu", from, s->bytes,
                    SIM_BYTES);
    return FIRM_OK;
}

static firm_status check_collection(const plugin* p, const char* from, firm_error* err) {
    const firm_collection* c = &p->made;
    const struct {
        const char* name;
        int value, least;
    } count[] = {{"steps", c->steps, 30},
                 {"episodes", c->episodes, 10},
                 {"anchors", c->anchors, 1},
                 {"branches", c->branches, 1}};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        if (count[i].value != 0 && !in(count[i].value, count[i].least, MOST))
            return FAIL(err, FIRM_E_VALUE, "%s: its collection has %s = %d; use %d to %d, or 0",
                        from, count[i].name, count[i].value, count[i].least, MOST);
    if (!c->act && c->policy)
        return FAIL(err, FIRM_E_VALUE,
                    "%s: the policy '%s' has no function act; give it one or no name", from,
                    c->policy);
    return FIRM_OK;
}

static firm_status read_tables(plugin* p, const firm_task* task, const char* from,
                               firm_error* err) {
    copy_table(&p->task, sizeof p->task, task);
    if (!p->task.typed || !p->task.simulator)
        return FAIL(err, FIRM_E_FORMAT, "%s: its table has no %s; give it one", from,
                    p->task.typed ? "simulator" : "typed task");
    copy_table(&p->sim, sizeof p->sim, p->task.simulator);
    if (p->task.collection) copy_table(&p->made, sizeof p->made, p->task.collection);
    TRY(task_read(from, p->task.typed, &p->spec.task, err));
    if (!in(p->task.state_dim, 1, ENV_MAX_STATE))
        return FAIL(err, FIRM_E_VALUE, "%s: state_dim is %d; use 1 to %d", from, p->task.state_dim,
                    ENV_MAX_STATE);
    TRY(check_simulator(p, from, err));
    TRY(check_collection(p, from, err));
    if (!p->sim.chi && p->spec.task.chi_dim != p->spec.task.config_dim)
        return FAIL(err, FIRM_E_VALUE,
                    "%s: without a function chi, chi is the change of the %d coordinates; say "
                    "chi = %d",
                    from, p->spec.task.config_dim, p->spec.task.config_dim);
    return FIRM_OK;
}

// ---- the parts of the spec ----

static int or_default(int value, int otherwise) {
    return value ? value : otherwise;
}

static const char* text_or(const char* text, const char* otherwise) {
    return text ? text : otherwise;
}

static void make_parts(plugin* p) {
    const firm_simulator* s = &p->sim;
    const firm_collection* c = &p->made;
    const char* version = text_or(p->task.version, p->spec.task.name);
    p->states = (env_state){.dim = p->task.state_dim,
                            .fits = fits,
                            .config = config,
                            .chi = s->chi ? chi : NULL,
                            .success = s->success ? success : NULL};
    p->simulator = (env_simulator){.physics = version,
                                   .renderer = version,
                                   .bytes = sizeof(plugin_env) + s->bytes,
                                   .open = open_sim,
                                   .close = s->close ? close_sim : NULL,
                                   .reset = reset,
                                   .step = step,
                                   .state_get = state_get,
                                   .state_set = state_set,
                                   .render = render};
    p->policy = (env_policy){.name = c->act ? text_or(c->policy, "own") : "smooth",
                             .title = c->act ? "the task's own" : "smooth random actions",
                             .episode_cap = or_default(c->steps, STEPS),
                             .reset = c->act ? reset : env_smooth_reset,
                             .act = c->act ? act : env_smooth_act,
                             .terminated = c->done ? done : NULL};
    p->collection = (env_collection){
        .episodes = or_default(c->episodes, EPISODES),
        .policies = 1,
        .policy = &p->policy,
        .interventions = {ENV_PROPOSAL_GAUSSIAN, 1, or_default(c->anchors, ANCHORS),
                          or_default(c->branches, BRANCHES)}};
    p->collection.validation = (p->collection.episodes + 9) / 10;
    p->layout = (env_layout){.state_column = "state", .state_bits = 64};
    p->spec.title = text_or(p->task.title, "a task of your own");
    p->spec.state = &p->states;
    p->spec.sim = &p->simulator;
    p->spec.collection = &p->collection;
    p->spec.layout = &p->layout;
}

// ---- loaded ones ----

static plugin* loaded;  // stay until the program ends
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static plugin* find_loaded(const char* path) {
    for (plugin* p = loaded; p; p = p->next)
        if (strcmp(p->path, path) == 0) return p;
    return NULL;
}

static firm_status add(const firm_task* task, const char* from, const env_spec** spec,
                       firm_error* err) {
    plugin* p = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for the task %s", from);
    snprintf(p->path, sizeof p->path, "%s", from);
    firm_status status = read_tables(p, task, from, err);
    if (status != FIRM_OK) {
        mem_free(p);
        return status;
    }
    make_parts(p);
    p->next = loaded;
    loaded = p;
    *spec = &p->spec;
    return FIRM_OK;
}

static firm_status load(const char* path, const char* from, const env_spec** spec,
                        firm_error* err) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return FAIL(err, FIRM_E_FORMAT, "%s cannot be loaded: %s", from, dlerror());
    const firm_task* (*entry)(int);
    void* symbol = dlsym(library, "firm_task_entry");
    const firm_task* task = NULL;
    firm_status status = FIRM_OK;
    if (!symbol)
        status =
            FAIL(err, FIRM_E_FORMAT,
                 "%s exports no firm_task_entry; a task is a library made with firm_task.h", from);
    if (status == FIRM_OK) {
        memcpy(&entry, &symbol, sizeof entry);
        task = entry(FIRM_TASK_ABI);
        if (!task)
            status = FAIL(err, FIRM_E_UNAVAILABLE,
                          "%s does not serve version %d of the task interface; compile it again",
                          from, FIRM_TASK_ABI);
    }
    if (status == FIRM_OK) status = add(task, from, spec, err);
    if (status != FIRM_OK) dlclose(library);
    return status;
}

firm_status plugin_open(const char* path, const env_spec** spec, firm_error* err) {
    char whole[PATH_MAX];
    *spec = NULL;
    if (!realpath(path, whole))
        return FAIL(err, FIRM_E_MISSING, "there is no file %s; give the path of a task's library",
                    path);
    pthread_mutex_lock(&lock);
    plugin* p = find_loaded(whole);
    firm_status status = FIRM_OK;
    if (p)
        *spec = &p->spec;
    else
        status = load(whole, whole, spec, err);
    pthread_mutex_unlock(&lock);
    return status;
}

firm_status plugin_spec(const firm_task* task, const char* from, const env_spec** spec,
                        firm_error* err) {
    pthread_mutex_lock(&lock);
    firm_status status = add(task, from, spec, err);
    pthread_mutex_unlock(&lock);
    return status;
}
