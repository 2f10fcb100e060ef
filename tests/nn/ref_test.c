// ref_test.c - what each op means, by hand: small inputs with answers worked out on paper. The
// other tests compare implementations with each other and with finite differences; this one pins
// the layout (order of kernel cells, patches, heads, pairs) and the constants.
#include "cases.h"
#include "check.h"

// A graph whose inputs are given as numbers: the fill copies `value` for every sample in turn.
typedef struct hand {
    nn_setup s;
    const float* value[8];    // per input, (batch, size)
    const uint8_t* bytes[8];  // per image
} hand;

static firm_status fill_hand(void* ctx, const nn_feed* f) {
    hand* h = ctx;
    int input = 0, image = 0;
    for (int id = 0; id < f->graph->tensors; id++) {
        const nn_tensor* t = &f->graph->tensor[id];
        size_t n = (size_t)(f->count * t->size), from = (size_t)(f->first * t->size);
        if (t->kind == NN_INPUT)
            memcpy(nn_feed_real(f, id), h->value[input++] + from, n * sizeof(float));
        if (t->kind == NN_BYTES) memcpy(nn_feed_bytes(f, id), h->bytes[image++] + from, n);
    }
    return FIRM_OK;
}

// Runs one sample and compares; parameters have been written to the store by `params`.
static void check_hand(hand* h, nn_setup_fn build, void (*params)(nn_store*), const double* want,
                       int count) {
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1};
    if (!nn_setup_graph(&h->s, build, nn_backend_ref(), &opt, NULL)) return;
    if (params) params(h->s.store);
    nn_exec_pull_params(h->s.exec);
    EXPECT_INT(nn_exec_forward(h->s.exec, 1, fill_hand, h), FIRM_OK);
    EXPECT_INT(nn_size(h->s.graph, h->s.out), count);
    const float* got = nn_exec_output(h->s.exec, h->s.out);
    for (int i = 0; i < count; i++) {
        if (!(fabs(got[i] - want[i]) <= 1e-6 * fmax(1, fabs(want[i])) * test_tolerance_scale())) {
            test_fail(__FILE__, __LINE__, "element %d is %.9g, expected %.9g", i, got[i], want[i]);
        }
    }
    nn_setup_free(&h->s);
}

static void set(nn_store* s, const char* name, const float* value) {
    const nn_entry* e = &s->entry[nn_store_find(s, name)];
    memcpy(s->value + e->offset, value, e->count * sizeof *value);
}

static nn_id param(nn_graph* g, const char* name, int rank, const int* dim) {
    return nn_param(g, name, NN_INIT_ZERO, 0, rank, dim);
}

static void finish(nn_graph* g, nn_setup* s, nn_id out) {
    s->out = out;
    nn_output(g, out);
}

// ---- linear: w is (K, N)
// -------------------------------------------------------------------------

static void linear_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 2), w = param(g, "w", 2, (int[]){2, 3});
    finish(g, s, nn_op_linear(g, x, w, param(g, "b", 1, (int[]){3})));
}

static void linear_params(nn_store* s) {
    set(s, "w", (float[]){1, 2, 3, 10, 20, 30});
    set(s, "b", (float[]){100, 200, 300});
}

TEST(nn, ref_linear) {
    hand h = {.value = {(float[]){2, 3}}};
    check_hand(&h, linear_graph, linear_params, (double[]){132, 264, 396}, 3);
}

// ---- conv2d: weight row (ky k + kx) C + c; only one tap is set, so the output is a shifted copy
// ----

static void conv_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 3, (int[]){2, 3, 2}), w = param(g, "w", 2, (int[]){18, 1});
    finish(g, s, nn_op_conv2d(g, x, w, param(g, "b", 1, (int[]){1}), 3, 1, 1));
}

static void conv_params(nn_store* s) {
    float w[18] = {0};
    w[(0 * 3 + 1) * 2 + 0] = 1;    // the pixel above, channel 0
    w[(1 * 3 + 2) * 2 + 1] = 100;  // the pixel to the right, channel 1
    set(s, "w", w);
    set(s, "b", (float[]){0.5f});
}

TEST(nn, ref_conv2d) {
    // pixels a..f with (channel 0, channel 1)
    hand h = {.value = {(float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}};
    check_hand(&h, conv_graph, conv_params,
               (double[]){400.5, 600.5, 0.5, 1 + 1000.5, 3 + 1200.5, 5 + 0.5}, 6);
}

static void conv_stride_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 3, (int[]){4, 5, 1}), w = param(g, "w", 2, (int[]){4, 1});
    finish(g, s, nn_op_conv2d(g, x, w, NN_NONE, 2, 2, 0));
}

