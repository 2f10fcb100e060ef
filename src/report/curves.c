// curves.c - training curves: one small figure per stage, a smoothed line over the raw values, on a
// logarithmic axis where the loss falls by an order of magnitude or more.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "report/figures.h"

enum { WIDTH = FIGURE_WIDTH, HEIGHT = 232, MAX_LINES = 12, MAX_POINTS = 360 };

typedef struct curve {
    char label[160];
    int colour, main, dashed, n;
    double x[MAX_POINTS], raw[MAX_POINTS], smooth[MAX_POINTS];
} curve;

static int stage_of(const report_metrics* m, const char* name) {
    for (int i = 0; i < m->stages; i++) {
        if (strcmp(m->stage[i], name) == 0) return i;
    }
    return -1;
}

// Averages of consecutive rows, so that a long stage still is a small figure. Not-finite values
// (a diverged loss) stay as gaps.
static void take_points(const report_metrics* m, int stage, int column, curve* c) {
    int rows = 0;
    for (int i = 0; i < m->rows; i++) rows += m->row_stage[i] == stage;
    int each = (rows + MAX_POINTS - 1) / MAX_POINTS, inside = 0, valid = 0;
    double sx = 0, sy = 0;
    c->n = 0;
    for (int i = 0, seen = 0; i < m->rows; i++) {
        if (m->row_stage[i] != stage) continue;
        const double* row = m->values + (size_t)i * (size_t)m->columns;
        sx += row[m->update];
        inside++;
        if (isfinite(row[column])) sy += row[column], valid++;
        if (++seen == rows || inside == each) {
            c->x[c->n] = sx / inside;
            c->raw[c->n++] = valid ? sy / valid : NAN;
            sx = sy = 0;
            inside = valid = 0;
        }
    }
}

// Mean over a window of about a twentieth of the stage. At the start, where a loss falls steeply,
// the window shrinks on both sides; at the end it only loses its later half.
static void smooth_points(curve* c) {
    int reach = c->n / 40 + 1;
    for (int i = 0; i < c->n; i++) {
        int k = i < reach ? i : reach, end = i + k < c->n ? i + k : c->n - 1;
        double sum = 0;
        int count = 0;
        for (int j = i - k; j <= end; j++) {
            if (isfinite(c->raw[j])) sum += c->raw[j], count++;
        }
        c->smooth[i] = count && isfinite(c->raw[i]) ? sum / count : NAN;
    }
}

static int has_values(const curve* c) {
    int valid = 0;
    for (int i = 0; i < c->n; i++) valid += isfinite(c->raw[i]);
    return valid >= 2;
}

// A stage with a single term has it twice, as the term and as the loss.
static int same_curve(const curve* a, const curve* b) {
    if (a->n != b->n) return 0;
    for (int i = 0; i < a->n; i++) {
        if (isfinite(a->raw[i]) && !(fabs(a->raw[i] - b->raw[i]) <= 1e-6 * fabs(a->raw[i])))
            return 0;
    }
    return 1;
}

static int is_aside(const char* column) {
    return !strcmp(column, "lr") || !strcmp(column, "seconds") || !strcmp(column, "grad_norm");
}

// An intervention term i_X is drawn like its factual twin X, dashed.
static void set_look(curve* c, int n, int several_runs) {
    curve* one = &c[n];
    one->colour = one->main && !several_runs ? 0 : n % 6;
    if (several_runs || strncmp(one->label, "i_", 2) != 0) return;
    for (int i = 0; i < n; i++) {
        if (strcmp(c[i].label, one->label + 2) != 0) continue;
        one->colour = c[i].colour;
        one->dashed = 1;
    }
}

// One run: its loss and its terms. Several runs: their losses side by side.
static int collect(const report_data* data, const char* task, const char* stage, curve* c) {
    int n = 0, runs = 0;
    for (int i = 0; i < data->metrics_count; i++) {
        const report_metrics* m = &data->metrics[i];
        runs += strcmp(data->runs[m->run].task, task) == 0 && stage_of(m, stage) >= 0;
    }
    for (int i = 0; i < data->metrics_count; i++) {
        const report_metrics* m = &data->metrics[i];
        int s = stage_of(m, stage);
        if (s < 0 || strcmp(data->runs[m->run].task, task) != 0) continue;
        for (int k = 0; k < m->columns && n < MAX_LINES; k++) {
            const char* name = m->column[k];
            int main = k == m->loss;
            if (k == m->update || is_aside(name) || (runs > 1 && !main)) continue;
            take_points(m, s, k, &c[n]);
            if (!has_values(&c[n]) || (!main && n && same_curve(&c[0], &c[n]))) continue;
            smooth_points(&c[n]);
            c[n].main = main;
            snprintf(c[n].label, sizeof c[n].label, "%s",
                     runs > 1 ? data->runs[m->run].label : name);
            set_look(c, n, runs > 1);
            n++;
        }
    }
    return n;
}

