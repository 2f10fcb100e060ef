// frames_test.c - frames on demand: rendered, cached or read, always the same bytes, within bounds.
#include "data/frames.h"

#include "core/mem.h"
#include "data/hdf5.h"
#include "env/env.h"
#include "env/tworoom.h"
#include "support.h"

static uint8_t got[ENV_FRAME_BYTES], want[ENV_FRAME_BYTES];

static void draw_row(const episodes* e, int64_t row) {
    tworoom_draw((float)e->state[2 * row], (float)e->state[2 * row + 1], want);
}

TEST(data, frames_equal_the_direct_picture) {
    firm_error err;
    episodes* e = small_set(4, 6, NULL);
    for (size_t cache = 0; cache <= 8u * (ENV_FRAME_BYTES + 8);
         cache += 4u * (ENV_FRAME_BYTES + 8)) {
        frames* f;
        REQUIRE_OK(frames_open(e, 2, cache, &f, &err), err);
        for (int pass = 0; pass < 2; pass++)
            for (int64_t row = 0; row < e->rows; row += 3) {
                EXPECT_INT(frames_get(f, (int)(row % 2), row, got), FIRM_OK);
                draw_row(e, row);
                EXPECT(memcmp(got, want, sizeof got) == 0);
                EXPECT_INT(frames_get(f, 0, row, got), FIRM_OK);  // now from the cache
                EXPECT(memcmp(got, want, sizeof got) == 0);
            }
        EXPECT_INT(frames_get(f, 0, -1, got), FIRM_E_USAGE);
        EXPECT_INT(frames_get(f, 0, e->rows, got), FIRM_E_USAGE);
        EXPECT_INT(frames_render(f, 1, (double[]){60, 112}, got), FIRM_OK);
        tworoom_draw(60, 112, want);
        EXPECT(memcmp(got, want, sizeof got) == 0);
        EXPECT_INT(frames_render(f, 1, (double[]){NAN, 112}, got), FIRM_E_VALUE);
        frames_free(f);
    }
    episodes_free(e);
}

TEST(data, frames_take_no_memory_after_opening) {
    firm_error err;
    episodes* e = small_set(4, 6, NULL);
    frames* f;
    REQUIRE_OK(frames_open(e, 1, 1 << 20, &f, &err), err);
    int64_t before = mem_count();
    for (int64_t row = 0; row < e->rows; row++) EXPECT_INT(frames_get(f, 0, row, got), FIRM_OK);
    EXPECT_INT(mem_count(), before);
    frames_free(f);
    frames_free(NULL);
    int failures = 0;
    for (int n = 0; n < 10; n++) {
        mem_fail_after(n);
        firm_status s = frames_open(e, 1, 1 << 20, &f, &err);
        mem_fail_after(-1);
        if (s == FIRM_OK) {
            frames_free(f);
            break;
        }
        EXPECT_INT(s, FIRM_E_MEMORY);
        failures++;
    }
    EXPECT(failures >= 4 && failures < 10);
    expect_failure(frames_open(e, 0, 0, &f, &err), FIRM_E_USAGE, &err, "at least 1");
    episodes_free(e);
}

typedef struct reading {
    frames* f;
    const episodes* e;
    uint8_t* ok;
} reading;

static void read_one(void* arg, int item, int worker) {
    reading* r = arg;
    uint8_t* mine = malloc(2 * ENV_FRAME_BYTES);
    int64_t row = (int64_t)item * 37 % r->e->rows;
    tworoom_draw((float)r->e->state[2 * row], (float)r->e->state[2 * row + 1], mine);
    r->ok[item] = frames_get(r->f, worker, row, mine + ENV_FRAME_BYTES) == FIRM_OK &&
                  memcmp(mine, mine + ENV_FRAME_BYTES, ENV_FRAME_BYTES) == 0;
    free(mine);
}

TEST(data, frames_from_a_pixels_column_over_threads) {
    firm_error err;
    pool* p;
    REQUIRE_OK(pool_create(3, &p, &err), err);
    episodes *e = small_set(5, 6, p), *back;
    const char* path = temp_path("pixels.h5");
    REQUIRE_OK(episodes_write(e, &(collect_options){.pixels = 1}, p, path, &err), err);
    REQUIRE_OK(episodes_read(path, e->spec, &back, &err), err);
    EXPECT(back->pixels && back->hash == e->hash);
    reading r = {.e = back};
    uint8_t ok[300];
    r.ok = ok;
    REQUIRE_OK(frames_open(back, 3, 20u * ENV_FRAME_BYTES, &r.f, &err), err);
    // the column, not the state, is what comes back: moving the agent in memory changes nothing
    double keep = back->state[0];
    back->state[0] += 50;
    EXPECT_INT(frames_get(r.f, 0, 0, got), FIRM_OK);
    back->state[0] = keep;
    draw_row(back, 0);
    EXPECT(memcmp(got, want, sizeof got) == 0);
    pool_for(p, 300, read_one, &r);
    for (int i = 0; i < 300; i++) EXPECT_INT(ok[i], 1);
    frames_free(r.f);
    episodes_free(back);
    episodes_free(e);
    pool_free(p);
}
