// status.h - how errors travel: a firm_status is returned, a firm_error carries one sentence.
// Library code never exits or prints; src/cli/main.c turns an error into text and an exit code.
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include "firm.h"

// Fills *err (nullable) and returns `code`, so that a function can `return FAIL(err, code, ...)`.
firm_status core_fail(firm_error* err, firm_status code, const char* where, const char* fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define FAIL(err, code, ...) core_fail((err), (code), __func__, __VA_ARGS__)

// Returns early with the status of a failing call.
#define TRY(call)                                       \
    do {                                                \
        firm_status try_status_ = (call);               \
        if (try_status_ != FIRM_OK) return try_status_; \
    } while (0)

// For our own mistakes, never for user input; stays on in release builds.
void core_panic(const char* file, int line, const char* fmt, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
#define CHECK(cond, ...)                                          \
    do {                                                          \
        if (!(cond)) core_panic(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

#endif
