// checkpoint_meta.c - the "firm.*" texts of a model file, made and read. docs/formats.md lists
// them.
#define _GNU_SOURCE
#include "model/checkpoint_meta.h"

#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"

#define FORMAT_VERSION "1"
// what a member may have in common with the first model
#define SHARES "tokenizer grounder"

enum {
    SIZE_LIMIT = 8192,  // of any field of a shape; bounds what is computed before memory is taken
    NUMBER_ROOM = 24,   // characters of one statistic and its space
    VALUE_ROOM = 1024,  // longest value made here: 32 statistics or the shape
    KEY_ROOM = 64
};

// ---- the shape: words in the order and with the names of the [model] section --------------------

// Words that files of the time before them lack have a value for such files.
enum { ASKED = -1 };

static const struct {
    const char* name;
    size_t at;
    int missing;  // what a file without the word means, or ASKED: the word has to be there
} field[] = {
    {"channel1", offsetof(model_shape, channels[0]), ASKED},
    {"channel2", offsetof(model_shape, channels[1]), ASKED},
    {"channel3", offsetof(model_shape, channels[2]), ASKED},
    {"channel4", offsetof(model_shape, channels[3]), ASKED},
    {"groups", offsetof(model_shape, groups), ASKED},
    {"grounder_hidden", offsetof(model_shape, grounder_hidden), ASKED},
    {"history_width", offsetof(model_shape, history_width), ASKED},
    {"history_inner", offsetof(model_shape, history_inner), ASKED},
    {"history_blocks", offsetof(model_shape, history_blocks), ASKED},
    {"history_heads", offsetof(model_shape, history_heads), ASKED},
    {"belief", offsetof(model_shape, belief), ASKED},
    {"fiber", offsetof(model_shape, fiber), ASKED},
    {"fiber_hidden", offsetof(model_shape, fiber_hidden), ASKED},
    {"hidden", offsetof(model_shape, hidden), ASKED},
    {"inner", offsetof(model_shape, inner), ASKED},
    {"blocks", offsetof(model_shape, blocks), ASKED},
    {"no_fiber", offsetof(model_shape, no_fiber), ASKED},
    {"grid", offsetof(model_shape, grid), 7},
    {"keypoints", offsetof(model_shape, keypoints), 0},
    {"keypoint_width", offsetof(model_shape, keypoint_width), 32},
    {"history_pool", offsetof(model_shape, history_pool), 1},
    {"grounder", offsetof(model_shape, grounder), MODEL_GROUND_FLAT},
    {"grounder_residual", offsetof(model_shape, grounder_residual), 256},
    {"spatial", offsetof(model_shape, spatial), 0},
    {"reading", offsetof(model_shape, reading), 0},
    {"place", offsetof(model_shape, place), 0},
};
enum { FIELDS = sizeof field / sizeof *field };
_Static_assert(sizeof(model_shape) == FIELDS * sizeof(int), "a field of model_shape is not stored");

static int* shape_at(const model_shape* s, int i) {
    return (int*)((char*)s + field[i].at);
}

static void shape_words(const model_shape* s, char out[VALUE_ROOM]) {
    out[0] = 0;
    for (int i = 0; i < FIELDS; i++)
        CHECK(text_add(out, VALUE_ROOM, "%s%s=%d", i ? " " : "", field[i].name, *shape_at(s, i)),
              "the shape does not fit");
}

firm_status checkpoint_meta_shape(const char* file, const safetensors* s, model_shape* shape,
                                  firm_error* err) {
    const char* p = safetensors_value(s, "firm.shape");
    int ended = !p;  // no further words; each is followed by a space or by the end
    for (int i = 0; i < FIELDS; i++) {
        if (ended && p && field[i].missing != ASKED) {
            *shape_at(shape, i) = field[i].missing;
            continue;
        }
        size_t length = strlen(field[i].name);
        long value = -1;
        if (!ended && strncmp(p, field[i].name, length) == 0 && p[length] == '=') {
            char* end;
            p += length + 1;
            value = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : -1;
            if (value >= 0) p = end;
        }
        if (value < 0 || value > SIZE_LIMIT || (*p != ' ' && *p != 0) ||
            (*p == ' ' && i + 1 == FIELDS))
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s does not give %s of the model's shape as a whole number from 0 to %d; make "
                "the file again",
                file, field[i].name, SIZE_LIMIT);
        *shape_at(shape, i) = (int)value;
        ended = *p == 0;
        if (!ended) p++;
    }
    if (shape->no_fiber > 1)
        return FAIL(err, FIRM_E_FORMAT, "%s: no_fiber in the shape is %d, not 0 or 1", file,
                    shape->no_fiber);
    return FIRM_OK;
}

