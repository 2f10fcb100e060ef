// config_store.h - the inside of a config, shared by config.c (values) and config_read.c (files).
#ifndef IO_CONFIG_STORE_H
#define IO_CONFIG_STORE_H

#include "io/config.h"

enum {
    CONFIG_LINE = 196,   // longest line in bytes: libinih's buffer is 200 with line end and NUL
    CONFIG_NAME = 64,    // room for a section name with its NUL
    CONFIG_MEMBER = 40,  // longest name of a member of a family
};

// Where a value came from: one number per file read, so that a second mention in one file is seen.
typedef struct config_value {
    char* text;  // NULL: the default
    int file, line;
} config_value;

typedef struct config_section {
    char name[CONFIG_NAME];  // "plan" or, for a member of a family, "stage.grounder"
    const char* pattern;     // as in the key table: "plan" or "stage.*"
    config_value* value;     // (count), used where the key's section is `pattern`
    int file, line;          // of its latest header
} config_section;

struct config {
    const config_key* keys;  // borrowed: key tables are static
    int count;
    config_section* section;  // in table order, then members in order of appearance
    int sections, room;
    int files;  // read so far
};

int config_is_family(const char* pattern);
config_section* config_find_section(const config* c, const char* name);
firm_status config_add_section(config* c, const char* name, const char* pattern, firm_error* err);
int config_find_key(const config* c, const char* pattern, const char* name);  // -1: none

// Checks `text` against the key and writes its canonical form; 0 if it is not allowed.
int config_accepts(const config_key* key, const char* text, char canonical[CONFIG_LINE + 1]);
// "a whole number from 1 to 10", "one of a, b, c", ...
void config_describe(const config_key* key, char* out, size_t n);

#endif
