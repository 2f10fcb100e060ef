// exec_test.c - running whole graphs: derived reverse mode, memory reuse, no allocation while
// running, errors of the fill callback, frozen parameters, part batches, and every allocation
// failing in turn.
#include "nn/exec.h"

#include "cases.h"
#include "check.h"
#include "core/mem.h"
#include "nn/adamw.h"
#include "nn/memory.h"

// image -> conv -> gn -> gelu -> residual conv -> tokens with attention -> pooled -> heads and
// losses
static void build_network(nn_graph* g, nn_setup* s) {
    uint8_t mask[9 * 9];
    memset(mask, 1, sizeof mask);
    nn_id o = nn_image(g, "o", 6), target = nn_input1(g, "target", 3),
          unit = nn_input1(g, "unit", 4);
    nn_id patches = nn_patches(g, o, 2, (float[]){0.5f, 0.5f, 0.5f}, (float[]){0.3f, 0.3f, 0.3f});
    nn_id x = nn_reshape(g, nn_linear(g, "enc.in", patches, 4, 1), 3, (int[]){3, 3, 4});
    x = nn_gelu(g, nn_groupnorm(g, "enc.gn", nn_conv(g, "enc.conv", x, 6, 3, 1, 1), 2));
    x = nn_add(g, x, nn_conv(g, "enc.res", x, 6, 3, 1, 1));
    nn_id t = nn_layernorm(g, "enc.ln", nn_reshape(g, x, 2, (int[]){9, 6}));
    t = nn_add(g, t, nn_attention(g, nn_linear(g, "enc.qkv", t, 18, 1), 2, mask));
    nn_id z = nn_mean(g, t);
    nn_id y = nn_pairnorm(g, nn_linear(g, "head.y", z, 3, 1), 1);
    nn_id lv = nn_clamp(g, nn_linear(g, "head.lv", z, 3, 0.5f), -4, 4);
    s->out = z;
    nn_output(g, z);
    nn_output(g, y);
    nn_loss(g, "mse", nn_mse(g, y, target), 1);
    nn_loss(g, "nll", nn_nll(g, y, lv, target), 0.3f);
    nn_loss(g, "bce", nn_bce(g, nn_linear(g, "head.logit", z, 4, 1), unit, 3), 0.5f);
}

static void build_network_top(nn_graph* g, nn_setup* s) {
    build_network(g, s);
    nn_loss_topmean(g, "top", nn_mse(g, nn_slice(g, s->out, 0, 1, 3), nn_input1(g, "far", 3)), 0.7f,
                    0.3f);
}

TEST(nn, exec_gradient_of_a_network) {
    nn_exec_options opt = {.batch = 5, .shard = 2, .lanes = 2, .train = 1};
    nn_setup s;
    if (!nn_setup_graph(&s, build_network, nn_backend_ref(), &opt, NULL)) return;
    nn_check_gradient(&s, "network", 25);
    nn_setup_free(&s);
    if (!nn_setup_graph(&s, build_network_top, nn_backend_ref(), &opt, NULL)) return;
    nn_check_gradient(&s, "network with topmean", 25);
    nn_setup_free(&s);
}

enum { MANY = 20 };  // parts, more than one op takes
static nn_id many_part[MANY];

static void build_many(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 3);
    int width = 0;
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "part%d", i);
        many_part[i] = nn_linear(g, name, x, 1 + i % 3, 1);
        width += 1 + i % 3;
        nn_output(g, many_part[i]);
    }
    s->out = nn_concat(g, 0, MANY, many_part);
    nn_output(g, s->out);
    nn_loss(g, "mse", nn_mse(g, s->out, nn_input1(g, "target", width)), 1);
}

// A concat of any number of parts has them in their order, and each its own gradient.
TEST(nn, exec_concat_of_many) {
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1, .train = 1};
    nn_setup s;
    if (!nn_setup_graph(&s, build_many, nn_backend_ref(), &opt, NULL)) return;
    nn_check_gradient(&s, "concat of many", 40);
    const float* whole = nn_exec_output(s.exec, s.out);
    for (int i = 0, at = 0; i < MANY; i++)
        for (int k = 0; k < 1 + i % 3; k++, at++)
            EXPECT(whole[at] == nn_exec_output(s.exec, many_part[i])[k]);
    nn_setup_free(&s);
}

