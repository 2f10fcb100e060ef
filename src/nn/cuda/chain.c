// chain.c - finds the ten nodes of a transformer block,
//     0 norm, 1 linear, 2 attention, 3 linear, 4 add, 5 norm, 6 linear, 7 gelu, 8 linear, 9 add
// and the four that make pictures its tokens:
//     0 patches, 1 linear, 2 prepend, 3 add a parameter
#include "nn/cuda/chain.h"

#include "core/mem.h"

enum { LINKS = 10, EMBED_LINKS = 4 };

static const nn_op op_of[LINKS] = {NN_LAYERNORM, NN_LINEAR, NN_ATTENTION, NN_LINEAR, NN_ADD,
                                   NN_LAYERNORM, NN_LINEAR, NN_ERFGELU,   NN_LINEAR, NN_ADD};
// the link whose output is a link's input 0; the second norm reads the first sum
static const int reads[LINKS] = {-1, 0, 1, 2, -1, 4, 5, 6, 7, 4};
static const int with_params[] = {0, 1, 3, 5, 6, 8};

// a sum of the stream and of what the branch made of it
static int is_residual(const nn_node* n, nn_id stream, nn_id branch) {
    return n->in[0] == stream && n->in[1] == branch && n->alpha == 1 && n->beta == 1;
}

static int linked(const nn_node* n) {
    for (int i = 0; i < LINKS; i++) {
        if (n[i].op != op_of[i]) return 0;
        if (reads[i] >= 0 && n[i].in[0] != n[reads[i]].out) return 0;
    }
    return is_residual(&n[4], n[0].in[0], n[3].out) && is_residual(&n[9], n[4].out, n[8].out) &&
           !n[2].mask && n[2].alpha == 0 && n[0].eps == n[5].eps;
}

// nobody outside reads a value from inside
static int closed(const nn_graph* g, int first, int last) {
    for (int i = first; i < last; i++) {
        nn_id inner = g->node[i].out;
        for (int k = 0; k < g->nodes; k++)
            for (int j = 0; j < g->node[k].in_count && (k < first || k > last); j++)
                if (g->node[k].in[j] != NN_NONE && g->tensor[g->node[k].in[j]].root == inner)
                    return 0;
        for (int k = 0; k < g->outputs; k++)
            if (g->tensor[g->output[k]].root == inner) return 0;
        for (int k = 0; k < g->terms; k++)
            if (g->tensor[g->term[k].tensor].root == inner) return 0;
    }
    return 1;
}

// whether `id` is read by one node alone, which takes the first of its tokens
static int first_alone(const nn_graph* g, nn_id id) {
    int readers = 0, slices = 0;
    for (int k = 0; k < g->nodes; k++) {
        const nn_node* n = &g->node[k];
        for (int j = 0; j < n->in_count; j++) {
            if (n->in[j] == NN_NONE || g->tensor[n->in[j]].root != id) continue;
            const nn_tensor* out = &g->tensor[n->out];
            readers++;
            slices += n->op == NN_SLICE && n->in[j] == id && n->from == 0 &&
                      n->axis == out->rank - 2 && out->dim[n->axis] == 1;
        }
    }
    for (int k = 0; k < g->outputs; k++) readers += g->tensor[g->output[k]].root == id;
    for (int k = 0; k < g->terms; k++) readers += g->tensor[g->term[k].tensor].root == id;
    return readers == 1 && slices == 1;
}

void nn_cuda_chain_block_params(const nn_graph* g, const nn_chain* c, nn_id out[VIT_PARAMS]) {
    for (int i = 0; i < VIT_PARAMS / 2; i++) {
        const nn_node* n = &g->node[c->first + with_params[i]];
        out[2 * i] = n->in[1];
        out[2 * i + 1] = n->in[2];
    }
}

nn_cuda_vit nn_cuda_chain_block(const nn_graph* g, const nn_chain* c, int rows) {
    const nn_node* n = &g->node[c->first];
    const nn_tensor *mixed = &g->tensor[n[2].out], *hidden = &g->tensor[n[7].out];
    nn_cuda_vit v = {.groups = rows * nn_attention_groups(mixed),
                     .tokens = mixed->dim[mixed->rank - 2],
                     .heads = n[2].heads,
                     .width = mixed->dim[mixed->rank - 1],
                     .mlp = hidden->dim[hidden->rank - 1],
                     .first = first_alone(g, g->node[c->last].out),
                     .eps = n[0].eps};
    return v;
}

int nn_cuda_chain_adds(const nn_layout* at, const nn_chain* c) {
    return at->adds[c->first + 4][0];  // the first sum is the first of its readers to run back
}

// ---- pictures as tokens -------------------------------------------------------------------------

