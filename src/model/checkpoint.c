// checkpoint.c - what a model file means: which tensors belong to a model, and reading them into
// one. The container is safetensors.c, the metadata (task, shape, statistics) checkpoint_meta.c.
//
// Reading into an existing model happens in two passes, all checks and then all copies, so that a
// file that is refused leaves the model as it was.
#include "model/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "model/checkpoint_lists.h"
#include "model/checkpoint_meta.h"
#include "model/lewm/lewm.h"
#include "model/safetensors.h"

// ---- tensors ------------------------------------------------------------------------------------

// Of an ensemble's models, the first's tensors have their own names, those of the second
// "member.2." before them, and so on.
#define MEMBER_PREFIX "member."

static const char* tensor_name(char out[SAFETENSORS_NAME], int member, const char* name) {
    if (member == 1) return name;
    int length = snprintf(out, SAFETENSORS_NAME, MEMBER_PREFIX "%d.%s", member, name);
    CHECK(length < SAFETENSORS_NAME, "the parameter %s has a long name", name);
    return out;
}

// What a member shares with the first model lies under the first's name.
static int stored_with(const firm_model* m, int member, const nn_entry* e) {
    return m->shares && model_is_sight(e->name) ? 1 : member;
}

static int is_auxiliary(const nn_entry* e) {
    return strncmp(e->name, "aux.", 4) == 0;
}

// "49 x 64", or "a single number"
static const char* shape_text(char out[64], int rank, const size_t* dim) {
    snprintf(out, 64, rank ? "" : "a single number");
    for (int i = 0; i < rank; i++) text_add(out, 64, "%s%zu", i ? " x " : "", dim[i]);
    return out;
}

static firm_status check_tensor(const char* file, const safetensors* s, int member,
                                const nn_entry* e, int training, const safetensors_tensor** out,
                                firm_error* err) {
    char room[SAFETENSORS_NAME];
    const char* name = tensor_name(room, member, e->name);
    const safetensors_tensor* t = *out = safetensors_find(s, name);
    if (!t)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s lacks the tensor %s of a model of its shape; give a complete file", file,
                    name);
    int same = t->rank == e->rank;
    size_t want[SAFETENSORS_RANK];
    for (int i = 0; i < e->rank; i++) want[i] = (size_t)e->dim[i];
    for (int i = 0; same && i < e->rank; i++) same = t->dim[i] == want[i];
    char a[64], b[64];
    if (!same)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: the tensor %s is %s, a model of its shape has %s; make the file again",
                    file, name, shape_text(a, t->rank, t->dim), shape_text(b, e->rank, want));
    if (training && t->type != SAFETENSORS_F32)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s: the tensor %s is not F32, as it is in a training checkpoint; make it again", file,
            name);
    if (!safetensors_finite(t))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: the tensor %s holds a number that is not finite; train again or take an "
                    "earlier file",
                    file, name);
    return FIRM_OK;
}

// Every parameter of the model is there and sound.
static firm_status check_tensors(const char* file, const safetensors* s, int member,
                                 const firm_model* m, int training, firm_error* err) {
    const safetensors_tensor* t;
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        TRY(check_tensor(file, s, stored_with(m, member, e), e, training, &t, err));
    }
    return FIRM_OK;
}

// A member that shares the first model's tokenizer and grounder has none of its own.
static firm_status check_shared(const char* file, const safetensors* s, int member,
                                const firm_model* m, firm_error* err) {
    char room[SAFETENSORS_NAME];
    for (int i = 0; i < m->store->entries && m->shares; i++) {
        const nn_entry* e = &m->store->entry[i];
        if (model_is_sight(e->name) && safetensors_find(s, tensor_name(room, member, e->name)))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s holds the tensor %s, which member %d is said to share with the first "
                        "model; make the file again",
                        file, room, member);
    }
    return FIRM_OK;
}

// A parameter of one of the file's models, or one of the lists beside the first.
static int is_known(const firm_model* m, int members, const char* name) {
    const size_t length = strlen(MEMBER_PREFIX);
    int further = strncmp(name, MEMBER_PREFIX, length) == 0 && name[length] >= '2' &&
                  name[length] <= '1' + members && name[length + 1] == '.';
    if (further) return nn_store_find(m->store, name + length + 2) >= 0;
    return nn_store_find(m->store, name) >= 0 || checkpoint_list_known(name);
}

