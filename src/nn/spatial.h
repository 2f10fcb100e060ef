// spatial.h - what op SPATIAL computes for one sample: where a disc is and will be relative to the
// rigid shape that it pushes, and how it would push it. No learned numbers: the task describes disc
// and shape (push.h). One source for all backends and for the planner: the includer defines
//     SPATIAL_REAL  the number type            SPATIAL_SQRT  its square root
//     SPATIAL_FN    storage and qualifiers, e.g. `static inline`, `static __device__`
// and gets the functions below for that type.
//
// Inputs, gathered by spatial_gather(): c = (sin, cos of the shape's angle, disc x, y, shape x, y);
// u two numbers of each control, standardised. And v, the disc's velocity in units of c per second.
// The shape does not hold the disc up, so its path is exact and linear in v and u. Points: now and
// after each control.
//
// Features of a point, NN_PUSH_EACH() numbers:
//     0, 1   the point in the shape's frame, from its centre of gravity, in `far`
//     2..4   push of the first box: force (world frame) and torque about the centre of gravity
//     5..7   push of the second: likewise, and so on
// A push points into the box, along the normal at the box's nearest point; its size is a smooth
// hinge of how far the disc overlaps the box. It fades out for points so deep inside that the
// nearest side says nothing about where the disc came from.
#include "nn/push.h"

#ifndef NN_SPATIAL_H
#define NN_SPATIAL_H

enum { SPATIAL_CONFIG = 6, SPATIAL_ACTION = 2 * NN_PUSH_CONTROLS };

#endif

#ifdef SPATIAL_REAL

// What is read of a configuration (config) and a macro action (controls, action).
SPATIAL_FN void spatial_gather(const nn_push* s, const SPATIAL_REAL* config,
                               const SPATIAL_REAL* action, SPATIAL_REAL c[SPATIAL_CONFIG],
                               SPATIAL_REAL u[SPATIAL_ACTION]) {
    for (int i = 0; i < 2; i++) {
        c[i] = config[s->angle + i];
        c[2 + i] = config[s->agent[i]];
        c[4 + i] = config[s->block[i]];
        for (int k = 0; k < s->controls; k++) u[2 * k + i] = action[k * s->action + i];
    }
}

// The push of one box on itself at the point (x, y) of the shape's frame: force p and its
// derivatives j[a][b] = d p[a] / d (x, y)[b].
SPATIAL_FN void spatial_box(const nn_push* s, const float box[4], SPATIAL_REAL x, SPATIAL_REAL y,
                            SPATIAL_REAL p[2], SPATIAL_REAL j[2][2]) {
    typedef SPATIAL_REAL real;
    real x0 = (real)box[0], y0 = (real)box[1];
    real sx = x < x0 ? (real)-1 : (real)1, sy = y < y0 ? (real)-1 : (real)1;
    // beyond the sides; negative inside
    real dx = sx * (x - x0) - (real)box[2], dy = sy * (y - y0) - (real)box[3];
    real n[2], d, bend = 0;  // normal, distance, curvature of the outline
    if (dx > 0 && dy > 0) {  // nearest is a corner
        d = SPATIAL_SQRT(dx * dx + dy * dy);
        n[0] = sx * dx / d;
        n[1] = sy * dy / d;
        bend = 1 / (d > 1 ? d : (real)1);
    } else {
        int side = dx > dy;
        d = side ? dx : dy;
        n[0] = side ? sx : 0;
        n[1] = side ? 0 : sy;
    }
    real t = (real)s->radius - d, soft = (real)s->soft, deep = (real)s->deep;
    real root = SPATIAL_SQRT(t * t + soft * soft);
    real g = (t + root) / 2, slope = -(1 + t / root) / 2;  // d g / d distance
    if (d < 0) {
        real z = (d + deep) / deep, zero = 0;
        z = z > 0 ? z : zero;
        real fade = z * z * (3 - 2 * z);
        slope = slope * fade + g * 6 * z * (1 - z) / deep;
        g *= fade;
    }
    g /= (real)s->unit;
    slope /= (real)s->unit;
    for (int a = 0; a < 2; a++) {
        p[a] = -g * n[a];
        for (int b = 0; b < 2; b++)
            j[a][b] = -(slope * n[a] * n[b] + g * bend * ((a == b ? 1 : 0) - n[a] * n[b]));
    }
}

// The disc relative to the shape, and its speed: now.
SPATIAL_FN void spatial_start(const nn_push* s, const SPATIAL_REAL* c, const SPATIAL_REAL* v,
                              SPATIAL_REAL p[2], SPATIAL_REAL speed[2]) {
    for (int i = 0; i < 2; i++) {
        speed[i] = (SPATIAL_REAL)s->scale * v[i];
        p[i] = (SPATIAL_REAL)s->scale * (c[2 + i] - c[4 + i]);
    }
}

