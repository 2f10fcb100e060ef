// whole_test.c - gradients of large weights over the whole batch: against ref, for any number of
// threads, and with a weight that several steps share. The operands are in the shards' slots, which
// a loss that looks at the worst samples keeps, or copied aside.
#include "nn/whole.h"

#include <math.h>
#include <string.h>

#include "cases.h"
#include "check.h"
#include "core/mem.h"

enum { BATCH = 23, SHARD = 4 };

// two steps through one weight of 150 x 200, and a small one
static nn_id build_error(nn_graph* g, nn_setup* s) {
    nn_id x = nn_case_leaf(g, "x", 0.5f, 1, (int[]){150});
    for (int step = 0; step < 2; step++) {
        nn_id h = nn_gelu(g, nn_linear(g, "up", x, 200, 1));
        x = nn_add(g, x, nn_linear(g, "down", h, 150, 0.5f));
    }
    nn_id y = nn_linear(g, "out", x, 3, 1);
    s->out = y;
    nn_output(g, y);
    return nn_mse(g, y, nn_input1(g, "target", 3));
}

static void build(nn_graph* g, nn_setup* s) {
    nn_loss_topmean(g, "tail", build_error(g, s), 1, 0.25f);
}

static void build_aside(nn_graph* g, nn_setup* s) {
    nn_loss(g, "all", build_error(g, s), 1);
}

static int run(nn_setup* s) {
    return nn_exec_gradient(s->exec, nn_case_fill, NULL) == FIRM_OK;
}

static void compare_with_ref(void (*graph)(nn_graph* g, nn_setup* s)) {
    nn_exec_options opt = {.batch = BATCH, .shard = SHARD, .lanes = 3, .train = 1};
    nn_setup ref, cpu;
    if (!nn_setup_graph(&ref, graph, nn_backend_ref(), &opt, NULL)) return;
    if (nn_setup_graph(&cpu, graph, nn_backend_cpu(), &opt, NULL)) {
        EXPECT(run(&ref) && run(&cpu) && run(&cpu));  // a second time: nothing is left over
        const float *a = nn_exec_grad(cpu.exec), *b = nn_exec_grad(ref.exec);
        double most = 0, size = 0;
        for (size_t i = 0; i < nn_exec_grad_count(cpu.exec); i++) {
            most = fmax(most, fabs((double)a[i] - (double)b[i]));
            size = fmax(size, fabs((double)b[i]));
        }
        EXPECT(size > 1e-3);
        EXPECT(most < 1e-5 * size);
        nn_setup_free(&cpu);
    }
    nn_setup_free(&ref);
}

TEST(nn, whole_gradients_equal_ref) {
    compare_with_ref(build);
    compare_with_ref(build_aside);
}

static void compare_threads(void (*graph)(nn_graph* g, nn_setup* s)) {
    nn_exec_options opt = {.batch = BATCH, .shard = SHARD, .lanes = 3, .train = 1};
    nn_setup one, many;
    pool* p;
    firm_error err;
    REQUIRE_OK(pool_create(5, &p, &err), err);
    if (nn_setup_graph(&one, graph, nn_backend_cpu(), &opt, NULL)) {
        if (nn_setup_graph(&many, graph, nn_backend_cpu(), &opt, p)) {
            EXPECT(run(&one) && run(&many));
            EXPECT(memcmp(nn_exec_grad(one.exec), nn_exec_grad(many.exec),
                          nn_exec_grad_count(one.exec) * sizeof(float)) == 0);
            nn_setup_free(&many);
        }
        nn_setup_free(&one);
    }
    pool_free(p);
}

TEST(nn, whole_gradients_have_the_same_bits_on_any_threads) {
    compare_threads(build);
    compare_threads(build_aside);
}

// Copied aside: only products whose operands are few beside their weight; 12 samples are too many.
TEST(nn, whole_operands_are_copied_where_they_are_few) {
    nn_exec_options opt = {.batch = BATCH, .shard = SHARD, .lanes = 3, .train = 1};
    nn_setup s;
    firm_error err;
    nn_layout at;
    if (!nn_setup_graph(&s, build_aside, nn_backend_cpu(), &opt, NULL)) return;
    for (int rows = SHARD; rows <= 12; rows += 8) {
        REQUIRE_OK(
            nn_layout_make(s.graph, nn_backend_cpu(), rows, NN_LAYOUT_ASIDE, NULL, &at, &err), err);
        EXPECT_INT(at.aside_bytes, rows == SHARD ? 4 * (150 + 200) * sizeof(float) : 0);
        nn_layout_free(&at);
    }
    nn_setup_free(&s);
}

TEST(nn, whole_tiles_cover_every_weight_once) {
    nn_exec_options opt = {.batch = BATCH, .shard = SHARD, .lanes = 3, .train = 1};
    nn_setup s;
    firm_error err;
    nn_layout at;
    nn_whole w;
    if (!nn_setup_graph(&s, build, nn_backend_cpu(), &opt, NULL)) return;
    REQUIRE_OK(nn_layout_make(s.graph, nn_backend_cpu(), SHARD, NN_LAYOUT_WHOLE, NULL, &at, &err),
               err);
    REQUIRE_OK(nn_whole_make(s.graph, &at, &w, &err), err);
    int area = 0;
    for (int i = 0; i < w.tiles; i++) area += w.tile[i].rows * w.tile[i].cols;
    EXPECT_INT(area, 2 * 150 * 200);
    EXPECT_INT(w.tiles, 3 + 2 * 2);
    nn_whole_free(&w);
    nn_layout_free(&at);
    nn_setup_free(&s);
}
