// native_scene.c - what there is to draw: camera, lights, geoms with their shapes and materials.
//
// MuJoCo itself is asked, once: its list of visual geoms, lights and the camera (mjv_updateScene
// needs no OpenGL) already reflects groups, materials and default flags. What this renderer cannot
// draw is an error here, never a wrong picture later.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/render/native.h"

enum {
    SHADOW_MOST = 768,  // texels a side; MuJoCo's 4096 show nothing more at 224 pixels
    COARSEN = 2000      // triangles from which on a mesh casts its shadow in outline
};
// details of a mesh that are left out, in pixels at the nearest place things are expected at, which
// is this part of the way to the middle of the model
#ifndef DETAIL_PIXELS
#define DETAIL_PIXELS 0.5f
#endif
#define NEAREST 0.6f
// details of an outline, in texels of the finest shadow map
#define OUTLINE_TEXELS 1.5f

// ---- small vectors ----

static void normalise(float v[3]) {
    float inv = 1 / sqrtf(dot(v, v));
    for (int k = 0; k < 3; k++) v[k] *= inv;
}

static int body_still(const mjModel* m, int body) {
    return m->body_weldid[body] == 0 && m->body_mocapid[m->body_rootid[body]] < 0;
}

// ---- where a geom is ----

static firm_status view_alloc(geom_view* v, const mesh* shape, int shadows, firm_error* err) {
    size_t n = (size_t)shape->vertices, c = (size_t)shape->corners;
    v->sx = mem_alloc(n * sizeof *v->sx);
    v->sy = mem_alloc(n * sizeof *v->sy);
    v->depth = mem_alloc(n * sizeof *v->depth);
    v->lit = mem_alloc(c * 3 * (size_t)(1 + shadows) * sizeof *v->lit);
    v->stamp = mem_calloc(c, sizeof *v->stamp);
    if (!v->sx || !v->sy || !v->depth || !v->lit || !v->stamp)
        return FAIL(err, FIRM_E_MEMORY, "no memory to draw a mesh of %d triangles",
                    shape->triangles);
    return FIRM_OK;
}

static void view_free(geom_view* v) {
    mem_free(v->sx);
    mem_free(v->sy);
    mem_free(v->depth);
    mem_free(v->lit);
    mem_free(v->stamp);
    *v = (geom_view){0};
}

// rows: three axes of the target frame, whose origin is `from`
static void frame_to(const geom* g, const float* axis[3], const float from[3], float out[12]) {
    const float* m = g->mat;
    float d[3] = {g->pos[0] - from[0], g->pos[1] - from[1], g->pos[2] - from[2]};
    for (int r = 0; r < 3; r++) {
        for (int k = 0; k < 3; k++)
            out[4 * r + k] = axis[r][0] * m[k] + axis[r][1] * m[3 + k] + axis[r][2] * m[6 + k];
        out[4 * r + 3] = dot(axis[r], d);
    }
}

static void into(const geom* g, const float v[3], float out[3]) {  // a world direction, own frame
    for (int k = 0; k < 3; k++)
        out[k] = g->mat[k] * v[0] + g->mat[3 + k] * v[1] + g->mat[6 + k] * v[2];
}

static void into_point(const geom* g, const float p[3], float out[3]) {
    float d[3] = {p[0] - g->pos[0], p[1] - g->pos[1], p[2] - g->pos[2]};
    into(g, d, out);
}

void native_place(scene* s, geom* g) {
    for (int which = 0; which < (s->mirror >= 0 ? 2 : 1); which++) {
        const camera* c = &s->camera[which];
        geom_view* v = &g->view[which];
        frame_to(g, (const float*[]){c->right, c->up, c->back}, c->pos, v->to_view);
        into_point(g, c->pos, v->lights.eye);
        v->lights.count = s->lights;
        for (int i = 0; i < s->lights; i++) {
            v->lights.of[i] = s->light[i];
            into_point(g, s->light[i].pos, v->lights.of[i].pos);
            into(g, s->light[i].dir, v->lights.of[i].dir);
        }
    }
    for (int i = 0; i < s->shadows; i++) {
        const shadow_map* m = &s->shadow[i];
        frame_to(g, (const float*[]){m->right, m->up, m->back}, m->source->pos, g->to_light[i]);
    }
}

// ---- creation ----

