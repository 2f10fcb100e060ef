// conv_pass.c - convolutions as strips of tiles (tile.h) whose operand rows are patches of a padded
// image: patches of neighbouring places lie at a constant distance, and the rows of a patch are
// the segments of the inner dimension.
#include "nn/cpu/conv_pass.h"

#include <string.h>

#include "nn/cpu/gemm.h"
#include "nn/cpu/tile.h"

enum {
    DEPTH = 192,  // places of the grid that a strip of the weights' gradient sums over at a time
    WIDEST = 32   // columns of a strip at most
};

// ---- scratch: packed operand, then a padded copy of the image or of the grid --------------------

static int most(int a, int b) {
    return a > b ? a : b;
}

// taps of a kernel that can meet in one image row: those at distance `stride`
static int overlap(const nn_conv_shape* q) {
    return (q->kernel + q->stride - 1) / q->stride;
}

static int padded_side(const nn_conv_shape* q, int side, int places) {
    return most(side + 2 * q->pad, (places - 1) * q->stride + q->kernel);
}

// rows of a grid with room for every patch that meets an image row
static int grid_side(const nn_conv_shape* q, int side, int places) {
    return most(places, (side - 1 + q->pad) / q->stride + 1) + overlap(q) - 1;
}

// rows of the grid that a strip of the weights' gradient sums over at a time
static int chunk_rows(const nn_conv_shape* q) {
    return most(1, DEPTH / q->cols);
}

static size_t packed_floats(const nn_conv_shape* q) {
    int taps = q->kernel * q->kernel;
    size_t need[] = {nn_gemm_packed((int64_t)taps * q->channels, q->features),
                     nn_gemm_packed((int64_t)taps * q->features, q->channels),
                     nn_gemm_packed((int64_t)q->rows * q->cols, q->features),
                     (size_t)(chunk_rows(q) * q->cols) * WIDEST};
    size_t all = 0;
    for (size_t i = 0; i < sizeof need / sizeof *need; i++)
        if (need[i] > all) all = need[i];
    return (all + 15) / 16 * 16;
}

size_t nn_conv_scratch(const nn_conv_shape* q) {
    size_t image = (size_t)padded_side(q, q->height, q->rows) *
                   (size_t)padded_side(q, q->width, q->cols) * (size_t)q->channels;
    size_t grid = (size_t)grid_side(q, q->height, q->rows) *
                  (size_t)grid_side(q, q->width, q->cols) * (size_t)q->features;
    return (packed_floats(q) + (image > grid ? image : grid)) * sizeof(float);
}

// An image with zeros around it.
typedef struct canvas {
    const float* at;
    int64_t row;  // floats from one row to the next
} canvas;

// rows x cols cells of n floats, placed `lead` from the top and left corner of a canvas
static canvas framed(const float* from, int rows, int cols, int n, int lead, int tall, int wide,
                     float* room) {
    int64_t row = (int64_t)wide * n, run = (int64_t)cols * n, before = (int64_t)lead * n;
    memset(room, 0, (size_t)(lead * row) * sizeof *room);
    for (int y = 0; y < rows; y++) {
        float* to = room + (lead + y) * row;
        memset(to, 0, (size_t)before * sizeof *to);
        memcpy(to + before, from + y * run, (size_t)run * sizeof *to);
        memset(to + before + run, 0, (size_t)(row - before - run) * sizeof *to);
    }
    memset(room + (lead + rows) * row, 0, (size_t)((tall - lead - rows) * row) * sizeof *room);
    return (canvas){room, row};
}

static canvas framed_image(const nn_conv_shape* q, const float* image, float* scratch) {
    if (q->pad == 0) return (canvas){image, (int64_t)q->width * q->channels};
    return framed(image, q->height, q->width, q->channels, q->pad,
                  padded_side(q, q->height, q->rows), padded_side(q, q->width, q->cols),
                  scratch + packed_floats(q));
}

static canvas framed_grid(const nn_conv_shape* q, const float* grid, float* scratch) {
    return framed(grid, q->rows, q->cols, q->features, overlap(q) - 1,
                  grid_side(q, q->height, q->rows), grid_side(q, q->width, q->cols),
                  scratch + packed_floats(q));
}

