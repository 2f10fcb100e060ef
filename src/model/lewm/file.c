// file.c - LeWM's files: the reference's tensors in a safetensors container, and the texts that
// make a file describe itself. Sizes follow from the tensors' shapes; what does not (heads,
// dropout) stands in "firm.lewm", and has the published values where that is missing.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "model/lewm/names.h"
#include "model/safetensors.h"

#define FORMAT "firm-lewm"
#define FORMAT_VERSION "1"

enum { STATS_ROOM = FIRM_MAX_ACTION * 24, TEXTS = 16, KEY_ROOM = 64 };

// ---- sizes from shapes --------------------------------------------------------------------------

static const safetensors_tensor* named(const safetensors* s, const char* name, const char* later) {
    const safetensors_tensor* t = safetensors_find(s, name);
    return t || !later ? t : safetensors_find(s, later);
}

// Dimension `axis` of a tensor as a size; 0 where there is none.
static int size_of(const safetensors_tensor* t, int axis, int rank) {
    if (!t || t->rank != rank || t->dim[axis] < 1 || t->dim[axis] > 1 << 20) return 0;
    return (int)t->dim[axis];
}

// blocks named stem.0, stem.1, ... that have the tensor `part`
static int count_blocks(const safetensors* s, const char* stem, const char* part) {
    char name[PART_NAME];
    int n = 0;
    for (; n <= LEWM_MAX_DEPTH; n++) {
        snprintf(name, sizeof name, "%s.%d.%s", stem, n, part);
        if (!safetensors_find(s, name)) break;
    }
    return n;
}

static void predictor_shape(const safetensors* s, lewm_shape* out, int* inner) {
    const char* stem = "predictor.transformer.layers";
    out->context = size_of(named(s, "predictor.pos_embedding", NULL), 1, 3);
    out->predictor_depth = count_blocks(s, stem, "attn.norm.weight");
    *inner = size_of(named(s, "predictor.transformer.layers.0.attn.to_out.0.weight", NULL), 1, 2);
    out->predictor_mlp =
        size_of(named(s, "predictor.transformer.layers.0.mlp.net.1.weight", NULL), 0, 2);
}

// "firm.lewm": heads, width of a predictor's head, dropout
static firm_status read_words(const char* file, const safetensors* s, lewm_shape* out,
                              firm_error* err) {
    const char* text = safetensors_value(s, "firm.lewm");
    lewm_shape usual = lewm_shape_default();
    out->heads = out->width % 64 == 0 ? out->width / 64 : 1;
    out->predictor_head = usual.predictor_head;
    out->dropout = usual.dropout;
    if (!text) return FIRM_OK;
    words w = {text};
    out->heads = (int)words_whole(&w, 1, 256);
    out->predictor_head = (int)words_whole(&w, 1, 256);
    out->dropout = (float)words_number(&w, 0, 0.999);
    if (words_end(&w)) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s: firm.lewm is not heads, head width and dropout; make the file again", file);
}

