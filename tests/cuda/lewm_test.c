// lewm_test.c - LeWM's training on the GPU against the host: gradients of every parameter, updates
// from a table of overlapping clips, the same bits twice and after a resume; in float32, and in
// bfloat16 with the blocks of the encoder as one step each. Then how long an update takes.
#include <cuda_runtime_api.h>

#include "check.h"
#include "core/clock.h"
#include "gpu.h"
#include "measure/gradients.h"
#include "model/lewm_formula.h"
#include "nn/cuda/flash.h"
#include "nn/cuda/vit.h"
#include "nn/trainer.h"

// ---- a small world ------------------------------------------------------------------------------

enum { STORED = 40, CLIP = 16, CLIPS = STORED - CLIP + 1 };

typedef struct scene {
    lewm_model* model;
    nn_graph* graph;
    lewm_objective at;
    uint8_t* frames;  // (STORED, image, image, 3)
    float* actions;   // (STORED, 2)
    int64_t start[CLIPS];
    nn_window window[2];
    nn_windows windows;
    pool* p;
} scene;

static firm_status fill(void* ctx, const nn_feed* f) {
    const scene* s = ctx;
    size_t bytes = (size_t)s->model->shape.image * (size_t)s->model->shape.image * 3;
    for (int i = 0; i < f->count; i++) {
        size_t row = (size_t)nn_feed_row(f, i) % STORED;
        if (nn_feed_wants(f, s->at.frames))
            memcpy(nn_feed_bytes(f, s->at.frames) + (size_t)i * bytes, s->frames + row * bytes,
                   bytes);
        if (nn_feed_wants(f, s->at.actions))
            memcpy(nn_feed_real(f, s->at.actions) + (size_t)i * 2, s->actions + row * 2,
                   2 * sizeof(float));
    }
    return FIRM_OK;
}

static void scene_open(scene* s, const lewm_shape* shape) {
    firm_error err = {0};
    memset(s, 0, sizeof *s);
    s->model = lewm_formula(shape);
    size_t bytes = (size_t)shape->image * (size_t)shape->image * 3;
    s->frames = malloc(STORED * bytes);
    s->actions = malloc(STORED * 2 * sizeof(float));
    if (!s->frames || !s->actions || pool_create(4, &s->p, &err) != FIRM_OK ||
        nn_graph_create(s->model->store, &s->graph, &err) != FIRM_OK)
        abort();
    lewm_formula_frames(STORED, shape->image, s->frames);
    lewm_formula_actions(STORED * 2, s->actions);
    nn_train(s->graph, "");
    nn_random(s->graph, 17);
    s->at = lewm_train(s->graph, s->model, 0.09f, 64);
    for (int i = 0; i < CLIPS; i++) s->start[i] = i;
    s->window[0] = (nn_window){s->at.frames, 4, 5};
    s->window[1] = (nn_window){s->at.actions, 20, 1};
    s->windows = (nn_windows){s->window, 2, STORED, s->start};
}

static void scene_close(scene* s) {
    nn_graph_free(s->graph);
    lewm_free(s->model);
    pool_free(s->p);
    free(s->frames);
    free(s->actions);
}

