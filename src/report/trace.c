// trace.c - reads a traced episode: decodes its pictures (equal ones once), checks every
// coordinate, and carries the last plan on to the frames that follow it.
#include "report/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "io/image.h"
#include "report/inputs.h"

enum {
    MAX_SIDE = 1024,
    MAX_FRAMES = 5000,
    MAX_PIXELS = 256000000,  // of all frames: 5000 of the models' size
    MAX_POINTS = 256,        // of a path: more macro steps than any plan has
    MAX_PATHS = 1024         // of a fan
};

static int base64_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Strict standard base64; returns the number of bytes, 0 if the text is damaged. out holds 3/4 of
// it.
static size_t base64_decode(const char* text, uint8_t* out) {
    size_t length = strlen(text), n = 0;
    if (length == 0 || length % 4) return 0;
    size_t pad = text[length - 1] != '=' ? 0 : text[length - 2] != '=' ? 1 : 2;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t word = 0;
        size_t digits = i + 4 == length ? 4 - pad : 4;
        for (size_t k = 0; k < 4; k++) {
            int v = k < digits ? base64_value(text[i + k]) : 0;
            if (v < 0) return 0;
            word = word << 6 | (uint32_t)v;
        }
        for (size_t k = 0; k + 1 < digits; k++) out[n++] = (uint8_t)(word >> (16 - 8 * k));
    }
    return n;
}

// The bytes of a picture's text; mem_free. NULL without memory, *n 0 if the text is damaged.
static uint8_t* picture_bytes(const char* text, size_t* n) {
    uint8_t* bytes = mem_alloc(strlen(text) / 4 * 3 + 4);
    *n = bytes ? base64_decode(text, bytes) : 0;
    return bytes;
}

// Every picture of a trace has the size of the first.
static firm_status check_size(const char* name, const char* what, int number, uint32_t width,
                              uint32_t height, trace* t, firm_error* err) {
    int fits = width >= 8 && height >= 8 && width <= MAX_SIDE && height <= MAX_SIDE;
    if (t->width) fits = width == (uint32_t)t->width && height == (uint32_t)t->height;
    if (!fits)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: %s %d is %u x %u pixels; all pictures must have one size of 8 to %d; "
                    "record the trace again",
                    name, what, number, width, height, MAX_SIDE);
    t->width = (int)width;
    t->height = (int)height;
    return FIRM_OK;
}

static firm_status decode_bytes(const char* name, const char* what, int number,
                                const uint8_t* bytes, size_t n, trace* t, uint8_t** rgb,
                                firm_error* err) {
    uint32_t width, height;
    if (!image_png_size(bytes, n, &width, &height))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: %s %d is not a PNG picture in base64; record the trace again", name, what,
                    number);
    TRY(check_size(name, what, number, width, height, t, err));
    if (!*rgb) *rgb = mem_alloc((size_t)width * height * 3);
    if (!*rgb) return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", name);
    firm_status status = image_decode_png(what, bytes, n, t->width, t->height, *rgb, err);
    if (status != FIRM_E_FORMAT) return status;
    return FAIL(err, status, "%s: %s %d is a damaged PNG; record the trace again", name, what,
                number);
}

// A PNG as 8-bit RGB. Its pixels go to *rgb, for which memory is taken where there is none yet.
static firm_status decode_picture(const char* name, const char* what, int number, const char* text,
                                  trace* t, uint8_t** rgb, firm_error* err) {
    size_t n;
    uint8_t* bytes = picture_bytes(text, &n);
    if (!bytes) return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", name);
    firm_status status = decode_bytes(name, what, number, bytes, n, t, rgb, err);
    mem_free(bytes);
    return status;
}

firm_status trace_picture(const trace* t, int image, uint8_t* rgb, firm_error* err) {
    trace size = {.width = t->width, .height = t->height};
    return decode_picture("the trace", "picture", image, t->image_text[image], &size, &rgb, err);
}

static const char* without_prefix(const char* text) {
    static const char prefix[] = "data:image/png;base64,";
    return strncmp(text, prefix, sizeof prefix - 1) == 0 ? text + sizeof prefix - 1 : text;
}

