// pieces.c - a trial's outcome as a file, and who may make it; see pieces.h.
#define _GNU_SOURCE  // nanosleep
#include "eval/pieces.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/file.h"
#include "core/mem.h"
#include "io/json.h"

enum { PATH = 1100 };

typedef enum claim {
    PIECE_THERE,  // outcome and times were read
    PIECE_MINE,   // to be run
    PIECE_BUSY,   // another process runs it
} claim;

// One process's share of the work.
typedef struct share {
    const eval_pieces* p;
    const eval_trials* trials;
    frames* pictures;
    eval_arm* arm;
    eval_outcome* outcome;  // (trials)
    eval_times* times;
    int* order;    // (trials) by draw: what is there at any time is a fair part of the whole
    int8_t* done;  // (trials)
    int count;     // done
    progress* bar;
} share;

static void folder_of(const eval_pieces* p, int trial, char out[PATH]) {
    snprintf(out, PATH, "%.1000s/%s/%04d", p->folder, p->arm, trial);
}

static void file_of(const eval_pieces* p, int trial, char out[PATH]) {
    snprintf(out, PATH, "%.1000s/%s/%04d/trial.json", p->folder, p->arm, trial);
}

static void hex_of(uint64_t value, char out[20]) {
    snprintf(out, 20, "%016" PRIx64, value);
}

static int has_text(const cJSON* j, const char* key, uint64_t value) {
    char text[20];
    hex_of(value, text);
    const cJSON* item = cJSON_GetObjectItemCaseSensitive(j, key);
    return cJSON_IsString(item) && strcmp(item->valuestring, text) == 0;
}

static firm_status from_json(const cJSON* j, const char* path, eval_outcome* o, eval_times* times,
                             firm_error* err) {
    const cJSON *ms, *list = cJSON_GetObjectItemCaseSensitive(j, "solve_ms"),
                     *hash = cJSON_GetObjectItemCaseSensitive(j, "hash");
    *o = (eval_outcome){.hash = cJSON_IsString(hash) ? strtoull(hash->valuestring, NULL, 16) : 0,
                        .success = (int)json_get(j, "success", -1),
                        .solved_at_start = (int)json_get(j, "solved_at_start", -1),
                        .steps = (int)json_get(j, "steps", -1),
                        .solves = (int)json_get(j, "solves", -1),
                        .iterations = (int)json_get(j, "iterations", -1),
                        .nonfinite = (int)json_get(j, "nonfinite", -1),
                        .seconds = json_get(j, "seconds", -1),
                        .closest = (float)json_get(j, "closest", NAN)};
    if (!cJSON_IsString(hash) || !cJSON_IsArray(list) || o->success < 0 || o->success > 1 ||
        o->solved_at_start < 0 || o->solved_at_start > 1 || o->steps < 1 || o->solves < 0 ||
        o->iterations < 0 || o->nonfinite < 0 || !(o->seconds >= 0) || isnan(o->closest))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is no trial's outcome; remove it to run the trial again", path);
    cJSON_ArrayForEach(ms, list) TRY(eval_times_add(times, ms->valuedouble, err));
    return FIRM_OK;
}

static firm_status read_piece(const eval_pieces* p, const char* path, eval_outcome* o,
                              eval_times* times, firm_error* err) {
    cJSON* j;
    TRY(json_read_file(path, &j, err));
    firm_status status =
        has_text(j, "of", p->of)
            ? from_json(j, path, o, times, err)
            : FAIL(err, FIRM_E_USAGE,
                   "%s is of another evaluation: trials, model or settings differ; give --pieces "
                   "another folder",
                   path);
    cJSON_Delete(j);
    return status;
}

// lock: of PIECE_MINE, for file_unlock().
static firm_status take(const eval_pieces* p, int trial, claim* got, eval_outcome* out,
                        eval_times* times, int* lock, firm_error* err) {
    char folder[PATH], path[PATH];
    *lock = -1;
    *got = PIECE_THERE;
    file_of(p, trial, path);
    if (file_exists(path)) return read_piece(p, path, out, times, err);
    folder_of(p, trial, folder);
    TRY(file_make_dirs(folder, err));
    firm_status status = file_lock_folder(folder, "evaluation", lock, err);
    if (status == FIRM_E_USAGE) {
        *got = PIECE_BUSY;
        return FIRM_OK;
    }
    TRY(status);
    // the one who had it may have finished between the two looks
    if (!file_exists(path)) {
        *got = PIECE_MINE;
        return FIRM_OK;
    }
    file_unlock(*lock);
    *lock = -1;
    return read_piece(p, path, out, times, err);
}

