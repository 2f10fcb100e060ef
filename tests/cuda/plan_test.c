// plan_test.c - the GPU planner against the CPU's: noise, ranking, rollouts, whole searches, many
// searches at once, and its refusals. Prints what it measured; skipped where there is no GPU.
#include "../plan/toys.h"
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "model/model.h"
#include "plan/cem.h"
#include "plan/gpu.h"
#include "plan/propose.h"
#include "plan/settings.h"
#include "plan/weights.h"
#include "rounded.h"

static const plan_net_shape tworoom_shape = {2, 0, 128, 10, 384, 768, 2, 0};
static const plan_net_shape cube_shape = {3, 0, 128, 25, 384, 768, 2, 0};
static const plan_net_shape reacher_shape = {4, 2, 128, 10, 384, 768, 2, 0};

static plan_options contract_options(void) {
    return (plan_options){.mode = FIRM_MODE_CONTRACT,
                          .candidates = 300,
                          .iterations = 30,
                          .elites = 30,
                          .horizon = 5,
                          .replan = 5,
                          .spread = 1,
                          .horizon_max = 5};
}

// A task of as many coordinates as the shape has, squared distance in c.
static env_spec task_of(const plan_net_shape* s) {
    return (env_spec){.name = "test",
                      .config_dim = s->config,
                      .pairs = s->pairs,
                      .action_dim = s->action / 5,
                      .cost = ENV_COST_SUM};
}

static plan_gpu_setup setup_of(const env_spec* spec, const toy_net* t, plan_precision precision) {
    return (plan_gpu_setup){.spec = spec,
                            .shape = t->shape,
                            .weights = &t->weights,
                            .options = contract_options(),
                            .precision = precision,
                            .searches = 1};
}

// 0 and skipped where there is no GPU; any other failure fails the test.
static int make(const plan_gpu_setup* setup, plan_gpu** g) {
    firm_error err = {0};
    if (plan_gpu_create(setup, g, &err) == FIRM_OK) return 1;
    if (strstr(err.message, "no CUDA GPU") || strstr(err.message, "NVIDIA driver") ||
        strstr(err.message, "cluster"))
        test_skip(err.message);
    else
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

static void unit_pairs(float* c, int pairs) {
    for (int p = 0; p < pairs; p++) c[2 * p] = 0.6f, c[2 * p + 1] = -0.8f;
}

static double worst_difference(const float* a, const float* b, int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) {
        double e = fabs((double)a[i] - (double)b[i]) / fmax(1.0, fabs((double)b[i]));
        if (!(e <= worst)) worst = e;
    }
    return worst;
}

// ---- predictions --------------------------------------------------------------------------------

static char last_way[16];  // how the last rollout was done

// Largest difference between the GPU's and the CPU's predictions of n candidates; -1 when skipped.
static double compare_rollout(const toy_net* t, plan_precision precision, plan_gpu_way way, int n,
                              int horizon, float* keep) {
    const plan_net_shape* s = &t->shape;
    env_spec spec = task_of(s);
    plan_gpu_setup setup = setup_of(&spec, t, precision);
    setup.way = way;
    setup.options.candidates = n < 2 ? 2 : n;
    setup.options.elites = 2;
    setup.options.horizon = setup.options.horizon_max = horizon;
    plan_gpu* g;
    if (!make(&setup, &g)) return -1;
    snprintf(last_way, sizeof last_way, "%s", plan_gpu_way_name(g));
    float *c0 = normals(s->config, 1), *m0 = normals(s->fiber + 1, 2),
          *u = normals(n * horizon * s->action, 3);
    unit_pairs(c0, s->pairs);
    int size = n * horizon * s->config, bad = -1;
    float *got = malloc((size_t)size * sizeof(float)), *want = malloc((size_t)size * sizeof(float));
    memset(got, 0xff, (size_t)size * sizeof(float));
    plan_net* net = NULL;
    firm_error err = {0};
    double worst = INFINITY;
    if (plan_net_create(&t->shape, &t->weights, &net, &err) == FIRM_OK &&
        plan_gpu_rollout(g, n, horizon, c0, m0, u, got, &bad, &err) == FIRM_OK) {
        void* scratch = mem_alloc(plan_net_scratch_bytes(net));
        plan_net_rollout(net, scratch, n, horizon, c0, m0, u, want);
        EXPECT_INT(bad, 0);
        worst = worst_difference(got, want, size);
        mem_free(scratch);
    } else {
        test_fail(__FILE__, __LINE__, "%s", err.message);
    }
    if (keep) memcpy(keep, got, (size_t)size * sizeof(float));
    plan_net_free(net);
    plan_gpu_free(g);
    free(c0), free(m0), free(u), free(got), free(want);
    return worst;
}

