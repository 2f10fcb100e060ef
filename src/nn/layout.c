// layout.c - plans a graph's memory.
//
// Steps: node i runs forward at step i, losses are taken at step N, node i runs backward at step 2N
// - i. Every value, gradient and saved buffer has a first and a last step; nn_memory_plan packs
// them.
#include "nn/layout.h"

#include "core/mem.h"
#include "nn/memory.h"

static int op_wants_in(nn_op op) {
    static const int wants[] = {
#define WANTS_IN(name, wants_in, wants_out) wants_in,
        NN_OP_MAP(WANTS_IN)
#undef WANTS_IN
    };
    return wants[op];
}

static int op_wants_out(nn_op op) {
    static const int wants[] = {
#define WANTS_OUT(name, wants_in, wants_out) wants_out,
        NN_OP_MAP(WANTS_OUT)
#undef WANTS_OUT
    };
    return wants[op];
}

// which nodes run backward, and which of their gradient writes come second and must add
static void plan_backward(nn_layout* l, const nn_graph* g, const nn_backend* b, uint8_t* touched) {
    for (int i = 0; i < g->terms; i++) {
        int root = g->tensor[g->term[i].tensor].root;
        CHECK(!touched[root], "a tensor is used by two loss terms");
        touched[root] = g->tensor[root].wants_grad != 0;
    }
    for (int i = g->nodes - 1; i >= 0; i--) {
        const nn_node* n = &g->node[i];
        if (!touched[g->tensor[n->out].root]) continue;
        CHECK(b->kernel[n->op].backward, "op %d has no gradient", n->op);
        l->runs_back[i] = 1;
        for (int j = 0; j < n->in_count; j++) {
            if (n->in[j] == NN_NONE || !g->tensor[n->in[j]].wants_grad) continue;
            int root = g->tensor[n->in[j]].root;
            l->adds[i][j] = g->tensor[root].kind == NN_PARAM || touched[root];
            touched[root] = 1;
        }
    }
}

static size_t tensor_bytes(const nn_tensor* t, const nn_backend* b, size_t rows) {
    return rows * (size_t)t->size * (t->kind == NN_BYTES ? 1 : b->real);
}

static void stretch(nn_span* s, int step) {
    if (step > s->end) s->end = step;
}

enum { LARGE = 16384 };  // numbers of a weight whose gradient is summed over the whole batch

// products with large weights, whose operands the weight's gradient is made of at the end
static void plan_whole(nn_layout* l, const nn_graph* g) {
    for (int i = 0; i < g->nodes; i++) {
        const nn_node* n = &g->node[i];
        if (n->op != NN_LINEAR || !l->runs_back[i]) continue;
        const nn_tensor* w = &g->tensor[g->tensor[n->in[1]].root];
        l->whole[i] = w->kind == NN_PARAM && w->wants_grad && w->size >= LARGE;
    }
}

// Numbers of a product's operands in a shard are few beside those of its weight.
enum { FEW_BESIDE = 8 };

static int is_light(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* w = &g->tensor[g->tensor[n->in[1]].root];
    int64_t operands = g->tensor[n->in[0]].size + g->tensor[n->out].size;
    return FEW_BESIDE * rows * operands <= w->size;
}

// Of these products those with weights that nothing else reads.
static void plan_aside(nn_layout* l, const nn_graph* g, int rows) {
    plan_whole(l, g);
    for (int i = 0; i < g->nodes; i++)
        for (int k = 0; k < g->nodes && l->whole[i]; k++)
            for (int j = 0; j < g->node[k].in_count; j++) {
                const nn_node* other = &g->node[k];
                if (other->in[j] == NN_NONE ||
                    g->tensor[other->in[j]].root != g->tensor[g->node[i].in[1]].root)
                    continue;
                if (other->op != NN_LINEAR || j != 1 || !is_light(g, other, rows)) l->whole[i] = 0;
            }
    for (int i = 0; i < g->nodes; i++) {
        if (!l->whole[i]) continue;
        l->aside_x[i] = l->aside_bytes;
        l->aside_bytes += (size_t)g->tensor[g->node[i].in[0]].size * sizeof(float);
        l->aside_dy[i] = l->aside_bytes;
        l->aside_bytes += (size_t)g->tensor[g->node[i].out].size * sizeof(float);
    }
}

