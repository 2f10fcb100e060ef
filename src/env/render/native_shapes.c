// native_shapes.c - geoms as triangles, as they come, in the geom's own frame.
//
// Round shapes are cut as finely as the model's visual quality says, exactly where MuJoCo cuts
// them, since its lighting is worked out at these vertices and spread over the triangles.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/render/native.h"

// ---- triangles as they come ----

static void soup_add(soup* s, const float p[3][3], const float n[3][3], const float uv[3][2]) {
    if (s->failed) return;
    if (s->count == s->capacity) {
        size_t old = (size_t)s->capacity, now = old ? 2 * old : 1024;
        float* grown = mem_realloc(s->p, old * 9 * sizeof *s->p, now * 9 * sizeof *s->p);
        if (grown) s->p = grown;
        float* normals = mem_realloc(s->n, old * 9 * sizeof *s->n, now * 9 * sizeof *s->n);
        if (normals) s->n = normals;
        float* coords = mem_realloc(s->uv, old * 6 * sizeof *s->uv, now * 6 * sizeof *s->uv);
        if (coords) s->uv = coords;
        s->failed = !grown || !normals || !coords;
        if (s->failed) return;
        s->capacity = (int)now;
    }
    memcpy(s->p + 9 * (size_t)s->count, p, 9 * sizeof *s->p);
    memcpy(s->n + 9 * (size_t)s->count, n, 9 * sizeof *s->n);
    if (uv)
        memcpy(s->uv + 6 * (size_t)s->count, uv, 6 * sizeof *s->uv);
    else
        memset(s->uv + 6 * (size_t)s->count, 0, 6 * sizeof *s->uv);
    s->count++;
}

// Four corners in order, cut from the second to the fourth, as OpenGL drivers do.
static void soup_quad(soup* s, const float p[4][3], const float n[4][3]) {
    static const int cut[2][3] = {{0, 1, 3}, {1, 2, 3}};
    for (int t = 0; t < 2; t++) {
        float tp[3][3], tn[3][3];
        for (int k = 0; k < 3; k++) {
            memcpy(tp[k], p[cut[t][k]], sizeof tp[k]);
            memcpy(tn[k], n[cut[t][k]], sizeof tn[k]);
        }
        soup_add(s, tp, tn, NULL);
    }
}

// ---- round shapes ----

// cosine and sine of `part` of a full turn, to the last bit or two, from basic operations alone
void native_turn(double part, double* c, double* s) {
    part -= floor(part);
    int quarter = (int)(4.0 * part + 0.5);  // nearest quarter turn: the rest is within an eighth
    double a = (part - 0.25 * quarter) * 6.283185307179586, a2 = a * a, cs = 1, sn = 1;
    for (int k = 9; k >= 1; k--) {
        cs = 1 - cs * a2 / ((2 * k - 1) * (2 * k));
        sn = 1 - sn * a2 / ((2 * k) * (2 * k + 1));
    }
    sn *= a;
    double cc[4] = {cs, -sn, -cs, sn}, ss[4] = {sn, cs, -sn, -cs};
    *c = cc[quarter & 3];
    *s = ss[quarter & 3];
}

typedef struct round_shape {
    float size[3];  // half sizes that the unit shape is stretched by
    float lift;     // moved up by this, after stretching
} round_shape;

static void put(const round_shape* r, const float p[3], const float n[3], float op[3],
                float on[3]) {
    float len = 0;
    for (int k = 0; k < 3; k++) {
        op[k] = p[k] * r->size[k];
        on[k] = n[k] / r->size[k];
        len += on[k] * on[k];
    }
    op[2] += r->lift;
    len = sqrtf(len);
    for (int k = 0; k < 3; k++) on[k] /= len;
}

// A band between two circles (radius, height, and the normal's share outwards and upwards).
typedef struct ring {
    double radius, height, out, up;
} ring;

static void band(soup* s, const round_shape* r, int slices, ring low, ring high) {
    for (int j = 0; j < slices; j++) {
        double c[2], sn[2];
        for (int k = 0; k < 2; k++) native_turn((double)(j + k) / slices, &c[k], &sn[k]);
        float p[4][3], n[4][3];
        for (int k = 0; k < 4; k++) {
            int side = k == 1 || k == 2;
            const ring* g = k < 2 ? &low : &high;
            float up[3] = {(float)(c[side] * g->radius), (float)(sn[side] * g->radius),
                           (float)g->height};
            float un[3] = {(float)(c[side] * g->out), (float)(sn[side] * g->out), (float)g->up};
            put(r, up, un, p[k], n[k]);
        }
        if (low.radius == 0)  // a cap of triangles: the point takes the place of the lower edge
            soup_add(s,
                     (const float(*)[3])(const float[3][3]){{p[0][0], p[0][1], p[0][2]},
                                                            {p[2][0], p[2][1], p[2][2]},
                                                            {p[3][0], p[3][1], p[3][2]}},
                     (const float(*)[3])(const float[3][3]){{n[0][0], n[0][1], n[0][2]},
                                                            {n[2][0], n[2][1], n[2][2]},
                                                            {n[3][0], n[3][1], n[3][2]}},
                     NULL);
        else if (high.radius == 0)
            soup_add(s, p, n, NULL);
        else
            soup_quad(s, p, n);
    }
}

