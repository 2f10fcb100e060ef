// names.h - the reference's names of LeWM's tensors, and how each becomes part of a parameter.
#ifndef MODEL_LEWM_NAMES_H
#define MODEL_LEWM_NAMES_H

#include "model/lewm/lewm.h"

typedef enum part_kind {
    PART_PLAIN,   // the same numbers in the same order
    PART_TURNED,  // (out, in) in the file, (in, out) in the model
    PART_PIXELS,  // (out, 3, p, p) in the file, (p * p * 3, out) in the model
    PART_COUNT    // a whole number
} part_kind;

enum { PART_NAME = 128, PART_RANK = 4 };

// One tensor of a file.
typedef struct lewm_part {
    char name[PART_NAME];   // as the released files have it
    char later[PART_NAME];  // under transformers 5; "": the same
    int rank;
    size_t dim[PART_RANK];  // in the file
    size_t count;
    part_kind kind;
    int entry;   // parameter of the store
    int column;  // PART_TURNED: its first column in the model's matrix, or first number of a vector
} lewm_part;

// All tensors of a model; the caller frees the list with mem_free.
firm_status lewm_parts(const lewm_model* m, lewm_part** out, int* count, firm_error* err);
// A tensor's numbers from and to the file's order; `file` is (count).
void lewm_part_take(const lewm_model* m, const lewm_part* p, const float* file);
void lewm_part_give(const lewm_model* m, const lewm_part* p, float* file);

#endif
