// paper.c - reads configs/paper/paper.txt, once. A section is a task; its lines:
//
//     title = NAME                    as the paper writes it
//     success METHOD = MEAN SD        percent, contract search, goals 25 controls away
//     seconds ARM = MEAN SD           of planning per episode, on the paper's RTX 3060 laptop
//     ablation VARIANT = MEAN SD      success of the paper's method with a part left out
//     params = FRONTEND GROUNDER TRANSITION TOTAL                    millions
//     audit = ANCHORS MEAN P95 MAX                                   tolerance units
//     data = TRAINING VALIDATION SEGMENTS STATES PER_STATE UPDATES
//     seed = SEED FIRM LEWM DIFFERENCE LOW HIGH RESCUED HARMED SECONDS LEWM_SECONDS
//
// The text is part of the program: a line that does not fit is a mistake of ours and ends it.
#include "report/paper.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

enum { TASKS = 8, ROWS = 12, SEEDS = 8, NAME = 48 };

typedef struct paper_row {
    char name[NAME];
    paper_value value;
} paper_row;

typedef struct paper_rows {
    int count;
    paper_row row[ROWS];
} paper_rows;

typedef struct paper_section {
    char task[NAME], title[NAME];
    paper_rows success, seconds, ablation;
    paper_params params;
    paper_audit audit;
    paper_data data;
    int seeds;
    paper_seed seed[SEEDS];
} paper_section;

static paper_section sections[TASKS];
static int count;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

// ---- reading ------------------------------------------------------------------------------------

static double number(words* w) {
    return words_number(w, -1e9, 1e9);
}

static int whole(words* w) {
    return (int)words_whole(w, -1000000, 1000000);
}

static void take_row(paper_rows* rows, const char* name, words* w) {
    CHECK(rows->count < ROWS && strlen(name) < NAME, "the paper's figures: too many of %s", name);
    paper_row* row = &rows->row[rows->count++];
    snprintf(row->name, sizeof row->name, "%s", name);
    row->value.mean = number(w);
    row->value.sd = w->at && *w->at ? number(w) : NAN;
}

static void take_seed(paper_section* s, words* w) {
    CHECK(s->seeds < SEEDS, "the paper's figures: too many seeds");
    paper_seed* p = &s->seed[s->seeds++];
    p->task = s->task;
    p->seed = whole(w);
    double* const figure[] = {&p->firm, &p->lewm, &p->difference, &p->lo, &p->hi};
    for (int i = 0; i < 5; i++) *figure[i] = number(w);
    p->rescue = whole(w);
    p->harm = whole(w);
    p->firm_seconds = number(w);
    p->lewm_seconds = number(w);
}

// What follows a word and a space; NULL if the text does not begin so.
static const char* after(const char* text, const char* word) {
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && text[n] == ' ' ? text + n + 1 : NULL;
}

static int take(paper_section* s, const char* key, const char* value) {
    words w = {value};
    const char* name;
    if (strcmp(key, "title") == 0) {
        snprintf(s->title, sizeof s->title, "%s", value);
        return strlen(value) < sizeof s->title;
    }
    if ((name = after(key, "success"))) {
        take_row(&s->success, name, &w);
    } else if ((name = after(key, "seconds"))) {
        take_row(&s->seconds, name, &w);
    } else if ((name = after(key, "ablation"))) {
        take_row(&s->ablation, name, &w);
    } else if (strcmp(key, "params") == 0) {
        double* const figure[] = {&s->params.frontend, &s->params.grounder, &s->params.transition,
                                  &s->params.total};
        s->params.task = s->task;
        for (int i = 0; i < 4; i++) *figure[i] = number(&w);
    } else if (strcmp(key, "audit") == 0) {
        s->audit = (paper_audit){.task = s->task, .anchors = whole(&w)};
        s->audit.h5_mean = number(&w);
        s->audit.h5_p95 = number(&w);
        s->audit.max = number(&w);
    } else if (strcmp(key, "data") == 0) {
        int* const figure[] = {&s->data.training, &s->data.validation, &s->data.segments,
                               &s->data.states,   &s->data.per_state,  &s->data.recurrent_updates};
        s->data.task = s->task;
        for (int i = 0; i < 6; i++) *figure[i] = whole(&w);
    } else if (strcmp(key, "seed") == 0) {
        take_seed(s, &w);
    } else {
        return 0;
    }
    return words_end(&w);
}

