// must.h - what every fuzz target begins with: the entry point, and a check that stops at once.
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#define MUST(cond)                                         \
    do {                                                   \
        if (!(cond)) {                                     \
            fprintf(stderr, "does not hold: %s\n", #cond); \
            abort();                                       \
        }                                                  \
    } while (0)

#endif
