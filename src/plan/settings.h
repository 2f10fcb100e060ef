// settings.h - all settings of a task in one table: built-in defaults, configs/TASK.ini, an
// optional file and `section.key=value` overrides, in this order.
#ifndef PLAN_SETTINGS_H
#define PLAN_SETTINGS_H

#include "core/config.h"
#include "env/env.h"

// file: NULL, or a path, or the name of a built-in config ("smoke"). The caller frees *out.
firm_status settings_load(const env_spec* env, const char* file, const char* const* overrides,
                          int count, config** out, firm_error* err);
// From the text stored in a checkpoint; unknown keys (a newer or older file) are skipped.
firm_status settings_from_text(const env_spec* env, const char* text, config** out,
                               firm_error* err);
void settings_help(FILE* to);

#endif
