// series.h - what an arm did on each trial, averaged over the seeds, and what may be said of it: a
// mean with Wilson's interval, and the difference of two arms on the trials both ran with a
// bootstrap interval.
#ifndef REPORT_SERIES_H
#define REPORT_SERIES_H

#include <stdint.h>

#include "core/stats.h"
#include "core/status.h"
#include "report/inputs.h"

typedef struct series {
    int count;
    int64_t* trial;    // (count) start row in the data set; the place in the list without one
    double* won;       // (count) share of the runs that succeeded, 0 to 1
    const char* from;  // hash of the data the trials are from, "" if not said
} series;

typedef struct estimate {  // percent or points; all NAN when there are no trials
    double mean, lo, hi;
    int trials;
} estimate;

// Trials that every run of the entry met; unsolved: without those solved at the start, none if the
// file does not say which these were. e may be NULL: an empty series.
firm_status series_make(const report_entry* e, int unsolved, series* out, firm_error* err);
void series_free(series* s);
// Wilson's interval with the number of trials: several seeds of a trial count as one, because they
// succeed and fail together. So the interval is never too narrow.
estimate series_rate(const series* s);
// The same of one run of an arm, from its rate and the number of its outcomes; without outcomes
// the interval that the file names. Percent.
stats_interval series_run_interval(const report_row* r);
// Was trial number `trial` of the run solved at the start, as its document says; NULL: it does not.
// The next trial's is ->next.
const cJSON* series_start_solved(const report_row* r, int trial);
stats_interval series_named_interval(const cJSON* of);  // its "ci95"; NAN if it has none
// What became of each trial under the two arms of a document's pair.
typedef enum pair_fate { FATE_BOTH, FATE_FIRST, FATE_SECOND, FATE_NEITHER } pair_fate;
typedef struct pair_fates {
    int count;        // 0 where the file has no outcomes of both arms
    pair_fate* fate;  // (count)
} pair_fates;
firm_status series_fates(const report_doc* d, const cJSON* pair, pair_fates* out, firm_error* err);
void pair_fates_free(pair_fates* f);
// Newcombe's interval of the difference in points; the file's own where it has no outcomes.
firm_status series_pair_interval(const report_doc* d, const cJSON* pair, stats_interval* out,
                                 firm_error* err);
// a - b where both ran; no trials if they are from different data.
firm_status series_difference(const series* a, const series* b, estimate* out, firm_error* err);
// Keeps only the trials that b has too.
void series_common(series* a, const series* b);

#endif
