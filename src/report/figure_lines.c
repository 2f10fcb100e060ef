// figure_lines.c - figures of lines: the model's error by horizon, success by distance of the goal,
// and the distance to the goal over a traced episode.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "report/figures.h"
#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

enum { WIDTH = FIGURE_WIDTH };

// ---- rollout error ------------------------------------------------------------------------------

typedef struct error_line {
    const cJSON* values;
    int run, dashed;
    const char* what;
} error_line;

enum { MAX_LINES = 12, MAX_STEPS = 64 };

static int may_have_errors(const report_doc* d, const char* task) {
    return (d->kind == DOC_TRAIN || d->kind == DOC_EVAL || d->kind == DOC_HELD_OUT) &&
           strcmp(report_text(d->json, "task"), task) == 0;
}

// Means, and the 95th percentiles where few enough lines leave room to tell them apart.
static int collect_errors(const report_data* data, const char* task, error_line* lines) {
    static const char* const keys[] = {"rollout_error", "rollout_error_p95"};
    int n = 0;
    for (int k = 0; k < 2 && n <= MAX_LINES / 2; k++) {
        for (int i = 0; i < data->doc_count && n < MAX_LINES; i++) {
            const report_doc* d = &data->docs[i];
            if (!may_have_errors(d, task)) continue;
            const cJSON* values = report_series(d->json, keys[k]);
            const char* what = d->kind == DOC_TRAIN ? "" : ", eval";
            if (values) lines[n++] = (error_line){values, d->run, k, what};
        }
    }
    return n;
}

static int read_points(const cJSON* values, double x[MAX_STEPS], double y[MAX_STEPS]) {
    int n = 0;
    const cJSON* v;
    cJSON_ArrayForEach(v, values) {
        if (n == MAX_STEPS) break;
        x[n] = n + 1;
        y[n++] = v->valuedouble;
    }
    return n;
}

static void name_error(const report_data* data, const error_line* l, svg_end* end) {
    char text[200];
    const char* what = l->dashed ? "95th pct." : "mean";
    if (data->run_count > 1)
        snprintf(text, sizeof text, "%s %s", what, data->runs[l->run].label);
    else
        snprintf(text, sizeof text, "%s%s", what, l->what);
    figure_short_label(text, 16, end->text, sizeof end->text);
    snprintf(end->cls, sizeof end->cls, "%s", l->dashed ? "dim small" : "small");
}

figure* figure_rollout(figure_list* list, const report_data* data, const char* task) {
    error_line lines[MAX_LINES];
    int n = collect_errors(data, task, lines), horizon = 0;
    double top = 0, x[MAX_STEPS], y[MAX_STEPS];
    svg_end ends[MAX_LINES];
    for (int i = 0; i < n; i++) {
        int count = read_points(lines[i].values, x, y);
        if (count > horizon) horizon = count;
        for (int k = 0; k < count; k++) top = fmax(top, y[k]);
    }
    if (!n) return NULL;
    char stem[120];
    snprintf(stem, sizeof stem, "rollout-error-%.80s", task);
    figure* f = figure_new(list, stem, WIDTH, 230);
    if (!f) return NULL;
    snprintf(f->title, sizeof f->title, "Rollout error by horizon on %.80s",
             paper_task_title(task));
    svg_plot p = {.left = 46,
                  .top = 28,
                  .right = WIDTH - 92,
                  .bottom = 190,
                  .x0 = horizon > 1 ? 1 : 0,
                  .x1 = horizon > 1 ? horizon : 2,
                  .y1 = svg_nice_top(top)};
    html* h = &f->body;
    double ticks[16];
    int tick_count = 0;
    for (int k = 1, each = (horizon + 15) / 16; k <= horizon && tick_count < 16; k += each)
        ticks[tick_count++] = k;
    svg_axis_y(h, &p, "error (tolerances)");
    svg_axis_x(h, &p, ticks, tick_count, "macro steps ahead");
    for (int i = 0; i < n; i++) {
        int count = read_points(lines[i].values, x, y);
        char cls[48];
        snprintf(cls, sizeof cls, "%s l%d", lines[i].dashed ? "thin dash" : "main",
                 lines[i].run % 6);
        svg_line(h, &p, x, y, count, cls);
        for (int k = 0; k < count && !lines[i].dashed; k++)
            svg_dot(h, svg_x(&p, x[k]), svg_y(&p, y[k]), lines[i].run % 6);
        ends[i].y = svg_y(&p, y[count - 1]);
        name_error(data, &lines[i], &ends[i]);
    }
    svg_end_labels(h, &p, ends, n);
    return f;
}

