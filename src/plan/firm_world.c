// firm_world.c - FIRM behind the seam: perception (perceive.h) encodes, the transition (dynamics.h)
// rolls out, typed distances (typed.h) price.
//
// A model may be an ensemble: then every member sees the same frames and starts from its own (c,
// m), and what the world knows and predicts is the members' mean (ensemble.h). Support, recorded
// segments and the reading by which these are looked up are the first member's.
#include <string.h>

#include "core/mem.h"
#include "plan/dynamics.h"
#include "plan/ensemble.h"
#include "plan/net_model.h"
#include "plan/perceive.h"
#include "plan/propose.h"
#include "plan/recall.h"
#include "plan/strange.h"
#include "plan/typed.h"
#include "plan/weights.h"
#include "plan/worlds.h"

// One model at work.
typedef struct member {
    perception* eyes;
    float* fiber;             // (fiber)
    plan_net *net, *own_net;  // on the CPU: in use; to be freed
    plan_learned* learned;
    plan_gpu *gpu, *own_gpu;  // on a GPU: in use; to be freed
    plan_learned_gpu* learned_gpu;
} member;

typedef struct firm_world {
    const firm_model* m;
    pool* threads;
    member member[1 + MODEL_MEMBERS];  // the model itself, then its further members
    int members;
    plan_ensemble* ensemble;  // NULL: a single model
    plan_support* support;
    plan_recall* recall;  // NULL: the search does without recorded sequences
    plan_typed typed;
    float truth[MODEL_HISTORY * FIRM_MAX_CONFIG];
    int told;  // truth is used instead of what was grounded
} firm_world;

// ---- members ------------------------------------------------------------------------------------

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
}

static firm_status make_gpu(const plan_world_setup* s, const firm_model* m, member* e,
                            firm_error* err) {
    plan_weights w;
    if (!s->shared)
        TRY(plan_gpu_for_model(
            m, s->options,
            &(plan_gpu_choice){.precision = s->precision, .searches = 1, .device = s->gpu},
            &e->own_gpu, err));
    e->gpu = s->shared ? s->shared : e->own_gpu;
    firm_status st = plan_weights_take(m, &w, err);
    if (st == FIRM_OK) st = plan_learned_gpu_create(e->gpu, &w.shape, &e->learned_gpu, err);
    plan_weights_free(&w);
    return st;
}

static firm_status member_open(const plan_world_setup* s, const firm_model* m, int number,
                               member* e, firm_error* err) {
    perception* first = number ? e[-number].eyes : NULL;
    TRY(perception_create(m, first, s->threads, &e->eyes, err));
    e->fiber = mem_calloc((size_t)m->shape.fiber, sizeof *e->fiber);
    if (!e->fiber) return no_memory(err);
    if (s->device == FIRM_DEVICE_CUDA) return make_gpu(s, m, e, err);
    if (s->like)
        e->net = ((const firm_world*)s->like->sight.context)->member[number].net;
    else
        TRY(plan_net_of_model(m, s->precision, &e->own_net, err));
    if (e->own_net) e->net = e->own_net;
    return plan_learned_create(e->net, s->threads, &e->learned, err);
}

static void member_close(member* e) {
    plan_learned_free(e->learned);
    plan_net_free(e->own_net);
    plan_learned_gpu_free(e->learned_gpu);
    plan_gpu_free(e->own_gpu);
    perception_free(e->eyes);
    mem_free(e->fiber);
}

static size_t member_bytes(const firm_world* w, const member* e) {
    size_t bytes = perception_bytes(e->eyes);
    if (e->own_gpu) bytes += plan_gpu_bytes(e->own_gpu);
    if (e->own_net) bytes += plan_net_bytes(e->own_net);
    if (e->net)
        bytes += (size_t)pool_threads(w->threads) * plan_net_scratch_bytes(e->net) +
                 plan_net_rest_bytes(e->net);
    return bytes;
}

static plan_model member_model(const member* e) {
    return e->gpu ? plan_learned_gpu_model(e->learned_gpu) : plan_learned_model(e->learned);
}