TEST(cuda, plan_rollout_fp32) {
    static const plan_net_shape shapes[] = {
        {2, 0, 128, 10, 384, 768, 2, 0},  {6, 1, 128, 10, 96, 200, 2, 0},
        {8, 3, 5, 25, 37, 53, 2, 0},      {3, 0, 0, 1, 1, 1, 1, 0},
        {6, 1, 19, 10, 41, 50, 1, 71},    {4, 2, 7, 3, 13, 6, 0, 0},
        {6, 1, 128, 10, 384, 1152, 3, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        toy_net t = toy_net_make(shapes[i], 100 + i);
        double e = compare_rollout(&t, PLAN_FP32, PLAN_GPU_LAYERED, i ? 131 : 300, 5, NULL);
        if (e >= 0) {
            printf("  fp32, hidden %d: %.3g\n", shapes[i].hidden, e);
            EXPECT_NEAR(e, 0, 1e-5);
        }
        toy_net_free(&t);
    }
}

TEST(cuda, plan_rollout_16_bit) {
    const plan_net_shape* shapes[] = {&tworoom_shape, &cube_shape, &reacher_shape};
    static const double bound[] = {1e-5, 2e-3, 2e-2};
    for (int i = 0; i < 3; i++) {
        toy_net t = toy_net_make(*shapes[i], 50 + (uint64_t)i);
        for (plan_precision p = PLAN_TF32; p <= PLAN_BF16; p++)
            for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
                double e = compare_rollout(&t, p, way, 300, 5, NULL);
                if (e < 0) continue;
                printf("  %s, %s, config %d: %.3g\n", plan_precision_name(p), last_way,
                       t.shape.config, e);
                EXPECT_NEAR(e, 0, bound[p]);
            }
        toy_net_free(&t);
    }
}

// The 16-bit modes compute what they claim: against double arithmetic on operands rounded alike,
// what is left are float32 sums and the operands that these push over a rounding edge, as the norm
// of the difference over the norm of the predictions. Bounds: three times what a float32 emulation
// of the kernels on the CPU leaves, after one macro step and after five.
TEST(cuda, plan_rollout_rounds_as_claimed) {
    static const double bound[2][2] = {{3e-4, 9e-4}, {2e-3, 8e-3}};
    const plan_net_shape* shapes[] = {&tworoom_shape, &cube_shape, &reacher_shape};
    enum { N = 48 };
    for (int i = 0; i < 12; i++) {
        int horizon = i % 2 ? 5 : 1;
        plan_precision p = i / 2 % 2 ? PLAN_BF16 : PLAN_TF32;
        toy_net t = toy_net_make(*shapes[i / 4], 50 + (uint64_t)i);
        const plan_net_shape* s = &t.shape;
        int size = N * horizon * s->config;
        float *c0 = normals(s->config, 1), *m0 = normals(s->fiber + 1, 2),
              *u = normals(N * horizon * s->action, 3), *got = malloc((size_t)size * sizeof(float));
        double* want = malloc((size_t)size * sizeof(double));
        unit_pairs(c0, s->pairs);
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
            if (compare_rollout(&t, p, way, N, horizon, got) < 0) continue;
            int raw = strcmp(last_way, "batch") == 0 || strcmp(last_way, "cluster") == 0;
            rounded_rollout(&t, p, raw, N, horizon, c0, m0, u, want);
            double off = 0, whole = 0;
            for (int k = 0; k < size; k++) {
                off += (got[k] - want[k]) * (got[k] - want[k]);
                whole += want[k] * want[k];
            }
            off = sqrt(off / whole);
            printf("  %s, %s, config %d, %d macro step%s: %.3g\n", plan_precision_name(p), last_way,
                   s->config, horizon, horizon > 1 ? "s" : "", off);
            EXPECT_NEAR(off, 0, bound[horizon > 1][p == PLAN_BF16]);
        }
        free(c0), free(m0), free(u), free(got), free(want);
        toy_net_free(&t);
    }
}

