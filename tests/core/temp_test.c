// temp_test.c - temporary files: removed after a kill by the next writer, never while their process
// lives; and what is on disk before a file gets its name. The calls that make a file durable are
// watched: fsync() and rename() of this program forward to the system and note their order.
#define _GNU_SOURCE
#include "core/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"

// ---- what reaches the disk, and when ------------------------------------------------------------

static char calls[64];  // "f" a file synced, "d" a folder synced, "r" renamed; kept while watching
static int watching;
static off_t synced;  // bytes that the last file had when it was synced

static void note(char what) {
    size_t n = strlen(calls);
    if (watching && n + 1 < sizeof calls) {
        calls[n] = what;
        calls[n + 1] = 0;
    }
}

__attribute__((visibility("default"))) int fsync(int fd) {
    struct stat s;
    if (fstat(fd, &s) == 0) {
        note(S_ISDIR(s.st_mode) ? 'd' : 'f');
        if (watching && !S_ISDIR(s.st_mode)) synced = s.st_size;
    }
    return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int rename(const char* from, const char* to) {
    note('r');
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void watch(int on) {
    watching = on;
    if (on) calls[0] = 0;
}

static void target_in(const char* name, char folder[512], char path[600]) {
    snprintf(folder, 512, "%s/%s", test_temp_dir(), name);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) abort();
    snprintf(path, 600, "%s/out.bin", folder);
}

static int entries(const char* folder) {
    int n = 0;
    DIR* d = opendir(folder);
    for (struct dirent* e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

TEST(core, temp_files_are_on_disk_before_they_get_their_name) {
    char folder[512], path[600];
    target_in("synced", folder, path);
    file_writer w;
    file_temp t;
    firm_error err;
    REQUIRE_OK(file_open_write(&w, path, &err), err);
    REQUIRE_OK(file_put(&w, "0123456789", 10, &err), err);
    watch(1);
    REQUIRE_OK(file_commit(&w, &err), err);
    watch(0);
    EXPECT_TEXT(calls, "frd");
    EXPECT_INT(synced, 10);  // what the stream still held is part of it
    REQUIRE_OK(file_temp_open(&t, path, &err), err);
    EXPECT_INT(write(t.fd, "01234", 5), 5);
    watch(1);
    REQUIRE_OK(file_move(&t, path, &err), err);
    watch(0);
    EXPECT_TEXT(calls, "frd");
    EXPECT_INT(synced, 5);
}

// ---- what is left behind ------------------------------------------------------------------------

// Begins to write `path` in a process of its own, which then waits. Its pid.
static pid_t begin_elsewhere(const char* path) {
    int ready[2];
    char c = 0;
    if (pipe(ready) != 0) abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // also where this test ends early
        file_writer w;
        firm_error none;
        c = file_open_write(&w, path, &none) == FIRM_OK ? 'y' : 'n';
        if (write(ready[1], &c, 1) != 1) _exit(1);
        for (;;) pause();
    }
    EXPECT_INT(read(ready[0], &c, 1), 1);
    EXPECT_INT(c, 'y');
    close(ready[0]);
    close(ready[1]);
    return child;
}

TEST(core, temp_files_of_the_dead_are_removed_and_no_others) {
    char folder[512], path[600], other[700];
    target_in("stale", folder, path);
    firm_error err;
    file_writer w;
    pid_t alive = begin_elsewhere(path), dead = begin_elsewhere(path);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    // what only looks like a temporary file of this target
    static const char* const names[] = {"out.bin.tmp",        "out.bin.12-x.tmp",
                                        "other.bin.12-3.tmp", "out.bin.12-3.tmp.txt",
                                        "xout.bin.12-3.tmp",  "out.binx12-3.tmp"};
    for (int i = 0; i < 6; i++) {
        snprintf(other, sizeof other, "%s/%s", folder, names[i]);
        close(open(other, O_CREAT | O_WRONLY, 0644));
    }
    EXPECT_INT(entries(folder), 8);
    REQUIRE_OK(file_open_write(&w, path, &err), err);
    EXPECT_INT(entries(folder), 8);  // the dead one's went, ours came
    REQUIRE_OK(file_check_target(path, &err), err);
    EXPECT_INT(entries(folder), 8);  // our own open one stays
    REQUIRE_OK(file_commit(&w, &err), err);
    EXPECT_INT(entries(folder), 8);
    kill(alive, SIGKILL);
    waitpid(alive, NULL, 0);
    REQUIRE_OK(file_check_target(path, &err), err);
    EXPECT_INT(entries(folder), 7);
    for (int i = 0; i < 6; i++) {
        snprintf(other, sizeof other, "%s/%s", folder, names[i]);
        EXPECT_INT(unlink(other), 0);
    }
}

TEST(core, temp_remove_all_takes_every_open_one) {
    char folder[512], path[600];
    target_in("all", folder, path);
    fflush(NULL);
    pid_t child = fork();  // what else this process writes must stay
    if (child == 0) {
        file_temp t[3];
        int bad = 0;
        for (int i = 0; i < 3; i++) bad |= temp_create(&t[i], path);
        bad |= entries(folder) != 3;
        temp_remove_all();
        _exit(bad);
    }
    int code = 0;
    waitpid(child, &code, 0);
    EXPECT_INT(code, 0);
    EXPECT_INT(entries(folder), 0);
}

// More files at once than can be told to a signal: refused, nothing is left.
TEST(core, temp_slots_come_back) {
    char folder[512], path[600];
    target_in("slots", folder, path);
    file_temp t[65];
    int code = 0, n = 0;
    while (n < 65 && (code = temp_create(&t[n], path)) == 0) n++;
    EXPECT_INT(n, 64);
    EXPECT_INT(code, EMFILE);
    while (n > 0) temp_remove(&t[--n]);
    EXPECT_INT(entries(folder), 0);
    EXPECT_INT(temp_create(t, path), 0);
    temp_remove(t);
}
