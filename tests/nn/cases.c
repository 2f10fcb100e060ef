// cases.c - the op cases and what the engine tests share: see cases.h. A new op needs a builder
// here and at least two lines in nn_cases; gradcheck_test.c fails until they are there.
#include "cases.h"

#include "check.h"
#include "core/rng.h"

enum { SEED = 7 };

// ---- leaves
// --------------------------------------------------------------------------------------

nn_id nn_case_leaf(nn_graph* g, const char* name, float scale, int rank, const int* dim) {
    char param[64];
    snprintf(param, sizeof param, "%s.p", name);
    nn_id x = nn_input(g, name, rank, dim);
    return nn_addp(g, x, nn_param(g, param, NN_INIT_NORMAL, scale, rank, dim));
}

static nn_id leaf(nn_graph* g, const char* name, int rank, const int* dim) {
    return nn_case_leaf(g, name, 0.5f, rank, dim);
}

static nn_id weight(nn_graph* g, const char* name, int k, int n) {
    return nn_param(g, name, NN_INIT_NORMAL, 1 / sqrtf((float)k), 2, (int[]){k, n});
}

static nn_id vector(nn_graph* g, const char* name, int n) {
    return nn_param(g, name, NN_INIT_NORMAL, 1, 1, &n);
}

// ---- one builder per op; comments name the numbers in a[]
// ----------------------------------------

// T (0: a plain vector), K, N, bias
static nn_id build_linear(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id x = a[0] ? leaf(g, "x", 2, (int[]){a[0], a[1]}) : leaf(g, "x", 1, &a[1]);
    return nn_op_linear(g, x, weight(g, "w", a[1], a[2]), a[3] ? vector(g, "b", a[2]) : NN_NONE);
}

// H, W, C, N (negative: no bias), kernel, stride, pad
static nn_id build_conv2d(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id x = leaf(g, "x", 3, a), w = weight(g, "w", a[4] * a[4] * a[2], abs(a[3]));
    return nn_op_conv2d(g, x, w, a[3] > 0 ? vector(g, "b", a[3]) : NN_NONE, a[4], a[5], a[6]);
}

static nn_id build_convt2d(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id x = leaf(g, "x", 3, a), w = weight(g, "w", a[2], a[4] * a[4] * abs(a[3]));
    return nn_op_convt2d(g, x, w, a[3] > 0 ? vector(g, "b", a[3]) : NN_NONE, a[4], a[5], a[6]);
}

// T (0: a plain vector), C
static nn_id build_layernorm(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id x = a[0] ? leaf(g, "x", 2, a) : leaf(g, "x", 1, &a[1]);
    return nn_op_layernorm(g, x, vector(g, "gamma", a[1]), vector(g, "beta", a[1]), 1e-5f);
}

// H, W (0: rank 2), C, groups
static nn_id build_groupnorm(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id x = a[1] ? leaf(g, "x", 3, a) : leaf(g, "x", 2, (int[]){a[0], a[2]});
    return nn_op_groupnorm(g, x, vector(g, "gamma", a[2]), vector(g, "beta", a[2]), a[3], 1e-5f);
}

// n
static nn_id build_gelu(nn_graph* g, const nn_case* c) {
    return nn_gelu(g, nn_case_leaf(g, "x", 2, 1, c->a));
}

// n, kind: 0 x + y, 1 x - y, 2 x + x
static nn_id build_add(nn_graph* g, const nn_case* c) {
    nn_id x = leaf(g, "x", 1, c->a), y = c->a[1] == 2 ? x : leaf(g, "y", 1, c->a);
    return c->a[1] == 1 ? nn_sub(g, x, y) : nn_add(g, x, y);
}

// H, W, C, rank of the parameter (0: a vector of the next number, longer than x)
static nn_id build_addp(nn_graph* g, const nn_case* c) {
    const int *a = c->a, rank = a[3];
    nn_id x = leaf(g, "x", 3, a);
    if (rank == 0) return nn_addp(g, x, nn_param(g, "p", NN_INIT_NORMAL, 1, 1, &a[4]));
    return nn_addp(g, x, nn_param(g, "p", NN_INIT_NORMAL, 1, rank, a + 3 - rank));
}

