// expression.h - small arithmetic over named numbers, as task files write it: `(xpos[0] - 0.2) /
// 0.4`, `atan2(dir[1], dir[0])`.
//
// Parsed once into a short program, evaluated without memory of its own. What a name means is the
// caller's business: parsing asks for the number of each reference, evaluation reads that number.
#ifndef ENV_EXPRESSION_H
#define ENV_EXPRESSION_H

#include <stddef.h>

enum {
    EXPRESSION_STEPS = 64,    // numbers, references and operations of one expression
    EXPRESSION_DEPTH = 16,    // parentheses within each other, and values kept at once
    EXPRESSION_NAME = 48,     // room for a name
    EXPRESSION_INDEX = 65535  // largest index
};

// NAME, NAME[index], NAME(of) or NAME(of)[index]
typedef struct expression_ref {
    char name[EXPRESSION_NAME];  // "qpos"
    char of[EXPRESSION_NAME];    // "elbow" of qpos(elbow); "" elsewhere
    int index;                   // 0 where none is written
} expression_ref;

typedef struct expression {
    int steps;
    struct {
        char what;  // n: a number, r: a reference; an operation or a function by its letter
        int ref;
        double number;
    } step[EXPRESSION_STEPS];
} expression;

// Gives a reference its number, from 0 on; -1 refuses it, with a reason in `why` (room bytes).
typedef int (*expression_find)(void* user, const expression_ref* ref, char* why, size_t room);

// 1: *out is the expression. 0: `why` (room bytes) says what is wrong and where.
// + - * / with the usual rank, unary -, parentheses, numbers, sin cos atan2 sqrt abs, and pi.
int expression_parse(const char* text, expression_find find, void* user, expression* out, char* why,
                     size_t room);

// The value where reference k is value[at[k]]; `at` NULL: value[k].
double expression_value(const expression* e, const double* value, const int* at);

#endif
