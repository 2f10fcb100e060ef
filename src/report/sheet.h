// sheet.h - a table as plain text cells, made once and written as HTML or as Markdown, so that the
// page and the repository's readers see the same numbers.
#ifndef REPORT_SHEET_H
#define REPORT_SHEET_H

#include "report/html.h"

enum { SHEET_COLUMNS = 12, SHEET_CELL = 96 };
typedef enum sheet_kind { SHEET_PLAIN, SHEET_OURS, SHEET_QUOTED } sheet_kind;

typedef struct sheet_line {
    sheet_kind kind;
    int cells;
    char cell[SHEET_COLUMNS][SHEET_CELL];
} sheet_line;

typedef struct sheet {
    char id[32];
    char title[96];
    const char* note;  // a sentence above the table; a constant text
    sheet_line head;
    sheet_line* lines;
    int count;
} sheet;

typedef struct sheet_list {
    sheet* items;
    int count;
    int failed;  // sticky: memory ran out
} sheet_list;

// head: column titles with '|' between them. Returns NULL, and marks the list, without memory.
sheet* sheet_new(sheet_list* list, const char* id, const char* title, const char* note,
                 const char* head);
void sheet_drop_empty(sheet_list* list);  // takes the last one back if it has no line
void sheet_list_free(sheet_list* list);

void sheet_line_new(sheet_list* list, sheet_kind kind);  // of the last sheet
void sheet_put(sheet_list* list, const char* fmt, ...) __attribute__((format(printf, 2, 3)));
// "99.0", "99.0 ± 1.0" where there is a deviation; `otherwise` if mean is not finite.
void sheet_value(sheet_list* list, double mean, double sd, int decimals, const char* otherwise);
// "97.0 to 100.0"
void sheet_interval(sheet_list* list, double lo, double hi, const char* otherwise);

void sheet_html(html* h, const sheet* s);
void sheet_markdown(html* h, const sheet* s);

#endif