// A chain has no values, gradients and saved buffers inside; its input lives until it runs, the
// gradient of its output until it runs back.
static void plan_chain(nn_layout* l, const nn_graph* g, const nn_chain* c, nn_span* value,
                       nn_span* grad, nn_span* save) {
    int n = g->nodes, out = g->node[c->last].out;
    for (int i = c->first; i <= c->last; i++) {
        save[i].bytes = 0;
        if (i < c->last) value[g->node[i].out].bytes = grad[g->node[i].out].bytes = 0;
    }
    int back = nn_chain_back(l, c), end = back >= 0 ? 2 * n - back : c->last;
    stretch(&value[g->tensor[g->node[c->first].in[0]].root], end);
    if (back >= 0) stretch(&grad[out], end);
    save[c->last] = (nn_span){.start = c->last, .end = end, .bytes = c->save};
    if (c->scratch > l->scratch_bytes) l->scratch_bytes = c->scratch;
}

// lifetimes of everything in a slot, then one packed block
static firm_status plan_memory(nn_layout* l, const nn_graph* g, const nn_backend* b, int batch,
                               int train, const nn_chains* chains, firm_error* err) {
    int tensors = g->tensors, nodes = g->nodes;
    int spans = 3 * tensors + nodes;
    nn_span* span = mem_calloc((size_t)spans, sizeof *span);
    uint8_t* touched = mem_calloc((size_t)tensors, 1);
    if (!span || !touched) {
        mem_free(span);
        mem_free(touched);
        return FAIL(err, FIRM_E_MEMORY, "no memory to plan a graph of %d nodes", nodes);
    }
    if (train) plan_backward(l, g, b, touched);
    if (train == NN_LAYOUT_WHOLE) plan_whole(l, g);
    if (train == NN_LAYOUT_ASIDE) plan_aside(l, g, batch);
    nn_span *value = span, *grad = span + tensors, *stage = span + 2 * tensors,
            *save = span + 3 * tensors;
    size_t rows = (size_t)batch;
    for (int i = 0; i < tensors; i++) {
        const nn_tensor* t = &g->tensor[i];
        value[i] = (nn_span){.start = t->producer, .end = t->producer};
        grad[i] = stage[i] = (nn_span){.start = 0, .end = -1};
        if (t->kind == NN_PARAM || t->kind == NN_ALIAS) {
            value[i].end = value[i].start - 1;
            continue;
        }
        value[i].bytes = tensor_bytes(t, b, rows);
        if (t->kind == NN_INPUT && b->real != sizeof(float))
            stage[i] =
                (nn_span){.start = -1, .end = -1, .bytes = rows * (size_t)t->size * sizeof(float)};
        if (train && touched[i] && t->kind == NN_VALUE)
            grad[i] = (nn_span){.start = 2 * nodes,
                                .end = 2 * nodes - t->producer,
                                .bytes = tensor_bytes(t, b, rows)};
    }
    for (int i = 0; i < nodes; i++) {
        const nn_node* n = &g->node[i];
        for (int j = 0; j < n->in_count; j++) {
            if (n->in[j] == NN_NONE) continue;
            int root = g->tensor[n->in[j]].root;
            stretch(&value[root], i);
            if (!l->runs_back[i]) continue;
            if (op_wants_in(n->op) >> j & 1) stretch(&value[root], 2 * nodes - i);
            if (grad[root].bytes && 2 * nodes - i < grad[root].start)
                grad[root].start = 2 * nodes - i;
        }
        if (l->whole[i] && train == NN_LAYOUT_WHOLE) {
            stretch(&value[g->tensor[n->in[0]].root], 2 * nodes);
            stretch(&grad[n->out], 2 * nodes);
        }
        if (l->runs_back[i] && op_wants_out(n->op)) stretch(&value[n->out], 2 * nodes - i);
        save[i] = (nn_span){.start = i, .end = l->runs_back[i] ? 2 * nodes - i : i};
        const nn_kernel* k = &b->kernel[n->op];
        if (k->save_bytes) save[i].bytes = k->save_bytes(g, n, batch);
        if (k->scratch_bytes) {
            size_t bytes = k->scratch_bytes(g, n, batch);
            if (bytes > l->scratch_bytes) l->scratch_bytes = bytes;
        }
    }
    for (int i = 0; i < g->terms; i++) {
        int root = g->tensor[g->term[i].tensor].root;
        stretch(&value[root], nodes);
        if (grad[root].bytes) grad[root].start = nodes;
    }
    for (int i = 0; i < g->outputs; i++) stretch(&value[g->tensor[g->output[i]].root], nodes);
    for (int i = 0; chains && i < chains->chains; i++)
        plan_chain(l, g, &chains->chain[i], value, grad, save);

    for (int i = 0; i < nodes; i++)
        for (int j = 0; j < l->trained_count && l->whole[i]; j++)
            if (l->trained[j].entry == g->tensor[g->tensor[g->node[i].in[1]].root].entry)
                l->trained[j].whole = 1;

    l->slot_bytes = nn_memory_plan(span, spans);
    for (int i = 0; i < tensors; i++) {
        l->value_at[i] = value[i].offset;
        l->grad_at[i] = grad[i].offset;
        l->stage_at[i] = stage[i].offset;
    }
    for (int i = 0; i < nodes; i++) l->save_at[i] = save[i].offset;
    mem_free(span);
    mem_free(touched);
    if (l->slot_bytes == SIZE_MAX) return FAIL(err, FIRM_E_MEMORY, "no memory to plan a graph");
    l->scratch_bytes = (l->scratch_bytes + 63) / 64 * 64;
    return FIRM_OK;
}

