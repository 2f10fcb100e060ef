// proposals_test.c - the table of proposals and what people read of it say the same.
#include "data/proposals.h"

#include "check.h"

TEST(data, proposals_are_named_in_the_help) {
    char names[256] = "", line[64];
    const char* at = PROPOSAL_LINES;
    for (int i = 0; i < proposal_count; i++) {
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "|" : "",
                 proposals[i].name);
        snprintf(line, sizeof line, "  %-11s ", proposals[i].name);
        EXPECT(strncmp(at, line, strlen(line)) == 0);
        at = strchr(at, '\n') + 1;
    }
    EXPECT_TEXT(names, PROPOSAL_NAMES);
    EXPECT_INT(*at, 0);
    EXPECT_TEXT(PROPOSAL_OWN->name, "own");
}
