// tworoom_test.c - TwoRoom against its fact sheet (worked cases, pixel values) and against
// trajectories and frames of the reference package in tests/golden/tworoom.txt.
#include "env/tworoom.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"

static env* make(void) {
    firm_error err;
    env* e = NULL;
    if (env_create(env_find("tworoom"), &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return e;
}

static void put(env* e, double x, double y) {
    e->spec->sim->state_set(e, (double[]){x, y});
}

static const uint8_t* pixel(const uint8_t* rgb, int col, int row) {
    return rgb + 3 * (row * ENV_IMAGE + col);
}

TEST(env, registry) {
    firm_error err;
    const env_spec* spec;
    EXPECT(env_find("tworoom") == env_at(0));
    EXPECT(env_find("nowhere") == NULL);
    EXPECT(env_at(-1) == NULL && env_at(1000) == NULL);
    EXPECT_INT(env_find_or_fail("nowhere", &spec, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "nowhere") && strstr(err.message, "tworoom"));
    EXPECT_INT(env_find_or_fail(NULL, &spec, NULL), FIRM_E_USAGE);
    REQUIRE_OK(env_find_or_fail("tworoom", &spec, &err), err);
    EXPECT_TEXT(spec->task.name, "tworoom");
    env_free(NULL);
}

TEST(env, create_without_memory) {
    firm_error err;
    env* e;
    env** many;
    mem_fail_after(0);
    EXPECT_INT(env_create(env_find("tworoom"), &e, &err), FIRM_E_MEMORY);
    EXPECT(e == NULL);
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        EXPECT_INT(env_create_many(env_find("tworoom"), 2, &many, &err), FIRM_E_MEMORY);
        EXPECT(many == NULL);
    }
    mem_fail_after(-1);
}

TEST(env, tworoom_worked_cases) {
    static const struct {
        double x, y;
        float ax, ay;
        double to_x, to_y;
    } cases[] = {
        {98, 100, 1, 0, 99.5, 100},
        {98, 49, 1, 0, 103, 49},
        {105, 60, 0, 1, 99.5, 65},
        {118, 63, 0, 1, 124.5, 68},
        {111, 50, 1, 0, 116, 50},
        {14, 14, 0, 0, 21, 21},
        {200, 200, 1, 1, 203, 203},
        {126, 200, -1, 0, 124.5, 200},
        {124.5, 200, -0.05f, 0, 124.25, 200},
        // both ends of the door interval pass; just beyond they do not
        {98, 33.25, 1, 0, 103, 33.25},
        {98, 64.75, 1, 0, 103, 64.75},
        {98, 33.0, 1, 0, 99.5, 33.0},
        {98, 65.0, 1, 0, 99.5, 65.0},
        // the wall tests are strict: exactly at the edge is free
        {95, 150, 1, 0, 100, 150},
        {129, 150, -1, 0, 124, 150},
        // x = 112 counts as the right side; actions beyond the bounds are clamped
        {112, 70, 0, 0, 124.5, 70},
        {60, 60, 7, -9, 65, 55},
    };
    env* e = make();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double s[2];
        put(e, cases[i].x, cases[i].y);
        e->spec->sim->step(e, (float[]){cases[i].ax, cases[i].ay});
        e->spec->sim->state_get(e, s);
        if (s[0] != cases[i].to_x || s[1] != cases[i].to_y)
            test_fail(__FILE__, __LINE__,
                      "(%g, %g) + (%g, %g) gives (%.9g, %.9g), expected (%g, %g)", cases[i].x,
                      cases[i].y, cases[i].ax, cases[i].ay, s[0], s[1], cases[i].to_x,
                      cases[i].to_y);
    }
    env_free(e);
}

TEST(env, tworoom_refuses_what_is_not_finite) {
    env* e = make();
    double s[2];
    put(e, 60, 112);
    e->spec->sim->step(e, (float[]){NAN, 0});
    EXPECT_INT(e->fault, FIRM_E_VALUE);
    e->spec->sim->state_get(e, s);
    EXPECT(s[0] == 60 && s[1] == 112);
    put(e, 60, 112);
    EXPECT_INT(e->fault, FIRM_OK);
    e->spec->sim->step(e, (float[]){0, INFINITY});
    EXPECT_INT(e->fault, FIRM_E_VALUE);
    put(e, NAN, 3);
    EXPECT_INT(e->fault, FIRM_E_VALUE);
    env_free(e);
}