static void plan_trained(nn_layout* l, const nn_graph* g) {
    for (int i = 0; i < g->tensors; i++) {
        const nn_tensor* t = &g->tensor[i];
        if (t->kind != NN_PARAM || !t->wants_grad) continue;
        l->param_grad_at[i] = l->grad_count;
        l->trained[l->trained_count++] =
            (nn_trained){.entry = t->entry, .offset = l->grad_count, .count = (size_t)t->size};
        l->grad_count += ((size_t)t->size + 15) / 16 * 16;
    }
}

firm_status nn_layout_make(const nn_graph* g, const nn_backend* b, int rows, int train,
                           const nn_chains* chains, nn_layout* l, firm_error* err) {
    size_t tensors = (size_t)g->tensors, nodes = (size_t)g->nodes;
    *l = (nn_layout){0};
    l->value_at = mem_calloc(tensors, sizeof *l->value_at);
    l->grad_at = mem_calloc(tensors, sizeof *l->grad_at);
    l->stage_at = mem_calloc(tensors, sizeof *l->stage_at);
    l->param_grad_at = mem_calloc(tensors, sizeof *l->param_grad_at);
    l->trained = mem_calloc(tensors + 1, sizeof *l->trained);
    l->save_at = mem_calloc(nodes + 1, sizeof *l->save_at);
    l->runs_back = mem_calloc(nodes + 1, 1);
    l->whole = mem_calloc(nodes + 1, 1);
    l->adds = mem_calloc(nodes + 1, sizeof *l->adds);
    l->aside_x = mem_calloc(nodes + 1, sizeof *l->aside_x);
    l->aside_dy = mem_calloc(nodes + 1, sizeof *l->aside_dy);
    firm_status st = FIRM_E_MEMORY;
    if (l->value_at && l->grad_at && l->stage_at && l->param_grad_at && l->trained && l->save_at &&
        l->runs_back && l->whole && l->adds && l->aside_x && l->aside_dy) {
        if (train) plan_trained(l, g);
        st = plan_memory(l, g, b, rows, train, chains, err);
    }
    if (st == FIRM_OK) return FIRM_OK;
    nn_layout_free(l);
    return FAIL(err, st, "no memory to plan a graph of %d nodes", g->nodes);
}

void nn_layout_free(nn_layout* l) {
    mem_free(l->value_at);
    mem_free(l->grad_at);
    mem_free(l->stage_at);
    mem_free(l->param_grad_at);
    mem_free(l->trained);
    mem_free(l->save_at);
    mem_free(l->runs_back);
    mem_free(l->whole);
    mem_free(l->adds);
    mem_free(l->aside_x);
    mem_free(l->aside_dy);
    *l = (nn_layout){0};
}
