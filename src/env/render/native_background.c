// native_background.c - everything that stands still, drawn once: for each sample its depth and
// fragment, for each pixel its finished colour. A frame then only adds what moves, and the shadows
// that move.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/render/native.h"

// ---- sky ----

static void normalise(float v[3]) {
    float inv = 1 / sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int k = 0; k < 3; k++) v[k] *= inv;
}

// Sky in a world direction: the texture's own axes are the world's, turned by a quarter about x.
static void sky_colour(const scene* s, const float d[3], float step, float rgb[3]) {
    rgb[0] = rgb[1] = rgb[2] = 0;
    if (s->sky < 0) return;
    const texture* t = s->texture[s->sky];
    const float turned[3] = {d[0], d[2], -d[1]};
    // texels a pixel covers: the face is `width` texels over twice the distance to it
    float major = fabsf(d[0]);
    for (int k = 1; k < 3; k++)
        if (fabsf(d[k]) > major) major = fabsf(d[k]);
    float texels = step / major * 0.5f * (float)t->width[0];
    int e;
    float f = frexpf(texels > 1e-6f ? texels : 1e-6f, &e);
    native_texture_cube(t, turned, (float)e - 1 + (2 * f - 1), rgb);
}

// Over an endless plane MuJoCo hangs a ring of haze below eye level: a funnel from the plane
// (radius 1 - haze, in units of the sky's distance) up to the eye (radius 1), clear at both ends
// and full at haze / (1 + haze) of its height. `depth` is 1 / distance of what is behind.
static void add_haze(const scene* s, const mjModel* m, const float d[3], float depth, fragment* f) {
    if (s->haze < 0) return;
    const geom* g = s->geom + s->haze;
    const camera* c = &s->camera[0];
    float up[3] = {g->mat[2], g->mat[5], g->mat[8]}, high = 0, rise = 0, ahead = 0;
    for (int k = 0; k < 3; k++) {
        high += (c->pos[k] - g->pos[k]) * up[k];
        rise += d[k] * up[k];
        ahead -= d[k] * c->back[k];
    }
    float sky = 0.7f * (float)(m->vis.map.zfar * m->stat.extent), r = m->vis.map.haze;
    float flat = sqrtf(1 - rise * rise > 0 ? 1 - rise * rise : 0);
    if (high <= 0 || rise >= 0 || flat < 1e-3f) return;
    float slope = -rise / flat, below = slope / (high / sky + r * slope), h = 1 - below;
    if (h < 0 || h > 1) return;
    float away = sky * (1 - r * below) / flat;  // along the ray
    if (1 < away * ahead * depth) return;       // something is nearer
    float full = r / (1 + r), alpha = h < full ? h / full : (1 - h) / (1 - full);
    for (int k = 0; k < 3; k++) f->plain[k] += alpha * (m->vis.rgba.haze[k] - f->plain[k]);
    for (int i = 0; i < s->shadows; i++)
        for (int k = 0; k < 3; k++) f->cast[i][k] *= 1 - alpha;
}

static void direction(const scene* s, int x, int y, float d[3]) {
    const camera* c = &s->camera[0];
    float half = 0.5f * (float)s->size;
    float px = ((float)x + 0.5f - half) / c->focal, py = (half - (float)y - 0.5f) / c->focal;
    for (int k = 0; k < 3; k++) d[k] = px * c->right[k] + py * c->up[k] - c->back[k];
    normalise(d);
}

static void shade_sky(const scene* s, const float d[3], fragment* f) {
    const camera* c = &s->camera[0];
    float ahead = -(d[0] * c->back[0] + d[1] * c->back[1] + d[2] * c->back[2]);
    memset(f, 0, sizeof *f);
    sky_colour(s, d, ahead / c->focal, f->plain);
}

// ---- fragments ----

