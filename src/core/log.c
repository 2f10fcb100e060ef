// log.c - the log hook and the progress display.
//
// On a terminal progress is one line that is drawn over itself, at most five times a second;
// elsewhere (a file, a pipe, a CI log) it is a plain line about every ten seconds and one at the
// end. Messages and the bar share stderr, so a message first wipes the bar, and the next step draws
// it again. With FIRM_PROGRESS=counts in the environment every line is for another program that
// draws: "@progress DONE TOTAL LABEL<tab>NOTE", five times a second; TOTAL 0: unknown.
#define _GNU_SOURCE
#include "core/log.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"
#include "firm.h"

static const double DRAW_EVERY_S = 0.2, LINE_EVERY_S = 10.0;
enum { BAR_CELLS = 24, LEAST_CELLS = 4, MAX_COLUMNS = 240, PLAIN_COLUMNS = 80 };

// ---- messages -----------------------------------------------------------------------------------

static pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
static firm_log_fn hook;
static void* hook_user;
static atomic_int progress_on, bar_on_screen;

void firm_set_log(firm_log_fn fn, void* user) {
    pthread_mutex_lock(&hook_lock);
    hook = fn;
    hook_user = user;
    pthread_mutex_unlock(&hook_lock);
}

static void wipe_bar(void) {
    if (atomic_exchange(&bar_on_screen, 0)) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

int log_bar_shown(void) {
    return atomic_load(&bar_on_screen);
}

static void message(firm_log_level level, const char* fmt, va_list args) {
    pthread_mutex_lock(&hook_lock);
    firm_log_fn fn = hook;
    void* user = hook_user;
    pthread_mutex_unlock(&hook_lock);
    if (!fn) return;
    char text[1024];
    vsnprintf(text, sizeof text, fmt, args);
    wipe_bar();
    fn(user, level, text);
}

void log_info(const char* fmt, ...) {
    va_list args;
    va_start(args, fmt);
    message(FIRM_LOG_INFO, fmt, args);
    va_end(args);
}

void log_warn(const char* fmt, ...) {
    va_list args;
    va_start(args, fmt);
    message(FIRM_LOG_WARN, fmt, args);
    va_end(args);
}

// ---- progress -----------------------------------------------------------------------------------

void progress_enable(int on) {
    atomic_store(&progress_on, on != 0);
}

// 42 s -> "0:42", 4000 s -> "1:06:40"
static void format_time(double seconds, char* out, size_t n) {
    if (!(seconds >= 0)) seconds = 0;
    if (seconds > 359999) seconds = 359999;
    long s = lround(seconds);
    if (s >= 3600)
        snprintf(out, n, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, n, "%ld:%02ld", s / 60, s % 60);
}

static void format_rate(double per_second, char* out, size_t n) {
    if (per_second >= 1e6)
        snprintf(out, n, "%.2fM/s", per_second * 1e-6);
    else if (per_second >= 1e4)
        snprintf(out, n, "%.1fk/s", per_second * 1e-3);
    else if (per_second >= 100)
        snprintf(out, n, "%.0f/s", per_second);
    else if (per_second >= 1)
        snprintf(out, n, "%.1f/s", per_second);
    else if (per_second > 0)
        snprintf(out, n, "%.1f s each", 1 / per_second);
    else
        snprintf(out, n, "-/s");
}

// ---- runs of several bars ----

typedef struct run_level {
    double total, done, part;  // work; of the parts before, and of the one at hand
    double begun;              // clock_seconds()
} run_level;
enum { RUN_LEVELS = 4 };
static run_level runs[RUN_LEVELS];
static int run_depth, part_begun;

void progress_run_begin(double work) {
    if (run_depth < RUN_LEVELS)
        runs[run_depth] = (run_level){.total = work > 0 ? work : 0, .begun = clock_seconds()};
    run_depth++;
    part_begun = 0;
}

void progress_run_part(double work) {
    if (run_depth < 1 || run_depth > RUN_LEVELS) return;
    run_level* r = &runs[run_depth - 1];
    r->done += r->part;
    r->part = work > 0 ? work : 0;
    part_begun = 1;
}

void progress_run_end(void) {
    if (run_depth > 0) run_depth--;
    part_begun = 0;
}

// How much of its part a bar has done; what a resumed bar found done is not part of the run.
static double part_share(const progress* p) {
    if (!p->part || p->total <= p->first || p->done <= p->first) return 0;
    return (double)(p->done - p->first) / (double)(p->total - p->first);
}

// Seconds left of the outermost run; NAN where there is none, or too little of it to tell.
static double run_left(const progress* p, double now) {
    double share = part_share(p);
    int levels = run_depth < RUN_LEVELS ? run_depth : RUN_LEVELS;
    for (int i = levels - 1; i >= 0; i--) {
        if (!(runs[i].total > 0)) return NAN;
        share = (runs[i].done + share * runs[i].part) / runs[i].total;
    }
    if (levels == 0 || share < 0.005) return NAN;
    return share < 1 ? (now - runs[0].begun) * (1 - share) / share : 0;
}

// Measured from the first step, so that neither slow set-up nor a resumed count bends the rate.
static double rate_of(const progress* p, double now) {
    double seconds = now - p->first_time;
    return p->steps > 1 && seconds > 0 ? (double)(p->done - p->first) / seconds : 0;
}

static int terminal_columns(void) {
    struct winsize size;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    return columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
}

// `room` bytes at most, the end marked by a NUL; returns the new length
static size_t append(char* line, size_t used, size_t room, const char* text) {
    size_t n = strlen(text);
    if (used + n >= room) n = room > used + 1 ? room - used - 1 : 0;
    memcpy(line + used, text, n);
    line[used + n] = 0;
    return used + n;
}

// The shared middle: "45%  123/s  loss 0.01  0:42 left"; without a total, the count instead. Within
// a run: "12:40 left in all".
static void describe(const progress* p, double now, char* out, size_t n) {
    char rate[32], left[32], piece[128];
    double speed = rate_of(p, now);
    format_rate(speed, rate, sizeof rate);
    size_t used = 0;
    if (p->total > 0)
        snprintf(piece, sizeof piece, "%3.0f%%  %s",
                 floor(100.0 * (double)p->done / (double)p->total), rate);
    else
        snprintf(piece, sizeof piece, "%lld  %s", (long long)p->done, rate);
    used = append(out, used, n, piece);
    if (p->note[0]) {
        used = append(out, used, n, "  ");
        used = append(out, used, n, p->note);
    }
    double of_all = run_left(p, now), of_this = (double)(p->total - p->done) / speed;
    if (run_depth > 0 && isfinite(of_all)) {
        format_time(of_all, left, sizeof left);
        snprintf(piece, sizeof piece, "  %s left in all", left);
        append(out, used, n, piece);
    } else if (run_depth == 0 && p->total > p->done && speed > 0) {
        format_time(of_this, left, sizeof left);
        snprintf(piece, sizeof piece, "  %s left", left);
        append(out, used, n, piece);
    }
}

static void draw_bar(const progress* p, double now) {
    char line[MAX_COLUMNS + 1], middle[256], bar[BAR_CELLS + 4];
    size_t room = (size_t)terminal_columns(), used = 0;  // the last column stays free: no wrapping
    describe(p, now, middle, sizeof middle);
    used = append(line, used, room, p->label);
    used = append(line, used, room, " ");
    // where not all fits, the bar is shorter or goes
    int cells = (int)room - (int)(used + strlen(middle)) - 4;
    if (cells > BAR_CELLS) cells = BAR_CELLS;
    if (p->total > 0 && cells >= LEAST_CELLS) {
        double share = (double)p->done / (double)p->total;
        int full = (int)(cells * (share < 0 ? 0 : share > 1 ? 1 : share));
        bar[0] = '[';
        for (int i = 0; i < cells; i++) bar[1 + i] = i < full ? '#' : '.';
        memcpy(bar + 1 + cells, "] ", 3);
        used = append(line, used, room, bar);
    }
    append(line, used, room, middle);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    atomic_store(&bar_on_screen, 1);
}

static void print_counts(const progress* p) {
    fprintf(stderr, "@progress %lld %lld %s\t%s\n", (long long)p->done, (long long)p->total,
            p->label, p->note);
    fflush(stderr);
}

static void print_line(const progress* p, double now) {
    char middle[256], line[PLAIN_COLUMNS];
    describe(p, now, middle, sizeof middle);
    size_t used = append(line, 0, sizeof line, p->label);
    used = append(line, used, sizeof line, " ");
    append(line, used, sizeof line, middle + strspn(middle, " "));
    fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

void progress_begin(progress* p, const char* label, int64_t total) {
    *p = (progress){.total = total > 0 ? total : 0, .enabled = atomic_load(&progress_on)};
    p->part = part_begun;
    part_begun = 0;
    snprintf(p->label, sizeof p->label, "%s", label);
    if (!p->enabled) return;
    const char *kind = getenv("TERM"), *wish = getenv("FIRM_PROGRESS");
    p->counts = wish && strcmp(wish, "counts") == 0;
    p->terminal = !p->counts && isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
    p->started = p->last_shown = clock_seconds();
    if (p->terminal) draw_bar(p, p->started);
    if (p->counts) print_counts(p);
}

void progress_step(progress* p, int64_t done, const char* note) {
    if (!p->enabled) return;
    double now = clock_seconds();
    if (p->steps == 0) {
        p->first = done;
        p->first_time = now;
    }
    if (p->steps < 2) p->steps++;
    p->done = done;
    if (note) snprintf(p->note, sizeof p->note, "%s", note);
    if (now - p->last_shown < (p->terminal || p->counts ? DRAW_EVERY_S : LINE_EVERY_S)) return;
    p->last_shown = now;
    if (p->terminal)
        draw_bar(p, now);
    else if (p->counts)
        print_counts(p);
    else
        print_line(p, now);
}

void progress_end(progress* p) {
    if (!p->enabled) return;
    p->enabled = 0;
    if (p->part) progress_run_part(0);  // its part is done, whatever bar comes next
    part_begun = 0;
    if (p->counts) {
        print_counts(p);
        return;
    }
    char rate[32], took[32];
    double now = clock_seconds();
    format_rate(rate_of(p, now), rate, sizeof rate);
    format_time(now - p->started, took, sizeof took);
    wipe_bar();
    if (p->total > 0 && p->done < p->total)
        fprintf(stderr, "%s %lld of %lld in %s", p->label, (long long)p->done, (long long)p->total,
                took);
    else
        fprintf(stderr, "%s %lld in %s", p->label, (long long)p->done, took);
    if (p->steps > 1) fprintf(stderr, "  %s", rate);
    if (p->note[0]) fprintf(stderr, "  %s", p->note);
    fputc('\n', stderr);
    fflush(stderr);
}
