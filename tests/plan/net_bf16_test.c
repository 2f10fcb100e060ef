// net_bf16_test.c - the bfloat16 kernels: one product against double sums of the same operands,
// whole rollouts by the yardstick of rounded operands, the same bits for any width, split and team,
// candidates that are not finite, and what is refused. AMX runs on a machine that has it, and
// everywhere AVX512-BF16 is with its tile instructions in plain C (amx_emulated.c).
#define _GNU_SOURCE
#include "../measure/yardstick.h"
#include "check.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/simd.h"
#include "plan/bf16.h"
#include "plan/net_internal.h"
#include "toys.h"

#if defined(__x86_64__)
extern const net_kernels net_kernels_amx_emulated;
#endif

enum { TABLES = 3, LANES = 32 };

// The tables that this machine can run; says so when there are none.
static int tables(const net_kernels** out) {
    int n = 0;
#if defined(__x86_64__)
    simd_level level = simd_best_bf16();
    if (level >= SIMD_AVX512BF16) {
        out[n++] = &net_kernels_avx512bf16;
        out[n++] = &net_kernels_amx_emulated;
    }
    if (level == SIMD_AMX) out[n++] = &net_kernels_amx;
#endif
    if (n == 0) test_skip("the processor has no bfloat16 instructions");
    return n;
}

static const plan_net_shape shapes[] = {
    {2, 0, 128, 10, 384, 768, 2, 0}, {6, 1, 128, 10, 96, 200, 2, 0}, {8, 3, 5, 25, 37, 53, 2, 0},
    {3, 0, 0, 1, 1, 1, 1, 0},        {6, 1, 19, 10, 41, 50, 1, 71},  {4, 2, 7, 3, 13, 6, 0, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

static double value_of(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

// ---- rounding -----------------------------------------------------------------------------------

// ties to even, overflow to infinity, a NaN stays one
TEST(plan, bf16_rounds_to_nearest_even) {
    EXPECT_INT(bf16_of(1.0f), 0x3f80);
    EXPECT_INT(bf16_of(1.00390625f), 0x3f80);  // 1 + 2^-8: half way, to the even 1
    EXPECT_INT(bf16_of(1.01171875f), 0x3f82);  // 1 + 3 2^-8: half way, up
    EXPECT_INT(bf16_of(1.00390637f), 0x3f81);
    EXPECT_INT(bf16_of(-1.00390637f), 0xbf81);
    EXPECT_INT(bf16_of(3.4e38f), 0x7f80);
    EXPECT(isnan(value_of(bf16_of(NAN))));
}

// the kernels' own rounding is the same, and pads with zeros
TEST(plan, bf16_kernels_round_alike) {
    const net_kernels* table[TABLES];
    int count = tables(table);
    enum { FEATURES = 37 };
    float* x = normals(FEATURES * LANES, 5);
    for (int t = 0; t < count; t++) {
        const net_kernels* k = table[t];
        int padded = net_round_up(FEATURES, k->depth);
        uint16_t* got = malloc((size_t)(padded * LANES) * sizeof *got);
        memset(got, 0xff, (size_t)(padded * LANES) * sizeof *got);
        k->panel[0].round(x, FEATURES, got);
        for (int f = 0; f < padded; f++)
            for (int j = 0; j < LANES; j++)
                EXPECT_INT(got[f / 2 * 2 * LANES + 2 * j + f % 2],
                           f < FEATURES ? bf16_of(x[f * LANES + j]) : 0);
        free(got);
    }
    free(x);
}

// ---- one product --------------------------------------------------------------------------------

// Weights and operands of one group, packed, and their sums in double.
typedef struct sums {
    uint16_t *w, *in;
    float* bias;
    double* want;  // (rows, width)
} sums;

static sums sums_make(const net_kernels* k, int inputs, int width) {
    sums s = {calloc((size_t)(inputs * k->rows), 2), calloc((size_t)(inputs * width), 2),
              normals(k->rows, 1), calloc((size_t)(k->rows * width), sizeof(double))};
    float *w = normals(inputs * k->rows, 2), *x = normals(inputs * width, 3);
    for (int i = 0; i < inputs; i++) {
        for (int r = 0; r < k->rows; r++)
            s.w[(i / k->depth * k->rows + r) * k->depth + i % k->depth] =
                bf16_of(w[i * k->rows + r]);
        for (int j = 0; j < width; j++)
            s.in[i / 2 * 2 * width + 2 * j + i % 2] = bf16_of(x[i * width + j]);
    }
    for (int r = 0; r < k->rows; r++)
        for (int j = 0; j < width; j++) {
            s.want[r * width + j] = s.bias[r];
            for (int i = 0; i < inputs; i++)
                s.want[r * width + j] +=
                    value_of(bf16_of(w[i * k->rows + r])) * value_of(bf16_of(x[i * width + j]));
        }
    free(w), free(x);
    return s;
}

static void sums_free(sums* s) {
    free(s->w), free(s->in), free(s->bias), free(s->want);
}

static double gelu(double z) {
    return 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * z * z * z)));
}