static int add_fragment(background* b, const fragment* f) {
    if (b->count == b->capacity) {
        size_t old = (size_t)b->capacity, now = old ? 2 * old : 65536;
        fragment* grown =
            mem_realloc(b->fragments, old * sizeof *b->fragments, now * sizeof *b->fragments);
        if (!grown) return -1;
        b->fragments = grown;
        b->capacity = (int)now;
    }
    b->fragments[b->count] = *f;
    return b->count++;
}

// Notes where in shadow map i the pixel must be looked up. Of several surfaces in a pixel the last
// that the light reaches stands for all: they differ in a narrow line at most.
static void note_texel(background* b, const shadow_map* map, int i, const fragment* f, int x, int y,
                       int size) {
    size_t row = (size_t)y * NATIVE_MAX_SHADOWS + (size_t)i;
    int16_t *texel = b->texel + 2 * (row * (size_t)size + (size_t)x), *range = b->range + 4 * row;
    const float *where = f->where[i], *c = f->cast[i], most = (float)map->size;
    if (!(c[0] + c[1] + c[2] > 0 && where[0] >= 0 && where[1] >= 0)) return;
    if (where[0] >= most || where[1] >= most) return;
    for (int k = 0; k < 2; k++) {
        texel[k] = (int16_t)where[k];
        if (texel[k] < range[k]) range[k] = texel[k];
        if (texel[k] > range[2 + k]) range[2 + k] = texel[k];
    }
}

// Gives every sample its fragment, and every pixel its common one.
static int name_fragments(scene* s, const mjModel* m) {
    background* b = &s->back;
    for (int y = 0; y < s->size; y++)
        for (int x = 0; x < s->size; x++) {
            uint32_t seen[4];
            int32_t given[4];
            int many = 0;
            for (int k = 0; k < 4; k++) {
                size_t at = (size_t)(4 * y + k) * (size_t)s->size + (size_t)x;
                uint32_t id = s->front.id[at], surface = id;
                // the triangles of a plane are one surface
                if (id != NATIVE_NONE && s->geom[id >> NATIVE_TRI_BITS].flat)
                    surface = id >> NATIVE_TRI_BITS << NATIVE_TRI_BITS;
                int i = 0;
                while (i < many && seen[i] != surface) i++;
                if (i == many) {
                    fragment f;
                    float d[3];
                    direction(s, x, y, d);
                    if (id == NATIVE_NONE)
                        shade_sky(s, d, &f);
                    else
                        native_shade(s, 0, id, x, y, &f);
                    add_haze(s, m, d, s->front.depth[at], &f);
                    f.reflecting = id != NATIVE_NONE && (int)(id >> NATIVE_TRI_BITS) == s->mirror;
                    seen[many] = surface;
                    given[many++] = add_fragment(b, &f);
                    if (given[i] < 0) return 0;
                }
                b->frag[at] = given[i];
            }
            size_t pixel = (size_t)y * (size_t)s->size + (size_t)x;
            b->single[pixel] = many == 1 ? given[0] : -1;
            for (int i = 0; i < s->shadows; i++)
                for (int k = 0; k < many; k++)
                    note_texel(b, &s->shadow[i], i, b->fragments + given[k], x, y, s->size);
        }
    return 1;
}

static void colour_mirror(scene* s) {
    background* b = &s->back;
    memset(b->mirror_dark, 1, (size_t)s->size * (size_t)s->size);
    for (int r = 0; r < 4 * s->size; r++)
        for (int x = 0; x < s->size; x++) {
            size_t at = (size_t)r * (size_t)s->size + (size_t)x;
            uint32_t id = s->reflected.id[at];
            for (int k = 0; k < 3; k++) b->mirror_rgb[3 * at + (size_t)k] = 0;
            if (id == NATIVE_NONE) continue;
            b->mirror_dark[r / 4 * s->size + x] = 0;
            fragment f;
            native_shade(s, 1, id, x, r / 4, &f);
            for (int k = 0; k < 3; k++) {
                float v = f.plain[k] < 1 ? f.plain[k] : 1;
                b->mirror_rgb[3 * at + (size_t)k] = (uint8_t)(v * 255.0f + 0.5f);
            }
        }
}

