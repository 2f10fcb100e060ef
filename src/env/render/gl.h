// gl.h - MuJoCo's own renderer behind the same three calls as mjscene.h, for comparison and for
// models trained on frames published by others. It needs OpenGL: EGL, or OSMesa (software), found
// at run time.
#ifndef ENV_RENDER_GL_H
#define ENV_RENDER_GL_H

#include <stdint.h>

#include "core/status.h"

struct mjModel_;
struct mjData_;

typedef struct glscene glscene;

// `platform` is "egl", "osmesa", or NULL: the first of the two that works. A process keeps to the
// first platform it used. FIRM_E_UNAVAILABLE says what to install when there is none. Any thread
// may use the scene, one at a time.
firm_status glscene_create(const struct mjModel_* model, const char* camera, int size,
                           const char* platform, glscene** out, firm_error* err);
// As mjscene_render; data is not const: poses of cameras and lights are worked out in it.
void glscene_render(glscene* scene, const struct mjModel_* model, struct mjData_* data,
                    uint8_t* rgb);
const char* glscene_platform(const glscene* scene);  // "egl" or "osmesa"
void glscene_free(glscene* scene);                   // NULL is fine

#endif
