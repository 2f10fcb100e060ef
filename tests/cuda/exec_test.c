// exec_test.c - every training graph of ours on the GPU beside the host: outputs, loss terms and
// gradients of one batch; frozen-module caches and gates. A failure names the graph and the
// parameter, so that the op behind it can be looked at in ops_test.c.
#include "check.h"
#include "gpu.h"
#include "world.h"

// float32 sums in another order, through up to 60 ops: what ops_test.c allows one op, tenfold
static const double FP32 = 1e-4;
// operands of products cut to 10 bits: about 5e-4 each, some of which add up through the graph
static const double TF32 = 1e-2;

static double norm_of(const float* x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static double distance(const float* a, const float* b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum);
}

static void compare_outputs(const char* name, nn_exec* got, nn_exec* want, const nn_part* part,
                            double bound) {
    const nn_graph* g = part->graph;
    for (int i = 0; i < g->outputs; i++) {
        size_t n = (size_t)part->batch * (size_t)g->tensor[g->output[i]].size;
        const float *a = nn_exec_output(got, g->output[i]), *b = nn_exec_output(want, g->output[i]);
        double d = distance(a, b, n) / (norm_of(b, n) + 1e-12);
        if (!(d <= bound * test_tolerance_scale()))
            test_fail(__FILE__, __LINE__, "%s: output %d is off by %.3g", name, i, d);
    }
    for (int i = 0; i < g->terms; i++) {
        double a = nn_exec_term(got, i), b = nn_exec_term(want, i);
        if (!(fabs(a - b) <= bound * test_tolerance_scale() * fmax(fabs(b), 0.1)))
            test_fail(__FILE__, __LINE__, "%s: term %s is %.9g, expected %.9g", name,
                      g->term[i].name, a, b);
    }
}

// Errors of a parameter's gradient are measured beside its own norm and a thousandth of the whole
// gradient's: some gradients are zero but for rounding.
static double compare_gradients(const char* name, nn_exec* got, nn_exec* want,
                                const nn_store* store, double bound) {
    const nn_trained* list;
    int entries = nn_exec_trained(want, &list);
    const float *a = nn_exec_grad(got), *b = nn_exec_grad(want);
    EXPECT_INT(nn_exec_trained(got, NULL), entries);
    EXPECT_INT(nn_exec_grad_count(got), nn_exec_grad_count(want));
    double all = norm_of(b, nn_exec_grad_count(want)), worst = 0;
    EXPECT(all > 0 && isfinite(all));
    for (int i = 0; i < entries; i++) {
        size_t at = list[i].offset, n = list[i].count;
        double d = distance(a + at, b + at, n) / (norm_of(b + at, n) + 1e-3 * all);
        if (!(d <= bound * test_tolerance_scale()))
            test_fail(__FILE__, __LINE__, "%s: gradient of %s is off by %.3g", name,
                      store->entry[list[i].entry].name, d);
        worst = test_worse(worst, d);
    }
    return worst;
}

// a second run of the same batch gives the same bits
static void repeat_part(nn_exec* e, const nn_part* part) {
    size_t bytes = nn_exec_grad_count(e) * sizeof(float);
    float* first = malloc(bytes);
    memcpy(first, nn_exec_grad(e), bytes);
    EXPECT_INT(nn_exec_gradient(e, part->fill, part->ctx), FIRM_OK);
    EXPECT(memcmp(first, nn_exec_grad(e), bytes) == 0);
    free(first);
}

static void compare_part(world* w, const char* name, const nn_part* part, const nn_device* d,
                         double bound) {
    firm_error err = {0};
    nn_exec *want = NULL, *got = NULL;
    nn_exec_options opt = {.batch = part->batch, .shard = 4, .lanes = 2, .train = 1};
    firm_status st = nn_exec_create(part->graph, nn_backend_cpu(), &opt, w->p, &want, &err);
    opt.queue = d->queue;
    if (st == FIRM_OK) st = nn_exec_create(part->graph, d->backend, &opt, w->p, &got, &err);
    if (st != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, err.message);
    } else {
        nn_exec_set_update(want, 3);
        nn_exec_set_update(got, 3);
        EXPECT_INT(nn_exec_gradient(want, part->fill, part->ctx), FIRM_OK);
        EXPECT_INT(nn_exec_gradient(got, part->fill, part->ctx), FIRM_OK);
        if (nn_exec_fault(got)) test_fail(__FILE__, __LINE__, "%s", nn_exec_fault(got));
        compare_outputs(name, got, want, part, bound);
        double worst = compare_gradients(name, got, want, w->model->store, bound);
        printf("  %-24s loss %.9g, expected %.9g; gradients off by at most %.2g\n", name,
               nn_exec_loss(got), nn_exec_loss(want), worst);
        if (!test_short()) repeat_part(got, part);
    }
    nn_exec_free(want);
    nn_exec_free(got);
}

