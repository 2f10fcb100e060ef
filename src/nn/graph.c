// graph.c - building static graphs: shapes are checked here, once, so kernels need not.
#include "nn/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

firm_status nn_graph_create(nn_store* store, nn_graph** out, firm_error* err) {
    *out = mem_calloc(1, sizeof **out);
    if (!*out) return FAIL(err, FIRM_E_MEMORY, "no memory for a graph");
    (*out)->store = store;
    // room for the first tensors now: later, any valid id can stand in for one that found no memory
    (*out)->tensor_cap = 64;
    (*out)->tensor = mem_alloc(64 * sizeof *(*out)->tensor);
    if (!(*out)->tensor) {
        nn_graph_free(*out);
        *out = NULL;
        return FAIL(err, FIRM_E_MEMORY, "no memory for a graph");
    }
    return FIRM_OK;
}

void nn_graph_free(nn_graph* g) {
    if (!g) return;
    for (int i = 0; i < g->masks; i++) mem_free(g->mask[i]);
    mem_free(g->mask);
    mem_free(g->tensor);
    mem_free(g->node);
    mem_free(g->term);
    mem_free(g->output);
    mem_free(g);
}

// room for one more element of an array; 0 and g->broken when memory runs out
static int grow(nn_graph* g, void** array, int count, int* cap, size_t size) {
    if (count < *cap) return 1;
    int wider = *cap ? 2 * *cap : 64;
    void* fresh = mem_realloc(*array, (size_t)*cap * size, (size_t)wider * size);
    if (!fresh) {
        g->broken = 1;
        return 0;
    }
    *array = fresh;
    *cap = wider;
    return 1;
}

static nn_id new_tensor(nn_graph* g, nn_kind kind, int rank, const int* dim) {
    int room =
        !g->broken && grow(g, (void**)&g->tensor, g->tensors, &g->tensor_cap, sizeof *g->tensor);
    if (g->tensors > 0 && !room) return g->tensors - 1;  // broken: any valid id will do
    CHECK(rank >= 1 && rank <= NN_MAX_RANK, "a tensor of rank %d", rank);
    nn_tensor* t = &g->tensor[g->tensors];
    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->rank = rank;
    t->size = 1;
    for (int i = 0; i < rank; i++) {
        CHECK(dim[i] > 0, "dimension %d of a tensor is %d", i, dim[i]);
        t->dim[i] = dim[i];
        t->size *= dim[i];
    }
    t->root = g->tensors;
    t->entry = -1;
    t->producer = -1;
    return g->tensors++;
}

const int* nn_dims(const nn_graph* g, nn_id x) {
    return g->tensor[x].dim;
}
int nn_size(const nn_graph* g, nn_id x) {
    return g->tensor[x].size;
}
int nn_last(const nn_graph* g, nn_id x) {
    return g->tensor[x].dim[g->tensor[x].rank - 1];
}

void nn_train(nn_graph* g, const char* prefix) {
    CHECK(g->trains < 8 && strlen(prefix) < 32, "too many trained prefixes");
    snprintf(g->train[g->trains++], 32, "%s", prefix);
}

void nn_random(nn_graph* g, uint64_t seed) {
    g->seed = seed;
}

// ---- leaves -------------------------------------------------------------------------------------

nn_id nn_input(nn_graph* g, const char* name, int rank, const int* dim) {
    nn_id id = new_tensor(g, NN_INPUT, rank, dim);
    snprintf(g->tensor[id].name, sizeof g->tensor[id].name, "%s", name);
    return id;
}

nn_id nn_input1(nn_graph* g, const char* name, int n) {
    return nn_input(g, name, 1, &n);
}

nn_id nn_image(nn_graph* g, const char* name, int size) {
    nn_id id = new_tensor(g, NN_BYTES, 3, (int[]){size, size, 3});
    snprintf(g->tensor[id].name, sizeof g->tensor[id].name, "%s", name);
    return id;
}

nn_id nn_frames(nn_graph* g, const char* name, int count, int size) {
    nn_id id = new_tensor(g, NN_BYTES, 4, (int[]){count, size, size, 3});
    snprintf(g->tensor[id].name, sizeof g->tensor[id].name, "%s", name);
    return id;
}

