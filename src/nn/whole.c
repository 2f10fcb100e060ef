// whole.c - tiles of weights' gradients.
#include "nn/whole.h"

#include "core/mem.h"

// many enough for many threads, high enough that packing the other operand costs little
enum { ROWS = 192, COLS = 96 };

static int cut(int n, int most) {
    return (n + most - 1) / most;
}

static int is_whole(const nn_graph* g, const nn_layout* at, int tensor) {
    for (int i = 0; i < g->nodes; i++)
        if (at->whole[i] && g->tensor[g->node[i].in[1]].root == tensor) return 1;
    return 0;
}

firm_status nn_whole_make(const nn_graph* g, const nn_layout* at, nn_whole* out, firm_error* err) {
    *out = (nn_whole){0};
    for (int pass = 0; pass < 2; pass++) {
        int n = 0;
        for (int i = 0; i < g->tensors; i++) {
            if (g->tensor[i].kind != NN_PARAM || !is_whole(g, at, i)) continue;
            int rows = g->tensor[i].dim[0], cols = g->tensor[i].dim[1];
            int down = cut(rows, ROWS), across = cut(cols, COLS);
            for (int j = 0; j < down * across; j++, n++) {
                if (!pass) continue;
                nn_whole_tile* t = &out->tile[n];
                int r = j / across, c = j % across;
                *t = (nn_whole_tile){.weight = i, .row = rows * r / down, .col = c * COLS};
                t->rows = rows * (r + 1) / down - t->row;
                t->cols = cols - t->col < COLS ? cols - t->col : COLS;
            }
        }
        if (!pass) out->tile = mem_calloc((size_t)n + 1, sizeof *out->tile);
        if (!out->tile) return FAIL(err, FIRM_E_MEMORY, "no memory for %d gradient tiles", n);
        out->tiles = n;
    }
    return FIRM_OK;
}

void nn_whole_free(nn_whole* w) {
    mem_free(w->tile);
    *w = (nn_whole){0};
}

void nn_whole_tile_run(const nn_whole_batch* batch, const nn_whole_tile* t) {
    const nn_graph* g = batch->g;
    const nn_layout* at = batch->at;
    int add = 0, width = g->tensor[t->weight].dim[1];
    float* to = batch->grad + at->param_grad_at[t->weight] + (int64_t)t->row * width + t->col;
    for (int i = g->nodes - 1; i >= 0; i--) {
        const nn_node* n = &g->node[i];
        if (!at->whole[i] || g->tensor[n->in[1]].root != t->weight) continue;
        const nn_tensor *x = &g->tensor[n->in[0]], *y = &g->tensor[n->out];
        int k = g->tensor[t->weight].dim[0];
        for (int s = 0; s < batch->shards; s++) {
            char* slot = batch->arena + (size_t)s * at->slot_bytes;
            int first = s * batch->shard, left = batch->count - first;
            nn_weight_tile tile = {
                .x = (const float*)(slot + at->value_at[x->root]) + t->row,
                .dy = (const float*)(slot + at->grad_at[y->root]) + t->col,
                .samples = (int64_t)(left < batch->shard ? left : batch->shard) * (x->size / k),
                .x_step = k,
                .dy_step = width,
                .rows = t->rows,
                .cols = t->cols,
                .dw = to,
                .dw_step = width,
                .add = add};
            batch->b->weight_tile(&tile);
            add = 1;
        }
    }
}
