// adamw_test.c - the optimiser against a plain double implementation, its schedules, and learning:
// one batch is fitted to almost nothing.
#include "nn/adamw.h"

#include "cases.h"
#include "check.h"

// rank 2, rank 1, and a large entry so that several chunks are summed for the norm
static void build_regression(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 40);
    nn_id h = nn_gelu(g, nn_linear(g, "one", x, 500, 1));
    nn_id y = nn_linear(g, "two", nn_layernorm(g, "ln", h), 3, 1);
    s->out = y;
    nn_output(g, y);
    nn_loss(g, "mse", nn_mse(g, y, nn_input1(g, "target", 3)), 1);
}

static int setup(nn_setup* s, pool* p) {
    nn_exec_options opt = {.batch = 12, .shard = 4, .lanes = 2, .train = 1};
    return nn_setup_graph(s, build_regression, nn_backend_cpu(), &opt, p);
}

// Loshchilov and Hutter 2019, algorithm 2, as written, in double.
typedef struct plain_adamw {
    double *w, *m, *v;
    int64_t steps;
} plain_adamw;

static double plain_step(plain_adamw* a, const nn_adamw_options* o, double rate, nn_setup* s,
                         const float* factor) {
    const nn_trained* list;
    int count = nn_exec_trained(s->exec, &list);
    const float* grad = nn_exec_grad(s->exec);
    double square = 0;
    for (int i = 0; i < count; i++) {
        for (size_t j = 0; j < list[i].count; j++) {
            double g = grad[list[i].offset + j];
            square += g * g;
        }
    }
    double norm = sqrt(square), clip = o->clip > 0 && norm > o->clip ? o->clip / norm : 1;
    a->steps++;
    for (int i = 0; i < count; i++) {
        const nn_entry* e = &s->store->entry[list[i].entry];
        double decay = e->rank >= 2 ? o->decay : 0, r = rate * (factor ? factor[i] : 1);
        for (size_t j = 0; j < list[i].count; j++) {
            double *w = &a->w[e->offset + j], *m = &a->m[e->offset + j], *v = &a->v[e->offset + j];
            double g = clip * (double)grad[list[i].offset + j];
            *m = o->beta1 * *m + (1 - (double)o->beta1) * g;
            *v = o->beta2 * *v + (1 - (double)o->beta2) * g * g;
            double mean = *m / (1 - pow(o->beta1, (double)a->steps));
            double spread = sqrt(*v / (1 - pow(o->beta2, (double)a->steps)));
            *w -= r * (mean / (spread + o->eps) + decay * *w);
        }
    }
    return norm;
}

static void compare(const nn_adamw_options* o, const float* factor) {
    nn_setup s;
    nn_adamw* a = NULL;
    firm_error err = {0};
    if (!setup(&s, NULL)) return;
    REQUIRE_OK(adamw_of(s.exec, o, factor, &a, &err), err);
    size_t n = s.store->count;
    plain_adamw plain = {calloc(n, sizeof(double)), calloc(n, sizeof(double)),
                         calloc(n, sizeof(double)), 0};
    float* start = malloc(n * sizeof *start);
    if (!plain.w || !plain.m || !plain.v || !start) abort();
    memcpy(start, s.store->value, n * sizeof *start);
    for (size_t i = 0; i < n; i++) plain.w[i] = s.store->value[i];
    for (int step = 0; step < 10; step++) {
        EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
        double want = plain_step(&plain, o, nn_adamw_rate(a, step), &s, factor);
        EXPECT_NEAR(nn_adamw_step(a, s.store, NULL), want, 1e-6 * want);
        EXPECT_INT(*nn_adamw_steps(a), step + 1);
        // both walks see the gradient of the float weights, so they stay together; an error is
        // measured against the way gone
        double miss = 0, way = 0;
        for (size_t i = 0; i < n; i++) {
            miss += pow((double)s.store->value[i] - plain.w[i], 2);
            way += pow(plain.w[i] - (double)start[i], 2);
        }
        EXPECT(way > 0);
        EXPECT_NEAR(sqrt(miss / way), 0, 2e-5);
    }
    size_t count;
    float* moments = nn_adamw_moments(a, &count);
    EXPECT_INT(count, 2 * nn_exec_grad_count(s.exec));
    const nn_trained* list;
    nn_exec_trained(s.exec, &list);
    for (int part = 0; part < 2; part++) {
        const double* m = (part ? plain.v : plain.m) + s.store->entry[list[0].entry].offset;
        const float* got = moments + (size_t)part * (count / 2) + list[0].offset;
        double scale = 0;  // the typical element: single ones may be sums that nearly cancel
        for (size_t j = 0; j < list[0].count; j++) scale += m[j] * m[j];
        scale = sqrt(scale / (double)list[0].count);
        EXPECT(scale > 0);
        for (size_t j = 0; j < list[0].count; j += 97) EXPECT_NEAR(got[j], m[j], 1e-5 * scale);
    }
    free(plain.w);
    free(plain.m);
    free(plain.v);
    free(start);
    nn_adamw_free(a);
    nn_setup_free(&s);
}

TEST(nn, adamw_ten_steps) {
    nn_adamw_options o = nn_adamw_default();
    o.rate = 1e-2f;
    o.decay = 0.1f;
    o.clip = 0;
    compare(&o, NULL);  // no clipping
    o.clip = 0.05f;
    compare(&o, NULL);  // every step is clipped
    o.clip = 1e6f;
    compare(&o, NULL);  // never
    o.warmup = 4;
    o.updates = 8;
    o.floor = 0.1f;
    float factor[6] = {1, 0.5f, 2, 0.1f, 0, 1};
    o.clip = 1;
    compare(&o, factor);  // per-entry rates; past the end of the schedule
    nn_adamw_free(NULL);
}

