// settings.c - joins the key tables of the folders and reads the layers of a task's settings.
#include "eval/settings.h"

#include <pthread.h>
#include <string.h>

#include "eval/defaults.h"
#include "eval/draws.h"
#include "train/lewm/lewm.h"
#include "train/shape.h"
#include "train/train.h"

enum { MOST_KEYS = 192 };

static config_key keys[MOST_KEYS];  // lives as long as the configs made from it
static int key_count;
static pthread_once_t joined = PTHREAD_ONCE_INIT;

static void add(const config_key* more, int count) {
    CHECK(key_count + count <= MOST_KEYS, "more than %d settings", MOST_KEYS);
    for (int i = 0; i < count; i++) keys[key_count++] = more[i];
}

static void join(void) {
    add(model_keys, model_key_count);
    add(train_keys, train_key_count);
    add(draw_keys, draw_key_count);
    for (int i = 0; i < plan_setting_count; i++) {
        const plan_setting* s = &plan_settings[i];
        config_key key = {"plan",   s->name, s->real ? CONFIG_REAL : CONFIG_INT,
                          s->least, s->most, s->value,
                          NULL,     s->help};
        add(&key, 1);
    }
}

static firm_status fresh(config** out, firm_error* err) {
    pthread_once(&joined, join);
    return config_create(keys, key_count, out, err);
}

static int asks_for_defaults(const char* file) {
    return file && strcmp(file, DEFAULTS_NAME) == 0;
}

static int stands_alone(const char* file) {
    return file && (config_builtin(file) || asks_for_defaults(file));
}

int settings_are_chosen(const task_typed* task, const char* file) {
    return asks_for_defaults(file) || (!stands_alone(file) && !config_builtin(task->name));
}

static firm_status add_chosen(config* c, const task_typed* task, firm_error* err) {
    char text[DEFAULTS_TEXT];
    const defaults d = defaults_choose(task);
    defaults_settings(task, &d, text);
    return config_read_text(c, DEFAULTS_NAME, text, err);
}

firm_status settings_add(config* c, const task_typed* task, const char* file, firm_error* err) {
    const char* text = config_builtin(file);
    if (text) return config_read_text(c, file, text, err);
    return asks_for_defaults(file) ? add_chosen(c, task, err) : config_read_file(c, file, err);
}

firm_status settings_load(const task_typed* task, const char* file, const char* const* overrides,
                          int count, config** out, firm_error* err) {
    firm_status st = fresh(out, err);
    // a named config stands alone; a file of the user's comes on top of the task's
    if (st == FIRM_OK && task && !stands_alone(file))
        st = config_builtin(task->name) ? settings_add(*out, task, task->name, err)
                                        : add_chosen(*out, task, err);
    if (st == FIRM_OK && file) st = settings_add(*out, task, file, err);
    for (int i = 0; i < count && st == FIRM_OK; i++) st = config_set(*out, overrides[i], err);
    if (st != FIRM_OK) {
        config_free(*out);
        *out = NULL;
    }
    return st;
}

firm_status settings_from_text(const char* task, const char* text, config** out, firm_error* err) {
    firm_status st = fresh(out, err);
    if (st == FIRM_OK) st = config_read_text(*out, task, text, err);
    if (st != FIRM_OK) {
        config_free(*out);
        *out = NULL;
    }
    return st;
}

static double plan_value(const void* from, const char* name) {
    for (int i = 0; i < plan_setting_count; i++)
        if (strcmp(plan_settings[i].name, name) == 0)
            return plan_settings[i].real ? config_real(from, "plan", name)
                                         : (double)config_int(from, "plan", name);
    CHECK(0, "there is no plan setting %s", name);
    return 0;
}

void settings_plan(const config* c, firm_mode mode, plan_options* out) {
    plan_options_read(plan_value, c, mode, out);
}

void settings_help(FILE* to) {
    pthread_once(&joined, join);
    config_help(keys, key_count, to);
    config_help(lewm_keys, lewm_key_count, to);
}
