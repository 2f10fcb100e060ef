// text.c - reads a typed task from text; write.c writes it. docs/formats.md describes the words.
//
//     [task]       name, image, period_ms, controls, horizon, cost, chi
//     [action]     count, low, high, clamped
//     [config]     NAME = angle | position           in order, angles first
//     [distance]   NAME = angle A, UNIT, TOLERANCE | norm A B .., SCALE UNIT, TOLERANCE
//     [visible]    NAME = LOW HIGH
//     [point]      NAME = plain | chain, X .., Y .., W ..
//     [situation]  N = TIMES PLUS MINUS OVER         NAME, goal:NAME, chi:N or 0
//     [push]       agent, block, scale, motion, radius, centre, lengths
//     [box]        N = X Y HALF_X HALF_Y             of what is pushed
//
// A line is a section, `key = value` or empty. What follows a ; at its start or after a space is a
// comment.
#include "core/text.h"

#include <stdio.h>
#include <string.h>

#include "task/reader.h"

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
    {"task", "horizon", "a whole number"},  // may be left out, and so may all that follow
    {"push", "agent", "the names of two positions, x and y"},
    {"push", "block", "the names of two positions, x and y, and of an angle"},
    {"push", "scale", "a number"},
    {"push", "motion", "four numbers"},
    {"push", "radius", "a number"},
    {"push", "centre", "two numbers"},
    {"push", "lengths", "five numbers"},
};
enum {
    SINGLES = sizeof single / sizeof *single,
    HORIZON = 10,
    NEEDED = HORIZON,
    PUSH = HORIZON + 1,
    LENGTHS = SINGLES - 1,  // the one of [push] that may be left out
    MOST = 1 << 20
};

static int coordinate_of(const task_typed* t, const char* name) {
    for (int i = 0; i < t->config_dim; i++)
        if (strcmp(t->config_name[i], name) == 0) return i;
    return -1;
}

static int next_coordinate(const task_typed* t, words* w, const char* ending, int* out) {
    char word[TASK_NAME], name[TASK_NAME + 4];
    words_text(w, word, sizeof word);
    snprintf(name, sizeof name, "%s%s", word, ending);
    *out = coordinate_of(t, name);
    return *out >= 0;
}

// So many numbers and nothing else.
static int numbers_value(const char* value, int n, float* out) {
    words w = {value};
    for (int i = 0; i < n; i++) out[i] = (float)words_number(&w, -1e30, 1e30);
    return words_end(&w);
}

static void set_lengths(nn_push* s, const float v[5]) {
    s->soft = v[0], s->deep = v[1], s->unit = v[2], s->arm = v[3], s->far = v[4];
}

static int take_push(reader* r, int i) {
    nn_push* s = &r->t->push;
    words w = {r->value};
    float v[5];
    switch (i - PUSH) {
        case 0:
            return next_coordinate(r->t, &w, "", &s->agent[0]) &&
                   next_coordinate(r->t, &w, "", &s->agent[1]) && words_end(&w);
        case 1:
            return next_coordinate(r->t, &w, "", &s->block[0]) &&
                   next_coordinate(r->t, &w, "", &s->block[1]) &&
                   next_coordinate(r->t, &w, "_sin", &s->angle) && words_end(&w);
        case 2: return numbers_value(r->value, 1, &s->scale);
        case 3: return numbers_value(r->value, 4, s->motion);
        case 4: return numbers_value(r->value, 1, &s->radius);
        case 5: return numbers_value(r->value, 2, s->centre);
        default:
            if (!numbers_value(r->value, 5, v)) return 0;
            set_lengths(s, v);
            return 1;
    }
}

// All of it or nothing. Lengths that were left out are in proportion to the agent.
static firm_status end_push(reader* r, firm_error* err) {
    nn_push* s = &r->t->push;
    const float by = s->radius;
    int seen = 0;
    for (int i = PUSH; i < SINGLES; i++) seen += (int)(r->seen >> i & 1);
    if (!seen && !s->boxes) return FIRM_OK;
    for (int i = PUSH; i < LENGTHS; i++)
        if (!(r->seen >> i & 1))
            return FAIL(err, FIRM_E_FORMAT, "%s: the task does not say [push] %s: %s", r->from,
                        single[i].key, single[i].wanted);
    if (!s->boxes)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: [push] needs what is pushed: give its boxes in a section [box]", r->from);
    if (!(r->seen >> LENGTHS & 1)) set_lengths(s, (float[]){0.4f * by, by, 2 * by, 4 * by, 7 * by});
    return FIRM_OK;
}

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
        case HORIZON: return whole_value(r, 0, MOST, &t->horizon);
        default: return take_push(r, i);
    }
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

static int take_box(reader* r) {
    nn_push* s = &r->t->push;
    words number = {r->key};
    if (s->boxes == NN_PUSH_BOXES || words_whole(&number, 1, NN_PUSH_BOXES) != s->boxes + 1 ||
        !words_end(&number))
        return 0;
    return numbers_value(r->value, 4, s->box[s->boxes++]);
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
    {"box", take_box, "its number in order, from 1 to 4, and four numbers: x, y, half sides"},
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
    TRY(end_push(r, err));
    return task_check(r->t, r->from, err);
}

static firm_status read_all(reader* r, firm_error* err) {
    int more;
    for (;;) {
        TRY(task_reader_next(r, &more, err));
        if (!more) return task_reader_end(r, err);
        TRY(task_reader_take(r, err));
    }
}

firm_status task_read(const char* from, const char* text, task_typed* out, firm_error* err) {
    reader r;
    task_reader_begin(&r, from, text, out);
    firm_status st = read_all(&r, err);
    // values that no task can have: a text of ours never says them
    if (st != FIRM_E_VALUE) return st;
    if (err) err->status = FIRM_E_FORMAT;
    return FIRM_E_FORMAT;
}