static ring on_sphere(double part) {  // -1 south pole, 1 north pole
    double c, s;
    native_turn(part / 4, &c, &s);
    if (part >= 1 || part <= -1) c = 0;
    return (ring){c, s, c, s};
}

// The part of a sphere from `from` to `to` (in stacks of a half sphere).
static void dome(soup* s, const round_shape* r, int slices, int half, int from, int to) {
    for (int i = from; i < to; i++)
        band(s, r, slices, on_sphere((double)i / half), on_sphere((double)(i + 1) / half));
}

static void wall(soup* s, const round_shape* r, int slices, int stacks) {
    for (int i = 0; i < stacks; i++)
        band(s, r, slices, (ring){1, 2.0 * i / stacks - 1, 1, 0},
             (ring){1, 2.0 * (i + 1) / stacks - 1, 1, 0});
}

static void disk(soup* s, const round_shape* r, int slices, int stacks, int up) {
    for (int i = 0; i < stacks; i++) {
        ring in = {(double)i / stacks, up, 0, up}, out = {(double)(i + 1) / stacks, up, 0, up};
        if (up > 0)
            band(s, r, slices, out, in);
        else
            band(s, r, slices, in, out);
    }
}

// ---- flat shapes ----

static void box(soup* s, const float size[3], int quads) {
    for (int axis = 0; axis < 3; axis++)
        for (int side = -1; side <= 1; side += 2) {
            int u = (axis + 1) % 3, v = (axis + 2) % 3;
            for (int i = 0; i < quads; i++)
                for (int j = 0; j < quads; j++) {
                    float p[4][3], n[4][3] = {{0}};
                    for (int k = 0; k < 4; k++) {
                        int a = i + (k == 1 || k == 2), b = j + (k >= 2);
                        if (side < 0) b = j + (k < 2);  // seen from outside, counter-clockwise
                        p[k][axis] = (float)side * size[axis];
                        p[k][u] = (2.0f * (float)a / (float)quads - 1.0f) * size[u];
                        p[k][v] = (2.0f * (float)b / (float)quads - 1.0f) * size[v];
                        n[k][axis] = (float)side;
                    }
                    soup_quad(s, p, n);
                }
        }
}

// Grid lines of one direction of a plane geom; returns the number of cells.
static int plane_lines(const mjModel* m, int id, int k, double* line) {
    double half = m->geom_size[3 * id + k];
    if (half > 0) {
        // cells of twice the model's spacing, an even number of them, and what is left at both ends
        double step = m->geom_size[3 * id + 2], least = half / (mjMAXPLANEGRID - 2);
        if (step < least) step = least;
        int cells = (int)floor(half / (step > mjMINVAL ? step : mjMINVAL));
        cells -= cells % 2;
        double rest = half - cells * step;
        line[0] = -half;
        for (int i = 0; i <= cells; i++) line[1 + i] = -half + rest + i * 2 * step;
        line[cells + 2] = half;
        return cells + 2;
    }
    // endless: beyond the far plane
    double reach = 2.1 * m->vis.map.zfar * m->stat.extent;
    int mat = m->geom_matid[id];
    double repeat = mat >= 0 ? m->mat_texrepeat[2 * mat + k] : 0;
    double step = repeat > 0 ? 2 / repeat : reach / (mjMAXPLANEGRID - 2);
    double d = (reach + 2 * step) / mjMAXPLANEGRID;
    for (int i = 0; i <= mjMAXPLANEGRID; i++) line[i] = d * i - d * (mjMAXPLANEGRID / 2);
    return mjMAXPLANEGRID;
}

