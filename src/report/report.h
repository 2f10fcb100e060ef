// report.h - turns runs into one self-contained HTML page, SVG figures and a moving picture. The
// last folder of the flow: it reads what train, eval, bench, audit and params left as JSON and CSV.
//
// An input is a run folder, the folder of a study or of results side by side (names.h), or a single
// JSON file, recognised by its keys. A run folder may hold config.ini, metrics.csv, train.json,
// eval-*.json, trace-*.json, bench-*.json, audit*.json, params*.json and describe*.json; all are
// optional.
//   train  design section 10, plus optional `gates`: {grounder_error_px, rollout_error: [mean error
//   in
//          tolerance units per macro step], rollout_error_p95: [...]}, `sources`, `no_fiber`,
//          `mismatch`
//   eval   design section 10; solved_at_start counts trials; an outcome is 0 or false (missed), 1
//   or
//          true (reached), 2 (solved at the start); plus optional `pairs`: [{a, b, difference,
//          ci95, rescue, harm}], `rollout_error`, `model_seed`
//   trace  one episode: {task, mode, arm, note (a sentence for the reader, optional), success,
//   goal_png, goal_xy, tolerance (radius of the goal's
//          ring in image pixels), distances: [{name, unit, tolerance}], frames: [{step, png,
//          action, solved, solve_ms, arrival, distance, planned, plan_xy, fan_xy}]}; xy are image
//          pixels
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <cjson/cJSON.h>

#include "core/status.h"

// Writes out_dir/index.html, one .svg per figure and one animated .png per trace. Every input is
// read and checked before the first file is written, and each file appears whole or not at all.
// page_path receives the page's path. Nothing to show: FIRM_E_MISSING.
firm_status report_write(const char* const* inputs, int count, const char* out_dir,
                         char page_path[1024], firm_error* err);

// Writes the tables that compare with the paper as one Markdown file: small enough to be kept in a
// repository.
firm_status report_markdown(const char* const* inputs, int count, const char* path,
                            firm_error* err);

// Writes all results of each task as one file, folder/results-TASK.jsonl: a line
// {"file": name of the result, "result": its JSON} each, but no traces. A folder that holds such a
// file is read as if it held the files. *files (the caller deletes) names what was written.
firm_status report_lines(const char* const* inputs, int count, const char* folder, cJSON** files,
                         firm_error* err);

#endif
