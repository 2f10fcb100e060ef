// study_chains.c - the steps of a study and the order they run in. A chain is a list of steps that
// follow one another; chains that do not wait for each other may run side by side, every step in a
// process of its own. With one job all steps run in this process, in the order they were added.
#define _GNU_SOURCE  // fork, prctl
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/study.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/stats.h"
#include "core/text.h"

struct study_step {
    char** word;  // the command line without "firm"
    int words;
    char result[LINE_WORD];
    int save, ungated;
    double cost;   // expected seconds
    int number;    // in s->steps; from when it was begun
    double begun;  // clock_seconds()
};

// ---- adding -------------------------------------------------------------------------------------

firm_status study_chain_begin(study* s, int after, int after_end, int whole, firm_error* err) {
    if (s->chains == STUDY_CHAINS)
        return FAIL(err, FIRM_E_USAGE,
                    "this is a study of more than %d parts; give fewer --tasks or --seeds",
                    STUDY_CHAINS);
    s->chain[s->chains++] =
        (study_chain){.after = after, .after_end = after_end, .task = s->adding};
    // One at a time may have all threads; side by side each has twice its share, since a step that
    // waits for a GPU or a disk leaves its own to the others.
    int jobs = (int)args_int(s->a, "jobs"), threads = (int)args_int(s->a, "threads");
    if (jobs > 2 && !whole) {
        if (threads == 0) threads = pool_cores();
        threads = 2 * threads / jobs > 1 ? 2 * threads / jobs : 1;
    }
    snprintf(s->threads, sizeof s->threads, "%d", threads);
    return FIRM_OK;
}

static void step_free(study_step* t) {
    for (int i = 0; t && i < t->words; i++) mem_free(t->word[i]);
    if (t) mem_free(t->word);
    mem_free(t);
}

static study_step* step_of(const line* l) {
    study_step* t = mem_calloc(1, sizeof *t);
    if (t) t->word = mem_calloc((size_t)l->words, sizeof *t->word);
    int ok = t && t->word;
    for (int i = 0; i < l->words && ok; i++)
        if ((ok = (t->word[i] = mem_strdup(l->word[i])) != NULL)) t->words++;
    if (ok) return t;
    step_free(t);
    return NULL;
}

static void note_gate(study* s, const char* sentence) {
    if (!s->gates_missed++) snprintf(s->missed, sizeof s->missed, "%.250s", sentence);
    log_warn("%s", sentence);
}

// A result of an earlier sitting may have missed its gate too.
static firm_status recall(study* s, const char* result, firm_error* err) {
    size_t n = strlen(result);
    if (n < 5 || strcmp(result + n - 5, ".json") != 0) return FIRM_OK;
    cJSON* json;
    TRY(json_read_file(result, &json, err));
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "pass"))) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%.200s records a missed gate", result);
        note_gate(s, sentence);
    }
    cJSON_Delete(json);
    return FIRM_OK;
}

firm_status study_add(study* s, const line* l, step_result r, firm_error* err) {
    CHECK(s->chains > 0, "a step of a study belongs to a chain");
    study_chain* c = &s->chain[s->chains - 1];
    const double cost = study_cost(s, l);
    if (file_exists(r.file)) {
        s->skipped++;
        s->seconds_there += cost;
        return r.ungated ? FIRM_OK : recall(s, r.file, err);
    }
    CHECK(c->steps < STUDY_STEPS, "a chain of a study has too many steps");
    study_step* t = step_of(l);
    if (!t) return cli_no_memory(err);
    snprintf(t->result, sizeof t->result, "%s", r.file);
    t->save = r.save;
    t->ungated = r.ungated;
    t->cost = cost;
    s->seconds_left += cost;
    c->step[c->steps++] = t;
    return FIRM_OK;
}

void study_chains_free(study* s) {
    for (int i = 0; i < s->chains; i++)
        for (int k = 0; k < s->chain[i].steps; k++) step_free(s->chain[i].step[k]);
    s->chains = 0;
}

// ---- what every step does -----------------------------------------------------------------------

enum { LINE_TEXT = 16384 };

static void command_line(const study_step* t, char text[LINE_TEXT]) {
    snprintf(text, LINE_TEXT, "firm");
    for (int i = 0; i < t->words; i++) text_add(text, LINE_TEXT, " %s", t->word[i]);
}

// Says and notes what is begun.
static firm_status step_begin(study* s, study_step* t, firm_error* err) {
    char text[LINE_TEXT];
    command_line(t, text);
    t->number = cJSON_GetArraySize(s->steps);
    log_info("step %d of %d: %s", t->number + 1, s->to_do, text);
    cJSON *item = cJSON_CreateString(text), *seconds = cJSON_CreateNumber(0);
    t->begun = clock_seconds();
    if (item && seconds && cJSON_AddItemToArray(s->steps, item) &&
        cJSON_AddItemToArray(s->step_seconds, seconds))
        return FIRM_OK;
    return cli_no_memory(err);
}

