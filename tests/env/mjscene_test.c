// mjscene_test.c - the software rasteriser of MuJoCo scenes: on its own (shapes, restoring,
// refusals, memory, the same bits everywhere) and beside MuJoCo's own renderer where OSMesa is
// installed.
#include "check.h"
#include "core/mem.h"
#include "core/stats.h"
#include "env/env.h"
#include "env/render/compare.h"

static uint8_t one[ENV_FRAME_BYTES], two[ENV_FRAME_BYTES], three[ENV_FRAME_BYTES];
static uint8_t mark[ENV_IMAGE * ENV_IMAGE];
static int found[ENV_IMAGE * ENV_IMAGE];

static void square(uint8_t* rgb, int left, int top) {
    memset(rgb, 20, ENV_FRAME_BYTES);
    for (int y = top; y < top + 9; y++)
        for (int x = left; x < left + 9; x++) memset(rgb + 3 * (y * ENV_IMAGE + x), 200, 3);
}

TEST(env, render_shift) {
    memset(three, 20, sizeof three);
    square(one, 100, 100);
    square(two, 100, 100);
    EXPECT_NEAR(render_shift(one, two, three, mark, found), 0, 0);
    EXPECT_NEAR(render_psnr(one, two), 99, 0);
    square(two, 102, 99);
    EXPECT_NEAR(render_shift(one, two, three, mark, found), sqrt(5), 1e-12);
    square(two, 100, 101);
    EXPECT_NEAR(render_shift(one, two, three, mark, found), 1, 1e-12);
    memcpy(two, one, sizeof two);
    two[0] = (uint8_t)(two[0] + 10);
    EXPECT_NEAR(render_psnr(one, two), 10 * log10(255.0 * 255 * sizeof one / 100), 1e-9);
}

#if __has_include(<mujoco/mujoco.h>)
#include <mujoco/mujoco.h>

#include "env/render/mjscene.h"

// OSMesa keeps a few hundred bytes per context; the address sanitizer's leak check asks here.
__attribute__((visibility("default"))) const char* __lsan_default_suppressions(void);
const char* __lsan_default_suppressions(void) {
    return "leak:libOSMesa.so\n";
}

// Everything the rasteriser draws: all shapes, textures, both kinds of light, a mirror, sky, haze,
// a site.
static const char everything[] =
    "<mujoco><visual><quality shadowsize='2048'/><map znear='0.01' zfar='50'/></visual>"
    "<statistic center='0 0 0.3' extent='2'/><asset>"
    "<texture name='sky' type='skybox' builtin='gradient' rgb1='0.4 0.6 0.8' rgb2='0 0 0' "
    "width='128' height='128'/>"
    "<texture name='grid' type='2d' builtin='checker' rgb1='0.1 0.2 0.3' rgb2='0.2 0.3 0.4' "
    "width='100' height='100'/>"
    "<texture name='side' type='cube' builtin='checker' rgb1='0.8 0.2 0.3' rgb2='0.2 0.8 0.4' "
    "width='64' height='64'/>"
    "<material name='grid' texture='grid' texrepeat='2 2' texuniform='true' reflectance='0.3'/>"
    "<material name='side' texture='side' specular='1' shininess='1'/>"
    "<material name='tile' texture='grid' texrepeat='3 3'/>"
    "<material name='glow' rgba='0.2 0.6 0.2 1' emission='0.5'/>"
    "<mesh name='tetra' vertex='0 0 0  0.3 0 0  0 0.3 0  0 0 0.3'/></asset><worldbody>"
    "<light pos='0.5 -1 2' dir='-0.2 0.4 -1' cutoff='40' exponent='5' attenuation='1 0.1 0.05'/>"
    "<light pos='-1 -1 2' dir='0.5 0.5 -1' directional='true' diffuse='0.3 0.3 0.3'/>"
    "<camera name='above' pos='0 -2.2 1.3' xyaxes='1 0 0 0 0.45 0.9' fovy='50'/>"
    "<camera name='level' pos='0 -2.2 0.5' xyaxes='1 0 0 0 -0.1 0.99' fovy='60'/>"
    "<geom type='plane' size='0 0 0.1' material='grid'/>"
    "<geom type='box' size='0.12 0.1 0.15' pos='-0.7 0.3 0.15' euler='0 0 30' material='side'/>"
    "<body pos='0 0 0.3'><freejoint/><geom name='ball' type='sphere' size='0.2' material='glow'/>"
    "</body><body pos='0.6 0.2 0.3'><freejoint/><geom type='capsule' size='0.08 0.2' "
    "euler='30 20 0' rgba='0.8 0.5 0.2 1'/></body>"
    "<body pos='-0.4 -0.5 0.2'><freejoint/><geom type='cylinder' size='0.1 0.15' euler='60 0 20' "
    "rgba='0.3 0.5 0.8 1'/></body>"
    "<body pos='0.4 -0.6 0.2'><freejoint/><geom type='ellipsoid' size='0.2 0.1 0.06' "
    "euler='0 30 40' rgba='0.8 0.8 0.2 1'/></body>"
    "<body pos='0 0.8 0.4'><freejoint/><geom type='mesh' mesh='tetra' rgba='0.7 0.3 0.7 1'/></body>"
    "<body pos='0.9 -0.3 0.15'><freejoint/><geom type='box' size='0.1 0.12 0.08' euler='20 0 50' "
    "material='tile'/><site size='0.05' pos='0 0 0.2' rgba='1 0 0 1'/></body>"
    "</worldbody></mujoco>";

