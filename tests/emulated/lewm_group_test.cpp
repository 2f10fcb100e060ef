// lewm_group_test.cpp - the kernel of a whole LeWM rollout (src/plan/cuda/lewm_group.cuh) on the
// CPU, its blocks at work together, against double arithmetic that rounds to bfloat16 where it
// does.
#include "plan/cuda/lewm_group.cuh"

#include <vector>

extern "C" {
#include "check.h"
}

using namespace lewm_group;

static uint32_t state = 7;
static float noise(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}
static std::vector<float> random(size_t n, float by) {
    std::vector<float> v(n);
    for (float& x : v) x = by * noise();
    return v;
}
static double rounded(double x) {
    return __bfloat162float(__float2bfloat16((float)x));
}

// A layer as the GPU has it, and packed for its parts.
struct layer {
    int in, out;
    std::vector<__nv_bfloat16> w;  // (out, in)
    std::vector<float> b;
    std::vector<uint4> packed;

    layer(int in_, int out_) : in(in_), out(out_) {
        w.resize((size_t)in * out);
        for (__nv_bfloat16& x : w) x = __float2bfloat16(2 * noise() / sqrtf((float)in));
        b = random((size_t)out, 0.3f);
    }
    void pack(int splits, int k_tiles, int n_tiles, int segment, int apart, int part_rows,
              int part_ins) {
        packed.resize((size_t)packed_count(splits, k_tiles, n_tiles));
        const pack_args p = {w.data(), in,    splits,    k_tiles,  n_tiles,
                             segment,  apart, part_rows, part_ins, packed.data()};
        emulate((unsigned)(packed.size() + THREADS - 1) / THREADS, THREADS, 0,
                [&] { lewm_pack_kernel(p); });
    }
    std::vector<double> of(const std::vector<double>& x) const {
        std::vector<double> y(b.begin(), b.end());
        for (int o = 0; o < out; o++)
            for (int i = 0; i < in; i++) y[o] += x[i] * __bfloat162float(w[(size_t)o * in + i]);
        return y;
    }
};

struct block_layers {
    layer qkv, out, up, down;
};

struct model {
    lewm_sizes s = {};
    std::vector<block_layers> blocks;
    std::vector<float> positions, mod_bias;

    model(int heads, int depth, int context) {
        const int inner = heads * HEAD, units = heads * UNITS;
        s.width = WIDTH, s.heads = heads, s.head = HEAD, s.inner = inner, s.depth = depth;
        s.context = context, s.mlp = s.projector = units;
        s.modulation = depth * LEWM_CHUNKS * WIDTH;
        for (int i = 0; i <= depth; i++) {  // the last has the head as its MLP, and no attention
            blocks.push_back({layer(WIDTH, 3 * inner), layer(inner, WIDTH), layer(WIDTH, units),
                              layer(units, WIDTH)});
            block_layers& l = blocks.back();
            l.qkv.pack(heads, 12, 3, HEAD, inner, HEAD, 0);
            l.out.pack(heads, 4, 3, WIDTH, 0, 0, HEAD);
            l.up.pack(heads, 12, 2, UNITS, 0, UNITS, 0);
            l.down.pack(heads, 8, 3, WIDTH, 0, 0, UNITS);
        }
        positions = random((size_t)context * WIDTH, 1);
        mod_bias = random((size_t)s.modulation, 0.3f);
    }
};

static void norm(std::vector<double>* v, double eps) {
    double mean = 0, square = 0, n = (double)v->size();
    for (double x : *v) mean += x / n;
    for (double x : *v) square += (x - mean) * (x - mean) / n;
    for (double& x : *v) x = (x - mean) / sqrt(square + eps);
}

// rows of one or more searches, `each` of them in a group
struct rollout {
    const model& m;
    int rows, horizon, search_rows;
    std::vector<__nv_bfloat16> mod, a, qkv;
    std::vector<float> x, path, part;
    std::vector<unsigned> met;
    std::vector<char> searches;
    group_args g = {};

