// svg.c - axes, lines and labels of the figures, and their common style sheet.
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats.h"

// f0..f5 fill and l0..l5 stroke with the series colours: blue, orange, green, teal, grey, plum.
const char svg_style[] =
    ".fig{font:11.5px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
    "font-variant-numeric:tabular-nums}\n"
    ".fig text{fill:#2b3036}.fig .dim{fill:#69717a}.fig .strong{font-weight:600}.fig "
    ".small{font-size:10.5px}\n"
    ".fig .bg{fill:#fff}.fig .grid{stroke:#e6e7e4;stroke-width:1}.fig "
    ".axis{stroke:#9aa0a6;stroke-width:1}\n"
    ".fig path,.fig polyline{fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
    ".fig .raw{stroke-width:1;opacity:.28}.fig .main{stroke-width:2}.fig .thin{stroke-width:1.3}\n"
    ".fig .dash{stroke-dasharray:4 3}.fig .whisker{stroke:#2b3036;stroke-width:1.3}\n"
    ".fig .dot{fill:#fff;stroke:#2b3036;stroke-width:1.2}.fig "
    ".paper{fill:none;stroke:#2b3036;stroke-width:1.4}\n"
    ".fig .tint{opacity:.16}.fig .cursor{stroke:#2b3036;stroke-width:1}\n"
    ".fig .hit{fill:#bed1e8}.fig .start{fill:#e3e9f0}.fig .miss{fill:#ca7026}.fig "
    ".rescued{fill:#3265a8}\n"
    ".fig .f0{fill:#3265a8}.fig .f1{fill:#ca7026}.fig .f2{fill:#377e55}.fig .f3{fill:#4f9a9a}.fig "
    ".f4{fill:#8b929a}.fig .f5{fill:#8a5a94}\n"
    ".fig .l0{stroke:#3265a8}.fig .l1{stroke:#ca7026}.fig .l2{stroke:#377e55}.fig "
    ".l3{stroke:#4f9a9a}.fig .l4{stroke:#8b929a}.fig .l5{stroke:#8a5a94}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".fig text{fill:#dfe3e6}.fig .dim{fill:#98a1a9}.fig .bg{fill:#16191d}.fig "
    ".grid{stroke:#2b3036}.fig .axis{stroke:#6a727a}\n"
    ".fig .whisker,.fig .paper,.fig .cursor{stroke:#dfe3e6}.fig .dot{fill:#16191d;stroke:#dfe3e6}\n"
    ".fig .hit{fill:#2d4a6e}.fig .start{fill:#252c35}.fig .miss{fill:#e39a55}.fig "
    ".rescued{fill:#7aa7e0}.fig "
    ".tint{opacity:.24}\n"
    ".fig .f0{fill:#7aa7e0}.fig .f1{fill:#e39a55}.fig .f2{fill:#6fbb8f}.fig .f3{fill:#6fbcbc}.fig "
    ".f4{fill:#939ba4}.fig .f5{fill:#bd8fc8}\n"
    ".fig .l0{stroke:#7aa7e0}.fig .l1{stroke:#e39a55}.fig .l2{stroke:#6fbb8f}.fig "
    ".l3{stroke:#6fbcbc}.fig .l4{stroke:#939ba4}.fig .l5{stroke:#bd8fc8}\n"
    "}\n";

static double clamp(double v, double lo, double hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

double svg_x(const svg_plot* p, double x) {
    double span = p->x1 > p->x0 ? p->x1 - p->x0 : 1;
    return clamp(p->left + (x - p->x0) / span * (p->right - p->left), p->left, p->right);
}

double svg_y(const svg_plot* p, double y) {
    double lo = p->y0, hi = p->y1;
    if (p->log_y) {
        y = log10(fmax(y, 1e-300));
        lo = log10(lo);
        hi = log10(hi);
    }
    double span = hi > lo ? hi - lo : 1;
    return clamp(p->bottom - (y - lo) / span * (p->bottom - p->top), p->top, p->bottom);
}

// 1, 2 or 5 times a power of ten, near span / want
static double tick_step(double span, int want) {
    double raw = span / (want > 0 ? want : 1), ten = pow(10, floor(log10(raw))), r = raw / ten;
    return (r < 1.5 ? 1 : r < 3.5 ? 2 : r < 7.5 ? 5 : 10) * ten;
}

double svg_nice_top(double value) {
    if (!(value > 0) || !isfinite(value)) return 1;
    double step = tick_step(value, 4);
    return step * ceil(value / step - 1e-9);
}

int svg_ticks(double lo, double hi, int want, double ticks[16]) {
    if (!(hi > lo) || !isfinite(hi - lo)) return 0;
    double step = tick_step(hi - lo, want);
    int n = 0;
    for (double k = ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step && n < 16; k++)
        ticks[n++] = k * step;
    return n;
}

void svg_tick_text(double value, char out[32]) {
    if (value == 0) {
        snprintf(out, 32, "0");
    } else if (fabs(value) >= 1e5 || fabs(value) < 1e-4) {
        snprintf(out, 32, "%.0e", value);
    } else if (fabs(value) >= 1000 && value == floor(value)) {
        // thousands apart by a thin space
        snprintf(out, 32, "%s%d\u2009%03d", value < 0 ? "\u2212" : "", (int)fabs(value) / 1000,
                 (int)fabs(value) % 1000);
    } else {
        snprintf(out, 32, "%s%.4g", value < 0 ? "\u2212" : "", fabs(value));
    }
}

void svg_label(html* h, double x, double y, const char* anchor, const char* cls, const char* text) {
    html_add(h, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, cls);
    html_text(h, text);
    html_put(h, "</text>\n");
}

void svg_dot(html* h, double x, double y, int colour) {
    html_add(h, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"f%d\"/>\n", x, y, colour);
}

static void rule(html* h, double x0, double y0, double x1, double y1, const char* cls) {
    html_add(h, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x0, y0,
             x1, y1, cls);
}

void svg_axis_x(html* h, const svg_plot* p, const double* ticks, int count, const char* name) {
    char text[32];
    rule(h, p->left, p->bottom, p->right, p->bottom, "axis");
    for (int i = 0; i < count; i++) {
        double x = svg_x(p, ticks[i]);
        rule(h, x, p->bottom, x, p->bottom + 4, "axis");
        svg_tick_text(ticks[i], text);
        svg_label(h, x, p->bottom + 16, "middle", "dim", text);
    }
    svg_label(h, (p->left + p->right) / 2, p->bottom + 32, "middle", "dim", name);
}

void svg_axis_y(html* h, const svg_plot* p, const char* name) {
    double ticks[16];
    char text[32];
    int n = 0;
    if (p->log_y) {
        // powers of ten, thinned out on long axes; on short ones also 3, or 2 and 5, times them
        static const int steps[3][3] = {{1, 2, 5}, {1, 3, 0}, {1, 0, 0}};
        double span = log10(p->y1 / p->y0), first = floor(log10(p->y0) + 1e-9);
        const int* step = steps[span < 1.6 ? 0 : span < 3 ? 1 : 2];
        int each = (int)(span / 6) + 1;
        for (double k = first; pow(10, k) <= p->y1 && n < 16; k += each) {
            for (int i = 0; i < 3 && step[i] && n < 16; i++) {
                double v = step[i] * pow(10, k);
                if (v >= p->y0 * (1 - 1e-9) && v <= p->y1 * (1 + 1e-9)) ticks[n++] = v;
            }
        }
    } else {
        n = svg_ticks(p->y0, p->y1, 4, ticks);
    }
    for (int i = 0; i < n; i++) {
        double y = svg_y(p, ticks[i]);
        if (fabs(y - p->bottom) > 0.5) rule(h, p->left, y, p->right, y, "grid");
        svg_tick_text(ticks[i], text);
        svg_label(h, p->left - 6, y + 4, "end", "dim", text);
    }
    svg_label(h, 2, p->top - 10, "start", "dim", name);  // upright: read without tilting the head
}

void svg_line(html* h, const svg_plot* p, const double* x, const double* y, int n,
              const char* cls) {
    int open = 0;
    html_add(h, "<path class=\"%s\" d=\"", cls);
    for (int i = 0; i < n; i++) {
        if (!isfinite(y[i]) || !isfinite(x[i])) {
            open = 0;
            continue;
        }
        html_add(h, "%s%.1f %.1f", open ? " " : i ? " M" : "M", svg_x(p, x[i]), svg_y(p, y[i]));
        open = 1;
    }
    html_put(h, "\"/>\n");
}

static int by_height(const void* a, const void* b) {
    return stats_order(((const svg_end*)a)->y, ((const svg_end*)b)->y);
}

void svg_end_labels(html* h, const svg_plot* p, svg_end* ends, int n) {
    enum { GAP = 13 };
    qsort(ends, (size_t)n, sizeof *ends, by_height);
    for (int i = 1; i < n; i++) ends[i].y = fmax(ends[i].y, ends[i - 1].y + GAP);
    double low = p->bottom - 2;
    for (int i = n - 1; i >= 0; i--) {
        ends[i].y = fmin(ends[i].y, low);
        low = ends[i].y - GAP;
        svg_label(h, p->right + 6, ends[i].y + 4, "start", ends[i].cls, ends[i].text);
    }
}

void svg_inline(html* h, double width, double height, const char* title, const html* body) {
    html_add(h, "<svg class=\"fig\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"", width,
             height);
    html_text(h, title);
    html_put(h, "\">\n");
    if (body->data) html_bytes(h, body->data, body->size);
    html_put(h, "</svg>\n");
    h->failed |= body->failed;
}

void svg_file(html* h, double width, double height, const char* title, const html* body) {
    html_add(h,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" width=\"%g\" height=\"%g\" "
             "viewBox=\"0 0 %g %g\">\n<title>",
             width * 1.5, height * 1.5, width, height);
    html_text(h, title);
    html_put(h, "</title>\n<style>\n");
    html_put(h, svg_style);
    html_add(h, "</style>\n<rect class=\"bg\" width=\"%g\" height=\"%g\"/>\n", width, height);
    if (body->data) html_bytes(h, body->data, body->size);
    html_put(h, "</svg>\n");
    h->failed |= body->failed;
}
