// pusht.c - Push-T: an agent pushes a T-shaped block. Joins the physics (pusht_world.c), the
// picture (render/pusht.c) and the collection policies to a task.
//
// State setting follows the reference's setter, settling step included, but always in a fresh
// space: the reference lets velocities of whatever came before leak in. The state alone does not
// hold Chipmunk's cached contact impulses, so an exact save is the last state set and the controls
// since.
#include "env/pusht.h"

const env_sign pusht_signs[] = {{"block_pose", 0}, {"n_contacts", 0}, {"state", 7}, {NULL, 0}};

#ifdef FIRM_CHIPMUNK
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/render/pygame.h"

enum {
    JOURNAL = 1024,     // controls that an exact save can hold
    DEMO_CAP = 245,     // the public set's longest episode has 246 rows
    DEMO_MIN_ROWS = 49  // and its shortest 49
};
#define WEAK_REACH 100.0  // px around the block that the weak policy stays in

// What the collector notes beside the state.
enum { EXTRA_ANGLE, EXTRA_CONTACTS, EXTRA_REWARD, EXTRAS };

// Everything since the last state was set; replaying it gives the same bits.
typedef struct journal {
    double origin[PUSHT_STATE];
    int steps;
    float action[JOURNAL][2];
} journal;

typedef struct pusht {
    env base;
    pusht_world world;
    pygame_canvas* canvas;
    pusht_demo* demo;          // made when the demonstrator first acts
    double goal[PUSHT_STATE];  // for reward and the weak policy's episode end
    double reward;             // NaN before the first step
    journal past;
} pusht;

// ---- life ---------------------------------------------------------------------------------------

static firm_status open_world(env* base, firm_error* err) {
    pusht* e = (pusht*)base;
    e->canvas = mem_alloc(sizeof *e->canvas);
    e->demo = pusht_demo_create();
    if (!e->canvas || !e->demo) {
        mem_free(e->canvas);
        pusht_demo_free(e->demo);
        return FAIL(err, FIRM_E_MEMORY, "no memory for a Push-T environment");
    }
    pusht_canvas_reset(e->canvas);
    pusht_world_open(&e->world);
    return FIRM_OK;
}

static void close_world(env* base) {
    pusht* e = (pusht*)base;
    pusht_world_close(&e->world);
    pusht_demo_free(e->demo);
    mem_free(e->canvas);
}

// ---- dynamics -----------------------------------------------------------------------------------

static void state_get(const env* base, double* state) {
    pusht_world_get(&((const pusht*)base)->world, state);
}

