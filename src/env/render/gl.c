// gl.c - MuJoCo's own renderer (mjr_*), offscreen, through EGL or OSMesa.
//
// Neither library is linked: they are opened when the first glscene is made. MuJoCo looks its
// OpenGL functions up through whichever of eglGetProcAddress and OSMesaGetProcAddress the process
// can see, once, so the chosen library is opened with global visibility and the other one is never
// left open.
#include "env/render/gl.h"

#include <dlfcn.h>
#include <mujoco/mujoco.h>
#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "env/mujoco/physics.h"

// the few constants of EGL and OSMesa that are used
enum {
    EGL_PLATFORM_DEVICE = 0x313F,
    EGL_PLATFORM_SURFACELESS = 0x31DD,
    EGL_OPENGL = 0x30A2,
    EGL_SURFACE_TYPE = 0x3033,
    EGL_PBUFFER = 1,
    EGL_RENDERABLE_TYPE = 0x3040,
    EGL_OPENGL_BIT = 8,
    EGL_RED = 0x3024,
    EGL_GREEN = 0x3023,
    EGL_BLUE = 0x3022,
    EGL_DEPTH = 0x3025,
    EGL_STENCIL = 0x3026,
    EGL_END = 0x3038,
    EGL_WIDTH = 0x3057,
    EGL_HEIGHT = 0x3056,
    OSMESA_RGBA = 0x1908,
    GL_BYTE_UNSIGNED = 0x1401
};

typedef void* (*get_proc_fn)(const char*);
typedef void* (*egl_display_fn)(void*);
typedef void* (*egl_platform_display_fn)(unsigned, void*, const int*);
typedef unsigned (*egl_devices_fn)(int, void**, int*);
typedef unsigned (*egl_initialize_fn)(void*, int*, int*);
typedef unsigned (*egl_bind_fn)(unsigned);
typedef unsigned (*egl_choose_fn)(void*, const int*, void**, int, int*);
typedef void* (*egl_context_fn)(void*, void*, void*, const int*);
typedef void* (*egl_pbuffer_fn)(void*, void*, const int*);
typedef unsigned (*egl_current_fn)(void*, void*, void*, void*);
typedef unsigned (*egl_destroy_fn)(void*, void*);
typedef void* (*osmesa_create_fn)(unsigned, int, int, int, void*);
typedef unsigned char (*osmesa_current_fn)(void*, void*, unsigned, int, int);
typedef void (*osmesa_destroy_fn)(void*);

// the one platform of this process
static struct {
    pthread_mutex_t lock;
    const char* name;  // NULL until one works
    // EGL
    void *display, *config;
    egl_context_fn egl_create;
    egl_pbuffer_fn egl_pbuffer;
    egl_current_fn egl_current;
    egl_destroy_fn egl_destroy, egl_destroy_surface;
    // OSMesa
    osmesa_create_fn osmesa_create;
    osmesa_current_fn osmesa_current;
    osmesa_destroy_fn osmesa_destroy;
} platform = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct glscene {
    int size;
    void *context, *surface;  // surface: EGL's pbuffer, or the memory OSMesa wants to draw into
    mjvScene scene;
    mjvOption option;
    mjvCamera camera;
    mjrContext render;
    int has_scene, has_render;
};

// dlsym gives a data pointer; ISO C wants a detour to a function pointer
#define LOOK_UP(library, symbol, target) (*(void**)&(target) = dlsym((library), (symbol)))

static void* first_display(get_proc_fn get_proc, egl_display_fn default_display,
                           egl_initialize_fn initialize) {
    egl_platform_display_fn of_platform;
    egl_devices_fn devices;
    *(void**)&of_platform = get_proc("eglGetPlatformDisplayEXT");
    *(void**)&devices = get_proc("eglQueryDevicesEXT");
    int major, minor, count = 0;
    void* found[16];
    if (of_platform && devices && devices(16, found, &count))
        for (int i = 0; i < count; i++) {
            void* d = of_platform(EGL_PLATFORM_DEVICE, found[i], NULL);
            if (d && initialize(d, &major, &minor)) return d;
        }
    void* d = of_platform ? of_platform(EGL_PLATFORM_SURFACELESS, NULL, NULL) : NULL;
    if (d && initialize(d, &major, &minor)) return d;
    d = default_display(NULL);
    return d && initialize(d, &major, &minor) ? d : NULL;
}

