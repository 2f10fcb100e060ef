// native_raster.c - triangles into sample buffers and shadow maps.
//
// Most triangles of a robot arm are smaller than a pixel, so the work per triangle counts, not per
// pixel: vertices are projected once each, whole clusters are skipped, and a triangle that lies
// between two quarter rows or between two samples of a row is gone after a handful of integer
// operations. Edges are integers: neighbours leave no gap, and every machine finds the same samples
// inside.
#include <math.h>
#include <string.h>

#include "env/render/native.h"

// where the sample of quarter row 0..3 lies in its pixel: the usual rotated pattern of four
const int native_sample_x[4] = {160, 32, 224, 96};

// a surface along the light is pushed away from it by no more than this many texels
#define STEEPEST 6.0f

// ---- one triangle ----

typedef struct corner_xyz {
    int32_t x, y;
    float d;
} corner_xyz;

static inline int32_t min3(int32_t a, int32_t b, int32_t c) {
    int32_t m = a < b ? a : b;
    return m < c ? m : c;
}
static inline int32_t max3(int32_t a, int32_t b, int32_t c) {
    int32_t m = a > b ? a : b;
    return m > c ? m : c;
}

// Twice the areas of the triangles that a point makes with two corners; inside, all are >= 0.
typedef struct edges {
    int64_t area, u1, v1, u2,
        v2;  // opposite b and c: growth per unit right (u) and down (v) from a
} edges;

static inline edges edges_of(corner_xyz a, corner_xyz b, corner_xyz c) {
    edges e = {0, c.y - a.y, a.x - c.x, a.y - b.y, b.x - a.x};
    e.area = e.v2 * e.u1 - e.u2 * e.v1;
    return e;
}

static void grow(int box[4], int x0, int y0, int x1, int y1) {
    if (x0 < box[0]) box[0] = x0;
    if (y0 < box[1]) box[1] = y0;
    if (x1 > box[2]) box[2] = x1;
    if (y1 > box[3]) box[3] = y1;
}

// `front` is the sign of the area of front sides: only those are drawn.
static inline void draw_triangle(samples* s, corner_xyz a, corner_xyz b, corner_xyz c, int front,
                                 uint32_t id) {
    int32_t y0 = min3(a.y, b.y, c.y), y1 = max3(a.y, b.y, c.y);
    int r0 = (y0 + NATIVE_ROW / 2 - 1) >> 6, r1 = (y1 - NATIVE_ROW / 2) >> 6;
    if (r0 < 0) r0 = 0;
    if (r1 > 4 * s->size - 1) r1 = 4 * s->size - 1;
    if (r0 > r1) return;
    if (front < 0) {
        corner_xyz t = b;
        b = c;
        c = t;
    }
    edges e = edges_of(a, b, c);
    if (e.area <= 0) return;
    int32_t x0 = min3(a.x, b.x, c.x), x1 = max3(a.x, b.x, c.x);
    if (x1 < 0 || x0 >= s->size * NATIVE_SUB) return;
    float scale = 0, db = b.d - a.d,
          dc = c.d - a.d;  // scale: worked out at the first sample inside
    int64_t step1 = e.u1 * NATIVE_SUB, step2 = e.u2 * NATIVE_SUB;
    int wrote = 0;
    for (int r = r0; r <= r1; r++) {
        int ox = native_sample_x[r & 3];
        int c0 = (x0 - ox + NATIVE_SUB - 1) >> 8, c1 = (x1 - ox) >> 8;
        if (c0 < 0) c0 = 0;
        if (c1 >= s->size) c1 = s->size - 1;
        if (c0 > c1) continue;
        int64_t px = (int64_t)c0 * NATIVE_SUB + ox - a.x;
        int64_t py = (int64_t)r * NATIVE_ROW + NATIVE_ROW / 2 - a.y;
        int64_t w1 = e.u1 * px + e.v1 * py, w2 = e.u2 * px + e.v2 * py;
        uint32_t* to = s->id + (size_t)r * (size_t)s->size;
        float* depth = s->depth + (size_t)r * (size_t)s->size;
        for (int col = c0; col <= c1; col++, w1 += step1, w2 += step2) {
            if ((w1 | w2 | (e.area - w1 - w2)) < 0) continue;
            if (scale == 0) scale = 1.0f / (float)e.area;
            float d = a.d + ((float)w1 * db + (float)w2 * dc) * scale;
            if (d >= depth[col]) {
                depth[col] = d;
                to[col] = id;
                wrote = 1;
            }
        }
    }
    if (wrote) grow(s->box, x0 >> 8, r0 >> 2, (x1 >> 8) + 1, (r1 >> 2) + 1);
}

