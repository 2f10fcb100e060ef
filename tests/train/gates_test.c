// gates_test.c - what the gates report, against the errors of the same rollouts sorted by hand.
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "small.h"

enum { N = 24 };

static void ascending(const double* units, int n, double* out) {
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && out[at - 1] > units[i]; at--) out[at] = out[at - 1];
        out[at] = units[i];
    }
}

// 24 rollouts of an untrained model from made-up histories.
TEST(train, gate_tells_mean_and_95th_percentile) {
    small f;
    if (!small_collect(&f, &(small_options){.task = "tworoom",
                                            .settings = "smoke",
                                            .episodes = 40,
                                            .anchors = 4,
                                            .per_anchor = 2}) ||
        !small_open(&f, &(train_options){.seed = 5}, 1) || !small_model(&f, 5))
        return;
    records of = f.set.data.set[PACK_F];
    int dim = f.env->task.config_dim, belief = f.model->shape.belief;
    EXPECT(of.count >= N);
    of.count = N;
    rng r = rng_start(11, RNG_STREAM(RNG_TEST, 0));
    history_cache cache = {of.histories, mem_alloc((size_t)(of.histories * belief) * sizeof(float)),
                           mem_alloc((size_t)(of.histories * HIST * dim) * sizeof(float))};
    for (int i = 0; i < of.histories * belief; i++) cache.belief[i] = rng_gauss(&r);
    for (int i = 0; i < of.histories * HIST * dim; i++) cache.config[i] = 0.5f * rng_gauss(&r);

    rollout_error got;
    rollout_graph g;
    nn_exec* e;
    firm_error err;
    REQUIRE_OK(gate_rollout(&f.set, f.model, &of, &cache, NULL, &got, &err), err);
    REQUIRE_OK(rollout_graph_build(f.model, NULL, NULL, &g, &err), err);
    nn_exec_options opt = {.batch = N, .shard = N, .lanes = 1};
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_ref(), &opt, NULL, &e, &err), err);
    rollout_batch b = {.set = &f.set, .model = f.model, .graph = &g, .from = &of, .cache = &cache};
    EXPECT_INT(nn_exec_forward(e, N, rollout_fill, &b), FIRM_OK);
    const float* path = nn_exec_output(e, g.path);
    for (int k = 0; k < ENV_HORIZON; k++) {
        double units[N], sorted[N], sum = 0;
        for (int i = 0; i < N; i++) {
            const float* truth = of.config + (i * ENV_POINTS + k + 1) * dim;
            units[i] = (double)task_tolerance_units(&f.env->task,
                                                    path + (i * ENV_HORIZON + k) * dim, truth);
            sum += units[i];
        }
        ascending(units, N, sorted);
        // place 0.95 * 23 = 21.85
        double p95 = sorted[21] + 0.85 * (sorted[22] - sorted[21]);
        EXPECT_NEAR(got.mean[k], sum / N, 1e-4 * sum / N);
        EXPECT_NEAR(got.p95[k], p95, 1e-4 * p95);
        EXPECT(p95 > 1.2 * sorted[N / 2]);  // the median would not do
    }
    nn_exec_free(e);
    nn_graph_free(g.g);
    cache_free(&cache);
    small_close(&f);
}
