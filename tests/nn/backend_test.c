// backend_test.c - the cpu backend against ref for every op, forward and backward, in odd and real
// shapes; the same bits for any number of threads; the same numbers for any cut into shards.
#define _GNU_SOURCE  // setenv
#include "cases.h"
#include "check.h"
#include "core/mem.h"
#include "core/pool.h"
#include "nn/cpu/cpu.h"
#include "nn/cpu/gemm.h"
#include "nn/cpu/loops.h"

// normalised mean squared error allowed for float32, a relative error of 1e-5
static const double NMSE = 1e-10;

static int run(nn_setup* s, int train) {
    firm_status st = train ? nn_exec_gradient(s->exec, nn_case_fill, NULL)
                           : nn_exec_forward(s->exec, s->batch, nn_case_fill, NULL);
    EXPECT_INT(st, FIRM_OK);
    return st == FIRM_OK;
}

static size_t out_count(const nn_setup* s) {
    return (size_t)s->batch * (size_t)nn_size(s->graph, s->out);
}

static void expect_close(const char* what, const char* part, const float* got, const float* want,
                         size_t count) {
    double error = nn_nmse(got, want, count), allowed = NMSE * test_tolerance_scale();
    if (!(error <= allowed)) {
        test_fail(__FILE__, __LINE__, "%s: %s differs, nmse %.3g > %.3g", what, part, error,
                  allowed);
    }
}

// outputs and, after a gradient run, every parameter's gradient
static void expect_same_results(const char* what, nn_setup* got, nn_setup* want, int train) {
    expect_close(what, "output", nn_exec_output(got->exec, got->out),
                 nn_exec_output(want->exec, want->out), out_count(want));
    if (!train) return;
    double loss = nn_exec_loss(want->exec);
    EXPECT_NEAR(nn_exec_loss(got->exec), loss, 1e-5 * fmax(fabs(loss), 1));
    const nn_trained* list;
    int count = nn_exec_trained(want->exec, &list);
    EXPECT(count > 0);
    for (int i = 0; i < count; i++) {
        expect_close(what, want->store->entry[list[i].entry].name,
                     nn_exec_grad(got->exec) + list[i].offset,
                     nn_exec_grad(want->exec) + list[i].offset, list[i].count);
    }
}

static int has_gradient(const nn_case* c) {
    return nn_backend_ref()->kernel[c->op].backward != NULL;
}

static void compare_case(const nn_case* c, int flags) {
    int train = (flags & NN_CASE_TRAIN) != 0;
    nn_setup ref, cpu;
    if (!nn_setup_case(&ref, c, nn_backend_ref(), NULL, c->shard, flags)) return;
    if (nn_setup_case(&cpu, c, nn_backend_cpu(), NULL, c->shard, flags)) {
        if (run(&ref, train) && run(&cpu, train)) {
            expect_same_results(nn_case_text(c), &cpu, &ref, train);
            // a second run starts from used memory and must not remember the first
            if (run(&cpu, train)) expect_same_results("again", &cpu, &ref, train);
        }
        nn_setup_free(&cpu);
    }
    nn_setup_free(&ref);
}

TEST(nn, backend_cpu_equals_ref) {
    for (int i = 0; i < nn_case_count(); i++) {
        int train = has_gradient(&nn_cases[i]) ? NN_CASE_TRAIN : 0;
        compare_case(&nn_cases[i], train);
        if (train) compare_case(&nn_cases[i], NN_CASE_TRAIN | NN_CASE_SHARED);
    }
}

// The loops of other instruction sets than the best; of all, a sanitizer follows the plain ones.
TEST(nn, backend_cpu_equals_ref_without_the_best_instructions) {
    static const char* const variant[] = {"plain", "avx2"};
    for (int v = 0; v < 2; v++) {
        setenv("FIRM_SIMD", variant[v], 1);
        nn_cpu_choose();
        if (strcmp(nn_loops_get()->name, variant[v]) == 0)
            for (int i = 0; i < nn_case_count(); i++)
                compare_case(&nn_cases[i], has_gradient(&nn_cases[i]) ? NN_CASE_TRAIN : 0);
        unsetenv("FIRM_SIMD");
        nn_cpu_choose();
    }
}