static firm_status add_power(scene* s, float exponent, const power_table** out, firm_error* err) {
    for (int i = 0; i < s->powers; i++)
        if (s->power[i]->exponent == exponent) {
            *out = s->power[i];
            return FIRM_OK;
        }
    size_t n = (size_t)s->powers;
    power_table** grown = mem_realloc(s->power, n * sizeof *s->power, (n + 1) * sizeof *s->power);
    if (grown) s->power = grown;
    power_table* t = grown ? mem_alloc(sizeof *t) : NULL;
    if (!t) return FAIL(err, FIRM_E_MEMORY, "no memory for materials");
    native_power_fill(t, exponent);
    s->power[s->powers++] = t;
    *out = t;
    return FIRM_OK;
}

static firm_status add_texture(scene* s, const mjModel* m, int id, firm_error* err) {
    return s->texture[id] ? FIRM_OK : native_texture_create(m, id, &s->texture[id], err);
}

static firm_status set_camera(scene* s, const mjModel* m, int id, const mjvScene* v,
                              firm_error* err) {
    const mjvGLCamera *l = &v->camera[0], *r = &v->camera[1];
    camera* c = &s->camera[0];
    if (m->cam_mode[id] != mjCAMLIGHT_FIXED || !body_still(m, m->cam_bodyid[id]))
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "camera %d moves; the renderer 'native' needs one that stands still", id);
    if (l->orthographic || l->frustum_top != -l->frustum_bottom || l->frustum_center != 0 ||
        l->frustum_width != 0)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "camera %d is not a plain perspective one, as the renderer 'native' needs", id);
    for (int k = 0; k < 3; k++) {
        c->pos[k] = 0.5f * (l->pos[k] + r->pos[k]);
        c->back[k] = -l->forward[k];
        c->up[k] = l->up[k];
    }
    normalise(c->back);
    cross(c->up, c->back, c->right);
    normalise(c->right);
    cross(c->back, c->right, c->up);
    c->focal = 0.5f * (float)s->size * l->frustum_near / l->frustum_top;
    c->near_depth = 1 / l->frustum_near;
    float d[3];
    for (int k = 0; k < 3; k++) d[k] = (float)m->stat.center[k] - c->pos[k];
    s->detail = DETAIL_PIXELS * NEAREST * sqrtf(dot(d, d)) / c->focal;
    return FIRM_OK;
}

static firm_status add_shadow(scene* s, const mjModel* m, light* l, const mjvScene* v, float cutoff,
                              firm_error* err) {
    int size = m->vis.quality.shadowsize < SHADOW_MOST ? m->vis.quality.shadowsize : SHADOW_MOST;
    if (size < 4) return FIRM_OK;  // the model wants none
    if (s->shadows == NATIVE_MAX_SHADOWS)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "the renderer 'native' has at most %d lights with shadows", NATIVE_MAX_SHADOWS);
    shadow_map* map = &s->shadow[s->shadows];
    l->shadow = s->shadows++;
    map->source = l;
    map->size = size;
    map->near_ = v->camera[0].frustum_near;
    map->far_ = v->camera[0].frustum_far;
    for (int k = 0; k < 3; k++) map->back[k] = -l->dir[k];
    const float side[3] = {fabsf(l->dir[0]) < 0.9f, fabsf(l->dir[0]) >= 0.9f, 0};
    cross(side, map->back, map->right);
    normalise(map->right);
    cross(map->back, map->right, map->up);
    if (l->directional) {
        map->scale = 0.5f * (float)size / (float)(m->vis.map.shadowclip * m->stat.extent);
        map->bias = 1e-6f * map->far_;
        map->texel = 1 / map->scale;
    } else {
        double half = (double)cutoff * m->vis.map.shadowscale, c, n;
        native_turn((half < 80 ? half : 80) / 360, &c, &n);
        map->scale = 0.5f * (float)size * (float)(c / n);
        map->bias = 1e-6f;
        float d[3];
        for (int k = 0; k < 3; k++) d[k] = (float)m->stat.center[k] - l->pos[k];
        map->texel = sqrtf(dot(d, d)) / map->scale;
    }
    size_t n = (size_t)size * (size_t)size;
    map->depth = mem_alloc(n * sizeof *map->depth);
    map->still = mem_alloc(n * sizeof *map->still);
    return map->depth && map->still ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for shadows");
}