// the tensor of a store's entry: one per parameter, however often it is used
static nn_id entry_tensor(nn_graph* g, int entry, int rank, const int* dim) {
    if (g->store->broken) g->broken = 1;
    for (int i = 0; i < g->tensors; i++)
        if (g->tensor[i].kind == NN_PARAM && g->tensor[i].entry == entry) return i;
    nn_id id = new_tensor(g, NN_PARAM, rank, dim);
    g->tensor[id].entry = entry;
    return id;
}

nn_id nn_buffer(nn_graph* g, const char* name, nn_init init, int n) {
    return entry_tensor(g, nn_store_declare_buffer(g->store, name, init, n), 1, &n);
}

nn_id nn_param(nn_graph* g, const char* name, nn_init init, float scale, int rank, const int* dim) {
    nn_id id = entry_tensor(g, nn_store_declare(g->store, name, init, scale, rank, dim), rank, dim);
    for (int i = 0; i < g->trains; i++)
        if (strncmp(name, g->train[i], strlen(g->train[i])) == 0) g->tensor[id].wants_grad = 1;
    return id;
}

// ---- operations ---------------------------------------------------------------------------------

static nn_id add_node(nn_graph* g, nn_node n, int in_count, const nn_id* in, int rank,
                      const int* dim) {
    nn_id out = new_tensor(g, NN_VALUE, rank, dim);
    if (!grow(g, (void**)&g->node, g->nodes, &g->node_cap, sizeof *g->node)) return out;
    CHECK(in_count <= NN_MAX_IN, "an op with %d inputs", in_count);
    n.in_count = in_count;
    n.out = out;
    for (int i = 0; i < in_count; i++) {
        n.in[i] = in[i];
        if (in[i] != NN_NONE && g->tensor[in[i]].wants_grad) g->tensor[out].wants_grad = 1;
    }
    g->tensor[out].producer = g->nodes;
    g->node[g->nodes++] = n;
    return out;
}

static void same_shape(const nn_graph* g, const char* op, nn_id x, nn_id y) {
    CHECK(g->broken || nn_size(g, x) == nn_size(g, y), "%s of sizes %d and %d", op, nn_size(g, x),
          nn_size(g, y));
}

static nn_id pointwise(nn_graph* g, nn_node n, int in_count, const nn_id* in) {
    int dim[NN_MAX_RANK];
    memcpy(dim, nn_dims(g, in[0]), sizeof dim);
    return add_node(g, n, in_count, in, g->tensor[in[0]].rank, dim);
}

nn_id nn_op_linear(nn_graph* g, nn_id x, nn_id w, nn_id b) {
    const nn_tensor *tx = &g->tensor[x], *tw = &g->tensor[w];
    int dim[NN_MAX_RANK], rank = tx->rank;
    memcpy(dim, tx->dim, sizeof dim);
    CHECK(g->broken || (tw->rank == 2 && dim[rank - 1] == tw->dim[0]),
          "linear: x has %d, w %d x %d", dim[rank - 1], tw->dim[0], tw->dim[1]);
    dim[rank - 1] = tw->dim[1];
    return add_node(g, (nn_node){.op = NN_LINEAR}, 3, (nn_id[]){x, w, b}, rank, dim);
}

nn_id nn_op_conv2d(nn_graph* g, nn_id x, nn_id w, nn_id b, int kernel, int stride, int pad) {
    const nn_tensor *tx = &g->tensor[x], *tw = &g->tensor[w];
    CHECK(g->broken || (tx->rank == 3 && tw->dim[0] == kernel * kernel * tx->dim[2]),
          "conv2d: %d channels, kernel %d, weights for %d", tx->dim[2], kernel, tw->dim[0]);
    int dim[3] = {(tx->dim[0] + 2 * pad - kernel) / stride + 1,
                  (tx->dim[1] + 2 * pad - kernel) / stride + 1, tw->dim[1]};
    nn_node n = {.op = NN_CONV2D, .kernel = kernel, .stride = stride, .pad = pad};
    return add_node(g, n, 3, (nn_id[]){x, w, b}, 3, dim);
}