typedef struct shadow_push {
    float least, steepest;  // away from the light, in units of depth
    int solid;              // the light meets the front only
} shadow_push;

// One sample in the middle of each texel, pushed away from the light by one
// and a half texels' worth of slope so that a surface does not shade itself.
static inline void draw_shadow_triangle(shadow_map* m, corner_xyz a, corner_xyz b, corner_xyz c,
                                        const shadow_push* push) {
    int32_t y0 = min3(a.y, b.y, c.y), y1 = max3(a.y, b.y, c.y);
    int r0 = (y0 + NATIVE_SUB / 2 - 1) >> 8, r1 = (y1 - NATIVE_SUB / 2) >> 8;
    if (r0 < 1) r0 = 1;  // the border stays empty: beyond it there is no shadow
    if (r1 > m->size - 2) r1 = m->size - 2;
    if (r0 > r1) return;
    int32_t x0 = min3(a.x, b.x, c.x), x1 = max3(a.x, b.x, c.x);
    int c0 = (x0 + NATIVE_SUB / 2 - 1) >> 8, c1 = (x1 - NATIVE_SUB / 2) >> 8;
    if (c0 < 1) c0 = 1;
    if (c1 > m->size - 2) c1 = m->size - 2;
    if (c0 > c1) return;
    edges e = edges_of(a, c, b);
    if (e.area < 0 && !push->solid) {
        e = edges_of(a, b, c);
    } else {
        corner_xyz t = b;
        b = c;
        c = t;
    }
    if (e.area <= 0) return;
    float scale = 0, start = 0, db = b.d - a.d, dc = c.d - a.d;  // at the first texel inside
    int64_t step1 = e.u1 * NATIVE_SUB, step2 = e.u2 * NATIVE_SUB;
    for (int r = r0; r <= r1; r++) {
        int64_t px = (int64_t)c0 * NATIVE_SUB + NATIVE_SUB / 2 - a.x;
        int64_t py = (int64_t)r * NATIVE_SUB + NATIVE_SUB / 2 - a.y;
        int64_t w1 = e.u1 * px + e.v1 * py, w2 = e.u2 * px + e.v2 * py;
        float* depth = m->depth + (size_t)r * (size_t)m->size;
        for (int col = c0; col <= c1; col++, w1 += step1, w2 += step2) {
            if ((w1 | w2 | (e.area - w1 - w2)) < 0) continue;
            if (scale == 0) {
                scale = 1.0f / (float)e.area;
                float gx = fabsf((float)e.u1 * db + (float)e.u2 * dc) * scale * NATIVE_SUB;
                float gy = fabsf((float)e.v1 * db + (float)e.v2 * dc) * scale * NATIVE_SUB;
                float slope = 1.5f * (gx > gy ? gx : gy);
                start = a.d - (slope < push->steepest ? slope : push->steepest) - push->least;
            }
            float d = start + ((float)w1 * db + (float)w2 * dc) * scale;
            if (d > depth[col]) depth[col] = d;
        }
    }
    if (scale != 0) grow(m->box, c0, r0, c1 + 1, r1 + 1);
}

// ---- clipping, for the few triangles that need it ----

