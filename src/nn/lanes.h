// lanes.h - threads share the lanes of a training pass. A lane sums the gradients of its shards in
// their order, so the result does not depend on the threads; which thread takes a lane's next shard
// does not matter. A thread that is quicker than others goes on with their lanes.
#ifndef NN_LANES_H
#define NN_LANES_H

#include <stdatomic.h>

#include "core/status.h"

typedef struct nn_lanes {
    int lanes, shards;  // shard s belongs to lane s % lanes
    atomic_int stop;
    atomic_int* state;  // (lanes) twice the shards that are done, and 1 while one is at work
} nn_lanes;

// A lane's shard, for the thread that has claimed it.
typedef struct nn_lane_shard {
    int lane, shard;
} nn_lane_shard;

firm_status nn_lanes_make(int lanes, int shards, nn_lanes* out, firm_error* err);
void nn_lanes_free(nn_lanes* l);
void nn_lanes_begin(nn_lanes* l);  // of a pass; only while no thread claims
// Claims a shard, of lane `prefer` if that has one; waits while all lanes that have any are at
// work. 0: none is left to claim.
int nn_lanes_claim(nn_lanes* l, int prefer, nn_lane_shard* out);
void nn_lanes_done(nn_lanes* l, const nn_lane_shard* s);
void nn_lanes_stop(nn_lanes* l);  // nothing more is claimed in this pass

#endif
