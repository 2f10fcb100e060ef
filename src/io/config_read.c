// config_read.c - ini files and `section.key=value` overrides into a config.
//
// libinih splits the lines that carry a key; our reader hands them over one by one, so that we know
// the line number, see section headers that hold no key, and refuse what libinih would cut short or
// accept in silence: overlong lines, control bytes, indented lines taken for continuations. Every
// refusal is one sentence: file and line, the key, what is allowed or what was probably meant.
#define _GNU_SOURCE
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "io/config_store.h"

enum { PLACE = 200, TEXT_LIMIT = 1 << 20 };

// ---- sentences ----------------------------------------------------------------------------------

// A piece of input for a message: printable ASCII, at most `n` - 1 bytes; long text is cut with
// "...".
static const char* quote(const char* text, char* out, size_t n) {
    size_t length = strlen(text), used = length < n ? length : n - 4;
    for (size_t i = 0; i < used; i++) out[i] = text[i] < 32 || text[i] > 126 ? '?' : text[i];
    memcpy(out + used, used < length ? "..." : "", used < length ? 4 : 1);
    return out;
}

// "FILE:12", with the end of a long path
static void place_of(const char* name, int line, char out[PLACE]) {
    size_t n = strlen(name), keep = 150;
    snprintf(out, PLACE, "%s%s:%d", n > keep ? "..." : "", n > keep ? name + n - keep : name, line);
}

// Edits (insert, delete, replace a letter) between two names.
static int edits(const char* a, const char* b) {
    enum { LONGEST = 64 };
    int row[LONGEST + 1];
    int na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= nb; j++) row[j] = j;
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            int change = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replace < change ? replace : change;
        }
    }
    return row[nb];
}

// The up to three names nearest to a misspelt one, kept sorted as they are offered.
typedef struct nearest {
    const char* wanted;
    const char* name[3];
    int distance[3], count;
} nearest;

static void offer(nearest* best, const char* name) {
    for (int i = 0; i < best->count; i++)
        if (strcmp(best->name[i], name) == 0) return;
    int distance = edits(best->wanted, name), at = best->count;
    while (at > 0 && best->distance[at - 1] > distance) at--;
    if (at == 3) return;
    if (best->count < 3) best->count++;
    for (int i = best->count - 1; i > at; i--) {
        best->name[i] = best->name[i - 1];
        best->distance[i] = best->distance[i - 1];
    }
    best->name[at] = name;
    best->distance[at] = distance;
}

static const char* list(const nearest* best, char* out, size_t n) {
    out[0] = 0;
    for (int i = 0; i < best->count; i++) text_add(out, n, "%s%s", i ? ", " : "", best->name[i]);
    return out;
}

static firm_status unknown_section(const config* c, const char* place, const char* name,
                                   firm_error* err) {
    char names[200], quoted[CONFIG_NAME];
    nearest best = {.wanted = name};
    for (int i = 0; i < c->sections; i++) offer(&best, c->section[i].name);
    for (int i = 0; i < c->count; i++) offer(&best, c->keys[i].section);
    return FAIL(err, FIRM_E_VALUE, "%s: there is no section [%s]; nearest: %s", place,
                quote(name, quoted, sizeof quoted), list(&best, names, sizeof names));
}

static firm_status unknown_key(const config* c, const char* place, const config_section* s,
                               const char* name, firm_error* err) {
    char names[200], quoted[CONFIG_NAME];
    nearest best = {.wanted = name};
    const char* elsewhere = NULL;
    for (int i = 0; i < c->count; i++) {
        if (strcmp(c->keys[i].section, s->pattern) == 0)
            offer(&best, c->keys[i].name);
        else if (strcmp(c->keys[i].name, name) == 0)
            elsewhere = c->keys[i].section;
    }
    quote(name, quoted, sizeof quoted);
    if (elsewhere)
        return FAIL(err, FIRM_E_VALUE, "%s: [%s] has no key '%s', but [%s] has; nearest here: %s",
                    place, s->name, quoted, elsewhere, list(&best, names, sizeof names));
    return FAIL(err, FIRM_E_VALUE, "%s: [%s] has no key '%s'; nearest: %s", place, s->name, quoted,
                list(&best, names, sizeof names));
}

// ---- one value ----------------------------------------------------------------------------------

