// check.c - `firm check TASK`: does a task do what a task must? Each check runs in a process of its
// own, so that a simulator that crashes or hangs becomes a sentence.
#define _GNU_SOURCE  // prctl
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/text.h"
#include "data/checks.h"

static const arg_option options[] = {
    {"only", 0, ARG_TEXT, 0, 0, NULL, NULL, "NAME", "one check; all if not given"},
    {"limit", 0, ARG_INT, 1, 3600, "60", NULL, "S", "seconds that a check may take"},
};

// What a child sends: the task's name, and the result or the error.
typedef struct answer {
    firm_status status;
    char task[TASK_NAME];
    check_result result;
    firm_error err;
} answer;

static void show(const cJSON* j) {
    const cJSON* c;
    cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(j, "checks")) printf(
        "%-5s %-9s %s\n", cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "pass")) ? "ok" : "FAIL",
        cJSON_GetObjectItemCaseSensitive(c, "name")->valuestring,
        cJSON_GetObjectItemCaseSensitive(c, "sentence")->valuestring);
    printf("%s: %s\n", cJSON_GetObjectItemCaseSensitive(j, "task")->valuestring,
           cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "pass")) ? "all checks passed"
                                                                     : "not ready");
}

// In the child: opens the task and runs one check (-1: none), and never returns.
static _Noreturn void serve(const char* task, int check, int to) {
    static answer a;  // too large for some stacks
    const env_spec* spec;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    progress_enable(0);
    a.status = env_open_task(task, &spec, &a.err);
    if (a.status == FIRM_OK) snprintf(a.task, sizeof a.task, "%s", spec->task.name);
    if (a.status == FIRM_OK && check >= 0) a.status = check_run(check, spec, &a.result, &a.err);
    const char* at = (const char*)&a;
    for (size_t left = sizeof a; left > 0;) {
        ssize_t n = write(to, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(3);
        at += n;
        left -= (size_t)n;
    }
    _exit(0);
}

// Reads a whole answer; 0: the child ended before, -1: the time is up.
static int receive(int from, double seconds, answer* a) {
    const double end = clock_seconds() + seconds;
    char* at = (char*)a;
    for (size_t left = sizeof *a; left > 0;) {
        struct pollfd wait = {from, POLLIN, 0};
        double rest = end - clock_seconds();
        int ready = rest > 0 ? poll(&wait, 1, (int)ceil(1e3 * rest)) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) return -1;
        ssize_t n = ready > 0 ? read(from, at, left) : 0;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        at += n;
        left -= (size_t)n;
    }
    return 1;
}

