// native.h - inside the software rasteriser (mjscene.h): what its files share.
//
//     native_shapes.c      geoms as triangles in their own frame
//     native_mesh.c        welded, freed of unseen detail, cut into clusters
//     native_light.c       lights and materials: the fixed-function lighting of a vertex
//     native_texture.c     textures with their smaller copies, sky and haze
//     native_raster.c      triangles into sample buffers and shadow maps
//     native_shade.c       what colour a triangle has at a pixel, and whether it lies in shadow
//     native_background.c  everything that stands still, drawn once
//     native_scene.c       creation: what there is to draw
//     mjscene.c            choice of renderer, and the frame
//
// Conventions. The picture has size x size pixels, x right, y down. A pixel has four samples, one
// per quarter row: row r of a sample buffer (4 * size rows) holds one sample per column, at y = (r
// + 1/2) / 4 and at the x of native_sample_x[r % 4]. Screen positions are integers of 1/256 pixel.
// Depth is 1 / distance along the view (or, for parallel light, the distance from the far side):
// nearer is larger, and it is linear over a triangle on screen. Matrices are rows of 3 x 4.
#ifndef ENV_RENDER_NATIVE_H
#define ENV_RENDER_NATIVE_H

#include <mujoco/mujoco.h>
#include <stdint.h>

#include "core/status.h"

enum {
    NATIVE_SUB = 256,             // screen units per pixel
    NATIVE_ROW = NATIVE_SUB / 4,  // and per quarter row
    NATIVE_MAX_LIGHTS = 8,        // headlight included
    NATIVE_MAX_SHADOWS = 2,       // lights that cast shadows
    NATIVE_CLUSTER = 64,          // triangles per cluster
    NATIVE_TRI_BITS = 21,         // a sample names its triangle: geom << TRI_BITS | triangle
    NATIVE_MAX_GEOMS = (1 << (32 - NATIVE_TRI_BITS)) - 1,
    NATIVE_POWER_STEPS = 2048,
    NATIVE_MAX_SIZE = 2048  // pixels a side
};
#define NATIVE_NONE 0xffffffffu  // a sample without a triangle

extern const int native_sample_x[4];

// ---- shapes (native_shapes.c) ----

// Triangles as they come.
typedef struct soup {
    int count, capacity, failed, textured;
    float* p;   // (capacity, 3, 3)
    float* n;   // (capacity, 3, 3)
    float* uv;  // (capacity, 3, 2), only if textured
} soup;

firm_status native_shape(const mjModel* m, const mjvGeom* g, soup* s, firm_error* err);
void native_soup_free(soup* s);
void native_face_normal(const float* a, const float* b, const float* c, float n[3]);
// cosine and sine of `part` of a full turn
void native_turn(double part, double* c, double* s);

// ---- meshes (native_mesh.c) ----

typedef struct mesh_corner {  // a vertex with one of its normals
    float n[3];
    int32_t v;
} mesh_corner;

typedef struct mesh_tri {
    int32_t v[3];  // vertices
    int32_t c[3];  // corners
} mesh_tri;

// Triangles that lie together and face alike: skipped as one when outside the picture or turned
// away.
typedef struct mesh_cluster {
    int32_t first, count;
    float centre[3], radius;
    float axis[3], sine;  // every normal is within asin(sine) of axis; sine 2: they face all ways
} mesh_cluster;

typedef struct mesh {
    int vertices, corners, triangles, clusters;
    float *x, *y, *z;  // vertices
    mesh_corner* corner;
    mesh_tri* tri;
    mesh_cluster* cluster;
    float* uv;  // (corners, 2) texture coordinates of the model; NULL without
    float centre[3], radius;
    float cell;  // details smaller than this are missing
    int data;    // the model's mesh it was made from, -1: none
} mesh;

// The shape of a visual geom in its own frame; of a mesh, details below `cell` are left out.
firm_status native_mesh_create(const mjModel* m, const mjvGeom* g, float cell, mesh** out,
                               firm_error* err);
