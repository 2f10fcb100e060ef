// cube_control.c - from a 5-number action to the seven motor targets: a small motion of the end
// effector relative to where it was last seen, clipped to the workspace, gripper always pointing
// down.
//
// "Last seen" is on purpose: the reference reads the pose that MuJoCo computed before its last
// 2 ms, and so do we (cube.pinch, cube.yaw).
#include <math.h>

#include "env/mujoco/cube.h"

const double cube_action_scale[CUBE_ACTION] = {0.05, 0.05, 0.05, 0.3,
                                               1.0};  // m, m, m, rad, opening
static const double workspace[2][3] = {{0.25, -0.35, 0.02}, {0.60, 0.35, 0.35}};

// gripper pointing down: half a turn about x
static const double down[4] = {0.0, 1.0, 0.0, 0.0};

double cube_clip(double v, double low, double high) {
    return v < low ? low : v > high ? high : v;
}

void cube_target_pose(const double position[3], double yaw, cube_pose* out) {
    quat_about_z(yaw, out->q);
    quat_mul(out->q, down, out->q);
    for (int i = 0; i < 3; i++) out->p[i] = position[i];
}

void cube_control(cube* e, const float* action) {
    double u[CUBE_ACTION];
    for (int i = 0; i < CUBE_ACTION; i++) {
        // float32 first, as NumPy does with float32 actions
        float half = 0.5f * (action[i] + 1.0f);
        u[i] =
            (double)half * (cube_action_scale[i] - -cube_action_scale[i]) + -cube_action_scale[i];
    }
    double position[3];
    for (int i = 0; i < 3; i++)
        position[i] = cube_clip(e->pinch[i] + u[i], workspace[0][i], workspace[1][i]);

    double turn[4], now[4], up[4];
    quat_about_z(u[3], turn);
    quat_about_z(e->yaw, now);
    quat_inverse(down, up);
    quat_mul(turn, now, turn);
    quat_mul(turn, up, turn);
    double yaw = cube_clip(quat_yaw(turn), -mjPI, mjPI);

    cube_pose flange;
    cube_target_pose(position, yaw, &flange);
    pose_mul(&flange, &e->pinch_to_flange, &flange);
    cube_ik(e->arm, e->arm_data, e->arm_site, &flange, e->data->qpos, e->data->ctrl);
    double opening = cube_clip(e->data->qpos[CUBE_GRIPPER] / CUBE_GRIPPER_RANGE, 0.0, 1.0);
    e->data->ctrl[CUBE_JOINTS] = 255.0 * cube_clip(opening + u[4], 0.0, 1.0);
}