static void whole(samples* s) {
    s->box[0] = s->box[1] = 0;
    s->box[2] = s->box[3] = s->size;
}

firm_status native_background_create(scene* s, const mjModel* m, firm_error* err) {
    background* b = &s->back;
    size_t pixels = (size_t)s->size * (size_t)s->size, all = 4 * pixels;
    b->depth = mem_alloc(all * sizeof *b->depth);
    b->frag = mem_alloc(all * sizeof *b->frag);
    b->single = mem_alloc(pixels * sizeof *b->single);
    b->texel = mem_alloc(pixels * 2 * NATIVE_MAX_SHADOWS * sizeof *b->texel);
    b->rgb = mem_calloc(pixels, 3);
    b->range = mem_alloc((size_t)s->size * 4 * NATIVE_MAX_SHADOWS * sizeof *b->range);
    int ok = b->depth && b->frag && b->single && b->texel && b->range && b->rgb;
    if (s->mirror >= 0) {
        b->mirror_depth = mem_alloc(all * sizeof *b->mirror_depth);
        b->mirror_rgb = mem_alloc(all * 3);
        b->mirror_dark = mem_alloc(pixels);
        ok = ok && b->mirror_depth && b->mirror_rgb && b->mirror_dark;
    }
    if (!ok) return FAIL(err, FIRM_E_MEMORY, "no memory for a background of %d pixels", s->size);

    memset(b->texel, 0xff, pixels * 2 * NATIVE_MAX_SHADOWS * sizeof *b->texel);
    for (int i = 0; i < 4 * s->size * NATIVE_MAX_SHADOWS; i++)
        b->range[i] = i % 4 < 2 ? INT16_MAX : -1;

    // shadows of what stands still
    s->frame++;
    for (int i = 0; i < s->shadows; i++) {
        shadow_map* map = &s->shadow[i];
        memset(map->depth, 0, (size_t)map->size * (size_t)map->size * sizeof *map->depth);
        for (int g = 0; g < s->geoms; g++)
            if (s->geom[g].still) native_draw_shadow(map, s->geom + g, i);
        memcpy(map->still, map->depth, (size_t)map->size * (size_t)map->size * sizeof *map->depth);
        native_shadow_clear(map);
    }
    // surfaces, also in the mirror
    whole(&s->front);
    native_samples_clear(&s->front, NULL);
    for (int g = 0; g < s->geoms; g++)
        if (s->geom[g].still) native_draw(&s->camera[0], s->geom + g, 0, (uint32_t)g, &s->front);
    memcpy(b->depth, s->front.depth, all * sizeof *b->depth);
    if (s->mirror >= 0) {
        whole(&s->reflected);
        native_samples_clear(&s->reflected, NULL);
        for (int g = 0; g < s->geoms; g++)
            if (s->geom[g].still && g != s->mirror)
                native_draw(&s->camera[1], s->geom + g, 1, (uint32_t)g, &s->reflected);
        memcpy(b->mirror_depth, s->reflected.depth, all * sizeof *b->mirror_depth);
        colour_mirror(s);
        whole(&s->reflected);
        native_samples_clear(&s->reflected, b->mirror_depth);
    }
    if (!name_fragments(s, m))
        return FAIL(err, FIRM_E_MEMORY, "no memory for a background of %d pixels", s->size);
    whole(&s->front);
    native_samples_clear(&s->front, b->depth);
    for (int y = 0; y < s->size; y++)
        for (int x = 0; x < s->size; x++) native_pixel(s, x, y, b->rgb + 3 * (y * s->size + x));
    return FIRM_OK;
}

void native_background_free(background* b) {
    mem_free(b->depth);
    mem_free(b->frag);
    mem_free(b->fragments);
    mem_free(b->single);
    mem_free(b->texel);
    mem_free(b->range);
    mem_free(b->mirror_depth);
    mem_free(b->mirror_rgb);
    mem_free(b->mirror_dark);
    mem_free(b->rgb);
}
