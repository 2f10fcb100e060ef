// light_test.c - the light on a vertex by hand: a lamp one above a floor, with and without a cone.
#include "check.h"

#ifdef FIRM_MUJOCO
#include "env/render/native.h"

// what a white floor at (x, 0, 0) gets of a white lamp at height 1 that shines down
static float floor_light(const light* lamp, float x) {
    local_lights all = {.count = 1, .of = {*lamp}, .eye = {0, 0, 5}};
    material white = {.rgba = {1, 1, 1, 1}};
    float p[3] = {x, 0, 0}, up[3] = {0, 0, 1}, out[3];
    native_light_vertex(&all, &white, 0, 1, p, up, out);
    EXPECT_NEAR(out[1], out[0], 0);
    return out[0];
}

TEST(env, a_lamp_lights_by_angle_distance_and_cone) {
    power_table even;
    native_power_fill(&even, 0);  // as bright everywhere in the cone
    light lamp = {.shadow = -1,
                  .pos = {0, 0, 1},
                  .dir = {0, 0, -1},
                  .diffuse = {0.5f, 0.5f, 0.5f},
                  .attenuation = {1, 0, 0},
                  .fall_off = &even};
    EXPECT_NEAR(floor_light(&lamp, 0), 0.5, 1e-6);
    EXPECT_NEAR(floor_light(&lamp, 1), 0.5 * sqrt(0.5), 1e-6);  // 45 degrees
    lamp.attenuation[2] = 1;                                    // 1 + distance squared
    EXPECT_NEAR(floor_light(&lamp, 0), 0.25, 1e-6);
    EXPECT_NEAR(floor_light(&lamp, 1), 0.5 * sqrt(0.5) / 3, 1e-6);
    lamp.attenuation[2] = 0;
    lamp.spot = 1;
    lamp.cos_cutoff = 0.8f;  // 37 degrees: the floor up to 0.75
    EXPECT_NEAR(floor_light(&lamp, 0.74f), 0.5 / hypot(1, 0.74), 1e-6);
    EXPECT_NEAR(floor_light(&lamp, 0.76f), 0, 0);
}
#endif