// n, kind: 0 x * y, 1 x * x
static nn_id build_mul(nn_graph* g, const nn_case* c) {
    nn_id x = leaf(g, "x", 1, c->a), y = c->a[1] ? x : leaf(g, "y", 1, c->a);
    return nn_mul(g, x, y);
}

// T, C, pairs
static nn_id build_pairnorm(nn_graph* g, const nn_case* c) {
    return nn_pairnorm(g, leaf(g, "x", 2, c->a), c->a[2]);
}

// n
static nn_id build_clamp(nn_graph* g, const nn_case* c) {
    return nn_clamp(g, nn_case_leaf(g, "x", 2, 1, c->a), -0.75f, 1.25f);
}

// T, C, pairs, kind: 1 against itself
static nn_id build_relative(nn_graph* g, const nn_case* c) {
    nn_id x = leaf(g, "x", 2, c->a), y = c->a[3] ? x : leaf(g, "y", 2, c->a);
    return nn_relative(g, x, y, c->a[2]);
}

// axis, rank, count, last input repeats the first one
static nn_id build_concat(nn_graph* g, const nn_case* c) {
    int axis = c->a[0], rank = c->a[1], count = c->a[2];
    nn_id x[NN_MAX_IN];
    for (int i = 0; i < count; i++) {
        char name[16];
        int dim[3] = {3, 2, 5};
        snprintf(name, sizeof name, "x%d", i);
        dim[axis] = 1 + i % 4;
        x[i] = leaf(g, name, rank, dim);
    }
    if (c->a[3]) x[count - 1] = x[0];
    return nn_concat(g, axis, count, x);
}

// axis, from, count, then the shape
static nn_id build_slice(nn_graph* g, const nn_case* c) {
    return nn_slice(g, leaf(g, "x", 3, c->a + 3), c->a[0], c->a[1], c->a[2]);
}

// T, C
static nn_id build_mean(nn_graph* g, const nn_case* c) {
    return nn_mean(g, leaf(g, "x", 2, c->a));
}

// n
static nn_id build_erfgelu(nn_graph* g, const nn_case* c) {
    return nn_erfgelu(g, nn_case_leaf(g, "x", 2, 1, c->a));
}

static nn_id build_silu(nn_graph* g, const nn_case* c) {
    return nn_silu(g, nn_case_leaf(g, "x", 2, 1, c->a));
}

// n, 100 p
static nn_id build_dropout(nn_graph* g, const nn_case* c) {
    return nn_dropout(g, leaf(g, "x", 1, c->a), (float)c->a[1] / 100);
}

// T (0: a plain vector), C
static nn_id build_adanorm(nn_graph* g, const nn_case* c) {
    const int *dim = c->a[0] ? c->a : c->a + 1, rank = c->a[0] ? 2 : 1;
    nn_id x = leaf(g, "x", rank, dim), scale = leaf(g, "scale", rank, dim);
    return nn_adanorm(g, x, scale, leaf(g, "shift", rank, dim), 1e-6f);
}

// T (0: a plain vector), C
static nn_id build_batchnorm(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    return nn_batchnorm(g, "bn", a[0] ? leaf(g, "x", 2, a) : leaf(g, "x", 1, &a[1]));
}

// frames (0: one group of rows), T, C
static nn_id build_prepend(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id x = a[0] ? leaf(g, "x", 3, a) : leaf(g, "x", 2, a + 1);
    return nn_prepend(g, x, vector(g, "p", a[2]));
}

// T, D, directions
static nn_id build_sigreg(nn_graph* g, const nn_case* c) {
    return nn_sigreg(g, leaf(g, "z", 2, c->a), c->a[2]);
}

// T, D, heads, mask: 0 everything, n > 0 causal by blocks of n, -1 random with an empty row, -2 no
// mask; groups (0: rank 2), 100 p
static nn_id build_attention(nn_graph* g, const nn_case* c) {
    static uint8_t mask[160 * 160];
    int T = c->a[0], D = c->a[1], kind = c->a[3];
    nn_id x =
        c->a[4] ? leaf(g, "x", 3, (int[]){c->a[4], T, 3 * D}) : leaf(g, "x", 2, (int[]){T, 3 * D});
    float p = (float)c->a[5] / 100;
    if (kind == -2) return nn_attention_dropped(g, x, c->a[2], NULL, p);
    rng r = rng_start(SEED, RNG_STREAM(RNG_TEST, 1));
    for (int t = 0; t < T; t++) {
        for (int s = 0; s < T; s++) {
            int look = kind == 0 || (kind > 0 && s / kind <= t / kind);
            if (kind < 0) look = t != T / 2 && rng_below(&r, 3) > 0;
            mask[t * T + s] = (uint8_t)look;
        }
    }
    return nn_attention_dropped(g, x, c->a[2], mask, p);
}

