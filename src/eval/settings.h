// settings.h - all settings of a task in one table: built-in defaults, configs/TASK.ini, an
// optional file and `section.key=value` overrides, in this order.
#ifndef EVAL_SETTINGS_H
#define EVAL_SETTINGS_H

#include "io/config.h"
#include "plan/options.h"

// file: NULL, or a path, or the name of a built-in config ("smoke"). The caller frees *out.
firm_status settings_load(const char* task, const char* file, const char* const* overrides,
                          int count, config** out, firm_error* err);
// From the text stored in a checkpoint; unknown keys (a newer or older file) are skipped.
firm_status settings_from_text(const char* task, const char* text, config** out, firm_error* err);
// The planner's, of a mode.
void settings_plan(const config* c, firm_mode mode, plan_options* out);
void settings_help(FILE* to);

#endif
