// expression.c - a recursive descent that leaves postfix steps behind, and the loop that runs them.
//
//     sum     = product { (+ | -) product }
//     product = factor { (* | /) factor }
//     factor  = - factor | number | pi | ( sum ) | FUNCTION ( sum [, sum] ) | reference
//
// Depth and length are bounded while parsing, so that evaluation needs no checks.
#include "env/expression.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

typedef struct parser {
    const char *text, *at;
    expression_find find;
    void* user;
    expression* out;
    int depth, held;  // values on the stack so far
    char* why;
    size_t room;
} parser;

static const struct {
    const char* name;
    int arguments;
    char what;
} functions[] = {
    {"sin", 1, 's'}, {"cos", 1, 'c'}, {"sqrt", 1, 'q'}, {"abs", 1, 'a'}, {"atan2", 2, 't'}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// ---- parsing ------------------------------------------------------------------------------------

static int refuse(parser* p, const char* what) {
    snprintf(p->why, p->room, "%s at character %d", what, (int)(p->at - p->text) + 1);
    return 0;
}

// `grows` by how many values the step changes the stack.
static int put(parser* p, char what, int ref, double number, int grows) {
    if (p->out->steps == EXPRESSION_STEPS) return refuse(p, "the expression is too long");
    p->held += grows;
    if (p->held > EXPRESSION_DEPTH) return refuse(p, "the expression is nested too deeply");
    p->out->step[p->out->steps].what = what;
    p->out->step[p->out->steps].ref = ref;
    p->out->step[p->out->steps++].number = number;
    return 1;
}

static void skip(parser* p) {
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

static int take(parser* p, char c) {
    skip(p);
    if (*p->at != c) return 0;
    p->at++;
    return 1;
}

static int is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Letters, digits, _ and . ; inside parentheses also - and /, as simulators name parts.
static int take_name(parser* p, int inside, char out[EXPRESSION_NAME]) {
    size_t n = 0;
    skip(p);
    while (is_letter(p->at[n]) || is_digit(p->at[n]) || p->at[n] == '.' ||
           (inside && (p->at[n] == '-' || p->at[n] == '/')))
        n++;
    if (n == 0 || n >= EXPRESSION_NAME) return refuse(p, n ? "the name is too long" : "no name");
    memcpy(out, p->at, n);
    out[n] = 0;
    p->at += n;
    return 1;
}

static int take_index(parser* p, int* out) {
    int value = 0, digits = 0;
    skip(p);
    for (; is_digit(*p->at) && value <= EXPRESSION_INDEX; p->at++, digits++)
        value = 10 * value + (*p->at - '0');
    *out = value;
    if (digits == 0 || value > EXPRESSION_INDEX || !take(p, ']'))
        return refuse(p, "no index like [3]");
    return 1;
}

static int sum(parser* p);

static int call(parser* p, int which) {
    for (int i = 0; i < functions[which].arguments; i++) {
        if (!take(p, i ? ',' : '(')) return refuse(p, i ? "no second argument" : "no (");
        if (!sum(p)) return 0;
    }
    if (!take(p, ')')) return refuse(p, "no )");
    return put(p, functions[which].what, 0, 0, 1 - functions[which].arguments);
}

static int reference(parser* p) {
    expression_ref ref = {.index = 0};
    const char* begin = p->at;
    if (!take_name(p, 0, ref.name)) return 0;
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, ref.name) == 0) return call(p, i);
    if (strcmp(ref.name, "pi") == 0) return put(p, 'n', 0, 3.14159265358979323846, 1);
    if (take(p, '(')) {
        if (!take_name(p, 1, ref.of)) return 0;
        if (!take(p, ')')) return refuse(p, "no ) after a name");
    }
    if (take(p, '[') && !take_index(p, &ref.index)) return 0;
    int number = p->find(p->user, &ref, p->why, p->room);
    if (number < 0) {
        p->at = begin;
        return 0;
    }
    return put(p, 'r', number, 0, 1);
}

// Digits, a point and an exponent, which text.h turns into a number in any language.
static int number(parser* p) {
    char text[32];
    size_t n = 0;
    const char* at = p->at;
    while (n < sizeof text - 1 &&
           (is_digit(at[n]) || at[n] == '.' || ((at[n] == 'e' || at[n] == 'E') && n > 0) ||
            ((at[n] == '-' || at[n] == '+') && n > 0 && (at[n - 1] == 'e' || at[n - 1] == 'E'))))
        n++;
    memcpy(text, at, n);
    text[n] = 0;
    words w = {text};
    double value = words_number(&w, -1e30, 1e30);
    if (!words_end(&w)) return refuse(p, "no number");
    p->at += n;
    return put(p, 'n', 0, value, 1);
}

static int factor(parser* p) {
    int ok;
    if (++p->depth > EXPRESSION_DEPTH) return refuse(p, "the expression is nested too deeply");
    if (take(p, '-'))
        ok = factor(p) && put(p, 'm', 0, 0, 0);
    else if (take(p, '('))
        ok = sum(p) && (take(p, ')') || refuse(p, "no )"));
    else if (is_digit(*p->at) || *p->at == '.')
        ok = number(p);
    else if (is_letter(*p->at))
        ok = reference(p);
    else
        ok = refuse(p, "no number, name or (");
    p->depth--;
    return ok;
}

static int product(parser* p) {
    if (!factor(p)) return 0;
    for (;;) {
        char c = take(p, '*') ? '*' : take(p, '/') ? '/' : 0;
        if (!c) return 1;
        if (!factor(p) || !put(p, c, 0, 0, -1)) return 0;
    }
}

static int sum(parser* p) {
    if (!product(p)) return 0;
    for (;;) {
        char c = take(p, '+') ? '+' : take(p, '-') ? '-' : 0;
        if (!c) return 1;
        if (!product(p) || !put(p, c, 0, 0, -1)) return 0;
    }
}

int expression_parse(const char* text, expression_find find, void* user, expression* out, char* why,
                     size_t room) {
    parser p = {text, text, find, user, out, 0, 0, why, room};
    memset(out, 0, sizeof *out);
    if (!sum(&p)) return 0;
    skip(&p);
    return *p.at == 0 ? 1 : refuse(&p, "no operator");
}

// ---- evaluation ---------------------------------------------------------------------------------

double expression_value(const expression* e, const double* value, const int* at) {
    double stack[EXPRESSION_DEPTH + 1];
    int n = 0;
    for (int i = 0; i < e->steps; i++) {
        double* top = stack + n - 1;
        int ref = e->step[i].ref;
        switch (e->step[i].what) {
            case 'n': stack[n++] = e->step[i].number; break;
            case 'r': stack[n++] = value[at ? at[ref] : ref]; break;
            case 'm': *top = -*top; break;
            case 's': *top = sin(*top); break;
            case 'c': *top = cos(*top); break;
            case 'q': *top = sqrt(*top); break;
            case 'a': *top = fabs(*top); break;
            case 't': top[-1] = atan2(top[-1], *top), n--; break;
            case '+': top[-1] += *top, n--; break;
            case '-': top[-1] -= *top, n--; break;
            case '*': top[-1] *= *top, n--; break;
            default: top[-1] /= *top, n--; break;
        }
    }
    return stack[0];
}