nn_id nn_op_convt2d(nn_graph* g, nn_id x, nn_id w, nn_id b, int kernel, int stride, int pad) {
    const nn_tensor *tx = &g->tensor[x], *tw = &g->tensor[w];
    int taps = kernel * kernel;
    CHECK(g->broken || (tx->rank == 3 && tw->dim[0] == tx->dim[2] && tw->dim[1] % taps == 0),
          "convt2d: %d channels, weights %d x %d, kernel %d", tx->dim[2], tw->dim[0], tw->dim[1],
          kernel);
    int dim[3] = {(tx->dim[0] - 1) * stride - 2 * pad + kernel,
                  (tx->dim[1] - 1) * stride - 2 * pad + kernel, tw->dim[1] / taps};
    nn_node n = {.op = NN_CONVT2D, .kernel = kernel, .stride = stride, .pad = pad};
    return add_node(g, n, 3, (nn_id[]){x, w, b}, 3, dim);
}

nn_id nn_op_layernorm(nn_graph* g, nn_id x, nn_id gamma, nn_id beta, float eps) {
    CHECK(g->broken || (nn_size(g, gamma) == nn_last(g, x) && nn_size(g, beta) == nn_last(g, x)),
          "layernorm of %d with %d", nn_last(g, x), nn_size(g, gamma));
    return pointwise(g, (nn_node){.op = NN_LAYERNORM, .eps = eps}, 3, (nn_id[]){x, gamma, beta});
}

nn_id nn_op_groupnorm(nn_graph* g, nn_id x, nn_id gamma, nn_id beta, int groups, float eps) {
    CHECK(g->broken || (nn_last(g, x) % groups == 0 && nn_size(g, gamma) == nn_last(g, x)),
          "groupnorm of %d channels in %d groups", nn_last(g, x), groups);
    return pointwise(g, (nn_node){.op = NN_GROUPNORM, .groups = groups, .eps = eps}, 3,
                     (nn_id[]){x, gamma, beta});
}

nn_id nn_gelu(nn_graph* g, nn_id x) {
    return pointwise(g, (nn_node){.op = NN_GELU}, 1, &x);
}

nn_id nn_erfgelu(nn_graph* g, nn_id x) {
    return pointwise(g, (nn_node){.op = NN_ERFGELU}, 1, &x);
}

nn_id nn_silu(nn_graph* g, nn_id x) {
    return pointwise(g, (nn_node){.op = NN_SILU}, 1, &x);
}

nn_id nn_dropout(nn_graph* g, nn_id x, float p) {
    CHECK(p >= 0 && p < 1, "dropout of %g", (double)p);
    if (p == 0) return x;
    return pointwise(g, (nn_node){.op = NN_DROPOUT, .alpha = p}, 1, &x);
}

nn_id nn_adanorm(nn_graph* g, nn_id x, nn_id scale, nn_id shift, float eps) {
    same_shape(g, "adanorm", x, scale);
    same_shape(g, "adanorm", x, shift);
    return pointwise(g, (nn_node){.op = NN_ADANORM, .eps = eps}, 3, (nn_id[]){x, scale, shift});
}

static nn_id axpby(nn_graph* g, nn_id x, nn_id y, float alpha, float beta) {
    same_shape(g, "add", x, y);
    return pointwise(g, (nn_node){.op = NN_ADD, .alpha = alpha, .beta = beta}, 2, (nn_id[]){x, y});
}

nn_id nn_add(nn_graph* g, nn_id x, nn_id y) {
    return axpby(g, x, y, 1, 1);
}
nn_id nn_sub(nn_graph* g, nn_id x, nn_id y) {
    return axpby(g, x, y, 1, -1);
}

nn_id nn_scale(nn_graph* g, nn_id x, float by) {
    return pointwise(g, (nn_node){.op = NN_ADD, .alpha = by, .beta = 0}, 2, (nn_id[]){x, x});
}

nn_id nn_addp(nn_graph* g, nn_id x, nn_id p) {
    CHECK(g->broken || nn_size(g, x) % nn_size(g, p) == 0 || nn_size(g, p) > nn_size(g, x),
          "addp of %d and %d", nn_size(g, x), nn_size(g, p));
    return pointwise(g, (nn_node){.op = NN_ADDP}, 2, (nn_id[]){x, p});
}

