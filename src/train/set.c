// set.c - the data of a run: which records and frames the settings' stages ask for, made from
// episodes and branches or read from a pack, and the statistics the model keeps of them.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "train/internal.h"

// ---- frames -------------------------------------------------------------------------------------

static firm_status draw(void* ctx, int worker, int64_t scene, uint8_t* rgb) {
    const train_set* s = ctx;
    const pack* p = &s->data;
    if (!s->frames) return pack_frame(p, s->painter ? s->painter[worker] : NULL, scene, rgb);
    if (scene < p->from.e->rows) return frames_get(s->frames, worker, scene, rgb);
    return frames_render(s->frames, worker, pack_state(p, scene), rgb);
}

firm_status train_frame(const train_set* s, int worker, int64_t scene, uint8_t* rgb) {
    return pictures_get(s->pictures, worker, scene, rgb);
}

firm_status train_failed(const nn_exec* e, firm_status st, const char* kind, firm_error* err) {
    const char* why = nn_exec_fault(e);
    return why ? FAIL(err, st, "%s", why) : FAIL(err, st, "a %s frame cannot be read", kind);
}

static int64_t some_scene(const pack* p) {
    if (p->lists) return p->list[0].p.scene[0];
    for (int i = 0; i < PACK_SOURCES; i++)
        if (p->set[i].count && p->set[i].seen[0] >= 0) return p->set[i].seen[0];
    return 0;
}

static firm_status open_frames(train_set* s, size_t budget, int workers, firm_error* err) {
    pack* p = &s->data;
    if (p->from.e) {
        TRY(frames_open(p->from.e, workers, 0, &s->frames, err));
    } else if (!p->picture) {
        TRY(env_create_many(s->env, workers, &s->painter, err));
        s->painters = workers;
        TRY(env_render_ready(s->painter, workers, err));
    }
    if (p->picture) budget = 0;  // they are packed already
    pictures_of of = {
        .scenes = p->scenes, .bytes = task_frame_bytes(&s->env->task), .draw = draw, .ctx = s};
    uint8_t* background = mem_alloc(of.bytes);
    of.background = background;
    firm_status st = background ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
    if (st == FIRM_OK && draw(s, 0, some_scene(p), background) != FIRM_OK)
        st = FAIL(err, FIRM_E_VALUE, "a training frame cannot be drawn");
    if (st == FIRM_OK) st = pictures_open(&of, budget, &s->pictures, err);
    mem_free(background);
    return st;
}

// ---- what the stages ask for --------------------------------------------------------------------

static firm_status add_list(train_set* s, int source, int lag, firm_error* err) {
    pack* p = &s->data;
    if (pack_find(p, source, lag) >= 0) return FIRM_OK;
    if (!p->from.e)
        return FAIL(err, FIRM_E_VALUE,
                    "the pack has no frames of source %c %d rows apart; make it again with "
                    "`firm pack` and these settings, or with --ablations",
                    SOURCE_LETTERS[source], lag);
    if (p->lists == PACK_LISTS)
        return FAIL(err, FIRM_E_VALUE, "the stages use more than %d kinds of pairs", PACK_LISTS);
    pack_list* l = &p->list[p->lists];
    *l = (pack_list){.source = source, .lag = lag};
    TRY(source == PACK_F
            ? pairs_of_rows(&p->from, &s->split, s->frame_pool, lag, &l->p, err)
            : pairs_of_branches(&p->from, source - PACK_I, s->frame_pool_i, lag, &l->p, err));
    p->lists++;
    if (l->p.count > 0) return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE, "no frame of source %c shows all that moves; collect more",
                SOURCE_LETTERS[source]);
}

static firm_status add_lists(train_set* s, const config* settings, const train_options* opt,
                             const char* sources, firm_error* err) {
    stage each;
    int i;
    TRY(stage_first(settings, opt->from, &i, err));
    for (; stage_read(settings, i, sources, &each); i++)
        for (int source = 0; source < PACK_D && stage_sees_frames(&each); source++)
            if ((each.sources >> source & 1) && (source == PACK_F || s->data.set[source].count))
                TRY(add_list(s, source, each.lag, err));
    return FIRM_OK;
}