static firm_status set_lights(scene* s, const mjModel* m, const mjvScene* v, firm_error* err) {
    for (int i = 0; i < v->nlight; i++) {
        const mjvLight* from = &v->lights[i];
        if (from->type != mjLIGHT_DIRECTIONAL && from->type != mjLIGHT_SPOT) continue;  // as MuJoCo
        if (from->id >= 0 && (m->light_mode[from->id] != mjCAMLIGHT_FIXED ||
                              !body_still(m, m->light_bodyid[from->id])))
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "light %d moves; the renderer 'native' needs lights that stand still",
                        from->id);
        if (s->lights == NATIVE_MAX_LIGHTS)
            return FAIL(err, FIRM_E_UNAVAILABLE, "the renderer 'native' has at most %d lights",
                        NATIVE_MAX_LIGHTS);
        light* l = &s->light[s->lights++];
        *l = (light){.directional = from->type == mjLIGHT_DIRECTIONAL, .shadow = -1};
        memcpy(l->pos, from->pos, sizeof l->pos);
        memcpy(l->dir, from->dir, sizeof l->dir);
        normalise(l->dir);
        memcpy(l->ambient, from->ambient, sizeof l->ambient);
        memcpy(l->diffuse, from->diffuse, sizeof l->diffuse);
        memcpy(l->specular, from->specular, sizeof l->specular);
        memcpy(l->attenuation, from->attenuation, sizeof l->attenuation);
        // OpenGL takes cones up to 90 degrees and ignores larger ones
        l->spot = !l->directional && from->cutoff <= 90;
        if (l->spot) {
            double c, n;
            native_turn((double)from->cutoff / 360, &c, &n);
            l->cos_cutoff = (float)c;
            TRY(add_power(s, from->exponent, &l->fall_off, err));
        }
        if (from->castshadow) TRY(add_shadow(s, m, l, v, from->cutoff, err));
    }
    return FIRM_OK;
}

static firm_status set_texture(scene* s, const mjModel* m, const mjvGeom* from, geom* g,
                               firm_error* err) {
    if (from->matid < 0 || from->texid < 0) return FIRM_OK;
    TRY(add_texture(s, m, from->texid, err));
    texture_map* map = &g->paint;
    map->image = s->texture[from->texid];
    // OpenGL sees the unit shape before it is stretched, but planes and meshes in their true size
    int true_size = from->dataid >= 0;
    float unit[3], repeat[2];
    for (int k = 0; k < 3; k++) unit[k] = true_size || from->size[k] <= 0 ? 1 : 1 / from->size[k];
    if (map->image->cube) {
        for (int k = 0; k < 3; k++)
            map->scale[k] = unit[k] * (from->texuniform ? from->size[k] : 1);
        return FIRM_OK;
    }
    if (from->texcoord) return FIRM_OK;
    int fitted = mj_version() >= 3012000;  // since then, coordinates come with the shape
    if (fitted && from->type != mjGEOM_PLANE && from->type != mjGEOM_MESH)
        return FAIL(
            err, FIRM_E_UNAVAILABLE,
            "the renderer 'native' puts 2D textures on planes and meshes only, not on geom %d",
            from->objid);
    for (int k = 0; k < 2; k++) {
        float size = from->size[k];
        repeat[k] = from->texrepeat[k];
        if (true_size && size > 0) repeat[k] /= size;
        if (from->texuniform && size > 0) repeat[k] *= size;
        map->scale[k] = 0.5f * repeat[k] * unit[k];
        map->shift[k] = -0.5f;
        if (fitted && from->type == mjGEOM_PLANE && size > 0)
            map->shift[k] = 0.5f * repeat[k] * size;
    }
    map->scale[1] = -map->scale[1];
    return FIRM_OK;
}

static int behind(const scene* s, const geom* g) {  // is the camera on the plane's back side?
    const float* c = s->camera[0].pos;
    return (c[0] - g->pos[0]) * g->mat[2] + (c[1] - g->pos[1]) * g->mat[5] +
               (c[2] - g->pos[2]) * g->mat[8] <
           0;
}