typedef struct view_point {
    float p[3];
} view_point;

static view_point transform(const float m[12], const mesh* shape, int v) {
    float x = shape->x[v], y = shape->y[v], z = shape->z[v];
    view_point o;
    for (int k = 0; k < 3; k++)
        o.p[k] = m[4 * k] * x + m[4 * k + 1] * y + m[4 * k + 2] * z + m[4 * k + 3];
    return o;
}

// Keeps the part of a polygon where plane . (p, 1) >= 0; out has room for n + 1.
static int clip(const view_point* in, int n, const float plane[4], view_point* out) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        const float *p = in[i].p, *q = in[(i + 1) % n].p;
        float dp = plane[0] * p[0] + plane[1] * p[1] + plane[2] * p[2] + plane[3];
        float dq = plane[0] * q[0] + plane[1] * q[1] + plane[2] * q[2] + plane[3];
        if (dp >= 0) out[count++] = in[i];
        if ((dp >= 0) != (dq >= 0)) {
            float t = dp / (dp - dq);
            for (int k = 0; k < 3; k++) out[count].p[k] = p[k] + t * (q[k] - p[k]);
            count++;
        }
    }
    return count;
}

static inline int32_t snap(float units) {  // what is not a number goes far outside
    return (int32_t)(units > -2e8f ? (units < 2e8f ? units : 2e8f) : -2e8f);
}

static corner_xyz project(float focal, const float p[3], int size) {
    float inv = 1.0f / -p[2], mid = 0.5f * (float)size * NATIVE_SUB + 0.5f, f = focal * NATIVE_SUB;
    return (corner_xyz){snap(mid + f * p[0] * inv), snap(mid - f * p[1] * inv), inv};
}

static int clipped(const float m[12], const mesh* shape, const mesh_tri* t, float near_depth,
                   const float extra[4], view_point out[5]) {
    const float near_plane[4] = {0, 0, -1, -1.0f / near_depth};
    view_point p[5], q[5];
    for (int k = 0; k < 3; k++) p[k] = transform(m, shape, t->v[k]);
    int n = clip(p, 3, near_plane, q);
    if (n >= 3 && extra) return clip(q, n, extra, out);
    memcpy(out, q, sizeof q);
    return n;
}

// ---- a whole geom ----

// All vertices onto a screen of `size` pixels. Those nearer than the near plane get depth 0.
static void project_vertices(const mesh* shape, const float m[12], float focal, float near_depth,
                             int size, int32_t* restrict sx, int32_t* restrict sy,
                             float* restrict depth) {
    const float* restrict x = shape->x, * restrict y = shape->y, * restrict z = shape->z;
    float f = focal * NATIVE_SUB, mid = 0.5f * (float)size * NATIVE_SUB + 0.5f;
    for (int i = 0; i < shape->vertices; i++) {
        float px = m[0] * x[i] + m[1] * y[i] + m[2] * z[i] + m[3];
        float py = m[4] * x[i] + m[5] * y[i] + m[6] * z[i] + m[7];
        float pz = -(m[8] * x[i] + m[9] * y[i] + m[10] * z[i] + m[11]);
        float inv = 1.0f / pz;
        float d = inv > 0 && inv <= near_depth ? inv : 0;
        depth[i] = d;
        sx[i] = snap(mid + f * px * d);
        sy[i] = snap(mid - f * py * d);
    }
}

// The same for parallel light: `scale` texels per unit, depth counted from the far side.
static void project_parallel(const mesh* shape, const float m[12], float scale, float far_,
                             int size, int32_t* restrict sx, int32_t* restrict sy,
                             float* restrict depth) {
    const float* restrict x = shape->x, * restrict y = shape->y, * restrict z = shape->z;
    float f = scale * NATIVE_SUB, mid = 0.5f * (float)size * NATIVE_SUB + 0.5f;
    for (int i = 0; i < shape->vertices; i++) {
        float px = m[0] * x[i] + m[1] * y[i] + m[2] * z[i] + m[3];
        float py = m[4] * x[i] + m[5] * y[i] + m[6] * z[i] + m[7];
        float pz = m[8] * x[i] + m[9] * y[i] + m[10] * z[i] + m[11];
        depth[i] = far_ + pz;
        sx[i] = snap(mid + f * px);
        sy[i] = snap(mid - f * py);
    }
}