// ... and nothing else is.
static firm_status check_no_others(const char* file, const safetensors* s, const firm_model* m,
                                   int members, firm_error* err) {
    for (int i = 0; i < s->tensors; i++)
        if (!is_known(m, members, s->tensor[i].name))
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s holds the tensor %s, which no model of its shape has; make the file again",
                file, s->tensor[i].name);
    return FIRM_OK;
}

static void copy_tensors(const safetensors* s, int member, firm_model* m) {
    char room[SAFETENSORS_NAME];
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        const char* name = tensor_name(room, stored_with(m, member, e), e->name);
        safetensors_copy(safetensors_find(s, name), m->store->value + e->offset);
    }
}

// ---- writing ------------------------------------------------------------------------------------

typedef char tensor_names[SAFETENSORS_NAME];

// names: (entries) room for the names of a further member; the first's are its own.
static firm_status collect_tensors(const char* path, const firm_model* m, int member,
                                   checkpoint_kind kind, tensor_names* names,
                                   safetensors_tensor* tensor, int* tensors, firm_error* err) {
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        const float* value = m->store->value + e->offset;
        if (kind != CHECKPOINT_TRAINING && is_auxiliary(e)) continue;
        if (stored_with(m, member, e) != member) continue;
        for (size_t j = 0; j < e->count; j++)
            if (!isfinite(value[j]))
                return FAIL(
                    err, FIRM_E_VALUE,
                    "cannot write %s: %s[%zu] is not finite; the training has diverged, lower "
                    "the learning rate",
                    path, e->name, j);
        safetensors_tensor* t = &tensor[(*tensors)++];
        *t = (safetensors_tensor){
            .name = member == 1 ? e->name : tensor_name(names[i], member, e->name),
            .rank = e->rank,
            .count = e->count,
            .value = value};
        t->type = kind == CHECKPOINT_MODEL_HALF ? SAFETENSORS_F16 : SAFETENSORS_F32;
        for (int d = 0; d < e->rank; d++) t->dim[d] = (size_t)e->dim[d];
    }
    return FIRM_OK;
}

static firm_status collect_members(const char* path, const firm_model* m, checkpoint_kind kind,
                                   tensor_names* names, safetensors_tensor* tensor, int* tensors,
                                   firm_error* err) {
    for (int i = 0; i < m->members; i++) {
        TRY(collect_tensors(path, m->member[i], i + 2, kind, names, tensor, tensors, err));
        names += m->member[i]->store->entries;
    }
    return FIRM_OK;
}

static void collect_extras(const firm_model* m, const checkpoint_extra* extra, int extras,
                           safetensors_tensor* tensor, int* tensors) {
    for (int i = 0; i < extras; i++) {
        CHECK(nn_store_find(m->store, extra[i].name) < 0, "%s is a parameter's name",
              extra[i].name);
        tensor[(*tensors)++] = (safetensors_tensor){.name = extra[i].name,
                                                    .type = SAFETENSORS_F32,
                                                    .rank = 1,
                                                    .dim = {extra[i].count},
                                                    .count = extra[i].count,
                                                    .value = extra[i].data};
    }
}

firm_status checkpoint_write(const char* path, const firm_model* m, checkpoint_kind kind,
                             const checkpoint_extra* extra, int extras, const checkpoint_note* note,
                             int notes, firm_error* err) {
    CHECK(kind == CHECKPOINT_TRAINING || extras == 0, "extras belong into training checkpoints");
    CHECK(kind != CHECKPOINT_TRAINING || m->members == 0, "an ensemble is not trained on");
    int tensors = 0, further = 0;
    for (int i = 0; i < m->members; i++) further += m->member[i]->store->entries;
    size_t most = (size_t)(m->store->entries + further + extras + CHECKPOINT_LISTS);
    safetensors_tensor* tensor = mem_calloc(most, sizeof *tensor);
    tensor_names* names = mem_calloc((size_t)further + 1, sizeof *names);
    checkpoint_meta meta = {0};
    firm_status status = tensor && names
                             ? collect_tensors(path, m, 1, kind, NULL, tensor, &tensors, err)
                             : FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    if (status == FIRM_OK) collect_extras(m, extra, extras, tensor, &tensors);
    if (status == FIRM_OK && kind != CHECKPOINT_TRAINING) {
        safetensors_type type = kind == CHECKPOINT_MODEL_HALF ? SAFETENSORS_F16 : SAFETENSORS_F32;
        checkpoint_lists_collect(m, type, tensor, &tensors);
        status = collect_members(path, m, kind, names, tensor, &tensors, err);
    }
    if (status == FIRM_OK)
        status =
            checkpoint_meta_make(path, m, kind == CHECKPOINT_TRAINING, note, notes, &meta, err);
    if (status == FIRM_OK)
        status = safetensors_write(path, meta.text, meta.texts, tensor, tensors, err);
    checkpoint_meta_free(&meta);
    mem_free(names);
    mem_free(tensor);
    return status;
}

