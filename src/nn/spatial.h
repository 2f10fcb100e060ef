// spatial.h - what op SPATIAL computes for one sample: where a disc (Push-T's agent) is and will be
// relative to a T-shaped block, and how it would push it. No learned numbers. One source for all
// backends and for the planner: the includer defines
//     SPATIAL_REAL  the number type            SPATIAL_SQRT  its square root
//     SPATIAL_FN    storage and qualifiers, e.g. `static inline`, `static __device__`
// and gets spatial_features() and spatial_gradient() for that type.
//
// Inputs: c = (sin, cos of the block's angle, agent x, y, block x, y), positions as p / 256 - 1;
// v the agent's velocity in the same units per second; u five controls (ax, ay), standardised. The
// agent obeys a relative target with a critically damped controller and is not held up by the
// block, so its path is exact and linear in v and u. Six points: now and after each control.
//
// Features of a point, SPATIAL_EACH numbers:
//     0, 1   the point in the block's frame, from its centre of gravity, in 100 px
//     2..4   push of the bar: force (world frame) and torque about the centre of gravity
//     5..7   push of the stem: likewise
// A push points into the box, along the normal at the box's nearest point; its size is a smooth
// hinge of how far the disc overlaps the box (32 px as 1). It fades out for points so deep inside
// that the nearest side says nothing about where the disc came from.
#ifndef NN_SPATIAL_H
#define NN_SPATIAL_H

enum {
    SPATIAL_CONFIG = 6,
    SPATIAL_CONTROLS = 5,
    SPATIAL_ACTION = 2 * SPATIAL_CONTROLS,
    SPATIAL_EACH = 8,
    SPATIAL_FEATURES = (SPATIAL_CONTROLS + 1) * SPATIAL_EACH
};

// One control is ten steps of 0.01 s of v += (100 (target - p) - 20 v) dt, p += v dt, with the
// target 100 px per unit of action away from where the control began:
//     p' = p + MOVE a + DRIFT v,   v' = SPEED a + KEEP v      (px, px/s, raw action)
#define SPATIAL_MOVE 29.567178591344152
#define SPATIAL_DRIFT 0.0299318124665663
#define SPATIAL_SPEED 374.1476558320787
#define SPATIAL_KEEP (-0.00655233199439112)

#define SPATIAL_SCALE 256.0  // px per unit of c
#define SPATIAL_COG 45.0     // the block's centre of gravity is (0, 45) in its frame
#define SPATIAL_DISC 15.0    // the agent's radius
#define SPATIAL_SOFT 6.0     // px, width of the hinge
#define SPATIAL_DEEP 15.0    // px inside a box where its push has faded out
#define SPATIAL_UNIT 32.0    // px of overlap that make a push of 1
#define SPATIAL_ARM 60.0     // px of lever that make a torque of 1

#endif

#ifdef SPATIAL_REAL