// Is the sphere outside one of the four sides of the view or before the near plane?
static int outside(const camera* c, const float p[3], float radius, float half, float slant) {
    float w = -p[2];
    if (w + radius < 1.0f / c->near_depth) return 1;
    // side planes: |x| * focal <= half * w; their normals have length slant
    float reach = radius * slant;
    return fabsf(p[0]) * c->focal - half * w > reach || fabsf(p[1]) * c->focal - half * w > reach;
}

static void place(const float m[12], const float in[3], float out[3]) {
    for (int k = 0; k < 3; k++)
        out[k] = m[4 * k] * in[0] + m[4 * k + 1] * in[1] + m[4 * k + 2] * in[2] + m[4 * k + 3];
}

void native_draw(const camera* c, geom* g, int which, uint32_t index, samples* s) {
    geom_view* v = &g->view[which];
    const mesh* shape = g->shape;
    float half = 0.5f * (float)s->size, slant = sqrtf(c->focal * c->focal + half * half), p[3];
    place(v->to_view, shape->centre, p);
    if (outside(c, p, shape->radius, half, slant)) return;

    const float* extra = NULL;
    float own[4] = {0};  // the same plane in the geom's own frame
    if (c->mirrored) {   // the mirror shows only what lies before it
        float d = c->clip[0] * p[0] + c->clip[1] * p[1] + c->clip[2] * p[2] + c->clip[3];
        if (d <= -shape->radius) return;
        if (d < shape->radius) extra = c->clip;
        for (int k = 0; k < 4; k++)
            own[k] = c->clip[0] * v->to_view[k] + c->clip[1] * v->to_view[4 + k] +
                     c->clip[2] * v->to_view[8 + k];
        own[3] += c->clip[3];
    }
    project_vertices(shape, v->to_view, c->focal, c->near_depth, s->size, v->sx, v->sy, v->depth);

    int front = c->mirrored ? 1 : -1;
    const float *eye = v->lights.eye, *depth = v->depth;
    const int32_t *sx = v->sx, *sy = v->sy;
    for (int i = 0; i < shape->clusters; i++) {
        const mesh_cluster* k = shape->cluster + i;
        float to[3] = {k->centre[0] - eye[0], k->centre[1] - eye[1], k->centre[2] - eye[2]};
        float away = to[0] * k->axis[0] + to[1] * k->axis[1] + to[2] * k->axis[2] - k->radius;
        float far2 = to[0] * to[0] + to[1] * to[1] + to[2] * to[2];
        if (away > 0 && away * away >= k->sine * k->sine * far2) continue;
        place(v->to_view, k->centre, p);
        if (outside(c, p, k->radius, half, slant)) continue;
        for (int t = k->first; t < k->first + k->count; t++) {
            const mesh_tri* tri = shape->tri + t;
            uint32_t id = index << NATIVE_TRI_BITS | (uint32_t)t;
            int32_t i0 = tri->v[0], i1 = tri->v[1], i2 = tri->v[2];
            int cut = depth[i0] == 0 || depth[i1] == 0 || depth[i2] == 0;
            if (extra) {
                int before = 0;  // corners before the mirror
                for (int j = 0; j < 3; j++) {
                    float at[3] = {shape->x[tri->v[j]], shape->y[tri->v[j]], shape->z[tri->v[j]]};
                    before += dot(own, at) + own[3] >= -1e-6f;
                }
                if (before == 0) continue;
                cut = cut || before < 3;
            }
            if (cut) {
                view_point q[5];
                int n = clipped(v->to_view, shape, tri, c->near_depth, extra, q);
                for (int j = 1; j + 1 < n; j++)
                    draw_triangle(s, project(c->focal, q[0].p, s->size),
                                  project(c->focal, q[j].p, s->size),
                                  project(c->focal, q[j + 1].p, s->size), front, id);
                continue;
            }
            draw_triangle(s, (corner_xyz){sx[i0], sy[i0], depth[i0]},
                          (corner_xyz){sx[i1], sy[i1], depth[i1]},
                          (corner_xyz){sx[i2], sy[i2], depth[i2]}, front, id);
        }
    }
}

