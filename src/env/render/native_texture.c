// native_texture.c - textures of the model: 2D ones repeat, cubes are looked up by direction; both
// are smoothed between texels and between their copies at half, a quarter, ... of the size.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/render/native.h"

enum { CUBE_FACES = 6 };

static float from_srgb(uint8_t byte) {
    double v = byte / 255.0;
    return (float)(v <= 0.04045 ? v / 12.92 : native_power((v + 0.055) / 1.055, 2.4));
}

static size_t texels(const texture* t, int level) {
    return (size_t)(t->cube ? CUBE_FACES : 1) * (size_t)t->width[level] * (size_t)t->height[level];
}

static void fill(texture* t, const mjModel* m, int id) {
    const mjtByte* data = m->tex_data + m->tex_adr[id];
    int channels = m->tex_nchannel[id], square = m->tex_width[id] == m->tex_height[id];
    size_t face = (size_t)t->width[0] * (size_t)t->height[0];
    float linear[256], srgb[256];
    for (int i = 0; i < 256; i++) {
        linear[i] = (float)i / 255.0f;
        srgb[i] = from_srgb((uint8_t)i);
    }
    const float* value = !t->cube && m->tex_colorspace[id] == mjCOLORSPACE_SRGB ? srgb : linear;
    for (size_t i = 0; i < texels(t, 0); i++) {
        size_t from = t->cube && square ? i % face : i;  // one square serves all faces
        for (int k = 0; k < 3; k++)
            t->level[0][3 * i + (size_t)k] = value[data[(size_t)channels * from + (size_t)k]];
    }
}

// Each texel of the next level is the mean of the up to four it covers.
static void shrink(texture* t, int level) {
    int w = t->width[level - 1], h = t->height[level - 1];
    int nw = t->width[level], nh = t->height[level];
    for (int face = 0; face < (t->cube ? CUBE_FACES : 1); face++)
        for (int y = 0; y < nh; y++)
            for (int x = 0; x < nw; x++) {
                int x0 = 2 * x < w ? 2 * x : w - 1, x1 = 2 * x + 1 < w ? 2 * x + 1 : w - 1;
                int y0 = 2 * y < h ? 2 * y : h - 1, y1 = 2 * y + 1 < h ? 2 * y + 1 : h - 1;
                const float* from = t->level[level - 1] + 3 * (size_t)face * (size_t)(w * h);
                float* to =
                    t->level[level] + 3 * ((size_t)face * (size_t)(nw * nh) + (size_t)(y * nw + x));
                for (int k = 0; k < 3; k++)
                    to[k] = 0.25f * (from[3 * (y0 * w + x0) + k] + from[3 * (y0 * w + x1) + k] +
                                     from[3 * (y1 * w + x0) + k] + from[3 * (y1 * w + x1) + k]);
            }
}

firm_status native_texture_create(const mjModel* m, int id, texture** out, firm_error* err) {
    *out = NULL;
    if (m->tex_nchannel[id] != 3 && m->tex_nchannel[id] != 4)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "texture %d has %d channels; the renderer 'native' reads 3 or 4", id,
                    m->tex_nchannel[id]);
    texture* t = mem_calloc(1, sizeof *t);
    if (!t) return FAIL(err, FIRM_E_MEMORY, "no memory for a texture");
    t->cube = m->tex_type[id] != mjTEXTURE_2D;
    t->width[0] = m->tex_width[id];
    t->height[0] = t->cube ? m->tex_width[id] : m->tex_height[id];
    int ok = 1;
    for (int l = 0; ok && l < TEXTURE_LEVELS; l++) {
        if (l > 0) {
            if (t->width[l - 1] == 1 && t->height[l - 1] == 1) break;
            t->width[l] = t->width[l - 1] > 1 ? t->width[l - 1] / 2 : 1;
            t->height[l] = t->height[l - 1] > 1 ? t->height[l - 1] / 2 : 1;
        }
        t->level[l] = mem_alloc(texels(t, l) * 3 * sizeof *t->level[l]);
        ok = t->level[l] != NULL;
        if (ok) {
            t->levels = l + 1;
            if (l == 0)
                fill(t, m, id);
            else
                shrink(t, l);
        }
    }
    if (!ok) {
        native_texture_free(t);
        return FAIL(err, FIRM_E_MEMORY, "no memory for a texture of %d x %d", m->tex_width[id],
                    m->tex_height[id]);
    }
    *out = t;
    return FIRM_OK;
}

void native_texture_free(texture* t) {
    if (!t) return;
    for (int l = 0; l < t->levels; l++) mem_free(t->level[l]);
    mem_free(t);
}

static int wrap(int i, int n, int repeat) {
    if (!repeat) return i < 0 ? 0 : i >= n ? n - 1 : i;
    i %= n;
    return i < 0 ? i + n : i;
}

// Adds `weight` of the value at (u, v) of one level; four texels blended.
static void blend(const texture* t, int level, int face, float u, float v, float weight,
                  float rgb[3]) {
    int w = t->width[level], h = t->height[level];
    float x = u * (float)w - 0.5f, y = v * (float)h - 0.5f;
    float fx = floorf(x), fy = floorf(y);
    const float* at = t->level[level] + 3 * (size_t)face * (size_t)(w * h);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 2; i++) {
            float part = weight * (i ? x - fx : 1 - (x - fx)) * (j ? y - fy : 1 - (y - fy));
            const float* texel = at + 3 * ((size_t)wrap((int)fy + j, h, !t->cube) * (size_t)w +
                                           (size_t)wrap((int)fx + i, w, !t->cube));
            for (int k = 0; k < 3; k++) rgb[k] += part * texel[k];
        }
}

static void blend_levels(const texture* t, int face, float u, float v, float lod, float rgb[3]) {
    float most = (float)(t->levels - 1);
    lod = lod < 0 ? 0 : lod > most ? most : lod;
    int level = (int)lod;
    float rest = lod - (float)level;
    rgb[0] = rgb[1] = rgb[2] = 0;
    blend(t, level, face, u, v, 1 - rest, rgb);
    if (rest > 0) blend(t, level + 1, face, u, v, rest, rgb);
}

void native_texture_flat(const texture* t, float u, float v, float lod, float rgb[3]) {
    blend_levels(t, 0, u - floorf(u), v - floorf(v), lod, rgb);
}

// OpenGL's table of faces: +x, -x, +y, -y, +z, -z.
void native_texture_cube(const texture* t, const float d[3], float lod, float rgb[3]) {
    float ax = fabsf(d[0]), ay = fabsf(d[1]), az = fabsf(d[2]), s, r, major;
    int face;
    if (ax >= ay && ax >= az) {
        face = d[0] < 0, major = ax;
        s = d[0] < 0 ? d[2] : -d[2];
        r = -d[1];
    } else if (ay >= az) {
        face = 2 + (d[1] < 0), major = ay;
        s = d[0];
        r = d[1] < 0 ? -d[2] : d[2];
    } else {
        face = 4 + (d[2] < 0), major = az;
        s = d[2] < 0 ? -d[0] : d[0];
        r = -d[1];
    }
    if (major <= 0) major = 1;
    blend_levels(t, face, 0.5f * (s / major + 1), 0.5f * (r / major + 1), lod, rgb);
}