// `json` (nullable) is what the command printed. After a missed gate the study goes on, and says at
// its end what was missed.
static firm_status step_end(study* s, const study_step* t, firm_status status, const cJSON* json,
                            firm_error* err) {
    double seconds = clock_seconds() - t->begun;
    cJSON_SetNumberValue(cJSON_GetArrayItem(s->step_seconds, t->number),
                         (double)(int64_t)(seconds * 100 + 0.5) / 100);
    if (status == FIRM_E_GATE) {
        if (t->ungated)
            log_info("%s", err->message);
        else
            note_gate(s, err->message);
        status = FIRM_OK;
    }
    if (status == FIRM_OK && t->save && json) status = json_write_file(t->result, json, err);
    s->done++;
    s->seconds_done += t->cost;
    return status;
}

static firm_status run_here(study* s, study_step* t, firm_error* err) {
    cJSON* json = NULL;
    TRY(step_begin(s, t, err));
    if (s->only_say) return FIRM_OK;
    progress_run_part(t->cost);
    firm_status status = cli_run(t->words, t->word, &json, err);
    status = step_end(s, t, status, json, err);
    cJSON_Delete(json);
    return status;
}

// ---- side by side -------------------------------------------------------------------------------

static void log_path(const study* s, const study_step* t, const char* ending, char out[LINE_WORD]) {
    snprintf(out, LINE_WORD, "%.1000s/logs/%03d.%s", s->out, t->number + 1, ending);
}

// Nothing waits for an evaluation.
static int is_last(const study_step* t) {
    return strcmp(t->word[0], "eval") == 0;
}

// A training needs its core the moment its GPU is done. What trainings wait for comes next, one
// task's before another's: side by side at the same pace, all would be ready as late as the last.
static int niceness(const study_chain* c, const study_step* t) {
    if (strcmp(t->word[0], "train") == 0) return 0;
    return is_last(t) ? 18 : c->task < 4 ? 1 + 4 * c->task : 17;
}

// Where the multi-process service shares a GPU out, it serves clients with a 1 in this variable
// after those without. A model of the tables has four evaluations to come, an ablation one.
static const char mps_priority[] = "CUDA_MPS_CLIENT_PRIORITY";

// In the child: only what may be called between fork() and exec().
static void become(char** argv, const char* program, int nicer, const char* out, const char* err) {
    int o = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    int e = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a study that is killed leaves nobody behind
    setpgid(0, 0);  // a terminal's Ctrl-C comes through the study alone, and so once
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nicer);
    if (o >= 0 && e >= 0 && dup2(o, 1) >= 0 && dup2(e, 2) >= 0) execv(program, argv);
    _exit(127);
}

static firm_status stopped(firm_error* err) {
    return FAIL(err, FIRM_E_STOPPED, "stopped, as were the steps at work");
}

static firm_status start(study* s, study_chain* c, firm_error* err) {
    study_step* t = c->step[c->at];
    char out[LINE_WORD], log[LINE_WORD], program[PATH_MAX] = "", json[] = "--json";
    char* argv[LINE_WORDS + 3] = {program};
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return FAIL(err, FIRM_E_IO, "cannot find this program's own file; use --jobs 1");
    TRY(step_begin(s, t, err));
    log_path(s, t, "json", out);
    log_path(s, t, "txt", log);
    memcpy(argv + 1, t->word, sizeof *argv * (size_t)t->words);
    argv[1 + t->words] = json;
    const int lower = c->behind && !getenv(mps_priority);
    if (lower) setenv(mps_priority, "1", 1);
    c->process = interrupt_fork();
    if (c->process == 0) become(argv, program, niceness(c, t), out, log);
    if (lower) unsetenv(mps_priority);
    if (c->process > 0) return FIRM_OK;
    c->process = 0;
    if (interrupt_seen()) return stopped(err);
    return FAIL(err, FIRM_E_IO, "cannot start a process: %s; use fewer --jobs", strerror(errno));
}

// The last line that a command wrote to its log, which is its error if it failed.
static void last_words(const char* log, char out[512]) {
    char* text = NULL;
    size_t n = 0;
    firm_error ignored;
    out[0] = 0;
    if (file_read_all(log, &text, &n, &ignored) != FIRM_OK) return;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
    size_t begin = n;
    while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '\r') begin--;
    snprintf(out, 512, "%.*s", (int)(n - begin < 500 ? n - begin : 500), text + begin);
    mem_free(text);
}

