// plan_test.c - the GPU planner: noise, ranking, rollouts, whole searches, many searches at once,
// and its refusals. Rollouts are held to tests/measure/yardstick.h, searches to
// tests/measure/shipped.h. Prints what it measured; skipped where there is no GPU.
#include "../measure/shipped.h"
#include "../measure/yardstick.h"
#include "../plan/toys.h"
#include "check.h"
#include "core/rng.h"
#include "env/env.h"
#include "gpu.h"
#include "plan/gpu.h"
#include "plan/propose.h"

static const plan_net_shape tworoom_shape = {2, 0, 128, 10, 384, 768, 2, 0};
static const plan_net_shape cube_shape = {3, 0, 128, 25, 384, 768, 2, 0};
static const plan_net_shape reacher_shape = {4, 2, 128, 10, 384, 768, 2, 0};

// A task of as many coordinates as the shape has, squared distance in c.
static task_typed task_of(const plan_net_shape* s) {
    return (task_typed){.name = "test",
                        .config_dim = s->config,
                        .pairs = s->pairs,
                        .action_dim = s->action / 5,
                        .distances = 1,
                        .distance = {{"all", "1", 1, {.count = s->config, .scale = 1}}},
                        .cost = TASK_COST_SUM};
}

static plan_gpu_setup setup_of(const task_typed* task, const toy_net* t, plan_precision precision) {
    return (plan_gpu_setup){.task = task,
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

// ---- predictions --------------------------------------------------------------------------------

// a start and candidates for a shape
typedef struct inputs {
    float *c0, *m0, *u;
} inputs;

// n candidates, of which those from `distinct` on repeat the first ones
static inputs inputs_make(const plan_net_shape* s, int n, int horizon, int distinct) {
    inputs in = {normals(s->config, 1), normals(s->fiber + 1, 2),
                 normals(n * horizon * s->action, 3)};
    size_t row = (size_t)(horizon * s->action);
    unit_pairs(in.c0, s->pairs);
    for (int i = distinct; i < n; i++)
        memcpy(in.u + (size_t)i * row, in.u + (size_t)(i % distinct) * row, row * sizeof(float));
    return in;
}

static void inputs_free(inputs* in) {
    free(in->c0), free(in->m0), free(in->u);
}

static char last_way[16];  // how the last rollout was done

// that way rounds h, and LayerNorm follows the product
static int rounds_h(void) {
    return strcmp(last_way, "batch") == 0 || strcmp(last_way, "cluster") == 0;
}

// The GPU's predictions of n candidates, 0 where it was skipped or failed.
static int roll_out(const toy_net* t, plan_precision precision, plan_gpu_way way, int n,
                    int horizon, const inputs* in, float* got) {
    task_typed task = task_of(&t->shape);
    plan_gpu_setup setup = setup_of(&task, t, precision);
    setup.way = way;
    setup.options.candidates = n < 2 ? 2 : n;
    setup.options.elites = 2;
    setup.options.horizon = setup.options.horizon_max = horizon;
    plan_gpu* g;
    firm_error err = {0};
    int bad = -1;
    if (!make(&setup, &g)) return 0;
    snprintf(last_way, sizeof last_way, "%s", plan_gpu_way_name(g));
    memset(got, 0xff, (size_t)(n * horizon * t->shape.config) * sizeof(float));
    firm_status st = plan_gpu_rollout(g, n, horizon, in->c0, in->m0, in->u, got, &bad, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    EXPECT_INT(bad, 0);
    plan_gpu_free(g);
    return st == FIRM_OK;
}

enum { DISTINCT = 32, HORIZON = 5 };

static void expect_repeats(const float* got, int n, int row) {
    int differ = 0;
    for (int i = DISTINCT; i < n; i++)
        differ += memcmp(got + i * row, got + i % DISTINCT * row, (size_t)row * sizeof(float)) != 0;
    EXPECT_INT(differ, 0);
}

// All ways up to the last: n rows, of which the distinct ones are measured and the others must
// repeat them bit for bit.
static void measure_rollouts(const toy_net* t, plan_precision p, plan_gpu_way last, int n) {
    const plan_net_shape* s = &t->shape;
    inputs in = inputs_make(s, n, HORIZON, DISTINCT);
    yardstick y[2] = {{0}};  // LN(h) rounded, h rounded
    float* got = malloc((size_t)(n * HORIZON * s->config) * sizeof(float));
    for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= last; way++) {
        if (!roll_out(t, p, way, n, HORIZON, &in, got)) continue;
        int raw = rounds_h();
        if (!y[raw].want)
            y[raw] = yardstick_make(s, &t->weights, p, raw, DISTINCT, HORIZON, in.c0, in.m0, in.u);
        yardstick_reading r = yardstick_read(&y[raw], got);
        printf("  %s, %s, config %d, hidden %d: reads %.2f, first %.2f, last %.2f (off by %.3g)\n",
               plan_precision_name(p), last_way, s->config, s->hidden, r.most, r.first, r.last,
               r.off);
        EXPECT(yardstick_sound(&r));
        expect_repeats(got, n, HORIZON * s->config);
    }
    yardstick_free(&y[0]), yardstick_free(&y[1]);
    free(got);
    inputs_free(&in);
}

static int gpu_there(void) {
    toy_net t = toy_net_make(tworoom_shape, 1);
    task_typed task = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&task, &t, PLAN_FP32);
    plan_gpu* g;
    int there = make(&setup, &g);
    if (there) plan_gpu_free(g);
    toy_net_free(&t);
    return there;
}

TEST(cuda, plan_rollout_fp32) {
    static const plan_net_shape shapes[] = {
        {2, 0, 128, 10, 384, 768, 2, 0},  {6, 1, 128, 10, 96, 200, 2, 0},
        {8, 3, 5, 25, 37, 53, 2, 0},      {3, 0, 0, 1, 1, 1, 1, 0},
        {6, 1, 19, 10, 41, 50, 1, 71},    {4, 2, 7, 3, 13, 6, 0, 0},
        {6, 1, 128, 10, 384, 1152, 3, 0},
    };
    if (!gpu_there()) return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        toy_net t = toy_net_make(shapes[i], 100 + i);
        measure_rollouts(&t, PLAN_FP32, PLAN_GPU_LAYERED, i ? 131 : 300);
        toy_net_free(&t);
    }
}

