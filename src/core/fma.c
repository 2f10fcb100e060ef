// fma.c - rounds of the register-only loop on every thread of a pool at once.
#include "core/fma.h"

#include "core/clock.h"
#include "core/fma_kernels.h"
#include "core/simd.h"

enum { ROUNDS = 5, PIECES = 4 };  // rounds to take the best of; pieces of a round per thread

typedef struct job {
    double (*run)(int64_t rounds);
    int64_t rounds;
} job;

static void piece(void* arg, int item, int worker) {
    (void)item, (void)worker;
    const job* j = arg;
    j->run(j->rounds);
}

static double (*best_run(void))(int64_t) {
    simd_level level = simd_best();
#if defined(__x86_64__)
    if (level == SIMD_AVX512) return fma_run_avx512;
    if (level == SIMD_AVX2) return fma_run_avx2;
#elif defined(__aarch64__)
    if (level == SIMD_NEON) return fma_run_neon;
#endif
    (void)level;
    return fma_run_plain;
}

double fma_measure(pool* p, double ms) {
    job j = {best_run(), 1 << 14};
    double best = 0, wanted = ms * 1e6 / (ROUNDS * PIECES);  // ns of a piece
    int64_t begun = clock_ns();
    double work = j.run(j.rounds), took = (double)(clock_ns() - begun);
    if (took > 0 && wanted > took) j.rounds = (int64_t)((double)j.rounds * wanted / took);
    work = work / (1 << 14) * (double)j.rounds * PIECES * pool_threads(p);
    for (int i = 0; i < ROUNDS; i++) {
        begun = clock_ns();
        pool_for(p, PIECES * pool_threads(p), piece, &j);
        double rate = work / (double)(clock_ns() - begun);
        if (rate > best) best = rate;
    }
    return best;
}