// Shapes that divide nothing, in the ways that take any shape.
TEST(cuda, plan_rollout_16_bit_odd) {
    static const plan_net_shape shapes[] = {{6, 1, 128, 10, 96, 200, 2, 0},
                                            {8, 3, 5, 25, 37, 53, 2, 0},
                                            {6, 1, 128, 10, 384, 1152, 3, 0},
                                            {6, 1, 128, 10, 384, 768, 2, 1152}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        toy_net t = toy_net_make(shapes[i], 100 + i);
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_BATCH; way++) {
            double e = compare_rollout(&t, PLAN_TF32, way, 131, 5, NULL);
            if (e < 0) continue;
            printf("  tf32, %s, hidden %d: %.3g\n", last_way, shapes[i].hidden, e);
            EXPECT_NEAR(e, 0, 5e-3);
        }
        toy_net_free(&t);
    }
}

// A few rows, more rows than one pass of all clusters takes, a long horizon: the same rows.
TEST(cuda, plan_rollout_rows_alone) {
    toy_net t = toy_net_make(tworoom_shape, 60);
    enum { H = 7, MANY = 700 };
    float* a = malloc(MANY * H * 2 * sizeof(float));
    float* b = malloc(MANY * H * 2 * sizeof(float));
    for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++)
        for (int n = 1; n <= 65; n += 32) {
            if (compare_rollout(&t, PLAN_TF32, way, MANY, H, a) < 0) continue;
            compare_rollout(&t, PLAN_TF32, way, n, H, b);
            EXPECT_INT(memcmp(a, b, (size_t)(n * H * 2) * sizeof(float)), 0);
        }
    free(a), free(b);
    toy_net_free(&t);
}

// ---- search -------------------------------------------------------------------------------------

static int ulps(float a, float b) {
    int32_t x, y;
    memcpy(&x, &a, 4), memcpy(&y, &b, 4);
    if ((x < 0) != (y < 0)) return a == b ? 0 : INT32_MAX;
    return abs(x - y);
}

TEST(cuda, plan_noise) {
    enum { N = 300, H = 5, A = 10 };
    toy_net t = toy_net_make(tworoom_shape, 70);
    env_spec spec = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&spec, &t, PLAN_FP32);
    plan_gpu* g;
    firm_error err = {0};
    if (!make(&setup, &g)) return;
    float mean[H * A] = {0}, spread[H * A], want[H * A];
    float* got = malloc(N * H * A * sizeof(float));
    for (int j = 0; j < H * A; j++) spread[j] = 1;
    plan_actions actions = {.dim = 2, .controls = 5};
    int worst = 0, differ = 0;
    for (int iteration = 0; iteration < 3; iteration++) {
        REQUIRE_OK(plan_gpu_draw(g, 0x123456789abcull, 77, iteration, mean, spread, got, &err),
                   err);
        plan_proposal p = {.options = &setup.options,
                           .actions = &actions,
                           .seed = 0x123456789abcull,
                           .solve = 77,
                           .iteration = iteration,
                           .horizon = H,
                           .mean = mean,
                           .spread = spread};
        for (int i = 0; i < N; i++) {
            plan_propose(&p, i, want);
            for (int j = 0; j < H * A; j++) {
                int u = ulps(got[i * H * A + j], want[j]);
                differ += u > 0;
                if (u > worst) worst = u;
            }
        }
    }
    printf("  %d of %d normals differ, by at most %d ulp\n", differ, 3 * N * H * A, worst);
    EXPECT(worst <= 2);
    EXPECT(differ < 3 * N * H * A / 20);
    free(got);
    plan_gpu_free(g);
    toy_net_free(&t);
}

