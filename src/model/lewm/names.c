// names.c - the list of tensors: 303 for the published sizes.
#include "model/lewm/names.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"

// A list while it is made. Without memory it only counts.
typedef struct list {
    const lewm_model* m;
    lewm_part* part;
    int count;
    lewm_part none;
} list;

// `ours`: the parameter; `theirs`: in a released file; `later`: under transformers 5, or NULL
static lewm_part* add(list* l, const char* ours, const char* theirs, const char* later) {
    lewm_part* p = l->part ? &l->part[l->count] : &l->none;
    l->count++;
    *p = (lewm_part){.entry = nn_store_find(l->m->store, ours), .kind = PART_PLAIN};
    CHECK(p->entry >= 0, "LeWM has no parameter %s", ours);
    snprintf(p->name, sizeof p->name, "%s", theirs);
    snprintf(p->later, sizeof p->later, "%s", later ? later : "");
    return p;
}

static void shape(lewm_part* p, int rank, const size_t* dim) {
    p->rank = rank;
    p->count = 1;
    for (int i = 0; i < rank; i++) p->count *= p->dim[i] = dim[i];
}

// the dimensions of a parameter, `ones` of 1 before them
static void same_shape(list* l, lewm_part* p, int ones) {
    const nn_entry* e = &l->m->store->entry[p->entry];
    size_t dim[PART_RANK] = {1, 1};
    for (int i = 0; i < e->rank; i++) dim[ones + i] = (size_t)e->dim[i];
    shape(p, ones + e->rank, dim);
}

// name of one of a layer's tensors: stem.weight
static const char* with(char room[PART_NAME], const char* stem, const char* suffix) {
    int n = snprintf(room, PART_NAME, "%s.%s", stem, suffix);
    CHECK(n > 0 && n < PART_NAME, "the name %s.%s is too long", stem, suffix);
    return room;
}

static void vector(list* l, const char* ours, const char* theirs, const char* later,
                   const char* suffix) {
    char a[PART_NAME], b[PART_NAME], c[PART_NAME];
    lewm_part* p = add(l, with(a, ours, suffix), with(b, theirs, suffix),
                       later ? with(c, later, suffix) : NULL);
    same_shape(l, p, 0);
}

static lewm_part* turned(list* l, const char* ours, const char* theirs, const char* later) {
    char a[PART_NAME], b[PART_NAME], c[PART_NAME];
    lewm_part* p = add(l, with(a, ours, "weight"), with(b, theirs, "weight"),
                       later ? with(c, later, "weight") : NULL);
    const nn_entry* e = &l->m->store->entry[p->entry];
    shape(p, 2, (size_t[]){(size_t)e->dim[1], (size_t)e->dim[0]});
    p->kind = PART_TURNED;
    return p;
}

static void linear(list* l, const char* ours, const char* theirs, const char* later) {
    turned(l, ours, theirs, later);
    vector(l, ours, theirs, later, "bias");
}

static void norm(list* l, const char* ours, const char* theirs) {
    vector(l, ours, theirs, NULL, "weight");
    vector(l, ours, theirs, NULL, "bias");
}

// one third of a matrix whose columns are queries, keys and values
static void third(list* l, const char* ours, const char* theirs, const char* later, int which) {
    char a[PART_NAME], b[PART_NAME], c[PART_NAME];
    int width = l->m->shape.width;
    lewm_part* w = turned(l, ours, theirs, later);
    shape(w, 2, (size_t[]){(size_t)width, (size_t)width});
    w->column = which * width;
    lewm_part* bias =
        add(l, with(a, ours, "bias"), with(b, theirs, "bias"), with(c, later, "bias"));
    shape(bias, 1, (size_t[]){(size_t)width});
    bias->column = which * width;
}

// a name of block i: "encoder.encoder.layer.3.output.dense"
static const char* in_block(char room[PART_NAME], const char* stem, int i, const char* part) {
    int n = snprintf(room, PART_NAME, "%s.%d.%s", stem, i, part);
    CHECK(n > 0 && n < PART_NAME, "the name %s.%d.%s is too long", stem, i, part);
    return room;
}

static void encoder_block(list* l, int i) {
    static const char* const old[] = {"attention.attention.query", "attention.attention.key",
                                      "attention.attention.value"};
    static const char* const fresh[] = {"attention.q_proj", "attention.k_proj", "attention.v_proj"};
    static const struct {
        const char *ours, *old, *fresh;
    } dense[] = {{"out", "attention.output.dense", "attention.o_proj"},
                 {"up", "intermediate.dense", "mlp.fc1"},
                 {"down", "output.dense", "mlp.fc2"}};
    static const char* const norms[][2] = {{"norm1", "layernorm_before"},
                                           {"norm2", "layernorm_after"}};
    char a[PART_NAME], b[PART_NAME], c[PART_NAME];
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < 2; s++)
            vector(l, in_block(a, "encoder", i, norms[k][0]),
                   in_block(b, "encoder.encoder.layer", i, norms[k][1]),
                   in_block(c, "encoder.layers", i, norms[k][1]), s ? "bias" : "weight");
    for (int k = 0; k < 3; k++)
        third(l, in_block(a, "encoder", i, "qkv"), in_block(b, "encoder.encoder.layer", i, old[k]),
              in_block(c, "encoder.layers", i, fresh[k]), k);
    for (int k = 0; k < 3; k++)
        linear(l, in_block(a, "encoder", i, dense[k].ours),
               in_block(b, "encoder.encoder.layer", i, dense[k].old),
               in_block(c, "encoder.layers", i, dense[k].fresh));
}

