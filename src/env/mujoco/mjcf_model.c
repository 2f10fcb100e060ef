// mjcf_model.c - a MuJoCo model by the words of a task file: loads it, looks its parts up by name,
// and finds where in a state each number of the task's formulas is.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "env/mujoco/mjcf.h"
#include "env/mujoco/physics.h"

enum { HIDDEN = 5 };            // a group that MuJoCo's default view leaves out
enum { MOST_ARENA = 1 << 30 };  // bytes of a simulation
#define VIEW "firm view"        // the camera that a view adds
#define MOST_SUBSTEPS 1000

// ---- loading ------------------------------------------------------------------------------------

typedef struct load_call {
    const taskfile_simulator* words;
    mjModel* model;
    char error[256];
} load_call;

// MuJoCo's free camera: turned by azimuth about z, then by elevation, looking at a point.
static void add_view(mjSpec* spec, const double view[6]) {
    mjsCamera* c = mjs_addCamera(mjs_findBody(spec, "world"), NULL);
    double a = view[4] * mjPI / 180, e = view[5] * mjPI / 180;
    double forward[3] = {cos(e) * cos(a), cos(e) * sin(a), sin(e)};
    double up[3] = {-sin(e) * cos(a), -sin(e) * sin(a), cos(e)};
    mjs_setName(c->element, VIEW);
    c->alt.type = mjORIENTATION_XYAXES;
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        c->pos[k] = view[k] - view[3] * forward[k];
        c->alt.xyaxes[k] = forward[i] * up[j] - forward[j] * up[i];
        c->alt.xyaxes[3 + k] = up[k];
    }
}

static void load(void* arg) {
    load_call* c = arg;
    mjSpec* spec = mj_parseXML(c->words->xml, NULL, c->error, sizeof c->error);
    if (!spec) return;
    if (c->words->has_view) add_view(spec, c->words->view);
    c->model = mj_compile(spec, NULL);
    if (!c->model) snprintf(c->error, sizeof c->error, "%.200s", mjs_getError(spec));
    mj_deleteSpec(spec);
}

static firm_status load_model(const taskfile_simulator* words, mjModel** out, firm_error* err) {
    char text[256];
    load_call c = {.words = words};
    *out = NULL;
    firm_status status = physics_call(load, &c, text);
    const char* why = status != FIRM_OK ? text : c.error;
    if (!c.model)
        return FAIL(err, FIRM_E_FORMAT, "MuJoCo cannot load %.150s: %.*s; repair the model",
                    words->xml, (int)strcspn(why, "\n"), why);
    *out = c.model;
    return FIRM_OK;
}

// ---- names --------------------------------------------------------------------------------------

static firm_status find(const mjModel* m, const taskfile* f, mjtObj type, const char* name, int* id,
                        firm_error* err) {
    *id = mj_name2id(m, type, name);
    if (*id >= 0) return FIRM_OK;
    char list[160] = "";
    int count = type == mjOBJ_JOINT      ? (int)m->njnt
                : type == mjOBJ_ACTUATOR ? (int)m->nu
                : type == mjOBJ_CAMERA   ? (int)m->ncam
                : type == mjOBJ_BODY     ? (int)m->nbody
                : type == mjOBJ_SITE     ? (int)m->nsite
                : type == mjOBJ_KEY      ? (int)m->nkey
                                         : (int)m->ngeom;
    for (int i = 0; i < count; i++) {
        const char* other = mj_id2name(m, type, i);
        if (other) text_add(list, sizeof list, "%s%.40s", list[0] ? ", " : "", other);
    }
    return FAIL(err, FIRM_E_FORMAT, "%s: the model has no %s '%.48s'; it has: %s", f->path,
                mju_type2Str(type), name, list[0] ? list : "none with a name");
}

