// checks.h - what `firm check` finds out about a task: does its simulator start, move, restore,
// repeat and draw as a task must? Each check runs the task and ends in a figure and a sentence.
//
// A simulator may crash or hang: the caller runs each check in a process of its own.
#ifndef DATA_CHECKS_H
#define DATA_CHECKS_H

#include "env/env.h"

typedef struct check_result {
    int pass;
    double figure;  // what was measured, in the unit that the sentence names
    char sentence[320];
} check_result;

// The name of check i, NULL past the last.
const char* check_name(int i);
// Runs it. Fails only where the check cannot be run at all (no memory, no simulator).
firm_status check_run(int i, const env_spec* spec, check_result* out, firm_error* err);

#endif
