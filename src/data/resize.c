// resize.c - one table of weights for each axis, applied to the rows first. Weights are whole
// numbers of 1 / ONE that add up to ONE exactly, so an even colour stays what it is on any machine.
#include "data/resize.h"

#include "core/mem.h"

enum { ONE = 1 << 14 };

// Pixel i of an axis is the sum over k < count[i] of weight[i * most + k] times pixel first[i] + k.
typedef struct axis {
    int most;
    int *first, *count;  // (size)
    int* weight;         // (size, most)
} axis;

struct resize {
    int height, width, size;
    axis across, down;
    uint8_t* source;  // (height, width, 3)
    int* rows;        // (height, size, 3) in units of 1 / ONE
};

static int axis_alloc(axis* a, int from, int size) {
    a->most = from / size + 2;
    a->first = mem_calloc((size_t)size, sizeof *a->first);
    a->count = mem_calloc((size_t)size, sizeof *a->count);
    a->weight = mem_calloc((size_t)size, (size_t)a->most * sizeof *a->weight);
    return a->first && a->count && a->weight;
}

// Pixel i covers from * i / size to from * (i + 1) / size; lengths in units of 1 / size are whole.
static void fill_area(axis* a, int from, int size, int i) {
    int64_t low = (int64_t)from * i, high = low + from;
    int first = (int)(low / size), last = (int)((high - 1) / size), left = ONE;
    a->first[i] = first;
    a->count[i] = last - first + 1;
    for (int k = 0; k < a->count[i]; k++) {
        int64_t begin = (int64_t)(first + k) * size, end = begin + size;
        if (begin < low) begin = low;
        if (end > high) end = high;
        int w = (int)(((end - begin) * ONE + from / 2) / from);
        a->weight[i * a->most + k] = w;
        left -= w;
    }
    a->weight[i * a->most + a->count[i] / 2] += left;  // what rounding lost or gained
}

// The middle of pixel i lies at from * (2 i + 1) / (2 size) - 1/2, between two pixels.
static void fill_between(axis* a, int from, int size, int i) {
    int64_t at = (int64_t)from * (2 * i + 1) - size;  // in units of 1 / (2 size)
    int first = at < 0 ? 0 : (int)(at / (2 * size));
    int64_t rest = at < 0 ? 0 : at - (int64_t)first * 2 * size;
    a->first[i] = first;
    a->count[i] = first + 1 < from ? 2 : 1;
    int w = a->count[i] == 2 ? (int)((rest * ONE + size) / (2 * size)) : 0;
    a->weight[i * a->most] = ONE - w;
    if (a->count[i] == 2) a->weight[i * a->most + 1] = w;
}

static int axis_fill(axis* a, int from, int size) {
    if (!axis_alloc(a, from, size)) return 0;
    for (int i = 0; i < size; i++) (from > size ? fill_area : fill_between)(a, from, size, i);
    return 1;
}

static void axis_free(axis* a) {
    mem_free(a->first);
    mem_free(a->count);
    mem_free(a->weight);
}

firm_status resize_create(int height, int width, int size, resize** out, firm_error* err) {
    *out = NULL;
    if (height < RESIZE_LEAST || height > RESIZE_MOST || width < RESIZE_LEAST ||
        width > RESIZE_MOST)
        return FAIL(err, FIRM_E_FORMAT,
                    "pictures of %d x %d pixels cannot be resized; give %d to %d a side", height,
                    width, RESIZE_LEAST, RESIZE_MOST);
    resize* r = mem_calloc(1, sizeof *r);
    size_t h = (size_t)height, w = (size_t)width, s = (size_t)size;
    int fits = 0;
    if (r) {
        *r = (resize){.height = height, .width = width, .size = size};
        r->source = mem_alloc(h * w * 3);
        r->rows = mem_alloc(h * s * 3 * sizeof *r->rows);
        fits = axis_fill(&r->across, width, size) & axis_fill(&r->down, height, size) &&
               r->source && r->rows;
    }
    if (!fits) {
        resize_free(r);
        return FAIL(err, FIRM_E_MEMORY, "no memory to resize pictures");
    }
    *out = r;
    return FIRM_OK;
}

void resize_run(resize* r, const uint8_t* from, uint8_t* to) {
    for (int y = 0; y < r->height; y++)
        for (int x = 0; x < r->size; x++) {
            const int* weight = r->across.weight + x * r->across.most;
            const uint8_t* p = from + 3 * ((int64_t)y * r->width + r->across.first[x]);
            int sum[3] = {0};
            for (int k = 0; k < r->across.count[x]; k++)
                for (int ch = 0; ch < 3; ch++) sum[ch] += weight[k] * p[3 * k + ch];
            for (int ch = 0; ch < 3; ch++) r->rows[3 * (y * r->size + x) + ch] = sum[ch];
        }
    for (int y = 0; y < r->size; y++) {
        const int* weight = r->down.weight + y * r->down.most;
        const int* p = r->rows + 3 * (int64_t)r->down.first[y] * r->size;
        for (int i = 0; i < 3 * r->size; i++) {
            int64_t sum = (int64_t)ONE * ONE / 2;
            for (int k = 0; k < r->down.count[y]; k++)
                sum += (int64_t)weight[k] * p[(int64_t)3 * k * r->size + i];
            to[(int64_t)3 * y * r->size + i] = (uint8_t)(sum / ((int64_t)ONE * ONE));
        }
    }
}

uint8_t* resize_source(resize* r) {
    return r->source;
}

void resize_free(resize* r) {
    if (!r) return;
    axis_free(&r->across);
    axis_free(&r->down);
    mem_free(r->source);
    mem_free(r->rows);
    mem_free(r);
}