TEST(cuda, plan_fit_ties_and_nan) {
    enum { N = 300, H = 5, A = 10, C = 2, E = 30 };
    toy_net t = toy_net_make(tworoom_shape, 71);
    env_spec spec = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&spec, &t, PLAN_FP32);
    plan_gpu* g;
    firm_error err = {0};
    if (!make(&setup, &g)) return;
    float *u = normals(N * H * A, 4), *c = normals(N * H * C, 5), goal[C] = {0, 0};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            float* end = c + (i * H + H - 1) * C;
            if (round == 1) end[0] = (float)(i % 4), end[1] = 0;  // many equal costs
            if (round == 2 && i % 11) c[i * H * C + i % (H * C)] = i % 2 ? NAN : INFINITY;
        }
        float mean[H * A], spread[H * A], value[N];
        for (int j = 0; j < H * A; j++) mean[j] = 7, spread[j] = 3;
        plan_gpu_answer a;
        REQUIRE_OK(plan_gpu_fit(g, u, c, goal, mean, spread, &a, &err), err);
        // by hand: the cheapest, the earlier first
        int order[N], finite = 0;
        for (int i = 0; i < N; i++) {
            order[i] = i;
            // a toy task has no measure(): its finite terminal cost alone
            int ok = 1;
            for (int k = 0; k < H * C; k++) ok &= isfinite(c[i * H * C + k]) != 0;
            value[i] = ok ? env_cost_value(&spec, c + (i * H + H - 1) * C, goal) : INFINITY;
            finite += ok;
            EXPECT_INT(memcmp(&value[i], &a.value[i], sizeof(float)), 0);
        }
        for (int i = 1; i < N; i++)
            for (int j = i, k; j && value[order[j]] < value[order[j - 1]]; j--)
                k = order[j], order[j] = order[j - 1], order[j - 1] = k;
        int elites = finite < E ? finite : E;
        EXPECT_INT(a.elites, elites);
        EXPECT_INT(a.nonfinite, N - finite);
        for (int j = 0; j < H * A; j++) {
            double sum = 0, squares = 0;
            for (int i = 0; i < elites; i++) sum += u[order[i] * H * A + j];
            for (int i = 0; i < elites; i++) {
                double d = u[order[i] * H * A + j] - sum / elites;
                squares += d * d;
            }
            EXPECT_NEAR(mean[j], (float)(sum / elites), 0);
            EXPECT_NEAR(spread[j], (float)sqrt(squares / (elites - 1)), 0);
        }
    }
    free(u), free(c);
    plan_gpu_free(g);
    toy_net_free(&t);
}

typedef struct shipped {
    firm_model* model;
    plan_weights weights;
    plan_net* net;
} shipped;

static int open_shipped(shipped* s) {
    char path[1024];
    firm_error err = {0};
    *s = (shipped){0};
    snprintf(path, sizeof path, "%s/models/tworoom.safetensors", test_source_dir());
    if (firm_model_load(path, &s->model, &err) == FIRM_OK &&
        plan_weights_take(s->model, &s->weights, &err) == FIRM_OK &&
        plan_net_create(&s->weights.shape, &s->weights.net, &s->net, &err) == FIRM_OK)
        return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static void close_shipped(shipped* s) {
    plan_net_free(s->net);
    plan_weights_free(&s->weights);
    firm_model_free(s->model);
}

enum { STARTS = 4 };
// starts and goals on both sides of the door; fibers as wide as the model's own
static const float start_at[STARTS][2] = {
    {-0.5f, 0.2f}, {0.6f, -0.4f}, {-0.3f, -0.6f}, {0.5f, 0.5f}};
static const float goal_at[STARTS][2] = {
    {-0.2f, 0.1f}, {0.3f, 0.2f}, {-0.6f, -0.1f}, {0.4f, -0.1f}};

static double cost_under(const shipped* s, void* scratch, const float* c0, const float* m0,
                         const float* plan, const float* goal) {
    float path[5 * 2];
    plan_net_rollout(s->net, scratch, 1, 5, c0, m0, plan, path);
    return env_cost_value(s->model->env, path + 8, goal);
}

// The GPU's plan, judged by the CPU's float32 model, is as good as the CPU's own.
TEST(cuda, plan_solve_like_cpu) {
    shipped s;
    if (!open_shipped(&s)) return;
    plan_options options = contract_options();
    plan_learned* learned = NULL;
    plan_solver* solver = NULL;
    firm_error err = {0};
    void* scratch = mem_alloc(plan_net_scratch_bytes(s.net));
    REQUIRE_OK(plan_learned_create(s.net, 1, &learned, &err), err);
    plan_setup setup = {
        .spec = s.model->env,
        .options = options,
        .actions = plan_actions_of(s.model->env, MODEL_CONTROLS, s.model->stats.action_mean,
                                   s.model->stats.action_std),
        .model = plan_learned_model(learned)};
    REQUIRE_OK(plan_solver_create(&setup, &solver, &err), err);
    float* m0 = normals(128 * STARTS, 8);
    plan_result cpu[STARTS];
    float plan[STARTS][50];
    double own[STARTS];
    for (int i = 0; i < STARTS; i++) {
        plan_learned_start(learned, start_at[i], m0 + 128 * i);
        plan_solver_reset(solver, 5);
        plan_solver_solve(solver, start_at[i], goal_at[i], 0, &cpu[i]);
        memcpy(plan[i], cpu[i].plan, sizeof plan[i]);
        own[i] = cost_under(&s, scratch, start_at[i], m0 + 128 * i, plan[i], goal_at[i]);
    }
    // cost is a squared distance in c; 0.02 in c is 2.2 px of the 16 px tolerance
    static const double margin[] = {0.005, 0.01, 0.02};
    for (plan_precision p = PLAN_FP32; p <= PLAN_BF16; p++)
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
            if (p == PLAN_FP32 && way != PLAN_GPU_LAYERED) continue;
            plan_gpu_setup gs = {.spec = s.model->env,
                                 .shape = s.weights.shape,
                                 .weights = &s.weights.net,
                                 .options = options,
                                 .precision = p,
                                 .way = way,
                                 .searches = 1};
            plan_gpu* g;
            if (!make(&gs, &g)) continue;
            double worse = 0, first = 0, path = 0;
            for (int i = 0; i < STARTS; i++) {
                plan_gpu_problem q = {start_at[i], m0 + 128 * i, goal_at[i], 5, 0};
                plan_gpu_answer a;
                REQUIRE_OK(plan_gpu_solve(g, 1, &q, options.iterations, 0, &a, &err), err);
                EXPECT_INT(a.elites, 30);
                EXPECT_INT(a.nonfinite, 0);
                double cost =
                    cost_under(&s, scratch, start_at[i], m0 + 128 * i, a.plan, goal_at[i]);
                worse = fmax(worse, sqrt(cost) - sqrt(own[i]));
                for (int j = 0; j < 10; j++) first = fmax(first, fabs(a.plan[j] - plan[i][j]));
                float again[10];
                plan_net_rollout(s.net, scratch, 1, 5, start_at[i], m0 + 128 * i, a.plan, again);
                path = fmax(path, worst_difference(a.path, again, 10));
            }
            printf(
                "  %s, %s: further from the goal than the CPU's plan by %.3g, first action off "
                "by %.3g, path off by %.3g\n",
                plan_precision_name(p), plan_gpu_way_name(g), worse, first, path);
            EXPECT_NEAR(fmax(worse, 0), 0, margin[p]);
            EXPECT_NEAR(path, 0, p == PLAN_FP32 ? 1e-5 : p == PLAN_TF32 ? 2e-3 : 2e-2);
            plan_gpu_free(g);
        }
    free(m0);
    plan_solver_free(solver);
    plan_learned_free(learned);
    mem_free(scratch);
    close_shipped(&s);
}

