// stats.h - the distribution of a data set in a few numbers, to stand beside a public set's: how
// long episodes are, how actions and states spread, how much there is to do between two rows.
#ifndef DATA_STATS_H
#define DATA_STATS_H

#include "data/episodes.h"

enum { STATS_NEAR = 3 };
extern const double stats_near[STATS_NEAR];  // 1, 1/2 and 1/4 tolerance

typedef struct data_stats {
    double mean_rows;
    int min_rows, max_rows;
    // over all rows but each episode's last; population deviations, like data_action_stats
    double action_mean[FIRM_MAX_ACTION], action_std[FIRM_MAX_ACTION];
    double action_largest;  // absolute value of one component
    // over all rows
    double state_mean[ENV_MAX_STATE], state_std[ENV_MAX_STATE];
    double state_min[ENV_MAX_STATE], state_max[ENV_MAX_STATE];
    // percent of row pairs `offset` apart whose configurations are within stats_near tolerances
    double near[STATS_NEAR];
} data_stats;

void stats_of(const episodes* e, int offset, data_stats* out);

// Percent of episodes that the task ended, not the cap, by a file's column `terminated`; NaN if it
// has none.
double stats_ended(const char* path, const episodes* e);

#endif