// A white ball, nothing else; nothing is turned, so that MuJoCo's own arithmetic is exact.
static const char ball[] =
    "<mujoco><visual><headlight ambient='1 1 1' diffuse='0 0 0' specular='0 0 0'/>"
    "<quality numslices='64' numstacks='64'/></visual><statistic center='0 0 0' extent='1'/>"
    "<worldbody><camera name='eye' pos='0 0 2' fovy='45'/>"
    "<body><joint type='slide' axis='1 0 0'/><geom name='ball' type='sphere' size='0.5' "
    "rgba='1 1 1 1'/></body>%s</worldbody></mujoco>";

static mjModel* load(const char* xml) {
    char text[500] = "";
    mjSpec* spec = mj_parseXMLString(xml, NULL, text, sizeof text);
    mjModel* m = spec ? mj_compile(spec, NULL) : NULL;
    if (!m) test_fail(__FILE__, __LINE__, "the test's scene: %s", text);
    mj_deleteSpec(spec);
    return m;
}

static mjModel* load_with(const char* more) {
    char xml[4000];
    snprintf(xml, sizeof xml, ball, more);
    return load(xml);
}

static uint64_t hash(const uint8_t* rgb) {
    return stats_hash(STATS_HASH_START, rgb, ENV_FRAME_BYTES);
}

TEST(env, mjscene_ball) {
    firm_error err;
    mjModel* m = load_with("");
    mjData* d = m ? mj_makeData(m) : NULL;
    mjscene* s;
    if (!d) return;
    REQUIRE_OK(mjscene_create(m, "eye", ENV_IMAGE, &s, &err), err);
    EXPECT_TEXT(mjscene_renderer(s), "native");
    for (int place = 0; place < 2; place++) {
        d->qpos[0] = 0.2 * place;
        mj_kinematics(m, d);
        mjscene_render(s, m, d, one);
        double sum = 0, x = 0, y = 0;
        for (int i = 0; i < ENV_IMAGE * ENV_IMAGE; i++) {
            double part = one[3 * i] / 255.0;
            sum += part;
            x += part * (i % ENV_IMAGE + 0.5);
            y += part * (i / ENV_IMAGE + 0.5);
        }
        // the cone of tangents from 2 m to a ball of 0.5 m, cut by the picture 1 / (2 tan 22.5)
        // away
        double focal = 0.5 * ENV_IMAGE / 0.41421356237309503, off = 0.2 * place;
        double t2 = 0.25 / (4 + off * off - 0.25);  // tan^2 of its half angle
        if (place == 0) EXPECT_NEAR(sum, 3.14159265 * focal * focal * t2, 0.01 * sum);
        EXPECT_NEAR(x / sum, 112 + focal * off / 2 * (1 + t2 * (1 + off * off / 4)), 0.35);
        EXPECT_NEAR(y / sum, 112, 0.02);
    }
    mjscene_free(s);
    mj_deleteData(d);
    mj_deleteModel(m);
}

