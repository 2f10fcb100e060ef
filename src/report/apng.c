// apng.c - the encoder of apng.h: palette by splitting the colour space, then the chunks IHDR,
// acTL, PLTE, tRNS and per frame fcTL with IDAT (first) or fdAT, each with its CRC.
#include "report/apng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"

enum { BINS = 1 << 15, COLOURS = 1 << 24 };

firm_status apng_create(apng* a, int width, int height, firm_error* err) {
    size_t n = (size_t)width * (size_t)height;
    memset(a, 0, sizeof *a);
    a->width = width;
    a->height = height;
    a->colours = 1;
    a->bins = mem_calloc(BINS, sizeof *a->bins);
    a->nearest = mem_calloc(COLOURS, 1);
    a->now = mem_alloc(n);
    a->last = mem_alloc(n);
    a->packed = mem_alloc(n + (size_t)height);
    if (a->bins && a->nearest && a->now && a->last && a->packed) return FIRM_OK;
    apng_free(a);
    return FAIL(err, FIRM_E_MEMORY, "out of memory for an animation of %d x %d pixels", width,
                height);
}

void apng_free(apng* a) {
    mem_free(a->bins);
    mem_free(a->nearest);
    mem_free(a->now);
    mem_free(a->last);
    mem_free(a->packed);
    html_free(&a->out);
    memset(a, 0, sizeof *a);
}

// ---- palette ------------------------------------------------------------------------------------

void apng_keep(apng* a, colour c) {
    uint8_t* p = a->palette[a->colours++];
    p[0] = c.r, p[1] = c.g, p[2] = c.b;
}

void apng_count(apng* a, const uint8_t* rgb) {
    size_t n = (size_t)a->width * (size_t)a->height;
    for (size_t i = 0; i < n; i++, rgb += 3) {
        apng_bin* b = &a->bins[(rgb[0] >> 3) << 10 | (rgb[1] >> 3) << 5 | rgb[2] >> 3];
        if (b->count >= 1u << 23)
            continue;  // sums stay within 32 bits; the mean is settled by then
        b->count++;
        b->r += rgb[0], b->g += rgb[1], b->b += rgb[2];
    }
}

typedef struct point {
    double v[3], weight;
} point;

typedef struct cell {  // points first .. last - 1
    int first, last, axis;
    double mean[3], spread;  // spread: weighted square deviation along its widest axis
} cell;

static cell measure(const point* p, int first, int last) {
    cell c = {.first = first, .last = last};
    double total = 0, widest = -1;
    for (int i = first; i < last; i++) {
        total += p[i].weight;
        for (int k = 0; k < 3; k++) c.mean[k] += p[i].weight * p[i].v[k];
    }
    for (int k = 0; k < 3; k++) {
        double square = 0;
        c.mean[k] /= total;
        for (int i = first; i < last; i++)
            square += p[i].weight * (p[i].v[k] - c.mean[k]) * (p[i].v[k] - c.mean[k]);
        if (square > widest) {
            widest = square;
            c.axis = k;
        }
    }
    c.spread = last - first > 1 ? widest : 0;
    return c;
}

// Moves the points below the mean of the widest axis to the front; returns where the others begin.
static int divide(point* p, const cell* c) {
    int middle = c->first;
    for (int i = c->first; i < c->last; i++) {
        if (p[i].v[c->axis] > c->mean[c->axis]) continue;
        point t = p[i];
        p[i] = p[middle];
        p[middle++] = t;
    }
    return middle;
}

static void choose_palette(apng* a, point* p, int n, cell* cells) {
    int count = 1, room = 256 - a->colours;
    cells[0] = measure(p, 0, n);
    while (count < room) {
        int best = 0;
        for (int i = 1; i < count; i++) {
            if (cells[i].spread > cells[best].spread) best = i;
        }
        if (cells[best].spread < 1e-6) break;
        int first = cells[best].first, last = cells[best].last, middle = divide(p, &cells[best]);
        if (middle == first || middle == last) {
            cells[best].spread = 0;  // rounding left nothing to divide
            continue;
        }
        cells[best] = measure(p, first, middle);
        cells[count++] = measure(p, middle, last);
    }
    for (int i = 0; i < count; i++) {
        uint8_t* entry = a->palette[a->colours++];
        for (int k = 0; k < 3; k++) entry[k] = (uint8_t)(cells[i].mean[k] + 0.5);
    }
}

