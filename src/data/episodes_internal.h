// episodes_internal.h - shared by the files that make episodes: collect.c, episodes_read.c,
// trial_set.c.
#ifndef DATA_EPISODES_INTERNAL_H
#define DATA_EPISODES_INTERNAL_H

#include "data/episodes.h"
#include "data/hdf5_read.h"

// Zeroed memory for `count` episodes and `rows` rows; no extra columns, no file, seed unknown.
firm_status episodes_alloc(const env_spec* spec, int count, int64_t rows, episodes** out,
                           firm_error* err);
uint64_t episodes_hash(const episodes* e);
// recording.c: episodes of recorded data alone; episodes_read() calls it for tasks of such files.
firm_status recording_read(const char* path, const env_spec* spec, episodes** out, firm_error* err);
// The column of an open file that has the pictures.
const char* episodes_pixels(const env_spec* spec);
// Checks the column `pixels` of an open file and gives the file to e; nothing happens where there
// is none.
firm_status episodes_open_pixels(hdf5_file* file, const char* path, episodes* e, firm_error* err);

// The columns that together hold the state, in the order of its numbers.
enum { STATE_FIELDS = 5 };
typedef struct state_field {
    const char* name;
    int at, width;  // first of its numbers in the state, and how many
} state_field;
int episodes_state_fields(const env_spec* spec,
                          state_field out[STATE_FIELDS]);  // how many there are

#endif