TEST(env, mjscene_same_bits) {
    firm_error err;
    mjModel* m = load_with(
        "<light pos='0 0 3' dir='0 0 -1'/><geom type='plane' size='1 1 0.1' pos='0 0 -0.5' "
        "rgba='0.4 0.5 0.6 1'/>");
    mjData* d = m ? mj_makeData(m) : NULL;
    mjscene* s;
    if (!d) return;
    mj_kinematics(m, d);
    REQUIRE_OK(mjscene_create(m, "eye", ENV_IMAGE, &s, &err), err);
    mjscene_render(s, m, d, one);
    // a change of this number changes every picture: raise the renderer's version in the tasks'
    // specs
    EXPECT_INT(hash(one), 8995699352326530576);
    mjscene_free(s);
    mj_deleteData(d);
    mj_deleteModel(m);
}

TEST(env, mjscene_forgets_the_last_frame) {
    firm_error err;
    mjModel* m = load(everything);
    mjData* d = m ? mj_makeData(m) : NULL;
    mjscene *s, *fresh;
    if (!d) return;
    REQUIRE_OK(mjscene_create(m, "above", ENV_IMAGE, &s, &err), err);
    REQUIRE_OK(mjscene_create(m, "above", ENV_IMAGE, &fresh, &err), err);
    mj_forward(m, d);
    mjscene_render(s, m, d, one);
    int64_t before = mem_count();
    for (int i = 0; i < m->njnt; i++) d->qpos[7 * i] += 0.1 * (i - 2);
    mj_kinematics(m, d);
    mjscene_render(s, m, d, two);
    mjscene_render(fresh, m, d, three);
    EXPECT(memcmp(one, two, sizeof one) != 0);
    EXPECT(memcmp(two, three, sizeof two) == 0);
    mj_resetData(m, d);
    mj_forward(m, d);
    mjscene_render(s, m, d, two);
    EXPECT(memcmp(one, two, sizeof one) == 0);
    // colours of what moves are read anew, and alpha 0 hides
    int g = mj_name2id(m, mjOBJ_GEOM, "ball");
    const uint8_t* middle = two + 3 * (102 * ENV_IMAGE + 112);
    EXPECT(middle[1] > middle[0] + 40);
    const float blue[4] = {0, 0, 1, 1};
    memcpy(m->geom_rgba + 4 * g, blue, sizeof blue);
    mjscene_render(s, m, d, two);
    EXPECT(middle[2] > 100 && middle[0] < 60);
    m->geom_rgba[4 * g + 3] = 0;
    mjscene_render(s, m, d, two);
    EXPECT(middle[2] < 100);
    EXPECT_INT(mem_count() - before, 0);
    // poses that are no numbers, and some far beyond the picture, draw nothing and break nothing
    for (int i = 0; i < 3 * m->ngeom; i++) d->geom_xpos[i] = i % 2 ? NAN : 1e30;
    mjscene_render(s, m, d, three);
    EXPECT(memcmp(two, three, sizeof two) != 0);
    mj_resetData(m, d);
    mj_forward(m, d);
    mjscene_render(s, m, d, three);
    EXPECT(memcmp(two, three, sizeof two) == 0);
    mjscene_free(s);
    mjscene_free(fresh);
    mj_deleteData(d);
    mj_deleteModel(m);
}

TEST(env, mjscene_refuses) {
    static const struct {
        const char *more, *says;
    } cases[] = {
        {"<geom type='box' size='1 1 1' rgba='1 1 1 0.5'/>", "seen through"},
        {"<geom type='plane' size='1 1 1' pos='0 0 3'/>", "seen through"},  // from behind
        {"<body><freejoint/><geom size='0.1'/><light/></body>", "light 0 moves"},
    };
    firm_error err;
    mjscene* s;
    for (int i = 0; i < 3; i++) {
        mjModel* m = load_with(cases[i].more);
        if (!m) return;
        EXPECT_INT(mjscene_create(m, "eye", ENV_IMAGE, &s, &err), FIRM_E_UNAVAILABLE);
        EXPECT(s == NULL && strstr(err.message, cases[i].says));
        mj_deleteModel(m);
    }
    mjModel* m = load_with("<body><freejoint/><geom size='0.1'/><camera name='rider'/></body>");
    if (!m) return;
    EXPECT_INT(mjscene_create(m, "rider", ENV_IMAGE, &s, &err), FIRM_E_UNAVAILABLE);
    EXPECT(strstr(err.message, "moves"));
    EXPECT_INT(mjscene_create(m, "nowhere", ENV_IMAGE, &s, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "nowhere"));
    EXPECT_INT(mjscene_create(m, "eye", 4, &s, &err), FIRM_E_VALUE);
    EXPECT_INT(mjscene_create(m, "eye", 100000, &s, &err), FIRM_E_VALUE);
    EXPECT_INT(mjscene_use("paint", &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "gl-osmesa"));
    EXPECT_TEXT(mjscene_choice(), "native");
    mj_deleteModel(m);
    mjscene_free(NULL);
}