// ---- loading a model ----------------------------------------------------------------------------

// Of one frame.
static uint64_t token_numbers(const model_shape* s) {
    uint64_t cells = (uint64_t)s->grid * (uint64_t)s->grid;
    return s->keypoints ? (uint64_t)s->keypoints * (uint64_t)s->keypoint_width
                        : cells * (uint64_t)s->channels[3];
}

// Numbers in the matrices of a model of this shape: no model has fewer, so a file that speaks of a
// large one must be large itself before memory is taken for it. Fields are at most 8192 here.
static uint64_t least_sight(const model_shape* s) {
    uint64_t n = 0, cells = (uint64_t)s->grid * (uint64_t)s->grid, last = (uint64_t)s->channels[3];
    uint64_t tokens = token_numbers(s);
    for (int i = 1; i < 4; i++) n += 9 * (uint64_t)s->channels[i - 1] * (uint64_t)s->channels[i];
    n += cells * last + last * (uint64_t)s->keypoints;
    n += s->grounder == MODEL_GROUND_VOTES ? 9 * last * (uint64_t)s->grounder_hidden
                                           : tokens * (uint64_t)s->grounder_hidden;
    return n;
}

// ... beyond its tokenizer and grounder
static uint64_t least_others(const model_shape* s) {
    uint64_t n = 0, width = (uint64_t)s->history_width, hidden = (uint64_t)s->hidden;
    n += 2 * hidden * (uint64_t)s->spatial;
    n += (uint64_t)s->history_blocks * width * (4 * width + 2 * (uint64_t)s->history_inner);
    n += (5 * width + (uint64_t)s->place) * (uint64_t)s->belief;
    n += token_numbers(s) * (uint64_t)s->place;
    n += (uint64_t)s->fiber_hidden * ((uint64_t)s->belief + (uint64_t)s->fiber);
    n += 2 * hidden * (uint64_t)s->fiber + (uint64_t)s->blocks * 2 * hidden * (uint64_t)s->inner;
    return n;
}

static firm_status check_size(const char* file, const safetensors* s, const model_shape* shape,
                              int members, firm_error* err) {
    uint64_t held = 0, models = (uint64_t)members + 1, sights = models;
    for (int i = 2; i <= members + 1; i++) sights -= (uint64_t)checkpoint_meta_shares(s, i);
    uint64_t want = sights * least_sight(shape) + models * least_others(shape);
    for (int i = 0; i < s->tensors; i++) held += s->tensor[i].count;
    // each block of either kind brings at least six tensors
    int64_t blocks = (int64_t)models * ((int64_t)shape->history_blocks + shape->blocks);
    if (want > held || 6 * blocks > s->tensors)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s speaks of a model with more numbers than it holds (%llu); make the file again",
            file, (unsigned long long)held);
    return FIRM_OK;
}

static firm_status create(const char* file, const task_typed* task, const model_shape* shape,
                          firm_model** out, firm_error* err) {
    firm_error why = {0};
    firm_status status = model_create(task, shape, 0, 0, out, &why);
    if (status == FIRM_OK) return FIRM_OK;
    if (status == FIRM_E_MEMORY) return FAIL(err, status, "%s: %s", file, why.message);
    return FAIL(err, FIRM_E_FORMAT, "%s describes no possible model: %s", file, why.message);
}

// The next member of m's ensemble.
static firm_status read_member(const char* file, const safetensors* s, firm_model* m,
                               firm_error* err) {
    firm_model* member;
    TRY(create(file, &m->task, &m->shape, &member, err));
    m->member[m->members++] = member;
    int number = m->members + 1;
    TRY(checkpoint_meta_member(file, s, number, m, member, err));
    TRY(check_shared(file, s, number, member, err));
    TRY(check_tensors(file, s, number, member, 0, err));
    copy_tensors(s, number, member);
    return FIRM_OK;
}

