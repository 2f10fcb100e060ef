// native_shade.c - what colour a triangle has in a pixel, what lies in shadow, and the finished
// picture.
//
// As with 4x multisampling, a surface is coloured once per pixel, at its middle, and counts there
// as often as it owns samples. Vertices are lit when the first visible pixel asks for them: of an
// arm with a hundred thousand triangles only a tenth is ever seen.
#include <math.h>
#include <string.h>

#include "env/render/native.h"

// ---- where a ray through a pixel meets a triangle ----

typedef struct hit_plane {
    float p0[3], e1[3], e2[3];
    float s[3], q[3];  // origin - p0, s x e1
} hit_plane;

static void hit_prepare(const mesh* m, const mesh_tri* t, const float eye[3], hit_plane* h) {
    const int32_t* v = t->v;
    h->p0[0] = m->x[v[0]], h->p0[1] = m->y[v[0]], h->p0[2] = m->z[v[0]];
    h->e1[0] = m->x[v[1]] - h->p0[0], h->e2[0] = m->x[v[2]] - h->p0[0];
    h->e1[1] = m->y[v[1]] - h->p0[1], h->e2[1] = m->y[v[2]] - h->p0[1];
    h->e1[2] = m->z[v[1]] - h->p0[2], h->e2[2] = m->z[v[2]] - h->p0[2];
    for (int k = 0; k < 3; k++) h->s[k] = eye[k] - h->p0[k];
    cross(h->s, h->e1, h->q);
}

// Weights of the second and third corner; they may lie outside 0..1 when the pixel's middle is
// beside the triangle.
static void hit_weights(const hit_plane* h, const float dir[3], float w[2]) {
    float n[3];
    cross(dir, h->e2, n);
    float det = dot(h->e1, n), inv = det != 0 ? 1 / det : 0;
    w[0] = dot(h->s, n) * inv;
    w[1] = dot(dir, h->q) * inv;
}

static void ray(const scene* s, const geom_view* v, float x, float y, float dir[3]) {
    const camera* c = &s->camera[0];
    float half = 0.5f * (float)s->size;
    float d[3] = {(x - half) / c->focal, (half - y) / c->focal, -1};
    const float* m = v->to_view;
    for (int k = 0; k < 3; k++) dir[k] = m[k] * d[0] + m[4 + k] * d[1] + m[8 + k] * d[2];
}

// ---- colour ----

static const float* lit(const scene* s, const geom* g, int which, int corner) {
    const geom_view* v = &g->view[which];
    int stride = 3 * (1 + s->shadows);
    float* out = v->lit + (size_t)corner * (size_t)stride;
    if (v->stamp[corner] != s->frame) {
        const mesh* m = g->shape;
        const mesh_corner* c = m->corner + corner;
        float p[3] = {m->x[c->v], m->y[c->v], m->z[c->v]};
        material look = g->look;
        if (which == 1)  // in the mirror, colours but not highlights are weaker
            for (int k = 0; k < 3; k++) look.rgba[k] *= s->reflectance;
        native_light_vertex(&v->lights, &look, s->shadows, which == 1, p, c->n, out);
        v->stamp[corner] = s->frame;
    }
    return out;
}

// Texture coordinates (2D) or direction (cube) at a point of the triangle.
static void coordinates(const geom* g, const mesh_tri* t, const hit_plane* h, const float w[2],
                        float out[3]) {
    const texture_map* map = &g->paint;
    if (!map->image->cube && g->shape->uv) {
        const float *a = g->shape->uv + 2 * t->c[0], *b = g->shape->uv + 2 * t->c[1],
                    *c = g->shape->uv + 2 * t->c[2];
        for (int k = 0; k < 2; k++) out[k] = a[k] + w[0] * (b[k] - a[k]) + w[1] * (c[k] - a[k]);
        return;
    }
    for (int k = 0; k < 3; k++) {
        float p = h->p0[k] + w[0] * h->e1[k] + w[1] * h->e2[k];
        out[k] = map->scale[k] * p + (k < 2 ? map->shift[k] : 0);
    }
}

static float log2_of(float x) {  // within 0.01, enough to choose between copies of a texture
    int e;
    float f = frexpf(x, &e);  // 0.5 .. 1
    return (float)e - 1 + (f * 2 - 1) * (1.34f - 0.34f * (f * 2 - 1));
}

