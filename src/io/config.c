// config.c - the values of a config: defaults from the key table, typed access, dump, hash and
// help. Reading files and overrides is in config_read.c. Values are kept as text in canonical form
// (checked when they are set), so the dump reads back equal and its hash is the same for equal
// settings.
#define _GNU_SOURCE
#include "io/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/stats.h"
#include "io/config_store.h"

// ---- checking a value ---------------------------------------------------------------------------

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

// strtod that takes a decimal point even when the host program runs in a comma locale
static double read_real(const char* text, char** end) {
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

static int read_int(const char* text, int64_t* out) {
    char* end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && !*end && errno == 0 && !isspace((unsigned char)text[0]);
}

static int read_bool(const char* text, int* out) {
    static const char* const yes[] = {"true", "yes", "on", "1"};
    static const char* const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0) return *out = 1, 1;
        if (strcmp(text, no[i]) == 0) return *out = 0, 1;
    }
    return 0;
}

static int is_choice(const char* choices, const char* text) {
    size_t n = strlen(text);
    for (const char* at = choices;; at++) {
        size_t length = strcspn(at, "|");
        if (n && length == n && memcmp(at, text, n) == 0) return 1;
        at += length;
        if (!*at) return 0;
    }
}

// Text that survives a round trip through an ini line: no control characters, no blanks at its
// ends, nothing that starts a comment.
static int is_plain(const char* text) {
    int after_space = 1;
    size_t n = strlen(text);
    if (n && (text[0] == ' ' || text[n - 1] == ' ')) return 0;
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 32 || byte == 127 || (after_space && (byte == ';' || byte == '#'))) return 0;
        after_space = byte == ' ';
    }
    return 1;
}

int config_accepts(const config_key* key, const char* text, char canonical[CONFIG_LINE + 1]) {
    size_t n = strlen(text);
    // the line `name = text` of a dump must fit
    if (strlen(key->name) + 3 + n > CONFIG_LINE || !is_plain(text)) return 0;
    memcpy(canonical, text, n + 1);
    switch (key->type) {
        case CONFIG_INT: {
            int64_t value;
            if (!read_int(text, &value) || (double)value < key->min || (double)value > key->max)
                return 0;
            snprintf(canonical, CONFIG_LINE + 1, "%" PRId64, value);
            return 1;
        }
        case CONFIG_REAL: {
            char* end;
            if (!n || strspn(text, "0123456789+-.eE") != n) return 0;  // no hex, inf or nan
            double value = read_real(text, &end);
            return !*end && isfinite(value) && value >= key->min && value <= key->max;
        }
        case CONFIG_BOOL: {
            int value;
            if (!read_bool(text, &value)) return 0;
            memcpy(canonical, value ? "true" : "false", value ? 5 : 6);
            return 1;
        }
        case CONFIG_TEXT: return !key->choices || is_choice(key->choices, text);
    }
    return 0;
}

void config_describe(const config_key* key, char* out, size_t n) {
    const char* kind = key->type == CONFIG_INT ? "a whole number" : "a number";
    switch (key->type) {
        case CONFIG_INT:
        case CONFIG_REAL:
            if (isinf(key->min) && isinf(key->max))
                snprintf(out, n, "%s", kind);
            else if (isinf(key->max))
                snprintf(out, n, "%s, at least %.15g", kind, key->min);
            else if (isinf(key->min))
                snprintf(out, n, "%s, at most %.15g", kind, key->max);
            else
                snprintf(out, n, "%s from %.15g to %.15g", kind, key->min, key->max);
            return;
        case CONFIG_BOOL: snprintf(out, n, "true or false"); return;
        case CONFIG_TEXT:
            if (key->choices) {
                snprintf(out, n, "one of %s", key->choices);
                for (char* c = out; *c; c++)
                    if (*c == '|') *c = '/';
            } else {
                snprintf(out, n, "one line of plain text, up to %d bytes, without comments",
                         CONFIG_LINE - 3 - (int)strlen(key->name));
            }
            return;
    }
}

// ---- sections and keys --------------------------------------------------------------------------

