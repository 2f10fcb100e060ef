// split_test.c - no validation episode is an anchor, a segment or a frame of any training stage:
// all tasks with their own settings and the small ones, all sources, ablations, drawn pools and
// whole data sets; and nothing that training computes changes when validation episodes do.
#include "check.h"
#include "core/stats.h"
#include "env/env.h"
#include "small.h"

// the episode a scene belongs to: its own, or the one its branch left
static int episode_of(const small* s, int64_t scene) {
    if (scene < s->data->rows) return episodes_of_row(s->data, scene);
    scene -= s->data->rows;
    const branches* b = s->inter;
    int64_t plain = (int64_t)b->anchors * b->per_anchor * (ENV_SPAN + 1);
    if (scene >= plain) {
        scene -= plain;
        b = s->structured;
    }
    return episodes_of_row(s->data, b->row[scene / (ENV_SPAN + 1) / b->per_anchor]);
}

// validation episodes lend their frames to held-out records and pairs, and to nothing else
static void check_scenes(const small* s, const int64_t* scene, int64_t n, int held) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) wrong += s->set.split.is_valid[episode_of(s, scene[i])] != held;
    EXPECT_INT(wrong, 0);
}

// what a run of these settings reads, with the ablations; lists: how many kinds of pairs, 0: any
static void check_set(small* s, const train_options* opt, int lists) {
    if (!small_open(s, opt, 1)) return;
    EXPECT(s->set.split.valid_count >= 1);
    for (int k = 0; k < PACK_SOURCES; k++) {
        const records* r = &s->set.data.set[k];
        EXPECT(r->count > 0 || (k == PACK_S && !s->structured) || k == PACK_D);
        check_scenes(s, r->seen, (int64_t)r->histories * RECORD_FRAMES, k == PACK_HELD);
        if (r->after) check_scenes(s, r->after, r->count, k == PACK_HELD);
    }
    EXPECT(lists ? s->set.data.lists == lists : s->set.data.lists >= 2);
    for (int k = 0; k < s->set.data.lists; k++) {
        const pack_list* l = &s->set.data.list[k];
        check_scenes(s, l->p.scene, 2 * (int64_t)l->p.count, l->source == PACK_HELD);
        int hidden = 0;  // of those to learn from
        for (int i = 0; i < 2 * l->p.count && l->source != PACK_HELD; i++)
            hidden += !task_is_visible(&s->env->task, l->p.config + i * s->env->task.config_dim);
        EXPECT_INT(hidden, 0);
    }
    // the sample must be able to fail: some validation row is eligible for training
    EXPECT(s->data->length[s->set.split.valid[0]] > RECORD_FRAMES + ENV_SPAN);
    train_set_close(&s->set);
    s->set = (train_set){0};
}

static small_options options(const char* task, const char* settings, int episodes_n,
                             const char* pool) {
    return (small_options){.task = task,
                           .settings = settings,
                           .set = {pool, "train.segments=80", "train.held_out=20"},
                           .episodes = episodes_n,
                           .anchors = episodes_n / 3,
                           .per_anchor = 2,
                           .structured = strcmp(task, "pusht") == 0 ? 3 : 0};
}

static void check_settings(small* s, int lists, int less) {
    // ablations: also the frames that runs restricted to one source read
    check_set(s, &(train_options){.ablations = 1}, lists);
    if (less) return;
    check_set(s, &(train_options){.mismatch = 1}, 0);
    check_set(s, &(train_options){.sources = "F"}, 0);
    check_set(s, &(train_options){.sources = "I"}, 0);
}

// the small settings, and the task's own on the same recordings
static void check_task(const char* task, const char* settings, int episodes_n, const char* pool,
                       int lists) {
    // the choice of sources is the same code for every task; MuJoCo's take long to draw
    const int less = test_short() && (strcmp(task, "reacher") == 0 || strcmp(task, "cube") == 0);
    small s;
    small_options few = options(task, settings, episodes_n, pool),
                  own = options(task, NULL, episodes_n, pool);
    if (!small_collect(&s, &few)) return;
    check_settings(&s, lists, less);
    if (!small_settings(&s, &own)) return;
    check_settings(&s, 0, less);
    small_close(&s);
}

