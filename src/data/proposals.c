// proposals.c - the table of proposals; each is made by the file that its row names.
#include "data/proposals.h"

#include <stddef.h>

const proposal proposals[] = {
    {"own", PROPOSAL_TASK, 0, 0, NULL},                // branches.c
    {"structured", PROPOSAL_TASK, 1, 0, NULL},         // branches.c
    {"mixed", PROPOSAL_MIXED, 0, 0, "mixed"},          // mixed.c
    {"planned", PROPOSAL_PILOT, 0, 0, "planned"},      // planned.c
    {"attempts", PROPOSAL_PILOT, 0, 1, NULL},          // attempts.c
    {"searched", PROPOSAL_SEARCH, 0, 1, "searched"},   // searched.c
    {"imagined", PROPOSAL_IMAGINER, 0, 1, "imagined"}  // imagined.c
};
const int proposal_count = sizeof proposals / sizeof *proposals;
