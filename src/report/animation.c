// animation.c - composes the frames of an episode: the picture at twice its size with the candidate
// fan, the plan and the goal's ring over it; below it the goal image, the named distance in words
// and its course so far. Then hands them to the encoder.
#include "report/animation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "report/apng.h"
#include "report/canvas.h"
#include "report/font.h"
#include "report/labels.h"

enum {
    LIMIT = 400000,  // bytes; a page or a README loads it at once
    STRIP = 116,
    MARGIN = 10,
    INSET = STRIP - 2 * MARGIN,
    LINE = 20,
    SMALL_LINE = 14,
    LINE_PIXELS = 8,          // across a line, with its soft edges
    PAINT_LIMIT = 200000000,  // pixels painted for all levels of detail but the last
};

static const colour paper = {251, 251, 249}, ink = {28, 32, 38}, grey = {112, 118, 126},
                    rule = {214, 216, 214}, blue = {50, 101, 168}, green = {55, 126, 85},
                    orange = {202, 112, 38}, white = {255, 255, 255};

// What is given up, step by step, to stay below the limit.
typedef struct detail {
    int fan;     // lines of the fan at most
    int stride;  // every n-th frame
    int over;    // transparent where nothing changed: smaller, but a little more than every viewer
                 // can do
} detail;
static const detail details[] = {{48, 1, 0}, {48, 1, 1}, {24, 1, 1}, {24, 2, 1},
                                 {12, 4, 1}, {0, 4, 1},  {0, 16, 1}};

typedef struct scene {
    const trace* t;
    canvas c;
    double scale;
    int picture_width, picture_height;
    double top_distance;  // of the course chart
    uint8_t* rgb;         // (height, width, 3): the trace's picture number `image`
    int image;
} scene;

static int scene_create(scene* s, const trace* t) {
    memset(s, 0, sizeof *s);
    s->t = t;
    s->image = -1;
    int scale = 448 / (t->width > t->height ? t->width : t->height);
    s->scale = scale < 1 ? 1 : scale;
    s->picture_width = (int)(t->width * s->scale);
    s->picture_height = (int)(t->height * s->scale);
    for (int i = 0; i < t->frame_count; i++)
        s->top_distance = fmax(s->top_distance, trace_worst(t, &t->frames[i]));
    int width = s->picture_width < 400 ? 400 : s->picture_width;
    s->rgb = mem_alloc((size_t)t->width * (size_t)t->height * 3);
    return canvas_create(&s->c, width, s->picture_height + STRIP) && s->rgb;
}

static void scene_free(scene* s) {
    canvas_free(&s->c);
    mem_free(s->rgb);
}

// Image pixels have their centres at whole numbers.
static double at(const scene* s, double v) {
    return (v + 0.5) * s->scale;
}

static void add_path(scene* s, const cJSON* path, double width) {
    const cJSON *p, *last = NULL;
    cJSON_ArrayForEach(p, path) {
        if (last) {
            canvas_line(&s->c, at(s, last->child->valuedouble),
                        at(s, last->child->next->valuedouble), at(s, p->child->valuedouble),
                        at(s, p->child->next->valuedouble), width);
        }
        last = p;
    }
}

static void add_dots(scene* s, const cJSON* path, double radius) {
    const cJSON* p;
    cJSON_ArrayForEach(p, path) {
        if (p != path->child)
            canvas_disc(&s->c, at(s, p->child->valuedouble), at(s, p->child->next->valuedouble),
                        radius);
    }
}