TEST(env, tworoom_success_boundary) {
    const env_spec* spec = env_find("tworoom");
    double goal[2] = {100, 60};
    EXPECT(env_success(spec, (double[]){115.9999, 60}, goal));
    EXPECT(!env_success(spec, (double[]){116, 60}, goal));
    EXPECT(!env_success(spec, (double[]){116.0001, 60}, goal));
    EXPECT(env_success(spec, goal, goal));
    // the typed distance agrees with the state-based test away from the boundary
    float c[2], g[2];
    env_config(spec, (double[]){100 + 9.6, 60 + 12.8}, c);
    env_config(spec, goal, g);
    EXPECT_NEAR(task_tolerance_units(&spec->task, c, g), 1.0, 1e-5);
    EXPECT_NEAR(task_cost_value(&spec->task, c, g), 256.0 / (112.0 * 112.0), 1e-6);
    c[0] = NAN;
    EXPECT(isinf(task_tolerance_units(&spec->task, c, g)));
}

TEST(env, tworoom_typed_conversions) {
    const env_spec* spec = env_find("tworoom");
    float c[2], xy[2], chi[2], d[1];
    env_config(spec, (double[]){56, 168}, c);
    EXPECT_NEAR(c[0], -0.5, 1e-7);
    EXPECT_NEAR(c[1], 0.5, 1e-7);
    task_project(&spec->task, c, xy);
    EXPECT_NEAR(xy[0], 56, 1e-4);
    EXPECT_NEAR(xy[1], 168, 1e-4);
    env_chi(spec, (double[]){60, 50}, (double[]){55, 52.5}, (double[]){0, 0}, chi);
    EXPECT_NEAR(chi[0], 5.0 / 112, 1e-7);
    EXPECT_NEAR(chi[1], -2.5 / 112, 1e-7);
    task_measure(&spec->task, c, (float[]){-0.5f, 0.25f}, d);
    EXPECT_NEAR(d[0], 28, 1e-4);
}

// ---- picture ----

// pixels whose red channel the truncation made 254
static int speckle(const uint8_t* rgb) {
    int n = 0;
    for (int i = 0; i < ENV_IMAGE * ENV_IMAGE; i++) n += rgb[3 * i] == 254;
    return n;
}

TEST(env, tworoom_picture_values) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    tworoom_draw(60, 112, rgb);
    static const struct {
        int col, row, red, rest;
    } at[] = {{60, 112, 255, 0}, {67, 112, 255, 100}, {74, 112, 255, 220}, {65, 117, 255, 101}};
    for (int i = 0; i < 4; i++) {
        const uint8_t* p = pixel(rgb, at[i].col, at[i].row);
        EXPECT(abs(p[0] - at[i].red) <= 1);
        EXPECT_INT(p[1], at[i].rest);
        EXPECT_INT(p[2], at[i].rest);
    }
    EXPECT(speckle(rgb) >= 400 && speckle(rgb) <= 500);
    // every frame has its own: the reference's counts range from 303 to 547, mean 450, over 100
    // random positions, and these two are its exact counts
    rng r = rng_start(2, RNG_STREAM(RNG_TEST, 0));
    double sum = 0;
    for (int k = 0; k < 100; k++) {
        tworoom_draw((float)rng_uniform(&r, 21, 203), (float)rng_uniform(&r, 21, 203), rgb);
        EXPECT(speckle(rgb) >= 250 && speckle(rgb) <= 600);
        sum += speckle(rgb);
    }
    EXPECT_NEAR(sum / 100, 450, 30);
    tworoom_draw(45, 160, rgb);
    EXPECT_NEAR(speckle(rgb), 397, 10);
    tworoom_draw(60, 112, rgb);
    EXPECT_NEAR(speckle(rgb), 424, 10);
}

