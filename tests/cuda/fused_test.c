// fused_test.c - the batch way's one kernel on Hopper as a ladder: each rung adds one part of the
// transition, so the first that fails names what is wrong. Rungs compare with double arithmetic on
// operands rounded alike (rounded.h) and print the residual of both precisions; a rung that fails
// also prints which rows, and which features of LN(h), are off. Each can be run alone:
//
//     timeout 60 build-cuda/firm_tests cuda/fused_1
#include "../measure/rounded.h"
#include "../plan/toys.h"
#include "check.h"
#include "core/rng.h"
#include "env/env.h"
#include "plan/gpu.h"

// Three blocks, the last with two rows; 8 coordinates make the heads show 8 numbers at once.
enum { ROWS = 258, CONFIG = 8, FIBER = 128, ACTION = 10, HIDDEN = 384, INNER = 768 };
enum { STATE = CONFIG + FIBER, X = STATE + ACTION, MOST_STEPS = 5 };

// Compared rows: ends and insides of warps, warpgroups and blocks.
static const int seen[] = {0, 1, 7, 8, 15, 16, 37, 63, 64, 100, 127, 128, 191, 200, 255, 256, 257};
enum { SEEN = sizeof seen / sizeof *seen };

// What of a net is not zero.
enum part {
    HEADS = 1,
    IN_SELECTS = 2,  // feature j is input j % X
    IN = 4,          // random
    UP_SELECTS = 8,  // inner feature i is feature i % 384, outputs add it back in place
    BLOCK_ONE = 16,  // random
    BLOCK_TWO = 32,
    FIBER_HEADS = 64  // m moves too
};

static float* writable(const float* w) {
    return (float*)(uintptr_t)w;  // a toy's own memory
}

static void zero(const float* w, int n) {
    memset(writable(w), 0, (size_t)n * sizeof(float));
}

static void select_up(const plan_net_block* q) {
    zero(q->w1, HIDDEN * INNER);
    zero(q->w2, HIDDEN * INNER);
    for (int i = 0; i < INNER; i++) {
        writable(q->w1)[i % HIDDEN * INNER + i] = 1;
        writable(q->w2)[i * HIDDEN + i % HIDDEN] = i < HIDDEN ? 1 : -0.5f;
    }
}

static toy_net net_of(int parts) {
    toy_net t = toy_net_make((plan_net_shape){CONFIG, 0, FIBER, ACTION, HIDDEN, INNER, 2, 0}, 4321);
    const plan_net_weights* w = &t.weights;
    if (!(parts & HEADS)) zero(w->w_c, HIDDEN * CONFIG);
    if (!(parts & FIBER_HEADS)) zero(w->w_m, HIDDEN * FIBER);
    if (!(parts & IN)) zero(w->w_in, X * HIDDEN);
    for (int j = 0; j < HIDDEN && parts & IN_SELECTS; j++)
        writable(w->w_in)[j % X * HIDDEN + j] = 1;
    for (int b = 0; b < 2; b++) {
        const plan_net_block* q = &w->block[b];
        if (parts & (b ? BLOCK_TWO : BLOCK_ONE)) continue;
        if (!b && parts & UP_SELECTS) {
            select_up(q);
            continue;
        }
        zero(q->w1, HIDDEN * INNER);
        zero(q->w2, HIDDEN * INNER);
    }
    return t;
}

typedef struct rung {
    plan_precision precision;
    int horizon;
    float c0[CONFIG], m0[FIBER];
    float u[ROWS * MOST_STEPS * ACTION], seen_u[SEEN * MOST_STEPS * ACTION];
    float got[ROWS * MOST_STEPS * CONFIG];
    double want[SEEN * MOST_STEPS * CONFIG];
} rung;

static rung* rung_make(plan_precision precision, int horizon) {
    rung* r = calloc(1, sizeof *r);
    r->precision = precision;
    r->horizon = horizon;
    rng_fill_normal(12, RNG_STREAM(RNG_TEST, 1), 0, r->c0, CONFIG);
    rng_fill_normal(12, RNG_STREAM(RNG_TEST, 2), 0, r->m0, FIBER);
    rng_fill_normal(12, RNG_STREAM(RNG_TEST, 3), 0, r->u, ROWS * horizon * ACTION);
    size_t one = (size_t)(horizon * ACTION);
    for (int i = 0; i < SEEN; i++)
        memcpy(r->seen_u + (size_t)i * one, r->u + (size_t)seen[i] * one, one * sizeof(float));
    return r;
}

