// mjcf_files.c - an XML from anywhere: which files it names, before MuJoCo opens any of them.
//
// MuJoCo follows every path in a model. Here only names that lie below the model's folder are let
// through: no absolute path, no "..", no link that leads out; XML of at most 4 MiB, other files of
// at most 64 MiB; no plugins; no sizes that fill the memory. It reads tags and attributes only;
// whether the rest is sound is MuJoCo's own business.
#define _GNU_SOURCE  // realpath
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/crc.h"
#include "core/file.h"
#include "core/mem.h"
#include "env/mujoco/mjcf.h"

enum {
    MOST_XML = 4 << 20,
    MOST_FILE = 64 << 20,
    MOST_INCLUDES = 64,
    MOST_DEPTH = 8,
    MOST_DIRS = 8,
    MOST_NUMBER = 8192,     // of pixels, rows or copies
    MOST_PRODUCT = 100000,  // of copies
    ROOM = 512
};

typedef struct search {
    char folder[PATH_MAX];  // of the model, resolved
    int includes, depth;
    int dirs;
    char dir[MOST_DIRS][ROOM];  // meshdir and its kin
    crc sum;
    const char* path;  // the file at hand
    firm_error* err;
} search;

typedef struct tag {
    char name[64];
    const char *at, *end;  // its attributes
} tag;

static firm_status refuse(search* s, const char* why, const char* what) {
    return FAIL(s->err, FIRM_E_FORMAT, "%s: %s '%.80s'; change the model", s->path, why, what);
}

// ---- tags and attributes ------------------------------------------------------------------------

static int is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The next tag from *at on, comments left out. 0: there is none.
static int next_tag(const char** at, tag* t) {
    for (const char* p = *at; (p = strchr(p, '<'));) {
        if (strncmp(p, "<!--", 4) == 0) {
            const char* end = strstr(p + 4, "-->");
            if (!end) return 0;
            p = end + 3;
            continue;
        }
        size_t n = 0;
        p++;
        if (*p == '/') continue;  // the end of an element
        while (p[n] && !is_space(p[n]) && !strchr("/>\"'=<", p[n])) n++;
        snprintf(t->name, sizeof t->name, "%.*s", (int)n, p);
        t->at = p + n;
        char quote = 0;  // a > inside quotes ends no tag
        for (p = t->at; *p && (quote || *p != '>'); p++) {
            if (quote ? *p == quote : *p == '"' || *p == '\'') quote = quote ? 0 : *p;
        }
        t->end = p;
        *at = p;
        return 1;
    }
    return 0;
}

// 1: an attribute; 0: no more; -1: cannot be read.
static int next_attribute(tag* t, char name[64], char value[ROOM]) {
    const char* p = t->at;
    while (p < t->end && (is_space(*p) || *p == '/' || *p == '?')) p++;
    if (p >= t->end) return 0;
    size_t n = strcspn(p, "= \t\r\n/>");
    if (n == 0 || n >= 64) return -1;
    snprintf(name, 64, "%.*s", (int)n, p);
    p += n;
    while (is_space(*p)) p++;
    if (*p != '=') return -1;
    p++;
    while (is_space(*p)) p++;
    if (*p != '"' && *p != '\'') return -1;
    const char* end = strchr(p + 1, *p);
    if (!end || end > t->end) return -1;
    // long ones are lists of numbers, which nobody here reads
    snprintf(value, ROOM, "%.*s", (int)(end - p - 1 < ROOM ? end - p - 1 : ROOM - 1), p + 1);
    t->at = end + 1;
    return 1;
}

// ---- what they may say --------------------------------------------------------------------------

static int ends(const char* name, const char* with) {
    size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

static int is_dir(const char* name) {
    return ends(name, "dir") &&
           (strncmp(name, "mesh", 4) == 0 || strncmp(name, "texture", 7) == 0 ||
            strncmp(name, "asset", 5) == 0);
}

static int is_file(const char* name) {
    return strncmp(name, "file", 4) == 0 || ends(name, "file");
}

static int stays_below(const char* path) {
    if (path[0] == '/' || strchr(path, '\\') || strchr(path, ':') || strchr(path, '&')) return 0;
    for (const char* p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == 0 || p[2] == '/')) return 0;
    }
    return path[0] != 0;
}