// The same shape with details below `cell` taken away; no clusters, corners or normals.
firm_status native_mesh_coarse(const mesh* fine, float cell, mesh** out, firm_error* err);
void native_mesh_free(mesh* s);

// ---- lights and materials (native_light.c) ----

typedef struct power_table {  // x^exponent for x in [0, 1]
    float exponent;
    float value[NATIVE_POWER_STEPS + 2];
} power_table;

typedef struct light {
    int directional;
    int shadow;  // index of its shadow map, -1 if it casts none
    float pos[3], dir[3];
    float ambient[3], diffuse[3], specular[3];
    float attenuation[3];
    int spot;  // has a cone
    float cos_cutoff;
    const power_table* fall_off;
} light;

typedef struct material {
    float rgba[4], emission, specular;
    const power_table* shine;
} material;

// Lights in the frame of one geom, ready for its vertices.
typedef struct local_lights {
    int count;
    light of[NATIVE_MAX_LIGHTS];
    float eye[3];
} local_lights;

double native_power(double x, double exponent);  // x in [0, 1], exponent >= 0
void native_power_fill(power_table* t, float exponent);
// out: (1 + shadows, 3) the light on a vertex, first by all lights without shadow, then by each
// that casts one; each clamped to [0, 1]. With all_plain everything goes into the first.
void native_light_vertex(const local_lights* l, const material* m, int shadows, int all_plain,
                         const float p[3], const float n[3], float* out);

// ---- textures (native_texture.c) ----

enum { TEXTURE_LEVELS = 14 };

typedef struct texture {
    int cube, levels;
    int width[TEXTURE_LEVELS], height[TEXTURE_LEVELS];
    float* level[TEXTURE_LEVELS];  // (faces, height, width, 3), each 0..1
} texture;

firm_status native_texture_create(const mjModel* m, int id, texture** out, firm_error* err);
void native_texture_free(texture* t);
void native_texture_flat(const texture* t, float u, float v, float lod, float rgb[3]);
void native_texture_cube(const texture* t, const float d[3], float lod, float rgb[3]);

// How texture coordinates come from a geom's own coordinates: s = scale[0] * x + shift[0], ...
typedef struct texture_map {
    const texture* image;  // NULL: none
    float scale[3], shift[2];
} texture_map;

// ---- one geom ----

// A geom as seen from one place: the camera, or the camera mirrored in the reflecting plane.
typedef struct geom_view {
    float to_view[12];  // own frame -> view (x right, y up, z towards the eye)
    local_lights lights;
    int32_t *sx, *sy;  // (vertices) screen position
    float* depth;      // (vertices); 0: in front of the near plane
    float* lit;        // (corners, 1 + shadows, 3), valid where stamp is this frame's number
    uint32_t* stamp;   // (corners)
} geom_view;

typedef struct geom {
    int object, is_site;  // index in the model, of a geom or a site
    int still;            // never moves
    int flat;             // all its triangles lie in one plane
    int solid;            // closed: from outside, no back side is ever seen
    int hidden;           // in this frame
    const mesh* shape;
    const mesh* outline;  // what casts its shadow
    material look;
    texture_map paint;
    float pos[3], mat[9];
    geom_view view[2];                       // camera, mirrored camera
    float to_light[NATIVE_MAX_SHADOWS][12];  // own frame -> shadow map
} geom;

// ---- targets (native_raster.c) ----

typedef struct camera {
    float pos[3], right[3], up[3], back[3];  // world
    float focal;                             // pixels
    float near_depth;                        // 1 / near
    int mirrored;                            // turns front sides into back sides
    float clip[4];  // mirrored: what has clip . (p, 1) < 0 in view is not reflected
} camera;

typedef struct samples {
    int size;         // columns; 4 * size rows
    uint32_t* id;     // (4 * size, size)
    float* depth;     // (4 * size, size)
    float far_depth;  // 1 / far plane, where there is nothing
    int box[4];       // pixels written: x0, y0, x1, y1 (exclusive); may reach beyond the picture
} samples;