static void conv_stride_params(nn_store* s) {
    set(s, "w", (float[]){1, 10, 100, 1000});
}

TEST(nn, ref_conv2d_stride) {  // 2x2 blocks; the fifth column is not reached
    float x[20];
    for (int i = 0; i < 20; i++) x[i] = (float)i;
    hand h = {.value = {x}};
    check_hand(&h, conv_stride_graph, conv_stride_params,
               (double[]){0 + 10 + 500 + 6000, 2 + 30 + 700 + 8000, 10 + 110 + 1500 + 16000,
                          12 + 130 + 1700 + 18000},
               4);
}

// ---- convt2d: weight column (ky k + kx) N + n, scattered
// -----------------------------------------

static void convt_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 3, (int[]){1, 2, 1}), w = param(g, "w", 2, (int[]){1, 8});
    finish(g, s, nn_op_convt2d(g, x, w, param(g, "b", 1, (int[]){2}), 2, 2, 0));
}

static void convt_params(nn_store* s) {
    set(s, "w", (float[]){1, 2, 3, 4, 5, 6, 7, 8});  // (cell 0: n 0, 1), (cell 1: n 0, 1), ...
    set(s, "b", (float[]){0, 0.5f});
}

TEST(nn, ref_convt2d) {  // stride = kernel: each pixel becomes its own 2x2 block
    hand h = {.value = {(float[]){1, 10}}};
    check_hand(&h, convt_graph, convt_params,
               (double[]){1, 2.5, 3, 4.5, 10, 20.5, 30, 40.5,  //
                          5, 6.5, 7, 8.5, 50, 60.5, 70, 80.5},
               16);
}

static void convt_pad_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 3, (int[]){2, 2, 1}), w = param(g, "w", 2, (int[]){1, 9});
    finish(g, s, nn_op_convt2d(g, x, w, NN_NONE, 3, 1, 1));
}

static void convt_pad_params(nn_store* s) {
    set(s, "w", (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST(nn, ref_convt2d_pad) {  // (2-1)*1 - 2 + 3 = 2: overlapping kernels add up, the rim is cut off
    hand h = {.value = {(float[]){1, 10, 100, 1000}}};
    check_hand(&h, convt_pad_graph, convt_pad_params,
               (double[]){5 + 40 + 200 + 1000, 6 + 50 + 300 + 2000, 8 + 70 + 500 + 4000,
                          9 + 80 + 600 + 5000},
               4);
}

// ---- norms
// ---------------------------------------------------------------------------------------

static void layernorm_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 2, (int[]){2, 2});
    finish(g, s,
           nn_op_layernorm(g, x, param(g, "gamma", 1, (int[]){2}), param(g, "beta", 1, (int[]){2}),
                           3));
}

static void norm_params2(nn_store* s) {
    set(s, "gamma", (float[]){2, 4});
    set(s, "beta", (float[]){0.5f, 1});
}

TEST(nn, ref_layernorm) {  // rows (1, 3) and (5, 5): variance 1 and 0, eps 3
    hand h = {.value = {(float[]){1, 3, 5, 5}}};
    check_hand(&h, layernorm_graph, norm_params2, (double[]){-1 + 0.5, 2 + 1, 0.5, 1}, 4);
}

static void groupnorm_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 2, (int[]){2, 4});
    finish(g, s,
           nn_op_groupnorm(g, x, param(g, "gamma", 1, (int[]){4}), param(g, "beta", 1, (int[]){4}),
                           2, 0));
}

static void norm_params4(nn_store* s) {
    set(s, "gamma", (float[]){1, 2, 3, 4});
    set(s, "beta", (float[]){0, 0, 0, 7});
}

TEST(nn, ref_groupnorm) {
    // group 0 holds channels 0, 1 of both positions: 1, 1, 3, 3; group 1: 0, 20, 20, 0
    hand h = {.value = {(float[]){1, 1, 0, 20, 3, 3, 20, 0}}};
    check_hand(&h, groupnorm_graph, norm_params4, (double[]){-1, -2, -3, 11, 1, 2, 3, 3}, 8);
}

// ---- pointwise
// -----------------------------------------------------------------------------------

static void gelu_graph(nn_graph* g, nn_setup* s) {
    finish(g, s, nn_gelu(g, nn_input1(g, "x", 4)));
}

