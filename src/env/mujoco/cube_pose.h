// cube_pose.h - rotations and rigid poses as the reference package's `lie` module computes them.
// Quaternions are (w, x, y, z); the order of operations is theirs, so that results agree to the
// last bits.
#ifndef ENV_MUJOCO_CUBE_POSE_H
#define ENV_MUJOCO_CUBE_POSE_H

typedef struct cube_pose {
    double q[4];  // rotation
    double p[3];  // position, m
} cube_pose;

void quat_about_z(double angle, double out[4]);
void quat_mul(const double a[4], const double b[4], double out[4]);  // out may be a or b
void quat_inverse(const double q[4], double out[4]);                 // of a unit quaternion
void quat_rotate(const double q[4], const double v[3], double out[3]);
double quat_yaw(const double q[4]);
double matrix_yaw(const double* xmat);  // of a MuJoCo 3x3 matrix
// the rotation a share of the way from a to b, on the shortest path
void quat_between(const double a[4], const double b[4], double share, double out[4]);

void pose_mul(const cube_pose* a, const cube_pose* b, cube_pose* out);
void pose_inverse(const cube_pose* a, cube_pose* out);
// the pose a share of the way from a to b on the screw motion that joins them
void pose_between(const cube_pose* a, const cube_pose* b, double share, cube_pose* out);

#endif
