// fuzz_resume.c - what `firm train --resume` reads of a checkpoint, before anything is trained:
// weights, the tokenizer a stage began with, where the run stands and its results so far. What is
// accepted must fit the run's settings and be written and read back equal.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_resume && build-fuzz/fuzz/fuzz_resume -max_total_time=600 CORPUS
//     fuzz/corpus/resume
//
// The first byte chooses: 'n': notes, one a line, a letter (a: run.stage, b: run.update, ...) and
// its value, in a file that is sound but for them; else changes of five bytes (place, value) to the
// bytes of a sound file, whose checksum is then put right.
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "eval/settings.h"
#include "model/safetensors.h"
#include "must.h"
#include "train/run.h"
#include "train/shape.h"

enum { STAGES = 5, MIDDLE = 1 };  // MIDDLE: the stage at which the sound file stands

static char folder[64], path[96];
static config* settings;
static train_options opt;
static train_run_state run;
static float* anchor;
static size_t anchor_count;

static void prepare(void) {
    const env_spec* env = env_find("tworoom");
    const char* set[] = {"stage.grounder.anchor=0.5"};
    model_shape shape;
    MUST(settings_load(&env->task, "smoke", set, 1, &settings, NULL) == FIRM_OK);
    model_shape_read(settings, &shape);
    snprintf(folder, sizeof folder, "/dev/shm/firm-fuzz-resume-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    opt = (train_options){.folder = folder, .resume = 1, .seed = 7};
    run = (train_run_state){.settings = settings, .opt = &opt, .set = {.env = env}};
    MUST(model_create(&env->task, &shape, 1, 1, &run.model, NULL) == FIRM_OK);
    for (int i = 0; i < 3; i++) run.model->stats.image_std[i] = 1;
    for (int i = 0; i < env->task.action_dim; i++) run.model->stats.action_std[i] = 1;
    for (int i = 0; i < env->task.chi_dim; i++) run.model->stats.chi_std[i] = 1;
    MUST(run_note_anchor(&run, NULL) == FIRM_OK);
    anchor = run.anchor;
    anchor_count = run.anchor_count;
    run.anchor = NULL;
}

// Three updates into the second stage.
static void sound_notes(run_notes* n) {
    char own[256];
    train_run_state at = run;
    at.results = MIDDLE;
    at.result[0] = (stage_result){.name = "tokenizer", .updates = 4, .seconds = 2, .pass = 1};
    run_identity(&run, own);
    run_notes_fill(&at, MIDDLE, 3, 1.5, own, n);
}

static void write_file(const run_notes* n) {
    checkpoint_extra extra = {"stage.anchor", anchor, anchor_count};
    MUST(checkpoint_write(path, run.model, CHECKPOINT_TRAINING, &extra, 1, n->note, RUN_NOTES,
                          NULL) == FIRM_OK);
}

static void change_notes(char* text, run_notes* n) {
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (line[0] >= 'a' && line[0] < 'a' + RUN_NOTES)
            snprintf(n->note[line[0] - 'a'].value, sizeof n->note->value, "%s", line + 1);
}

static void change_bytes(const uint8_t* data, size_t size) {
    char* bytes;
    size_t n;
    MUST(file_read_all(path, &bytes, &n, NULL) == FIRM_OK);
    for (; size >= 5; data += 5, size -= 5) {
        uint32_t place;
        memcpy(&place, data, sizeof place);
        // most of the file are weights: the header is hit as often
        size_t end = place & 1 ? n : n < 16384 ? n : 16384;
        bytes[(place >> 1) % end] = (char)data[4];
    }
    safetensors_seal(bytes, n);
    file_writer w;
    MUST(file_open_write(&w, path, NULL) == FIRM_OK && file_put(&w, bytes, n, NULL) == FIRM_OK &&
         file_commit(&w, NULL) == FIRM_OK);
    mem_free(bytes);
}

static void check_result(const stage_result* r, int index) {
    stage s;
    MUST(stage_read(settings, index, NULL, &s));
    MUST(strcmp(r->name, s.name) == 0 && r->updates == s.updates);
    MUST(r->seconds >= 0 && r->seconds <= 1e9 && (r->pass == 0 || r->pass == 1));
}

static void check_sound(int index, int update) {
    stage s;
    int last = !stage_read(settings, index, NULL, &s);
    MUST(index >= 0 && index <= STAGES && last == (index == STAGES));
    MUST(update >= 0 && update <= (last ? 0 : s.updates));
    MUST(run.results == index && run.seconds_before >= 0 && run.seconds_before <= 1e9);
    for (int i = 0; i < run.results; i++) check_result(&run.result[i], i);
    for (size_t i = 0; run.anchor && i < run.anchor_count; i++) MUST(isfinite(run.anchor[i]));
    // a second trip
    char own[256];
    run_notes n;
    int index2, update2;
    run_identity(&run, own);
    run_notes_fill(&run, index, update, run.seconds_before, own, &n);
    MUST(run_notes_read(&run, path, own, &n, &index2, &update2, NULL) == FIRM_OK);
    MUST(index2 == index && update2 == update);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (!settings) prepare();
    MUST(file_make_dirs(folder, NULL) == FIRM_OK);
    run_notes n;
    sound_notes(&n);
    if (size && data[0] == 'n') {
        char* text = malloc(size);
        MUST(text);
        memcpy(text, data + 1, size - 1);
        text[size - 1] = 0;
        change_notes(text, &n);
        free(text);
        write_file(&n);
    } else {
        write_file(&n);
        change_bytes(data + (size > 0), size - (size > 0));
    }
    firm_error err = {0};
    int index = -1, update = -1;
    firm_status status = run_read_checkpoint(&run, &index, &update, &err);
    MUST(status == FIRM_OK || status == FIRM_E_FORMAT || status == FIRM_E_TASK ||
         status == FIRM_E_USAGE);
    MUST(status == FIRM_OK || strstr(err.message, path));
    if (status == FIRM_OK) check_sound(index, update);
    mem_free(run.anchor);
    run.anchor = NULL;
    run.results = 0;
    run.seconds_before = 0;
    unlink(path);
    rmdir(folder);
    return 0;
}

#include "env/env.h"
#include "replay.h"
#include "train/shape.h"
