// file.c - atomic writing, whole-file reading and folders, with one sentence for each way a disk or
// a path can refuse. Used by everything that leaves a file behind: data sets, checkpoints, reports.
//
// A new file is written under a temporary name (temp.h), checked at every step (write, flush,
// fsync, close) and renamed; so a full disk or a crash never leaves a short file under the wanted
// name.
#define _GNU_SOURCE
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"

enum {
    MAX_INPUTS = 512,
    STREAM_CHUNK = 1 << 16,    // first buffer for pipes, whose size is not known beforehand
    STREAM_LIMIT = 256 << 20,  // a pipe or device that never ends is not taken for a file
};

// ---- sentences ----------------------------------------------------------------------------------

static const char* cure(int code) {
    switch (code) {
        case ENOSPC:
        case EDQUOT: return "; free some space or choose another folder";
        case EFBIG:
            return "; raise the file size limit (ulimit -f), free some space or choose another "
                   "folder";
        case EACCES:
        case EPERM: return "; choose another folder or change its permissions";
        case EROFS: return "; choose a folder on a writable disk";
        case ENOENT: return "; check the folder's name, or make it first";
        case ENOTDIR: return "; a part of the path is a file, not a folder";
        case ENAMETOOLONG: return "; choose a shorter name";
        case EMFILE:
        case ENFILE: return "; close some files or raise the limit (ulimit -n)";
        default: return "";
    }
}

firm_status file_failed(firm_error* err, const char* verb, const char* path, int code) {
    char buffer[128];
    const char* reason = code ? strerror_r(code, buffer, sizeof buffer) : "the write was cut short";
    firm_status status = code == ENOENT || code == ENOTDIR ? FIRM_E_MISSING : FIRM_E_IO;
    return FAIL(err, status, "cannot %s %s: %s%s", verb, path, reason, cure(code));
}

// ---- inputs -------------------------------------------------------------------------------------

static struct {
    dev_t device;
    ino_t inode;
} input[MAX_INPUTS];
static int inputs;

void file_input_note(const char* path) {
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode)) return;
    CHECK(inputs < MAX_INPUTS, "more than %d inputs of one command", MAX_INPUTS);
    input[inputs].device = s.st_dev;
    input[inputs++].inode = s.st_ino;
}

int file_inputs(void) {
    return inputs;
}

void file_inputs_drop(int count) {
    inputs = count;
}

static int is_input(const struct stat* s) {
    for (int i = 0; i < inputs; i++)
        if (input[i].device == s->st_dev && input[i].inode == s->st_ino) return 1;
    return 0;
}

// ---- targets ------------------------------------------------------------------------------------

// The descriptor of this process that a path names, -1 if it names none.
static int descriptor_of(const char* path) {
    static const char* const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(folders[i]), digits;
        if (strncmp(path, folders[i], n) != 0) continue;
        digits = strspn(path + n, "0123456789");
        if (digits > 0 && digits < 9 && !path[n + digits]) return (int)strtol(path + n, NULL, 10);
    }
    return -1;
}

// Refuses what cannot be a file or must not be replaced. *direct: the target is a device or pipe,
// which must never be renamed over.
static firm_status check_target(const char* path, int* direct, firm_error* err) {
    *direct = 0;
    if (!path || !path[0]) return FAIL(err, FIRM_E_USAGE, "the name of the file to write is empty");
    if (strlen(path) >= 1024)
        return FAIL(err, FIRM_E_USAGE, "the file name %.60s... is longer than 1023 bytes", path);
    struct stat s;
    *direct = descriptor_of(path) >= 0;
    if (*direct) return FIRM_OK;
    if (lstat(path, &s) != 0) {
        if (errno == ENOENT)
            return FIRM_OK;  // to be created; a missing folder shows when that is tried
        return file_failed(err, "write", path, errno);
    }
    const int link = S_ISLNK(s.st_mode);
    if (link && stat(path, &s) != 0) s.st_mode = S_IFREG;  // it leads nowhere yet
    if (S_ISDIR(s.st_mode))
        return FAIL(err, FIRM_E_USAGE, "%s is a folder; give the name of a file", path);
    *direct = !S_ISREG(s.st_mode);
    if (*direct) return FIRM_OK;
    if (is_input(&s))
        return FAIL(err, FIRM_E_USAGE,
                    "%s is to be written, but it is an input of the same command; give another "
                    "name for the output",
                    path);
    if (link)
        return FAIL(err, FIRM_E_USAGE,
                    "%s is a symbolic link, and outputs are not written through links; remove it, "
                    "or give the name of the file itself",
                    path);
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return file_failed(err, "write", path, errno);
    return FIRM_OK;
}

firm_status file_check_name(const char* path, firm_error* err) {
    int direct;
    return check_target(path, &direct, err);
}

