// native_mesh.c - triangles made ready for drawing.
//
// Equal vertices are welded (the arm's meshes hold each of them three times), details smaller than
// a pixel are left out, and triangles are sorted into clusters that lie together and face alike, so
// that most of those turned away are skipped sixty-four at a time.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "env/render/native.h"

// ---- welding ----

// Finds or adds a key of `words` 32-bit words in an open hash table of the items found so far.
typedef struct weld {
    uint32_t* slot;  // 1 + item, 0 empty
    uint32_t mask;
    int words, count;
    uint32_t* keys;  // (count, words)
} weld;

static int weld_find(weld* w, const uint32_t* key) {
    uint32_t h = 2166136261u;
    for (int k = 0; k < w->words; k++) h = (h ^ key[k]) * 2654435761u, h ^= h >> 15;
    for (uint32_t i = h & w->mask;; i = (i + 1) & w->mask) {
        if (!w->slot[i]) {
            memcpy(w->keys + (size_t)w->count * (size_t)w->words, key,
                   (size_t)w->words * sizeof *key);
            w->slot[i] = (uint32_t)++w->count;
            return w->count - 1;
        }
        uint32_t item = w->slot[i] - 1;
        if (memcmp(w->keys + (size_t)item * (size_t)w->words, key,
                   (size_t)w->words * sizeof *key) == 0)
            return (int)item;
    }
}

static int weld_start(weld* w, int words, int most) {
    uint32_t slots = 16;
    while (slots < 2u * (uint32_t)most) slots *= 2;
    *w = (weld){.mask = slots - 1, .words = words};
    w->slot = mem_calloc(slots, sizeof *w->slot);
    w->keys = mem_alloc((size_t)most * (size_t)words * sizeof *w->keys + 64);
    return w->slot && w->keys;
}

static void weld_end(weld* w) {
    mem_free(w->slot);
    mem_free(w->keys);
}

// ---- leaving out what cannot be seen ----

// Points (n, 3) that lie in one cube of side `cell` become one place: to[i] is the place of point
// i, and `place` (n, 3) their means. Returns the number of places, -1 without memory.
static int join_places(const float* p, size_t n, float cell, int32_t* to, float* place) {
    weld cells = {0};
    double* sum = mem_calloc(n, 4 * sizeof *sum);
    int ok = weld_start(&cells, 3, (int)n) && sum;
    for (size_t i = 0; ok && i < n; i++) {
        uint32_t key[3];
        for (int k = 0; k < 3; k++) key[k] = (uint32_t)(int32_t)floorf(p[3 * i + (size_t)k] / cell);
        to[i] = weld_find(&cells, key);
        double* at = sum + 4 * (size_t)to[i];
        for (int k = 0; k < 3; k++) at[k] += p[3 * i + (size_t)k];
        at[3]++;
    }
    int count = ok ? cells.count : -1;
    for (int i = 0; i < 3 * count; i++)
        place[i] = (float)(sum[4 * (i / 3) + i % 3] / sum[4 * (i / 3) + 3]);
    weld_end(&cells);
    mem_free(sum);
    return count;
}

// Triangles that shrink to nothing go.
static firm_status soup_coarsen(soup* s, float cell, firm_error* err) {
    size_t n = 3 * (size_t)s->count, kept = 0;
    int32_t* to = mem_alloc(n * sizeof *to);
    float* place = mem_alloc(n * 3 * sizeof *place);
    int ok = to && place && join_places(s->p, n, cell, to, place) >= 0;
    for (size_t t = 0; ok && t < (size_t)s->count; t++) {
        const int32_t* v = to + 3 * t;
        if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) continue;
        for (int k = 0; k < 9; k++) s->p[9 * kept + (size_t)k] = place[3 * v[k / 3] + k % 3];
        memmove(s->n + 9 * kept, s->n + 9 * t, 9 * sizeof *s->n);
        memmove(s->uv + 6 * kept, s->uv + 6 * t, 6 * sizeof *s->uv);
        kept++;
    }
    if (ok && kept > 0) s->count = (int)kept;
    mem_free(to);
    mem_free(place);
    return ok ? FIRM_OK
              : FAIL(err, FIRM_E_MEMORY, "no memory for a mesh of %d triangles", s->count);
}

// ---- clusters ----

static uint32_t spread(uint32_t x) {  // ten bits, two gaps between each
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    return (x | x << 2) & 0x09249249;
}

typedef struct sort_key {
    uint64_t key;
    int tri;
} sort_key;

