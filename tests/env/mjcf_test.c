// mjcf_test.c - MuJoCo models by task file: states that continue bit for bit, numbers by hand,
// names that are not there, and XML that reaches for other files.
#define _GNU_SOURCE
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "env/env.h"
#include "env/filetask.h"

#ifdef FIRM_MUJOCO
#define NEEDS_MUJOCO
#else
#define NEEDS_MUJOCO                       \
    do {                                   \
        test_skip("built without MuJoCo"); \
        return;                            \
    } while (0)
#endif

static const char* put(const char* name, const char* text) {
    static char path[4][600];
    static int next;
    char* p = path[next++ % 4];
    snprintf(p, 600, "%s/%s", test_temp_dir(), name);
    FILE* f = fopen(p, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        test_fail(__FILE__, __LINE__, "cannot write %s", p);
    return p;
}

// A cart with a pole, and a ball that falls onto it and rolls: contacts, a hinge, a free joint.
#define MODEL                                                                                     \
    "<mujoco><option timestep='0.005'/><include file='parts/sky.xml'/><worldbody>"                \
    "<light pos='0 0 3'/><camera name='side' pos='0 -3 1' xyaxes='1 0 0 0 0 1'/>"                 \
    "<geom name='floor' type='plane' size='2 2 .1' rgba='.3 .3 .3 1'/>"                           \
    "<body name='cart' pos='0 0 .3'><joint name='slide' type='slide' axis='1 0 0' damping='1'/>"  \
    "<geom name='cart' type='box' size='.3 .2 .1' mass='1' rgba='.8 .2 .2 1'/>"                   \
    "<body name='pole' pos='0 0 .1'><joint name='hinge' type='hinge' axis='0 1 0' damping='.1'/>" \
    "<geom name='pole' type='capsule' fromto='0 0 0 0 0 .5' size='.03' mass='.1'/>"               \
    "<site name='tip' pos='0 0 .5'/></body></body>"                                               \
    "<body name='ball' pos='.1 0 1.4'><freejoint name='free'/>"                                   \
    "<geom name='ball' type='sphere' size='.1' mass='.2' rgba='.2 .2 .9 1'/></body>"              \
    "</worldbody><actuator><motor name='push' joint='slide' gear='3' ctrllimited='true' "         \
    "ctrlrange='-2 6'/><motor name='turn' joint='hinge' ctrllimited='true' ctrlrange='-1 1'/>"    \
    "<general name='lag' joint='slide' dyntype='filter' dynprm='.1' ctrllimited='true' "          \
    "ctrlrange='-1 1'/></actuator>"                                                               \
    "<keyframe><key name='high' qpos='.2 .5 .1 0 2 1 0 0 0'/></keyframe></mujoco>"
#define SKY                                                                                  \
    "<mujoco><asset><texture type='skybox' builtin='gradient' rgb1='.4 .6 .8' rgb2='0 0 0' " \
    "width='64' height='64'/></asset></mujoco>"
#define WORDS                                                                             \
    "[task]\nname = cart\npixels = 64\nperiod_ms = 20\n"                                  \
    "[config]\npole = angle qpos(hinge)\ncart = qpos(slide)\ntip_x = site_xpos(tip)[0]\n" \
    "tip_z = site_xpos(tip)[2] - 0.4\nball_z = xpos(ball)[2] + 0 * qpos[4]\n"             \
    "[distance]\npole = angle pole, rad, 0.1\ncart = norm cart, 1 m, 0.1\n"
#define SIMULATOR "[simulator]\nxml = cart.xml\ncamera = side\n"

static void put_model(void) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/parts", test_temp_dir());
    mkdir(folder, 0700);
    put("parts/sky.xml", SKY);
    put("cart.xml", MODEL);
}