static void draw_plan(scene* s, const trace_plan* plan, int fan_lines) {
    int n = plan->fan ? cJSON_GetArraySize(plan->fan) : 0, i = 0;
    const cJSON* path;
    cJSON_ArrayForEach(path, plan->fan) {
        // evenly chosen lines when there are too many
        int keep = n <= fan_lines ||
                   (int64_t)i * fan_lines / n != (int64_t)(i - 1) * fan_lines / n || i == 0;
        if (keep && fan_lines) {
            add_path(s, path, 1.3);
            canvas_blend(&s->c, blue, 0.22);
        }
        i++;
    }
    if (!plan->path) return;
    add_path(s, plan->path, 5);
    canvas_blend(&s->c, white, 0.75);
    add_path(s, plan->path, 2.8);
    canvas_blend(&s->c, blue, 1);
    add_dots(s, plan->path, 5.5);
    canvas_blend(&s->c, white, 1);
    add_dots(s, plan->path, 4.2);
    canvas_blend(&s->c, blue, 1);
}

static void draw_goals(scene* s) {
    const trace* t = s->t;
    for (int i = 0; i < t->goal_count; i++) {
        double x = at(s, t->goal_xy[i][0]), y = at(s, t->goal_xy[i][1]);
        canvas_ring(&s->c, x, y, t->ring * s->scale, 4.5);
        canvas_blend(&s->c, white, 0.8);
        canvas_ring(&s->c, x, y, t->ring * s->scale, 2.4);
        canvas_disc(&s->c, x, y, 2.6);
        canvas_blend(&s->c, green, 1);
    }
}

// What is pushed, where it has to go.
static void draw_outline(scene* s) {
    const cJSON* path;
    for (int over = 0; over < 2; over++) {
        cJSON_ArrayForEach(path, s->t->outline) add_path(s, path, over ? 2.2 : 4.5);
        canvas_blend(&s->c, over ? green : white, over ? 1 : 0.8);
    }
}

static void draw_names(scene* s) {
    const double dot = 1.5, up = dot / s->scale;
    label_box box[TRACE_LABELS];
    labels_place(s->t, FONT_ADVANCE * up, 9 * up, box);
    for (int i = 0; i < s->t->label_count; i++) {
        double x = at(s, box[i].left), y = at(s, box[i].top) + dot;
        for (int k = 0; k < 9; k++)
            canvas_text(&s->c, x + 1.6 * (k % 3 - 1), y + 1.6 * (k / 3 - 1), dot,
                        s->t->label[i].text);
        canvas_blend(&s->c, white, 0.85);
        canvas_text(&s->c, x, y, dot, s->t->label[i].text);
        canvas_blend(&s->c, s->t->label[i].ring ? green : ink, 1);
    }
}

static void text_at(scene* s, double x, double y, double dot, colour c, const char* text) {
    canvas_text(&s->c, x, y, dot, text);
    canvas_blend(&s->c, c, 1);
}

// Words wrapped to the width; without a colour (c NULL) only counted. Returns the lines needed.
static int wrap_words(scene* s, double x, double y, double dot, int spacing, const colour* c,
                      const char* text) {
    int room = (int)((s->c.width - MARGIN - x) / (FONT_ADVANCE * dot)), line = 0;
    for (; *text; line++) {
        int n = (int)strlen(text), cut = n;
        if (n > room) {
            for (cut = room; cut > 0 && text[cut] != ' ';) cut--;
            if (cut == 0) cut = room;
        }
        char part[128];
        snprintf(part, sizeof part, "%.*s", cut, text);
        if (c) text_at(s, x, y + line * spacing, dot, *c, part);
        for (text += cut; *text == ' ';) text++;
    }
    return line;
}

// Two lines, or three small ones for tasks with more distances to tell.
static void draw_words(scene* s, double x, double y, const char* text) {
    if (wrap_words(s, x, y, 1.75, LINE, NULL, text) <= 2)
        wrap_words(s, x, y, 1.75, LINE, &ink, text);
    else
        wrap_words(s, x, y - 1, 1.3, SMALL_LINE, &ink, text);
}