TEST(env, mjscene_without_memory) {
    firm_error err;
    mjscene* s;
    // a floor with an end and small shadow maps, to be quick
    char xml[sizeof everything];
    memcpy(xml, everything, sizeof xml);
    memcpy(strstr(xml, "'2048'"), "'0032'", 6);
    memcpy(strstr(xml, "'0 0 0.1'"), "'3 3 1.0'", 9);
    mjModel* m = load(xml);
    if (!m) return;
    int n = 0;
    for (firm_status status = FIRM_E_MEMORY; status != FIRM_OK && n < 1000; n++) {
        mem_fail_after(n);
        status = mjscene_create(m, "level", 32, &s, &err);
        mem_fail_after(-1);
        EXPECT_INT(status, s ? FIRM_OK : FIRM_E_MEMORY);
        mjscene_free(s);
    }
    EXPECT(n > 50 && n < 1000);
    mj_deleteModel(m);
}

// ---- beside MuJoCo's own renderer ----

static int has_osmesa(void) {
    firm_error err;
    mjscene* s = NULL;
    mjModel* m = load_with("");
    firm_status status = mjscene_use("gl-osmesa", &err);
    if (status == FIRM_OK) status = mjscene_create(m, "eye", 32, &s, &err);
    if (status == FIRM_E_UNAVAILABLE) {
        EXPECT(strstr(err.message, "libosmesa6") || strstr(err.message, "native"));
        test_skip(err.message);
    } else {
        EXPECT_INT(status, FIRM_OK);
        if (s) EXPECT_TEXT(mjscene_renderer(s), "gl-osmesa");
    }
    EXPECT_INT(mjscene_use("native", &err), FIRM_OK);
    mjscene_free(s);
    mj_deleteModel(m);
    return status == FIRM_OK;
}

TEST(env, mjscene_like_gl) {
    static const char* const cameras[] = {"above", "level"};
    firm_error err;
    if (!has_osmesa()) return;
    mjModel* m = load(everything);
    mjData* d = m ? mj_makeData(m) : NULL;
    if (!d) return;
    mj_forward(m, d);
    for (int i = 0; i < 2; i++) {
        mjscene *native, *gl;
        REQUIRE_OK(mjscene_create(m, cameras[i], ENV_IMAGE, &native, &err), err);
        REQUIRE_OK(mjscene_use("gl-osmesa", &err), err);
        REQUIRE_OK(mjscene_create(m, cameras[i], ENV_IMAGE, &gl, &err), err);
        REQUIRE_OK(mjscene_use("native", &err), err);
        mjscene_render(native, m, d, one);
        mjscene_render(gl, m, d, two);
        double db = render_psnr(one, two);
        if (db < 40) test_fail(__FILE__, __LINE__, "camera %s: %.2f dB", cameras[i], db);
        mjscene_free(native);
        mjscene_free(gl);
    }
    mj_deleteData(d);
    mj_deleteModel(m);
}

static void tasks_like_gl(const char* task, int states, double least_db) {
    firm_error err;
    render_report r;
    firm_status status = render_compare(env_find(task), "gl-osmesa", states, 5, NULL, &r, &err);
    if (status == FIRM_E_MISSING) {
        test_skip(err.message);
        return;
    }
    REQUIRE_OK(status, err);
    if (r.psnr_mean < least_db) test_fail(__FILE__, __LINE__, "%s: %.2f dB", task, r.psnr_mean);
    EXPECT(r.shift_most <= 1);
    EXPECT(r.native_per_s > 0 && r.gl_per_s > 0 && r.psnr_least <= r.psnr_mean);
}

TEST(env, reacher_like_gl) {
    if (has_osmesa()) tasks_like_gl("reacher", 12, 40);
}

TEST(env, cube_like_gl) {
    if (has_osmesa()) tasks_like_gl("cube", 4, 38);
}

#endif

TEST(env, compare_needs_two_renderers) {
    firm_error err;
    render_report r;
    EXPECT_INT(render_compare(env_find("tworoom"), "gl", 3, 1, NULL, &r, &err), FIRM_E_UNAVAILABLE);
    EXPECT(strstr(err.message, "tworoom"));
}
