// log_test.c - the log hook, and progress as plain lines and as a bar on a (pseudo) terminal.
#define _GNU_SOURCE
#include "core/log.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check.h"
#include "core/clock.h"
#include "firm.h"

typedef struct heard {
    int infos, warnings;
    char last[1100];
} heard;

static void listen(void* user, firm_log_level level, const char* text) {
    heard* h = user;
    *(level == FIRM_LOG_WARN ? &h->warnings : &h->infos) += 1;
    snprintf(h->last, sizeof h->last, "%s", text);
}

TEST(core, log_hook) {
    heard h = {0};
    log_info("nobody hears %d", 1);
    firm_set_log(listen, &h);
    log_info("three is %d", 3);
    EXPECT_TEXT(h.last, "three is 3");
    log_warn("%s", "careful");
    EXPECT_TEXT(h.last, "careful");
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    log_info("%s", big);  // cut, not overrun
    EXPECT_INT(strlen(h.last), 1023);
    firm_set_log(NULL, NULL);
    log_info("nobody again");
    EXPECT_INT(h.infos, 2);
    EXPECT_INT(h.warnings, 1);
}

// Runs a short progress with stderr sent to `fd`.
static void show_to(int fd, int64_t total, int log_between) {
    fflush(stderr);
    int keep = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    progress p;
    progress_begin(&p, "grounder", total);
    progress_step(&p, 100, "loss 0.5");
    usleep(1000);
    progress_step(&p, 400, "loss 0.25");
    if (log_between) log_info("a message");
    p.last_shown -= 100;  // as if the last drawing were long ago
    progress_step(&p, 500, "loss 0.125");
    progress_end(&p);
    progress_end(&p);  // harmless
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
}

static void read_some(int fd, char* out, size_t room) {
    size_t used = 0;
    ssize_t n;
    while (used + 1 < room && (n = read(fd, out + used, room - used - 1)) > 0) used += (size_t)n;
    out[used] = 0;
}

TEST(core, progress_plain_lines) {
    int ends[2];
    char text[4096];
    if (pipe(ends) != 0) abort();
    show_to(ends[1], 1000, 0);  // not enabled: silent
    progress_enable(1);
    show_to(ends[1], 1000, 0);
    show_to(ends[1], 0, 0);
    progress_enable(0);
    close(ends[1]);
    read_some(ends[0], text, sizeof text);
    close(ends[0]);
    EXPECT(strchr(text, '\r') == NULL && strchr(text, '\033') == NULL);
    int lines = 0;
    for (char* c = text; *c; c++) lines += *c == '\n';
    EXPECT_INT(lines, 4);
    EXPECT(strncmp(text, "grounder 50%", 12) == 0);
    EXPECT(strstr(text, "loss 0.125") && strstr(text, " left\n") && strstr(text, "/s"));
    EXPECT(strstr(text, "grounder 500 of 1000 in 0:00") != NULL);
    EXPECT(strstr(text, "grounder 500 in 0:00") != NULL);
}

// For a program that draws bars of its own: python/src/firm/program.py.
TEST(core, progress_as_counts) {
    int ends[2];
    char text[4096];
    if (pipe(ends) != 0) abort();
    setenv("FIRM_PROGRESS", "counts", 1);
    progress_enable(1);
    show_to(ends[1], 1000, 0);
    progress_enable(0);
    unsetenv("FIRM_PROGRESS");
    close(ends[1]);
    read_some(ends[0], text, sizeof text);
    close(ends[0]);
    EXPECT_TEXT(text,
                "@progress 0 1000 grounder\t\n@progress 500 1000 grounder\tloss 0.125\n"
                "@progress 500 1000 grounder\tloss 0.125\n");
}

