// taskfile.c - the words of a task file. Those of a typed task go to task/text.c as they are; here
// are the formulas of [config], the columns of a data set, and the simulator's.
#include "env/taskfile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "task/reader.h"

typedef struct reading {
    task_reader r;
    taskfile* f;
    unsigned said;  // a bit for each word of `own` below
} reading;

// ---- values -------------------------------------------------------------------------------------

static int take_word(const char* value, char out[TASKFILE_NAME]) {
    words w = {value};
    words_text(&w, out, TASKFILE_NAME);
    return words_end(&w);
}

static int take_names(const char* value, taskfile_names* out) {
    words w = {value};
    for (out->count = 0; w.at && *w.at && out->count < TASKFILE_LIST; out->count++)
        words_text(&w, out->name[out->count], TASKFILE_NAME);
    return out->count > 0 && words_end(&w);
}

static int take_view(const char* value, taskfile_simulator* s) {
    words w = {value};
    for (int i = 0; i < 6; i++) s->view[i] = words_number(&w, i == 3 ? 1e-3 : -1e4, 1e4);
    s->has_view = 1;
    return words_end(&w);
}

// Beside the task file, unless it begins at the root.
static int take_path(const char* file, const char* value, char out[1024]) {
    const char* slash = strrchr(file, '/');
    int folder = slash && value[0] != '/' ? (int)(slash - file) + 1 : 0;
    int n = snprintf(out, 1024, "%.*s%s", folder, file, value);
    return value[0] && n > 0 && n < 1024;
}

static int take_whole(const char* value, int least, int most, int* out) {
    words w = {value};
    *out = (int)words_whole(&w, least, most);
    return words_end(&w);
}

// ---- single words -------------------------------------------------------------------------------

enum { IMAGE, PIXELS, ACTION, TIME, XML, CAMERA, VIEW, KEYFRAME, ACTUATORS, HIDE, EPISODE, WORDS };
static const struct {
    const char *section, *key, *wanted;
} own[WORDS] = {
    {"task", "image", "the column of pictures"},
    {"task", "pixels", "a whole number of pixels, 64 to 512"},
    {"task", "action", "the column of actions"},
    {"task", "time", "the column of times, in seconds"},
    {"simulator", "xml", "the path of an MJCF model"},
    {"simulator", "camera", "the name of a camera of the model"},
    {"simulator", "view",
     "six numbers: x y z of the point looked at, distance, azimuth and elevation in degrees"},
    {"simulator", "keyframe", "the name of a keyframe of the model"},
    {"simulator", "actuators", "1 to 16 names of actuators"},
    {"simulator", "hide", "1 to 16 names of geoms, sites or tendons"},
    {"simulator", "episode", "a whole number of controls, 30 to 10000"},
};

static int take_own(reading* g, int which, int* pixels) {
    taskfile* f = g->f;
    taskfile_simulator* s = &f->simulator;
    const char* value = g->r.value;
    switch (which) {
        case IMAGE: return take_word(value, f->image);
        case PIXELS: return take_whole(value, 64, 512, pixels);
        case ACTION: return take_word(value, f->action);
        case TIME: return take_word(value, f->time);
        case XML: return take_path(f->path, value, s->xml);
        case CAMERA: return take_word(value, s->camera);
        case VIEW: return take_view(value, s);
        case KEYFRAME: return take_word(value, s->keyframe);
        case ACTUATORS: return take_names(value, &s->actuators);
        case HIDE: return take_names(value, &s->hide);
        default: return take_whole(value, 30, 10000, &s->episode);
    }
}

// A line of the typed task that the file does not write itself.
static firm_status say(task_reader* r, const char* section, const char* key, const char* value,
                       firm_error* err) {
    if (task_reader_has(r, section, key)) return FIRM_OK;
    snprintf(r->section, sizeof r->section, "%s", section);
    snprintf(r->key, sizeof r->key, "%s", key);
    snprintf(r->value, sizeof r->value, "%s", value);
    return task_reader_take(r, err);
}

