// episodes_test.c - collection (determinism, row alignment, distribution) and the HDF5 round trip.
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/hdf5.h"
#include "env/env.h"
#include "support.h"

TEST(data, collect_same_bits_for_any_thread_count) {
    firm_error err;
    uint64_t hash[3];
    for (int threads = 1; threads <= 3; threads++) {
        pool* p;
        REQUIRE_OK(pool_create(threads, &p, &err), err);
        episodes* e = small_set(300, 7, p);
        hash[threads - 1] = hdf5_hash(e->hash, e->extra, (size_t)e->rows * 2 * sizeof *e->extra);
        episodes_free(e);
        pool_free(p);
    }
    EXPECT(hash[0] == hash[1] && hash[1] == hash[2]);
    episodes* other = small_set(300, 8, NULL);
    EXPECT(other->hash != hash[0]);
    // a longer collection begins with the shorter one
    episodes *a = small_set(10, 7, NULL), *b = small_set(20, 7, NULL);
    EXPECT(memcmp(a->state, b->state, (size_t)a->rows * 2 * sizeof *a->state) == 0);
    episodes_free(a);
    episodes_free(b);
    episodes_free(other);
}

TEST(data, rows_hold_the_action_taken_there) {
    episodes* e = small_set(50, 1, NULL);
    const env_spec* spec = e->spec;
    env* world;
    firm_error err;
    REQUIRE_OK(env_create(spec, &world, &err), err);
    for (int i = 0; i < e->count; i++) {
        const int64_t o = e->offset[i];
        EXPECT(o == (i ? e->offset[i - 1] + e->length[i - 1] : 0));
        EXPECT(e->length[i] >= 2 && e->length[i] <= 101);
        EXPECT(e->ended[i] || e->length[i] == 101);
        spec->sim->state_set(world, e->state + 2 * o);
        for (int t = 0; t < e->length[i]; t++) {
            double s[2];
            spec->sim->state_get(world, s);
            EXPECT(memcmp(s, e->state + 2 * (o + t), sizeof s) == 0);
            const float* a = e->action + 2 * (o + t);
            int last = t == e->length[i] - 1;
            EXPECT((isnan(a[0]) && isnan(a[1])) == last);
            if (!last) spec->sim->step(world, a);
        }
        // only the last row lies within the target's tolerance, and only if the task ended the
        // episode
        for (int t = 1; t < e->length[i]; t++) {
            const double *s = e->state + 2 * (o + t), *target = e->extra + 2 * (o + t);
            EXPECT_INT(env_success(spec, s, target), t == e->length[i] - 1 && e->ended[i]);
        }
        EXPECT_INT(episodes_of_row(e, o), i);
        EXPECT_INT(episodes_of_row(e, o + e->length[i] - 1), i);
    }
    env_free(world);
    episodes_free(e);
}

TEST(data, distribution_of_the_public_file) {
    episodes* e = small_set(2000, 3, NULL);
    int shortest = 1000, capped = 0;
    for (int i = 0; i < e->count; i++) {
        if (e->length[i] < shortest) shortest = e->length[i];
        capped += !e->ended[i];
    }
    EXPECT_NEAR((double)e->rows / e->count, 92.0, 1.0);
    EXPECT(shortest >= 25);
    EXPECT_NEAR(100.0 * capped / e->count, 59.0, 4.0);
    EXPECT_NEAR(episodes_solved_at(e, 25), 8.7, 0.7);
    episodes_free(e);
}

TEST(data, collect_refuses) {
    firm_error err;
    episodes* e;
    const env_spec* spec = env_find("tworoom");
    expect_failure(episodes_collect(spec, &(collect_options){.episodes = -3}, NULL, &e, &err),
                   FIRM_E_USAGE, &err, "-3");
    expect_failure(episodes_collect(spec, &(collect_options){.episodes = 3, .policy = "clever"},
                                    NULL, &e, &err),
                   FIRM_E_USAGE, &err, "clever");
    // every allocation failing in turn ends in one clear error and no leak
    int failures = 0;
    for (int n = 0; n < 40; n++) {
        mem_fail_after(n);
        firm_status s = episodes_collect(spec, &(collect_options){.episodes = 3}, NULL, &e, &err);
        mem_fail_after(-1);
        if (s == FIRM_OK) {
            episodes_free(e);
            break;
        }
        EXPECT_INT(s, FIRM_E_MEMORY);
        failures++;
    }
    EXPECT(failures >= 5 && failures < 40);
}

TEST(data, episodes_round_trip) {
    firm_error err;
    pool* p;
    REQUIRE_OK(pool_create(2, &p, &err), err);
    episodes *e = small_set(40, 11, p), *back = NULL;
    const char* path = temp_path("round.h5");
    REQUIRE_OK(episodes_write(e, NULL, p, path, &err), err);
    REQUIRE_OK(episodes_read(path, e->spec, &back, &err), err);
    EXPECT_INT(back->count, e->count);
    EXPECT_INT(back->rows, e->rows);
    EXPECT(back->seed == 11 && back->hash == e->hash);
    EXPECT(back->pixels == NULL);
    EXPECT(memcmp(back->state, e->state, (size_t)e->rows * 2 * sizeof *e->state) == 0);
    EXPECT(memcmp(back->offset, e->offset, (size_t)e->count * sizeof *e->offset) == 0);
    EXPECT(memcmp(back->length, e->length, (size_t)e->count * sizeof *e->length) == 0);
    for (int64_t i = 0; i < 2 * e->rows; i++)
        EXPECT(back->action[i] == e->action[i] || (isnan(back->action[i]) && isnan(e->action[i])));
    // what was read lacks the collector's notes and is not written again
    expect_failure(episodes_write(back, NULL, p, temp_path("again.h5"), &err), FIRM_E_USAGE, &err,
                   "again.h5");

    // the same seed makes the same file, byte for byte
    const char* twin = temp_path("twin.h5");
    struct timespec pause = {.tv_sec = 1, .tv_nsec = 100000000};
    nanosleep(&pause, NULL);  // in another second: no time of writing is in it
    REQUIRE_OK(episodes_write(e, NULL, NULL, twin, &err), err);
    FILE *f = fopen(path, "rb"), *g = fopen(twin, "rb");
    int x, y, same = 1;
    do same &= (x = getc(f)) == (y = getc(g));
    while (same && x != EOF);
    EXPECT(same);
    fclose(f);
    fclose(g);
    // running out of memory while writing or reading leaves one sentence and no file
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        episodes* none;
        EXPECT_INT(episodes_read(path, e->spec, &none, &err), FIRM_E_MEMORY);
        mem_fail_after(0);
        EXPECT_INT(episodes_write(e, NULL, NULL, temp_path("no.h5"), &err), FIRM_E_MEMORY);
        mem_fail_after(-1);
    }
    EXPECT(access(temp_path("no.h5"), F_OK) != 0);
    episodes_free(back);
    episodes_free(e);
    pool_free(p);
}

TEST(data, file_opens_in_python) {
    if (system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
        test_skip("no /usr/bin/python3 with h5py");
        return;
    }
    firm_error err;
    episodes* e = small_set(12, 5, NULL);
    const char* path = temp_path("python.h5");
    REQUIRE_OK(episodes_write(e, &(collect_options){.pixels = 1}, NULL, path, &err), err);
    char command[4096];
    snprintf(command, sizeof command, "/usr/bin/python3 %s/tests/data/check_columns.py %s",
             test_source_dir(), path);
    EXPECT_INT(system(command), 0);
    episodes_free(e);
}
