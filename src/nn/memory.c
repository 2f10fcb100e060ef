// memory.c - greedy placement, largest first: each buffer goes to the lowest offset that is free
// during its whole life. Quadratic in the number of buffers, which is a few hundred and planned
// once.
#include "nn/memory.h"

#include <stdint.h>

#include "core/mem.h"

static size_t rounded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

size_t nn_memory_plan(nn_span* span, int count) {
    int* order = mem_alloc((size_t)count * sizeof *order);    // by size, largest first
    int* placed = mem_alloc((size_t)count * sizeof *placed);  // by offset, lowest first
    if (!order || !placed) {
        mem_free(order);
        mem_free(placed);
        return SIZE_MAX;
    }
    for (int i = 0; i < count; i++) {
        int j = i;
        for (; j > 0 && span[order[j - 1]].bytes < span[i].bytes; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    size_t total = 0;
    int done = 0;
    for (int i = 0; i < count; i++) {
        nn_span* s = &span[order[i]];
        size_t need = rounded(s->bytes), at = 0;
        for (int j = 0; j < done; j++) {
            const nn_span* p = &span[placed[j]];
            if (p->end < s->start || s->end < p->start) continue;
            if (at + need <= p->offset) break;  // fits in the gap before it
            size_t past = p->offset + rounded(p->bytes);
            if (past > at) at = past;
        }
        s->offset = at;
        if (at + need > total) total = at + need;
        int j = done++;
        for (; j > 0 && span[placed[j - 1]].offset > at; j--) placed[j] = placed[j - 1];
        placed[j] = order[i];
    }
    mem_free(order);
    mem_free(placed);
    return total;
}
