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
    *s = (nn_cuda_pass){.g = g, .q = q, .batch = batch};
    for (int i = 0; i < g->nodes; i++)
        if (!nn_backend_cuda()->kernel[g->node[i].op].forward)
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "this model uses operation %d, which has no GPU version; use --device cpu",
                        (int)g->node[i].op);
    TRY(nn_layout_make(g, nn_backend_cuda(), batch, train, &s->at, err));
    TRY(nn_cuda_prepare(q, g, err));
    TRY(take(s, s->at.slot_bytes, (void**)&s->arena, err));
    TRY(take(s, s->at.scratch_bytes, (void**)&s->scratch, err));
    return upload_terms(s, train, weight, err);
}

void nn_cuda_pass_close(nn_cuda_pass* s) {
    nn_layout_free(&s->at);
    nn_cuda_release(s->arena);
    nn_cuda_release(s->scratch);
    nn_cuda_release(s->term);
    nn_cuda_release(s->value);
    *s = (nn_cuda_pass){0};
}

static void prepare(const nn_cuda_pass* s, int node, int rows, nn_call* c) {
    const nn_node* n = &s->g->node[node];
    *c = (nn_call){.graph = s->g, .node = n, .rows = rows, .queue = s->q};
    for (int j = 0; j < n->in_count; j++)
        if (n->in[j] != NN_NONE) c->in[j] = nn_cuda_pass_value(s, n->in[j]);
    c->out = nn_cuda_pass_value(s, n->out);
    c->save = s->arena + s->at.save_at[node];
    c->scratch = s->scratch;
}

void nn_cuda_pass_forward(const nn_cuda_pass* s, int rows) {
    const nn_backend* b = nn_backend_cuda();
    for (int i = 0; i < s->g->nodes; i++) {
        nn_call c;
        prepare(s, i, rows, &c);
        b->kernel[c.node->op].forward(&c);
    }
    nn_cuda_terms(s->q, s->term, s->g->terms, rows, s->value);
}

void nn_cuda_pass_backward(const nn_cuda_pass* s, int rows) {
    const nn_backend* b = nn_backend_cuda();
    const nn_graph* g = s->g;
    for (int i = g->nodes - 1; i >= 0; i--) {
        if (!s->at.runs_back[i]) continue;
        nn_call c;
        prepare(s, i, rows, &c);
        c.dout = s->arena + s->at.grad_at[g->tensor[c.node->out].root];
        for (int j = 0; j < c.node->in_count; j++) {
            nn_id id = c.node->in[j];
            if (id == NN_NONE || !g->tensor[id].wants_grad) continue;
            int root = g->tensor[id].root;
            c.accumulate[j] = s->at.adds[i][j];
            c.din[j] = g->tensor[root].kind == NN_PARAM
                           ? (void*)(s->grad + s->at.param_grad_at[root])
                           : s->arena + s->at.grad_at[root];
        }
        b->kernel[c.node->op].backward(&c);
    }
}