static firm_status verdict(int code, const char* log, firm_error* err) {
    char words[512];
    last_words(log, words);
    if (WIFEXITED(code) && WEXITSTATUS(code) == 0) return FIRM_OK;
    if (WIFEXITED(code) && WEXITSTATUS(code) == 1) return FAIL(err, FIRM_E_GATE, "%s", words);
    if (WIFSIGNALED(code))
        return FAIL(err, FIRM_E_IO, "a step was stopped by signal %d; its log is %.900s",
                    WTERMSIG(code), log);
    return FAIL(err, FIRM_E_IO, "%s (log: %.400s)",
                words[0] ? words : "a step could not be started", log);
}

// The time left goes by what the steps that have ended were expected to take, side by side.
static void say_done(const study* s, const study_step* t) {
    double now = clock_seconds(), left = s->seconds_left - s->seconds_done;
    char when[64] = "";
    if (s->seconds_done > 0 && left > 0)
        snprintf(when, sizeof when, ", about %.0f min left",
                 ceil((now - s->begun) * left / s->seconds_done / 60));
    log_info("%.0f s, %d of %d%s: %s", now - t->begun, s->done, s->to_do, when, t->result);
}

static firm_status finish(study* s, study_chain* c, int code, firm_error* err) {
    study_step* t = c->step[c->at++];
    char out[LINE_WORD], log[LINE_WORD];
    cJSON* json = NULL;
    c->process = 0;
    log_path(s, t, "json", out);
    log_path(s, t, "txt", log);
    firm_status status = verdict(code, log, err), read = FIRM_OK;
    if (t->save && (status == FIRM_OK || status == FIRM_E_GATE))
        read = json_read_file(out, &json, err);
    status = step_end(s, t, read == FIRM_OK ? status : read, json, err);
    cJSON_Delete(json);
    unlink(out);  // results are where they belong; logs stay
    if (status == FIRM_OK) say_done(s, t);
    return status;
}

// What a chain waits for has ended; chains wait for earlier ones only.
static int nothing_before(const study* s, const study_chain* c) {
    for (int i = c->after; i < c->after_end; i++) {
        const study_chain* before = &s->chain[i];
        // one whose results were all there may itself wait for one whose are not
        if (before->at < before->steps || !nothing_before(s, before)) return 0;
    }
    return 1;
}

static int may_start(const study* s, const study_chain* c) {
    return !c->process && c->at < c->steps && nothing_before(s, c);
}

// Evaluations have few of the jobs while there are other steps to begin: a training that has to
// wait for them leaves a GPU idle.
static int evaluation_may_start(const study* s, int jobs) {
    const int few = jobs > 4 ? jobs / 4 : 1;
    int evaluations = 0, others = 0;
    for (int i = 0; i < s->chains; i++) {
        const study_chain* c = &s->chain[i];
        evaluations += c->process && is_last(c->step[c->at]);
        for (int k = c->at + (c->process != 0); k < c->steps; k++) others += !is_last(c->step[k]);
    }
    return !others || evaluations < few;
}

// Evaluations come last: they take what the other steps leave.
static firm_status start_some(study* s, int* running, firm_error* err) {
    const int jobs = (int)args_int(s->a, "jobs");
    for (int last = 0; last < 2; last++) {
        for (int i = 0; i < s->chains && *running < jobs; i++) {
            study_chain* c = &s->chain[i];
            if (!may_start(s, c) || is_last(c->step[c->at]) != last) continue;
            if (last && !evaluation_may_start(s, jobs)) break;
            TRY(start(s, c, err));
            ++*running;
        }
    }
    return FIRM_OK;
}

static firm_status wait_for_one(study* s, int* running, firm_error* err) {
    int code = 0;
    pid_t who = interrupt_wait(&code);
    if (who < 0 && errno == EINTR) return FIRM_OK;
    if (who < 0) return FAIL(err, FIRM_E_IO, "lost sight of a step: %s", strerror(errno));
    for (int i = 0; i < s->chains; i++) {
        if (s->chain[i].process != who) continue;
        --*running;
        // a step that was stopped has its own sentence in its log; one that ended, its result
        if (interrupt_seen() && !(WIFEXITED(code) && WEXITSTATUS(code) <= 1)) {
            s->chain[i].process = 0;
            return FIRM_OK;
        }
        return finish(s, &s->chain[i], code, err);
    }
    return FIRM_OK;
}

// After a signal the steps have had it already: a second one would end them at once.
static void stop_all(study* s) {
    for (int i = 0; i < s->chains; i++)
        if (s->chain[i].process > 0 && !interrupt_seen()) kill(s->chain[i].process, SIGTERM);
    for (int i = 0; i < s->chains; i++)
        if (s->chain[i].process > 0) waitpid(s->chain[i].process, NULL, 0);
}

