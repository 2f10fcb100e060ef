// imagined_test.c - searches in the imagination: which moments and goals they are given, what is
// kept of them, that targets are what the teacher's members say by themselves, and that the bits
// are the same for any number of threads.
#include "data/imagined.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/proposers.h"
#include "eval/settings.h"
#include "moments.h"
#include "plan/controller.h"
#include "plan/members.h"
#include "plan/net_model.h"
#include "plan/perceive.h"
#include "train/train.h"

enum {
    SEARCHES = 6,
    CANDIDATES = 24,
    ITERATIONS = 3,
    KEEP = 4,
    PER = ITERATIONS * KEEP + 1,
    ACTION = ENV_SPAN * 2,
    PATH = ENV_POINTS * 2
};

// A pack of TwoRoom with states; 0 after a failure, which is reported.
static int make_pack(pack* p) {
    firm_error err = {0};
    moments m;
    char path[600];
    config* settings = NULL;
    const char* set[] = {"train.frame_pool=20"};
    train_options opt = {.sources = "F", .threads = 1};
    snprintf(path, sizeof path, "%s/imagined-p.h5", test_temp_dir());
    *p = (pack){0};
    firm_status st = moments_make(1, &m, &err) ? FIRM_OK : FIRM_E_VALUE;
    if (st == FIRM_OK) st = settings_load(&m.e->spec->task, "smoke", set, 1, &settings, &err);
    if (st == FIRM_OK)
        st = train_pack(settings, m.e->spec, &(train_inputs){.data = m.e}, &opt, 0, path, NULL,
                        &err);
    if (st == FIRM_OK) st = pack_read(path, env_find("tworoom"), p, &err);
    config_free(settings);
    moments_free(&m);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return st == FIRM_OK;
}

// The history of the pack's recorded ones that a search was given; -1: none of them.
static int history_of(const records* f, const records* made, int search) {
    for (int h = 0; h < f->histories; h++)
        if (memcmp(f->seen + h * RECORD_FRAMES, made->seen + search * RECORD_FRAMES,
                   RECORD_FRAMES * sizeof *f->seen) == 0 &&
            memcmp(f->past + h * 4, made->past + search * 4, 4 * sizeof *f->past) == 0)
            return h;
    return -1;
}

// ---- an imaginer that notes what it is asked ----------------------------------------------------

enum { MUTE = 2, GAP = 7, BROKEN = 9 };  // a search that makes nothing; records that are not there

typedef struct noted {
    const pack* from;
    int search;
    uint8_t rgb[SEARCHES][ENV_FRAME_BYTES];  // the latest frames
    float goal[SEARCHES][2];
} noted;

static firm_status note_see(void* ctx, uint64_t seed, uint8_t* const rgb[FIRM_HISTORY],
                            const float* past) {
    noted* n = ctx;
    (void)past;
    n->search = (int)(seed - 40);
    memcpy(n->rgb[n->search], rgb[FIRM_HISTORY - 1], ENV_FRAME_BYTES);
    return FIRM_OK;
}

static firm_status note_search(void* ctx, const float* goal, int keep, float* action,
                               uint8_t* made) {
    noted* n = ctx;
    EXPECT_INT(keep, KEEP);
    memcpy(n->goal[n->search], goal, sizeof *n->goal);
    for (int i = 0; i < PER; i++) {
        for (int k = 0; k < ACTION; k++) action[i * ACTION + k] = (float)(100 * n->search + i);
        made[i] = n->search != MUTE && i != GAP;
    }
    return FIRM_OK;
}

static firm_status note_expect(void* ctx, int count, const float* action, float* path,
                               float* spread) {
    noted* n = ctx;
    EXPECT_INT(count, PER);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < PATH; k++) path[i * PATH + k] = action[i * ACTION] + 0.5f;
        for (int k = 0; k < ENV_HORIZON; k++) spread[i * ENV_HORIZON + k] = (float)i;
        if (i == BROKEN && n->search == 1) path[i * PATH + 3] = NAN;
    }
    return FIRM_OK;
}

