// made_for.c - writes and compares the task of a data file.
#include "data/made_for.h"

#include <string.h>

#include "core/rng.h"

// What is pushed belongs to models, not to data.
static void text_of(const env_spec* spec, char text[TASK_TEXT]) {
    task_typed task = spec->task;
    task.push = (nn_push){0};
    CHECK(task_write(&task, text, TASK_TEXT), "the task %s does not fit its room", task.name);
}

firm_status made_for_put(hdf5_writer* w, const env_spec* spec, firm_error* err) {
    char text[TASK_TEXT];
    text_of(spec, text);
    TRY(hdf5_put_text(w, "task", spec->task.name, err));
    TRY(hdf5_put_text(w, "typed", text, err));
    return hdf5_put_u64(w, "typed_hash", rng_hash_text(text), err);
}

void made_for_name(const hdf5_file* file, char name[TASK_NAME]) {
    if (!hdf5_get_text(file, "task", name, TASK_NAME)) name[0] = 0;
}

firm_status made_for_check(const hdf5_file* file, const char* path, const env_spec* spec,
                           firm_error* err) {
    char text[TASK_TEXT];
    uint64_t hash;
    text_of(spec, text);
    if (!hdf5_get_u64(file, "typed_hash", &hash) || hash == rng_hash_text(text)) return FIRM_OK;
    return FAIL(err, FIRM_E_TASK,
                "%s was made for another version of the task %s (its coordinates, distances, "
                "actions or picture differ); use that version, or make the file again",
                path, spec->task.name);
}