// ---- success by distance ------------------------------------------------------------------------

enum { MAX_OFFSETS = 16, MODES = 2 };
static const char* const modes[MODES] = {"contract", "reach"};

typedef struct offset_point {
    int offset;
    estimate rate;  // of trials that were not solved at the start; percent
} offset_point;

static int is_own(const char* edition) {
    return !edition[0] || strcmp(edition, "unsolved pairs") == 0;
}

static int is_shipped(const char* edition) {
    return strcmp(edition, STUDY_SHIPPED) == 0;
}

// A model's rates in a mode, by distance. Returns how many.
static int read_offsets(figure_list* list, const report_data* data, const char* task,
                        const char* mode, int (*wanted)(const char* edition),
                        offset_point out[MAX_OFFSETS]) {
    int n = 0;
    firm_error err;
    for (int i = 0; i < data->group_count && n < MAX_OFFSETS; i++) {
        const report_group* g = &data->groups[i];
        if (strcmp(g->task, task) != 0 || strcmp(g->mode, mode) != 0) continue;
        for (int k = 0; k < g->count; k++) {
            const report_entry* e = &g->entries[k];
            series s;
            if (strcmp(e->arm, "firm") != 0 || e->variant[0] || !wanted(e->edition)) continue;
            if (series_make(e, 1, &s, &err) != FIRM_OK) {
                list->failed = 1;
                return 0;
            }
            offset_point p = {g->offset, series_rate(&s)};
            series_free(&s);
            if (!p.rate.trials) break;
            int at = n++;
            for (; at > 0 && out[at - 1].offset > p.offset; at--) out[at] = out[at - 1];
            out[at] = p;
            break;
        }
    }
    return n;
}

static void draw_offsets(html* h, const svg_plot* p, const offset_point* point, int n, int mode) {
    double x[MAX_OFFSETS], y[MAX_OFFSETS], shift = mode ? 3 : -3;  // whiskers side by side
    char cls[32];
    for (int i = 0; i < n; i++) x[i] = point[i].offset, y[i] = point[i].rate.mean;
    snprintf(cls, sizeof cls, "main l%d", mode ? 0 : 3);
    svg_line(h, p, x, y, n, cls);
    for (int i = 0; i < n; i++) {
        double at = svg_x(p, x[i]) + shift, lo = svg_y(p, point[i].rate.lo),
               hi = svg_y(p, point[i].rate.hi);
        html_add(h,
                 "<path class=\"thin l%d\" d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1fM%.1f %.1fH%.1f\"/>\n",
                 mode ? 0 : 3, at - 3, lo, at + 3, at, lo, hi, at - 3, hi, at + 3);
        svg_dot(h, svg_x(p, x[i]), svg_y(p, y[i]), mode ? 0 : 3);
    }
}

typedef struct offset_lines {
    offset_point point[MODES][MAX_OFFSETS];
    int n[MODES];
    double ticks[2 * MAX_OFFSETS];  // distances of either mode
    int count, least, most;
} offset_lines;

static offset_lines read_modes(figure_list* list, const report_data* data, const char* task,
                               int (*wanted)(const char* edition)) {
    offset_lines o = {0};
    for (int m = 0; m < MODES; m++) {
        o.n[m] = read_offsets(list, data, task, modes[m], wanted, o.point[m]);
        for (int i = 0; i < o.n[m]; i++) {
            int known = 0, offset = o.point[m][i].offset;
            for (int k = 0; k < o.count; k++) known |= o.ticks[k] == offset;
            if (!known) o.ticks[o.count++] = offset;
            o.least = !o.least || offset < o.least ? offset : o.least;
            o.most = offset > o.most ? offset : o.most;
        }
    }
    return o;
}

