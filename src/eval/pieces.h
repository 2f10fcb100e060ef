// pieces.h - the outcomes of an evaluation's trials as files, one a trial, so that several
// processes can share one evaluation and a stopped one goes on where it was:
//
//   FOLDER/ARM/0012/trial.json   the 12th trial, as `firm eval --pieces FOLDER` writes it
//
// Who runs a trial locks its folder. A process that ends, however it ends, gives its locks back.
#ifndef EVAL_PIECES_H
#define EVAL_PIECES_H

#include "eval/arms.h"

typedef struct eval_pieces {
    const char *folder, *arm;
    uint64_t of;  // hash of what is evaluated: pieces of something else are refused
} eval_pieces;

typedef enum eval_claim {
    PIECE_THERE,  // outcome and times were read
    PIECE_MINE,   // to be run, then given to eval_piece_put
    PIECE_BUSY,   // another process runs it
} eval_claim;

// times: solve times are added. lock: of PIECE_MINE, for file_unlock().
firm_status eval_piece_claim(const eval_pieces* p, int trial, eval_claim* claim, eval_outcome* out,
                             eval_times* times, int* lock, firm_error* err);
// solves: the times of this trial alone. Keeps the lock.
firm_status eval_piece_put(const eval_pieces* p, int trial, const eval_outcome* o,
                           const eval_times* solves, firm_error* err);

#endif
