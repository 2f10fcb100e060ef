// clips.c - clips of training episodes.
#include "train/lewm/clips.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

// Rows and clips of the training episodes; without memory for them it only counts.
static void list_clips(const episodes* e, const data_split* s, const clips_options* opt, clips* c) {
    c->stored = c->count = 0;
    for (int i = 0; i < s->train_count; i++) {
        int episode = s->train[i], n = e->length[episode];
        if (n < opt->rows) continue;
        if (opt->most && c->stored + n > opt->most) break;
        for (int k = 0; k < n; k++) {
            if (c->row) c->row[c->stored + k] = e->offset[episode] + k;
            if (k + opt->rows > n) continue;
            if (c->start) c->start[c->count] = c->stored + k;
            c->count++;
        }
        c->stored += n;
    }
}

static firm_status make_lists(const episodes* data, const data_split* split,
                              const clips_options* opt, clips* c, firm_error* err) {
    list_clips(data, split, opt, c);
    if (c->count == 0)
        return FAIL(err, FIRM_E_VALUE, "no training episode of %d rows%s; give longer episodes%s",
                    opt->rows, opt->most ? " fits into lewm.rows" : "",
                    opt->most ? ", or raise lewm.rows" : "");
    c->row = mem_alloc((size_t)c->stored * sizeof *c->row);
    c->start = mem_alloc((size_t)c->count * sizeof *c->start);
    if (!c->row || !c->start)
        return FAIL(err, FIRM_E_MEMORY, "no memory for a list of %lld rows", (long long)c->stored);
    list_clips(data, split, opt, c);
    return FIRM_OK;
}

firm_status clips_open(const episodes* data, const clips_options* opt, clips* c, firm_error* err) {
    data_split split;
    *c = (clips){.data = data, .action_dim = data->spec->task.action_dim};
    TRY(data_split_make(data, opt->split_seed, &split, err));
    data_action_stats(data, &split, c->mean, c->std);
    firm_status st = make_lists(data, &split, opt, c, err);
    data_split_free(&split);
    if (st == FIRM_OK) st = frames_open(data, opt->workers, 0, &c->frames, err);
    return st;
}

void clips_close(clips* c) {
    frames_free(c->frames);
    mem_free(c->row);
    mem_free(c->start);
    *c = (clips){0};
}

void clips_feed(clips* c, const lewm_objective* at, int count, int controls) {
    c->frames_input = at->frames;
    c->actions_input = at->actions;
    c->window[0] = (nn_window){at->frames, count, controls};
    c->window[1] = (nn_window){at->actions, count * controls, 1};
    c->windows = (nn_windows){c->window, 2, c->stored, c->start};
}

// the action of a row, standardised; the last row of an episode has none: 0
static void write_action(const clips* c, int64_t row, float* out) {
    const float* raw = c->data->action + row * c->action_dim;
    for (int i = 0; i < c->action_dim; i++) {
        out[i] = (raw[i] - c->mean[i]) / c->std[i];
        if (isnan(out[i])) out[i] = 0;
    }
}

firm_status clips_fill(void* ctx, const nn_feed* f) {
    const clips* c = ctx;
    for (int i = 0; i < f->count; i++) {
        int64_t row = c->row[nn_feed_row(f, i)];
        if (nn_feed_wants(f, c->frames_input)) {
            size_t bytes = (size_t)(f->graph->tensor[c->frames_input].size / c->window[0].pieces);
            TRY(frames_get(c->frames, f->worker, row,
                           nn_feed_bytes(f, c->frames_input) + (size_t)i * bytes));
        }
        if (nn_feed_wants(f, c->actions_input))
            write_action(c, row,
                         nn_feed_real(f, c->actions_input) + (size_t)i * (size_t)c->action_dim);
    }
    return FIRM_OK;
}