TEST(train, no_validation_episode_is_trained_on) {
    check_task("tworoom", "smoke", 120, "train.frame_pool=0", 3);
    check_task("tworoom", "smoke", 120, "train.frame_pool=100", 3);
#ifdef FIRM_CHIPMUNK
    check_task("pusht", "smoke-pusht", 60, "train.frame_pool=100", 5);
#endif
}

TEST(train, no_validation_episode_of_mujoco_tasks_either) {
#ifdef FIRM_MUJOCO
    check_task("reacher", "smoke-reacher", 40, "train.frame_pool=100", 5);
    check_task("cube", "smoke-cube", 6, "train.frame_pool=100", 5);
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}

// ---- what training computes ---------------------------------------------------------------------

// Everything a run takes from its data before the first update: samples, statistics, support.
// *held gets the same of the samples behind the gates.
static uint64_t hash_all(small* s, uint64_t* held) {
    uint64_t h[2] = {1, 1};
    const env_spec* env = s->env;
    const pack* p = &s->set.data;
    for (int k = 0; k < PACK_SOURCES; k++) {
        const records* r = &p->set[k];
        uint64_t* to = &h[k == PACK_HELD];
        size_t n = (size_t)r->count * sizeof(float);
        *to = stats_hash(*to, r->action, n * (size_t)(ENV_SPAN * env->task.action_dim));
        *to = stats_hash(*to, r->config, n * (size_t)(ENV_POINTS * env->task.config_dim));
        if (r->chi) *to = stats_hash(*to, r->chi, n * (size_t)(ENV_POINTS * env->task.chi_dim));
    }
    for (int k = 0; k < p->lists; k++) {
        const pairs* l = &p->list[k].p;
        uint64_t* to = &h[p->list[k].source == PACK_HELD];
        *to = stats_hash(*to, l->config,
                         sizeof(float) * 2 * (size_t)l->count * (size_t)env->task.config_dim);
    }
    firm_error err;
    if (!small_model(s, 1)) return 0;
    if (support_fill(&s->set, s->model, 64, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    h[0] = stats_hash(h[0], &s->model->stats, sizeof s->model->stats);
    h[0] = stats_hash(h[0], s->model->support, sizeof(float) * 64 * (size_t)env->task.config_dim);
    h[0] = stats_hash(h[0], p->action_mean, sizeof p->action_mean);
    h[0] = stats_hash(h[0], p->action_std, sizeof p->action_std);
    firm_model_free(s->model);
    s->model = NULL;
    *held = h[1];
    return h[0];
}

// Validation episodes stand still and act otherwise: whoever looks at them notices.
static void disturb(small* s) {
    const data_split* split = &s->set.split;
    size_t state = (size_t)s->env->state->dim, action = (size_t)s->env->task.action_dim;
    for (int i = 0; i < split->valid_count; i++) {
        int64_t first = s->data->offset[split->valid[i]];
        int n = s->data->length[split->valid[i]];
        for (int t = 1; t < n; t++)
            memcpy(s->data->state + (size_t)(first + t) * state,
                   s->data->state + (size_t)first * state, state * sizeof(double));
        for (size_t k = 0; k < (size_t)n * action; k++)
            s->data->action[(size_t)first * action + k] *= 0.5f;
    }
}

static void check_untouched(const char* task, const char* settings, int episodes_n) {
    small s;
    uint64_t all[2] = {0}, held[2] = {0};
    small_options few = options(task, settings, episodes_n, "train.frame_pool=40");
    if (!small_collect(&s, &few)) return;
    for (int k = 0; k < 2; k++) {
        if (!small_open(&s, &(train_options){.ablations = 1}, 1)) return;
        all[k] = hash_all(&s, &held[k]);
        if (k == 0) disturb(&s);
        train_set_close(&s.set);
        s.set = (train_set){0};
    }
    EXPECT(all[0] == all[1]);
    EXPECT(held[0] != held[1]);  // the gates do look at them
    small_close(&s);
}

TEST(train, validation_episodes_change_nothing_learnt) {
    check_untouched("tworoom", "smoke", 60);
#ifdef FIRM_CHIPMUNK
    check_untouched("pusht", "smoke-pusht", 30);
#endif
#ifdef FIRM_MUJOCO
    check_untouched("reacher", "smoke-reacher", 30);
    check_untouched("cube", "smoke-cube", 6);
#endif
}
