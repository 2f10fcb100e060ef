// sheet.h - the report's tables: filled once as text cells, then written as HTML for the page or as
// Markdown for a repository, so that both show the same numbers.
//
// A table never shows what is not there. A cell without a value is an en dash; a column in which no
// line has a value is left out; so is a line without a value of its own (quoted columns and columns
// of words do not count), unless the table has columns of words only.
#ifndef REPORT_SHEET_H
#define REPORT_SHEET_H

#include "report/html.h"

enum { SHEET_COLUMNS = 12 };

typedef enum sheet_kind {
    SHEET_PLAIN,
    SHEET_OURS,    // ours, in bold
    SHEET_QUOTED,  // somebody else's
    SHEET_MINOR,   // a part of the line above: one seed of a mean
    SHEET_SUM
} sheet_kind;

typedef enum sheet_tone { TONE_PLAIN, TONE_STRONG, TONE_GOOD, TONE_BAD, TONE_CODE } sheet_tone;

typedef struct sheet_cell {
    size_t text;  // its place in the sheet's text
    sheet_tone tone;
} sheet_cell;

typedef struct sheet_line {
    sheet_kind kind;
    int key;  // colour of the mark before the line, -1 for none
    int cells;
    sheet_cell cell[SHEET_COLUMNS];
} sheet_line;

typedef struct sheet_column {
    char name[64], unit[64];
    int words;   // left aligned; not a value
    int quoted;  // the paper's
} sheet_column;

typedef struct sheet {
    char id[32];
    char title[192];
    const char* note;  // a sentence above the table; a constant text
    sheet_column column[SHEET_COLUMNS];
    int columns;
    sheet_line* lines;
    int count;
    html text;  // of all cells, each with its end
} sheet;

typedef struct sheet_list {
    sheet* items;
    int count;
    int failed;  // sticky: memory ran out
} sheet_list;

// head: "task|<stage|time;s|~paper;%": columns with '|' between them, ';' before a unit; '<' before
// a column of words, '~' before one of the paper's. The first column is the line's name. Returns
// NULL, and marks the list, without memory.
sheet* sheet_new(sheet_list* list, const char* id, const char* title, const char* note,
                 const char* head);
// Takes the last one back if it has nothing to show, or nothing but quotations.
void sheet_drop_empty(sheet_list* list);
void sheet_list_free(sheet_list* list);

// ---- the last sheet's last line ----

void sheet_line_new(sheet_list* list, sheet_kind kind);
void sheet_key(sheet_list* list, int colour);  // 0..5, see figure_colour()
// Each adds one cell. A number that is not finite is a cell without a value.
void sheet_put(sheet_list* list, const char* fmt, ...) __attribute__((format(printf, 2, 3)));
void sheet_none(sheet_list* list);
void sheet_value(sheet_list* list, double mean, double sd, int decimals);  // "99.0 ± 1.0", "99.0"
void sheet_interval(sheet_list* list, double lo, double hi);               // "97.0 to 100.0"
void sheet_count(sheet_list* list, double n);                              // "1 613 442"
void sheet_figure(sheet_list* list, double v);       // three significant digits
void sheet_seconds(sheet_list* list, double s);      // "18.0 s", "1 min 05 s"
void sheet_pass(sheet_list* list, int pass);         // "passed", "missed"
void sheet_look(sheet_list* list, sheet_tone tone);  // of the cell added last

// ---- writing ----

int sheet_shows_line(const sheet* s, int line);
int sheet_shows_column(const sheet* s, int column);
void sheet_html(html* h, const sheet* s);      // note and table
void sheet_markdown(html* h, const sheet* s);  // title, note and table

#endif