static int by_key(const void* a, const void* b) {
    const sort_key *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->tri < y->tri ? -1 : x->tri > y->tri;
}

static void bounds(const soup* s, float low[3], float high[3]) {
    for (int k = 0; k < 3; k++) low[k] = INFINITY, high[k] = -INFINITY;
    for (int i = 0; i < 3 * s->count; i++)
        for (int k = 0; k < 3; k++) {
            float v = s->p[3 * i + k];
            if (v < low[k]) low[k] = v;
            if (v > high[k]) high[k] = v;
        }
}

// Order: which of six ways a triangle faces, then along a curve that fills the mesh's box.
static void order(const soup* s, sort_key* keys) {
    float low[3], high[3];
    bounds(s, low, high);
    for (int t = 0; t < s->count; t++) {
        const float* p = s->p + 9 * (size_t)t;
        float n[3];
        native_face_normal(p, p + 3, p + 6, n);
        int way = 0;
        for (int k = 1; k < 3; k++)
            if (fabsf(n[k]) > fabsf(n[way])) way = k;
        uint64_t key = (uint64_t)(2 * way + (n[way] < 0)) << 30;
        for (int k = 0; k < 3; k++) {
            float mid = (p[k] + p[3 + k] + p[6 + k]) / 3, span = high[k] - low[k];
            float part = span > 0 ? (mid - low[k]) / span : 0;
            key |= (uint64_t)spread((uint32_t)(part * 1023.0f)) << k;
        }
        keys[t] = (sort_key){key, t};
    }
    qsort(keys, (size_t)s->count, sizeof *keys, by_key);
}

static void corners(const mesh* m, const mesh_tri* tri, float p[3][3]) {
    for (int k = 0; k < 3; k++) {
        p[k][0] = m->x[tri->v[k]];
        p[k][1] = m->y[tri->v[k]];
        p[k][2] = m->z[tri->v[k]];
    }
}

static void cluster_bound(const mesh* m, mesh_cluster* c) {
    double low[3] = {1e30, 1e30, 1e30}, high[3] = {-1e30, -1e30, -1e30}, sum[3] = {0};
    for (int t = c->first; t < c->first + c->count; t++) {
        float p[3][3], n[3];
        corners(m, m->tri + t, p);
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 3; j++) {
                if (p[k][j] < low[j]) low[j] = p[k][j];
                if (p[k][j] > high[j]) high[j] = p[k][j];
            }
        native_face_normal(p[0], p[1], p[2], n);
        for (int j = 0; j < 3; j++) sum[j] += n[j];
    }
    double len = sqrt(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]), r2 = 0, least = 1;
    for (int j = 0; j < 3; j++) {
        c->centre[j] = (float)(0.5 * (low[j] + high[j]));
        c->axis[j] = len > 0 ? (float)(sum[j] / len) : 0;
        r2 += 0.25 * (high[j] - low[j]) * (high[j] - low[j]);
    }
    c->radius = (float)(sqrt(r2) * 1.00001);
    for (int t = c->first; t < c->first + c->count; t++) {
        float p[3][3], n[3];
        corners(m, m->tri + t, p);
        native_face_normal(p[0], p[1], p[2], n);
        double dot =
            (double)n[0] * c->axis[0] + (double)n[1] * c->axis[1] + (double)n[2] * c->axis[2];
        if (dot < least) least = dot;
    }
    least -= 1e-4;
    c->sine = least > 0 ? (float)sqrt(1 - least * least) : 2.0f;
}

// ---- putting it together ----