// the cases' numbers, but logits in the hundreds
static firm_status fill_large_logits(void* ctx, const nn_feed* feed) {
    firm_status st = nn_case_fill(ctx, feed);
    for (int id = 0; id < feed->graph->tensors; id++) {
        const nn_tensor* t = &feed->graph->tensor[id];
        if (t->kind != NN_INPUT || strcmp(t->name, "logits") != 0) continue;
        for (size_t k = 0; k < (size_t)feed->count * (size_t)t->size; k++)
            nn_feed_real(feed, id)[k] *= 300;
    }
    return st;
}

// exp(300) is no float32: a softmax takes its largest logit away first
TEST(nn, softpool_of_large_logits_equals_ref) {
    nn_setup ref, cpu;
    const nn_case* c = nn_cases;
    while (c->op != NN_SOFTPOOL) c++;
    if (!nn_setup_case(&ref, c, nn_backend_ref(), NULL, c->shard, 0)) return;
    if (nn_setup_case(&cpu, c, nn_backend_cpu(), NULL, c->shard, 0)) {
        EXPECT_INT(nn_exec_forward(ref.exec, ref.batch, fill_large_logits, NULL), FIRM_OK);
        EXPECT_INT(nn_exec_forward(cpu.exec, cpu.batch, fill_large_logits, NULL), FIRM_OK);
        expect_same_results(nn_case_text(c), &cpu, &ref, 0);
        nn_setup_free(&cpu);
    }
    nn_setup_free(&ref);
}

// an op that mixes up which of its inputs has a gradient already shows only when one has
TEST(nn, backend_inputs_add_each_by_its_own_flag) {
    for (int i = 0; i < nn_case_count(); i++)
        for (int input = 0; input < 3 && has_gradient(&nn_cases[i]); input++)
            if (!nn_cases[i].large)
                compare_case(&nn_cases[i], NN_CASE_TRAIN | NN_CASE_SHARED_ONE << input);
}

TEST(nn, backend_bits_independent_of_threads) {
    pool* p[3] = {0};
    firm_error err = {0};
    for (int i = 0; i < 3; i++) REQUIRE_OK(pool_create(i + 1, &p[i], &err), err);
    for (int i = 0; i < nn_case_count(); i++) {
        const nn_case* c = &nn_cases[i];
        int train = has_gradient(c);
        nn_setup one, more;
        if (!nn_setup_case(&one, c, nn_backend_cpu(), NULL, 1, train)) break;
        int ready = run(&one, train);
        for (int j = 0; j < 3 && ready; j++) {
            if (!nn_setup_case(&more, c, nn_backend_cpu(), p[j], 1, train)) break;
            if (run(&more, train)) {
                int same =
                    memcmp(nn_exec_output(more.exec, more.out), nn_exec_output(one.exec, one.out),
                           out_count(&one) * sizeof(float)) == 0;
                if (train) {
                    same &= nn_exec_loss(more.exec) == nn_exec_loss(one.exec);
                    same &= memcmp(nn_exec_grad(more.exec), nn_exec_grad(one.exec),
                                   nn_exec_grad_count(one.exec) * sizeof(float)) == 0;
                }
                if (!same) {
                    test_fail(__FILE__, __LINE__, "%s: other bits on %d threads", nn_case_text(c),
                              j + 1);
                }
            }
            nn_setup_free(&more);
        }
        nn_setup_free(&one);
    }
    for (int i = 0; i < 3; i++) pool_free(p[i]);
}

// one sample at a time, uneven shards, the whole batch, and a shard larger than the batch
TEST(nn, backend_independent_of_shards) {
    for (int i = 0; i < nn_case_count(); i++) {
        const nn_case* c = &nn_cases[i];
        int train = has_gradient(c), shards[] = {1, (c->batch + 1) / 2, c->batch, c->batch + 3};
        nn_setup whole, cut;
        if (!nn_setup_case(&whole, c, nn_backend_cpu(), NULL, c->batch, train)) return;
        int ready = run(&whole, train);
        for (size_t j = 0; j < sizeof shards / sizeof *shards && ready; j++) {
            if (!nn_setup_case(&cut, c, nn_backend_cpu(), NULL, shards[j], train)) break;
            if (run(&cut, train)) expect_same_results(nn_case_text(c), &cut, &whole, train);
            nn_setup_free(&cut);
        }
        nn_setup_free(&whole);
    }
}