// What rounding does to the shipped model's predictions, in units of the task's tolerance.
TEST(cuda, plan_shipped_predictions) {
    enum { N = 300, H = 5 };
    shipped s;
    if (!open_shipped(&s)) return;
    static const double bound[] = {1e-4, 0.03, 0.25};
    const env_spec* spec = s.model->env;
    float *m0 = normals(128, 8), *u = normals(N * H * 10, 9), got[N * H * 2], want[N * H * 2];
    void* scratch = mem_alloc(plan_net_scratch_bytes(s.net));
    plan_net_rollout(s.net, scratch, N, H, start_at[0], m0, u, want);
    for (plan_precision p = PLAN_FP32; p <= PLAN_BF16; p++)
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
            if (p == PLAN_FP32 && way != PLAN_GPU_LAYERED) continue;
            plan_gpu_setup setup = {.spec = spec,
                                    .shape = s.weights.shape,
                                    .weights = &s.weights.net,
                                    .options = contract_options(),
                                    .precision = p,
                                    .way = way,
                                    .searches = 1};
            plan_gpu* g;
            firm_error err = {0};
            int bad;
            if (!make(&setup, &g)) continue;
            REQUIRE_OK(plan_gpu_rollout(g, N, H, start_at[0], m0, u, got, &bad, &err), err);
            double worst = 0, mean = 0;
            for (int i = 0; i < N * H; i++) {
                double off = env_tolerance_units(spec, got + 2 * i, want + 2 * i);
                worst = fmax(worst, off);
                mean += off / (N * H);
            }
            printf("  %s, %s: %.3g tolerances, %.3g in the mean\n", plan_precision_name(p),
                   plan_gpu_way_name(g), worst, mean);
            EXPECT_NEAR(worst, 0, bound[p]);
            plan_gpu_free(g);
        }
    mem_free(scratch);
    free(m0), free(u);
    close_shipped(&s);
}