static void predictor_block(list* l, int i) {
    char a[PART_NAME], b[PART_NAME];
    const char* stem = "predictor.transformer.layers";
    norm(l, in_block(a, "predictor", i, "norm1"), in_block(b, stem, i, "attn.norm"));
    turned(l, in_block(a, "predictor", i, "qkv"), in_block(b, stem, i, "attn.to_qkv"), NULL);
    linear(l, in_block(a, "predictor", i, "out"), in_block(b, stem, i, "attn.to_out.0"), NULL);
    norm(l, in_block(a, "predictor", i, "norm2"), in_block(b, stem, i, "mlp.net.0"));
    linear(l, in_block(a, "predictor", i, "up"), in_block(b, stem, i, "mlp.net.1"), NULL);
    linear(l, in_block(a, "predictor", i, "down"), in_block(b, stem, i, "mlp.net.4"), NULL);
    linear(l, in_block(a, "predictor", i, "modulation"), in_block(b, stem, i, "adaLN_modulation.1"),
           NULL);
}

static void head(list* l, const char* ours, const char* theirs) {
    char a[PART_NAME], b[PART_NAME];
    linear(l, with(a, ours, "up"), with(b, theirs, "0"), NULL);
    norm(l, with(a, ours, "norm"), with(b, theirs, "1"));
    vector(l, with(a, ours, "norm"), with(b, theirs, "1"), NULL, "running_mean");
    vector(l, with(a, ours, "norm"), with(b, theirs, "1"), NULL, "running_var");
    char ours_count[PART_NAME], theirs_count[PART_NAME];
    lewm_part* p = add(l, with(ours_count, a, "num_batches_tracked"),
                       with(theirs_count, b, "num_batches_tracked"), NULL);
    shape(p, 0, NULL);
    p->kind = PART_COUNT;
    linear(l, with(a, ours, "down"), with(b, theirs, "3"), NULL);
}

static void embeddings(list* l) {
    const lewm_shape* s = &l->m->shape;
    size_t width = (size_t)s->width, p = (size_t)s->patch;
    same_shape(l, add(l, "encoder.class", "encoder.embeddings.cls_token", NULL), 2);
    same_shape(l, add(l, "encoder.positions", "encoder.embeddings.position_embeddings", NULL), 1);
    lewm_part* pixels = add(l, "encoder.patches.weight",
                            "encoder.embeddings.patch_embeddings.projection.weight", NULL);
    shape(pixels, 4, (size_t[]){width, 3, p, p});
    pixels->kind = PART_PIXELS;
    vector(l, "encoder.patches", "encoder.embeddings.patch_embeddings.projection", NULL, "bias");
}

static void all_parts(list* l) {
    const lewm_shape* s = &l->m->shape;
    embeddings(l);
    for (int i = 0; i < s->depth; i++) encoder_block(l, i);
    norm(l, "encoder.norm", "encoder.layernorm");
    same_shape(l, add(l, "predictor.positions", "predictor.pos_embedding", NULL), 1);
    norm(l, "predictor.norm", "predictor.transformer.norm");
    for (int i = 0; i < s->predictor_depth; i++) predictor_block(l, i);
    lewm_part* patch = turned(l, "actions.patch", "action_encoder.patch_embed", NULL);
    shape(patch, 3, (size_t[]){patch->dim[0], patch->dim[1], 1});
    vector(l, "actions.patch", "action_encoder.patch_embed", NULL, "bias");
    linear(l, "actions.up", "action_encoder.embed.0", NULL);
    linear(l, "actions.down", "action_encoder.embed.2", NULL);
    head(l, "projector", "projector.net");
    head(l, "head", "pred_proj.net");
}

firm_status lewm_parts(const lewm_model* m, lewm_part** out, int* count, firm_error* err) {
    list l = {.m = m};
    all_parts(&l);
    *out = l.part = mem_calloc((size_t)l.count, sizeof *l.part);
    *count = l.count;
    if (!l.part) return FAIL(err, FIRM_E_MEMORY, "no memory to list a model's tensors");
    l.count = 0;
    all_parts(&l);
    return FIRM_OK;
}

// ---- numbers ------------------------------------------------------------------------------------

// Where number i of the file's tensor stands in the parameter.
static size_t place(const lewm_model* m, const lewm_part* p, size_t i) {
    const nn_entry* e = &m->store->entry[p->entry];
    size_t columns = (size_t)e->dim[e->rank - 1];
    if (p->kind == PART_TURNED) {
        size_t k = p->dim[1];
        return i % k * columns + (size_t)p->column + i / k;
    }
    if (p->kind == PART_PIXELS) {
        size_t side = p->dim[3], x = i % side, y = i / side % side;
        size_t channel = i / (side * side) % 3, row = i / (side * side * 3);
        return ((y * side + x) * 3 + channel) * columns + row;
    }
    return (size_t)p->column + i;
}

void lewm_part_take(const lewm_model* m, const lewm_part* p, const float* file) {
    float* to = m->store->value + m->store->entry[p->entry].offset;
    for (size_t i = 0; i < p->count; i++) to[place(m, p, i)] = file[i];
}

void lewm_part_give(const lewm_model* m, const lewm_part* p, float* file) {
    const float* from = m->store->value + m->store->entry[p->entry].offset;
    for (size_t i = 0; i < p->count; i++) file[i] = from[place(m, p, i)];
}
