// store.h - named parameters in one block: save, clip, update and zero are single loops. Buffers
// (running statistics) lie among them; they are saved but not trained.
//
// A store is open while modules declare parameters (nn_param in graph.h adds what is not there yet)
// and sealed once its block is allocated; after that graphs may only refer to what exists.
#ifndef NN_STORE_H
#define NN_STORE_H

#include <stdint.h>

#include "core/status.h"

typedef enum nn_init { NN_INIT_ZERO, NN_INIT_ONE, NN_INIT_NORMAL, NN_INIT_UNIFORM } nn_init;

typedef struct nn_entry {
    char name[64];
    int rank, dim[4];
    size_t offset, count;  // in floats
    nn_init init;
    float scale;  // standard deviation for NN_INIT_NORMAL, largest size for NN_INIT_UNIFORM
    int buffer;   // no parameter: never trained, written by an op (running statistics)
} nn_entry;

typedef struct nn_store {
    nn_entry* entry;
    int entries, cap;
    size_t count;  // floats in all, each entry starting on a multiple of 16
    float* value;  // NULL until sealed
    int broken;    // out of memory while declaring
} nn_store;

firm_status nn_store_create(nn_store** out, firm_error* err);
void nn_store_free(nn_store* s);
int nn_store_find(const nn_store* s, const char* name);  // index or -1
// Adds an entry, or returns the existing one (same shape required: else panic).
int nn_store_declare(nn_store* s, const char* name, nn_init init, float scale, int rank,
                     const int* dim);
// Likewise for a buffer, a vector of n numbers.
int nn_store_declare_buffer(nn_store* s, const char* name, nn_init init, int n);
// Allocates the block and draws initial values: entry by (seed, hash of its name), in any order.
firm_status nn_store_seal(nn_store* s, uint64_t seed, firm_error* err);
void nn_store_init(nn_store* s, const char* prefix,
                   uint64_t seed);  // draws again those that start with prefix
size_t nn_store_params(const nn_store* s,
                       const char* prefix);  // numbers under a prefix, without buffers

#endif