// The push of one box (centre (0, y0), half sides hx, hy) on itself at the point (x, y) of the
// block's frame: force p and its derivatives j[a][b] = d p[a] / d (x, y)[b].
SPATIAL_FN void spatial_box(SPATIAL_REAL x, SPATIAL_REAL y, SPATIAL_REAL y0, SPATIAL_REAL hx,
                            SPATIAL_REAL hy, SPATIAL_REAL p[2], SPATIAL_REAL j[2][2]) {
    typedef SPATIAL_REAL real;
    real sx = x < 0 ? (real)-1 : (real)1, sy = y < y0 ? (real)-1 : (real)1;
    real dx = sx * x - hx, dy = sy * (y - y0) - hy;  // beyond the sides; negative inside
    real n[2], d, bend = 0;                          // normal, distance, curvature of the outline
    if (dx > 0 && dy > 0) {                          // nearest is a corner
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
    real t = (real)SPATIAL_DISC - d;
    real root = SPATIAL_SQRT(t * t + (real)(SPATIAL_SOFT * SPATIAL_SOFT));
    real g = (t + root) / 2, slope = -(1 + t / root) / 2;  // d g / d distance
    if (d < 0) {
        real z = (d + (real)SPATIAL_DEEP) / (real)SPATIAL_DEEP, zero = 0;
        z = z > 0 ? z : zero;
        real fade = z * z * (3 - 2 * z);
        slope = slope * fade + g * 6 * z * (1 - z) / (real)SPATIAL_DEEP;
        g *= fade;
    }
    g /= (real)SPATIAL_UNIT;
    slope /= (real)SPATIAL_UNIT;
    for (int a = 0; a < 2; a++) {
        p[a] = -g * n[a];
        for (int b = 0; b < 2; b++)
            j[a][b] = -(slope * n[a] * n[b] + g * bend * ((a == b ? 1 : 0) - n[a] * n[b]));
    }
}

// Where the agent is relative to the block, px, now and after each control.
SPATIAL_FN void spatial_path(const SPATIAL_REAL* c, const SPATIAL_REAL* v, const SPATIAL_REAL* u,
                             const float* mean, const float* std,
                             SPATIAL_REAL at[SPATIAL_CONTROLS + 1][2]) {
    typedef SPATIAL_REAL real;
    for (int i = 0; i < 2; i++) {
        real speed = (real)SPATIAL_SCALE * v[i], p = (real)SPATIAL_SCALE * (c[2 + i] - c[4 + i]);
        at[0][i] = p;
        for (int k = 0; k < SPATIAL_CONTROLS; k++) {
            real a = u[2 * k + i] * (real)std[i] + (real)mean[i];
            p += (real)SPATIAL_MOVE * a + (real)SPATIAL_DRIFT * speed;
            speed = (real)SPATIAL_SPEED * a + (real)SPATIAL_KEEP * speed;
            at[k + 1][i] = p;
        }
    }
}

SPATIAL_FN void spatial_features(const SPATIAL_REAL* c, const SPATIAL_REAL* v,
                                 const SPATIAL_REAL* u, const float* mean, const float* std,
                                 SPATIAL_REAL* out) {
    typedef SPATIAL_REAL real;
    real at[SPATIAL_CONTROLS + 1][2], p[2], j[2][2];
    spatial_path(c, v, u, mean, std, at);
    for (int k = 0; k <= SPATIAL_CONTROLS; k++, out += SPATIAL_EACH) {
        real x = c[1] * at[k][0] + c[0] * at[k][1], y = c[1] * at[k][1] - c[0] * at[k][0];
        real arm = y - (real)SPATIAL_COG;
        out[0] = x / 100;
        out[1] = arm / 100;
        for (int box = 0; box < 2; box++) {  // the bar, and the stem up to the bar's outer edge
            if (box == 0)
                spatial_box(x, y, 15, 60, 15, p, j);
            else
                spatial_box(x, y, 60, 15, 60, p, j);
            real* f = out + 2 + 3 * box;
            f[0] = c[1] * p[0] - c[0] * p[1];
            f[1] = c[0] * p[0] + c[1] * p[1];
            f[2] = (x * p[1] - arm * p[0]) / (real)SPATIAL_ARM;
        }
    }
}

// dc (6), dv (2), du (10) from dout; all three are overwritten
SPATIAL_FN void spatial_gradient(const SPATIAL_REAL* c, const SPATIAL_REAL* v,
                                 const SPATIAL_REAL* u, const float* mean, const float* std,
                                 const SPATIAL_REAL* dout, SPATIAL_REAL* dc, SPATIAL_REAL* dv,
                                 SPATIAL_REAL* du) {
    typedef SPATIAL_REAL real;
    real at[SPATIAL_CONTROLS + 1][2], dat[SPATIAL_CONTROLS + 1][2], p[2], j[2][2];
    spatial_path(c, v, u, mean, std, at);
    for (int i = 0; i < SPATIAL_CONFIG; i++) dc[i] = 0;
    for (int k = 0; k <= SPATIAL_CONTROLS; k++, dout += SPATIAL_EACH) {
        real x = c[1] * at[k][0] + c[0] * at[k][1], y = c[1] * at[k][1] - c[0] * at[k][0];
        real arm = y - (real)SPATIAL_COG, dx = dout[0] / 100, dy = dout[1] / 100;
        for (int box = 0; box < 2; box++) {
            if (box == 0)
                spatial_box(x, y, 15, 60, 15, p, j);
            else
                spatial_box(x, y, 60, 15, 60, p, j);
            const real* df = dout + 2 + 3 * box;
            real torque = df[2] / (real)SPATIAL_ARM;
            real dp0 = c[1] * df[0] + c[0] * df[1] - arm * torque;
            real dp1 = c[1] * df[1] - c[0] * df[0] + x * torque;
            dc[0] += p[0] * df[1] - p[1] * df[0];
            dc[1] += p[0] * df[0] + p[1] * df[1];
            dx += p[1] * torque + dp0 * j[0][0] + dp1 * j[1][0];
            dy += -p[0] * torque + dp0 * j[0][1] + dp1 * j[1][1];
        }
        dc[0] += dx * at[k][1] - dy * at[k][0];
        dc[1] += dx * at[k][0] + dy * at[k][1];
        dat[k][0] = c[1] * dx - c[0] * dy;
        dat[k][1] = c[0] * dx + c[1] * dy;
    }
    for (int i = 0; i < 2; i++) {  // back along the path
        real dpoint = 0, dspeed = 0;
        for (int k = SPATIAL_CONTROLS; k > 0; k--) {
            dpoint += dat[k][i];
            real da = (real)SPATIAL_MOVE * dpoint + (real)SPATIAL_SPEED * dspeed;
            dspeed = (real)SPATIAL_DRIFT * dpoint + (real)SPATIAL_KEEP * dspeed;
            du[2 * (k - 1) + i] = da * (real)std[i];
        }
        dpoint = (real)SPATIAL_SCALE * (dpoint + dat[0][i]);
        dc[2 + i] = dpoint;
        dc[4 + i] = -dpoint;
        dv[i] = (real)SPATIAL_SCALE * dspeed;
    }
}

#endif
