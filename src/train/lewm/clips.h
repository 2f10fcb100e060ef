// clips.h - what LeWM learns from: every run of (context + 1) * controls consecutive rows of a
// training episode is a clip. Its frames are every controls-th row; its actions all of them.
#ifndef TRAIN_LEWM_CLIPS_H
#define TRAIN_LEWM_CLIPS_H

#include "data/frames.h"
#include "data/split.h"
#include "model/lewm/lewm.h"
#include "nn/trainer.h"

typedef struct clips {
    const episodes* data;
    frames* frames;
    int64_t* row;  // (stored) rows of the data: those of the training episodes, one after the other
    int64_t stored;
    int64_t* start;  // (count) first row of a clip, among the stored ones
    int64_t count;
    int action_dim;
    float mean[FIRM_MAX_ACTION], std[FIRM_MAX_ACTION];  // of the training episodes' actions
    nn_id frames_input, actions_input;                  // of the graph that is fed
    nn_window window[2];
    nn_windows windows;
} clips;

typedef struct clips_options {
    uint64_t split_seed;
    int64_t most;  // rows stored at most: whole episodes, the first ones; 0: all
    int rows;      // of a clip
    int controls;  // rows between two frames
    int workers;
} clips_options;

// The data must outlive it; it must stay where it is. clips_close is due even after a failure.
firm_status clips_open(const episodes* data, const clips_options* opt, clips* out, firm_error* err);
void clips_close(clips* c);
// Says which inputs of a graph it fills: for nn_part.windows and .fill (ctx: the clips).
void clips_feed(clips* c, const lewm_objective* at, int frames, int controls);
firm_status clips_fill(void* ctx, const nn_feed* feed);

#endif
