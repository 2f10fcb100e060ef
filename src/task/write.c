// write.c - a typed task as text, in the words that text.c reads, and two tasks compared by it.
#include <string.h>

#include "core/text.h"
#include "task/task.h"

typedef struct page {
    char* out;
    size_t room;
    int fits;
} page;

#define PUT(p, ...) ((p)->fits &= text_add((p)->out, (p)->room, __VA_ARGS__))

static void put_number(page* p, const char* before, float value) {
    PUT(p, "%s", before);
    p->fits &= text_add_number(p->out, p->room, (double)value);
}

static void put_weights(page* p, const char* before, const float* weight, int n) {
    for (int i = 0; i < n; i++) put_number(p, i ? " " : before, weight[i]);
}

// "shoulder" of "shoulder_sin"
static int base_length(const task_typed* t, int coordinate) {
    return (int)strlen(t->config_name[coordinate]) - 4;
}

static void put_distance(page* p, const task_typed* t, const task_distance* d) {
    PUT(p, "%s = ", d->name);
    if (d->rule.angle) {
        PUT(p, "angle %.*s, %s", base_length(t, d->rule.first), t->config_name[d->rule.first],
            d->unit);
    } else {
        PUT(p, "norm");
        for (int k = 0; k < d->rule.count; k++) PUT(p, " %s", t->config_name[d->rule.first + k]);
        put_number(p, ", ", d->rule.scale);
        PUT(p, " %s", d->unit);
    }
    put_number(p, ", ", d->tolerance);
    PUT(p, "\n");
}

static void put_ref(page* p, const task_typed* t, const task_ref* r) {
    if (r->of == TASK_ZERO)
        PUT(p, " 0");
    else if (r->of == TASK_CHI)
        PUT(p, " chi:%d", r->index);
    else
        PUT(p, " %s%s", r->of == TASK_GOAL ? "goal:" : "", t->config_name[r->index]);
}

static void put_push(page* p, const task_typed* t) {
    const nn_push* s = &t->push;
    if (!s->boxes) return;
    PUT(p, "[push]\nagent = %s %s\n", t->config_name[s->agent[0]], t->config_name[s->agent[1]]);
    PUT(p, "block = %s %s %.*s\n", t->config_name[s->block[0]], t->config_name[s->block[1]],
        base_length(t, s->angle), t->config_name[s->angle]);
    put_number(p, "scale = ", s->scale);
    put_weights(p, "\nmotion = ", s->motion, 4);
    put_number(p, "\nradius = ", s->radius);
    put_weights(p, "\ncentre = ", s->centre, 2);
    put_weights(p, "\nlengths = ", (float[]){s->soft, s->deep, s->unit, s->arm, s->far}, 5);
    PUT(p, "\n[box]\n");
    for (int i = 0; i < s->boxes; i++) {
        PUT(p, "%d", i + 1);
        put_weights(p, " = ", s->box[i], 4);
        PUT(p, "\n");
    }
}

int task_write(const task_typed* t, char* out, size_t room) {
    page sheet = {out, room, room > 0}, *p = &sheet;
    if (room) out[0] = 0;
    PUT(p, "[task]\nname = %s\nimage = %d\nperiod_ms = %d\ncontrols = %d\n", t->name, t->image,
        t->period_ms, t->controls);
    if (t->horizon != TASK_HORIZON) PUT(p, "horizon = %d\n", t->horizon);
    PUT(p, "cost = %s\nchi = %d\n", t->cost == TASK_COST_MAX ? "max" : "sum", t->chi_dim);
    PUT(p, "[action]\ncount = %d\n", t->action_dim);
    put_number(p, "low = ", t->action_low);
    put_number(p, "\nhigh = ", t->action_high);
    PUT(p, "\nclamped = %s\n[config]\n", t->action_clamped ? "yes" : "no");
    for (int i = 0; i < t->pairs; i++)
        PUT(p, "%.*s = angle\n", base_length(t, 2 * i), t->config_name[2 * i]);
    for (int i = 2 * t->pairs; i < t->config_dim; i++) PUT(p, "%s = position\n", t->config_name[i]);
    PUT(p, "[distance]\n");
    for (int i = 0; i < t->distances; i++) put_distance(p, t, &t->distance[i]);
    if (t->ranges) PUT(p, "[visible]\n");
    for (int i = 0; i < t->ranges; i++) {
        PUT(p, "%s = ", t->config_name[t->visible[i].coordinate]);
        put_number(p, "", t->visible[i].low);
        put_number(p, " ", t->visible[i].high);
        PUT(p, "\n");
    }
    if (t->points) PUT(p, "[point]\n");
    for (int i = 0; i < t->points; i++) {
        const task_point* q = &t->point[i];
        PUT(p, "%s = %s", q->name, q->chain ? "chain" : "plain");
        put_weights(p, ", ", q->x, t->config_dim + 1);
        put_weights(p, ", ", q->y, t->config_dim + 1);
        put_weights(p, ", ", q->w, t->config_dim + 1);
        PUT(p, "\n");
    }
    if (t->situation_dim) PUT(p, "[situation]\n");
    for (int i = 0; i < t->situation_dim; i++) {
        PUT(p, "%d = ", i + 1);
        put_number(p, "", t->situation[i].times);
        put_ref(p, t, &t->situation[i].plus);
        put_ref(p, t, &t->situation[i].minus);
        put_number(p, " ", t->situation[i].over);
        PUT(p, "\n");
    }
    put_push(p, t);
    return p->fits;
}

firm_status task_expect(const char* file, const task_typed* task, const task_typed* wanted,
                        firm_error* err) {
    char text[2][TASK_TEXT];
    if (strcmp(task->name, wanted->name) != 0)
        return FAIL(err, FIRM_E_TASK, "%s is for the task %s, not for %s; give a file of %s", file,
                    task->name, wanted->name, wanted->name);
    task_typed both[] = {*task, *wanted};
    for (int i = 0; i < 2 && (!task->push.boxes || !wanted->push.boxes); i++)
        both[i].push = (nn_push){0};
    CHECK(task_write(&both[0], text[0], TASK_TEXT) && task_write(&both[1], text[1], TASK_TEXT),
          "a task does not fit its room");
    if (strcmp(text[0], text[1]) == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_TASK,
                "%s describes the task %s in another way (coordinates, distances, actions or "
                "picture); use the version of the task that it was made for",
                file, task->name);
}