static nn_trainer* trainer_of(scene* s, const nn_device* d, int batch, int updates) {
    firm_error err = {0};
    nn_trainer* t = NULL;
    nn_part part = {.label = "",
                    .graph = s->graph,
                    .batch = batch,
                    .shard = 4,
                    .weight = 1,
                    .fill = fill,
                    .ctx = s,
                    .rows = CLIPS,
                    .pick = {3, 5},
                    .windows = &s->windows};
    nn_trainer_options opt = {
        .device = d, .store = s->model->store, .p = s->p, .lanes = 4, .adamw = nn_adamw_default()};
    opt.adamw.rate = 1e-4f;
    opt.adamw.decay = 1e-3f;
    opt.adamw.decay_all = 1;
    opt.adamw.updates = updates;
    if (nn_trainer_create(&opt, &part, 1, &t, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return t;
}

// ---- gradients ----------------------------------------------------------------------------------

// whole clips for an exec: sample i is clip i
static firm_status fill_clips(void* ctx, const nn_feed* f) {
    const scene* s = ctx;
    size_t bytes = (size_t)s->model->shape.image * (size_t)s->model->shape.image * 3;
    for (int i = 0; i < f->count; i++) {
        size_t row = (size_t)(f->first + i) % CLIPS;
        for (size_t k = 0; k < 4; k++)
            memcpy(nn_feed_bytes(f, s->at.frames) + ((size_t)i * 4 + k) * bytes,
                   s->frames + (row + 5 * k) * bytes, bytes);
        memcpy(nn_feed_real(f, s->at.actions) + (size_t)i * 40, s->actions + row * 2,
               40 * sizeof(float));
    }
    return FIRM_OK;
}

// Gradients that are 0 but for rounding: biases whose output a softmax or a batch norm shifts back.
static int vanishes(const char* name) {
    return strcmp(name, "projector.up.bias") == 0 || strcmp(name, "head.up.bias") == 0 ||
           strcmp(name, "encoder.norm.bias") == 0 || strcmp(name, "predictor.norm.bias") == 0;
}

// How far gradients of the device's exec are from the host's. In float32 (no measure) all may be
// off by `allowed`; in bfloat16 by what the measure of rounding allows. There no parameter of few
// tokens may be off by more than `allowed`, and of many none of the encoder's matrices.
typedef struct distance {
    double worst, most;  // of a norm, of what it may be
    const char* where;
} distance;

static distance distance_of(const scene* s, nn_exec* host, nn_exec* device, const double* measure,
                            int few, double allowed) {
    half_piece* piece;
    int count = half_pieces(s->model->store, host, &piece);
    distance d = {.where = ""};
    for (int i = 0; i < count; i++) {
        const half_piece* p = &piece[i];
        if (vanishes(p->name)) continue;
        double error = half_off(p, nn_exec_grad(device), nn_exec_grad(host)),
               bound = allowed * test_tolerance_scale();
        const int capped = few ? p->token < 0 : p->matrix && strncmp(p->name, "encoder.", 8) == 0;
        if (measure && capped)
            bound = fmin(bound, half_allowed(measure[i]));
        else if (measure)
            bound = half_allowed(measure[i]);
        if (!(error <= d.worst)) d.worst = error, d.where = p->name;
        d.most = test_worse(d.most, error / bound);
        if (!(error <= bound))
            test_fail(__FILE__, __LINE__,
                      "gradient of %s (token %d) is off by %.3g of its norm, allowed %.3g", p->name,
                      p->token, error, bound);
    }
    free(piece);
    return d;
}

// With few clips rounding alone moves gradients of 257 tokens by some 0.07, with many by less than
// 0.05; the encoder's matrices are held to `allowed` where there are at least 5.
enum { SOME = 5, MANY = 24 };

// allowed: of the gradients as distance_of() has it, and of the losses
static void compare_gradients(const lewm_shape* shape, nn_precision precision, int batch,
                              double allowed) {
    scene s;
    nn_device d;
    firm_error err = {0};
    if (!gpu_open(&d, precision)) return;
    scene_open(&s, shape);
    nn_output(s.graph, s.at.latents);
    nn_output(s.graph, s.at.predictions);
    nn_exec* host;
    nn_exec_options opt = {.batch = batch, .shard = 1, .lanes = 2, .train = 1};
    REQUIRE_OK(nn_exec_create(s.graph, nn_backend_cpu(), &opt, s.p, &host, &err), err);
    opt.queue = d.queue;
    nn_exec_set_update(host, 7);
    EXPECT_INT(nn_exec_gradient(host, fill_clips, &s), FIRM_OK);
    half_piece* piece;
    double* measure = NULL;
    if (precision == NN_MIXED) {
        measure = calloc((size_t)half_pieces(s.model->store, host, &piece), sizeof *measure);
        free(piece);
        half_measure(&(half_case){s.graph, batch, 7, fill_clips, &s, s.p}, host, measure);
    }
    for (int way = 0; way < (measure ? 2 : 1); way++) {
        nn_exec* device;
        nn_cuda_set_ways(d.queue, way ? NN_CUDA_WAY_GELU_APART : 0);
        REQUIRE_OK(nn_exec_create(s.graph, d.backend, &opt, s.p, &device, &err), err);
        nn_exec_set_update(device, 7);
        EXPECT_INT(nn_exec_gradient(device, fill_clips, &s), FIRM_OK);
        const distance off = distance_of(&s, host, device, measure, shape->image < 224,
                                         measure && batch < SOME ? INFINITY : allowed);
        for (int i = 0; i < 2; i++)
            EXPECT_NEAR(nn_exec_term(device, i), nn_exec_term(host, i),
                        allowed * (1 + fabs(nn_exec_term(host, i))));
        printf(
            "  width %d, %d tokens, %d clips, %s%s: gradients off by up to %.2g (%s), %.2f of what "
            "is allowed, losses %.6f %.6f and %.6f %.6f\n",
            shape->width, shape->image / shape->patch * (shape->image / shape->patch) + 1, batch,
            measure ? "bf16" : "fp32", way ? ", GELU apart" : "", off.worst, off.where, off.most,
            nn_exec_term(device, 0), nn_exec_term(device, 1), nn_exec_term(host, 0),
            nn_exec_term(host, 1));
        nn_exec_free(device);
    }
    free(measure);
    nn_exec_free(host);
    nn_device_close(&d);
    scene_close(&s);
}

// ---- steps alone --------------------------------------------------------------------------------

static firm_status fill_noise(void* ctx, const nn_feed* f) {
    (void)ctx;
    for (int id = 0; id < f->graph->tensors; id++) {
        const nn_tensor* t = &f->graph->tensor[id];
        if (t->kind != NN_INPUT && t->kind != NN_BYTES) continue;
        for (int64_t i = 0; i < (int64_t)f->count * t->size; i++) {
            float x = lewm_noise(t->name, (size_t)f->first * (size_t)t->size + (size_t)i);
            if (t->kind == NN_BYTES)
                nn_feed_bytes(f, id)[i] = (uint8_t)(127.5f + 127.5f * x);
            else
                nn_feed_real(f, id)[i] = 2 * x;
        }
    }
    return FIRM_OK;
}

// Some nodes that run as one step in bfloat16.
typedef struct step_case {
    char name[96];
    int tokens, heads, groups, first;
    nn_id (*build)(nn_graph* g, const lewm_shape* shape, const struct step_case* c);
} step_case;

// Two blocks in a row, so that the second one's input gradient is seen. first: of the second
// block's tokens the first alone is read.
static nn_id build_blocks(nn_graph* g, const lewm_shape* shape, const step_case* c) {
    int size = c->tokens * shape->width;
    nn_id x = nn_input(g, "x", 3, (int[]){c->groups, c->tokens, shape->width});
    x = nn_addp(g, x, nn_param(g, "encoder.shift", NN_INIT_ZERO, 0, 1, &size));
    x = lewm_block(g, shape, 0, x);
    x = lewm_block(g, shape, 1, x);
    return c->first ? nn_slice(g, x, 1, 0, 1) : x;
}

static nn_id build_embedding(nn_graph* g, const lewm_shape* shape, const step_case* c) {
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    nn_id x =
        nn_patches(g, nn_frames(g, "frames", c->groups, shape->image), shape->patch, mean, std);
    x = nn_linear(g, "encoder.patches", x, shape->width, 1);
    x = nn_prepend(g, x, nn_param(g, "encoder.class", NN_INIT_NORMAL, 0.02f, 1, &shape->width));
    return nn_addp(g, x,
                   nn_param(g, "encoder.positions", NN_INIT_NORMAL, 0.02f, 2,
                            (int[]){c->tokens, shape->width}));
}

typedef struct step_result {
    float* grad;
    size_t count;
    double loss;
} step_result;

// the largest error of a parameter's gradient over its norm
static double compare_entries(const step_case* c, const nn_exec* e, const nn_store* store,
                              const step_result* want, const step_result* got) {
    const nn_trained* list;
    int entries = nn_exec_trained(e, &list);
    double worst = 0;
    for (int i = 0; i < entries; i++) {
        const char* name = store->entry[list[i].entry].name;
        double miss = 0, size = 0;
        for (size_t j = 0; j < list[i].count; j++) {
            // a bias of keys has no gradient
            if (strstr(name, "qkv.bias") && j / (list[i].count / 3) == 1) continue;
            double a = got->grad[list[i].offset + j], b = want->grad[list[i].offset + j];
            miss += (a - b) * (a - b);
            size += b * b;
        }
        double error = sqrt(miss / (size + 1e-30));
        worst = test_worse(worst, error);
        if (!(error <= 0.02 * test_tolerance_scale()))
            test_fail(__FILE__, __LINE__, "%s: gradient of %s is off by %.3g", c->name, name,
                      error);
    }
    return worst;
}

// Weights that give every op work to do; op by op in float32, in bfloat16, and there with GELU
// apart from the products.
static void compare_step(const step_case* c, const lewm_shape* shape) {
    enum { RUNS = 3 };
    firm_error err = {0};
    step_result result[RUNS] = {{0}};
    for (int run = 0; run < RUNS; run++) {
        nn_device d;
        if (!gpu_open(&d, run ? NN_MIXED : NN_FP32)) return;
        if (run == 2) nn_cuda_set_ways(d.queue, NN_CUDA_WAY_GELU_APART);
        nn_store* store;
        nn_graph* g;
        REQUIRE_OK(nn_store_create(&store, &err), err);
        REQUIRE_OK(nn_graph_create(store, &g, &err), err);
        nn_train(g, "");
        nn_id x = c->build(g, shape, c);
        nn_id r = nn_input(g, "r", 3, (int[]){c->groups, nn_dims(g, x)[1], shape->width});
        nn_loss(g, "loss", nn_mul(g, x, r), 1);
        REQUIRE_OK(nn_store_seal(store, 4, &err), err);
        for (size_t i = 0; i < store->count; i++) store->value[i] *= 4;  // 0.02 is hardly there
        for (int i = 0; i < store->entries; i++)
            if (strstr(store->entry[i].name, "norm"))
                for (size_t j = 0; j < store->entry[i].count; j++)
                    store->value[store->entry[i].offset + j] =
                        (strstr(store->entry[i].name, "weight") ? 1 : 0) +
                        0.3f * lewm_noise(store->entry[i].name, j);
        nn_exec* e;
        nn_exec_options opt = {.batch = 3, .shard = 3, .lanes = 1, .train = 1, .queue = d.queue};
        REQUIRE_OK(nn_exec_create(g, d.backend, &opt, NULL, &e, &err), err);
        EXPECT_INT(nn_exec_gradient(e, fill_noise, NULL), FIRM_OK);
        step_result* now = &result[run];
        *now = (step_result){.count = nn_exec_grad_count(e), .loss = nn_exec_loss(e)};
        now->grad = malloc(now->count * sizeof(float));
        memcpy(now->grad, nn_exec_grad(e), now->count * sizeof(float));
        if (run)
            printf("  %s%s: gradients off by up to %.2g\n", c->name, run == 2 ? ", GELU apart" : "",
                   compare_entries(c, e, store, &result[0], now));
        nn_exec_free(e);
        nn_graph_free(g);
        nn_store_free(store);
        nn_device_close(&d);
    }
    for (int run = 0; run < RUNS; run++) {
        EXPECT_NEAR(result[run].loss, result[0].loss, 0.02 * fabs(result[0].loss) + 1e-3);
        free(result[run].grad);
    }
}

static void compare_block(int tokens, int heads, int groups, int first) {
    lewm_shape shape = lewm_small();
    shape.width = 64 * heads, shape.heads = heads, shape.mlp = 256 * heads;
    step_case c = {
        .tokens = tokens, .heads = heads, .groups = groups, .first = first, .build = build_blocks};
    snprintf(c.name, sizeof c.name, "blocks of %d tokens, %d heads%s", tokens, heads,
             first ? ", the first read" : "");
    compare_step(&c, &shape);
}

static void compare_embedding(int image, int patch, int width, int groups) {
    lewm_shape shape = lewm_small();
    shape.image = image, shape.patch = patch, shape.width = width;
    int side = image / patch;
    step_case c = {.tokens = side * side + 1, .groups = groups, .build = build_embedding};
    snprintf(c.name, sizeof c.name, "%d pictures of %d x %d as tokens of %d", groups, image, image,
             width);
    compare_step(&c, &shape);
}

TEST(cuda, lewm_embedding_equals_its_ops) {
    compare_embedding(56, 14, 64, 1);
    compare_embedding(16, 4, 24, 3);
    compare_embedding(224, 14, 192, 11);
}

TEST(cuda, lewm_block_equals_its_ops) {
    static const int tokens[] = {1, 5, 16, 17, 33, 100, 255, 256, 257};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        compare_block(tokens[i], 1 + (int)i % 3, 2, 0);
    compare_block(257, 3, 3, 0);
    for (int heads = 1; heads <= 3; heads++) compare_block(heads == 1 ? 17 : 257, heads, 3, 1);
}

static lewm_shape wide(int heads, int image) {
    lewm_shape s = lewm_small();
    s.image = image;
    s.width = 64 * heads;
    s.heads = heads;
    s.mlp = 128 * heads;
    s.projector = 96;
    s.dropout = 0.1f;
    return s;
}

TEST(cuda, lewm_gradients_equal_the_host) {
    lewm_shape small = lewm_small(), full = wide(3, 224);
    small.dropout = 0.1f;
    full.depth = 2;
    compare_gradients(&small, NN_FP32, 6, 2e-3);
    for (int heads = 1; heads <= 3; heads++) {
        lewm_shape s = wide(heads, 56);
        compare_gradients(&s, NN_FP32, SOME, 2e-3);
        compare_gradients(&s, NN_MIXED, SOME, 8e-2);
    }
    compare_gradients(&full, NN_FP32, 2, 2e-3);
    compare_gradients(&full, NN_MIXED, test_short() ? 2 : MANY, 8e-2);
}

// ---- updates ------------------------------------------------------------------------------------

TEST(cuda, lewm_updates_follow_the_host) {
    enum { UPDATES = 12, BATCH = 8, RUNS = 4 };
    double loss[RUNS][UPDATES];
    float* weights[2] = {NULL, NULL};
    lewm_shape shape = wide(2, 28);
    for (int run = 0; run < RUNS; run++) {
        scene s;
        nn_device d = nn_device_cpu();
        firm_error err = {0};
        if (run && !gpu_open(&d, NN_MIXED)) return;
        if (run == 3) nn_cuda_set_ways(d.queue, NN_CUDA_WAY_GELU_APART);
        scene_open(&s, &shape);
        nn_trainer* t = trainer_of(&s, &d, BATCH, UPDATES);
        for (int u = 0; t && u < UPDATES; u++) {
            // the second run on the GPU stops half-way and resumes from what a checkpoint holds
            if (run == 2 && u == UPDATES / 2) {
                REQUIRE_OK(nn_trainer_pull(t, &err), err);
                size_t count;
                float* moments = nn_trainer_moments(t, &count);
                float* kept = malloc(count * sizeof *kept);
                memcpy(kept, moments, count * sizeof *kept);
                nn_trainer_free(t);
                t = trainer_of(&s, &d, BATCH, UPDATES);
                memcpy(nn_trainer_moments(t, &count), kept, count * sizeof *kept);
                free(kept);
                REQUIRE_OK(nn_trainer_resume(t, u, &err), err);
            }
            REQUIRE_OK(nn_trainer_step(t, u, &err), err);
            REQUIRE_OK(nn_trainer_read(t, &err), err);
            loss[run][u] = nn_trainer_loss(t);
        }
        REQUIRE_OK(nn_trainer_pull(t, &err), err);
        if (run == 1 || run == 2) {
            weights[run - 1] = malloc(s.model->store->count * sizeof(float));
            memcpy(weights[run - 1], s.model->store->value, s.model->store->count * sizeof(float));
        }
        if (run == 2)
            EXPECT(memcmp(weights[0], weights[1], s.model->store->count * sizeof(float)) == 0);
        nn_trainer_free(t);
        if (run) nn_device_close(&d);
        scene_close(&s);
    }
    for (int u = 0; u < UPDATES; u++) {
        EXPECT_NEAR(loss[1][u], loss[0][u], 0.03 * (1 + fabs(loss[0][u])));
        EXPECT_NEAR(loss[2][u], loss[1][u], 0);
        EXPECT_NEAR(loss[3][u], loss[0][u], 0.03 * (1 + fabs(loss[0][u])));
    }
    printf("  loss after %d updates: host %.5f, bf16 %.5f, with GELU apart %.5f\n", UPDATES,
           loss[0][UPDATES - 1], loss[1][UPDATES - 1], loss[3][UPDATES - 1]);
    free(weights[0]);
    free(weights[1]);
}

// What runs aside gives the same bits as in turn.
TEST(cuda, lewm_updates_aside_equal_those_in_turn) {
    enum { UPDATES = 6, BATCH = 8 };
    float* weights[2] = {NULL, NULL};
    lewm_shape shape = wide(3, 56);
    shape.depth = 3;
    for (int run = 0; run < 2; run++) {
        scene s;
        nn_device d;
        firm_error err = {0};
        if (!gpu_open(&d, NN_MIXED)) return;
        if (!run) nn_cuda_set_ways(d.queue, NN_CUDA_WAY_IN_TURN);
        scene_open(&s, &shape);
        nn_trainer* t = trainer_of(&s, &d, BATCH, UPDATES);
        for (int u = 0; t && u < UPDATES; u++) REQUIRE_OK(nn_trainer_step(t, u, &err), err);
        REQUIRE_OK(nn_trainer_pull(t, &err), err);
        size_t bytes = s.model->store->count * sizeof(float);
        weights[run] = malloc(bytes);
        memcpy(weights[run], s.model->store->value, bytes);
        if (run) EXPECT(memcmp(weights[0], weights[1], bytes) == 0);
        nn_trainer_free(t);
        nn_device_close(&d);
        scene_close(&s);
    }
    free(weights[0]);
    free(weights[1]);
}

// ---- time ---------------------------------------------------------------------------------------

static double since(int64_t start) {
    return (double)(clock_ns() - start) / 1e6;
}

// milliseconds of one run of a step, the best of a few
typedef void (*step_fn)(nn_cuda_queue* q, const nn_cuda_vit* v);

static double time_step(nn_cuda_queue* q, const nn_cuda_vit* v, step_fn f) {
    firm_error err = {0};
    double best = INFINITY;
    for (int i = 0; i < 6; i++) {
        int64_t start = clock_ns();
        for (int k = 0; k < 5; k++) f(q, v);
        if (nn_cuda_wait(q, &err) != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
        if (i > 0 && since(start) / 5 < best) best = since(start) / 5;
    }
    return best;
}

static nn_cuda_flash flash;
static void flash_forward(nn_cuda_queue* q, const nn_cuda_vit* v) {
    (void)v;
    nn_cuda_flash_forward(q, &flash);
}
static void flash_backward(nn_cuda_queue* q, const nn_cuda_vit* v) {
    (void)v;
    nn_cuda_flash_backward(q, &flash);
}

static void* memory(nn_cuda_queue* q, size_t bytes) {
    firm_error err = {0};
    void* p = NULL;
    if (nn_cuda_alloc(q, bytes, &p, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    cudaMemsetAsync(p, 0x3c, bytes, nn_cuda_stream(q));  // small finite numbers in either format
    return p;
}

TEST(cuda, lewm_time_of_a_block) {
    nn_cuda_queue* q = gpu_queue(NN_CUDA_MIXED);
    if (!q) return;
    nn_cuda_vit v = {.groups = test_short() ? 8 : 512,
                     .tokens = 257,
                     .heads = 3,
                     .width = 192,
                     .mlp = 768,
                     .eps = 1e-12f};
    size_t n = (size_t)v.groups * 257 * 192 * sizeof(float);
    static const size_t count[VIT_PARAMS] = {192, 192, 192 * 576, 576, 192 * 192, 192,
                                             192, 192, 192 * 768, 768, 192 * 768, 192};
    for (int i = 0; i < VIT_PARAMS; i++) {
        v.param[i] = memory(q, count[i] * sizeof(float));
        v.grad[i] = memory(q, count[i] * sizeof(float));
    }
    float *x = memory(q, n), *dy = memory(q, n);
    v.x = x, v.y = memory(q, n), v.dy = dy, v.dx = memory(q, n);
    v.save = memory(q, nn_cuda_vit_save(&v));
    v.scratch = memory(q, nn_cuda_vit_scratch(&v));
    flash = (nn_cuda_flash){.groups = v.groups, .tokens = 257, .heads = 3, .queries = 257};
    flash.qkv = memory(q, n * 3 / 2), flash.y = memory(q, n / 2), flash.dy = memory(q, n / 2);
    flash.lse = memory(q, n / 64), flash.dqkv = memory(q, n * 3 / 2);
    flash.mean = memory(q, n / 64), flash.sums = memory(q, (size_t)v.groups * 576 * sizeof(float));
    printf(
        "  a block of %d pictures: forward %.3f ms, backward %.3f ms; attention %.3f and %.3f "
        "ms\n",
        v.groups, time_step(q, &v, nn_cuda_vit_forward), time_step(q, &v, nn_cuda_vit_backward),
        time_step(q, &v, flash_forward), time_step(q, &v, flash_backward));
    void* all[] = {x,
                   v.y,
                   dy,
                   v.dx,
                   v.save,
                   v.scratch,
                   (void*)flash.qkv,
                   flash.y,
                   (void*)flash.dy,
                   flash.lse,
                   flash.dqkv,
                   flash.mean,
                   flash.sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) nn_cuda_release(all[i]);
    for (int i = 0; i < VIT_PARAMS; i++) {
        nn_cuda_release((void*)v.param[i]);
        nn_cuda_release(v.grad[i]);
    }
    nn_cuda_queue_free(q);
}

// milliseconds of an update of `batch` clips with some ways on
static double time_update(scene* s, nn_device* d, unsigned ways, int batch) {
    firm_error err = {0};
    int timed = test_short() ? 2 : 20;
    nn_cuda_set_ways(d->queue, ways);
    nn_trainer* t = trainer_of(s, d, batch, 1000);
    int64_t start = clock_ns();
    firm_status st = FIRM_OK;
    for (int u = 0; t && u < timed + 5 && st == FIRM_OK; u++) {
        if (u == 5) {
            st = nn_trainer_read(t, &err);
            start = clock_ns();
        }
        if (st == FIRM_OK) st = nn_trainer_step(t, u, &err);
    }
    if (t && st == FIRM_OK) st = nn_trainer_read(t, &err);
    double ms = since(start) / timed;
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    EXPECT(t && isfinite(nn_trainer_loss(t)));
    nn_trainer_free(t);
    return ms;
}

static int compare_numbers(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

// An update as it is, with nothing aside and with GELU apart from the products, one after the
// other.
TEST(cuda, lewm_time_of_an_update) {
    enum { ROUNDS = 3 };
    static const struct {
        const char* name;
        unsigned ways;
    } way[] = {{"as it is", 0},
               {"nothing aside", NN_CUDA_WAY_IN_TURN},
               {"GELU apart", NN_CUDA_WAY_GELU_APART}};
    enum { WAYS = sizeof way / sizeof *way };
    double ms[WAYS][ROUNDS];
    lewm_shape shape = lewm_shape_default();
    nn_device d;
    int batch = test_short() ? 2 : 128;
    if (!gpu_open(&d, NN_MIXED)) return;
    scene s;
    scene_open(&s, &shape);
    for (int round = 0; round < ROUNDS; round++)
        for (int w = 0; w < WAYS; w++) ms[w][round] = time_update(&s, &d, way[w].ways, batch);
    scene_close(&s);
    for (int w = 0; w < WAYS; w++) {
        qsort(ms[w], ROUNDS, sizeof(double), compare_numbers);
        printf("  %d clips, %s: %.2f ms an update (%.2f to %.2f)\n", batch, way[w].name,
               ms[w][ROUNDS / 2], ms[w][0], ms[w][ROUNDS - 1]);
    }
    nn_device_close(&d);
}