// an input of the op without a gradient of its own: only the parameters' gradients are computed
static void build_frozen_input(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 3, (int[]){4, 4, 6});
    nn_id y = nn_conv(g, "conv", x, 6, 3, 1, 1);
    nn_id up = nn_convt(g, "up", x, 6, 3, 1, 1);
    nn_id ln = nn_layernorm(g, "ln", x), gn = nn_groupnorm(g, "gn", x, 2);
    nn_id lin = nn_linear(g, "lin", x, 6, 1), free = nn_mul(g, lin, x);
    nn_id mix = nn_add(g, nn_add(g, nn_add(g, y, ln), nn_add(g, gn, free)), nn_sub(g, x, up));
    nn_id all = nn_concat(g, 2, 2, (nn_id[]){mix, x});
    nn_id flat = nn_reshape(g, all, 1, (int[]){4 * 4 * 12});
    s->out = flat;
    nn_output(g, flat);
    nn_id target = nn_input1(g, "unit", 4 * 4 * 12);
    nn_loss(g, "mse", nn_mse(g, target, flat), 1);
    nn_loss(g, "bce", nn_bce(g, flat, target, 2), 1);
    nn_loss(g, "nll", nn_nll(g, target, flat, target), 1);
}

TEST(nn, backend_inputs_without_gradient) {
    nn_exec_options opt = {.batch = 5, .shard = 2, .lanes = 2, .train = 1};
    nn_setup ref, cpu;
    if (!nn_setup_graph(&ref, build_frozen_input, nn_backend_ref(), &opt, NULL)) return;
    if (nn_setup_graph(&cpu, build_frozen_input, nn_backend_cpu(), &opt, NULL)) {
        nn_check_gradient(&ref, "inputs without gradient", 40);
        if (run(&ref, 1) && run(&cpu, 1)) expect_same_results("frozen inputs", &cpu, &ref, 1);
        nn_setup_free(&cpu);
    }
    nn_setup_free(&ref);
}

// hard values: logits and exponents far out, equal scores, constant rows
static void build_extremes(nn_graph* g, nn_setup* s) {
    int n = 8;
    static const uint8_t look[] = {1, 1, 1, 1};
    nn_id x = nn_input1(g, "x", n), big = nn_param(g, "scale", NN_INIT_NORMAL, 30, 1, &n);
    nn_id far = nn_addp(g, nn_mul(g, x, x), big);
    nn_id parts[] = {nn_gelu(g, far), nn_clamp(g, far, -3, 3), nn_pairnorm(g, far, 4)};
    nn_id all = nn_concat(g, 0, 3, parts);
    nn_id flat = nn_slice(g, nn_reshape(g, all, 2, (int[]){2, 12}), 1, 0, 12);
    nn_id seen = nn_attention(g, flat, 2, look);
    nn_id joint = nn_concat(g, 0, 2, (nn_id[]){nn_reshape(g, seen, 1, &n), far});
    s->out = joint;
    nn_output(g, joint);
    nn_loss(g, "bce", nn_bce(g, joint, nn_input1(g, "unit", 16), 2), 1);
}

TEST(nn, backend_extremes) {
    nn_exec_options opt = {.batch = 6, .shard = 4, .lanes = 2, .train = 1};
    nn_setup ref, cpu;
    if (!nn_setup_graph(&ref, build_extremes, nn_backend_ref(), &opt, NULL)) return;
    if (nn_setup_graph(&cpu, build_extremes, nn_backend_cpu(), &opt, NULL)) {
        if (run(&ref, 1) && run(&cpu, 1)) {
            EXPECT(isfinite(nn_exec_loss(cpu.exec)));
            expect_same_results("extremes", &cpu, &ref, 1);
        }
        nn_setup_free(&cpu);
    }
    nn_setup_free(&ref);
}