static const struct {
    const char* name;
    mjtObj type;
    int width;
} arrays[] = {
    {"xpos", mjOBJ_BODY, 3},      {"xmat", mjOBJ_BODY, 9},      {"site_xpos", mjOBJ_SITE, 3},
    {"site_xmat", mjOBJ_SITE, 9}, {"geom_xpos", mjOBJ_GEOM, 3}, {"geom_xmat", mjOBJ_GEOM, 9},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

// qpos, qvel or act: *first and *count of its numbers in a state.
static firm_status find_vector(const mjcf* w, const taskfile* f, const expression_ref* r,
                               int* first, int* count, firm_error* err) {
    const mjModel* m = w->model;
    int joint, velocity = strcmp(r->name, "qvel") == 0, act = strcmp(r->name, "act") == 0;
    *first = velocity ? w->nq : act ? w->nq + w->nv : 0;
    *count = velocity ? w->nv : act ? w->na : w->nq;
    if (!r->of[0]) return FIRM_OK;
    if (act)
        return FAIL(err, FIRM_E_FORMAT, "%s: act(%s) is not known; write act[0], act[1], ...",
                    f->path, r->of);
    static const int positions[] = {7, 4, 1, 1}, velocities[] = {6, 3, 1, 1};
    TRY(find(m, f, mjOBJ_JOINT, r->of, &joint, err));
    *first += velocity ? m->jnt_dofadr[joint] : m->jnt_qposadr[joint];
    *count = velocity ? velocities[m->jnt_type[joint]] : positions[m->jnt_type[joint]];
    return FIRM_OK;
}

// Where in a state the reference is; numbers beside qpos, qvel and act get a place of their own.
static firm_status find_ref(mjcf* w, const taskfile* f, const expression_ref* r, int* at,
                            firm_error* err) {
    int first = 0, count = 0, id, i = 0;
    if (strcmp(r->name, "qpos") == 0 || strcmp(r->name, "qvel") == 0 ||
        strcmp(r->name, "act") == 0) {
        TRY(find_vector(w, f, r, &first, &count, err));
        *at = first + r->index;
    } else {
        while (i < ARRAYS && strcmp(arrays[i].name, r->name) != 0) i++;
        if (i == ARRAYS || !r->of[0])
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s: [config] reads %s, which no model has; write qpos[i], qvel[i], act[i], "
                "qpos(JOINT), qvel(JOINT), xpos(BODY)[i], xmat(BODY)[i], or these of a "
                "site or geom: site_xpos(SITE)[i]",
                f->path, r->name);
        TRY(find(w->model, f, arrays[i].type, r->of, &id, err));
        count = arrays[i].width;
        w->look[w->seen].of = i;
        w->look[w->seen].at = id * count + r->index;
        *at = w->nq + w->nv + w->na + w->seen++;
    }
    if (r->index < count) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "%s: [config] reads %s%s%s%s[%d], of %d numbers; count from 0",
                f->path, r->name, r->of[0] ? "(" : "", r->of, r->of[0] ? ")" : "", r->index, count);
}

// ---- the parts ----------------------------------------------------------------------------------

static firm_status find_actuators(mjcf* w, const taskfile* f, firm_error* err) {
    const taskfile_names* names = &f->simulator.actuators;
    const mjModel* m = w->model;
    w->actuators = names->count ? names->count : (int)m->nu;
    if (w->actuators < 1 || w->actuators > FIRM_MAX_ACTION)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: the model has %d actuators; name 1 to %d of them under [simulator]",
                    f->path, w->actuators, FIRM_MAX_ACTION);
    for (int i = 0; i < w->actuators; i++) {
        int id = i;
        if (names->count) TRY(find(m, f, mjOBJ_ACTUATOR, names->name[i], &id, err));
        const double* range = m->actuator_ctrlrange + 2 * id;
        if (!m->actuator_ctrllimited[id] || !(range[0] < range[1]))
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s: actuator %d of the model has no ctrlrange, so nothing says how far its "
                "actions go; give it one, or leave it out of actuators",
                f->path, id);
        w->actuator[i] = id;
        w->low[i] = range[0];
        w->high[i] = range[1];
    }
    return FIRM_OK;
}

static firm_status find_starts(mjcf* w, const taskfile* f, firm_error* err) {
    const taskfile_simulator* words = &f->simulator;
    const mjModel* m = w->model;
    w->keyframe = -1;
    if (words->keyframe[0]) TRY(find(m, f, mjOBJ_KEY, words->keyframe, &w->keyframe, err));
    for (int i = 0; i < words->starts; i++) {
        int joint;
        TRY(find(m, f, mjOBJ_JOINT, words->start[i].joint, &joint, err));
        if (m->jnt_type[joint] != mjJNT_HINGE && m->jnt_type[joint] != mjJNT_SLIDE)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: [start] %s is no hinge or slide; others begin as in the model or its "
                        "keyframe",
                        f->path, words->start[i].joint);
        w->start[i] =
            (mjcf_start){m->jnt_qposadr[joint], words->start[i].low, words->start[i].high};
    }
    w->starts = words->starts;
    return FIRM_OK;
}