nn_id nn_mul(nn_graph* g, nn_id x, nn_id y) {
    same_shape(g, "mul", x, y);
    return pointwise(g, (nn_node){.op = NN_MUL}, 2, (nn_id[]){x, y});
}

nn_id nn_pairnorm(nn_graph* g, nn_id x, int pairs) {
    if (pairs == 0) return x;
    CHECK(g->broken || 2 * pairs <= nn_last(g, x), "%d pairs in %d", pairs, nn_last(g, x));
    return pointwise(g, (nn_node){.op = NN_PAIRNORM, .pairs = pairs}, 1, &x);
}

nn_id nn_clamp(nn_graph* g, nn_id x, float lo, float hi) {
    return pointwise(g, (nn_node){.op = NN_CLAMP, .alpha = lo, .beta = hi}, 1, &x);
}

nn_id nn_relative(nn_graph* g, nn_id x, nn_id y, int pairs) {
    same_shape(g, "relative", x, y);
    CHECK(g->broken || 2 * pairs <= nn_last(g, x), "%d pairs in %d", pairs, nn_last(g, x));
    return pointwise(g, (nn_node){.op = NN_RELATIVE, .pairs = pairs}, 2, (nn_id[]){x, y});
}

nn_id nn_concat(nn_graph* g, int axis, int count, const nn_id* x) {
    if (count > NN_MAX_IN) {  // more than an op takes: all but the last few first
        nn_id part[NN_MAX_IN];
        int rest = (count - 1) % (NN_MAX_IN - 1) + 1;
        part[0] = nn_concat(g, axis, count - rest, x);
        memcpy(part + 1, x + count - rest, (size_t)rest * sizeof *x);
        return nn_concat(g, axis, rest + 1, part);
    }
    int dim[NN_MAX_RANK], rank = g->tensor[x[0]].rank;
    memcpy(dim, nn_dims(g, x[0]), sizeof dim);
    for (int i = 1; i < count; i++) {
        const nn_tensor* t = &g->tensor[x[i]];
        for (int d = 0; d < rank; d++)
            CHECK(g->broken || d == axis || t->dim[d] == dim[d],
                  "concat: dimension %d is %d and %d", d, dim[d], t->dim[d]);
        dim[axis] += t->dim[axis];
    }
    return add_node(g, (nn_node){.op = NN_CONCAT, .axis = axis}, count, x, rank, dim);
}

nn_id nn_slice(nn_graph* g, nn_id x, int axis, int from, int count) {
    int dim[NN_MAX_RANK];
    memcpy(dim, nn_dims(g, x), sizeof dim);
    CHECK(g->broken || (from >= 0 && count > 0 && from + count <= dim[axis]), "slice %d + %d of %d",
          from, count, dim[axis]);
    dim[axis] = count;
    return add_node(g, (nn_node){.op = NN_SLICE, .axis = axis, .from = from}, 1, &x,
                    g->tensor[x].rank, dim);
}

nn_id nn_mean(nn_graph* g, nn_id x) {
    CHECK(g->broken || g->tensor[x].rank == 2, "mean of rank %d", g->tensor[x].rank);
    int last = nn_last(g, x);
    return add_node(g, (nn_node){.op = NN_MEAN}, 1, &x, 1, &last);
}

nn_id nn_prepend(nn_graph* g, nn_id x, nn_id p) {
    int dim[NN_MAX_RANK], rank = g->tensor[x].rank;
    memcpy(dim, nn_dims(g, x), sizeof dim);
    CHECK(g->broken || (rank >= 2 && nn_size(g, p) == dim[rank - 1]), "prepend %d to rows of %d",
          nn_size(g, p), dim[rank - 1]);
    dim[rank - 2]++;
    return add_node(g, (nn_node){.op = NN_PREPEND}, 2, (nn_id[]){x, p}, rank, dim);
}

