// memory.h - planning one block for many buffers with known lifetimes.
#ifndef NN_MEMORY_H
#define NN_MEMORY_H

#include <stddef.h>

typedef struct nn_span {
    int start, end;  // first and last step at which the buffer is in use, inclusive
    size_t bytes;
    size_t offset;  // result
} nn_span;

// Assigns offsets (64-byte aligned) so that buffers in use at the same step never overlap; returns
// the size of the block, or SIZE_MAX when out of memory.
size_t nn_memory_plan(nn_span* span, int count);

#endif