TEST(env, tworoom_picture_geometry) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    tworoom_draw(-5000, -5000, rgb);  // no agent in sight
    for (int row = 0; row < ENV_IMAGE; row++)
        for (int col = 0; col < ENV_IMAGE; col++) {
            int line = (col >= 10 && col <= 13) || (col >= 210 && col <= 213) ||
                       (row >= 10 && row <= 13) || (row >= 210 && row <= 213);
            int wall = col >= 107 && col <= 117 && !(row >= 35 && row <= 63);
            int want = line || wall ? 0 : 255;
            const uint8_t* p = pixel(rgb, col, row);
            if (p[0] != want || p[1] != want || p[2] != want) {
                test_fail(__FILE__, __LINE__, "pixel (%d, %d) is %d %d %d, expected %d", col, row,
                          p[0], p[1], p[2], want);
                return;
            }
        }
}

// The definition, plain: every pixel, exp of the float32 exponent in double.
static void draw_plain(float x, float y, const uint8_t* rooms, uint8_t* rgb) {
    static float w[ENV_IMAGE * ENV_IMAGE];
    float peak = 0;
    for (int i = 0; i < ENV_IMAGE * ENV_IMAGE; i++) {
        float dx = (float)(i % ENV_IMAGE) - x, dy = (float)(i / ENV_IMAGE) - y;
        float exponent = -(dx * dx + dy * dy) / 98.0f;
        w[i] = (float)exp((double)exponent);
        if (w[i] > peak) peak = w[i];
    }
    for (int i = 0; i < ENV_IMAGE * ENV_IMAGE * 3; i++) {
        float a = peak > 0 ? w[i / 3] / peak : w[i / 3];
        float kept = (float)rooms[i] * (1.0f - a), added = (i % 3 == 0 ? 255.0f : 0.0f) * a;
        rgb[i] = (uint8_t)(kept + added);
    }
}

TEST(env, tworoom_picture_equals_the_definition) {
    static uint8_t rooms[ENV_FRAME_BYTES], plain[ENV_FRAME_BYTES], fast[ENV_FRAME_BYTES];
    tworoom_draw(-5000, -5000, rooms);
    rng r = rng_start(5, RNG_STREAM(RNG_TEST, 0));
    for (int k = 0; k < 60; k++) {
        // mostly inside, some beyond the picture's edge
        float x = (float)rng_uniform(&r, k % 4 ? 14 : -60, k % 4 ? 209 : 280);
        float y = (float)rng_uniform(&r, k % 4 ? 14 : -60, k % 4 ? 209 : 280);
        draw_plain(x, y, rooms, plain);
        tworoom_draw(x, y, fast);
        int worst = 0, differing = 0;
        for (int i = 0; i < ENV_FRAME_BYTES; i++) {
            int d = abs(plain[i] - fast[i]);
            differing += d > 0;
            if (d > worst) worst = d;
        }
        if (worst > 1 || differing > 3)
            test_fail(__FILE__, __LINE__, "agent at (%g, %g): %d values differ, by up to %d", x, y,
                      differing, worst);
    }
}

// ---- restoring ----

TEST(env, tworoom_restore_and_continue) {
    static uint8_t first[ENV_FRAME_BYTES], second[ENV_FRAME_BYTES];
    const env_spec* spec = env_find("tworoom");
    env *a = make(), *b = make();
    rng r = rng_start(9, RNG_STREAM(RNG_TEST, 1));
    float action[2];
    double kept[2], sa[2], sb[2];
    spec->sim->reset(a, &r);
    for (int i = 0; i < 40; i++) {
        spec->collection->policy[0].act(a, &r, action);
        spec->sim->step(a, action);
    }
    spec->sim->state_get(a, kept);
    spec->sim->state_set(b, kept);
    for (int i = 0; i < 60; i++) {
        action[0] = (float)rng_uniform(&r, -1, 1);
        action[1] = (float)rng_uniform(&r, -1, 1);
        spec->sim->step(a, action);
        spec->sim->step(b, action);
        spec->sim->state_get(a, sa);
        spec->sim->state_get(b, sb);
        EXPECT(memcmp(sa, sb, sizeof sa) == 0);
    }
    spec->sim->render(a, first);
    spec->sim->render(b, second);
    EXPECT(memcmp(first, second, sizeof first) == 0);
    env_free(a);
    env_free(b);
}

