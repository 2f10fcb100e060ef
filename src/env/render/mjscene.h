// mjscene.h - pictures of MuJoCo scenes, by one of two renderers.
//
// `native`, the default, is our own software rasteriser: no OpenGL, and the same bits on every
// machine. `gl` is MuJoCo's own renderer (gl.h), for comparison and for models trained on frames
// published by others. Used by the environments that run on MuJoCo, Reacher and Cube.
//
// native draws what
// MuJoCo's own renderer draws with its default flags - planes, spheres, capsules, ellipsoids,
// cylinders, boxes, meshes, materials, textures, headlight and lights, shadows, one reflecting
// plane, sky and haze - at four samples per pixel. Its pictures are close to that renderer's
// (compare.h measures how close), not equal. What never moves is drawn once, at creation. It
// computes with IEEE single and double precision +, -, *, / and square roots only, no fused
// multiply-add (the project builds with -ffp-contract=off), no function of the math library.
#ifndef ENV_RENDER_MJSCENE_H
#define ENV_RENDER_MJSCENE_H

#include <stdint.h>

#include "core/status.h"

struct mjModel_;
struct mjData_;

typedef struct mjscene mjscene;

// Which renderer later calls of mjscene_create choose, in the whole process: "native", "gl"
// (through EGL, else OSMesa), "gl-egl" or "gl-osmesa". At the start it is FIRM_RENDERER of the
// environment, or native.
firm_status mjscene_use(const char* renderer, firm_error* err);
const char* mjscene_choice(void);  // what it would choose now; NULL: FIRM_RENDERER is wrong
const char* mjscene_renderer(const mjscene* scene);  // "native", "gl-egl" or "gl-osmesa"

// Prepares to draw `model` as seen by the camera of that name, size x size pixels. The camera, the
// lights and what is attached to the world must stay where they are in the model's initial state;
// the colour of things that move may change later, and alpha 0 hides them. FIRM_E_UNAVAILABLE names
// what the model has that native does not draw, or what to install for gl. One mjscene serves one
// thread at a time.
firm_status mjscene_create(const struct mjModel_* model, const char* camera, int size,
                           mjscene** out, firm_error* err);

// Draws the poses of `data` (geom_xpos, geom_xmat, site_xpos, site_xmat as they are: nothing is
// computed anew) into rgb (size, size, 3), top row first. `model` is the one of creation or a copy.
// native takes no memory and leaves data alone; gl puts the poses of cameras and lights into it.
void mjscene_render(mjscene* scene, const struct mjModel_* model, const struct mjData_* data,
                    uint8_t* rgb);

void mjscene_free(mjscene* scene);  // NULL is fine

#endif