static void paint(const scene* s, const geom* g, const geom_view* v, const mesh_tri* t,
                  const hit_plane* h, const float w[2], int x, int y, float rgb[3]) {
    const texture* image = g->paint.image;
    float at[3], step[2], rho = 0;
    coordinates(g, t, h, w, at);
    for (int k = 0; k < 2; k++) {
        float dir[3], nw[2], next[3];
        ray(s, v, (float)x + (k == 0 ? 1.5f : 0.5f), (float)y + (k == 1 ? 1.5f : 0.5f), dir);
        hit_weights(h, dir, nw);
        coordinates(g, t, h, nw, next);
        if (image->cube) {
            float d[3] = {next[0] - at[0], next[1] - at[1], next[2] - at[2]};
            step[k] = sqrtf(dot(d, d) / (dot(at, at) + 1e-30f)) * 0.5f * (float)image->width[0];
        } else {
            float du = (next[0] - at[0]) * (float)image->width[0];
            float dv = (next[1] - at[1]) * (float)image->height[0];
            step[k] = sqrtf(du * du + dv * dv);
        }
        if (step[k] > rho) rho = step[k];
    }
    float lod = rho > 0 ? log2_of(rho) : 0;
    if (image->cube)
        native_texture_cube(image, at, lod, rgb);
    else
        native_texture_flat(image, at[0], at[1], lod, rgb);
}

void native_shade(const scene* s, int which, uint32_t id, int x, int y, fragment* f) {
    const geom* g = s->geom + (id >> NATIVE_TRI_BITS);
    const geom_view* v = &g->view[which];
    const mesh_tri* t = g->shape->tri + (id & ((1u << NATIVE_TRI_BITS) - 1));
    hit_plane h;
    float dir[3], w[2];
    hit_prepare(g->shape, t, v->lights.eye, &h);
    ray(s, v, (float)x + 0.5f, (float)y + 0.5f, dir);
    hit_weights(&h, dir, w);
    // beside the triangle: its nearest edge will do
    float a = w[0] > 0 ? w[0] : 0, b = w[1] > 0 ? w[1] : 0;
    if (a + b > 1) {
        float inv = 1 / (a + b);
        a *= inv;
        b *= inv;
    }
    const float *c0 = lit(s, g, which, t->c[0]), *c1 = lit(s, g, which, t->c[1]),
                *c2 = lit(s, g, which, t->c[2]);
    float tint[3] = {1, 1, 1};
    if (g->paint.image) paint(s, g, v, t, &h, w, x, y, tint);
    for (int k = 0; k < 3; k++)
        f->plain[k] = (c0[k] + a * (c1[k] - c0[k]) + b * (c2[k] - c0[k])) * tint[k];
    f->reflecting = 0;
    if (which == 1) return;
    float p[3];
    for (int k = 0; k < 3; k++) p[k] = h.p0[k] + a * h.e1[k] + b * h.e2[k];
    for (int i = 0; i < s->shadows; i++) {
        const shadow_map* m = &s->shadow[i];
        const float* to = g->to_light[i];
        int at = 3 * (1 + i);
        for (int k = 0; k < 3; k++)
            f->cast[i][k] =
                (c0[at + k] + a * (c1[at + k] - c0[at + k]) + b * (c2[at + k] - c0[at + k])) *
                tint[k];
        float q[3];
        for (int k = 0; k < 3; k++)
            q[k] = to[4 * k] * p[0] + to[4 * k + 1] * p[1] + to[4 * k + 2] * p[2] + to[4 * k + 3];
        float d = m->source->directional ? m->far_ + q[2] : q[2] < -1e-6f ? -1 / q[2] : 0;
        float scale = m->source->directional ? m->scale : m->scale * d;
        f->where[i][0] = 0.5f * (float)m->size + scale * q[0];
        f->where[i][1] = 0.5f * (float)m->size - scale * q[1];
        f->where[i][2] = d;
    }
}

static int in_shadow(const shadow_map* m, const float where[3]) {
    if (!(where[0] >= 0 && where[1] >= 0)) return 0;
    if (where[0] >= (float)m->size || where[1] >= (float)m->size) return 0;
    return where[2] < m->depth[(size_t)where[1] * (size_t)m->size + (size_t)where[0]];
}

static int byte(float v) {
    return v >= 1 ? 255 : (int)(v * 255.0f + 0.5f);
}

void native_colour(const scene* s, const fragment* f, int rgb[3]) {
    for (int k = 0; k < 3; k++) rgb[k] = byte(f->plain[k]);
    for (int i = 0; i < s->shadows; i++) {
        const float* c = f->cast[i];
        if (c[0] + c[1] + c[2] <= 0 || in_shadow(&s->shadow[i], f->where[i])) continue;
        for (int k = 0; k < 3; k++) rgb[k] += byte(c[k]);
    }
    for (int k = 0; k < 3; k++)
        if (rgb[k] > 255) rgb[k] = 255;
}

// ---- the picture ----