TEST(cuda, plan_rollout_16_bit) {
    const plan_net_shape* shapes[] = {&tworoom_shape, &cube_shape, &reacher_shape};
    if (!gpu_there()) return;
    for (int i = 0; i < 6; i++) {
        toy_net t = toy_net_make(*shapes[i / 2], 50 + (uint64_t)(i / 2));
        measure_rollouts(&t, i % 2 ? PLAN_BF16 : PLAN_TF32, PLAN_GPU_CLUSTER, 300);
        toy_net_free(&t);
    }
}

// The same in absolute terms: as the norm of the difference over the norm of the predictions, after
// one macro step and after five. Bounds: three times what a float32 emulation of the kernels on the
// CPU leaves.
TEST(cuda, plan_rollout_rounds_as_claimed) {
    static const double bound[2][2] = {{3e-4, 9e-4}, {2e-3, 8e-3}};
    const plan_net_shape* shapes[] = {&tworoom_shape, &cube_shape, &reacher_shape};
    enum { N = 48 };
    if (!gpu_there()) return;
    for (int i = 0; i < 12; i++) {
        int horizon = i % 2 ? 5 : 1;
        plan_precision p = i / 2 % 2 ? PLAN_BF16 : PLAN_TF32;
        toy_net t = toy_net_make(*shapes[i / 4], 50 + (uint64_t)i);
        const plan_net_shape* s = &t.shape;
        int size = N * horizon * s->config;
        inputs in = inputs_make(s, N, horizon, N);
        float* got = malloc((size_t)size * sizeof *got);
        double* want = malloc((size_t)size * sizeof *want);
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
            if (!roll_out(&t, p, way, N, horizon, &in, got)) continue;
            rounded_way claimed = {.precision = p, .raw = rounds_h()};
            rounded_rollout(s, &t.weights, claimed, N, horizon, in.c0, in.m0, in.u, want);
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
        free(got), free(want);
        inputs_free(&in);
        toy_net_free(&t);
    }
}

