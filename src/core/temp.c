// temp.c - names, locks and removal of temporary files; file.c writes through them.
//
// Whether the process of a temporary file lives is asked of its lock (flock), not of the process
// number in its name: numbers are used again, and mean nothing in another container. Where a file
// system has no locks, nothing is taken for stale.
#define _GNU_SOURCE
#include "core/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRIES = 100,
    SLOTS = 64,  // files written at the same time
};

// ---- what a signal removes ----------------------------------------------------------------------

enum { FREE, TAKEN, ARMED };
static struct {
    atomic_int state;
    char path[1100];
} slots[SLOTS];

// Armed before the file is made, so that no moment is left in which a signal would miss it.
static int arm(const char* path) {
    for (int i = 0; i < SLOTS; i++) {
        int none = FREE;
        if (!atomic_compare_exchange_strong(&slots[i].state, &none, TAKEN)) continue;
        snprintf(slots[i].path, sizeof slots[i].path, "%s", path);
        atomic_store(&slots[i].state, ARMED);
        return i;
    }
    return -1;
}

static void disarm(int slot) {
    atomic_store(&slots[slot].state, FREE);
}

void temp_remove_all(void) {
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&slots[i].state) == ARMED) unlink(slots[i].path);
}

// ---- what dead processes left -------------------------------------------------------------------

// "<pid>-<n>.tmp"
static int is_ending(const char* text) {
    size_t n = strspn(text, "0123456789");
    if (n == 0 || text[n] != '-') return 0;
    text += n + 1;
    n = strspn(text, "0123456789");
    return n > 0 && strcmp(text + n, ".tmp") == 0;
}

// Is the open file still the one of that name?
static int still_named(int fd, const char* path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino && S_ISREG(a.st_mode);
}

static void remove_if_stale(const char* path) {
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_named(fd, path)) unlink(path);
    close(fd);
}

static void remove_stale(const char* target) {
    char folder[1100], path[2200];
    snprintf(folder, sizeof folder, "%s", target);
    char* slash = strrchr(folder, '/');
    const char* base = slash ? target + (slash - folder) + 1 : target;
    size_t length = strlen(base);
    if (slash) slash[slash == folder] = 0;
    DIR* dir = opendir(slash ? folder : ".");
    for (struct dirent* e; dir && (e = readdir(dir));) {
        const char* name = e->d_name;
        if (strncmp(name, base, length) != 0 || name[length] != '.') continue;
        if (!is_ending(name + length + 1)) continue;
        snprintf(path, sizeof path, "%.*s%s", (int)(base - target), target, name);
        remove_if_stale(path);
    }
    if (dir) closedir(dir);
}

// ---- one file -----------------------------------------------------------------------------------

// Returns 0, EEXIST where another name is to be tried, or what forbids any.
static int create_named(file_temp* t) {
    t->slot = arm(t->path);
    if (t->slot < 0) return EMFILE;
    int code = 0;
    t->fd = open(t->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (t->fd < 0) {
        code = errno;
    } else if ((flock(t->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
               !still_named(t->fd, t->path)) {
        // taken for stale before it was locked: whoever did so removes it
        close(t->fd);
        code = EEXIST;
    }
    if (code) disarm(t->slot);
    return code;
}

int temp_create(file_temp* t, const char* target) {
    static atomic_uint counter;
    int code = EEXIST;
    remove_stale(target);
    for (int i = 0; i < TRIES && code == EEXIST; i++) {
        snprintf(t->path, sizeof t->path, "%s.%ld-%u.tmp", target, (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        code = create_named(t);
    }
    if (code) t->path[0] = 0;
    return code;
}

int temp_rename(file_temp* t, const char* target) {
    if (rename(t->path, target) != 0) {
        int code = errno;
        temp_remove(t);
        return code;
    }
    disarm(t->slot);
    close(t->fd);
    t->path[0] = 0;
    return 0;
}

void temp_remove(file_temp* t) {
    if (!t->path[0]) return;
    unlink(t->path);
    disarm(t->slot);
    close(t->fd);
    t->path[0] = 0;
}
