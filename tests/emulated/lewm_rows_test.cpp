// lewm_rows_test.cpp - the kernels between the products of LeWM's GPU search
// (src/plan/cuda/lewm_rows.cuh, lewm_price.cuh) on the CPU against double arithmetic: tokens
// placed, gated and normed, attention and costs, in float32 and bfloat16.
#include <vector>

#include "plan/cuda/lewm_price.cuh"

extern "C" {
#include "check.h"
}

enum { STEPS = 5, TOKENS = 3 };

static uint32_t state = 1;
static float noise(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}

static void put(float* to, float x) {
    *to = x;
}
static void put(__nv_bfloat16* to, float x) {
    *to = __float2bfloat16(x);
}
static double get(float x) {
    return x;
}
static double get(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

template <class T>
static std::vector<T> random(size_t n) {
    std::vector<T> v(n);
    for (T& x : v) put(&x, noise());
    return v;
}

// One search with so many candidates, and everything that the kernels read and write.
template <class T>
struct job {
    lewm_sizes s = {};
    int rows;
    std::vector<T> mod, qkv, a, o;
    std::vector<float> mod_bias, positions, bias, qkv_bias, x, y, path;
    std::vector<char> search;
    rows_args r = {};

    job(int width, int heads, int head, int candidates) : rows(candidates) {
        s.width = width, s.heads = heads, s.head = head, s.inner = heads * head;
        s.depth = 2, s.context = TOKENS, s.modulation = s.depth * LEWM_CHUNKS * width;
        s.z0_at = 64, s.stride = 64 + (size_t)width * 4;
        mod = random<T>((size_t)STEPS * rows * s.modulation);
        qkv = random<T>((size_t)TOKENS * rows * 3 * s.inner);
        a.resize((size_t)TOKENS * rows * width);
        o.resize((size_t)TOKENS * rows * s.inner);
        mod_bias = random<float>((size_t)s.modulation);
        positions = random<float>((size_t)TOKENS * width);
        bias = random<float>((size_t)width);
        qkv_bias = random<float>((size_t)3 * s.inner);
        x = random<float>((size_t)TOKENS * rows * width);
        y = random<float>((size_t)TOKENS * rows * width);
        path = random<float>((size_t)rows * STEPS * width);
        search.resize(s.stride);
        for (int f = 0; f < width; f++) z0()[f] = noise();
        r.s = s, r.rows = r.each = rows, r.horizon = STEPS, r.searches = search.data();
        r.x = x.data(), r.y = y.data(), r.path = path.data(), r.mod = mod.data();
        r.a = a.data(), r.o = o.data(), r.mod_bias = mod_bias.data();
        r.positions = positions.data();
    }
    float* z0() { return (float*)(search.data() + s.z0_at); }
    double chunk(int t, int row, int block, int i, int f) const {
        int at = (block * LEWM_CHUNKS + i) * s.width + f;
        return get(mod[((size_t)t * rows + row) * s.modulation + at]) + mod_bias[at];
    }
    unsigned blocks(int tokens) const { return (unsigned)((tokens * rows + WARPS - 1) / WARPS); }
};

static void norm(std::vector<double>* v, double eps) {
    double mean = 0, square = 0, n = (double)v->size();
    for (double x : *v) mean += x / n;
    for (double x : *v) square += (x - mean) * (x - mean) / n;
    for (double& x : *v) x = (x - mean) / sqrt(square + eps);
}

// what the next product reads of a row: its errors
template <class T>
static double operands(const job<T>& j, std::vector<double> v, int t, int token, int row, int block,
                       int first) {
    if (block < j.s.depth) {
        norm(&v, 1e-6);
        for (int f = 0; f < j.s.width; f++)
            v[f] = v[f] * (1 + j.chunk(t, row, block, first + 1, f)) +
                   j.chunk(t, row, block, first, f);
    }
    norm(&v, 1e-5);
    double worst = 0;
    for (int f = 0; f < j.s.width; f++)
        worst = test_worse(worst,
                           fabs(v[f] - get(j.a[((size_t)token * j.rows + row) * j.s.width + f])));
    return worst;
}

template <class T, int N>
static void compare_place(int width, double allowed) {
    for (int t = 0; t <= TOKENS; t += TOKENS) {  // the first step, and one whose window has slid
        job<T> j(width, 2, 8, 5);
        const int last = t ? TOKENS - 1 : 0;
        std::vector<float> before = j.path;
        emulate(j.blocks(last + 1), 32 * WARPS, 0,
                [&] { lewm_place_kernel<T, N>(j.r, t, 0, last, j.bias.data()); });
        double worst = 0;
        for (int k = 0; k <= last; k++)
            for (int row = 0; row < j.rows; row++) {
                const int from = t - last + k;
                std::vector<double> v((size_t)width);
                for (int f = 0; f < width; f++) {
                    size_t at = ((size_t)row * STEPS + from - 1) * width + f;
                    double z = from == 0 ? j.z0()[f] : before[at];
                    if (from && k == last) {
                        z = (double)j.y[(size_t)row * width + f] + j.bias[f];
                        EXPECT_NEAR(j.path[at], z, 1e-6);
                    }
                    v[f] = z + j.positions[k * width + f];
                    EXPECT_NEAR(j.x[((size_t)k * j.rows + row) * width + f], v[f], 1e-6);
                }
                worst = test_worse(worst, operands(j, v, from, k, row, 0, 0));
            }
        EXPECT_NEAR(worst, 0, allowed);
    }
}

template <class T, int N>
static void compare_gate(int width, double allowed) {
    for (int i = 0; i < 4; i++) {
        const int block = i / 2, branch = i % 2, t = 4, first = block ? 2 : 0, last = 2;
        job<T> j(width, 2, 8, 5);
        std::vector<float> before = j.x;
        emulate(j.blocks(last - first + 1), 32 * WARPS, 0,
                [&] { lewm_gate_kernel<T, N>(j.r, t, block, branch, first, last, j.bias.data()); });
        double worst = 0;
        for (int k = first; k <= last; k++)
            for (int row = 0; row < j.rows; row++) {
                const int from = t - last + k;
                std::vector<double> v((size_t)width);
                for (int f = 0; f < width; f++) {
                    size_t at = ((size_t)k * j.rows + row) * width + f,
                           made = ((size_t)(k - first) * j.rows + row) * width + f;
                    v[f] = before[at] + j.chunk(from, row, block, branch ? 5 : 2, f) *
                                            ((double)j.y[made] + j.bias[f]);
                    EXPECT_NEAR(j.x[at], v[f], 2e-6);
                }
                worst =
                    test_worse(worst, operands(j, v, from, k, row, block + branch, branch ? 0 : 3));
            }
        EXPECT_NEAR(worst, 0, allowed);
    }
}

template <class T>
static void compare_attention(int heads, int head, double allowed) {
    for (int i = 0; i < 2; i++) {
        const int first = i ? TOKENS - 1 : 0;
        job<T> j(8, heads, head, 5);
        const float* b = j.qkv_bias.data();
        const int inner = j.s.inner;
        emulate(i ? 1 : 4, 32 * WARPS, 0,
                [&] { lewm_attention_kernel<T>(j.r, j.qkv.data(), first, TOKENS - 1, b); });
        double worst = 0;
        for (int k = first; k < TOKENS; k++)
            for (int at = 0; at < j.rows * heads; at++) {
                const int row = at / heads, base = at % heads * head;
                auto number = [&](int token, int part, int d) {
                    const int c = part * inner + base + d;
                    return get(j.qkv[((size_t)token * j.rows + row) * 3 * inner + c]) + b[c];
                };
                double weight[TOKENS], total = 0;
                for (int m = 0; m <= k; m++) {
                    double dot = 0;
                    for (int d = 0; d < head; d++) dot += number(k, 0, d) * number(m, 1, d);
                    total += weight[m] = exp(dot / sqrt((double)head));
                }
                for (int d = 0; d < head; d++) {
                    double want = 0;
                    for (int m = 0; m <= k; m++) want += weight[m] / total * number(m, 2, d);
                    double got = get(j.o[((size_t)k * j.rows + row) * inner + base + d]);
                    worst = test_worse(worst, fabs(want - got));
                }
            }
        EXPECT_NEAR(worst, 0, allowed);
    }
}

// float32's rounding, and half a unit of bfloat16's last place at 4
static const double FLOAT = 3e-6, HALF = 0.0157;

TEST(emulated, lewm_tokens_are_placed) {
    compare_place<float, 1>(24, FLOAT);
    compare_place<float, 3>(192, FLOAT);
    compare_place<__nv_bfloat16, 3>(192, HALF);
}

TEST(emulated, lewm_tokens_are_gated) {
    compare_gate<float, 1>(64, FLOAT);
    compare_gate<float, 3>(72, FLOAT);
    compare_gate<__nv_bfloat16, 8>(512, HALF);
}

TEST(emulated, lewm_attention_of_all_head_sizes) {
    compare_attention<float>(2, 8, FLOAT);
    compare_attention<float>(2, 40, FLOAT);  // five lanes of eight
    compare_attention<float>(16, 64, FLOAT);
    compare_attention<__nv_bfloat16>(16, 64, HALF / 2);
    compare_attention<__nv_bfloat16>(3, 256, HALF / 2);
}

// what is not finite stays so, in its own row alone
TEST(emulated, lewm_attention_keeps_what_is_not_finite) {
    job<float> j(8, 2, 16, 3);
    j.qkv[(size_t)1 * 3 * j.s.inner + j.s.inner] = -INFINITY;  // a key of row 1, token 0, head 0
    emulate(1, 32 * WARPS, 0, [&] {
        lewm_attention_kernel<float>(j.r, j.qkv.data(), 0, TOKENS - 1, j.qkv_bias.data());
    });
    for (int row = 0; row < 3; row++)
        for (int head = 0; head < 2; head++)
            EXPECT_INT(isfinite(j.o[(size_t)row * j.s.inner + head * 16]) != 0,
                       !(row == 1 && head == 0));
}

// two searches of three candidates: the first goal's distance, then the second's; one latent that
// is not finite, of a step before the last
TEST(emulated, lewm_candidates_are_priced) {
    const int width = 72, each = 3, rows = 6, bad = 4;
    job<float> j(width, 2, 8, rows);
    j.r.each = each;
    j.r.s.goal_at = j.s.z0_at + (size_t)width * 4;
    j.r.s.stride = j.r.s.goal_at + (size_t)width * 4;
    std::vector<char> searches(2 * j.r.s.stride);
    j.r.searches = searches.data();
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < width; f++)
            lewm_part(lewm_search_at(j.r.searches, j.r.s, i), j.r.s.goal_at)[f] = noise();
    std::vector<float> value((size_t)rows);
    j.r.value = value.data();
    j.path[((size_t)bad * STEPS + 1) * width + 70] = NAN;
    emulate(j.blocks(1), 32 * WARPS, 0, [&] { lewm_price_kernel(j.r); });
    for (int row = 0; row < rows; row++) {
        const float* goal =
            lewm_part(lewm_search_at(j.r.searches, j.r.s, row / each), j.r.s.goal_at);
        double want = 0;
        for (int f = 0; f < width; f++)
            want += pow(j.path[((size_t)row * STEPS + STEPS - 1) * width + f] - goal[f], 2);
        if (row == bad)
            EXPECT(isinf(value[row]) && value[row] > 0);
        else
            EXPECT_NEAR(value[row], want, 1e-5 * want);
    }
    EXPECT_INT(lewm_search_at(j.r.searches, j.r.s, 0)->nonfinite, 0);
    EXPECT_INT(lewm_search_at(j.r.searches, j.r.s, 1)->nonfinite, 1);
}
