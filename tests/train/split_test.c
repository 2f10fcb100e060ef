// split_test.c - no validation episode is an anchor, a segment or a frame of any training stage:
// all tasks, all sources, drawn pools and whole data sets.
#include "check.h"
#include "small.h"

// the episode a scene belongs to: its own, or the one its branch left
static int episode_of(const small* s, int64_t scene) {
    if (scene < s->data->rows) return episodes_of_row(s->data, scene);
    scene -= s->data->rows;
    const branches* b = s->inter;
    int64_t plain = (int64_t)b->anchors * b->per_anchor * (BRANCH_CONTROLS + 1);
    if (scene >= plain) {
        scene -= plain;
        b = s->structured;
    }
    return episodes_of_row(s->data, b->row[scene / (BRANCH_CONTROLS + 1) / b->per_anchor]);
}

// validation episodes lend their frames to held-out records and pairs, and to nothing else
static void check_scenes(const small* s, const int64_t* scene, int64_t n, int held) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) wrong += s->set.split.is_valid[episode_of(s, scene[i])] != held;
    EXPECT_INT(wrong, 0);
}

static void check_task(const char* task, const char* settings, int episodes_n, const char* pool,
                       int lists) {
    small s;
    small_options opt = {.task = task,
                         .settings = settings,
                         .set = {pool},
                         .episodes = episodes_n,
                         .anchors = episodes_n / 3,
                         .per_anchor = 2,
                         .structured = strcmp(task, "pusht") == 0 ? 3 : 0};
    // ablations: also the frames that runs restricted to one source read
    if (!small_collect(&s, &opt) || !small_open(&s, &(train_options){.ablations = 1}, 1)) return;
    EXPECT(s.set.split.valid_count >= 1);
    for (int k = 0; k < PACK_SOURCES; k++) {
        const records* r = &s.set.data.set[k];
        EXPECT(r->count > 0 || (k == PACK_S && !s.structured));
        check_scenes(&s, r->seen, (int64_t)r->histories * RECORD_FRAMES, k == PACK_HELD);
        check_scenes(&s, r->after, r->count, k == PACK_HELD);
    }
    EXPECT_INT(s.set.data.lists, lists);
    for (int k = 0; k < s.set.data.lists; k++) {
        const pack_list* l = &s.set.data.list[k];
        check_scenes(&s, l->p.scene, 2 * (int64_t)l->p.count, l->source == PACK_HELD);
        int hidden = 0;  // of those to learn from
        for (int i = 0; i < 2 * l->p.count && s.env->visible && l->source != PACK_HELD; i++)
            hidden += !s.env->visible(l->p.config + i * s.env->config_dim);
        EXPECT_INT(hidden, 0);
    }
    // the sample must be able to fail: some validation row is eligible for training
    EXPECT(s.data->length[s.set.split.valid[0]] > RECORD_FRAMES + RECORD_CONTROLS);
    small_close(&s);
}

TEST(train, no_validation_episode_is_trained_on) {
    check_task("tworoom", "smoke", 120, "train.frame_pool=0", 3);
    check_task("tworoom", "smoke", 120, "train.frame_pool=300", 3);
#ifdef FIRM_CHIPMUNK
    check_task("pusht", "smoke-pusht", 60, "train.frame_pool=300", 5);
#endif
}

TEST(train, no_validation_episode_of_mujoco_tasks_either) {
#ifdef FIRM_MUJOCO
    check_task("reacher", "smoke-reacher", 40, "train.frame_pool=300", 5);
    check_task("cube", "smoke-cube", 10, "train.frame_pool=300", 5);
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}