// The distance so far as a small line, the tolerance as a dashed one.
static void draw_course(scene* s, int frame, double left, double top, double right, double bottom) {
    const trace* t = s->t;
    double tolerance = t->distance_count == 1 ? t->distance[0].tolerance : 1,
           high = fmax(s->top_distance, 1.2 * tolerance);
    if (t->distance_count == 0 || t->frame_count < 2 || !(high > 0)) return;
    double unit = (bottom - top) / high, step = (right - left) / (t->frame_count - 1);
    canvas_line(&s->c, left, bottom, right, bottom, 1);
    canvas_blend(&s->c, rule, 1);
    if (tolerance > 0) {
        for (double x = left; x < right; x += 7)
            canvas_line(&s->c, x, bottom - tolerance * unit, fmin(x + 3, right),
                        bottom - tolerance * unit, 1.2);
        canvas_blend(&s->c, green, 0.9);
    }
    double px = NAN, py = NAN;
    for (int i = 0; i <= frame; i++) {
        double d = trace_worst(t, &t->frames[i]);
        if (!isfinite(d)) continue;
        double x = left + i * step, y = bottom - d * unit;
        if (isfinite(px)) canvas_line(&s->c, px, py, x, y, 1.6);
        px = x, py = y;
    }
    if (isfinite(px)) canvas_disc(&s->c, px, py, 3.2);
    canvas_blend(&s->c, blue, 1);
}

static void draw_strip(scene* s, int frame) {
    const trace* t = s->t;
    const trace_frame* f = &t->frames[frame];
    int top = s->picture_height;
    double x = MARGIN;
    canvas_fill(&s->c, 0, top, s->c.width, STRIP, paper);
    canvas_fill(&s->c, 0, top, s->c.width, 1, rule);
    if (t->goal_rgb) {
        int w = t->width >= t->height ? INSET : INSET * t->width / t->height;
        int h = t->height >= t->width ? INSET : INSET * t->height / t->width;
        canvas_fill(&s->c, MARGIN, top + MARGIN, w, h, green);
        canvas_picture(&s->c, MARGIN + 2, top + MARGIN + 2, w - 4, h - 4, t->goal_rgb, t->width,
                       t->height);
        x += w + MARGIN + 2;
    }
    char words[256], meta[160];
    int end = frame == t->frame_count - 1;
    snprintf(meta, sizeof meta, "%.20s%s%.20s, step %d of %d", t->task, t->mode[0] ? ", " : "",
             t->mode, f->step, t->frames[t->frame_count - 1].step);
    text_at(s, x, top + MARGIN + 1, 1.3, grey, meta);
    trace_sentence(t, f, words, sizeof words);
    char plan[200];
    trace_expectation(t, f, plan, sizeof plan);
    // how near a plan comes that does not arrive is too long for the strip
    if (strncmp(plan, "arrives", 7) == 0 && !end)
        text_add(words, sizeof words, "%splan %s", words[0] ? "; " : "", plan);
    draw_words(s, x, top + MARGIN + 19, words);
    if (end)
        text_at(s, s->c.width - MARGIN - 7 * FONT_ADVANCE * 1.75, top + MARGIN, 1.75,
                t->success ? green : orange, t->success ? "reached" : " missed");
    draw_course(s, frame, x + 2, top + MARGIN + 64, s->c.width - MARGIN - 4,
                top + STRIP - MARGIN - 3);
}

static firm_status draw_frame(scene* s, int frame, const detail* d, firm_error* err) {
    const trace* t = s->t;
    const trace_frame* f = &t->frames[frame];
    if (s->image != f->image) TRY(trace_picture(t, f->image, s->rgb, err));
    s->image = f->image;
    canvas_fill(&s->c, 0, 0, s->c.width, s->picture_height, paper);
    canvas_picture(&s->c, 0, 0, s->picture_width, s->picture_height, s->rgb, t->width, t->height);
    if (f->plan >= 0) draw_plan(s, &t->plans[f->plan], d->fan);
    draw_outline(s);
    draw_goals(s);
    draw_names(s);
    draw_strip(s, frame);  // last: it covers whatever a line left outside the picture
    return FIRM_OK;
}

// Frames shown at this detail: every stride-th, and always the last. Returns -1 past the end.
static int frame_number(const trace* t, const detail* d, int i) {
    int last = t->frame_count - 1, number = i * d->stride;
    if (number < last) return number;
    return number - last < d->stride ? last : -1;
}