// One after the other, all at once, twice: the same bits.
TEST(cuda, plan_batch_same_bits) {
    enum { N = 9 };
    toy_net t = toy_net_make(tworoom_shape, 80);
    env_spec spec = task_of(&t.shape);
    for (int round = 0; round < 6; round++) {
        plan_gpu_setup setup = setup_of(&spec, &t, (plan_precision)(round % 3));
        setup.searches = N;
        setup.way = round < 3 ? PLAN_GPU_LAYERED : PLAN_GPU_BATCH;
        setup.options.iterations = 6;
        plan_gpu* g;
        firm_error err = {0};
        if (!make(&setup, &g)) break;
        float *c0 = normals(N * 2, 1), *m0 = normals(N * 128, 2), *goal = normals(N * 2, 3);
        plan_gpu_problem q[N];
        plan_gpu_answer a[N];
        float plan[N][50], path[N][10];
        for (int i = 0; i < N; i++)
            q[i] = (plan_gpu_problem){c0 + 2 * i, m0 + 128 * i, goal + 2 * i, (uint64_t)i + 9, 3};
        for (int i = 0; i < N; i++) {
            REQUIRE_OK(plan_gpu_solve(g, 1, &q[i], 6, 0, &a[0], &err), err);
            memcpy(plan[i], a[0].plan, sizeof plan[i]);
            memcpy(path[i], a[0].path, sizeof path[i]);
        }
        for (int again = 0; again < 2; again++) {
            REQUIRE_OK(plan_gpu_solve(g, N, q, 6, 1, a, &err), err);
            for (int i = 0; i < N; i++) {
                EXPECT_INT(memcmp(a[i].plan, plan[i], sizeof plan[i]), 0);
                EXPECT_INT(memcmp(a[i].path, path[i], sizeof path[i]), 0);
            }
        }
        free(c0), free(m0), free(goal);
        plan_gpu_free(g);
    }
    toy_net_free(&t);
}

TEST(cuda, plan_cluster_twice_same_bits) {
    toy_net t = toy_net_make(cube_shape, 81);
    env_spec spec = task_of(&t.shape);
    for (plan_precision p = PLAN_TF32; p <= PLAN_BF16; p++) {
        plan_gpu_setup setup = setup_of(&spec, &t, p);
        setup.way = PLAN_GPU_CLUSTER;
        plan_gpu *g, *other;
        firm_error err = {0};
        if (!make(&setup, &g)) break;
        if (!make(&setup, &other)) break;
        float *c0 = normals(3, 1), *m0 = normals(128, 2), *goal = normals(3, 3), plan[125],
              value[300];
        plan_gpu_problem q = {c0, m0, goal, 4, 2};
        plan_gpu_answer a;
        REQUIRE_OK(plan_gpu_solve(g, 1, &q, 30, 1, &a, &err), err);
        memcpy(plan, a.plan, sizeof plan);
        memcpy(value, a.value, sizeof value);
        for (int round = 0; round < 6; round++) {
            REQUIRE_OK(plan_gpu_solve(round % 2 ? g : other, 1, &q, 30, 1, &a, &err), err);
            EXPECT_INT(memcmp(a.plan, plan, sizeof plan), 0);
            EXPECT_INT(memcmp(a.value, value, sizeof value), 0);
        }
        free(c0), free(m0), free(goal);
        plan_gpu_free(g);
        plan_gpu_free(other);
    }
    toy_net_free(&t);
}

TEST(cuda, plan_refusals) {
    toy_net t = toy_net_make(tworoom_shape, 90);
    env_spec spec = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&spec, &t, PLAN_FP32);
    plan_gpu* g = NULL;
    firm_error err = {0};
    setup.options.candidates = 10000;
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "10000") != NULL);
    setup.options.candidates = 300;
    setup.searches = 0;
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_VALUE);
    setup.searches = 1;
    spec.cost = ENV_COST_MAX;
    spec.distances = 1;
    spec.distance[0] = (env_distance){"there", "m", 1};
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_UNAVAILABLE);
    EXPECT(strstr(err.message, "there") != NULL);
    spec.cost = ENV_COST_SUM;
    if (!make(&setup, &g)) return;
    plan_gpu_free(g);
    setup.way = PLAN_GPU_CLUSTER;  // has no float32 products
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_UNAVAILABLE);
    EXPECT(g == NULL);
    setup.way = PLAN_GPU_AUTO;
    setup.options.candidates = 8000;
    setup.searches = 2000;  // hundreds of gigabytes
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_MEMORY);
    toy_net_free(&t);
}