typedef struct shadow_map {
    const light* source;
    int size;
    float right[3], up[3], back[3];  // world; the light is at source->pos
    float near_, far_;
    float scale;       // texels per unit (parallel light) or focal length in texels
    float bias;        // smallest push away from the light, in depth
    float texel;       // its width in the middle of the model
    float* depth;      // (size, size), of this frame
    float* still;      // (size, size), of what never moves
    int box[4];        // texels that differ from `still`
    int32_t *sx, *sy;  // (most vertices of any mesh)
    float* d;
} shadow_map;

void native_draw(const camera* c, geom* g, int which, uint32_t index, samples* s);
void native_draw_shadow(shadow_map* m, const geom* g, int which);
void native_samples_clear(samples* s, const float* depth);  // depth NULL: nothing behind
void native_box_limit(int box[4], int size);                // cuts it to a picture or map
void native_shadow_clear(shadow_map* m);

// ---- colours (native_shade.c) ----

// What one surface shows in one pixel: nothing but shadows can change it.
typedef struct fragment {
    float plain[3];                      // light that has no shadow
    float cast[NATIVE_MAX_SHADOWS][3];   // light of each that has
    float where[NATIVE_MAX_SHADOWS][3];  // place in each shadow map: column, row, depth
    int reflecting;                      // it is the mirror
} fragment;

typedef struct mjscene scene;

// Triangle `id` in pixel (x, y), seen from camera `which`.
void native_shade(const scene* s, int which, uint32_t id, int x, int y, fragment* f);
// 8-bit colour of a fragment under this frame's shadows.
void native_colour(const scene* s, const fragment* f, int rgb[3]);
// One pixel, and the whole picture, once everything is drawn.
void native_pixel(const scene* s, int x, int y, uint8_t* rgb);
void native_resolve(scene* s, uint8_t* rgb);

// ---- what stands still (native_background.c) ----

typedef struct background {
    float* depth;   // (4 * size, size) nearest still surface
    int32_t* frag;  // (4 * size, size) its fragment
    fragment* fragments;
    int count, capacity;
    int32_t* single;  // (size, size) the fragment all four samples share, -1 if they differ
    int16_t*
        texel;  // (size, NATIVE_MAX_SHADOWS, size, 2) where in the shadow maps, -1: unlit there
    int16_t* range;  // (size, NATIVE_MAX_SHADOWS, 4) and the texels a row needs: x0, y0, x1, y1
    float* mirror_depth;  // (4 * size, size), and colour (.., 3), of still things in the mirror;
                          // NULL without
    uint8_t* mirror_rgb;
    uint8_t* mirror_dark;  // (size, size) 1 where the mirror shows nothing still
    uint8_t* rgb;          // (size, size, 3) finished, without moving things and their shadows
} background;

firm_status native_background_create(scene* s, const mjModel* m, firm_error* err);
void native_background_free(background* b);

// ---- the scene (native_scene.c) ----

struct mjscene {
    struct glscene* gl;  // draws instead of all below; NULL: native
    int size, lights, shadows, geoms, meshes, textures, powers;
    int mirror, sky, haze;  // geom that reflects, texture of the sky, endless plane: -1 none
    float reflectance;
    float detail;  // size of details of meshes that are left out
    light light[NATIVE_MAX_LIGHTS];
    shadow_map shadow[NATIVE_MAX_SHADOWS];
    camera camera[2];
    geom* geom;
    mesh **mesh, **outline;  // (meshes); outline: NULL where the mesh itself will do
    texture** texture;       // (model's textures) NULL where unused
    power_table** power;
    background back;
    samples front, reflected;
    uint32_t frame;
};

// Fills s (zeroed, but for its size) with what MuJoCo lists in v.
firm_status native_scene_fill(scene* s, const mjModel* m, int camera, const mjvScene* v,
                              firm_error* err);
void native_scene_free(scene* s);      // all but s itself
void native_place(scene* s, geom* g);  // after pos and mat have changed

// ---- small vectors ----

static inline float dot(const float a[3], const float b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void cross(const float a[3], const float b[3], float out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

#endif
