// proposals.h - where the actions of `firm intervene` come from, one row each.
#ifndef DATA_PROPOSALS_H
#define DATA_PROPOSALS_H

// Who is asked for actions.
typedef enum proposal_by {
    PROPOSAL_TASK,
    PROPOSAL_MIXED,
    PROPOSAL_PILOT,
    PROPOSAL_SEARCH,
    PROPOSAL_IMAGINER
} proposal_by;

typedef struct proposal {
    const char* name;
    proposal_by by;
    int structured;  // PROPOSAL_TASK: its manoeuvres from balanced moments (env_structured)
    // 0: branches off recorded moments of --data, into a file of their own (branches.h). 1: is
    // added to a pack; follows trials from --moments (attempts.h, searched.h) or moments of the
    // pack (imagined.h).
    int adds;
    const char* settings;  // [intervene] NAME_anchors, NAME_branches, NAME_candidates; NULL: none
} proposal;

extern const proposal proposals[];
extern const int proposal_count;
#define PROPOSAL_OWN (&proposals[0])  // where none is named

// The same rows for people: the names, and a line about each.
#define PROPOSAL_NAMES "own|structured|mixed|planned|attempts|searched|imagined"
#define PROPOSAL_LINES                                                                       \
    "  own         the task's own noise, the paper's\n"                                      \
    "  structured  manoeuvres from balanced moments, of tasks that have them\n"              \
    "  mixed       wider: independent noise, smooth noise and disturbed recorded actions\n"  \
    "  planned     contract plans of --model, which show where it is too hopeful\n"          \
    "  attempts    two contract plans of --model in a row from --moments, added to --pack\n" \
    "  searched    candidates of searches through the true simulator, added to --pack\n"     \
    "  imagined    what --model expects of what its searches look at, added to --pack\n"

#endif
