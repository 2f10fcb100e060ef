// steps_test.c - the kernels of an update that belong to no op, each against the host: rows picked,
// rates, rows fetched, loss terms with TopMean's selection, AdamW. Without a GPU they are skipped.
#include "nn/cuda/steps.h"

#include "check.h"
#include "core/rng.h"
#include "gpu.h"
#include "nn/trainer.h"

// device copy of `bytes`; NULL (reported) when it fails
static void* to_device(nn_cuda_queue* q, const void* host, size_t bytes) {
    firm_error err = {0};
    void* p = NULL;
    if (nn_cuda_alloc(q, bytes, &p, &err) != FIRM_OK ||
        nn_cuda_upload(q, p, host, bytes, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return p;
}

static void to_host(nn_cuda_queue* q, void* host, const void* device, size_t bytes) {
    firm_error err = {0};
    if (nn_cuda_download(q, host, device, bytes, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
}

TEST(cuda, steps_pick_the_hosts_rows) {
    enum { A = 300, B = 7, SLOTS = 4 };
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    if (!q) return;
    static const int64_t updates[] = {0, 1, 2, 77, 999999, 1ll << 33};
    static const int64_t lengths[] = {1, 2, 97, 16384, 900001, 1ll << 40};
    int64_t rows[2][A], blank[A] = {0};
    nn_adamw_options adamw = nn_adamw_default();
    nn_cuda_clock clock = {0};
    nn_cuda_draw draw[2] = {
        {.seed = 0x123456789abcdefull, .stream = RNG_STREAM(RNG_BATCH, 9), .batch = A},
        {.batch = B, .slots = SLOTS}};
    draw[0].row = to_device(q, blank, sizeof blank);
    draw[1].row = to_device(q, blank, sizeof blank);
    nn_cuda_clock* on_device = to_device(q, &clock, sizeof clock);
    nn_pick key = {draw[0].seed, draw[0].stream};
    firm_error err;
    for (int u = 0; u < 6; u++)
        for (int n = 0; n < 6; n++) {
            clock.update = updates[u];
            draw[0].rows = lengths[n];
            EXPECT_INT(nn_cuda_upload(q, on_device, &clock, sizeof clock, &err), FIRM_OK);
            nn_cuda_begin(q, draw, 2, &adamw, on_device);
            to_host(q, rows[0], draw[0].row, sizeof *rows);
            to_host(q, rows[1], draw[1].row, sizeof *rows);
            for (int i = 0; i < A; i++)
                EXPECT_INT(rows[0][i], nn_pick_row(&key, updates[u], i, lengths[n]));
            for (int i = 0; i < B; i++) EXPECT_INT(rows[1][i], updates[u] % SLOTS * B + i);
        }
    nn_cuda_release(draw[0].row);
    nn_cuda_release(draw[1].row);
    nn_cuda_release(on_device);
    nn_cuda_queue_free(q);
}

TEST(cuda, steps_rates_are_the_hosts) {
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    if (!q) return;
    int64_t row = 0;
    nn_cuda_clock clock = {0};
    nn_cuda_clock* on_device = to_device(q, &clock, sizeof clock);
    nn_cuda_draw draw = {.batch = 1, .slots = 1, .row = to_device(q, &row, sizeof row)};
    double worst = 0;
    for (int kind = 0; kind < 4; kind++)
        for (int64_t step = 0; step < 3000; step += step < 60 ? 1 : 211) {
            nn_adamw_options o = nn_adamw_default();
            o.schedule = kind & 1 ? NN_COSINE : NN_CONSTANT;
            o.warmup = kind & 2 ? 50 : 0;
            o.updates = 2500;
            o.floor = kind == 3 ? 0.1f : 0.0f;
            o.beta2 = 0.95f;
            clock.update = step;
            firm_error err;
            EXPECT_INT(nn_cuda_upload(q, on_device, &clock, sizeof clock, &err), FIRM_OK);
            nn_cuda_begin(q, &draw, 1, &o, on_device);
            nn_cuda_clock got;
            to_host(q, &got, on_device, sizeof got);
            double want[3] = {nn_schedule_rate(&o, step),
                              1 / (1 - pow((double)o.beta1, (double)(step + 1))),
                              1 / (1 - pow((double)o.beta2, (double)(step + 1)))};
            double have[3] = {got.rate, got.correction1, got.correction2};
            EXPECT_INT(got.update, step);
            for (int k = 0; k < 3; k++) {
                // both are doubles rounded to float; their last bits may differ
                EXPECT_NEAR(have[k], want[k], 2.5e-7 * fabs(want[k]) + 1e-12);
                if (want[k] != 0) worst = test_worse(worst, fabs(have[k] / want[k] - 1));
            }
        }
    printf("  largest relative difference %.2g\n", worst);
    nn_cuda_release(draw.row);
    nn_cuda_release(on_device);
    nn_cuda_queue_free(q);
}

TEST(cuda, steps_gather_rows) {
    enum { ROWS = 50, BATCH = 33, KINDS = 5 };
    static const uint32_t widths[KINDS] = {1, 7, 4, 20, 150528};
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    if (!q) return;
    int64_t row[BATCH];
    for (int i = 0; i < BATCH; i++) row[i] = (i * 29 + 3) % ROWS;
    int64_t* rows = to_device(q, row, sizeof row);
    uint8_t *table[KINDS], *got = malloc(BATCH * widths[KINDS - 1]);
    nn_cuda_copy copy[KINDS];
    for (int k = 0; k < KINDS; k++) {
        size_t all = ROWS * widths[k];
        table[k] = malloc(all);
        for (size_t i = 0; i < all; i++) table[k][i] = (uint8_t)(i * 2654435761u >> 13);
        memset(got, 0xEE, BATCH * widths[k]);
        copy[k] = (nn_cuda_copy){.from = to_device(q, table[k], all),
                                 .to = to_device(q, got, BATCH * widths[k]),
                                 .row = rows,
                                 .row_bytes = widths[k],
                                 .batch = BATCH,
                                 .pieces = 1};
    }
    nn_cuda_copy* list = to_device(q, copy, sizeof copy);
    nn_cuda_gather(q, list, KINDS, BATCH * widths[KINDS - 1]);
    for (int k = 0; k < KINDS; k++) {
        to_host(q, got, copy[k].to, BATCH * widths[k]);
        for (int i = 0; i < BATCH; i++)
            if (memcmp(got + i * widths[k], table[k] + row[i] * widths[k], widths[k]) != 0) {
                test_fail(__FILE__, __LINE__, "rows of %u bytes: sample %d differs", widths[k], i);
                break;
            }
        nn_cuda_release((void*)copy[k].from);
        nn_cuda_release(copy[k].to);
        free(table[k]);
    }
    free(got);
    nn_cuda_release(list);
    nn_cuda_release(rows);
    nn_cuda_queue_free(q);
}

// ---- terms --------------------------------------------------------------------------------------

typedef struct ranked {
    float error;
    int at;
} ranked;

// exec.c's order: larger first, equal ones by sample
static int by_rank(const void* a, const void* b) {
    const ranked *x = a, *y = b;
    if (x->error != y->error) return x->error < y->error ? 1 : -1;
    return x->at - y->at;
}

// kinds of errors: spread, many equal, all equal, with zeros of both signs, negative ones
static float error_at(int kind, int i, int n) {
    uint32_t word[4];
    rng_block(5, RNG_STREAM(RNG_TEST, kind), (uint64_t)i, word);
    float u = rng_unit(word[0]);
    switch (kind) {
        case 0: return u * u;
        case 1: return (float)(int)(u * 6);
        case 2: return 0.75f;
        case 3: return i % 3 == 0 ? 0.0f : i % 3 == 1 ? -0.0f : u < 0.1f ? u : 0.0f;
        default: return (u - 0.5f) * (float)n;
    }
}

static double want_topmean(const float* error, int n, float share, float weight, float* seed) {
    ranked* r = malloc((size_t)n * sizeof *r);
    for (int i = 0; i < n; i++) r[i] = (ranked){error[i], i};
    qsort(r, (size_t)n, sizeof *r, by_rank);
    int count = (int)ceil((double)share * n * (1 - 1e-6));
    if (count < 1) count = 1;
    memset(seed, 0, (size_t)n * sizeof *seed);
    double sum = 0;
    for (int i = 0; i < count; i++) {
        seed[r[i].at] = weight / (float)count;
        sum += (double)r[i].error;
    }
    free(r);
    return sum / count;
}

TEST(cuda, steps_topmean_selects_as_the_host_does) {
    static const int counts[] = {1, 2, 3, 31, 32, 33, 512, 1000, 1024, 1025, 4097, 65536};
    static const float shares[] = {0.1f, 0.25f, 0.5f, 1.0f, 1e-6f};
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    if (!q) return;
    enum { MOST = 65536 };
    float *error = malloc(MOST * sizeof *error), *seed = malloc(MOST * sizeof *seed),
          *want = malloc(MOST * sizeof *want);
    memset(seed, 0, MOST * sizeof *seed);
    memset(error, 0, MOST * sizeof *error);
    float *errors = to_device(q, error, MOST * sizeof *error),
          *seeds = to_device(q, seed, MOST * sizeof *seed);
    double value[2] = {0, 0};
    double* values = to_device(q, value, sizeof value);
    nn_cuda_term blank[2] = {{0}};
    nn_cuda_term* terms = to_device(q, blank, sizeof blank);
    firm_error err;
    for (int kind = 0; kind < 5; kind++)
        for (int c = 0; c < 12; c++)
            for (int s = 0; s < 5; s++) {
                if (test_short() && (kind % 2 || c % 5 || s % 3)) continue;  // 1, 33, 4097 errors
                int n = counts[c];
                for (int i = 0; i < n; i++) error[i] = error_at(kind, i, n);
                nn_cuda_term term[2] = {{.error = errors,
                                         .seed = seeds,
                                         .size = 1,
                                         .weight = 0.7f,
                                         .top = 1,
                                         .share = shares[s]},
                                        {.error = errors, .size = 1, .weight = 2}};
                EXPECT_INT(nn_cuda_upload(q, errors, error, (size_t)n * sizeof *error, &err), 0);
                EXPECT_INT(nn_cuda_upload(q, terms, term, sizeof term, &err), 0);
                nn_cuda_terms(q, terms, 2, n, values);
                to_host(q, seed, seeds, (size_t)n * sizeof *seed);
                to_host(q, value, values, sizeof value);
                double expected = want_topmean(error, n, shares[s], 0.7f, want), mean = 0, size = 0;
                for (int i = 0; i < n; i++) {
                    mean += (double)error[i] / n;
                    size += fabs((double)error[i]) / n;
                }
                EXPECT_NEAR(value[0], expected, 1e-12 * (fabs(expected) + size));
                EXPECT_NEAR(value[1], mean, 1e-12 * size);
                if (memcmp(seed, want, (size_t)n * sizeof *seed) != 0)
                    test_fail(__FILE__, __LINE__, "kind %d, %d errors, share %g: other samples",
                              kind, n, (double)shares[s]);
            }
    free(error);
    free(seed);
    free(want);
    nn_cuda_release(errors);
    nn_cuda_release(seeds);
    nn_cuda_release(values);
    nn_cuda_release(terms);
    nn_cuda_queue_free(q);
}

// ---- AdamW --------------------------------------------------------------------------------------

// one block of three parts' gradients, five steps; the same update written out in double
TEST(cuda, steps_adamw_is_the_formula) {
    enum { COUNT = 5008, PARTS = 3, STEPS = 5 };  // chunks of 1024, 1024, 1024, 1024, 912
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    if (!q) return;
    float *grad = malloc(PARTS * COUNT * sizeof *grad), *value = malloc(COUNT * sizeof *value),
          *zero = calloc(2 * COUNT, sizeof *zero), *got = malloc(2 * COUNT * sizeof *got);
    double *w = malloc(COUNT * sizeof *w), *m = calloc(COUNT, sizeof *m),
           *v = calloc(COUNT, sizeof *v), *partial = calloc(NN_CUDA_NORM_BLOCKS, sizeof *partial);
    rng_fill_normal(1, RNG_STREAM(RNG_TEST, 1), 0, value, COUNT);
    for (int i = 0; i < COUNT; i++) w[i] = value[i];
    nn_cuda_chunk chunk[(COUNT + NN_CUDA_CHUNK - 1) / NN_CUDA_CHUNK];
    int chunks = 0;
    for (int at = 0; at < COUNT; at += NN_CUDA_CHUNK, chunks++)
        chunk[chunks] = (nn_cuda_chunk){
            .grad_at = (uint32_t)at,
            .value_at = (uint32_t)at,
            .count = (uint32_t)(COUNT - at < NN_CUDA_CHUNK ? COUNT - at : NN_CUDA_CHUNK),
            .scale = chunks == 1 ? 2.0f : 1.0f,
            .decays = chunks != 2};
    nn_cuda_clock clock = {0};
    double norm = 0;
    rng_fill_normal(1, RNG_STREAM(RNG_TEST, 2), 0, grad, PARTS * COUNT);
    nn_cuda_adamw a = {.chunk = to_device(q, chunk, sizeof chunk),
                       .chunks = chunks,
                       .grad = to_device(q, grad, PARTS * COUNT * sizeof *grad),
                       .parts = PARTS,
                       .grad_count = COUNT,
                       .value = to_device(q, value, COUNT * sizeof *value),
                       .moment1 = to_device(q, zero, 2 * COUNT * sizeof *zero),
                       .partial = to_device(q, partial, NN_CUDA_NORM_BLOCKS * sizeof *partial),
                       .norm = to_device(q, &norm, sizeof norm),
                       .clock = to_device(q, &clock, sizeof clock),
                       .opt = nn_adamw_default()};
    a.moment2 = a.moment1 + COUNT;
    a.opt.rate = 1e-2f;
    a.opt.decay = 0.1f;
    a.opt.updates = 10;
    a.opt.clip = 20;  // the norm is about sqrt(3 * 5008) = 123: clipped
    int64_t row = 0;
    nn_cuda_draw draw = {.batch = 1, .slots = 1, .row = to_device(q, &row, sizeof row)};
    firm_error err;
    double worst = 0;
    for (int step = 0; step < STEPS; step++) {
        rng_fill_normal(1, RNG_STREAM(RNG_TEST, 2 + step), 0, grad, PARTS * COUNT);
        EXPECT_INT(nn_cuda_upload(q, a.grad, grad, PARTS * COUNT * sizeof *grad, &err), FIRM_OK);
        nn_cuda_begin(q, &draw, 1, &a.opt, a.clock);
        nn_cuda_adamw_step(q, &a);
        double square = 0, rate = nn_schedule_rate(&a.opt, step);
        for (int i = 0; i < COUNT; i++) {
            float g = grad[i];
            for (int p = 1; p < PARTS; p++) g += grad[p * COUNT + i];
            square += (double)g * g;
        }
        double shrink = sqrt(square) > 20 ? 20 / sqrt(square) : 1;
        for (int i = 0; i < COUNT; i++) {
            const nn_cuda_chunk* c = &chunk[i / NN_CUDA_CHUNK];
            float sum = grad[i];
            for (int p = 1; p < PARTS; p++) sum += grad[p * COUNT + i];
            double g = sum * shrink, r = rate * c->scale;
            m[i] = 0.9f * m[i] + (1 - 0.9f) * g;
            v[i] = 0.999f * v[i] + (1 - 0.999f) * g * g;
            double c1 = 1 / (1 - pow(0.9f, step + 1)), c2 = 1 / (1 - pow(0.999f, step + 1));
            w[i] =
                w[i] * (c->decays ? 1 - r * 0.1f : 1) - r * c1 * m[i] / (sqrt(v[i] * c2) + 1e-8f);
        }
        to_host(q, got, a.value, COUNT * sizeof *got);
        to_host(q, &norm, a.norm, sizeof norm);
        to_host(q, &clock, a.clock, sizeof clock);
        EXPECT_INT(clock.update, step + 1);
        EXPECT_NEAR(norm, sqrt(square), 1e-9 * norm);
        for (int i = 0; i < COUNT; i++) {
            worst = test_worse(worst, fabs(got[i] - w[i]));
            EXPECT_NEAR(got[i], w[i], 2e-6);
        }
    }
    printf("  largest difference after %d steps of 1e-2: %.2g\n", STEPS, worst);
    void* device[] = {(void*)a.chunk, a.grad, a.value, a.moment1,
                      a.partial,      a.norm, a.clock, draw.row};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++) nn_cuda_release(device[i]);
    void* host[] = {grad, value, zero, got, w, m, v, partial};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
    nn_cuda_queue_free(q);
}
