// pictures_test.c - packed frames: the same bytes drawn, kept or unpacked, from any number of
// threads; a budget is kept to, and bytes that are no frame are refused.
#include "data/pictures.h"

#include <stdatomic.h>

#include "check.h"
#include "core/mem.h"
#include "core/pool.h"
#include "env/env.h"

enum { SCENES = 24 };
static atomic_int drawn;

// mostly background, a square that says which scene it is, and some noise
static firm_status draw(void* ctx, int worker, int64_t scene, uint8_t* rgb) {
    (void)ctx, (void)worker;
    atomic_fetch_add(&drawn, 1);
    for (int i = 0; i < ENV_FRAME_BYTES; i++) rgb[i] = (uint8_t)(i % 7 * 30);
    for (int y = 0; y < 30; y++)
        for (int x = 0; x < 90; x++)
            rgb[((int)scene * 8 + y) * ENV_IMAGE * 3 + x] = (uint8_t)(scene * 31 + x * y);
    return scene == SCENES - 1 ? FIRM_E_VALUE : FIRM_OK;
}

typedef struct job {
    pictures* p;
    atomic_int wrong;
} job;

static void look(void* arg, int item, int worker) {
    job* j = arg;
    static _Thread_local uint8_t got[ENV_FRAME_BYTES], want[ENV_FRAME_BYTES];
    int64_t scene = item * 5 % (SCENES - 1);
    draw(NULL, worker, scene, want);
    if (pictures_get(j->p, worker, scene, got) != FIRM_OK || memcmp(got, want, sizeof got) != 0)
        atomic_fetch_add(&j->wrong, 1);
}

TEST(data, pictures_are_drawn_once) {
    static uint8_t background[ENV_FRAME_BYTES];
    firm_error err;
    pool* threads;
    draw(NULL, 0, 0, background);
    REQUIRE_OK(pool_create(3, &threads, &err), err);
    static const size_t budgets[] = {0, 1000, 1 << 24};
    for (int b = 0; b < 3; b++) {
        job j = {0};
        REQUIRE_OK(pictures_open(&(pictures_of){SCENES, ENV_FRAME_BYTES, draw, NULL, background},
                                 budgets[b], &j.p, &err),
                   err);
        pool_for(threads, 200, look, &j);
        EXPECT_INT(j.wrong, 0);
        atomic_store(&drawn, 0);
        pool_for(threads, 200, look, &j);
        EXPECT_INT(j.wrong, 0);
        // `look` draws 200 itself; more only where nothing, or not everything, is kept
        if (b == 0) EXPECT_INT(drawn, 400);
        if (b == 1) EXPECT(drawn > 200);
        if (b == 2) EXPECT_INT(drawn, 200);
        EXPECT_INT(pictures_get(j.p, 0, SCENES, background), FIRM_E_USAGE);
        EXPECT_INT(pictures_get(j.p, 0, -1, background), FIRM_E_USAGE);
        EXPECT_INT(pictures_get(j.p, 0, SCENES - 1, background), FIRM_E_VALUE);  // never kept
        draw(NULL, 0, 0, background);
        pictures_free(j.p);
    }
    pool_free(threads);
}

TEST(data, packed_pictures_refuse_damage) {
    static uint8_t background[ENV_FRAME_BYTES], rgb[ENV_FRAME_BYTES], back[ENV_FRAME_BYTES];
    picture_background like = {background, ENV_FRAME_BYTES};
    uint8_t* bytes = mem_alloc(picture_bound(ENV_FRAME_BYTES));
    draw(NULL, 0, 0, background);
    draw(NULL, 0, 3, rgb);
    for (int level = 1; level <= 9; level += 4) {
        size_t n = picture_pack(rgb, like, level, bytes);
        EXPECT(n > 0 && n < ENV_FRAME_BYTES / 10);
        EXPECT(picture_unpack(bytes, n, like, back) && memcmp(rgb, back, sizeof rgb) == 0);
        EXPECT(!picture_unpack(bytes, n / 2, like, back));
        bytes[n / 2] ^= 1;
        EXPECT(!picture_unpack(bytes, n, like, back));
    }
    mem_free(bytes);
}
