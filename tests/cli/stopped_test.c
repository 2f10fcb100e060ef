// stopped_test.c - the program is stopped or killed: exit status, one sentence, what is left and
// how it goes on. `make kill` does the same at many more moments.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

// Five updates, then many short ones, then eight.
#define SMALL                                                                                 \
    "--config smoke --set stage.tokenizer.updates=1 --set stage.grounder.updates=3 "          \
    "--set stage.history.updates=1 --set stage.tokenizer.batch=2 "                            \
    "--set stage.grounder.batch=2 --set stage.history.batch=2 --set stage.rollout-f.batch=2 " \
    "--set train.segments=16 --set train.held_out=4 --set train.support=4 "                   \
    "--set train.checkpoint_every=1000000"
enum { BEFORE = 5, MANY = 2000 };

static const char* training(const char* run, const char* more) {
    static char line[2048];
    const char* fix = firm_fixture();
    snprintf(line, sizeof line,
             "train tworoom --data %s/f.h5 --branches %s/i.h5 -o %s --seed 7 --threads 1 " SMALL
             " --set stage.rollout-f.updates=%d %s",
             fix, fix, run, MANY, more);
    return line;
}

static int ended(pid_t child) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid;
}

static char* text_of(const char* folder, const char* name) {
    size_t n;
    return get_file(folder, name, &n);
}

static int lines_of(const char* folder, const char* name) {
    char* text = text_of(folder, name);
    int n = 0;
    for (const char* at = text; at && (at = strchr(at, '\n')); at++) n++;
    free(text);
    return n;
}

// Waits until metrics.csv has so many lines; 0 if the process ended before.
static int wait_for_rows(pid_t child, const char* folder, const char* name, int rows) {
    for (int i = 0; i < 60000; i++) {
        if (lines_of(folder, name) >= rows) return 1;
        if (ended(child)) return 0;
        usleep(1000);
    }
    return 0;
}

static void expect_no_temporary(int line, const char* folder) {
    char names[4096];
    folder_entries(folder, names, sizeof names);
    if (strstr(names, ".tmp")) test_fail(__FILE__, line, "left behind: %s", names);
}

static void expect_same_file(int line, const char* folder, const char* a, const char* b) {
    size_t n = 0, k = 0;
    char *x = get_file(folder, a, &n), *y = get_file(folder, b, &k);
    if (!x || !y || n != k || memcmp(x, y, n) != 0)
        test_fail(__FILE__, line, "%s and %s differ", a, b);
    free(x);
    free(y);
}

// metrics.csv without its last column, the time.
static void expect_same_metrics(int line, const char* folder, const char* a, const char* b) {
    char *x = text_of(folder, a), *y = text_of(folder, b);
    char *p = x, *q = y;
    int same = x && y;
    while (same && *p && *q) {
        char *pe = strchr(p, '\n'), *qe = strchr(q, '\n');
        if (!(same = pe && qe)) break;
        *pe = *qe = 0;
        char *pt = strrchr(p, ','), *qt = strrchr(q, ',');
        same = pt && qt && pt - p == qt - q && strncmp(p, q, (size_t)(pt - p)) == 0;
        p = pe + 1;
        q = qe + 1;
    }
    if (!same || *p || *q) test_fail(__FILE__, line, "%s and %s differ", a, b);
    free(x);
    free(y);
}