// What became of a child that gave no answer.
static void obituary(int got, int status, int limit, const char* during, check_result* r) {
    r->pass = 0;
    r->figure = NAN;
    if (got < 0)
        snprintf(r->sentence, sizeof r->sentence,
                 "it did not end within %d s; one of its functions hangs or is very slow (--limit "
                 "gives it more)",
                 limit);
    else if (WIFSIGNALED(status))
        snprintf(r->sentence, sizeof r->sentence,
                 "it crashed %s with signal %d (%s); a debugger shows where: gdb --args firm check",
                 during, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(r->sentence, sizeof r->sentence,
                 "it ended the program %s with status %d; a task's functions must return", during,
                 WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

// Runs a check, or only loads the task (-1). The task's code never runs in this process.
static firm_status ask(const char* task, int check, int limit, answer* a, firm_error* err) {
    int ends[2], status = 0;
    if (pipe(ends) != 0) return FAIL(err, FIRM_E_IO, "no pipe for a child process");
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return FAIL(err, FIRM_E_MEMORY, "no child process could be started");
    }
    if (child == 0) {
        close(ends[0]);
        serve(task, check, ends[1]);
    }
    close(ends[1]);
    int got = receive(ends[0], limit, a);
    close(ends[0]);
    if (got <= 0) kill(child, got < 0 ? SIGKILL : SIGCONT);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (got > 0) {
        if (a->status != FIRM_OK) *err = a->err;
        return a->status;
    }
    *a = (answer){.status = FIRM_OK};
    obituary(got, status, limit, check < 0 ? "while it was loaded" : "here", &a->result);
    return FIRM_OK;
}

static int add_result(cJSON* list, const char* name, const check_result* r) {
    cJSON* c = cJSON_CreateObject();
    if (!c || !cJSON_AddItemToArray(list, c)) {
        cJSON_Delete(c);
        return 0;
    }
    return cJSON_AddStringToObject(c, "name", name) && cJSON_AddBoolToObject(c, "pass", r->pass) &&
           json_add_number(c, "figure", r->figure, 6) &&
           cJSON_AddStringToObject(c, "sentence", r->sentence);
}

typedef struct tally {
    int checks, failed;
    char first[512];  // sentence of the first that failed
} tally;

static firm_status add_check(cJSON* list, const char* name, const check_result* r, tally* t,
                             firm_error* err) {
    t->checks++;
    if (!r->pass && t->failed++ == 0)
        snprintf(t->first, sizeof t->first, "%s: %s", name, r->sentence);
    return add_result(list, name, r) ? FIRM_OK : cli_no_memory(err);
}

// --only names one of them.
static firm_status known_check(const args* a, firm_error* err) {
    char list[256] = "";
    for (int i = 0; check_name(i); i++) {
        if (!args_given(a, "only") || strcmp(args_text(a, "only"), check_name(i)) == 0)
            return FIRM_OK;
        text_add(list, sizeof list, "%s%s", i ? ", " : "", check_name(i));
    }
    return FAIL(err, FIRM_E_USAGE, "there is no check '%.40s'; the checks are: %s",
                args_text(a, "only"), list);
}

static firm_status run_checks(const args* a, cJSON* json, cJSON* list, tally* t, firm_error* err) {
    static answer got;
    const char* task = a->positional[0];
    const int limit = (int)args_int(a, "limit");
    TRY(known_check(a, err));
    TRY(ask(task, -1, limit, &got, err));
    const int loaded = got.task[0] != 0;
    if (loaded) got.result = (check_result){1, 0, "it loads, and its tables are complete"};
    if (!cJSON_AddStringToObject(json, "task", loaded ? got.task : task)) return cli_no_memory(err);
    TRY(add_check(list, "loads", &got.result, t, err));
    for (int i = 0; loaded && check_name(i); i++) {
        if (args_given(a, "only") && strcmp(args_text(a, "only"), check_name(i)) != 0) continue;
        TRY(ask(task, i, limit, &got, err));
        TRY(add_check(list, check_name(i), &got.result, t, err));
    }
    return FIRM_OK;
}

static firm_status run(const args* a, firm_error* err) {
    tally t = {0};
    cJSON* json = cJSON_CreateObject();
    cJSON* list = cJSON_CreateArray();
    firm_status status = json && list ? run_checks(a, json, list, &t, err) : cli_no_memory(err);
    if (status == FIRM_OK && !(cJSON_AddItemToObject(json, "checks", list) &&
                               cJSON_AddBoolToObject(json, "pass", t.failed == 0)))
        status = cli_no_memory(err);
    if (status != FIRM_OK) {
        if (json && !cJSON_GetObjectItemCaseSensitive(json, "checks")) cJSON_Delete(list);
        cJSON_Delete(json);
        return status;
    }
    TRY(cli_finish(a, json, show, err));
    if (t.failed == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_GATE, "%d of %d checks failed; the first: %s", t.failed, t.checks,
                t.first);
}

const cli_command cli_check = {
    "check",
    "check TASK [--only NAME --limit S]",
    "check a task of your own for mistakes",
    "Starts the task's simulator, moves, restores, replays, draws and repeats it, also in\n"
    "threads. A simulator that crashes or hangs fails the check.\n",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
