// plan_kernels.c - the planner's product kernels by themselves, by where their operands lie.
//     ninja -C build bench_plan_kernels && build/bench_plan_kernels [THREADS] [fp32|bf16] [PANEL]
// PANEL: 0 the widest, 1 the next. A row: inputs of the product, groups of output features, panels
// of candidates, the bytes of both, and the rate of one thread beside its multiply-add rate. Groups
// and panels are taken in the rollout's order: all panels for a group, then the next group.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fma.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/simd.h"
#include "plan/net_kernels.h"

enum { ROUNDS = 5, MS = 4 };

typedef struct shape {
    int inputs, groups, panels;
    net_epilogue epilogue;
} shape;

typedef struct job {
    const net_kernels* k;
    shape s;
    int kind;  // of panel
    int repeats;
    char *w, *in, *out;  // (threads)
    size_t w_bytes, in_bytes, out_bytes;
} job;

static void run(void* arg, int item, int worker) {
    (void)item;
    const job* j = arg;
    const net_kernels* k = j->k;
    const net_panel_kernels* q = &k->panel[j->kind];
    int width = q->units * k->unit;
    size_t group = (size_t)(k->rows * j->s.inputs * k->bytes);
    size_t panel = (size_t)(width * j->s.inputs * k->bytes);
    size_t out = (size_t)(width * k->rows * 4);
    float bias[2 * NET_MOST_ROWS] = {0};
    if (k->begin) k->begin();
    for (int r = 0; r < j->repeats; r++)
        for (int g = 0, n; g < j->s.groups; g += n) {
            n = j->s.groups - g < q->groups ? j->s.groups - g : q->groups;
            q->product(
                &(net_products){.w = j->w + (size_t)worker * j->w_bytes + (size_t)g * group,
                                .bias = bias,
                                .inputs = j->s.inputs,
                                .groups = n,
                                .w_step = group,
                                .epilogue = j->s.epilogue,
                                .count = j->s.panels,
                                .in = j->in + (size_t)worker * j->in_bytes,
                                .in_step = panel,
                                .out = j->out + (size_t)worker * j->out_bytes + (size_t)g * out,
                                .out_step = (size_t)j->s.groups * out});
        }
    if (k->end) k->end();
}

static double rate(job* j, pool* p) {
    const net_kernels* k = j->k;
    int width = k->panel[j->kind].units * k->unit;
    double best = 0, work = 2.0 * j->s.inputs * k->rows * j->s.groups * width * j->s.panels;
    j->repeats = (int)(MS * 1e-3 * 150e9 / work) + 1;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = clock_ns();
        pool_each(p, run, j);
        double now = work * j->repeats / (double)(clock_ns() - begun);
        if (now > best) best = now;
    }
    return best;
}

// Tile products of a thread on registers alone, in GFLOP/s of all threads.
#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16")
#include "plan/amx.h"
static void tiles(void* arg, int item, int worker) {
    (void)item, (void)worker;
    amx_begin();
    for (int64_t i = 0; i < *(const int64_t*)arg; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    amx_end();
}
#pragma GCC pop_options

static void print_tile_rate(pool* p) {
    int64_t times = 100000;
    double best = 0;
    if (simd_best_bf16() != SIMD_AMX) return;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = clock_ns();
        pool_each(p, tiles, &times);
        double rate = 2.0 * 4 * 16 * 16 * 32 * (double)times / (double)(clock_ns() - begun);
        if (rate > best) best = rate;
    }
    printf("tiles on registers alone: %.0f GFLOP/s each\n", best);
}
#else
static void print_tile_rate(pool* p) {
    (void)p;
}
#endif

int main(int argc, char** argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    plan_precision precision = argc > 2 && strcmp(argv[2], "bf16") == 0 ? PLAN_BF16 : PLAN_FP32;
    static const shape shapes[] = {
        {384, 1, 1, NET_STORE},   {384, 1, 1, NET_GELU},   {384, 1, 3, NET_STORE},
        {384, 8, 3, NET_STORE},   {384, 8, 3, NET_GELU},   {384, 32, 3, NET_GELU},
        {768, 1, 1, NET_ADD},     {768, 1, 3, NET_ADD},    {768, 8, 3, NET_ADD},
        {768, 16, 3, NET_ADD},    {768, 16, 10, NET_ADD},  {384, 24, 10, NET_GELU},
        {384, 24, 10, NET_STORE}, {384, 24, 10, NET_ADD},  {384, 1, 10, NET_STORE},
        {768, 1, 10, NET_ADD},    {160, 12, 10, NET_STORE}};
    pool* p;
    job j = {0};
    firm_error err;
    if (net_kernels_pick(precision, &j.k, &err) != FIRM_OK ||
        pool_create(threads, &p, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    if (argc > 3) j.kind = atoi(argv[3]) % j.k->panels;
    j.w_bytes = (size_t)(768 * 384 * 4 * 2);
    j.in_bytes = (size_t)(768 * 320 * 4);
    j.out_bytes = (size_t)(32 * 32 * 10 * 32 * 4);
    j.w = mem_calloc((size_t)threads, j.w_bytes);
    j.in = mem_calloc((size_t)threads, j.in_bytes);
    j.out = mem_calloc((size_t)threads, j.out_bytes);
    if (!j.w || !j.in || !j.out) return 2;
    double fma = fma_measure(p, 100) / threads;
    printf("%s, panel %d, %d threads, fma %.1f GFLOP/s each\n", j.k->name, j.kind, threads, fma);
    print_tile_rate(p);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        static const char* const name[] = {"store", "gelu", "add"};
        j.s = shapes[i];
        int width = j.k->panel[j.kind].units * j.k->unit;
        double each = rate(&j, p);
        printf("%4d inputs %3d groups (%5.0f KB) %3d panels (%5.0f KB) %-5s  %7.1f  %.3f of fma\n",
               j.s.inputs, j.s.groups, j.s.groups * j.k->rows * j.s.inputs * j.k->bytes / 1024.0,
               j.s.panels, j.s.panels * width * j.s.inputs * j.k->bytes / 1024.0,
               name[j.s.epilogue], each, each / fma);
    }
    return 0;
}
