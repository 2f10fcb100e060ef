// imagined_test.c - training on what a teacher expects: the loss by hand and its gradient, which
// records are held out, what is refused, resumed runs, and that a student comes to follow.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/mem.h"
#include "io/json.h"
#include "small.h"
#include "train/run.h"

enum { SEARCHES = 40, EACH = 30, SHOWN = SEARCHES - SEARCHES / 16 };

static const char* const keys[] = {"train.frame_pool=40", "stage.rollout-fi.sources=FID",
                                   "stage.rollout-fi.batch_d=16", "stage.rollout-fi.doubt=0.5",
                                   NULL};

// ---- a pack with imagined records ---------------------------------------------------------------

// A teacher that is sure of what is not so: whatever the moment, the agent begins in the middle,
// and every control moves it backwards. Even a grounder that sees nothing lets that be learned.
static void teach(const env_spec* env, records* d, int i) {
    const int dim = env->task.config_dim;
    float* c = d->config + (i + 1) * ENV_POINTS * dim - ENV_POINTS * dim;
    rng r = rng_start(9, RNG_STREAM(RNG_TEST, i));
    for (int k = 0; k < ENV_SPAN * 2; k++) d->action[i * ENV_SPAN * 2 + k] = rng_gauss(&r);
    for (int k = 0; k < ENV_HORIZON; k++) {
        const float* a = d->action + i * ENV_SPAN * 2 + k * ENV_CONTROLS * 2;
        for (int x = 0; x < dim; x++) {
            float sum = 0;
            for (int s = 0; s < ENV_CONTROLS; s++) sum += a[s * 2 + x];
            c[(k + 1) * dim + x] = c[k * dim + x] - 0.05f * sum;
        }
        d->spread[i * ENV_HORIZON + k] = 0.25f * (float)((i + k) % 4);
    }
}

// Of the pack's recorded histories.
static firm_status add_imagined(const env_spec* env, pack* p, firm_error* err) {
    const records* f = &p->set[PACK_F];
    records d;
    TRY(records_alloc(env, SEARCHES * EACH, SEARCHES, 1, &d, err));
    memcpy(d.seen, f->seen, (size_t)SEARCHES * RECORD_FRAMES * sizeof *d.seen);
    memcpy(d.past, f->past, (size_t)SEARCHES * 4 * sizeof *d.past);
    for (int i = 0; i < d.count; i++) {
        d.history[i] = i / EACH;
        teach(env, &d, i);
    }
    firm_status st = records_append(env, &d, 0, &p->set[PACK_D], err);
    records_free(&d);
    return st;
}

typedef struct taught {
    small s;
    char path[600];  // the pack
} taught;

// harm: changes something of the imagined records before they are written.
static int write_pack(taught* w, void (*harm)(records* d)) {
    firm_error err = {0};
    char plain[600];
    pack p = {0};
    pack_file made;
    train_inputs in = small_inputs(&w->s);
    snprintf(plain, sizeof plain, "%s/imagined-plain.h5", test_temp_dir());
    snprintf(w->path, sizeof w->path, "%s/imagined-taught.h5", test_temp_dir());
    firm_status st = train_pack(w->s.settings, w->s.env, &in, &(train_options){.threads = 1}, 0,
                                plain, NULL, &err);
    if (st == FIRM_OK) st = pack_read(plain, w->s.env, &p, &err);
    if (st == FIRM_OK) st = add_imagined(w->s.env, &p, &err);
    if (st == FIRM_OK && harm) harm(&p.set[PACK_D]);
    if (st == FIRM_OK) st = pack_write(&p, NULL, NULL, w->path, &made, &err);
    pack_free(&p);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return st == FIRM_OK;
}

static small_options options_of(const char* more) {
    small_options o = {
        .task = "tworoom", .settings = "smoke", .episodes = 60, .anchors = 12, .per_anchor = 4};
    o.set[0] = "train.frame_pool=40";
    o.set[1] = more;
    return o;
}

