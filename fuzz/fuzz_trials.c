// fuzz_trials.c - the reader of trial files on files that are wrong in what they hold, in their
// structure, or cut; see hdf5_harm.h for the input. What is accepted must be sound and write and
// read back equal.
//
//     ninja -C build-fuzz fuzz_trials
//     build-fuzz/fuzz/fuzz_trials -max_total_time=600 CORPUS fuzz/corpus/trials
#include "data/samples.h"
#include "eval/trials.h"
#include "hdf5_harm.h"

// A number of the set; these changes come before the checksum.
static void change_number(trial_set* s, const change* c) {
    const int i = c->where % s->count;
    switch (c->what % 12) {
        case 0: s->row[i] = c->value.whole; break;
        case 1: s->episode[i] = c->value.half; break;
        case 2: s->draw[i] = c->value.half; break;
        case 3: s->rows->state[c->where % (s->count * TRIAL_ROWS * 2)] = c->value.real; break;
        case 4: s->rows->action[i * TRIAL_ROWS * 2 + c->where % 4] = c->value.single; break;
        case 5: s->action_mean[c->where % 2] = c->value.single; break;
        case 6: s->action_std[c->where % 2] = c->value.single; break;
        case 7: s->offset = c->value.half; break;
        case 8: s->unsolved = c->value.half; break;
        case 9: s->seed = c->value.number; break;
        case 10: s->trials_hash = c->value.number; break;
        case 11: s->rows->seed = c->value.number; break;
    }
}

static void write_trials(const char* path, const change* numbers, int count) {
    trial_set* s = sample_trials();
    firm_error err = {0};
    MUST(s);
    for (int i = 0; i < count; i++) change_number(s, &numbers[i]);
    MUST(trial_set_write(s, s->rows, path, &err) == FIRM_OK);
    trial_set_free(s);
}

static void check_sound(const trial_set* s, const char* path) {
    char second[80];
    const int numbers = s->count * TRIAL_ROWS * s->rows->spec->state->dim;
    MUST(s->count >= 1 && s->offset >= 1);
    for (int i = 0; i < numbers; i++) MUST(isfinite(s->rows->state[i]));
    for (int i = 0; i < s->count; i++) MUST(s->row[i] >= 2 && s->draw[i] < s->count);
    for (int k = 0; k < s->rows->spec->task.action_dim; k++) MUST(s->action_std[k] > 0);
    trial_set* again;
    firm_error err = {0};
    for (int n = 1; n <= s->count; n++) {
        eval_trials* t;
        MUST(eval_trials_take(s, n, &t, &err) == FIRM_OK && t->count == n);
        for (int i = 0; i < n; i++) MUST(t->trial[i].goal < s->rows->rows);
        eval_trials_free(t);
    }
    if (s->rows->pixels) return;
    snprintf(second, sizeof second, "%s.second", path);
    MUST(trial_set_write(s, s->rows, second, &err) == FIRM_OK);
    MUST(trial_set_read(second, s->rows->spec, &again, &err) == FIRM_OK);
    MUST(again->count == s->count && again->trials_hash == s->trials_hash);
    MUST(memcmp(again->rows->state, s->rows->state, sizeof(double) * (size_t)numbers) == 0);
    MUST(memcmp(again->row, s->row, sizeof *s->row * (size_t)s->count) == 0);
    trial_set_free(again);
    unlink(second);
}

static void check_trials(const char* path) {
    for (int with_hash = 0; with_hash < 2; with_hash++) {
        firm_error err = {0};
        trial_set* s = NULL;
        firm_status status = with_hash ? eval_trials_read(path, sample_task(), 0, &s, &err)
                                       : trial_set_read(path, sample_task(), &s, &err);
        MUST((status == FIRM_OK) == (s != NULL));
        if (harm_accepted(status, &err, path)) check_sound(s, path);
        trial_set_free(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const char* const column[] = {"row",         "episode",    "draw",   "state", "action",
                                         "action_mean", "action_std", "pixels", NULL};
    static const char* const attribute[] = {
        "kind",       "task",      "format_version", "offset",  "unsolved", "seed",
        "split_seed", "data_hash", "checksum",       "version", NULL};
    static const harm_target target = {column, attribute, write_trials, check_trials};
    harm_run(&target, data, size);
    return 0;
}

#include "replay.h"
