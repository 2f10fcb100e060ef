// stops.c - sums over the shards of a batch.
#include "nn/stops.h"

#include <string.h>

#include "core/mem.h"

static const nn_gather* gather_of(const nn_node* n, const nn_backend* b, int train) {
    const nn_gather* gather = b->gather[n->op];
    return gather && (train || gather->always) ? gather : NULL;
}

int nn_stops_wait(const nn_graph* g, const nn_backend* b, int train) {
    for (int i = 0; i < g->nodes; i++)
        if (gather_of(&g->node[i], b, train)) return 1;
    return 0;
}

// room for one node's parts and sums
static int take(nn_stop* s, const nn_graph* g, const nn_layout* at, int shards) {
    for (int back = 0; back <= at->runs_back[s->node]; back++) {
        size_t n = s->count[back] = s->gather->count(g, &g->node[s->node], back);
        s->part[back] = mem_calloc(n * (size_t)shards, sizeof(double));
        s->sum[back] = mem_calloc(n, sizeof(double));
        if (!s->part[back] || !s->sum[back]) return 0;
    }
    return 1;
}

firm_status nn_stops_make(const nn_graph* g, const nn_backend* b, const nn_layout* at, int train,
                          int shards, nn_stops* out, firm_error* err) {
    *out = (nn_stops){0};
    if (!nn_stops_wait(g, b, train)) return FIRM_OK;
    int ok = (out->stop = mem_calloc((size_t)g->nodes, sizeof *out->stop)) != NULL;
    for (int i = 0; i < g->nodes && ok; i++) {
        const nn_gather* gather = gather_of(&g->node[i], b, train);
        if (!gather) continue;
        nn_stop* s = &out->stop[out->stops++];
        *s = (nn_stop){.node = i, .gather = gather};
        ok = take(s, g, at, shards);
    }
    if (ok) return FIRM_OK;
    nn_stops_free(out);
    return FAIL(err, FIRM_E_MEMORY, "no memory for sums over a batch");
}

void nn_stops_free(nn_stops* s) {
    for (int i = 0; i < s->stops; i++)
        for (int back = 0; back < 2; back++) {
            mem_free(s->stop[i].part[back]);
            mem_free(s->stop[i].sum[back]);
        }
    mem_free(s->stop);
    *s = (nn_stops){0};
}

const nn_stop* nn_stops_find(const nn_stops* s, int node) {
    for (int i = 0; i < s->stops; i++)
        if (s->stop[i].node == node) return &s->stop[i];
    return NULL;
}

void nn_stop_add(const nn_stop* s, int back, int shards) {
    size_t n = s->count[back];
    memset(s->sum[back], 0, n * sizeof(double));
    for (int i = 0; i < shards; i++)
        for (size_t j = 0; j < n; j++) s->sum[back][j] += s->part[back][(size_t)i * n + j];
}

size_t nn_stops_bytes(const nn_stops* s, int shards) {
    size_t n = 0;
    for (int i = 0; i < s->stops; i++) n += s->stop[i].count[0] + s->stop[i].count[1];
    return n * (size_t)(shards + 1) * sizeof(double);
}
