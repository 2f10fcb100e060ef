// flash_test.cpp - attention's kernels (src/nn/cuda/flash_kernels.cuh) on the CPU against double
// arithmetic on the same operands: outputs, gradients of queries, keys and values, and their sums.
#include <vector>

#include "nn/cuda/flash_kernels.cuh"

extern "C" {
#include "check.h"
}

typedef std::vector<bf16> halves;
typedef std::vector<double> doubles;

struct scene {
    int groups, heads, tokens, queries;
    halves qkv, y, dy, dqkv;
    std::vector<float> lse, mean, sums;

    double part(const halves& of, int g, int t, int which, int h, int d) const {
        return __bfloat162float(
            of[((size_t)(g * tokens + t) * 3 + which) * heads * 64 + h * 64 + d]);
    }
    double one(const halves& of, int g, int t, int h, int d) const {
        return __bfloat162float(of[(size_t)(g * tokens + t) * heads * 64 + h * 64 + d]);
    }
};

static float noise(uint32_t* state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (1 << 23) - 1;
}

// steep: later keys are longer, so that the highest score of a query rises again and again
static scene scene_of(int groups, int heads, int tokens, int queries, bool steep) {
    scene s = {groups, heads, tokens, queries, {}, {}, {}, {}, {}, {}, {}};
    size_t n = (size_t)groups * tokens * heads * 64;
    uint32_t state = (uint32_t)tokens;
    const bf16 unwritten = {0x7fff};
    for (size_t i = 0; i < 3 * n; i++) {
        size_t row = i / ((size_t)heads * 64), token = row / 3 % (size_t)tokens;
        float size = steep && row % 3 == 1 ? 0.1f * (float)token : 2;
        s.qkv.push_back(__float2bfloat16(size * noise(&state)));
    }
    for (size_t i = 0; i < n; i++) s.dy.push_back(__float2bfloat16(noise(&state)));
    s.y.assign(n, unwritten);
    s.dqkv.assign(3 * n, unwritten);
    s.lse.assign(n / 64, NAN);
    s.mean.assign(n / 64, NAN);
    s.sums.assign((size_t)groups * 3 * heads * 64, NAN);
    return s;
}

template <bool GROUPS>
static void run(scene* s) {
    unsigned blocks = (unsigned)(s->groups * s->heads);
    flash f = {s->tokens,      s->queries,     s->heads,       3 * s->heads * 64,
               s->qkv.data(),  s->y.data(),    s->lse.data(),  s->dy.data(),
               s->dqkv.data(), s->mean.data(), s->sums.data(), 0.125f * LOG2E};
    emulate(blocks, FLASH_WARPS * 32, FORWARD_ROOM, [&] { forward<GROUPS>(f); });
    emulate(blocks, FLASH_WARPS * 32, QUERIES_ROOM, [&] { queries<GROUPS>(f); });
    emulate(blocks, FLASH_WARPS * 32, KEYS_ROOM, [&] { keys<GROUPS>(f); });
}

// The largest error of each kind, over the largest value.
struct errors {
    double worst[5] = {}, size[5] = {};
    void see(int kind, double want, double got) {
        worst[kind] = test_worse(worst[kind], fabs(want - got));
        size[kind] = fmax(size[kind], fabs(want));
    }
};

