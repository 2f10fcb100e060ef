// episodes.h - recorded trajectories: HDF5 in the public stable-worldmodel layout, in and out.
//
// States and actions are small and live in memory; frames are large and come from the file's
// `pixels` column when it has one, otherwise they are rendered from the recorded state (see
// frames.h). Row t of an episode holds the state at t and the action taken at t; the last row's
// action is NaN.
#ifndef DATA_EPISODES_H
#define DATA_EPISODES_H

#include "core/pool.h"
#include "env/env.h"

typedef struct episodes {
    const env_spec* spec;
    int count;        // episodes
    int64_t rows;     // over all episodes
    int64_t* offset;  // (count) first row of an episode
    int* length;      // (count) rows of an episode
    double* state;    // (rows, state_dim)
    float* action;    // (rows, action_dim); NaN in the last row of each episode
    double* extra;  // (rows, extra_dim) for the task's other columns; collected episodes only, else
                    // NULL
    const char* policy;  // that collected them, and the cap in steps; collected episodes only
    int cap;
    uint8_t* ended;            // (count) 1: the task ended the episode, 0: the cap did; likewise
    struct hdf5_file* pixels;  // open file whose column `pixels` has the frames, or NULL
    uint64_t seed;             // collection seed from the file's attributes, UINT64_MAX if unknown
    uint64_t hash;             // of offsets, states and actions: tells data sets apart
} episodes;

typedef struct collect_options {
    int episodes;  // 0: the task's default
    uint64_t seed;
    int pixels;          // also render and write every frame
    const char* policy;  // NULL: the task's default one
} collect_options;

// Collects on the pool, in memory. Episode e depends on (seed, e) alone, not on the thread count.
firm_status episodes_collect(const env_spec* spec, const collect_options* opt, pool* p,
                             episodes** out, firm_error* err);
// Writes the public layout (atomic). With opt->pixels frames are rendered and stored (Blosc lz4 as
// the public files if the filter is there, else deflate).
firm_status episodes_write(const episodes* e, const collect_options* opt, pool* p, const char* path,
                           firm_error* err);
// Reads a file written here or by the public tools. Checks: columns and widths fit the task (else
// FIRM_E_TASK/FIRM_E_FORMAT with what to do), lengths add up, states and actions finite except the
// last action row of an episode.
firm_status episodes_read(const char* path, const env_spec* spec, episodes** out, firm_error* err);
void episodes_free(episodes* e);

int episodes_of_row(const episodes* e, int64_t row);  // binary search
// Share (percent) of row pairs `offset` apart that already satisfy the task's success test.
double episodes_solved_at(const episodes* e, int offset);

#endif
