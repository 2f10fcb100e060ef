// tasks.h - the typed tasks that version 0.1 knew, by name: what the tests of models and of the
// planner need of a task, without its simulator.
#ifndef TESTS_TASKS_H
#define TESTS_TASKS_H

#include <stdio.h>
#include <stdlib.h>

#include "task/task.h"

// Aborts the test program where there is no such task.
static inline task_typed test_task(const char* name) {
    const char* text = task_of_version_1(name);
    task_typed task;
    firm_error err = {0};
    if (!text || task_read(name, text, &task, &err) != FIRM_OK) {
        fprintf(stderr, "no task %s: %s\n", name, err.message);
        abort();
    }
    return task;
}

#endif