static void member_start(member* e, const float* c0) {
    if (e->gpu)
        plan_learned_gpu_start(e->learned_gpu, c0, e->fiber);
    else
        plan_learned_start(e->learned, c0, e->fiber);
}

// ---- sight --------------------------------------------------------------------------------------

// The members' mean of what each says of a picture: each (members, config_dim).
static void mean_of(const firm_world* w, const float* each, float* mean) {
    plan_ensemble_mean(each, w->members, w->m->task.config_dim, w->m->task.pairs, mean);
}

static firm_status see_goal(void* context, const uint8_t* rgb, float* state) {
    firm_world* w = context;
    float each[(1 + MODEL_MEMBERS) * FIRM_MAX_CONFIG];
    for (int i = 0; i < w->members; i++)
        TRY(perception_ground(w->member[i].eyes, rgb, each + i * w->m->task.config_dim));
    mean_of(w, each, state);
    return FIRM_OK;
}

static firm_status see_frame(void* context, const uint8_t* rgb, const float* action, int soon,
                             plan_seen* seen) {
    firm_world* w = context;
    const int dim = w->m->task.config_dim;
    float each[(1 + MODEL_MEMBERS) * FIRM_MAX_CONFIG];
    w->told = 0;
    for (int i = 0; i < w->members; i++) {
        perception* eyes = w->member[i].eyes;
        TRY(perception_push(eyes, rgb, action, soon));
        memcpy(each + i * dim, perception_config(eyes), (size_t)dim * sizeof *each);
    }
    mean_of(w, each, seen->state);
    seen->strange =
        plan_strange(w->m, w->support, perception_tokens(w->member[0].eyes), each, seen->state);
    return FIRM_OK;
}

static firm_status start(void* context, float* state) {
    firm_world* w = context;
    const int dim = w->m->task.config_dim;
    float each[(1 + MODEL_MEMBERS) * FIRM_MAX_CONFIG];
    for (int i = 0; i < w->members; i++) {
        float own[FIRM_MAX_CONFIG];
        member* e = &w->member[i];
        TRY(perception_state(e->eyes, w->told ? w->truth : NULL, own, e->fiber));
        member_start(e, own);
        memcpy(each + i * dim, own, (size_t)dim * sizeof *each);
    }
    if (w->told)
        memcpy(state, w->truth + (MODEL_HISTORY - 1) * dim, (size_t)dim * sizeof *state);
    else
        mean_of(w, each, state);
    return FIRM_OK;
}

static firm_status status(const void* context) {
    const firm_world* w = context;
    for (int i = 0; i < w->members; i++)
        if (w->member[i].gpu) TRY(w->member[i].learned_gpu->status);
    return FIRM_OK;
}

static void recall(void* context, const float* now, const float* goal, plan_recalled* out) {
    firm_world* w = context;
    float chi[TASK_MAX_CHI];
    perception_chi(w->member[0].eyes, chi);
    plan_recall_find(w->recall, now, chi, goal, out);
}

static int follow(const void* context, int first, int later, float* u) {
    return plan_recall_follow(((const firm_world*)context)->recall, first, later, u);
}

static void tell(void* context, const float* history) {
    firm_world* w = context;
    size_t dim = (size_t)w->m->task.config_dim;
    memcpy(w->truth, history, MODEL_HISTORY * dim * sizeof(float));
    w->told = 1;
}

static int frames(const void* context) {
    return perception_frames(((const firm_world*)context)->member[0].eyes);
}

static void reset(void* context) {
    firm_world* w = context;
    for (int i = 0; i < w->members; i++) perception_reset(w->member[i].eyes);
    w->told = 0;
}

static void walk(void* context, blob* b) {
    firm_world* w = context;
    for (int i = 0; i < w->members; i++) perception_walk(w->member[i].eyes, b);
    if (b->way == BLOB_RESTORE) w->told = 0;
}

static size_t bytes(const void* context) {
    const firm_world* w = context;
    size_t sum = sizeof *w;
    for (int i = 0; i < w->members; i++) sum += member_bytes(w, &w->member[i]);
    if (w->ensemble) sum += plan_ensemble_bytes(w->ensemble);
    if (w->recall) sum += plan_recall_bytes(w->recall);
    return sum;
}

