// figures.c - success bars with seeds, the trial grid, rollout error by horizon and the distance of
// a traced episode. Training curves are in curves.c.
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "report/paper.h"
#include "report/series.h"

enum { WIDTH = 360 };

figure* figure_new(figure_list* list, const char* stem, double width, double height) {
    char slug[120], file[160];
    html_slug(stem, slug, sizeof slug);
    snprintf(file, sizeof file, "%s", slug);
    for (int again = 2, i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].file, file) != 0) continue;
        snprintf(file, sizeof file, "%s-%d", slug, again++);
        i = -1;
    }
    figure* f = report_append(&list->items, &list->count, sizeof *f);
    if (!f) {
        list->failed = 1;
        return NULL;
    }
    memcpy(f->file, file, sizeof file);
    f->width = width;
    f->height = height;
    return f;
}

void figure_list_free(figure_list* list) {
    for (int i = 0; i < list->count; i++) html_free(&list->items[i].body);
    mem_free(list->items);
    list->items = NULL;
    list->count = 0;
}

int figure_colour(const char* arm) {
    static const char* const names[] = {"firm", "lewm", "oracle-dynamics", "oracle-config",
                                        "random"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(names[i], arm) == 0) return i;
    }
    return 5;
}

void figure_arm_name(const report_entry* e, char* out, size_t room) {
    snprintf(out, room, "%s%s%s%s%s", e->arm, e->variant[0] ? ", " : "", e->variant,
             e->edition[0] ? ", " : "", e->edition);
}

// Cuts a label that would run into the plot; the table has the whole name.
static void short_label(const char* text, size_t most, char* out, size_t room) {
    if (strlen(text) <= most) {
        snprintf(out, room, "%s", text);
        return;
    }
    size_t n = most - 1;
    while (n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;  // not inside a character
    snprintf(out, room, "%.*s\u2026", (int)n, text);
}

// ---- success bars -------------------------------------------------------------------------------

static void success_bar(html* h, const svg_plot* p, const report_group* g, const report_entry* e,
                        double y) {
    int colour = figure_colour(e->arm);
    double x = svg_x(p, e->mean);
    char name[96], label[100], value[64];
    figure_arm_name(e, name, sizeof name);
    short_label(name, 16, label, sizeof label);
    svg_label(h, p->left - 8, y + 4, "end", "", label);
    html_add(
        h, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"15\" rx=\"1.5\" class=\"f%d\"/>\n",
        p->left, y - 7.5, fmax(x - p->left, 0.8), colour);
    stats_interval ci = e->count > 1 ? (stats_interval){e->mean - e->sd, e->mean + e->sd}
                                     : series_run_interval(&e->rows[0]);
    if (isfinite(ci.lo) && isfinite(ci.hi)) {
        double a = svg_x(p, ci.lo), b = svg_x(p, ci.hi);
        html_add(h,
                 "<path class=\"whisker\" d=\"M%.1f %.1fV%.1fM%.1f %.1fH%.1fM%.1f %.1fV%.1f\"/>\n",
                 a, y - 4, y + 4, a, y, b, b, y - 4, y + 4);
    }
    for (int i = 0; i < e->count && e->count > 1; i++) {
        // seeds in a row of dots, each a little lower than the last, so that equal ones stay apart
        double shift = e->count > 1 ? (i - (e->count - 1) / 2.0) * fmin(4, 12.0 / e->count) : 0;
        html_add(h, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" class=\"dot\"/>\n",
                 svg_x(p, e->rows[i].rate), y + shift);
    }
    paper_value paper = paper_success(g->task, e->arm, e->variant);
    if (strcmp(g->mode, "contract") == 0 && g->offset == 25 && isfinite(paper.mean)) {
        double px = svg_x(p, paper.mean);
        html_add(h, "<path class=\"paper\" d=\"M%.1f %.1fl4.5 -6h-9z\"/>\n", px, y - 9);
    }
    snprintf(value, sizeof value, "%.1f", e->mean);
    svg_label(h, WIDTH - 4, y + 4, "end", "strong", value);
}

figure* figure_success(figure_list* list, const report_group* g) {
    char stem[200];
    snprintf(stem, sizeof stem, "success-%.60s-%.40s-%d", g->task, g->mode, g->offset);
    figure* f = figure_new(list, stem, WIDTH, 30 + 28 * g->count + 40);
    if (!f) return NULL;
    snprintf(f->title, sizeof f->title, "Success on %.60s, %.40s mode, goals %d controls away",
             paper_task_title(g->task), g->mode, g->offset);
    svg_plot p = {.left = 112,
                  .top = 16,
                  .right = WIDTH - 56,
                  .bottom = f->height - 40,
                  .x0 = 0,
                  .x1 = 100,
                  .y1 = 1};
    html* h = &f->body;
    static const double ticks[] = {0, 25, 50, 75, 100};
    for (int i = 1; i < 5; i++) {
        html_add(h, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n",
                 svg_x(&p, ticks[i]), p.top, svg_x(&p, ticks[i]), p.bottom);
    }
    svg_axis_x(h, &p, ticks, 5, "success (%)");
    for (int i = 0; i < g->count; i++) success_bar(h, &p, g, &g->entries[i], p.top + 21 + 28 * i);
    return f;
}

// ---- trial grid ---------------------------------------------------------------------------------

static const char* outcome_class(const cJSON* o) {
    double v = cJSON_IsTrue(o) ? 1 : cJSON_IsNumber(o) ? o->valuedouble : 0;
    return v == 0 ? "miss" : v == 2 ? "start" : "hit";
}

enum { PER_LINE = 25, LABEL = 92, MAX_TRIALS = 1000 };

static int outcome_count(const report_row* r) {
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(r->json, "outcomes"));
}

