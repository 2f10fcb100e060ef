// pinned_test.c - values of small functions by hand: normals from their words, the rate
// of a resumed run.
#define _GNU_SOURCE
#include <unistd.h>

#include "check.h"
#include "core/log.h"
#include "core/rng.h"

// Box-Muller: 1/2 gives the radius sqrt(2 ln 2), quarter turns the signs. Words have half a unit of
// 2^-23 added, hence the tolerance.
TEST(core, rng_normals_by_hand) {
    const uint32_t words[4] = {0x80000000, 0, 0x80000000, 0x40000000};
    float v[4];
    rng_normal4(words, v);
    EXPECT_NEAR(v[0], 1.17741002, 2e-6);
    EXPECT_NEAR(v[1], 0, 2e-6);
    EXPECT_NEAR(v[2], 0, 2e-6);
    EXPECT_NEAR(v[3], 1.17741002, 2e-6);
}

// Normals drawn one by one are those of the stream's blocks, in order.
TEST(core, rng_gauss_reads_the_stream_in_order) {
    float want[12];
    rng r = rng_start(9, RNG_STREAM(RNG_TEST, 3));
    rng_fill_normal(9, RNG_STREAM(RNG_TEST, 3), 0, want, 12);
    for (int i = 0; i < 12; i++) EXPECT_NEAR(rng_gauss(&r), want[i], 1e-6);
}

// A run resumed at a million that makes one step in 50 ms makes 20 a second.
TEST(core, progress_of_a_resumed_run_shows_its_own_rate) {
    char path[512], text[512] = "";
    progress p;
    snprintf(path, sizeof path, "%s/progress.txt", test_temp_dir());
    FILE* file = fopen(path, "w+");
    EXPECT(file != NULL);
    if (!file) return;
    fflush(stderr);
    int keep = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    progress_enable(1);
    progress_begin(&p, "run", 2000000);
    progress_step(&p, 1000000, NULL);
    usleep(50000);
    progress_step(&p, 1000001, NULL);
    progress_end(&p);
    progress_enable(0);
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    rewind(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    const char* rate = strstr(text, " of 2000000 in 0:00  ");
    EXPECT(rate != NULL);
    if (!rate) return;
    double shown = atof(rate + strlen(" of 2000000 in 0:00  "));
    EXPECT(shown > 0 && shown <= 20.5 && !strchr(rate, 'M') && !strchr(rate, 'k'));
}
