// check.c - a typed task that may be used: every count in its range, every reference to something.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "task/task.h"

static int in(int value, int least, int most) {
    return value >= least && value <= most;
}

// Letters, digits and _, so that a name is one word of a text.
static int is_word(const char* name) {
    size_t n = strnlen(name, TASK_NAME);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-'))
            return 0;
    }
    return n > 0 && n < TASK_NAME;
}

// Printable, no separators of a text, no space at either end.
static int is_phrase(const char* name, size_t room) {
    size_t n = strnlen(name, room);
    for (size_t i = 0; i < n; i++)
        if (name[i] < ' ' || name[i] > '~' || strchr("=,;[]#", name[i])) return 0;
    return n > 0 && n < room && name[0] != ' ' && name[n - 1] != ' ';
}

static firm_status check_sizes(const task_typed* t, const char* from, firm_error* err) {
    const struct {
        const char* what;
        int value, least, most;
    } count[] = {
        {"the picture's side", t->image, TASK_IMAGE_LEAST, TASK_IMAGE_MOST},
        {"period_ms", t->period_ms, 0, 60000},
        {"controls of a macro action", t->controls, 1, TASK_MAX_CONTROLS},
        {"macro actions of a horizon", t->horizon, 1, TASK_MAX_HORIZON},
        {"numbers of an action", t->action_dim, 1, FIRM_MAX_ACTION},
        {"coordinates", t->config_dim, 1, FIRM_MAX_CONFIG},
        {"angles", t->pairs, 0, t->config_dim / 2},
        {"numbers of chi", t->chi_dim, 1, TASK_MAX_CHI},
        {"distances", t->distances, 1, TASK_MAX_DISTANCE},
        {"visible ranges", t->ranges, 0, FIRM_MAX_CONFIG},
        {"points", t->points, 0, TASK_MAX_POINT},
        {"numbers of a situation", t->situation_dim, 0, TASK_MAX_SITUATION},
        {"cost", (int)t->cost, TASK_COST_SUM, TASK_COST_MAX},
    };
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        if (!in(count[i].value, count[i].least, count[i].most))
            return FAIL(err, FIRM_E_VALUE, "%s: %s: %d; use %d to %d", from, count[i].what,
                        count[i].value, count[i].least, count[i].most);
    if (task_span(t) > TASK_MAX_SPAN)
        return FAIL(err, FIRM_E_VALUE,
                    "%s: %d macro actions of %d controls are %d controls; use at most %d together",
                    from, t->horizon, t->controls, task_span(t), TASK_MAX_SPAN);
    if (t->image % TASK_IMAGE_STEP)
        return FAIL(err, FIRM_E_VALUE,
                    "%s: the picture's side: %d pixels is no multiple of %d; use %d", from,
                    t->image, TASK_IMAGE_STEP,
                    (t->image + TASK_IMAGE_STEP / 2) / TASK_IMAGE_STEP * TASK_IMAGE_STEP);
    if (!isfinite(t->action_low) || !isfinite(t->action_high) || !(t->action_low < t->action_high))
        return FAIL(err, FIRM_E_VALUE, "%s: actions from %g to %g; the first must be smaller", from,
                    (double)t->action_low, (double)t->action_high);
    return FIRM_OK;
}

static firm_status check_names(const task_typed* t, const char* from, firm_error* err) {
    if (!is_word(t->name))
        return FAIL(err, FIRM_E_VALUE,
                    "%s: a task's name has 1 to %d letters, digits, _ or -; give it one", from,
                    TASK_NAME - 1);
    for (int i = 0; i < t->config_dim; i++) {
        const char* name = t->config_name[i];
        if (!is_word(name))
            return FAIL(err, FIRM_E_VALUE,
                        "%s: coordinate %d needs a name of letters, digits, _ or -", from, i + 1);
        for (int k = 0; k < i; k++)
            if (strcmp(name, t->config_name[k]) == 0)
                return FAIL(err, FIRM_E_VALUE,
                            "%s: two coordinates are called %s; give them other names", from, name);
    }
    for (int i = 0; i < t->pairs; i++) {
        const char *sin = t->config_name[2 * i], *cos = t->config_name[2 * i + 1];
        size_t n = strlen(sin);
        if (n < 5 || strcmp(sin + n - 4, "_sin") != 0 || strlen(cos) != n ||
            strncmp(sin, cos, n - 4) != 0 || strcmp(cos + n - 4, "_cos") != 0)
            return FAIL(err, FIRM_E_VALUE,
                        "%s: an angle's coordinates are called NAME_sin and NAME_cos, not %s and "
                        "%s; angles come before positions",
                        from, sin, cos);
    }
    for (int i = 0; i < t->points; i++)
        if (!is_phrase(t->point[i].name, TASK_NAME))
            return FAIL(err, FIRM_E_VALUE, "%s: point %d has no readable name; give it one", from,
                        i + 1);
    return FIRM_OK;
}