// Stops early, with an unfinished file, when it has grown beyond `limit`.
static firm_status encode(scene* s, const detail* d, size_t limit, apng* a, firm_error* err) {
    a->over = d->over;
    const colour exact[] = {white, paper, ink, blue, green, {0, 0, 0}};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) apng_keep(a, exact[i]);
    int count = 0;
    for (int f; (f = frame_number(s->t, d, count)) >= 0; count++) {
        TRY(draw_frame(s, f, d, err));
        apng_count(a, s->c.rgb);
    }
    TRY(apng_begin(a, count, err));
    // about six seconds, but never hectic and never sleepy; the end stands still for a while
    int delay = 6000 / count;
    delay = delay < 50 ? 50 : delay > 140 ? 140 : delay;
    for (int i = 0; i < count; i++) {
        TRY(draw_frame(s, frame_number(s->t, d, i), d, err));
        TRY(apng_frame(a, s->c.rgb, i == count - 1 ? 2200 : i == 0 ? 700 : delay, err));
        if (a->out.size >= limit) return FIRM_OK;
    }
    return apng_end(a, err);
}

// ---- what drawing costs -------------------------------------------------------------------------

// Pixels that the lines of a path can touch.
static double path_pixels(const scene* s, const cJSON* path) {
    const double most = s->c.width + s->c.height;
    const cJSON *p, *last = NULL;
    double sum = 0;
    cJSON_ArrayForEach(p, path) {
        double length = last ? hypot(p->child->valuedouble - last->child->valuedouble,
                                     p->child->next->valuedouble - last->child->next->valuedouble)
                             : 0;
        sum += LINE_PIXELS * (fmin(length * s->scale, most) + 1);
        last = p;
    }
    return sum;
}

static double plan_pixels(const scene* s, const trace_plan* plan, int fan_lines) {
    int n = plan->fan ? cJSON_GetArraySize(plan->fan) : 0;
    double sum = 0;
    const cJSON* path;
    cJSON_ArrayForEach(path, plan->fan) sum += path_pixels(s, path);
    if (n > fan_lines) sum *= (double)fan_lines / n;
    return sum + (plan->path ? 4 * path_pixels(s, plan->path) : 0);
}

// Pixels that are painted for a whole animation of this detail.
static double level_pixels(const scene* s, const detail* d) {
    double sum = 0, lines = 0;
    for (int i = 0, f, plan = -1; (f = frame_number(s->t, d, i)) >= 0; i++) {
        int now = s->t->frames[f].plan;
        if (now >= 0 && now != plan) lines = plan_pixels(s, &s->t->plans[now], d->fan);
        plan = now;
        sum += (double)s->c.width * s->c.height + lines;
    }
    return 2 * sum;  // colours are counted first
}

firm_status animation_make(const trace* t, html* png, firm_error* err) {
    scene s;
    if (!scene_create(&s, t)) {
        scene_free(&s);
        return FAIL(err, FIRM_E_MEMORY, "out of memory for the animation");
    }
    firm_status status = FIRM_OK;
    size_t levels = sizeof details / sizeof details[0];
    double painted = 0;
    for (size_t i = 0; i < levels && status == FIRM_OK; i++) {
        apng a;
        // a long episode goes on to less detail before it has taken long
        double pixels = level_pixels(&s, &details[i]);
        if (i + 1 < levels && painted + pixels > PAINT_LIMIT) continue;
        painted += pixels;
        status = apng_create(&a, s.c.width, s.c.height, err);
        if (status != FIRM_OK) break;
        size_t limit = i + 1 == levels ? SIZE_MAX : LIMIT;  // the last level is taken as it is
        status = encode(&s, &details[i], limit, &a, err);
        int good = status == FIRM_OK && a.out.size < limit;
        if (good) {
            *png = a.out;
            memset(&a.out, 0, sizeof a.out);
        }
        apng_free(&a);
        if (good) break;
    }
    scene_free(&s);
    return status;
}
