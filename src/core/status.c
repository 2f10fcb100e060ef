// status.c - error records, status texts, version.
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

firm_status core_fail(firm_error* err, firm_status code, const char* where, const char* fmt, ...) {
    if (err) {
        // formatted aside, so that a caller may wrap err->message in a longer sentence
        char text[sizeof err->message];
        va_list args;
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        err->status = code;
        snprintf(err->where, sizeof err->where, "%s", where);
        snprintf(err->message, sizeof err->message, "%s", text);
    }
    return code;
}

void core_panic(const char* file, int line, const char* fmt, ...) {
    fprintf(stderr, "%s:%d: internal error: ", file, line);
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

int firm_abi(void) {
    return FIRM_ABI;
}
int firm_version(void) {
    return FIRM_VERSION;
}

const char* firm_status_str(firm_status s) {
    switch (s) {
#define STATUS_TEXT(name, text) \
    case FIRM_##name: return text;
        FIRM_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}
