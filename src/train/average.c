// average.c - the mean of the weights along the end of a stage.
//
// The last weights of a stage carry the noise of its last batches. With `average` above 0, weights
// are looked at every `average_every` updates over that last share of the stage, the last update
// included, and their mean is what the stage leaves behind. Updates go on from the weights
// themselves, so they are the same with and without it. The mean so far is part of a checkpoint;
// how many weights are in it follows from the number of the update.
#include <string.h>

#include "core/mem.h"
#include "train/run.h"

// Updates after which the weights count: how many up to `done`.
static int looked_at(const stage* s, int done) {
    int first = s->updates - (int)(s->average * s->updates), n = 0;
    for (int u = done; u > first; u--) n += (s->updates - u) % s->average_every == 0;
    return n;
}

int average_due(const stage* s, int done) {
    return s->average > 0 && looked_at(s, done) > looked_at(s, done - 1);
}

firm_status average_begin(train_run_state* run, const stage* s, int from, firm_error* err) {
    const size_t count = run->model->store->count;
    if (!(s->average > 0)) return FIRM_OK;
    run->average = mem_calloc(count, sizeof *run->average);
    if (!run->average) return FAIL(err, FIRM_E_MEMORY, "no memory to average the weights");
    return looked_at(s, from) ? run_read_average(run, err) : FIRM_OK;
}

void average_add(train_run_state* run, const stage* s, int done) {
    const nn_store* store = run->model->store;
    const float n = (float)looked_at(s, done);
    for (size_t i = 0; i < store->count; i++)
        run->average[i] += (store->value[i] - run->average[i]) / n;
}

void average_take(train_run_state* run) {
    nn_store* store = run->model->store;
    if (run->average) memcpy(store->value, run->average, store->count * sizeof *store->value);
    average_drop(run);
}

void average_drop(train_run_state* run) {
    mem_free(run->average);
    run->average = NULL;
}