static const char* device_name(const void* context) {
    const plan_gpu* gpu = ((const firm_world*)context)->member[0].gpu;
    return gpu ? plan_gpu_device(gpu) : "cpu";
}

static const char* way(const void* context) {
    const member* e = &((const firm_world*)context)->member[0];
    return e->gpu ? plan_gpu_way_name(e->gpu) : plan_net_simd(e->net);
}

static void close_world(void* context) {
    firm_world* w = context;
    if (!w) return;
    plan_support_free(w->support);
    plan_ensemble_free(w->ensemble);
    for (int i = w->members - 1; i >= 0; i--) member_close(&w->member[i]);
    plan_recall_free(w->recall);
    mem_free(w);
}

// ---- opening ------------------------------------------------------------------------------------

// The model and its further members, and what they predict together.
static firm_status open_members(firm_world* w, const plan_world_setup* s, plan_model* model,
                                firm_error* err) {
    const firm_model* m = w->m;
    plan_model each[1 + MODEL_MEMBERS];
    if (s->shared && m->members)
        return FAIL(err, FIRM_E_USAGE,
                    "a GPU planner that controllers share is of one model, not of an ensemble of "
                    "%d; let each controller have its own",
                    m->members + 1);
    for (; w->members <= m->members; w->members++) {
        member* e = &w->member[w->members];
        firm_status st =
            member_open(s, w->members ? m->member[w->members - 1] : m, w->members, e, err);
        if (st != FIRM_OK) {
            member_close(e);
            return st;
        }
        each[w->members] = member_model(e);
    }
    *model = each[0];
    if (w->members == 1) return FIRM_OK;
    TRY(plan_ensemble_create(each, w->members, m->task.pairs, s->options->candidates, s->longest,
                             &w->ensemble, err));
    *model = plan_ensemble_model(w->ensemble);
    return FIRM_OK;
}

static firm_status open_world(firm_world* w, const plan_world_setup* s, plan_world* out,
                              firm_error* err) {
    const firm_model* m = w->m;
    const plan_options* o = s->options;
    TRY(open_members(w, s, &out->model, err));
    if (m->support)
        TRY(plan_support_create(m->support, m->support_count, m->task.config_dim, m->task.pairs,
                                m->support_radius, &w->support, err));
    // as many as its iterations can try
    int recalled = plan_recorded_each(o) * o->iterations;
    plan_actions actions = plan_actions_of(&m->task, m->stats.action_mean, m->stats.action_std);
    if (recalled > 0 && o->mode == FIRM_MODE_REACH)
        TRY(plan_recall_create(
            m, &actions,
            &(plan_recall_size){.most = recalled, .length = s->longest, .ahead = o->ahead},
            &w->recall, err));
    w->typed = (plan_typed){.task = &m->task, .support = w->support, .recall = w->recall};
    out->price = plan_typed_price(&w->typed);
    // a whole search on the GPU knows one model and the rule cem; else candidates are drawn and
    // priced here
    if (o->mode == FIRM_MODE_CONTRACT && o->solver == PLAN_CEM && !w->ensemble)
        out->device = plan_gpu_device_of(w->member[0].gpu);
    out->memory = w->ensemble ? NULL : w->member[0].fiber;
    return FIRM_OK;
}

firm_status plan_world_firm(const plan_world_setup* setup, plan_world* out, firm_error* err) {
    firm_world* w = mem_calloc(1, sizeof *w);
    *out = (plan_world){0};
    if (!w) return no_memory(err);
    w->m = setup->model;
    w->threads = setup->threads;
    firm_status st = open_world(w, setup, out, err);
    if (st != FIRM_OK) {
        close_world(w);
        *out = (plan_world){0};
        return st;
    }
    out->sight = (plan_sight){.context = w,
                              .goal = see_goal,
                              .push = see_frame,
                              .start = start,
                              .status = status,
                              .recall = w->recall ? recall : NULL,
                              .follow = w->recall ? follow : NULL,
                              .tell = tell,
                              .frames = frames,
                              .reset = reset,
                              .walk = walk,
                              .bytes = bytes,
                              .device = device_name,
                              .way = way,
                              .close = close_world};
    return FIRM_OK;
}