static firm_status run_side_by_side(study* s, firm_error* err) {
    char logs[LINE_WORD];
    int running = 0;
    snprintf(logs, sizeof logs, "%.1000s/logs", s->out);
    TRY(file_make_dirs(logs, err));
    interrupt_hold();  // until every step has ended
    firm_status status = start_some(s, &running, err);
    while (status == FIRM_OK && running > 0) {
        status = wait_for_one(s, &running, err);
        if (status == FIRM_OK && !interrupt_seen()) status = start_some(s, &running, err);
    }
    if (status != FIRM_OK) stop_all(s);
    if (interrupt_seen() && (status == FIRM_OK || status == FIRM_E_STOPPED)) return stopped(err);
    interrupt_release();
    return status;
}

firm_status study_chains_run(study* s, firm_error* err) {
    s->to_do = 0;
    for (int i = 0; i < s->chains; i++) s->to_do += s->chain[i].steps;
    study_say(s);
    s->begun = clock_seconds();
    if (args_int(s->a, "jobs") > 1 && !s->only_say) return run_side_by_side(s, err);
    firm_status status = FIRM_OK;
    progress_run_begin(s->seconds_left);
    for (int i = 0; i < s->chains; i++)
        for (int k = 0; k < s->chain[i].steps && status == FIRM_OK; k++)
            status = run_here(s, s->chain[i].step[k], err);
    progress_run_end();
    return status;
}

// ---- what is left, and where the time went ------------------------------------------------------

static void in_words(double seconds, char* out, size_t n) {
    if (seconds < 5400)
        snprintf(out, n, "%.0f min", ceil(seconds / 60));
    else
        snprintf(out, n, "%.1f hours", seconds / 3600);
}

enum { MAX_COMMANDS = 16 };
typedef struct command_sum {
    char command[16];
    int count;
    double seconds;
} command_sum;

static void sum_add(command_sum* sum, int* n, const char* command, double seconds) {
    int i = 0;
    while (i < *n && strcmp(sum[i].command, command) != 0) i++;
    if (i == MAX_COMMANDS) return;
    if (i == *n) {
        sum[i] = (command_sum){0};
        snprintf(sum[(*n)++].command, sizeof sum->command, "%.15s", command);
    }
    sum[i].count++;
    sum[i].seconds += seconds;
}

static int by_seconds(const void* a, const void* b) {
    return stats_order(((const command_sum*)b)->seconds, ((const command_sum*)a)->seconds);
}

// "3 train 52 min, 8 eval 13 min, 4 others 1 min": the longest first, the short ones together.
static void list_sums(const study* s, command_sum* sum, int n, char* out, size_t room) {
    enum { NAMED = 3 };
    qsort(sum, (size_t)n, sizeof *sum, by_seconds);
    for (int i = NAMED + 1; i < n; i++) {
        sum[NAMED].count += sum[i].count;
        sum[NAMED].seconds += sum[i].seconds;
    }
    for (int i = 0; i < n && i <= NAMED; i++) {
        char words[48];
        in_words(sum[i].seconds, words, sizeof words);
        text_add(out, room, "%s%d %s", i ? ", " : "", sum[i].count,
                 i == NAMED && n > NAMED + 1 ? "others" : sum[i].command);
        if (!s->unmeasured) text_add(out, room, " %s", words);
    }
}

void study_say(const study* s) {
    command_sum sum[MAX_COMMANDS];
    char list[400] = "", words[48];
    int n = 0;
    for (int i = 0; i < s->chains; i++)
        for (int k = 0; k < s->chain[i].steps; k++)
            sum_add(sum, &n, s->chain[i].step[k]->word[0], s->chain[i].step[k]->cost);
    list_sums(s, sum, n, list, sizeof list);
    in_words(s->seconds_left, words, sizeof words);
    log_info("%s: %d of %d steps are there%s", s->out, s->skipped, s->skipped + s->to_do,
             n ? "" : ", nothing is left");
    if (n && s->unmeasured)
        log_info("left: %s", list);
    else if (n)
        log_info("left: about %s%s\n  %s", words,
                 args_int(s->a, "jobs") > 1 ? ", one after the other" : "", list);
}

cJSON* study_seconds(const study* s) {
    command_sum sum[MAX_COMMANDS];
    int n = 0;
    const cJSON *step = s->steps->child, *seconds = s->step_seconds->child;
    for (; step && seconds && !s->only_say; step = step->next, seconds = seconds->next) {
        char command[sizeof sum->command];
        const char* word = step->valuestring + strlen("firm ");
        snprintf(command, sizeof command, "%.*s", (int)strcspn(word, " "), word);
        sum_add(sum, &n, command, seconds->valuedouble);
    }
    cJSON* j = cJSON_CreateObject();
    for (int i = 0; j && i < n; i++) {
        if (json_add_number(j, sum[i].command, sum[i].seconds, 5)) continue;
        cJSON_Delete(j);
        return NULL;
    }
    return j;
}