void nn_cuda_chain_embed_params(const nn_graph* g, const nn_chain* c, nn_id out[EMBED_PARAMS]) {
    const nn_node* n = &g->node[c->first];
    out[EMBED_WEIGHT] = n[1].in[1];
    out[EMBED_BIAS] = n[1].in[2];
    out[EMBED_CLASS] = n[2].in[1];
    out[EMBED_POSITIONS] = n[3].in[1];
}

nn_cuda_embed nn_cuda_chain_embed(const nn_graph* g, const nn_chain* c, int rows) {
    const nn_node* n = &g->node[c->first];
    const nn_tensor* frames = &g->tensor[n[0].in[0]];
    int side = frames->dim[frames->rank - 2];
    nn_cuda_embed e = {.pictures = rows * (frames->size / (side * side * 3)),
                       .side = side,
                       .patch = n[0].patch,
                       .width = g->tensor[n[1].in[1]].dim[1]};
    for (int k = 0; k < 3; k++) {  // (o / 255 - mean) / std as one product and one sum
        e.scale[k] = (float)(1.0 / 255.0 / (double)n[0].std[k]);
        e.shift[k] = (float)(-(double)n[0].mean[k] / (double)n[0].std[k]);
    }
    return e;
}

// ---- finding ------------------------------------------------------------------------------------

static int all_params(const nn_graph* g, const nn_id* param, int count) {
    for (int i = 0; i < count; i++)
        if (param[i] == NN_NONE || g->tensor[g->tensor[param[i]].root].kind != NN_PARAM) return 0;
    return 1;
}

static int is_block(const nn_graph* g, const nn_chain* c) {
    if (c->last >= g->nodes || !linked(&g->node[c->first]) || !closed(g, c->first, c->last))
        return 0;
    nn_id param[VIT_PARAMS];
    nn_cuda_chain_block_params(g, c, param);
    if (!all_params(g, param, VIT_PARAMS)) return 0;
    nn_cuda_vit v = nn_cuda_chain_block(g, c, 1);
    return nn_cuda_vit_fits(v.tokens, v.heads, v.width, v.mlp);
}

static int is_embed(const nn_graph* g, const nn_chain* c) {
    static const nn_op ops[EMBED_LINKS] = {NN_PATCHES, NN_LINEAR, NN_PREPEND, NN_ADDP};
    if (c->last >= g->nodes) return 0;
    const nn_node* n = &g->node[c->first];
    for (int i = 0; i < EMBED_LINKS; i++)
        if (n[i].op != ops[i] || (i > 0 && n[i].in[0] != n[i - 1].out)) return 0;
    if (!closed(g, c->first, c->last)) return 0;
    nn_id param[EMBED_PARAMS];
    nn_cuda_chain_embed_params(g, c, param);
    if (!all_params(g, param, EMBED_PARAMS)) return 0;
    nn_cuda_embed e = nn_cuda_chain_embed(g, c, 1);
    int tokens = e.side / e.patch * (e.side / e.patch) + 1;
    return g->tensor[param[EMBED_POSITIONS]].size == tokens * e.width &&
           nn_cuda_embed_fits(e.side, e.patch, e.width);
}

// A chain that begins at a node, or 0.
static int found(const nn_graph* g, int first, int batch, nn_chain* out) {
    nn_chain block = {.kind = CHAIN_BLOCK, .first = first, .last = first + LINKS - 1};
    nn_chain embed = {.kind = CHAIN_EMBED, .first = first, .last = first + EMBED_LINKS - 1};
    if (is_block(g, &block)) {
        nn_cuda_vit v = nn_cuda_chain_block(g, &block, batch);
        *out = block;
        out->save = nn_cuda_vit_save(&v);
        out->scratch = nn_cuda_vit_scratch(&v);
        return 1;
    }
    if (!is_embed(g, &embed)) return 0;
    nn_cuda_embed e = nn_cuda_chain_embed(g, &embed, batch);
    *out = embed;
    out->save = nn_cuda_embed_save(&e);
    out->scratch = nn_cuda_embed_scratch(&e);
    return 1;
}

firm_status nn_cuda_chains_find(nn_cuda_queue* q, const nn_graph* g, int batch, nn_chains* out,
                                firm_error* err) {
    *out = (nn_chains){0};
    if (nn_cuda_precision_of(q) != NN_CUDA_MIXED) return FIRM_OK;
    out->chain = mem_calloc((size_t)g->nodes / EMBED_LINKS + 1, sizeof *out->chain);
    if (!out->chain) return FAIL(err, FIRM_E_MEMORY, "no memory to plan a graph");
    for (int i = 0; i < g->nodes; i++)
        if (found(g, i, batch, &out->chain[out->chains])) i = out->chain[out->chains++].last;
    return FIRM_OK;
}
