// whole.c - tiles of weights' gradients.
#include "nn/whole.h"

#include <string.h>

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

// an operand of the whole batch; `at`: its place in layout.h's block
static float* aside(const nn_whole_batch* batch, size_t at) {
    return (float*)(batch->aside + at * (size_t)batch->count);
}

void nn_whole_keep(const nn_whole_batch* batch, int node, int first, int rows, const void* x,
                   const void* dy) {
    const nn_node* n = &batch->g->node[node];
    size_t nx = (size_t)batch->g->tensor[n->in[0]].size, ny = (size_t)batch->g->tensor[n->out].size;
    memcpy(aside(batch, batch->at->aside_x[node]) + (size_t)first * nx, x,
           (size_t)rows * nx * sizeof(float));
    memcpy(aside(batch, batch->at->aside_dy[node]) + (size_t)first * ny, dy,
           (size_t)rows * ny * sizeof(float));
}

// Where a node's operands are: in the slot of shard s, or aside.
static const float* x_of(const nn_whole_batch* batch, int node, int s) {
    if (batch->aside) return aside(batch, batch->at->aside_x[node]);
    const nn_tensor* x = &batch->g->tensor[batch->g->node[node].in[0]];
    return (const float*)(batch->arena + (size_t)s * batch->at->slot_bytes +
                          batch->at->value_at[x->root]);
}

static const float* dy_of(const nn_whole_batch* batch, int node, int s) {
    if (batch->aside) return aside(batch, batch->at->aside_dy[node]);
    const nn_tensor* y = &batch->g->tensor[batch->g->node[node].out];
    return (const float*)(batch->arena + (size_t)s * batch->at->slot_bytes +
                          batch->at->grad_at[y->root]);
}

// `samples` samples of each of `runs` shards from s on; aside they lie together
static void add_samples(const nn_whole_batch* batch, const nn_whole_tile* t, int node, int s,
                        int runs, int samples, int add) {
    const nn_graph* g = batch->g;
    int k = g->tensor[t->weight].dim[0], width = g->tensor[t->weight].dim[1];
    int64_t apart = (int64_t)(batch->at->slot_bytes / sizeof(float));
    batch->b->weight_tile(&(nn_weight_tile){
        .x = x_of(batch, node, s) + t->row,
        .dy = dy_of(batch, node, s) + t->col,
        .runs = runs,
        .samples = (int64_t)samples * (g->tensor[g->node[node].in[0]].size / k),
        .x_step = k,
        .dy_step = width,
        .x_run = apart,
        .dy_run = apart,
        .rows = t->rows,
        .cols = t->cols,
        .dw = batch->grad + batch->at->param_grad_at[t->weight] + (int64_t)t->row * width + t->col,
        .dw_step = width,
        .add = add});
}

void nn_whole_tile_run(const nn_whole_batch* batch, const nn_whole_tile* t) {
    const nn_graph* g = batch->g;
    int add = 0, full = batch->count / batch->shard, rest = batch->count % batch->shard;
    for (int i = g->nodes - 1; i >= 0; i--) {
        if (!batch->at->whole[i] || g->tensor[g->node[i].in[1]].root != t->weight) continue;
        if (batch->aside) {
            add_samples(batch, t, i, 0, 1, batch->count, add);
        } else {
            if (full) add_samples(batch, t, i, 0, full, batch->shard, add);
            if (rest) add_samples(batch, t, i, full, 1, rest, add || full);
        }
        add = 1;
    }
}
