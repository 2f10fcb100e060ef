// file.h - whole files or none: a writer fills a temporary file beside the target and renames it
// into place when everything is on disk; failure or a crash leaves the old file untouched.
//
// What may be replaced is decided here, for every output of the program: a regular file, but
// neither one that is reached through a symbolic link nor one that is an input of the same command.
// A device or pipe (/dev/stdout, /dev/fd/3) is written directly.
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include <stdio.h>

#include "core/status.h"
#include "core/temp.h"

typedef struct file_writer {
    FILE* stream;
    char path[1024];
    file_temp temp;
} file_writer;

firm_status file_open_write(file_writer* w, const char* path, firm_error* err);
firm_status file_put(file_writer* w, const void* bytes, size_t n,
                     firm_error* err);  // abandons on failure
firm_status file_commit(file_writer* w,
                        firm_error* err);  // flush, fsync, rename; abandons on failure
void file_abandon(file_writer* w);  // removes the temporary file; harmless after commit or failure

// For libraries that write by themselves (HDF5): an empty temporary file beside `path`, then moved
// into place, or given up with temp_remove().
firm_status file_temp_open(file_temp* t, const char* path, firm_error* err);
firm_status file_move(file_temp* t, const char* path, firm_error* err);  // fsync + rename
// Fails where file_temp_open would, for a check before long work.
firm_status file_check_target(const char* path, firm_error* err);
// The same without trying to write: the folder need not be there yet.
firm_status file_check_name(const char* path, firm_error* err);
// The sentence of a failed call; verb: "write", "read"; code: errno.
firm_status file_failed(firm_error* err, const char* verb, const char* path, int code);

// Files that must not be replaced because the command reads them; by device and inode, so under any
// name. Of the program's main thread. `path` may be no file at all, which is no input then.
void file_input_note(const char* path);
int file_inputs(void);             // how many are noted
void file_inputs_drop(int count);  // forgets all but the first `count`

// Locks a folder for this process until file_unlock() or its end, however it ends. `work` is what
// the sentence says of another that holds it: "another training is at work in ...".
firm_status file_lock_folder(const char* path, const char* work, int* lock, firm_error* err);
void file_unlock(int lock);  // -1: none

firm_status file_read_all(const char* path, char** bytes, size_t* n,
                          firm_error* err);                     // NUL added; mem_free
// The same of a file that must not be larger than `most` bytes: one given by mistake is not read.
firm_status file_read_most(const char* path, size_t most, char** bytes, size_t* n, firm_error* err);
firm_status file_make_dirs(const char* path, firm_error* err);  // like mkdir -p
int file_exists(const char* path);
int file_same(const char* a, const char* b);  // both are there and are one file

#endif