static int open_egl(void) {
    void* lib = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return 0;
    get_proc_fn get_proc;
    egl_display_fn default_display;
    egl_initialize_fn initialize;
    egl_bind_fn bind;
    egl_choose_fn choose;
    LOOK_UP(lib, "eglGetProcAddress", get_proc);
    LOOK_UP(lib, "eglGetDisplay", default_display);
    LOOK_UP(lib, "eglInitialize", initialize);
    LOOK_UP(lib, "eglBindAPI", bind);
    LOOK_UP(lib, "eglChooseConfig", choose);
    LOOK_UP(lib, "eglCreateContext", platform.egl_create);
    LOOK_UP(lib, "eglCreatePbufferSurface", platform.egl_pbuffer);
    LOOK_UP(lib, "eglMakeCurrent", platform.egl_current);
    LOOK_UP(lib, "eglDestroyContext", platform.egl_destroy);
    LOOK_UP(lib, "eglDestroySurface", platform.egl_destroy_surface);
    const int wanted[] = {EGL_SURFACE_TYPE,
                          EGL_PBUFFER,
                          EGL_RENDERABLE_TYPE,
                          EGL_OPENGL_BIT,
                          EGL_RED,
                          8,
                          EGL_GREEN,
                          8,
                          EGL_BLUE,
                          8,
                          EGL_DEPTH,
                          24,
                          EGL_STENCIL,
                          8,
                          EGL_END};
    int count = 0;
    int ok = get_proc && default_display && initialize && bind && choose && platform.egl_create &&
             platform.egl_pbuffer && platform.egl_current && platform.egl_destroy &&
             platform.egl_destroy_surface;
    ok = ok && (platform.display = first_display(get_proc, default_display, initialize)) != NULL;
    ok = ok && choose(platform.display, wanted, &platform.config, 1, &count) && count > 0;
    ok = ok && bind(EGL_OPENGL);
    // made visible only now, so that a failure here leaves the way free for OSMesa
    ok = ok && dlopen("libEGL.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) != NULL;
    if (!ok) dlclose(lib);
    return ok;
}

static int open_osmesa(void) {
    static const char* const names[] = {"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"};
    for (int i = 0; i < 3; i++) {
        void* lib = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
        if (!lib) continue;
        LOOK_UP(lib, "OSMesaCreateContextExt", platform.osmesa_create);
        LOOK_UP(lib, "OSMesaMakeCurrent", platform.osmesa_current);
        LOOK_UP(lib, "OSMesaDestroyContext", platform.osmesa_destroy);
        if (platform.osmesa_create && platform.osmesa_current && platform.osmesa_destroy) return 1;
        dlclose(lib);
    }
    return 0;
}

static firm_status choose_platform(const char* wanted, firm_error* err) {
    firm_status status = FIRM_OK;
    pthread_mutex_lock(&platform.lock);
    if (!platform.name) {
        if ((!wanted || strcmp(wanted, "egl") == 0) && open_egl())
            platform.name = "egl";
        else if ((!wanted || strcmp(wanted, "osmesa") == 0) && open_osmesa())
            platform.name = "osmesa";
    }
    if (!platform.name)
        status =
            FAIL(err, FIRM_E_UNAVAILABLE,
                 "the renderer 'gl' needs %s, which was not found; install libosmesa6 (apt-get "
                 "install libosmesa6) or use the renderer 'native'",
                 !wanted                         ? "EGL or OSMesa"
                 : strcmp(wanted, "egl") == 0    ? "a working EGL"
                 : strcmp(wanted, "osmesa") == 0 ? "OSMesa"
                                                 : "'egl' or 'osmesa'");
    else if (wanted && strcmp(wanted, platform.name) != 0)
        status =
            FAIL(err, FIRM_E_UNAVAILABLE,
                 "this process draws through '%s' already and cannot change to '%s'; start another",
                 platform.name, wanted);
    pthread_mutex_unlock(&platform.lock);
    return status;
}

static int make_current(glscene* g) {
    if (strcmp(platform.name, "egl") == 0)
        return (int)platform.egl_current(platform.display, g->surface, g->surface, g->context);
    return platform.osmesa_current(g->context, g->surface, GL_BYTE_UNSIGNED, g->size, g->size);
}

// So that the next call may come from another thread.
static void release_current(void) {
    if (strcmp(platform.name, "egl") == 0)
        platform.egl_current(platform.display, NULL, NULL, NULL);
    else
        platform.osmesa_current(NULL, NULL, 0, 0, 0);
}

static firm_status make_context(glscene* g, firm_error* err) {
    if (strcmp(platform.name, "egl") == 0) {
        const int box[] = {EGL_WIDTH, g->size, EGL_HEIGHT, g->size, EGL_END};
        g->context = platform.egl_create(platform.display, platform.config, NULL, NULL);
        g->surface = platform.egl_pbuffer(platform.display, platform.config, box);
    } else {
        g->context = platform.osmesa_create(OSMESA_RGBA, 24, 8, 0, NULL);
        g->surface = mem_alloc((size_t)g->size * (size_t)g->size * 4);
    }
    if (!g->context || !g->surface || !make_current(g))
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "%s gives no OpenGL context of %d x %d pixels; use the renderer 'native'",
                    platform.name, g->size, g->size);
    return FIRM_OK;
}