static firm_status find_mesh(scene* s, const mjModel* m, const mjvGeom* from, int* out,
                             firm_error* err) {
    int data = from->type == mjGEOM_MESH ? from->dataid / 2 : -1;
    for (int i = 0; data >= 0 && i < s->meshes; i++)
        if (s->mesh[i]->data == data) {
            *out = i;
            return FIRM_OK;
        }
    int i = s->meshes;
    TRY(native_mesh_create(m, from, s->detail, &s->mesh[i], err));
    s->mesh[i]->data = data;
    s->meshes++;
    float texel = s->shadows ? s->shadow[0].texel : 0;
    for (int k = 1; k < s->shadows; k++)
        if (s->shadow[k].texel < texel) texel = s->shadow[k].texel;
    if (s->shadows && s->mesh[i]->triangles >= COARSEN && from->type == mjGEOM_MESH)
        TRY(native_mesh_coarse(s->mesh[i], OUTLINE_TEXELS * texel, &s->outline[i], err));
    *out = i;
    return FIRM_OK;
}

static const char* kind_of(const mjvGeom* g) {
    const char* kind = mju_type2Str(g->objtype);
    return kind ? kind : "part";
}

static const char* name_of(const mjModel* m, const mjvGeom* g) {
    const char* name = g->objid >= 0 ? mj_id2name(m, g->objtype, g->objid) : NULL;
    return name ? name : "without a name";
}

static firm_status add_geom(scene* s, const mjModel* m, const mjvGeom* from, firm_error* err) {
    geom* g = s->geom + s->geoms;
    if (from->objtype != mjOBJ_GEOM && from->objtype != mjOBJ_SITE)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "the model shows the %s '%.60s', which the renderer 'native' does not draw; "
                    "hide it, or use 'gl'",
                    kind_of(from), name_of(m, from));
    g->object = from->objid;
    g->is_site = from->objtype == mjOBJ_SITE;
    g->still = from->category == mjCAT_STATIC;
    g->flat = from->type == mjGEOM_PLANE;
    g->solid = !g->flat && from->type != mjGEOM_MESH;  // meshes may have holes
    memcpy(g->pos, from->pos, sizeof g->pos);
    memcpy(g->mat, from->mat, sizeof g->mat);
    memcpy(g->look.rgba, from->rgba, sizeof g->look.rgba);
    g->look.emission = from->emission;
    g->look.specular = from->specular;
    if (from->rgba[3] < 0.995f || (g->flat && behind(s, g)))
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "the %s '%.60s' is seen through, or from its back, which the renderer 'native' "
                    "does not draw; hide it, or use 'gl'",
                    kind_of(from), name_of(m, from));
    TRY(add_power(s, from->shininess * 128.0f, &g->look.shine, err));
    TRY(set_texture(s, m, from, g, err));
    int shape;
    TRY(find_mesh(s, m, from, &shape, err));
    g->shape = s->mesh[shape];
    g->outline = s->outline[shape] ? s->outline[shape] : s->mesh[shape];
    if (s->mirror < 0 && from->reflectance > 0 && g->flat) {
        s->mirror = s->geoms;
        s->reflectance = from->reflectance;
    }
    if (s->haze < 0 && g->flat && from->size[0] == 0 && from->size[1] == 0) s->haze = s->geoms;
    s->geoms++;
    return FIRM_OK;
}

// A camera behind the mirror sees what the mirror shows.
static void set_mirror(scene* s) {
    const geom* g = s->geom + s->mirror;
    const camera* c = &s->camera[0];
    camera* r = &s->camera[1];
    float n[3] = {g->mat[2], g->mat[5], g->mat[8]};
    *r = *c;
    float d[3] = {c->pos[0] - g->pos[0], c->pos[1] - g->pos[1], c->pos[2] - g->pos[2]};
    for (int k = 0; k < 3; k++) {
        r->pos[k] -= 2 * dot(d, n) * n[k];
        r->right[k] -= 2 * dot(c->right, n) * n[k];
        r->up[k] -= 2 * dot(c->up, n) * n[k];
        r->back[k] -= 2 * dot(c->back, n) * n[k];
    }
    r->mirrored = 1;
    r->clip[0] = dot(n, r->right);
    r->clip[1] = dot(n, r->up);
    r->clip[2] = dot(n, r->back);
    for (int k = 0; k < 3; k++) d[k] = r->pos[k] - g->pos[k];
    r->clip[3] = dot(n, d);
}