// the graph's own copy of a mask; NULL and g->broken when memory runs out
static const uint8_t* keep_mask(nn_graph* g, const uint8_t* mask, size_t bytes) {
    uint8_t* copy = mem_alloc(bytes);
    uint8_t** list = mem_realloc(g->mask, (size_t)g->masks * sizeof *list,
                                 (size_t)(g->masks + 1) * sizeof *list);
    if (list) g->mask = list;
    if (!copy || !list) {
        mem_free(copy);
        g->broken = 1;
        return NULL;
    }
    memcpy(copy, mask, bytes);
    return g->mask[g->masks++] = copy;
}

nn_id nn_attention_dropped(nn_graph* g, nn_id qkv, int heads, const uint8_t* mask, float p) {
    int dim[NN_MAX_RANK], rank = g->tensor[qkv].rank;
    memcpy(dim, nn_dims(g, qkv), sizeof dim);
    if (g->broken) return qkv;  // not the shape the caller's mask was made for
    CHECK(rank >= 2 && dim[rank - 1] % (3 * heads) == 0, "attention: width %d in %d heads",
          dim[rank - 1], heads);
    CHECK(p >= 0 && p < 1, "dropout of %g", (double)p);
    size_t tokens = (size_t)dim[rank - 2];
    nn_node n = {.op = NN_ATTENTION, .heads = heads, .alpha = p};
    if (mask) n.mask = keep_mask(g, mask, tokens * tokens);
    dim[rank - 1] /= 3;
    return add_node(g, n, 1, &qkv, rank, dim);
}

nn_id nn_attention(nn_graph* g, nn_id qkv, int heads, const uint8_t* mask) {
    return nn_attention_dropped(g, qkv, heads, mask, 0);
}

nn_id nn_coords(nn_graph* g, nn_id x) {
    const int* d = nn_dims(g, x);
    CHECK(g->broken || g->tensor[x].rank == 3, "coordinates of rank %d", g->tensor[x].rank);
    return add_node(g, (nn_node){.op = NN_COORDS}, 1, &x, 3, (int[]){d[0], d[1], d[2] + 2});
}

nn_id nn_softpool(nn_graph* g, nn_id logits, nn_id values) {
    const nn_tensor *l = &g->tensor[logits], *v = &g->tensor[values];
    CHECK(g->broken || (l->rank == 2 && v->rank == 2 && l->dim[0] == v->dim[0]),
          "softpool: %d weights and %d values", l->dim[0], v->dim[0]);
    return add_node(g, (nn_node){.op = NN_SOFTPOOL}, 2, (nn_id[]){logits, values}, 2,
                    (int[]){l->dim[1], v->dim[1]});
}

nn_id nn_spatial(nn_graph* g, const nn_push* push, nn_id c, nn_id velocity, nn_id u,
                 const float* mean, const float* std) {
    CHECK(
        g->broken || (nn_push_fits(push) && nn_size(g, c) == push->config &&
                      nn_size(g, velocity) == 2 && nn_size(g, u) == push->controls * push->action),
        "spatial: sizes %d, %d, %d of %d coordinates, %d x %d controls", nn_size(g, c),
        nn_size(g, velocity), nn_size(g, u), push->config, push->controls, push->action);
    nn_node n = {.op = NN_SPATIAL, .push = *push};
    memcpy(n.mean, mean, 2 * sizeof *mean);
    memcpy(n.std, std, 2 * sizeof *std);
    return add_node(g, n, 3, (nn_id[]){c, velocity, u}, 1, (int[]){nn_push_features(push)});
}

static nn_id patch_node(nn_graph* g, nn_node n, int in_count, const nn_id* in, int per_pixel) {
    const nn_tensor* image = &g->tensor[in[0]];
    int many = image->rank == 4, size = image->dim[many], p = n.patch;
    CHECK(g->broken || (image->kind == NN_BYTES && size % p == 0), "patches of %d in %d", p, size);
    int dim[] = {image->dim[0], (size / p) * (size / p), p * p * per_pixel};
    return add_node(g, n, in_count, in, 2 + many, dim + !many);
}

nn_id nn_patches(nn_graph* g, nn_id image, int patch, const float mean[3], const float std[3]) {
    nn_node n = {.op = NN_PATCHES, .patch = patch};
    memcpy(n.mean, mean, sizeof n.mean);
    memcpy(n.std, std, sizeof n.std);
    return patch_node(g, n, 1, &image, 3);
}

