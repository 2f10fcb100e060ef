// figures.c - success bars with seeds, and the trial grid. Lines are in figure_lines.c, training
// curves in curves.c, outcomes of pairs in figure_pairs.c.
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "report/paper.h"
#include "report/series.h"

enum { WIDTH = FIGURE_WIDTH };

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

// What every arm of the group has need not be said of each.
static int common_edition(const report_group* g) {
    for (int i = 1; i < g->count; i++)
        if (strcmp(g->entries[i].edition, g->entries[0].edition) != 0) return 0;
    return g->count > 1;
}

void figure_arm_name(const report_group* g, const report_entry* e, char* out, size_t room) {
    const char* edition = common_edition(g) ? "" : e->edition;
    const size_t n = strlen(e->arm);
    // "lewm curve u7500" of the arm lewm says its arm already
    if (strncmp(edition, e->arm, n) == 0 && (!edition[n] || edition[n] == ' '))
        edition += n + (edition[n] == ' ');
    snprintf(out, room, "%s%s%s%s%s", e->arm, e->variant[0] ? ", " : "", e->variant,
             edition[0] ? ", " : "", edition);
}

void figure_short_label(const char* text, size_t most, char* out, size_t room) {
    if (strlen(text) <= most) {
        snprintf(out, room, "%s", text);
        return;
    }
    size_t n = most - 1;
    while (n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;  // not inside a character
    snprintf(out, room, "%.*s\u2026", (int)n, text);
}

// ---- success bars -------------------------------------------------------------------------------

// Percent of the trials that were solved before the first control: no arm's merit.
static double start_share(const report_entry* e) {
    double sum = 0;
    for (int i = 0; i < e->count; i++) {
        double n =
            cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(e->rows[i].json, "outcomes"));
        double solved = report_get(e->rows[i].json, "solved_at_start");
        sum += n > 0 && solved > 0 ? 100 * solved / n : 0;
    }
    return fmin(sum / e->count, e->mean);
}

static void put_bar(html* h, double x0, double x1, double y, int colour, const char* look) {
    html_add(h,
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"15\" rx=\"1.5\" "
             "class=\"f%d%s\"/>\n",
             x0, y - 7.5, x1 - x0, colour, look);
}

static void success_bar(html* h, const svg_plot* p, const report_group* g, const report_entry* e,
                        double y) {
    int colour = figure_colour(e->arm);
    double x = svg_x(p, e->mean);
    char name[96], label[100], value[64];
    figure_arm_name(g, e, name, sizeof name);
    figure_short_label(name, 16, label, sizeof label);
    svg_label(h, p->left - 8, y + 4, "end", "", label);
    double from = svg_x(p, start_share(e));
    if (from > p->left) put_bar(h, p->left, from, y, colour, " tint");
    put_bar(h, from, fmax(x, from + 0.8), y, colour, "");
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

static const char* outcome_class(const cJSON* o, const cJSON* at_start) {
    double v = cJSON_IsTrue(o) ? 1 : cJSON_IsNumber(o) ? o->valuedouble : 0;
    int start = v == 2 || (cJSON_IsNumber(at_start) && at_start->valuedouble != 0);
    return v == 0 ? "miss" : start ? "start" : "hit";
}

enum { PER_LINE = 25, LABEL = 92, MAX_TRIALS = 1000 };

static int outcome_count(const report_row* r) {
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(r->json, "outcomes"));
}

// One row of cells: trials first .. first + 24 of one arm in one run.
static void grid_row(html* h, const report_row* r, const char* label, int first, double y) {
    const cJSON* list = cJSON_GetObjectItemCaseSensitive(r->json, "outcomes");
    const cJSON* o = cJSON_GetArrayItem(list, first);
    const cJSON* solved = series_start_solved(r, first);
    double pitch = (WIDTH - LABEL) / (double)PER_LINE;
    char shown[64];
    if (!o) return;
    figure_short_label(label, 16, shown, sizeof shown);
    svg_label(h, LABEL - 7, y + 8.5, "end", "small", shown);
    for (int i = first; o && i < first + PER_LINE && i < MAX_TRIALS; i++, o = o->next) {
        const char* cls = outcome_class(o, solved);
        solved = solved ? solved->next : NULL;
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
        figure_arm_name(g, e, name, sizeof name);
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
