// gradcheck_test.c - the reference backward pass of every op against central finite differences in
// double; loss terms; gradients of tensors that are used more than once.
#include "cases.h"
#include "check.h"
#include "core/stats.h"

static int is_image_op(nn_op op) {
    return op == NN_PATCHES || op == NN_PATCHDIFF || op == NN_PATCHMASK;
}

// every op is in the list, in several shapes, and has the kernels it needs
TEST(nn, cases_cover_every_op) {
    for (int op = 0; op < NN_OP_COUNT; op++) {
        int small = 0, large = 0;
        for (int i = 0; i < nn_case_count(); i++) {
            if ((int)nn_cases[i].op != op) continue;
            small += !nn_cases[i].large;
            large += nn_cases[i].large;
        }
        if (small + large < 2 || small < 1) {
            test_fail(__FILE__, __LINE__, "op %s has %d small and %d large cases in cases.c",
                      nn_op_name(op), small, large);
        }
        const nn_kernel* k = &nn_backend_ref()->kernel[op];
        if (!k->forward || (k->backward == NULL) != is_image_op(op)) {
            test_fail(__FILE__, __LINE__, "op %s: kernels missing in ref", nn_op_name(op));
        }
    }
}

TEST(nn, gradcheck_ops) {
    for (int i = 0; i < nn_case_count(); i++) {
        const nn_case* c = &nn_cases[i];
        nn_setup s;
        if (c->large || is_image_op(c->op)) continue;
        for (int shared = 0; shared <= NN_CASE_SHARED; shared += NN_CASE_SHARED) {
            int flags = NN_CASE_TRAIN | shared;
            if (!nn_setup_case(&s, c, nn_backend_ref(), NULL, c->shard, flags)) return;
            int runs = s.graph->node[s.graph->tensor[s.out].producer].op == c->op;
            if (!runs) test_fail(__FILE__, __LINE__, "case %d does not end in its op", i);
            nn_check_gradient(&s, nn_case_text(c), 400);
            nn_setup_free(&s);
        }
    }
}

// a pair shorter than 1e-6 is divided by 1e-6, forward and backward
static void build_short_pair(nn_graph* g, nn_setup* s) {
    int n = 4;
    nn_id x = nn_input1(g, "x", n);
    nn_id zero = nn_addp(g, nn_sub(g, x, x), nn_param(g, "p", NN_INIT_NORMAL, 1e-7f, 1, &n));
    s->out = nn_pairnorm(g, zero, 2);
    nn_output(g, s->out);
    nn_loss(g, "sum", s->out, 4);
}

TEST(nn, gradcheck_short_pair) {
    nn_setup s;
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1, .train = 1};
    if (!nn_setup_graph(&s, build_short_pair, nn_backend_ref(), &opt, NULL)) return;
    EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
    for (int i = 0; i < 4; i++) {
        EXPECT_NEAR(nn_exec_ref_grad(s.exec)[i], 1e6, 1);
        EXPECT_NEAR(nn_exec_output(s.exec, s.out)[i], s.store->value[i] * 1e6, 1e-6);
    }
    nn_setup_free(&s);
}

// ---- loss terms
// ----------------------------------------------------------------------------------

static void build_terms(nn_graph* g, nn_setup* s) {
    nn_id x = nn_case_leaf(g, "x", 0.5f, 1, (int[]){3});
    nn_id y = nn_case_leaf(g, "y", 0.5f, 1, (int[]){3});
    nn_id error = nn_mse(g, nn_mul(g, x, y), y);
    s->out = error;
    nn_output(g, error);
    nn_loss(g, "mean", nn_gelu(g, nn_mul(g, x, y)), 0.7f);  // a term of several elements per sample
    nn_loss_topmean(g, "top", error, 1.3f, 0.4f);
    nn_loss_topmean(g, "watched", nn_mse(g, x, y), 0, 0.2f);  // weight 0: only reported
}