static void take_line(char* line) {
    char* sign = strstr(line, " = ");
    size_t n = strlen(line);
    if (n == 0 || line[0] == ';') return;
    if (line[0] == '[' && line[n - 1] == ']') {
        CHECK(count < TASKS && n - 2 < NAME, "the paper's figures: too many tasks");
        memcpy(sections[count++].task, line + 1, n - 2);
        return;
    }
    CHECK(sign && count, "the paper's figures: '%s' is no line of a task", line);
    *sign = 0;
    CHECK(take(&sections[count - 1], line, sign + 3), "the paper's figures: '%s' does not fit",
          line);
}

static void read_text(void) {
    const char* text = paper_text("paper");
    CHECK(text, "the paper's figures are not in this build");
    for (const char* at = text; *at;) {
        char line[256];
        size_t n = strcspn(at, "\n");
        CHECK(n < sizeof line, "the paper's figures: a line of %zu bytes", n);
        memcpy(line, at, n);
        line[n] = 0;
        take_line(line);
        at += n + (at[n] == '\n');
    }
}

// ---- asking -------------------------------------------------------------------------------------

static const paper_section* section_at(int i) {
    pthread_once(&read_once, read_text);
    return i >= 0 && i < count ? &sections[i] : NULL;
}

static const paper_section* section_of(const char* task) {
    for (int i = 0; section_at(i); i++)
        if (strcmp(section_at(i)->task, task) == 0) return section_at(i);
    return NULL;
}

static paper_value value_of(const paper_rows* rows, const char* name) {
    for (int i = 0; rows && i < rows->count; i++)
        if (strcmp(rows->row[i].name, name) == 0) return rows->row[i].value;
    return (paper_value){NAN, NAN};
}

const char* paper_task(int i) {
    return section_at(i) ? section_at(i)->task : NULL;
}

const char* paper_task_title(const char* task) {
    const paper_section* s = section_of(task);
    return s ? s->title : task;
}

const char* paper_method(int i) {
    const paper_section* s = section_at(0);
    return s && i >= 0 && i < s->success.count ? s->success.row[i].name : NULL;
}

paper_value paper_method_success(const char* method, const char* task) {
    const paper_section* s = section_of(task);
    return value_of(s ? &s->success : NULL, method);
}

paper_value paper_success(const char* task, const char* arm, const char* variant) {
    const paper_section* s = section_of(task);
    if (s && strcmp(arm, "lewm") == 0) {
        // the fixed paired baseline on the paper's own trials, not the published table
        const paper_seed* seed = paper_find_seed(task, 1);
        return (paper_value){seed ? seed->lewm : NAN, NAN};
    }
    if (!s || strcmp(arm, "firm") != 0) return (paper_value){NAN, NAN};
    return variant[0] ? value_of(&s->ablation, variant)
                      : s->success.row[s->success.count - 1].value;
}

paper_value paper_seconds(const char* task, const char* arm) {
    const paper_section* s = section_of(task);
    return value_of(s ? &s->seconds : NULL, arm);
}

const paper_seed* paper_find_seed(const char* task, int seed) {
    const paper_section* s = section_of(task);
    for (int i = 0; s && i < s->seeds; i++)
        if (s->seed[i].seed == seed) return &s->seed[i];
    return NULL;
}

const paper_params* paper_find_params(const char* task) {
    const paper_section* s = section_of(task);
    return s && s->params.task ? &s->params : NULL;
}

const paper_audit* paper_find_audit(const char* task) {
    const paper_section* s = section_of(task);
    return s && s->audit.task ? &s->audit : NULL;
}

const paper_data* paper_find_data(const char* task) {
    const paper_section* s = section_of(task);
    return s && s->data.task ? &s->data : NULL;
}

const char* paper_variant(int i) {
    static const char* const order[] = {"factual only", "intervention only", "", "no history fiber",
                                        "mismatched outcomes"};
    return i >= 0 && i < (int)(sizeof order / sizeof *order) ? order[i] : NULL;
}
