// perceive.c - three small graphs run once per frame or per plan; all memory at creation. A frame
// that a plan will soon start from is grounded and compared with the one before it side by side.
#include "plan/perceive.h"

#include <string.h>

#include "core/mem.h"
#include "nn/exec.h"

enum { HIST = MODEL_HISTORY };

typedef struct seen_frame {
    uint8_t* rgb;
    float* tokens;  // E(o, 0)
    float* change;  // E(o, o - the frame before), once `changed` says so
    int changed;
    float config[FIRM_MAX_CONFIG];  // G(E(o, 0))
    float action[FIRM_MAX_ACTION];  // standardised control that led here
} seen_frame;

struct perception {
    const firm_model* m;
    perception* first;  // whose frames it looks at; NULL: its own
    pool* threads;
    size_t bytes;            // of a frame
    int tokens;              // numbers in a frame's tokens
    seen_frame frame[HIST];  // oldest first
    int count;
    nn_graph *still, *change, *belief;
    nn_exec *still_run, *change_run, *belief_run;
    nn_id still_image, still_tokens, still_config;
    nn_id change_image, change_before, change_tokens;
    nn_id belief_tokens[HIST], belief_action[HIST - 1], belief_config[HIST], belief_fiber;
    nn_id belief_chi;  // NN_NONE: the model has no such reading
    // the call in progress
    const uint8_t* rgb;
    const float* truth;
    int compared[HIST - 1];  // frames whose change is wanted
    firm_status status[2];   // of grounding and of comparing
};

static const perception* seer(const perception* p) {
    return p->first ? p->first : p;
}

static firm_status build_sight(perception* p, pool* threads, firm_error* err) {
    const firm_model* m = p->m;
    nn_exec_options one = {.batch = 1, .shard = 1, .lanes = 1},
                    two = {.batch = HIST - 1, .shard = 1, .lanes = 1};
    TRY(nn_graph_create(m->store, &p->still, err));
    p->still_image = nn_image(p->still, "image", m->task.image);
    p->still_tokens = model_tokens(p->still, m, p->still_image, NN_NONE);
    p->still_config = model_ground(p->still, m, p->still_tokens);
    nn_output(p->still, p->still_tokens);
    nn_output(p->still, p->still_config);
    TRY(nn_exec_create(p->still, nn_backend_cpu(), &one, NULL, &p->still_run, err));

    TRY(nn_graph_create(m->store, &p->change, err));
    p->change_image = nn_image(p->change, "image", m->task.image);
    p->change_before = nn_image(p->change, "before", m->task.image);
    p->change_tokens = model_tokens(p->change, m, p->change_image, p->change_before);
    nn_output(p->change, p->change_tokens);
    return nn_exec_create(p->change, nn_backend_cpu(), &two, threads, &p->change_run, err);
}

static firm_status build_belief(perception* p, firm_error* err) {
    const firm_model* m = p->m;
    nn_exec_options one = {.batch = 1, .shard = 1, .lanes = 1};
    TRY(nn_graph_create(m->store, &p->belief, err));
    int shape[2] = {model_token_count(m), model_token_width(m)};
    for (int f = 0; f < HIST; f++) {
        p->belief_tokens[f] = nn_input(p->belief, "tokens", 2, shape);
        p->belief_config[f] = nn_input1(p->belief, "config", m->task.config_dim);
        if (f + 1 < HIST) p->belief_action[f] = nn_input1(p->belief, "action", m->task.action_dim);
    }
    nn_id b = model_belief(p->belief, m, p->belief_tokens, p->belief_action);
    p->belief_fiber = model_fiber(p->belief, m, b, p->belief_config);
    nn_output(p->belief, p->belief_fiber);
    p->belief_chi = m->shape.reading && !m->shape.no_fiber
                        ? model_reading(p->belief, m, p->belief_config[HIST - 1], p->belief_fiber)
                        : NN_NONE;
    if (p->belief_chi != NN_NONE) nn_output(p->belief, p->belief_chi);
    return nn_exec_create(p->belief, nn_backend_cpu(), &one, NULL, &p->belief_run, err);
}

