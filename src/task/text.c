// text.c - a typed task as text and back. docs/formats.md describes the words.
//
//     [task]       name, image, period_ms, controls, horizon, cost, chi
//     [action]     count, low, high, clamped
//     [config]     NAME = angle | position           in order, angles first
//     [distance]   NAME = angle A, UNIT, TOLERANCE | norm A B .., SCALE UNIT, TOLERANCE
//     [visible]    NAME = LOW HIGH
//     [point]      NAME = plain | chain, X .., Y .., W ..
//     [situation]  N = TIMES PLUS MINUS OVER         NAME, goal:NAME, chi:N or 0
//
// A line is a section, `key = value` or empty. What follows a ; at its start or after a space is a
// comment.
#include "core/text.h"

#include <stdio.h>
#include <string.h>

#include "task/reader.h"

// ---- writing ------------------------------------------------------------------------------------

typedef struct page {
    char* out;
    size_t room;
    int fits;
} page;

#define PUT(p, ...) ((p)->fits &= text_add((p)->out, (p)->room, __VA_ARGS__))

static void put_number(page* p, const char* before, float value) {
    PUT(p, "%s", before);
    p->fits &= text_add_number(p->out, p->room, (double)value);
}

static void put_weights(page* p, const char* before, const float* weight, int n) {
    for (int i = 0; i < n; i++) put_number(p, i ? " " : before, weight[i]);
}

// "shoulder" of "shoulder_sin"
static int base_length(const task_typed* t, int coordinate) {
    return (int)strlen(t->config_name[coordinate]) - 4;
}

static void put_distance(page* p, const task_typed* t, const task_distance* d) {
    PUT(p, "%s = ", d->name);
    if (d->rule.angle) {
        PUT(p, "angle %.*s, %s", base_length(t, d->rule.first), t->config_name[d->rule.first],
            d->unit);
    } else {
        PUT(p, "norm");
        for (int k = 0; k < d->rule.count; k++) PUT(p, " %s", t->config_name[d->rule.first + k]);
        put_number(p, ", ", d->rule.scale);
        PUT(p, " %s", d->unit);
    }
    put_number(p, ", ", d->tolerance);
    PUT(p, "\n");
}

static void put_ref(page* p, const task_typed* t, const task_ref* r) {
    if (r->of == TASK_ZERO)
        PUT(p, " 0");
    else if (r->of == TASK_CHI)
        PUT(p, " chi:%d", r->index);
    else
        PUT(p, " %s%s", r->of == TASK_GOAL ? "goal:" : "", t->config_name[r->index]);
}

int task_write(const task_typed* t, char* out, size_t room) {
    page sheet = {out, room, room > 0}, *p = &sheet;
    if (room) out[0] = 0;
    PUT(p, "[task]\nname = %s\nimage = %d\nperiod_ms = %d\ncontrols = %d\n", t->name, t->image,
        t->period_ms, t->controls);
    if (t->horizon != TASK_HORIZON) PUT(p, "horizon = %d\n", t->horizon);
    PUT(p, "cost = %s\nchi = %d\n", t->cost == TASK_COST_MAX ? "max" : "sum", t->chi_dim);
    PUT(p, "[action]\ncount = %d\n", t->action_dim);
    put_number(p, "low = ", t->action_low);
    put_number(p, "\nhigh = ", t->action_high);
    PUT(p, "\nclamped = %s\n[config]\n", t->action_clamped ? "yes" : "no");
    for (int i = 0; i < t->pairs; i++)
        PUT(p, "%.*s = angle\n", base_length(t, 2 * i), t->config_name[2 * i]);
    for (int i = 2 * t->pairs; i < t->config_dim; i++) PUT(p, "%s = position\n", t->config_name[i]);
    PUT(p, "[distance]\n");
    for (int i = 0; i < t->distances; i++) put_distance(p, t, &t->distance[i]);
    if (t->ranges) PUT(p, "[visible]\n");
    for (int i = 0; i < t->ranges; i++) {
        PUT(p, "%s = ", t->config_name[t->visible[i].coordinate]);
        put_number(p, "", t->visible[i].low);
        put_number(p, " ", t->visible[i].high);
        PUT(p, "\n");
    }
    if (t->points) PUT(p, "[point]\n");
    for (int i = 0; i < t->points; i++) {
        const task_point* q = &t->point[i];
        PUT(p, "%s = %s", q->name, q->chain ? "chain" : "plain");
        put_weights(p, ", ", q->x, t->config_dim + 1);
        put_weights(p, ", ", q->y, t->config_dim + 1);
        put_weights(p, ", ", q->w, t->config_dim + 1);
        PUT(p, "\n");
    }
    if (t->situation_dim) PUT(p, "[situation]\n");
    for (int i = 0; i < t->situation_dim; i++) {
        PUT(p, "%d = ", i + 1);
        put_number(p, "", t->situation[i].times);
        put_ref(p, t, &t->situation[i].plus);
        put_ref(p, t, &t->situation[i].minus);
        put_number(p, " ", t->situation[i].over);
        PUT(p, "\n");
    }
    return p->fits;
}

