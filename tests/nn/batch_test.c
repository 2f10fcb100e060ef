// batch_test.c - ops that look at the whole batch or draw at random: running statistics and the
// deployed form of batch norm, SIGReg's known values, dropout's share and keys; the same bits for
// any number of threads.
#include "cases.h"
#include "check.h"
#include "core/rng.h"

// ---- batch norm ---------------------------------------------------------------------------------

static void build_norm(nn_graph* g, nn_setup* s) {
    s->out = nn_batchnorm(g, "bn", nn_case_leaf(g, "x", 0.5f, 2, (int[]){3, 4}));
    nn_output(g, s->out);
    nn_loss(g, "loss", nn_mul(g, s->out, nn_input(g, "r", 2, (int[]){3, 4})), 1);
}

static const float* entry(const nn_setup* s, const char* name) {
    return s->store->value + s->store->entry[nn_store_find(s->store, name)].offset;
}

// mean and biased variance of channel c over the batch, of what build_norm normalises
static void moments(const nn_setup* s, int batch, int c, double* mean, double* var) {
    const float* shift = entry(s, "x.p");
    double sum = 0, square = 0;
    float x[12];
    for (int i = 0; i < batch; i++) {
        rng_fill_normal(7, RNG_STREAM(RNG_TEST, rng_hash_text("x") >> 16), (uint64_t)i * 12, x, 12);
        for (int t = 0; t < 3; t++) {
            double v = (double)x[t * 4 + c] + (double)shift[t * 4 + c];
            sum += v;
            square += v * v;
        }
    }
    *mean = sum / (3 * batch);
    *var = square / (3 * batch) - *mean * *mean;
}

TEST(nn, batchnorm_normalises_the_whole_batch_and_keeps_running_statistics) {
    enum { BATCH = 7 };
    for (int shard = 1; shard <= BATCH; shard += 3) {
        nn_setup s;
        nn_exec_options opt = {.batch = BATCH, .shard = shard, .lanes = 2, .train = 1};
        if (!nn_setup_graph(&s, build_norm, nn_backend_cpu(), &opt, NULL)) return;
        EXPECT_INT(nn_exec_forward(s.exec, BATCH, nn_case_fill, NULL), FIRM_OK);
        EXPECT_NEAR((double)entry(&s, "bn.num_batches_tracked")[0], 0,
                    0);  // forward alone: no move
        for (int update = 1; update <= 2; update++)
            EXPECT_INT(nn_exec_gradient(s.exec, nn_case_fill, NULL), FIRM_OK);
        EXPECT_NEAR((double)entry(&s, "bn.num_batches_tracked")[0], 2, 0);
        const float* y = nn_exec_output(s.exec, s.out);
        for (int c = 0; c < 4; c++) {
            double mean, var, sum = 0, square = 0, n = 3 * BATCH;
            moments(&s, BATCH, c, &mean, &var);
            for (int i = 0; i < 3 * BATCH; i++) {
                sum += (double)y[i * 4 + c];
                square += (double)y[i * 4 + c] * (double)y[i * 4 + c];
            }
            EXPECT_NEAR(sum / n, 0, 1e-6);
            EXPECT_NEAR(square / n, var / (var + 1e-5), 1e-5);
            // two moves of a tenth each, from 0 and 1; the variance without bias
            EXPECT_NEAR((double)entry(&s, "bn.running_mean")[c], 0.19 * mean, 1e-6);
            EXPECT_NEAR((double)entry(&s, "bn.running_var")[c], 0.81 + 0.19 * var * n / (n - 1),
                        1e-6);
        }
        nn_setup_free(&s);
    }
}

