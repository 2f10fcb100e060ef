// interrupt.c - the signal handler and what it may touch: atomics, unlink, kill, write, _exit.
#define _GNU_SOURCE
#include "core/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "core/temp.h"

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
enum { CAUGHT = sizeof caught / sizeof *caught, CHILDREN = 64 };

static pid_t owner;  // a child of ours between fork and exec must not remove our files
static char text_before[256], text_after[8192];
static atomic_int held, noted;
static atomic_int children[CHILDREN];  // pids; 0: free

const char* interrupt_name(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

static void say(const char* text) {
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, text, n);
        if (done <= 0) return;  // there is nobody to tell
        text += done;
        n -= (size_t)done;
    }
}

static void end_now(int signal) {
    temp_remove_all();
    if (log_bar_shown()) say("\r\033[K");
    say(text_before);
    say(interrupt_name(signal));
    say(text_after);
    _exit(128 + signal);
}

static void on_signal(int signal) {
    int code = errno, none = 0;
    if (getpid() != owner) _exit(128 + signal);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = atomic_load(&children[i]);
        if (child > 0) kill(child, signal);
    }
    if (!atomic_load(&held) || !atomic_compare_exchange_strong(&noted, &none, signal))
        end_now(signal);
    errno = code;
}

void interrupt_catch(const char* before, const char* after) {
    owner = getpid();
    snprintf(text_before, sizeof text_before, "%s", before);
    snprintf(text_after, sizeof text_after, "%s", after);
    // calls that a held signal meets are begun again, so that no write is cut short by it
    struct sigaction now = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, was;
    sigemptyset(&now.sa_mask);
    for (int i = 0; i < CAUGHT; i++) sigaddset(&now.sa_mask, caught[i]);
    for (int i = 0; i < CAUGHT; i++)
        if (sigaction(caught[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(caught[i], &now, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

void interrupt_hold(void) {
    atomic_store(&held, 1);
}

void interrupt_release(void) {
    atomic_store(&held, 0);
    if (atomic_load(&noted)) end_now(atomic_load(&noted));
}

int interrupt_seen(void) {
    return atomic_load(&noted);
}

static void swap_child(pid_t from, pid_t to) {
    for (int i = 0; i < CHILDREN; i++) {
        int it = (int)from;
        if (atomic_compare_exchange_strong(&children[i], &it, (int)to)) return;
    }
}

// No signal may come between the birth of a child and its place in the list.
pid_t interrupt_fork(void) {
    sigset_t ours, was;
    sigemptyset(&ours);
    for (int i = 0; i < CAUGHT; i++) sigaddset(&ours, caught[i]);
    pthread_sigmask(SIG_BLOCK, &ours, &was);
    pid_t child = -1;
    int code = EINTR;
    if (!interrupt_seen()) {
        child = fork();
        code = errno;
    }
    if (child > 0) swap_child(0, child);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    errno = code;
    return child;
}

pid_t interrupt_wait(int* code) {
    pid_t child = waitpid(-1, code, 0);
    if (child > 0) swap_child(child, 0);
    return child;
}