// size, patch, frames (0: one image)
static nn_id build_patches(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id o = a[2] ? nn_frames(g, "o", a[2], a[0]) : nn_image(g, "o", a[0]);
    return nn_patches(g, o, a[1], (float[]){0.5f, 0.4f, 0.3f}, (float[]){0.2f, 0.25f, 0.3f});
}

static nn_id build_patchdiff(nn_graph* g, const nn_case* c) {
    nn_id o = nn_image(g, "o", c->a[0]), before = nn_image(g, "before", c->a[0]);
    return nn_patchdiff(g, o, before, c->a[1], (float[]){0.2f, 0.25f, 0.3f});
}

static nn_id build_patchmask(nn_graph* g, const nn_case* c) {
    nn_id o = nn_image(g, "o", c->a[0]), before = nn_image(g, "before", c->a[0]);
    return nn_patchmask(g, o, before, c->a[1]);
}

// H, W, C
static nn_id build_coords(nn_graph* g, const nn_case* c) {
    return nn_coords(g, leaf(g, "x", 3, c->a));
}

// T, K, C
static nn_id build_softpool(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id logits = nn_case_leaf(g, "logits", 2, 2, (int[]){a[0], a[1]});
    return nn_softpool(g, logits, leaf(g, "v", 2, (int[]){a[0], a[2]}));
}

// positions within the canvas, about one sample in four near the block
static nn_id build_spatial(nn_graph* g, const nn_case* c) {
    const int* a = c->a;
    nn_id config = nn_case_leaf(g, "unit_c", 0.05f, 1, (int[]){6});
    nn_id v = nn_case_leaf(g, "v", 0.1f, 1, (int[]){2});
    nn_id u = leaf(g, "u", 1, (int[]){a[0] * a[1]});
    // a T; or a T with a foot, in the middle of other coordinates and numbers of controls
    nn_push push = {.boxes = 2,
                    .agent = {2, 3},
                    .block = {4, 5},
                    .scale = 256,
                    .motion = {29.6f, 0.03f, 374, -0.0066f},
                    .radius = 15,
                    .centre = {0, 45},
                    .soft = 6,
                    .deep = 15,
                    .unit = 32,
                    .arm = 60,
                    .far = 100,
                    .box = {{0, 15, 60, 15}, {0, 60, 15, 60}, {20, 100, 20, 9}},
                    .config = 6,
                    .controls = a[0],
                    .action = a[1]};
    if (a[2]) {
        nn_id more = nn_case_leaf(g, "more", 1, 1, (int[]){1});
        config = nn_concat(g, 0, 2, (nn_id[]){config, more});
        push.boxes = 3;
        push.config = 7;
        push.agent[0] = 5, push.agent[1] = 2;
        push.block[0] = 3, push.block[1] = 4;
        push.centre[0] = 7;
    }
    return nn_spatial(g, &push, config, v, u, (float[]){0.02f, -0.01f}, (float[]){0.2f, 0.3f});
}

// T, C
static nn_id build_mse(nn_graph* g, const nn_case* c) {
    return nn_mse(g, leaf(g, "x", 2, c->a), leaf(g, "target", 2, c->a));
}

static nn_id build_bce(nn_graph* g, const nn_case* c) {
    nn_id logits = nn_case_leaf(g, "x", 3, 2, c->a);
    return nn_bce(g, logits, nn_case_leaf(g, "unit", 0.05f, 2, c->a), 2.5f);
}

static nn_id build_nll(nn_graph* g, const nn_case* c) {
    nn_id mean = leaf(g, "mean", 2, c->a), lv = leaf(g, "logvar", 2, c->a);
    return nn_nll(g, mean, lv, leaf(g, "target", 2, c->a));
}

