// plan_cuda.c - where the GPU planner's time goes: every way, precision and exchange, one search
// and many, single macro steps. Built on request (ninja bench_plan_cuda); random weights of the
// tasks' shapes, as the time does not depend on them.
//
//     build-cuda/bench_plan_cuda            all of it, about a minute
//     build-cuda/bench_plan_cuda batch      many searches at once only: their phases; seconds
//     build-cuda/bench_plan_cuda hundred    a hundred at once beside one; seconds
//     build-cuda/bench_plan_cuda clocks     where the fused kernel's time goes: cycles by part, and
//                                           times with a part left out; seconds
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rng.h"
#include "core/stats.h"
#include "env/env.h"
#include "plan/gpu.h"

enum { MANY = 100, REPEATS = 30 };

typedef struct subject {
    const char* name;
    plan_net_shape shape;
    int iterations;
    task_typed task;
    plan_net_weights weights;
    float* memory;
} subject;

static const float* draw(float** at, int n, float scale) {
    float* p = *at;
    static uint64_t key = 0;
    rng r = rng_start(1, RNG_STREAM(RNG_TEST, key++));
    for (int i = 0; i < n; i++) p[i] = scale * rng_gauss(&r);
    *at += n;
    return p;
}

static void fill(subject* s) {
    const plan_net_shape* n = &s->shape;
    int x = n->config + n->fiber + n->action;
    float* at = s->memory = calloc(4000000, sizeof(float));
    plan_net_weights* w = &s->weights;
    w->w_in = draw(&at, x * n->hidden, 1 / sqrtf((float)x));
    w->b_in = draw(&at, n->hidden, 0.1f);
    for (int b = 0; b < n->blocks; b++) {
        w->block[b].w1 = draw(&at, n->hidden * n->inner, 1 / sqrtf((float)n->hidden));
        w->block[b].b1 = draw(&at, n->inner, 0.1f);
        w->block[b].w2 = draw(&at, n->hidden * n->inner, 1 / sqrtf((float)n->inner));
        w->block[b].b2 = draw(&at, n->hidden, 0.1f);
    }
    w->w_c = draw(&at, n->hidden * n->config, 0.02f);
    w->b_c = draw(&at, n->config, 0.01f);
    w->w_m = draw(&at, n->hidden * n->fiber, 0.02f);
    w->b_m = draw(&at, n->fiber, 0.01f);
    s->task = (task_typed){.config_dim = n->config,
                           .pairs = n->pairs,
                           .action_dim = n->action / 5,
                           .distances = 1,
                           .distance = {{"all", "1", 1, {.count = n->config, .scale = 1}}},
                           .cost = TASK_COST_SUM};
}

static int variant;  // of the setup of the planners made

static plan_gpu* make(const subject* s, plan_precision precision, plan_gpu_way way, int searches) {
    plan_gpu_setup setup = {.task = &s->task,
                            .shape = s->shape,
                            .weights = &s->weights,
                            .options = {.mode = FIRM_MODE_CONTRACT,
                                        .candidates = 300,
                                        .iterations = s->iterations,
                                        .elites = 30,
                                        .horizon = 5,
                                        .horizon_max = 5,
                                        .replan = 5,
                                        .spread = 1},
                            .precision = precision,
                            .way = way,
                            .searches = searches,
                            .variant = variant};
    plan_gpu* g;
    firm_error err = {0};
    if (plan_gpu_create(&setup, &g, &err) == FIRM_OK) return g;
    printf("  %s\n", err.message);
    return NULL;
}

static void problems(const subject* s, int count, plan_problem* q) {
    static float c0[MANY][8], m0[MANY][128], goal[MANY][8];
    for (int i = 0; i < count; i++) {
        rng r = rng_start(2, RNG_STREAM(RNG_TEST, i));
        for (int k = 0; k < s->shape.config; k++) c0[i][k] = 0.3f * rng_gauss(&r);
        for (int k = 0; k < s->shape.config; k++) goal[i][k] = 0.3f * rng_gauss(&r);
        for (int k = 0; k < 128; k++) m0[i][k] = rng_gauss(&r);
        q[i] = (plan_problem){c0[i], m0[i], goal[i], (uint64_t)i, 0};
    }
}