// All columns of one row of places, by strips; b is packed.
static void row_of_places(nn_strip s, int columns, const float* b, const float* bias, int add) {
    const nn_tiles* t = nn_tiles_get();
    int64_t k = (int64_t)s.depth * s.segments;
    float* c = s.c;
    s.end = add ? NN_TILE_ADD : bias ? NN_TILE_BIAS : NN_TILE_SET;
    for (int j = 0; j < columns; j += t->cols) {
        s.width = columns - j < t->cols ? columns - j : t->cols;
        s.b = b + k * j;
        s.b_step = s.width > t->lanes ? t->cols : t->lanes;
        s.bias = bias ? bias + j : NULL;
        s.c = c + j;
        t->strip(&s);
    }
}

// ---- image to grid ------------------------------------------------------------------------------

void nn_conv_pack_gather(const nn_conv_shape* q, const float* w, void* scratch) {
    int k = q->kernel * q->kernel * q->channels;
    nn_gemm_pack(k, q->features, w, q->turned ? k : q->features, q->turned, scratch);
}

void nn_conv_gather(const nn_conv_shape* q, const float* image, const float* bias, nn_conv_end end,
                    float* grid, void* scratch) {
    canvas p = framed_image(q, image, scratch);
    for (int y = 0; y < q->rows; y++) {
        nn_strip s = {.a = p.at + y * q->stride * p.row,
                      .a_step = (int64_t)q->stride * q->channels,
                      .a_segment = p.row,
                      .m = q->cols,
                      .depth = q->kernel * q->channels,
                      .segments = q->kernel,
                      .c = grid + (int64_t)y * q->cols * q->features,
                      .ldc = q->features};
        row_of_places(s, q->features, scratch, bias, end == NN_CONV_ADD);
    }
}

// ---- grid to image ------------------------------------------------------------------------------
//
// Image rows fall into `stride` classes: row y meets the taps that are (y + pad) mod stride apart
// from 0, and with them neighbouring rows of the grid in reverse order. Columns likewise.

// taps of class r
static int taps_of(const nn_conv_shape* q, int r) {
    return (q->kernel - r + q->stride - 1) / q->stride;
}

void nn_conv_pack_spread(const nn_conv_shape* q, const float* w, void* scratch) {
    const nn_tiles* t = nn_tiles_get();
    int n = q->features, row = q->kernel * q->kernel * q->channels;
    float* to = scratch;
    for (int r = 0; r < q->stride * q->stride; r++) {
        int top = r / q->stride, left = r % q->stride;
        int down = taps_of(q, top), across = taps_of(q, left);
        for (int j = 0; j < q->channels; j += t->cols) {
            int width = q->channels - j < t->cols ? q->channels - j : t->cols;
            for (int tap = down * across - 1; tap >= 0; tap--) {
                int ky = top + tap / across * q->stride, kx = left + tap % across * q->stride;
                int64_t at = (int64_t)(ky * q->kernel + kx) * q->channels + j;
                if (q->turned)
                    t->pack(n, width, w + at, row, to);
                else
                    t->pack_turned(n, width, w + at * n, n, to);
                to += n * (width > t->lanes ? t->cols : t->lanes);
            }
        }
    }
}

// places of class r along a side: the first, and how many
static int first_place(const nn_conv_shape* q, int r) {
    return r < q->pad ? (q->pad - r + q->stride - 1) / q->stride : 0;
}

static int places(const nn_conv_shape* q, int r, int side) {
    int first = first_place(q, r) * q->stride + r - q->pad;
    return first < side ? (side - 1 - first) / q->stride + 1 : 0;
}

// image rows that no patch meets hold the bias, or nothing
static void spread_nothing(const nn_strip* s, int channels, const float* bias, int add) {
    for (int i = 0; i < s->m && !add; i++)
        for (int j = 0; j < channels; j++) s->c[i * s->ldc + j] = bias ? bias[j] : 0.0f;
}