static void selection(const config* c, char text[PACK_TEXT]) {
    long long branched = config_int(c, "train", "frame_pool_i");
    snprintf(text, PACK_TEXT, "split_seed %lld, segments %lld, held_out %lld, frame_pool %lld",
             (long long)config_int(c, "data", "split_seed"),
             (long long)config_int(c, "train", "segments"),
             (long long)config_int(c, "train", "held_out"),
             (long long)config_int(c, "train", "frame_pool"));
    if (branched) text_add(text, PACK_TEXT, ", frame_pool_i %lld", branched);
}

// ---- from episodes ------------------------------------------------------------------------------

static firm_status recorded(train_set* s, const int* episode, int episodes_n, int count,
                            uint64_t stream, records* out, firm_error* err) {
    int64_t* rows;
    TRY(data_segments(s->data.from.e, episode, episodes_n, HIST - 1, task_span(&s->env->task),
                      count, 0, stream, &rows, err));
    firm_status st = records_of_rows(&s->data.from, rows, count, out, err);
    mem_free(rows);
    return st;
}

static firm_status check_anchors(const train_set* s, const branches* b, firm_error* err) {
    for (int i = 0; i < b->anchors; i++) {
        int e = episodes_of_row(s->data.from.e, b->row[i]);
        if (s->split.is_valid[e])
            return FAIL(
                err, FIRM_E_VALUE,
                "anchor %d of the interventions lies in validation episode %d; make them again "
                "with `firm intervene` and the same data.split_seed",
                i, e);
    }
    return FIRM_OK;
}

static firm_status from_episodes(train_set* s, const config* settings, const train_inputs* in,
                                 firm_error* err) {
    pack* p = &s->data;
    p->from = (scenes){in->data, {in->interventions, in->structured}};
    p->scenes = scenes_count(&p->from);
    p->data_hash = in->data->hash;
    p->data_seed = in->data->seed;
    selection(settings, p->selection);
    TRY(data_split_make(in->data, (uint64_t)config_int(settings, "data", "split_seed"), &s->split,
                        err));
    data_action_stats(in->data, &s->split, p->action_mean, p->action_std);
    TRY(recorded(s, s->split.train, s->split.train_count,
                 (int)config_int(settings, "train", "segments"), RNG_STREAM(RNG_SEGMENT, 0),
                 &p->set[PACK_F], err));
    TRY(recorded(s, s->split.valid, s->split.valid_count,
                 (int)config_int(settings, "train", "held_out"), RNG_STREAM(RNG_SEGMENT, 1),
                 &p->set[PACK_HELD], err));
    pack_list* held = &p->list[p->lists];
    *held = (pack_list){.source = PACK_HELD, .lag = 1};
    TRY(pairs_of_records(&p->from, &p->set[PACK_HELD], &held->p, err));
    p->lists++;
    for (int i = 0; i < SCENE_BRANCHES; i++) {
        if (!p->from.b[i]) continue;
        TRY(check_anchors(s, p->from.b[i], err));
        TRY(records_of_branches(&p->from, i, &p->set[PACK_I + i], err));
    }
    return FIRM_OK;
}

static firm_status from_file(train_set* s, const config* settings, const char* path,
                             firm_error* err) {
    char wanted[PACK_TEXT];
    selection(settings, wanted);
    TRY(pack_read(path, s->env, &s->data, err));
    if (strcmp(wanted, s->data.selection) != 0)
        return FAIL(err, FIRM_E_VALUE,
                    "%s was made with other settings (%s; now %s); make it again with `firm pack`",
                    path, s->data.selection, wanted);
    return FIRM_OK;
}

// the pairs the samples of a stage come from; held ones come first
const pairs* train_pairs(const train_set* s, int source, int lag) {
    int i = pack_find(&s->data, source, lag);
    return i < 0 ? NULL : &s->data.list[i].p;
}

