// render/tworoom.c - TwoRoom's picture, 224 x 224 RGB, with the reference's quirks.
//
// Rooms are black on white and never move, so they are drawn once and copied. The agent is a red
// Gaussian dot blended in float32 and truncated:
//     w   = exp(-((col - x)^2 + (row - y)^2) / 98),  divided by its maximum over the image
//     out = base * (1 - w) + colour * w
// Over white the red channel 255 * (1 - w) + 255 * w often comes out as 254.99998 and becomes 254:
// a speckle of 400-500 such pixels belongs to every frame. This file must not be built with fused
// multiply-add contraction (the project's flags say so).
//
// Same bits on every machine: only IEEE +, -, *, / are used, exp included. Each w is the float32
// definition with exp rounded correctly in all but about one pixel in 10^5; math libraries differ
// by an ulp there, which moves a channel by at most 1 level.
#include "env/tworoom.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum {
    SIZE = ENV_IMAGE,
    LANES = 8,  // columns are handled in groups of this many, a whole number per row
    GROUPS = SIZE / LANES
};
_Static_assert(SIZE % LANES == 0, "rows divide into groups of columns");

// Beyond this squared distance over the nearest pixel's, w <= exp(-18) = 1.5e-8 after
// normalisation: below half an ulp of 1 (2^-25 = 3.0e-8), so 1 - w is 1 in float32; 255 * w
// = 3.9e-6 is below half an ulp of 255 (7.6e-6), and over black it truncates to 0. Such pixels keep
// their base value.
#define REACH2 1764.0  // 42^2, and 1764 / 98 = 18

static uint8_t background[SIZE * SIZE * 3];
static float base_level[SIZE * SIZE];  // 255 or 0: all three channels of the background are equal
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void draw_background(void) {
    const int wall = (int)TWOROOM_WALL_X, door = (int)TWOROOM_DOOR_Y;
    const int inner = TWOROOM_BORDER - TWOROOM_BORDER_LINE, outer = SIZE - TWOROOM_BORDER;
    for (int row = 0; row < SIZE; row++)
        for (int col = 0; col < SIZE; col++) {
            int in_wall = col >= wall - TWOROOM_WALL_HALF && col <= wall + TWOROOM_WALL_HALF;
            int in_door = row >= door - TWOROOM_DOOR_HALF && row <= door + TWOROOM_DOOR_HALF;
            // border lines run to the picture's edges and win over the door
            int line = (col >= inner && col < TWOROOM_BORDER) ||
                       (col >= outer && col < outer + TWOROOM_BORDER_LINE) ||
                       (row >= inner && row < TWOROOM_BORDER) ||
                       (row >= outer && row < outer + TWOROOM_BORDER_LINE);
            int black = line || (in_wall && !in_door);
            base_level[row * SIZE + col] = black ? 0.0f : 255.0f;
            memset(background + 3 * (row * SIZE + col), black ? 0 : 255, 3);
        }
}

// exp(x) for x <= 0 to about 1 ulp of a double, from basic operations alone so that every machine
// agrees: x = k ln 2 + r, Taylor series in r, |r| <= 0.35.
static double exp_fixed(double x) {
    if (x < -700.0) return 0.0;
    double k = floor(x * 1.4426950408889634 + 0.5);
    // ln 2 in two parts; the first has few bits, so k times it is exact
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double sum = 1.0;
    for (int n = 14; n >= 1; n--) sum = 1.0 + sum * r / n;
    return ldexp(sum, (int)k);
}

// One axis: for each pixel index i the float32 difference to p, its square as the definition has
// it, the exact exponent -(difference)^2 / 98 in double and its exp. Returns the index nearest to
// p.
typedef struct axis {
    float diff[SIZE], square[SIZE];
    double exponent[SIZE], weight[SIZE];
    int first, last;  // indices that can matter; others hold nothing
} axis;

static int axis_fill(axis* a, float p) {
    int nearest = p <= 0.0f ? 0 : p >= SIZE - 1 ? SIZE - 1 : (int)(p + 0.5f);
    double gap = nearest - (double)p;
    double reach = sqrt(REACH2 + gap * gap);  // outside the picture the dot spreads over its edge
    double low = p - reach - 1.0, high = p + reach + 1.0;
    // whole groups of columns, so that the loops below have a fixed length
    a->first = low <= 0.0 ? 0 : (int)low / LANES * LANES;
    a->last = high >= SIZE ? SIZE : ((int)high + LANES) / LANES * LANES;
    if (a->last > SIZE) a->last = SIZE;
    for (int i = a->first; i < a->last; i++) {
        float d = (float)i - p;
        a->diff[i] = d;
        a->square[i] = d * d;
        a->exponent[i] = -((double)d * d) / 98.0;
        a->weight[i] = exp_fixed(a->exponent[i]);
    }
    return nearest;
}

// float32 exp of the float32 exponent. The product of the two axes' exps belongs to the exact
// exponent; float32 rounding moved it by delta (below 2e-6), and exp(delta) = 1 + delta to 2e-12.
static inline float weight_at(float sx, double ex, double wx, float sy, double ey, double wy) {
    float exponent = -(sx + sy) / 98.0f;
    double delta = (double)exponent - (ex + ey);
    return (float)(wx * wy * (1.0 + delta));
}

void tworoom_draw(float x, float y, uint8_t* rgb) {
    pthread_once(&once, draw_background);
    memcpy(rgb, background, sizeof background);

    // far outside, every w underflows to 0 and nothing shows; also keeps the index arithmetic small
    if (!(x > -1000.0f && x < 1000.0f && y > -1000.0f && y < 1000.0f)) return;
    axis h, v;
    int near_col = axis_fill(&h, x), near_row = axis_fill(&v, y);
    // the definition is monotone in both differences, so its maximum is at the nearest pixel
    float peak = weight_at(h.square[near_col], h.exponent[near_col], h.weight[near_col],
                           v.square[near_row], v.exponent[near_row], v.weight[near_row]);
    if (!(peak > 0.0f)) return;
    double limit = REACH2 + (double)h.square[near_col] + v.square[near_row];

    for (int row = v.first; row < v.last; row++) {
        if (v.square[row] + (double)h.square[near_col] > limit) continue;
        const float sy = v.square[row];
        const double ey = v.exponent[row], wy = v.weight[row];
        for (int col = h.first; col < h.last; col += LANES) {
            // skip a group whose nearer end is out of reach
            float left = h.square[col], right = h.square[col + LANES - 1];
            int spans = h.diff[col] <= 0.0f && h.diff[col + LANES - 1] >= 0.0f;
            if (!spans && (double)(left < right ? left : right) + sy > limit) continue;

            const float* base = base_level + row * SIZE + col;
            float w[LANES];
            int red[LANES], rest[LANES];
            for (int i = 0; i < LANES; i++)
                w[i] = weight_at(h.square[col + i], h.exponent[col + i], h.weight[col + i], sy, ey,
                                 wy);
            for (int i = 0; i < LANES; i++) {
                float a = w[i] / peak;
                a = a > 1.0f ? 1.0f : a;
                float kept = base[i] * (1.0f - a);
                red[i] = (int)(kept + 255.0f * a);  // truncates, as the reference's cast does
                rest[i] = (int)kept;
            }
            uint8_t* out = rgb + 3 * (row * SIZE + col);
            for (int i = 0; i < LANES; i++) {
                out[3 * i] = (uint8_t)red[i];
                out[3 * i + 1] = (uint8_t)rest[i];
                out[3 * i + 2] = (uint8_t)rest[i];
            }
        }
    }
}
