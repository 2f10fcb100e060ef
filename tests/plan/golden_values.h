// golden_values.h - numbers of the shipped models, kept in tests/golden and compared within a
// tolerance. FIRM_GOLDEN_WRITE=1 writes the file instead of comparing: for when a model or a
// definition is changed on purpose.
#ifndef TESTS_PLAN_GOLDEN_VALUES_H
#define TESTS_PLAN_GOLDEN_VALUES_H

#include <stdio.h>

#include "model/model.h"

enum { GOLDEN_FRAMES = 3, GOLDEN_DIGEST = 10 };

// One file: a line is a name, how many numbers, and the numbers.
typedef struct golden_values {
    char path[1024];
    char* text;    // of the file; comparing
    FILE* out;     // writing
    double worst;  // largest deviation in tolerances; NaN as soon as one is
} golden_values;

int golden_writing(void);
// 1 on success; 0 after a failure, which is reported. End it in both cases.
int golden_begin(golden_values* g, const char* what, const char* task);
int golden_open(golden_values* g, const char* what, const char* task);  // to read, never writing
void golden_read(const golden_values* g, const char* name, double* v, int n);
// prints the largest deviation
void golden_end(golden_values* g);
// The numbers must be those of the file, each within tolerance times (1 + its size).
void golden_expect(golden_values* g, const char* name, const float* v, int n, double tolerance);
void golden_expect_one(golden_values* g, const char* name, double v, double tolerance);
// of many numbers: mean, root of the mean square, and eight of them
void golden_expect_digest(golden_values* g, const char* name, const float* v, int n,
                          double tolerance);

// A moment of the task and a goal: three frames with the two actions between, as recorded once.
typedef struct golden_moment {
    float action[GOLDEN_FRAMES - 1][FIRM_MAX_ACTION];
    uint8_t* rgb;  // (GOLDEN_FRAMES + 1, 224, 224, 3); the last is the goal's
} golden_moment;

// From tests/golden/moment-TASK.txt and .pictures, which tests/env/moments_test.c makes. 0: failed,
// reported. Free it in both cases.
int golden_moment_open(golden_moment* m, const char* task);
void golden_pictures_path(char* path, size_t room, const char* task);
const uint8_t* golden_frame(const golden_moment* m, int i);
void golden_moment_close(golden_moment* m);

// models/TASK.safetensors; NULL after a failure, which is reported
firm_model* golden_model(const char* task);

// Five macro actions in standard units, always the same: (5, 5, action_dim)
void golden_actions(const task_typed* task, float* u);

#endif
