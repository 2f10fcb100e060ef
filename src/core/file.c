// file.c - atomic writing, whole-file reading and folders, with one sentence for each way a disk or
// a path can refuse. Used by everything that leaves a file behind: data sets, checkpoints, reports.
//
// A new file is written under PATH.<pid>-<n>.tmp, checked at every step (write, flush, fsync,
// close) and renamed; so a full disk or a crash never leaves a short file under the wanted name.
#define _GNU_SOURCE
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

enum {
    TEMP_TRIES = 100,
    STREAM_CHUNK = 1 << 16,    // first buffer for pipes, whose size is not known beforehand
    STREAM_LIMIT = 256 << 20,  // a pipe or device that never ends is not taken for a file
};

// ---- sentences ----------------------------------------------------------------------------------

static const char* cure(int code) {
    switch (code) {
        case ENOSPC:
        case EDQUOT: return "; free some space or choose another folder";
        case EFBIG: return "; raise the file size limit or choose another folder";
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

static firm_status io_fail(firm_error* err, const char* verb, const char* path, int code) {
    char buffer[128];
    const char* reason = code ? strerror_r(code, buffer, sizeof buffer) : "the write was cut short";
    firm_status status = code == ENOENT || code == ENOTDIR ? FIRM_E_MISSING : FIRM_E_IO;
    return FAIL(err, status, "cannot %s %s: %s%s", verb, path, reason, cure(code));
}

// ---- targets ------------------------------------------------------------------------------------

// Follows a symbolic link, so that its target and not the link is replaced, and refuses what cannot
// be a file. *direct: the target exists and is a device or pipe, which must never be renamed over.
static firm_status resolve_target(const char* path, char resolved[1024], int* direct,
                                  firm_error* err) {
    *direct = 0;
    if (!path || !path[0]) return FAIL(err, FIRM_E_USAGE, "the name of the file to write is empty");
    if (strlen(path) >= 1024)
        return FAIL(err, FIRM_E_USAGE, "the file name %.60s... is longer than 1023 bytes", path);
    memcpy(resolved, path, strlen(path) + 1);

    struct stat s;
    char real[PATH_MAX];
    if (lstat(path, &s) == 0 && S_ISLNK(s.st_mode) && realpath(path, real) && strlen(real) < 1024)
        memcpy(resolved, real, strlen(real) + 1);

    if (stat(resolved, &s) != 0) {
        if (errno == ENOENT)
            return FIRM_OK;  // to be created; a missing folder shows when that is tried
        return io_fail(err, "write", path, errno);
    }
    if (S_ISDIR(s.st_mode))
        return FAIL(err, FIRM_E_USAGE, "%s is a folder; give the name of a file", path);
    if (!S_ISREG(s.st_mode)) {
        // /dev/stdout and the like: the name as given, since what it resolves to may not be
        // openable
        memcpy(resolved, path, strlen(path) + 1);
        *direct = 1;
    } else if (faccessat(AT_FDCWD, resolved, W_OK, AT_EACCESS) != 0) {
        return io_fail(err, "write", path, errno);
    }
    return FIRM_OK;
}

// Creates a file of a new name beside `path` and returns its descriptor, or -1 with errno.
static int create_temp(const char* path, char temp[1100]) {
    static atomic_uint counter;
    for (int i = 0; i < TEMP_TRIES; i++) {
        unsigned n = atomic_fetch_add(&counter, 1);
        snprintf(temp, 1100, "%s.%ld-%u.tmp", path, (long)getpid(), n);
        int fd = open(temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
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

firm_status file_open_write(file_writer* w, const char* path, firm_error* err) {
    int direct;
    w->stream = NULL;
    w->temp[0] = w->path[0] = 0;
    TRY(resolve_target(path, w->path, &direct, err));
    if (direct) {
        w->stream = fopen(w->path, "wbe");
        return w->stream ? FIRM_OK : io_fail(err, "write", path, errno);
    }
    int fd = create_temp(w->path, w->temp);
    if (fd < 0) {
        w->temp[0] = 0;
        return io_fail(err, "write", path, errno);
    }
    w->stream = fdopen(fd, "wb");
    if (!w->stream) {
        int code = errno;
        close(fd);
        file_abandon(w);
        return io_fail(err, "write", path, code);
    }
    return FIRM_OK;
}

void file_abandon(file_writer* w) {
    if (w->stream) fclose(w->stream);
    w->stream = NULL;
    if (w->temp[0]) unlink(w->temp);
    w->temp[0] = 0;
}

static firm_status write_failed(file_writer* w, int code, firm_error* err) {
    file_abandon(w);
    return io_fail(err, "write", w->path, code);
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
    int direct = !w->temp[0];
    if (!direct && fsync(fileno(w->stream)) != 0) return write_failed(w, errno, err);
    FILE* stream = w->stream;
    w->stream = NULL;
    if (fclose(stream) != 0) return write_failed(w, errno, err);
    if (direct) return FIRM_OK;
    if (rename(w->temp, w->path) != 0) return write_failed(w, errno, err);
    w->temp[0] = 0;
    sync_folder_of(w->path);
    return FIRM_OK;
}

// ---- for libraries that write by themselves -----------------------------------------------------

firm_status file_temp_name(const char* path, char temp[1100], firm_error* err) {
    char resolved[1024];
    int direct;
    temp[0] = 0;
    TRY(resolve_target(path, resolved, &direct, err));
    if (direct)
        return FAIL(err, FIRM_E_USAGE, "%s is not a regular file; give the name of a file", path);
    // made and removed again: the one test of a folder that also holds for root and full disks
    int fd = create_temp(resolved, temp);
    if (fd < 0) {
        temp[0] = 0;
        return io_fail(err, "write", path, errno);
    }
    close(fd);
    unlink(temp);
    return FIRM_OK;
}

firm_status file_move(const char* temp, const char* path, firm_error* err) {
    char resolved[1024];
    int direct, code = 0;
    firm_status status = resolve_target(path, resolved, &direct, err);
    if (status == FIRM_OK && direct)
        status = FAIL(err, FIRM_E_USAGE, "%s is not a regular file; give the name of a file", path);
    if (status != FIRM_OK) {
        unlink(temp);
        return status;
    }
    int fd = open(temp, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_fail(err, "read", temp, errno);
    if (fsync(fd) != 0) code = errno;
    if (close(fd) != 0 && !code) code = errno;
    if (!code && rename(temp, resolved) != 0) code = errno;
    if (code) {
        unlink(temp);
        return io_fail(err, "write", path, code);
    }
    sync_folder_of(resolved);
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
    if (fstat(fd, &s) != 0) return io_fail(err, "read", path, errno);
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
            return io_fail(err, "read", path, code);
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
            if (stat(part, &s) != 0) return io_fail(err, "make the folder", part, code);
            if (!S_ISDIR(s.st_mode))
                return FAIL(err, FIRM_E_IO, "cannot make the folder %s: %s is a file", path, part);
        }
        part[i] = keep;
    }
    return FIRM_OK;
}

int file_exists(const char* path) {
    struct stat s;
    return stat(path, &s) == 0;
}