// ---- statistics ---------------------------------------------------------------------------------

typedef struct stat_list {
    char key[KEY_ROOM];
    float* value;
    int count, spread;  // spread: a standard deviation, above 0
} stat_list;

enum { STATS = 6 };

// "firm.NAME"; of an ensemble's further members "firm.member.2.NAME" and so on.
static char* key_of(char out[KEY_ROOM], int member, const char* name) {
    if (member == 1)
        snprintf(out, KEY_ROOM, "firm.%s", name);
    else
        snprintf(out, KEY_ROOM, "firm.member.%d.%s", member, name);
    return out;
}

static void list_stats(const task_typed* task, const model_stats* stats, int member,
                       stat_list out[STATS]) {
    model_stats* s = (model_stats*)stats;  // written to only by callers who own it
    const struct {
        const char* name;
        float* value;
        int count, spread;
    } all[STATS] = {{"image_mean", s->image_mean, 3, 0},
                    {"image_std", s->image_std, 3, 1},
                    {"action_mean", s->action_mean, task->action_dim, 0},
                    {"action_std", s->action_std, task->action_dim, 1},
                    {"chi_mean", s->chi_mean, task->chi_dim, 0},
                    {"chi_std", s->chi_std, task->chi_dim, 1}};
    for (int i = 0; i < STATS; i++) {
        out[i] = (stat_list){.value = all[i].value, .count = all[i].count, .spread = all[i].spread};
        key_of(out[i].key, member, all[i].name);
    }
}

// Numbers in files have a point, whatever the language of the program around us.
static locale_t plain_numbers(locale_t* before) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *before = uselocale(c);
    return c;
}

static void usual_numbers(locale_t c, locale_t before) {
    uselocale(before);
    if (c) freelocale(c);
}

static int stat_valid(const stat_list* l, float v) {
    return isfinite(v) && (!l->spread || v > 0);
}

static firm_status read_stat(const char* file, const safetensors* s, const stat_list* l,
                             firm_error* err) {
    const char* p = safetensors_value(s, l->key);
    int i = 0;
    for (; p && i < l->count; i++) {
        char* end;
        // nine significant digits give back the same float
        float v = *p != ' ' ? strtof(p, &end) : NAN;
        if (!stat_valid(l, v) || end == p || *end != (i + 1 < l->count ? ' ' : 0)) break;
        l->value[i] = v;
        p = end + 1;
    }
    if (i == l->count) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "%s: %s is not %d finite numbers%s; make the file again", file,
                l->key, l->count, l->spread ? " above 0" : "");
}

static firm_status read_stats(const char* file, const safetensors* s, int member,
                              const task_typed* task, model_stats* stats, firm_error* err) {
    stat_list list[STATS];
    list_stats(task, stats, member, list);
    locale_t before, c = plain_numbers(&before);
    firm_status status = FIRM_OK;
    for (int i = 0; i < STATS && status == FIRM_OK; i++) status = read_stat(file, s, &list[i], err);
    usual_numbers(c, before);
    return status;
}

firm_status checkpoint_meta_stats(const char* file, const safetensors* s, const firm_model* m,
                                  model_stats* stats, firm_error* err) {
    return read_stats(file, s, 1, &m->task, stats, err);
}

static firm_status stat_text(const char* path, const stat_list* l, char out[VALUE_ROOM],
                             firm_error* err) {
    _Static_assert(TASK_MAX_CHI * NUMBER_ROOM <= VALUE_ROOM, "statistics do not fit");
    out[0] = 0;
    for (int i = 0; i < l->count; i++) {
        if (!stat_valid(l, l->value[i]))
            return FAIL(err, FIRM_E_VALUE, "cannot write %s: %s[%d] is %g; look for it in the data",
                        path, l->key + 5, i, (double)l->value[i]);
        CHECK(text_add(out, VALUE_ROOM, "%s%.9g", i ? " " : "", (double)l->value[i]),
              "statistics do not fit");
    }
    return FIRM_OK;
}

