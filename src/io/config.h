// config.h - settings: each key is declared once (type, range, default, help), then read from files
// and `section.key=value` overrides. The same table drives the parser, --help and the saved config.
//
// A section name that ends in ".*" declares a family: `stage.*` lets a file hold [stage.grounder],
// [stage.rollout], ... each with the keys of that family; their order in the file is kept.
#ifndef IO_CONFIG_H
#define IO_CONFIG_H

#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef enum config_type { CONFIG_INT, CONFIG_REAL, CONFIG_BOOL, CONFIG_TEXT } config_type;

typedef struct config_key {
    const char* section;  // "plan" or "stage.*"
    const char* name;
    config_type type;
    double min, max;      // for numbers, inclusive
    const char* value;    // default, as text
    const char* choices;  // for text: "a|b|c", or NULL for any
    const char* help;     // one line
} config_key;

typedef struct config config;

firm_status config_create(const config_key* keys, int count, config** out, firm_error* err);
void config_free(config* c);

// Unknown section or key, wrong type, out of range: FIRM_E_VALUE with file, line and the cure.
firm_status config_read_file(config* c, const char* path, firm_error* err);
firm_status config_read_text(config* c, const char* name, const char* text, firm_error* err);
firm_status config_set(config* c, const char* assignment, firm_error* err);  // "section.key=value"

// Reading a key that was never declared is our mistake and panics.
int64_t config_int(const config* c, const char* section, const char* name);
double config_real(const config* c, const char* section, const char* name);
int config_bool(const config* c, const char* section, const char* name);
const char* config_text(const config* c, const char* section, const char* name);

// The i-th section of a family ("stage.*") in file order, without the prefix; NULL past the last.
const char* config_member(const config* c, const char* family, int i);

// The resolved settings as an ini text that reads back equal; the caller frees it with mem_free.
char* config_dump(const config* c);
uint64_t config_hash(const config* c);  // of the dump
void config_help(const config_key* keys, int count, FILE* to);

// configs/NAME.ini as compiled into the library; NULL if there is none of that name.
const char* config_builtin(const char* name);

#endif