// One row of cells: trials first .. first + 24 of one arm in one run.
static void grid_row(html* h, const report_row* r, const char* label, int first, double y) {
    const cJSON* list = cJSON_GetObjectItemCaseSensitive(r->json, "outcomes");
    const cJSON* o = cJSON_GetArrayItem(list, first);
    double pitch = (WIDTH - LABEL) / (double)PER_LINE;
    char shown[64];
    if (!o) return;
    short_label(label, 16, shown, sizeof shown);
    svg_label(h, LABEL - 7, y + 8.5, "end", "small", shown);
    for (int i = first; o && i < first + PER_LINE && i < MAX_TRIALS; i++, o = o->next) {
        const char* cls = outcome_class(o);
        const char* what = cls[0] == 'm'   ? "missed"
                           : cls[0] == 's' ? "solved at the start"
                                           : "reached";
        html_add(h,
                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"9.4\" height=\"9.4\" rx=\"1\" class=\"%s\">"
                 "<title>trial %d: %s</title></rect>\n",
                 LABEL + (i - first) * pitch, y, cls, i + 1, what);
    }
}

// The same 25 trials for all arms, one below the other.
static void grid_block(html* h, const report_data* data, const report_group* g, int first,
                       double top) {
    double y = top;
    for (int i = 0; i < g->count; i++) {
        const report_entry* e = &g->entries[i];
        int pale = strcmp(e->arm, "random") == 0;  // its misses are no news
        char name[160];
        figure_arm_name(e, name, sizeof name);
        if (pale) html_put(h, "<g opacity=\".45\">\n");
        for (int k = 0; k < e->count; k++) {
            if (!outcome_count(&e->rows[k])) continue;
            grid_row(h, &e->rows[k], k ? data->runs[e->rows[k].run].label : name, first, y);
            y += 11.5;
        }
        if (pale) html_put(h, "</g>\n");
        y += 3;
    }
}