static double distance(const double* a, const double* b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

static double angle_between(double a, double b) {
    double d = fmod(fabs(a - b), 2 * PUSHT_PI);
    return fmin(d, 2 * PUSHT_PI - d);
}

static int success(const env_spec* spec, const double* state, const double* goal) {
    (void)spec;
    return distance(state, goal, 4) < 20.0 &&
           angle_between(state[PUSHT_ANGLE], goal[PUSHT_ANGLE]) < PUSHT_PI / 9;
}

static void step(env* base, const float* action) {
    pusht* e = (pusht*)base;
    double state[PUSHT_STATE];
    if (base->fault != FIRM_OK) return;
    if (!pusht_action_fits(action[0], action[1])) {
        base->fault = FIRM_E_VALUE;  // nothing has moved
        return;
    }
    if (e->past.steps < JOURNAL)
        memcpy(e->past.action[e->past.steps], action, sizeof e->past.action[0]);
    e->past.steps++;
    pusht_world_step(&e->world, action[0], action[1]);
    state_get(base, state);
    if (!pusht_state_fits(state))
        base->fault = FIRM_E_VALUE;  // blown up; the next step would abort
    e->reward = -distance(state, e->goal, PUSHT_STATE);
}

static void set_clean(pusht* e, const double* state) {
    memcpy(e->past.origin, state, sizeof e->past.origin);
    e->past.steps = 0;
    e->base.fault = FIRM_OK;
    e->reward = NAN;
    pusht_world_set(&e->world, state);
}

static void state_set(env* base, const double* state) {
    static const double centre[PUSHT_STATE] = {256, 400, 256, 256, PUSHT_GOAL_ANGLE, 0, 0};
    pusht* e = (pusht*)base;
    int fits = pusht_state_fits(state);
    set_clean(e, fits ? state : centre);  // something drawable
    if (!fits) base->fault = FIRM_E_VALUE;
}

static void recall(env* base, const double* state) {
    pusht* e = (pusht*)base;
    state_set(base, state);
    e->past.steps = JOURNAL + 1;  // such a start cannot be saved
    if (base->fault == FIRM_OK) pusht_world_recall(&e->world, state);
}

// ---- exact save ---------------------------------------------------------------------------------

static firm_status save(const env* base, void* bytes) {
    const pusht* e = (const pusht*)base;
    if (base->fault != FIRM_OK) return base->fault;
    if (e->past.steps > JOURNAL) return FIRM_E_UNAVAILABLE;
    memcpy(bytes, &e->past, sizeof e->past);
    return FIRM_OK;
}

static void restore(env* base, const void* bytes) {
    pusht* e = (pusht*)base;
    journal past;
    memcpy(&past, bytes, sizeof past);
    if (!pusht_state_fits(past.origin) || past.steps < 0 || past.steps > JOURNAL) {
        state_set(base, past.origin);
        base->fault = FIRM_E_VALUE;
        return;
    }
    set_clean(e, past.origin);
    for (int i = 0; i < past.steps; i++) step(base, past.action[i]);
}

// ---- pictures -----------------------------------------------------------------------------------

static void render(const env* base, uint8_t* rgb) {
    const pusht* e = (const pusht*)base;
    pusht_draw(&e->world, e->canvas, rgb);
}

// A recorded row looks as it did when it was recorded: the settling step does not move the agent
// on.
static void picture(env* base, const double* state, uint8_t* rgb) {
    pusht* e = (pusht*)base;
    if (!pusht_state_fits(state)) {
        base->fault = FIRM_E_VALUE;
        return;
    }
    base->fault = FIRM_OK;
    e->past.steps = JOURNAL + 1;  // this moment cannot be saved
    pusht_world_recall(&e->world, state);
    pusht_draw(&e->world, e->canvas, rgb);
}

// ---- collection ---------------------------------------------------------------------------------

static void draw_state(rng* r, double* s) {
    s[PUSHT_AX] = rng_uniform(r, 50, 450);
    s[PUSHT_AY] = rng_uniform(r, 50, 450);
    s[PUSHT_BX] = rng_uniform(r, 100, 400);
    s[PUSHT_BY] = rng_uniform(r, 100, 400);
    s[PUSHT_ANGLE] = rng_uniform(r, -2 * PUSHT_PI, 2 * PUSHT_PI);
    s[PUSHT_VX] = s[PUSHT_VY] = 0.0;
}

// The reference's starts: agent and block, or block and wall, may overlap.
static void reset_any(env* base, rng* r) {
    pusht* e = (pusht*)base;
    double start[PUSHT_STATE];
    draw_state(r, e->goal);
    draw_state(r, start);
    set_clean(e, start);
}

// A person starts with the agent beside a block that lies free, so starts that touch are drawn
// again (two in three).
static void reset_free(env* base, rng* r) {
    pusht* e = (pusht*)base;
    do reset_any(base, r);
    while (e->world.contacts > 0);
    pusht_demo_begin(e->demo);
}

// The reference's own policy: random targets, kept near the block.
static void weak(env* base, rng* r, float* action) {
    double s[PUSHT_STATE];
    state_get(base, s);
    for (int k = 0; k < 2; k++) {
        double target = s[k] + PUSHT_ACTION_SCALE * rng_uniform(r, -1.0, 1.0);
        double block = s[PUSHT_BX + k];
        target = fmin(fmax(target, block - WEAK_REACH), block + WEAK_REACH);
        action[k] = (float)fmin(fmax((target - s[k]) / PUSHT_ACTION_SCALE, -1.0), 1.0);
    }
}

static int weak_ended(const env* base) {
    double s[PUSHT_STATE];
    state_get(base, s);
    return success(base->spec, s, ((const pusht*)base)->goal);
}

static void demonstrate(env* base, rng* r, float* action) {
    double s[PUSHT_STATE];
    state_get(base, s);
    pusht_demo_act(((const pusht*)base)->demo, s, r, action);
}

static int demonstrated(const env* base) {
    double s[PUSHT_STATE];
    state_get(base, s);
    return ((const pusht*)base)->past.steps + 1 >= DEMO_MIN_ROWS && pusht_demo_done(s);
}

static void extra_get(const env* base, double* extra) {
    const pusht* e = (const pusht*)base;
    extra[EXTRA_ANGLE] = pusht_world_angle(&e->world);
    extra[EXTRA_CONTACTS] = ceil((double)e->world.contacts / PUSHT_SUBSTEPS);
    extra[EXTRA_REWARD] = e->reward;
}

// A block jammed between agent and wall goes wherever the solver's last bits send it. The walls'
// inner side is 7 px from the rim, and a block that merely lies against one overlaps 0.1 px.
static int pressed_into_wall(const env_spec* spec, const double* state) {
    (void)spec;
    return pusht_wall_gap(state) < 7.0 - 0.2;
}

// ---- columns of the public files ----------------------------------------------------------------

static void column_proprio(const double* state, const double* extra, double* out) {
    (void)extra;
    out[0] = state[PUSHT_AX];
    out[1] = state[PUSHT_AY];
    out[2] = state[PUSHT_VX];
    out[3] = state[PUSHT_VY];
}

static void column_pose(const double* state, const double* extra, double* out) {
    out[0] = state[PUSHT_BX];
    out[1] = state[PUSHT_BY];
    out[2] = extra[EXTRA_ANGLE];
}

static void column_contacts(const double* state, const double* extra, double* out) {
    (void)state;
    out[0] = extra[EXTRA_CONTACTS];
}

static void column_reward(const double* state, const double* extra, double* out) {
    (void)state;
    out[0] = extra[EXTRA_REWARD];
}

static const env_column columns[] = {
    {"proprio", 4, 64, column_proprio, 0, NULL},
    {"block_pose", 3, 64, column_pose, 0, NULL},
    {"n_contacts", 1, 0, column_contacts, 0, NULL},
    {"reward", 1, 64, column_reward, 0, NULL},
};

// ---- typed conversions --------------------------------------------------------------------------

static void config(const env_spec* spec, const double* s, float* c) {
    (void)spec;
    c[0] = (float)sin(s[PUSHT_ANGLE]);
    c[1] = (float)cos(s[PUSHT_ANGLE]);
    for (int k = 0; k < 4; k++) c[2 + k] = (float)(s[k] / 256.0 - 1.0);
}

// change of agent, block (in units of c) and block angle (wrapped, rad) over the last macro action
static void chi(const env_spec* spec, const double* s, const double* before,
                const double* macro_before, float* out) {
    (void)spec, (void)before;
    for (int k = 0; k < 4; k++) out[k] = (float)((s[k] - macro_before[k]) / 256.0);
    out[4] = (float)remainder(s[PUSHT_ANGLE] - macro_before[PUSHT_ANGLE], 2 * PUSHT_PI);
}

// the block is being pushed: it has moved since the last control
static int rare(const env_spec* spec, const double* s, const double* before) {
    (void)spec;
    double moved = hypot(s[PUSHT_BX] - before[PUSHT_BX], s[PUSHT_BY] - before[PUSHT_BY]);
    double turned = fabs(remainder(s[PUSHT_ANGLE] - before[PUSHT_ANGLE], 2 * PUSHT_PI));
    return moved > 0.5 || turned > 0.01;
}

// A situation: agent and goal as seen from where the block and the agent are, and the block's
// direction now and then, in tolerances of 20 px and 20 degrees.
#define C(i) \
    { TASK_CONFIG, i }
#define GOAL(i) \
    { TASK_GOAL, i }
#define PLACE(a, b) \
    { 256.0f / 20.0f, a, b, 1 }
#define TURN(a) \
    { 1 / 0.35f, a, {TASK_ZERO, 0}, 1 }
// pixels of the picture per unit of c, and the block's centre of gravity in its frame
#define SCALE (256.0f * ENV_IMAGE / PUSHT_CANVAS)
#define COG ((float)PUSHT_COG / 256.0f)
#define SLANT 0.70710678  // sine and cosine of PUSHT_GOAL_ANGLE

// ---- the parts of the task ----------------------------------------------------------------------

static int fits(const env_spec* spec, const double* state) {
    (void)spec;
    return pusht_state_fits(state);
}

static const env_state states = {.dim = PUSHT_STATE,
                                 .drawn = PUSHT_VX,
                                 .fits = fits,
                                 .erratic = pressed_into_wall,
                                 .config = config,
                                 .chi = chi,
                                 .rare = rare,
                                 .success = success};

static const env_simulator simulator = {
    .physics = "Chipmunk 7.0.3, double",
    .renderer = "pusht native 1 (pygame 2.6.1 and OpenCV rules)",
    .bytes = sizeof(pusht),
    .open = open_world,
    .close = close_world,
    .reset = reset_free,
    .step = step,
    .state_get = state_get,
    .state_set = state_set,
    .recall = recall,
    .render = render,
    .picture = picture,
    .save_bytes = sizeof(journal),
    .save = save,
    .restore = restore,
};

static const env_policy policies[] = {
    {"demo", "a demonstrator that plans one control at a time", DEMO_CAP, reset_free, demonstrate,
     demonstrated},
    {"weak", "random targets near the block", 100, reset_any, weak, weak_ended},
};

static const env_collection collection = {
    .episodes = 18685,
    .validation = 2000,
    .policies = sizeof policies / sizeof policies[0],
    .policy = policies,
    .interventions = {ENV_PROPOSAL_TABLE, .replay = 1, .anchors = 512, .per_anchor = 16},
    .structured = &pusht_structured,
};

static const env_layout layout = {
    .signs = pusht_signs,
    .state_column = "state",
    .state_bits = 64,
    .episode_column = "episode_idx",
    .extra_dim = EXTRAS,
    .extra_get = extra_get,
    .columns = sizeof columns / sizeof columns[0],
    .column = columns,
};

static const env_study study = {
    .demo = {.episodes = 16, .offset = 25, .tries = 8},
    .far = 100,
    .plus = "pusht-plus",
};

const env_spec pusht_spec = {
    .scenery =
        {.sentence =
             "The green T is a fixed decoration of the environment\u2019s picture. It is not "
             "the goal: the goal image shows where the grey block has to go.",
         .name = "decoration",
         .at = {(PUSHT_GOAL_X - SLANT * PUSHT_COG) * ENV_IMAGE / PUSHT_CANVAS,
                (PUSHT_GOAL_Y + SLANT * PUSHT_COG) * ENV_IMAGE / PUSHT_CANVAS}},
    .task =
        {.name = "pusht",
         .image = ENV_IMAGE,
         .period_ms = 100,
         .controls = ENV_CONTROLS,
         .horizon = ENV_HORIZON,
         .action_dim = 2,
         .action_low = -1.0f,
         .action_high = 1.0f,
         .config_dim = 6,
         .pairs = 1,
         .chi_dim = 5,
         .config_name = {"block_sin", "block_cos", "agent_x", "agent_y", "block_x", "block_y"},
         .distances = 2,
         .distance = {{"block angle", "rad", PUSHT_ANGLE_TOLERANCE, {.angle = 1}},
                      {"agent and block",
                       "px",
                       PUSHT_POSITION_TOLERANCE,
                       {.first = 2, .count = 4, .scale = 256.0f}}},
         .cost = TASK_COST_MAX,
         // the agent may walk out of the picture, as 1.4 % of the demonstrations' moments have it
         .ranges = 2,
         .visible = {{2, -1, 1}, {3, -1, 1}},
         .points = 2,
         .point = {{.name = "agent",
                    .x = {0, 0, SCALE, 0, 0, 0, SCALE},
                    .y = {0, 0, 0, SCALE, 0, 0, SCALE},
                    .w = {0, 0, 0, 0, 0, 0, 1}},
                   {.name = "block",  // its centre of gravity
                    .x = {-COG * SCALE, 0, 0, 0, SCALE, 0, SCALE},
                    .y = {0, COG* SCALE, 0, 0, 0, SCALE, SCALE},
                    .w = {0, 0, 0, 0, 0, 0, 1}}},
         .situation_dim = 10,
         .situation = {PLACE(C(2), C(4)), PLACE(C(3), C(5)), PLACE(GOAL(4), C(4)),
                       PLACE(GOAL(5), C(5)), PLACE(GOAL(2), C(2)), PLACE(GOAL(3), C(3)), TURN(C(0)),
                       TURN(C(1)), TURN(GOAL(0)), TURN(GOAL(1))},
         // A control is ten steps of 0.01 s of v += (100 (target - p) - 20 v) dt, p += v dt, with
         // the target 100 px per unit of action away from where it began; motion is what comes of
         // it. Boxes: the bar, and the stem up to the bar's outer edge.
         .push = {.boxes = 2,
                  .agent = {2, 3},
                  .block = {4, 5},
                  .scale = 256,
                  .motion = {29.567178591344152f, 0.0299318124665663f, 374.1476558320787f,
                             -0.00655233199439112f},
                  .radius = 15,
                  .centre = {0, PUSHT_COG},
                  .soft = 6,
                  .deep = 15,
                  .unit = 32,
                  .arm = 60,
                  .far = 100,
                  .box = {{0, 15, 60, 15}, {0, 60, 15, 60}}}},
    .title = "push a T-shaped block, and come to stand, where the goal image shows both",
    .state = &states,
    .sim = &simulator,
    .collection = &collection,
    .layout = &layout,
    .study = &study,
};
#endif
