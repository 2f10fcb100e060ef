// sheet_write.c - a table as HTML or as Markdown. What it shows is decided here once, for both.
#include <stdio.h>
#include <string.h>

#include "report/sheet.h"

// ---- what is shown ------------------------------------------------------------------------------

static const char* text_of(const sheet* s, const sheet_line* l, int column) {
    return column < l->cells && s->text.data ? s->text.data + l->cell[column].text : "";
}

static int is_value(const sheet_column* c) {
    return !c->words && !c->quoted;
}

int sheet_shows_line(const sheet* s, int line) {
    int values = 0;
    for (int i = 0; i < s->columns; i++) {
        if (!is_value(&s->column[i])) continue;
        values++;
        if (text_of(s, &s->lines[line], i)[0]) return 1;
    }
    return values == 0 || s->lines[line].kind == SHEET_QUOTED;
}

int sheet_shows_column(const sheet* s, int column) {
    if (column == 0) return 1;
    for (int i = 0; i < s->count; i++)
        if (sheet_shows_line(s, i) && text_of(s, &s->lines[i], column)[0]) return 1;
    return 0;
}

// Which columns are shown, found out once.
static void find_columns(const sheet* s, int shown[SHEET_COLUMNS]) {
    for (int i = 0; i < s->columns; i++) shown[i] = sheet_shows_column(s, i);
}

// ---- HTML ---------------------------------------------------------------------------------------

static void html_class(html* h, const sheet_column* c, sheet_tone tone) {
    static const char* const tones[] = {"", "big", "yes", "no", "mono"};
    const char *words = c->words ? "left" : "", *quoted = c->quoted ? "paper" : "";
    if (!words[0] && !quoted[0] && tone == TONE_PLAIN) return;
    html_put(h, " class=\"");
    html_put(h, words);
    html_add(h, "%s%s", words[0] && quoted[0] ? " " : "", quoted);
    html_add(h, "%s%s\"", (words[0] || quoted[0]) && tone ? " " : "", tones[tone]);
}

// A deviation is set apart from its mean.
static void html_cell(html* h, const char* text) {
    const char* sign = strstr(text, " \u00b1 ");
    char mean[64];
    if (!sign || (size_t)(sign - text) >= sizeof mean) {
        html_text(h, text[0] ? text : "\u2013");
        return;
    }
    snprintf(mean, sizeof mean, "%.*s", (int)(sign - text), text);
    html_text(h, mean);
    html_put(h, "<span class=\"sd\">");
    html_text(h, sign);
    html_put(h, "</span>");
}

static void html_head(html* h, const sheet* s, const int* shown) {
    html_put(h, "<div class=\"scroll\"><table><thead><tr>");
    for (int i = 0; i < s->columns; i++) {
        const sheet_column* c = &s->column[i];
        if (!shown[i]) continue;
        html_put(h, "<th scope=\"col\"");
        html_class(h, c, TONE_PLAIN);
        html_put(h, ">");
        html_text(h, c->name);
        if (c->unit[0]) {
            html_put(h, "<small>");
            html_text(h, c->unit);
            html_put(h, "</small>");
        }
        html_put(h, "</th>");
    }
    html_put(h, "</tr></thead><tbody>\n");
}

static void html_line(html* h, const sheet* s, const sheet_line* l, const int* shown) {
    static const char* const kinds[] = {"", " class=\"us\"", " class=\"quoted\"",
                                        " class=\"minor\"", " class=\"sum\""};
    html_add(h, "<tr%s><th scope=\"row\">", kinds[l->kind]);
    if (l->key >= 0) html_add(h, "<i class=\"key k%d\"></i>", l->key);
    html_text(h, text_of(s, l, 0));
    html_put(h, "</th>");
    for (int i = 1; i < s->columns; i++) {
        if (!shown[i]) continue;
        html_put(h, "<td");
        html_class(h, &s->column[i], i < l->cells ? l->cell[i].tone : TONE_PLAIN);
        html_put(h, ">");
        html_cell(h, text_of(s, l, i));
        html_put(h, "</td>");
    }
    html_put(h, "</tr>\n");
}

void sheet_html(html* h, const sheet* s) {
    int shown[SHEET_COLUMNS];
    find_columns(s, shown);
    if (s->note) html_add(h, "<p class=\"note\">%s</p>\n", s->note);
    html_head(h, s, shown);
    for (int i = 0; i < s->count; i++)
        if (sheet_shows_line(s, i)) html_line(h, s, &s->lines[i], shown);
    html_put(h, "</tbody></table></div>\n");
}

// ---- Markdown -----------------------------------------------------------------------------------

// A bar would end the cell, a line break the row; < and & are markup in Markdown too.
static void markdown_text(html* h, const char* text) {
    for (const char* p = text; *p; p++) {
        if (strchr("|*_`[", *p)) html_put(h, "\\");
        if (*p == '<')
            html_put(h, "&lt;");
        else
            html_bytes(h, (unsigned char)*p < 32 ? " " : p, 1);
    }
}

static void markdown_head(html* h, const sheet* s, const int* shown) {
    html_put(h, "|");
    for (int i = 0; i < s->columns; i++) {
        if (!shown[i]) continue;
        html_put(h, " ");
        markdown_text(h, s->column[i].name);
        if (s->column[i].unit[0]) html_put(h, ", ");
        markdown_text(h, s->column[i].unit);
        html_put(h, " |");
    }
    html_put(h, "\n|");
    for (int i = 0; i < s->columns; i++)
        if (shown[i]) html_put(h, s->column[i].words ? "---|" : "---:|");
    html_put(h, "\n");
}

static void markdown_line(html* h, const sheet* s, const sheet_line* l, const int* shown) {
    const char* mark = l->kind == SHEET_OURS ? "**" : "";
    html_add(h, "| %s", mark);
    markdown_text(h, text_of(s, l, 0));
    html_add(h, "%s |", mark);
    for (int i = 1; i < s->columns; i++) {
        if (!shown[i]) continue;
        const char* text = text_of(s, l, i);
        html_put(h, " ");
        markdown_text(h, text[0] ? text : "\u2013");
        html_put(h, " |");
    }
    html_put(h, "\n");
}

void sheet_markdown(html* h, const sheet* s) {
    int shown[SHEET_COLUMNS];
    find_columns(s, shown);
    html_put(h, "## ");
    markdown_text(h, s->title);
    html_put(h, "\n\n");
    if (s->note) html_add(h, "%s\n\n", s->note);
    markdown_head(h, s, shown);
    for (int i = 0; i < s->count; i++)
        if (sheet_shows_line(s, i)) markdown_line(h, s, &s->lines[i], shown);
    html_put(h, "\n");
}
