// trainer_test.c - parts of a trainer add up, also when they train different parameters; tables are
// picked from by the trainer; a fill callback knows its update.
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "nn/trainer_kind.h"

enum { BATCH = 6, INPUTS = 5, ROWS = 40 };

typedef struct toy {
    nn_store* store;
    nn_graph* g[2];
    nn_id x[2];
    int64_t seen[4][BATCH];  // rows, by update
    int64_t updates[4];
    int calls;
} toy;

// g[0] trains a.*, g[1] trains a.* and b.*
static int open_toy(toy* t) {
    firm_error err;
    *t = (toy){0};
    int ok = nn_store_create(&t->store, &err) == FIRM_OK;
    for (int i = 0; i < 2 && ok; i++) {
        ok = nn_graph_create(t->store, &t->g[i], &err) == FIRM_OK;
        if (!ok) break;
        nn_graph* g = t->g[i];
        nn_train(g, "a.");
        if (i) nn_train(g, "b.");
        t->x[i] = nn_input1(g, "x", INPUTS);
        nn_id y = nn_gelu(g, nn_linear(g, "a.in", t->x[i], 7, 1));
        nn_id z = nn_linear(g, i ? "b.out" : "a.out", y, INPUTS, 1);
        nn_loss(g, "error", nn_mse(g, z, t->x[i]), i ? 2.0f : 1.0f);
    }
    ok = ok && nn_store_seal(t->store, 3, &err) == FIRM_OK;
    if (!ok) test_fail(__FILE__, __LINE__, "%s", err.message);
    return ok;
}

static void close_toy(toy* t) {
    nn_graph_free(t->g[0]);
    nn_graph_free(t->g[1]);
    nn_store_free(t->store);
}

static firm_status fill(void* ctx, const nn_feed* f) {
    const toy* t = ctx;
    nn_id x = f->graph == t->g[0] ? t->x[0] : t->x[1];
    for (int i = 0; i < f->count; i++)
        rng_fill_normal(7, RNG_STREAM(RNG_TEST, f->graph == t->g[0]),
                        (uint64_t)(nn_feed_row(f, i) + 1000 * f->update) * 8,
                        nn_feed_real(f, x) + i * INPUTS, INPUTS);
    return FIRM_OK;
}

static firm_status fill_and_note(void* ctx, const nn_feed* f) {
    toy* t = ctx;
    for (int i = 0; i < f->count; i++)
        t->seen[t->calls / 2][f->first + i] = nn_feed_row(f, i);  // two shards an update
    t->updates[t->calls / 2] = f->update;
    t->calls++;
    return fill(ctx, f);
}

static nn_part part_of(toy* t, int i, float weight) {
    return (nn_part){.label = "",
                     .graph = t->g[i],
                     .batch = BATCH,
                     .shard = 3,
                     .weight = weight,
                     .fill = fill,
                     .ctx = t};
}

static nn_trainer_options options(const nn_device* d, toy* t) {
    nn_trainer_options o = {.device = d, .store = t->store, .lanes = 2};
    o.adamw = nn_adamw_default();
    o.adamw.clip = 0;
    return o;
}

// after one update the first moments are (1 - beta1) times the gradient
static void expect_sum(toy* t, int first, float first_weight, float second_weight) {
    firm_error err;
    nn_device cpu = nn_device_cpu();
    nn_part part[2] = {part_of(t, first, first_weight), part_of(t, !first, second_weight)};
    nn_exec* e[2] = {NULL, NULL};
    nn_exec_options eo = {.batch = BATCH, .shard = 3, .lanes = 2, .train = 1};
    double want_loss = 0;
    for (int p = 0; p < 2; p++) {
        REQUIRE_OK(nn_exec_create(part[p].graph, cpu.backend, &eo, NULL, &e[p], &err), err);
        EXPECT_INT(nn_exec_gradient(e[p], fill, t), FIRM_OK);
        want_loss += (double)part[p].weight * nn_exec_loss(e[p]);
    }
    nn_trainer* trainer;
    nn_trainer_options o = options(&cpu, t);
    REQUIRE_OK(nn_trainer_create(&o, part, 2, &trainer, &err), err);
    EXPECT_INT(nn_trainer_step(trainer, 0, &err), FIRM_OK);
    EXPECT_INT(nn_trainer_read(trainer, &err), FIRM_OK);
    EXPECT_NEAR(nn_trainer_loss(trainer), want_loss, 1e-12);
    size_t count;
    const float* moment = nn_trainer_moments(trainer, &count);
    EXPECT_INT(count, 2 * trainer->grad_count);
    EXPECT_INT(trainer->trained_count, 6);  // weight and bias of a.in, a.out, b.out
    double square = 0;
    for (int k = 0; k < trainer->trained_count; k++) {
        const nn_trained* x = &trainer->trained[k];
        for (size_t i = 0; i < x->count; i++) {
            double want = 0;
            for (int p = 0; p < 2; p++) {
                const nn_trained* list;
                int n = nn_exec_trained(e[p], &list);
                for (int j = 0; j < n; j++)
                    if (list[j].entry == x->entry)
                        want += (double)part[p].weight * nn_exec_grad(e[p])[list[j].offset + i];
            }
            EXPECT_NEAR(moment[x->offset + i] / (1 - 0.9f), want, 1e-6 * (1 + fabs(want)));
            square += want * want;
        }
    }
    EXPECT_NEAR(nn_trainer_norm(trainer), sqrt(square), 1e-5 * sqrt(square));
    nn_trainer_free(trainer);
    nn_exec_free(e[0]);
    nn_exec_free(e[1]);
}

