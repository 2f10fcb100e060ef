// update_test.c - updates on the GPU: the loss follows the host's update by update; the same seed
// gives the same bits; resumed equals uninterrupted; a sample that cannot be read stops it.
#include "check.h"
#include "gpu.h"
#include "world.h"

enum { UPDATES = 20, BATCH = 24 };

// Loss after each of 20 updates, as a share of it. Gradients agree to about 1e-5, but AdamW divides
// by their size: where a gradient is near zero, a step may have either sign, so weights differ by a
// little from the first update on, and with them the losses.
static const double FP32 = 2e-3;
static const double TF32 = 2e-2;  // gradients agree to about 1e-3

static nn_trainer* start(world* w, job* j, const nn_device* d) {
    firm_error err = {0};
    nn_trainer* t = NULL;
    nn_trainer_options opt = {
        .device = d, .store = w->model->store, .p = w->p, .lanes = 2, .adamw = nn_adamw_default()};
    opt.adamw.rate = 1e-3f;
    opt.adamw.warmup = 3;
    opt.adamw.updates = UPDATES;
    float* scale = malloc((size_t)w->model->store->entries * sizeof *scale);
    for (int i = 0; i < w->model->store->entries; i++)
        scale[i] = strncmp(w->model->store->entry[i].name, "tokenizer.", 10) == 0 ? 2.0f : 1.0f;
    opt.scale = scale;
    if (nn_trainer_create(&opt, j->work.part, j->work.parts, &t, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", j->name, err.message);
    free(scale);
    return t;
}

// updates from `first` to before `last`; losses and norms (nullable) are read after each
static int advance(nn_trainer* t, int first, int last, double* loss, double* norm) {
    firm_error err = {0};
    for (int u = first; u < last; u++) {
        firm_status st = nn_trainer_step(t, u, &err);
        if (st == FIRM_OK && loss) st = nn_trainer_read(t, &err);
        if (st != FIRM_OK) {
            test_fail(__FILE__, __LINE__, "update %d: %s", u, err.message);
            return 0;
        }
        if (loss) loss[u] = nn_trainer_loss(t);
        if (norm) norm[u] = nn_trainer_norm(t);
    }
    if (nn_trainer_pull(t, &err) == FIRM_OK) return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

// how far two sets of weights are from each other, as a share of the way one of them went
static double apart(const world* w, const float* a, const float* b) {
    double between = 0, way = 0;
    for (size_t i = 0; i < w->model->store->count; i++) {
        between += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        way += ((double)b[i] - w->start[i]) * ((double)b[i] - w->start[i]);
    }
    return way > 0 ? sqrt(between / way) : INFINITY;
}

// Every job of TwoRoom, those that see frames also with frames from a table.
typedef void (*with_job)(job* j, const nn_device* gpu, double bound);
static void each_job(nn_precision precision, with_job run, double bound) {
    nn_device gpu;
    world w;
    job j;
    if (!gpu_open(&gpu, precision)) return;
    for (int pool = 0; pool <= 24; pool += 24) {
        if (!world_open(&w, "tworoom", NARROW, pool)) continue;
        for (int i = 0; i < w.stages; i++) {
            if (pool && !stage_sees_frames(&w.stage[i])) continue;
            if (!job_open(&j, &w, i, BATCH)) continue;
            if (pool) strcat(j.name, ", table");
            EXPECT_INT(j.work.part[0].rows > 0, pool || !stage_sees_frames(&w.stage[i]));
            run(&j, &gpu, bound);
            job_close(&j);
        }
        world_close(&w);
    }
    nn_device_close(&gpu);
}

static void compare_losses(const job* j, double loss[2][UPDATES], double bound) {
    double worst = 0;
    for (int u = 0; u < UPDATES; u++) {
        double scale = fmax(fabs(loss[0][u]), 0.1);
        double share = u == 0 ? 0.1 : 1;  // the first has the same weights
        if (!(fabs(loss[1][u] - loss[0][u]) <= share * bound * scale * test_tolerance_scale()))
            test_fail(__FILE__, __LINE__, "%s, update %d: loss %.9g, the host's %.9g", j->name, u,
                      loss[1][u], loss[0][u]);
        worst = test_worse(worst, fabs(loss[1][u] - loss[0][u]) / scale);
    }
    printf("  %-26s loss %.6g -> %.6g, off by at most %.2g of it", j->name, loss[1][0],
           loss[1][UPDATES - 1], worst);
}

static void follow(job* j, const nn_device* gpu, double bound) {
    world* w = j->w;
    nn_device cpu = nn_device_cpu();
    double loss[2][UPDATES], norm[2][UPDATES];
    size_t bytes = w->model->store->count * sizeof(float);
    float* hosts = malloc(bytes);
    int ok = 1;
    for (int side = 0; side < 2 && ok; side++) {
        world_restart(w);
        nn_trainer* t = start(w, j, side ? gpu : &cpu);
        ok = t && advance(t, 0, UPDATES, loss[side], norm[side]);
        nn_trainer_free(t);
        if (side == 0) memcpy(hosts, w->model->store->value, bytes);
    }
    if (ok) {
        compare_losses(j, loss, bound);
        EXPECT_NEAR(norm[1][0], norm[0][0], bound * norm[0][0]);
        // both went the same way; unrelated ways would be 1.4 apart
        double share = apart(w, w->model->store->value, hosts);
        EXPECT(share < 0.5);
        printf("; weights apart by %.2g of their way\n", share);
    }
    free(hosts);
}

TEST(cuda, update_losses_follow_the_host) {
    each_job(NN_FP32, follow, FP32);
}
TEST(cuda, update_losses_in_tf32_stay_close) {
    each_job(NN_TF32, follow, TF32);
}

// weights, then moments
static float* state_of(world* w, nn_trainer* t, size_t* bytes) {
    size_t moments, weights = w->model->store->count;
    const float* m = nn_trainer_moments(t, &moments);
    *bytes = (weights + moments) * sizeof(float);
    float* out = malloc(*bytes);
    memcpy(out, w->model->store->value, weights * sizeof(float));
    memcpy(out + weights, m, moments * sizeof(float));
    return out;
}

static size_t differing(const float* a, const float* b, size_t bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes / sizeof *a; i++) n += memcmp(a + i, b + i, sizeof *a) != 0;
    return n;
}

// runs 0 .. stop, throws the trainer away, goes on from what a checkpoint holds; whole run: stop 0
static float* run(world* w, job* j, const nn_device* d, int stop, int reads, size_t* bytes) {
    firm_error err = {0};
    double loss[UPDATES];
    size_t kept = 0, weights = w->model->store->count;
    float* keep = NULL;
    world_restart(w);
    nn_trainer* t = start(w, j, d);
    if (!t) return NULL;
    if (stop) {
        if (!advance(t, 0, stop, NULL, NULL)) return NULL;
        keep = state_of(w, t, &kept);
        nn_trainer_free(t);
        world_restart(w);
        memcpy(w->model->store->value, keep, weights * sizeof(float));
        t = start(w, j, d);
        size_t moments;
        memcpy(nn_trainer_moments(t, &moments), keep + weights, kept - weights * sizeof(float));
        EXPECT_INT(nn_trainer_resume(t, stop, &err), FIRM_OK);
        free(keep);
    }
    float* out =
        advance(t, stop, UPDATES, reads ? loss : NULL, NULL) ? state_of(w, t, bytes) : NULL;
    nn_trainer_free(t);
    return out;
}

// also: whether losses are read after every update or never makes no difference
static void repeat(job* j, const nn_device* gpu, double bound) {
    (void)bound;
    world* w = j->w;
    size_t bytes[4] = {0};
    float* state[4] = {run(w, j, gpu, 0, 1, &bytes[0]), run(w, j, gpu, 0, 0, &bytes[1]),
                       run(w, j, gpu, 1, 0, &bytes[2]), run(w, j, gpu, 13, 0, &bytes[3])};
    static const char* const how[] = {"", "again", "resumed at 1", "resumed at 13"};
    for (int i = 1; i < 4 && state[0]; i++) {
        EXPECT_INT(bytes[i], bytes[0]);
        size_t n = state[i] ? differing(state[0], state[i], bytes[0]) : 1;
        if (n) test_fail(__FILE__, __LINE__, "%s, %s: %zu numbers differ", j->name, how[i], n);
    }
    EXPECT(state[0] && memcmp(state[0], w->start, w->model->store->count * sizeof(float)));
    for (int i = 0; i < 4; i++) free(state[i]);
}

TEST(cuda, update_same_seed_same_bits_and_resumed_equals_uninterrupted) {
    each_job(NN_TF32, repeat, 0);
}

static int last_update(void) {
    return test_short() ? 3 : 5;
}

static firm_status fail_at_last(void* ctx, const nn_feed* feed) {
    return feed->update == last_update() ? FIRM_E_IO : pair_fill(ctx, feed);
}

// the batch is asked for ahead of time, so an earlier update may be the one that reports it
TEST(cuda, update_stops_at_a_sample_that_cannot_be_read) {
    nn_device gpu;
    world w;
    job j;
    if (!gpu_open(&gpu, NN_FP32)) return;
    if (world_open(&w, "tworoom", NARROW, 0)) {
        if (job_open(&j, &w, 0, test_short() ? 1 : 4)) {
            j.work.part[0].fill = fail_at_last;
            nn_trainer* t = start(&w, &j, &gpu);
            firm_error err = {0};
            firm_status st = FIRM_OK;
            int u = 0;
            for (; t && u <= last_update() && st == FIRM_OK; u++) st = nn_trainer_step(t, u, &err);
            EXPECT_INT(st, FIRM_E_IO);
            EXPECT(u >= last_update() - 2);
            EXPECT(strstr(err.message, "cannot be read"));
            nn_trainer_free(t);
            job_close(&j);
        }
        world_close(&w);
    }
    nn_device_close(&gpu);
}