static firm_status take_frames(perception* p, firm_error* err) {
    for (int f = 0; f < HIST; f++) {
        p->frame[f].rgb = mem_calloc(1, p->bytes);
        p->frame[f].tokens = mem_calloc((size_t)p->tokens, sizeof(float));
        p->frame[f].change = mem_calloc((size_t)p->tokens, sizeof(float));
        if (!p->frame[f].rgb || !p->frame[f].tokens || !p->frame[f].change)
            return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
    }
    return FIRM_OK;
}

firm_status perception_create(const firm_model* m, perception* first, pool* threads,
                              perception** out, firm_error* err) {
    *out = NULL;
    perception* p = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
    p->m = m;
    p->first = m->shares ? first : NULL;
    p->threads = threads;
    p->bytes = task_frame_bytes(&m->task);
    p->tokens = model_token_count(m) * model_token_width(m);
    firm_status st = p->first ? FIRM_OK : take_frames(p, err);
    if (st == FIRM_OK && !p->first) st = build_sight(p, threads, err);
    if (st == FIRM_OK) st = build_belief(p, err);
    if (st != FIRM_OK) {
        perception_free(p);
        return st;
    }
    *out = p;
    return FIRM_OK;
}

void perception_free(perception* p) {
    if (!p) return;
    for (int f = 0; f < HIST; f++) {
        mem_free(p->frame[f].rgb);
        mem_free(p->frame[f].tokens);
        mem_free(p->frame[f].change);
    }
    nn_exec_free(p->still_run);
    nn_exec_free(p->change_run);
    nn_exec_free(p->belief_run);
    nn_graph_free(p->still);
    nn_graph_free(p->change);
    nn_graph_free(p->belief);
    mem_free(p);
}

size_t perception_bytes(const perception* p) {
    size_t bytes = sizeof *p + nn_exec_bytes(p->belief_run);
    if (p->first) return bytes;
    return bytes + HIST * (p->bytes + 2 * (size_t)p->tokens * sizeof(float)) +
           nn_exec_bytes(p->still_run) + nn_exec_bytes(p->change_run);
}

void perception_reset(perception* p) {
    p->count = 0;
}
int perception_frames(const perception* p) {
    return seer(p)->count;
}
const float* perception_config(const perception* p) {
    return seer(p)->frame[HIST - 1].config;
}

const float* perception_tokens(const perception* p) {
    return seer(p)->frame[HIST - 1].tokens;
}

static firm_status fill_still(void* ctx, const nn_feed* feed) {
    perception* p = ctx;
    memcpy(nn_feed_bytes(feed, p->still_image), p->rgb, p->bytes);
    return FIRM_OK;
}

firm_status perception_ground(perception* p, const uint8_t* rgb, float* c) {
    if (p->first) p = p->first;
    p->rgb = rgb;
    TRY(nn_exec_forward(p->still_run, 1, fill_still, p));
    memcpy(c, nn_exec_output(p->still_run, p->still_config),
           (size_t)p->m->task.config_dim * sizeof *c);
    return FIRM_OK;
}

static firm_status fill_change(void* ctx, const nn_feed* feed) {
    perception* p = ctx;
    for (int i = 0; i < feed->count; i++) {
        int f = p->compared[feed->first + i];
        memcpy(nn_feed_bytes(feed, p->change_image) + (size_t)i * p->bytes, p->frame[f].rgb,
               p->bytes);
        memcpy(nn_feed_bytes(feed, p->change_before) + (size_t)i * p->bytes, p->frame[f - 1].rgb,
               p->bytes);
    }
    return FIRM_OK;
}

// The change of frames `from` and later, where it is not there yet.
static firm_status compare(perception* p, int from) {
    int n = 0;
    for (int f = from; f < HIST; f++)
        if (!p->frame[f].changed) p->compared[n++] = f;
    if (n == 0) return FIRM_OK;
    TRY(nn_exec_forward(p->change_run, n, fill_change, p));
    const float* changes = nn_exec_output(p->change_run, p->change_tokens);
    for (int i = 0; i < n; i++) {
        seen_frame* f = &p->frame[p->compared[i]];
        memcpy(f->change, changes + (size_t)i * (size_t)p->tokens,
               (size_t)p->tokens * sizeof(float));
        f->changed = 1;
    }
    return FIRM_OK;
}

static void look(void* arg, int item, int worker) {
    (void)worker;
    perception* p = arg;
    seen_frame* f = &p->frame[HIST - 1];
    p->status[item] = item ? compare(p, HIST - 1) : perception_ground(p, f->rgb, f->config);
}