// ... and after one more control, u (2).
SPATIAL_FN void spatial_step(const nn_push* s, const SPATIAL_REAL* u, const float* mean,
                             const float* std, SPATIAL_REAL p[2], SPATIAL_REAL speed[2]) {
    typedef SPATIAL_REAL real;
    for (int i = 0; i < 2; i++) {
        real a = u[i] * (real)std[i] + (real)mean[i];
        p[i] += (real)s->motion[0] * a + (real)s->motion[1] * speed[i];
        speed[i] = (real)s->motion[2] * a + (real)s->motion[3] * speed[i];
    }
}

// The features of one point, out (NN_PUSH_EACH).
SPATIAL_FN void spatial_point(const nn_push* s, const SPATIAL_REAL* c, const SPATIAL_REAL at[2],
                              SPATIAL_REAL* out) {
    typedef SPATIAL_REAL real;
    real x = c[1] * at[0] + c[0] * at[1], y = c[1] * at[1] - c[0] * at[0], p[2], j[2][2];
    real across = x - (real)s->centre[0], arm = y - (real)s->centre[1];
    out[0] = across / (real)s->far;
    out[1] = arm / (real)s->far;
    for (int box = 0; box < s->boxes; box++) {
        spatial_box(s, s->box[box], x, y, p, j);
        real* f = out + 2 + 3 * box;
        f[0] = c[1] * p[0] - c[0] * p[1];
        f[1] = c[0] * p[0] + c[1] * p[1];
        f[2] = (across * p[1] - arm * p[0]) / (real)s->arm;
    }
}

SPATIAL_FN void spatial_features(const nn_push* s, const SPATIAL_REAL* c, const SPATIAL_REAL* v,
                                 const SPATIAL_REAL* u, const float* mean, const float* std,
                                 SPATIAL_REAL* out) {
    SPATIAL_REAL p[2], speed[2];
    const int each = NN_PUSH_EACH(s->boxes);
    spatial_start(s, c, v, p, speed);
    spatial_point(s, c, p, out);
    for (int k = 0; k < s->controls; k++) {
        spatial_step(s, u + 2 * k, mean, std, p, speed);
        spatial_point(s, c, p, out + (k + 1) * each);
    }
}

// dc (6), dv (2), du (controls, 2) from dout; all three are overwritten
SPATIAL_FN void spatial_gradient(const nn_push* s, const SPATIAL_REAL* c, const SPATIAL_REAL* v,
                                 const SPATIAL_REAL* u, const float* mean, const float* std,
                                 const SPATIAL_REAL* dout, SPATIAL_REAL* dc, SPATIAL_REAL* dv,
                                 SPATIAL_REAL* du) {
    typedef SPATIAL_REAL real;
    real at[2], speed[2], dat[NN_PUSH_CONTROLS + 1][2], p[2], j[2][2];
    for (int i = 0; i < SPATIAL_CONFIG; i++) dc[i] = 0;
    spatial_start(s, c, v, at, speed);
    for (int k = 0; k <= s->controls; k++, dout += NN_PUSH_EACH(s->boxes)) {
        if (k) spatial_step(s, u + 2 * (k - 1), mean, std, at, speed);
        real x = c[1] * at[0] + c[0] * at[1], y = c[1] * at[1] - c[0] * at[0];
        real across = x - (real)s->centre[0], arm = y - (real)s->centre[1];
        real dx = dout[0] / (real)s->far, dy = dout[1] / (real)s->far;
        for (int box = 0; box < s->boxes; box++) {
            spatial_box(s, s->box[box], x, y, p, j);
            const real* df = dout + 2 + 3 * box;
            real torque = df[2] / (real)s->arm;
            real dp0 = c[1] * df[0] + c[0] * df[1] - arm * torque;
            real dp1 = c[1] * df[1] - c[0] * df[0] + across * torque;
            dc[0] += p[0] * df[1] - p[1] * df[0];
            dc[1] += p[0] * df[0] + p[1] * df[1];
            dx += p[1] * torque + dp0 * j[0][0] + dp1 * j[1][0];
            dy += -p[0] * torque + dp0 * j[0][1] + dp1 * j[1][1];
        }
        dc[0] += dx * at[1] - dy * at[0];
        dc[1] += dx * at[0] + dy * at[1];
        dat[k][0] = c[1] * dx - c[0] * dy;
        dat[k][1] = c[0] * dx + c[1] * dy;
    }
    for (int i = 0; i < 2; i++) {  // back along the path
        real dpoint = 0, dspeed = 0;
        for (int k = s->controls; k > 0; k--) {
            dpoint += dat[k][i];
            real da = (real)s->motion[0] * dpoint + (real)s->motion[2] * dspeed;
            dspeed = (real)s->motion[1] * dpoint + (real)s->motion[3] * dspeed;
            du[2 * (k - 1) + i] = da * (real)std[i];
        }
        dpoint = (real)s->scale * (dpoint + dat[0][i]);
        dc[2 + i] = dpoint;
        dc[4 + i] = -dpoint;
        dv[i] = (real)s->scale * dspeed;
    }
}

#endif
