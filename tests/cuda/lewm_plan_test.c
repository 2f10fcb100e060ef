// lewm_plan_test.c - LeWM's planner on a GPU against the one on the CPU: rollouts in every
// precision, one iteration of a search, whole searches, many at once. Skipped where there is no
// GPU.
#include "../plan/lewm_toys.h"
#include "check.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "plan/cem.h"
#include "plan/lewm_gpu.h"
#include "plan/lewm_net.h"

enum { N = 37, FULL = 300, P = 6, MANY = 3 };

static plan_options options(int candidates, int iterations) {
    return (plan_options){.mode = FIRM_MODE_CONTRACT,
                          .candidates = candidates,
                          .iterations = iterations,
                          .elites = 7,
                          .horizon = P,
                          .horizon_max = P,
                          .replan = P,
                          .spread = 1};
}

// 0 and skipped where there is no GPU; any other failure fails the test.
static int create(const lewm_gpu_setup* setup, lewm_gpu** g) {
    firm_error err = {0};
    if (lewm_gpu_create(setup, g, &err) == FIRM_OK) return 1;
    if (strstr(err.message, "no CUDA GPU") || strstr(err.message, "NVIDIA driver"))
        test_skip(err.message);
    else
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static int make(const lewm_model* m, plan_precision precision, int candidates, int searches,
                lewm_gpu** g) {
    const lewm_gpu_setup setup = {.model = m,
                                  .options = options(candidates, 1),
                                  .precision = precision,
                                  .searches = searches};
    return create(&setup, g);
}

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

typedef struct rollout_case {
    plan_precision precision;
    double tolerance;
    int in_turn, whole;  // product by product; as one kernel on Hopper
} rollout_case;

// Rollouts of n candidates of a model, which it frees, on the GPU against the CPU's.
static void compare_rollouts(lewm_model* m, int n, const rollout_case* cases, size_t count) {
    lewm_net* net;
    firm_error err = {0};
    if (!m) return;
    REQUIRE_OK(lewm_net_create(m, &net, &err), err);
    const int width = m->shape.width, action = lewm_action_dim(m), size = n * P * width;
    float *z0 = normals(width, 1), *u = normals(n * P * action, 2),
          *want = malloc((size_t)size * sizeof *want), *got = malloc((size_t)size * sizeof *got),
          *again = malloc((size_t)size * sizeof *again);
    void* scratch = mem_alloc(lewm_net_scratch_bytes(net));
    lewm_net_rollout(net, scratch, n, P, z0, u, want);
    for (size_t c = 0; c < count; c++) {
        lewm_gpu* g;
        const lewm_gpu_setup setup = {.model = m,
                                      .options = options(n, 1),
                                      .precision = cases[c].precision,
                                      .searches = 1,
                                      .in_turn = cases[c].in_turn};
        if (!create(&setup, &g)) break;
        int bad = -1;
        const char* device = lewm_gpu_device(g);
        if (cases[c].in_turn) EXPECT_INT(lewm_gpu_whole(g), 0);
        if (cases[c].whole && (strstr(device, "H100") || strstr(device, "H200")))
            EXPECT(lewm_gpu_whole(g));
        REQUIRE_OK(lewm_gpu_rollout(g, n, P, z0, u, got, &bad, &err), err);
        double worst = 0, square = 0;
        for (int i = 0; i < size; i++) {
            worst = test_worse(worst, fabs((double)got[i] - (double)want[i]));
            square += (double)want[i] * (double)want[i];
        }
        printf("  context %d, %s, %s: off by %.2e of %.2g\n", m->shape.context,
               plan_precision_name(cases[c].precision),
               lewm_gpu_whole(g) ? "one kernel" : "in turn", worst, sqrt(square / size));
        EXPECT_INT(bad, 0);
        EXPECT_NEAR(worst, 0, cases[c].tolerance);
        REQUIRE_OK(lewm_gpu_rollout(g, n, P, z0, u, again, &bad, &err), err);
        EXPECT(memcmp(got, again, (size_t)size * sizeof *got) == 0);
        // fewer candidates and steps, one of them not finite
        const float kept = u[2 * 4 * action];
        u[2 * 4 * action] = NAN;
        REQUIRE_OK(lewm_gpu_rollout(g, 5, 4, z0, u, got, &bad, &err), err);
        EXPECT_INT(bad, 1);
        u[2 * 4 * action] = kept;
        lewm_gpu_free(g);
    }
    mem_free(scratch);
    free(again), free(got), free(want), free(u), free(z0);
    lewm_net_free(net);
    lewm_free(m);
}

TEST(cuda, lewm_rollouts_equal_the_cpus) {
    static const rollout_case cases[] = {
        {PLAN_FP32, 5e-5, 0, 0}, {PLAN_TF32, 5e-3, 0, 0}, {PLAN_BF16, 5e-2, 0, 0}};
    for (int context = 1; context <= 3; context++)
        compare_rollouts(toy_lewm_even(context, 5), N, cases, sizeof cases / sizeof *cases);
}

// The published widths and number of candidates; in either way where there are two.
TEST(cuda, lewm_rollouts_of_full_width_equal_the_cpus) {
    static const rollout_case turn = {PLAN_BF16, 5e-2, 1, 0}, whole = {PLAN_BF16, 5e-2, 0, 1};
    for (int context = 1; context <= 3; context++)
        compare_rollouts(toy_lewm_wide(context, 5), context == 2 ? N : FULL, &turn, 1);
    compare_rollouts(toy_lewm_wide(3, 5), FULL, &whole, 1);
    compare_rollouts(toy_lewm_wide(3, 5), N, &whole, 1);
}

typedef struct cpu_world {
    lewm_net* net;
    void* scratch;
    const float* z0;
    int width;
} cpu_world;

static int cpu_rollout(void* context, int worker, int n, int horizon, const float* u, float* path) {
    (void)worker;
    cpu_world* w = context;
    return lewm_net_rollout(w->net, w->scratch, n, horizon, w->z0, u, path);
}

static float cpu_cost(const void* context, const float* z, const float* goal) {
    float sum = 0;
    for (int i = 0; i < ((const cpu_world*)context)->width; i++)
        sum += (z[i] - goal[i]) * (z[i] - goal[i]);
    return sum;
}

// One iteration on the CPU and on the GPU in float32: the same elites, so the same mean. Then a
// whole search, alone and among others, ends near a goal that can be reached.
TEST(cuda, lewm_searches_equal_the_cpus) {
    lewm_model* m = toy_lewm_even(3, 5);
    firm_error err = {0};
    lewm_gpu* g;
    if (!m) return;
    if (!make(m, PLAN_FP32, N, MANY, &g)) {
        lewm_free(m);
        return;
    }
    const int width = m->shape.width, action = lewm_action_dim(m);
    float *z0 = normals(MANY * width, 1), *u = normals(P * action, 2),
          *path = malloc((size_t)(P * width) * sizeof *path), plan[MANY][P * 64];
    int bad;
    REQUIRE_OK(lewm_gpu_rollout(g, 1, P, z0, u, path, &bad, &err), err);
    const float* goal = path + (P - 1) * width;
    cpu_world cpu = {.z0 = z0, .width = width};
    REQUIRE_OK(lewm_net_create(m, &cpu.net, &err), err);
    cpu.scratch = mem_alloc(lewm_net_scratch_bytes(cpu.net));
    plan_setup setup = {
        .options = options(N, 1),
        .actions = {.dim = 2, .controls = 5, .deviation = {1, 1}},
        .seed = 4,
        .world = {.model = {.context = &cpu,
                            .state = width,
                            .action = action,
                            .lanes = 1,
                            .workers = 1,
                            .whole = 1,
                            .rollout = cpu_rollout},
                  .price = {.context = &cpu, .state = width, .cost = cpu_cost, .units = cpu_cost}}};
    plan_solver* s;
    plan_result r;
    plan_problem q[MANY];
    plan_answer a[MANY];
    REQUIRE_OK(plan_solver_create(&setup, &s, &err), err);
    plan_solver_solve(s, z0, goal, 0, &r);
    for (int i = 0; i < MANY; i++) q[i] = (plan_problem){z0 + i * width, NULL, goal, 4, 0};
    for (int count = 1; count <= MANY; count++) {
        REQUIRE_OK(lewm_gpu_solve(g, count, q, 1, 1, a, &err), err);
        EXPECT_INT(a[0].elites, 7);
        EXPECT_NEAR(a[0].elite_cost, r.elite_cost, 1e-3 * (double)r.elite_cost);
        double worst = 0, end = 0;
        for (int j = 0; j < P * action; j++)
            worst = test_worse(worst, fabs((double)a[0].plan[j] - (double)r.plan[j]));
        for (int j = 0; j < P * width; j++)
            end = test_worse(end, fabs((double)a[0].path[j] - (double)r.path[width + j]));
        EXPECT_NEAR(worst, 0, 1e-5);
        EXPECT_NEAR(end, 0, 1e-3);
        for (int i = 0; i < count; i++) {
            float least = INFINITY;
            for (int k = 0; k < N; k++) least = fminf(least, a[i].value[k]);
            EXPECT(least > 0 && least <= a[i].elite_cost);
        }
    }
    // whole searches, twice with the same bits
    float *still = calloc((size_t)(P * action), sizeof *still),
          *end_of = malloc((size_t)(P * width) * 4);
    lewm_net_rollout(cpu.net, cpu.scratch, 1, P, z0, still, end_of);
    const float start = cpu_cost(&cpu, end_of + (P - 1) * width, goal);  // of doing nothing
    free(end_of), free(still);
    for (int round = 0; round < 2; round++) {
        REQUIRE_OK(lewm_gpu_solve(g, MANY, q, 15, 0, a, &err), err);
        for (int i = 0; i < MANY; i++) {
            if (round) EXPECT(memcmp(plan[i], a[i].plan, (size_t)(P * action) * 4) == 0);
            memcpy(plan[i], a[i].plan, (size_t)(P * action) * 4);
        }
        float left = cpu_cost(&cpu, a[0].path + (P - 1) * width, goal);
        printf("  %g of %g is left\n", (double)left, (double)start);
        EXPECT(left < 0.25f * start);
    }
    plan_solver_free(s);
    mem_free(cpu.scratch);
    lewm_net_free(cpu.net);
    lewm_gpu_free(g);
    free(path), free(u), free(z0);
    lewm_free(m);
}

// One iteration of the published widths in bfloat16 ends with the mean of the cheapest, as its own
// costs have them; whole searches have the same bits twice, and come nearer to a goal.
TEST(cuda, lewm_searches_of_full_width) {
    lewm_model* m = toy_lewm_wide(3, 5);
    firm_error err = {0};
    lewm_gpu* g;
    if (!m) return;
    if (!make(m, PLAN_BF16, FULL, 1, &g)) {
        lewm_free(m);
        return;
    }
    const int width = m->shape.width, action = lewm_action_dim(m);
    float *z0 = normals(width, 1), *u = normals(P * action, 2),
          *path = malloc((size_t)(P * width) * sizeof *path), plan[P * 64];
    int bad;
    REQUIRE_OK(lewm_gpu_rollout(g, 1, P, z0, u, path, &bad, &err), err);
    const float* goal = path + (P - 1) * width;
    const cpu_world price = {.width = width};
    const plan_problem q = {z0, NULL, goal, 4, 0};
    plan_answer a;
    REQUIRE_OK(lewm_gpu_solve(g, 1, &q, 1, 1, &a, &err), err);
    EXPECT_INT(a.elites, 7);
    double sum = 0;
    for (int k = 0; k < FULL; k++) {
        const float cost = cpu_cost(&price, a.paths + ((size_t)k * P + P - 1) * width, goal);
        EXPECT_NEAR(a.value[k], cost, 1e-4 * (double)cost);
        int rank = 0;
        for (int j = 0; j < FULL; j++)
            rank += a.value[j] < a.value[k] || (a.value[j] == a.value[k] && j < k);
        if (rank < 7) sum += (double)a.value[k];
    }
    EXPECT_NEAR(a.elite_cost, sum / 7, 1e-5 * sum);
    const float start = a.value[0];  // of doing nothing
    for (int round = 0; round < 2; round++) {
        REQUIRE_OK(lewm_gpu_solve(g, 1, &q, 15, 0, &a, &err), err);
        if (round) EXPECT(memcmp(plan, a.plan, (size_t)(P * action) * 4) == 0);
        memcpy(plan, a.plan, (size_t)(P * action) * 4);
        const float left = cpu_cost(&price, a.path + (P - 1) * width, goal);
        printf("  %g of %g is left\n", (double)left, (double)start);
        EXPECT(left < 0.25f * start);
    }
    lewm_gpu_free(g);
    free(path), free(u), free(z0);
    lewm_free(m);
}

// ---- time ---------------------------------------------------------------------------------------

static int compare_numbers(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

// One contract search as published, in bfloat16, in either way in turn: milliseconds, and the same
// bits every time.
TEST(cuda, lewm_time_of_a_search) {
    enum { ROUNDS = 9, STEPS = 5, WAYS = 2 };
    const int iterations = test_short() ? 2 : 30;
    lewm_model* m = toy_lewm_full(5);
    firm_error err = {0};
    lewm_gpu* g[WAYS] = {NULL, NULL};
    double ms[WAYS][ROUNDS];
    float plan[WAYS][STEPS * 64];
    int made = m != NULL;
    for (int way = 0; way < WAYS && made; way++) {
        const lewm_gpu_setup setup = {.model = m,
                                      .options = {.mode = FIRM_MODE_CONTRACT,
                                                  .candidates = FULL,
                                                  .iterations = iterations,
                                                  .elites = 30,
                                                  .horizon = STEPS,
                                                  .horizon_max = STEPS,
                                                  .replan = STEPS,
                                                  .spread = 1},
                                      .precision = PLAN_BF16,
                                      .searches = 1,
                                      .in_turn = way};
        made = create(&setup, &g[way]);
    }
    if (made) {
        const int width = m->shape.width, count = STEPS * lewm_action_dim(m);
        float *z0 = normals(width, 1), *goal = normals(width, 2);
        const plan_problem q = {z0, NULL, goal, 4, 0};
        for (int round = 0; round < ROUNDS; round++)
            for (int way = 0; way < WAYS; way++) {
                plan_answer a;
                const int64_t start = clock_ns();
                REQUIRE_OK(lewm_gpu_solve(g[way], 1, &q, iterations, 0, &a, &err), err);
                ms[way][round] = (double)(clock_ns() - start) / 1e6;
                const size_t size = (size_t)count * sizeof(float);
                if (round) EXPECT(memcmp(plan[way], a.plan, size) == 0);
                memcpy(plan[way], a.plan, size);
            }
        for (int way = 0; way < WAYS; way++) {
            qsort(ms[way], ROUNDS, sizeof **ms, compare_numbers);
            printf("  %s: %.2f ms (%.2f to %.2f)\n",
                   lewm_gpu_whole(g[way]) ? "one kernel" : "in turn", ms[way][ROUNDS / 2],
                   ms[way][0], ms[way][ROUNDS - 1]);
        }
        free(goal), free(z0);
    }
    for (int way = 0; way < WAYS; way++) lewm_gpu_free(g[way]);
    lewm_free(m);
}
