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
        test_fail(__FILE__, __LINE__, "%d numbers of the golden file are missing or damaged",
                  g->damaged);
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

// A number is written in all its digits and finite; anything else is damage.
static inline uint64_t golden_bits(golden* g, const char* word, size_t digits) {
    if (strlen(word) != digits || strspn(word, "0123456789abcdef") != digits) g->damaged++;
    return strtoull(word, NULL, 16);
}

static inline double golden_double(golden* g, const char* word) {
    double value;
    memcpy(&value, &(uint64_t){golden_bits(g, word, 16)}, sizeof value);
    if (!isfinite(value)) g->damaged++;
    return value;
}

static inline float golden_float(golden* g, const char* word) {
    float value;
    memcpy(&value, &(uint32_t){(uint32_t)golden_bits(g, word, 8)}, sizeof value);
    if (!isfinite(value)) g->damaged++;
    return value;
}

static inline void golden_doubles(golden* g, double* out, int n) {
    for (int i = 0; i < n; i++) out[i] = golden_double(g, golden_word(g));
}

static inline void golden_floats(golden* g, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = golden_float(g, golden_word(g));
}

static inline double golden_worst(const double* a, const double* b, int n) {
    double worst = 0.0;
    for (int i = 0; i < n; i++) worst = test_worse(worst, fabs(a[i] - b[i]));
    return worst;
}

#endif
