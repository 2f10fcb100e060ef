// trace.c - one episode as JSON. Plans and candidate fans are drawn where the task's first moving
// part appears in the image (env_spec.project).
#include "eval/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "io/image.h"

enum { MAX_POINTS = 8, DIGITS = 5 };

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory to record a trace");
}

// A picture as base64 PNG under `key`.
static firm_status add_picture(cJSON* to, const char* key, const uint8_t* rgb, int side,
                               firm_error* err) {
    uint8_t* png;
    size_t n;
    TRY(image_encode_png(side, side, rgb, &png, &n, err));
    char* text = image_base64(png, n);
    mem_free(png);
    if (!text) return no_memory(err);
    int added = cJSON_AddStringToObject(to, key, text) != NULL;
    mem_free(text);
    return added ? FIRM_OK : no_memory(err);
}

static int append(cJSON* list, cJSON* item) {
    if (item && cJSON_AddItemToArray(list, item)) return 1;
    cJSON_Delete(item);
    return 0;
}

static int put(cJSON* object, const char* key, cJSON* item) {
    if (item && cJSON_AddItemToObject(object, key, item)) return 1;
    cJSON_Delete(item);
    return 0;
}

static cJSON* numbers(const float* value, int n) {
    cJSON* list = cJSON_CreateArray();
    for (int i = 0; list && i < n; i++)
        if (!append(list, json_number(value[i], DIGITS))) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

// Image points of a configuration: all of them for a goal, the first one along a path. A task may
// have none.
static int append_points(const env_spec* spec, cJSON* list, const float* c, int points) {
    float xy[2 * MAX_POINTS];
    task_project(&spec->task, c, xy);
    for (int i = 0; i < points && i < spec->task.points; i++) {
        // a prediction may leave the picture or be useless; the page wants plain numbers
        float p[2] = {isfinite(xy[2 * i]) ? xy[2 * i] : 0.0f,
                      isfinite(xy[2 * i + 1]) ? xy[2 * i + 1] : 0.0f};
        if (!append(list, numbers(p, 2))) return 0;
    }
    return 1;
}

static cJSON* path_points(const env_spec* spec, const float* path, int steps) {
    cJSON* list = cJSON_CreateArray();
    for (int i = 0; list && i < steps; i++)
        if (!append_points(spec, list, path + i * spec->task.config_dim, 1)) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

static cJSON* fan_points(const env_spec* spec, const firm_step* d) {
    cJSON* list = cJSON_CreateArray();
    size_t stride = (size_t)((d->horizon + 1) * spec->task.config_dim);
    for (int i = 0; list && i < d->fan; i++)
        if (!append(list, path_points(spec, d->fan_path + (size_t)i * stride, d->horizon + 1))) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

static int add_distances(cJSON* json, const env_spec* spec) {
    cJSON* list = cJSON_AddArrayToObject(json, "distances");
    int ok = list != NULL;
    for (int i = 0; ok && i < spec->task.distances; i++) {
        cJSON* d = cJSON_CreateObject();
        ok = d && cJSON_AddStringToObject(d, "name", spec->task.distance[i].name) &&
             cJSON_AddStringToObject(d, "unit", spec->task.distance[i].unit) &&
             json_add_number(d, "tolerance", spec->task.distance[i].tolerance, DIGITS);
        ok = append(list, d) && ok;
    }
    return ok;
}

static int add_scenery(cJSON* json, const env_scenery* s) {
    if (!s->sentence) return 1;
    const float at[] = {(float)s->at[0], (float)s->at[1]};
    return cJSON_AddStringToObject(json, "scenery", s->sentence) &&
           cJSON_AddStringToObject(json, "scenery_name", s->name) &&
           put(json, "scenery_xy", numbers(at, 2));
}

// What a ring of the goal is for: "goal" where there is one, else "block's goal".
static int add_goal_names(cJSON* json, const task_typed* task) {
    cJSON* list = cJSON_AddArrayToObject(json, "goal_names");
    for (int i = 0; list && i < task->points; i++) {
        char name[TASK_NAME + 8] = "goal";
        if (task->points > 1) snprintf(name, sizeof name, "%s's goal", task->point[i].name);
        if (!append(list, cJSON_CreateString(name))) return 0;
    }
    return list != NULL;
}

// ---- the outline of what is pushed, at the goal -------------------------------------------------

// Corner k of a box, in the block's frame.
static void corner(const float box[4], int k, double out[2]) {
    out[0] = box[0] + (k == 1 || k == 2 ? box[2] : -box[2]);
    out[1] = box[1] + (k >= 2 ? box[3] : -box[3]);
}

// The part of a + (b - a) s that lies inside of the box, as the range of s; empty where it has no
// length.
static int inside(const float box[4], const double a[2], const double b[2], double range[2]) {
    range[0] = 0, range[1] = 1;
    for (int i = 0; i < 2; i++) {
        double low = box[i] - box[2 + i] - a[i], high = box[i] + box[2 + i] - a[i], d = b[i] - a[i];
        if (fabs(d) < 1e-9) {
            if (low >= 0 || high <= 0) return 0;  // an edge along the box's own stays
            continue;
        }
        range[0] = fmax(range[0], fmin(low / d, high / d));
        range[1] = fmin(range[1], fmax(low / d, high / d));
    }
    return range[1] - range[0] > 1e-6;
}

typedef struct outline {
    const task_typed* task;
    const float* goal;
    int point;  // the one of the block's place
    cJSON* list;
} outline;

// Image pixels of a point in the block's frame: the block's place is moved there and drawn as a
// place without an angle.
static int append_place(const outline* o, cJSON* path, const double at[2]) {
    const nn_push* push = &o->task->push;
    float c[FIRM_MAX_CONFIG], xy[2 * MAX_POINTS];
    memcpy(c, o->goal, sizeof(float) * (size_t)o->task->config_dim);
    double sin = c[push->angle], cos = c[push->angle + 1];
    c[push->block[0]] += (float)((cos * at[0] - sin * at[1]) / push->scale);
    c[push->block[1]] += (float)((sin * at[0] + cos * at[1]) / push->scale);
    c[push->angle] = c[push->angle + 1] = 0;
    task_project(o->task, c, xy);
    return append(path, numbers(xy + 2 * o->point, 2));
}

static int append_segment(const outline* o, const double a[2], const double b[2], double from,
                          double to) {
    const double ends[2][2] = {{a[0] + from * (b[0] - a[0]), a[1] + from * (b[1] - a[1])},
                               {a[0] + to * (b[0] - a[0]), a[1] + to * (b[1] - a[1])}};
    if (to - from < 1e-6) return 1;
    cJSON* path = cJSON_CreateArray();
    int ok = path && append_place(o, path, ends[0]) && append_place(o, path, ends[1]);
    if (ok) return append(o->list, path);
    cJSON_Delete(path);
    return 0;
}

// An edge of box `own` without what lies inside of the boxes from `next` on.
static int append_edge(const outline* o, int own, int next, const double a[2], const double b[2],
                       double from, double to) {
    const nn_push* push = &o->task->push;
    double range[2];
    for (; next < push->boxes; next++) {
        if (next == own || !inside(push->box[next], a, b, range)) continue;
        return append_edge(o, own, next + 1, a, b, from, fmin(to, range[0])) &&
               append_edge(o, own, next + 1, a, b, fmax(from, range[1]), to);
    }
    return append_segment(o, a, b, from, to);
}

// The point that moves with the block's place; -1: no point does.
static int block_point(const task_typed* task) {
    for (int i = 0; i < task->points; i++)
        for (int k = 0; k < 2; k++)
            if (task->point[i].x[task->push.block[k]] != 0 ||
                task->point[i].y[task->push.block[k]] != 0)
                return i;
    return -1;
}

// What the agent has to push into place, as the lines around it; only tasks that push have one.
static int add_goal_outline(cJSON* json, const task_typed* task, const float* goal) {
    const nn_push* push = &task->push;
    outline o = {.task = task, .goal = goal, .point = push->boxes ? block_point(task) : -1};
    if (o.point < 0) return 1;
    o.list = cJSON_AddArrayToObject(json, "goal_outline");
    for (int box = 0; o.list && box < push->boxes; box++)
        for (int k = 0; k < 4; k++) {
            double a[2], b[2];
            corner(push->box[box], k, a);
            corner(push->box[box], (k + 1) % 4, b);
            if (!append_edge(&o, box, 0, a, b, 0, 1)) return 0;
        }
    return o.list != NULL;
}

// ---- an episode, frame by frame -----------------------------------------------------------------

firm_status eval_trace_begin(eval_trace* t, const env_spec* spec, const char* mode, const char* arm,
                             int64_t start_row, const double* goal_state, const uint8_t* goal_rgb,
                             firm_error* err) {
    *t = (eval_trace){.spec = spec, .json = cJSON_CreateObject()};
    if (!t->json) return no_memory(err);
    CHECK(spec->task.points <= MAX_POINTS, "task %s has %d points", spec->task.name,
          spec->task.points);
    env_config(spec, goal_state, t->goal);
    cJSON* json = t->json;
    int ok = cJSON_AddStringToObject(json, "task", spec->task.name) &&
             cJSON_AddStringToObject(json, "mode", mode) &&
             cJSON_AddStringToObject(json, "arm", arm) &&
             cJSON_AddNumberToObject(json, "start_row", (double)start_row) &&
             cJSON_AddNumberToObject(json, "controls_per_macro", spec->task.controls);
    ok = ok && add_scenery(json, &spec->scenery);
    firm_status status =
        ok ? add_picture(json, "goal_png", goal_rgb, spec->task.image, err) : no_memory(err);
    if (status == FIRM_OK) {
        cJSON* goal = cJSON_AddArrayToObject(json, "goal_xy");
        ok = goal && append_points(spec, goal, t->goal, spec->task.points) &&
             add_goal_names(json, &spec->task) && add_goal_outline(json, &spec->task, t->goal);
        // only a tolerance in pixels can be drawn to scale; the page has a default for the others
        if (strcmp(spec->task.distance[0].unit, "px") == 0)
            ok = ok && json_add_number(json, "tolerance", spec->task.distance[0].tolerance, DIGITS);
        ok = ok && add_distances(json, spec);
        t->frames = cJSON_AddArrayToObject(json, "frames");
        if (!ok || !t->frames) status = no_memory(err);
    }
    if (status != FIRM_OK) eval_trace_free(t);
    return status;
}

static firm_status add_frame(eval_trace* t, int step, const double* state, const uint8_t* rgb,
                             const firm_step* d, const float* seen, firm_error* err) {
    if (!t->json) return FIRM_OK;
    const env_spec* spec = t->spec;
    cJSON* f = cJSON_CreateObject();
    if (!f || !append(t->frames, f)) return no_memory(err);
    float c[FIRM_MAX_CONFIG], truth[TASK_MAX_DISTANCE];
    env_config(spec, state, c);
    task_measure(&spec->task, c, t->goal, truth);
    int ok = cJSON_AddNumberToObject(f, "step", step) != NULL;
    ok = ok && put(f, "true_distance", numbers(truth, spec->task.distances)) &&
         put(f, "true_xy", path_points(spec, c, 1));
    if (!d || d->horizon == 0 || !d->path) {
        // nothing was predicted here, or nothing that has names
        ok = ok && put(f, "distance", numbers(seen ? seen : truth, spec->task.distances));
    } else {
        ok = ok && put(f, "distance", numbers(d->distance_now, spec->task.distances)) &&
             put(f, "planned", numbers(d->distance_planned, spec->task.distances)) &&
             cJSON_AddNumberToObject(f, "arrival", d->arrival) &&
             json_add_number(f, "solve_ms", d->solve_ms, DIGITS);
        if (ok && d->solved) {
            ok = put(f, "plan_xy", path_points(spec, d->path, d->horizon + 1));
            if (d->fan && d->fan_path) ok = ok && put(f, "fan_xy", fan_points(spec, d));
        }
    }
    ok = ok && cJSON_AddBoolToObject(f, "solved", d && d->solved);
    if (d) ok = ok && put(f, "action", numbers(d->action, spec->task.action_dim));
    if (!ok) return no_memory(err);
    return add_picture(f, "png", rgb, spec->task.image, err);
}

firm_status eval_trace_frame(eval_trace* t, int step, const double* state, const uint8_t* rgb,
                             const firm_step* d, firm_error* err) {
    return add_frame(t, step, state, rgb, d, NULL, err);
}

firm_status eval_trace_last(eval_trace* t, int step, const double* state, const uint8_t* rgb,
                            const float* seen, firm_error* err) {
    return add_frame(t, step, state, rgb, NULL, seen, err);
}

firm_status eval_trace_end(eval_trace* t, int success, firm_error* err) {
    if (!t->json) return FIRM_OK;
    return cJSON_AddBoolToObject(t->json, "success", success) ? FIRM_OK : no_memory(err);
}

void eval_trace_free(eval_trace* t) {
    cJSON_Delete(t->json);
    *t = (eval_trace){0};
}
