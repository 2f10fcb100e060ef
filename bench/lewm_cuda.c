// lewm_cuda.c - LeWM's contract search on a GPU, the published sizes, random weights: one search
// and a hundred at once, in milliseconds, best and median of some. `ninja bench_lewm_cuda`;
// `bench_lewm_cuda SEARCHES PRECISION` measures one of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rng.h"
#include "core/stats.h"
#include "plan/lewm_gpu.h"

enum { ROUNDS = 9, MOST = 100 };

static int run(const lewm_model* m, plan_precision precision, int searches) {
    lewm_gpu_setup setup = {.model = m,
                            .options = {.mode = FIRM_MODE_CONTRACT,
                                        .candidates = 300,
                                        .iterations = 30,
                                        .elites = 30,
                                        .horizon = 5,
                                        .horizon_max = 5,
                                        .replan = 5,
                                        .spread = 1},
                            .precision = precision,
                            .searches = searches};
    firm_error err = {0};
    lewm_gpu* g;
    int64_t begun = clock_ns();
    if (lewm_gpu_create(&setup, &g, &err) != FIRM_OK) {
        fprintf(stderr, "bench_lewm_cuda: %s\n", err.message);
        return 1;
    }
    double created = (double)(clock_ns() - begun) * 1e-6, ms[ROUNDS];
    static float numbers[2 * MOST * 192];
    rng_fill_normal(1, RNG_STREAM(RNG_TRIAL, 0), 0, numbers, 2 * searches * 192);
    static plan_problem q[MOST];
    static plan_answer a[MOST];
    for (int i = 0; i < searches; i++)
        q[i] = (plan_problem){
            .now = numbers + i * 192, .goal = numbers + (searches + i) * 192, .seed = (uint64_t)i};
    for (int i = 0; i <= ROUNDS; i++) {
        begun = clock_ns();
        if (lewm_gpu_solve(g, searches, q, 30, 0, a, &err) != FIRM_OK) {
            fprintf(stderr, "bench_lewm_cuda: %s\n", err.message);
            return 1;
        }
        if (i) ms[i - 1] = (double)(clock_ns() - begun) * 1e-6;
    }
    stats_sort(ms, ROUNDS);
    const double each = 1.652e12 * searches;
    printf(
        "%-4s %3d at once: %8.2f ms median, %8.2f best; %6.2f ms each; %5.0f TFLOP/s; %.1f GB; "
        "created in %.0f ms; cost %.4g\n",
        plan_precision_name(precision), searches, ms[ROUNDS / 2], ms[0], ms[ROUNDS / 2] / searches,
        each / ms[ROUNDS / 2] * 1e-9, (double)lewm_gpu_bytes(g) * 1e-9, created,
        (double)a[0].elite_cost);
    fflush(stdout);
    lewm_gpu_free(g);
    return 0;
}

int main(int argc, char** argv) {
    const task_typed task = {.name = "bench",
                             .image = 224,
                             .controls = 5,
                             .horizon = 5,
                             .action_dim = 2,
                             .action_low = -1,
                             .action_high = 1,
                             .config_dim = 2,
                             .chi_dim = 1,
                             .config_name = {"x", "y"},
                             .distances = 1,
                             .distance = {{"d", "px", 1, {.count = 2, .scale = 1}}}};
    lewm_shape shape = lewm_shape_default();
    lewm_model* m;
    firm_error err = {0};
    if (lewm_create(&task, &shape, 1, &m, &err) != FIRM_OK) {
        fprintf(stderr, "bench_lewm_cuda: %s\n", err.message);
        return 1;
    }
    // the modulation starts at 0, and every block as the identity
    for (int e = 0; e < m->store->entries; e++)
        if (m->store->entry[e].init == NN_INIT_ZERO && m->store->entry[e].rank == 2)
            for (size_t i = 0; i < m->store->entry[e].count; i++)
                m->store->value[m->store->entry[e].offset + i] = 0.01f * (float)((int)(i % 7) - 3);
    int failed = 0;
    for (int p = PLAN_TF32; p <= PLAN_BF16; p++)
        for (int searches = 1; searches <= MOST; searches = searches == 1 ? 25 : 4 * searches)
            if (argc < 3 || (atoi(argv[1]) == searches &&
                             strcmp(argv[2], plan_precision_name((plan_precision)p)) == 0))
                failed |= run(m, (plan_precision)p, searches);
    lewm_free(m);
    return failed;
}