// `file` is 0 for an override, which may repeat.
static firm_status set_value(config* c, const char* place, config_section* s, const char* name,
                             const char* text, int file, int line, firm_error* err) {
    int key = config_find_key(c, s->pattern, name);
    if (key < 0) return unknown_key(c, place, s, name, err);
    config_value* value = &s->value[key];
    if (file && value->file == file)
        return FAIL(err, FIRM_E_VALUE,
                    "%s: %s.%s is set a second time (first on line %d); remove one", place, s->name,
                    name, value->line);
    char canonical[CONFIG_LINE + 1];
    if (!config_accepts(&c->keys[key], text, canonical)) {
        char allowed[160], quoted[48];
        config_describe(&c->keys[key], allowed, sizeof allowed);
        const char* hint = strchr(text, '#') ? " (a comment after a value starts with ';')" : "";
        return FAIL(err, FIRM_E_VALUE, "%s: %s.%s = %s is not allowed; give %s%s", place, s->name,
                    name, quote(text, quoted, sizeof quoted), allowed, hint);
    }
    char* copy = mem_strdup(canonical);
    if (!copy) return FAIL(err, FIRM_E_MEMORY, "no memory for the setting %s.%s", s->name, name);
    mem_free(value->text);
    *value = (config_value){copy, file, line};
    return FIRM_OK;
}

// ---- files --------------------------------------------------------------------------------------

typedef struct reading {
    config* c;
    const char* name;  // of the file
    const char *at, *end;
    int file, line;
    int section;  // index, as the array may move; -1 before the first header
    firm_status status;
    firm_error* err;
} reading;

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

// The family a section name belongs to: "stage.grounder" -> "stage.*"; NULL if none. Members are
// named in letters, digits, - and _, so that an override can split section.key at the last dot.
static const char* family_of(const config* c, const char* name) {
    for (int i = 0; i < c->count; i++) {
        const char* pattern = c->keys[i].section;
        size_t prefix = strlen(pattern) - 1;
        if (!config_is_family(pattern) || strncmp(pattern, name, prefix) != 0) continue;
        size_t n = strlen(name + prefix);
        static const char allowed[] =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        if (n >= 1 && n <= CONFIG_MEMBER && strspn(name + prefix, allowed) == n) return pattern;
    }
    return NULL;
}

static firm_status open_section(reading* r, const char* place, const char* line) {
    char name[CONFIG_LINE + 1];
    const char* close = strchr(line, ']');
    if (!close) return FAIL(r->err, FIRM_E_FORMAT, "%s: a section header ends in ]", place);
    const char* rest = close + 1 + strspn(close + 1, " \t");
    if (*rest && *rest != ';' && *rest != '#')
        return FAIL(r->err, FIRM_E_FORMAT, "%s: nothing but a comment may follow a section header",
                    place);
    const char* from = line + 1 + strspn(line + 1, " \t");
    while (close > from && is_blank(close[-1])) close--;
    size_t n = close > from ? (size_t)(close - from) : 0;
    memcpy(name, from, n);
    name[n] = 0;

    config* c = r->c;
    config_section* s = config_find_section(c, name);
    if (!s) {
        const char* family = family_of(c, name);
        if (!family) return unknown_section(c, place, name, r->err);
        TRY(config_add_section(c, name, family, r->err));
        s = &c->section[c->sections - 1];
    }
    if (s->file == r->file)
        return FAIL(r->err, FIRM_E_VALUE,
                    "%s: section [%s] stands here a second time (first on line %d); join them",
                    place, name, s->line);
    s->file = r->file;
    s->line = r->line;
    r->section = (int)(s - c->section);
    return FIRM_OK;
}

// Takes one line of `n` bytes, checks it and writes what libinih is to see of it.
static firm_status take_line(reading* r, const char* line, size_t n, char* to, size_t room) {
    char place[PLACE];
    place_of(r->name, r->line, place);
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)line[i];
        if ((byte < 32 && byte != '\t' && byte != '\r') || byte == 127)
            return FAIL(r->err, FIRM_E_FORMAT,
                        "%s: byte 0x%02x is no text; save the file as plain UTF-8", place, byte);
    }
    if (r->line == 1 && n >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) line += 3, n -= 3;
    while (n && is_blank(line[0])) line++, n--;
    while (n && is_blank(line[n - 1])) n--;
    if (n == 0 || line[0] == ';' || line[0] == '#') {
        memcpy(to, "\n", 2);
        return FIRM_OK;
    }
    if (n > CONFIG_LINE || n + 2 > room)
        return FAIL(r->err, FIRM_E_FORMAT, "%s: the line has %zu bytes; at most %d are possible",
                    place, n, CONFIG_LINE);
    memcpy(to, line, n);
    to[n] = 0;
    if (to[0] == '[') TRY(open_section(r, place, to));
    memcpy(to + n, "\n", 2);
    return FIRM_OK;
}

