// net_roll.h - a rollout through the packed net as a row of parts, shared by net_roll.c and
// net_rest.c.
#ifndef PLAN_NET_ROLL_H
#define PLAN_NET_ROLL_H

#include "plan/net_internal.h"

// A team's memory; every array holds its panels one after another, each (features, width).
typedef struct scratch {
    float* x;        // c, m, u
    char* operand;   // the same as operands; x itself where these are float32
    float* h;        // residual stream
    char* a;         // operands: normalised h, and behind it the spatial features
    char* g;         // operands: inner activations
    float* spatial;  // spatial features
    float* base;     // (hidden) b_in and what the start adds to it
    float* start;    // one narrow panel of [c0, m0]
    char* start_operand;
} scratch;

// Features that an array has per candidate.
typedef struct strides {
    int x, operand, h, a, g;
} strides;

// One member's view of a rollout.
typedef struct roll {
    const plan_net* net;
    const plan_net_job* job;
    const plan_net_team* team;
    int member;
    scratch s;
    strides of;
    plan_net_rest* rest;  // shared with other threads, who are not a team; NULL: nothing
    int reached;          // parts of it that may be worked at: as far as this roll has come
    int turn;             // 0 or 1: which of the claims count for the product at work
    int first, n;         // candidates of the block at work
    int count;
    panel panels[NET_MOST_PANELS];
    unsigned char bad[NET_MOST_LANES];  // by candidate of the block
} roll;

typedef struct layer {
    const packed* p;
    int skip;           // inputs that all candidates share, a multiple of the depth: start_group()
    int groups;         // of outputs
    const float* bias;  // (groups * rows)
    const char* in;
    int in_stride;
    void* out;
    int out_stride;
    net_epilogue epilogue;
} layer;

// One row of work whose items (panels, or groups of a product) may be done in any order and by any
// thread; the next part reads what they wrote.
typedef struct part {
    enum { INPUTS, PRODUCT, NORMALISE, OUTPUTS } kind;
    int step;     // macro step
    int spatial;  // NORMALISE: the spatial features, too
    layer layer;  // PRODUCT
} part;

// Memory for a block of `lanes` candidates; without any the size alone.
size_t net_scratch_layout(const plan_net* net, int lanes, char* memory, scratch* s);
strides net_strides(const plan_net* net);

int net_parts_of_step(const plan_net* net);
part net_part_at(const roll* r, int at);
int net_part_items(const roll* r, const part* p);
void net_run_item(roll* r, const part* p, int item);
void net_set_start(const roll* r);  // before the first part of a roll's own start

// Not cleared: a roll is large, and every member is set before it is read.
void net_roll_make(roll* r, const plan_net* net, const plan_net_team* team, int member);
// The candidates of r->job, which are the member's or its team's; returns those not finite.
int net_roll_job(roll* r);

// Does an item of the rest, if there is one in a part before `reached`. 0: nothing to do now.
int net_rest_help(plan_net_rest* rest, int reached);

#endif
