// settings.h - all settings of a task in one table: built-in defaults, configs/TASK.ini or, where
// there is none, what defaults.h chooses, an optional file and `section.key=value` overrides, in
// this order.
#ifndef EVAL_SETTINGS_H
#define EVAL_SETTINGS_H

#include "io/config.h"
#include "plan/options.h"
#include "task/task.h"

// task NULL: the keys' own defaults. file: NULL, or a path, or the name of a built-in config
// ("smoke", "defaults"), which stands alone. The caller frees *out.
firm_status settings_load(const task_typed* task, const char* file, const char* const* overrides,
                          int count, config** out, firm_error* err);
// Reads `file`, one of those names or a path, on top of what is there.
firm_status settings_add(config* c, const task_typed* task, const char* file, firm_error* err);
// 1: such settings begin with what defaults.h chooses.
int settings_are_chosen(const task_typed* task, const char* file);
// From the text stored in a checkpoint; unknown keys (a newer or older file) are skipped.
firm_status settings_from_text(const char* task, const char* text, config** out, firm_error* err);
// The planner's, of a mode.
void settings_plan(const config* c, firm_mode mode, plan_options* out);
void settings_help(FILE* to);

#endif
