// toys.c - the planner tests' small models, and a malloc that counts.
#define _GNU_SOURCE
#include "toys.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/mem.h"
#include "core/rng.h"

#define SPATIAL_REAL double
#define SPATIAL_SQRT sqrt
#define SPATIAL_FN static inline
#include "nn/spatial.h"

// ---- random nets --------------------------------------------------------------------------------

static const float* draw(float** at, uint64_t seed, int n, float offset, float scale) {
    float* p = *at;
    *at += n;
    rng r = rng_start(seed, RNG_STREAM(RNG_TEST, (uint64_t)(uintptr_t)n + (uint64_t)(offset * 8)));
    for (int i = 0; i < n; i++) p[i] = offset + scale * rng_gauss(&r);
    return p;
}

static plan_net_block draw_block(float** at, uint64_t k, int hidden, int inner) {
    float hid = 1.0f / sqrtf((float)hidden), inn = 1.0f / sqrtf((float)inner);
    return (plan_net_block){.ln_scale = draw(at, k, hidden, 1, 0.2f),
                            .ln_shift = draw(at, k + 1, hidden, 0, 0.2f),
                            .w1 = draw(at, k + 2, hidden * inner, 0, hid),
                            .b1 = draw(at, k + 3, inner, 0, 0.1f),
                            .w2 = draw(at, k + 4, hidden * inner, 0, inn),
                            .b2 = draw(at, k + 5, hidden, 0, 0.1f)};
}

// Something to push for nets with a spatial residual: two boxes, one of them aside.
static nn_push toy_push(const plan_net_shape* s) {
    return (nn_push){.boxes = 2,
                     .angle = 0,
                     .agent = {s->config - 2, 2},
                     .block = {3, s->config - 1},
                     .scale = 200,
                     .motion = {30, 0.03f, 370, -0.01f},
                     .radius = 15,
                     .centre = {-4, 40},
                     .soft = 6,
                     .deep = 15,
                     .unit = 32,
                     .arm = 60,
                     .far = 90,
                     .box = {{5, 15, 60, 15}, {0, 60, 15, 60}},
                     .config = s->config,
                     .action = 2,
                     .controls = s->action / 2};
}

toy_net toy_net_make(plan_net_shape s, uint64_t seed) {
    const nn_push push = toy_push(&s);
    const int features = nn_push_features(&push);
    toy_net t = {.shape = s};
    int x = s.config + s.fiber + s.action;
    size_t floats = (size_t)(x + 1) * (size_t)s.hidden +
                    (size_t)(s.hidden + 1) * (size_t)(s.config + s.fiber) + 2 * (size_t)s.hidden;
    floats += (size_t)s.blocks * (2 * (size_t)s.hidden + 2 * (size_t)s.hidden * (size_t)s.inner +
                                  (size_t)s.hidden + (size_t)s.inner);
    floats += (size_t)s.spatial * (2 * (size_t)s.hidden + (size_t)features + 1) +
              3 * (size_t)s.hidden + 2 * (size_t)s.fiber + 2;
    float* at = t.memory = calloc(floats + 1, sizeof(float));
    float in = 1.0f / sqrtf((float)x), hid = 1.0f / sqrtf((float)s.hidden);
    t.weights.w_in = draw(&at, seed, x * s.hidden, 0, in);
    t.weights.b_in = draw(&at, seed + 1, s.hidden, 0, 0.1f);
    for (int i = 0; i < s.blocks; i++)
        t.weights.block[i] = draw_block(&at, seed + 10 + 10 * (uint64_t)i, s.hidden, s.inner);
    if (s.spatial)
        t.weights.spatial =
            (plan_net_spatial){.block = draw_block(&at, seed + 90, s.hidden, s.spatial),
                               .push = push,
                               .w_s = draw(&at, seed + 97, features * s.spatial, 0, 0.1f),
                               .w_v = draw(&at, seed + 98, 2 * s.fiber, 0, 0.1f),
                               .b_v = draw(&at, seed + 99, 2, 0, 0.1f),
                               .mean = {0.02f, -0.01f},
                               .std = {0.2f, 0.25f}};
    t.weights.ln_scale = draw(&at, seed + 2, s.hidden, 1, 0.2f);
    t.weights.ln_shift = draw(&at, seed + 3, s.hidden, 0, 0.2f);
    t.weights.w_c = draw(&at, seed + 4, s.hidden * s.config, 0, 0.5f * hid);
    t.weights.b_c = draw(&at, seed + 5, s.config, 0, 0.1f);
    t.weights.w_m = draw(&at, seed + 6, s.hidden * s.fiber, 0, 0.5f * hid);
    t.weights.b_m = draw(&at, seed + 7, s.fiber, 0, 0.1f);
    return t;
}