// ---- writing ------------------------------------------------------------------------------------

static const char* const reserved[] = {
    "firm.checksum",   "firm.format",     "firm.format_version", "firm.library",
    "firm.task",       "firm.typed",      "firm.shape",          "firm.config",
    "firm.provenance", "firm.image_mean", "firm.image_std",      "firm.action_mean",
    "firm.action_std", "firm.chi_mean",   "firm.chi_std",        "firm.members",
    "firm.digest",
};

// One for each text that is added: where its key and value are made, if they are made here.
typedef struct meta_slot {
    char key[KEY_ROOM], value[VALUE_ROOM];
} meta_slot;

static meta_slot* next_slot(const checkpoint_meta* meta) {
    return (meta_slot*)meta->memory + meta->texts;
}

static void add(checkpoint_meta* meta, const char* key, const char* value) {
    meta->text[meta->texts++] = (safetensors_text){key, value};
}

static firm_status add_stats(const char* path, const firm_model* m, int member,
                             checkpoint_meta* meta, firm_error* err) {
    stat_list list[STATS];
    list_stats(&m->task, &m->stats, member, list);
    locale_t before, c = plain_numbers(&before);
    firm_status status = FIRM_OK;
    for (int i = 0; i < STATS && status == FIRM_OK; i++) {
        meta_slot* to = next_slot(meta);
        memcpy(to->key, list[i].key, KEY_ROOM);
        status = stat_text(path, &list[i], to->value, err);
        add(meta, to->key, to->value);
    }
    usual_numbers(c, before);
    return status;
}

// What an ensemble's further models have of their own.
static firm_status add_members(const char* path, const firm_model* m, checkpoint_meta* meta,
                               firm_error* err) {
    if (m->members == 0) return FIRM_OK;
    meta_slot* to = next_slot(meta);
    snprintf(to->value, VALUE_ROOM, "%d", m->members + 1);
    add(meta, "firm.members", to->value);
    for (int i = 0; i < m->members; i++) {
        TRY(add_stats(path, m->member[i], i + 2, meta, err));
        to = next_slot(meta);
        add(meta, key_of(to->key, i + 2, "provenance"), m->member[i]->provenance);
        to = next_slot(meta);
        if (m->member[i]->shares) add(meta, key_of(to->key, i + 2, "shares"), SHARES);
    }
    return FIRM_OK;
}

firm_status checkpoint_meta_make(const char* path, const firm_model* m, int training,
                                 const checkpoint_note* note, int notes, checkpoint_meta* out,
                                 firm_error* err) {
    int most = (int)(sizeof reserved / sizeof *reserved) + notes + m->members * (STATS + 2);
    memset(out, 0, sizeof *out);
    out->text = mem_calloc((size_t)most, sizeof *out->text);
    out->memory = mem_calloc((size_t)most, sizeof(meta_slot));
    out->typed = mem_calloc(TASK_TEXT, 1);
    if (!out->text || !out->memory || !out->typed)
        return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);

    add(out, "firm.format", training ? "firm-training" : "firm-model");
    add(out, "firm.format_version", FORMAT_VERSION);
    char* value = next_slot(out)->value;
    snprintf(value, VALUE_ROOM, "%d.%d.%d", FIRM_VERSION / 10000, FIRM_VERSION / 100 % 100,
             FIRM_VERSION % 100);
    add(out, "firm.library", value);
    add(out, "firm.task", m->task.name);
    CHECK(task_write(&m->task, out->typed, TASK_TEXT), "the task does not fit its room");
    add(out, "firm.typed", out->typed);
    shape_words(&m->shape, value = next_slot(out)->value);
    add(out, "firm.shape", value);
    TRY(add_stats(path, m, 1, out, err));
    add(out, "firm.config", m->config ? m->config : "");
    add(out, "firm.provenance", m->provenance);
    TRY(add_members(path, m, out, err));

    for (int i = 0; i < notes; i++) {
        char* key = next_slot(out)->key;
        CHECK(strlen(note[i].key) + 5 < KEY_ROOM, "the note %s has a long name", note[i].key);
        key_of(key, 1, note[i].key);
        for (size_t j = 0; j < sizeof reserved / sizeof *reserved; j++)
            CHECK(strcmp(key, reserved[j]) != 0, "the note %s has a name of the format", key);
        add(out, key, note[i].value);
    }
    return FIRM_OK;
}

