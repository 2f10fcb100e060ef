// compare.h - the two renderers of a task side by side: how alike their pictures are and how fast
// they come. For `firm bench render` and the tests; knows nothing of the task but its env_spec.
#ifndef ENV_RENDER_COMPARE_H
#define ENV_RENDER_COMPARE_H

#include "env/env.h"

typedef struct render_report {
    int states;
    char gl[16];                    // "gl-egl" or "gl-osmesa"
    double native_per_s, gl_per_s;  // frames per second, one thread each
    double ratio;
    double psnr_mean, psnr_least;  // dB, over the states
    double
        shift_most;  // pixels: the shift that fits a moving thing of one picture best to the other
} render_report;

// Draws `states` random states with native and with `gl` ("gl", "gl-egl", "gl-osmesa"). With a path
// in `picture` (nullable) the first state is written there as a PNG: gl left, native right.
// FIRM_E_UNAVAILABLE: the task has one renderer only, or there is no OpenGL. Not for use while
// other threads create environments: it changes the process's choice of renderer and sets it to
// native at the end.
firm_status render_compare(const env_spec* spec, const char* gl, int states, uint64_t seed,
                           const char* picture, render_report* out, firm_error* err);

// The renderer that the task's environments are given now: "native", or what FIRM_RENDERER says.
const char* render_name(const env_spec* spec);
// The same as files note it: our own renderers with their version, "native 1".
const char* render_label(const env_spec* spec);

// Parts of it, on whole frames: the peak signal-to-noise ratio in dB (99 for equal frames), and the
// shift that fits the moving things of a, where it differs from `still`, best to b. Scratch: mark
// (pixels), found (pixels).
double render_psnr(const uint8_t* a, const uint8_t* b);
double render_shift(const uint8_t* a, const uint8_t* b, const uint8_t* still, uint8_t* mark,
                    int* found);

#endif
