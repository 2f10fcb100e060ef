// fuzz_taskfile.c - task files made of arbitrary bytes. What is accepted is a sound task: it can be
// written as text and read back equal, and its formulas read no number that is not there.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_taskfile && build-fuzz/fuzz/fuzz_taskfile -max_total_time=600 CORPUS
//     fuzz/corpus/taskfile
#include <string.h>

#include "env/taskfile.h"
#include "must.h"

static void check_sound(taskfile* f) {
    char text[TASK_TEXT];
    task_typed again;
    firm_error err = {0};
    MUST(task_write(&f->task, text, sizeof text));
    MUST(task_read("again", text, &again, &err) == FIRM_OK);
    char second[TASK_TEXT];
    MUST(task_write(&again, second, sizeof second) && strcmp(text, second) == 0);
    MUST(f->refs <= TASKFILE_REFS && f->formulas == f->task.config_dim - f->task.pairs);
    // a state of exactly so many numbers: the sanitizer sees what reads past it
    double* state = malloc((size_t)(f->refs + 1) * sizeof *state);
    float* c = malloc((size_t)f->task.config_dim * sizeof *c);
    MUST(state && c);
    for (int i = 0; i < f->refs; i++) state[i] = 0.25 * i - 1;
    taskfile_config(f, state, c);
    free(state);
    free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static taskfile f;
    char* text = malloc(size + 1);
    firm_error err = {0};
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;
    firm_status status = taskfile_read_text("a/fuzz.ini", text, &f, &err);
    MUST(status == FIRM_OK || err.message[0]);
    if (status == FIRM_OK && f.simulator.xml[0]) status = taskfile_finish(&f, 2, &err);
    if (status == FIRM_OK) check_sound(&f);
    free(text);
    return 0;
}

#include "replay.h"
