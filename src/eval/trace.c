// trace.c - one episode as JSON. Plans and candidate fans are drawn where the task's first moving
// part appears in the image (env_spec.project).
#include "eval/trace.h"

#include <math.h>
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
    if (spec->scenery) ok = ok && cJSON_AddStringToObject(json, "scenery", spec->scenery);
    firm_status status =
        ok ? add_picture(json, "goal_png", goal_rgb, spec->task.image, err) : no_memory(err);
    if (status == FIRM_OK) {
        cJSON* goal = cJSON_AddArrayToObject(json, "goal_xy");
        ok = goal && append_points(spec, goal, t->goal, spec->task.points);
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
