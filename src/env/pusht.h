// pusht.h - Push-T's own data, shared by its physics (pusht_world.c), its demonstrator
// (pusht_demo.c), its picture (render/pusht.c) and the task that joins them (pusht.c).
//
// A disc (the agent, driven by relative targets) pushes a T-shaped block over a 512 x 512 canvas, y
// down. The block's position is its local origin, the middle of the bar's outer long edge, not its
// centre of mass. Everything that needs Chipmunk is built only with FIRM_CHIPMUNK.
#ifndef ENV_PUSHT_H
#define ENV_PUSHT_H

#include "env/env.h"

enum { PUSHT_CANVAS = 512, PUSHT_STATE = 7, PUSHT_SUBSTEPS = 10 };
#define PUSHT_PI 3.14159265358979323846
#define PUSHT_ACTION_SCALE 100.0  // px per unit of action
#define PUSHT_RADIUS 15.0         // of the agent
#define PUSHT_COG 45.0            // the block's centre of gravity: (0, 45) in its own frame
#define PUSHT_POSITION_TOLERANCE 20.0f
#define PUSHT_ANGLE_TOLERANCE 0.34906585f  // pi / 9

// The pose of the green T, which is drawn in every picture and never moves.
#define PUSHT_GOAL_X 256.0
#define PUSHT_GOAL_Y 256.0
#define PUSHT_GOAL_ANGLE (PUSHT_PI / 4)

// State, as the reference package's setter takes it: agent x, y, block x, y, block angle, agent vx,
// vy.
enum { PUSHT_AX, PUSHT_AY, PUSHT_BX, PUSHT_BY, PUSHT_ANGLE, PUSHT_VX, PUSHT_VY };

extern const env_sign pusht_signs[];  // also without Chipmunk

#ifdef FIRM_CHIPMUNK

// ---- physics: one Chipmunk space ----

typedef struct pusht_world {
    struct cpSpace* space;
    struct cpBody *agent, *block;
    struct cpShape* shape[7];  // four walls, agent, bar, stem
    // since the last control began, or since the space was made
    int contacts;  // contact points, summed over the steps
    double depth;  // deepest overlap at one of them, px
    // of the steps that need not be run (pusht_world.c)
    int quiet;      // steps since the last contact
    double box[4];  // the agent's in Chipmunk's tree: left, bottom, right, top
    int plain;      // run them all the same
} pusht_world;

// Finite, and near enough that Chipmunk's own checks hold.
int pusht_state_fits(const double* state);
int pusht_action_fits(double ax, double ay);

// A new space with the bodies at the reference's default poses. The first call in a process keeps
// Chipmunk's banner off stdout.
void pusht_world_open(pusht_world* w);
void pusht_world_close(pusht_world* w);
// The public setter in a fresh space: poses and velocity, then one step of 0.01 s, which moves the
// agent by its velocity and lets contacts act. The state must fit.
void pusht_world_set(pusht_world* w, const double* state);
// Brings a recorded moment back: the public setter fed with the agent one step earlier, so that
// agent and block end up at exactly these poses, in contact and in motion as they were. All that is
// missing are Chipmunk's cached impulses.
void pusht_world_recall(pusht_world* w, const double* state);
// One control: ten steps of 0.01 s towards agent + 100 * action.
void pusht_world_step(pusht_world* w, double ax, double ay);
void pusht_world_get(const pusht_world* w, double* state);  // angle in [0, 2 pi)
double pusht_world_angle(const pusht_world* w);             // not reduced
// Smallest distance of the block's corners from the canvas's rim, px; the walls reach in 7 px.
double pusht_wall_gap(const double* state);

// The picture of the space as it is, (224, 224, 3). The canvas is scratch of one thread, made ready
// once.
struct pygame_canvas;
void pusht_canvas_reset(struct pygame_canvas* c);
void pusht_draw(const pusht_world* w, struct pygame_canvas* c, uint8_t* rgb);

// ---- demonstrator ----

// Plans one control at a time through its own spaces; see pusht_demo.c.
typedef struct pusht_demo pusht_demo;
pusht_demo* pusht_demo_create(void);  // NULL when out of memory
void pusht_demo_free(pusht_demo* d);
void pusht_demo_begin(pusht_demo* d);  // forgets the last episode
void pusht_demo_act(pusht_demo* d, const double* state, rng* r, float* action);
// The block is where the demonstrator wants it.
int pusht_demo_done(const double* state);

// ---- structured interventions (pusht_structured.c) ----

extern const env_structured pusht_structured;

extern const env_spec pusht_spec;

#endif
#endif