// T, C, pairs, 100 eps
static nn_id build_chord(nn_graph* g, const nn_case* c) {
    nn_id x = leaf(g, "x", 2, c->a);
    return nn_chord(g, x, leaf(g, "target", 2, c->a), c->a[2], (float)c->a[3] / 100);
}

// clang-format off
const nn_case nn_cases[] = {
    {NN_LINEAR, build_linear, {0, 5, 3, 1}, 3, 2, 0},
    {NN_LINEAR, build_linear, {3, 1, 7, 1}, 2, 1, 0},
    {NN_LINEAR, build_linear, {2, 6, 1, 0}, 3, 2, 0},
    {NN_LINEAR, build_linear, {147, 64, 96, 1}, 5, 2, 1},
    {NN_LINEAR, build_linear, {0, 140, 384, 1}, 1536, 500, 1},
    {NN_LINEAR, build_linear, {0, 13, 17, 0}, 101, 8, 1},
    {NN_CONV2D, build_conv2d, {5, 4, 2, 3, 3, 1, 1}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {7, 5, 1, 2, 3, 2, 1}, 3, 2, 0},
    {NN_CONV2D, build_conv2d, {4, 6, 3, 2, 2, 2, 0}, 2, 2, 0},
    {NN_CONV2D, build_conv2d, {3, 3, 2, 4, 1, 1, 0}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {6, 5, 2, -1, 5, 3, 2}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {1, 2, 2, 2, 5, 1, 2}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {5, 6, 3, 2, 1, 2, 0}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {7, 8, 2, 3, 3, 3, 1}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {6, 5, 2, 3, 4, 1, 3}, 2, 1, 0},
    {NN_CONV2D, build_conv2d, {9, 30, 37, 45, 3, 1, 1}, 3, 2, 1},
    {NN_CONV2D, build_conv2d, {56, 56, 32, 64, 3, 2, 1}, 3, 2, 1},
    {NN_CONV2D, build_conv2d, {28, 28, 16, 24, 3, 1, 1}, 3, 2, 1},
    {NN_CONVT2D, build_convt2d, {3, 2, 2, 3, 4, 2, 1}, 2, 1, 0},
    {NN_CONVT2D, build_convt2d, {2, 3, 3, 1, 3, 1, 1}, 3, 2, 0},
    {NN_CONVT2D, build_convt2d, {3, 3, 1, 2, 2, 2, 0}, 2, 2, 0},
    {NN_CONVT2D, build_convt2d, {2, 2, 2, -2, 3, 2, 0}, 2, 1, 0},
    {NN_CONVT2D, build_convt2d, {3, 2, 2, 3, 1, 2, 0}, 2, 1, 0},
    {NN_CONVT2D, build_convt2d, {2, 3, 2, 2, 5, 2, 2}, 2, 1, 0},
    {NN_CONVT2D, build_convt2d, {5, 17, 35, 21, 4, 2, 1}, 3, 2, 1},
    {NN_CONVT2D, build_convt2d, {14, 14, 64, 32, 4, 2, 1}, 3, 2, 1},
    {NN_LAYERNORM, build_layernorm, {0, 7}, 3, 2, 0},
    {NN_LAYERNORM, build_layernorm, {3, 5}, 2, 1, 0},
    {NN_LAYERNORM, build_layernorm, {147, 96}, 5, 2, 1},
    {NN_LAYERNORM, build_layernorm, {0, 3136}, 7, 4, 1},
    {NN_GROUPNORM, build_groupnorm, {3, 2, 6, 3}, 2, 1, 0},
    {NN_GROUPNORM, build_groupnorm, {5, 0, 4, 1}, 3, 2, 0},
    {NN_GROUPNORM, build_groupnorm, {3, 0, 5, 5}, 2, 1, 0},
    {NN_GROUPNORM, build_groupnorm, {3136, 0, 32, 8}, 3, 2, 1},
    {NN_GROUPNORM, build_groupnorm, {28, 28, 24, 3}, 3, 2, 1},
    {NN_GELU, build_gelu, {11}, 3, 2, 0},
    {NN_GELU, build_gelu, {1}, 2, 1, 0},
    {NN_GELU, build_gelu, {5003}, 5, 2, 1},
    {NN_ERFGELU, build_erfgelu, {11}, 3, 2, 0},
    {NN_ERFGELU, build_erfgelu, {1}, 2, 1, 0},
    {NN_ERFGELU, build_erfgelu, {5003}, 5, 2, 1},
    {NN_SILU, build_silu, {11}, 3, 2, 0},
    {NN_SILU, build_silu, {1}, 2, 1, 0},
    {NN_SILU, build_silu, {5003}, 5, 2, 1},
    {NN_DROPOUT, build_dropout, {11, 40}, 5, 2, 0},
    {NN_DROPOUT, build_dropout, {1, 50}, 7, 3, 0},
    {NN_DROPOUT, build_dropout, {2503, 10}, 5, 2, 1},
    {NN_ADANORM, build_adanorm, {0, 7}, 3, 2, 0},
    {NN_ADANORM, build_adanorm, {3, 5}, 2, 1, 0},
    {NN_ADANORM, build_adanorm, {3, 192}, 37, 8, 1},
    {NN_BATCHNORM, build_batchnorm, {2, 5}, 7, 3, 0},
    {NN_BATCHNORM, build_batchnorm, {3, 4}, 5, 2, 0},
    {NN_BATCHNORM, build_batchnorm, {4, 300}, 37, 8, 1},
    {NN_BATCHNORM, build_batchnorm, {3, 2048}, 16, 5, 1},
    {NN_PREPEND, build_prepend, {0, 3, 4}, 3, 2, 0},
    {NN_PREPEND, build_prepend, {2, 3, 5}, 2, 1, 0},
    {NN_PREPEND, build_prepend, {4, 25, 33}, 5, 2, 1},
    {NN_SIGREG, build_sigreg, {2, 3, 5}, 6, 2, 0},
    {NN_SIGREG, build_sigreg, {1, 4, 3}, 5, 3, 0},
    {NN_SIGREG, build_sigreg, {4, 48, 64}, 37, 8, 1},
    {NN_ADD, build_add, {7, 0}, 3, 2, 0},
    {NN_ADD, build_add, {5, 1}, 2, 1, 0},
    {NN_ADD, build_add, {5, 2}, 2, 1, 0},
    {NN_ADD, build_add, {1237, 1}, 5, 2, 1},
    {NN_ADDP, build_addp, {3, 2, 5, 1}, 3, 2, 0},
    {NN_ADDP, build_addp, {3, 2, 5, 2}, 2, 1, 0},
    {NN_ADDP, build_addp, {3, 2, 5, 3}, 2, 2, 0},
    {NN_ADDP, build_addp, {1, 2, 5, 0, 15}, 3, 2, 0},
    {NN_ADDP, build_addp, {7, 21, 96, 2}, 5, 2, 1},
    {NN_MUL, build_mul, {7, 0}, 3, 2, 0},
    {NN_MUL, build_mul, {5, 1}, 2, 1, 0},
    {NN_MUL, build_mul, {1237, 0}, 5, 2, 1},
    {NN_PAIRNORM, build_pairnorm, {3, 5, 2}, 3, 2, 0},
    {NN_PAIRNORM, build_pairnorm, {1, 2, 1}, 2, 1, 0},
    {NN_PAIRNORM, build_pairnorm, {33, 12, 5}, 5, 2, 1},
    {NN_CLAMP, build_clamp, {23}, 3, 2, 0},
    {NN_CLAMP, build_clamp, {1}, 2, 1, 0},
    {NN_CLAMP, build_clamp, {1237}, 5, 2, 1},
    {NN_RELATIVE, build_relative, {3, 5, 2, 0}, 3, 2, 0},
    {NN_RELATIVE, build_relative, {2, 4, 2, 1}, 2, 1, 0},
    {NN_RELATIVE, build_relative, {1, 3, 0, 0}, 2, 1, 0},
    {NN_RELATIVE, build_relative, {5, 6, 1, 0}, 201, 8, 1},
    {NN_CONCAT, build_concat, {0, 1, 3, 0}, 3, 2, 0},
    {NN_CONCAT, build_concat, {1, 3, 3, 0}, 2, 1, 0},
    {NN_CONCAT, build_concat, {2, 3, 2, 0}, 2, 1, 0},
    {NN_CONCAT, build_concat, {0, 2, 3, 1}, 3, 2, 0},
    {NN_CONCAT, build_concat, {1, 2, 8, 0}, 5, 2, 0},
    {NN_SLICE, build_slice, {0, 1, 2, 4, 3, 2}, 3, 2, 0},
    {NN_SLICE, build_slice, {1, 2, 1, 4, 3, 2}, 2, 1, 0},
    {NN_SLICE, build_slice, {2, 0, 3, 2, 3, 5}, 3, 2, 0},
    {NN_SLICE, build_slice, {1, 3, 7, 9, 21, 17}, 5, 2, 1},
    {NN_MEAN, build_mean, {5, 3}, 3, 2, 0},
    {NN_MEAN, build_mean, {1, 4}, 2, 1, 0},
    {NN_MEAN, build_mean, {147, 96}, 5, 2, 1},
    {NN_ATTENTION, build_attention, {5, 4, 2, 0}, 2, 1, 0},
    {NN_ATTENTION, build_attention, {4, 3, 1, 1}, 3, 2, 0},
    {NN_ATTENTION, build_attention, {7, 6, 3, -1}, 2, 1, 0},
    {NN_ATTENTION, build_attention, {1, 2, 1, 0}, 2, 1, 0},
    {NN_ATTENTION, build_attention, {149, 96, 4, 49}, 3, 2, 1},
    {NN_ATTENTION, build_attention, {37, 40, 5, -1}, 3, 2, 1},
    {NN_ATTENTION, build_attention, {5, 4, 2, -2}, 2, 1, 0},
    {NN_ATTENTION, build_attention, {3, 4, 2, 1, 2, 30}, 5, 2, 0},
    {NN_ATTENTION, build_attention, {2, 6, 3, -2, 0, 50}, 5, 2, 0},
    {NN_ATTENTION, build_attention, {3, 1024, 16, 1, 0, 10}, 9, 4, 1},
    {NN_ATTENTION, build_attention, {257, 64, 1, -2, 2}, 1, 1, 1},
    {NN_COORDS, build_coords, {3, 2, 4}, 3, 2, 0},
    {NN_COORDS, build_coords, {1, 5, 1}, 2, 1, 0},
    {NN_COORDS, build_coords, {14, 14, 64}, 5, 2, 1},
    {NN_SOFTPOOL, build_softpool, {7, 3, 5}, 3, 2, 0},
    {NN_SOFTPOOL, build_softpool, {1, 2, 1}, 2, 1, 0},
    {NN_SOFTPOOL, build_softpool, {196, 24, 66}, 5, 2, 1},
    {NN_SPATIAL, build_spatial, {5, 2}, 24, 7, 0},
    {NN_SPATIAL, build_spatial, {3, 4, 1}, 24, 7, 0},
    {NN_SPATIAL, build_spatial, {5, 2}, 400, 33, 1},
    {NN_SPATIAL, build_spatial, {20, 3, 1}, 60, 33, 1},
    {NN_PATCHES, build_patches, {6, 3}, 3, 2, 0},
    {NN_PATCHES, build_patches, {6, 2, 3}, 3, 2, 0},
    {NN_PATCHES, build_patches, {56, 8}, 5, 2, 1},
    {NN_PATCHES, build_patches, {28, 14, 4}, 5, 2, 1},
    {NN_PATCHDIFF, build_patchdiff, {6, 2}, 3, 2, 0},
    {NN_PATCHDIFF, build_patchdiff, {56, 7}, 5, 2, 1},
    {NN_PATCHMASK, build_patchmask, {6, 3}, 3, 2, 0},
    {NN_PATCHMASK, build_patchmask, {56, 8}, 5, 2, 1},
    {NN_MSE, build_mse, {3, 5}, 3, 2, 0},
    {NN_MSE, build_mse, {1, 1}, 2, 1, 0},
    {NN_MSE, build_mse, {49, 96}, 7, 4, 1},
    {NN_BCE, build_bce, {3, 5}, 3, 2, 0},
    {NN_BCE, build_bce, {1, 1}, 2, 1, 0},
    {NN_BCE, build_bce, {49, 64}, 7, 4, 1},
    {NN_NLL, build_nll, {3, 5}, 3, 2, 0},
    {NN_NLL, build_nll, {1, 1}, 2, 1, 0},
    {NN_NLL, build_nll, {17, 31}, 7, 4, 1},
    {NN_CHORD, build_chord, {3, 5, 2, 0}, 3, 2, 0},
    {NN_CHORD, build_chord, {5, 4, 2, 1}, 2, 1, 0},
    {NN_CHORD, build_chord, {5, 6, 1, 0}, 97, 8, 1},
    {NN_CHORD, build_chord, {5, 4, 2, 1}, 97, 8, 1},
};
// clang-format on

