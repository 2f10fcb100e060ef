// rng_test.c - Philox 4x32-10 against the published vectors, and the distributions drawn from it.
// Statistical bounds are five standard errors of the sample: fixed seeds, so no chance failures.
#include "core/rng.h"

#include "check.h"

static void expect_block(int line, uint64_t seed, uint64_t stream, uint64_t index,
                         const uint32_t want[4]) {
    uint32_t got[4];
    rng_block(seed, stream, index, got);
    if (memcmp(got, want, sizeof got) != 0)
        test_fail(__FILE__, line, "%08x %08x %08x %08x, expected %08x %08x %08x %08x", got[0],
                  got[1], got[2], got[3], want[0], want[1], want[2], want[3]);
}

// Random123's kat_vectors, philox4x32 10 rounds: counter words 0..3 are (index, stream), low word
// first.
TEST(core, rng_known_answers) {
    expect_block(__LINE__, 0, 0, 0,
                 (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    expect_block(__LINE__, ~0ull, ~0ull, ~0ull,
                 (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
    expect_block(__LINE__, 0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull,
                 (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(core, rng_unit_is_open) {
    EXPECT(rng_unit(0) > 0.0f);
    EXPECT(rng_unit(UINT32_MAX) < 1.0f);
    EXPECT(rng_unit(0x7fffffff) < 0.5f && rng_unit(0x80000000) > 0.5f);
    for (uint32_t i = 0; i < 1000; i++)
        EXPECT(rng_unit(UINT32_MAX - i * 512 - 512) < rng_unit(UINT32_MAX - i * 512));
}

TEST(core, rng_normals_have_normal_moments) {
    enum { N = 400000 };
    float* x = malloc(N * sizeof *x);
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, 3), 0, x, N);
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, pairs = 0;
    int beyond = 0;
    for (int i = 0; i < N; i++) {
        double v = x[i];
        EXPECT(isfinite(v));
        m1 += v, m2 += v * v, m3 += v * v * v, m4 += v * v * v * v;
        if (i) pairs += v * x[i - 1];
        beyond += fabs(v) > 1.959964;
    }
    double se = 5 / sqrt(N);
    EXPECT_NEAR(m1 / N, 0, se);
    EXPECT_NEAR(m2 / N, 1, se * sqrt(2));
    EXPECT_NEAR(m3 / N, 0, se * sqrt(15));
    EXPECT_NEAR(m4 / N, 3, se * sqrt(96));
    EXPECT_NEAR(pairs / N, 0, se);
    EXPECT_NEAR((double)beyond / N, 0.05, se * sqrt(0.05 * 0.95));

    // any piece of the stream can be made by itself
    float piece[7];
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, 3), 1000, piece, 7);
    EXPECT(memcmp(piece, x + 1000, sizeof piece) == 0);
    free(x);

    rng r = rng_start(12, RNG_STREAM(RNG_TEST, 4));
    m1 = m2 = 0;
    for (int i = 0; i < N; i++) {
        double v = rng_gauss(&r);
        m1 += v, m2 += v * v;
    }
    EXPECT_NEAR(m1 / N, 0, se);
    EXPECT_NEAR(m2 / N, 1, se * sqrt(2));
}

TEST(core, rng_uniform_is_uniform) {
    enum { N = 200000, CELLS = 64 };
    int count[CELLS] = {0};
    rng r = rng_start(13, RNG_STREAM(RNG_TEST, 5));
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&r, -2, 6);
        EXPECT(u >= -2 && u < 6);
        count[(int)((u + 2) / 8 * CELLS)]++;
    }
    double chi = 0, want = (double)N / CELLS;
    for (int i = 0; i < CELLS; i++) chi += (count[i] - want) * (count[i] - want) / want;
    EXPECT_NEAR(chi, CELLS - 1, 5 * sqrt(2.0 * (CELLS - 1)));
}

TEST(core, rng_below_bounds) {
    rng r = rng_start(14, RNG_STREAM(RNG_TEST, 6));
    static const uint32_t limits[] = {1, 2, 3, 7, 1000, 0x80000000u, 0x80000001u, UINT32_MAX};
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++)
        for (int i = 0; i < 2000; i++) EXPECT(rng_below(&r, limits[k]) < limits[k]);
    enum { N = 120000, SIDES = 6 };
    int count[SIDES] = {0};
    for (int i = 0; i < N; i++) count[rng_below(&r, SIDES)]++;
    double chi = 0, want = (double)N / SIDES;
    for (int i = 0; i < SIDES; i++) chi += (count[i] - want) * (count[i] - want) / want;
    EXPECT_NEAR(chi, SIDES - 1, 5 * sqrt(2.0 * (SIDES - 1)));
    // without rejection the lower half of 3 * 2^30 values would come twice as often as the rest
    double low = 0;
    for (int i = 0; i < N; i++) low += rng_below(&r, 3u << 30) < 1u << 30;
    EXPECT_NEAR(low / N, 1.0 / 3, 5 * sqrt(2.0 / 9 / N));
}

TEST(core, rng_streams_differ_and_repeat) {
    rng a = rng_start(1, RNG_STREAM(RNG_TEST, 7)), b = a;
    rng c = rng_start(1, RNG_STREAM(RNG_TEST, 8)), d = rng_start(2, RNG_STREAM(RNG_TEST, 7));
    rng e = rng_start(1, RNG_STREAM(RNG_PLAN, 7));
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t x = rng_u32(&a);
        EXPECT(x == rng_u32(&b));
        same += (x == rng_u32(&c)) + (x == rng_u32(&d)) + (x == rng_u32(&e));
    }
    EXPECT_INT(same, 0);
    EXPECT(rng_hash_text("") == 0xcbf29ce484222325ull);
    EXPECT(rng_hash_text("a") == 0xaf63dc4c8601ec8cull);  // FNV-1a's published values
    EXPECT(rng_hash_text("foobar") == 0x85944171f73967e8ull);
}

TEST(core, rng_shuffle_permutes) {
    enum { N = 5, ROUNDS = 60000 };
    int first[N] = {0};
    rng r = rng_start(15, RNG_STREAM(RNG_TEST, 9));
    for (int k = 0; k < ROUNDS; k++) {
        int items[N] = {0, 1, 2, 3, 4}, seen = 0;
        rng_shuffle(&r, items, N);
        for (int i = 0; i < N; i++) seen |= 1 << items[i];
        EXPECT_INT(seen, 31);
        first[items[0]]++;
    }
    for (int i = 0; i < N; i++)
        EXPECT_NEAR((double)first[i] / ROUNDS, 0.2, 5 * sqrt(0.16 / ROUNDS));
    rng_shuffle(&r, NULL, 0);
}