static firm_status hide(mjcf* w, const taskfile* f, firm_error* err) {
    mjModel* m = w->model;
    for (int i = 0; i < f->simulator.hide.count; i++) {
        const char* name = f->simulator.hide.name[i];
        int geom = mj_name2id(m, mjOBJ_GEOM, name), site = mj_name2id(m, mjOBJ_SITE, name);
        int tendon = mj_name2id(m, mjOBJ_TENDON, name);
        if (geom >= 0) m->geom_group[geom] = HIDDEN;
        if (site >= 0) m->site_group[site] = HIDDEN;
        if (tendon >= 0) m->tendon_group[tendon] = HIDDEN;
        if (geom < 0 && site < 0 && tendon < 0)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: the model has no geom, site or tendon '%.48s' to hide", f->path, name);
    }
    return FIRM_OK;
}

static firm_status find_substeps(mjcf* w, const taskfile* f, firm_error* err) {
    double steps = f->task.period_ms / (1000 * w->model->opt.timestep);
    w->substeps = (int)(steps + 0.5);
    if (steps >= 0.5 && steps <= MOST_SUBSTEPS && fabs(steps - w->substeps) < 1e-6) return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE,
                "%s: period_ms = %d is no multiple of the model's time step of %g ms, from 1 to %d "
                "of them; choose another period",
                f->path, f->task.period_ms, 1000 * w->model->opt.timestep, MOST_SUBSTEPS);
}

// What a state would leave out, or a machine could not hold.
static firm_status check_model(const mjcf* w, const taskfile* f, firm_error* err) {
    const mjModel* m = w->model;
    if (m->nplugin || m->nhistory || m->nflex)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "%s: the model has plugins, delays or flexible bodies, which are not supported",
                    f->path);
    if (m->nq < 1 || m->nq + m->nv + m->na > ENV_MAX_STATE)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "%s: the model has %d positions, %d velocities and %d activations; 1 to %d "
                    "together are supported",
                    f->path, (int)m->nq, (int)m->nv, (int)m->na, ENV_MAX_STATE);
    if (m->narena > MOST_ARENA)
        return FAIL(err, FIRM_E_UNAVAILABLE, "%s: the model asks for %d MiB; at most %d are given",
                    f->path, (int)(m->narena >> 20), MOST_ARENA >> 20);
    return FIRM_OK;
}

static firm_status complete(mjcf* w, taskfile* f, firm_error* err) {
    mjModel* m = w->model;
    TRY(check_model(w, f, err));
    w->nq = (int)m->nq;
    w->nv = (int)m->nv;
    w->na = (int)m->na;
    w->image = f->task.image;
    m->opt.disableflags |= mjDSBL_AUTORESET;  // a breakdown must be seen
    snprintf(w->camera, sizeof w->camera, "%s", f->simulator.has_view ? VIEW : f->simulator.camera);
    int camera;
    TRY(find(m, f, mjOBJ_CAMERA, w->camera, &camera, err));
    TRY(find_substeps(w, f, err));
    TRY(find_actuators(w, f, err));
    TRY(find_starts(w, f, err));
    TRY(hide(w, f, err));
    for (int i = 0; i < f->refs; i++) TRY(find_ref(w, f, &f->ref[i], &f->at[i], err));
    if (w->nq + w->nv + w->na + w->seen > ENV_MAX_STATE)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "%s: a state has %d numbers with those that [config] reads; at most %d are "
                    "supported",
                    f->path, w->nq + w->nv + w->na + w->seen, ENV_MAX_STATE);
    return taskfile_finish(f, w->actuators, err);
}

firm_status mjcf_open(taskfile* f, mjcf** out, uint32_t* sum, firm_error* err) {
    mjcf* w = *out = mem_calloc(1, sizeof *w);
    if (!w) return FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    firm_status status = mjcf_check_files(f->simulator.xml, sum, err);
    if (status == FIRM_OK) status = load_model(&f->simulator, &w->model, err);
    if (status == FIRM_OK) status = complete(w, f, err);
    if (status == FIRM_OK) return FIRM_OK;
    mjcf_free(w);
    *out = NULL;
    return status;
}

void mjcf_free(mjcf* w) {
    if (!w) return;
    mj_deleteModel(w->model);
    mem_free(w);
}
