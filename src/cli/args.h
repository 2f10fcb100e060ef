// args.h - command-line options: one table per command (flag, type, range, default, help) drives
// the parser, the checks and --help.
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef enum arg_type {
    ARG_SWITCH,  // --json
    ARG_INT,     // --episodes 100, within min .. max
    ARG_SEED,    // --seed 7: 0 .. 2^53, exact in JSON
    ARG_REAL,    // --deadline-ms 50, within min .. max
    ARG_TEXT,    // --model FILE
    ARG_OUTPUT,  // -o FILE: text that names what is written; files that other texts name are inputs
    ARG_CHOICE,  // --mode contract|reach
    ARG_LIST,    // --set a.b=1 --set c.d=2: one value each time
    ARG_SEVERAL  // --frames a.png b.png c.png: all values up to the next flag
} arg_type;

typedef struct arg_option {
    const char* name;  // without the dashes
    char letter;       // 'o' makes -o the same; 0: none
    arg_type type;
    double min, max;      // of numbers, inclusive
    const char* value;    // default as text; NULL: none
    const char* choices;  // "a|b|c"
    const char* hint;     // what stands for the value in --help
    const char* help;     // one line
} arg_option;

enum { ARGS_MAX_OPTIONS = 48, ARGS_MAX_VALUES = 64 };

typedef struct args {
    const char* command;
    const arg_option* option[ARGS_MAX_OPTIONS];  // the command's own, then the common ones
    int options;
    const char* value[ARGS_MAX_OPTIONS];  // text given; NULL: not given
    const char* list[ARGS_MAX_VALUES];    // values of lists, in order, with their options
    const arg_option* list_of[ARGS_MAX_VALUES];
    int listed;
    const char* positional[ARGS_MAX_VALUES];
    int positionals;
    void* capture;  // see cli_finish()
} args;

// Reads argv[0 .. argc). Texts are borrowed from argv. `min`/`max` positional arguments are
// allowed; `usage` stands in messages.
firm_status args_parse(args* a, const char* command, const char* usage, const arg_option* own,
                       int own_count, int min, int max, int argc, char** argv, firm_error* err);

int args_given(const args* a, const char* name);
int args_switch(const args* a, const char* name);
int64_t args_int(const args* a, const char* name);  // ARG_INT and ARG_SEED
double args_real(const args* a, const char* name);
const char* args_text(const args* a, const char* name);  // NULL: not given and no default
// Notes the files that option values name as inputs (core/file.h), so that no output replaces them.
void args_note_inputs(const args* a);
// Values of a list option into out (ARGS_MAX_VALUES), their number returned.
int args_list(const args* a, const char* name, const char** out);

// Adds --threads, --seed, --config, --set, --json, --quiet and --help to every command.
extern const arg_option args_common[];
extern const int args_common_count;

void args_help(const arg_option* option, int count, FILE* to);
// The entry of names (count) closest to `word`, or NULL if none is close.
const char* args_nearest(const char* word, const char* const* names, int count);

#endif