void toy_net_free(toy_net* t) {
    free(t->memory);
}

static void affine(const double* x, int in, const float* w, const float* b, int out, double* y) {
    for (int o = 0; o < out; o++) {
        y[o] = b[o];
        for (int i = 0; i < in; i++) y[o] += x[i] * w[(size_t)i * (size_t)out + (size_t)o];
    }
}

static void layer_norm(const double* x, int n, const float* scale, const float* shift, double* y) {
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++) y[i] = (x[i] - mean) / sqrt(var + 1e-5) * scale[i] + shift[i];
}

// h += GELU(LN(h) w1 + more + b1) w2 + b2; a and g are scratch of hidden and inner numbers
static void residual(const plan_net_block* q, int hidden, int inner, const double* more, double* h,
                     double* a, double* g) {
    layer_norm(h, hidden, q->ln_scale, q->ln_shift, a);
    affine(a, hidden, q->w1, q->b1, inner, g);
    for (int i = 0; i < inner; i++) {
        double z = g[i] + (more ? more[i] : 0);
        g[i] = 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * z * z * z)));
    }
    affine(g, inner, q->w2, q->b2, hidden, a);
    for (int i = 0; i < hidden; i++) h[i] += a[i];
}

// x = [c, m, u]
static void spatial_residual(const toy_net* t, const double* x, double* h, double* a, double* g) {
    const plan_net_shape* s = &t->shape;
    const plan_net_spatial* q = &t->weights.spatial;
    double v[2], c[SPATIAL_CONFIG], u[SPATIAL_ACTION], f[NN_PUSH_FEATURES];
    double* more = calloc((size_t)s->spatial, sizeof *more);
    float* zero = calloc((size_t)s->spatial, sizeof *zero);
    affine(x + s->config, s->fiber, q->w_v, q->b_v, 2, v);
    spatial_gather(&q->push, x, x + s->config + s->fiber, c, u);
    spatial_features(&q->push, c, v, u, q->mean, q->std, f);
    affine(f, nn_push_features(&q->push), q->w_s, zero, s->spatial, more);
    residual(&q->block, s->hidden, s->spatial, more, h, a, g);
    free(zero);
    free(more);
}

void toy_net_rollout(const toy_net* t, int n, int horizon, const float* c0, const float* m0,
                     const float* u, double* c_out) {
    const plan_net_shape* s = &t->shape;
    const plan_net_weights* w = &t->weights;
    int state = s->config + s->fiber;
    int inner = s->spatial > s->inner ? s->spatial : s->inner;
    double* x = calloc((size_t)(2 * (state + s->action) + 3 * s->hidden + inner), sizeof(double));
    double *h = x + state + s->action, *a = h + s->hidden, *g = a + s->hidden, *d = g + inner;
    for (int row = 0; row < n; row++) {
        for (int i = 0; i < state; i++) x[i] = i < s->config ? c0[i] : m0[i - s->config];
        for (int k = 0; k < horizon; k++) {
            for (int i = 0; i < s->action; i++)
                x[state + i] = u[(row * horizon + k) * s->action + i];
            affine(x, state + s->action, w->w_in, w->b_in, s->hidden, h);
            if (s->spatial) spatial_residual(t, x, h, a, g);
            for (int b = 0; b < s->blocks; b++)
                residual(&w->block[b], s->hidden, s->inner, NULL, h, a, g);
            layer_norm(h, s->hidden, w->ln_scale, w->ln_shift, a);
            affine(a, s->hidden, w->w_c, w->b_c, s->config, d);
            for (int i = 0; i < s->config; i++) x[i] += d[i];
            affine(a, s->hidden, w->w_m, w->b_m, s->fiber, d);
            for (int i = 0; i < s->fiber; i++) x[s->config + i] += d[i];
            for (int p = 0; p < s->pairs; p++) {
                double length = sqrt(x[2 * p] * x[2 * p] + x[2 * p + 1] * x[2 * p + 1]);
                x[2 * p] /= length;
                x[2 * p + 1] /= length;
            }
            for (int i = 0; i < s->config; i++) c_out[(row * horizon + k) * s->config + i] = x[i];
        }
    }
    free(x);
}

