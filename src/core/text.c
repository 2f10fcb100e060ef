// text.c - text that stays in its room, and words that are checked: see text.h.
#define _GNU_SOURCE
#include "core/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int text_add(char* to, size_t room, const char* fmt, ...) {
    size_t used = strnlen(to, room);
    if (used >= room) return 0;
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(to + used, room - used, fmt, list);
    va_end(list);
    return n >= 0 && (size_t)n < room - used;
}

int text_add_number(char* to, size_t room, double value) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
    int fits = text_add(to, room, "%.9g", value);
    uselocale(before);
    if (c) freelocale(c);
    return fits;
}

size_t text_utf8(const char* text) {
    const unsigned char* p = (const unsigned char*)text;
    if (p[0] < 0x80) return 1;
    size_t n = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 0;
    if (p[0] >= 0xf0 && p[0] < 0xf5) n = 4;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;  // also stops at the NUL
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

// Goes past a word that ends at `end`; NULL or something else than a word's end: it did not fit.
static int pass(words* w, const char* end) {
    int fits = end && (*end == 0 || (*end == ' ' && end[1] != 0));
    w->at = !fits ? NULL : *end ? end + 1 : end;
    return fits;
}

int64_t words_whole(words* w, int64_t least, int64_t most) {
    const char* at = w->at;
    char* end = NULL;
    long long value = 0;
    if (at && ((*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9'))) {
        errno = 0;
        value = strtoll(at, &end, 10);
        if (errno || value < least || value > most) end = NULL;
    }
    return pass(w, end) ? value : 0;
}

double words_number(words* w, double least, double most) {
    const char* at = w->at;
    char* end = NULL;
    double value = 0;
    if (at && *at && !strchr(" \t\n\v\f\r", *at)) {
        locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
        value = strtod(at, &end);
        uselocale(before);
        if (c) freelocale(c);
        int any = isinf(least) && isinf(most);
        if (end == at || (!any && !(value >= least && value <= most))) end = NULL;
    }
    return pass(w, end) ? value : 0;
}

void words_text(words* w, char* out, size_t room) {
    const char* at = w->at;
    size_t n = at ? strcspn(at, " ") : 0;
    out[0] = 0;
    if (!pass(w, n > 0 && n < room ? at + n : NULL)) return;
    memcpy(out, at, n);
    out[n] = 0;
}

int words_end(const words* w) {
    return w->at && *w->at == 0;
}
