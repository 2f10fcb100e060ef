// split.h - train/validation split, factual segments and action statistics.
// Evaluation trials, held-out gates and training never share an episode: everything here starts
// from one data_split, fixed by its seed.
#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H

#include "data/episodes.h"

typedef struct data_split {
    int train_count, valid_count;
    int* train;  // episode numbers, ascending
    int* valid;
    uint8_t* is_valid;  // (episodes)
} data_split;

// validation episodes = the task's share (1,000 of 10,000), scaled for smaller files, at least 1 of
// each.
firm_status data_split_make(const episodes* e, uint64_t seed, data_split* out, firm_error* err);
void data_split_free(data_split* s);

// Segments: rows t with `before` earlier and `after` later rows in their episode (history and
// continuation). Draws `count` rows of the given episodes, without repetition when there
// are enough eligible rows (else with), ordered by draw. The caller frees *rows with mem_free.
firm_status data_segments(const episodes* e, const int* episode, int episode_count, int before,
                          int after, int count, uint64_t seed, uint64_t stream, int64_t** rows,
                          firm_error* err);

// Mean and population standard deviation of the training split's actions (s NULL: of all episodes')
// in float64, NaN rows dropped; a zero deviation becomes 1.
void data_action_stats(const episodes* e, const data_split* s, float* mean, float* std);

#endif
