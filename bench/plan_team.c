// plan_team.c - how threads should share the planner's rollouts: every team size in turn, beside
// the float32 multiply-add rate of the same threads.
//     ninja -C build bench_plan_team
//     build/bench_plan_team [THREADS] [CANDIDATES] [fp32|bf16] [block=N] [narrow] [unasked]
// One member: threads have candidates of their own and share the rest, as in the search. A row is a
// number of members per team: the best and the median time of five macro steps of all candidates
// through TwoRoom's transition, the share of the multiply-add rate, and where the members' time
// went. The star marks the guess of plan_net_members(). Before the table: what it takes to start
// all threads and have them finish, and to meet.
//     block=N    candidates per thread and block, instead of the kernels' own
//     narrow     only the narrowest panels
//     unasked    the next weights are not asked for ahead of their use
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fma.h"
#include "core/meet.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "plan/net_claims.h"
#include "plan/net_internal.h"

enum { STEPS = 5, ROUNDS = 30, LARGEST = 384 * 768, MOST = 256 };

typedef struct trial {
    const plan_net* net;
    plan_net_job job;
    plan_net_pieces pieces;
    plan_net_rest* rest;
    int members, teams;
    char* scratch;  // (threads)
    meet at[MOST];
    plan_net_claims claims[MOST];
    plan_net_spent spent[MOST];
} trial;

static void roll_alone(void* arg, int item, int worker) {
    (void)item;
    trial* t = arg;
    plan_net_rest_share(t->rest, t->scratch + (size_t)worker * plan_net_scratch_bytes(t->net),
                        &t->spent[worker]);
}

static void roll(void* arg, int item, int worker) {
    (void)item;
    trial* t = arg;
    int of = worker / t->members, n = t->job.n, unit = plan_net_lanes(t->net);
    int units = (n + unit - 1) / unit;
    if (of >= t->teams) return;
    plan_net_job job = t->job;
    int from = units * of / t->teams * unit, to = units * (of + 1) / t->teams * unit;
    job.n = (to < n ? to : n) - from;
    job.u += (size_t)from * STEPS * 10;
    job.c_out += (size_t)from * STEPS * 2;
    plan_net_team team = {
        .members = t->members,
        .scratch = t->scratch + (size_t)(of * t->members) * plan_net_scratch_bytes(t->net),
        .at = &t->at[of],
        .claims = &t->claims[of * t->members],
        .spent = &t->spent[of * t->members]};
    if (job.n > 0) plan_net_rollout_share(t->net, &job, &team, worker % t->members);
}

