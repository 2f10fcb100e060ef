// net_internal.h - the packed net, shared by its parts: net.c (packing), net_roll.c (rollouts) and
// net_split.c (how threads share one).
#ifndef PLAN_NET_INTERNAL_H
#define PLAN_NET_INTERNAL_H

#include "plan/net.h"
#include "plan/net_kernels.h"

typedef struct packed {
    int inputs;   // padded to the kernels' depth
    int groups;   // of output features
    void* w;      // (groups, inputs, rows) as the kernels read them
    float* bias;  // (groups * rows)
} packed;

struct plan_net {
    plan_net_shape shape;
    const net_kernels* kernels;
    int block;  // candidates that one thread takes at a time
    packed in, first[PLAN_MAX_BLOCKS], second[PLAN_MAX_BLOCKS], heads;
    packed spatial_first, spatial_second;  // of LN(h) and s, if there is a spatial residual
    float* velocity;                       // (fiber + 1, 2), the last row is b_v
    float mean[2], std[2];                 // of raw actions
    nn_push push;
    float *u_low, *u_high;  // (action), inside memory
    char* memory;
    size_t bytes;
};

// Consecutive candidates that one kernel call takes.
typedef struct panel {
    const net_panel_kernels* kernels;
    int lane, width;  // first candidate within the block, candidates
} panel;

enum { NET_MOST_LANES = 320 * PLAN_TEAM_MOST, NET_MOST_PANELS = NET_MOST_LANES / 8 + 4 };

static inline int net_round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// plan_net_create with kernels of one's own choice
firm_status net_create_with(const net_kernels* kernels, const plan_net_shape* shape,
                            const plan_net_weights* weights, plan_net** out, firm_error* err);
// Inputs of the padded operand that precede the spatial features.
int net_hidden_depth(const plan_net* net);
// Blocks that `units` units of candidates make, `most` units each at most, and the first unit of
// one: whole panels of the widest kind, all but the last.
int net_blocks(int units, int most);
int net_block_from(const net_kernels* k, int units, int blocks, int block);
// Cuts `units` units of candidates into panels, widest first.
int net_cut(const net_kernels* k, int units, panel* out);

#endif
