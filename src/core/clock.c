// clock.c - CLOCK_MONOTONIC, the clock that deadlines refer to.
#define _GNU_SOURCE
#include "core/clock.h"

#include <time.h>

#include "firm.h"

static int64_t (*pretended)(void);

void clock_pretend(int64_t (*now)(void)) {
    pretended = now;
}

int64_t clock_ns(void) {
    if (pretended) return pretended();
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double clock_seconds(void) {
    return (double)clock_ns() * 1e-9;
}

int64_t firm_clock_ns(void) {
    return clock_ns();
}