// The first signal finishes the update and writes a checkpoint of that very one; what is said can
// be pasted, and the run ends in the bytes of one that was never stopped.
TEST(cli, stopped_training_goes_on_from_its_last_update) {
    static const struct {
        const char *run, *name;
        int signal, code;
    } cases[] = {{"int", "(SIGINT)", SIGINT, 130}, {"term", "(SIGTERM)", SIGTERM, 143}};
    char folder[512], name[64], other[64];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    EXPECT_INT(firm_run(folder, 0, "%s", training("whole", "--quiet"))->code, 0);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/metrics.csv", cases[i].run);
        pid_t child = firm_start(folder, training(cases[i].run, "--quiet"));
        EXPECT(wait_for_rows(child, folder, name, 25 + 10 * i));
        kill(child, cases[i].signal);
        const outcome* o = firm_end(child);
        EXPECT_INT(o->code, cases[i].code);
        EXPECT(!o->killed && !o->out[0]);
        int rows = lines_of(folder, name), update = -1;
        const char* at = strstr(o->err, "stopped after update ");
        EXPECT(at && sscanf(at, "stopped after update %d of stage rollout-f", &update) == 1);
        EXPECT_INT(update, rows - 1 - BEFORE);  // a row each, and the header
        EXPECT(strstr(o->err, cases[i].name) != NULL);
        at = strstr(o->err, "; to go on: " FIRM_BINARY_DIR "/firm ");
        EXPECT(at != NULL && strstr(o->err, "--quiet --resume\n"));
        if (!at) return;
        char inner[600], line[3000];
        snprintf(inner, sizeof inner, "%s/%s", folder, cases[i].run);
        expect_no_temporary(__LINE__, inner);
        // the very line, without the program's name; this time with its messages
        snprintf(line, sizeof line, "%s", strstr(at, "/firm train") + strlen("/firm "));
        line[strcspn(line, "\n")] = 0;
        char* quiet = strstr(line, " --quiet");
        if (quiet) memset(quiet, ' ', strlen(" --quiet"));
        o = firm_run(folder, 0, "%s", line);
        EXPECT_INT(o->code, 0);
        char resuming[100];
        snprintf(resuming, sizeof resuming, "resuming %s at stage 4, update %d", cases[i].run,
                 update);
        EXPECT(strstr(o->err, resuming) != NULL);
        snprintf(other, sizeof other, "%s/model.safetensors", cases[i].run);
        expect_same_file(__LINE__, folder, "whole/model.safetensors", other);
        expect_same_metrics(__LINE__, folder, "whole/metrics.csv", name);
    }
}

TEST(cli, stopped_twice_training_ends_at_once) {
    char folder[512], inner[600];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    // one update of seconds, so that the second signal comes within it
    pid_t child = firm_start(
        folder,
        training("run", "--set stage.tokenizer.batch=4096 --set train.log_every=1 --quiet"));
    EXPECT(wait_for_rows(child, folder, "run/metrics.csv", 1));
    // in the first update or on the way there: at once, or by the second one
    usleep(300000);
    kill(child, SIGINT);
    usleep(50000);
    kill(child, SIGTERM);
    const outcome* o = firm_end(child);
    EXPECT(!o->killed && (o->code == 130 || o->code == 143));
    EXPECT(strstr(o->err, "firm train: stopped by SIG") && strstr(o->err, "--quiet --resume\n"));
    EXPECT_INT(lines_of(folder, "run/metrics.csv"), 1);
    snprintf(inner, sizeof inner, "%s/run", folder);
    expect_no_temporary(__LINE__, inner);
    // no checkpoint yet: --resume says so and begins
    o = firm_run(folder, 0, "%s", training("run", "--resume --until tokenizer"));
    EXPECT_INT(o->code, 0);
    EXPECT(strstr(o->err, "run holds no checkpoint; the run starts at its beginning") != NULL);
    EXPECT_INT(lines_of(folder, "run/metrics.csv"), 2);
}

// Killed before its first row, or while it wrote the header: --resume and the report go on.
TEST(cli, metrics_have_their_header_whenever_a_run_is_killed) {
    static const char* const left[] = {"", "stage,upd", NULL};
    char folder[512];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    for (int i = 0; i < 3; i++) {
        char run[16], name[64], made[600];
        snprintf(run, sizeof run, "run-%d", i);
        snprintf(name, sizeof name, "%s/metrics.csv", run);
        snprintf(made, sizeof made, "%s/%s", folder, run);
        if (left[i]) {
            if (mkdir(made, 0755) != 0) abort();
            put_file(folder, name, left[i], strlen(left[i]));
        } else {
            pid_t child = firm_start(folder, training(run, "--quiet"));
            EXPECT(wait_for_rows(child, folder, name, 1));
            kill(child, SIGKILL);
            EXPECT_INT(firm_end(child)->killed, 1);
        }
        EXPECT_INT(
            firm_run(folder, 0, "%s", training(run, "--resume --until grounder --quiet"))->code, 0);
        EXPECT_INT(lines_of(folder, name), 1 + 1 + 3);
        EXPECT_INT(firm_run(folder, 0, "report %s -o page-%d --quiet", run, i)->code, 0);
    }
    expect_same_metrics(__LINE__, folder, "run-0/metrics.csv", "run-2/metrics.csv");
    // rows of another version stay where they are
    static const char old[] = "stage,update,loss\na,1,2\n";
    put_file(folder, "run-1/metrics.csv", old, sizeof old - 1);
    EXPECT_REFUSAL(firm_run(folder, 0, "%s", training("run-1", "--resume --quiet")), "train",
                   "other columns");
    EXPECT_INT(lines_of(folder, "run-1/metrics.csv"), 2);
}