static firm_status check_distance(const task_typed* t, int i, const char* from, firm_error* err) {
    const task_distance* d = &t->distance[i];
    const task_rule* r = &d->rule;
    if (!is_phrase(d->name, TASK_NAME) || !is_phrase(d->unit, TASK_UNIT) || strchr(d->unit, ' '))
        return FAIL(err, FIRM_E_VALUE, "%s: distance %d has no readable name or unit; give it both",
                    from, i + 1);
    if (!(d->tolerance > 0) || !isfinite(d->tolerance))
        return FAIL(err, FIRM_E_VALUE, "%s: the tolerance of '%s' must be above 0", from, d->name);
    int whole = r->angle ? r->first >= 0 && r->first % 2 == 0 && r->first / 2 < t->pairs
                         : r->first >= 0 && r->count >= 1 && r->first <= t->config_dim &&
                               r->count <= t->config_dim - r->first && r->scale > 0 &&
                               isfinite(r->scale);
    if (!whole)
        return FAIL(err, FIRM_E_VALUE, "%s: the distance '%s' is of coordinates that are not there",
                    from, d->name);
    return FIRM_OK;
}

static int ref_holds(const task_typed* t, const task_ref* r) {
    if (r->of == TASK_ZERO) return 1;
    if (r->of != TASK_CONFIG && r->of != TASK_CHI && r->of != TASK_GOAL) return 0;
    return in(r->index, 0, (r->of == TASK_CHI ? t->chi_dim : t->config_dim) - 1);
}

static int all_finite(const float* v, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(v[i])) return 0;
    return 1;
}

static firm_status check_parts(const task_typed* t, const char* from, firm_error* err) {
    for (int i = 0; i < t->ranges; i++) {
        const task_range* r = &t->visible[i];
        if (!in(r->coordinate, 0, t->config_dim - 1) || !(r->low < r->high))
            return FAIL(err, FIRM_E_VALUE, "%s: visible range %d is of no coordinate or is empty",
                        from, i + 1);
    }
    for (int i = 0; i < t->points; i++) {
        const task_point* p = &t->point[i];
        int n = t->config_dim + 1;
        if (!all_finite(p->x, n) || !all_finite(p->y, n) || !all_finite(p->w, n))
            return FAIL(err, FIRM_E_VALUE, "%s: the point '%s' has a number that is not finite",
                        from, p->name);
    }
    for (int i = 0; i < t->situation_dim; i++) {
        const task_term* s = &t->situation[i];
        if (!ref_holds(t, &s->plus) || !ref_holds(t, &s->minus) || !isfinite(s->times) ||
            !isfinite(s->over) || s->over == 0)
            return FAIL(err, FIRM_E_VALUE,
                        "%s: number %d of the situation refers to nothing or divides by 0", from,
                        i + 1);
    }
    return FIRM_OK;
}

// Lengths that something is divided by.
static int all_above_zero(const float* v, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(v[i]) || !(v[i] > 0)) return 0;
    return 1;
}

static firm_status check_push(const task_typed* t, const char* from, firm_error* err) {
    const nn_push* s = &t->push;
    const nn_push whole = task_push(t);
    const float length[] = {s->scale, s->radius, s->soft, s->deep, s->unit, s->arm, s->far};
    if (s->boxes == 0) return FIRM_OK;
    if (!in(s->boxes, 1, NN_PUSH_BOXES))
        return FAIL(err, FIRM_E_VALUE, "%s: what is pushed has %d boxes; use 1 to %d", from,
                    s->boxes, NN_PUSH_BOXES);
    if (t->controls > NN_PUSH_CONTROLS || t->action_dim < 2)
        return FAIL(err, FIRM_E_VALUE,
                    "%s: [push] is for macro actions of up to %d controls, of which two numbers "
                    "move the agent; leave it out",
                    from, NN_PUSH_CONTROLS);
    if (!nn_push_fits(&whole) || s->angle % 2 || s->angle / 2 >= t->pairs)
        return FAIL(err, FIRM_E_VALUE, "%s: [push] is of coordinates that are not there", from);
    int finite = all_finite(s->motion, 4) && all_finite(s->centre, 2);
    for (int i = 0; i < s->boxes; i++)
        finite = finite && all_finite(s->box[i], 2) && all_above_zero(s->box[i] + 2, 2);
    if (!finite || !all_above_zero(length, sizeof length / sizeof *length))
        return FAIL(err, FIRM_E_VALUE,
                    "%s: [push] has a length that is not above 0, or a number that is not finite",
                    from);
    return FIRM_OK;
}

firm_status task_check(const task_typed* t, const char* from, firm_error* err) {
    TRY(check_sizes(t, from, err));
    TRY(check_names(t, from, err));
    for (int i = 0; i < t->distances; i++) TRY(check_distance(t, i, from, err));
    TRY(check_parts(t, from, err));
    return check_push(t, from, err);
}
