// cube.h - Cube's running simulation, shared by its scene, control, inverse kinematics and oracles.
#ifndef ENV_MUJOCO_CUBE_H
#define ENV_MUJOCO_CUBE_H

#include "env/cube.h"
#include "env/mujoco/cube_pose.h"
#include "env/mujoco/physics.h"
#include "env/render/mjscene.h"

#define CUBE_SUBSTEP 0.002    // s of physics
enum { CUBE_SUBSTEPS = 25 };  // per control, 0.05 s
#define CUBE_PERIOD 0.05      // s

extern physics_shared cube_scene;  // arm, gripper, cube, target
extern physics_shared cube_arm;    // the arm alone, for inverse kinematics

typedef struct cube_oracle cube_oracle;

typedef struct cube {
    env base;
    const mjModel *model, *arm;
    mjData *data, *arm_data;
    int pinch_site, pad_body, arm_site;
    cube_pose pinch_to_flange;
    // As the reference sees them: of the last pose MuJoCo computed, 2 ms before the coordinates
    // after a step, in time with them after a state was set.
    double pinch[3], yaw;  // end effector, m and rad
    double contact;        // force on the right pad / 50 N, at most 1
    int success;
    double reward;  // NaN before the first step
    cube_oracle* oracle;
    int fresh;  // no action was asked for since the reset
    mjscene* picture;
    mjData* drawn;  // poses of the picture
} cube;

// Joint angles that bring the arm's site to a pose, from `start`; returns the iterations it took.
int cube_ik(const mjModel* arm, mjData* d, int site, const cube_pose* wanted, const double* start,
            double* joints);

extern const double cube_action_scale[CUBE_ACTION];
double cube_clip(double v, double low, double high);
// The end effector at a position with a yaw, pointing down.
void cube_target_pose(const double position[3], double yaw, cube_pose* out);
// Writes the motor targets of an action into the simulation.
void cube_control(cube* e, const float* action);

// What the collection policies see.
typedef struct cube_view {
    double effector[3], effector_yaw, opening, contact;
    double block[3], block_yaw;
    double target[3], target_yaw;
    double time;
} cube_view;
void cube_look(const cube* e, cube_view* out);

// where the reference draws end points for the arm from: [low, high]
extern const double cube_arm_box[2][3];
// of the angles obj + k pi/2, k = -4 .. 4, the first nearest to `yaw`
double cube_nearest_yaw(double yaw, double obj);

enum { CUBE_PLAN_LONGEST = 128 };
struct cube_oracle {
    int done;
    // plan oracle: where to be at each control after `begun`
    int length;
    double plan[CUBE_PLAN_LONGEST][CUBE_ACTION];  // effector position, yaw, opening
    double begun;                                 // s
    // Markov oracle
    int calls;
    double final[3], final_yaw, noise;
};
// All chance in a plan: the rest follows from what is seen.
typedef struct cube_plan_draws {
    double final[3], final_yaw;                    // where the arm ends
    double pick, place;                            // extra height over block and target, m
    double clearance[3];                           // shift of the way point between them, m
    double jitter[10];                             // of the way points' times, -1 .. 1
    double noise[CUBE_PLAN_LONGEST][CUBE_ACTION];  // standard normal, before smoothing
} cube_plan_draws;
void cube_plan_make(cube_oracle* o, const cube_view* v, const cube_plan_draws* draw);
void cube_plan_action(cube_oracle* o, const cube_view* v, double action[CUBE_ACTION]);
void cube_markov_begin(cube_oracle* o, rng* r);
void cube_markov_action(cube_oracle* o, const cube_view* v, double action[CUBE_ACTION]);

#endif
