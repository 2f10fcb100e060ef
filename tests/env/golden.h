// golden.h - reading the reference package's numbers from tests/golden: one record a line, a word
// that says what it is, then float64 or float32 bits in hexadecimal.
#ifndef TESTS_ENV_GOLDEN_H
#define TESTS_ENV_GOLDEN_H

#include "check.h"

typedef struct golden {
    FILE* in;
    char* line;
    size_t size;
    char* next;  // where the line is read on
    int damaged;
} golden;

static inline int golden_open(golden* g, const char* task) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/%s.txt", test_source_dir(), task);
    *g = (golden){.in = fopen(path, "r"), .size = 1 << 16};
    g->line = malloc(g->size);
    if (!g->in || !g->line) test_fail(__FILE__, __LINE__, "cannot open %s", path);
    return g->in && g->line;
}

static inline void golden_close(golden* g) {
    if (g->in) fclose(g->in);
    free(g->line);
    if (g->damaged)
        test_fail(__FILE__, __LINE__, "%d numbers of the golden file are missing", g->damaged);
}

// The next record's first word; NULL at the end.
static inline const char* golden_next(golden* g) {
    while (fgets(g->line, (int)g->size, g->in)) {
        if (g->line[0] == '#') continue;
        g->line[strcspn(g->line, "\n")] = '\0';
        g->next = g->line + strcspn(g->line, " ");
        if (*g->next) *g->next++ = '\0';
        return g->line;
    }
    return NULL;
}

static inline const char* golden_word(golden* g) {
    char* word = g->next;
    g->next += strcspn(g->next, " ");
    if (*g->next) *g->next++ = '\0';
    if (!*word) g->damaged++;
    return word;
}

static inline void golden_doubles(golden* g, double* out, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t bits = strtoull(golden_word(g), NULL, 16);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static inline void golden_floats(golden* g, float* out, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)strtoul(golden_word(g), NULL, 16);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static inline double golden_worst(const double* a, const double* b, int n) {
    double worst = 0.0;
    for (int i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        if (!(d <= worst)) worst = d;  // not a number is worst of all
    }
    return worst;
}

#endif