static const env_spec* open_task(const char* name, const char* words) {
    const env_spec* spec = NULL;
    firm_error err = {0};
    put_model();
    if (env_open_task(put(name, words), &spec, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", name, err.message);
    return spec;
}

TEST(env, mjcf_states_continue_bit_for_bit) {
    NEEDS_MUJOCO;
    const env_spec* spec = open_task("a.ini", WORDS SIMULATOR "[start]\nslide = -0.5 0.5\n");
    if (!spec) return;
    EXPECT_INT(spec->task.action_dim, 3);
    EXPECT_INT(spec->task.action_clamped, 1);
    EXPECT_INT(spec->task.image, 64);
    EXPECT_INT(spec->state->dim, 9 + 8 + 1 + 3);
    EXPECT_INT(spec->state->drawn, 9);
    EXPECT(strstr(spec->sim->physics, "cart.xml"));
    firm_error err = {0};
    env *a, *b;
    REQUIRE_OK(env_create(spec, &a, &err), err);
    REQUIRE_OK(env_create(spec, &b, &err), err);
    rng r = rng_start(3, RNG_STREAM(RNG_TEST, 1));
    spec->sim->reset(a, &r);
    double state[ENV_MAX_STATE], other[ENV_MAX_STATE];
    int touched = 0;
    for (int t = 0; t < 150; t++) {
        float action[3];
        for (int i = 0; i < 3; i++) action[i] = (float)rng_uniform(&r, -1.3, 1.3);
        spec->sim->state_get(a, state);
        spec->sim->state_set(b, state);
        spec->sim->step(a, action);
        spec->sim->step(b, action);
        spec->sim->state_get(a, state);
        spec->sim->state_get(b, other);
        if (memcmp(state, other, sizeof(double) * (size_t)spec->state->dim) != 0) {
            test_fail(__FILE__, __LINE__, "control %d continues differently", t);
            break;
        }
        touched |= state[4] < 0.7;
    }
    EXPECT(touched);  // the ball lies on something: contacts were part of it
    EXPECT_INT(a->fault, FIRM_OK);
    spec->sim->step(a, (float[]){NAN, 0, 0});
    EXPECT_INT(a->fault, FIRM_E_VALUE);
    state[0] = INFINITY;
    spec->sim->state_set(b, state);
    EXPECT_INT(b->fault, FIRM_E_VALUE);
    env_free(a);
    env_free(b);
}

TEST(env, mjcf_numbers_by_hand) {
    NEEDS_MUJOCO;
    const env_spec* spec =
        open_task("b.ini", WORDS SIMULATOR "keyframe = high\nactuators = turn push\n");
    if (!spec) return;
    EXPECT_INT(spec->task.action_dim, 2);
    firm_error err = {0};
    env* e;
    REQUIRE_OK(env_create(spec, &e, &err), err);
    rng r = rng_start(3, RNG_STREAM(RNG_TEST, 1));
    spec->sim->reset(e, &r);
    double s[ENV_MAX_STATE];
    float c[FIRM_MAX_CONFIG];
    spec->sim->state_get(e, s);
    env_config(spec, s, c);
    EXPECT_NEAR(c[0], sin(0.5), 1e-7);
    EXPECT_NEAR(c[1], cos(0.5), 1e-7);
    EXPECT_NEAR(c[2], 0.2, 1e-7);
    EXPECT_NEAR(c[3], 0.2 + 0.5 * sin(0.5), 1e-6);
    EXPECT_NEAR(c[4], 0.5 * cos(0.5), 1e-6);
    EXPECT_NEAR(c[5], 2, 1e-6);
    // -1 is the low end of a ctrlrange, 1 the high end: the cart is pushed by -2 and by 6, times 3
    double speed[2];
    for (int i = 0; i < 2; i++) {
        spec->sim->reset(e, &r);
        spec->sim->step(e, (float[]){0, i ? 5.0f : -1.0f});
        spec->sim->state_get(e, s);
        speed[i] = s[9];
    }
    EXPECT(speed[0] < -0.05);
    EXPECT_NEAR(speed[1] / speed[0], -3, 0.3);
    // free fall over one control of 20 ms
    EXPECT_NEAR(s[9 + 4], -9.81 * 0.02, 1e-6);
    env_free(e);
}

TEST(env, mjcf_starts_fill_their_range) {
    NEEDS_MUJOCO;
    const env_spec* spec = open_task("r.ini", WORDS SIMULATOR "[start]\nslide = 0.3 0.5\n");
    if (!spec) return;
    firm_error err = {0};
    env* e;
    REQUIRE_OK(env_create(spec, &e, &err), err);
    rng r = rng_start(4, RNG_STREAM(RNG_TEST, 1));
    double least = 1, most = 0, s[ENV_MAX_STATE];
    float c[FIRM_MAX_CONFIG];
    for (int i = 0; i < 200; i++) {
        spec->sim->reset(e, &r);
        spec->sim->state_get(e, s);
        env_config(spec, s, c);
        least = fmin(least, (double)c[2]);
        most = fmax(most, (double)c[2]);
    }
    EXPECT(least >= 0.2999999 && least < 0.31 && most > 0.49 && most <= 0.5000001);
    env_free(e);
}

TEST(env, mjcf_pictures_and_what_is_hidden) {
    NEEDS_MUJOCO;
    const env_spec* seen = open_task("c.ini", WORDS SIMULATOR);
    const env_spec* hidden = open_task("d.ini", WORDS SIMULATOR "hide = ball\n");
    const env_spec* view =
        open_task("e.ini", WORDS "[simulator]\nxml = cart.xml\nview = 0 0 1 3 90 0\n");
    if (!seen || !hidden || !view) return;
    static uint8_t rgb[3][64 * 64 * 3];
    const env_spec* spec[] = {seen, hidden, view};
    for (int i = 0; i < 3; i++) {
        firm_error err = {0};
        env* e;
        REQUIRE_OK(env_create(spec[i], &e, &err), err);
        REQUIRE_OK(env_render_ready(&e, 1, &err), err);
        rng r = rng_start(3, RNG_STREAM(RNG_TEST, 1));
        spec[i]->sim->reset(e, &r);
        spec[i]->sim->render(e, rgb[i]);
        env_free(e);
    }
    int differ = 0, blue = 0, moved = 0;
    for (int p = 0; p < 64 * 64; p++) {
        differ += memcmp(rgb[0] + 3 * p, rgb[1] + 3 * p, 3) != 0;
        blue +=
            rgb[0][3 * p + 2] > 2 * rgb[0][3 * p] + 40 && memcmp(rgb[0] + 3 * p, rgb[1] + 3 * p, 3);
        moved += memcmp(rgb[0] + 3 * p, rgb[2] + 3 * p, 3) != 0;
    }
    EXPECT(differ > 8 && blue > 4 && differ < 400);
    EXPECT_INT(moved, 0);  // looking along y from (0, -3, 1) is what the camera does
}

TEST(env, mjcf_wrong_words) {
    NEEDS_MUJOCO;
    static const char* const bad[][2] = {
        {WORDS "[simulator]\nxml = none.xml\ncamera = side\n", "there is no MuJoCo model"},
        {WORDS "[simulator]\nxml = cart.xml\ncamera = top\n", "no camera 'top'; it has: side"},
        {WORDS SIMULATOR "actuators = pull\n", "no actuator 'pull'; it has: push, turn, lag"},
        {WORDS SIMULATOR "keyframe = low\n", "no key 'low'; it has: high"},
        {WORDS SIMULATOR "hide = cup\n", "no geom, site or tendon 'cup'"},
        {WORDS SIMULATOR "[start]\nfree = 0 1\n", "no hinge or slide"},
        {WORDS SIMULATOR "[start]\nelbow = 0 1\n", "no joint 'elbow'; it has: slide, hinge, free"},
        {"[task]\nname = x\nperiod_ms = 12\n" SIMULATOR
         "[config]\na = qpos[0]\n[distance]\nd = norm a, 1 m, 1\n",
         "no multiple of the model's time step of 5 ms"},
        {"[task]\nname = x\nperiod_ms = 20\n" SIMULATOR
         "[config]\na = qpos[9]\n[distance]\nd = norm a, 1 m, 1\n",
         "reads qpos[9], of 9 numbers"},
        {"[task]\nname = x\nperiod_ms = 20\n" SIMULATOR
         "[config]\na = xpos(ball)[3]\n[distance]\nd = norm a, 1 m, 1\n",
         "reads xpos(ball)[3], of 3 numbers"},
        {"[task]\nname = x\nperiod_ms = 20\n" SIMULATOR
         "[config]\na = speed\n[distance]\nd = norm a, 1 m, 1\n",
         "reads speed, which no model has"},
        {"[task]\nname = x\nperiod_ms = 20\n" SIMULATOR
         "[config]\na = xpos(cup)[0]\n[distance]\nd = norm a, 1 m, 1\n",
         "no body 'cup'; it has: world, cart, pole, ball"},
    };
    put_model();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[32];
        const env_spec* spec;
        firm_error err = {0};
        snprintf(name, sizeof name, "bad%zu.ini", i);
        if (env_open_task(put(name, bad[i][0]), &spec, &err) == FIRM_OK)
            test_fail(__FILE__, __LINE__, "case %zu was accepted", i);
        else if (!strstr(err.message, bad[i][1]))
            test_fail(__FILE__, __LINE__, "case %zu: '%s' instead of '%s'", i, err.message,
                      bad[i][1]);
    }
}

TEST(env, mjcf_files_stay_in_their_folder) {
    NEEDS_MUJOCO;
    static const char* const bad[][2] = {
        {"<include file='../secret.xml'/>", "leads out of its folder: '../secret.xml'"},
        {"<include file=\"/etc/hostname\"/>", "leads out of its folder: '/etc/hostname'"},
        {"<include file='a/../../b.xml'/>", "leads out of its folder"},
        {"<include file='&#46;./b.xml'/>", "leads out of its folder"},
        {"<include file='loop.xml'/>", "one include too many"},
        {"<include file='link.xml'/>", "a link leads out of its folder"},
        {"<compiler meshdir='../meshes'/>", "leads out of its folder: '../meshes'"},
        {"<asset><mesh file='http://x/y.obj'/></asset>", "leads out of its folder"},
        {"<asset><texture name='a' type='2d' file='/dev/zero'/></asset>",
         "leads out of its folder"},
        {"<asset><texture type='2d' builtin='flat' width='100000' height='1'/></asset>",
         "too large: '100000'"},
        {"<worldbody><replicate count='9999'><geom size='1'/></replicate></worldbody>",
         "too large"},
        {"<worldbody><flexcomp count='60 60 60'/></worldbody>", "too large: '60 60 60'"},
        {"<extension><plugin plugin='a.b'/></extension>", "plugins are not loaded"},
        {"<!DOCTYPE x [<!ENTITY a 'b'>]>", "declarations are not read"},
        {"<asset x=1/>", "an attribute cannot be read"},
    };
    char link[600];
    put_model();
    put("loop.xml", "<mujoco><include file='loop.xml'/></mujoco>");
    snprintf(link, sizeof link, "%s/link.xml", test_temp_dir());
    unlink(link);
    EXPECT_INT(symlink("/etc/hostname", link), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[32], text[2000];
        const env_spec* spec;
        firm_error err = {0};
        snprintf(text, sizeof text, "<mujoco><!-- <include file='/x'/> -->%s</mujoco>", bad[i][0]);
        put("hostile.xml", text);
        snprintf(name, sizeof name, "hostile%zu.ini", i);
        put(name, WORDS "[simulator]\nxml = hostile.xml\ncamera = side\n");
        snprintf(text, sizeof text, "%s/%s", test_temp_dir(), name);
        if (env_open_task(text, &spec, &err) == FIRM_OK)
            test_fail(__FILE__, __LINE__, "case %zu was accepted", i);
        else if (!strstr(err.message, bad[i][1]))
            test_fail(__FILE__, __LINE__, "case %zu: '%s' instead of '%s'", i, err.message,
                      bad[i][1]);
    }
}

// The models that the examples name: from packages, so only where `make mujoco` has put them.
TEST(env, mjcf_examples_open_and_draw) {
    NEEDS_MUJOCO;
    static const char* const name[] = {"point_mass", "ball_in_cup", "finger",
                                       "cartpole",   "pole",        "pusher"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char path[700];
        const env_spec* spec;
        firm_error err = {0};
        env* e;
        snprintf(path, sizeof path, "%s/examples/tasks/%s.ini", test_source_dir(), name[i]);
        firm_status status = env_open_task(path, &spec, &err);
        if (status == FIRM_E_MISSING) {
            test_skip(err.message);
            return;
        }
        REQUIRE_OK(status, err);
        REQUIRE_OK(env_create(spec, &e, &err), err);
        REQUIRE_OK(env_render_ready(&e, 1, &err), err);
        size_t bytes = (size_t)spec->task.image * (size_t)spec->task.image * 3;
        uint8_t *a = malloc(bytes), *b = malloc(bytes);
        rng r = rng_start(5, RNG_STREAM(RNG_TEST, i));
        spec->sim->reset(e, &r);
        spec->sim->render(e, a);
        float action[FIRM_MAX_ACTION], high = 1;
        for (int k = 0; k < FIRM_MAX_ACTION; k++) action[k] = high;
        for (int t = 0; t < 10; t++) spec->sim->step(e, action);
        spec->sim->render(e, b);
        EXPECT_INT(e->fault, FIRM_OK);
        int differ = 0;
        for (size_t k = 0; k < bytes; k++) differ += a[k] != b[k];
        if (differ < 60)
            test_fail(__FILE__, __LINE__, "%s: %d bytes of the picture changed", name[i], differ);
        env_free(e);
        free(a);
        free(b);
    }
}