static firm_status fill_model(const char* file, const safetensors* s, int training, int members,
                              firm_model* m, firm_error* err) {
    TRY(checkpoint_meta_stats(file, s, m, &m->stats, err));
    TRY(check_tensors(file, s, 1, m, 0, err));
    if (!training) TRY(check_no_others(file, s, m, members, err));
    TRY(checkpoint_lists_read(file, s, m, err));
    copy_tensors(s, 1, m);
    while (m->members < members) TRY(read_member(file, s, m, err));
    return checkpoint_meta_origin(file, s, m, err);
}

static firm_status make_model(const char* file, const safetensors* s, firm_model** out,
                              firm_error* err) {
    task_typed task;
    model_shape shape;
    int training, members;
    TRY(checkpoint_meta_format(file, s, &training, err));
    TRY(checkpoint_meta_task(file, s, &task, err));
    TRY(checkpoint_meta_shape(file, s, &shape, err));
    TRY(checkpoint_meta_members(file, s, &members, err));
    TRY(check_size(file, s, &shape, members, err));
    TRY(create(file, &task, &shape, out, err));
    firm_status status = fill_model(file, s, training, members, *out, err);
    if (status != FIRM_OK) {
        firm_model_free(*out);
        *out = NULL;
    }
    return status;
}

static firm_status parse_lewm(const char* name, const char* bytes, size_t n, firm_model** out,
                              firm_error* err) {
    lewm_model* lewm;
    TRY(lewm_parse(name, bytes, n, NULL, &lewm, err));
    return model_of_lewm(lewm, out, err);
}

static firm_status parse_model(const char* name, const char* bytes, size_t n,
                               safetensors_trust trust, firm_model** out, firm_error* err) {
    safetensors s;
    *out = NULL;
    firm_status status = safetensors_parse(name, bytes, n, trust, &s, err);
    int other = status != FIRM_OK && lewm_is(bytes, n);  // weights from elsewhere
    if (status == FIRM_OK) {
        other = safetensors_find(&s, "predictor.pos_embedding") != NULL;
        if (!other) status = make_model(name, &s, out, err);
        safetensors_free(&s);
    }
    return other ? parse_lewm(name, bytes, n, out, err) : status;
}

static firm_status load_model(const char* path, safetensors_trust trust, firm_model** model,
                              firm_error* err) {
    char* bytes;
    size_t n;
    *model = NULL;
    if (!path || !path[0]) return FAIL(err, FIRM_E_USAGE, "the name of the model file is empty");
    TRY(safetensors_load(path, &bytes, &n, err));
    firm_status status = parse_model(path, bytes, n, trust, model, err);
    mem_free(bytes);
    return status;
}

firm_status checkpoint_parse_model(const char* name, const char* bytes, size_t n, firm_model** out,
                                   firm_error* err) {
    return parse_model(name, bytes, n, SAFETENSORS_REFUSE_CHANGES, out, err);
}

firm_status checkpoint_parse_changed(const char* name, const char* bytes, size_t n,
                                     firm_model** out, firm_error* err) {
    return parse_model(name, bytes, n, SAFETENSORS_ACCEPT_CHANGES, out, err);
}

firm_status checkpoint_load_changed(const char* path, firm_model** out, firm_error* err) {
    return load_model(path, SAFETENSORS_ACCEPT_CHANGES, out, err);
}

firm_status firm_model_load(const char* path, firm_model** model, firm_error* err) {
    if (!model) return FAIL(err, FIRM_E_USAGE, "firm_model_load needs a place for the model");
    return load_model(path, SAFETENSORS_REFUSE_CHANGES, model, err);
}

// ---- putting an ensemble together ---------------------------------------------------------------

firm_status checkpoint_add_member(const char* path, firm_model* m, firm_error* err) {
    firm_model* member;
    if (m->members == MODEL_MEMBERS)
        return FAIL(err, FIRM_E_USAGE, "an ensemble has at most %d models; leave %s out",
                    1 + MODEL_MEMBERS, path);
    TRY(firm_model_load(path, &member, err));
    firm_status status =
        member->lewm ? FAIL(err, FIRM_E_FORMAT,
                            "%s is a model of LeWM; an ensemble is of models of FIRM", path)
        : member->members
            ? FAIL(err, FIRM_E_FORMAT,
                   "%s is an ensemble of %d models itself; give its members one by one", path,
                   1 + member->members)
            : checkpoint_meta_joins(path, member, m, err);
    if (status != FIRM_OK) {
        firm_model_free(member);
        return status;
    }
    // only the first model of an ensemble has these
    model_drop_support(member);
    model_drop_tokens(member);
    model_drop_recorded(member);
    member->shares = model_sees_alike(member, m);
    m->member[m->members++] = member;
    return FIRM_OK;
}