void native_pixel(const scene* s, int x, int y, uint8_t* out) {
    const background* b = &s->back;
    int64_t seen[4];  // what a sample shows: a triangle, or -1 - fragment of the background
    int colour[4][3], many = 0, sum[3] = {0}, reflecting[4];
    uint32_t mirror_seen = NATIVE_NONE;
    int mirror_colour[3] = {0};
    for (int k = 0; k < 4; k++) {
        size_t at = (size_t)(4 * y + k) * (size_t)s->size + (size_t)x;
        uint32_t id = s->front.id[at];
        int64_t key = id != NATIVE_NONE ? (int64_t)id : -1 - (int64_t)b->frag[at];
        int i = 0;
        while (i < many && seen[i] != key) i++;
        if (i == many) {
            fragment made;
            const fragment* f = &made;
            if (id != NATIVE_NONE)
                native_shade(s, 0, id, x, y, &made);
            else
                f = b->fragments + b->frag[at];
            native_colour(s, f, colour[i]);
            reflecting[i] = f->reflecting;
            seen[many++] = key;
        }
        int c[3] = {colour[i][0], colour[i][1], colour[i][2]};
        if (reflecting[i]) {
            uint32_t mirrored = s->reflected.id[at];
            if (mirrored == NATIVE_NONE)
                for (int j = 0; j < 3; j++) c[j] += b->mirror_rgb[3 * at + (size_t)j];
            else {
                if (mirrored != mirror_seen) {
                    fragment f;
                    native_shade(s, 1, mirrored, x, y, &f);
                    for (int j = 0; j < 3; j++) mirror_colour[j] = byte(f.plain[j]);
                    mirror_seen = mirrored;
                }
                for (int j = 0; j < 3; j++) c[j] += mirror_colour[j];
            }
        }
        for (int j = 0; j < 3; j++) sum[j] += c[j] < 255 ? c[j] : 255;
    }
    for (int j = 0; j < 3; j++) out[j] = (uint8_t)((sum[j] + 2) / 4);
}

// Marks the pixels of row y that show something moving.
static void mark_touched(const samples* s, int y, uint8_t* mark) {
    if (y < s->box[1] || y >= s->box[3]) return;
    size_t row = (size_t)s->size;
    const uint32_t* id = s->id + 4 * (size_t)y * row;
    for (int x = s->box[0]; x < s->box[2]; x++) {
        uint32_t all =
            id[x] & id[row + (size_t)x] & id[2 * row + (size_t)x] & id[3 * row + (size_t)x];
        mark[x] |= all != NATIVE_NONE;
    }
}

// Marks those where this frame's shadows may differ from the shadows of what stands still.
static void mark_shaded(const scene* s, int i, int y, uint8_t* mark) {
    const background* b = &s->back;
    const int* box = s->shadow[i].box;
    const int16_t *range = b->range + 4 * ((size_t)y * NATIVE_MAX_SHADOWS + (size_t)i), *texel;
    if (range[2] < box[0] || range[0] >= box[2] || range[3] < box[1] || range[1] >= box[3]) return;
    texel = b->texel + 2 * ((size_t)y * NATIVE_MAX_SHADOWS + (size_t)i) * (size_t)s->size;
    int16_t x0 = (int16_t)box[0], y0 = (int16_t)box[1], x1 = (int16_t)box[2], y1 = (int16_t)box[3];
    for (int x = 0; x < s->size; x++)
        mark[x] |= (uint8_t)(2 * ((texel[2 * x] >= x0) & (texel[2 * x] < x1) &
                                  (texel[2 * x + 1] >= y0) & (texel[2 * x + 1] < y1)));
}

void native_resolve(scene* s, uint8_t* rgb) {
    const background* b = &s->back;
    native_box_limit(s->front.box, s->size);
    native_box_limit(s->reflected.box, s->size);
    memcpy(rgb, b->rgb, (size_t)s->size * (size_t)s->size * 3);
    for (int y = 0; y < s->size; y++) {
        uint8_t mark[NATIVE_MAX_SIZE];
        memset(mark, 0, (size_t)s->size);
        for (int i = 0; i < s->shadows; i++) mark_shaded(s, i, y, mark);
        mark_touched(&s->front, y, mark);
        if (s->mirror >= 0) mark_touched(&s->reflected, y, mark);
        for (int x = 0; x < s->size; x++) {
            if (!mark[x]) continue;
            uint8_t* out = rgb + 3 * (y * s->size + x);
            int32_t one = b->single[y * s->size + x];
            if ((mark[x] & 1) || one < 0 ||
                (b->fragments[one].reflecting && !b->mirror_dark[y * s->size + x])) {
                native_pixel(s, x, y, out);
            } else {
                int c[3];
                native_colour(s, b->fragments + one, c);
                for (int k = 0; k < 3; k++) out[k] = (uint8_t)c[k];
            }
        }
    }
}