TEST(core, progress_bar_on_terminal) {
    int master, slave;
    struct winsize size = {.ws_row = 24, .ws_col = 60};
    if (openpty(&master, &slave, NULL, NULL, &size) != 0) {
        test_skip("no pseudo terminal");
        return;
    }
    char text[4096];
    const char* term = getenv("TERM");
    char keep[64] = "";
    if (term) snprintf(keep, sizeof keep, "%s", term);
    setenv("TERM", "xterm", 1);
    heard h = {0};
    firm_set_log(listen, &h);
    progress_enable(1);
    show_to(slave, 1000, 1);
    progress_enable(0);
    firm_set_log(NULL, NULL);
    if (term)
        setenv("TERM", keep, 1);
    else
        unsetenv("TERM");
    fcntl(master, F_SETFL, O_NONBLOCK);
    read_some(master, text, sizeof text);
    close(slave);
    close(master);
    // a bar, shortened so that the time left fits
    const char* bar = strstr(text, "\r\033[Kgrounder [####");
    EXPECT(bar && strstr(bar, "....]  50%") && strstr(bar, " left"));
    EXPECT_TEXT(h.last, "a message");
    // one line only, within the terminal's width, until the end
    char* newline = strchr(text, '\n');
    EXPECT(newline && newline[1] == 0);
    for (char* part = strtok(text, "\r\n"); part; part = strtok(NULL, "\r\n"))
        EXPECT(strlen(part) - (part[0] == '\033' ? 3 : 0) < 60);
}

// A run of three parts, the second with a run of two inside: what is left goes by the whole.
static int64_t pretended_ns;

static int64_t pretended_now(void) {
    return pretended_ns;
}

static void pass(progress* p, int seconds) {
    pretended_ns += (int64_t)seconds * 1000000000;
    p->last_shown -= 100;  // shown again at once
}

TEST(core, progress_of_a_run_shows_the_time_left_of_all) {
    int ends[2];
    char text[8192];
    progress p;
    if (pipe(ends) != 0) abort();
    fflush(stderr);
    int keep = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    progress_enable(1);
    clock_pretend(pretended_now);
    progress_run_begin(100);
    progress_run_part(10);
    progress_begin(&p, "first part with a name that is long, too long for eighty columns", 10);
    progress_step(&p, 0, "a note that would not fit beside it");
    pass(&p, 20);
    progress_step(&p, 5, NULL);  // 5 of 100
    progress_end(&p);
    progress_run_part(80);
    progress_run_begin(1000);
    progress_run_part(500);
    progress_begin(&p, "inner", 100);
    progress_step(&p, 0, "");
    pass(&p, 20);
    progress_step(&p, 50, "");  // 10 + 80 * 0.25 of 100
    progress_end(&p);
    progress_begin(&p, "aside", 100);  // no part of the run
    progress_step(&p, 0, "");
    pass(&p, 1);
    progress_step(&p, 50, "");
    progress_end(&p);
    progress_run_end();
    progress_run_end();
    progress_begin(&p, "alone", 100);
    progress_step(&p, 0, "");
    pass(&p, 1);
    progress_step(&p, 50, "");
    progress_end(&p);
    clock_pretend(NULL);
    progress_enable(0);
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    close(ends[1]);
    read_some(ends[0], text, sizeof text);
    close(ends[0]);
    const char* shown[3] = {NULL, NULL, NULL};
    for (char* line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strchr(line, '%')) EXPECT(strlen(line) < 80);
        if (strncmp(line, "inner 50%", 9) == 0) shown[0] = line;
        if (strncmp(line, "aside 50%", 9) == 0) shown[1] = line;
        if (strncmp(line, "alone 50%", 9) == 0) shown[2] = line;
    }
    // 30 of 100 after 40 s; the inner part done, 50 of 100 after 41 s; a second for the other half
    EXPECT(shown[0] && strstr(shown[0], "  1:33 left in all"));
    EXPECT(shown[1] && strstr(shown[1], "  0:41 left in all"));
    EXPECT(shown[2] && strstr(shown[2], "  0:01 left") && !strstr(shown[2], "in all"));
}