// Median and best milliseconds of `count` searches at once; NAN if it failed.
static double solve_ms(const subject* s, plan_gpu* g, int count, int iterations, int repeats,
                       double* best) {
    plan_problem q[MANY];
    plan_answer a[MANY];
    double ms[REPEATS];
    firm_error err = {0};
    problems(s, count, q);
    for (int i = -3; i < repeats; i++) {
        int64_t begun = clock_ns();
        if (plan_gpu_solve(g, count, q, iterations, 0, a, &err) != FIRM_OK) {
            printf("  %s\n", err.message);
            return NAN;
        }
        if (i >= 0) ms[i] = (double)(clock_ns() - begun) * 1e-6;
    }
    *best = stats_quantile(ms, repeats, 0);
    return stats_quantile_sorted(ms, repeats, 0.5);
}

static void one_search(const subject* s, plan_precision p, plan_gpu_way way) {
    plan_gpu* g = make(s, p, way, 1);
    if (!g) return;
    double best, whole = solve_ms(s, g, 1, s->iterations, REPEATS, &best), least;
    double one = solve_ms(s, g, 1, 1, REPEATS, &least);
    double step = (whole - one) / (s->iterations - 1) / 5 * 1e3;
    printf("%-8s %-5s %-8s %8.3f ms (best %.3f), an iteration alone %.3f, %.2f us a macro step\n",
           s->name, plan_precision_name(p), plan_gpu_way_name(g), whole, best, one, step);
    plan_gpu_free(g);
}

// Cycles per macro step of the parts of a search in clusters.
static void parts(const subject* s, plan_precision p) {
    plan_gpu* g = make(s, p, PLAN_GPU_CLUSTER, 1);
    float zeros[128] = {0};
    plan_problem q = {zeros, zeros, zeros, 1, 0};
    const char* name[32];
    double cycles[32], sum = 0;
    int count = 0;
    firm_error err = {0};
    if (!g || plan_gpu_clocks(g, &q, s->iterations, 32, name, cycles, &count, &err) != FIRM_OK)
        printf("%s\n", err.message);
    for (int i = 0; i < count; i++) sum += cycles[i];
    for (int i = 0; i < count; i++)
        printf("  %-28s %8.0f cycles a macro step, %4.1f %%\n", name[i],
               cycles[i] / (5 * s->iterations), 100 * cycles[i] / sum);
    printf("  %-28s %8.0f\n", "all", sum / (5 * s->iterations));
    plan_gpu_free(g);
}

static void many(const subject* s, plan_precision p, plan_gpu_way way) {
    static const int counts[] = {1, 5, 10, 20, 25, 50, 100};
    plan_gpu* g = make(s, p, way, MANY);
    if (!g) return;
    double macs = (double)plan_net_macs(&s->shape, NULL) * 300 * 5 * s->iterations;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double best, ms = solve_ms(s, g, counts[i], s->iterations, 5, &best);
        printf("%-8s %-5s %-8s %3d at once: %8.3f ms each, %.0f TFLOP/s\n", s->name,
               plan_precision_name(p), plan_gpu_way_name(g), counts[i], ms / counts[i],
               2e-9 * macs * counts[i] / ms);
    }
    plan_gpu_free(g);
}

// Where the time of many searches at once goes, on the device, per search; what is left of the
// whole are copies, launches and the final means.
static void phases(const subject* s, plan_precision p) {
    static const int counts[] = {1, 25, 50, 100};
    plan_gpu* g = make(s, p, PLAN_GPU_BATCH, MANY);
    if (!g) return;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int n = counts[i];
        plan_problem q[MANY];
        double ms[3], best, whole = solve_ms(s, g, n, s->iterations, 5, &best);
        double macs = (double)plan_net_macs(&s->shape, NULL) * 300 * 5 * s->iterations * n;
        firm_error err = {0};
        problems(s, n, q);
        if (plan_gpu_phases(g, n, q, s->iterations, ms, &err) != FIRM_OK) {
            printf("  %s\n", err.message);
            break;
        }
        printf(
            "%-8s %-5s %-8s %3d at once, ms each: all %.4f, draw %.4f, predict %.4f (%.0f "
            "TFLOP/s), price, rank and refit %.4f\n",
            s->name, plan_precision_name(p), plan_gpu_way_name(g), n, whole / n, ms[0] / n,
            ms[1] / n, 2e-9 * macs / ms[1], ms[2] / n);
    }
    plan_gpu_free(g);
}