TEST(nn, ref_gelu) {  // published values of the tanh form
    hand h = {.value = {(float[]){0, 1, -1, 20}}};
    check_hand(&h, gelu_graph, NULL, (double[]){0, 0.8411919906, -0.1588080094, 20}, 4);
}

static void pointwise_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 2, (int[]){2, 2}), y = nn_input(g, "y", 2, (int[]){2, 2});
    nn_id p = nn_addp(g, x, param(g, "p", 1, (int[]){2}));
    nn_id all[] = {nn_add(g, x, y), nn_sub(g, x, y), nn_mul(g, x, y), nn_clamp(g, x, 1.5f, 3.5f),
                   p};
    finish(g, s, nn_concat(g, 0, 5, all));
}

static void pointwise_params(nn_store* s) {
    set(s, "p", (float[]){10, 20});
}

TEST(nn, ref_pointwise) {
    hand h = {.value = {(float[]){1, 2, 3, 4}, (float[]){5, 5, 6, 6}}};
    check_hand(
        &h, pointwise_graph, pointwise_params,
        (double[]){6, 7, 9, 10, -4, -3, -3, -2, 5, 10, 18, 24, 1.5, 2, 3, 3.5, 11, 22, 13, 24}, 20);
}

static void pairnorm_graph(nn_graph* g, nn_setup* s) {
    finish(g, s, nn_pairnorm(g, nn_input(g, "x", 2, (int[]){2, 5}), 2));
}

TEST(nn, ref_pairnorm) {
    hand h = {.value = {(float[]){3, 4, 0, -2, 9, 0, 0, 5e-7f, 0, 8}}};
    check_hand(&h, pairnorm_graph, NULL, (double[]){0.6, 0.8, 0, -1, 9, 0, 0, 0.5, 0, 8}, 10);
}

// ---- shapes
// --------------------------------------------------------------------------------------

static void shape_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input(g, "x", 2, (int[]){2, 3}), y = nn_input(g, "y", 2, (int[]){2, 1});
    nn_id wide = nn_concat(g, 1, 2, (nn_id[]){x, y});                // (2, 4)
    nn_id tall = nn_concat(g, 0, 2, (nn_id[]){wide, wide});          // (4, 4)
    nn_id cut = nn_slice(g, nn_slice(g, tall, 0, 1, 2), 1, 2, 2);    // rows 1, 2, columns 2, 3
    nn_id mean = nn_reshape(g, nn_mean(g, wide), 2, (int[]){2, 2});  // (4) seen as (2, 2)
    finish(g, s, nn_concat(g, 0, 2, (nn_id[]){cut, mean}));
}

TEST(nn, ref_shape) {
    hand h = {.value = {(float[]){1, 2, 3, 4, 5, 6}, (float[]){7, 8}}};
    check_hand(&h, shape_graph, NULL, (double[]){6, 8, 3, 7, 2.5, 3.5, 4.5, 7.5}, 8);
}

// ---- attention
// -----------------------------------------------------------------------------------

static void attention_graph(nn_graph* g, nn_setup* s) {
    static const uint8_t mask[] = {1, 0, 0, 1, 1, 0, 0, 0, 0};  // itself; the first two; nothing
    finish(g, s, nn_attention(g, nn_input(g, "qkv", 2, (int[]){3, 6}), 2, mask));
}

TEST(nn, ref_attention) {
    // two heads of width 1: a row is q q' k k' v v'. Row 1 of head 0: scores q k = 1*0, 1*log 3
    // give weights 1/4, 3/4; head 1: equal scores, weights 1/2
    float l3 = (float)log(3);
    hand h = {.value = {(float[]){5, 5, 0, 2, 8, 1, 1, 0, l3, 9, 4, 3, 1, 1, 1, 1, 100, 100}}};
    check_hand(&h, attention_graph, NULL, (double[]){8, 1, 8 * 0.25 + 4 * 0.75, 2, 0, 0}, 6);
}

static void attention_scale_graph(nn_graph* g, nn_setup* s) {
    static const uint8_t mask[] = {1, 1, 1, 1};
    finish(g, s, nn_attention(g, nn_input(g, "qkv", 2, (int[]){2, 12}), 1, mask));
}

TEST(nn, ref_attention_scale) {  // one head of width 4: the score is halved
    float q = (float)(2 * log(3));
    hand h = {.value = {(float[]){q, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 8,  //
                                  0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0}}};
    check_hand(&h, attention_scale_graph, NULL, (double[]){3, 1, 0, 6, 2, 2, 0, 4}, 8);
}

// ---- images
// --------------------------------------------------------------------------------------