void checkpoint_meta_free(checkpoint_meta* meta) {
    mem_free(meta->text);
    mem_free(meta->memory);
    mem_free(meta->typed);
}

// ---- reading ------------------------------------------------------------------------------------

firm_status checkpoint_meta_format(const char* file, const safetensors* s, int* training,
                                   firm_error* err) {
    const char* format = safetensors_value(s, "firm.format");
    const char* version = safetensors_value(s, "firm.format_version");
    *training = format && strcmp(format, "firm-training") == 0;
    if (!format || (!*training && strcmp(format, "firm-model") != 0))
        return FAIL(err, FIRM_E_FORMAT, "%s is no model file of firm; give one that firm wrote",
                    file);
    if (!version || strcmp(version, FORMAT_VERSION) != 0)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has version '%s' of the format and this program reads " FORMAT_VERSION
                    "; use the version of firm that wrote it",
                    file, version && safetensors_printable(version, 16) ? version : "?");
    return FIRM_OK;
}

static const char* task_of(const safetensors* s) {
    const char* task = safetensors_value(s, "firm.task");
    return task && safetensors_printable(task, 64) ? task : "?";
}

// Files older than the section [push] mean what version 0.1 pushed, if theirs is the same task.
static firm_status add_push(task_typed* task, firm_error* err) {
    const char* text = task_of_version_1(task->name);
    task_typed old;
    firm_error other;
    if (task->push.boxes || !text) return FIRM_OK;
    TRY(task_read(task->name, text, &old, err));
    if (task_expect(task->name, task, &old, &other) == FIRM_OK) task->push = old.push;
    return FIRM_OK;
}

firm_status checkpoint_meta_task(const char* file, const safetensors* s, task_typed* task,
                                 firm_error* err) {
    const char *typed = safetensors_value(s, "firm.typed"), *name = task_of(s);
    if (!typed) typed = task_of_version_1(name);
    if (!typed)
        return FAIL(err, FIRM_E_TASK,
                    "%s is for the task '%s' and does not describe it; write it again with the "
                    "version of firm that made it and `firm export`",
                    file, name);
    TRY(task_read(file, typed, task, err));
    TRY(add_push(task, err));
    if (strcmp(task->name, name) == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s is for the task '%s' and describes the task '%s'; make the file again", file,
                name, task->name);
}

static firm_status same_shape(const char* file, const model_shape* shape, const firm_model* m,
                              firm_error* err) {
    for (int i = 0; i < FIELDS; i++)
        if (*shape_at(shape, i) != *shape_at(&m->shape, i))
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s was made with model.%s = %d and not %d; use the settings it was made with",
                file, field[i].name, *shape_at(shape, i), *shape_at(&m->shape, i));
    return FIRM_OK;
}

// The file's task and shape, which must be those of the model's task.
static firm_status read_shape(const char* file, const safetensors* s, const firm_model* m,
                              model_shape* shape, firm_error* err) {
    task_typed task;
    TRY(checkpoint_meta_task(file, s, &task, err));
    TRY(task_expect(file, &task, &m->task, err));
    return checkpoint_meta_shape(file, s, shape, err);
}

firm_status checkpoint_meta_same(const char* file, const safetensors* s, const firm_model* m,
                                 firm_error* err) {
    model_shape shape;
    TRY(read_shape(file, s, m, &shape, err));
    return same_shape(file, &shape, m, err);
}

firm_status checkpoint_meta_begins(const char* file, const safetensors* s, const firm_model* m,
                                   firm_error* err) {
    model_shape shape;
    TRY(read_shape(file, s, m, &shape, err));
    if (shape.reading == 0) shape.reading = m->shape.reading;  // trained last, on top of all others
    shape.no_fiber = m->shape.no_fiber;                        // the same parameters
    return same_shape(file, &shape, m, err);
}

// The model's provenance, of which files have one for each member.
static firm_status read_provenance(const char* file, const safetensors* s, int member,
                                   firm_model* m, firm_error* err) {
    char key[KEY_ROOM];
    const char* provenance = safetensors_value(s, key_of(key, member, "provenance"));
    if (!provenance || strlen(provenance) >= sizeof m->provenance)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s does not say with which settings it was made; make the file again", file);
    snprintf(m->provenance, sizeof m->provenance, "%s", provenance);
    return FIRM_OK;
}

