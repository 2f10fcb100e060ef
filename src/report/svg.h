// svg.h - the few pieces that all figures are made of: a plot area with axes, lines, labels.
// Figures carry classes, not colours: one style sheet gives light and dark mode, in the page and in
// the files.
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include "report/html.h"

typedef struct svg_plot {
    double left, top, right, bottom;  // the plot area in the figure's units, y down
    double x0, x1, y0, y1;            // data at its edges
    int log_y;
} svg_plot;

extern const char svg_style[];  // CSS rules for all classes, light and dark

double svg_x(const svg_plot* p, double x);  // clamped to the plot area
double svg_y(const svg_plot* p, double y);
double svg_nice_top(double value);  // the next round number at or above, for linear axes from 0

// Ticks with labels, light grid lines, the base line and the axes' names with units.
void svg_axis_x(html* h, const svg_plot* p, const double* ticks, int count, const char* name);
void svg_axis_y(html* h, const svg_plot* p, const char* name);
// A line through the points; a value that is not finite interrupts it.
void svg_line(html* h, const svg_plot* p, const double* x, const double* y, int n, const char* cls);
void svg_dot(html* h, double x, double y, int colour);  // 0..5
// Text, escaped; anchor is start, middle or end.
void svg_label(html* h, double x, double y, const char* anchor, const char* cls, const char* text);
// Names at the right ends of lines, in the margin beside the plot, pushed apart where they would
// overlap; sorts `ends`.
typedef struct svg_end {
    double y;  // of the line's last point, in the figure's units
    char text[40], cls[40];
} svg_end;
void svg_end_labels(html* h, const svg_plot* p, svg_end* ends, int n);
int svg_ticks(double lo, double hi, int want, double ticks[16]);  // round numbers within lo .. hi
void svg_tick_text(double value, char out[32]);

// A whole figure around `body`: for the page (inline) or as a file of its own.
void svg_inline(html* h, double width, double height, const char* title, const html* body);
void svg_file(html* h, double width, double height, const char* title, const html* body);

#endif