// a 4x4 image whose bytes count up, and one that differs in a few places
static void make_images(uint8_t* o, uint8_t* before) {
    for (int i = 0; i < 48; i++) o[i] = before[i] = (uint8_t)(5 * i);
    before[0] = 8;                     // pixel (0, 0): 8 levels, not more
    before[(0 * 4 + 3) * 3 + 1] += 9;  // pixel (0, 3), green
    before[(2 * 4 + 1) * 3 + 2] -= 9;  // pixel (2, 1), blue
}

static void patches_graph(nn_graph* g, nn_setup* s) {
    finish(g, s,
           nn_patches(g, nn_image(g, "o", 4), 2, (float[]){0, 0.5f, 1}, (float[]){1, 0.5f, 2}));
}

TEST(nn, ref_patches) {
    uint8_t o[48], before[48];
    double want[48], mean[] = {0, 0.5, 1}, std[] = {1, 0.5, 2};
    make_images(o, before);
    // first pixels of the four patches are 0, 2, 8, 10; a patch is pixels +0, +1, +4, +5
    static const int first[] = {0, 2, 8, 10}, step[] = {0, 1, 4, 5};
    for (int i = 0; i < 48; i++) {
        int c = i % 3, pixel = first[i / 12] + step[i / 3 % 4];
        want[i] = (o[pixel * 3 + c] / 255.0 - mean[c]) / std[c];
    }
    EXPECT_NEAR(want[14], (40 / 255.0 - 1) / 2, 1e-12);  // patch 1, pixel (0, 2), blue: byte 8
    hand h = {.bytes = {o}};
    check_hand(&h, patches_graph, NULL, want, 48);
}

static void patchdiff_graph(nn_graph* g, nn_setup* s) {
    nn_id o = nn_image(g, "o", 4), before = nn_image(g, "before", 4);
    finish(g, s, nn_patchdiff(g, o, before, 2, (float[]){1, 0.5f, 2}));
}

TEST(nn, ref_patchdiff) {
    uint8_t o[48], before[48];
    double want[48] = {0};
    make_images(o, before);
    want[0] = -8 / 255.0;                         // patch 0, first pixel, red
    want[1 * 12 + 1 * 3 + 1] = -9 / 255.0 / 0.5;  // patch 1, second pixel, green
    want[2 * 12 + 1 * 3 + 2] = 9 / 255.0 / 2;     // patch 2, second pixel, blue
    hand h = {.bytes = {o, before}};
    check_hand(&h, patchdiff_graph, NULL, want, 48);
}

static void patchmask_graph(nn_graph* g, nn_setup* s) {
    nn_id o = nn_image(g, "o", 4), before = nn_image(g, "before", 4);
    finish(g, s, nn_patchmask(g, o, before, 2));
}

TEST(nn, ref_patchmask) {
    uint8_t o[48], before[48];
    double want[16] = {0};
    make_images(o, before);
    want[1 * 4 + 1] = want[2 * 4 + 1] = 1;
    hand h = {.bytes = {o, before}};
    check_hand(&h, patchmask_graph, NULL, want, 16);
}

// ---- losses
// --------------------------------------------------------------------------------------

static void mse_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 2);
    finish(g, s, nn_mse(g, x, nn_input1(g, "t", 2)));
}

static void bce_graph(nn_graph* g, nn_setup* s) {
    nn_id x = nn_input1(g, "x", 4);
    finish(g, s, nn_bce(g, x, nn_input1(g, "t", 4), 3));
}

static void nll_graph(nn_graph* g, nn_setup* s) {
    nn_id m = nn_input1(g, "m", 2), lv = nn_input1(g, "lv", 2);
    finish(g, s, nn_nll(g, m, lv, nn_input1(g, "t", 2)));
}

TEST(nn, ref_losses) {
    hand mse = {.value = {(float[]){1, 5}, (float[]){3, 6}}};
    check_hand(&mse, mse_graph, NULL, (double[]){2.5}, 1);
    // logits 0: log 2 each, the positive three times; far logits: wrong by 200 and right
    hand bce = {.value = {(float[]){0, 0, 200, -300}, (float[]){1, 0.5f, 0, 0}}};
    check_hand(&bce, bce_graph, NULL, (double[]){(3 * log(2) + 2 * log(2) + 200) / 4}, 1);
    // (0 + 4)/2 and (log 4 + 1/4 * 4)/2
    hand nll = {.value = {(float[]){1, 2}, (float[]){0, (float)log(4)}, (float[]){3, 4}}};
    check_hand(&nll, nll_graph, NULL, (double[]){(4 + log(4) + 1) / 4}, 1);
}
