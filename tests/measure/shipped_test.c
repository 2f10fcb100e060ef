// shipped_test.c - the shipped models with rounded operands, without a GPU: what rounding alone
// does to predictions, in tolerances of the task; and that the way searches are judged tells a
// broken model from a sound one.
#include "shipped.h"

#include "check.h"
#include "core/rng.h"
#include "env/env.h"
#include "rounded.h"

static void round_shipped(const char* task) {
    enum { N = 24, H = 5 };
    static const double bound[] = {1e-4, 0.03,
                                   0.25};  // as for the GPU, cuda/plan_shipped_predictions
    shipped s;
    if (shipped_open(&s, task)) {
        const plan_net_shape* shape = &s.weights.shape;
        int config = shape->config;
        float c0[FIRM_MAX_CONFIG] = {-0.5f, 0.2f}, m0[SEARCH_FIBER],
              u[N * H * ENV_CONTROLS * FIRM_MAX_ACTION], want[N * H * FIRM_MAX_CONFIG];
        double got[N * H * FIRM_MAX_CONFIG];
        for (int p = 0; p < shape->pairs; p++) c0[2 * p] = 0.6f, c0[2 * p + 1] = -0.8f;
        rng_fill_normal(11, RNG_STREAM(RNG_TEST, 8), 0, m0, SEARCH_FIBER);
        rng_fill_normal(11, RNG_STREAM(RNG_TEST, 9), 0, u, N * H * shape->action);
        plan_net_rollout(s.net, s.scratch, N, H, c0, m0, u, want);
        for (int i = 0; i < 5; i++) {
            rounded_way way = {(plan_precision)((i + 1) / 2), i > 0 && i % 2 == 0, SUMS_FLOAT, 1};
            rounded_rollout(shape, &s.weights.net, way, N, H, c0, m0, u, got);
            double worst = 0, mean = 0;
            for (int r = 0; r < N * H; r++) {
                float c[FIRM_MAX_CONFIG];
                for (int k = 0; k < config; k++) c[k] = (float)got[r * config + k];
                double off = task_tolerance_units(&s.model->task, c, want + r * config);
                worst = test_worse(worst, off);
                mean += off / (N * H);
            }
            printf("  %s, %s%s: %.3g tolerances, %.3g in the mean\n", task,
                   plan_precision_name(way.precision), way.raw ? " raw" : "", worst, mean);
            EXPECT_NEAR(worst, 0, bound[way.precision]);
        }
    }
    shipped_close(&s);
}

TEST(measure, shipped_tworoom_rounded) {
    round_shipped("tworoom");
}
TEST(measure, shipped_reacher_rounded) {
    round_shipped("reacher");
}

// ---- searches -----------------------------------------------------------------------------------

// the weights in bfloat16
static float* coarse(const float* w, int n) {
    float* out = malloc((size_t)n * sizeof *out);
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, w + i, sizeof bits);
        bits = (bits + 0x8000u) & 0xffff0000u;
        memcpy(out + i, &bits, sizeof bits);
    }
    return out;
}

static search_verdict judge_weights(const shipped* s, const plan_net_weights* w,
                                    const search_ends* cpu, const plan_options* o) {
    plan_net* net = NULL;
    firm_error err = {0};
    search_ends ends = {.distance = {{INFINITY}}};
    if (plan_net_create(&s->weights.shape, w, PLAN_FP32, &net, &err) != FIRM_OK ||
        !search_on_cpu(s, net, o, SEARCH_SEEDS, &ends))
        test_fail(__FILE__, __LINE__, "%s", err.message);
    plan_net_free(net);
    return search_judge(cpu, &ends);
}

static void expect_verdict(const char* what, const search_verdict* v, int sound) {
    printf("  %-26s ends %.2g further away in the mean, %.2g allowed; one by %.2g spreads\n", what,
           v->worse, v->allowed, v->single);
    if (!test_short()) EXPECT_INT(search_sound(v), sound);  // the short form searches too little
}

// Weights in bfloat16 search as well as float32 ones; half a model and half a search do not.
// Smaller defects of a model hardly show in plans: predictions are held to more (yardstick.h).
TEST(measure, shipped_searches_are_judged) {
    shipped s;
    plan_options o = contract_options();
    search_ends cpu;
    o.candidates = 64, o.elites = 8, o.iterations = 10;
    if (test_short()) o.candidates = 16, o.elites = 4, o.iterations = 2;
    if (shipped_open(&s, "tworoom") && search_on_cpu(&s, s.net, &o, 12, &cpu)) {
        const plan_net_shape* shape = &s.weights.shape;
        int area = shape->hidden * shape->inner;
        plan_net_weights w = s.weights.net;
        float* own[2 * PLAN_MAX_BLOCKS];
        for (int b = 0; b < shape->blocks; b++) {
            w.block[b].w1 = own[2 * b] = coarse(w.block[b].w1, area);
            w.block[b].w2 = own[2 * b + 1] = coarse(w.block[b].w2, area);
        }
        search_verdict v = judge_weights(&s, &w, &cpu, &o);
        expect_verdict("bfloat16 weights", &v, 1);
        for (int b = 0; b < 2 * shape->blocks; b++) free(own[b]);

        float* zero = calloc((size_t)area, sizeof *zero);
        w = s.weights.net;
        w.block[1].w2 = zero;
        v = judge_weights(&s, &w, &cpu, &o);
        expect_verdict("a block lost", &v, 0);
        free(zero);
        o.iterations = test_short() ? 1 : 4;
        v = judge_weights(&s, &s.weights.net, &cpu, &o);
        expect_verdict("six of ten iterations lost", &v, 0);
    }
    shipped_close(&s);
}
