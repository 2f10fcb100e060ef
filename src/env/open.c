// open.c - a task as users name it on a command line: one of the program's own, or a file.
#include <string.h>

#include "core/text.h"
#include "env/env.h"
#include "env/filetask.h"
#include "env/plugin.h"

static int ends_in(const char* text, const char* ending) {
    const size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

int env_is_path(const char* name) {
    return strchr(name, '/') || ends_in(name, ".so") || ends_in(name, ".ini");
}

firm_status env_open_task(const char* name, const env_spec** spec, firm_error* err) {
    if (!env_is_path(name)) {
        firm_status status = env_find_or_fail(name, spec, err);
        if (status == FIRM_E_USAGE)
            text_add(err->message, sizeof err->message, "; give your own by path, as in ./task.so");
        return status;
    }
    *spec = NULL;
    TRY((ends_in(name, ".ini") ? filetask_open : plugin_open)(name, spec, err));
    if (env_find((*spec)->task.name))
        return FAIL(err, FIRM_E_USAGE,
                    "%s calls its task '%s', which is one of the program's own; give it another "
                    "name",
                    name, (*spec)->task.name);
    return FIRM_OK;
}