// Shapes that divide nothing, in the ways that take any shape.
TEST(cuda, plan_rollout_16_bit_odd) {
    static const plan_net_shape shapes[] = {{6, 1, 128, 10, 96, 200, 2, 0},
                                            {8, 3, 5, 25, 37, 53, 2, 0},
                                            {6, 1, 128, 10, 384, 1152, 3, 0},
                                            {6, 1, 128, 10, 384, 768, 2, 1152}};
    if (!gpu_there()) return;
    for (int i = 0; i < 8; i++) {
        const plan_net_shape* s = &shapes[i / 2];
        if (i % 2 && s->hidden == 384) continue;  // bf16: the small ones say it
        toy_net t = toy_net_make(*s, 100 + (uint64_t)(i / 2));
        measure_rollouts(&t, i % 2 ? PLAN_BF16 : PLAN_TF32, PLAN_GPU_BATCH, 131);
        toy_net_free(&t);
    }
}

// The first rows alone, and among so many.
static void some_rows_of_many(const toy_net* t, plan_precision p, plan_gpu_way way, int many) {
    int horizon = test_short() ? 2 : 7, step = test_short() ? 64 : 32;
    size_t row = (size_t)(horizon * t->shape.config) * sizeof(float);
    inputs in = inputs_make(&t->shape, many, horizon, many);
    float *a = malloc((size_t)many * row), *b = malloc((size_t)many * row);
    if (roll_out(t, p, way, many, horizon, &in, a))
        for (int n = 1; n <= 65; n += step)
            if (roll_out(t, p, way, n, horizon, &in, b))
                EXPECT_INT(memcmp(a, b, (size_t)n * row), 0);
    free(a), free(b);
    inputs_free(&in);
}

// A few rows, more rows than one pass of all clusters takes (under a sanitizer `many`), a long
// horizon: the same rows. The odd shape is there for the kernels that the usual one does not take.
static void rows_alone(plan_gpu_way way, plan_precision first, int many) {
    toy_net t = toy_net_make(tworoom_shape, 60),
            odd = toy_net_make((plan_net_shape){6, 1, 19, 10, 41, 50, 1, 71}, 61);
    for (plan_precision p = first; p <= PLAN_BF16; p++) {
        some_rows_of_many(&t, p, way, test_short() ? many : 700);
        if (way != PLAN_GPU_CLUSTER) some_rows_of_many(&odd, p, way, test_short() ? many : 300);
    }
    toy_net_free(&t);
    toy_net_free(&odd);
}