firm_status checkpoint_meta_origin(const char* file, const safetensors* s, firm_model* m,
                                   firm_error* err) {
    const char* config = safetensors_value(s, "firm.config");
    if (!config)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s does not say with which settings it was made; make the file again", file);
    TRY(read_provenance(file, s, 1, m, err));
    char* copy = mem_strdup(config);
    if (!copy) return FAIL(err, FIRM_E_MEMORY, "no memory for the settings in %s", file);
    mem_free(m->config);
    m->config = copy;
    return FIRM_OK;
}

firm_status checkpoint_meta_notes(const char* file, const safetensors* s, checkpoint_note* note,
                                  int notes, firm_error* err) {
    for (int i = 0; i < notes; i++) {
        char key[KEY_ROOM];
        snprintf(key, sizeof key, "firm.%s", note[i].key);
        const char* value = safetensors_value(s, key);
        if (value && strlen(value) >= sizeof note[i].value)
            return FAIL(err, FIRM_E_FORMAT, "%s: the note %s is too long; make the file again",
                        file, note[i].key);
        snprintf(note[i].value, sizeof note[i].value, "%s", value ? value : "");
    }
    return FIRM_OK;
}

// ---- ensembles ----------------------------------------------------------------------------------

firm_status checkpoint_meta_members(const char* file, const safetensors* s, int* members,
                                    firm_error* err) {
    const char* count = safetensors_value(s, "firm.members");
    *members = count && count[0] >= '2' && count[0] <= '1' + MODEL_MEMBERS && !count[1]
                   ? count[0] - '1'
                   : 0;
    if (!count || *members) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s: members is not a whole number from 2 to %d; make the file again", file,
                1 + MODEL_MEMBERS);
}

// A plan is one sequence of standardised actions for all members: it must mean the same to each.
static firm_status same_actions(const char* file, const firm_model* m, const firm_model* first,
                                firm_error* err) {
    for (int i = 0; i < m->task.action_dim; i++)
        if (m->stats.action_mean[i] != first->stats.action_mean[i] ||
            m->stats.action_std[i] != first->stats.action_std[i])
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: a member has action_mean[%d] = %.9g and action_std[%d] = %.9g, the "
                        "first model %.9g and %.9g; use models trained on the same data",
                        file, i, (double)m->stats.action_mean[i], i, (double)m->stats.action_std[i],
                        (double)first->stats.action_mean[i], (double)first->stats.action_std[i]);
    return FIRM_OK;
}

static int same_pictures(const firm_model* m, const firm_model* first) {
    const model_stats *a = &m->stats, *b = &first->stats;
    return memcmp(a->image_mean, b->image_mean, sizeof a->image_mean) == 0 &&
           memcmp(a->image_std, b->image_std, sizeof a->image_std) == 0;
}

firm_status checkpoint_meta_member(const char* file, const safetensors* s, int member,
                                   const firm_model* first, firm_model* m, firm_error* err) {
    TRY(read_stats(file, s, member, &m->task, &m->stats, err));
    TRY(same_actions(file, m, first, err));
    char key[KEY_ROOM];
    const char* shares = safetensors_value(s, key_of(key, member, "shares"));
    if (shares && strcmp(shares, SHARES) != 0)
        return FAIL(err, FIRM_E_FORMAT, "%s: %s is not '" SHARES "'; make the file again", file,
                    key);
    m->shares = shares != NULL;
    if (m->shares && !same_pictures(m, first))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: member %d shares the first model's tokenizer but not its image_mean and "
                    "image_std; make the file again",
                    file, member);
    return read_provenance(file, s, member, m, err);
}

int checkpoint_meta_shares(const safetensors* s, int member) {
    char key[KEY_ROOM];
    return safetensors_value(s, key_of(key, member, "shares")) != NULL;
}

firm_status checkpoint_meta_joins(const char* file, const firm_model* m, const firm_model* first,
                                  firm_error* err) {
    TRY(task_expect(file, &m->task, &first->task, err));
    for (int i = 0; i < FIELDS; i++)
        if (*shape_at(&m->shape, i) != *shape_at(&first->shape, i))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s has model.%s = %d and the first model %d; give members of one shape",
                        file, field[i].name, *shape_at(&m->shape, i), *shape_at(&first->shape, i));
    return same_actions(file, m, first, err);
}
