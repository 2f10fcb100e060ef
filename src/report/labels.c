// labels.c - tries places around every ring, the right side first, and takes the freest.
#include "report/labels.h"

#include <math.h>
#include <string.h>

enum { GAP = 3, EDGE = 2, PLACES = 10 };  // pixels from the ring and from the picture's edge

static double common(label_box a, label_box b) {
    double wide = fmin(a.right, b.right) - fmax(a.left, b.left),
           high = fmin(a.bottom, b.bottom) - fmax(a.top, b.top);
    return wide > 0 && high > 0 ? wide * high : 0;
}

static label_box around(double x, double y, double width, double height) {
    return (label_box){x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

// Back into the picture, where there is room for it.
static label_box keep_inside(const trace* t, label_box b) {
    double dx = fmax(EDGE - b.left, 0) - fmax(b.right - (t->width - EDGE), 0),
           dy = fmax(EDGE - b.top, 0) - fmax(b.bottom - (t->height - EDGE), 0);
    return (label_box){b.left + dx, b.top + dy, b.right + dx, b.bottom + dy};
}

// Straight beside, below or above; then at the corners, then a line farther below or above.
static label_box beside(const trace_label* l, double ring, int place, double width, double height) {
    static const int way[PLACES][2] = {{1, 0},  {-1, 0}, {0, 1},   {0, -1}, {1, 1},
                                       {-1, 1}, {1, -1}, {-1, -1}, {0, 2},  {0, -2}};
    double dx = ring + GAP + width / 2, dy = ring + GAP + height / 2;
    int across = way[place][0], down = way[place][1];
    double y = down == 2 || down == -2 ? down / 2 * (dy + height + GAP) : down * dy;
    return around(l->xy[0] + across * dx, l->xy[1] + y, width, height);
}

// Square pixels of other labels and of rings that the box covers.
static double harm(const trace* t, label_box b, const label_box* placed, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += common(b, placed[i]);
    for (int i = 0; i < t->goal_count; i++)
        sum += common(b, around(t->goal_xy[i][0], t->goal_xy[i][1], 2 * t->ring, 2 * t->ring));
    return sum;
}

void labels_place(const trace* t, double letter_width, double letter_height,
                  label_box out[TRACE_LABELS]) {
    for (int i = 0; i < t->label_count; i++) {
        const trace_label* l = &t->label[i];
        double width = letter_width * (double)strlen(l->text), least = INFINITY;
        label_box best = around(l->xy[0], l->xy[1], width, letter_height);
        for (int place = 0; l->ring && place < PLACES; place++) {
            label_box b = keep_inside(t, beside(l, t->ring, place, width, letter_height));
            double cost = harm(t, b, out, i);
            if (cost < least) least = cost, best = b;
        }
        out[i] = l->ring ? best : keep_inside(t, best);
    }
}
