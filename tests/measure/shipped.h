// shipped.h - the models of models/ for the planner's tests: what rounding does to predictions and
// plans that somebody will use.
#ifndef TESTS_MEASURE_SHIPPED_H
#define TESTS_MEASURE_SHIPPED_H

#include "model/model.h"
#include "plan/net.h"
#include "plan/options.h"
#include "plan/weights.h"

typedef struct shipped {
    firm_model* model;
    plan_weights weights;
    plan_net* net;
    void* scratch;  // for plan_net_rollout
} shipped;

// 1 on success; 0 after a failure, which is reported. Close it in both cases.
int shipped_open(shipped* s, const char* task);
void shipped_close(shipped* s);

// ---- searches, judged ---------------------------------------------------------------------------
//
// A search amplifies rounding: two candidates of nearly equal cost change places, and the next
// iterations go another way to an equally good plan. So plans are compared by what they are worth:
// the distance from the goal, in c, at which the CPU's float32 model says they end. And how far two
// sound searches may differ in that is seen from the CPU's own searches with other noise.

// Six searches a start are judged. What the CPU's differ by is seen from forty: of the hardest
// start's, one in twenty ends more than three spreads beyond the worst of the first six.
enum { SEARCH_STARTS = 4, SEARCH_SEEDS = 6, SEARCH_REFERENCE = 40, SEARCH_FIBER = 128 };

typedef struct search_ends {
    int seeds;  // searches a start: six are judged, more serve as the reference
    double distance[SEARCH_STARTS][SEARCH_REFERENCE];
} search_ends;

// TwoRoom's: starts and goals on both sides of the door; fibers as wide as the model's own
extern const float search_start[SEARCH_STARTS][2], search_goal[SEARCH_STARTS][2];
const float* search_fiber(int start);
static inline uint64_t search_seed(int k) {
    return 5 + (uint64_t)k;
}

plan_options contract_options(void);

// where a plan for this start ends
double search_end(const shipped* s, int start, const float* plan);
// The CPU's searches with `net` and so many seeds, judged by the shipped one. 1 on success.
int search_on_cpu(const shipped* s, const plan_net* net, const plan_options* options, int seeds,
                  search_ends* out);

typedef struct search_verdict {
    double spread;          // of the CPU's ends over seeds: standard deviation
    double worse, allowed;  // mean of the others' ends over the CPU's; three standard errors
    // most that one end is beyond the CPU's worst for that start, in spreads of that start's own
    // ends (some starts are four times harder than others), or of all if those are wider
    double single;
} search_verdict;

search_verdict search_judge(const search_ends* cpu, const search_ends* other);
int search_sound(const search_verdict* v);  // worse <= allowed and single <= 3

#endif
