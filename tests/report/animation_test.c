// animation_test.c - the animated PNG chunk by chunk, the rasteriser and the font behind it.
#include "report/animation.h"

#include <png.h>
#include <zlib.h>

#include "check.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "io/image.h"
#include "report/canvas.h"
#include "report/font.h"
#include "sample.h"

static uint32_t word(const uint8_t* p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

typedef struct movie {
    int width, height, announced, frames;
    uint32_t sequence;
    uint8_t* shown;  // palette entries after the last frame
} movie;

// Inflates one frame's lines and puts them over what is shown; fails the test on any disagreement.
static void apply_frame(movie* m, const uint8_t* control, const uint8_t* data, size_t size) {
    uint32_t w = word(control + 4), h = word(control + 8), x = word(control + 12),
             y = word(control + 16);
    EXPECT(w > 0 && h > 0 && x + w <= (uint32_t)m->width && y + h <= (uint32_t)m->height);
    EXPECT_INT(control[24], 0);
    uLongf n = (uLongf)(w + 1) * h;
    uint8_t* lines = mem_alloc(n);
    if (!lines) return;
    int rc = uncompress(lines, &n, data, size);
    EXPECT_INT(rc, Z_OK);
    EXPECT_INT(n, (w + 1) * h);
    for (uint32_t j = 0; rc == Z_OK && j < h; j++) {
        EXPECT_INT(lines[j * (w + 1)], 0);
        for (uint32_t i = 0; i < w; i++) {
            uint8_t v = lines[j * (w + 1) + 1 + i];
            if (v) m->shown[(y + j) * (uint32_t)m->width + x + i] = v;
        }
    }
    mem_free(lines);
    m->frames++;
}

// Walks the chunks: order, lengths, CRCs, sequence numbers, rectangles.
static void check_apng(const uint8_t* bytes, size_t size, movie* m) {
    memset(m, 0, sizeof *m);
    EXPECT(size > 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0);
    const uint8_t* control = NULL;
    char order[256] = "";
    size_t at = 8;
    while (at + 12 <= size) {
        uint32_t n = word(bytes + at);
        const uint8_t *type = bytes + at + 4, *data = type + 4;
        if (n > size - at - 12) {
            test_fail(__FILE__, __LINE__, "a chunk runs past the end");
            return;
        }
        if ((uint32_t)crc32(crc32(0, type, 4), data, n) != word(data + n))
            test_fail(__FILE__, __LINE__, "CRC of %.4s at %zu", type, at);
        if (strlen(order) < 200) strncat(order, (const char*)type, 4), strcat(order, " ");
        if (memcmp(type, "IHDR", 4) == 0) {
            m->width = (int)word(data);
            m->height = (int)word(data + 4);
            m->shown = mem_calloc((size_t)m->width * (size_t)m->height, 1);
        } else if (memcmp(type, "acTL", 4) == 0) {
            m->announced = (int)word(data);
        } else if (memcmp(type, "fcTL", 4) == 0) {
            EXPECT_INT(n, 26);
            EXPECT_INT(word(data), m->sequence++);
            control = data;
        } else if (memcmp(type, "IDAT", 4) == 0) {
            EXPECT(control && m->frames == 0 && word(control + 4) == (uint32_t)m->width &&
                   word(control + 8) == (uint32_t)m->height);
            if (control) apply_frame(m, control, data, n);
        } else if (memcmp(type, "fdAT", 4) == 0) {
            EXPECT_INT(word(data), m->sequence++);
            EXPECT(control && m->frames > 0);
            if (control) apply_frame(m, control, data + 4, n - 4);
        }
        at += 12 + n;
    }
    EXPECT_INT(at, size);
    EXPECT(strncmp(order, "IHDR acTL PLTE tRNS fcTL IDAT fcTL fdAT ", 40) == 0);
    EXPECT(memcmp(bytes + size - 8, "IEND", 4) == 0);
    EXPECT_INT(m->frames, m->announced);
}

static firm_status animate(const cJSON* json, html* png, firm_error* err) {
    trace t;
    TRY(trace_read(json, "the trace", &t, err));
    firm_status status = animation_make(&t, png, err);
    trace_free(&t);
    return status;
}

TEST(report, animation_chunks) {
    firm_error err;
    html png = {0};
    movie m;
    cJSON* t = sample_trace(24, "tworoom", "reach");
    REQUIRE_OK(animate(t, &png, &err), err);
    cJSON_Delete(t);
    const uint8_t* bytes = (const uint8_t*)png.data;
    size_t size = png.size;
    EXPECT(size < 400000);
    check_apng(bytes, size, &m);
    EXPECT_INT(m.frames, 24);
    EXPECT_INT(m.width, 448);
    EXPECT(m.height > 448);
    for (int i = 0; m.shown && i < m.width * m.height; i++) {
        if (m.shown[i] == 0) {
            test_fail(__FILE__, __LINE__, "pixel %d was never painted", i);
            break;
        }
    }
    // plain PNG readers see the first frame
    png_image image = {.version = PNG_IMAGE_VERSION};
    EXPECT(png_image_begin_read_from_memory(&image, bytes, size));
    image.format = PNG_FORMAT_RGB;
    uint8_t* rgb = mem_alloc(PNG_IMAGE_SIZE(image));
    EXPECT(rgb && png_image_finish_read(&image, NULL, rgb, 0, NULL));
    if (rgb) {
        const uint8_t *wall = rgb + 3 * (448 * 400 + 224), *floor = rgb + 3 * (448 * 60 + 330),
                      *agent = rgb + 3 * (448 * 301 + 100);
        EXPECT(wall[0] < 12 && wall[1] < 12);
        EXPECT(floor[0] == 255 && floor[1] == 255 && floor[2] == 255);
        EXPECT(agent[0] > 180 && agent[1] < 120);
    }
    mem_free(rgb);
    mem_free(m.shown);
    html_free(&png);
}

// Noise is the worst that can happen: detail is given up until the file is small enough, the last
// frame stays.
TEST(report, animation_stays_small) {
    enum { SIDE = 200, FRAMES = 40 };
    static uint8_t rgb[SIDE * SIDE * 3];
    firm_error err;
    html moving = {0};
    size_t size;
    movie m;
    cJSON* t = sample_trace(FRAMES, "tworoom", "reach");
    cJSON* f;
    rng r = rng_start(3, RNG_STREAM(RNG_TEST, 4));
    cJSON_ArrayForEach(f, cJSON_GetObjectItem(t, "frames")) {
        uint8_t* png = NULL;
        for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(rng_u32(&r) & 0xe0);
        REQUIRE_OK(image_encode_png(SIDE, SIDE, rgb, &png, &size, &err), err);
        char* text = image_base64(png, size);
        cJSON_ReplaceItemInObject(f, "png", cJSON_CreateString(text));
        mem_free(text);
        mem_free(png);
    }
    cJSON_DeleteItemFromObject(t, "goal_png");
    REQUIRE_OK(animate(t, &moving, &err), err);
    cJSON_Delete(t);
    EXPECT(moving.size < 400000);
    check_apng((const uint8_t*)moving.data, moving.size, &m);
    EXPECT(m.frames > 1 && m.frames < FRAMES);
    mem_free(m.shown);
    html_free(&moving);
}

// Strange but allowed: points far outside, empty fans, missing distances, one frame.
TEST(report, animation_odd_traces) {
    firm_error err;
    html png = {0};
    cJSON* t = sample_trace(3, "a task with quite a long name that does not fit", "reach");
    cJSON* f = cJSON_GetArrayItem(cJSON_GetObjectItem(t, "frames"), 0);
    cJSON_ReplaceItemInObject(f, "plan_xy",
                              cJSON_Parse("[[1e300,-1e300],[5,5],[-1e9,7],[3,1e12]]"));
    cJSON_ReplaceItemInObject(f, "fan_xy", cJSON_Parse("[[],[[1,1]],[[-500,-500],[900,900]]]"));
    cJSON_ReplaceItemInObject(t, "goal_xy", cJSON_Parse("[[1e200,0],[5,5],[100,300]]"));
    cJSON_ReplaceItemInObject(f, "arrival", cJSON_CreateNumber(1e300));
    cJSON_ReplaceItemInObject(f, "step", cJSON_CreateNumber(-1e300));
    cJSON_ReplaceItemInObject(f, "distance", cJSON_Parse("[null]"));
    REQUIRE_OK(animate(t, &png, &err), err);
    html_free(&png);
    cJSON_DeleteItemFromObject(t, "distances");
    cJSON_DeleteItemFromObject(t, "goal_png");
    cJSON_DeleteItemFromObject(t, "goal_xy");
    cJSON_DeleteItemFromArray(cJSON_GetObjectItem(t, "frames"), 2);
    cJSON_DeleteItemFromArray(cJSON_GetObjectItem(t, "frames"), 1);
    REQUIRE_OK(animate(t, &png, &err), err);
    html_free(&png);
    cJSON_Delete(t);
    t = cJSON_CreateObject();
    EXPECT_INT(animate(t, &png, &err), FIRM_E_FORMAT);
    cJSON_Delete(t);
}

// An episode too long for every detail is drawn with less of it, and not for minutes.
TEST(report, animation_of_a_long_episode_ends_soon) {
    firm_error err;
    html png = {0};
    movie m;
    cJSON *t = sample_trace(2, "tworoom", "reach"), *frames = cJSON_GetObjectItem(t, "frames");
    cJSON* first = cJSON_GetArrayItem(frames, 0);
    cJSON* fan = cJSON_CreateArray();
    EXPECT(cJSON_ReplaceItemInObject(first, "fan_xy", fan));
    for (int i = 0; i < 100; i++) {
        cJSON* path = cJSON_CreateArray();
        for (int k = 0; k < 256; k++)
            cJSON_AddItemToArray(
                path, cJSON_CreateDoubleArray((double[]){k % 2 ? 1e300 : -9, i % 7 * 30}, 2));
        cJSON_AddItemToArray(fan, path);
    }
    // the first plan stays in hand
    for (int i = 0; i < 80; i++)
        cJSON_AddItemToArray(frames, cJSON_Duplicate(cJSON_GetArrayItem(frames, 1), 1));
    double before = clock_seconds();
    REQUIRE_OK(animate(t, &png, &err), err);
    EXPECT(clock_seconds() - before < 60);  // on a busy machine under sanitizers; else about one
    check_apng((const uint8_t*)png.data, png.size, &m);
    EXPECT_INT(m.frames, 22);  // no fan, every fourth of the 82 frames, and the end
    mem_free(m.shown);
    html_free(&png);
    cJSON_Delete(t);
}

static double ink_on(canvas* c) {
    double sum = 0;
    for (int i = 0; i < c->width * c->height; i++) sum += c->rgb[3 * i] / 255.0;
    return sum;
}

TEST(report, canvas_areas) {
    const colour white = {255, 255, 255}, black = {0, 0, 0};
    canvas c;
    EXPECT(canvas_create(&c, 100, 80));
    // a shape covers its area, wherever it lies between the pixels
    for (int i = 0; i < 8; i++) {
        double shift = i / 8.0;
        canvas_line(&c, 20 + shift, 30, 80 + shift, 55.3, 3);
        canvas_blend(&c, white, 1);
        EXPECT_NEAR(ink_on(&c), 3 * hypot(60, 25.3) + 3.14159 * 2.25, 4);
        canvas_fill(&c, 0, 0, 100, 80, black);
        canvas_disc(&c, 50 + shift, 40, 12);
        canvas_blend(&c, white, 0.5);
        EXPECT_NEAR(ink_on(&c), 0.5 * 3.14159 * 144, 2.5);
        canvas_fill(&c, 0, 0, 100, 80, black);
        canvas_ring(&c, 50, 40 + shift, 20, 2);
        canvas_blend(&c, white, 1);
        EXPECT_NEAR(ink_on(&c), 2 * 2 * 3.14159 * 20, 4);
        canvas_fill(&c, 0, 0, 100, 80, black);
    }
    // steep, flat and endless ones too
    static const double ends[][5] = {{50, -1e9, 50, 1e9, 80 * 3},
                                     {-1e9, 40, 1e9, 40, 100 * 3},
                                     {50, 10, 50.001, 70, 60 * 3 + 7},
                                     {10, 40, 90, 40.0005, 80 * 3 + 7},
                                     {0, 0, 100, 80, 3 * 128 - 4}};
    for (int i = 0; i < 5; i++) {
        canvas_line(&c, ends[i][0], ends[i][1], ends[i][2], ends[i][3], 3);
        canvas_blend(&c, white, 1);
        EXPECT_NEAR(ink_on(&c), ends[i][4], 2.5);
        canvas_fill(&c, 0, 0, 100, 80, black);
    }
    // a translucent polyline is no darker where its parts meet
    canvas_line(&c, 10, 40, 50, 40, 4);
    canvas_line(&c, 50, 40, 90, 40, 4);
    canvas_blend(&c, white, 0.5);
    EXPECT_INT(c.rgb[3 * (39 * 100 + 50)], c.rgb[3 * (39 * 100 + 30)]);
    // far away: no pixel, no crash
    canvas_fill(&c, 0, 0, 100, 80, black);
    canvas_disc(&c, 1e300, -1e300, 5);
    canvas_line(&c, 1e300, 1e300, 2e300, 1e300, 3);
    canvas_text(&c, 500, 500, 2, "outside");
    canvas_blend(&c, white, 1);
    EXPECT_NEAR(ink_on(&c), 0, 0);
    canvas_free(&c);
}

TEST(report, font_glyphs) {
    uint64_t shape[95];
    for (int c = 32; c < 127; c++) {
        uint64_t bits = 0;
        for (int row = 0; row < 9; row++) {
            for (int column = 0; column < 5; column++)
                bits = bits << 1 | (uint64_t)font_dot((char)c, column, row);
        }
        shape[c - 32] = bits;
        EXPECT((bits != 0) == (c != 32));
        for (int k = 32; k < c; k++) {
            if (shape[k - 32] == bits) test_fail(__FILE__, __LINE__, "'%c' looks like '%c'", c, k);
        }
    }
    EXPECT(font_dot('\n', 1, 0) == font_dot('?', 1, 0) && font_dot('A', 5, 0) == 0 &&
           font_dot('A', 0, 9) == 0);
}
