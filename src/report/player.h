// player.h - the interactive view of one traced episode inside the page.
#ifndef REPORT_PLAYER_H
#define REPORT_PLAYER_H

#include "report/html.h"
#include "report/svg.h"
#include "report/trace.h"

extern const char player_style[];   // CSS
extern const char player_script[];  // plain JavaScript; starts every .player on the page

// `chart` is the distance figure's body (NULL without one) drawn with `plot`, `apng` the same
// episode as a moving picture for readers without JavaScript.
void player_put(html* h, const trace* t, int number, const html* chart, double chart_width,
                double chart_height, const svg_plot* plot, const char* apng_base64);

#endif