static firm_status from_soup(const soup* s, mesh* m, firm_error* err) {
    size_t n = (size_t)s->count;
    weld vertex = {0}, corner = {0};
    sort_key* keys = mem_alloc(n * sizeof *keys);
    m->tri = mem_alloc(n * sizeof *m->tri);
    m->cluster = mem_alloc((n / NATIVE_CLUSTER + 8) * sizeof *m->cluster);
    int ok = weld_start(&vertex, 3, 3 * s->count) && weld_start(&corner, 6, 3 * s->count) && keys &&
             m->tri && m->cluster;
    if (ok) {
        order(s, keys);
        for (size_t t = 0; t < n; t++)
            for (int k = 0; k < 3; k++) {
                size_t from = 3 * (size_t)keys[t].tri + (size_t)k;
                uint32_t key[6];
                float p[3];
                for (int j = 0; j < 3; j++)
                    p[j] = s->p[3 * from + (size_t)j] + 0.0f;  // -0 and 0 are one place
                memcpy(key, p, sizeof p);
                m->tri[t].v[k] = weld_find(&vertex, key);
                key[0] = (uint32_t)m->tri[t].v[k];
                memcpy(key + 1, s->n + 3 * from, 3 * sizeof *key);
                memcpy(key + 4, s->uv + 2 * from, 2 * sizeof *key);
                m->tri[t].c[k] = weld_find(&corner, key);
            }
        m->triangles = s->count;
        m->vertices = vertex.count;
        m->corners = corner.count;
        m->x = mem_alloc((size_t)vertex.count * sizeof *m->x);
        m->y = mem_alloc((size_t)vertex.count * sizeof *m->y);
        m->z = mem_alloc((size_t)vertex.count * sizeof *m->z);
        m->corner = mem_alloc((size_t)corner.count * sizeof *m->corner);
        if (s->textured) m->uv = mem_alloc((size_t)corner.count * 2 * sizeof *m->uv);
        ok = m->x && m->y && m->z && m->corner && (m->uv || !s->textured);
    }
    if (ok) {
        for (int i = 0; i < m->vertices; i++) {
            memcpy(m->x + i, vertex.keys + 3 * (size_t)i, sizeof *m->x);
            memcpy(m->y + i, vertex.keys + 3 * (size_t)i + 1, sizeof *m->y);
            memcpy(m->z + i, vertex.keys + 3 * (size_t)i + 2, sizeof *m->z);
        }
        for (int i = 0; i < m->corners; i++) {
            const uint32_t* all = corner.keys + 6 * (size_t)i;
            memcpy(&m->corner[i].v, all, sizeof(int32_t));
            memcpy(m->corner[i].n, all + 1, sizeof m->corner[i].n);
            if (m->uv) memcpy(m->uv + 2 * i, all + 4, 2 * sizeof *m->uv);
        }
        for (int t = 0; t < m->triangles;) {
            mesh_cluster* c = m->cluster + m->clusters++;
            *c = (mesh_cluster){.first = t};
            uint64_t way = keys[t].key >> 30;
            while (t < m->triangles && c->count < NATIVE_CLUSTER && keys[t].key >> 30 == way)
                c->count++, t++;
            cluster_bound(m, c);
        }
        float low[3], high[3], r2 = 0;
        bounds(s, low, high);
        for (int k = 0; k < 3; k++) {
            m->centre[k] = 0.5f * (low[k] + high[k]);
            r2 += 0.25f * (high[k] - low[k]) * (high[k] - low[k]);
        }
        m->radius = sqrtf(r2) * 1.00001f;
    }
    mem_free(keys);
    weld_end(&vertex);
    weld_end(&corner);
    return ok ? FIRM_OK
              : FAIL(err, FIRM_E_MEMORY, "no memory for a mesh of %d triangles", s->count);
}

// ---- corners ----

// Normals of one vertex that differ by less than this are one: eight degrees, which a picture of a
// few hundred pixels does not show. The arm's files give every triangle three normals of its own.
#define SAME_NORMAL 0.99f

static firm_status join_corners(mesh* m, firm_error* err) {
    size_t n = (size_t)m->corners;
    int32_t* next =
        mem_alloc(n * sizeof *next);  // further corners of the same vertex, in the new list
    int32_t* first = mem_alloc((size_t)m->vertices * sizeof *first);
    int32_t* to = mem_alloc(n * sizeof *to);
    float* sum = mem_alloc(n * 3 * sizeof *sum);
    int ok = next && first && to && sum, count = 0;
    if (ok) memset(first, 0xff, (size_t)m->vertices * sizeof *first);
    for (int i = 0; ok && i < m->corners; i++) {
        mesh_corner c = m->corner[i];
        int32_t j = first[c.v];
        while (j >= 0) {
            const float* t = m->corner[j].n;
            if (t[0] * c.n[0] + t[1] * c.n[1] + t[2] * c.n[2] >= SAME_NORMAL) break;
            j = next[j];
        }
        if (j < 0) {  // the list shrinks in place: count <= i
            j = count++;
            m->corner[j] = c;
            next[j] = first[c.v];
            first[c.v] = j;
            memset(sum + 3 * j, 0, 3 * sizeof *sum);
        }
        for (int k = 0; k < 3; k++) sum[3 * j + k] += c.n[k];
        to[i] = j;
    }
    if (ok) {
        m->corners = count;
        for (int j = 0; j < count; j++) {
            const float* t = sum + 3 * j;
            float inv = 1 / sqrtf(t[0] * t[0] + t[1] * t[1] + t[2] * t[2]);
            for (int k = 0; k < 3; k++) m->corner[j].n[k] = t[k] * inv;
        }
        for (int t = 0; t < m->triangles; t++)
            for (int k = 0; k < 3; k++) m->tri[t].c[k] = to[m->tri[t].c[k]];
    }
    mem_free(next);
    mem_free(first);
    mem_free(to);
    mem_free(sum);
    return ok ? FIRM_OK
              : FAIL(err, FIRM_E_MEMORY, "no memory for a mesh of %d triangles", m->triangles);
}