firm_status train_set_open(const config* settings, const env_spec* env, const train_inputs* in,
                           const train_options* opt, int workers, train_set* s, firm_error* err) {
    *s = (train_set){.env = env,
                     .seed = opt->seed,
                     .device = nn_device_cpu(),
                     .data = {.spec = env},
                     .frame_pool = (int)config_int(settings, "train", "frame_pool"),
                     .frame_pool_i = (int)config_int(settings, "train", "frame_pool_i")};
    if (s->frame_pool_i == 0) s->frame_pool_i = s->frame_pool;
    TRY(in->pack ? from_file(s, settings, in->pack, err) : from_episodes(s, settings, in, err));
    TRY(add_lists(s, settings, opt, opt->sources, err));
    if (opt->ablations) {
        TRY(add_lists(s, settings, opt, "F", err));
        TRY(add_lists(s, settings, opt, "I", err));
    }
    for (int i = PACK_I; i <= PACK_S && opt->mismatch; i++)
        if (s->data.set[i].count) TRY(records_mismatch(&s->data.set[i], env, opt->seed, err));
    int64_t cache = config_int(settings, "data", "frame_cache_mib") << 20;
    return open_frames(s, (size_t)cache, workers, err);
}

void train_set_close(train_set* s) {
    pictures_free(s->pictures);
    frames_free(s->frames);
    env_free_many(s->painter, s->painters);
    pack_free(&s->data);
    data_split_free(&s->split);
}

// ---- picks --------------------------------------------------------------------------------------

nn_pick train_pick_key(uint64_t seed, int stage) {
    return (nn_pick){seed, RNG_STREAM(RNG_BATCH, stage)};
}

int64_t train_pick(uint64_t seed, int stage, int64_t update, int sample, int64_t n) {
    nn_pick key = train_pick_key(seed, stage);
    return nn_pick_row(&key, update, sample, n);
}

// ---- statistics ---------------------------------------------------------------------------------

// the i-th frame of a fixed sample of the training frames
static int64_t sample_scene(const train_set* s, int i) {
    const pack* p = &s->data;
    for (int l = 0; l < p->lists; l++) {
        const pack_list* list = &p->list[l];
        if (list->source == PACK_HELD) continue;
        return list->p.scene[2 * train_pick(0, 0xFFFF, 0, i, list->p.count)];
    }
    const records* r = &p->set[PACK_F];
    return r->seen[RECORD_FRAMES * train_pick(0, 0xFFFF, 0, i, r->histories)];
}

static firm_status image_stats(train_set* s, model_stats* stats, firm_error* err) {
    enum { FRAMES = 256 };
    const size_t bytes = task_frame_bytes(&s->env->task);
    uint8_t* rgb = mem_alloc(bytes);
    if (!rgb) return FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
    double sum[3] = {0}, square[3] = {0};
    firm_status st = FIRM_OK;
    for (int i = 0; i < FRAMES && st == FIRM_OK; i++) {
        st = train_frame(s, 0, sample_scene(s, i), rgb);
        for (size_t j = 0; j < bytes && st == FIRM_OK; j++) {
            double x = rgb[j] / 255.0;
            sum[j % 3] += x;
            square[j % 3] += x * x;
        }
    }
    mem_free(rgb);
    if (st != FIRM_OK) return FAIL(err, st, "a training frame cannot be read");
    double n = (double)FRAMES * (double)(bytes / 3);
    for (int ch = 0; ch < 3; ch++) {
        double mean = sum[ch] / n, variance = square[ch] / n - mean * mean;
        stats->image_mean[ch] = (float)mean;
        stats->image_std[ch] = variance > 1e-6 ? (float)sqrt(variance) : 1.0f;
    }
    return FIRM_OK;
}

firm_status train_set_stats(train_set* s, model_stats* stats, firm_error* err) {
    const records* r = &s->data.set[PACK_F];
    int dim = s->env->task.chi_dim, points = task_points(&s->env->task);
    memcpy(stats->action_mean, s->data.action_mean, sizeof stats->action_mean);
    memcpy(stats->action_std, s->data.action_std, sizeof stats->action_std);
    double sum[TASK_MAX_CHI] = {0}, square[TASK_MAX_CHI] = {0};
    for (int i = 0; i < r->count; i++)
        for (int j = 0; j < dim; j++) {
            double x = (double)r->chi[(i * points + 1) * dim + j];  // after one macro action
            sum[j] += x;
            square[j] += x * x;
        }
    for (int j = 0; j < dim; j++) {
        double mean = sum[j] / r->count, variance = square[j] / r->count - mean * mean;
        stats->chi_mean[j] = (float)mean;
        // what hardly ever moves: its tiny deviation must not make a real change a thousandfold one
        stats->chi_std[j] = variance > 1e-12 ? (float)fmax(sqrt(variance), 1e-3) : 1.0f;
    }
    return image_stats(s, stats, err);
}
