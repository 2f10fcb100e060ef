// fuzz_trials.c - the reader of trial files on arbitrary content. HDF5's own parser is not ours, so
// the files are well formed as HDF5 (or cut short) and wrong in what they hold: numbers, shapes,
// types, absent columns and attributes, with a checksum that fits the numbers, so that the checks
// before and behind it are reached. What is accepted must be sound and write and read back equal.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_trials && build-fuzz/fuzz/fuzz_trials -max_total_time=600 CORPUS
//     fuzz/corpus/trials
//
// The input is a list of changes to a good file, ten bytes each: what, where, and eight of a value.
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/hdf5.h"
#include "eval/trials.h"
#include "must.h"

enum { TRIALS = 3, CHANGE = 10 };

typedef struct change {
    uint8_t what, where;
    union {
        uint8_t byte[8];
        uint64_t number;
        int64_t whole;
        int32_t half;
        double real;
        float single;
    } value;
} change;

static char path[96], second[96];

// Three trials of TwoRoom, a pixel apart.
static trial_set* good_set(void) {
    trial_set* s;
    MUST(trial_set_create(env_find("tworoom"), TRIALS, &s, NULL) == FIRM_OK);
    s->offset = 25;
    s->seed = 42;
    for (int i = 0; i < TRIALS; i++) {
        s->row[i] = 10 + 200 * i;
        s->episode[i] = 2 * i;
        s->draw[i] = (i + 1) % TRIALS;
        for (int k = 0; k < TRIAL_ROWS * 2; k++) s->rows->state[i * TRIAL_ROWS * 2 + k] = 40 + k;
        for (int k = 0; k < TRIAL_ACTIONS * 2; k++) s->rows->action[i * TRIAL_ROWS * 2 + k] = 0.5f;
    }
    for (int k = 0; k < 2; k++) s->action_std[k] = 1.0f;
    return s;
}

// A number of the set; these changes come before the checksum.
static void change_number(trial_set* s, const change* c) {
    const int i = c->where % TRIALS;
    switch (c->what % 12) {
        case 0: s->row[i] = c->value.whole; break;
        case 1: s->episode[i] = c->value.half; break;
        case 2: s->draw[i] = c->value.half; break;
        case 3: s->rows->state[c->where % (TRIALS * TRIAL_ROWS * 2)] = c->value.real; break;
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

// An attribute or a column of the file: taken away, or replaced by another of its name.
static void change_file(hid_t file, const change* c) {
    static const char* const column[] = {"row",    "episode",     "draw",       "state",
                                         "action", "action_mean", "action_std", "pixels"};
    static const char* const attribute[] = {"kind",     "task",   "format_version", "offset",
                                            "unsolved", "seed",   "split_seed",     "data_hash",
                                            "checksum", "version"};
    const hid_t types[] = {H5T_STD_I64LE, H5T_STD_I8LE, H5T_IEEE_F64LE, H5T_IEEE_F32LE, H5T_C_S1};
    const hid_t type = types[c->value.byte[0] % 5];
    if (c->what & 1) {
        const char* name = column[c->where % 8];
        if (H5Lexists(file, name, H5P_DEFAULT) > 0) H5Ldelete(file, name, H5P_DEFAULT);
        if (c->what & 2) return;
        hsize_t dims[8];
        const int rank = c->value.byte[1] % 8;
        for (int i = 0; i < 8; i++) dims[i] = c->value.byte[2 + i % 6];
        hid_t space = rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_NULL);
        hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (set >= 0) H5Dclose(set);
        H5Sclose(space);
    } else {
        const char* name = attribute[c->where % 10];
        if (H5Aexists(file, name) > 0) H5Adelete(file, name);
        if (c->what & 2) return;
        hsize_t dims[1] = {c->value.byte[1] % 4 + 1u};
        uint64_t value[4] = {c->value.number, 1, 2, 3};
        hid_t space =
            c->value.byte[1] & 4 ? H5Screate_simple(1, dims, NULL) : H5Screate(H5S_SCALAR);
        hid_t a = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
        if (a >= 0) H5Awrite(a, type, value);
        if (a >= 0) H5Aclose(a);
        H5Sclose(space);
    }
}

static void check_sound(const trial_set* s) {
    const int numbers = s->count * TRIAL_ROWS * s->rows->spec->state_dim;
    MUST(s->count >= 1 && s->offset >= 1);
    for (int i = 0; i < numbers; i++) MUST(isfinite(s->rows->state[i]));
    for (int i = 0; i < s->count; i++) MUST(s->row[i] >= 2 && s->draw[i] < s->count);
    for (int k = 0; k < s->rows->spec->action_dim; k++) MUST(s->action_std[k] > 0);
    trial_set* again;
    firm_error err = {0};
    for (int n = 1; n <= s->count; n++) {
        eval_trials* t;
        MUST(eval_trials_take(s, n, &t, &err) == FIRM_OK && t->count == n);
        for (int i = 0; i < n; i++) MUST(t->trial[i].goal < s->rows->rows);
        eval_trials_free(t);
    }
    if (s->rows->pixels) return;
    MUST(trial_set_write(s, s->rows, second, &err) == FIRM_OK);
    MUST(trial_set_read(second, s->rows->spec, &again, &err) == FIRM_OK);
    MUST(again->count == s->count && again->trials_hash == s->trials_hash);
    MUST(memcmp(again->rows->state, s->rows->state, sizeof(double) * (size_t)numbers) == 0);
    MUST(memcmp(again->row, s->row, sizeof *s->row * (size_t)s->count) == 0);
    trial_set_free(again);
    unlink(second);
}

static void must_be_refused_or_sound(int with_hash) {
    firm_error err = {0};
    trial_set* s = NULL;
    firm_status status = with_hash ? eval_trials_read(path, env_find("tworoom"), 0, &s, &err)
                                   : trial_set_read(path, env_find("tworoom"), &s, &err);
    MUST((status == FIRM_OK) == (s != NULL));
    MUST(status == FIRM_OK || status == FIRM_E_FORMAT || status == FIRM_E_TASK ||
         status == FIRM_E_VALUE);
    MUST(status == FIRM_OK || (strstr(err.message, path) && !strchr(err.message, '\n')));
    if (s) check_sound(s);
    trial_set_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    snprintf(path, sizeof path, "/dev/shm/firm-fuzz-%ld.h5", (long)getpid());
    snprintf(second, sizeof second, "/dev/shm/firm-fuzz-%ld-2.h5", (long)getpid());
    trial_set* s = good_set();
    firm_error err = {0};
    change later[16];  // those of the file, which must be written first
    int count = 0;
    for (; size >= CHANGE && count < 16; data += CHANGE, size -= CHANGE) {
        change c = {.what = data[0] & 0x7f, .where = data[1]};
        memcpy(c.value.byte, data + 2, 8);
        if (data[0] & 0x80)
            later[count++] = c;
        else
            change_number(s, &c);
    }
    MUST(trial_set_write(s, s->rows, path, &err) == FIRM_OK);
    trial_set_free(s);
    if (count) {
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        MUST(file >= 0);
        for (int i = 0; i < count; i++) change_file(file, &later[i]);
        MUST(H5Fclose(file) >= 0);
    }
    // what is left of the input says where the file ends
    if (size >= 3 && truncate(path, (data[0] << 16 | data[1] << 8 | data[2]) % 40000) != 0) abort();
    must_be_refused_or_sound(0);
    must_be_refused_or_sound(1);
    unlink(path);
    return 0;
}

#include "replay.h"