// ---- for shadows ----

// Triangles that shrink to nothing or lie on one another go.
firm_status native_mesh_coarse(const mesh* fine, float cell, mesh** out, firm_error* err) {
    *out = NULL;
    size_t n = (size_t)fine->vertices, t = (size_t)fine->triangles;
    weld face = {0};
    mesh* m = mem_calloc(1, sizeof *m);
    int32_t* to = mem_alloc(n * sizeof *to);
    float* p = mem_alloc(n * 3 * sizeof *p);
    float* place = mem_alloc(n * 3 * sizeof *place);
    int ok = m && to && p && place && weld_start(&face, 3, fine->triangles);
    if (ok) {
        for (size_t i = 0; i < n; i++)
            p[3 * i] = fine->x[i], p[3 * i + 1] = fine->y[i], p[3 * i + 2] = fine->z[i];
        m->vertices = join_places(p, n, cell, to, place);
        m->tri = mem_alloc(t * sizeof *m->tri);
        m->x = mem_alloc(n * sizeof *m->x);
        m->y = mem_alloc(n * sizeof *m->y);
        m->z = mem_alloc(n * sizeof *m->z);
        ok = m->vertices >= 0 && m->tri && m->x && m->y && m->z;
    }
    for (size_t i = 0; ok && i < t; i++) {
        int32_t a = to[fine->tri[i].v[0]], b = to[fine->tri[i].v[1]], c = to[fine->tri[i].v[2]];
        if (a == b || b == c || c == a) continue;
        while (a > b || a > c) {  // the smallest first, turning the same way
            int32_t first = a;
            a = b;
            b = c;
            c = first;
        }
        const uint32_t key[3] = {(uint32_t)a, (uint32_t)b, (uint32_t)c};
        if (weld_find(&face, key) == m->triangles)
            m->tri[m->triangles++] = (mesh_tri){.v = {a, b, c}};
    }
    for (int i = 0; ok && i < m->vertices; i++)
        m->x[i] = place[3 * i], m->y[i] = place[3 * i + 1], m->z[i] = place[3 * i + 2];
    weld_end(&face);
    mem_free(to);
    mem_free(p);
    mem_free(place);
    if (!ok) {
        native_mesh_free(m);
        return FAIL(err, FIRM_E_MEMORY, "no memory for a mesh of %d triangles", fine->triangles);
    }
    m->cell = cell;
    *out = m;
    return FIRM_OK;
}

firm_status native_mesh_create(const mjModel* m, const mjvGeom* g, float cell, mesh** out,
                               firm_error* err) {
    soup s = {0};
    int detailed = g->type == mjGEOM_MESH;
    *out = NULL;
    firm_status status = native_shape(m, g, &s, err);
    mesh* made = status == FIRM_OK ? mem_calloc(1, sizeof *made) : NULL;
    if (status == FIRM_OK && !made)
        status = FAIL(err, FIRM_E_MEMORY, "no memory for a mesh of %d triangles", s.count);
    if (status == FIRM_OK && (s.count < 1 || s.count >= 1 << NATIVE_TRI_BITS))
        status = FAIL(err, FIRM_E_UNAVAILABLE,
                      "the renderer 'native' draws meshes of 1 to %d triangles, not of %d",
                      (1 << NATIVE_TRI_BITS) - 1, s.count);
    if (status == FIRM_OK && detailed && !s.textured && cell > 0)
        status = soup_coarsen(&s, cell, err);
    if (status == FIRM_OK) status = from_soup(&s, made, err);
    if (status == FIRM_OK && detailed && !made->uv) status = join_corners(made, err);
    native_soup_free(&s);
    if (status != FIRM_OK) {
        native_mesh_free(made);
        return status;
    }
    *out = made;
    return FIRM_OK;
}

void native_mesh_free(mesh* s) {
    if (!s) return;
    mem_free(s->x);
    mem_free(s->y);
    mem_free(s->z);
    mem_free(s->corner);
    mem_free(s->tri);
    mem_free(s->cluster);
    mem_free(s->uv);
    mem_free(s);
}