// A run with memory reused as soon as possible (no backward), with everything kept for the backward
// pass, and with all shards kept gives the same outputs and losses to the bit.
TEST(nn, exec_memory_reuse) {
    const nn_backend* backend[] = {nn_backend_ref(), nn_backend_cpu()};
    for (int b = 0; b < 2; b++) {
        for (int top = 0; top < 2; top++) {
            nn_exec_options lean = {.batch = 7, .shard = 3, .lanes = 2}, full = lean;
            full.train = 1;
            nn_setup s, t;
            nn_setup_fn build = top ? build_network_top : build_network;
            if (!nn_setup_graph(&s, build, backend[b], &lean, NULL)) return;
            if (nn_setup_graph(&t, build, backend[b], &full, NULL)) {
                EXPECT_INT(nn_exec_forward(s.exec, 7, nn_case_fill, NULL), FIRM_OK);
                EXPECT_INT(nn_exec_gradient(t.exec, nn_case_fill, NULL), FIRM_OK);
                const float *x = nn_exec_output(s.exec, s.out), *y = nn_exec_output(t.exec, t.out);
                for (int i = 0; i < 7 * nn_size(s.graph, s.out); i++) EXPECT_NEAR(x[i], y[i], 0);
                EXPECT_NEAR(nn_exec_loss(s.exec), nn_exec_loss(t.exec), 0);
                for (int i = 0; i < s.graph->terms; i++)
                    EXPECT_NEAR(nn_exec_term(s.exec, i), nn_exec_term(t.exec, i), 0);
                EXPECT(nn_exec_bytes(s.exec) < nn_exec_bytes(t.exec));
                // forward on the training exec, after a gradient run dirtied its memory
                EXPECT_INT(nn_exec_forward(t.exec, 7, nn_case_fill, NULL), FIRM_OK);
                EXPECT_NEAR(nn_exec_loss(t.exec), nn_exec_loss(s.exec), 0);
                nn_setup_free(&t);
            }
            nn_setup_free(&s);
        }
    }
}

// outputs taken early, of an input and of a reshape, are still there after many later ops
static void build_chain(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 2, (int[]){8, 8}), y = nn_mul(g, x, x), z = y;
    for (int i = 0; i < 6; i++) z = nn_gelu(g, z);
    s->out = y;
    nn_output(g, x);
    nn_output(g, y);
    nn_output(g, nn_reshape(g, y, 1, (int[]){64}));
    nn_output(g, z);
}

TEST(nn, exec_outputs_survive) {
    nn_exec_options opt = {.batch = 3, .shard = 2, .lanes = 1};
    nn_setup s;
    if (!nn_setup_graph(&s, build_chain, nn_backend_cpu(), &opt, NULL)) return;
    EXPECT_INT(nn_exec_forward(s.exec, 3, nn_case_fill, NULL), FIRM_OK);
    const nn_id* out = s.graph->output;
    const float *x = nn_exec_output(s.exec, out[0]), *flat = nn_exec_output(s.exec, out[2]);
    const float *y = nn_exec_output(s.exec, out[1]), *z = nn_exec_output(s.exec, out[3]);
    for (int i = 0; i < 3 * 64; i++) {
        EXPECT_NEAR(y[i], x[i] * x[i], 1e-6);
        EXPECT_NEAR(flat[i], y[i], 0);
        EXPECT(z[i] <= y[i]);
    }
    // in a chain of equal buffers reuse keeps the block far below one buffer per op
    EXPECT(nn_exec_bytes(s.exec) < (size_t)(2 * 64 * 6 + 3 * 64 * 4) * sizeof(float));
    nn_setup_free(&s);
}

