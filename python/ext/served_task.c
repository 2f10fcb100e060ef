// served_task.c - a task whose simulator is a Python process: the plug-in (firm_task.h) behind
// firm.tasks.from_gymnasium(). firm/tasks.py copies the compiled library into a task's folder and
// writes two texts beside it: `typed`, the typed task, and `serve`, one "key value" a line. Every
// simulator is a process of its own (firm/_serve.py), asked through a socket; the functions of
// states alone ask one more, which they share.
//
// A request is one letter and its numbers; the answer is one byte, 0 if it worked, and its numbers:
//   r seed (uint64)     -> state        a random start
//   s action (float32)  -> state        one control
//   w state (float64)   -> state        set
//   p                   -> picture
//   c state (float64)   -> config (float32)
// A process that fails prints why, and its simulator's state becomes NaN, which stops the program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "firm_task.h"

extern char** environ;

enum { TEXT = 16384, MOST = 64 };

typedef struct server {
    pid_t pid;
    int fd;  // of the socket
} server;

typedef struct sim {
    server s;
    double state[MOST];
} sim;

// What the folder says; read once, when the library is loaded.
static struct {
    char typed[TEXT], title[256], version[256], python[PATH_MAX], folder[PATH_MAX];
    int state, action, config, image, steps, episodes, anchors, branches;
} task;

// ---- talking ------------------------------------------------------------------------------------

static int put(int fd, const void* bytes, size_t n) {
    for (const char* p = bytes; n > 0;) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return 0;
        p += done;
        n -= (size_t)done;
    }
    return 1;
}