TEST(cuda, plan_rows_alone_layered) {
    rows_alone(PLAN_GPU_LAYERED, PLAN_FP32, 80);
}
TEST(cuda, plan_rows_alone_batch) {
    rows_alone(PLAN_GPU_BATCH, PLAN_TF32, 80);
}
TEST(cuda, plan_rows_alone_cluster) {
    rows_alone(PLAN_GPU_CLUSTER, PLAN_TF32, 96);
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
    task_typed task = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&task, &t, PLAN_FP32);
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
    task_typed task = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&task, &t, PLAN_FP32);
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
        plan_answer a;
        REQUIRE_OK(plan_gpu_fit(g, u, c, goal, mean, spread, &a, &err), err);
        // by hand: the cheapest, the earlier first
        int order[N], finite = 0;
        for (int i = 0; i < N; i++) {
            order[i] = i;
            int ok = 1;
            for (int k = 0; k < H * C; k++) ok &= isfinite(c[i * H * C + k]) != 0;
            value[i] = ok ? task_cost_value(&task, c + (i * H + H - 1) * C, goal) : INFINITY;
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

static plan_gpu_setup shipped_setup(const shipped* s, plan_precision p, plan_gpu_way way) {
    return (plan_gpu_setup){.task = &s->model->task,
                            .shape = s->weights.shape,
                            .weights = &s->weights.net,
                            .options = contract_options(),
                            .precision = p,
                            .way = way,
                            .searches = 1};
}

// What rounding may do to the shipped models' predictions, in units of their tasks' tolerances.
static const double rounding[] = {1e-4, 0.03, 0.25};

// The plans that the GPU finds, judged by the CPU's float32 model, are as good as the CPU's own.
TEST(cuda, plan_solve_like_cpu) {
    shipped s;
    plan_options options = contract_options();
    search_ends cpu, gpu;
    if (!gpu_there()) return;
    int ok =
        shipped_open(&s, "tworoom") && search_on_cpu(&s, s.net, &options, SEARCH_REFERENCE, &cpu);
    for (plan_precision p = PLAN_FP32; p <= PLAN_BF16 && ok; p++)
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
            if (p == PLAN_FP32 && way != PLAN_GPU_LAYERED) continue;
            plan_gpu_setup setup = shipped_setup(&s, p, way);
            plan_gpu* g;
            firm_error err = {0};
            if (!make(&setup, &g)) continue;
            double path = 0;
            for (int i = 0; i < SEARCH_STARTS; i++)
                for (int k = 0; k < SEARCH_SEEDS; k++) {
                    plan_problem q = {search_start[i], search_fiber(i), search_goal[i],
                                      search_seed(k), 0};
                    plan_answer a;
                    REQUIRE_OK(plan_gpu_solve(g, 1, &q, options.iterations, 0, &a, &err), err);
                    EXPECT_INT(a.elites, 30);
                    EXPECT_INT(a.nonfinite, 0);
                    gpu.distance[i][k] = search_end(&s, i, a.plan);
                    float again[HORIZON * 2];
                    plan_net_rollout(s.net, s.scratch, 1, HORIZON, q.now, q.memory, a.plan, again);
                    for (int j = 0; j < HORIZON * 2; j++)
                        path =
                            test_worse(path, fabs(a.path[j] - again[j]) / fmax(1, fabs(again[j])));
                }
            search_verdict v = search_judge(&cpu, &gpu);
            printf(
                "  %s, %s: plans end %.3g further away than the CPU's in the mean, %.3g allowed; "
                "one by %.2f spreads; paths off by %.3g\n",
                plan_precision_name(p), plan_gpu_way_name(g), v.worse, v.allowed, v.single, path);
            EXPECT(search_sound(&v));
            EXPECT_NEAR(path, 0, p == PLAN_FP32 ? 1e-5 : p == PLAN_TF32 ? 2e-3 : 2e-2);
            plan_gpu_free(g);
        }
    shipped_close(&s);
}

