// pass.c - one graph over one batch on the device.
#include "nn/cuda/pass.h"

#include "core/mem.h"

firm_status nn_cuda_status(nn_cuda_queue* q, cudaError_t st, const char* what, firm_error* err) {
    if (st == cudaSuccess) return FIRM_OK;
    cudaGetLastError();  // reported here, not by the next check
    return FAIL(err, FIRM_E_UNAVAILABLE, "%s: %s: %s", nn_cuda_device(q), what,
                cudaGetErrorString(st));
}

void* nn_cuda_pass_value(const nn_cuda_pass* s, nn_id id) {
    return nn_layout_value(&s->at, s->g, sizeof(float), s->arena, s->params, id);
}

static firm_status take(nn_cuda_pass* s, size_t bytes, void** out, firm_error* err) {
    s->bytes += bytes;
    return nn_cuda_alloc(s->q, bytes, out, err);
}

static firm_status upload_terms(nn_cuda_pass* s, int train, float weight, firm_error* err) {
    const nn_graph* g = s->g;
    size_t count = (size_t)g->terms;
    if (count == 0) return FIRM_OK;
    nn_cuda_term* term = mem_calloc(count, sizeof *term);
    if (!term) return FAIL(err, FIRM_E_MEMORY, "no memory to run a graph");
    for (int i = 0; i < g->terms; i++) {
        const nn_term* t = &g->term[i];
        int root = g->tensor[t->tensor].root;
        int seeded = train && g->tensor[root].wants_grad;
        term[i] = (nn_cuda_term){
            .error = nn_cuda_pass_value(s, t->tensor),
            .seed = seeded ? (float*)(s->arena + s->at.grad_at[root]) : NULL,
            .size = g->tensor[root].size,
            .weight = t->weight * weight,
            .top = t->reduce == NN_REDUCE_TOPMEAN,
            .share = t->share,
        };
    }
    firm_status st = take(s, count * sizeof *term, (void**)&s->term, err);
    if (st == FIRM_OK) st = take(s, count * sizeof *s->value, (void**)&s->value, err);
    if (st == FIRM_OK) st = nn_cuda_upload(s->q, s->term, term, count * sizeof *term, err);
    mem_free(term);
    return st;
}

firm_status nn_cuda_pass_open(nn_cuda_pass* s, const nn_graph* g, nn_cuda_queue* q, int batch,
                              int train, float weight, firm_error* err) {
    *s = (nn_cuda_pass){.g = g, .q = q, .batch = batch, .train = train != 0};
    for (int i = 0; i < g->nodes; i++)
        if (!nn_backend_cuda()->kernel[g->node[i].op].forward)
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "this model uses operation %d, which has no GPU version; use --device cpu",
                        (int)g->node[i].op);
    TRY(nn_cuda_chains_find(q, g, batch, &s->fused, err));
    int aside = train && s->fused.chains && !(nn_cuda_ways(q) & NN_CUDA_WAY_IN_TURN),
        kind = aside ? NN_LAYOUT_WHOLE : train != 0;
    if (aside) TRY(nn_cuda_open_aside(q, err));
    TRY(nn_layout_make(g, nn_backend_cuda(), batch, kind, &s->fused, &s->at, err));
    TRY(nn_cuda_prepare(q, g, err));
    TRY(take(s, s->at.slot_bytes, (void**)&s->arena, err));
    TRY(take(s, s->at.scratch_bytes, (void**)&s->scratch, err));
    return upload_terms(s, train, weight, err);
}

void nn_cuda_pass_close(nn_cuda_pass* s) {
    nn_layout_free(&s->at);
    mem_free(s->fused.chain);
    nn_cuda_release(s->arena);
    nn_cuda_release(s->scratch);
    nn_cuda_release(s->term);
    nn_cuda_release(s->value);
    *s = (nn_cuda_pass){0};
}

static void prepare(const nn_cuda_pass* s, int node, int rows, nn_call* c) {
    const nn_node* n = &s->g->node[node];
    *c = (nn_call){.graph = s->g,
                   .node = n,
                   .rows = rows,
                   .train = s->train,
                   .batch = rows,
                   .clock = s->clock,
                   .queue = s->q};
    for (int j = 0; j < n->in_count; j++)
        if (n->in[j] != NN_NONE) c->in[j] = nn_cuda_pass_value(s, n->in[j]);
    c->out = nn_cuda_pass_value(s, n->out);
    c->save = s->arena + s->at.save_at[node];
    c->scratch = s->scratch;
}

static const nn_chain* chain_of(const nn_cuda_pass* s, int node) {
    for (int i = 0; i < s->fused.chains; i++)
        if (node >= s->fused.chain[i].first && node <= s->fused.chain[i].last)
            return &s->fused.chain[i];
    return NULL;
}

// where the gradient of a node's input goes, or NULL
static void* gradient_of(const nn_cuda_pass* s, nn_id id) {
    if (id == NN_NONE || !s->g->tensor[id].wants_grad) return NULL;
    int root = s->g->tensor[id].root;
    return s->g->tensor[root].kind == NN_PARAM ? (void*)(s->grad + s->at.param_grad_at[root])
                                               : s->arena + s->at.grad_at[root];
}