nn_id nn_patchdiff(nn_graph* g, nn_id image, nn_id before, int patch, const float std[3]) {
    nn_node n = {.op = NN_PATCHDIFF, .patch = patch};
    memcpy(n.std, std, sizeof n.std);
    return patch_node(g, n, 2, (nn_id[]){image, before}, 3);
}

nn_id nn_patchmask(nn_graph* g, nn_id image, nn_id before, int patch) {
    return patch_node(g, (nn_node){.op = NN_PATCHMASK, .patch = patch}, 2, (nn_id[]){image, before},
                      1);
}

static nn_id loss_node(nn_graph* g, nn_node n, int in_count, const nn_id* in) {
    for (int i = 1; i < in_count; i++) same_shape(g, "loss", in[0], in[i]);
    return add_node(g, n, in_count, in, 1, (int[]){1});
}

nn_id nn_mse(nn_graph* g, nn_id x, nn_id target) {
    return loss_node(g, (nn_node){.op = NN_MSE}, 2, (nn_id[]){x, target});
}

nn_id nn_bce(nn_graph* g, nn_id logits, nn_id target, float positive_weight) {
    return loss_node(g, (nn_node){.op = NN_BCE, .alpha = positive_weight}, 2,
                     (nn_id[]){logits, target});
}

nn_id nn_nll(nn_graph* g, nn_id mean, nn_id logvar, nn_id target) {
    return loss_node(g, (nn_node){.op = NN_NLL}, 3, (nn_id[]){mean, logvar, target});
}

nn_id nn_chord(nn_graph* g, nn_id x, nn_id target, int pairs, float eps) {
    same_shape(g, "chord", x, target);
    CHECK(g->broken || (g->tensor[x].rank == 2 && pairs > 0 && 2 * pairs <= nn_last(g, x)),
          "chord of %d pairs in %d, rank %d", pairs, nn_last(g, x), g->tensor[x].rank);
    int rows = nn_dims(g, x)[0];
    nn_node n = {.op = NN_CHORD, .pairs = pairs, .eps = eps};
    return add_node(g, n, 2, (nn_id[]){x, target}, 1, &rows);
}

nn_id nn_sigreg(nn_graph* g, nn_id z, int directions) {
    CHECK(g->broken || (g->tensor[z].rank == 2 && directions > 0), "sigreg of rank %d",
          g->tensor[z].rank);
    return add_node(g, (nn_node){.op = NN_SIGREG, .groups = directions}, 1, &z, 1, (int[]){1});
}

nn_id nn_reshape(nn_graph* g, nn_id x, int rank, const int* dim) {
    nn_id id = new_tensor(g, NN_ALIAS, rank, dim);
    nn_tensor *t = &g->tensor[id], *from = &g->tensor[x];
    CHECK(g->broken || t->size == from->size, "reshape of %d to %d", from->size, t->size);
    t->root = from->root;
    t->wants_grad = from->wants_grad;
    t->producer = from->producer;
    return id;
}

// ---- layers -------------------------------------------------------------------------------------

static nn_id named(nn_graph* g, const char* prefix, const char* part, nn_init init, float scale,
                   int rank, const int* dim) {
    char name[64];
    int n = snprintf(name, sizeof name, "%s.%s", prefix, part);
    CHECK(n > 0 && n < (int)sizeof name, "parameter name %s.%s is too long", prefix, part);
    return nn_param(g, name, init, scale, rank, dim);
}

nn_id nn_linear(nn_graph* g, const char* prefix, nn_id x, int n, float gain) {
    int k = nn_last(g, x);
    nn_init init = gain > 0 ? NN_INIT_NORMAL : NN_INIT_ZERO;
    nn_id w = named(g, prefix, "weight", init, gain / sqrtf((float)k), 2, (int[]){k, n});
    nn_id b = named(g, prefix, "bias", NN_INIT_ZERO, 0, 1, &n);
    return nn_op_linear(g, x, w, b);
}