// The first iteration, before selection can amplify anything: the same candidates end within
// rounding of where the CPU sees them, cost what such an end costs, and the mean is their elites'.
static void first_iteration(int priced) {
    enum { N = 300, A = 10, E = 30 };
    shipped s;
    plan_options options = contract_options();
    int ok = shipped_open(&s, "tworoom");
    if (ok) s.model->task.distance[0].rule.count = priced;
    plan_actions actions = {.dim = 2, .controls = 5};
    float zero[HORIZON * A] = {0}, one[HORIZON * A];
    for (int j = 0; j < HORIZON * A; j++) one[j] = 1;
    float *u = malloc(N * HORIZON * A * sizeof *u), *want = malloc(N * HORIZON * 2 * sizeof *want);
    plan_proposal proposal = {.options = &options,
                              .actions = &actions,
                              .seed = search_seed(0),
                              .horizon = HORIZON,
                              .mean = zero,
                              .spread = one};
    for (int i = 0; i < N; i++) plan_propose(&proposal, i, u + i * HORIZON * A);
    for (plan_precision p = PLAN_FP32; p <= PLAN_BF16 && ok; p++)
        for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
            if (p == PLAN_FP32 && way != PLAN_GPU_LAYERED) continue;
            plan_gpu_setup setup = shipped_setup(&s, p, way);
            plan_gpu* g;
            firm_error err = {0};
            if (!make(&setup, &g)) continue;
            double ends = 0, costs = 0, means = 0;
            for (int i = 0; i < SEARCH_STARTS; i++) {
                plan_problem q = {search_start[i], search_fiber(i), search_goal[i], search_seed(0),
                                  0};
                plan_answer a;
                REQUIRE_OK(plan_gpu_solve(g, 1, &q, 1, 1, &a, &err), err);
                plan_net_rollout(s.net, s.scratch, N, HORIZON, q.now, q.memory, u, want);
                double mean[HORIZON * A] = {0};
                for (int k = 0; k < N; k++) {
                    const float *end = a.paths + (k * HORIZON + HORIZON - 1) * 2,
                                *there = want + (k * HORIZON + HORIZON - 1) * 2;
                    double cost = task_cost_value(&s.model->task, end, q.goal);
                    int rank = 0;
                    for (int j = 0; j < N; j++)
                        rank += a.value[j] < a.value[k] || (a.value[j] == a.value[k] && j < k);
                    ends = test_worse(ends, task_tolerance_units(&s.model->task, end, there));
                    costs = test_worse(costs, fabs(a.value[k] - cost) / fmax(cost, 1e-6));
                    for (int j = 0; j < HORIZON * A && rank < E; j++)
                        mean[j] += u[k * HORIZON * A + j] / E;
                }
                for (int j = 0; j < HORIZON * A; j++)
                    means = test_worse(means, fabs(a.plan[j] - mean[j]));
            }
            printf(
                "  %s, %s: ends off by %.3g tolerances, costs by %.3g of themselves, mean of the "
                "elites by %.3g\n",
                plan_precision_name(p), plan_gpu_way_name(g), ends, costs, means);
            EXPECT_NEAR(ends, 0, rounding[p]);
            EXPECT_NEAR(costs, 0, 1e-5);
            EXPECT_NEAR(means, 0, 1e-5);
            plan_gpu_free(g);
        }
    free(u), free(want);
    shipped_close(&s);
}

TEST(cuda, plan_first_iteration_like_cpu) {
    first_iteration(2);
}
// The goal speaks of x alone.
TEST(cuda, plan_free_coordinates_cost_nothing) {
    first_iteration(1);
}

static void round_shipped(const char* task) {
    enum { N = 300 };
    shipped s;
    if (shipped_open(&s, task)) {
        const plan_net_shape* shape = &s.weights.shape;
        int config = shape->config, size = N * HORIZON * config;
        float c0[FIRM_MAX_CONFIG] = {-0.5f, 0.2f}, *m0 = normals(shape->fiber, 8),
              *u = normals(N * HORIZON * shape->action, 9),
              *got = malloc((size_t)size * sizeof *got),
              *want = malloc((size_t)size * sizeof *want);
        unit_pairs(c0, shape->pairs);
        plan_net_rollout(s.net, s.scratch, N, HORIZON, c0, m0, u, want);
        for (plan_precision p = PLAN_FP32; p <= PLAN_BF16; p++)
            for (plan_gpu_way way = PLAN_GPU_LAYERED; way <= PLAN_GPU_CLUSTER; way++) {
                if (p == PLAN_FP32 && way != PLAN_GPU_LAYERED) continue;
                plan_gpu_setup setup = shipped_setup(&s, p, way);
                plan_gpu* g;
                firm_error err = {0};
                int bad;
                if (!make(&setup, &g)) continue;
                REQUIRE_OK(plan_gpu_rollout(g, N, HORIZON, c0, m0, u, got, &bad, &err), err);
                double worst = 0, mean = 0;
                for (int i = 0; i < N * HORIZON; i++) {
                    double off =
                        task_tolerance_units(&s.model->task, got + i * config, want + i * config);
                    worst = test_worse(worst, off);
                    mean += off / (N * HORIZON);
                }
                printf("  %s, %s, %s: %.3g tolerances, %.3g in the mean\n", task,
                       plan_precision_name(p), plan_gpu_way_name(g), worst, mean);
                EXPECT_NEAR(worst, 0, rounding[p]);
                plan_gpu_free(g);
            }
        free(m0), free(u), free(got), free(want);
    }
    shipped_close(&s);
}