// A planner of so many searches; NULL where it could not be, and the test is skipped or failed.
static plan_gpu* planner_of(const rung* r, const toy_net* t, int searches) {
    static const task_typed task = {.name = "test",
                                    .config_dim = CONFIG,
                                    .action_dim = 2,
                                    .distances = 1,
                                    .distance = {{"all", "1", 1, {.count = CONFIG, .scale = 1}}},
                                    .cost = TASK_COST_SUM};
    plan_gpu_setup setup = {.task = &task,
                            .shape = t->shape,
                            .weights = &t->weights,
                            .options = {.mode = FIRM_MODE_CONTRACT,
                                        .candidates = ROWS,
                                        .iterations = 1,
                                        .elites = 2,
                                        .horizon = r->horizon,
                                        .horizon_max = r->horizon,
                                        .replan = 1,
                                        .spread = 1},
                            .precision = r->precision,
                            .way = PLAN_GPU_BATCH,
                            .searches = searches};
    plan_gpu* g = NULL;
    firm_error err = {0};
    if (plan_gpu_create(&setup, &g, &err) != FIRM_OK) {
        if (strstr(err.message, "no CUDA GPU") || strstr(err.message, "NVIDIA driver"))
            test_skip(err.message);
        else
            test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    if (strcmp(plan_gpu_way_name(g), "fused") == 0) return g;
    test_skip("this GPU, or this build, has not the fused kernel (compute capability 9.0)");
    plan_gpu_free(g);
    return NULL;
}

// The first `rows` rows on the GPU; 0 where it could not be.
static int predict(rung* r, const toy_net* t, int rows) {
    plan_gpu* g = planner_of(r, t, 1);
    firm_error err = {0};
    int bad = 0, done = 0;
    memset(r->got, 0xff, sizeof r->got);
    if (!g) return 0;
    if (plan_gpu_rollout(g, rows, r->horizon, r->c0, r->m0, r->u, r->got, &bad, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
    } else {
        done = 1;
        EXPECT_INT(bad, 0);
    }
    plan_gpu_free(g);
    return done;
}

static double moved(const rung* r, int row, int step, int i) {
    return r->got[(row * r->horizon + step) * CONFIG + i] - r->c0[i];
}

// Norm of what is off over the norm of all movement, of one row or (-1) of all.
static double residual(const rung* r, int only) {
    double off = 0, whole = 1e-30;
    for (int k = 0; k < SEEN; k++)
        for (int step = 0; step < r->horizon && (only < 0 || only == k); step++)
            for (int i = 0; i < CONFIG; i++) {
                double want = r->want[(k * r->horizon + step) * CONFIG + i] - r->c0[i],
                       e = moved(r, seen[k], step, i) - want;
                off += e * e;
                whole += want * want;
            }
    return sqrt(off / whole);
}

static int compare(rung* r, const toy_net* t) {
    if (!predict(r, t, ROWS)) return 0;
    rounded_way way = {.precision = r->precision};
    rounded_rollout(&t->shape, &t->weights, way, SEEN, r->horizon, r->c0, r->m0, r->seen_u,
                    r->want);
    return 1;
}

// The heads pick 8 features of LN(h) at a time: which are off after one macro step.
static void print_features(int parts, plan_precision precision, double bound) {
    printf("    features of LN(h) off:");
    for (int first = 0; first < HIDDEN; first += CONFIG) {
        toy_net t = net_of(parts);
        rung* r = rung_make(precision, 1);
        zero(t.weights.w_c, HIDDEN * CONFIG);
        for (int i = 0; i < CONFIG; i++) writable(t.weights.w_c)[(first + i) * CONFIG + i] = 1;
        double e = compare(r, &t) ? residual(r, -1) : NAN;
        if (!(e <= 3 * bound)) printf(" %d-%d (%.2g)", first, first + CONFIG - 1, e);
        free(r);
        toy_net_free(&t);
        if (isnan(e)) break;
    }
    printf("\n");
}

static void climb(const char* what, int parts, int horizon, const double bound[2]) {
    for (plan_precision p = PLAN_TF32; p <= PLAN_BF16; p++) {
        toy_net t = net_of(parts);
        rung* r = rung_make(p, horizon);
        if (compare(r, &t)) {
            double e = residual(r, -1);
            printf("  %s, %s: %.3g\n", what, plan_precision_name(p), e);
            EXPECT_NEAR(e, 0, bound[p == PLAN_BF16]);
            if (!(e <= bound[p == PLAN_BF16])) {
                printf("    rows:");
                for (int k = 0; k < SEEN; k++) printf(" %d %.2g", seen[k], residual(r, k));
                printf("\n");
                if (parts & HEADS) print_features(parts, p, bound[p == PLAN_BF16]);
            }
        }
        free(r);
        toy_net_free(&t);
    }
}

// Three times what a float32 emulation on the CPU leaves: one macro step and five.
static const double one_step[2] = {3e-4, 9e-4}, five_steps[2] = {2e-3, 8e-3};

// No weight at all: chunks come and go, c gets its bias. Only float32 sums round: an ulp of c near
// 1 over moves of about 0.1.
TEST(cuda, fused_1_stream) {
    static const double exact[2] = {5e-6, 5e-6};
    climb("no weights", 0, 1, exact);
    climb("no weights, five macro steps", 0, 5, exact);
}

TEST(cuda, fused_2_heads) {
    climb("LayerNorm and heads", HEADS, 1, one_step);
}

TEST(cuda, fused_3_in) {
    climb("inputs copied into h", HEADS | IN_SELECTS, 1, one_step);
    climb("first product", HEADS | IN, 1, one_step);
}

TEST(cuda, fused_4_block) {
    climb("features copied through a residual block", HEADS | IN | UP_SELECTS, 1, one_step);
    climb("one residual block", HEADS | IN | BLOCK_ONE, 1, one_step);
}

TEST(cuda, fused_5_step) {
    climb("one macro step", HEADS | IN | BLOCK_ONE | BLOCK_TWO, 1, one_step);
}

TEST(cuda, fused_6_steps) {
    climb("two macro steps, m stands still", HEADS | IN | BLOCK_ONE | BLOCK_TWO, 2, five_steps);
    climb("two macro steps", HEADS | IN | BLOCK_ONE | BLOCK_TWO | FIBER_HEADS, 2, five_steps);
    climb("five macro steps", HEADS | IN | BLOCK_ONE | BLOCK_TWO | FIBER_HEADS, 5, five_steps);
}

// Rows that fill no tile: the same bits as among others, and none beyond the last is written.
TEST(cuda, fused_7_rows) {
    static const int counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 192, 256, 257};
    toy_net t = net_of(HEADS | IN | BLOCK_ONE | BLOCK_TWO | FIBER_HEADS);
    rung *all = rung_make(PLAN_TF32, MOST_STEPS), *some = rung_make(PLAN_TF32, MOST_STEPS);
    if (predict(all, &t, ROWS))
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            size_t bytes = (size_t)(counts[i] * MOST_STEPS * CONFIG) * sizeof(float);
            if (!predict(some, &t, counts[i])) break;
            int same = memcmp(all->got, some->got, bytes) == 0;
            printf("  %d rows: %s\n", counts[i], same ? "same bits" : "DIFFERENT");
            EXPECT(same);
        }
    free(all), free(some);
    toy_net_free(&t);
}