static firm_status say_number(task_reader* r, const char* section, const char* key, int value,
                              firm_error* err) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return say(r, section, key, text, err);
}

// ---- formulas -----------------------------------------------------------------------------------

static int find_ref(void* user, const expression_ref* ref, char* why, size_t room) {
    taskfile* f = user;
    for (int i = 0; i < f->refs; i++)
        if (strcmp(f->ref[i].name, ref->name) == 0 && strcmp(f->ref[i].of, ref->of) == 0 &&
            f->ref[i].index == ref->index)
            return i;
    if (f->refs == TASKFILE_REFS) {
        snprintf(why, room, "the task reads more than %d numbers", TASKFILE_REFS);
        return -1;
    }
    f->at[f->refs] = f->refs;
    f->ref[f->refs] = *ref;
    return f->refs++;
}

// `angle EXPRESSION` or `EXPRESSION`; the typed task is told angle or position.
static firm_status take_formula(reading* g, firm_error* err) {
    taskfile* f = g->f;
    char why[160];
    const char* text = g->r.value;
    int angle = strncmp(text, "angle ", 6) == 0;
    if (f->formulas == FIRM_MAX_CONFIG)
        return task_reader_bad(&g->r, "to be left out: there are too many coordinates", err);
    if (!expression_parse(text + (angle ? 6 : 0), find_ref, f, &f->formula[f->formulas], why,
                          sizeof why))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s, line %d of the task: [config] %s: %s%s; write an expression such as "
                    "(xpos[0] - 0.2) / 0.4, or `angle` and one",
                    g->r.from, g->r.line, g->r.key, why, angle ? " after `angle`" : "");
    f->formulas++;
    snprintf(g->r.value, sizeof g->r.value, "%s", angle ? "angle" : "position");
    return task_reader_take(&g->r, err);
}

static firm_status take_start(reading* g, firm_error* err) {
    taskfile_simulator* s = &g->f->simulator;
    words w = {g->r.value};
    if (s->starts == TASKFILE_LIST || strlen(g->r.key) >= TASKFILE_NAME)
        return task_reader_bad(&g->r, "to be left out: there are too many", err);
    taskfile_start* one = &s->start[s->starts++];
    snprintf(one->joint, sizeof one->joint, "%s", g->r.key);
    one->low = words_number(&w, -1e4, 1e4);
    one->high = words_number(&w, -1e4, 1e4);
    if (!words_end(&w) || one->low > one->high)
        return task_reader_bad(&g->r, "the least and the largest position of a joint", err);
    for (int i = 0; i < s->starts - 1; i++)
        if (strcmp(s->start[i].joint, one->joint) == 0)
            return task_reader_bad(&g->r, "to be said once", err);
    return FIRM_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

static firm_status take_line(reading* g, int* pixels, firm_error* err) {
    task_reader* r = &g->r;
    for (int i = 0; i < WORDS; i++) {
        if (strcmp(own[i].section, r->section) != 0 || strcmp(own[i].key, r->key) != 0) continue;
        if (g->said >> i & 1) return task_reader_bad(r, "to be said once", err);
        g->said |= 1u << i;
        return take_own(g, i, pixels) ? FIRM_OK : task_reader_bad(r, own[i].wanted, err);
    }
    if (strcmp(r->section, "config") == 0) return take_formula(g, err);
    if (strcmp(r->section, "start") == 0) return take_start(g, err);
    if (strcmp(r->section, "task") == 0 && strcmp(r->key, "chi") == 0)
        return task_reader_bad(r, "to be left out: it follows from the coordinates", err);
    return task_reader_take(r, err);
}

// What a simulator needs, and what makes no sense without one.
static firm_status check_words(const reading* g, firm_error* err) {
    const taskfile* f = g->f;
    const taskfile_simulator* s = &f->simulator;
    const unsigned simulator = ~0u << XML & ((1u << WORDS) - 1);
    const unsigned columns = 1u << IMAGE | 1u << ACTION | 1u << TIME;
    if (f->formulas == 0)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: the task has no [config]; name its coordinates there, one a line",
                    f->path);
    if (!s->xml[0] && (g->said & simulator || s->starts))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: [simulator] and [start] belong to a MuJoCo model; name it with xml = "
                    "FILE under [simulator], or leave them out",
                    f->path);
    if (!s->xml[0]) return FIRM_OK;
    if (g->said & columns)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: image, action and time name columns of recorded data; leave them out "
                    "where [simulator] makes the data",
                    f->path);
    if (!s->camera[0] == !s->has_view)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: [simulator] needs a camera of the model or a view, and not both", f->path);
    return FIRM_OK;
}