static void compare_stages(const char* task, world_size size, int batch, nn_precision precision,
                           double bound) {
    nn_device d;
    world w;
    if (!gpu_open(&d, precision)) return;
    if (world_open(&w, task, size, 0)) {
        for (int i = 0; i < w.stages; i++) {
            job j;
            if (!job_open(&j, &w, i, batch)) continue;
            for (int k = 0; k < j.work.parts; k++) {
                const nn_part* part = &j.work.part[k];
                char name[96];
                snprintf(name, sizeof name, "%s %s", j.name, part->label);
                compare_part(&w, name, part, &d, bound);
            }
            job_close(&j);
        }
        world_close(&w);
    }
    nn_device_close(&d);
}

// under a sanitizer fewer, through the same kernels
static int few_rows(void) {
    return test_short() ? 2 : 5;
}

// TwoRoom: picture, ground with the tokenizer, dynamics, rollouts
TEST(cuda, exec_narrow_graphs_equal_the_hosts) {
    compare_stages("tworoom", NARROW, test_short() ? 1 : 9, NN_FP32, FP32);
}
TEST(cuda, exec_full_graphs_equal_the_hosts) {
    compare_stages("tworoom", WIDE, 16, NN_FP32, FP32);
}
TEST(cuda, exec_full_graphs_in_tf32_are_close) {
    compare_stages("tworoom", WIDE, 16, NN_TF32, TF32);
}

// Reacher: keypoints that turn with the picture, the staged grounder, composed angles and chords
TEST(cuda, exec_narrow_reacher_graphs_equal_the_hosts) {
    compare_stages("reacher", NARROW, few_rows(), NN_FP32, FP32);
}
TEST(cuda, exec_reacher_graphs_equal_the_hosts) {
    compare_stages("reacher", WIDE, 4, NN_FP32, FP32);
}
TEST(cuda, exec_reacher_graphs_in_tf32_are_close) {
    compare_stages("reacher", WIDE, 4, NN_TF32, TF32);
}

// Push-T: votes, anchored tokens, balanced rows, the spatial residual, the history learning along
TEST(cuda, exec_narrow_pusht_graphs_equal_the_hosts) {
    compare_stages("pusht", NARROW, few_rows(), NN_FP32, FP32);
}
TEST(cuda, exec_pusht_graphs_equal_the_hosts) {
    compare_stages("pusht", WIDE, 4, NN_FP32, FP32);
}
TEST(cuda, exec_pusht_graphs_in_tf32_are_close) {
    compare_stages("pusht", WIDE, 4, NN_TF32, TF32);
}

// Cube: pictures, configurations, anchors and the tail in one graph
TEST(cuda, exec_narrow_cube_graphs_equal_the_hosts) {
    compare_stages("cube", NARROW, few_rows(), NN_FP32, FP32);
}
TEST(cuda, exec_cube_graphs_equal_the_hosts) {
    compare_stages("cube", WIDE, 4, NN_FP32, FP32);
}
TEST(cuda, exec_cube_graphs_in_tf32_are_close) {
    compare_stages("cube", WIDE, 4, NN_TF32, TF32);
}

static void expect_close(const char* what, const float* got, const float* want, size_t n,
                         double bound) {
    double d = distance(got, want, n) / (norm_of(want, n) + 1e-12);
    if (!(d <= bound * test_tolerance_scale()))
        test_fail(__FILE__, __LINE__, "%s: off by %.3g", what, d);
    printf("  %-9s off by %.2g\n", what, d);
}

enum { TOKENS = 3 };  // of histories, of records, of pairs

static firm_status cache_all(world* w, const records* of, history_cache* history,
                             token_cache tokens[TOKENS], firm_error* err) {
    const train_set* s = &w->run.set;
    const pairs* held = train_pairs(s, PACK_HELD, 1);
    TRY(cache_histories(s, w->model, of, w->p, "histories", history, err));
    TRY(cache_history_tokens(s, w->model, of, w->p, "tokens", &tokens[0], err));
    TRY(cache_record_tokens(s, w->model, of, w->p, "tokens", &tokens[1], err));
    return cache_pair_tokens(s, w->model, held, w->p, "tokens", &tokens[2], err);
}

