// plugin.h - a task from a shared library (include/firm_task.h) as an env_spec.
#ifndef ENV_PLUGIN_H
#define ENV_PLUGIN_H

#include "env/env.h"
#include "firm_task.h"

// Loads the library at `path` once; it stays loaded while the program runs. The spec is the
// program's, do not free it. What the library says is checked, what it does is not: `firm check`.
firm_status plugin_open(const char* path, const env_spec** spec, firm_error* err);

// A task that is compiled in, from the same table; `from` names it in sentences.
firm_status plugin_spec(const firm_task* task, const char* from, const env_spec** spec,
                        firm_error* err);

#endif
