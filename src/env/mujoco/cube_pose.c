// cube_pose.c - rotations and rigid poses: products, inverses, exponential and logarithm.
#include "env/mujoco/cube_pose.h"

#include <math.h>
#include <mujoco/mujoco.h>
#include <string.h>

#define SMALL 1e-10  // below it (squared) series replace quotients

// ---- rotations ----------------------------------------------------------------------------------

static double dot3(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void quat_exp(const double w[3], double out[4]) {
    double square = dot3(w, w), fourth = square * square, real, factor;
    if (square < SMALL) {
        real = 1.0 - square / 8.0 + fourth / 384.0;
        factor = 0.5 - square / 48.0 + fourth / 3840.0;
    } else {
        double angle = sqrt(square), half = 0.5 * angle;
        real = cos(half);
        factor = sin(half) / angle;
    }
    out[0] = real;
    for (int i = 0; i < 3; i++) out[1 + i] = factor * w[i];
}

static void quat_log(const double q[4], double out[3]) {
    double w = q[0], square = dot3(q + 1, q + 1), factor;
    if (square < SMALL) {
        factor = 2.0 / w - 2.0 / 3.0 * square / (w * w * w);
    } else {
        double norm = sqrt(square);
        if (fabs(w) < SMALL)
            factor = (w > 0.0 ? 1.0 : -1.0) * mjPI / norm;
        else
            factor = 2.0 * atan2(w < 0 ? -norm : norm, fabs(w)) / norm;
    }
    for (int i = 0; i < 3; i++) out[i] = factor * q[1 + i];
}

void quat_about_z(double angle, double out[4]) {
    quat_exp((const double[3]){0.0, 0.0, angle}, out);
}

void quat_mul(const double a[4], const double b[4], double out[4]) {
    double w0 = a[0], x0 = a[1], y0 = a[2], z0 = a[3], w1 = b[0], x1 = b[1], y1 = b[2], z1 = b[3];
    out[0] = -x0 * x1 - y0 * y1 - z0 * z1 + w0 * w1;
    out[1] = x0 * w1 + y0 * z1 - z0 * y1 + w0 * x1;
    out[2] = -x0 * z1 + y0 * w1 + z0 * x1 + w0 * y1;
    out[3] = x0 * y1 - y0 * x1 + z0 * w1 + w0 * z1;
}

void quat_inverse(const double q[4], double out[4]) {
    out[0] = q[0];
    for (int i = 1; i < 4; i++) out[i] = -q[i];
}

void quat_rotate(const double q[4], const double v[3], double out[3]) {
    double padded[4] = {0.0, v[0], v[1], v[2]}, inverse[4], result[4];
    quat_inverse(q, inverse);
    quat_mul(q, padded, result);
    quat_mul(result, inverse, result);
    memcpy(out, result + 1, 3 * sizeof *out);
}

double quat_yaw(const double q[4]) {
    return atan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] * q[2] + q[3] * q[3]));
}

double matrix_yaw(const double* xmat) {
    double q[4];
    mju_mat2Quat(q, xmat);
    return quat_yaw(q);
}

void quat_between(const double a[4], const double b[4], double share, double out[4]) {
    double step[4], w[3];
    quat_inverse(a, step);
    quat_mul(step, b, step);
    quat_log(step, w);
    for (int i = 0; i < 3; i++) w[i] *= share;
    quat_exp(w, step);
    quat_mul(a, step, out);
}

// ---- poses --------------------------------------------------------------------------------------

void pose_mul(const cube_pose* a, const cube_pose* b, cube_pose* out) {
    cube_pose r;
    quat_mul(a->q, b->q, r.q);
    quat_rotate(a->q, b->p, r.p);
    for (int i = 0; i < 3; i++) r.p[i] += a->p[i];
    *out = r;
}

void pose_inverse(const cube_pose* a, cube_pose* out) {
    cube_pose r;
    quat_inverse(a->q, r.q);
    quat_rotate(r.q, a->p, r.p);
    for (int i = 0; i < 3; i++) r.p[i] = -r.p[i];
    *out = r;
}

static void cross(const double a[3], const double b[3], double out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

// out = v + first (w x v) + second (w x (w x v)): both V and its inverse have this form
static void twist(const double w[3], double first, double second, const double v[3],
                  double out[3]) {
    double once[3], twice[3];
    cross(w, v, once);
    cross(w, once, twice);
    for (int i = 0; i < 3; i++) out[i] = v[i] + first * once[i] + second * twice[i];
}

void pose_between(const cube_pose* a, const cube_pose* b, double share, cube_pose* out) {
    cube_pose step;
    double w[3], v[3];
    pose_inverse(a, &step);
    pose_mul(&step, b, &step);
    // logarithm: rotation vector w, translation v = V^-1 p
    quat_log(step.q, w);
    double square = dot3(w, w), angle = sqrt(square), half = 0.5 * angle;
    double inverse =
        square < SMALL ? 1.0 / 12.0 : (1.0 - angle * cos(half) / (2.0 * sin(half))) / square;
    twist(w, -0.5, inverse, step.p, v);
    // and back from a share of it
    for (int i = 0; i < 3; i++) {
        w[i] *= share;
        v[i] *= share;
    }
    quat_exp(w, step.q);
    square = dot3(w, w);
    angle = sqrt(square);
    if (square < SMALL)
        quat_rotate(step.q, v, step.p);
    else
        twist(w, (1.0 - cos(angle)) / square, (angle - sin(angle)) / (square * angle), v, step.p);
    pose_mul(a, &step, out);
}
