// gradients.h - how far a GPU's gradients of LeWM in bfloat16 may be from the host's in float32.
//
// Rounding a value to bfloat16 moves a gradient by what the net makes of it: a batch norm over few
// rows leaves small differences of large numbers, and no fixed bound is both fair to these and
// tight for the rest. The measure is what rounding itself does: the host's gradients with values of
// the encoder's blocks rounded where the GPU keeps them in bfloat16, a few times over with values
// that differ in their last bits, which round to other neighbours. Sound kernels are about as far
// from float32 as these are; a wrong one is far outside (gradients_test.c).
#ifndef TESTS_MEASURE_GRADIENTS_H
#define TESTS_MEASURE_GRADIENTS_H

#include "nn/exec.h"

// Errors that a kernel may have, for the measure's own test.
typedef enum half_fault {
    HALF_SOUND,
    HALF_LOST_TOKEN,  // attention's gradient leaves out the last token's
    HALF_LOST_CHUNK,  // GELU's gradient leaves out the last 64 hidden units
    HALF_WRONG_SCALE  // attention's gradient is a fifth too large
} half_fault;

// The host's backend with values of the encoder's blocks rounded. `turn` gives their last bits;
// made anew by every call.
const nn_backend* half_backend(int turn, half_fault fault);

// What is judged by itself: a trained parameter's gradient, and every token's row of that of the
// encoder's positions. A token that a kernel loses is little of a sum over 257 tokens, but all of
// its own row.
typedef struct half_piece {
    const char* name;
    int matrix;  // a parameter of two dimensions
    int token;   // -1: all of the parameter
    size_t offset, count;
} half_piece;

// Pieces of an exec's gradients; free() them.
int half_pieces(const nn_store* store, const nn_exec* e, half_piece** out);

// What rounding moves every piece by, over the norm of the host's: root of the mean square over
// TURNS runs.
typedef struct half_case {
    nn_graph* graph;
    int batch;
    int64_t update;
    nn_fill_fn fill;
    void* ctx;
    pool* p;
} half_case;
enum { HALF_TURNS = 4 };
void half_measure(const half_case* c, nn_exec* host, double* measure);  // of half_pieces()

// |got - want| / |want| of a piece of two gradients; numbers that are 0 but for rounding, the bias
// of an encoder's keys, do not count.
double half_off(const half_piece* piece, const float* got, const float* want);

// Largest sound error of a piece. The runs that make the measure differ from it by a fifth.
double half_allowed(double measure);

#endif