// ---- reading ------------------------------------------------------------------------------------

typedef task_reader reader;

firm_status task_reader_bad(const reader* r, const char* wanted, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT, "%s, line %d of the task: [%s] %s wants %s", r->from, r->line,
                r->section, r->key, wanted);
}

// The next part of a value up to a comma, as words; "" when there is none.
static const char* next_part(char** at) {
    char* part = *at;
    while (*part == ' ') part++;
    char* comma = strchr(part, ',');
    *at = comma ? comma + 1 : part + strlen(part);
    if (comma) *comma = 0;
    for (char* end = part + strlen(part); end > part && end[-1] == ' ';) *--end = 0;
    return part;
}

static int whole_value(const reader* r, int least, int most, int* out) {
    words w = {r->value};
    *out = (int)words_whole(&w, least, most);
    return words_end(&w);
}

static int real_value(const reader* r, float* out) {
    words w = {r->value};
    *out = (float)words_number(&w, -1e30, 1e30);
    return words_end(&w);
}

// One of two words: 0 or 1; -1 is neither.
static int choice(const char* value, const char* zero, const char* one) {
    return strcmp(value, zero) == 0 ? 0 : strcmp(value, one) == 0 ? 1 : -1;
}

static const struct {
    const char *section, *key, *wanted;
} single[] = {
    {"task", "name", "a name of letters, digits, _ or -"},
    {"task", "image", "a whole number of pixels"},
    {"task", "period_ms", "a whole number of milliseconds"},
    {"task", "controls", "a whole number"},
    {"task", "cost", "sum or max"},
    {"task", "chi", "a whole number"},
    {"action", "count", "a whole number"},
    {"action", "low", "a number"},
    {"action", "high", "a number"},
    {"action", "clamped", "yes or no"},
    {"task", "horizon", "a whole number"},  // may be left out
};
enum { SINGLES = sizeof single / sizeof *single, NEEDED = SINGLES - 1, MOST = 1 << 20 };

static int take_single(reader* r, int i) {
    task_typed* t = r->t;
    int n;
    switch (i) {
        case 0:
            snprintf(t->name, sizeof t->name, "%.*s", TASK_NAME - 1, r->value);
            return strlen(r->value) < sizeof t->name;
        case 1: return whole_value(r, 0, MOST, &t->image);
        case 2: return whole_value(r, 0, MOST, &t->period_ms);
        case 3: return whole_value(r, 0, MOST, &t->controls);
        case 4:
            n = choice(r->value, "sum", "max");
            t->cost = n == 1 ? TASK_COST_MAX : TASK_COST_SUM;
            return n >= 0;
        case 5: return whole_value(r, 0, MOST, &t->chi_dim);
        case 6: return whole_value(r, 0, MOST, &t->action_dim);
        case 7: return real_value(r, &t->action_low);
        case 8: return real_value(r, &t->action_high);
        case 9:
            n = choice(r->value, "no", "yes");
            t->action_clamped = n == 1;
            return n >= 0;
        default: return whole_value(r, 0, MOST, &t->horizon);
    }
}

static int coordinate_of(const task_typed* t, const char* name) {
    for (int i = 0; i < t->config_dim; i++)
        if (strcmp(t->config_name[i], name) == 0) return i;
    return -1;
}

static int take_config(reader* r) {
    task_typed* t = r->t;
    int kind = choice(r->value, "position", "angle"), n = t->config_dim;
    if (kind < 0 || n + 1 + kind > FIRM_MAX_CONFIG || strlen(r->key) + 5 > TASK_NAME) return 0;
    if (kind && n != 2 * t->pairs) return 0;  // behind a position
    for (int k = 0; k <= kind; k++) {
        const char* ending = !kind ? "" : k ? "_cos" : "_sin";
        char* name = t->config_name[n + k];
        snprintf(name, TASK_NAME, "%.*s%s", TASK_NAME - 5, r->key, ending);
    }
    t->config_dim += 1 + kind;
    t->pairs += kind;
    return 1;
}

