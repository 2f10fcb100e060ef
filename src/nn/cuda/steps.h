// steps.h - the kernels of an update that belong to no op: which rows, fetching them, loss terms,
// AdamW. Each function puts its work on a queue's stream and may be captured. Everything that
// changes from one update to the next is found from a counter on the device, so that one captured
// graph serves them all.
#ifndef NN_CUDA_STEPS_H
#define NN_CUDA_STEPS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "nn/adamw.h"
#include "nn/cuda/cuda.h"

enum { NN_CUDA_MAX_PARTS = 4 };  // as many as a trainer's

// The device's own notes of the update in progress.
typedef struct nn_cuda_clock {
    int64_t update;                        // 0-based; the optimiser's last kernel moves it on
    float rate, correction1, correction2;  // of AdamW, for this update
} nn_cuda_clock;

// ---- rows (gather.cu) ----

// How a part finds the rows of an update. Tables: row of sample i picked as nn_pick_row does, bit
// for bit. Rings: sample i of the slot whose turn it is, slot * batch + i.
typedef struct nn_cuda_draw {
    int64_t rows;  // length of the table; 0: a ring
    uint64_t seed, stream;
    int batch, slots;  // slots: of a ring
    int64_t* row;      // device (batch): the result
} nn_cuda_draw;

// Rows of all parts, and the clock's rates for its update.
void nn_cuda_begin(nn_cuda_queue* q, const nn_cuda_draw* draw, int parts,
                   const nn_adamw_options* adamw, nn_cuda_clock* clock);

// One input of a part: to[i] = from[row[i]], in rows of row_bytes. Windows (trainer.h): piece k of
// sample i is from[start[row[i]] + k * stride].
typedef struct nn_cuda_copy {
    const char* from;
    char* to;
    const int64_t* row;
    uint32_t row_bytes;
    int batch;
    const int64_t* start;  // device, or NULL
    int pieces, stride;    // 1, 0 without windows
} nn_cuda_copy;
// copy: device array; most_bytes: the largest batch * row_bytes among them
void nn_cuda_gather(nn_cuda_queue* q, const nn_cuda_copy* copy, int count, size_t most_bytes);

// ---- loss terms (terms.cu) ----

typedef struct nn_cuda_term {
    const float* error;  // (rows, size)
    float* seed;         // (rows, size): d loss / d error; NULL: not wanted
    int size;
    float weight;
    int top;  // TopMean with this share, else the mean
    float share;
} nn_cuda_term;
// term: device array; value: device (count) unweighted results. The selection of TopMean is
// exec.c's: the ceil(share * n) largest, equal ones from the earlier sample on.
void nn_cuda_terms(nn_cuda_queue* q, const nn_cuda_term* term, int count, int rows, double* value);

// ---- AdamW (adamw.cu) ----

enum { NN_CUDA_CHUNK = 1024, NN_CUDA_NORM_BLOCKS = 256 };

// At most NN_CUDA_CHUNK numbers of one parameter.
typedef struct nn_cuda_chunk {
    uint32_t grad_at, value_at, count;  // in floats, multiples of 4
    float scale;                        // of the rate
    int decays;
} nn_cuda_chunk;

typedef struct nn_cuda_adamw {
    const nn_cuda_chunk* chunk;  // device array
    int chunks;
    float* grad;  // (parts, grad_count): the first block becomes the sum
    int parts;
    size_t grad_count;
    float *value, *moment1, *moment2;  // the store's block; (grad_count) each
    double* partial;                   // (NN_CUDA_NORM_BLOCKS)
    double* norm;                      // result
    nn_cuda_clock* clock;
    nn_adamw_options opt;
} nn_cuda_adamw;

// Sum of the gradients, its norm, clipping, update of weights and moments, and the clock moves on.
void nn_cuda_adamw_step(nn_cuda_queue* q, const nn_cuda_adamw* a);

#ifdef __cplusplus
}
#endif

#endif