static firm_status read_shape(const char* file, const safetensors* s, lewm_shape* out,
                              firm_error* err) {
    const safetensors_tensor* pixels =
        named(s, "encoder.embeddings.patch_embeddings.projection.weight", NULL);
    if (!pixels)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is no model of LeWM: it has no tensor encoder.embeddings.patch_embeddings."
                    "projection.weight; convert weights.pt with scripts/reference/lewm_weights.py",
                    file);
    int inner;
    *out = (lewm_shape){.width = size_of(pixels, 0, 4), .patch = size_of(pixels, 3, 4)};
    int tokens = size_of(named(s, "encoder.embeddings.position_embeddings", NULL), 1, 3);
    int grid = (int)lrint(sqrt((double)(tokens > 1 ? tokens - 1 : 0)));
    out->image = grid * out->patch;
    out->depth = count_blocks(s, "encoder.encoder.layer", "layernorm_before.weight");
    if (!out->depth) out->depth = count_blocks(s, "encoder.layers", "layernorm_before.weight");
    out->mlp = size_of(named(s, "encoder.encoder.layer.0.intermediate.dense.weight",
                             "encoder.layers.0.mlp.fc1.weight"),
                       0, 2);
    out->projector = size_of(named(s, "projector.net.0.weight", NULL), 0, 2);
    out->action_hidden = size_of(named(s, "action_encoder.patch_embed.weight", NULL), 0, 3);
    out->action_mlp = size_of(named(s, "action_encoder.embed.0.weight", NULL), 0, 2);
    predictor_shape(s, out, &inner);
    const int size[] = {
        out->width,         out->patch,         out->image,      out->depth,
        out->mlp,           out->projector,     out->context,    out->predictor_depth,
        out->predictor_mlp, out->action_hidden, out->action_mlp, inner};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (size[i] < 1)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s lacks tensors of LeWM, or they have other shapes; make the file again",
                        file);
    TRY(read_words(file, s, out, err));
    out->predictor_heads = inner / out->predictor_head;
    if (grid * grid + 1 == tokens && inner == out->predictor_heads * out->predictor_head)
        return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s: %d positions and %d numbers of attention are no square of patches and no "
                "heads of %d; make the file again",
                file, tokens, inner, out->predictor_head);
}

// ---- task and statistics ------------------------------------------------------------------------

static firm_status read_stats(const char* file, const safetensors* s, const char* key, float least,
                              int count, float* out, firm_error* err) {
    const char* text = safetensors_value(s, key);
    words w = {text};
    for (int i = 0; i < count && text; i++) out[i] = (float)words_number(&w, (double)least, 1e30);
    if (text && words_end(&w)) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "%s: %s is not %d finite numbers%s; make the file again", file,
                key, count, least > 0 ? " above 0" : "");
}

static firm_status read_task(const char* file, const safetensors* s, const lewm_foreign* foreign,
                             task_typed* out, firm_error* err) {
    const char* typed = safetensors_value(s, "firm.typed");
    if (typed) {
        TRY(task_read(file, typed, out, err));
        return foreign && foreign->task ? task_expect(file, out, foreign->task, err) : FIRM_OK;
    }
    if (!foreign || !foreign->task)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s does not say which task it was trained for; complete it with `firm export "
                    "--task TASK --statistics 'means;deviations'`",
                    file);
    *out = *foreign->task;
    return FIRM_OK;
}

static firm_status read_origin(const char* file, const safetensors* s, const lewm_foreign* foreign,
                               lewm_model* m, firm_error* err) {
    int n = m->task.action_dim;
    const char *config = safetensors_value(s, "firm.config"),
               *origin = safetensors_value(s, "firm.provenance");
    if (config) {
        mem_free(m->config);
        m->config = mem_strdup(config);
        if (!m->config) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    }
    snprintf(m->provenance, sizeof m->provenance, "%s", origin ? origin : "");
    if (safetensors_value(s, "firm.action_mean")) {
        TRY(read_stats(file, s, "firm.action_mean", -1e30f, n, m->action_mean, err));
        return read_stats(file, s, "firm.action_std", 1e-30f, n, m->action_std, err);
    }
    if (!foreign || !foreign->action_mean)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has no statistics of its controls; complete it with `firm export --task "
                    "TASK --statistics 'means;deviations'`",
                    file);
    memcpy(m->action_mean, foreign->action_mean, (size_t)n * sizeof *m->action_mean);
    memcpy(m->action_std, foreign->action_std, (size_t)n * sizeof *m->action_std);
    return FIRM_OK;
}

// ---- tensors ------------------------------------------------------------------------------------

static firm_status check_part(const char* file, const lewm_part* p, const safetensors_tensor* t,
                              firm_error* err) {
    int same = t->rank == p->rank;
    for (int i = 0; same && i < p->rank; i++) same = t->dim[i] == p->dim[i];
    if (same) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s: tensor %s does not have the shape that its neighbours ask for; make the file "
                "again",
                file, t->name);
}