// All frames have the first picture's size: their number times that is known from then on.
static firm_status check_pixels(const char* name, int frames, const trace* t, firm_error* err) {
    int64_t pixels = (int64_t)frames * t->width * t->height;
    if (pixels <= MAX_PIXELS) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s: %d frames of %d x %d pixels are more than a report shows (%d million pixels); "
                "record fewer or smaller ones",
                name, frames, t->width, t->height, MAX_PIXELS / 1000000);
}

static firm_status add_image(const char* name, int number, const char* text, trace* t, int* index,
                             firm_error* err) {
    text = without_prefix(text);
    uint64_t hash = rng_hash_text(text);
    for (int i = t->image_count - 1; i >= 0; i--) {
        if (t->image_hash[i] == hash && strcmp(t->image_text[i], text) == 0) {
            *index = i;
            return FIRM_OK;
        }
    }
    *index = t->image_count;
    t->image_hash[t->image_count] = hash;
    t->image_text[t->image_count++] = text;
    return decode_picture(name, "frame", number, text, t, &t->read_rgb, err);
}

static int is_point(const cJSON* p) {
    return cJSON_IsArray(p) && cJSON_GetArraySize(p) == 2 && cJSON_IsNumber(p->child) &&
           cJSON_IsNumber(p->child->next) && isfinite(p->child->valuedouble) &&
           isfinite(p->child->next->valuedouble);
}

static int is_path(const cJSON* path) {
    const cJSON* p;
    int n = 0;
    if (!cJSON_IsArray(path)) return 0;
    cJSON_ArrayForEach(p, path) {
        if (!is_point(p) || n++ == MAX_POINTS) return 0;
    }
    return 1;
}

static int is_fan(const cJSON* fan) {
    const cJSON* path;
    int n = 0;
    if (!cJSON_IsArray(fan)) return 0;
    cJSON_ArrayForEach(path, fan) {
        if (!is_path(path) || n++ == MAX_PATHS) return 0;
    }
    return 1;
}

static void read_numbers(const cJSON* array, double* out, int n) {
    const cJSON* v = cJSON_IsArray(array) ? array->child : NULL;
    for (int i = 0; i < n; i++) {
        out[i] = v && cJSON_IsNumber(v) && isfinite(v->valuedouble) ? v->valuedouble : NAN;
        if (v) v = v->next;
    }
}

static firm_status read_plan(const char* name, int number, const cJSON* f, trace* t,
                             trace_frame* frame, firm_error* err) {
    const cJSON* path = cJSON_GetObjectItemCaseSensitive(f, "plan_xy");
    const cJSON* fan = cJSON_GetObjectItemCaseSensitive(f, "fan_xy");
    if (cJSON_IsNull(path)) path = NULL;
    if (cJSON_IsNull(fan)) fan = NULL;
    frame->plan = t->plan_count - 1;
    if (!path && !fan) return FIRM_OK;
    if ((path && !is_path(path)) || (fan && !is_fan(fan))) {
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s: frame %d: plan_xy or fan_xy is not a list of [x, y] pairs, at most %d a path and "
            "%d paths; record the trace again",
            name, number, MAX_POINTS, MAX_PATHS);
    }
    t->plans[t->plan_count] = (trace_plan){path, fan, frame->step};
    frame->plan = t->plan_count++;
    return FIRM_OK;
}

static double limited(double value, double lo, double hi) {
    return value < lo ? lo : value > hi ? hi : value;
}