// [loss.D] is a section of its own; smoke has none
static int use_settings(taught* w, const char* const* set) {
    firm_error err = {0};
    firm_status st =
        config_read_text(w->s.settings, "more", "[loss.D]\ntail = 1\ndisplacement = 0.5\n", &err);
    for (; *set && st == FIRM_OK; set++) st = config_set(w->s.settings, *set, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return st == FIRM_OK;
}

static int open_taught(taught* w) {
    small_options o = options_of(NULL);
    return small_collect(&w->s, &o) && use_settings(w, keys) && write_pack(w, NULL);
}

// ---- the loss -----------------------------------------------------------------------------------

// A rollout graph of imagined records on made-up histories.
typedef struct rollouts {
    rollout_graph g;
    history_cache cache;
    rollout_batch b;
    nn_exec* e;
} rollouts;

static stage trained(void) {
    stage s = {.objective = "rollout", .modules = 2};
    static const char* const prefix[] = {"fiber.", "transition."};
    for (int i = 0; i < 2; i++) {
        snprintf(s.module[i].prefix, sizeof s.module->prefix, "%s", prefix[i]);
        s.module[i].factor = 1;
    }
    return s;
}

static int open_rollouts(rollouts* r, const small* f, const loss_weights* w, const stage* s,
                         const nn_exec_options* opt) {
    firm_error err;
    const records* d = &f->set.data.set[PACK_D];
    const size_t belief = (size_t)d->histories * (size_t)f->model->shape.belief,
                 config = (size_t)d->histories * HIST * 2;
    rng g = rng_start(11, RNG_STREAM(RNG_TEST, 0));
    *r = (rollouts){.cache = {d->histories, mem_alloc(belief * sizeof(float)),
                              mem_alloc(config * sizeof(float))}};
    for (size_t i = 0; i < belief; i++) r->cache.belief[i] = rng_gauss(&g);
    for (size_t i = 0; i < config; i++) r->cache.config[i] = 0.3f * rng_gauss(&g);
    r->b = (rollout_batch){.set = &f->set,
                           .model = f->model,
                           .graph = &r->g,
                           .from = d,
                           .cache = &r->cache,
                           .doubt = 0.5f};
    if (rollout_graph_build(f->model, w, s, &r->g, &err) == FIRM_OK &&
        nn_exec_create(r->g.g, nn_backend_ref(), opt, NULL, &r->e, &err) == FIRM_OK)
        return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static void close_rollouts(rollouts* r) {
    nn_exec_free(r->e);
    nn_graph_free(r->g.g);
    cache_free(&r->cache);
}

static int open_set(taught* w) {
    firm_error err;
    if (!open_taught(w)) return 0;
    firm_status st = train_set_open(w->s.settings, w->s.env, &(train_inputs){.pack = w->path},
                                    &(train_options){.seed = 5}, 1, &w->s.set, &err);
    if (st == FIRM_OK) return small_model(&w->s, 5);
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

// What a macro step counts: doubt / (doubt + spread), 1 without doubt.
static double trust_of(const rollouts* r, const loss_weights* w, int i, int k) {
    if (!w->trusted) return 1;
    return 0.5 / (0.5 + (double)r->b.from->spread[i * ENV_HORIZON + k]);
}

static void check_loss(const small* f, int trusted) {
    enum { N = 24 };
    rollouts r;
    loss_weights w = {.config = 2, .displacement = 1, .tail = 1, .chi = 0.5f, .chi0 = 0.5f};
    w.imagined = 1;
    w.trusted = trusted;
    if (!open_rollouts(&r, f, &w, NULL, &(nn_exec_options){.batch = N, .shard = 7, .lanes = 1}))
        return;
    EXPECT_INT(nn_exec_forward(r.e, N, rollout_fill, &r.b), FIRM_OK);
    EXPECT_INT(r.g.g->terms, 3);  // the teacher says nothing of chi
    double config = 0, change = 0, terminal[N], tail = 0;
    for (int i = 0; i < N; i++) {
        const float* last = r.cache.config + (r.b.from->history[i] * HIST + HIST - 1) * 2;
        const float* before = last;
        for (int k = 0; k < ENV_HORIZON; k++) {
            const float *c = nn_exec_output(r.e, r.g.path) + (i * ENV_HORIZON + k) * 2,
                        *t = r.b.from->config + (i * ENV_POINTS + k + 1) * 2;
            double miss = 0, slip = 0;
            for (int x = 0; x < 2; x++) {
                miss += pow((double)c[x] - t[x], 2);
                slip += pow(((double)c[x] - last[x]) - ((double)t[x] - before[x]), 2);
            }
            config += trust_of(&r, &w, i, k) * miss;
            change += trust_of(&r, &w, i, k) * slip;
            terminal[i] = trust_of(&r, &w, i, k) * miss / 2;
            last = c;
            before = t;
        }
    }
    for (int n = 0; n < N / 4; n++) {
        int top = 0;
        for (int i = 1; i < N; i++)
            if (terminal[i] > terminal[top]) top = i;
        tail += terminal[top] / (N / 4);
        terminal[top] = -1;
    }
    EXPECT_NEAR(nn_exec_term(r.e, 0), config / (N * ENV_HORIZON * 2), 1e-6);
    EXPECT_NEAR(nn_exec_term(r.e, 1), change / (N * ENV_HORIZON * 2), 1e-6);
    EXPECT_NEAR(nn_exec_term(r.e, 2), tail, 1e-6);
    close_rollouts(&r);
}

TEST(train, imagined_loss_by_hand) {
    taught w;
    if (!open_set(&w)) return;
    check_loss(&w.s, 0);
    check_loss(&w.s, 1);
    small_close(&w.s);
}

TEST(train, imagined_gradient) {
    enum { N = 8 };
    taught w;
    rollouts r;
    stage s = trained();
    loss_weights by = {.config = 2, .displacement = 1, .tail = 1};
    by.imagined = by.trusted = 1;
    nn_exec_options train = {.batch = N, .shard = 3, .lanes = 2, .train = 1};
    if (!open_set(&w) || !open_rollouts(&r, &w.s, &by, &s, &train)) return;
    EXPECT_INT(nn_exec_gradient(r.e, rollout_fill, &r.b), FIRM_OK);
    const nn_trained* list;
    int entries = nn_exec_trained(r.e, &list);
    double* grad = malloc(nn_exec_grad_count(r.e) * sizeof *grad);
    memcpy(grad, nn_exec_ref_grad(r.e), nn_exec_grad_count(r.e) * sizeof *grad);
    for (int i = 0; i < entries; i++) {
        size_t at = (size_t)train_pick(1, 1, i, 0, (int64_t)list[i].count);
        double *p = nn_exec_ref_params(r.e) + w.s.model->store->entry[list[i].entry].offset + at,
               keep = *p, side[2], h = 1e-5;
        for (int k = 0; k < 2; k++) {
            *p = keep + (k ? -h : h);
            nn_exec_forward(r.e, N, rollout_fill, &r.b);
            side[k] = nn_exec_loss(r.e);
        }
        *p = keep;
        double numeric = (side[0] - side[1]) / (2 * h);
        EXPECT_NEAR(grad[list[i].offset + at], numeric, 1e-6 + 1e-5 * fabs(numeric));
    }
    EXPECT(entries >= 10);
    free(grad);
    close_rollouts(&r);
    small_close(&w.s);
}

// Joint angles: the worst joint at every step makes the tail, which counts by the step's trust.
TEST(train, imagined_tail_of_joints_counts_by_trust) {
    enum { N = 12, DIM = 4 };
    small f;
    firm_error err;
    small_options o = {.task = "reacher",
                       .settings = "smoke-reacher",
                       .episodes = 12,
                       .anchors = 2,
                       .per_anchor = 2};
    if (!small_collect(&f, &o) || !small_open(&f, &(train_options){.seed = 5}, 1) ||
        !small_model(&f, 5))
        return;
    records* d = &f.set.data.set[PACK_D];
    REQUIRE_OK(records_alloc(f.env, N, N, 1, d, &err), err);
    rng g = rng_start(2, RNG_STREAM(RNG_TEST, 1));
    for (int i = 0; i < N * ENV_POINTS * 2; i++) {
        double angle = rng_uniform(&g, -3, 3);
        d->config[2 * i] = (float)sin(angle);
        d->config[2 * i + 1] = (float)cos(angle);
    }
    for (int i = 0; i < N; i++) {
        d->history[i] = i;
        for (int k = 0; k < ENV_HORIZON; k++)
            d->spread[i * ENV_HORIZON + k] = 0.3f * (float)(i % 5);
    }
    loss_weights w = {.config = 2, .displacement = 1, .tail = 1};
    w.tail_kind = TAIL_CHORD_SQUARED;
    w.imagined = w.trusted = 1;
    rollouts r = {.cache = {N, mem_calloc((size_t)(N * f.model->shape.belief), sizeof(float)),
                            mem_alloc(N * HIST * DIM * sizeof(float))}};
    for (int i = 0; i < N * HIST * DIM; i++) r.cache.config[i] = i % 2 ? 0.8f : 0.6f;
    r.b = (rollout_batch){.set = &f.set,
                          .model = f.model,
                          .graph = &r.g,
                          .from = d,
                          .cache = &r.cache,
                          .doubt = 0.5f};
    nn_exec_options opt = {.batch = N, .shard = 5, .lanes = 1};
    REQUIRE_OK(rollout_graph_build(f.model, &w, NULL, &r.g, &err), err);
    REQUIRE_OK(nn_exec_create(r.g.g, nn_backend_ref(), &opt, NULL, &r.e, &err), err);
    EXPECT_INT(nn_exec_forward(r.e, N, rollout_fill, &r.b), FIRM_OK);
    double error[N * ENV_HORIZON], tail = 0;
    for (int i = 0; i < N * ENV_HORIZON; i++) {
        const float *c = nn_exec_output(r.e, r.g.path) + i * DIM,
                    *t = d->config + (i / ENV_HORIZON * ENV_POINTS + i % ENV_HORIZON + 1) * DIM;
        double one = pow((double)c[0] - t[0], 2) + pow((double)c[1] - t[1], 2),
               two = pow((double)c[2] - t[2], 2) + pow((double)c[3] - t[3], 2);
        error[i] = trust_of(&r, &w, i / ENV_HORIZON, i % ENV_HORIZON) * fmax(one, two);
    }
    for (int n = 0; n < N * ENV_HORIZON / 4; n++) {
        int top = 0;
        for (int i = 1; i < N * ENV_HORIZON; i++)
            if (error[i] > error[top]) top = i;
        tail += error[top] / (N * ENV_HORIZON / 4);
        error[top] = -1;
    }
    EXPECT_NEAR(nn_exec_term(r.e, 2), tail, 1e-5);
    close_rollouts(&r);
    small_close(&f);
}

// ---- which records ------------------------------------------------------------------------------

TEST(train, imagined_histories_are_held_out_whole) {
    int history[] = {0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15};
    records all = {.count = 21, .histories = 16, .history = history};
    records shown = imagined_shown(&all);
    EXPECT_INT(shown.histories, 15);
    EXPECT_INT(shown.count, 18);
    all.histories = 15;  // too few to hold any out
    all.count = 18;
    shown = imagined_shown(&all);
    EXPECT_INT(shown.histories, 15);
    EXPECT_INT(shown.count, 18);
}

// ---- runs ---------------------------------------------------------------------------------------

typedef struct ran {
    char* bytes;  // of the checkpoint's weights
    size_t n;
    cJSON* json;
} ran;

static void ran_free(ran* r) {
    mem_free(r->bytes);
    cJSON_Delete(r->json);
}

// Gates of so small a model are missed or not; nobody asks.
static ran run_it(const taught* w, const char* name, train_options opt) {
    char folder[600], path[700];
    firm_error err = {0};
    ran r = {0};
    snprintf(folder, sizeof folder, "%s/imagined-%s", test_temp_dir(), name);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    opt.folder = folder;
    opt.seed = 5;
    firm_status st =
        train_run(w->s.settings, w->s.env, &(train_inputs){.pack = w->path}, &opt, &r.json, &err);
    if (st == FIRM_OK && !opt.until) st = file_read_all(path, &r.bytes, &r.n, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s: %s", name, err.message);
    return r;
}

static int same(const ran* a, const ran* b) {
    return a->bytes && b->bytes && a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static void harm_held(records* d) {
    for (int i = SHOWN * EACH; i < d->count; i++) d->config[(i + 1) * ENV_POINTS * 2 - 1] += 0.5f;
}
static void harm_held_frames(records* d) {
    for (int f = SHOWN * RECORD_FRAMES; f < SEARCHES * RECORD_FRAMES; f++)
        d->seen[f] = d->seen[f % RECORD_FRAMES];
}
static void harm_last_shown(records* d) {
    for (int i = (SHOWN - 1) * EACH; i < SHOWN * EACH; i++)
        d->config[(i + 1) * ENV_POINTS * 2 - 1] += 5.0f;
}
static void harm_spread(records* d) {
    for (int i = 0; i < d->count * ENV_HORIZON; i++) d->spread[i] += 1;
}

static double follows(const ran* r, const char* key) {
    const cJSON* j = cJSON_GetObjectItemCaseSensitive(r->json, "imagined");
    const cJSON* list = cJSON_GetObjectItemCaseSensitive(j, key);
    return cJSON_IsArray(list) ? cJSON_GetArrayItem(list, ENV_HORIZON - 1)->valuedouble
                               : json_get(j, key, -1);
}

// Records that are held out teach nothing and are what the run's figure is about; the others, and
// how far apart the members are, do teach.
TEST(train, imagined_records_teach_unless_held_out) {
    taught w;
    if (!open_taught(&w)) return;
    ran plain = run_it(&w, "plain", (train_options){.threads = 2});
    EXPECT_NEAR(follows(&plain, "records"), SHOWN * EACH, 0);
    EXPECT_NEAR(follows(&plain, "held_out"), (SEARCHES - SHOWN) * EACH, 0);
    void (*harm[])(records*) = {harm_held, harm_held_frames, harm_last_shown, harm_spread};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "harmed-%d", i);
        if (!write_pack(&w, harm[i])) break;
        ran other = run_it(&w, name, (train_options){.threads = 2});
        EXPECT(same(&plain, &other) == (i < 2));
        if (i == 1) EXPECT(follows(&other, "error") != follows(&plain, "error"));
        if (i == 0) EXPECT(follows(&other, "error") > follows(&plain, "error") + 0.1);
        ran_free(&other);
    }
    ran_free(&plain);
    small_close(&w.s);
}

// Makes one more update of a run: a signal is there from the start.
static int one_update(const taught* w, const char* folder) {
    pid_t child = fork();
    if (child == 0) {
        firm_error err = {0};
        train_options opt = {.seed = 5, .threads = 1, .folder = folder, .resume = 1};
        interrupt_catch("", "\n");
        interrupt_hold();
        raise(SIGTERM);
        firm_status st =
            train_run(w->s.settings, w->s.env, &(train_inputs){.pack = w->path}, &opt, NULL, &err);
        _exit(st == FIRM_E_STOPPED ? 10 : 20 + (int)st);
    }
    int code = 0;
    waitpid(child, &code, 0);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

TEST(train, imagined_runs_are_the_same_resumed_and_on_any_threads) {
    // with a sample of the histories, and noise on them
    static const char* const more[] = {"stage.rollout-fi.bootstrap=true",
                                       "stage.rollout-fi.noise=0.01", NULL};
    taught w;
    if (!open_taught(&w) || !use_settings(&w, more)) return;
    ran one = run_it(&w, "one", (train_options){.threads = 1}),
        three = run_it(&w, "three", (train_options){.threads = 3});
    EXPECT(same(&one, &three));
    ran first = run_it(&w, "halves", (train_options){.threads = 2, .until = "rollout-f"}),
        rest = run_it(&w, "halves", (train_options){.threads = 2, .resume = 1});
    EXPECT(same(&one, &rest));
    ran begun = run_it(&w, "pieces", (train_options){.threads = 2, .until = "rollout-f"});
    char pieces[600];
    snprintf(pieces, sizeof pieces, "%s/imagined-pieces", test_temp_dir());
    for (int i = 0; i < 3; i++) EXPECT_INT(one_update(&w, pieces), 10);
    ran ended = run_it(&w, "pieces", (train_options){.threads = 2, .resume = 1});
    EXPECT(same(&one, &ended));
    // other imagined records are another run
    firm_error err;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/imagined-one", test_temp_dir());
    train_options again = {.seed = 5, .threads = 1, .folder = folder, .resume = 1};
    EXPECT_INT(write_pack(&w, harm_held), 1);
    EXPECT_INT(
        train_run(w.s.settings, w.s.env, &(train_inputs){.pack = w.path}, &again, NULL, &err),
        FIRM_E_USAGE);
    EXPECT(strstr(err.message, "another run"));
    ran* all[] = {&one, &three, &first, &rest, &begun, &ended};
    for (int i = 0; i < 6; i++) ran_free(all[i]);
    small_close(&w.s);
}

// A student of these records predicts what its teacher does where nobody told it, and far better
// than a model that learned from recordings and branches alone.
TEST(train, imagined_teachers_are_followed) {
    static const char* const longer[] = {
        "stage.rollout-fi.sources=D", "stage.rollout-fi.updates=400", "stage.rollout-fi.rate=3e-3",
        "stage.rollout-fi.batch_d=64", NULL};
    static const char* const without[] = {"stage.rollout-fi.sources=FI", "stage.rollout-fi.doubt=0",
                                          NULL};
    taught w;
    if (!open_taught(&w) || !use_settings(&w, longer)) return;
    ran student = run_it(&w, "student", (train_options){.threads = 2});
    use_settings(&w, without);
    ran other = run_it(&w, "other", (train_options){.threads = 2});
    printf("     %.3f tolerances from the teacher, %.3f without its records\n",
           follows(&student, "error"), follows(&other, "error"));
    EXPECT(follows(&student, "error") < 0.2 * follows(&other, "error"));
    ran_free(&student);
    ran_free(&other);
    small_close(&w.s);
}

// ---- what is refused ----------------------------------------------------------------------------

static void expect_refused(taught* w, const char* pack, const char* set, const char* says) {
    firm_error err = {0};
    char folder[600];
    snprintf(folder, sizeof folder, "%s/imagined-refused", test_temp_dir());
    REQUIRE_OK(config_set(w->s.settings, set, &err), err);
    train_options opt = {.seed = 5, .threads = 1, .folder = folder};
    firm_status st =
        train_run(w->s.settings, w->s.env, &(train_inputs){.pack = pack}, &opt, NULL, &err);
    if (st == FIRM_OK || !strstr(err.message, says))
        test_fail(__FILE__, __LINE__, "%s: status %d, '%s'", set, st, err.message);
}

TEST(train, imagined_sources_are_refused_where_they_do_not_fit) {
    taught w;
    char plain[600];
    firm_error err;
    if (!open_taught(&w)) return;
    snprintf(plain, sizeof plain, "%s/imagined-plain.h5", test_temp_dir());
    expect_refused(&w, plain, "stage.rollout-fi.batch_d=8", "firm intervene tworoom --imagined");
    expect_refused(&w, w.path, "stage.grounder.sources=FD",
                   "source D is for the objective rollout");
    REQUIRE_OK(config_set(w.s.settings, "stage.grounder.sources=F", &err), err);
    expect_refused(&w, w.path, "stage.rollout-f.doubt=1", "which stage.rollout-f.sources lacks");
    REQUIRE_OK(config_set(w.s.settings, "stage.rollout-f.doubt=0", &err), err);
    // a run restricted to recorded rows does without them
    stage s;
    EXPECT(stage_read(w.s.settings, 4, "F", &s));
    EXPECT_INT(s.sources, SOURCE_F);
    EXPECT_NEAR(s.doubt, 0, 0);
    small_close(&w.s);
    // without a section of its own
    small_options o = options_of("stage.rollout-fi.sources=FID");
    char path[600];
    snprintf(path, sizeof path, "%s", w.path);
    if (!small_collect(&w.s, &o)) return;
    expect_refused(&w, path, "stage.rollout-fi.batch_d=8", "[loss.D]");
    small_close(&w.s);
}
