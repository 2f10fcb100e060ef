// names.h - what the names of files and folders say about a result. One scheme, in two shapes:
//   a study's folders   OUT/TASK[-plus]/[ablation-X-]seed-N/KIND[-MODE-OFFSET].json
//                       OUT/TASK/lewm/eval-MODE-OFFSET.json
//                       OUT/TASK-plus/ensemble-N/eval-MODE-OFFSET.json, member-K/train.json
//   a flat folder       KIND-TASK[-plus][-ablation-X][-N][-LABEL][-MODE-OFFSET].json
// X is F, I, no-fiber or mismatch; N the training seed; LABEL any other word ("shipped", "oracle",
// "lewm")
// for a result that stands apart from the study's means.
#ifndef REPORT_NAMES_H
#define REPORT_NAMES_H

#include <stddef.h>

typedef struct result_name {
    char run[96];         // "TASK-plus-2": results with the same one belong together
    char edition[48];     // "", "plus", "shipped", "plus shipped": shown apart
    const char* variant;  // "" or the ablation, in the words of paper_success()
    int seed;             // -1: the name has none
} result_name;

// A file's name without .json. Returns 0 if it does not follow KIND-TASK...; `task` is what the
// file itself says.
int names_of_file(const char* stem, const char* task, result_name* out);
// The path of a run folder; what it does not say is left empty. `task` likewise.
void names_of_folder(const char* path, const char* task, result_name* out);
// The flat name, without .json, of a file in a study's run folder: "eval-contract-25" in
// OUT/TASK-plus/seed-2 is "eval-TASK-plus-2-contract-25". A name that is flat stays. Returns 0
// where the path says too little or the name does not fit.
int names_flat(const char* folder, const char* stem, const char* task, char* out, size_t room);
// Is a folder of that name one of a study: TASK, TASK-plus, seed-N, lewm, ensemble-N,
// member-K or ablation-X-seed-N?
int names_study_folder(const char* name);

#endif
