// packs.h - weights in the order in which a backend's products read them, written once per update
// and used by every shard and step of it.
#ifndef NN_PACKS_H
#define NN_PACKS_H

#include "nn/layout.h"

typedef struct nn_packs {
    float* block;
    nn_pack_job* job;
    int jobs;
    int* find[2];  // per tensor: first job of the forward, of the backward pass; -1: none
    size_t count;  // floats
} nn_packs;

// Room for the weights of all products of a graph; nothing where the backend does not pack.
firm_status nn_packs_make(const nn_graph* g, const nn_backend* b, const nn_layout* at,
                          nn_packs* out, firm_error* err);
void nn_packs_free(nn_packs* p);
void nn_packs_fill(const nn_packs* p, const nn_graph* g, const nn_backend* b, int job);
const void* nn_packs_find(const nn_packs* p, int weight, int back);  // NULL: not packed

#endif