TEST(nn, trainer_adds_up_its_parts) {
    static const float weights[][2] = {{1, 1}, {0.5f, 1}, {1, 3}};
    for (int first = 0; first < 2; first++)
        for (int w = 0; w < 3; w++) {
            toy t;
            if (!open_toy(&t)) return;
            expect_sum(&t, first, weights[w][0], weights[w][1]);
            close_toy(&t);
        }
}

TEST(nn, trainer_picks_rows_of_tables) {
    toy t;
    if (!open_toy(&t)) return;
    firm_error err;
    nn_device cpu = nn_device_cpu();
    nn_part part = part_of(&t, 0, 1);
    part.fill = fill_and_note;
    part.rows = ROWS;
    part.pick = (nn_pick){11, RNG_STREAM(RNG_BATCH, 4)};
    nn_trainer* trainer;
    nn_trainer_options o = options(&cpu, &t);
    REQUIRE_OK(nn_trainer_create(&o, &part, 1, &trainer, &err), err);
    REQUIRE_OK(nn_trainer_resume(trainer, 70, &err), err);
    int different = 0;
    for (int u = 0; u < 3; u++) {
        EXPECT_INT(nn_trainer_step(trainer, 70 + u, &err), FIRM_OK);
        EXPECT_INT(t.updates[u], 0);  // a row does not depend on the update
        for (int i = 0; i < BATCH; i++) {
            EXPECT_INT(t.seen[u][i], nn_pick_row(&part.pick, 70 + u, i, ROWS));
            EXPECT(t.seen[u][i] >= 0 && t.seen[u][i] < ROWS);
            different += t.seen[u][i] != t.seen[0][i];
        }
    }
    EXPECT(different > BATCH);
    nn_trainer_free(trainer);

    // other parts: the sample's number, and the update's
    t.calls = 0;
    part.rows = 0;
    REQUIRE_OK(nn_trainer_create(&o, &part, 1, &trainer, &err), err);
    for (int u = 0; u < 3; u++) {
        EXPECT_INT(nn_trainer_step(trainer, u, &err), FIRM_OK);
        EXPECT_INT(t.updates[u], u);
        for (int i = 0; i < BATCH; i++) EXPECT_INT(t.seen[u][i], i);
    }
    nn_trainer_free(trainer);
    close_toy(&t);
}

typedef struct sink {
    nn_id x;
    float got[64][INPUTS];
    int next;
} sink;

static void take(void* to, const nn_exec* e, int first, int count) {
    sink* s = to;
    EXPECT_INT(first, s->next);
    memcpy(s->got[first], nn_exec_output(e, s->x), (size_t)count * sizeof *s->got);
    s->next = first + count;
}

// any number of samples, batch by batch, equals all of them at once
TEST(nn, exec_streams_batches) {
    toy t;
    if (!open_toy(&t)) return;
    firm_error err;
    nn_output(t.g[0], t.x[0]);
    for (int count = 1; count < 2 * BATCH + 2; count++) {
        nn_exec *all, *some;
        nn_exec_options one = {.batch = 64, .shard = 5, .lanes = 1};
        nn_exec_options cut = {.batch = BATCH, .shard = 4, .lanes = 1};
        sink s = {.x = t.x[0]};
        REQUIRE_OK(nn_exec_create(t.g[0], nn_backend_cpu(), &one, NULL, &all, &err), err);
        REQUIRE_OK(nn_exec_create(t.g[0], nn_backend_cpu(), &cut, NULL, &some, &err), err);
        EXPECT_INT(nn_exec_forward(all, count, fill, &t), FIRM_OK);
        EXPECT_INT(nn_exec_stream(some, count, fill, &t, take, &s), FIRM_OK);
        EXPECT_INT(s.next, count);
        EXPECT(memcmp(s.got, nn_exec_output(all, t.x[0]), (size_t)count * sizeof *s.got) == 0);
        nn_exec_free(all);
        nn_exec_free(some);
    }
    close_toy(&t);
}

// every allocation of a trainer may fail; what was taken is given back
TEST(nn, trainer_out_of_memory) {
    for (int64_t n = 0;; n++) {
        toy t;
        if (!open_toy(&t)) return;
        firm_error err = {0};
        nn_device cpu = nn_device_cpu();
        nn_part part[2] = {part_of(&t, 0, 1), part_of(&t, 1, 1)};
        part[1].rows = ROWS;
        nn_trainer* trainer;
        nn_trainer_options o = options(&cpu, &t);
        mem_fail_after(n);
        firm_status st = nn_trainer_create(&o, part, 2, &trainer, &err);
        mem_fail_after(-1);
        if (st == FIRM_OK) {
            EXPECT(n > 10);
            EXPECT_INT(nn_trainer_step(trainer, 0, &err), FIRM_OK);
            nn_trainer_free(trainer);
        } else {
            EXPECT_INT(st, FIRM_E_MEMORY);
            EXPECT(!trainer && strstr(err.message, "no memory"));
        }
        close_toy(&t);
        if (st == FIRM_OK) return;
    }
}