// More rows than the multiprocessors hold at once, so that they may change hands between macro
// steps: a search over and over, predicted and planned as it is alone.
TEST(cuda, fused_8_many) {
    enum { MANY = 85, PATHS = ROWS * MOST_STEPS * CONFIG };
    toy_net t = net_of(HEADS | IN | BLOCK_ONE | BLOCK_TWO | FIBER_HEADS);
    for (plan_precision p = PLAN_TF32; p <= PLAN_BF16; p++) {
        rung* r = rung_make(p, MOST_STEPS);
        plan_gpu* g = planner_of(r, &t, MANY);
        float plan[MOST_STEPS * ACTION], goal[CONFIG] = {0};
        plan_problem q[MANY];
        plan_answer a[MANY];
        firm_error err = {0};
        for (int i = 0; i < MANY; i++) q[i] = (plan_problem){r->c0, r->m0, goal, 7, 0};
        for (int again = 0; g && again < 4; again++) {
            int count = again ? MANY : 1, off = 0;
            if (plan_gpu_solve(g, count, q, 3, 1, a, &err) != FIRM_OK) {
                test_fail(__FILE__, __LINE__, "%s", err.message);
                break;
            }
            if (!again) {
                memcpy(plan, a[0].plan, sizeof plan);
                memcpy(r->got, a[0].paths, sizeof r->got);
                continue;
            }
            for (int i = 0; i < MANY; i++)
                off += memcmp(r->got, a[i].paths, PATHS * sizeof(float)) != 0 ||
                       memcmp(plan, a[i].plan, sizeof plan) != 0;
            printf("  %s: %d of %d searches differ\n", plan_precision_name(p), off, MANY);
            EXPECT_INT(off, 0);
        }
        plan_gpu_free(g);
        free(r);
    }
    toy_net_free(&t);
}