// samples counted from *ctx on
static firm_status fill_later(void* ctx, const nn_feed* f) {
    nn_feed later = *f;
    later.first += *(const int*)ctx;
    return nn_case_fill(NULL, &later);
}

// more threads than lanes or shards, and a part batch
TEST(nn, exec_part_batches_and_threads) {
    pool* p = NULL;
    int skip = 0;
    firm_error err = {0};
    REQUIRE_OK(pool_create(3, &p, &err), err);
    for (int train = 0; train < 2; train++) {
        nn_exec_options opt = {.batch = 9, .shard = 4, .lanes = 1, .train = train};
        nn_setup s;
        float all[9 * 6];
        if (!nn_setup_graph(&s, build_network, nn_backend_cpu(), &opt, p)) break;
        EXPECT_INT(nn_exec_forward(s.exec, 9, nn_case_fill, NULL), FIRM_OK);
        EXPECT_INT(nn_size(s.graph, s.out), 6);
        memcpy(all, nn_exec_output(s.exec, s.out), sizeof all);
        for (int count = 1; count < 9; count++) {
            EXPECT_INT(nn_exec_forward(s.exec, count, nn_case_fill, NULL), FIRM_OK);
            EXPECT(nn_nmse(nn_exec_output(s.exec, s.out), all, (size_t)count * 6) < 1e-10);
            EXPECT(isfinite(nn_exec_loss(s.exec)) && nn_exec_loss(s.exec) > 0);
        }
        // the loss of one sample is that sample's error, not a ninth of it: mean of n = sum of ones
        // / n
        double sum = 0;
        for (int i = 0; i < 2; i++) {
            skip = i;
            EXPECT_INT(nn_exec_forward(s.exec, 1, fill_later, &skip), FIRM_OK);
            sum += nn_exec_loss(s.exec);
        }
        EXPECT_INT(nn_exec_forward(s.exec, 2, nn_case_fill, NULL), FIRM_OK);
        EXPECT_NEAR(nn_exec_loss(s.exec), sum / 2, 1e-5);
        nn_setup_free(&s);
    }
    pool_free(p);
}

TEST(nn, exec_runs_without_allocation) {
    pool* p = NULL;
    firm_error err = {0};
    REQUIRE_OK(pool_create(2, &p, &err), err);
    const nn_backend* backend[] = {nn_backend_ref(), nn_backend_cpu()};
    for (int b = 0; b < 2; b++) {
        nn_exec_options opt = {.batch = 7, .shard = 2, .lanes = 2, .train = 1};
        nn_setup s;
        nn_adamw* a = NULL;
        nn_adamw_options o = nn_adamw_default();
        if (!nn_setup_graph(&s, build_network_top, backend[b], &opt, p)) break;
        REQUIRE_OK(adamw_of(s.exec, &o, NULL, &a, &err), err);
        int64_t before = mem_count();
        for (int i = 0; i < 3; i++) {
            EXPECT_INT(nn_exec_forward(s.exec, 5, nn_case_fill, NULL), FIRM_OK);
            EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
            nn_adamw_step(a, s.store, p);
            nn_exec_pull_params(s.exec);
        }
        EXPECT_INT(mem_count() - before, 0);
        nn_adamw_free(a);
        nn_setup_free(&s);
    }
    pool_free(p);
}

// ---- fill
// ----------------------------------------------------------------------------------------

typedef struct fill_log {
    int bad;       // sample whose fill fails, -1: none
    int seen[16];  // how often each sample was asked for
} fill_log;

static firm_status fill_or_fail(void* ctx, const nn_feed* f) {
    fill_log* log = ctx;
    for (int i = f->first; i < f->first + f->count; i++) {
        log->seen[i]++;
        if (i == log->bad) return FIRM_E_IO;
    }
    return nn_case_fill(NULL, f);
}