// ---- resuming a training run --------------------------------------------------------------------

// A file in memory, to take parts from.
typedef struct open_file {
    char* bytes;
    safetensors s;
} open_file;

static firm_status open_done(open_file* f, firm_status status) {
    safetensors_free(&f->s);
    mem_free(f->bytes);
    return status;
}

static firm_status open_read(const char* path, open_file* f, firm_error* err) {
    size_t n;
    TRY(safetensors_load(path, &f->bytes, &n, err));
    firm_status status =
        safetensors_parse(path, f->bytes, n, SAFETENSORS_REFUSE_CHANGES, &f->s, err);
    return status == FIRM_OK ? FIRM_OK : open_done(f, status);
}

static firm_status check_extra(const char* file, const safetensors* s,
                               const checkpoint_extra* extra, firm_error* err) {
    const safetensors_tensor* t = safetensors_find(s, extra->name);
    if (!t || t->type != SAFETENSORS_F32)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s lacks %s, which a training run needs to go on; start the run again", file,
                    extra->name);
    if (t->count != extra->count)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s holds %zu numbers of %s where the run has %zu: its settings have changed; "
                    "resume with those it was started with",
                    file, t->count, extra->name, extra->count);
    if (!safetensors_finite(t))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: %s holds a number that is not finite; start the run again in a new folder",
                    file, extra->name);
    return FIRM_OK;
}

static firm_status resume(const char* path, const safetensors* s, firm_model* m,
                          const checkpoint_extra* extra, int extras, checkpoint_note* note,
                          int notes, firm_error* err) {
    int training;
    model_stats stats = m->stats;
    TRY(checkpoint_meta_format(path, s, &training, err));
    if (!training)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s is a model for use, without what a training run needs to go on; resume from "
            "the checkpoint in the run's folder",
            path);
    TRY(checkpoint_meta_same(path, s, m, err));
    TRY(checkpoint_meta_stats(path, s, m, &stats, err));
    TRY(check_tensors(path, s, 1, m, 1, err));
    for (int i = 0; i < extras; i++) TRY(check_extra(path, s, &extra[i], err));
    TRY(checkpoint_meta_notes(path, s, note, notes, err));

    m->stats = stats;
    copy_tensors(s, 1, m);
    for (int i = 0; i < extras; i++)
        safetensors_copy(safetensors_find(s, extra[i].name), extra[i].data);
    return FIRM_OK;
}

firm_status checkpoint_read_training(const char* path, firm_model* m, const checkpoint_extra* extra,
                                     int extras, checkpoint_note* note, int notes,
                                     firm_error* err) {
    open_file f;
    TRY(open_read(path, &f, err));
    return open_done(&f, resume(path, &f.s, m, extra, extras, note, notes, err));
}

static firm_status take_weights(const char* path, const safetensors* s, firm_model* m,
                                firm_error* err) {
    int training, members;
    model_stats stats = m->stats;
    const safetensors_tensor* t;
    TRY(checkpoint_meta_format(path, s, &training, err));
    TRY(checkpoint_meta_begins(path, s, m, err));
    TRY(checkpoint_meta_members(path, s, &members, err));
    if (members)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is an ensemble of %d models and a run begins with one; give one of them",
                    path, 1 + members);
    TRY(checkpoint_meta_stats(path, s, m, &stats, err));
    for (int copy = 0; copy < 2; copy++)
        for (int i = 0; i < m->store->entries; i++) {
            const nn_entry* e = &m->store->entry[i];
            int later = (!training && is_auxiliary(e)) || strncmp(e->name, "reading.", 8) == 0 ||
                        strncmp(e->name, "aux.posture.", 12) == 0;
            if (later && !safetensors_find(s, e->name)) continue;
            TRY(check_tensor(path, s, 1, e, training, &t, err));
            if (copy) safetensors_copy(t, m->store->value + e->offset);
        }
    m->stats = stats;
    return FIRM_OK;
}

firm_status checkpoint_read_weights(const char* path, firm_model* m, firm_error* err) {
    open_file f;
    TRY(open_read(path, &f, err));
    return open_done(&f, take_weights(path, &f.s, m, err));
}
