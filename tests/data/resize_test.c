// resize_test.c - pictures of another size against a plain reference in double precision, and
// against values by hand.
#include "data/resize.h"

#include "check.h"

// What pixel i of `size` sees of pixel k of `from`: the share of the area, or of the distance.
static double share(int from, int size, int i, int k) {
    if (from > size) {
        double low = fmax((double)from * i / size, k),
               high = fmin((double)from * (i + 1) / size, k + 1);
        return fmax(0, high - low) * size / from;
    }
    double at = fmin(fmax(((double)i + 0.5) * from / size - 0.5, 0), from - 1);
    return fmax(0, 1 - fabs(at - k));
}

static double plain(const uint8_t* p, int h, int w, int size, int y, int x, int ch) {
    double sum = 0;
    for (int i = 0; i < h; i++) {
        double down = share(h, size, y, i);
        for (int k = 0; k < w && down > 0; k++)
            sum += down * share(w, size, x, k) * p[3 * (i * w + k) + ch];
    }
    return sum;
}

static void compare(int h, int w, int size) {
    firm_error err = {0};
    resize* r;
    REQUIRE_OK(resize_create(h, w, size, &r, &err), err);
    uint8_t* from = resize_source(r);
    uint8_t* to = malloc((size_t)(size * size * 3));
    uint32_t noise = 7;
    for (int i = 0; i < h * w * 3; i++)
        from[i] = (uint8_t)((noise = noise * 1664525u + 1013904223u) >> 24);
    resize_run(r, from, to);
    double worst = 0;
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++)
            for (int ch = 0; ch < 3; ch++)
                worst = test_worse(
                    worst, fabs(plain(from, h, w, size, y, x, ch) - to[3 * (y * size + x) + ch]));
    EXPECT_NEAR(worst, 0, 0.55);  // half a step of a byte, and the weights' rounding
    resize_free(r);
    free(to);
}

// Weights that do not add up would darken it, or wrap around at 255.
static void even_colour(int h, int w, int size) {
    firm_error err = {0};
    resize* r;
    REQUIRE_OK(resize_create(h, w, size, &r, &err), err);
    uint8_t* from = resize_source(r);
    uint8_t* to = malloc((size_t)(size * size * 3));
    static const uint8_t colour[] = {255, 1, 200};
    for (int i = 0; i < h * w * 3; i++) from[i] = colour[i % 3];
    resize_run(r, from, to);
    for (int i = 0; i < size * size * 3; i++)
        if (to[i] != colour[i % 3]) {
            test_fail(__FILE__, __LINE__, "%d x %d: byte %d is %d", h, w, i, to[i]);
            break;
        }
    resize_free(r);
    free(to);
}

TEST(data, resize_against_a_plain_reference) {
    static const int shape[][3] = {{96, 128, 64}, {48, 40, 64}, {64, 64, 64}, {65, 63, 64},
                                   {30, 200, 80}, {8, 129, 64}, {240, 20, 64}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        compare(shape[i][0], shape[i][1], shape[i][2]);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        even_colour(shape[i][0], shape[i][1], shape[i][2]);
    even_colour(4072, 4072, 64);  // the weights' rounding adds up most
}

TEST(data, resize_by_hand) {
    firm_error err = {0};
    resize* r;
    REQUIRE_OK(resize_create(16, 16, 8, &r, &err), err);
    uint8_t* from = resize_source(r);
    uint8_t to[8 * 8 * 3];
    memset(from, 0, 16 * 16 * 3);
    from[3 * (2 * 16 + 4)] = 200;      // one of the four pixels that (1, 2) covers
    from[3 * (3 * 16 + 5)] = 100;      // another
    from[3 * (2 * 16 + 6) + 1] = 255;  // in the next one
    resize_run(r, from, to);
    EXPECT_INT(to[3 * (1 * 8 + 2)], 75);
    EXPECT_INT(to[3 * (1 * 8 + 2) + 1], 0);
    EXPECT_INT(to[3 * (1 * 8 + 3) + 1], 64);
    resize_free(r);
    EXPECT_INT(resize_create(7, 100, 64, &r, &err), FIRM_E_FORMAT);
    EXPECT_INT(resize_create(100, 4097, 64, &r, &err), FIRM_E_FORMAT);
}