static uint8_t find_nearest(const apng* a, const uint8_t* rgb) {
    int best = 1, least = 1 << 30;
    for (int i = 1; i < a->colours; i++) {
        int dr = rgb[0] - a->palette[i][0], dg = rgb[1] - a->palette[i][1],
            db = rgb[2] - a->palette[i][2];
        int d = 2 * dr * dr + 4 * dg * dg + db * db;  // eyes see green best
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return (uint8_t)best;
}

// ---- chunks -------------------------------------------------------------------------------------

static void put32(uint8_t* p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put_chunk(apng* a, const char* type, const uint8_t* head, size_t head_size,
                      const uint8_t* body, size_t size) {
    uint8_t word[4];
    uint32_t crc = (uint32_t)crc32(0, (const Bytef*)type, 4);
    if (head_size) crc = (uint32_t)crc32(crc, head, (uInt)head_size);
    if (size) crc = (uint32_t)crc32(crc, body, (uInt)size);
    put32(word, (uint32_t)(head_size + size));
    html_bytes(&a->out, word, 4);
    html_bytes(&a->out, type, 4);
    html_bytes(&a->out, head, head_size);
    html_bytes(&a->out, body, size);
    put32(word, crc);
    html_bytes(&a->out, word, 4);
}

static void* zlib_alloc(void* user, unsigned count, unsigned size) {
    (void)user;
    return mem_calloc(count, size);
}

static void zlib_free(void* user, void* p) {
    (void)user;
    mem_free(p);
}

static firm_status compress_lines(const uint8_t* lines, size_t n, uint8_t** packed, size_t* size,
                                  firm_error* err) {
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    // level 9 makes pictures 6 % smaller, and a page takes 40 % longer
    if (deflateInit(&z, 7) != Z_OK)
        return FAIL(err, FIRM_E_MEMORY, "out of memory for the animation");
    size_t room = deflateBound(&z, n);
    *packed = mem_alloc(room);
    if (*packed) {
        z.next_in = (Bytef*)lines;
        z.avail_in = (uInt)n;
        z.next_out = *packed;
        z.avail_out = (uInt)room;
    }
    int done = *packed && deflate(&z, Z_FINISH) == Z_STREAM_END;
    *size = room - z.avail_out;
    deflateEnd(&z);
    if (done) return FIRM_OK;
    mem_free(*packed);
    *packed = NULL;
    return FAIL(err, FIRM_E_MEMORY, "out of memory for the animation");
}

firm_status apng_begin(apng* a, int frames, firm_error* err) {
    point* p = mem_alloc(BINS * sizeof *p);
    cell* cells = mem_alloc(256 * sizeof *cells);
    int n = 0;
    if (!p || !cells) {
        mem_free(p);
        mem_free(cells);
        return FAIL(err, FIRM_E_MEMORY, "out of memory for the animation's palette");
    }
    for (int i = 0; i < BINS; i++) {
        const apng_bin* b = &a->bins[i];
        if (!b->count) continue;
        // square root: the empty background must not take the whole palette
        p[n++] =
            (point){{(double)b->r / b->count, (double)b->g / b->count, (double)b->b / b->count},
                    sqrt(b->count)};
    }
    if (n) choose_palette(a, p, n, cells);
    mem_free(p);
    mem_free(cells);

    uint8_t header[13], control[8], clear = 0;
    put32(header, (uint32_t)a->width);
    put32(header + 4, (uint32_t)a->height);
    memcpy(header + 8, "\x08\x03\0\0\0", 5);  // 8 bits, palette, deflate, no interlace
    put32(control, (uint32_t)frames);
    put32(control + 4, 0);  // for ever
    a->frames_left = frames;
    a->first = 1;
    html_bytes(&a->out, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(a, "IHDR", NULL, 0, header, 13);
    put_chunk(a, "acTL", NULL, 0, control, 8);
    put_chunk(a, "PLTE", NULL, 0, a->palette[0], (size_t)a->colours * 3);
    put_chunk(a, "tRNS", NULL, 0, &clear, 1);
    return FIRM_OK;
}

// The rectangle that changed; a single pixel when nothing did.
static void changed(const apng* a, int rect[4]) {
    int left = a->width, top = a->height, right = 0, bottom = 0;
    for (int y = 0; y < a->height; y++) {
        const uint8_t *now = a->now + (size_t)y * (size_t)a->width,
                      *last = a->last + (size_t)y * (size_t)a->width;
        for (int x = 0; x < a->width; x++) {
            if (now[x] == last[x]) continue;
            if (x < left) left = x;
            if (x + 1 > right) right = x + 1;
            if (y < top) top = y;
            bottom = y + 1;
        }
    }
    if (right == 0) left = top = 0, right = bottom = 1;
    rect[0] = left, rect[1] = top, rect[2] = right - left, rect[3] = bottom - top;
}

firm_status apng_frame(apng* a, const uint8_t* rgb, int delay_ms, firm_error* err) {
    CHECK(a->frames_left > 0, "more frames than announced");
    size_t n = (size_t)a->width * (size_t)a->height;
    for (size_t i = 0; i < n; i++, rgb += 3) {
        uint8_t* known = &a->nearest[rgb[0] << 16 | rgb[1] << 8 | rgb[2]];
        if (!*known) *known = find_nearest(a, rgb);
        a->now[i] = *known;
    }
    int rect[4] = {0, 0, a->width, a->height}, over = a->over && !a->first;
    if (!a->first) changed(a, rect);
    uint8_t* out = a->packed;
    for (int y = rect[1]; y < rect[1] + rect[3]; y++) {
        *out++ = 0;  // filter none: palette entries have no slope to predict
        for (int x = rect[0]; x < rect[0] + rect[2]; x++) {
            size_t at = (size_t)y * (size_t)a->width + (size_t)x;
            *out++ = over && a->now[at] == a->last[at] ? 0 : a->now[at];
        }
    }
    uint8_t *packed = NULL, control[26], number[4];
    size_t size = 0;
    TRY(compress_lines(a->packed, (size_t)(out - a->packed), &packed, &size, err));
    put32(control, a->sequence++);
    put32(control + 4, (uint32_t)rect[2]);
    put32(control + 8, (uint32_t)rect[3]);
    put32(control + 12, (uint32_t)rect[0]);
    put32(control + 16, (uint32_t)rect[1]);
    control[20] = (uint8_t)(delay_ms >> 8), control[21] = (uint8_t)delay_ms;
    control[22] = 1000 >> 8, control[23] = 1000 & 255;
    control[24] = 0;              // leave the frame in place
    control[25] = (uint8_t)over;  // 0 replaces the rectangle, 1 paints over it
    put_chunk(a, "fcTL", NULL, 0, control, 26);
    if (a->first) {
        put_chunk(a, "IDAT", NULL, 0, packed, size);
    } else {
        put32(number, a->sequence++);
        put_chunk(a, "fdAT", number, 4, packed, size);
    }
    mem_free(packed);
    uint8_t* swap = a->last;
    a->last = a->now;
    a->now = swap;
    a->first = 0;
    a->frames_left--;
    return FIRM_OK;
}

firm_status apng_end(apng* a, firm_error* err) {
    CHECK(a->frames_left == 0, "fewer frames than announced");
    put_chunk(a, "IEND", NULL, 0, NULL, 0);
    if (a->out.failed) return FAIL(err, FIRM_E_MEMORY, "out of memory for the animation");
    return FIRM_OK;
}
