// mem.h - every allocation of the library goes through here, so that tests can count them and make
// the n-th one fail, and so that one place decides on alignment (64 bytes: a cache line, an AVX-512
// register).
#ifndef CORE_MEM_H
#define CORE_MEM_H

#include <stddef.h>
#include <stdint.h>

// 64-byte aligned, uninitialised; NULL when out of memory. A megabyte or more: whole huge pages.
void* mem_alloc(size_t bytes);
void* mem_calloc(size_t count, size_t size);  // likewise, zeroed; NULL on overflow of the product
void* mem_realloc(void* p, size_t old_bytes, size_t new_bytes);
char* mem_strdup(const char* text);
void mem_free(void* p);  // NULL is fine

int64_t mem_count(void);  // allocations so far, all threads
void mem_fail_after(
    int64_t n);  // tests: n more allocations succeed, all later ones fail; -1: never fail

#endif