TEST(nn, gradcheck_loss_terms) {
    enum { BATCH = 10 };
    for (int shard = 1; shard <= 4; shard++) {
        nn_setup s;
        nn_exec_options opt = {.batch = BATCH, .shard = shard, .lanes = 3, .train = 1};
        if (!nn_setup_graph(&s, build_terms, nn_backend_ref(), &opt, NULL)) return;
        nn_check_gradient(&s, "mean and topmean", 100);
        // the value of TopMean: the largest ceil(0.4 * 10) = 4 of the errors, averaged
        float error[BATCH];
        memcpy(error, nn_exec_output(s.exec, s.out), sizeof error);
        stats_sort_floats(error, BATCH);
        EXPECT_NEAR(nn_exec_term(s.exec, 1), (error[9] + error[8] + error[7] + error[6]) / 4.0,
                    1e-6);
        EXPECT(nn_exec_term(s.exec, 2) > 0);
        EXPECT_NEAR(nn_exec_loss(s.exec),
                    (double)0.7f * nn_exec_term(s.exec, 0) + (double)1.3f * nn_exec_term(s.exec, 1),
                    1e-12);
        nn_setup_free(&s);
    }
}

// shares whose float is a little above the decimal must not take one more element
static float top_share;

static void build_share(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 1);
    int one = 1;
    s->out = nn_addp(g, x, nn_param(g, "p", NN_INIT_ZERO, 0, 1, &one));
    nn_output(g, s->out);
    nn_loss_topmean(g, "top", s->out, 1, top_share);
}

TEST(nn, topmean_counts) {
    static const struct {
        float share;
        int batch, count;
    } table[] = {
        {0.1f, 10, 1}, {0.2f, 5, 1},  {0.2f, 6, 2},  {0.3f, 10, 3},
        {1, 7, 7},     {0.01f, 7, 1}, {0.7f, 10, 7},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        nn_setup s;
        top_share = table[i].share;
        nn_exec_options opt = {.batch = table[i].batch, .shard = 4, .lanes = 2, .train = 1};
        if (!nn_setup_graph(&s, build_share, nn_backend_ref(), &opt, NULL)) return;
        EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
        float x[16];
        double want = 0;
        memcpy(x, nn_exec_output(s.exec, s.out), (size_t)table[i].batch * sizeof *x);
        stats_sort_floats(x, (size_t)table[i].batch);
        for (int j = 1; j <= table[i].count; j++)
            want += (double)x[table[i].batch - j] / table[i].count;
        EXPECT_NEAR(nn_exec_loss(s.exec), want, 1e-6);
        EXPECT_NEAR(nn_exec_ref_grad(s.exec)[0], 1, 1e-7);  // the chosen ones share a weight of one
        nn_setup_free(&s);
    }
}

// ---- accumulation
// --------------------------------------------------------------------------------

// y is used by two ops and, reshaped, by two more; one op takes it twice; the loss sees it as well
static void build_shared(nn_graph* g, nn_setup* s) {
    nn_id y = nn_gelu(g, nn_case_leaf(g, "x", 0.5f, 2, (int[]){2, 3}));
    nn_id w = nn_param(g, "w", NN_INIT_NORMAL, 0.5f, 2, (int[]){3, 4});
    nn_id shared = nn_linear(g, "again", y, 3, 1);
    nn_id flat = nn_reshape(g, y, 1, (int[]){6});
    nn_id tall = nn_reshape(g, flat, 2, (int[]){3, 2});               // an alias of an alias
    nn_id twice = nn_linear(g, "again", nn_mul(g, y, shared), 3, 1);  // the same weights again
    nn_id parts[] = {flat, nn_reshape(g, twice, 1, (int[]){6}), flat, nn_mean(g, tall)};
    nn_id all = nn_concat(g, 0, 4, parts);
    nn_id wide = nn_op_linear(g, nn_add(g, y, y), w, NN_NONE);
    s->out = all;
    nn_output(g, all);
    nn_loss(g, "all", nn_mul(g, all, nn_input1(g, "r", nn_size(g, all))), 1);
    nn_loss(g, "wide", nn_mul(g, wide, wide), 0.5f);
    nn_loss(g, "y itself", y, 0.3f);
}

TEST(nn, gradcheck_shared_tensors) {
    nn_setup s;
    nn_exec_options opt = {.batch = 3, .shard = 2, .lanes = 2, .train = 1};
    if (!nn_setup_graph(&s, build_shared, nn_backend_ref(), &opt, NULL)) return;
    nn_check_gradient(&s, "shared tensors", 100);
    nn_setup_free(&s);
}
