// paper.c - every number of the paper that the report quotes, in the order of the paper's tables.
#include "report/paper.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define ONE(x) \
    { x, NAN }
#define NONE \
    { NAN, NAN }

static const struct {
    const char *task, *title;
} titles[] = {
    {"tworoom", "TwoRoom"}, {"reacher", "Reacher"}, {"pusht", "Push-T"}, {"cube", "OGBench-Cube"}};

// Table main: comparison rows are published figures, the last row is the paper's own
static const paper_method methods[] = {
    {"PLDM", ONE(97.0), ONE(78.0), ONE(78.0), ONE(65.0)},
    {"DINO-WM", ONE(100.0), ONE(79.0), ONE(74.0), ONE(86.0)},
    // of LeWM's paper; its released checkpoint on the FIRM paper's trials is in `seeds`
    {"LeWM, mean of three seeds", {84.33, 4.23}, {82.67, 4.42}, {84.67, 6.53}, {67.33, 5.01}},
    {"Sub-JEPA", {95.0, 2.76}, {84.0, 4.0}, {89.0, 5.33}, {76.33, 5.99}},
    {"FIRM-WM (paper)", {99.0, 1.0}, {92.7, 2.1}, {75.7, 4.7}, {88.0, 3.0}},
};

// Table efficiency: planner seconds per episode on the paper's RTX 3060 laptop
static const struct {
    const char* task;
    paper_value firm, lewm;
} seconds[] = {
    {"tworoom", {0.416, 0.056}, ONE(3.224)},
    {"reacher", {0.504, 0.149}, ONE(5.550)},
    {"pusht", {1.860, 0.243}, ONE(3.926)},
    {"cube", {0.635, 0.118}, ONE(2.389)},
};

// Table ablation
static const struct {
    const char* variant;
    paper_value reacher, cube;
} ablations[] = {
    {"factual only", {89.3, 1.5}, {79.7, 1.5}},
    {"intervention only", {71.7, 4.6}, {82.0, 1.7}},
    {"no history fiber", ONE(68.0), NONE},
    {"mismatched outcomes", ONE(16.0), NONE},
};

// Table params
static const paper_params params[] = {
    {"tworoom", 0.374, 1.613, 1.424, 3.411},
    {"reacher", 0.992, 0.828, 1.343, 3.162},
    {"pusht", 0.449, 0.157, 2.371, 2.977},
    {"cube", 0.376, 1.613, 1.434, 3.424},
};

// Table reset-replay
static const paper_audit audits[] = {
    {"tworoom", 128, 0, 0, 0},
    {"reacher", 442, 4.52e-15, 1.75e-14, 3.55e-14},
    {"pusht", 512, 0.0613, 0.1424, 0.9548},
    {"cube", 128, 0.00352, 0.01035, 0.06111},
};

// Tables provenance and recurrent-schedule
static const paper_data datasets[] = {
    {"tworoom", 9000, 1000, 16384, 128, 32, 6000},
    {"reacher", 9000, 1000, 16384, 512, 16, 9000},
    {"pusht", 16685, 2000, 16384, 512, 16, 31000},
    {"cube", 9000, 1000, 4096, 128, 16, 3000},
};

// Table full seeds
static const paper_seed seeds[] = {
    {"tworoom", 1, 99, 89, 10, 5, 16, 10, 0, 0.480, 3.224},
    {"tworoom", 2, 100, 89, 11, 5, 18, 11, 0, 0.378, 3.224},
    {"tworoom", 3, 98, 89, 9, 3, 16, 10, 1, 0.391, 3.224},
    {"reacher", 1, 95, 88, 7, 0, 15, 11, 4, 0.675, 5.550},
    {"reacher", 2, 92, 88, 4, -4, 12, 10, 6, 0.407, 5.550},
    {"reacher", 3, 91, 88, 3, -5, 11, 10, 7, 0.429, 5.550},
    {"cube", 1, 88, 70, 18, 8, 28, 23, 5, 0.771, 2.389},
    {"cube", 2, 85, 70, 15, 5, 25, 21, 6, 0.575, 2.389},
    {"cube", 3, 91, 70, 21, 13, 30, 22, 1, 0.560, 2.389},
    {"pusht", 1, 72, 90, -18, -27, -9, 3, 21, 1.656, 3.926},
    {"pusht", 2, 74, 90, -16, -25, -7, 4, 20, 1.795, 3.926},
    {"pusht", 3, 81, 90, -9, -18, 0, 7, 16, 2.128, 3.926},
};

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

const char* paper_task_title(const char* task) {
    for (int i = 0; i < COUNT(titles); i++) {
        if (strcmp(titles[i].task, task) == 0) return titles[i].title;
    }
    return task;
}

const paper_method* paper_methods(int* count) {
    *count = COUNT(methods);
    return methods;
}

paper_value paper_method_task(const paper_method* m, const char* task) {
    static const paper_value none = NONE;
    if (strcmp(task, "tworoom") == 0) return m->tworoom;
    if (strcmp(task, "reacher") == 0) return m->reacher;
    if (strcmp(task, "pusht") == 0) return m->pusht;
    if (strcmp(task, "cube") == 0) return m->cube;
    return none;
}

paper_value paper_success(const char* task, const char* arm, const char* variant) {
    paper_value none = NONE;
    if (strcmp(arm, "lewm") == 0) {
        // the fixed paired baseline on the paper's own trials, not the published table
        const paper_seed* s = paper_find_seed(task, 1);
        paper_value v = {s ? s->lewm : NAN, NAN};
        return v;
    }
    if (strcmp(arm, "firm") != 0) return none;
    if (!variant[0]) return paper_method_task(&methods[COUNT(methods) - 1], task);
    for (int i = 0; i < COUNT(ablations); i++) {
        if (strcmp(ablations[i].variant, variant) != 0) continue;
        if (strcmp(task, "reacher") == 0) return ablations[i].reacher;
        if (strcmp(task, "cube") == 0) return ablations[i].cube;
    }
    return none;
}

paper_value paper_seconds(const char* task, const char* arm) {
    paper_value none = NONE;
    for (int i = 0; i < COUNT(seconds); i++) {
        if (strcmp(seconds[i].task, task) != 0) continue;
        if (strcmp(arm, "firm") == 0) return seconds[i].firm;
        if (strcmp(arm, "lewm") == 0) return seconds[i].lewm;
    }
    return none;
}

const paper_seed* paper_find_seed(const char* task, int seed) {
    for (int i = 0; i < COUNT(seeds); i++) {
        if (seeds[i].seed == seed && strcmp(seeds[i].task, task) == 0) return &seeds[i];
    }
    return NULL;
}

const paper_params* paper_find_params(const char* task) {
    for (int i = 0; i < COUNT(params); i++) {
        if (strcmp(params[i].task, task) == 0) return &params[i];
    }
    return NULL;
}

const paper_audit* paper_find_audit(const char* task) {
    for (int i = 0; i < COUNT(audits); i++) {
        if (strcmp(audits[i].task, task) == 0) return &audits[i];
    }
    return NULL;
}

const paper_data* paper_find_data(const char* task) {
    for (int i = 0; i < COUNT(datasets); i++) {
        if (strcmp(datasets[i].task, task) == 0) return &datasets[i];
    }
    return NULL;
}

const char* paper_task(int i) {
    return i >= 0 && i < COUNT(titles) ? titles[i].task : NULL;
}

const char* paper_variant(int i) {
    static const char* const order[] = {"factual only", "intervention only", "", "no history fiber",
                                        "mismatched outcomes"};
    return i >= 0 && i < COUNT(order) ? order[i] : NULL;
}
