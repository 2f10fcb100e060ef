// sheet.c - fills and writes the tables of sheet.h. Cells are escaped where they are written.
#include "report/sheet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "report/inputs.h"

static sheet* last(sheet_list* list) {
    return list->count ? &list->items[list->count - 1] : NULL;
}

sheet* sheet_new(sheet_list* list, const char* id, const char* title, const char* note,
                 const char* head) {
    sheet* s = report_append(&list->items, &list->count, sizeof *s);
    if (!s) {
        list->failed = 1;
        return NULL;
    }
    snprintf(s->id, sizeof s->id, "%s", id);
    snprintf(s->title, sizeof s->title, "%s", title);
    s->note = note;
    for (const char* p = head; *p && s->head.cells < SHEET_COLUMNS;) {
        size_t n = strcspn(p, "|");
        snprintf(s->head.cell[s->head.cells++], SHEET_CELL, "%.*s", (int)n, p);
        p += n + (p[n] == '|');
    }
    return s;
}

static void clear(sheet* s) {
    mem_free(s->lines);
    memset(s, 0, sizeof *s);
}

void sheet_drop_empty(sheet_list* list) {
    if (!list->count || last(list)->count || list->failed) return;
    clear(last(list));
    list->count--;
}

void sheet_list_free(sheet_list* list) {
    for (int i = 0; i < list->count; i++) clear(&list->items[i]);
    mem_free(list->items);
    memset(list, 0, sizeof *list);
}

void sheet_line_new(sheet_list* list, sheet_kind kind) {
    sheet* s = last(list);
    sheet_line* l = s ? report_append(&s->lines, &s->count, sizeof *l) : NULL;
    if (l)
        l->kind = kind;
    else
        list->failed = 1;
}

void sheet_put(sheet_list* list, const char* fmt, ...) {
    sheet* s = last(list);
    if (!s || !s->count || list->failed) return;
    sheet_line* l = &s->lines[s->count - 1];
    if (l->cells == s->head.cells) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(l->cell[l->cells++], SHEET_CELL, fmt, args);
    va_end(args);
}

// A number with a real minus sign; what rounds to zero has none.
static const char* number(double v, int decimals, char out[40]) {
    double half = 0.5 * pow(10, -decimals);
    snprintf(out, 40, "%s%.*f", v <= -half ? "\u2212" : "", decimals, fabs(v));
    return out;
}

void sheet_value(sheet_list* list, double mean, double sd, int decimals, const char* otherwise) {
    char a[40], b[40];
    if (!isfinite(mean))
        sheet_put(list, "%s", otherwise);
    else if (!isfinite(sd))
        sheet_put(list, "%s", number(mean, decimals, a));
    else
        sheet_put(list, "%s \u00b1 %s", number(mean, decimals, a), number(sd, decimals, b));
}

void sheet_interval(sheet_list* list, double lo, double hi, const char* otherwise) {
    char a[40], b[40];
    if (isfinite(lo) && isfinite(hi))
        sheet_put(list, "%s to %s", number(lo, 1, a), number(hi, 1, b));
    else
        sheet_put(list, "%s", otherwise);
}

void sheet_html(html* h, const sheet* s) {
    static const char* const cls[] = {"", " class=\"us\"", " class=\"quoted\""};
    if (s->note) html_add(h, "<p class=\"note\">%s</p>\n", s->note);
    html_put(h, "<div class=\"scroll\"><table class=\"narrow\"><thead><tr>");
    for (int i = 0; i < s->head.cells; i++) {
        html_put(h, "<th scope=\"col\">");
        html_text(h, s->head.cell[i]);
        html_put(h, "</th>");
    }
    html_put(h, "</tr></thead><tbody>\n");
    for (int k = 0; k < s->count; k++) {
        html_add(h, "<tr%s>", cls[s->lines[k].kind]);
        for (int i = 0; i < s->head.cells; i++) {
            html_put(h, i ? "<td>" : "<th scope=\"row\">");
            html_text(h, s->lines[k].cell[i]);
            html_put(h, i ? "</td>" : "</th>");
        }
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody></table></div>\n");
}

// A bar would end the cell, a line break the row; < and & are markup in Markdown too.
static void markdown_text(html* h, const char* text) {
    char piece[4 * SHEET_CELL];
    size_t n = 0;
    for (const char* p = text; *p && n + 8 < sizeof piece; p++) {
        if (*p == '|' || *p == '*' || *p == '_' || *p == '`' || *p == '[') piece[n++] = '\\';
        piece[n++] = (unsigned char)*p < 32 ? ' ' : *p;
    }
    piece[n] = 0;
    for (const char* p = piece; *p; p++) {
        if (*p == '<')
            html_put(h, "&lt;");
        else
            html_bytes(h, p, 1);
    }
}

static void markdown_line(html* h, const sheet* s, const sheet_line* l) {
    int bold = l->kind == SHEET_OURS;
    html_put(h, "|");
    for (int i = 0; i < s->head.cells; i++) {
        html_put(h, bold && i == 0 ? " **" : " ");
        markdown_text(h, l->cell[i]);
        html_put(h, bold && i == 0 ? "** |" : " |");
    }
    html_put(h, "\n");
}

void sheet_markdown(html* h, const sheet* s) {
    html_add(h, "## %s\n\n", s->title);
    if (s->note) html_add(h, "%s\n\n", s->note);
    markdown_line(h, s, &s->head);
    html_put(h, "|---|");
    for (int i = 1; i < s->head.cells; i++) html_put(h, "---:|");
    html_put(h, "\n");
    for (int k = 0; k < s->count; k++) markdown_line(h, s, &s->lines[k]);
    html_put(h, "\n");
}
