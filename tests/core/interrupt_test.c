// interrupt_test.c - signals: at once with one sentence and no temporary file, noted while held, at
// once again by a second one; children get each of them. Every case is a process of its own.
#define _GNU_SOURCE
#include "core/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"

typedef struct place {
    char folder[512], path[600], said[600];
} place;

static place place_of(const char* name) {
    place p;
    snprintf(p.folder, sizeof p.folder, "%s/%s", test_temp_dir(), name);
    if (mkdir(p.folder, 0755) != 0) abort();
    snprintf(p.path, sizeof p.path, "%s/out.bin", p.folder);
    snprintf(p.said, sizeof p.said, "%s/%s.txt", test_temp_dir(), name);
    return p;
}

static int entries(const char* folder) {
    int n = 0;
    DIR* d = opendir(folder);
    for (struct dirent* e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

// Runs `body` in a child whose standard error goes to p->said; returns its wait status.
static int in_child(const place* p, int (*body)(const place* p)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int said = open(p->said, O_CREAT | O_TRUNC | O_WRONLY, 0644);
        if (said < 0 || dup2(said, STDERR_FILENO) < 0) _exit(99);
        interrupt_catch("firm x: stopped by ", "; so it goes\n");
        _exit(body(p));
    }
    int code = 0;
    waitpid(child, &code, 0);
    return code;
}

static void expect_said(int line, const place* p, const char* want) {
    char text[256] = "";
    FILE* f = fopen(p->said, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
    if (strcmp(text, want) != 0) test_fail(__FILE__, line, "said '%s', not '%s'", text, want);
}

static int open_then_raise(const place* p) {
    file_writer w;
    firm_error none;
    if (file_open_write(&w, p->path, &none) != FIRM_OK) return 90;
    raise(strstr(p->folder, "term") ? SIGTERM : strstr(p->folder, "hup") ? SIGHUP : SIGINT);
    return 91;
}

TEST(core, interrupt_ends_at_once_without_temporary_files) {
    static const struct {
        const char *name, *says;
        int code;
    } cases[] = {{"now-int", "firm x: stopped by SIGINT; so it goes\n", 130},
                 {"now-term", "firm x: stopped by SIGTERM; so it goes\n", 143},
                 {"now-hup", "firm x: stopped by SIGHUP; so it goes\n", 129}};
    for (int i = 0; i < 3; i++) {
        place p = place_of(cases[i].name);
        int code = in_child(&p, open_then_raise);
        EXPECT(WIFEXITED(code));
        EXPECT_INT(WEXITSTATUS(code), cases[i].code);
        expect_said(__LINE__, &p, cases[i].says);
        EXPECT_INT(entries(p.folder), 0);
    }
}

static int held_once(const place* p) {
    file_writer w;
    firm_error none;
    if (interrupt_seen()) return 90;
    interrupt_hold();
    if (file_open_write(&w, p->path, &none) != FIRM_OK) return 91;
    raise(SIGTERM);
    if (interrupt_seen() != SIGTERM) return 92;
    if (file_put(&w, "whole", 5, &none) != FIRM_OK || file_commit(&w, &none) != FIRM_OK) return 93;
    return 7;
}

static int held_twice(const place* p) {
    file_writer w;
    firm_error none;
    interrupt_hold();
    if (file_open_write(&w, p->path, &none) != FIRM_OK) return 91;
    raise(SIGTERM);
    raise(SIGINT);
    return 92;
}

static int held_and_released(const place* p) {
    (void)p;
    interrupt_hold();
    interrupt_release();
    interrupt_hold();
    raise(SIGINT);
    interrupt_release();
    return 92;
}

TEST(core, interrupt_waits_while_it_is_held) {
    place p = place_of("held");
    EXPECT_INT(WEXITSTATUS(in_child(&p, held_once)), 7);
    expect_said(__LINE__, &p, "");
    EXPECT_INT(entries(p.folder), 1);
    unlink(p.path);
    EXPECT_INT(WEXITSTATUS(in_child(&p, held_twice)), 130);
    expect_said(__LINE__, &p, "firm x: stopped by SIGINT; so it goes\n");
    EXPECT_INT(entries(p.folder), 0);
    // one that came while held is not forgotten
    EXPECT_INT(WEXITSTATUS(in_child(&p, held_and_released)), 130);
    expect_said(__LINE__, &p, "firm x: stopped by SIGINT; so it goes\n");
}

// The child exits with the number of the signal it got, after telling that it listens.
static volatile sig_atomic_t got;
static void remember(int signal) {
    got = signal;
}

static int passes_on(const place* p) {
    int ready[2], code = 0;
    char c;
    (void)p;
    interrupt_hold();
    if (pipe(ready) != 0) return 90;
    pid_t child = interrupt_fork();
    if (child == 0) {
        sigset_t mask;
        struct sigaction act = {.sa_handler = remember};
        sigaction(SIGTERM, &act, NULL);
        // what was blocked around the fork must not stay so
        sigprocmask(SIG_SETMASK, NULL, &mask);
        if (sigismember(&mask, SIGTERM)) _exit(95);
        sigset_t all, none;
        sigfillset(&all);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &all, NULL);
        if (write(ready[1], "r", 1) != 1) _exit(96);
        sigsuspend(&none);
        _exit(got);
    }
    if (child < 0 || read(ready[0], &c, 1) != 1) return 91;
    raise(SIGTERM);
    if (interrupt_wait(&code) != child) return 92;
    if (WEXITSTATUS(code) != SIGTERM) return 93;
    // nobody is started any more
    if (interrupt_fork() != -1 || errno != EINTR) return 94;
    return 7;
}

TEST(core, interrupt_is_passed_on_to_children) {
    place p = place_of("children");
    EXPECT_INT(WEXITSTATUS(in_child(&p, passes_on)), 7);
}

// A signal that hits a child of ours before it is another program leaves our files alone.
static int child_before_exec(const place* p) {
    file_writer w;
    firm_error none;
    int code = 0;
    if (file_open_write(&w, p->path, &none) != FIRM_OK) return 91;
    pid_t child = fork();
    if (child == 0) {
        raise(SIGTERM);
        _exit(0);
    }
    if (waitpid(child, &code, 0) != child || WEXITSTATUS(code) != 143) return 92;
    return file_commit(&w, &none) == FIRM_OK ? 7 : 93;
}

TEST(core, interrupt_of_a_child_leaves_files_alone) {
    place p = place_of("fork");
    EXPECT_INT(WEXITSTATUS(in_child(&p, child_before_exec)), 7);
    expect_said(__LINE__, &p, "");
    EXPECT_INT(entries(p.folder), 1);
}

// As the shell does for jobs in the background, and nohup.
static int ignored_before(const place* p) {
    (void)p;
    signal(SIGINT, SIG_IGN);
    interrupt_catch("", "");
    raise(SIGINT);
    return 7;
}

// A file that may not grow is an error of the write, not the end of the process.
static int beyond_limit(const place* p) {
    static char block[65536];
    struct rlimit limit = {1000, 1000};
    file_writer w;
    firm_error err = {0};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 90;
    firm_status status = file_open_write(&w, p->path, &err);
    if (status == FIRM_OK) status = file_put(&w, block, sizeof block, &err);
    if (status == FIRM_OK) status = file_commit(&w, &err);
    return status == FIRM_E_IO && strstr(err.message, p->path) && strstr(err.message, "ulimit -f")
               ? 7
               : 91;
}

TEST(core, interrupt_leaves_ignored_signals_and_size_limits_to_others) {
    place p = place_of("ignored");
    EXPECT_INT(WEXITSTATUS(in_child(&p, ignored_before)), 7);
    int code = in_child(&p, beyond_limit);
    EXPECT(WIFEXITED(code));
    EXPECT_INT(WEXITSTATUS(code), 7);
    EXPECT_INT(entries(p.folder), 0);
}
