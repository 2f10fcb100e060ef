// clock.h - monotonic time. firm_clock_ns() is the public name; these read better inside.
#ifndef CORE_CLOCK_H
#define CORE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void);
double clock_seconds(void);
// For tests of deadlines: from now on `now` tells the time; NULL: the clock does again.
void clock_pretend(int64_t (*now)(void));

#endif