static firm_status read_part(const char* file, const safetensors* s, const lewm_part* p,
                             const lewm_model* m, float* room, firm_error* err) {
    const safetensors_tensor* t = named(s, p->name, p->later[0] ? p->later : NULL);
    if (!t)
        return FAIL(err, FIRM_E_FORMAT, "%s lacks the tensor %s; make the file again", file,
                    p->name);
    TRY(check_part(file, p, t, err));
    safetensors_copy(t, room);
    for (size_t i = 0; i < p->count; i++)
        if (!isfinite(room[i]))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: tensor %s holds a number that is not finite; make the file again",
                        file, t->name);
    lewm_part_take(m, p, room);
    return FIRM_OK;
}

static size_t largest(const lewm_part* part, int parts) {
    size_t most = 1;
    for (int i = 0; i < parts; i++)
        if (part[i].count > most) most = part[i].count;
    return most;
}

// All tensors of the model; `extra` further ones are allowed in the file.
static firm_status read_parts(const char* file, const safetensors* s, int extra, lewm_model* m,
                              firm_error* err) {
    lewm_part* part;
    int parts;
    TRY(lewm_parts(m, &part, &parts, err));
    float* room = mem_alloc(largest(part, parts) * sizeof *room);
    firm_status st = room ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    for (int i = 0; i < parts && st == FIRM_OK; i++)
        st = read_part(file, s, &part[i], m, room, err);
    if (st == FIRM_OK && s->tensors != parts + extra)
        st = FAIL(err, FIRM_E_FORMAT,
                  "%s holds %d tensors and a model of its sizes has %d; make the file again", file,
                  s->tensors - extra, parts);
    mem_free(room);
    mem_free(part);
    return st;
}

// ---- whole files --------------------------------------------------------------------------------

static firm_status read_model(const char* file, const safetensors* s, const lewm_foreign* foreign,
                              lewm_model** out, firm_error* err) {
    task_typed task;
    lewm_shape shape;
    const char* format = safetensors_value(s, "firm.format");
    if (format && strcmp(format, FORMAT) != 0)
        return FAIL(err, FIRM_E_FORMAT, "%s is no model of LeWM; give one that holds its tensors",
                    file);
    TRY(read_shape(file, s, &shape, err));
    TRY(read_task(file, s, foreign, &task, err));
    TRY(lewm_create(&task, &shape, 0, out, err));
    firm_status st = read_origin(file, s, foreign, *out, err);
    if (st == FIRM_OK) st = read_parts(file, s, 0, *out, err);
    if (st == FIRM_OK) return FIRM_OK;
    lewm_free(*out);
    *out = NULL;
    return st;
}

firm_status lewm_parse(const char* name, const char* bytes, size_t n, const lewm_foreign* foreign,
                       lewm_model** out, firm_error* err) {
    safetensors s;
    *out = NULL;
    TRY(safetensors_parse(name, bytes, n, SAFETENSORS_FOREIGN, &s, err));
    firm_status st = read_model(name, &s, foreign, out, err);
    safetensors_free(&s);
    return st;
}

firm_status lewm_read(const char* path, const lewm_foreign* foreign, lewm_model** out,
                      firm_error* err) {
    char* bytes;
    size_t n;
    *out = NULL;
    TRY(safetensors_load(path, &bytes, &n, err));
    firm_status st = lewm_parse(path, bytes, n, foreign, out, err);
    mem_free(bytes);
    return st;
}

int lewm_is(const char* bytes, size_t n) {
    safetensors s;
    firm_error err;
    if (safetensors_parse("", bytes, n, SAFETENSORS_FOREIGN, &s, &err) != FIRM_OK) return 0;
    int is = safetensors_find(&s, "predictor.pos_embedding") != NULL;
    safetensors_free(&s);
    return is;
}

int lewm_is_file(const char* path) {
    char* bytes;
    size_t n;
    firm_error err;
    if (safetensors_load(path, &bytes, &n, &err) != FIRM_OK) return 0;
    int is = lewm_is(bytes, n);
    mem_free(bytes);
    return is;
}