static void multiply(const net_panel_kernels* p, const sums* s, int inputs, void* out,
                     net_epilogue epilogue) {
    p->product(&(net_products){.w = s->w,
                               .bias = s->bias,
                               .inputs = inputs,
                               .epilogue = epilogue,
                               .count = 1,
                               .in = (const char*)s->in,
                               .out = out});
}

static void check_product(const net_kernels* k, const net_panel_kernels* p, int inputs) {
    int width = p->units * k->unit, n = k->rows * width;
    sums s = sums_make(k, inputs, width);
    float* out = normals(n, 4);
    float* before = malloc((size_t)n * sizeof *before);
    uint16_t* operand = calloc((size_t)n, sizeof *operand);
    memcpy(before, out, (size_t)n * sizeof *before);
    double worst[3] = {0}, scale = sqrt(inputs);
    if (k->begin) k->begin();
    multiply(p, &s, inputs, out, NET_ADD);
    for (int i = 0; i < n; i++)
        worst[0] = test_worse(worst[0], fabs(out[i] - (before[i] + s.want[i])) / scale);
    multiply(p, &s, inputs, out, NET_STORE);
    for (int i = 0; i < n; i++) worst[1] = test_worse(worst[1], fabs(out[i] - s.want[i]) / scale);
    multiply(p, &s, inputs, operand, NET_GELU);
    if (k->end) k->end();
    for (int r = 0; r < k->rows; r++)
        for (int j = 0; j < width; j++) {
            double want = gelu(s.want[r * width + j]);
            double got = value_of(operand[r / 2 * 2 * width + 2 * j + r % 2]);
            // half a unit in the last of 8 places, and what the sum itself may be off by
            worst[2] = test_worse(worst[2], (fabs(got - want) - 2e-6 * scale) / fabs(want));
        }
    if (!(worst[0] <= 2e-6 && worst[1] <= 2e-6 && worst[2] <= 1.001 / 256))
        test_fail(__FILE__, __LINE__, "%s, %d wide, %d inputs: add %.3g, store %.3g, gelu %.3g",
                  k->name, width, inputs, worst[0], worst[1], worst[2]);
    free(operand), free(before), free(out);
    sums_free(&s);
}

TEST(plan, bf16_products_match_double) {
    const net_kernels* table[TABLES];
    int count = tables(table);
    static const int inputs[] = {32, 96, 384, 768};
    for (int t = 0; t < count; t++)
        for (int p = 0; p < table[t]->panels; p++)
            for (int i = 0; i < 4; i++) check_product(table[t], &table[t]->panel[p], inputs[i]);
}

// ---- rollouts -----------------------------------------------------------------------------------

// A start and candidates.
typedef struct inputs {
    float *c0, *m0, *u;
} inputs;

static inputs inputs_make(const plan_net_shape* s, int n, int horizon) {
    inputs in = {normals(s->config, 1), normals(s->fiber + 1, 2),
                 normals(n * horizon * s->action, 3)};
    for (int p = 0; p < s->pairs; p++) in.c0[2 * p] = 0.6f, in.c0[2 * p + 1] = -0.8f;
    return in;
}

static void inputs_free(inputs* in) {
    free(in->c0), free(in->m0), free(in->u);
}

TEST(plan, bf16_rollouts_are_sound) {
    enum { N = 40, P = 3 };
    const net_kernels* table[TABLES];
    int count = tables(table);
    for (int i = 0; i < SHAPES && count; i++) {
        const plan_net_shape* s = &shapes[i];
        toy_net t = toy_net_make(*s, 100 + (uint64_t)i);
        inputs in = inputs_make(s, N, P);
        yardstick y = yardstick_make(s, &t.weights, PLAN_BF16, 0, N, P, in.c0, in.m0, in.u);
        for (int k = 0; k < count; k++) {
            plan_net* net;
            firm_error err;
            float got[N * P * 8];
            REQUIRE_OK(net_create_with(table[k], s, &t.weights, &net, &err), err);
            void* scratch = mem_alloc(plan_net_scratch_bytes(net));
            EXPECT_INT(plan_net_rollout(net, scratch, N, P, in.c0, in.m0, in.u, got), 0);
            yardstick_reading r = yardstick_read(&y, got);
            if (!yardstick_sound(&r))
                test_fail(__FILE__, __LINE__, "%s, hidden %d: reads %.3g, off by %.3g",
                          table[k]->name, s->hidden, r.most, r.off);
            mem_free(scratch);
            plan_net_free(net);
        }
        yardstick_free(&y);
        inputs_free(&in);
        toy_net_free(&t);
    }
}