// Every other goal is the end of the moment's own record, the others are those of any.
static void check_goals(const pack* p, const records* made, const noted* n) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    const records* f = &p->set[PACK_F];
    firm_error err;
    env* painter;
    int strangers = 0;
    REQUIRE_OK(env_create(p->spec, &painter, &err), err);
    for (int history = 0; history < made->histories; history++) {
        const int search = history < MUTE ? history : history + 1;
        int own = history_of(f, made, history), found = 0;
        EXPECT(own >= 0);
        if (own < 0) continue;
        EXPECT_INT(pack_frame(p, painter, f->seen[own * RECORD_FRAMES + 2], rgb), FIRM_OK);
        EXPECT(memcmp(rgb, n->rgb[search], sizeof rgb) == 0);
        for (int i = 0; i < f->count; i++) {
            if (search % 2 == 0 && f->history[i] != own) continue;
            const float* end = f->config + (i + 1) * PATH - 2;
            found |= memcmp(end, n->goal[search], 2 * sizeof *end) == 0;
            strangers += search % 2 && f->history[i] == own &&
                         memcmp(end, n->goal[search], 2 * sizeof *end) != 0;
        }
        EXPECT(found);
    }
    EXPECT(strangers > 0);
    env_free(painter);
}

// What is not there, or not finite, is left out, and a search without anything.
TEST(data, imagined_records_by_hand) {
    static noted n;
    pack p;
    records made;
    firm_error err;
    data_imaginer by = {&n, CANDIDATES, ITERATIONS, note_see, note_search, note_expect};
    imagined_options opt = {.searches = SEARCHES, .keep = KEEP, .seed = 40};
    if (!make_pack(&p)) return;
    n.from = &p;
    REQUIRE_OK(imagined_make(&by, &p, &opt, NULL, &made, &err), err);
    EXPECT_INT(made.histories, SEARCHES - 1);
    EXPECT_INT(made.count, (SEARCHES - 1) * (PER - 1) - 1);
    int at = 0;
    for (int search = 0; search < SEARCHES; search++)
        for (int i = 0; i < PER && search != MUTE; i++) {
            if (i == GAP || (search == 1 && i == BROKEN)) continue;
            EXPECT_INT(made.history[at], search < MUTE ? search : search - 1);
            EXPECT_NEAR(made.action[at * ACTION + 3], 100 * search + i, 0);
            EXPECT_NEAR(made.config[at * PATH + 5], 100 * search + i + 0.5, 0);
            EXPECT_NEAR(made.spread[at * ENV_HORIZON + 4], i, 0);
            at++;
        }
    check_goals(&p, &made, &n);
    // every moment has its turn before one comes again
    for (int a = 0; a < made.histories; a++)
        for (int b = 0; b < a; b++)
            EXPECT(history_of(&p.set[PACK_F], &made, a) != history_of(&p.set[PACK_F], &made, b));
    records_free(&made);
    pack_free(&p);
}

TEST(data, imagined_records_refuse_what_cannot_be) {
    static noted n;
    pack p;
    records made;
    firm_error err;
    data_imaginer by = {&n, CANDIDATES, ITERATIONS, note_see, note_search, note_expect};
    const imagined_options bad[] = {
        {.searches = 0, .keep = 2}, {.searches = 1, .keep = 1}, {.searches = 1, .keep = 25}};
    if (!make_pack(&p)) return;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT_INT(imagined_make(&by, &p, &bad[i], NULL, &made, &err), FIRM_E_VALUE);
    imagined_options huge = {.searches = 100000000, .keep = 24};
    EXPECT_INT(imagined_make(&by, &p, &huge, NULL, &made, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "too many"));
    // no stage asked for the frames of the recorded histories
    for (int i = 0; i < p.set[PACK_F].histories; i++) p.set[PACK_F].seen[3 * i + 1] = -1;
    EXPECT_INT(imagined_make(&by, &p, &(imagined_options){4, 4, 0}, NULL, &made, &err),
               FIRM_E_VALUE);
    EXPECT(strstr(err.message, "no frames"));
    pack_free(&p);
}

// ---- models -------------------------------------------------------------------------------------