// ---- a task that echoes the plan ----------------------------------------------------------------

const task_typed echo_task = {.name = "echo",
                              .action_dim = ECHO_ACTION,
                              .config_dim = ECHO_CONFIG,
                              .distances = 1,
                              .distance = {{"all", "1", 0.5f, {.count = ECHO_CONFIG, .scale = 1}}},
                              .cost = TASK_COST_SUM};

static int echo_rollout(void* context, int worker, int n, int horizon, const float* u,
                        float* c_out) {
    (void)worker;
    echo* e = context;
    int stride = horizon * ECHO_ACTION, nonfinite = 0;
    if (e->sleep_ms) nanosleep(&(struct timespec){.tv_nsec = e->sleep_ms * 1000000L}, NULL);
    for (int i = 0; i < n; i++, e->rows++) {
        if (e->seen && e->seen_rows < e->seen_room)
            memcpy(e->seen + (size_t)e->seen_rows++ * (size_t)stride, u + i * stride,
                   (size_t)stride * sizeof(float));
        int bad = e->bad_every && e->rows % e->bad_every == e->bad_every - 1;
        nonfinite += bad;
        for (int k = 0; k < horizon; k++)
            for (int j = 0; j < ECHO_CONFIG; j++)
                c_out[(i * horizon + k) * ECHO_CONFIG + j] = bad ? NAN
                                                             : j < (k + 1) * ECHO_ACTION
                                                                 ? u[i * stride + j]
                                                                 : 0.0f;
    }
    return nonfinite;
}

plan_setup echo_setup(echo* e, firm_mode mode) {
    static plan_typed typed = {.task = &echo_task};
    plan_setup s = {.seed = 5};
    s.options = (plan_options){.mode = mode,
                               .candidates = 300,
                               .iterations = 30,
                               .elites = 30,
                               .horizon = ECHO_HORIZON,
                               .replan = mode == FIRM_MODE_REACH ? 1 : ECHO_HORIZON,
                               .spread = 1.0f,
                               .horizon_max = ECHO_HORIZON,
                               .knots = 2,
                               .box = 1.0f,
                               .wide_share = 0.25f,
                               .wide_spread = 2.0f,
                               .floor = 0.02f,
                               .keep = 5,
                               .price = 0.1f,
                               .running = 0.05f,
                               .arrive = 0.7f,
                               .patience = 3};
    s.actions = (plan_actions){.dim = ECHO_ACTION, .controls = 1, .deviation = {1.0f, 1.0f}};
    s.world.model = (plan_model){.context = e,
                                 .state = ECHO_CONFIG,
                                 .action = ECHO_ACTION,
                                 .lanes = 1,
                                 .workers = 1,
                                 .rollout = echo_rollout};
    s.world.price = plan_typed_price(&typed);
    return s;
}

// ---- counting malloc ----------------------------------------------------------------------------

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static atomic_llong mallocs;
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_malloc(n);
}
void* calloc(size_t n, size_t size) {
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_calloc(n, size);
}
void* realloc(void* p, size_t n) {
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_realloc(p, n);
}
void* aligned_alloc(size_t align, size_t n) {
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_memalign(align, n);
}
int64_t test_malloc_count(void) {
    return atomic_load(&mallocs);
}
#else
int64_t test_malloc_count(void) {
    return -1;
}
#endif