TEST(nn, batchnorm_deployed_uses_the_buffers) {
    nn_setup s;
    nn_exec_options opt = {.batch = 3, .shard = 2, .lanes = 1};
    if (!nn_setup_graph(&s, build_norm, nn_backend_cpu(), &opt, NULL)) return;
    float *mean = (float*)entry(&s, "bn.running_mean"), *var = (float*)entry(&s, "bn.running_var");
    float *gamma = (float*)entry(&s, "bn.weight"), *beta = (float*)entry(&s, "bn.bias");
    mean[1] = 0.5f, var[1] = 4, gamma[1] = 3, beta[1] = -1;
    EXPECT_INT(nn_exec_forward(s.exec, 3, nn_case_fill, NULL), FIRM_OK);
    const float *y = nn_exec_output(s.exec, s.out), *shift = entry(&s, "x.p");
    float x[12];
    rng_fill_normal(7, RNG_STREAM(RNG_TEST, rng_hash_text("x") >> 16), 12, x, 12);
    for (int t = 0; t < 3; t++) {
        double v = (double)x[t * 4 + 1] + (double)shift[t * 4 + 1];
        EXPECT_NEAR((double)y[12 + t * 4 + 1], (v - 0.5) / sqrt(4 + 1e-5) * 3 - 1, 1e-6);
    }
    EXPECT_INT(nn_store_params(s.store, "bn."), 8);  // buffers are no parameters
    nn_setup_free(&s);
}

// ---- SIGReg -------------------------------------------------------------------------------------

static int sigreg_zero;

static void build_sigreg(nn_graph* g, nn_setup* s) {
    nn_id z = nn_input(g, "z", 2, (int[]){4, 32});
    if (sigreg_zero) z = nn_sub(g, z, z);
    s->out = nn_sigreg(g, z, 256);
    nn_output(g, s->out);
    nn_loss(g, "sigreg", s->out, 1);
}

// 51.46 for latents that collapsed to a point, 1.0525 expected for a standard normal
TEST(nn, sigreg_known_values) {
    const nn_exec_options opt = {.batch = 128, .shard = 32, .lanes = 1};
    for (sigreg_zero = 0; sigreg_zero < 2; sigreg_zero++) {
        nn_setup s;
        if (!nn_setup_graph(&s, build_sigreg, nn_backend_cpu(), &opt, NULL)) return;
        EXPECT_INT(nn_exec_forward(s.exec, 128, nn_case_fill, NULL), FIRM_OK);
        if (sigreg_zero)
            EXPECT_NEAR(nn_exec_loss(s.exec), 51.46, 0.01);
        else
            EXPECT_NEAR(nn_exec_loss(s.exec), 1.0525, 0.12);
        double first = nn_exec_loss(s.exec);
        nn_exec_set_update(s.exec, 1);
        EXPECT_INT(nn_exec_forward(s.exec, 128, nn_case_fill, NULL), FIRM_OK);
        EXPECT((nn_exec_loss(s.exec) != first) == !sigreg_zero);  // other directions
        nn_setup_free(&s);
    }
}

// ---- dropout ------------------------------------------------------------------------------------

static void build_dropout(nn_graph* g, nn_setup* s) {
    nn_random(g, 99);
    s->out = nn_dropout(g, nn_case_leaf(g, "x", 0.5f, 1, (int[]){1000}), 0.1f);
    nn_output(g, s->out);
    nn_loss(g, "loss", s->out, 1);
}

TEST(nn, dropout_takes_its_share_by_key) {
    float kept[2][8000];
    for (int run = 0; run < 3; run++) {
        nn_setup s;
        nn_exec_options opt = {.batch = 8, .shard = run ? 3 : 8, .lanes = 1, .train = run < 2};
        if (!nn_setup_graph(&s, build_dropout, nn_backend_cpu(), &opt, NULL)) return;
        EXPECT_INT(nn_exec_forward(s.exec, 8, nn_case_fill, NULL), FIRM_OK);
        const float* y = nn_exec_output(s.exec, s.out);
        int zeros = 0;
        for (int i = 0; i < 8000; i++) zeros += y[i] == 0;
        if (run == 2) EXPECT_INT(zeros, 0);  // deployed
        if (run == 2) EXPECT_NEAR((double)(kept[0][1] / y[1]), kept[0][1] ? 1 / 0.9 : 0, 1e-6);
        if (run < 2) {
            EXPECT_NEAR(zeros / 8000.0, 0.1, 0.012);
            memcpy(kept[run], y, sizeof kept[run]);
            nn_exec_set_update(s.exec, 1);
            EXPECT_INT(nn_exec_forward(s.exec, 8, nn_case_fill, NULL), FIRM_OK);
            EXPECT(memcmp(y, kept[run], sizeof kept[run]) != 0);  // the next update drops others
        }
        nn_setup_free(&s);
    }
    EXPECT(memcmp(kept[0], kept[1], sizeof kept[0]) == 0);  // whatever the shards
}
