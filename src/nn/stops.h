// stops.h - where a pass over the shards of a batch has to wait for all of them: at ops that need
// sums over the whole batch (nn_gather in backend.h). Each shard writes its part, the parts are
// added up in the order of the shards, then all shards go on.
#ifndef NN_STOPS_H
#define NN_STOPS_H

#include "nn/layout.h"

typedef struct nn_stop {
    int node;
    const nn_gather* gather;
    size_t count[2];           // numbers, of the forward and of the backward pass
    double *part[2], *sum[2];  // (shards, count), (count); NULL: no such pass
} nn_stop;

typedef struct nn_stops {
    nn_stop* stop;  // in the order of the nodes
    int stops;
} nn_stops;

firm_status nn_stops_make(const nn_graph* g, const nn_backend* b, const nn_layout* at, int train,
                          int shards, nn_stops* out, firm_error* err);
void nn_stops_free(nn_stops* s);
int nn_stops_wait(const nn_graph* g, const nn_backend* b, int train);  // whether there will be any
const nn_stop* nn_stops_find(const nn_stops* s, int node);             // or NULL
void nn_stop_add(const nn_stop* s, int back, int shards);              // sum = all parts
size_t nn_stops_bytes(const nn_stops* s, int shards);

#endif