// ---- writing ------------------------------------------------------------------------------------

// Texts of a file while it is written.
typedef struct texts {
    safetensors_text* text;  // (TEXTS + notes)
    int count;
    char typed[TASK_TEXT], words[64], mean[STATS_ROOM], std[STATS_ROOM], library[32];
    char (*key)[KEY_ROOM];  // (notes)
} texts;

static void put(texts* t, const char* key, const char* value) {
    t->text[t->count++] = (safetensors_text){key, value};
}

static void numbers(char* out, const float* value, int count) {
    out[0] = 0;
    for (int i = 0; i < count; i++)
        CHECK((i == 0 || text_add(out, STATS_ROOM, " ")) &&
                  text_add_number(out, STATS_ROOM, (double)value[i]),
              "statistics do not fit");
}

static firm_status make_texts(const char* path, const lewm_model* m, const lewm_training* run,
                              texts* t, firm_error* err) {
    int notes = run->notes;
    t->text = mem_calloc((size_t)(TEXTS + notes), sizeof *t->text);
    t->key = mem_calloc((size_t)notes + 1, sizeof *t->key);
    if (!t->text || !t->key) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    put(t, "firm.format", FORMAT);
    put(t, "firm.format_version", FORMAT_VERSION);
    snprintf(t->library, sizeof t->library, "%d.%d.%d", FIRM_VERSION / 10000,
             FIRM_VERSION / 100 % 100, FIRM_VERSION % 100);
    put(t, "firm.library", t->library);
    put(t, "firm.task", m->task.name);
    CHECK(task_write(&m->task, t->typed, TASK_TEXT), "the task does not fit its room");
    put(t, "firm.typed", t->typed);
    CHECK(text_add(t->words, sizeof t->words, "%d %d ", m->shape.heads, m->shape.predictor_head) &&
              text_add_number(t->words, sizeof t->words, (double)m->shape.dropout),
          "the sizes do not fit");
    put(t, "firm.lewm", t->words);
    numbers(t->mean, m->action_mean, m->task.action_dim);
    numbers(t->std, m->action_std, m->task.action_dim);
    put(t, "firm.action_mean", t->mean);
    put(t, "firm.action_std", t->std);
    put(t, "firm.config", m->config);
    put(t, "firm.provenance", m->provenance);
    for (int i = 0; i < notes; i++) {
        int n = snprintf(t->key[i], KEY_ROOM, "firm.%s", run->note[i].key);
        CHECK(n > 0 && n < KEY_ROOM, "the note %s has a long name", run->note[i].key);
        put(t, t->key[i], run->note[i].value);
    }
    return FIRM_OK;
}

// the model's tensors in the file's order, their numbers in `room`
static void give_parts(const lewm_model* m, const lewm_part* part, int parts, float* room,
                       safetensors_tensor* out) {
    for (int i = 0; i < parts; i++) {
        out[i] = (safetensors_tensor){
            .name = part[i].name,
            .type = part[i].kind == PART_COUNT ? SAFETENSORS_I64 : SAFETENSORS_F32,
            .rank = part[i].rank,
            .count = part[i].count,
            .value = room};
        memcpy(out[i].dim, part[i].dim, sizeof part[i].dim);
        lewm_part_give(m, &part[i], room);
        room += part[i].count;
    }
}

