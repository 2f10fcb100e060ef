// labels.h - where the words of a traced episode stand in its picture.
#ifndef REPORT_LABELS_H
#define REPORT_LABELS_H

#include "report/trace.h"

typedef struct label_box {
    double left, top, right, bottom;  // image pixels
} label_box;

// A box for every label of the trace, in their order, for letters of this size in image pixels. A
// label of a ring stands near it, where it covers least of the rings and of the labels before it.
void labels_place(const trace* t, double letter_width, double letter_height,
                  label_box out[TRACE_LABELS]);

#endif