int config_is_family(const char* pattern) {
    size_t n = strlen(pattern);
    return n > 2 && strcmp(pattern + n - 2, ".*") == 0;
}

config_section* config_find_section(const config* c, const char* name) {
    for (int i = 0; i < c->sections; i++)
        if (strcmp(c->section[i].name, name) == 0) return &c->section[i];
    return NULL;
}

int config_find_key(const config* c, const char* pattern, const char* name) {
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->keys[i].section, pattern) == 0 && strcmp(c->keys[i].name, name) == 0)
            return i;
    return -1;
}

firm_status config_add_section(config* c, const char* name, const char* pattern, firm_error* err) {
    if (c->sections == c->room) {
        int room = c->room ? c->room * 2 : 8;
        config_section* larger = mem_realloc(c->section, (size_t)c->sections * sizeof *larger,
                                             (size_t)room * sizeof *larger);
        if (!larger) return FAIL(err, FIRM_E_MEMORY, "no memory for the settings of [%s]", name);
        c->section = larger;
        c->room = room;
    }
    config_section* s = &c->section[c->sections];
    *s = (config_section){.pattern = pattern};
    snprintf(s->name, sizeof s->name, "%s", name);
    s->value = mem_calloc((size_t)c->count, sizeof *s->value);
    if (!s->value) return FAIL(err, FIRM_E_MEMORY, "no memory for the settings of [%s]", name);
    c->sections++;
    return FIRM_OK;
}

// A wrong table is our mistake, found by the first test that uses it.
static firm_status check_key(const config* c, int i, firm_error* err) {
    const config_key* k = &c->keys[i];
    char canonical[CONFIG_LINE + 1];
    size_t length = strlen(k->section);
    if (length == 0 || length + CONFIG_MEMBER >= CONFIG_NAME || !k->name[0])
        return FAIL(err, FIRM_E_INTERNAL, "key table: bad name %s.%s", k->section, k->name);
    if (config_find_key(c, k->section, k->name) != i)
        return FAIL(err, FIRM_E_INTERNAL, "key table: %s.%s is declared twice", k->section,
                    k->name);
    if (!k->value || !config_accepts(k, k->value, canonical)) {
        char allowed[160];
        config_describe(k, allowed, sizeof allowed);
        return FAIL(err, FIRM_E_INTERNAL, "key table: the default %s of %s.%s is not %s",
                    k->value ? k->value : "(none)", k->section, k->name, allowed);
    }
    return FIRM_OK;
}

firm_status config_create(const config_key* keys, int count, config** out, firm_error* err) {
    *out = NULL;
    config* c = mem_calloc(1, sizeof *c);
    if (!c) return FAIL(err, FIRM_E_MEMORY, "no memory for settings");
    c->keys = keys;
    c->count = count;
    firm_status status = FIRM_OK;
    for (int i = 0; i < count && status == FIRM_OK; i++) {
        status = check_key(c, i, err);
        if (status == FIRM_OK && !config_is_family(keys[i].section) &&
            !config_find_section(c, keys[i].section))
            status = config_add_section(c, keys[i].section, keys[i].section, err);
    }
    if (status != FIRM_OK) {
        config_free(c);
        return status;
    }
    *out = c;
    return FIRM_OK;
}

void config_free(config* c) {
    if (!c) return;
    for (int s = 0; s < c->sections; s++) {
        for (int i = 0; i < c->count; i++) mem_free(c->section[s].value[i].text);
        mem_free(c->section[s].value);
    }
    mem_free(c->section);
    mem_free(c);
}

// ---- typed access -------------------------------------------------------------------------------

static const char* text_of(const config* c, const config_section* s, int key) {
    return s->value[key].text ? s->value[key].text : c->keys[key].value;
}

static const char* lookup(const config* c, const char* section, const char* name,
                          config_type* type) {
    const config_section* s = config_find_section(c, section);
    CHECK(s, "config: section [%s] was never declared or read", section);
    int key = config_find_key(c, s->pattern, name);
    CHECK(key >= 0, "config: key %s.%s was never declared", section, name);
    *type = c->keys[key].type;
    return text_of(c, s, key);
}