// Memory that held anything before must not matter: it starts as NaNs.
static void* dirty(size_t bytes) {
    void* p = mem_alloc(bytes);
    memset(p, 0xff, bytes);
    return p;
}

TEST(plan, bf16_pieces_give_the_same_bits) {
    enum { N = 83, P = 2 };
    static const int of[] = {1, 2, 4}, widths[] = {1, 16, 31, 48};
    const net_kernels* table[TABLES];
    int count = tables(table);
    for (int i = 0; i < 3; i++) {
        const plan_net_shape* s = &shapes[of[i]];
        toy_net t = toy_net_make(*s, 7);
        inputs in = inputs_make(s, N, P);
        size_t row = (size_t)(P * s->config) * sizeof(float);
        char *whole = malloc(N * row), *parts = malloc(N * row);
        for (int k = 0; k < count; k++) {
            plan_net* net;
            firm_error err;
            REQUIRE_OK(net_create_with(table[k], s, &t.weights, &net, &err), err);
            void* scratch = dirty(plan_net_scratch_bytes(net));
            plan_net_rollout(net, scratch, N, P, in.c0, in.m0, in.u, (float*)whole);
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                for (int from = 0; from < N; from += widths[w]) {
                    int n = from + widths[w] < N ? widths[w] : N - from;
                    plan_net_rollout(net, scratch, n, P, in.c0, in.m0, in.u + from * P * s->action,
                                     (float*)(parts + (size_t)from * row));
                }
                if (memcmp(whole, parts, N * row) != 0)
                    test_fail(__FILE__, __LINE__, "%s: pieces of %d give other bits",
                              table[k]->name, widths[w]);
            }
            mem_free(scratch);
            plan_net_free(net);
        }
        free(parts), free(whole);
        inputs_free(&in);
        toy_net_free(&t);
    }
}

// a candidate that runs off does not touch the others, in this rollout or the next
TEST(plan, bf16_nonfinite_rows) {
    enum { N = 50, P = 3 };
    const net_kernels* table[TABLES];
    int count = tables(table);
    const plan_net_shape* s = &shapes[1];
    toy_net t = toy_net_make(*s, 9);
    inputs in = inputs_make(s, N, P);
    float good[N * P * 6], got[N * P * 6];
    for (int k = 0; k < count; k++) {
        plan_net* net;
        firm_error err;
        REQUIRE_OK(net_create_with(table[k], s, &t.weights, &net, &err), err);
        void* scratch = dirty(plan_net_scratch_bytes(net));
        EXPECT_INT(plan_net_rollout(net, scratch, N, P, in.c0, in.m0, in.u, good), 0);
        float keep = in.u[7 * P * s->action];
        in.u[7 * P * s->action] = NAN;
        EXPECT_INT(plan_net_rollout(net, scratch, N, P, in.c0, in.m0, in.u, got), 1);
        for (int i = 0; i < N; i++)
            if (i != 7)
                EXPECT_INT(memcmp(good + i * P * 6, got + i * P * 6, P * 6 * sizeof(float)), 0);
        in.u[7 * P * s->action] = keep;
        EXPECT_INT(plan_net_rollout(net, scratch, 17, P, in.c0, in.m0, in.u, got), 0);
        EXPECT_INT(memcmp(good, got, 17 * P * 6 * sizeof(float)), 0);
        mem_free(scratch);
        plan_net_free(net);
    }
    inputs_free(&in);
    toy_net_free(&t);
}

// ---- refusals -----------------------------------------------------------------------------------

TEST(plan, bf16_without_instructions_is_refused) {
    toy_net t = toy_net_make(shapes[2], 9);
    plan_net* net;
    firm_error err = {0};
    setenv("FIRM_SIMD", "avx512", 1);
    EXPECT_INT(plan_net_create(&t.shape, &t.weights, PLAN_BF16, &net, &err), FIRM_E_UNAVAILABLE);
    EXPECT(net == NULL && strstr(err.message, "fp32"));
    unsetenv("FIRM_SIMD");
    EXPECT_INT(plan_net_create(&t.shape, &t.weights, PLAN_TF32, &net, &err), FIRM_E_UNAVAILABLE);
    EXPECT(net == NULL && strstr(err.message, "tf32") && strstr(err.message, "cuda"));
    toy_net_free(&t);
}
