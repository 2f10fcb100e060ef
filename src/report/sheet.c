// sheet.c - fills the tables of sheet.h. Cells are escaped where they are written (sheet_write.c).
#include "report/sheet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "report/inputs.h"

static sheet* last(sheet_list* list) {
    return list->count ? &list->items[list->count - 1] : NULL;
}

static sheet_line* last_line(sheet_list* list) {
    sheet* s = last(list);
    return s && s->count && !list->failed ? &s->lines[s->count - 1] : NULL;
}

static void add_column(sheet* s, const char* text, size_t n) {
    sheet_column* c = &s->column[s->columns];
    for (; n && (*text == '<' || *text == '~'); text++, n--) {
        c->words |= *text == '<';
        c->quoted |= *text == '~';
    }
    size_t name = strcspn(text, ";|");
    snprintf(c->name, sizeof c->name, "%.*s", (int)(name < n ? name : n), text);
    if (name < n) snprintf(c->unit, sizeof c->unit, "%.*s", (int)(n - name - 1), text + name + 1);
    c->words |= s->columns++ == 0;
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
    html_bytes(&s->text, "", 1);  // place 0: a cell without a value
    for (const char* p = head; *p && s->columns < SHEET_COLUMNS;) {
        size_t n = strcspn(p, "|");
        add_column(s, p, n);
        p += n + (p[n] == '|');
    }
    return s;
}

static void clear(sheet* s) {
    mem_free(s->lines);
    html_free(&s->text);
    memset(s, 0, sizeof *s);
}

void sheet_drop_empty(sheet_list* list) {
    if (!list->count || list->failed) return;
    const sheet* s = last(list);
    for (int i = 0; i < s->count; i++)
        if (s->lines[i].kind != SHEET_QUOTED && sheet_shows_line(s, i)) return;
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
    if (!l) {
        list->failed = 1;
        return;
    }
    l->kind = kind;
    l->key = -1;
}

void sheet_key(sheet_list* list, int colour) {
    if (last_line(list)) last_line(list)->key = colour;
}

// The cell to fill, NULL if there is no room: a table's columns are all there are.
static sheet_cell* new_cell(sheet_list* list) {
    sheet_line* l = last_line(list);
    return l && l->cells < last(list)->columns ? &l->cell[l->cells++] : NULL;
}

void sheet_none(sheet_list* list) {
    new_cell(list);
}

void sheet_put(sheet_list* list, const char* fmt, ...) {
    sheet_cell* c = new_cell(list);
    if (!c) return;
    html* text = &last(list)->text;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char small[256], *room = n < (int)sizeof small ? small : mem_alloc((size_t)n + 1);
    if (n < 0 || !room) {
        list->failed = 1;
    } else if (n > 0) {
        vsnprintf(room, (size_t)n + 1, fmt, again);
        c->text = text->size;
        html_bytes(text, room, (size_t)n + 1);
        list->failed |= text->failed;
    }
    va_end(again);
    if (room != small) mem_free(room);
}

void sheet_look(sheet_list* list, sheet_tone tone) {
    sheet_line* l = last_line(list);
    if (l && l->cells) l->cell[l->cells - 1].tone = tone;
}

// ---- numbers ------------------------------------------------------------------------------------

// A number with a real minus sign; what rounds to zero has none.
static const char* number(double v, int decimals, char out[340]) {
    double half = 0.5 * pow(10, -decimals);
    snprintf(out, 340, "%s%.*f", v <= -half ? "\u2212" : "", decimals, fabs(v));
    return out;
}

void sheet_value(sheet_list* list, double mean, double sd, int decimals) {
    char a[340], b[340];
    if (!isfinite(mean))
        sheet_none(list);
    else if (!isfinite(sd))
        sheet_put(list, "%s", number(mean, decimals, a));
    else
        sheet_put(list, "%s \u00b1 %s", number(mean, decimals, a), number(sd, decimals, b));
}

void sheet_interval(sheet_list* list, double lo, double hi) {
    char a[340], b[340];
    if (isfinite(lo) && isfinite(hi))
        sheet_put(list, "%s to %s", number(lo, 1, a), number(hi, 1, b));
    else
        sheet_none(list);
}

// Thin spaces between thousands.
void sheet_count(sheet_list* list, double v) {
    char digits[32], out[80] = "";
    if (!isfinite(v) || fabs(v) > 1e15) {
        sheet_none(list);
        return;
    }
    snprintf(digits, sizeof digits, "%.0f", fabs(v));
    size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++)
        text_add(out, sizeof out, "%s%c", i && (n - i) % 3 == 0 ? "\u2009" : "", digits[i]);
    sheet_put(list, "%s%s", v < 0 ? "\u2212" : "", out);
}

// Gates range from microns to pixels.
void sheet_figure(sheet_list* list, double v) {
    if (!isfinite(v))
        sheet_none(list);
    else if (v != 0 && fabs(v) < 1e-4)
        sheet_put(list, "%.2e", v);
    else
        sheet_value(list, v, NAN, v == 0 ? 0 : (int)fmax(0, 2 - floor(log10(fabs(v)))));
}

void sheet_seconds(sheet_list* list, double s) {
    if (!isfinite(s) || s < 0 || s > 1e12)
        sheet_none(list);
    else if (s < 60)
        sheet_put(list, "%.1f s", s);
    else if (s < 3600)
        sheet_put(list, "%d min %02d s", (int)s / 60, (int)s % 60);
    else
        sheet_put(list, "%.0f h %02d min", floor(s / 3600), (int)(fmod(s, 3600) / 60));
}

void sheet_pass(sheet_list* list, int pass) {
    sheet_put(list, "%s", pass ? "passed" : "missed");
    sheet_look(list, pass ? TONE_GOOD : TONE_BAD);
}