static firm_status write_parts(const char* path, const lewm_model* m, const texts* t,
                               const lewm_training* run, firm_error* err) {
    lewm_part* part;
    int parts;
    TRY(lewm_parts(m, &part, &parts, err));
    size_t numbers = 0;
    for (int i = 0; i < parts; i++) numbers += part[i].count;
    float* room = mem_alloc(numbers * sizeof *room);
    safetensors_tensor* tensor = mem_calloc((size_t)(parts + run->extras), sizeof *tensor);
    firm_status st = FIRM_OK;
    if (room && tensor) {
        give_parts(m, part, parts, room, tensor);
        for (int i = 0; i < run->extras; i++)
            tensor[parts + i] = (safetensors_tensor){.name = run->extra[i].name,
                                                     .type = SAFETENSORS_F32,
                                                     .rank = 1,
                                                     .dim = {run->extra[i].count},
                                                     .count = run->extra[i].count,
                                                     .value = run->extra[i].data};
        st = safetensors_write(path, t->text, t->count, tensor, parts + run->extras, err);
    } else {
        st = FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    }
    mem_free(tensor);
    mem_free(room);
    mem_free(part);
    return st;
}

firm_status lewm_write(const char* path, const lewm_model* m, const lewm_training* run,
                       firm_error* err) {
    const lewm_training nothing = {0};
    texts* t = mem_calloc(1, sizeof *t);
    if (!t) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    if (!run) run = &nothing;
    firm_status st = make_texts(path, m, run, t, err);
    if (st == FIRM_OK) st = write_parts(path, m, t, run, err);
    mem_free(t->text);
    mem_free(t->key);
    mem_free(t);
    return st;
}

// ---- training runs ------------------------------------------------------------------------------

static firm_status same_shape(const char* file, const lewm_shape* a, const lewm_shape* b,
                              firm_error* err) {
    if (memcmp(a, b, sizeof *a) == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s was made with other sizes in the [lewm] section; use the settings it was made "
                "with",
                file);
}

static firm_status read_extra(const char* file, const safetensors* s, const lewm_extra* extra,
                              firm_error* err) {
    const safetensors_tensor* t = safetensors_find(s, extra->name);
    if (!t || t->count != extra->count)
        return FAIL(err, FIRM_E_FORMAT, "%s lacks %zu numbers of %s; begin the run anew", file,
                    extra->count, extra->name);
    safetensors_copy(t, extra->data);
    for (size_t i = 0; i < extra->count; i++)
        if (!isfinite(extra->data[i]))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: %s holds a number that is not finite; begin the "
                        "run anew",
                        file, extra->name);
    return FIRM_OK;
}

static firm_status read_notes(const char* file, const safetensors* s, lewm_note* note, int notes,
                              firm_error* err) {
    for (int i = 0; i < notes; i++) {
        char key[KEY_ROOM];
        snprintf(key, sizeof key, "firm.%s", note[i].key);
        const char* text = safetensors_value(s, key);
        if (text && strlen(text) >= sizeof note[i].value)
            return FAIL(err, FIRM_E_FORMAT, "%s: the note %s is too long; begin the run anew", file,
                        key);
        snprintf(note[i].value, sizeof note[i].value, "%s", text ? text : "");
    }
    return FIRM_OK;
}

static firm_status read_run(const char* file, const safetensors* s, lewm_model* m,
                            const lewm_training* run, firm_error* err) {
    task_typed task;
    lewm_shape shape;
    TRY(read_shape(file, s, &shape, err));
    TRY(same_shape(file, &shape, &m->shape, err));
    TRY(read_task(file, s, NULL, &task, err));
    TRY(task_expect(file, &task, &m->task, err));
    TRY(read_notes(file, s, run->note, run->notes, err));
    for (int i = 0; i < run->extras; i++) TRY(read_extra(file, s, &run->extra[i], err));
    TRY(read_origin(file, s, NULL, m, err));
    return read_parts(file, s, run->extras, m, err);
}

firm_status lewm_read_training(const char* path, lewm_model* m, const lewm_training* run,
                               firm_error* err) {
    char* bytes;
    size_t n;
    safetensors s;
    TRY(safetensors_load(path, &bytes, &n, err));
    firm_status st = safetensors_parse(path, bytes, n, SAFETENSORS_REFUSE_CHANGES, &s, err);
    if (st == FIRM_OK) {
        st = read_run(path, &s, m, run, err);
        safetensors_free(&s);
    }
    mem_free(bytes);
    return st;
}