static int get(int fd, void* bytes, size_t n) {
    for (char* p = bytes; n > 0;) {
        ssize_t done = recv(fd, p, n, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return 0;
        p += done;
        n -= (size_t)done;
    }
    return 1;
}

// One question; 0 if it failed.
static int ask(const server* s, char what, const void* in, size_t given, void* out, size_t wanted) {
    char request[1 + 64 * sizeof(double)], worked = 1;
    if (s->fd <= 0 || given >= sizeof request) return 0;
    request[0] = what;
    if (given) memcpy(request + 1, in, given);
    return put(s->fd, request, 1 + given) && get(s->fd, &worked, 1) && worked == 0 &&
           get(s->fd, out, wanted);
}

// ---- processes ----------------------------------------------------------------------------------

static int start(server* s, char* why, size_t room) {
    int pair[2];
    char* const argv[] = {task.python, "-m", "firm._serve", task.folder, NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        snprintf(why, room, "no socket for its Python process: %s", strerror(errno));
        return 1;
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pair[1], 0);  // its standard input
    int failed = posix_spawn(&s->pid, task.python, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(pair[1]);
    s->fd = pair[0];
    char ready = 1;
    if (!failed && get(s->fd, &ready, 1) && ready == 0) return 0;
    snprintf(why, room, failed ? "%.100s cannot be run: %s" : "its Python process %.100s ended: %s",
             task.python, failed ? strerror(failed) : "see above");
    close(s->fd);
    s->fd = -1;
    if (!failed) waitpid(s->pid, NULL, 0);
    return 1;
}

static int open_sim(void* memory, char* why, size_t room) {
    return start(&((sim*)memory)->s, why, room);
}

static void close_sim(void* memory) {
    sim* m = memory;
    if (m->s.fd <= 0) return;
    close(m->s.fd);  // the process ends when it reads the end
    waitpid(m->s.pid, NULL, 0);
}

// ---- the simulator ------------------------------------------------------------------------------

static void change(sim* m, char what, const void* in, size_t given) {
    if (ask(&m->s, what, in, given, m->state, (size_t)task.state * sizeof(double))) return;
    for (int i = 0; i < task.state; i++) m->state[i] = NAN;
}

static void reset(void* memory, firm_random* random) {
    uint64_t seed = (uint64_t)(random->uniform(random) * 9007199254740992.0);
    change(memory, 'r', &seed, sizeof seed);
}

static void step(void* memory, const float* action) {
    change(memory, 's', action, (size_t)task.action * sizeof *action);
}

static void state_set(void* memory, const double* state) {
    change(memory, 'w', state, (size_t)task.state * sizeof *state);
}

static void state_get(const void* memory, double* state) {
    memcpy(state, ((const sim*)memory)->state, (size_t)task.state * sizeof *state);
}

static void render(const void* memory, uint8_t* rgb) {
    const size_t bytes = (size_t)task.image * (size_t)task.image * 3;
    if (!ask(&((const sim*)memory)->s, 'p', NULL, 0, rgb, bytes)) memset(rgb, 0, bytes);
}

// ---- functions of states: one process for all threads -------------------------------------------

static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;
static server shared;

static void config(const double* state, float* c) {
    char why[512];
    pthread_mutex_lock(&sharing);
    if (shared.pid == 0 && start(&shared, why, sizeof why) != 0) fprintf(stderr, "firm: %s\n", why);
    const size_t given = (size_t)task.state * sizeof *state;
    if (!ask(&shared, 'c', state, given, c, (size_t)task.config * sizeof *c))
        for (int i = 0; i < task.config; i++) c[i] = NAN;
    pthread_mutex_unlock(&sharing);
}

__attribute__((destructor)) static void leave(void) {
    if (shared.fd > 0) close(shared.fd);
}

// ---- the tables ---------------------------------------------------------------------------------

static firm_simulator simulator = {.size = sizeof simulator,
                                   .bytes = sizeof(sim),
                                   .reset = reset,
                                   .step = step,
                                   .state_get = state_get,
                                   .state_set = state_set,
                                   .render = render,
                                   .config = config,
                                   .open = open_sim,
                                   .close = close_sim};
static firm_collection collection = {.size = sizeof collection};
static firm_task table = {.size = sizeof table,
                          .typed = task.typed,
                          .title = task.title,
                          .version = task.version,
                          .simulator = &simulator,
                          .collection = &collection};

static int read_text(const char* name, char* out, size_t room) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", task.folder, name);
    FILE* file = fopen(path, "r");
    size_t n = file ? fread(out, 1, room - 1, file) : 0;
    if (file) fclose(file);
    out[n] = 0;
    return n > 0 && n < room - 1;
}

static void take(const char* key, const char* value) {
    const struct {
        const char* name;
        int* number;
    } numbers[] = {{"state", &task.state},     {"action", &task.action},
                   {"config", &task.config},   {"image", &task.image},
                   {"steps", &task.steps},     {"episodes", &task.episodes},
                   {"anchors", &task.anchors}, {"branches", &task.branches}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].name) == 0) *numbers[i].number = (int)strtol(value, NULL, 10);
    if (strcmp(key, "title") == 0) snprintf(task.title, sizeof task.title, "%s", value);
    if (strcmp(key, "version") == 0) snprintf(task.version, sizeof task.version, "%s", value);
    if (strcmp(key, "python") == 0) snprintf(task.python, sizeof task.python, "%s", value);
}

FIRM_TASK_EXPORT const firm_task* firm_task_entry(int abi) {
    char serve[TEXT];
    Dl_info here;
    if (abi != FIRM_TASK_ABI || !dladdr((void*)(uintptr_t)firm_task_entry, &here)) return NULL;
    if (!realpath(here.dli_fname, task.folder)) return NULL;
    *strrchr(task.folder, '/') = 0;
    if (!read_text("typed", task.typed, sizeof task.typed) ||
        !read_text("serve", serve, sizeof serve))
        return NULL;
    for (char *rest = serve, *line; (line = strsep(&rest, "\n"));) {
        char* value = strchr(line, ' ');
        if (!value) continue;
        *value++ = 0;
        take(line, value);
    }
    if (task.state < 1 || task.state > MOST || task.action < 1 || task.action > 32 ||
        task.config < 1 || task.config > 32 || task.image < 1 || task.image > 512)
        return NULL;
    table.state_dim = task.state;
    collection.steps = task.steps;
    collection.episodes = task.episodes;
    collection.anchors = task.anchors;
    collection.branches = task.branches;
    return &table;
}