// Makes the rename itself durable. A failure here is no error of the file: under either name there
// is a complete one, and some file systems refuse to sync folders.
static void sync_folder_of(const char* path) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", path);
    char* slash = strrchr(folder, '/');
    if (slash == folder)
        folder[1] = 0;
    else if (slash)
        *slash = 0;
    else
        memcpy(folder, ".", 2);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

// ---- writer -------------------------------------------------------------------------------------

// A second descriptor for the stream: the first one keeps the lock until the file has its name.
static FILE* stream_on(int fd) {
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE* f = own < 0 ? NULL : fdopen(own, "wb");
    if (f || own < 0) return f;
    int code = errno;
    close(own);
    errno = code;
    return NULL;
}

firm_status file_open_write(file_writer* w, const char* path, firm_error* err) {
    int direct, code = 0;
    w->stream = NULL;
    w->temp.path[0] = w->path[0] = 0;
    TRY(check_target(path, &direct, err));
    snprintf(w->path, sizeof w->path, "%s", path);
    if (!direct && (code = temp_create(&w->temp, path)) != 0)
        return file_failed(err, "write", path, code);
    const int fd = descriptor_of(path);
    w->stream = !direct ? stream_on(w->temp.fd) : fd >= 0 ? stream_on(fd) : fopen(path, "wbe");
    if (w->stream) return FIRM_OK;
    code = errno;
    file_abandon(w);
    return file_failed(err, "write", path, code);
}

void file_abandon(file_writer* w) {
    if (w->stream) fclose(w->stream);
    w->stream = NULL;
    temp_remove(&w->temp);
}

static firm_status write_failed(file_writer* w, int code, firm_error* err) {
    file_abandon(w);
    return file_failed(err, "write", w->path, code);
}

firm_status file_put(file_writer* w, const void* bytes, size_t n, firm_error* err) {
    if (!w->stream)
        return FAIL(err, FIRM_E_IO, "cannot write %s: an earlier write failed", w->path);
    errno = 0;
    if (n && fwrite(bytes, 1, n, w->stream) != n) return write_failed(w, errno, err);
    return FIRM_OK;
}

firm_status file_commit(file_writer* w, firm_error* err) {
    if (!w->stream)
        return FAIL(err, FIRM_E_IO, "cannot write %s: an earlier write failed", w->path);
    errno = 0;
    // ferror: code that prints to w->stream itself may have met the full disk before us
    if (fflush(w->stream) != 0 || ferror(w->stream)) return write_failed(w, errno, err);
    int direct = !w->temp.path[0];
    if (!direct && fsync(fileno(w->stream)) != 0) return write_failed(w, errno, err);
    FILE* stream = w->stream;
    w->stream = NULL;
    if (fclose(stream) != 0) return write_failed(w, errno, err);
    if (direct) return FIRM_OK;
    int code = temp_rename(&w->temp, w->path);
    if (code) return write_failed(w, code, err);
    sync_folder_of(w->path);
    return FIRM_OK;
}

// ---- for libraries that write by themselves -----------------------------------------------------

firm_status file_temp_open(file_temp* t, const char* path, firm_error* err) {
    int direct;
    t->path[0] = 0;
    TRY(check_target(path, &direct, err));
    if (direct)
        return FAIL(err, FIRM_E_USAGE, "%s is not a regular file; give the name of a file", path);
    int code = temp_create(t, path);
    return code ? file_failed(err, "write", path, code) : FIRM_OK;
}

firm_status file_check_target(const char* path, firm_error* err) {
    // made and removed again: the one test of a folder that also holds for root and full disks
    file_temp t;
    TRY(file_temp_open(&t, path, err));
    temp_remove(&t);
    return FIRM_OK;
}

firm_status file_move(file_temp* t, const char* path, firm_error* err) {
    int direct, code = 0;
    if (!t->path[0])
        return FAIL(err, FIRM_E_IO, "cannot write %s: its temporary file is gone", path);
    firm_status status = check_target(path, &direct, err);
    if (status == FIRM_OK && direct)
        status = FAIL(err, FIRM_E_USAGE, "%s is not a regular file; give the name of a file", path);
    if (status == FIRM_OK && fsync(t->fd) != 0) code = errno;
    if (status != FIRM_OK || code) temp_remove(t);
    TRY(status);
    if (!code) code = temp_rename(t, path);
    if (code) return file_failed(err, "write", path, code);
    sync_folder_of(path);
    return FIRM_OK;
}

// ---- reading ------------------------------------------------------------------------------------