static firm_status read_frame(const char* name, int number, const cJSON* f, trace* t,
                              firm_error* err) {
    trace_frame* frame = &t->frames[t->frame_count];
    const char* png = report_text(f, "png");
    if (!png[0])
        return FAIL(err, FIRM_E_FORMAT, "%s: frame %d has no picture 'png'; record the trace again",
                    name, number);
    TRY(add_image(name, number, png, t, &frame->image, err));
    double step = report_get(f, "step"), arrival = report_get(f, "arrival");
    frame->step = isnan(step) ? number : (int)limited(step, 0, 1e8);
    TRY(read_plan(name, number, f, t, frame, err));
    frame->arrival = isnan(arrival) ? 0 : (int)limited(arrival, 0, 1e6);
    const cJSON* solved = cJSON_GetObjectItemCaseSensitive(f, "solved");
    frame->solved = cJSON_IsTrue(solved) || (cJSON_IsNumber(solved) && solved->valuedouble != 0);
    frame->solve_ms = report_get(f, "solve_ms");
    read_numbers(cJSON_GetObjectItemCaseSensitive(f, "distance"), frame->distance, TRACE_DISTANCES);
    read_numbers(cJSON_GetObjectItemCaseSensitive(f, "planned"), frame->planned, TRACE_DISTANCES);
    const cJSON* action = cJSON_GetObjectItemCaseSensitive(f, "action");
    frame->action = cJSON_IsArray(action) ? action : NULL;
    t->frame_count++;
    return FIRM_OK;
}

static void add_label(trace* t, const char* text, const double xy[2], int ring) {
    if (!text[0] || strlen(text) > TRACE_LABEL || t->label_count == TRACE_LABELS) return;
    t->label[t->label_count++] = (trace_label){text, {xy[0], xy[1]}, ring};
}

// What stands in every picture: words at the goal's rings, the outline of what is pushed there, and
// a word on what is no part of the task.
static firm_status read_marks(const cJSON* json, const char* name, trace* t, firm_error* err) {
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(json, "goal_names"),
                *outline = cJSON_GetObjectItemCaseSensitive(json, "goal_outline"),
                *place = cJSON_GetObjectItemCaseSensitive(json, "scenery_xy");
    if (outline && !cJSON_IsNull(outline) && !is_fan(outline))
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s: goal_outline is not a list of paths of [x, y] pairs; record the trace again",
            name);
    t->outline = cJSON_IsArray(outline) ? outline : NULL;
    if (place && is_point(place)) {
        double xy[2];
        read_numbers(place, xy, 2);
        add_label(t, report_text(json, "scenery_name"), xy, 0);
    }
    for (int i = 0; i < t->goal_count; i++) {
        const cJSON* text = cJSON_IsArray(names) ? cJSON_GetArrayItem(names, i) : NULL;
        if (cJSON_IsString(text)) add_label(t, text->valuestring, t->goal_xy[i], 1);
    }
    return FIRM_OK;
}

static firm_status read_goal(const cJSON* json, const char* name, trace* t, firm_error* err) {
    const char* text = without_prefix(report_text(json, "goal_png"));
    if (text[0]) {
        TRY(decode_picture(name, "goal image", 1, text, t, &t->goal_rgb, err));
        t->goal_text = text;
    }
    const cJSON *goals = cJSON_GetObjectItemCaseSensitive(json, "goal_xy"), *p;
    if (goals && !cJSON_IsNull(goals) && !is_path(goals)) {
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: goal_xy is not a list of [x, y] pairs; record the trace again", name);
    }
    cJSON_ArrayForEach(p, goals) {
        if (t->goal_count < TRACE_GOALS) read_numbers(p, t->goal_xy[t->goal_count++], 2);
    }
    TRY(read_marks(json, name, t, err));
    double ring = report_get(json, "tolerance");
    t->ring = ring > 0 && ring <= MAX_SIDE ? ring : 6;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "distances"), *d;
    cJSON_ArrayForEach(d, list) {
        if (t->distance_count == TRACE_DISTANCES) break;
        t->distance[t->distance_count].name = report_text(d, "name");
        t->distance[t->distance_count].unit = report_text(d, "unit");
        t->distance[t->distance_count++].tolerance = report_get(d, "tolerance");
    }
    return FIRM_OK;
}