int nn_case_count(void) {
    return (int)(sizeof nn_cases / sizeof *nn_cases);
}

nn_id nn_case_build(nn_graph* g, const nn_case* c) {
    const nn_case* same = nn_cases;
    while (same->op != c->op) same++;
    return same->build(g, c);
}

const char* nn_op_name(nn_op op) {
    static const char* const name[NN_OP_COUNT] = {
#define NN_OP_NAME(name, wants_in, wants_out) #name,
        NN_OP_MAP(NN_OP_NAME)
#undef NN_OP_NAME
    };
    return name[op];
}

const char* nn_case_text(const nn_case* c) {
    static char text[128];
    const int* a = c->a;
    snprintf(text, sizeof text, "%s {%d %d %d %d %d %d %d} batch %d", nn_op_name(c->op), a[0], a[1],
             a[2], a[3], a[4], a[5], a[6], c->batch);
    return text;
}

// ---- inputs
// --------------------------------------------------------------------------------------

// bytes of sample `sample`; "before" repeats the other image with a few small and large changes
static void fill_bytes(const char* name, int sample, uint8_t* out, int size) {
    int before = strncmp(name, "before", 6) == 0;
    rng r = rng_start(SEED, RNG_STREAM(RNG_TEST, 1000 + sample));
    for (int i = 0; i < size; i++) {
        int level = (int)rng_below(&r, 256), change = (int)rng_below(&r, 41) - 20;
        if (before && rng_below(&r, 4) == 0) level += change;
        out[i] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
    }
}