TEST(cli, two_trainings_in_one_folder_are_one_too_many) {
    char folder[512];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    pid_t child = firm_start(folder, training("run", "--quiet"));
    EXPECT(wait_for_rows(child, folder, "run/metrics.csv", 1));
    EXPECT_REFUSAL(firm_run(folder, 0, "%s", training("run", "--quiet")), "train",
                   "another training is at work in run");
    EXPECT_REFUSAL(firm_run(folder, 0, "%s", training("run", "--resume --quiet")), "train",
                   "another training is at work in run");
    kill(child, SIGKILL);
    EXPECT_INT(firm_end(child)->killed, 1);
    EXPECT_INT(firm_run(folder, 0, "%s", training("run", "--resume --quiet"))->code, 0);
}

// ---- other commands -----------------------------------------------------------------------------

// Commands that would take minutes; @ stands for the fixture's folder.
static const struct {
    const char *command, *line;
} lasting[] = {
    {"collect", "collect tworoom --episodes 300000 -o out --quiet"},
    {"intervene",
     "intervene tworoom --data @/f.h5 --anchors 50 --branches 400 --planned --candidates 60000 "
     "--model @/run/model.safetensors -o out --quiet"},
    {"eval", "eval tworoom --arms oracle-dynamics --trials 400 --data @/f.h5 -o out --quiet"},
    {"demo", "demo tworoom --model @/run/model.safetensors --trials 1000 -o demo --quiet"},
};

static void fill_in(const char* form, char* line, size_t room) {
    size_t n = 0;
    for (const char* at = form; *at && n + 1 < room; at++) {
        char one[2] = {*at, 0};
        n += (size_t)snprintf(line + n, room - n, "%s", *at == '@' ? firm_fixture() : one);
    }
}

TEST(cli, stopped_commands_leave_what_was_there) {
    if (!firm_fixture()) return;
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) {
        char folder[512], line[2048], start[100];
        size_t n;
        fresh_folder(folder);
        put_file(folder, "out", "precious", 8);
        fill_in(lasting[i].line, line, sizeof line);
        pid_t child = firm_start(folder, line);
        firm_await(child);
        usleep(50000 + 50000 * (useconds_t)i);
        kill(child, i % 2 ? SIGTERM : SIGINT);
        const outcome* o = firm_end(child);
        EXPECT_INT(o->killed, 0);
        EXPECT_INT(o->code, i % 2 ? 143 : 130);
        snprintf(start, sizeof start, "firm %s: stopped by %s; files", lasting[i].command,
                 i % 2 ? "SIGTERM" : "SIGINT");
        if (strncmp(o->err, start, strlen(start)) != 0 || strchr(o->err, '\n')[1])
            test_fail(__FILE__, __LINE__, "'%s' is not one sentence '%s'", o->err, start);
        char* kept = get_file(folder, "out", &n);
        EXPECT(kept && n == 8 && memcmp(kept, "precious", 8) == 0);
        free(kept);
        expect_no_temporary(__LINE__, folder);
    }
}

