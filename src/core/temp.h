// temp.h - temporary files beside their targets, of which none stays behind: a signal that ends the
// program removes those of this process, and the next writer of a target those of processes that
// were killed. A temporary file is locked while its process lives, so nobody else removes it.
#ifndef CORE_TEMP_H
#define CORE_TEMP_H

typedef struct file_temp {
    char path[1100];  // "": there is none
    int fd;           // open for writing; holds the lock
    int slot;
} file_temp;

// A new empty file TARGET.<pid>-<n>.tmp. Returns 0, or errno with path "".
int temp_create(file_temp* t, const char* target);
// Renames it to target. Returns 0, or errno after removing it.
int temp_rename(file_temp* t, const char* target);
void temp_remove(file_temp* t);  // harmless where there is none
// Removes every temporary file of this process; may be called from a signal handler.
void temp_remove_all(void);

#endif
