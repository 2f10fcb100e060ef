// lewm_few_test.cpp - the kernel of a whole LeWM rollout (src/plan/cuda/lewm_few_kernel.cuh) on the
// CPU, its blocks at work together, against double arithmetic that rounds to bfloat16 where it
// does.
#include <vector>

#include "plan/cuda/lewm_few_kernel.cuh"

extern "C" {
#include "check.h"
}

using namespace lewm_few;

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

// A layer as the GPU has it.
struct layer {
    int in, out;
    std::vector<__nv_bfloat16> w;  // (out, in)
    std::vector<float> real, b;    // the same; biases

    layer(int in_, int out_) : in(in_), out(out_) {
        w.resize((size_t)in * out);
        for (__nv_bfloat16& x : w) x = __float2bfloat16(2 * noise() / sqrtf((float)in));
        for (const __nv_bfloat16& x : w) real.push_back(__bfloat162float(x));
        b = random((size_t)out, 0.3f);
    }
    // pieces for all blocks; where the next ones go
    char* pack(char* to, size_t stride, int columns, int tiles, int apart, int rows,
               int ins) const {
        const pack_args p = {w.data(), in, columns, tiles, apart, rows, ins, to, stride};
        emulate((unsigned)(packed_count(p) + 255) / 256, 256, 0, [&] { lewm_few_pack_kernel(p); });
        return to + (size_t)columns * tiles * PIECE;
    }
    std::vector<double> of(const std::vector<double>& x) const {
        enum { SUMS = 16 };  // side by side, or the sum's latency is most of the test
        std::vector<double> y(b.begin(), b.end());
        for (int o = 0; o < out; o++) {
            double sum[SUMS] = {0};
            for (int i = 0; i < in; i += SUMS)
                for (int k = 0; k < SUMS; k++) sum[k] += x[i + k] * real[(size_t)o * in + i + k];
            for (double part : sum) y[o] += part;
        }
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

    std::vector<char> packed;

    explicit model(int depth) {
        const int inner = BLOCKS * HEAD, units = BLOCKS * UNITS;
        s.width = WIDTH, s.heads = BLOCKS, s.head = HEAD, s.inner = inner, s.depth = depth;
        s.context = CONTEXT, s.mlp = s.projector = units;
        s.modulation = depth * LEWM_CHUNKS * WIDTH;
        const size_t stride = (size_t)pieces_of_step(depth) * PIECE;
        packed.resize(BLOCKS * stride);
        char* to = packed.data();
        for (int i = 0; i <= depth; i++) {  // the last has the head as its MLP, and no attention
            blocks.push_back({layer(WIDTH, 3 * inner), layer(inner, WIDTH), layer(WIDTH, units),
                              layer(units, WIDTH)});
            const block_layers& l = blocks.back();
            if (i < depth) {
                to = l.qkv.pack(to, stride, 3, 3, inner, HEAD, 0);
                to = l.out.pack(to, stride, 1, 3, 64, 0, HEAD);
            }
            to = l.up.pack(to, stride, 3, 2, 64, UNITS, 0);
            to = l.down.pack(to, stride, 2, 3, 64, 0, UNITS);
        }
        positions = random((size_t)CONTEXT * WIDTH, 1);
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
    int rows, horizon, search_rows, clusters;
    std::vector<__nv_bfloat16> mod, kept;
    std::vector<float> path;
    std::vector<char> searches;
    few_args g = {};

    rollout(const model& from, int rows_, int search_rows_, int each, int steps)
        : m(from),
          rows(rows_),
          horizon(steps),
          search_rows(search_rows_),
          clusters((rows_ + each - 1) / each) {
        mod.resize((size_t)horizon * rows * m.s.modulation);
        for (__nv_bfloat16& v : mod) v = __float2bfloat16(noise());
        kept.assign((size_t)clusters * BLOCKS * m.s.depth * 2 * 2 * each * HEAD,
                    __float2bfloat16(NAN));
        path.assign((size_t)rows * horizon * WIDTH, NAN);
        g.r.s = m.s;
        g.r.s.z0_at = 64, g.r.s.stride = 64 + WIDTH * 4;
        searches.resize((size_t)(rows / search_rows) * g.r.s.stride);
        g.r.rows = rows, g.r.each = search_rows, g.r.horizon = horizon;
        g.r.searches = searches.data();
        g.r.path = path.data(), g.r.mod = mod.data();
        g.r.mod_bias = m.mod_bias.data(), g.r.positions = m.positions.data();
        for (int i = 0; i < rows / search_rows; i++)
            for (int f = 0; f < WIDTH; f++) z0(i * search_rows)[f] = 2 * noise();
        g.each = each, g.kept = kept.data(), g.weights = m.packed.data();
        for (int i = 0; i <= m.s.depth; i++) {
            const block_layers& l = m.blocks[i];
            if (i < m.s.depth) g.qkv_bias[i] = l.qkv.b.data(), g.out_bias[i] = l.out.b.data();
            g.up_bias[i] = l.up.b.data(), g.down_bias[i] = l.down.b.data();
        }
    }
    float* z0(int row) {
        return lewm_part(lewm_search_at(g.r.searches, g.r.s, row / search_rows), g.r.s.z0_at);
    }
    void run() {
        emulate_together((unsigned)(clusters * BLOCKS), THREADS, ROOM, [&] { lewm_few_kernel(g); });
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
        for (int head = 0; head < BLOCKS; head++) {
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

// Latents have numbers up to about 4; every block's part of a row is rounded to bfloat16, too.
static const double NEAR_BY = 0.03;

static void compare(const model& m, int rows, int search_rows, int each, int steps) {
    rollout r(m, rows, search_rows, each, steps);
    r.run();
    double worst = 0;
    for (int row = 0; row < r.rows; row++) worst = test_worse(worst, r.off(row));
    printf("  off by %.2e\n", worst);
    EXPECT_NEAR(worst, 0, NEAR_BY);
}

// 17 and 3 candidates of two clusters
TEST(emulated, lewm_few_roll_out) {
    const model m(1);
    compare(m, 20, 10, 17, 4);
}

// as many candidates as a cluster takes
TEST(emulated, lewm_few_roll_out_full_clusters) {
    const model m(2);
    compare(m, CANDIDATES, CANDIDATES, CANDIDATES, 4);
}

// what is not finite stays so, in its own row alone
TEST(emulated, lewm_few_keep_what_is_not_finite) {
    const model m(1);
    rollout r(m, 4, 4, 4, 3);
    const int bad = 2;
    r.mod[(size_t)bad * m.s.modulation] = __float2bfloat16(NAN);  // of its first macro step
    r.run();
    for (int row = 0; row < r.rows; row++)
        for (int t = 0; t < r.horizon; t++)
            EXPECT_INT(isfinite(r.path[((size_t)row * r.horizon + t) * WIDTH]) != 0, row != bad);
}