static firm_status read_all(const cJSON* json, const char* name, trace* t, firm_error* err) {
    const cJSON *frames = cJSON_GetObjectItemCaseSensitive(json, "frames"), *f;
    int count = cJSON_IsArray(frames) ? cJSON_GetArraySize(frames) : 0;
    if (count < 1 || count > MAX_FRAMES) {
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: a trace needs 1 to %d frames and has %d; record the trace again", name,
                    MAX_FRAMES, count);
    }
    t->task = report_text(json, "task");
    t->mode = report_text(json, "mode");
    t->arm = report_text(json, "arm");
    t->note = report_text(json, "note");
    t->scenery = report_text(json, "scenery");
    double macro = report_get(json, "controls_per_macro");
    t->macro = macro >= 1 && macro <= 1000 ? (int)macro : 0;
    t->success = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "success"));
    t->frames = mem_calloc((size_t)count, sizeof *t->frames);
    t->plans = mem_calloc((size_t)count, sizeof *t->plans);
    t->image_text = mem_calloc((size_t)count, sizeof *t->image_text);
    t->image_hash = mem_calloc((size_t)count, sizeof *t->image_hash);
    if (!t->frames || !t->plans || !t->image_text || !t->image_hash) {
        return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", name);
    }
    int number = 0;
    cJSON_ArrayForEach(f, frames) {
        TRY(read_frame(name, number++, f, t, err));
        TRY(check_pixels(name, count, t, err));
    }
    return read_goal(json, name, t, err);
}

firm_status trace_read(const cJSON* json, const char* name, trace* t, firm_error* err) {
    memset(t, 0, sizeof *t);
    firm_status status = read_all(json, name, t, err);
    if (status != FIRM_OK) trace_free(t);
    return status;
}

void trace_free(trace* t) {
    mem_free(t->read_rgb);
    mem_free(t->image_hash);
    mem_free(t->image_text);
    mem_free(t->goal_rgb);
    mem_free(t->frames);
    mem_free(t->plans);
    memset(t, 0, sizeof *t);
}

double trace_worst(const trace* t, const trace_frame* f) {
    if (t->distance_count == 0) return NAN;
    if (t->distance_count == 1) return f->distance[0];
    double worst = NAN;
    for (int i = 0; i < t->distance_count; i++) {
        double r = f->distance[i] / t->distance[i].tolerance;
        if (isfinite(r) && !(r <= worst)) worst = r;
    }
    return worst;
}

static void add_distances(const trace* t, const double* distance, char* out, size_t room) {
    const char* before = "";
    for (int i = 0; i < t->distance_count; i++) {
        if (isnan(distance[i])) continue;
        // small units (radians, metres) need more digits than pixels
        int decimals = t->distance[i].tolerance < 1 ? 3 : 1;
        text_add(out, room, "%s%s %.*f %s", before, t->distance[i].name, decimals, distance[i],
                 t->distance[i].unit);
        before = ", ";
    }
}

void trace_sentence(const trace* t, const trace_frame* f, char* out, size_t room) {
    out[0] = 0;
    add_distances(t, f->distance, out, room);
    if (out[0]) text_add(out, room, " from the goal");
}

// Every distance that is known, and at least one.
static int within_tolerance(const trace* t, const double* distance) {
    int known = 0;
    for (int i = 0; i < t->distance_count; i++) {
        if (isnan(distance[i])) continue;
        if (!(distance[i] <= t->distance[i].tolerance)) return 0;
        known++;
    }
    return known > 0;
}

void trace_expectation(const trace* t, const trace_frame* f, char* out, size_t room) {
    char there[200] = "", when[40] = "";
    out[0] = 0;
    add_distances(t, f->planned, there, sizeof there);
    if (f->plan < 0 || !there[0]) return;
    int step = t->macro && f->arrival > 0 ? t->plans[f->plan].step + t->macro * f->arrival : -1;
    if (within_tolerance(t, f->planned)) {
        if (step >= 0) text_add(when, sizeof when, " by step %d", step);
        text_add(out, room, "arrives%s", when);
    } else {
        // not "comes within": a plan that follows a recording beyond its horizon may lead away
        // first
        if (step >= 0) text_add(when, sizeof when, " at step %d", step);
        text_add(out, room, "%s from the goal%s", there, when);
    }
}