nn_id nn_conv(nn_graph* g, const char* prefix, nn_id x, int n, int kernel, int stride, int pad) {
    int k = kernel * kernel * nn_last(g, x);
    nn_id w = named(g, prefix, "weight", NN_INIT_NORMAL, sqrtf(2.0f / (float)k), 2, (int[]){k, n});
    nn_id b = named(g, prefix, "bias", NN_INIT_ZERO, 0, 1, &n);
    return nn_op_conv2d(g, x, w, b, kernel, stride, pad);
}

nn_id nn_convt(nn_graph* g, const char* prefix, nn_id x, int n, int kernel, int stride, int pad) {
    int k = nn_last(g, x), taps = kernel * kernel;
    // each output pixel sums over k channels and taps / stride^2 kernel positions
    float fan = (float)(k * taps) / (float)(stride * stride);
    nn_id w =
        named(g, prefix, "weight", NN_INIT_NORMAL, sqrtf(2.0f / fan), 2, (int[]){k, taps * n});
    nn_id b = named(g, prefix, "bias", NN_INIT_ZERO, 0, 1, &n);
    return nn_op_convt2d(g, x, w, b, kernel, stride, pad);
}

nn_id nn_layernorm(nn_graph* g, const char* prefix, nn_id x) {
    int c = nn_last(g, x);
    nn_id gamma = named(g, prefix, "gamma", NN_INIT_ONE, 0, 1, &c);
    nn_id beta = named(g, prefix, "beta", NN_INIT_ZERO, 0, 1, &c);
    return nn_op_layernorm(g, x, gamma, beta, 1e-5f);
}

nn_id nn_groupnorm(nn_graph* g, const char* prefix, nn_id x, int groups) {
    int c = nn_last(g, x);
    nn_id gamma = named(g, prefix, "gamma", NN_INIT_ONE, 0, 1, &c);
    nn_id beta = named(g, prefix, "beta", NN_INIT_ZERO, 0, 1, &c);
    return nn_op_groupnorm(g, x, gamma, beta, groups, 1e-5f);
}

nn_id nn_batchnorm(nn_graph* g, const char* prefix, nn_id x) {
    char name[3][64];
    const char* part[] = {"running_mean", "running_var", "num_batches_tracked"};
    int c = nn_last(g, x);
    nn_id gamma = named(g, prefix, "weight", NN_INIT_ONE, 0, 1, &c);
    nn_id beta = named(g, prefix, "bias", NN_INIT_ZERO, 0, 1, &c);
    for (int i = 0; i < 3; i++) {
        int n = snprintf(name[i], sizeof name[i], "%s.%s", prefix, part[i]);
        CHECK(n > 0 && n < (int)sizeof name[i], "buffer name %s.%s is too long", prefix, part[i]);
    }
    nn_id in[] = {x,
                  gamma,
                  beta,
                  nn_buffer(g, name[0], NN_INIT_ZERO, c),
                  nn_buffer(g, name[1], NN_INIT_ONE, c),
                  nn_buffer(g, name[2], NN_INIT_ZERO, 1)};
    return pointwise(g, (nn_node){.op = NN_BATCHNORM, .eps = 1e-5f, .alpha = 0.1f}, 6, in);
}

// ---- results ------------------------------------------------------------------------------------

static void add_term(nn_graph* g, const char* name, nn_id x, float weight, nn_reduce r,
                     float share) {
    if (!grow(g, (void**)&g->term, g->terms, &g->term_cap, sizeof *g->term)) return;
    nn_term* t = &g->term[g->terms++];
    *t = (nn_term){.tensor = x, .weight = weight, .reduce = r, .share = share};
    snprintf(t->name, sizeof t->name, "%s", name);
}

void nn_loss(nn_graph* g, const char* name, nn_id per_sample, float weight) {
    add_term(g, name, per_sample, weight, NN_REDUCE_MEAN, 1);
}

void nn_loss_topmean(nn_graph* g, const char* name, nn_id per_sample, float weight, float share) {
    CHECK(share > 0 && share <= 1, "TopMean of a share %g", (double)share);
    add_term(g, name, per_sample, weight, NN_REDUCE_TOPMEAN, share);
}

void nn_output(nn_graph* g, nn_id x) {
    if (!grow(g, (void**)&g->output, g->outputs, &g->output_cap, sizeof *g->output)) return;
    g->output[g->outputs++] = x;
}
