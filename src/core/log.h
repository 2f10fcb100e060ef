// log.h - messages and progress. The library is silent until a hook is set (firm_set_log); the
// program sets one that writes to stderr. Progress is a bar on a terminal, plain lines otherwise.
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <stdint.h>

void log_info(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char* fmt, ...) __attribute__((format(printf, 1, 2)));

typedef struct progress {
    char label[48];
    char note[64];
    int64_t total;                           // 0: unknown
    int64_t first, done;                     // at the first and the latest step
    double started, first_time, last_shown;  // clock_seconds()
    int enabled, terminal, counts, steps;  // counts: lines for a program that draws
    int part;  // it is the bar of a run's part, see progress_run_begin()
} progress;

void progress_enable(int on);  // off by default: the library shows nothing; the program turns it on

// Shows rate and time left on stderr; `note` is a short text such as "loss 0.0123", or "".
void progress_begin(progress* p, const char* label, int64_t total);
void progress_step(progress* p, int64_t done,
                   const char* note);  // cheap: draws at most 5 times a second
void progress_end(progress* p);

// Several bars that make up one run: each then shows the time left of the whole run. `work` is in
// expected seconds, or in anything proportional to them. A run inside a part of another one fills
// that part. One thread at a time.
void progress_run_begin(double work);
void progress_run_part(double work);  // the next bar's; the part before it is done
void progress_run_end(void);
int log_bar_shown(void);  // a bar stands on the terminal's line; for signal handlers, too

#endif
