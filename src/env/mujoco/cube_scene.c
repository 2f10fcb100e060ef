// cube_scene.c - Cube's scene put together from the parts OGBench ships: floor and walls, the UR5e
// arm with the Robotiq gripper at its flange, the cube and the invisible marker of its target, the
// cameras.
//
// The body tree is the reference package's, joint-less frame bodies included, so that the
// arithmetic of a step is the same to the last bit; a test compares mass, inertia and every other
// number with it.
#include <stdio.h>
#include <string.h>

#include "env/mujoco/cube.h"

// The reference stores the cube's half-size as float32 before it is compiled.
#define HALF_SIZE ((double)0.02f)

typedef struct assembly {
    char folder[1024];  // .../manipspace
    mjSpec *scene, *arm, *gripper, *cube;
    mjModel* model;
    char problem[512];  // first thing that went wrong; empty: nothing
} assembly;

// The first trouble counts, and of MuJoCo's many lines the first, which names the file.
static void complain(assembly* a, const char* what, const char* detail) {
    if (a->problem[0]) return;
    if (!detail) detail = "unknown cause";
    if (strncmp(detail, "Error: ", 7) == 0) detail += 7;
    int line = (int)strcspn(detail, "\n");
    snprintf(a->problem, sizeof a->problem, "%s: %.*s", what, line < 240 ? line : 240, detail);
}

static mjSpec* parse(assembly* a, const char* file) {
    char path[1200], error[512] = "";
    snprintf(path, sizeof path, "%s/%s", a->folder, file);
    mjSpec* s = mj_parseXML(path, NULL, error, sizeof error);
    if (!s) complain(a, file, error);
    return s;
}

// cube_inner.xml uses a class that cube_outer.xml declares: the two make sense together only
static mjSpec* parse_cube(assembly* a) {
    char text[2400], error[512] = "";
    snprintf(text, sizeof text,
             "<mujoco><include file=\"%s/cube_outer.xml\"/><include "
             "file=\"%s/cube_inner.xml\"/></mujoco>",
             a->folder, a->folder);
    mjSpec* s = mj_parseXMLString(text, NULL, error, sizeof error);
    if (!s) complain(a, "cube_inner.xml", error);
    return s;
}

static void delete_all(mjSpec* s, mjtObj type) {
    for (mjsElement* e; (e = mjs_firstElement(s, type));)
        if (mjs_delete(s, e)) return;
}

// Hangs `body` of `child` under a new frame body of `parent` with the given pose.
static void attach(assembly* a, mjSpec* parent_spec, mjsBody* parent, const char* frame_name,
                   const double* pos, const double* quat, mjSpec* child, const char* body,
                   const char* prefix) {
    mjsBody* what = child ? mjs_findBody(child, body) : NULL;
    mjsBody* frame_body = parent && what ? mjs_addBody(parent, NULL) : NULL;
    if (!frame_body) {
        complain(a, "cannot attach", body);
        return;
    }
    mjs_setName(frame_body->element, frame_name);
    if (pos) memcpy(frame_body->pos, pos, sizeof frame_body->pos);
    if (quat) memcpy(frame_body->quat, quat, sizeof frame_body->quat);
    mjsFrame* frame = mjs_addFrame(frame_body, NULL);
    if (!frame || !mjs_attach(frame->element, what->element, prefix, ""))
        complain(a, body, mjs_getError(parent_spec));
}

static void add_objects(assembly* a) {
    mjsBody* world = mjs_findBody(a->scene, "world");
    mjsFrame* frame = mjs_addFrame(world, NULL);
    const char* const bodies[] = {"object_0", "object_target_0"};
    const char* const geoms[] = {"object_0", "target_object_0"};
    for (int i = 0; i < 2; i++) {
        mjsGeom* geom = mjs_asGeom(mjs_findElement(a->cube, mjOBJ_GEOM, geoms[i]));
        mjsBody* body = mjs_findBody(a->cube, bodies[i]);
        if (!geom || !body) {
            complain(a, "cube_inner.xml has no", bodies[i]);
            return;
        }
        for (int k = 0; k < 3; k++) geom->size[k] = HALF_SIZE;
        if (!mjs_attach(frame->element, body->element, "", ""))
            complain(a, bodies[i], mjs_getError(a->scene));
    }
}