TEST(nn, exec_fill_errors_propagate) {
    nn_setup_fn build[] = {build_network, build_network_top};
    for (int b = 0; b < 2; b++) {
        nn_exec_options opt = {.batch = 7, .shard = 2, .lanes = 2, .train = 1};
        nn_setup s;
        if (!nn_setup_graph(&s, build[b], nn_backend_cpu(), &opt, NULL)) return;
        for (int bad = 0; bad < 7; bad++) {
            fill_log log = {.bad = bad};
            EXPECT_INT(nn_exec_forward(s.exec, 7, fill_or_fail, &log), FIRM_E_IO);
            EXPECT_INT(nn_exec_gradient(s.exec, fill_or_fail, &log), FIRM_E_IO);
            EXPECT_INT(nn_exec_forward(s.exec, 7, nn_case_fill, NULL), FIRM_OK);  // not remembered
        }
        fill_log log = {.bad = -1};
        EXPECT_INT(nn_exec_gradient(s.exec, fill_or_fail, &log), FIRM_OK);
        for (int i = 0; i < 16; i++) EXPECT_INT(log.seen[i], i < 7);  // each sample exactly once
        nn_setup_free(&s);
    }
}

// ---- trained and frozen
// --------------------------------------------------------------------------

TEST(nn, exec_frozen_parameters) {
    firm_error err = {0};
    nn_exec_options opt = {.batch = 5, .shard = 2, .lanes = 2, .train = 1};
    nn_setup all = {0}, part = {0};
    if (!nn_setup_graph(&all, build_network, nn_backend_cpu(), &opt, NULL)) return;
    // a second graph on the same sealed store that trains the heads alone
    nn_exec* heads = NULL;
    REQUIRE_OK(nn_graph_create(all.store, &part.graph, &err), err);
    nn_train(part.graph, "head.y");
    nn_train(part.graph, "head.lv");
    build_network(part.graph, &part);
    REQUIRE_OK(nn_exec_create(part.graph, nn_backend_cpu(), &opt, NULL, &heads, &err), err);
    EXPECT_INT(nn_exec_gradient(all.exec, nn_case_fill, NULL), FIRM_OK);
    EXPECT_INT(nn_exec_gradient(heads, nn_case_fill, NULL), FIRM_OK);
    const nn_trained *every, *some;
    int every_count = nn_exec_trained(all.exec, &every), some_count = nn_exec_trained(heads, &some);
    EXPECT_INT(every_count, all.store->entries);
    EXPECT_INT(some_count, 4);
    EXPECT(nn_exec_bytes(heads) < nn_exec_bytes(all.exec));
    for (int i = 0; i < some_count; i++) {
        const nn_entry* e = &all.store->entry[some[i].entry];
        EXPECT(strncmp(e->name, "head.y", 6) == 0 || strncmp(e->name, "head.lv", 7) == 0);
        EXPECT_INT(some[i].count, e->count);
        for (int j = 0; j < every_count; j++) {
            if (every[j].entry != some[i].entry) continue;
            EXPECT(memcmp(nn_exec_grad(heads) + some[i].offset,
                          nn_exec_grad(all.exec) + every[j].offset, e->count * sizeof(float)) == 0);
        }
    }
    nn_exec_free(heads);
    nn_graph_free(part.graph);
    nn_setup_free(&all);
}

static void build_untrained(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 3);
    s->out = nn_mul(g, x, x);
    nn_output(g, s->out);
    nn_loss(g, "square", s->out, 2);
}

TEST(nn, exec_trains_nothing) {
    nn_exec_options opt = {.batch = 3, .shard = 2, .lanes = 2, .train = 1};
    nn_setup s;
    if (!nn_setup_graph(&s, build_untrained, nn_backend_cpu(), &opt, NULL)) return;
    EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
    EXPECT_INT(nn_exec_trained(s.exec, NULL), 0);
    EXPECT_INT(nn_exec_grad_count(s.exec), 0);
    double sum = 0;
    for (int i = 0; i < 9; i++) sum += nn_exec_output(s.exec, s.out)[i];
    EXPECT_NEAR(nn_exec_loss(s.exec), 2 * sum / 9, 1e-6);
    nn_setup_free(&s);
}

// ---- memory
// --------------------------------------------------------------------------------------

