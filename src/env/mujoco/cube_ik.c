// cube_ik.c - inverse kinematics of the arm: which joint angles bring its flange to a pose.
//
// Damped Newton as in the reference package: at most 20 iterations, joint limits ignored, the last
// iterate returned whether or not it has converged. Part of the control pipeline (cube_control.c).
#include <math.h>
#include <string.h>

#include "env/mujoco/cube.h"

enum { ITERATIONS = 20, DOF = CUBE_JOINTS };
#define CLOSE 1e-4  // m and rad
#define DAMPING 1e-12
#define LARGEST_STEP (mjPI / 4)  // rad, of any joint in one iteration

// Solves A y = b in place (b becomes y) by elimination with partial pivoting; A is symmetric
// positive definite up to rounding, so a zero pivot means a broken input and gives infinities.
static void solve6(double A[6][6], double b[6]) {
    for (int k = 0; k < 6; k++) {
        int pivot = k;
        for (int i = k + 1; i < 6; i++)
            if (fabs(A[i][k]) > fabs(A[pivot][k])) pivot = i;
        if (pivot != k) {
            double row[6];
            memcpy(row, A[k], sizeof row);
            memcpy(A[k], A[pivot], sizeof row);
            memcpy(A[pivot], row, sizeof row);
            double t = b[k];
            b[k] = b[pivot];
            b[pivot] = t;
        }
        for (int i = k + 1; i < 6; i++) {
            double f = A[i][k] / A[k][k];
            for (int j = k + 1; j < 6; j++) A[i][j] -= f * A[k][j];
            b[i] -= f * b[k];
        }
    }
    for (int i = 5; i >= 0; i--) {
        for (int j = i + 1; j < 6; j++) b[i] -= A[i][j] * b[j];
        b[i] /= A[i][i];
    }
}

static double norm3(const double* v) {
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

static void site_error(const mjData* d, int site, const cube_pose* wanted, double error[6]) {
    double q[4], inverse[4], turn[4];
    for (int i = 0; i < 3; i++) error[i] = wanted->p[i] - d->site_xpos[3 * site + i];
    mju_mat2Quat(q, d->site_xmat + 9 * site);
    mju_negQuat(inverse, q);
    mju_mulQuat(turn, wanted->q, inverse);
    mju_quat2Vel(error + 3, turn, 1.0);
}

// dq = J' (J J' + damping)^-1 error, no joint turning more than LARGEST_STEP
static void newton_step(const mjModel* m, mjData* d, int site, double error[6], double dq[DOF]) {
    double J[6][DOF], H[6][6];
    mj_jacSite(m, d, J[0], J[3], site);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double sum = i == j ? DAMPING : 0.0;
            for (int k = 0; k < DOF; k++) sum += J[i][k] * J[j][k];
            H[i][j] = sum;
        }
    solve6(H, error);
    double largest = 0.0;
    for (int k = 0; k < DOF; k++) {
        dq[k] = 0.0;
        for (int i = 0; i < 6; i++) dq[k] += J[i][k] * error[i];
        largest = fmax(largest, fabs(dq[k]));
    }
    if (largest > LARGEST_STEP)
        for (int k = 0; k < DOF; k++) dq[k] *= LARGEST_STEP / largest;
}

int cube_ik(const mjModel* arm, mjData* d, int site, const cube_pose* wanted, const double* start,
            double* joints) {
    memcpy(d->qpos, start, DOF * sizeof *start);
    int i = 0;
    for (; i < ITERATIONS; i++) {
        double error[6], dq[DOF];
        mj_kinematics(arm, d);
        mj_comPos(arm, d);
        site_error(d, site, wanted, error);
        if (norm3(error) <= CLOSE && norm3(error + 3) <= CLOSE) break;
        newton_step(arm, d, site, error, dq);
        mj_integratePos(arm, d->qpos, dq, 1.0);
    }
    memcpy(joints, d->qpos, DOF * sizeof *joints);
    return i;
}