static void add_cameras(assembly* a) {
    static const struct {
        const char* name;
        double pos[3], axes[6];
    } cameras[] = {
        {"front", {1.287, 0.0, 0.509}, {0, 1, 0, -0.342, 0, 0.940}},
        {"front_pixels", {1.053, -0.014, 0.639}, {0, 1, 0, -0.628, 0.001, 0.778}},
        {"side_pixels", {0.414, -0.753, 0.639}, {1, 0, 0, -0.001, 0.628, 0.778}},
        {"side", {1.287, 0.0, 0.509}, {1, 0, 0, -0.001, 0.628, 0.778}},
    };
    mjsBody* world = mjs_findBody(a->scene, "world");
    for (size_t i = 0; i < sizeof cameras / sizeof *cameras; i++) {
        mjsCamera* c = mjs_addCamera(world, NULL);
        mjs_setName(c->element, cameras[i].name);
        memcpy(c->pos, cameras[i].pos, sizeof c->pos);
        c->alt.type = mjORIENTATION_XYAXES;
        memcpy(c->alt.xyaxes, cameras[i].axes, sizeof c->alt.xyaxes);
    }
}

// Colours and statistics the reference sets on its way; they matter for the picture alone.
static void dress(assembly* a) {
    static const char* const purple[] = {"ur5e/robotiq/black", "ur5e/robotiq/pad_gray"};
    for (int i = 0; i < 2; i++) {
        mjsMaterial* m = mjs_asMaterial(mjs_findElement(a->scene, mjOBJ_MATERIAL, purple[i]));
        if (!m) {
            complain(a, "the gripper has no material", purple[i]);
            return;
        }
        const float rgb[3] = {0.61f, 0.28f, 0.82f};
        memcpy(m->rgba, rgb, sizeof rgb);
    }
    mjsGeom* target = mjs_asGeom(mjs_findElement(a->scene, mjOBJ_GEOM, "target_object_0"));
    mjsGeom* cube = mjs_asGeom(mjs_findElement(a->scene, mjOBJ_GEOM, "object_0"));
    if (target && cube) {
        memcpy(target->rgba, cube->rgba, sizeof target->rgba);
        target->rgba[3] = 0.0f;  // the target is not drawn
    }
    mjSpec* s = a->scene;
    s->stat.center[0] = 0.3, s->stat.center[1] = 0.0, s->stat.center[2] = 0.15;
    s->stat.extent = 0.7;
    s->stat.meansize = 0.04;
    s->visual.global.elevation = -20.0f;
    s->visual.global.azimuth = 180.0f;
    s->visual.global.offwidth = s->visual.global.offheight = ENV_IMAGE;
    // marks of what bounding boxes met, which only a viewer shows: 371 kB to clear in every step
    s->visual.global.bvactive = 0;
    s->visual.map.znear = 0.1f;
    s->visual.map.zfar = 10.0f;
}

static void assemble(void* arg) {
    assembly* a = arg;
    a->scene = parse(a, "floor_wall.xml");
    a->arm = parse(a, "universal_robots_ur5e/ur5e.xml");
    a->gripper = parse(a, "robotiq_2f85/2f85.xml");
    a->cube = parse_cube(a);
    if (a->problem[0]) return;

    delete_all(a->arm, mjOBJ_LIGHT);
    delete_all(a->arm, mjOBJ_KEY);
    const mjsSite* flange = mjs_asSite(mjs_findElement(a->arm, mjOBJ_SITE, "attachment_site"));
    mjsBody* wrist = mjs_findBody(a->arm, "wrist_3_link");
    if (!flange || !wrist) {
        complain(a, "ur5e.xml has no", "attachment_site on wrist_3_link");
        return;
    }
    attach(a, a->arm, wrist, "robotiq/", flange->pos, flange->quat, a->gripper, "base_mount",
           "robotiq/");
    attach(a, a->scene, mjs_findBody(a->scene, "world"), "ur5e/", NULL, NULL, a->arm, "base",
           "ur5e/");
    if (a->problem[0]) return;
    add_objects(a);
    add_cameras(a);
    if (!a->problem[0]) dress(a);

    mjOption* o = &a->scene->option;
    o->integrator = mjINT_IMPLICITFAST;
    o->cone = mjCONE_ELLIPTIC;
    o->impratio = 10;
    o->timestep = CUBE_SUBSTEP;
    // a simulation that breaks down must be seen, not quietly started again
    o->disableflags |= mjDSBL_AUTORESET;
    if (!a->problem[0]) {
        a->model = mj_compile(a->scene, NULL);
        if (!a->model) complain(a, "the scene does not compile", mjs_getError(a->scene));
    }
}