// Nothing after a failure, which is reported.
static records imagine(const pack* p, const firm_model* guide, const firm_model* teacher,
                       int threads, uint64_t seed) {
    firm_error err;
    pool* workers = NULL;
    imaginers by = {0};
    records made = {0};
    imaginer_setup setup = {
        .guide = guide, .teacher = teacher, .candidates = CANDIDATES, .iterations = ITERATIONS};
    imagined_options opt = {.searches = SEARCHES, .keep = KEEP, .seed = seed};
    if (pool_create(threads, &workers, &err) != FIRM_OK ||
        imaginers_open(&setup, threads, &by, &err) != FIRM_OK ||
        imagined_make(by.by, p, &opt, workers, &made, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    imaginers_free(&by);
    pool_free(workers);
    return made;
}

static int same(const records* a, const records* b) {
    const size_t n = (size_t)a->count;
    return a->count == b->count && a->histories == b->histories &&
           memcmp(a->seen, b->seen, (size_t)a->histories * 3 * sizeof *a->seen) == 0 &&
           memcmp(a->action, b->action, n * ACTION * sizeof *a->action) == 0 &&
           memcmp(a->config, b->config, n * PATH * sizeof *a->config) == 0 &&
           memcmp(a->spread, b->spread, n * ENV_HORIZON * sizeof *a->spread) == 0;
}

TEST(data, imagined_records_same_for_any_threads) {
    pack p;
    if (!make_pack(&p)) return;
    firm_model *pair = member_pair("tworoom", 5, 6), *single = member_lively("tworoom", 7);
    records one = imagine(&p, pair, pair, 1, 4), three = imagine(&p, pair, pair, 3, 4),
            other = imagine(&p, pair, pair, 1, 5), guided = imagine(&p, single, pair, 2, 4),
            alone = imagine(&p, single, single, 1, 4);
    EXPECT_INT(one.count, SEARCHES * PER);
    EXPECT(same(&one, &three) && !same(&one, &other));
    // the guide picks the sequences, the teacher says what comes of them
    const size_t actions = (size_t)SEARCHES * PER * ACTION * sizeof(float);
    EXPECT_INT(guided.count, SEARCHES * PER);
    EXPECT_INT(alone.count, SEARCHES * PER);
    if (guided.count == alone.count && alone.count == one.count) {
        EXPECT(memcmp(guided.action, alone.action, actions) == 0);
        EXPECT(memcmp(guided.action, one.action, actions) != 0);
        EXPECT(memcmp(guided.config, alone.config, PATH * sizeof(float)) != 0);
        EXPECT(guided.spread[0] > 0);
        for (int i = 0; i < alone.count * ENV_HORIZON; i++) EXPECT_NEAR(alone.spread[i], 0, 0);
    }
    records* all[] = {&one, &three, &other, &guided, &alone};
    for (int i = 0; i < 5; i++) records_free(all[i]);
    firm_model_free(single);
    firm_model_free(pair);
    pack_free(&p);
}

// What a model says by itself of a record: path (ENV_POINTS, 2).
static void say(const firm_model* m, const pack* p, env* painter, const records* made, int record,
                float* path) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    firm_error err;
    perception* eyes;
    plan_net* net;
    float fiber[8], u[ACTION];
    const int h = made->history[record];
    REQUIRE_OK(perception_create(m, NULL, NULL, &eyes, &err), err);
    REQUIRE_OK(plan_net_of_model(m, PLAN_FP32, &net, &err), err);
    for (int f = 0; f < RECORD_FRAMES; f++) {
        EXPECT_INT(pack_frame(p, painter, made->seen[h * RECORD_FRAMES + f], rgb), FIRM_OK);
        EXPECT_INT(perception_push(eyes, rgb, f ? made->past + (2 * h + f - 1) * 2 : NULL, f == 2),
                   FIRM_OK);
    }
    EXPECT_INT(perception_state(eyes, NULL, path, fiber), FIRM_OK);
    model_standardise(m, made->action + record * ACTION, ENV_SPAN, u);
    void* scratch = mem_alloc(plan_net_scratch_bytes(net));
    EXPECT_INT(plan_net_rollout(net, scratch, 1, ENV_HORIZON, path, fiber, u, path + 2), 0);
    mem_free(scratch);
    plan_net_free(net);
    perception_free(eyes);
}

// Targets are the mean of what the members say, and the spread is their mean distance from it.
TEST(data, imagined_targets_are_the_members_mean) {
    enum { MEMBERS = 3 };
    pack p;
    firm_error err;
    env* painter;
    if (!make_pack(&p)) return;
    firm_model* m = member_pair("tworoom", 5, 6);
    m->member[m->members++] = member_lively("tworoom", 8);
    records made = imagine(&p, m, m, 2, 4);
    REQUIRE_OK(env_create(p.spec, &painter, &err), err);
    double apart = 0;
    for (int i = 0; i < made.count; i += 5) {
        float path[MEMBERS][PATH];
        const float* target = made.config + i * PATH;
        for (int k = 0; k < MEMBERS; k++)
            say(k ? m->member[k - 1] : m, &p, painter, &made, i, path[k]);
        for (int k = 0; k < PATH; k++) {
            double sum = 0;
            for (int j = 0; j < MEMBERS; j++) sum += (double)path[j][k];
            EXPECT_NEAR(target[k], sum / MEMBERS, 2e-5);
        }
        for (int t = 0; t < ENV_HORIZON; t++) {
            double sum = 0;
            for (int k = 0; k < MEMBERS; k++)
                sum += (double)task_tolerance_units(&m->task, path[k] + 2 * (t + 1),
                                                    target + 2 * (t + 1));
            EXPECT_NEAR(made.spread[i * ENV_HORIZON + t], sum / MEMBERS, 2e-3);
            apart = fmax(apart, sum);
        }
    }
    EXPECT(apart > 0.1);
    env_free(painter);
    records_free(&made);
    firm_model_free(m);
    pack_free(&p);
}

// Of one iteration all are kept: each candidate once, the best first. The plan comes last.
TEST(data, imagined_searches_keep_all_ranks) {
    enum { ALL = CANDIDATES + 1 };
    pack p;
    records made;
    firm_error err;
    imaginers by;
    if (!make_pack(&p)) return;
    firm_model* m = member_lively("tworoom", 5);
    imaginer_setup setup = {.guide = m, .teacher = m, .candidates = CANDIDATES, .iterations = 1};
    imagined_options opt = {.searches = 1, .keep = CANDIDATES, .seed = 4};
    REQUIRE_OK(imaginers_open(&setup, 1, &by, &err), err);
    REQUIRE_OK(imagined_make(by.by, &p, &opt, NULL, &made, &err), err);
    EXPECT_INT(made.count, ALL);
    const int h = history_of(&p.set[PACK_F], &made, 0), elites = 3;  // a tenth
    const float* goal = p.set[PACK_F].config + (h + 1) * PATH - 2;   // a record a history
    double last = -1, mean[ACTION] = {0};
    for (int i = 0; i < CANDIDATES; i++) {
        const float *end = made.config + (i + 1) * PATH - 2, *action = made.action + i * ACTION;
        double cost = (double)task_cost_value(&m->task, end, goal);
        EXPECT(cost >= last - 1e-6);
        last = cost;
        for (int k = 0; k < i; k++)
            EXPECT(memcmp(action, made.action + k * ACTION, ACTION * sizeof *action) != 0);
        for (int k = 0; k < ACTION && i < elites; k++) mean[k] += (double)action[k] / elites;
    }
    for (int k = 0; k < ACTION; k++)
        EXPECT_NEAR(made.action[CANDIDATES * ACTION + k], mean[k], 1e-5);
    records_free(&made);
    imaginers_free(&by);
    firm_model_free(m);
    pack_free(&p);
}

// Every member must name the episodes.
TEST(data, imagining_models_name_their_episodes) {
    firm_model* pair = member_pair("tworoom", 5, 6);
    snprintf(pair->provenance, sizeof pair->provenance, "seed=1 data_hash=00000000000000ab");
    EXPECT(!model_learned_from(pair, 0xab));
    snprintf(pair->member[0]->provenance, sizeof pair->provenance, "data_hash=00000000000000ab x");
    EXPECT(model_learned_from(pair, 0xab) && !model_learned_from(pair, 0xac));
    pair->member[0]->provenance[11] = '1';
    EXPECT(!model_learned_from(pair, 0xab));
    firm_model_free(pair);
}