// "norm A B C": coordinates that follow each other; "angle A"
static int take_rule(const task_typed* t, const char* text, task_rule* rule) {
    words w = {text};
    char word[TASK_NAME], name[TASK_NAME + 4];
    words_text(&w, word, sizeof word);
    rule->angle = choice(word, "norm", "angle");
    for (rule->count = 0; rule->angle >= 0 && w.at && *w.at; rule->count++) {
        words_text(&w, word, sizeof word);
        snprintf(name, sizeof name, "%s%s", word, rule->angle ? "_sin" : "");
        int at = coordinate_of(t, name);
        if (rule->count == 0) rule->first = at;
        if (at < 0 || at != rule->first + rule->count) return 0;
    }
    if (rule->angle == 1 && rule->count == 1) {
        rule->count = 0;
        return words_end(&w);
    }
    return rule->angle == 0 && rule->count > 0 && words_end(&w);
}

static int take_distance(reader* r) {
    task_typed* t = r->t;
    if (t->distances == TASK_MAX_DISTANCE) return 0;
    task_distance* d = &t->distance[t->distances++];
    char* at = r->value;
    memcpy(d->name, r->key, sizeof d->name);
    int fits = take_rule(t, next_part(&at), &d->rule);
    words unit = {next_part(&at)};
    if (!d->rule.angle) d->rule.scale = (float)words_number(&unit, -1e30, 1e30);
    words_text(&unit, d->unit, sizeof d->unit);
    words tolerance = {next_part(&at)};
    d->tolerance = (float)words_number(&tolerance, 0, 1e30);
    return fits && words_end(&unit) && words_end(&tolerance) && !*next_part(&at);
}

static int take_range(reader* r) {
    task_typed* t = r->t;
    if (t->ranges == FIRM_MAX_CONFIG) return 0;
    task_range* range = &t->visible[t->ranges++];
    words w = {r->value};
    range->coordinate = coordinate_of(t, r->key);
    range->low = (float)words_number(&w, -1e30, 1e30);
    range->high = (float)words_number(&w, -1e30, 1e30);
    return range->coordinate >= 0 && words_end(&w);
}

static int take_point(reader* r) {
    task_typed* t = r->t;
    if (t->points == TASK_MAX_POINT) return 0;
    task_point* p = &t->point[t->points++];
    char* at = r->value;
    memcpy(p->name, r->key, sizeof p->name);
    int kind = choice(next_part(&at), "plain", "chain"), fits = kind >= 0;
    p->chain = kind == 1;
    float* const row[] = {p->x, p->y, p->w};
    for (int k = 0; k < 3; k++) {
        words w = {next_part(&at)};
        for (int i = 0; i <= t->config_dim; i++) row[k][i] = (float)words_number(&w, -1e30, 1e30);
        fits &= words_end(&w);
    }
    return fits && !*next_part(&at);
}

static int take_ref(const task_typed* t, words* w, task_ref* ref) {
    char word[TASK_NAME + 8];
    words_text(w, word, sizeof word);
    *ref = (task_ref){TASK_ZERO, 0};
    if (strcmp(word, "0") == 0) return 1;
    if (strncmp(word, "chi:", 4) == 0) {
        words number = {word + 4};
        *ref = (task_ref){TASK_CHI, (int)words_whole(&number, 0, TASK_MAX_CHI - 1)};
        return words_end(&number);
    }
    int goal = strncmp(word, "goal:", 5) == 0;
    *ref = (task_ref){goal ? TASK_GOAL : TASK_CONFIG, coordinate_of(t, word + (goal ? 5 : 0))};
    return ref->index >= 0;
}

static int take_term(reader* r) {
    task_typed* t = r->t;
    words number = {r->key}, w = {r->value};
    if (t->situation_dim == TASK_MAX_SITUATION ||
        words_whole(&number, 1, TASK_MAX_SITUATION) != t->situation_dim + 1 || !words_end(&number))
        return 0;
    task_term* term = &t->situation[t->situation_dim++];
    term->times = (float)words_number(&w, -1e30, 1e30);
    int fits = take_ref(t, &w, &term->plus) & take_ref(t, &w, &term->minus);
    term->over = (float)words_number(&w, -1e30, 1e30);
    return fits && words_end(&w);
}

static const struct {
    const char* section;
    int (*take)(reader* r);
    const char* wanted;
} list[] = {
    {"config", take_config, "angle or position; angles first, and few enough"},
    {"distance", take_distance,
     "`angle NAME, UNIT, TOLERANCE` or `norm NAMES, SCALE UNIT, TOLERANCE`, of coordinates that "
     "follow each other"},
    {"visible", take_range, "the lowest and highest value of a coordinate"},
    {"point", take_point, "plain or chain and three rows of numbers, a comma between"},
    {"situation", take_term, "its number in order, and a factor, two coordinates and a divisor"},
};
enum { LISTS = sizeof list / sizeof *list };

