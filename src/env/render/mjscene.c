// mjscene.c - choice of renderer; creation and the frame of the software rasteriser (native.h shows
// its parts).
//
// A frame reads nothing but poses and colours of what moves, draws it over the background in the
// sample buffers and into the shadow maps, and colours the pixels that may have changed.
#include "env/render/mjscene.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "env/mujoco/physics.h"
#include "env/render/gl.h"
#include "env/render/native.h"

enum { MOST_GEOMS = 10000 };  // that MuJoCo may list

// ---- which renderer ----

static const char* const renderers[] = {"native", "gl", "gl-egl", "gl-osmesa"};
static atomic_int chosen = -1;  // index above; -1: not yet asked

static int find_renderer(const char* name) {
    for (int i = 0; i < 4; i++)
        if (strcmp(name, renderers[i]) == 0) return i;
    return -1;
}

firm_status mjscene_use(const char* name, firm_error* err) {
    int i = find_renderer(name);
    if (i < 0)
        return FAIL(err, FIRM_E_USAGE,
                    "there is no renderer '%s'; give native, gl, gl-egl or gl-osmesa", name);
    atomic_store(&chosen, i);
    return FIRM_OK;
}

static firm_status current_renderer(int* out, firm_error* err) {
    *out = atomic_load(&chosen);
    if (*out >= 0) return FIRM_OK;
    const char* wish = getenv("FIRM_RENDERER");
    if (wish && *wish) {
        *out = find_renderer(wish);
        if (*out < 0)
            return FAIL(err, FIRM_E_USAGE,
                        "FIRM_RENDERER is '%s'; it may be native, gl, gl-egl or gl-osmesa", wish);
    } else {
        *out = 0;
    }
    return FIRM_OK;
}

const char* mjscene_choice(void) {
    int i;
    return current_renderer(&i, NULL) == FIRM_OK ? renderers[i] : NULL;
}

const char* mjscene_renderer(const mjscene* s) {
    if (!s->gl) return renderers[0];
    return strcmp(glscene_platform(s->gl), "egl") == 0 ? renderers[2] : renderers[3];
}

// ---- creation ----

// What MuJoCo would draw of the model in its initial state.
typedef struct list_call {
    const mjModel* model;
    mjvCamera camera;
    mjData* data;
    mjvScene scene;
} list_call;

static void list_geoms(void* arg) {
    list_call* c = arg;
    mjvOption option;
    mjv_defaultOption(&option);
    mjv_defaultScene(&c->scene);
    mjv_makeScene(c->model, &c->scene, MOST_GEOMS);
    mj_forward(c->model, c->data);
    mjv_updateScene(c->model, c->data, &option, NULL, &c->camera, mjCAT_ALL, &c->scene);
}

static firm_status fill_native(scene* s, const mjModel* m, int camera, firm_error* err) {
    list_call c = {.model = m};
    char text[256];
    mjv_defaultCamera(&c.camera);
    c.camera.type = mjCAMERA_FIXED;
    c.camera.fixedcamid = camera;
    TRY(physics_data(m, &c.data, err));
    firm_status status = physics_call(list_geoms, &c, text);
    if (status != FIRM_OK)
        FAIL(err, status, "MuJoCo cannot list what there is to draw: %s", text);
    else
        status = native_scene_fill(s, m, camera, &c.scene, err);
    mjv_freeScene(&c.scene);
    mj_deleteData(c.data);
    return status;
}

firm_status mjscene_create(const mjModel* m, const char* name, int size, mjscene** out,
                           firm_error* err) {
    static const char* const platform[] = {NULL, "egl", "osmesa"};
    *out = NULL;
    int renderer, camera = mj_name2id(m, mjOBJ_CAMERA, name);
    TRY(current_renderer(&renderer, err));
    if (camera < 0) return FAIL(err, FIRM_E_VALUE, "the model has no camera '%s'", name);
    if (size < 8 || size > NATIVE_MAX_SIZE)
        return FAIL(err, FIRM_E_VALUE, "a picture of %d pixels a side; allowed are 8 to %d", size,
                    NATIVE_MAX_SIZE);
    scene* s = mem_calloc(1, sizeof *s);
    if (!s) return FAIL(err, FIRM_E_MEMORY, "no memory for a scene");
    s->size = size;
    firm_status status = renderer == 0
                             ? fill_native(s, m, camera, err)
                             : glscene_create(m, name, size, platform[renderer - 1], &s->gl, err);
    if (status != FIRM_OK) {
        mjscene_free(s);
        return status;
    }
    *out = s;
    return FIRM_OK;
}

void mjscene_free(mjscene* s) {
    if (!s) return;
    glscene_free(s->gl);
    native_scene_free(s);
    mem_free(s);
}

// ---- a frame ----

// Pose and colour of a geom that moves; colours follow the model's rule: the geom's own unless it
// has the default grey and a material.
static void update(scene* s, geom* g, const mjModel* m, const mjData* d) {
    int i = g->object;
    const mjtNum* pos = (g->is_site ? d->site_xpos : d->geom_xpos) + 3 * i;
    const mjtNum* mat = (g->is_site ? d->site_xmat : d->geom_xmat) + 9 * i;
    const float* own = (g->is_site ? m->site_rgba : m->geom_rgba) + 4 * i;
    int material = (g->is_site ? m->site_matid : m->geom_matid)[i];
    int grey = own[0] == 0.5f && own[1] == 0.5f && own[2] == 0.5f && own[3] == 1.0f;
    const float* rgba = material >= 0 && grey ? m->mat_rgba + 4 * material : own;
    for (int k = 0; k < 3; k++) g->pos[k] = (float)pos[k];
    for (int k = 0; k < 9; k++) g->mat[k] = (float)mat[k];
    memcpy(g->look.rgba, rgba, sizeof g->look.rgba);
    g->hidden = rgba[3] == 0;
    native_place(s, g);
}

void mjscene_render(mjscene* s, const mjModel* m, const mjData* d, uint8_t* rgb) {
    if (s->gl) {
        glscene_render(s->gl, m, (mjData*)d, rgb);
        return;
    }
    s->frame++;
    native_samples_clear(&s->front, s->back.depth);
    if (s->mirror >= 0) native_samples_clear(&s->reflected, s->back.mirror_depth);
    for (int i = 0; i < s->shadows; i++) native_shadow_clear(&s->shadow[i]);
    for (int i = 0; i < s->geoms; i++) {
        geom* g = s->geom + i;
        if (g->still) continue;
        update(s, g, m, d);
        if (g->hidden) continue;
        for (int k = 0; k < s->shadows; k++) native_draw_shadow(&s->shadow[k], g, k);
        native_draw(&s->camera[0], g, 0, (uint32_t)i, &s->front);
        if (s->mirror >= 0) native_draw(&s->camera[1], g, 1, (uint32_t)i, &s->reflected);
    }
    native_resolve(s, rgb);
}