static cJSON* to_json(const eval_pieces* p, int trial, const eval_outcome* o,
                      const eval_times* solves) {
    char hash[20], of[20];
    cJSON *j = cJSON_CreateObject(), *list = cJSON_CreateArray();
    hex_of(o->hash, hash);
    hex_of(p->of, of);
    int ok = j && list && cJSON_AddStringToObject(j, "of", of) &&
             cJSON_AddStringToObject(j, "arm", p->arm) &&
             cJSON_AddNumberToObject(j, "trial", trial) &&
             cJSON_AddStringToObject(j, "hash", hash) &&
             cJSON_AddNumberToObject(j, "success", o->success) &&
             cJSON_AddNumberToObject(j, "solved_at_start", o->solved_at_start) &&
             cJSON_AddNumberToObject(j, "steps", o->steps) &&
             cJSON_AddNumberToObject(j, "solves", o->solves) &&
             cJSON_AddNumberToObject(j, "iterations", o->iterations) &&
             cJSON_AddNumberToObject(j, "nonfinite", o->nonfinite) &&
             cJSON_AddNumberToObject(j, "seconds", o->seconds) &&
             cJSON_AddNumberToObject(j, "closest", (double)o->closest);
    for (int i = 0; ok && i < solves->count; i++)
        ok = cJSON_AddItemToArray(list, json_number(solves->ms[i], 9));
    if (ok && cJSON_AddItemToObject(j, "solve_ms", list)) return j;
    cJSON_Delete(list);
    cJSON_Delete(j);
    return NULL;
}

static firm_status put(const eval_pieces* p, int trial, const eval_outcome* o,
                       const eval_times* solves, firm_error* err) {
    char path[PATH];
    file_of(p, trial, path);
    cJSON* j = to_json(p, trial, o, solves);
    if (!j) return FAIL(err, FIRM_E_MEMORY, "no memory for a trial's outcome");
    firm_status status = json_write_file(path, j, err);
    cJSON_Delete(j);
    return status;
}

// ---- running ------------------------------------------------------------------------------------

static firm_status run_one(share* s, int trial, firm_error* err) {
    eval_times solves = {0};
    firm_status status =
        eval_arm_run(s->arm, s->trials, s->pictures, trial, &s->outcome[trial], &solves, NULL, err);
    if (status == FIRM_OK) status = put(s->p, trial, &s->outcome[trial], &solves, err);
    for (int i = 0; i < solves.count && status == FIRM_OK; i++)
        status = eval_times_add(s->times, solves.ms[i], err);
    eval_times_free(&solves);
    return status;
}

static firm_status check_hash(const share* s, int trial, firm_error* err) {
    if (s->outcome[trial].hash == s->trials->trial[trial].hash) return FIRM_OK;
    char path[PATH];
    file_of(s->p, trial, path);
    return FAIL(err, FIRM_E_FORMAT, "%s is of another trial; remove it to run the trial again",
                path);
}

// One look at every trial that is not done: those of nobody are run.
static firm_status look(share* s, firm_error* err) {
    for (int k = 0; k < s->trials->count; k++) {
        const int i = s->order[k];
        claim got;
        int lock;
        if (s->done[i]) continue;
        TRY(take(s->p, i, &got, &s->outcome[i], s->times, &lock, err));
        if (got == PIECE_BUSY) continue;
        firm_status status = got == PIECE_MINE ? run_one(s, i, err) : FIRM_OK;
        file_unlock(lock);
        TRY(status);
        TRY(check_hash(s, i, err));
        s->done[i] = 1;
        progress_step(s->bar, ++s->count, "");
    }
    return FIRM_OK;
}

static void order_by_draw(const eval_trials* t, int* order) {
    for (int i = 0; i < t->count; i++) {
        int at = 0;
        for (int k = 0; k < t->count; k++) at += t->trial[k].draw < t->trial[i].draw;
        order[at] = i;
    }
}

firm_status eval_pieces_run(const eval_pieces* p, const eval_setup* setup,
                            const eval_trials* trials, frames* pictures, eval_outcome* outcome,
                            eval_times* times, progress* bar, firm_error* err) {
    const struct timespec moment = {0, 300 * 1000 * 1000};
    share s = {.p = p,
               .trials = trials,
               .pictures = pictures,
               .outcome = outcome,
               .times = times,
               .bar = bar};
    s.order = mem_calloc((size_t)trials->count, sizeof *s.order);
    s.done = mem_calloc((size_t)trials->count, sizeof *s.done);
    firm_status status = s.order && s.done
                             ? eval_arm_create(p->arm, setup, &s.arm, err)
                             : FAIL(err, FIRM_E_MEMORY, "no memory for the evaluation");
    if (status == FIRM_OK) order_by_draw(trials, s.order);
    while (status == FIRM_OK && s.count < trials->count) {
        const int before = s.count;
        status = look(&s, err);
        if (s.count == before) nanosleep(&moment, NULL);
    }
    eval_arm_free(s.arm);
    mem_free(s.order);
    mem_free(s.done);
    return status;
}
