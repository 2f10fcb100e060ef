// tokens.c - what the tokens of training frames look like, so that a controller can tell a frame
// that is unlike them (plan/strange.h): mean and deviation of every channel, averaged over the
// frame's tokens, and how far from these nearly every frame lies.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/stats.h"
#include "train/internal.h"

enum { BATCH = 32, SHARD = 4, EPISODE_FRAMES = 8 };

// Frame i of the sample, drawn by a worker of the pool.
typedef firm_status (*draw_fn)(void* ctx, int worker, int i, uint8_t* rgb);

typedef struct sampler {
    draw_fn draw;
    void* ctx;
    nn_id image, tokens;
    const firm_model* m;
    float* pooled;  // (count, width)
} sampler;

static firm_status fill(void* ctx, const nn_feed* feed) {
    sampler* s = ctx;
    for (int i = 0; i < feed->count; i++)
        TRY(s->draw(s->ctx, feed->worker, feed->first + i,
                    nn_feed_bytes(feed, s->image) + (size_t)i * task_frame_bytes(&s->m->task)));
    return FIRM_OK;
}

static void take(void* ctx, const nn_exec* e, int first, int n) {
    sampler* s = ctx;
    int count = model_token_count(s->m), width = model_token_width(s->m);
    const float* tokens = nn_exec_output(e, s->tokens);
    for (int i = 0; i < n; i++)
        model_pool_tokens(s->m, tokens + (size_t)i * (size_t)(count * width),
                          s->pooled + (size_t)(first + i) * (size_t)width);
}

static firm_status encode(sampler* s, int count, pool* p, firm_error* err) {
    nn_graph* g = NULL;
    nn_exec* e = NULL;
    nn_exec_options opt = {.batch = BATCH, .shard = SHARD, .lanes = 1};
    firm_status st = nn_graph_create(s->m->store, &g, err);
    if (st == FIRM_OK) {
        s->image = nn_image(g, "frame", s->m->task.image);
        s->tokens = model_tokens(g, s->m, s->image, NN_NONE);
        nn_output(g, s->tokens);
        st = nn_exec_create(g, nn_backend_cpu(), &opt, p, &e, err);
    }
    if (st == FIRM_OK) {
        st = nn_exec_stream(e, count, fill, s, take, s);
        if (st != FIRM_OK) st = train_failed(e, st, "training", err);
    }
    nn_exec_free(e);
    nn_graph_free(g);
    return st;
}

// All but one in a thousand frames are within the radius, and a quarter of it is left for those
// that a sample does not show.
static float radius_of(firm_model* m, const float* pooled, int count, float* distance) {
    int width = model_token_width(m);
    for (int i = 0; i < count; i++)
        distance[i] = model_token_distance(m, pooled + (size_t)i * (size_t)width);
    stats_sort_floats(distance, (size_t)count);
    return 1.25f * distance[count - 1 - count / 1000];
}

static void estimate(firm_model* m, const float* pooled, int count) {
    int width = model_token_width(m);
    for (int k = 0; k < width; k++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < count; i++) sum += pooled[i * width + k];
        double mean = sum / count;
        for (int i = 0; i < count; i++) {
            double d = pooled[i * width + k] - mean;
            squares += d * d;
        }
        m->token_stats[k] = (float)mean;
        m->token_stats[width + k] = (float)sqrt(squares / count);
    }
}

static firm_status sample(firm_model* m, int count, draw_fn draw, void* ctx, pool* p,
                          firm_error* err) {
    size_t width = (size_t)model_token_width(m);
    model_drop_tokens(m);
    if (count < 2) return FIRM_OK;
    float* distance = mem_alloc((size_t)count * sizeof *distance);
    sampler s = {.draw = draw,
                 .ctx = ctx,
                 .m = m,
                 .pooled = mem_alloc((size_t)count * width * sizeof(float))};
    m->token_stats = mem_alloc(2 * width * sizeof *m->token_stats);
    firm_status st = distance && s.pooled && m->token_stats
                         ? encode(&s, count, p, err)
                         : FAIL(err, FIRM_E_MEMORY, "no memory for %d frames' tokens", count);
    if (st == FIRM_OK) {
        estimate(m, s.pooled, count);
        m->token_radius = radius_of(m, s.pooled, count, distance);
    }
    // frames that are all alike tell nothing
    if (st != FIRM_OK || !(m->token_radius > 0) || !isfinite(m->token_radius)) model_drop_tokens(m);
    mem_free(distance);
    mem_free(s.pooled);
    return st;
}

// ---- from the data of a run ---------------------------------------------------------------------

typedef struct record_frames {
    const train_set* set;
    const records* r;
    int64_t count;
} record_frames;

static firm_status draw_record(void* ctx, int worker, int i, uint8_t* rgb) {
    const record_frames* f = ctx;
    int64_t all = (int64_t)f->r->histories * HIST;
    return train_frame(f->set, worker, f->r->seen[i * all / f->count], rgb);
}

firm_status tokens_fill(const train_set* s, firm_model* m, int count, pool* p, firm_error* err) {
    record_frames f = {.set = s, .r = &s->data.set[PACK_F]};
    int64_t all = (int64_t)f.r->histories * HIST;
    f.count = count < all ? count : all;
    return sample(m, (int)f.count, draw_record, &f, p, err);
}

// ---- from fresh episodes ------------------------------------------------------------------------

typedef struct fresh_frames {
    frames* f;
    int64_t rows, count;
} fresh_frames;

static firm_status draw_fresh(void* ctx, int worker, int i, uint8_t* rgb) {
    const fresh_frames* f = ctx;
    return frames_get(f->f, worker, i * f->rows / f->count, rgb);
}

firm_status train_add_tokens(firm_model* m, const env_spec* env, int count, pool* p,
                             firm_error* err) {
    collect_options opt = {.episodes = (count + EPISODE_FRAMES - 1) / EPISODE_FRAMES, .seed = 0};
    episodes* e = NULL;
    fresh_frames f = {.count = count};
    firm_status st = episodes_collect(env, &opt, p, &e, err);
    if (st == FIRM_OK) st = frames_open(e, pool_threads(p), 0, &f.f, err);
    if (st == FIRM_OK) {
        f.rows = e->rows;
        st = sample(m, count, draw_fresh, &f, p, err);
    }
    frames_free(f.f);
    episodes_free(e);
    return st;
}