// libinih's fgets; NULL ends the reading, at the end or after a refusal
static char* next_line(char* to, int room, void* user) {
    reading* r = user;
    if (r->status != FIRM_OK || r->at == r->end) return NULL;
    const char* line = r->at;
    const char* stop = memchr(line, '\n', (size_t)(r->end - line));
    size_t n = (size_t)((stop ? stop : r->end) - line);
    r->at = stop ? stop + 1 : r->end;
    r->line++;
    r->status = take_line(r, line, n, to, (size_t)room);
    return r->status == FIRM_OK ? to : NULL;
}

static int on_pair(void* user, const char* section, const char* name, const char* value) {
    (void)section;  // cut at 50 bytes there; ours is whole
    reading* r = user;
    if (r->status != FIRM_OK) return 1;
    char place[PLACE];
    place_of(r->name, r->line, place);
    if (r->section < 0) {
        char quoted[CONFIG_NAME];
        r->status = FAIL(r->err, FIRM_E_VALUE, "%s: '%s' stands before the first [section]", place,
                         quote(name, quoted, sizeof quoted));
    } else {
        r->status = set_value(r->c, place, &r->c->section[r->section], name, value, r->file,
                              r->line, r->err);
    }
    return 1;  // errors are kept in r; what libinih returns is then its own complaint
}

static firm_status read_lines(config* c, const char* name, const char* text, size_t n,
                              firm_error* err) {
    if (n > TEXT_LIMIT)
        return FAIL(err, FIRM_E_FORMAT, "%s has %zu bytes; a config file has at most %d", name, n,
                    TEXT_LIMIT);
    reading r = {.c = c,
                 .name = name,
                 .at = text,
                 .end = text + n,
                 .file = ++c->files,
                 .section = -1,
                 .err = err};
    int bad_line = ini_parse_stream(next_line, &r, on_pair, &r);
    if (bad_line < 0) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", name);
    // a line libinih could not split comes before anything found later
    if (bad_line > 0 && (r.status == FIRM_OK || bad_line < r.line)) {
        char place[PLACE];
        place_of(name, bad_line, place);
        return FAIL(err, FIRM_E_FORMAT, "%s: neither [section], key = value nor a comment", place);
    }
    return r.status;
}

firm_status config_read_text(config* c, const char* name, const char* text, firm_error* err) {
    return read_lines(c, name, text, strlen(text), err);
}

firm_status config_read_file(config* c, const char* path, firm_error* err) {
    char* text;
    size_t n;
    TRY(file_read_most(path, (size_t)16 * TEXT_LIMIT, &text, &n, err));
    firm_status status = read_lines(c, path, text, n, err);
    mem_free(text);
    return status;
}

// ---- overrides ----------------------------------------------------------------------------------

firm_status config_set(config* c, const char* assignment, firm_error* err) {
    char left[CONFIG_LINE + 1], place[PLACE], quoted[80];
    snprintf(place, sizeof place, "'%s'", quote(assignment, quoted, sizeof quoted));
    const char* equals = strchr(assignment, '=');
    const char* end = equals;
    const char* from = assignment + strspn(assignment, " \t");
    while (end && end > from && is_blank(end[-1])) end--;
    size_t n = end && end > from ? (size_t)(end - from) : 0;
    if (n == 0 || n > CONFIG_LINE || !memchr(from, '.', n))
        return FAIL(err, FIRM_E_USAGE, "%s: an override is written section.key=value", place);
    memcpy(left, from, n);
    left[n] = 0;
    char* dot = strrchr(left, '.');
    *dot = 0;

    const char* value = equals + 1 + strspn(equals + 1, " \t");
    size_t length = strlen(value);
    while (length && is_blank(value[length - 1])) length--;
    char text[CONFIG_LINE + 1];
    if (length > CONFIG_LINE)
        return FAIL(err, FIRM_E_VALUE, "%s: the value has %zu bytes; at most %d are possible",
                    place, length, CONFIG_LINE);
    memcpy(text, value, length);
    text[length] = 0;

    config_section* s = config_find_section(c, left);
    if (!s) return unknown_section(c, place, left, err);
    return set_value(c, place, s, dot + 1, text, 0, 0, err);
}
