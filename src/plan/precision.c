// precision.c - names of the planner's precisions.
#include "plan/precision.h"

#include <string.h>

const char plan_precision_names[] = "fp32|tf32|bf16";
static const char* const names[] = {"fp32", "tf32", "bf16"};

firm_status plan_precision_read(const char* name, plan_precision* out, firm_error* err) {
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (plan_precision)i;
            return FIRM_OK;
        }
    return FAIL(err, FIRM_E_USAGE, "there is no precision '%s'; give one of %s", name,
                plan_precision_names);
}

const char* plan_precision_name(plan_precision p) {
    return names[p];
}
