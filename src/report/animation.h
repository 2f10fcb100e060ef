// animation.h - the moving picture of one traced episode, as bytes for the page or for a file.
#ifndef REPORT_ANIMATION_H
#define REPORT_ANIMATION_H

#include "core/status.h"
#include "report/html.h"
#include "report/trace.h"

// Fills *png (empty before) with an animated PNG below 1.5 MB where at all possible; html_free it.
firm_status animation_make(const trace* t, html* png, firm_error* err);

#endif
