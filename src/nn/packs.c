// packs.c - room for packed weights, and filling it.
#include "nn/packs.h"

#include "core/mem.h"

enum {
    SMALLEST = 4096,  // numbers of a weight that is worth packing
    PIECE = 64        // columns of a job, whole tiles: one thread would keep all others waiting
};

static int columns(const nn_tensor* w, int back) {
    return w->dim[!back];
}

// Without memory for jobs it only counts.
static void add_jobs(nn_packs* p, const nn_graph* g, const nn_backend* b, int weight, int back) {
    const nn_tensor* w = &g->tensor[weight];
    if (p->find[back][weight] >= 0 || w->size < SMALLEST) return;
    p->find[back][weight] = p->jobs;
    for (int col = 0; col < columns(w, back); col += PIECE, p->jobs++) {
        int left = columns(w, back) - col;
        if (p->job)
            p->job[p->jobs] = (nn_pack_job){.weight = weight,
                                            .back = back,
                                            .col = col,
                                            .cols = left < PIECE ? left : PIECE,
                                            .at = p->count};
    }
    p->count += (b->packed(w, back) + 15) / 16 * 16;
}

static void plan(nn_packs* p, const nn_graph* g, const nn_backend* b, const nn_layout* at) {
    for (int i = 0; i < g->tensors; i++) p->find[0][i] = p->find[1][i] = -1;
    p->jobs = 0;
    p->count = 0;
    for (int i = 0; i < g->nodes; i++) {
        const nn_node* n = &g->node[i];
        if (n->op != NN_LINEAR) continue;
        int weight = g->tensor[n->in[1]].root;
        if (g->tensor[weight].kind != NN_PARAM) continue;
        add_jobs(p, g, b, weight, 0);
        if (at->runs_back[i] && g->tensor[n->in[0]].wants_grad) add_jobs(p, g, b, weight, 1);
    }
}

firm_status nn_packs_make(const nn_graph* g, const nn_backend* b, const nn_layout* at,
                          nn_packs* out, firm_error* err) {
    size_t tensors = (size_t)g->tensors;
    *out = (nn_packs){0};
    if (!b->pack) return FIRM_OK;
    out->find[0] = mem_calloc(tensors, sizeof *out->find[0]);
    out->find[1] = mem_calloc(tensors, sizeof *out->find[1]);
    if (out->find[0] && out->find[1]) {
        plan(out, g, b, at);
        out->job = mem_calloc((size_t)out->jobs + 1, sizeof *out->job);
        out->block = mem_alloc((out->count + 1) * sizeof *out->block);
        if (out->job && out->block) {
            plan(out, g, b, at);
            return FIRM_OK;
        }
    }
    nn_packs_free(out);
    return FAIL(err, FIRM_E_MEMORY, "no memory for packed weights");
}

void nn_packs_free(nn_packs* p) {
    mem_free(p->block);
    mem_free(p->job);
    mem_free(p->find[0]);
    mem_free(p->find[1]);
    *p = (nn_packs){0};
}

void nn_packs_fill(const nn_packs* p, const nn_graph* g, const nn_backend* b, int job) {
    const nn_pack_job* j = &p->job[job];
    const nn_tensor* w = &g->tensor[j->weight];
    b->pack(w, g->store->value + g->store->entry[w->entry].offset, j, p->block + j->at);
}

const void* nn_packs_find(const nn_packs* p, int weight, int back) {
    if (!p->block || p->find[back][weight] < 0) return NULL;
    return p->block + p->job[p->find[back][weight]].at;
}
