// paper_test.c - the quoted figures agree with each other where the paper's tables overlap: means
// of seeds, differences, sums of modules.
#include "report/paper.h"

#include "check.h"

static const char* const tasks[] = {"tworoom", "reacher", "pusht", "cube"};

TEST(report, paper_seeds_agree) {
    for (int i = 0; i < 4; i++) {
        double rate = 0, seconds = 0;
        for (int seed = 1; seed <= 3; seed++) {
            const paper_seed* s = paper_find_seed(tasks[i], seed);
            EXPECT(s != NULL);
            if (!s) return;
            EXPECT_NEAR(s->firm - s->lewm, s->difference, 1e-12);
            EXPECT_NEAR(s->rescue - s->harm, s->difference, 1e-12);  // of 100 trials
            EXPECT(s->lo <= s->difference && s->difference <= s->hi);
            rate += s->firm / 3;
            seconds += s->firm_seconds / 3;
            EXPECT_NEAR(paper_success(tasks[i], "lewm", "").mean, s->lewm, 1e-12);
            EXPECT_NEAR(paper_seconds(tasks[i], "lewm").mean, s->lewm_seconds, 1e-12);
        }
        EXPECT_NEAR(paper_success(tasks[i], "firm", "").mean, rate, 0.05);
        EXPECT_NEAR(paper_seconds(tasks[i], "firm").mean, seconds, 0.0006);
    }
    EXPECT(paper_find_seed("tworoom", 4) == NULL);
    EXPECT(isnan(paper_success("tworoom", "random", "").mean) &&
           isnan(paper_success("elsewhere", "firm", "").mean));
    EXPECT_NEAR(paper_success("cube", "firm", "intervention only").mean, 82.0, 0);
    EXPECT(isnan(paper_success("cube", "firm", "no history fiber").mean));
}

TEST(report, paper_params_add_up) {
    for (int i = 0; i < 4; i++) {
        const paper_params* p = paper_find_params(tasks[i]);
        const paper_audit* a = paper_find_audit(tasks[i]);
        EXPECT(p && a);
        if (!p || !a) return;
        EXPECT_NEAR(p->frontend + p->grounder + p->transition, p->total, 0.0015);
        EXPECT(a->h5_p95 <= a->max && a->h5_mean <= a->h5_p95 && a->max <= 1);
    }
    EXPECT(paper_find_params("elsewhere") == NULL && paper_find_audit("elsewhere") == NULL);
    EXPECT_TEXT(paper_task_title("pusht"), "Push-T");
    EXPECT_TEXT(paper_task_title("elsewhere"), "elsewhere");
}