// In the middle of writing: killed, what is left is the old file and one that the next run removes.
TEST(cli, killed_while_writing_leaves_the_old_file) {
    char folder[512], names[4096];
    int seen = 0;
    fresh_folder(folder);
    put_file(folder, "f.h5", "precious", 8);
    for (int i = 0; i < 20 && seen < 3; i++) {
        pid_t child = firm_start(folder, "collect tworoom --episodes 400 --pixels -o f.h5 --quiet");
        for (int wait = 0; wait < 5000; wait++) {
            usleep(500);
            folder_entries(folder, names, sizeof names);
            if (strstr(names, ".tmp") || ended(child)) break;
        }
        usleep(3000 * (useconds_t)i);
        kill(child, SIGKILL);
        EXPECT_INT(firm_end(child)->killed, 1);
        size_t n = 0;
        char* kept = get_file(folder, "f.h5", &n);
        EXPECT(kept && n == 8 && memcmp(kept, "precious", 8) == 0);
        free(kept);
        folder_entries(folder, names, sizeof names);
        seen += strstr(names, ".tmp") != NULL;
    }
    EXPECT(seen >= 1);
    EXPECT_INT(firm_run(folder, 0, "collect tworoom --episodes 5 -o f.h5 --quiet")->code, 0);
    EXPECT_INT(folder_entries(folder, NULL, 0), 1);
}

// A study passes the signal on, waits for its steps and says how it goes on.
TEST(cli, stopped_study_stops_its_steps) {
    char folder[512], name[64];
    int found = 0;
    fresh_folder(folder);
    static const char line[] =
        "reproduce --tasks tworoom --seeds 1,2 --episodes 60 --trials 2 --oracle-minutes 0 --quiet "
        "-o s --jobs 2 --set stage.rollout-f.updates=1000000 " SMALL;
    pid_t child = firm_start(folder, line);
    EXPECT(wait_for_rows(child, folder, "s/tworoom/seed-1/metrics.csv", 25));
    EXPECT_REFUSAL(firm_run(folder, 0, "%s", line), "reproduce", "another study is at work in s");
    kill(child, SIGINT);
    const outcome* o = firm_end(child);
    EXPECT_INT(o->code, 130);
    EXPECT(
        strstr(o->err, "firm reproduce: stopped, as were the steps at work (SIGINT); to go on: "));
    EXPECT(strstr(o->err, "/firm reproduce --tasks tworoom --seeds 1,2 ") != NULL);
    // each training wrote a checkpoint at its last update and says so in its log
    for (int i = 1; i < 20; i++) {
        snprintf(name, sizeof name, "s/logs/%03d.txt", i);
        char* log = text_of(folder, name);
        int update = -1, seed = 0;
        const char* at = log ? strstr(log, "stopped after update ") : NULL;
        const char* run = log ? strstr(log, "/seed-") : NULL;
        if (at && run && sscanf(run, "/seed-%d", &seed) == 1 &&
            sscanf(at, "stopped after update %d of stage rollout-f (SIGINT)", &update) == 1) {
            found++;
            snprintf(name, sizeof name, "s/tworoom/seed-%d/metrics.csv", seed);
            EXPECT_INT(update, lines_of(folder, name) - 1 - BEFORE);
        }
        free(log);
    }
    EXPECT(found >= 1);
}

// ---- exit status --------------------------------------------------------------------------------

// A missed gate is status 1: the model is there, the sentence names stage, figure and limit.
TEST(cli, missed_gate_is_status_1) {
    char folder[512];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    static const char gate[] = "--set stage.rollout-f.updates=8 --set stage.grounder.gate=0.001";
    char more[256];
    snprintf(more, sizeof more, "%s --until grounder --quiet", gate);
    EXPECT_INT(firm_run(folder, 0, "%s", training("run", more))->code, 0);  // not at its end yet
    snprintf(more, sizeof more, "%s --resume --json --quiet", gate);
    const outcome* o = firm_run(folder, 0, "%s", training("run", more));
    EXPECT_INT(o->code, 1);
    EXPECT(strncmp(o->err, "firm train: stage grounder missed its gate: held-out ", 53) == 0);
    EXPECT(strstr(o->err, ", limit 0.0010; the model was written to run/model.safetensors\n"));
    cJSON* j = JSON_OF(o);
    EXPECT(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(j, "pass")));
    cJSON_Delete(j);
    size_t n = 0;
    char* model = get_file(folder, "run/model.safetensors", &n);
    EXPECT(model != NULL && n > 1000);
    free(model);
}