void nn_conv_spread(const nn_conv_shape* q, const float* grid, const float* bias, nn_conv_end end,
                    float* image, void* scratch) {
    canvas p = framed_grid(q, grid, scratch);
    const float* b = scratch;
    int lead = overlap(q) - 1, add = end == NN_CONV_ADD;
    for (int r = 0; r < q->stride * q->stride; r++) {
        int top = r / q->stride, left = r % q->stride;
        int down = taps_of(q, top), across = taps_of(q, left);
        int y0 = first_place(q, top), x0 = first_place(q, left);
        for (int i = 0; i < places(q, top, q->height); i++) {
            int y = (y0 + i) * q->stride + top - q->pad, x = x0 * q->stride + left - q->pad;
            nn_strip s = {.a_step = q->features,
                          .a_segment = p.row,
                          .m = places(q, left, q->width),
                          .depth = across * q->features,
                          .segments = down,
                          .c = image + ((int64_t)y * q->width + x) * q->channels,
                          .ldc = (int64_t)q->stride * q->channels};
            if (s.m == 0) continue;
            if (down * across == 0) {
                spread_nothing(&s, q->channels, bias, add);
                continue;
            }
            s.a = p.at + (y0 + i - down + 1 + lead) * p.row +
                  (int64_t)(x0 - across + 1 + lead) * q->features;
            row_of_places(s, q->channels, b, bias, add);
        }
        b += nn_gemm_packed((int64_t)down * across * q->features, q->channels);
    }
}

// ---- gradient of the weights --------------------------------------------------------------------

// dw (k*k*channels, features) += patches' grid: for each row of taps a product of its own
static void weights_of_gather(const nn_conv_shape* q, canvas p, const float* grid, float* dw,
                              float* packed) {
    const nn_tiles* t = nn_tiles_get();
    int n = q->features, run = q->kernel * q->channels, m = q->rows * q->cols;
    nn_gemm_pack(m, n, grid, n, 0, packed);
    for (int y = 0; y < q->rows; y += chunk_rows(q)) {
        int rows = q->rows - y < chunk_rows(q) ? q->rows - y : chunk_rows(q);
        for (int j = 0; j < n; j += t->cols) {
            int width = n - j < t->cols ? n - j : t->cols;
            int step = width > t->lanes ? t->cols : t->lanes;
            for (int ky = 0; ky < q->kernel; ky++) {
                nn_strip s = {.a = p.at + (y * q->stride + ky) * p.row,
                              .a_step = (int64_t)q->stride * q->channels,
                              .a_segment = q->stride * p.row,
                              .by_columns = 1,
                              .m = run,
                              .depth = q->cols,
                              .segments = rows,
                              .b = packed + (int64_t)m * j + (int64_t)y * q->cols * step,
                              .b_step = step,
                              .c = dw + (int64_t)ky * run * n + j,
                              .ldc = n,
                              .width = width,
                              .end = NN_TILE_ADD};
                t->strip(&s);
            }
        }
    }
}

// dw (features, k*k*channels) += grid' patches
static void weights_of_spread(const nn_conv_shape* q, canvas p, const float* grid, float* dw,
                              float* packed) {
    const nn_tiles* t = nn_tiles_get();
    int run = q->kernel * q->channels;
    for (int y = 0; y < q->rows; y += chunk_rows(q)) {
        int rows = q->rows - y < chunk_rows(q) ? q->rows - y : chunk_rows(q);
        for (int ky = 0; ky < q->kernel; ky++) {
            for (int j = 0; j < run; j += t->cols) {
                int width = run - j < t->cols ? run - j : t->cols;
                int step = width > t->lanes ? t->cols : t->lanes;
                for (int i = 0; i < rows; i++)
                    t->pack(q->cols, width, p.at + ((y + i) * q->stride + ky) * p.row + j,
                            (int64_t)q->stride * q->channels, packed + i * q->cols * step);
                nn_strip s = {.a = grid + (int64_t)y * q->cols * q->features,
                              .a_step = q->features,
                              .by_columns = 1,
                              .m = q->features,
                              .depth = rows * q->cols,
                              .segments = 1,
                              .b = packed,
                              .b_step = step,
                              .c = dw + (int64_t)ky * run + j,
                              .ldc = (int64_t)q->kernel * run,
                              .width = width,
                              .end = NN_TILE_ADD};
                t->strip(&s);
            }
        }
    }
}

void nn_conv_weights(const nn_conv_shape* q, const float* image, const float* grid, float* dw,
                     void* scratch) {
    canvas p = framed_image(q, image, scratch);
    if (q->turned)
        weights_of_spread(q, p, grid, dw, scratch);
    else
        weights_of_gather(q, p, grid, dw, scratch);
}