static void plane(soup* s, const mjModel* m, const mjvGeom* g) {
    double line[2][mjMAXPLANEGRID + 2];
    int cells[2];
    for (int k = 0; k < 2; k++)
        if (g->objtype == mjOBJ_GEOM)
            cells[k] = plane_lines(m, g->objid, k, line[k]);
        else {
            cells[k] = m->vis.quality.numquads;
            for (int i = 0; i <= cells[k]; i++)
                line[k][i] = (2.0 * i / cells[k] - 1) * (double)g->size[k];
        }
    const float n[4][3] = {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}};
    for (int i = 0; i < cells[0]; i++)
        for (int j = 0; j < cells[1]; j++) {
            float p[4][3] = {{0}};
            for (int k = 0; k < 4; k++) {
                p[k][0] = (float)line[0][i + (k == 1 || k == 2)];
                p[k][1] = (float)line[1][j + (k >= 2)];
            }
            if (p[0][0] < p[1][0] && p[0][1] < p[2][1]) soup_quad(s, p, n);
        }
}

// ---- meshes of the model ----

void native_face_normal(const float* a, const float* b, const float* c, float n[3]) {
    float u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = b[k] - a[k];
        v[k] = c[k] - a[k];
    }
    n[0] = u[1] * v[2] - u[2] * v[1];
    n[1] = u[2] * v[0] - u[0] * v[2];
    n[2] = u[0] * v[1] - u[1] * v[0];
    float len = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    if (len < 1e-10f) {
        n[0] = n[1] = 0;
        n[2] = 1;
    } else
        for (int k = 0; k < 3; k++) n[k] *= 1.0f / len;
}

static void model_mesh(soup* s, const mjModel* m, int id) {
    const float* vert = m->mesh_vert + 3 * (size_t)m->mesh_vertadr[id];
    const float* normal = m->mesh_normal + 3 * (size_t)m->mesh_normaladr[id];
    int first = m->mesh_faceadr[id];
    s->textured = m->mesh_texcoordadr[id] >= 0;
    for (int f = first; f < first + m->mesh_facenum[id]; f++) {
        float p[3][3], n[3][3], uv[3][2] = {{0}}, flat[3];
        for (int k = 0; k < 3; k++) memcpy(p[k], vert + 3 * m->mesh_face[3 * f + k], sizeof p[k]);
        native_face_normal(p[0], p[1], p[2], flat);
        for (int k = 0; k < 3; k++) {
            const float* of = normal + 3 * m->mesh_facenormal[3 * f + k];
            if (s->textured) {
                memcpy(n[k], of, sizeof n[k]);
                memcpy(uv[k],
                       m->mesh_texcoord +
                           2 * (m->mesh_texcoordadr[id] + (size_t)m->mesh_facetexcoord[3 * f + k]),
                       sizeof uv[k]);
            } else {
                // a smoothed normal far from the face's own makes it look dented
                int bent = of[0] * flat[0] + of[1] * flat[1] + of[2] * flat[2] < 0.8f;
                memcpy(n[k], bent ? flat : of, sizeof n[k]);
            }
        }
        soup_add(s, p, n, uv);
    }
}

// ---- any shape ----

firm_status native_shape(const mjModel* m, const mjvGeom* g, soup* s, firm_error* err) {
    int slices = m->vis.quality.numslices, stacks = m->vis.quality.numstacks, half = stacks / 2;
    round_shape whole = {{g->size[0], g->size[1], g->size[2]}, 0};
    switch (g->type) {
        case mjGEOM_PLANE: plane(s, m, g); break;
        case mjGEOM_SPHERE:
        case mjGEOM_ELLIPSOID: dome(s, &whole, slices, half, -half, half); break;
        case mjGEOM_CAPSULE: {
            float r = 0.5f * (g->size[0] + g->size[1]);
            round_shape top = {{g->size[0], g->size[1], r}, g->size[2]}, end = top;
            end.lift = -end.lift;
            wall(s, &whole, slices, stacks);
            dome(s, &top, slices, half, 0, half);
            dome(s, &end, slices, half, -half, 0);
            break;
        }
        case mjGEOM_CYLINDER:
            disk(s, &whole, slices, half, -1);
            wall(s, &whole, slices, stacks);
            disk(s, &whole, slices, half, 1);
            break;
        case mjGEOM_BOX: box(s, g->size, m->vis.quality.numquads); break;
        case mjGEOM_MESH: model_mesh(s, m, g->dataid / 2); break;
        default:
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "the renderer 'native' does not draw geoms of MuJoCo's type %d; use 'gl'",
                        g->type);
    }
    return s->failed ? FAIL(err, FIRM_E_MEMORY, "no memory for a mesh of %d triangles", s->count)
                     : FIRM_OK;
}

void native_soup_free(soup* s) {
    mem_free(s->p);
    mem_free(s->n);
    mem_free(s->uv);
    *s = (soup){0};
}
