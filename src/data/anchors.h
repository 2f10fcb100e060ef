// anchors.h - which recorded moments are restored; shared by interventions (branches.c) and audit
// (audit.c).
#ifndef DATA_ANCHORS_H
#define DATA_ANCHORS_H

#include "data/branches.h"

enum { ANCHOR_BEFORE = 2 };  // rows of history an anchor needs

// Draws anchors of distinct training episodes, each a row with 2 earlier and `span` later ones,
// none of which is erratic (env_spec), from the seed alone. *count 0: the task's default, or as
// many as the data allow; a positive count that they do not allow fails. The caller frees *rows
// with mem_free.
firm_status anchors_draw(const episodes* e, const data_split* split, uint64_t seed, int* count,
                         int64_t** rows, firm_error* err);

// The same for structured interventions: as many anchors of each of the task's classes of moments
// (env_structured). *classes gets the class of each; the caller frees it too.
firm_status anchors_draw_balanced(const episodes* e, const data_split* split, uint64_t seed,
                                  int* count, int64_t** rows, int** classes, firm_error* err);

// The audit's figures and verdict from its errors (out->horizons, out->anchors), in tolerance
// units. Sorts them.
void audit_judge(double* error, audit_result* out);

#endif