// The gains the reference writes after compiling. Its damping goes into a slot that is not read, so
// the effective one stays the XML's; force = kp (target - q) - kv qd.
static void set_gains(mjModel* m) {
    static const double kp[6] = {4500, 4500, 4500, 2000, 2000, 500},
                        unread[6] = {450, 450, 450, 200, 200, 50};
    for (int i = 0; i < 6; i++) {
        m->actuator_gainprm[i * mjNGAIN] = kp[i];
        m->actuator_gainprm[i * mjNGAIN + 2] = -unread[i];
        m->actuator_biasprm[i * mjNBIAS + 1] = -kp[i];
    }
}

static firm_status check_shape(const mjModel* m, firm_error* err) {
    if (m->nq == CUBE_QPOS && m->nv == CUBE_QVEL && m->nu == CUBE_CTRL && m->nmocap == 1)
        return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "the Cube scene has %d coordinates, %d velocities and %d motors instead of %d, %d "
                "and %d; run "
                "`make mujoco` again",
                (int)m->nq, (int)m->nv, (int)m->nu, CUBE_QPOS, CUBE_QVEL, CUBE_CTRL);
}

// Runs one of the assemblies on the folder that `file` lies in.
static firm_status build(void (*how)(void*), const char* file, mjModel** out, firm_error* err) {
    assembly a = {0};
    char text[256];
    *out = NULL;
    TRY(physics_find(file, a.folder, err));
    a.folder[strlen(a.folder) - strlen(strchr(file, '/'))] = '\0';
    if (strpbrk(a.folder, "\"<>&"))
        return FAIL(err, FIRM_E_USAGE,
                    "the folder %.400s has a quote, < > or & in its name, which scene files cannot",
                    a.folder);
    if (physics_call(how, &a, text) != FIRM_OK) complain(&a, "MuJoCo gave up", text);
    // what was attached is counted by its new owner as well, so each is given back here
    mjSpec* const specs[] = {a.cube, a.gripper, a.arm, a.scene};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (specs[i]) mj_deleteSpec(specs[i]);
    if (a.problem[0]) {
        mj_deleteModel(a.model);
        return FAIL(err, FIRM_E_FORMAT,
                    "Cube's scene cannot be built: %.380s; run `make mujoco` again", a.problem);
    }
    *out = a.model;
    return FIRM_OK;
}

static firm_status build_scene(mjModel** out, firm_error* err) {
    TRY(build(assemble, "manipspace/floor_wall.xml", out, err));
    firm_status status = check_shape(*out, err);
    if (status != FIRM_OK) {
        mj_deleteModel(*out);
        *out = NULL;
        return status;
    }
    set_gains(*out);
    return FIRM_OK;
}

// ---- the arm alone ------------------------------------------------------------------------------

static void assemble_arm(void* arg) {
    assembly* a = arg;
    a->arm = parse(a, "universal_robots_ur5e/ur5e.xml");
    if (!a->arm) return;
    // kinematics need bodies and joints only; without shapes there are no meshes to load
    delete_all(a->arm, mjOBJ_GEOM);
    delete_all(a->arm, mjOBJ_MESH);
    a->model = mj_compile(a->arm, NULL);
    if (!a->model) complain(a, "ur5e.xml", mjs_getError(a->arm));
}

static firm_status build_arm(mjModel** out, firm_error* err) {
    return build(assemble_arm, "manipspace/universal_robots_ur5e/ur5e.xml", out, err);
}

physics_shared cube_scene = {.build = build_scene};
physics_shared cube_arm = {.build = build_arm};
