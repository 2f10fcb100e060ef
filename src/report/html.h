// html.h - a growing text: everything the report writes is put together in memory first, so that no
// file is touched before all inputs are known to be good.
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <stddef.h>

typedef struct html {
    char* data;  // NUL-terminated once something was put; mem_free through html_free
    size_t size, room;
    int failed;  // sticky: set when memory ran out; checked once at the end
} html;

void html_put(html* h, const char* text);
void html_bytes(html* h, const void* bytes, size_t n);
void html_add(html* h, const char* fmt, ...) __attribute__((format(printf, 2, 3)));
// Text from outside: & < > " ' become entities, control characters and broken UTF-8 a question
// mark.
void html_text(html* h, const char* text);
// A JSON string with its quotes, safe inside a <script> element.
void html_json(html* h, const char* text);
void html_number(html* h, double value, int decimals);  // real minus sign; an en dash if not finite
void html_free(html* h);

// Lower-case letters, digits and single dashes only: a piece of a file name or an id.
void html_slug(const char* text, char* out, size_t room);

#endif