// Building a graph, sealing, creating exec and optimiser, with the n-th allocation failing. Leaks
// are the asan preset's to find.
TEST(nn, exec_out_of_memory) {
    const nn_backend* backend[] = {nn_backend_ref(), nn_backend_cpu()};
    for (int b = 0; b < 2; b++) {
        int failures = 0, in_exec = 0;
        for (int n = 0;; n++) {
            nn_exec_options opt = {.batch = 4, .shard = 2, .lanes = 2, .train = 1};
            nn_adamw_options o = nn_adamw_default();
            nn_setup s = {0};
            nn_adamw* a = NULL;
            firm_error err = {0};
            mem_fail_after(n);
            firm_status st = nn_store_create(&s.store, &err);
            if (st == FIRM_OK) st = nn_graph_create(s.store, &s.graph, &err);
            if (st == FIRM_OK) {
                nn_train(s.graph, "");
                build_network_top(s.graph, &s);
                st = nn_store_seal(s.store, 1, &err);
            }
            if (st == FIRM_OK) {
                st = nn_exec_create(s.graph, backend[b], &opt, NULL, &s.exec, &err);
                EXPECT((st == FIRM_OK) == (s.exec != NULL));
                in_exec += st != FIRM_OK;
            }
            if (st == FIRM_OK) st = adamw_of(s.exec, &o, NULL, &a, &err);
            mem_fail_after(-1);
            nn_adamw_free(a);
            nn_setup_free(&s);
            if (st == FIRM_OK) break;
            EXPECT_INT(st, FIRM_E_MEMORY);
            EXPECT(err.message[0] != 0);
            if (++failures > 1000) break;
        }
        EXPECT(in_exec > 10);
        EXPECT(failures < 1000);
    }
}

// random lifetimes: what lives at the same time never overlaps, and nothing is wasted when nothing
// can be
TEST(nn, memory_plan) {
    enum { COUNT = 60 };
    for (int round = 0; round < 50; round++) {
        nn_span s[COUNT];
        uint64_t h = (uint64_t)round * 0x9E3779B97F4A7C15u + 1;
        size_t sum = 0, peak = 0;
        for (int i = 0; i < COUNT; i++) {
            h = h * 6364136223846793005u + 1442695040888963407u;
            int start = (int)(h >> 33) % 40 - 1, length = (int)(h >> 40) % 12 - 1;
            s[i] = (nn_span){.start = start, .end = start + length, .bytes = (h >> 45) % 3000};
            if (length < 0) s[i].bytes = 0;
            sum += (s[i].bytes + 63) / 64 * 64;
        }
        size_t total = nn_memory_plan(s, COUNT);
        for (int i = 0; i < COUNT; i++) {
            EXPECT_INT(s[i].offset % 64, 0);
            EXPECT(s[i].offset + s[i].bytes <= total);
            for (int j = 0; j < i; j++) {
                int together = s[i].start <= s[j].end && s[j].start <= s[i].end;
                int apart = s[i].offset + s[i].bytes <= s[j].offset ||
                            s[j].offset + s[j].bytes <= s[i].offset || !s[i].bytes || !s[j].bytes;
                if (together && !apart)
                    test_fail(__FILE__, __LINE__, "spans %d and %d overlap", i, j);
            }
        }
        for (int step = -1; step < 52; step++) {
            size_t live = 0;
            for (int i = 0; i < COUNT; i++)
                if (s[i].start <= step && step <= s[i].end) live += (s[i].bytes + 63) / 64 * 64;
            if (live > peak) peak = live;
        }
        EXPECT(total >= peak && total <= sum);
        EXPECT((double)total <=
               1.5 * (double)peak);  // greedy placement is near the best in practice
    }
    EXPECT_INT(nn_memory_plan(NULL, 0), 0);
    mem_fail_after(0);
    nn_span one = {.start = 0, .end = 0, .bytes = 8};
    size_t none = nn_memory_plan(&one, 1);
    mem_fail_after(-1);
    EXPECT(none == SIZE_MAX);
}
