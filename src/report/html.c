// html.c - the growing text behind every page and figure, with the escaping that keeps text from
// inputs from ever becoming markup.
#include "report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

static int reserve(html* h, size_t more) {
    if (h->failed) return 0;
    size_t need = h->size + more + 1;
    if (need <= h->room) return 1;
    size_t room = h->room ? h->room : 4096;
    while (room < need) room *= 2;
    char* data = mem_realloc(h->data, h->size, room);
    if (!data) {
        h->failed = 1;
        return 0;
    }
    h->data = data;
    h->room = room;
    return 1;
}

void html_bytes(html* h, const void* bytes, size_t n) {
    if (!reserve(h, n)) return;
    if (n) memcpy(h->data + h->size, bytes, n);
    h->size += n;
    h->data[h->size] = 0;
}

void html_put(html* h, const char* text) {
    html_bytes(h, text, strlen(text));
}

void html_add(html* h, const char* fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        h->failed = 1;
    } else if (reserve(h, (size_t)n)) {
        vsnprintf(h->data + h->size, (size_t)n + 1, fmt, again);
        h->size += (size_t)n;
    }
    va_end(again);
}

// Length of the well-formed UTF-8 character at s, 0 if it is broken. Overlong forms, surrogates and
// the two noncharacters U+FFFE, U+FFFF are not allowed in XML, so they count as broken.
static int utf8_length(const unsigned char* s) {
    int n = s[0] < 0x80             ? 1
            : (s[0] & 0xe0) == 0xc0 ? 2
            : (s[0] & 0xf0) == 0xe0 ? 3
            : (s[0] & 0xf8) == 0xf0 ? 4
                                    : 0;
    if (n <= 1) return n;
    unsigned code = s[0] & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[n] || code > 0x10ffff) return 0;
    if ((code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff) return 0;
    return n;
}

void html_text(html* h, const char* text) {
    const unsigned char* s = (const unsigned char*)text;
    while (*s) {
        int n = utf8_length(s);
        switch (*s) {
            case '&': html_put(h, "&amp;"); break;
            case '<': html_put(h, "&lt;"); break;
            case '>': html_put(h, "&gt;"); break;
            case '"': html_put(h, "&quot;"); break;
            case '\'': html_put(h, "&#39;"); break;
            default:
                if (n == 0 || *s == 0x7f || (*s < 0x20 && *s != '\n' && *s != '\t')) {
                    html_put(h, "?");
                } else {
                    html_bytes(h, s, (size_t)n);
                }
        }
        s += n ? n : 1;
    }
}

void html_json(html* h, const char* text) {
    const unsigned char* s = (const unsigned char*)text;
    html_put(h, "\"");
    while (*s) {
        int n = utf8_length(s);
        if (n == 0) {
            html_put(h, "?");
        } else if (*s < 0x20 || *s == 0x7f || strchr("\"\\<>&'", *s)) {
            html_add(h, "\\u%04x", *s);
        } else {
            html_bytes(h, s, (size_t)n);
        }
        s += n ? n : 1;
    }
    html_put(h, "\"");
}

void html_number(html* h, double value, int decimals) {
    if (!isfinite(value)) {
        html_put(h, "\u2013");
        return;
    }
    char digits[400];
    snprintf(digits, sizeof digits, "%.*f", decimals, fabs(value));
    int zero = strspn(digits, "0.") == strlen(digits);
    if (value < 0 && !zero) html_put(h, "\u2212");
    html_put(h, digits);
}

void html_free(html* h) {
    mem_free(h->data);
    memset(h, 0, sizeof *h);
}

void html_slug(const char* text, char* out, size_t room) {
    size_t n = 0;
    for (; *text && n + 1 < room; text++) {
        char c = *text;
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
            out[n++] = c;
        } else if (n && out[n - 1] != '-') {
            out[n++] = '-';
        }
    }
    if (n && out[n - 1] == '-') n--;
    if (!n && room > 1) out[n++] = 'x';
    out[n] = 0;
}