static void fill_real(const char* name, int sample, float* out, int size) {
    uint64_t stream = RNG_STREAM(RNG_TEST, rng_hash_text(name) >> 16);
    int room = (size + 3) / 4 * 4;
    if (strncmp(name, "unit", 4) == 0) {
        rng r = rng_start(SEED, stream + (uint64_t)sample);
        for (int i = 0; i < size; i++) out[i] = (float)rng_uniform(&r, 0, 1);
    } else {
        rng_fill_normal(SEED, stream, (uint64_t)sample * (uint64_t)room, out, size);
    }
}

firm_status nn_case_fill(void* ctx, const nn_feed* feed) {
    (void)ctx;
    for (int id = 0; id < feed->graph->tensors; id++) {
        const nn_tensor* t = &feed->graph->tensor[id];
        for (int i = 0; i < feed->count; i++) {
            size_t at = (size_t)i * (size_t)t->size;
            if (t->kind == NN_INPUT) {
                fill_real(t->name, feed->first + i, nn_feed_real(feed, id) + at, t->size);
            } else if (t->kind == NN_BYTES) {
                fill_bytes(t->name, feed->first + i, nn_feed_bytes(feed, id) + at, t->size);
            }
        }
    }
    return FIRM_OK;
}

// ---- setups
// --------------------------------------------------------------------------------------

