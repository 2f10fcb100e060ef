// figures.h - the report's figures. Each is about 360 units wide, so that it can be read on a phone
// and set side by side on a desk.
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include "report/html.h"
#include "report/inputs.h"
#include "report/svg.h"
#include "report/trace.h"

enum { FIGURE_WIDTH = 360 };

typedef struct figure {
    char file[160];  // without .svg
    char title[200];
    double width, height;
    html body;
} figure;

typedef struct figure_list {
    figure* items;
    int count;
    int failed;  // memory ran out
} figure_list;

// A new figure whose file name is made from `stem` and unlike all before; NULL when out of memory.
figure* figure_new(figure_list* list, const char* stem, double width, double height);
void figure_list_free(figure_list* list);

int figure_colour(const char* arm);  // 0..5, see svg_style: an arm keeps its colour everywhere
// "firm, factual only"
void figure_arm_name(const report_group* g, const report_entry* e, char* out, size_t room);

// Cuts a label that would run into the plot; the table has the whole name.
void figure_short_label(const char* text, size_t most, char* out, size_t room);

// Each returns NULL when there is nothing to draw or memory ran out (list->failed). A figure stays
// in place only until the next one is made.
figure* figure_success(figure_list* list, const report_group* g);
figure* figure_trials(figure_list* list, const report_data* data, const report_group* g);
figure* figure_rollout(figure_list* list, const report_data* data, const char* task);
figure* figure_curve(figure_list* list, const report_data* data, const char* task,
                     const char* stage);
// Success of the trained model by distance of the goal; NULL where there is but one distance.
figure* figure_offsets(figure_list* list, const report_data* data, const char* task);
// A dot a trial: reached by both, by one, by neither. pair: an object of the document's "pairs".
figure* figure_pair(figure_list* list, const report_doc* d, const cJSON* pair);
figure* figure_distance(figure_list* list, const trace* t, const char* stem, svg_plot* plot);

#endif