firm_status perception_push(perception* p, const uint8_t* rgb, const float* action, int soon) {
    if (p->first) return FIRM_OK;  // it has seen the frame
    seen_frame oldest = p->frame[0];
    memmove(&p->frame[0], &p->frame[1], (HIST - 1) * sizeof *p->frame);
    p->frame[HIST - 1] = oldest;
    seen_frame* f = &p->frame[HIST - 1];
    memcpy(f->rgb, rgb, p->bytes);
    f->changed = 0;
    p->status[1] = FIRM_OK;
    pool_for(p->threads, soon && p->count && !p->m->shape.no_fiber ? 2 : 1, look, p);
    TRY(p->status[0]);
    TRY(p->status[1]);
    memcpy(f->tokens, nn_exec_output(p->still_run, p->still_tokens),
           (size_t)p->tokens * sizeof(float));
    float none[FIRM_MAX_ACTION] = {0};
    model_standardise(p->m, action && p->count ? action : none, 1, f->action);
    if (p->count == 0) {
        // the first frame of an episode: nothing moved before it
        for (int i = 0; i + 1 < HIST; i++) {
            memcpy(p->frame[i].rgb, rgb, p->bytes);
            memcpy(p->frame[i].tokens, f->tokens, (size_t)p->tokens * sizeof(float));
            memcpy(p->frame[i].config, f->config, sizeof f->config);
            memcpy(p->frame[i].action, f->action, sizeof f->action);
            p->frame[i].changed = 0;
        }
    }
    if (p->count < HIST) p->count++;
    return FIRM_OK;
}

static firm_status fill_belief(void* ctx, const nn_feed* feed) {
    perception* p = ctx;
    const seen_frame* frame = seer(p)->frame;
    size_t size = (size_t)p->tokens, dim = (size_t)p->m->task.config_dim;
    for (int f = 0; f < HIST; f++) {
        memcpy(nn_feed_real(feed, p->belief_tokens[f]), f ? frame[f].change : frame[0].tokens,
               size * sizeof(float));
        memcpy(nn_feed_real(feed, p->belief_config[f]),
               p->truth ? p->truth + (size_t)f * dim : frame[f].config, dim * sizeof(float));
        if (f + 1 < HIST)
            memcpy(nn_feed_real(feed, p->belief_action[f]), frame[f + 1].action,
                   (size_t)p->m->task.action_dim * sizeof(float));
    }
    return FIRM_OK;
}

firm_status perception_state(perception* p, const float* truth, float* c0, float* fiber) {
    p->truth = truth;
    size_t dim = (size_t)p->m->task.config_dim;
    memcpy(c0, truth ? truth + (HIST - 1) * dim : perception_config(p), dim * sizeof *c0);
    if (p->m->shape.no_fiber) {
        memset(fiber, 0, (size_t)p->m->shape.fiber * sizeof *fiber);
        return FIRM_OK;
    }
    TRY(compare(p->first ? p->first : p, 1));
    TRY(nn_exec_forward(p->belief_run, 1, fill_belief, p));
    memcpy(fiber, nn_exec_output(p->belief_run, p->belief_fiber),
           (size_t)p->m->shape.fiber * sizeof *fiber);
    return FIRM_OK;
}

void perception_chi(const perception* p, float* chi) {
    const model_stats* stats = &p->m->stats;
    const float* standard =
        p->belief_chi == NN_NONE ? NULL : nn_exec_output(p->belief_run, p->belief_chi);
    for (int i = 0; i < p->m->task.chi_dim; i++)
        chi[i] = stats->chi_mean[i] + (standard ? standard[i] * stats->chi_std[i] : 0.0f);
}

void perception_walk(perception* p, blob* b) {
    if (p->first) return;
    BLOB_FIELD(b, p->count);
    for (int i = 0; i < HIST; i++) {
        seen_frame* f = &p->frame[i];
        blob_field(b, f->rgb, p->bytes);
        blob_field(b, f->tokens, (size_t)p->tokens * sizeof *f->tokens);
        blob_field(b, f->change, (size_t)p->tokens * sizeof *f->change);
        BLOB_FIELD(b, f->changed);
        BLOB_FIELD(b, f->config);
        BLOB_FIELD(b, f->action);
    }
}