firm_status task_reader_take(reader* r, firm_error* err) {
    for (int i = 0; i < SINGLES; i++) {
        if (strcmp(single[i].section, r->section) != 0 || strcmp(single[i].key, r->key) != 0)
            continue;
        if (r->seen >> i & 1) return task_reader_bad(r, "to be said once", err);
        r->seen |= 1u << i;
        return take_single(r, i) ? FIRM_OK : task_reader_bad(r, single[i].wanted, err);
    }
    for (int i = 0; i < LISTS; i++)
        if (strcmp(list[i].section, r->section) == 0)
            return list[i].take(r) ? FIRM_OK : task_reader_bad(r, list[i].wanted, err);
    return task_reader_bad(r, "to be left out: there is no such key", err);
}

// Cuts a line into r->section, or r->key and r->value. 0: it is neither; 2: nothing to take.
static int cut_line(reader* r, const char* line, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (line[i] == ';' && (i == 0 || line[i - 1] == ' ')) n = i;
    while (n && (*line == ' ' || *line == '\t')) line++, n--;
    while (n && strchr(" \t\r", line[n - 1])) n--;
    if (n == 0) return 2;
    if (*line == '[') {
        if (n < 3 || line[n - 1] != ']' || n - 2 >= sizeof r->section) return 0;
        memcpy(r->section, line + 1, n - 2);
        r->section[n - 2] = 0;
        return 2;
    }
    const char* sign = memchr(line, '=', n);
    size_t key = sign ? (size_t)(sign - line) : 0, skip = key + 1;
    while (key && line[key - 1] == ' ') key--;
    while (skip < n && line[skip] == ' ') skip++;
    if (!sign || key == 0 || key >= sizeof r->key || n - skip >= sizeof r->value) return 0;
    memset(r->key, 0, sizeof r->key);
    memcpy(r->key, line, key);
    memcpy(r->value, line + skip, n - skip);
    r->value[n - skip] = 0;
    return 1;
}

void task_reader_begin(reader* r, const char* from, const char* text, task_typed* out) {
    *r = (reader){.from = from, .at = text, .t = out};
    memset(out, 0, sizeof *out);
    out->horizon = TASK_HORIZON;
}

firm_status task_reader_next(reader* r, int* more, firm_error* err) {
    while (*r->at) {
        size_t n = strcspn(r->at, "\n");
        r->line++;
        int kind = cut_line(r, r->at, n);
        if (kind == 0)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s, line %d of the task: neither [section] nor key = value", r->from,
                        r->line);
        r->at += n + (r->at[n] == '\n');
        if (kind == 1) {
            *more = 1;
            return FIRM_OK;
        }
    }
    *more = 0;
    return FIRM_OK;
}

int task_reader_has(const reader* r, const char* section, const char* key) {
    for (int i = 0; i < SINGLES; i++)
        if (strcmp(single[i].section, section) == 0 && strcmp(single[i].key, key) == 0)
            return r->seen >> i & 1;
    return 0;
}

firm_status task_reader_end(reader* r, firm_error* err) {
    for (int i = 0; i < NEEDED; i++)
        if (!(r->seen >> i & 1))
            return FAIL(err, FIRM_E_FORMAT, "%s: the task does not say [%s] %s: %s", r->from,
                        single[i].section, single[i].key, single[i].wanted);
    return task_check(r->t, r->from, err);
}

firm_status task_read(const char* from, const char* text, task_typed* out, firm_error* err) {
    reader r;
    int more;
    task_reader_begin(&r, from, text, out);
    for (;;) {
        TRY(task_reader_next(&r, &more, err));
        if (!more) return task_reader_end(&r, err);
        TRY(task_reader_take(&r, err));
    }
}

firm_status task_expect(const char* file, const task_typed* task, const task_typed* wanted,
                        firm_error* err) {
    char text[2][TASK_TEXT];
    if (strcmp(task->name, wanted->name) != 0)
        return FAIL(err, FIRM_E_TASK, "%s is for the task %s, not for %s; give a file of %s", file,
                    task->name, wanted->name, wanted->name);
    CHECK(task_write(task, text[0], TASK_TEXT) && task_write(wanted, text[1], TASK_TEXT),
          "a task does not fit its room");
    if (strcmp(text[0], text[1]) == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_TASK,
                "%s describes the task %s in another way (coordinates, distances, actions or "
                "picture); use the version of the task that it was made for",
                file, task->name);
}