// with a zero gradient only decay moves weights, and only matrices
static void build_still(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 4), zero = nn_sub(g, x, x);
    nn_id w = nn_param(g, "w", NN_INIT_ONE, 0, 2, (int[]){4, 4});
    nn_id p = nn_param(g, "p", NN_INIT_ONE, 0, 1, (int[]){4});
    nn_id y = nn_mul(g, nn_op_linear(g, zero, w, NN_NONE), zero);
    nn_loss(g, "nothing", nn_mul(g, nn_addp(g, y, p), zero), 1);
    s->out = y;
}

TEST(nn, adamw_decay_of_matrices_only) {
    nn_setup s;
    nn_adamw* a = NULL;
    firm_error err = {0};
    nn_adamw_options o = nn_adamw_default();
    nn_exec_options opt = {.batch = 2, .shard = 1, .lanes = 1, .train = 1};
    o.schedule = NN_CONSTANT;
    o.rate = 0.5f;
    o.decay = 0.25f;
    if (!nn_setup_graph(&s, build_still, nn_backend_cpu(), &opt, NULL)) return;
    REQUIRE_OK(adamw_of(s.exec, &o, NULL, &a, &err), err);
    for (int i = 0; i < 2; i++) {
        EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
        EXPECT_NEAR(nn_adamw_step(a, s.store, NULL), 0, 0);
    }
    const nn_store* t = s.store;
    for (int i = 0; i < 16; i++)
        EXPECT_NEAR(t->value[t->entry[nn_store_find(t, "w")].offset + (size_t)i], 0.875 * 0.875,
                    1e-6);
    for (int i = 0; i < 4; i++)
        EXPECT_NEAR(t->value[t->entry[nn_store_find(t, "p")].offset + (size_t)i], 1, 0);
    nn_adamw_free(a);
    nn_setup_free(&s);
}

TEST(nn, adamw_schedule) {
    nn_setup s;
    nn_adamw* a = NULL;
    firm_error err = {0};
    nn_adamw_options o = nn_adamw_default();
    if (!setup(&s, NULL)) return;
    o.rate = 0.8f;
    o.schedule = NN_COSINE;
    o.warmup = 4;
    o.updates = 24;
    o.floor = 0.25f;
    REQUIRE_OK(adamw_of(s.exec, &o, NULL, &a, &err), err);
    for (int i = 0; i < 4; i++) EXPECT_NEAR(nn_adamw_rate(a, i), 0.2 * (i + 1), 1e-6);
    EXPECT_NEAR(nn_adamw_rate(a, 4), 0.8, 1e-6);
    EXPECT_NEAR(nn_adamw_rate(a, 14), (0.8 + 0.2) / 2, 1e-6);  // half-way
    EXPECT_NEAR(nn_adamw_rate(a, 9), 0.2 + 0.6 * (1 + sqrt(0.5)) / 2, 1e-6);
    EXPECT_NEAR(nn_adamw_rate(a, 24), 0.2, 1e-6);
    EXPECT_NEAR(nn_adamw_rate(a, 1000000), 0.2, 1e-6);
    for (int i = 4; i < 24; i++) EXPECT(nn_adamw_rate(a, i + 1) < nn_adamw_rate(a, i));
    nn_adamw_free(a);
    o.schedule = NN_CONSTANT;
    REQUIRE_OK(adamw_of(s.exec, &o, NULL, &a, &err), err);
    EXPECT_NEAR(nn_adamw_rate(a, 1), 0.4, 1e-6);
    EXPECT_NEAR(nn_adamw_rate(a, 4), 0.8, 1e-6);
    EXPECT_NEAR(nn_adamw_rate(a, 1000), 0.8, 1e-6);
    nn_adamw_free(a);
    nn_setup_free(&s);
}

// twelve samples with random targets are learned by heart, with the same bits on one and three
// threads
TEST(nn, adamw_overfits_one_batch) {
    float last[2] = {0};
    float* weights[2] = {0};
    size_t count = 0;
    firm_error err = {0};
    for (int side = 0; side < 2; side++) {
        pool* p = NULL;
        nn_setup s;
        nn_adamw* a = NULL;
        nn_adamw_options o = nn_adamw_default();
        o.rate = 3e-3f;
        o.warmup = 10;
        o.updates = 150;
        REQUIRE_OK(pool_create(side ? 3 : 1, &p, &err), err);
        if (!setup(&s, p)) return;
        REQUIRE_OK(adamw_of(s.exec, &o, NULL, &a, &err), err);
        double first = 0;
        for (int step = 0; step < o.updates; step++) {
            EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
            if (step == 0) first = nn_exec_loss(s.exec);
            nn_adamw_step(a, s.store, p);
        }
        last[side] = (float)nn_exec_loss(s.exec);
        EXPECT(first > 0.3);
        EXPECT(last[side] < 1e-3 * first);
        count = s.store->count;
        weights[side] = malloc(count * sizeof(float));
        if (!weights[side]) abort();
        memcpy(weights[side], s.store->value, count * sizeof(float));
        nn_adamw_free(a);
        nn_setup_free(&s);
        pool_free(p);
    }
    EXPECT(memcmp(weights[0], weights[1], count * sizeof(float)) == 0);
    EXPECT(last[0] == last[1]);
    free(weights[0]);
    free(weights[1]);
}