void nn_setup_free(nn_setup* s) {
    nn_exec_free(s->exec);
    nn_graph_free(s->graph);
    nn_store_free(s->store);
    *s = (nn_setup){0};
}

// after the graph is built: seal the store and make the exec
static int finish(nn_setup* s, const nn_backend* b, const nn_exec_options* opt, pool* p) {
    firm_error err = {0};
    s->batch = opt->batch;
    if (nn_store_seal(s->store, SEED, &err) == FIRM_OK &&
        nn_exec_create(s->graph, b, opt, p, &s->exec, &err) == FIRM_OK) {
        return 1;
    }
    test_fail(__FILE__, __LINE__, "setup on %s failed: %s", b->name, err.message);
    nn_setup_free(s);
    return 0;
}

static int begin(nn_setup* s) {
    firm_error err = {0};
    *s = (nn_setup){0};
    if (nn_store_create(&s->store, &err) == FIRM_OK &&
        nn_graph_create(s->store, &s->graph, &err) == FIRM_OK) {
        nn_train(s->graph, "");
        return 1;
    }
    test_fail(__FILE__, __LINE__, "setup failed: %s", err.message);
    nn_setup_free(s);
    return 0;
}

int nn_setup_case(nn_setup* s, const nn_case* c, const nn_backend* b, pool* p, int shard,
                  int flags) {
    if (!begin(s)) return 0;
    nn_graph* g = s->graph;
    s->out = c->build(g, c);
    nn_output(g, s->out);
    nn_node n = g->node[g->tensor[s->out].producer];
    if (g->tensor[s->out].wants_grad) {
        nn_id r = nn_input(g, "r", g->tensor[s->out].rank, nn_dims(g, s->out));
        nn_loss(g, "loss", nn_mul(g, s->out, r), 1);
    }
    for (int i = 0; i < n.in_count; i++) {
        int skip = n.in[i] == NN_NONE || g->tensor[n.in[i]].kind != NN_VALUE ||
                   !(flags & (NN_CASE_SHARED | NN_CASE_SHARED_ONE << i));
        for (int j = 0; j < i; j++) skip |= n.in[j] == n.in[i];
        if (!skip) nn_loss(g, "input", n.in[i], 0.3f);
    }
    nn_exec_options opt = {.batch = c->batch, .shard = shard, .lanes = 2};
    opt.train = (flags & NN_CASE_TRAIN) != 0;
    return finish(s, b, &opt, p);
}