TEST(cuda, plan_shipped_predictions) {
    round_shipped("tworoom");
    round_shipped("reacher");
}

// One after the other, all at once, twice: the same bits.
TEST(cuda, plan_batch_same_bits) {
    enum { N = 9 };
    toy_net t = toy_net_make(tworoom_shape, 80);
    task_typed task = task_of(&t.shape);
    for (int round = 0; round < 6; round++) {
        plan_gpu_setup setup = setup_of(&task, &t, (plan_precision)(round % 3));
        setup.searches = N;
        setup.way = round < 3 ? PLAN_GPU_LAYERED : PLAN_GPU_BATCH;
        setup.options.iterations = 6;
        plan_gpu* g;
        firm_error err = {0};
        if (!make(&setup, &g)) break;
        float *c0 = normals(N * 2, 1), *m0 = normals(N * 128, 2), *goal = normals(N * 2, 3);
        plan_problem q[N];
        plan_answer a[N];
        float plan[N][50], path[N][10];
        for (int i = 0; i < N; i++)
            q[i] = (plan_problem){c0 + 2 * i, m0 + 128 * i, goal + 2 * i, (uint64_t)i + 9, 3};
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

// A search repeated, by the same planner and by another. Under a sanitizer a short one, once by
// another: two clusters that meet twice, and take turns with their places for what is sent.
static void cluster_twice(plan_precision p) {
    toy_net t = toy_net_make(cube_shape, 81);
    task_typed task = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&task, &t, p);
    setup.way = PLAN_GPU_CLUSTER;
    if (test_short()) {
        setup.options.candidates = 96;
        setup.options.horizon = setup.options.horizon_max = 2;
    }
    int iterations = test_short() ? 2 : 30, rounds = test_short() ? 1 : 6;
    size_t plan_bytes = (size_t)(setup.options.horizon * 25) * sizeof(float),
           value_bytes = (size_t)setup.options.candidates * sizeof(float);
    plan_gpu *g = NULL, *other = NULL;
    firm_error err = {0};
    float *c0 = normals(3, 1), *m0 = normals(128, 2), *goal = normals(3, 3), plan[125], value[300];
    plan_problem q = {c0, m0, goal, 4, 2};
    plan_answer a;
    if (make(&setup, &g) && make(&setup, &other)) {
        REQUIRE_OK(plan_gpu_solve(g, 1, &q, iterations, 1, &a, &err), err);
        memcpy(plan, a.plan, plan_bytes);
        memcpy(value, a.value, value_bytes);
        for (int round = 0; round < rounds; round++) {
            REQUIRE_OK(plan_gpu_solve(round % 2 ? g : other, 1, &q, iterations, 1, &a, &err), err);
            EXPECT_INT(memcmp(a.plan, plan, plan_bytes), 0);
            EXPECT_INT(memcmp(a.value, value, value_bytes), 0);
        }
    }
    free(c0), free(m0), free(goal);
    plan_gpu_free(g);
    plan_gpu_free(other);
    toy_net_free(&t);
}

TEST(cuda, plan_cluster_tf32_twice_same_bits) {
    cluster_twice(PLAN_TF32);
}
TEST(cuda, plan_cluster_bf16_twice_same_bits) {
    cluster_twice(PLAN_BF16);
}

TEST(cuda, plan_refusals) {
    toy_net t = toy_net_make(tworoom_shape, 90);
    task_typed task = task_of(&t.shape);
    plan_gpu_setup setup = setup_of(&task, &t, PLAN_FP32);
    plan_gpu* g = NULL;
    firm_error err = {0};
    setup.options.candidates = 10000;
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "10000") != NULL);
    setup.options.candidates = 300;
    setup.searches = 0;
    EXPECT_INT(plan_gpu_create(&setup, &g, &err), FIRM_E_VALUE);
    setup.searches = 1;
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