// The losses decide on the axis. Their terms may lie lower, but one that vanishes must not stretch
// a logarithmic axis over empty decades.
static void set_range(const curve* c, int n, svg_plot* p) {
    double lo = INFINITY, hi = -INFINITY, raw_hi = -INFINITY, term_lo = INFINITY,
           term_hi = -INFINITY;
    p->x0 = INFINITY;
    p->x1 = -INFINITY;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < c[i].n; k++) {
            double v = c[i].smooth[k];
            p->x0 = fmin(p->x0, c[i].x[k]);
            p->x1 = fmax(p->x1, c[i].x[k]);
            if (!isfinite(v)) continue;
            term_hi = fmax(term_hi, v);
            if (v > 0) term_lo = fmin(term_lo, v);
            if (!c[i].main) continue;
            lo = fmin(lo, v), hi = fmax(hi, v), raw_hi = fmax(raw_hi, c[i].raw[k]);
        }
    }
    if (lo > hi) lo = term_lo, hi = raw_hi = term_hi;  // terms without a loss
    if (p->x0 > 0 && p->x0 < 0.2 * p->x1) p->x0 = 0;
    p->log_y = lo > 0 && hi / lo > 10;
    if (p->log_y) {
        p->y0 = fmax(fmin(lo, term_lo), lo / 100) / 1.3;
        p->y1 = fmax(hi, fmin(raw_hi, 2 * hi)) * 1.15;
    } else if (lo >= 0) {
        p->y0 = 0, p->y1 = svg_nice_top(fmax(hi, fmin(raw_hi, 1.5 * hi)));
    } else {
        double pad = fmax(0.08 * (hi - lo), 1e-12);
        p->y0 = lo - pad, p->y1 = hi + pad;
    }
}

static void end_labels(html* h, const curve* c, int n, const svg_plot* p) {
    svg_end ends[MAX_LINES];
    for (int i = 0; i < n; i++) {
        int last = c[i].n - 1;
        while (last > 0 && !isfinite(c[i].smooth[last])) last--;
        ends[i].y = svg_y(p, c[i].smooth[last]);
        snprintf(ends[i].cls, sizeof ends[i].cls, "small f%d%s", c[i].colour,
                 c[i].main ? " strong" : "");
        snprintf(ends[i].text, sizeof ends[i].text, "%.15s", c[i].label);
    }
    svg_end_labels(h, p, ends, n);
}

figure* figure_curve(figure_list* list, const report_data* data, const char* task,
                     const char* stage) {
    curve* c = mem_calloc(MAX_LINES, sizeof *c);
    int n = c ? collect(data, task, stage, c) : 0;
    figure* f = NULL;
    char stem[160];
    if (!c) list->failed = 1;
    snprintf(stem, sizeof stem, "curve-%.60s-%.60s", task, stage);
    if (n) f = figure_new(list, stem, WIDTH, HEIGHT);
    if (f) {
        svg_plot p = {.left = 50, .top = 28, .right = WIDTH - 82, .bottom = HEIGHT - 40};
        double ticks[16];
        char cls[32];
        html* h = &f->body;
        snprintf(f->title, sizeof f->title, "Training loss of stage %.60s", stage);
        set_range(c, n, &p);
        svg_axis_y(h, &p, p.log_y ? "loss (log scale)" : "loss");
        svg_axis_x(h, &p, ticks, svg_ticks(p.x0, p.x1, 4, ticks), "updates");
        for (int i = n - 1; i >= 0; i--) {
            if (!c[i].main && n > 4) continue;  // too many pale lines say nothing
            snprintf(cls, sizeof cls, "raw l%d", c[i].colour);
            svg_line(h, &p, c[i].x, c[i].raw, c[i].n, cls);
        }
        for (int i = n - 1; i >= 0; i--) {
            snprintf(cls, sizeof cls, "%s%s l%d", c[i].main ? "main" : "thin",
                     c[i].dashed ? " dash" : "", c[i].colour);
            svg_line(h, &p, c[i].x, c[i].smooth, c[i].n, cls);
        }
        end_labels(h, c, n, &p);
    }
    mem_free(c);
    return f;
}
