// page_style.h - the style sheet of the page, as text.
#ifndef REPORT_PAGE_STYLE_H
#define REPORT_PAGE_STYLE_H

extern const char page_style[];

#endif
