// terms.h - the loss terms of a run on the host: what each shard adds, their values, and the
// gradient that each sample's error begins with.
#ifndef NN_TERMS_H
#define NN_TERMS_H

#include "nn/graph.h"

typedef struct nn_term_state {
    double value;   // of the last run
    double* error;  // (batch * size), TopMean only
    float* seed;    // (batch * size), TopMean only
    double* sum;    // (shards), mean only
    int* heap;      // (batch * size), TopMean only: selection scratch
} nn_term_state;

typedef struct nn_terms {
    const nn_graph* g;
    nn_term_state* term;
    double loss;  // weighted sum of the values
} nn_terms;

// What a shard's samples are: `rows` of them from `first` on, of `total` in the batch.
typedef struct nn_term_rows {
    int shard, first, rows, total;
    size_t real;  // bytes of a number of the backend
} nn_term_rows;

firm_status nn_terms_make(const nn_graph* g, int batch, int shards, nn_terms* out, firm_error* err);
void nn_terms_free(nn_terms* t);
// Notes the errors of a shard that has run forward: value holds (rows, size) of term i.
void nn_terms_note(nn_terms* t, int i, const nn_term_rows* r, const void* value);
// When all shards have run: values, loss, and TopMean's choice.
void nn_terms_reduce(nn_terms* t, int count, int shards);
// d loss / d error of a shard's samples of term i, as numbers of the backend, into grad.
void nn_terms_seed(const nn_terms* t, int i, const nn_term_rows* r, void* grad);

#endif
