// each_failing.h - what happens when memory runs out: every allocation of a call fails once.
#ifndef TESTS_CORE_EACH_FAILING_H
#define TESTS_CORE_EACH_FAILING_H

#include "check.h"
#include "core/mem.h"
#include "core/status.h"

// Lets 0, 1, 2, ... allocations succeed until the call does; returns how many it needs.
#define FAIL_EACH(run) fail_each(__FILE__, __LINE__, run)

static inline int fail_each(const char* file, int line, firm_status (*run)(firm_error* err)) {
    for (int n = 0; n < 2000; n++) {
        firm_error err = {0};
        mem_fail_after(n);
        firm_status status = run(&err);
        mem_fail_after(-1);
        if (status == FIRM_OK) return n;
        if (status != FIRM_E_MEMORY || !err.message[0])
            test_fail(file, line, "allocation %d failing gives status %d: %s", n, status,
                      err.message);
    }
    test_fail(file, line, "never succeeds");
    return 0;
}

#endif