// A hundred searches at once beside one.
static void hundred(const subject* s) {
    for (plan_precision p = PLAN_BF16; p >= PLAN_TF32; p--) {
        plan_gpu *one = make(s, p, PLAN_GPU_CLUSTER, 1), *all = make(s, p, PLAN_GPU_BATCH, MANY);
        if (one && all) {
            double best, alone = solve_ms(s, one, 1, s->iterations, REPEATS, &best),
                         each = solve_ms(s, all, MANY, s->iterations, 9, &best) / MANY;
            printf("%-8s %-5s one (%s) %.3f ms, %d at once (%s) %.4f ms each: %.2f times as fast\n",
                   s->name, plan_precision_name(p), plan_gpu_way_name(one), alone, MANY,
                   plan_gpu_way_name(all), each, alone / each);
        }
        plan_gpu_free(one);
        plan_gpu_free(all);
    }
}

// Cycles per macro step of the fused kernel's parts, both warpgroups of the first block.
static void fused_parts(const subject* s) {
    variant = 1;
    plan_gpu* g = make(s, PLAN_BF16, PLAN_GPU_BATCH, 1);
    variant = 0;
    float zeros[128] = {0};
    plan_problem q = {zeros, zeros, zeros, 1, 0};
    const char* name[64];
    double cycles[64], sum[2] = {0, 0};
    int count = 0, steps = 5 * s->iterations + 5;  // and the means' predictions
    firm_error err = {0};
    if (!g || plan_gpu_clocks(g, &q, s->iterations, 64, name, cycles, &count, &err) != FIRM_OK)
        printf("%s\n", err.message);
    count /= 2;
    for (int i = 0; i < 2 * count; i++) sum[i / count] += cycles[i];
    for (int i = 0; i < count; i++)
        printf("  %-22s %8.0f and %8.0f cycles a macro step, %4.1f and %4.1f %%\n", name[i],
               cycles[i] / steps, cycles[i + count] / steps, 100 * cycles[i] / sum[0],
               100 * cycles[i + count] / sum[1]);
    printf("  %-22s %8.0f and %8.0f\n", "all", sum[0] / steps, sum[1] / steps);
    plan_gpu_free(g);
}

static void fused_only(const subject* s) {
    static const struct {
        int variant;
        const char* what;
    } variants[] = {{0, "the kernel itself"},
                    {2, "without GELU"},
                    {4, "without fetching weights"},
                    {8, "without products"}};
    printf("cycles:\n");
    fused_parts(s);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        variant = variants[i].variant;
        printf("%s:\n", variants[i].what);
        phases(s, PLAN_BF16);
    }
    variant = 0;
}

int main(int argc, char** argv) {
    subject subjects[] = {
        {.name = "tworoom", .shape = {2, 0, 128, 10, 384, 768, 2}, .iterations = 30},
        {.name = "cube", .shape = {3, 0, 128, 25, 384, 768, 2}, .iterations = 10}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) {
        fill(&subjects[0]);
        if (strcmp(argv[1], "batch") == 0)
            for (plan_precision p = PLAN_BF16; p >= PLAN_TF32; p--) phases(&subjects[0], p);
        else if (strcmp(argv[1], "hundred") == 0)
            hundred(&subjects[0]);
        else if (strcmp(argv[1], "clocks") == 0)
            fused_only(&subjects[0]);
        else
            printf("batch, hundred, clocks or nothing\n");
        free(subjects[0].memory);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        subject* s = &subjects[i];
        fill(s);
        for (plan_precision p = PLAN_FP32; p <= PLAN_BF16; p++) {
            one_search(s, p, PLAN_GPU_LAYERED);
            if (p == PLAN_FP32) continue;
            one_search(s, p, PLAN_GPU_CLUSTER);
        }
        parts(s, PLAN_TF32);
    }
    for (plan_precision p = PLAN_FP32; p <= PLAN_BF16; p++) {
        double rate = NAN;
        firm_error err = {0};
        if (plan_gpu_peak(p, &rate, &err) != FIRM_OK) printf("%s\n", err.message);
        printf("peak %s: %.0f GFLOP/s\n", plan_precision_name(p), rate);
    }
    for (plan_precision p = PLAN_BF16; p >= PLAN_FP32; p--) {
        many(&subjects[0], p, PLAN_GPU_LAYERED);
        if (p == PLAN_FP32) break;
        many(&subjects[0], p, PLAN_GPU_BATCH);
        phases(&subjects[0], p);
    }
    for (int i = 0; i < 2; i++) free(subjects[i].memory);
    return 0;
}
