// pieces.h - the outcomes of an evaluation's trials as files, one a trial, so that several
// processes can share one evaluation and a stopped one goes on where it was:
//
//   FOLDER/ARM/0012/trial.json   the 12th trial, as `firm eval --pieces FOLDER` writes it
//
// Who runs a trial locks its folder. A process that ends, however it ends, gives its locks back.
#ifndef EVAL_PIECES_H
#define EVAL_PIECES_H

#include "core/log.h"
#include "eval/arms.h"

typedef struct eval_pieces {
    const char *folder, *arm;
    uint64_t of;  // hash of what is evaluated: pieces of something else are refused
} eval_pieces;

// Has every trial run, here or by another process, and waits for those that others run. outcome
// (trials); times: solve times of all are added.
firm_status eval_pieces_run(const eval_pieces* p, const eval_setup* setup,
                            const eval_trials* trials, frames* pictures, eval_outcome* outcome,
                            eval_times* times, progress* bar, firm_error* err);

#endif