    rollout(const model& from, int rows_, int search_rows_, int each, int steps)
        : m(from), rows(rows_), horizon(steps), search_rows(search_rows_) {
        const int groups = (rows + each - 1) / each;
        mod.resize((size_t)horizon * rows * m.s.modulation);
        for (__nv_bfloat16& v : mod) v = __float2bfloat16(noise());
        a.resize((size_t)m.s.context * rows * WIDTH);
        qkv.resize((size_t)m.s.depth * m.s.context * rows * 3 * m.s.inner);
        x.resize(a.size());
        path.assign((size_t)rows * horizon * WIDTH, NAN);
        part.assign((size_t)groups * m.s.heads * room_sizes<false>::ROWS * WIDTH, NAN);
        met.resize((size_t)groups * 32);
        g.r.s = m.s;
        g.r.s.z0_at = 64, g.r.s.stride = 64 + WIDTH * 4;
        searches.resize((size_t)(rows / search_rows) * g.r.s.stride);
        g.r.rows = rows, g.r.each = search_rows, g.r.horizon = horizon;
        g.r.searches = searches.data();
        g.r.x = x.data(), g.r.path = path.data(), g.r.mod = mod.data(), g.r.a = a.data();
        g.r.qkv = qkv.data();
        g.r.mod_bias = m.mod_bias.data(), g.r.positions = m.positions.data();
        for (int i = 0; i < rows / search_rows; i++)
            for (int f = 0; f < WIDTH; f++) z0(i * search_rows)[f] = 2 * noise();
        g.splits = m.s.heads, g.each = each, g.part = part.data(), g.met = met.data();
        for (int i = 0; i <= m.s.depth; i++) {
            const block_layers& l = m.blocks[i];
            if (i < m.s.depth)
                g.attention[i] = {l.qkv.packed.data(), l.out.packed.data(), l.qkv.b.data(),
                                  l.out.b.data()};
            g.mlp[i] = {l.up.packed.data(), l.down.packed.data(), l.up.b.data(), l.down.b.data()};
        }
    }
    float* z0(int row) {
        return lewm_part(lewm_search_at(g.r.searches, g.r.s, row / search_rows), g.r.s.z0_at);
    }
    // NEAR: through the shared memory of clusters
    template <bool NEAR>
    void run() {
        const unsigned groups = (unsigned)(met.size() / 32);
        emulate_together(groups * (unsigned)g.splits, THREADS, room_sizes<NEAR>::ROOM,
                         [&] { lewm_group_kernel<NEAR>(g); });
    }
    double chunk(int t, int row, int block, int i, int f) const {
        int at = (block * LEWM_CHUNKS + i) * WIDTH + f;
        return __bfloat162float(mod[((size_t)t * rows + row) * m.s.modulation + at]) +
               m.mod_bias[at];
    }

    // ---- the same in double, one candidate at a time, every window from its beginning