figure* figure_offsets(figure_list* list, const report_data* data, const char* task) {
    offset_lines o = read_modes(list, data, task, is_shipped);
    int shipped = o.count > 1;
    if (!shipped) o = read_modes(list, data, task, is_own);
    if (o.count < 2) return NULL;
    char stem[120];
    snprintf(stem, sizeof stem, "success-by-distance-%.80s", task);
    figure* f = figure_new(list, stem, WIDTH, 230);
    if (!f) return NULL;
    snprintf(f->title, sizeof f->title, "Success by distance of the goal on %.80s%s",
             paper_task_title(task), shipped ? ", shipped model, fresh trials" : "");
    double pad = 0.08 * (o.most - o.least);
    svg_plot p = {.left = 40,
                  .top = 28,
                  .right = WIDTH - 72,
                  .bottom = 190,
                  .x0 = o.least - pad,
                  .x1 = o.most + pad,
                  .y1 = 100};
    svg_end ends[MODES];
    int named = 0;
    svg_axis_y(&f->body, &p, "success (% of trials not solved at the start)");
    svg_axis_x(&f->body, &p, o.ticks, o.count, "controls from start to goal in the recording");
    for (int m = 0; m < MODES; m++) {
        if (!o.n[m]) continue;
        draw_offsets(&f->body, &p, o.point[m], o.n[m], m);
        ends[named].y = svg_y(&p, o.point[m][o.n[m] - 1].rate.mean);
        snprintf(ends[named].text, sizeof ends[named].text, "%s", modes[m]);
        snprintf(ends[named++].cls, sizeof ends[0].cls, "small f%d", m ? 0 : 3);
    }
    svg_end_labels(&f->body, &p, ends, named);
    return f;
}

// ---- distance of an episode ---------------------------------------------------------------------

// Distances of different units share an axis in tolerances; a single one keeps its unit.
static double shown_distance(const trace* t, int frame, int k) {
    double d = t->frames[frame].distance[k];
    return t->distance_count == 1 ? d : d / t->distance[k].tolerance;
}

static void distance_axis_name(const trace* t, char* out, size_t room) {
    if (t->distance_count == 1)
        snprintf(out, room, "%.60s to the goal (%.20s), as the planner sees it",
                 t->distance[0].name, t->distance[0].unit);
    else
        snprintf(out, room, "distances to the goal (tolerances), as the planner sees them");
}

static void draw_distances(html* h, const svg_plot* p, const trace* t, double tolerance, double* x,
                           double* y) {
    svg_end ends[TRACE_DISTANCES + 1];
    int named = 0, n = t->frame_count;
    if (isfinite(tolerance)) {
        ends[named].y = svg_y(p, tolerance);
        html_add(h,
                 "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"thin dash l2\"/>\n",
                 p->left, ends[0].y, p->right, ends[0].y);
        snprintf(ends[named].cls, sizeof ends[0].cls, "small dim");
        snprintf(ends[named++].text, sizeof ends[0].text, "tolerance");
    }
    for (int k = 0; k < t->distance_count; k++) {
        char cls[32];
        double last = NAN;
        for (int i = 0; i < n; i++) {
            x[i] = t->frames[i].step;
            y[i] = shown_distance(t, i, k);
            if (isfinite(y[i])) last = y[i];
        }
        snprintf(cls, sizeof cls, "main l%d", k % 6);
        svg_line(h, p, x, y, n, cls);
        if (t->distance_count == 1 || !isfinite(last)) continue;
        ends[named].y = svg_y(p, last);
        snprintf(ends[named].cls, sizeof ends[0].cls, "small f%d", k % 6);
        figure_short_label(t->distance[k].name, 15, ends[named].text, sizeof ends[0].text);
        named++;
    }
    svg_end_labels(h, p, ends, named);
}

figure* figure_distance(figure_list* list, const trace* t, const char* stem, svg_plot* plot) {
    int n = t->frame_count;
    double *x = mem_alloc((size_t)n * sizeof *x), *y = mem_alloc((size_t)n * sizeof *y), top = 0;
    figure* f = NULL;
    if (!x || !y) list->failed = 1;
    if (x && y && t->distance_count && n > 1) f = figure_new(list, stem, WIDTH, 190);
    if (f) {
        double tolerance = t->distance_count == 1 ? t->distance[0].tolerance : 1;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < t->distance_count; k++)
                if (isfinite(shown_distance(t, i, k))) top = fmax(top, shown_distance(t, i, k));
        if (isfinite(tolerance)) top = fmax(top, 1.15 * tolerance);
        snprintf(f->title, sizeof f->title, "Distance to the goal over the episode on %.80s",
                 paper_task_title(t->task));
        svg_plot p = {.left = 40,
                      .top = 26,
                      .right = WIDTH - (t->distance_count == 1 ? 62 : 94),
                      .bottom = 150,
                      .x0 = t->frames[0].step,
                      .x1 = t->frames[n - 1].step,
                      .y1 = svg_nice_top(top)};
        double ticks[16];
        char name[200];
        distance_axis_name(t, name, sizeof name);
        svg_axis_y(&f->body, &p, name);
        svg_axis_x(&f->body, &p, ticks, svg_ticks(p.x0, p.x1, 6, ticks), "control step");
        draw_distances(&f->body, &p, t, tolerance, x, y);
        *plot = p;
    }
    mem_free(x);
    mem_free(y);
    return f;
}