figure* figure_trials(figure_list* list, const report_data* data, const report_group* g) {
    int rows = 0, trials = 0;
    for (int i = 0; i < g->count; i++) {
        for (int k = 0; k < g->entries[i].count; k++) {
            int n = outcome_count(&g->entries[i].rows[k]);
            rows += n > 0;
            if (n > trials) trials = n;
        }
    }
    if (trials > MAX_TRIALS) trials = MAX_TRIALS;
    if (!rows) return NULL;
    int lines = (trials + PER_LINE - 1) / PER_LINE;
    double block = 11.5 * rows + 3 * g->count + 20, x = LABEL;
    char stem[200], text[64];
    snprintf(stem, sizeof stem, "trials-%.60s-%.40s-%d", g->task, g->mode, g->offset);
    figure* f = figure_new(list, stem, WIDTH, lines * block + 26);
    if (!f) return NULL;
    snprintf(f->title, sizeof f->title,
             "Outcome of every trial on %.60s, %.40s mode, goals %d controls away",
             paper_task_title(g->task), g->mode, g->offset);
    html* h = &f->body;
    for (int line = 0; line < lines; line++) {
        int first = line * PER_LINE, last = first + PER_LINE < trials ? first + PER_LINE : trials;
        snprintf(text, sizeof text, "trials %d\u2013%d", first + 1, last);
        svg_label(h, LABEL, line * block + 10, "start", "dim small", text);
        grid_block(h, data, g, first, line * block + 14);
    }
    static const char* const key[3][2] = {
        {"hit", "reached"}, {"start", "solved at the start"}, {"miss", "missed"}};
    int starts = h->data && strstr(h->data, "class=\"start\"") != NULL;
    for (int i = 0; i < 3; i++) {
        double y = f->height - 12;
        if (i == 1 && !starts) continue;
        html_add(
            h, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9.4\" height=\"9.4\" rx=\"1\" class=\"%s\"/>\n",
            x, y, key[i][0]);
        svg_label(h, x + 14, y + 8.5, "start", "dim small", key[i][1]);
        x += 30 + 5.4 * (double)strlen(key[i][1]);
    }
    return f;
}

// ---- rollout error ------------------------------------------------------------------------------

typedef struct error_line {
    const cJSON* values;
    int run, dashed;
    const char* what;
} error_line;

enum { MAX_LINES = 24 };

static int collect_errors(const report_data* data, const char* task, error_line* lines) {
    int n = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        if ((d->kind != DOC_TRAIN && d->kind != DOC_EVAL && d->kind != DOC_HELD_OUT) ||
            strcmp(report_text(d->json, "task"), task) != 0)
            continue;
        const cJSON* mean = report_series(d->json, "rollout_error");
        const cJSON* p95 = report_series(d->json, "rollout_error_p95");
        const char* what = d->kind == DOC_TRAIN ? "" : ", eval";
        if (mean && n < MAX_LINES) lines[n++] = (error_line){mean, d->run, 0, what};
        if (p95 && n < MAX_LINES) lines[n++] = (error_line){p95, d->run, 1, what};
    }
    return n;
}

// Moves labels apart that would overlap; y sorted by the caller's order is kept close to its value.
static void spread_labels(double* y, int n, double gap, double top, double bottom) {
    for (int pass = 0; pass < 50; pass++) {
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < n; k++) {
                double d = y[k] - y[i];
                if (i == k || fabs(d) >= gap) continue;
                double push = (gap - fabs(d)) / 2 + 0.01;
                int up = d > 0 || (d == 0 && k > i);
                y[k] += up ? push : -push;
                y[i] -= up ? push : -push;
            }
        }
        for (int i = 0; i < n; i++) y[i] = fmax(top, fmin(bottom, y[i]));
    }
}