// what frozen modules say is the same on both devices
TEST(cuda, exec_caches) {
    nn_device d;
    world w;
    if (!gpu_open(&d, NN_FP32)) return;
    if (!world_open(&w, "tworoom", NARROW, 0)) {
        nn_device_close(&d);
        return;
    }
    firm_error err = {0};
    const records* of = &w.run.set.data.set[PACK_I];  // 96 of 24 histories: fewer than a batch
    nn_device both[2] = {nn_device_cpu(), d};
    history_cache history[2] = {{0}};
    token_cache tokens[2][TOKENS] = {{{0}}};
    int ok = 1;
    for (int i = 0; i < 2 && ok; i++) {
        w.run.set.device = both[i];
        ok = cache_all(&w, of, &history[i], tokens[i], &err) == FIRM_OK;
    }
    if (ok) {
        size_t n = (size_t)of->histories;
        expect_close("beliefs", history[1].belief, history[0].belief,
                     n * (size_t)w.model->shape.belief, FP32);
        expect_close("configs", history[1].config, history[0].config,
                     n * HIST * (size_t)w.env->task.config_dim, FP32);
        for (int k = 0; k < TOKENS; k++) {
            const token_cache* c = &tokens[0][k];
            expect_close("tokens", tokens[1][k].tokens, c->tokens,
                         (size_t)c->count * (size_t)c->frames * (size_t)c->size, FP32);
        }
    } else {
        test_fail(__FILE__, __LINE__, "%s", err.message);
    }
    for (int i = 0; i < 2; i++) {
        cache_free(&history[i]);
        for (int k = 0; k < TOKENS; k++) token_cache_free(&tokens[i][k]);
    }
    w.run.set.device = both[0];
    world_close(&w);
    nn_device_close(&d);
}

// so are the gates
TEST(cuda, exec_gates) {
    nn_device d;
    world w;
    if (!gpu_open(&d, NN_FP32)) return;
    if (world_open(&w, "tworoom", NARROW, 0)) {
        firm_error err = {0};
        const train_set* s = &w.run.set;
        nn_device both[2] = {nn_device_cpu(), d};
        rollout_error rollout[2] = {0};
        ground_error ground[2] = {0};
        for (int i = 0; i < 2; i++) {
            w.run.set.device = both[i];
            firm_status st = gate_rollout(s, w.model, &s->data.set[PACK_I], &w.run.cache[PACK_I],
                                          w.p, &rollout[i], &err);
            if (st == FIRM_OK) st = gate_ground(s, w.model, w.p, &ground[i], &err);
            if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
        }
        EXPECT(rollout[0].mean[0] > 0 && ground[0].mean_units > 0);
        for (int k = 0; k < w.model->task.horizon; k++) {
            EXPECT_NEAR(rollout[1].mean[k], rollout[0].mean[k], FP32 * rollout[0].mean[k]);
            EXPECT_NEAR(rollout[1].p95[k], rollout[0].p95[k], FP32 * rollout[0].p95[k]);
        }
        EXPECT_NEAR(ground[1].mean_units, ground[0].mean_units, FP32 * ground[0].mean_units);
        EXPECT_NEAR(ground[1].p95_units, ground[0].p95_units, FP32 * ground[0].p95_units);
        w.run.set.device = both[0];
        world_close(&w);
    }
    nn_device_close(&d);
}

typedef struct seen {
    int next, wrong;
    nn_id x;
} seen;

static firm_status fill_numbers(void* ctx, const nn_feed* f) {
    const seen* s = ctx;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; k < 3; k++)
            nn_feed_real(f, s->x)[i * 3 + k] = (float)(10 * (f->first + i) + k);
    return FIRM_OK;
}

static void take_numbers(void* to, const nn_exec* e, int first, int count) {
    seen* s = to;
    const float* x = nn_exec_output(e, s->x);
    s->wrong += first != s->next;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 3; k++) s->wrong += x[i * 3 + k] != (float)(10 * (first + i) + k);
    s->next = first + count;
}

// batches come back in order and whole, whatever their number
TEST(cuda, exec_streams_in_order) {
    nn_device d;
    if (!gpu_open(&d, NN_FP32)) return;
    firm_error err = {0};
    nn_store* store;
    nn_graph* g;
    nn_exec* e;
    pool* p;
    REQUIRE_OK(pool_create(0, &p, &err), err);
    REQUIRE_OK(nn_store_create(&store, &err), err);
    REQUIRE_OK(nn_graph_create(store, &g, &err), err);
    seen s = {.x = nn_input1(g, "x", 3)};
    nn_linear(g, "unused", s.x, 4, 1);
    nn_output(g, s.x);
    REQUIRE_OK(nn_store_seal(store, 1, &err), err);
    nn_exec_options opt = {.batch = 8, .shard = 8, .lanes = 1, .queue = d.queue};
    REQUIRE_OK(nn_exec_create(g, d.backend, &opt, p, &e, &err), err);
    for (int count = 1; count < 43; count++) {
        s.next = s.wrong = 0;
        EXPECT_INT(nn_exec_stream(e, count, fill_numbers, &s, take_numbers, &s), FIRM_OK);
        EXPECT_INT(s.next, count);
        EXPECT_INT(s.wrong, 0);
    }
    nn_exec_free(e);
    nn_graph_free(g);
    nn_store_free(store);
    pool_free(p);
    nn_device_close(&d);
}