static firm_status alloc_samples(samples* a, int size, float far_depth, firm_error* err) {
    size_t all = 4 * (size_t)size * (size_t)size;
    a->size = size;
    a->far_depth = far_depth;
    a->id = mem_alloc(all * sizeof *a->id);
    a->depth = mem_alloc(all * sizeof *a->depth);
    return a->id && a->depth ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for %d pixels", size);
}

firm_status native_scene_fill(scene* s, const mjModel* m, int id, const mjvScene* v,
                              firm_error* err) {
    s->mirror = s->sky = s->haze = -1;
    s->textures = (int)m->ntex;
    s->geom = mem_calloc((size_t)v->ngeom + 1, sizeof *s->geom);
    s->mesh = mem_calloc((size_t)v->ngeom + 1, sizeof *s->mesh);
    s->outline = mem_calloc((size_t)v->ngeom + 1, sizeof *s->outline);
    s->texture = mem_calloc((size_t)m->ntex + 1, sizeof(texture*));
    if (!s->geom || !s->mesh || !s->outline || !s->texture)
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d geoms", v->ngeom);
    if (v->ngeom >= NATIVE_MAX_GEOMS || v->status)
        return FAIL(err, FIRM_E_UNAVAILABLE, "the renderer 'native' draws fewer than %d geoms",
                    NATIVE_MAX_GEOMS);
    TRY(set_camera(s, m, id, v, err));
    TRY(set_lights(s, m, v, err));
    for (int i = 0; i < v->ngeom; i++) TRY(add_geom(s, m, v->geoms + i, err));
    for (int i = 0; i < m->ntex && s->sky < 0; i++)
        if (m->tex_type[i] == mjTEXTURE_SKYBOX) {
            TRY(add_texture(s, m, i, err));
            s->sky = i;
        }
    float far_depth = 1 / v->camera[0].frustum_far;
    if (s->mirror >= 0) {
        set_mirror(s);
        TRY(alloc_samples(&s->reflected, s->size, far_depth, err));
    }
    TRY(alloc_samples(&s->front, s->size, far_depth, err));
    size_t most = 1;
    for (int i = 0; i < s->meshes; i++)
        if ((size_t)s->mesh[i]->vertices > most) most = (size_t)s->mesh[i]->vertices;
    for (int i = 0; i < s->shadows; i++) {
        shadow_map* map = &s->shadow[i];
        map->sx = mem_alloc(most * sizeof *map->sx);
        map->sy = mem_alloc(most * sizeof *map->sy);
        map->d = mem_alloc(most * sizeof *map->d);
        if (!map->sx || !map->sy || !map->d)
            return FAIL(err, FIRM_E_MEMORY, "no memory for shadows");
    }
    for (int i = 0; i < s->geoms; i++) {
        geom* g = s->geom + i;
        for (int which = 0; which < (s->mirror >= 0 ? 2 : 1); which++)
            TRY(view_alloc(&g->view[which], g->shape, s->shadows, err));
        native_place(s, g);
    }
    TRY(native_background_create(s, m, err));
    for (int i = 0; i < s->geoms; i++)
        if (s->geom[i].still)
            for (int which = 0; which < 2; which++) view_free(&s->geom[i].view[which]);
    return FIRM_OK;
}

void native_scene_free(scene* s) {
    for (int i = 0; i < s->geoms; i++)
        for (int which = 0; which < 2; which++) view_free(&s->geom[i].view[which]);
    for (int i = 0; i < s->meshes; i++) {
        native_mesh_free(s->mesh[i]);
        native_mesh_free(s->outline[i]);
    }
    for (int i = 0; s->texture && i < s->textures; i++) native_texture_free(s->texture[i]);
    for (int i = 0; i < s->powers; i++) mem_free(s->power[i]);
    for (int i = 0; i < s->shadows; i++) {
        mem_free(s->shadow[i].depth);
        mem_free(s->shadow[i].still);
        mem_free(s->shadow[i].sx);
        mem_free(s->shadow[i].sy);
        mem_free(s->shadow[i].d);
    }
    for (int i = 0; i < 2; i++) {
        samples* a = i ? &s->reflected : &s->front;
        mem_free(a->id);
        mem_free(a->depth);
    }
    native_background_free(&s->back);
    mem_free(s->geom);
    mem_free(s->mesh);
    mem_free(s->outline);
    mem_free(s->texture);
    mem_free(s->power);
}