static void compare_head(const scene& s, int g, int h, errors* e) {
    int n = s.tokens;
    doubles dk((size_t)n * 64), dv((size_t)n * 64), sum(3 * 64);
    for (int q = 0; q < s.queries; q++) {
        doubles p((size_t)n), y(64), dq(64);
        double top = -INFINITY, total = 0, mean = 0;
        for (int k = 0; k < n; k++) {
            for (int d = 0; d < 64; d++)
                p[k] += s.part(s.qkv, g, q, 0, h, d) * s.part(s.qkv, g, k, 1, h, d) / 8;
            top = fmax(top, p[k]);
        }
        for (int k = 0; k < n; k++) total += p[k] = exp(p[k] - top);
        for (int k = 0; k < n; k++)
            for (int d = 0; d < 64; d++) y[d] += p[k] / total * s.part(s.qkv, g, k, 2, h, d);
        for (int d = 0; d < 64; d++) {
            e->see(0, y[d], s.one(s.y, g, q, h, d));
            mean += y[d] * s.one(s.dy, g, q, h, d);
        }
        for (int k = 0; k < n; k++) {
            double dp = 0, w = p[k] / total;
            for (int d = 0; d < 64; d++)
                dp += s.one(s.dy, g, q, h, d) * s.part(s.qkv, g, k, 2, h, d);
            double ds = w * (dp - mean) / 8;
            for (int d = 0; d < 64; d++) {
                dq[d] += ds * s.part(s.qkv, g, k, 1, h, d);
                dk[k * 64 + d] += ds * s.part(s.qkv, g, q, 0, h, d);
                dv[k * 64 + d] += w * s.one(s.dy, g, q, h, d);
            }
        }
        for (int d = 0; d < 64; d++) {
            e->see(1, dq[d], s.part(s.dqkv, g, q, 0, h, d));
            sum[d] += dq[d];
        }
    }
    for (int k = 0; k < n; k++)
        for (int d = 0; d < 64; d++) {
            e->see(2, dk[k * 64 + d], s.part(s.dqkv, g, k, 1, h, d));
            e->see(3, dv[k * 64 + d], s.part(s.dqkv, g, k, 2, h, d));
            sum[64 + d] += dk[k * 64 + d];
            sum[128 + d] += dv[k * 64 + d];
        }
    for (int i = 0; i < 3 * 64; i++)
        e->see(4, sum[i], s.sums[((size_t)g * 3 + i / 64) * s.heads * 64 + h * 64 + i % 64]);
}

template <bool GROUPS>
static void compare_form(int groups, int heads, int tokens, int queries, bool steep) {
    static const char* const kind[] = {"y", "dq", "dk", "dv", "sums"};
    scene s = scene_of(groups, heads, tokens, queries, steep);
    run<GROUPS>(&s);
    errors e;
    for (int g = 0; g < groups; g++)
        for (int h = 0; h < heads; h++) compare_head(s, g, h, &e);
    printf("  %d tokens, %d of them look, %d heads, %s: off by", tokens, queries, heads,
           GROUPS ? "warpgroups" : "warps");
    for (int i = 0; i < 5; i++) {
        // results have 8 bits; gradients are sums of products of such
        double allowed = (0.01 * e.size[i] + 1e-6) * test_tolerance_scale();
        printf(" %s %.2g of %.2g%s", kind[i], e.worst[i], e.size[i], i < 4 ? "," : "\n");
        if (!(e.worst[i] <= allowed))
            test_fail(__FILE__, __LINE__, "%d tokens: %s is off by %.3g, allowed %.3g", tokens,
                      kind[i], e.worst[i], allowed);
    }
}

static void compare(int groups, int heads, int tokens, int queries, bool steep = false) {
    compare_form<false>(groups, heads, tokens, queries, steep);
    compare_form<true>(groups, heads, tokens, queries, steep);
}

TEST(emulated, flash_equals_double_arithmetic) {
    compare(1, 1, 1, 1);
    compare(2, 2, 17, 17);
    compare(1, 1, 64, 64);
    compare(1, 1, 100, 100);
    compare(1, 1, 257, 257);
    compare(1, 1, NN_CUDA_FLASH_TOKENS, NN_CUDA_FLASH_TOKENS);
}

TEST(emulated, flash_of_rising_scores) {
    compare(1, 1, 257, 257, true);
}

TEST(emulated, flash_of_the_first_token_alone) {
    compare(2, 1, 33, 1);
    compare(1, 2, 257, 1);
}
