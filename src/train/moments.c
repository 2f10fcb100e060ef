// moments.c - the samples of a run: recorded segments, common-reset branches and held-out segments,
// and what the simulator says about each of them.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

enum { BEFORE = HIST - 1 };

static firm_status moments_alloc(moments* m, int count, int histories, firm_error* err) {
    m->item = mem_calloc((size_t)count + 1, sizeof *m->item);
    m->row = mem_calloc((size_t)histories + 1, sizeof *m->row);
    if (!m->item || !m->row)
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d training moments", count);
    m->count = count;
    m->histories = histories;
    return FIRM_OK;
}

static firm_status recorded(const train_set* s, const int* episode, int episodes_n, int count,
                            uint64_t stream, moments* out, firm_error* err) {
    int64_t* rows;
    TRY(data_segments(s->data, episode, episodes_n, BEFORE, SPAN, count, 0, stream, &rows, err));
    firm_status st = moments_alloc(out, count, count, err);
    for (int i = 0; i < count && st == FIRM_OK; i++) {
        out->item[i] = (moment){.row = rows[i], .branch = -1, .outcome = -1, .history = i};
        out->row[i] = rows[i];
    }
    mem_free(rows);
    return st;
}

static firm_status intervened(train_set* s, int mismatch, firm_error* err) {
    const branches* b = s->inter;
    int count = b->anchors * b->per_anchor;
    TRY(moments_alloc(&s->intervened, count, b->anchors, err));
    int* outcome = mem_alloc((size_t)count * sizeof *outcome);
    if (!outcome) return FAIL(err, FIRM_E_MEMORY, "no memory for %d branches", count);
    for (int i = 0; i < count; i++) outcome[i] = i;
    if (mismatch) {
        rng r = rng_start(s->seed, RNG_STREAM(RNG_BRANCH, 1) ^ 0xFFFFFFFFu);
        rng_shuffle(&r, outcome, count);
    }
    for (int i = 0; i < count; i++) {
        int anchor = i / b->per_anchor;
        s->intervened.item[i] =
            (moment){.row = b->row[anchor], .branch = i, .outcome = outcome[i], .history = anchor};
    }
    for (int i = 0; i < b->anchors; i++) s->intervened.row[i] = b->row[i];
    mem_free(outcome);
    return FIRM_OK;
}

// every training row that has a predecessor: the frames of the frontend stages
static firm_status pair_rows(train_set* s, firm_error* err) {
    s->pair_row = mem_alloc((size_t)s->data->rows * sizeof *s->pair_row);
    if (!s->pair_row) return FAIL(err, FIRM_E_MEMORY, "no memory for a list of training frames");
    for (int i = 0; i < s->split.train_count; i++) {
        int e = s->split.train[i];
        for (int t = 1; t < s->data->length[e]; t++)
            s->pair_row[s->pair_rows++] = s->data->offset[e] + t;
    }
    return FIRM_OK;
}

static firm_status check_anchors(const train_set* s, firm_error* err) {
    for (int i = 0; i < s->inter->anchors; i++) {
        int e = episodes_of_row(s->data, s->inter->row[i]);
        if (s->split.is_valid[e])
            return FAIL(
                err, FIRM_E_VALUE,
                "anchor %d of the interventions lies in validation episode %d; make them again "
                "with `firm intervene` and the same data.split_seed",
                i, e);
    }
    return FIRM_OK;
}

firm_status train_set_open(const config* settings, const env_spec* env, const episodes* data,
                           const branches* inter, const train_options* opt, int workers,
                           train_set* s, firm_error* err) {
    *s = (train_set){
        .env = env, .data = data, .inter = inter, .seed = opt->seed, .device = nn_device_cpu()};
    TRY(data_split_make(data, (uint64_t)config_int(settings, "data", "split_seed"), &s->split,
                        err));
    int64_t cache = config_int(settings, "data", "frame_cache_mib") << 20;
    TRY(frames_open(data, workers, (size_t)cache, &s->frames, err));
    TRY(pair_rows(s, err));
    TRY(recorded(s, s->split.train, s->split.train_count,
                 (int)config_int(settings, "train", "segments"), RNG_STREAM(RNG_SEGMENT, 0),
                 &s->factual, err));
    TRY(recorded(s, s->split.valid, s->split.valid_count,
                 (int)config_int(settings, "train", "held_out"), RNG_STREAM(RNG_SEGMENT, 1),
                 &s->held, err));
    if (!inter) return FIRM_OK;
    TRY(check_anchors(s, err));
    return intervened(s, opt->mismatch, err);
}

static void moments_free(moments* m) {
    mem_free(m->item);
    mem_free(m->row);
}