typedef struct make_call {
    glscene* g;
    const mjModel* model;
} make_call;

static void make_scene(void* arg) {
    make_call* c = arg;
    glscene* g = c->g;
    mjv_defaultOption(&g->option);
    mjv_defaultScene(&g->scene);
    mjv_makeScene(c->model, &g->scene, 10000);
    g->has_scene = 1;
    mjr_defaultContext(&g->render);
    mjr_makeContext(c->model, &g->render, mjFONTSCALE_150);
    g->has_render = 1;
    mjr_setBuffer(mjFB_OFFSCREEN, &g->render);
    if (g->render.offWidth < g->size || g->render.offHeight < g->size)
        mjr_resizeOffscreen(g->size, g->size, &g->render);
}

firm_status glscene_create(const mjModel* model, const char* camera, int size, const char* wanted,
                           glscene** out, firm_error* err) {
    *out = NULL;
    int id = mj_name2id(model, mjOBJ_CAMERA, camera);
    if (id < 0) return FAIL(err, FIRM_E_VALUE, "the model has no camera '%s'", camera);
    if (size < 1 || size > 4096)
        return FAIL(err, FIRM_E_VALUE, "a picture of %d pixels a side; allowed are 1 to 4096",
                    size);
    TRY(choose_platform(wanted, err));
    glscene* g = mem_calloc(1, sizeof *g);
    if (!g) return FAIL(err, FIRM_E_MEMORY, "no memory for an OpenGL scene");
    g->size = size;
    mjv_defaultCamera(&g->camera);
    g->camera.type = mjCAMERA_FIXED;
    g->camera.fixedcamid = id;
    firm_status status = make_context(g, err);
    if (status == FIRM_OK) {
        char text[256];
        status = physics_call(make_scene, &(make_call){g, model}, text);
        if (status != FIRM_OK || g->render.currentBuffer != mjFB_OFFSCREEN)
            status = FAIL(err, FIRM_E_UNAVAILABLE,
                          "MuJoCo cannot draw through %s (%s); use the renderer 'native'",
                          platform.name, status == FIRM_OK ? "no offscreen buffers" : text);
    }
    if (status != FIRM_OK) {
        glscene_free(g);
        return status;
    }
    release_current();
    *out = g;
    return FIRM_OK;
}

void glscene_render(glscene* g, const mjModel* model, mjData* data, uint8_t* rgb) {
    mjrRect view = {0, 0, g->size, g->size};
    make_current(g);
    mj_camlight(model, data);
    mjv_updateScene(model, data, &g->option, NULL, &g->camera, mjCAT_ALL, &g->scene);
    mjr_setBuffer(mjFB_OFFSCREEN, &g->render);
    mjr_render(view, &g->scene, &g->render);
    mjr_readPixels(rgb, NULL, view, &g->render);
    release_current();
    // OpenGL's first row is the lowest
    size_t row = (size_t)g->size * 3;
    for (int y = 0; y < g->size / 2; y++) {
        uint8_t *a = rgb + (size_t)y * row, *b = rgb + (size_t)(g->size - 1 - y) * row;
        for (size_t i = 0; i < row; i++) {
            uint8_t t = a[i];
            a[i] = b[i];
            b[i] = t;
        }
    }
}

const char* glscene_platform(const glscene* g) {
    (void)g;
    return platform.name;
}

void glscene_free(glscene* g) {
    if (!g) return;
    if (g->has_render && make_current(g)) mjr_freeContext(&g->render);
    if (g->has_scene) mjv_freeScene(&g->scene);
    release_current();
    if (strcmp(platform.name, "egl") == 0) {
        if (g->surface) platform.egl_destroy_surface(platform.display, g->surface);
        if (g->context) platform.egl_destroy(platform.display, g->context);
    } else {
        if (g->context) platform.osmesa_destroy(g->context);
        mem_free(g->surface);
    }
    mem_free(g);
}