// The block right behind a block, which is the only one to read what that made; or NULL.
static const nn_chain* behind(const nn_cuda_pass* s, const nn_chain* c) {
    const nn_chain* next = c + 1;
    if (c < s->fused.chain || next >= s->fused.chain + s->fused.chains || c->kind != CHAIN_BLOCK ||
        next->kind != CHAIN_BLOCK || next->first != c->last + 1 ||
        s->g->node[next->first].in[0] != s->g->node[c->last].out || nn_chain_back(&s->at, c) < 0 ||
        nn_cuda_chain_adds(&s->at, next))
        return NULL;
    return next;
}

// a chain's block with all its addresses
static nn_cuda_vit block_of(const nn_cuda_pass* s, const nn_chain* c, int rows, int back) {
    nn_cuda_vit v = nn_cuda_chain_block(s->g, c, rows);
    nn_id param[VIT_PARAMS];
    nn_cuda_chain_block_params(s->g, c, param);
    for (int i = 0; i < VIT_PARAMS; i++) {
        v.param[i] = nn_cuda_pass_value(s, param[i]);
        if (back) v.grad[i] = gradient_of(s, param[i]);
    }
    nn_id x = s->g->node[c->first].in[0], y = s->g->node[c->last].out;
    v.x = nn_cuda_pass_value(s, x);
    v.y = nn_cuda_pass_value(s, y);
    v.save = s->arena + s->at.save_at[c->last];
    v.scratch = s->scratch;
    if (!back) return v;
    v.dy = gradient_of(s, y);
    v.dx = gradient_of(s, x);
    v.add = nn_cuda_chain_adds(&s->at, c);
    v.dy_there = behind(s, c) != NULL;
    if (behind(s, c - 1)) {
        nn_cuda_chain_block_params(s->g, c - 1, param);
        v.copies = 1;
        v.dx_sum = gradient_of(s, param[VIT_DOWN_BIAS]);
    }
    return v;
}

// likewise for one that makes pictures tokens
static nn_cuda_embed embed_of(const nn_cuda_pass* s, const nn_chain* c, int rows, int back) {
    nn_cuda_embed e = nn_cuda_chain_embed(s->g, c, rows);
    nn_id param[EMBED_PARAMS];
    nn_cuda_chain_embed_params(s->g, c, param);
    for (int i = 0; i < EMBED_PARAMS; i++) {
        e.param[i] = nn_cuda_pass_value(s, param[i]);
        if (back) e.grad[i] = gradient_of(s, param[i]);
    }
    nn_id y = s->g->node[c->last].out;
    e.frames = nn_cuda_pass_value(s, s->g->node[c->first].in[0]);
    e.y = nn_cuda_pass_value(s, y);
    e.save = s->arena + s->at.save_at[c->last];
    e.scratch = s->scratch;
    if (back) e.dy = gradient_of(s, y);
    return e;
}

static void run_chain(const nn_cuda_pass* s, const nn_chain* c, int rows, int back) {
    if (c->kind == CHAIN_EMBED) {
        nn_cuda_embed e = embed_of(s, c, rows, back);
        (back ? nn_cuda_embed_backward : nn_cuda_embed_forward)(s->q, &e);
    } else {
        nn_cuda_vit v = block_of(s, c, rows, back);
        (back ? nn_cuda_vit_backward : nn_cuda_vit_forward)(s->q, &v);
    }
}

void nn_cuda_pass_forward(const nn_cuda_pass* s, int rows) {
    const nn_backend* b = nn_backend_cuda();
    for (int i = 0; i < s->g->nodes; i++) {
        nn_call c;
        const nn_chain* chain = chain_of(s, i);
        if (chain) {
            if (i == chain->last) run_chain(s, chain, rows, 0);
            continue;
        }
        prepare(s, i, rows, &c);
        b->kernel[c.node->op].forward(&c);
    }
    nn_cuda_terms(s->q, s->term, s->g->terms, rows, s->value);
}

void nn_cuda_pass_backward(const nn_cuda_pass* s, int rows) {
    const nn_backend* b = nn_backend_cuda();
    const nn_graph* g = s->g;
    int before_block = 0;
    for (int i = g->nodes - 1; i >= 0; i--) {
        if (!s->at.runs_back[i]) continue;
        const nn_chain* chain = chain_of(s, i);
        // other steps' memory may have been a block's
        if (before_block && !(chain && chain->kind == CHAIN_BLOCK)) nn_cuda_rejoin(s->q);
        before_block = chain && chain->kind == CHAIN_BLOCK;
        if (chain) {
            if (i == nn_chain_back(&s->at, chain)) run_chain(s, chain, rows, 1);
            continue;
        }
        nn_call c;
        prepare(s, i, rows, &c);
        c.dout = s->arena + s->at.grad_at[g->tensor[c.node->out].root];
        for (int j = 0; j < c.node->in_count; j++) {
            c.accumulate[j] = s->at.adds[i][j];
            c.din[j] = gradient_of(s, c.node->in[j]);
        }
        c.kept = s->at.whole[i];
        b->kernel[c.node->op].backward(&c);
    }
    nn_cuda_rejoin(s->q);
}