int64_t config_int(const config* c, const char* section, const char* name) {
    config_type type;
    const char* text = lookup(c, section, name, &type);
    CHECK(type == CONFIG_INT, "config: %s.%s is not a whole number", section, name);
    int64_t value;
    CHECK(read_int(text, &value), "config: %s.%s holds '%s'", section, name, text);
    return value;
}

double config_real(const config* c, const char* section, const char* name) {
    config_type type;
    const char* text = lookup(c, section, name, &type);
    CHECK(type == CONFIG_REAL || type == CONFIG_INT, "config: %s.%s is not a number", section,
          name);
    return read_real(text, NULL);
}

int config_bool(const config* c, const char* section, const char* name) {
    config_type type;
    const char* text = lookup(c, section, name, &type);
    CHECK(type == CONFIG_BOOL, "config: %s.%s is not true or false", section, name);
    int value;
    CHECK(read_bool(text, &value), "config: %s.%s holds '%s'", section, name, text);
    return value;
}

const char* config_text(const config* c, const char* section, const char* name) {
    config_type type;
    const char* text = lookup(c, section, name, &type);
    CHECK(type == CONFIG_TEXT, "config: %s.%s is not a text", section, name);
    return text;
}

const char* config_member(const config* c, const char* family, int i) {
    CHECK(config_is_family(family), "config: %s is not a family; write its name with .*", family);
    for (int s = 0; s < c->sections; s++)
        if (strcmp(c->section[s].pattern, family) == 0 && i-- == 0)
            return c->section[s].name + strlen(family) - 1;
    return NULL;
}

// ---- dump, hash, help ---------------------------------------------------------------------------

// Where the dump goes: counted, hashed and, if `out` is given, written.
typedef struct sink {
    char* out;
    size_t n;
    uint64_t hash;
} sink;

static void put(sink* to, const char* text) {
    size_t n = strlen(text);
    if (to->out) memcpy(to->out + to->n, text, n);
    to->n += n;
    to->hash = stats_hash(to->hash, text, n);
}

static void dump_section(const config* c, const config_section* s, sink* to) {
    if (to->n) put(to, "\n");
    put(to, "[");
    put(to, s->name);
    put(to, "]\n");
    for (int i = 0; i < c->count; i++) {
        if (strcmp(c->keys[i].section, s->pattern) != 0) continue;
        char canonical[CONFIG_LINE + 1];
        CHECK(config_accepts(&c->keys[i], text_of(c, s, i), canonical), "config: bad value in %s",
              s->name);
        put(to, c->keys[i].name);
        put(to, " = ");
        put(to, canonical);
        put(to, "\n");
    }
}

// Sections in the order of the table, a family's members where the family stands in it.
static void dump(const config* c, sink* to) {
    to->n = 0;
    to->hash = STATS_HASH_START;
    for (int i = 0; i < c->count; i++) {
        int first = 1;
        for (int j = 0; j < i; j++) first &= strcmp(c->keys[j].section, c->keys[i].section) != 0;
        if (!first) continue;
        for (int s = 0; s < c->sections; s++)
            if (strcmp(c->section[s].pattern, c->keys[i].section) == 0)
                dump_section(c, &c->section[s], to);
    }
}

char* config_dump(const config* c) {
    sink size = {0};
    dump(c, &size);
    sink text = {.out = mem_alloc(size.n + 1)};
    if (!text.out) return NULL;
    dump(c, &text);
    text.out[text.n] = 0;
    return text.out;
}

uint64_t config_hash(const config* c) {
    sink to = {0};
    dump(c, &to);
    return to.hash;
}

void config_help(const config_key* keys, int count, FILE* to) {
    for (int i = 0; i < count; i++) {
        char allowed[160];
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0)
            fprintf(to, "%s[%s]\n", i ? "\n" : "", keys[i].section);
        config_describe(&keys[i], allowed, sizeof allowed);
        fprintf(to, "  %-20s = %-12s %s\n  %-20s   %-12s (%s)\n", keys[i].name, keys[i].value,
                keys[i].help, "", "", allowed);
    }
}
