// notes.c - what a checkpoint notes of a run, written and read. A checkpoint is a file like any
// other: every number of it is held against the run's own settings before it is used.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "model/safetensors.h"
#include "train/run.h"

enum { NOTE_STAGE, NOTE_UPDATE, NOTE_SECONDS, NOTE_IDENTITY, NOTE_RESULTS };
static const char* const note_keys[] = {"run.stage", "run.update", "run.seconds", "run.identity"};
_Static_assert(NOTE_RESULTS + MAX_STAGES == RUN_NOTES, "a note has no place");

static const double LONGEST = 1e9;  // seconds of a stage: thirty years

void run_notes_begin(run_notes* n) {
    memset(n, 0, sizeof *n);
    for (int i = 0; i < NOTE_RESULTS; i++) n->note[i].key = note_keys[i];
    for (int i = 0; i < MAX_STAGES; i++) {
        snprintf(n->key[i], sizeof n->key[i], "run.result%d", i);
        n->note[NOTE_RESULTS + i].key = n->key[i];
    }
}

// ---- writing ------------------------------------------------------------------------------------

int run_details(const task_typed* t) {
    return 2 * (t->horizon > t->distances + 1 ? t->horizon : t->distances + 1);
}

// name, updates, seconds, gate, limit, pass, details
static void print_result(const stage_result* r, int details, char* text, size_t room) {
    int fits = text_add(text, room, "%s %d %.3f %.9g %.9g %d", r->name, r->updates, r->seconds,
                        r->gate, r->limit, r->pass);
    for (int i = 0; i < details; i++) fits &= text_add(text, room, " %.6g", r->detail[i]);
    CHECK(fits, "the result of stage %s does not fit its note", r->name);
}

void run_notes_fill(const train_run_state* run, int index, int update, double seconds,
                    const char* identity, run_notes* out) {
    run_notes_begin(out);
    checkpoint_note* note = out->note;
    snprintf(note[NOTE_STAGE].value, sizeof note->value, "%d", index);
    snprintf(note[NOTE_UPDATE].value, sizeof note->value, "%d", update);
    snprintf(note[NOTE_SECONDS].value, sizeof note->value, "%.3f", seconds);
    snprintf(note[NOTE_IDENTITY].value, sizeof note->value, "%s", identity);
    for (int i = 0; i < run->results; i++)
        print_result(&run->result[i], run_details(&run->set.env->task),
                     note[NOTE_RESULTS + i].value, sizeof note->value);
}

// ---- reading ------------------------------------------------------------------------------------

static firm_status wrong(const char* file, const checkpoint_note* note, const char* want,
                         firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT,
                "%s: its note %s is not %s; start the run again in a new folder", file, note->key,
                want);
}

static firm_status read_whole(const char* file, const checkpoint_note* note, int least, int most,
                              int* out, firm_error* err) {
    words w = {note->value};
    char want[64];
    int value = (int)words_whole(&w, least, most);
    snprintf(want, sizeof want, "a whole number from %d to %d", least, most);
    if (!words_end(&w)) return wrong(file, note, want, err);
    *out = value;
    return FIRM_OK;
}

static firm_status read_seconds(const char* file, const checkpoint_note* note, double* out,
                                firm_error* err) {
    words w = {note->value};
    double value = words_number(&w, 0, LONGEST);
    if (!words_end(&w)) return wrong(file, note, "a number of seconds", err);
    *out = value;
    return FIRM_OK;
}

// The result of stage `s`, as print_result wrote it. Figures that are not finite belong to a stage
// that missed its gate.
static firm_status read_result(const char* file, const checkpoint_note* note, const stage* s,
                               int details, stage_result* out, firm_error* err) {
    words w = {note->value};
    stage_result r = {0};
    words_text(&w, r.name, sizeof r.name);
    r.updates = (int)words_whole(&w, s->updates, s->updates);
    r.seconds = words_number(&w, 0, LONGEST);
    r.gate = words_number(&w, -INFINITY, INFINITY);
    r.limit = words_number(&w, 0, 1e9);
    r.pass = (int)words_whole(&w, 0, 1);
    for (int i = 0; i < details; i++) r.detail[i] = words_number(&w, -INFINITY, INFINITY);
    if (!words_end(&w) || strcmp(r.name, s->name) != 0 || (r.pass && !isfinite(r.gate)) ||
        fabs(r.limit - s->gate_limit) > 1e-6 * s->gate_limit) {
        char want[96];
        snprintf(want, sizeof want, "the result of stage %.40s with %d updates", s->name,
                 s->updates);
        return wrong(file, note, want, err);
    }
    r.limit = s->gate_limit;
    *out = r;
    return FIRM_OK;
}

// One result for each stage that is done, and none more.
static firm_status read_results(const train_run_state* run, const char* file, const run_notes* n,
                                int first, int done, stage_result* out, firm_error* err) {
    stage s;
    for (int i = 0; i < MAX_STAGES; i++) {
        const checkpoint_note* note = &n->note[NOTE_RESULTS + i];
        if (i >= done && note->value[0])
            return wrong(file, note, "empty, though its stage has not run", err);
        if (i >= done) continue;
        CHECK(stage_read(run->settings, first + i, run->opt->sources, &s), "no stage %d",
              first + i);
        TRY(read_result(file, note, &s, run_details(&run->set.env->task), &out[i], err));
    }
    return FIRM_OK;
}

firm_status run_notes_read(train_run_state* run, const char* file, const char* identity,
                           const run_notes* n, int* index, int* update, firm_error* err) {
    const char* other = n->note[NOTE_IDENTITY].value;
    if (strcmp(identity, other) != 0)
        return FAIL(err, FIRM_E_USAGE,
                    "%s belongs to another run (%s, not %s); resume with the same settings, seed, "
                    "sources, data and device, or use a new folder",
                    file, safetensors_printable(other, sizeof n->note->value) ? other : "?",
                    identity);
    int first, last = 0, at = 0, next = 0;
    double seconds = 0;
    stage s;
    stage_result result[MAX_STAGES] = {0};
    TRY(stage_first(run->settings, run->opt->from, &first, err));
    while (config_member(run->settings, "stage.*", last)) last++;
    TRY(read_whole(file, &n->note[NOTE_STAGE], first, last, &at, err));
    int updates = stage_read(run->settings, at, run->opt->sources, &s) ? s.updates : 0;
    TRY(read_whole(file, &n->note[NOTE_UPDATE], 0, updates, &next, err));
    TRY(read_seconds(file, &n->note[NOTE_SECONDS], &seconds, err));
    TRY(read_results(run, file, n, first, at - first, result, err));
    *index = at;
    *update = next;
    run->seconds_before = seconds;
    run->results = at - first;
    memcpy(run->result, result, sizeof result);
    return FIRM_OK;
}