void train_set_close(train_set* s) {
    moments_free(&s->factual);
    moments_free(&s->intervened);
    moments_free(&s->held);
    mem_free(s->pair_row);
    frames_free(s->frames);
    data_split_free(&s->split);
}

// ---- what the simulator says --------------------------------------------------------------------

const double* moment_state(const train_set* s, const moment* m, int control) {
    int dim = s->env->state_dim;
    if (control <= 0 || m->outcome < 0) return s->data->state + (m->row + control) * dim;
    return s->inter->state + ((int64_t)m->outcome * (BRANCH_CONTROLS + 1) + control) * dim;
}

void moment_actions(const train_set* s, const moment* m, int control, int count, float* raw) {
    int dim = s->env->action_dim;
    const float* from =
        control >= 0 && m->branch >= 0
            ? s->inter->action + ((int64_t)m->branch * BRANCH_CONTROLS + control) * dim
            : s->data->action + (m->row + control) * dim;
    memcpy(raw, from, (size_t)(count * dim) * sizeof *raw);
}

void moment_config(const train_set* s, const moment* m, int control, float* c) {
    s->env->config(moment_state(s, m, control), c);
}

void moment_chi(const train_set* s, const moment* m, int control, float* chi) {
    int back = control - MODEL_CONTROLS < -BEFORE ? -BEFORE : control - MODEL_CONTROLS;
    s->env->chi(moment_state(s, m, control), moment_state(s, m, control - 1),
                moment_state(s, m, back), chi);
}

firm_status moment_frame(const train_set* s, const moment* m, int control, int worker,
                         uint8_t* rgb) {
    if (control <= 0 || m->outcome < 0) return frames_get(s->frames, worker, m->row + control, rgb);
    return frames_render(s->frames, worker, moment_state(s, m, control), rgb);
}

nn_pick train_pick_key(uint64_t seed, int stage) {
    return (nn_pick){seed, RNG_STREAM(RNG_BATCH, stage)};
}

int64_t train_pick(uint64_t seed, int stage, int64_t update, int sample, int64_t n) {
    nn_pick key = train_pick_key(seed, stage);
    return nn_pick_row(&key, update, sample, n);
}

// ---- statistics ---------------------------------------------------------------------------------

static firm_status image_stats(train_set* s, model_stats* stats, firm_error* err) {
    enum { FRAMES = 256 };
    uint8_t* rgb = mem_alloc(ENV_IMAGE * ENV_IMAGE * 3);
    if (!rgb) return FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
    double sum[3] = {0}, square[3] = {0};
    firm_status st = FIRM_OK;
    for (int i = 0; i < FRAMES && st == FIRM_OK; i++) {
        int64_t row = s->pair_row[train_pick(0, 0xFFFF, 0, i, s->pair_rows)];
        st = frames_get(s->frames, 0, row, rgb);
        for (int j = 0; j < ENV_IMAGE * ENV_IMAGE * 3 && st == FIRM_OK; j++) {
            double x = rgb[j] / 255.0;
            sum[j % 3] += x;
            square[j % 3] += x * x;
        }
    }
    mem_free(rgb);
    if (st != FIRM_OK) return FAIL(err, st, "a training frame cannot be read");
    double n = (double)FRAMES * ENV_IMAGE * ENV_IMAGE;
    for (int ch = 0; ch < 3; ch++) {
        double mean = sum[ch] / n, variance = square[ch] / n - mean * mean;
        stats->image_mean[ch] = (float)mean;
        stats->image_std[ch] = variance > 1e-6 ? (float)sqrt(variance) : 1.0f;
    }
    return FIRM_OK;
}

firm_status train_set_stats(train_set* s, model_stats* stats, firm_error* err) {
    data_action_stats(s->data, &s->split, stats->action_mean, stats->action_std);
    double sum[ENV_MAX_CHI] = {0}, square[ENV_MAX_CHI] = {0};
    for (int i = 0; i < s->factual.count; i++) {
        float chi[ENV_MAX_CHI];
        moment_chi(s, &s->factual.item[i], MODEL_CONTROLS, chi);
        for (int j = 0; j < s->env->chi_dim; j++) {
            sum[j] += (double)chi[j];
            square[j] += (double)chi[j] * (double)chi[j];
        }
    }
    for (int j = 0; j < s->env->chi_dim; j++) {
        double mean = sum[j] / s->factual.count,
               variance = square[j] / s->factual.count - mean * mean;
        stats->chi_mean[j] = (float)mean;
        stats->chi_std[j] = variance > 1e-12 ? (float)sqrt(variance) : 1.0f;
    }
    return image_stats(s, stats, err);
}
