// embed_test.cpp - the kernels that make pictures tokens (src/nn/cuda/embed_kernels.cuh) on the CPU
// against plain loops in double arithmetic.
#include <vector>

#include "nn/cuda/embed_kernels.cuh"

extern "C" {
#include "check.h"
}

static uint32_t state = 1;
static float noise(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}

static std::vector<float> numbers(size_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = noise();
    return v;
}

static const bf16 UNWRITTEN = {0x7fff};

static void check_near(const char* what, double got, double want, double allowed) {
    if (!(fabs(got - want) <= allowed * test_tolerance_scale()))
        test_fail(__FILE__, __LINE__, "%s: %.6g instead of %.6g", what, got, want);
}

static void compare_patches(int pictures, int side, int patch) {
    int grid = side / patch, inputs = patch * patch * 3, padded = (inputs + 7) / 8 * 8;
    size_t patches = (size_t)pictures * grid * grid;
    std::vector<uint8_t> frames((size_t)pictures * side * side * 3);
    for (uint8_t& x : frames) x = (uint8_t)(127.5f + 127.5f * noise());
    std::vector<bf16> to(patches * padded, UNWRITTEN);
    stripe s = {side,           patch,         padded,   {0.02f, 0.03f, 0.04f},
                {-2, -1, 0.5f}, frames.data(), to.data()};
    emulate((unsigned)(pictures * grid), EMBED_THREADS, (size_t)(side * 3 * patch),
            [&] { cut_patches(s); });
    for (size_t p = 0; p < patches; p++)
        for (int k = 0; k < padded; k++) {
            size_t picture = p / (grid * grid), gy = p / grid % grid, gx = p % grid;
            size_t y = gy * patch + k / (patch * 3), x = gx * patch * 3 + k % (patch * 3);
            int c = k % 3;
            double want = k < inputs
                              ? frames[(picture * side + y) * side * 3 + x] * (double)s.scale[c] +
                                    (double)s.shift[c]
                              : 0;
            check_near("patch", __bfloat162float(to[p * padded + k]), want,
                       0.004 * fabs(want) + 1e-6);
        }
}

TEST(emulated, embed_cuts_patches) {
    compare_patches(1, 56, 14);
    compare_patches(2, 16, 4);
    compare_patches(3, 16, 2);
}

TEST(emulated, embed_joins_tokens) {
    const int pictures = 3, tokens = 5, width = 24;
    std::vector<bf16> products((size_t)pictures * (tokens - 1) * width);
    for (bf16& x : products) x = __float2bfloat16(noise());
    std::vector<float> bias = numbers(width), first = numbers(width);
    std::vector<float> positions = numbers((size_t)tokens * width);
    std::vector<float> y((size_t)pictures * tokens * width, NAN);
    stream s = {pictures * tokens, tokens,           width,   products.data(), bias.data(),
                first.data(),      positions.data(), y.data()};
    emulate(1, EMBED_THREADS, 16, [&] { join_tokens(s); });
    for (int p = 0; p < pictures; p++)
        for (int t = 0; t < tokens; t++)
            for (int c = 0; c < width; c++) {
                double want = positions[t * width + c];
                if (t == 0)
                    want += first[c];
                else
                    want += bias[c] +
                            __bfloat162float(products[(p * (tokens - 1) + t - 1) * width + c]);
                check_near("token", y[(p * tokens + t) * width + c], want, 1e-6);
            }
}

// pictures: fewer than chunks, and more
static void compare_back(int pictures) {
    const int tokens = 5, width = 24, size = tokens * width;
    std::vector<float> dy = numbers((size_t)pictures * size), part(EMBED_CHUNKS * size, NAN);
    std::vector<bf16> products((size_t)pictures * (size - width), UNWRITTEN);
    std::vector<float> positions = numbers(size), first = numbers(width), total(size, NAN);
    std::vector<float> positions_before = positions, first_before = first;
    stream_back back = {pictures, tokens, width, 1, dy.data(), products.data(), part.data()};
    emulate(EMBED_CHUNKS, EMBED_THREADS, 16, [&] { split_tokens(back); });
    stream_sums sums = {tokens, width, part.data(), positions.data(), first.data(), total.data()};
    emulate(1, EMBED_THREADS, 16, [&] { add_chunks(sums); });
    for (int i = 0; i < size; i++) {
        double want = 0;
        for (int p = 0; p < pictures; p++) {
            double x = dy[p * size + i];
            want += x;
            if (i >= width)
                check_near("gradient", __bfloat162float(products[p * (size - width) + i - width]),
                           x, 0.004 * fabs(x));
        }
        check_near("total", total[i], want, 1e-5);
        check_near("positions", positions[i], positions_before[i] + want, 1e-5);
        if (i < width) check_near("class", first[i], first_before[i] + want, 1e-5);
    }
}

TEST(emulated, embed_sums_over_pictures) {
    compare_back(3);
    compare_back(2 * EMBED_CHUNKS + 5);
}