    typedef std::vector<double> numbers;
    numbers operands(numbers v, int t, int row, int block, int first) const {
        if (block < m.s.depth) {
            norm(&v, 1e-6);
            for (int f = 0; f < WIDTH; f++)
                v[f] = v[f] * (1 + chunk(t, row, block, first + 1, f)) +
                       chunk(t, row, block, first, f);
        }
        norm(&v, 1e-5);
        for (double& x : v) x = rounded(x);
        return v;
    }
    numbers through_mlp(const block_layers& l, const numbers& u) const {
        numbers h = l.up.of(u);
        for (double& v : h) v = rounded(0.5 * v * (1 + erf(v * M_SQRT1_2)));
        return l.down.of(h);
    }
    void attend(const block_layers& l, std::vector<numbers>* q, int token, numbers* y) const {
        const int inner = m.s.inner;
        numbers o((size_t)inner);
        for (int head = 0; head < m.s.heads; head++) {
            double weight[CONTEXT], total = 0;
            for (int j = 0; j <= token; j++) {
                double dot = 0;
                for (int d = 0; d < HEAD; d++)
                    dot += (*q)[token][head * HEAD + d] * ((*q)[j][inner + head * HEAD + d] - 0.0);
                total += weight[j] = exp(dot / 8);
            }
            for (int d = 0; d < HEAD; d++) {
                double sum = 0;
                for (int j = 0; j <= token; j++)
                    sum += weight[j] / total * (*q)[j][2 * inner + head * HEAD + d];
                o[head * HEAD + d] = rounded(sum);
            }
        }
        *y = l.out.of(o);
    }
    numbers predict(int row, int t, const std::vector<numbers>& latents) const {
        const int n = t + 1 < m.s.context ? t + 1 : m.s.context, start = t + 1 - n;
        std::vector<numbers> tokens((size_t)n);
        for (int k = 0; k < n; k++) {
            tokens[k] = latents[start + k];
            for (int f = 0; f < WIDTH; f++) tokens[k][f] += m.positions[k * WIDTH + f];
        }
        for (int b = 0; b < m.s.depth; b++) {
            const block_layers& l = m.blocks[b];
            std::vector<numbers> q((size_t)n);
            for (int k = 0; k < n; k++) {
                q[k] = l.qkv.of(operands(tokens[k], start + k, row, b, 0));
                for (int i = 0; i < 3 * m.s.inner; i++) {
                    if (i / m.s.inner == 1) q[k][i] -= l.qkv.b[i];  // changes nothing
                    q[k][i] = rounded(q[k][i]);
                }
            }
            for (int k = 0; k < n; k++) {
                numbers y;
                attend(l, &q, k, &y);
                for (int f = 0; f < WIDTH; f++)
                    tokens[k][f] += chunk(start + k, row, b, 2, f) * y[f];
                y = through_mlp(l, operands(tokens[k], start + k, row, b, 3));
                for (int f = 0; f < WIDTH; f++)
                    tokens[k][f] += chunk(start + k, row, b, 5, f) * y[f];
            }
        }
        return through_mlp(m.blocks[m.s.depth], operands(tokens[n - 1], start, row, m.s.depth, 0));
    }
    // The largest difference of any latent; every step starts from the kernel's own latents.
    double off(int row) {
        std::vector<numbers> latents = {numbers(z0(row), z0(row) + WIDTH)};
        double worst = 0;
        for (int t = 0; t < horizon; t++) {
            const float* got = &path[((size_t)row * horizon + t) * WIDTH];
            const numbers want = predict(row, t, latents);
            for (int f = 0; f < WIDTH; f++) worst = test_worse(worst, fabs(want[f] - got[f]));
            latents.push_back(numbers(got, got + WIDTH));
        }
        return worst;
    }
};

// Latents have numbers up to about 4; a rounding that falls the other way moves one by some 1e-3.
static const double NEAR_BY = 0.02;

template <bool NEAR>
static void compare(const model& m, int rows, int search_rows, int each, int steps) {
    rollout r(m, rows, search_rows, each, steps);
    r.run<NEAR>();
    double worst = 0;
    for (int row = 0; row < r.rows; row++) worst = test_worse(worst, r.off(row));
    printf("  %s: off by %.2e\n", NEAR ? "clusters" : "groups", worst);
    EXPECT_NEAR(worst, 0, NEAR_BY);
}

// 17 and 3 candidates of two groups, two heads: a window that slides has 51 rows, tiles of both
// sizes
TEST(emulated, lewm_groups_roll_out) {
    const model m(2, 2, 3);
    compare<false>(m, 20, 10, 17, 5);
    compare<true>(m, 20, 10, 17, 5);
}

// as many candidates as a group takes: a warp has two rows
TEST(emulated, lewm_full_groups_roll_out) {
    const model m(4, 1, 3);
    compare<false>(m, 42, 42, 42, 4);
    compare<true>(m, 48, 48, 48, 4);
}

// windows of one latent, one head, two groups; of two latents, three heads
TEST(emulated, lewm_groups_roll_out_short_windows) {
    for (int context = 1; context <= 2; context++) {
        const model m(2 * context - 1, 1, context);
        compare<false>(m, 5, 5, context == 1 ? 3 : 5, 3);
        compare<true>(m, 5, 5, context == 1 ? 3 : 5, 3);
    }
}

// what is not finite stays so, in its own row alone
template <bool NEAR>
static void keep_what_is_not_finite(void) {
    const model m(2, 1, 2);
    rollout r(m, 4, 4, 4, 3);
    const int bad = 2;
    r.mod[(size_t)bad * m.s.modulation] = __float2bfloat16(NAN);  // of its first macro step
    r.run<NEAR>();
    for (int row = 0; row < r.rows; row++)
        for (int t = 0; t < r.horizon; t++)
            EXPECT_INT(isfinite(r.path[((size_t)row * r.horizon + t) * WIDTH]) != 0, row != bad);
}

TEST(emulated, lewm_groups_keep_what_is_not_finite) {
    keep_what_is_not_finite<false>();
    keep_what_is_not_finite<true>();
}