// Reads up to `want` bytes; returns how many came before the end, or -1 with errno.
static ssize_t read_fully(int fd, char* to, size_t want) {
    size_t got = 0;
    while (got < want) {
        ssize_t n = read(fd, to + got, want - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static firm_status too_large(const char* path, size_t most, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT,
                "%s has more than the %zu bytes that such a file may have; give "
                "another",
                path, most);
}

// most: of a regular file, looked at before memory is taken
static firm_status read_open_file(int fd, const char* path, size_t most, char** bytes, size_t* n,
                                  firm_error* err) {
    struct stat s;
    if (fstat(fd, &s) != 0) return file_failed(err, "read", path, errno);
    if (S_ISDIR(s.st_mode)) return FAIL(err, FIRM_E_USAGE, "%s is a folder, not a file", path);
    if (S_ISREG(s.st_mode) && (uint64_t)s.st_size > most) return too_large(path, most, err);
    // one byte more than expected, to see a file that grows and end at once when it does not
    size_t room = S_ISREG(s.st_mode) && s.st_size > 0 ? (size_t)s.st_size + 1 : STREAM_CHUNK;
    size_t used = 0;
    char* buffer = mem_alloc(room + 1);
    for (;;) {
        if (!buffer)
            return FAIL(err, FIRM_E_MEMORY, "no memory to read %s (%zu bytes)", path, room);
        ssize_t got = read_fully(fd, buffer + used, room - used);
        if (got < 0) {
            int code = errno;
            mem_free(buffer);
            return file_failed(err, "read", path, code);
        }
        used += (size_t)got;
        if (used < room) break;
        if (!S_ISREG(s.st_mode) && room >= STREAM_LIMIT) {
            mem_free(buffer);
            return FAIL(err, FIRM_E_FORMAT, "%s is no regular file and does not end", path);
        }
        if (used > most) {
            mem_free(buffer);
            return too_large(path, most, err);
        }
        char* larger = mem_realloc(buffer, used, room * 2 + 1);
        if (!larger) mem_free(buffer);
        buffer = larger;
        room *= 2;
    }
    if (used > most) {
        mem_free(buffer);
        return too_large(path, most, err);
    }
    buffer[used] = 0;
    *bytes = buffer;
    *n = used;
    return FIRM_OK;
}

firm_status file_read_all(const char* path, char** bytes, size_t* n, firm_error* err) {
    return file_read_most(path, SIZE_MAX, bytes, n, err);
}

firm_status file_read_most(const char* path, size_t most, char** bytes, size_t* n,
                           firm_error* err) {
    *bytes = NULL;
    *n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return FAIL(err, FIRM_E_MISSING, "%s does not exist; check the name", path);
    if (fd < 0) {
        char buffer[128];
        return FAIL(err, FIRM_E_IO, "cannot read %s: %s", path,
                    strerror_r(errno, buffer, sizeof buffer));
    }
    firm_status status = read_open_file(fd, path, most, bytes, n, err);
    close(fd);
    return status;
}

// ---- folders ------------------------------------------------------------------------------------

firm_status file_make_dirs(const char* path, firm_error* err) {
    char part[1024];
    size_t length = path ? strlen(path) : 0;
    if (length == 0) return FAIL(err, FIRM_E_USAGE, "the name of the folder to make is empty");
    if (length >= sizeof part)
        return FAIL(err, FIRM_E_USAGE, "the folder name %.60s... is longer than 1023 bytes", path);
    memcpy(part, path, length + 1);
    // each prefix that ends before a slash, then the whole
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != 0) continue;
        char keep = part[i];
        part[i] = 0;
        struct stat s;
        if (mkdir(part, 0777) != 0) {
            int code = errno;
            // mkdir may say "read-only" or "denied" of a folder that is simply there already
            if (stat(part, &s) != 0) return file_failed(err, "make the folder", part, code);
            if (!S_ISDIR(s.st_mode))
                return FAIL(err, FIRM_E_IO, "cannot make the folder %s: %s is a file", path, part);
        }
        part[i] = keep;
    }
    return FIRM_OK;
}

// The lock is one of the folder itself, so no file is left to be cleaned up.
firm_status file_lock_folder(const char* path, const char* work, int* lock, firm_error* err) {
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return file_failed(err, "lock the folder", path, errno);
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) return FIRM_OK;
    int code = errno;
    if (code != EWOULDBLOCK) {
        char text[128];
        log_warn("cannot lock %s (%s); see to it that no other run uses it", path,
                 strerror_r(code, text, sizeof text));
        return FIRM_OK;
    }
    file_unlock(*lock);
    *lock = -1;
    return FAIL(err, FIRM_E_USAGE,
                "another %s is at work in %s; wait until it has ended, or use another folder", work,
                path);
}

void file_unlock(int lock) {
    if (lock >= 0) close(lock);
}

int file_exists(const char* path) {
    struct stat s;
    return stat(path, &s) == 0;
}

int file_same(const char* a, const char* b) {
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}