TEST(env, tworoom_starts_and_targets) {
    const env_spec* spec = env_find("tworoom");
    env* e = make();
    for (int i = 0; i < 3000; i++) {
        rng r = rng_start(3, RNG_STREAM(RNG_TEST, i));
        double s[2], t[2];
        spec->sim->reset(e, &r);
        spec->sim->state_get(e, s);
        spec->layout->extra_get(e, t);
        int fine = s[0] >= 14 && s[0] <= 209 && s[1] >= 14 && s[1] <= 209 && t[0] >= 14 &&
                   t[0] <= 209 && t[1] >= 14 && t[1] <= 209 && !(s[0] >= 100 && s[0] <= 124) &&
                   !(t[0] >= 100 && t[0] <= 124) && (s[0] < 112) != (t[0] < 112);
        double way = hypot(s[0] - 112, s[1] - 49) + hypot(t[0] - 112, t[1] - 49);
        if (!fine || way / 5 < 25 - 1e-5)
            test_fail(__FILE__, __LINE__, "start (%g, %g), target (%g, %g), way %g", s[0], s[1],
                      t[0], t[1], way);
    }
    env_free(e);
}

// ---- the reference package's own runs ----

static float from_bits(const char* text) {
    uint32_t bits = (uint32_t)strtoul(text, NULL, 16);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void compare_frame(FILE* in, float x, float y) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    tworoom_draw(x, y, rgb);
    char token[64];
    int at = 0, worst = 0;
    while (fscanf(in, "%63s", token) == 1 && strcmp(token, "end") != 0) {
        unsigned red, rest;
        int count = 1;
        EXPECT(sscanf(token, "%2x%2x*%d", &red, &rest, &count) >= 2);
        for (int i = 0; i < count && at < ENV_IMAGE * ENV_IMAGE; i++, at++) {
            const int want[3] = {(int)red, (int)rest, (int)rest};
            for (int k = 0; k < 3; k++) {
                int d = abs(rgb[3 * at + k] - want[k]);
                if (d > worst) worst = d;
            }
        }
    }
    EXPECT_INT(at, ENV_IMAGE * ENV_IMAGE);
    if (worst > 1)
        test_fail(__FILE__, __LINE__, "frame at (%g, %g): off by %d levels", x, y, worst);
}

TEST(env, tworoom_golden) {
    char path[1024], line[256];
    snprintf(path, sizeof path, "%s/tests/golden/tworoom.txt", test_source_dir());
    FILE* in = fopen(path, "r");
    if (!in) {
        test_fail(__FILE__, __LINE__, "cannot open %s", path);
        return;
    }
    env* e = make();
    int sequences = 0, steps = 0, frames = 0, wrong = 0;
    while (fgets(line, sizeof line, in)) {
        char w[4][16];
        if (line[0] == '#') continue;
        if (sscanf(line, "sequence %15s %15s", w[0], w[1]) == 2) {
            put(e, from_bits(w[0]), from_bits(w[1]));
            sequences++;
        } else if (sscanf(line, "frame %15s %15s", w[0], w[1]) == 2) {
            compare_frame(in, from_bits(w[0]), from_bits(w[1]));
            frames++;
        } else if (sscanf(line, "%15s %15s %15s %15s", w[0], w[1], w[2], w[3]) == 4) {
            double s[2];
            e->spec->sim->step(e, (float[]){from_bits(w[0]), from_bits(w[1])});
            e->spec->sim->state_get(e, s);
            wrong += s[0] != from_bits(w[2]) || s[1] != from_bits(w[3]);
            steps++;
        }
    }
    fclose(in);
    env_free(e);
    EXPECT(sequences >= 20 && steps == 60 * sequences && frames >= 3);
    EXPECT_INT(wrong, 0);
}