// Where the name leads, if a file is there: below the folder, and not too large.
static firm_status check_there(search* s, const char* dir, const char* name, long most) {
    char path[2 * PATH_MAX], real[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s%s%s", s->folder, dir, dir[0] ? "/" : "", name);
    if (!realpath(path, real)) return FIRM_OK;
    size_t n = strlen(s->folder);
    if (strncmp(real, s->folder, n) != 0 || real[n] != '/')
        return refuse(s, "a link leads out of its folder:", name);
    if (stat(real, &st) != 0 || !S_ISREG(st.st_mode)) return refuse(s, "this is no file:", name);
    if (st.st_size > most) return refuse(s, "this file is too large:", name);
    return FIRM_OK;
}

// The whole numbers of a list, each and multiplied; what is no list of numbers is not too large.
static int too_large(const char* value) {
    long product = 1;
    for (const char* p = value; *p;) {
        long number = 0;
        while (is_space(*p)) p++;
        for (; *p >= '0' && *p <= '9' && number <= MOST_NUMBER; p++)
            number = 10 * number + (*p - '0');
        if (number > MOST_NUMBER) return 1;
        if (number > 1) product *= number;
        if (product > MOST_PRODUCT) return 1;
        if (*p && !is_space(*p)) return 0;
    }
    return 0;
}

static int is_size(const char* name) {
    static const char* const sizes[] = {"width", "height", "nrow", "ncol", "count", "gridsize"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(name, sizes[i]) == 0) return 1;
    return 0;
}

static firm_status check_xml(search* s, const char* path);

static firm_status check_attribute(search* s, const tag* t, const char* name, const char* value) {
    if (is_size(name) && too_large(value)) return refuse(s, "this is too large:", value);
    if (!is_dir(name) && !is_file(name)) return FIRM_OK;
    if (!stays_below(value)) return refuse(s, "this leads out of its folder:", value);
    if (is_dir(name)) {
        if (s->dirs == MOST_DIRS) return refuse(s, "there are too many folders:", value);
        snprintf(s->dir[s->dirs++], ROOM, "%s", value);
        return FIRM_OK;
    }
    if (strcmp(t->name, "include") == 0 || strcmp(t->name, "model") == 0) {
        char path[2 * PATH_MAX];
        if (++s->includes > MOST_INCLUDES || s->depth == MOST_DEPTH)
            return refuse(s, "this is one include too many:", value);
        TRY(check_there(s, "", value, MOST_XML));
        snprintf(path, sizeof path, "%s/%s", s->folder, value);
        const char* outer = s->path;
        s->depth++;
        firm_status status = check_xml(s, path);
        s->depth--;
        s->path = outer;
        return status;
    }
    TRY(check_there(s, "", value, MOST_FILE));
    for (int i = 0; i < s->dirs; i++) TRY(check_there(s, s->dir[i], value, MOST_FILE));
    return FIRM_OK;
}

static firm_status check_tags(search* s, const char* text) {
    char name[64], value[ROOM];
    tag t;
    for (const char* at = text; next_tag(&at, &t);) {
        if (strcmp(t.name, "plugin") == 0 || strcmp(t.name, "extension") == 0)
            return refuse(s, "plugins are not loaded:", t.name);
        if (strncmp(t.name, "!", 1) == 0) return refuse(s, "declarations are not read:", t.name);
        for (int found; (found = next_attribute(&t, name, value));) {
            if (found < 0) return refuse(s, "an attribute cannot be read in the tag", t.name);
            TRY(check_attribute(s, &t, name, value));
        }
    }
    return FIRM_OK;
}

static firm_status check_xml(search* s, const char* path) {
    char* text;
    size_t n;
    s->path = path;
    TRY(file_read_most(path, MOST_XML, &text, &n, s->err));
    crc_add(&s->sum, text, n);
    firm_status status =
        strlen(text) == n ? check_tags(s, text) : refuse(s, "this is no text:", path);
    mem_free(text);
    return status;
}

firm_status mjcf_check_files(const char* path, uint32_t* sum, firm_error* err) {
    search* s = mem_calloc(1, sizeof *s);
    char real[PATH_MAX];
    if (!s) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    s->err = err;
    crc_start(&s->sum);
    firm_status status = FIRM_OK;
    if (!realpath(path, real))
        status = FAIL(
            err, FIRM_E_MISSING,
            "there is no MuJoCo model %s; give the path of its XML, from the task file on", path);
    if (status == FIRM_OK) {
        memcpy(s->folder, real, sizeof real);
        *strrchr(s->folder, '/') = 0;
        status = check_xml(s, path);
        *sum = crc_sum(&s->sum);
    }
    mem_free(s);
    return status;
}