int nn_setup_graph(nn_setup* s, nn_setup_fn build, const nn_backend* b, const nn_exec_options* opt,
                   pool* p) {
    if (!begin(s)) return 0;
    build(s->graph, s);
    return finish(s, b, opt, p);
}

// ---- comparisons
// ---------------------------------------------------------------------------------

double nn_nmse(const float* a, const float* b, size_t count) {
    double miss = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        miss += d * d;
        size += (double)b[i] * (double)b[i];
    }
    if (miss == 0) return 0;
    return size > 0 ? miss / size : INFINITY;
}

void nn_check_gradient(nn_setup* s, const char* what, int per_entry) {
    const double step = 1e-5;
    const nn_trained* list;
    if (nn_exec_gradient(s->exec, nn_case_fill, NULL) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: gradient run failed", what);
        return;
    }
    int count = nn_exec_trained(s->exec, &list);
    EXPECT(count > 0);
    size_t total = nn_exec_grad_count(s->exec);
    double* grad =
        malloc(total * sizeof *grad);  // forward runs below must not change what we compare
    if (!grad) abort();
    memcpy(grad, nn_exec_ref_grad(s->exec), total * sizeof *grad);
    for (int i = 0; i < count; i++) {
        const nn_entry* e = &s->store->entry[list[i].entry];
        double* value = nn_exec_ref_params(s->exec) + e->offset;
        const double* got = grad + list[i].offset;
        double scale = 0;  // errors are measured against the typical element of the entry
        for (size_t j = 0; j < list[i].count; j++) scale += got[j] * got[j];
        scale = sqrt(scale / (double)list[i].count);
        size_t stride = list[i].count / (size_t)per_entry + 1;
        for (size_t j = 0; j < list[i].count; j += stride) {
            double kept = value[j], loss[2];
            for (int side = 0; side < 2; side++) {
                value[j] = kept + (side ? step : -step);
                EXPECT_INT(nn_exec_forward(s->exec, s->batch, nn_case_fill, NULL), FIRM_OK);
                loss[side] = nn_exec_loss(s->exec);
            }
            value[j] = kept;
            double want = (loss[1] - loss[0]) / (2 * step);
            double tol = 1e-6 * fmax(fmax(fabs(want), scale), 1e-4) * test_tolerance_scale();
            if (!(fabs(got[j] - want) <= tol)) {
                test_fail(__FILE__, __LINE__,
                          "%s: d loss / d %s[%zu] is %.12g, expected %.12g +- %.2g", what, e->name,
                          j, got[j], want, tol);
            }
        }
    }
    free(grad);
}
