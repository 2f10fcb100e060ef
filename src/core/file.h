// file.h - whole files or none: a writer fills a temporary file beside the target and renames it
// into place when everything is on disk; failure or a crash leaves the old file untouched. A target
// that is no regular file (/dev/stdout, a pipe) is written directly.
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include <stdio.h>

#include "core/status.h"

typedef struct file_writer {
    FILE* stream;
    char path[1024], temp[1100];
} file_writer;

firm_status file_open_write(file_writer* w, const char* path, firm_error* err);
firm_status file_put(file_writer* w, const void* bytes, size_t n,
                     firm_error* err);  // abandons on failure
firm_status file_commit(file_writer* w,
                        firm_error* err);  // flush, fsync, rename; abandons on failure
void file_abandon(file_writer* w);  // removes the temporary file; harmless after commit or failure

// For libraries that write by themselves (HDF5): a temporary name beside `path`, then move into
// place.
firm_status file_temp_name(const char* path, char temp[1100],
                           firm_error* err);  // checks that the folder is writable
firm_status file_move(const char* temp, const char* path, firm_error* err);  // fsync + rename

firm_status file_read_all(const char* path, char** bytes, size_t* n,
                          firm_error* err);                     // NUL added; mem_free
// The same of a file that must not be larger than `most` bytes: one given by mistake is not read.
firm_status file_read_most(const char* path, size_t most, char** bytes, size_t* n, firm_error* err);
firm_status file_make_dirs(const char* path, firm_error* err);  // like mkdir -p
int file_exists(const char* path);

#endif
