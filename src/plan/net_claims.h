// net_claims.h - how the members of a team take over each other's work (net.h). Apart from net.h,
// which CUDA sources read as C++.
#ifndef PLAN_NET_CLAIMS_H
#define PLAN_NET_CLAIMS_H

#include <stdatomic.h>

// A member's groups of output features, which others take over when they are done with their own:
// cores are not equally fast. Two products' counts, in turn.
typedef struct plan_net_claims {
    _Alignas(64) atomic_int taken[2];
} plan_net_claims;

#endif