void native_draw_shadow(shadow_map* m, const geom* g, int which) {
    const mesh* shape = g->outline;
    const float* to = g->to_light[which];
    int parallel = m->source->directional;
    // in units of depth, which is 1 / distance for a spot light
    float far = to[8] * g->shape->centre[0] + to[9] * g->shape->centre[1] +
                to[10] * g->shape->centre[2] + to[11];
    float unit = parallel ? 1 : 1 / (far * far);
    const shadow_push push = {m->bias + shape->cell * unit, STEEPEST * m->texel * unit, g->solid};
    if (parallel)
        project_parallel(shape, to, m->scale, m->far_, m->size, m->sx, m->sy, m->d);
    else
        project_vertices(shape, to, m->scale, 1.0f / m->near_, m->size, m->sx, m->sy, m->d);
    for (int t = 0; t < shape->triangles; t++) {
        const mesh_tri* tri = shape->tri + t;
        int32_t i0 = tri->v[0], i1 = tri->v[1], i2 = tri->v[2];
        if (!parallel && (m->d[i0] == 0 || m->d[i1] == 0 || m->d[i2] == 0)) {
            view_point q[5];
            int n = clipped(to, shape, tri, 1.0f / m->near_, NULL, q);
            for (int j = 1; j + 1 < n; j++)
                draw_shadow_triangle(m, project(m->scale, q[0].p, m->size),
                                     project(m->scale, q[j].p, m->size),
                                     project(m->scale, q[j + 1].p, m->size), &push);
            continue;
        }
        draw_shadow_triangle(m, (corner_xyz){m->sx[i0], m->sy[i0], m->d[i0]},
                             (corner_xyz){m->sx[i1], m->sy[i1], m->d[i1]},
                             (corner_xyz){m->sx[i2], m->sy[i2], m->d[i2]}, &push);
    }
}

// ---- starting a frame ----

static void empty(int box[4]) {
    box[0] = box[1] = 1 << 24;
    box[2] = box[3] = -1;
}

void native_box_limit(int box[4], int size) {
    for (int k = 0; k < 2; k++) {
        if (box[k] < 0) box[k] = 0;
        if (box[2 + k] > size) box[2 + k] = size;
    }
}

void native_samples_clear(samples* s, const float* depth) {
    native_box_limit(s->box, s->size);
    int width = s->box[2] - s->box[0];
    for (int r = 4 * s->box[1]; width > 0 && r < 4 * s->box[3]; r++) {
        size_t at = (size_t)r * (size_t)s->size + (size_t)s->box[0];
        memset(s->id + at, 0xff, (size_t)width * sizeof *s->id);
        if (depth)
            memcpy(s->depth + at, depth + at, (size_t)width * sizeof *s->depth);
        else
            for (int x = 0; x < width; x++) s->depth[at + (size_t)x] = s->far_depth;
    }
    empty(s->box);
}

void native_shadow_clear(shadow_map* m) {
    native_box_limit(m->box, m->size);
    int width = m->box[2] - m->box[0];
    for (int r = m->box[1]; width > 0 && r < m->box[3]; r++) {
        size_t at = (size_t)r * (size_t)m->size + (size_t)m->box[0];
        memcpy(m->depth + at, m->still + at, (size_t)width * sizeof *m->depth);
    }
    empty(m->box);
}