// What may be left out.
static firm_status fill_in(reading* g, int pixels, firm_error* err) {
    taskfile* f = g->f;
    task_reader* r = &g->r;
    static const char* const usual[][3] = {
        {"task", "cost", "max"}, {"task", "controls", "5"},   {"action", "low", "-1"},
        {"action", "high", "1"}, {"action", "clamped", "no"},
    };
    int actions = f->simulator.xml[0] != 0;  // of a simulator, taskfile_finish sets them
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        TRY(say(r, usual[i][0], usual[i][1], usual[i][2], err));
    TRY(say_number(r, "task", "image", pixels ? pixels : 224, err));
    TRY(say_number(r, "task", "chi", f->task.config_dim, err));
    if (actions && task_reader_has(r, "action", "count"))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: the actions are the model's actuators; leave [action] out", f->path);
    if (actions) TRY(say(r, "action", "count", "1", err));
    if (!f->image[0]) snprintf(f->image, sizeof f->image, "pixels");
    if (!f->action[0]) snprintf(f->action, sizeof f->action, "action");
    if (f->simulator.episode == 0) f->simulator.episode = 100;
    return task_reader_end(r, err);
}

firm_status taskfile_read_text(const char* path, const char* text, taskfile* f, firm_error* err) {
    reading g = {.f = f};
    int more, pixels = 0;
    memset(f, 0, sizeof *f);
    if ((size_t)snprintf(f->path, sizeof f->path, "%s", path) >= sizeof f->path)
        return FAIL(err, FIRM_E_USAGE, "the path %.80s... is too long", path);
    task_reader_begin(&g.r, f->path, text, &f->task);
    for (;;) {
        TRY(task_reader_next(&g.r, &more, err));
        if (!more) break;
        TRY(take_line(&g, &pixels, err));
    }
    TRY(check_words(&g, err));
    return fill_in(&g, pixels, err);
}

firm_status taskfile_read(const char* path, taskfile* out, firm_error* err) {
    char* text;
    size_t n;
    TRY(file_read_most(path, TASKFILE_BYTES, &text, &n, err));
    firm_status status = strlen(text) == n
                             ? taskfile_read_text(path, text, out, err)
                             : FAIL(err, FIRM_E_FORMAT, "%s is no text; give a task file", path);
    mem_free(text);
    return status;
}

firm_status taskfile_finish(taskfile* f, int actions, firm_error* err) {
    f->task.action_dim = actions;
    f->task.action_low = -1;
    f->task.action_high = 1;
    f->task.action_clamped = 1;
    return task_check(&f->task, f->path, err);
}

void taskfile_config(const taskfile* f, const double* state, float* c) {
    const int pairs = f->task.pairs;
    for (int i = 0; i < f->formulas; i++) {
        double value = expression_value(&f->formula[i], state, f->at);
        if (i < pairs) {
            c[2 * i] = (float)sin(value);
            c[2 * i + 1] = (float)cos(value);
        } else {
            c[pairs + i] = (float)value;
        }
    }
}