figure* figure_rollout(figure_list* list, const report_data* data, const char* task) {
    error_line lines[MAX_LINES];
    int n = collect_errors(data, task, lines), horizon = 0;
    double top = 0, x[64], y[64], label_y[MAX_LINES];
    for (int i = 0; i < n; i++) {
        const cJSON* v;
        int count = cJSON_GetArraySize(lines[i].values);
        if (count > horizon) horizon = count > 64 ? 64 : count;
        cJSON_ArrayForEach(v, lines[i].values) top = fmax(top, v->valuedouble);
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
        int count = 0;
        char cls[48];
        const cJSON* v;
        cJSON_ArrayForEach(v, lines[i].values) {
            if (count == 64) break;
            x[count] = count + 1;
            y[count++] = v->valuedouble;
        }
        snprintf(cls, sizeof cls, "%s l%d", lines[i].dashed ? "thin dash" : "main",
                 lines[i].run % 6);
        svg_line(h, &p, x, y, count, cls);
        for (int k = 0; k < count && !lines[i].dashed; k++) {
            html_add(h, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"f%d\"/>\n",
                     svg_x(&p, x[k]), svg_y(&p, y[k]), lines[i].run % 6);
        }
        label_y[i] = svg_y(&p, y[count - 1]) + 4;
    }
    spread_labels(label_y, n, 13, p.top, p.bottom + 4);
    for (int i = 0; i < n; i++) {
        char text[200], label[64];
        const char* what = lines[i].dashed ? "95th pct." : "mean";
        if (data->run_count > 1) {
            snprintf(text, sizeof text, "%s %s", what, data->runs[lines[i].run].label);
        } else {
            snprintf(text, sizeof text, "%s%s", what, lines[i].what);
        }
        short_label(text, 17, label, sizeof label);
        svg_label(h, p.right + 8, label_y[i], "start", lines[i].dashed ? "dim small" : "small",
                  label);
    }
    return f;
}

// ---- distance of an episode ---------------------------------------------------------------------

figure* figure_distance(figure_list* list, const trace* t, const char* stem, svg_plot* plot) {
    int n = t->frame_count;
    double *x = mem_alloc((size_t)n * sizeof *x), *y = mem_alloc((size_t)n * sizeof *y), top = 0;
    figure* f = NULL;
    if (!x || !y) list->failed = 1;
    if (x && y && t->distance_count && n > 1) f = figure_new(list, stem, WIDTH, 190);
    if (f) {
        int one = t->distance_count == 1;
        double tolerance = one ? t->distance[0].tolerance : 1;
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < t->distance_count; k++) {
                double d = one ? t->frames[i].distance[k]
                               : t->frames[i].distance[k] / t->distance[k].tolerance;
                if (isfinite(d)) top = fmax(top, d);
            }
        }
        if (isfinite(tolerance)) top = fmax(top, 1.15 * tolerance);
        snprintf(f->title, sizeof f->title, "Distance to the goal over the episode on %.80s",
                 paper_task_title(t->task));
        svg_plot p = {.left = 40,
                      .top = 26,
                      .right = WIDTH - 8,
                      .bottom = 150,
                      .x0 = t->frames[0].step,
                      .x1 = t->frames[n - 1].step,
                      .y1 = svg_nice_top(top)};
        html* h = &f->body;
        double ticks[16];
        char name[200];
        if (one)
            snprintf(name, sizeof name, "%.60s to goal (%.20s), as the controller sees it",
                     t->distance[0].name, t->distance[0].unit);
        else
            snprintf(name, sizeof name,
                     "distances to goal (tolerances), as the controller sees them");
        svg_axis_y(h, &p, name);
        svg_axis_x(h, &p, ticks, svg_ticks(p.x0, p.x1, 6, ticks), "control step");
        if (isfinite(tolerance)) {
            double ty = svg_y(&p, tolerance);
            html_add(
                h,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"thin dash l2\"/>\n",
                p.left, ty, p.right, ty);
            svg_label(h, p.left + 4, ty - 4, "start", "small dim", "tolerance");
        }
        for (int k = 0; k < t->distance_count; k++) {
            char cls[32];
            for (int i = 0; i < n; i++) {
                x[i] = t->frames[i].step;
                y[i] = one ? t->frames[i].distance[k]
                           : t->frames[i].distance[k] / t->distance[k].tolerance;
            }
            snprintf(cls, sizeof cls, "main l%d", k % 6);
            svg_line(h, &p, x, y, n, cls);
            if (!one && isfinite(y[0]))
                svg_label(h, p.left + 6, svg_y(&p, y[0]) - 4, "start", "small dim",
                          t->distance[k].name);
        }
        *plot = p;
    }
    mem_free(x);
    mem_free(y);
    return f;
}