static int by_value(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

// In percent of the time of all threads.
static void print_spent(const trial* t, double ns) {
    plan_net_spent sum = {0};
    for (int i = 0; i < t->teams * t->members; i++) {
        sum.product += t->spent[i].product;
        sum.normalise += t->spent[i].normalise;
        sum.edges += t->spent[i].edges;
        sum.wait += t->spent[i].wait;
    }
    double percent = 100 / (ns * t->teams * t->members);
    printf("  product %.0f normalise %.0f edges %.0f wait %.0f %%\n", percent * (double)sum.product,
           percent * (double)sum.normalise, percent * (double)sum.edges,
           percent * (double)sum.wait);
}

static void measure(trial* t, pool* p, double fma, int chosen) {
    double ms[ROUNDS], all = 0;
    for (int i = 0; i < t->teams; i++) meet_expect(&t->at[i], t->members);
    for (int i = -2; i < ROUNDS; i++) {
        if (i == 0) memset(t->spent, 0, sizeof t->spent);
        int64_t begun = clock_ns();
        if (t->members == 1) {
            plan_net_rest_begin(t->rest, &t->job, &t->pieces);
            pool_each(p, roll_alone, t);
        } else {
            pool_each(p, roll, t);
        }
        double took = (double)(clock_ns() - begun);
        if (i >= 0) all += took, ms[i] = took * 1e-6;
    }
    qsort(ms, ROUNDS, sizeof *ms, by_value);
    plan_net_shape s;
    plan_net_shape_get(t->net, &s);
    double work = 2e-6 * (double)plan_net_macs(&s, NULL) * t->job.n * STEPS;
    printf("%3d x %2d members%s  best %7.3f ms  median %7.3f ms  %6.1f GFLOP/s  %.3f of fma",
           t->teams, t->members, chosen ? " *" : "  ", ms[0], ms[ROUNDS / 2], work / ms[ROUNDS / 2],
           work / ms[ROUNDS / 2] / fma);
    print_spent(t, all);
}

// ---- starting and meeting -----------------------------------------------------------------------

enum { MEETINGS = 1000, STARTS = 300 };

static void meet_often(void* arg, int item, int worker) {
    (void)item;
    trial* t = arg;
    for (int i = 0; i < MEETINGS; i++) meet_wait(&t->at[worker / t->members]);
}

static void nothing(void* arg, int item, int worker) {
    (void)arg, (void)item, (void)worker;
}

static void print_waits(trial* t, pool* p, int threads) {
    double us[STARTS];
    for (int pause = 0; pause < 2; pause++) {
        for (int i = 0; i < STARTS; i++) {
            // as between two batches of a search: the caller works by itself for a moment
            int64_t begun = clock_ns();
            while (pause && clock_ns() - begun < 50000) continue;
            begun = clock_ns();
            pool_each(p, nothing, NULL);
            us[i] = (double)(clock_ns() - begun) * 1e-3;
        }
        qsort(us, STARTS, sizeof *us, by_value);
        printf("start and finish%s: median %.1f us, a tenth above %.1f us\n",
               pause ? " after 50 us" : "", us[STARTS / 2], us[STARTS * 9 / 10]);
    }
    for (int m = 2; m <= threads && m <= PLAN_TEAM_MOST; m *= 2) {
        t->members = m;
        for (int i = 0; i < threads / m; i++) meet_expect(&t->at[i], m);
        if (threads % m) continue;
        int64_t begun = clock_ns();
        pool_each(p, meet_often, t);
        printf("%d meet: %.2f us\n", m, (double)(clock_ns() - begun) * 1e-3 / MEETINGS);
    }
}

// What is asked for differs from the kernels as they are.
static void change(plan_net* net, net_kernels* k, const char* word) {
    if (strncmp(word, "block=", 6) == 0 && atoi(word + 6) > 0)
        net->block = atoi(word + 6);
    else if (strcmp(word, "narrow") == 0)
        k->panel[0] = k->panel[k->panels - 1], k->panels = 1;
    else if (strcmp(word, "unasked") == 0)
        k->ahead = 0;
    else
        fprintf(stderr, "bench_plan_team: '%s' is not known; see the top of bench/plan_team.c\n",
                word);
}

int main(int argc, char** argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0, n = argc > 2 ? atoi(argv[2]) : 300;
    plan_precision precision = argc > 3 && strcmp(argv[3], "bf16") == 0 ? PLAN_BF16 : PLAN_FP32;
    plan_net_shape s = {2, 0, 128, 10, 384, 768, 2, 0};
    firm_error err;
    static float w[LARGEST], c0[2], m0[128];
    rng_fill_normal(1, RNG_STREAM(RNG_TEST, 1), 0, w, LARGEST);
    for (int i = 0; i < LARGEST; i++) w[i] *= 0.04f;
    plan_net_block b = {.w1 = w, .b1 = w, .w2 = w, .b2 = w};
    plan_net_weights weights = {
        .w_in = w, .b_in = w, .block = {b, b}, .w_c = w, .b_c = w, .w_m = w, .b_m = w};
    static trial t;
    plan_net* net;
    pool* p;
    if (plan_net_create(&s, &weights, precision, &net, &err) != FIRM_OK ||
        pool_create(threads, &p, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    net_kernels kernels = *net->kernels;
    for (int i = 4; i < argc; i++) change(net, &kernels, argv[i]);
    net->kernels = &kernels;
    threads = pool_threads(p);
    t.net = net;
    float* u = mem_alloc((size_t)n * STEPS * 10 * sizeof *u);
    rng_fill_normal(1, RNG_STREAM(RNG_TEST, 2), 0, u, n * STEPS * 10);
    t.pieces = plan_net_cut(net, threads, n);
    t.job = (plan_net_job){n, STEPS, c0, m0, u, mem_alloc((size_t)n * STEPS * 2 * sizeof *u)};
    if (plan_net_rest_create(net, &t.rest, &err) != FIRM_OK) return 2;
    t.scratch = mem_calloc((size_t)threads, plan_net_scratch_bytes(net));
    for (int i = 0; i < threads; i++) meet_init(&t.at[i]);
    printf("%s", plan_net_simd(net));
    for (int i = 4; i < argc; i++) printf(" %s", argv[i]);
    printf(", %d threads, %d candidates, blocks of %d, %d pieces, %d shared\n", threads, n,
           plan_net_block_lanes(net), t.pieces.count, t.pieces.rest * plan_net_lanes(net));
    print_waits(&t, p, threads);
    for (int pass = 0; pass < 2; pass++) {
        double fma = fma_measure(p, 100);
        printf("fma %.1f GFLOP/s\n", fma);
        for (int m = 1; m <= threads && m <= PLAN_TEAM_MOST; m++) {
            if (threads % m) continue;
            t.members = m;
            t.teams = threads / m;
            measure(&t, p, fma, m == plan_net_members(net, NULL, threads, n));
        }
    }
    return 0;
}
