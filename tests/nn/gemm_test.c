// gemm_test.c - matrix products of every instruction set against plain sums in double.
#define _GNU_SOURCE
#include "nn/cpu/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/simd.h"
#include "nn/cpu/cpu.h"

typedef struct operands {
    nn_product p;
    float *a, *b, *c, *bias, *packed;
} operands;

static float* numbers(rng* r, int64_t n) {
    float* x = mem_alloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)rng_uniform(r, -1, 1);
    return x;
}

// kind: bits 0 turn_a, 1 turn_b, 2 add, 3 bias, 4 packed; rows are 3 numbers longer than needed
static operands make(rng* r, int m, int n, int k, int kind) {
    operands o = {.p = {.m = m, .n = n, .k = k, .ldc = n + 3}};
    nn_product* p = &o.p;
    p->turn_a = kind & 1;
    p->turn_b = kind >> 1 & 1;
    p->add = kind >> 2 & 1;
    p->lda = (p->turn_a ? m : k) + 3;
    p->ldb = (p->turn_b ? k : n) + 3;
    p->a = o.a = numbers(r, p->lda * (p->turn_a ? k : m));
    p->b = o.b = numbers(r, p->ldb * (p->turn_b ? n : k));
    p->c = o.c = numbers(r, p->ldc * m);
    o.bias = numbers(r, n);
    o.packed = mem_alloc(nn_gemm_packed(k, n) * sizeof(float));
    if (kind >> 3 & 1) p->bias = o.bias;
    if (kind >> 4 & 1) {
        nn_gemm_pack(k, n, o.b, p->ldb, p->turn_b, o.packed);
        p->b = o.packed;
        p->packed = 1;
    }
    return o;
}

static void drop(operands* o) {
    mem_free(o->a);
    mem_free(o->b);
    mem_free(o->c);
    mem_free(o->bias);
    mem_free(o->packed);
}

// the number at (i, j), and how far off a float sum of k products may be there
static double expected(const operands* o, const float* before, int64_t i, int64_t j,
                       double* allowed) {
    const nn_product* p = &o->p;
    double sum = p->add ? before[i * p->ldc + j] : p->bias ? p->bias[j] : 0, size = fabs(sum);
    for (int64_t q = 0; q < p->k; q++) {
        double each = (double)o->a[p->turn_a ? q * p->lda + i : i * p->lda + q] *
                      (double)o->b[p->turn_b ? j * p->ldb + q : q * p->ldb + j];
        sum += each;
        size += fabs(each);
    }
    *allowed = (double)(p->k + 2) * 0x1p-24 * size;
    return sum;
}

// largest error as a share of the allowed; numbers between rows stay
static double worst(const operands* o, const float* before) {
    const nn_product* p = &o->p;
    double most = 0, allowed = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->ldc; j++) {
            if (j >= p->n) {
                EXPECT(p->c[i * p->ldc + j] == before[i * p->ldc + j]);
                continue;
            }
            double should = expected(o, before, i, j, &allowed);
            double off = fabs((double)p->c[i * p->ldc + j] - should) / allowed;
            if (!(off <= most)) most = off;
        }
    return most;
}

// 0 where the processor lacks it; use_best() afterwards
static int use(const char* variant, simd_level level) {
    setenv("FIRM_SIMD", variant, 1);
    nn_cpu_choose();
    return simd_best() == level;
}

static void use_best(void) {
    unsetenv("FIRM_SIMD");
    nn_cpu_choose();
}

static void check_sizes(const char* variant) {
    static const int size[][3] = {{1, 1, 1},   {3, 2, 5},    {14, 32, 7},   {15, 33, 9},
                                  {29, 48, 3}, {6, 16, 401}, {31, 70, 193}, {130, 17, 20},
                                  {5, 96, 1},  {40, 15, 64}, {515, 6, 11},  {1, 129, 50}};
    rng r = rng_start(7, RNG_STREAM(RNG_TEST, 1));
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int kind = 0; kind < 32; kind++) {
            if ((kind >> 2 & 3) == 3) continue;  // a bias is not added to what is there
            operands o = make(&r, size[s][0], size[s][1], size[s][2], kind);
            size_t bytes = (size_t)(o.p.m * o.p.ldc) * sizeof(float);
            float* before = mem_alloc(bytes);
            memcpy(before, o.c, bytes);
            nn_gemm(&o.p);
            double off = worst(&o, before);
            if (!(off <= 1))
                test_fail(__FILE__, __LINE__, "%s, %d x %d x %d, kind %d: off by %g", variant,
                          size[s][0], size[s][1], size[s][2], kind, off);
            mem_free(before);
            drop(&o);
        }
}

TEST(nn, gemm_equals_plain_sums) {
    static const char* const variant[] = {"plain", "neon", "avx2", "avx512"};
    for (int i = 0; i < 4; i++)
        if (use(variant[i], (simd_level)i)) check_sizes(variant[i]);
    use_best();
}

TEST(nn, gemm_rows_have_the_same_bits_in_any_product) {
    rng r = rng_start(8, RNG_STREAM(RNG_TEST, 1));
    for (int kind = 0; kind < 2; kind++) {
        operands o = make(&r, 131, 43, 405, 2 * kind);
        nn_gemm(&o.p);
        float alone[43];
        for (int i = 0; i < 131; i++) {
            nn_product p = o.p;
            p.m = 1;
            p.a += i * p.lda;
            p.c = alone;
            nn_gemm(&p);
            EXPECT(memcmp(alone, o.c + i * o.p.ldc, sizeof alone) == 0);
        }
        drop(&o);
    }
}

typedef struct shared {
    const operands* o;
    float* c;  // (ITEMS, m, ldc)
} shared;
enum { SIDE = 112, ITEMS = 24 };

static void one_product(void* arg, int item, int worker) {
    (void)worker;
    shared* s = arg;
    nn_product p = s->o->p;
    p.c = s->c + item * p.m * p.ldc;
    nn_gemm(&p);
}

TEST(nn, gemm_on_any_number_of_threads) {
    pool* threads;
    firm_error err;
    rng r = rng_start(9, RNG_STREAM(RNG_TEST, 1));
    operands o = make(&r, SIDE, SIDE, SIDE, 0);
    size_t each = (size_t)(o.p.m * o.p.ldc);
    shared s = {&o, mem_calloc(ITEMS * each, sizeof(float))};
    REQUIRE_OK(pool_create(8, &threads, &err), err);
    pool_for(threads, ITEMS, one_product, &s);
    double allowed, first = expected(&o, NULL, 0, 0, &allowed);
    EXPECT_NEAR(s.c[0], first, allowed);
    for (size_t i = 1; i < ITEMS; i++)
        EXPECT(memcmp(s.c, s.c + i * each, each * sizeof(float)) == 0);
    pool_free(threads);
    mem_free(s.c);
    drop(&o);
}
