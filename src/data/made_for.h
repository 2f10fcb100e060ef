// made_for.h - which task a data file was made for: its name, and its typed task as text, so that
// two tasks of one name cannot be mixed up. Inside src/data only.
#ifndef DATA_MADE_FOR_H
#define DATA_MADE_FOR_H

#include "data/hdf5.h"
#include "env/env.h"

// Attributes `task`, `typed` (the text) and `typed_hash` (of the text).
firm_status made_for_put(hdf5_writer* w, const env_spec* spec, firm_error* err);
// The name that a file gives; "" if none.
void made_for_name(const hdf5_file* file, char name[TASK_NAME]);
// A file of that name describes the task in the same words. A file without typed_hash passes.
firm_status made_for_check(const hdf5_file* file, const char* path, const env_spec* spec,
                           firm_error* err);

#endif
