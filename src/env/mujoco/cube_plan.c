// cube_plan.c - the plan oracle, which made the public Cube data: way points over the block and the
// target, joined in time, shaken a little, and followed step by step. Uses privileged state; it
// collects data and is never part of a controller.
//
// With a target that stays for the whole episode the first plan brings the cube there, the later
// ones lift it and put it back.
#include <math.h>
#include <string.h>

#include "env/mujoco/cube.h"

#define SEGMENT 0.4  // s between key frames
#define JITTER 0.2   // of a segment
#define NOISE 0.1    // of the action scale, before smoothing
#define SMOOTH_1 \
    -2.0  // logarithms of the smoothing weights one and two samples away: sigma 0.5 samples
#define SMOOTH_2 -8.0

enum { FRAMES = 11 };

typedef struct key_frame {
    double time;
    cube_pose pose;
    double grasp;  // 0 open, 1 closed
} key_frame;

double cube_nearest_yaw(double yaw, double obj) {
    double best = 0.0, nearest = INFINITY;
    for (int k = -4; k <= 4; k++) {
        double candidate = k * 2 * mjPI / 4 + obj, distance = fabs(yaw - candidate);
        if (distance < nearest) {
            nearest = distance;
            best = candidate;
        }
    }
    return best;
}

static double positive(double yaw) {
    return yaw < 0.0 ? yaw + 2 * mjPI : yaw;
}

static cube_pose upright(const double position[3], double yaw) {
    cube_pose p;
    quat_about_z(yaw, p.q);
    memcpy(p.p, position, sizeof p.p);
    return p;
}

// The object's pose, turned by quarter turns to what is nearest the gripper's yaw.
static cube_pose graspable(double gripper_yaw, const double position[3], double yaw) {
    cube_pose turned = upright(position, yaw);
    return upright(position, cube_nearest_yaw(positive(gripper_yaw), positive(quat_yaw(turned.q))));
}

static cube_pose above(cube_pose p, double height) {
    p.p[2] += height;
    return p;
}

static void key_frames(const cube_view* v, const cube_plan_draws* draw, key_frame out[FRAMES]) {
    cube_pose final = upright(draw->final, draw->final_yaw);
    cube_pose initial = upright(v->effector, v->effector_yaw);

    cube_pose block = graspable(quat_yaw(initial.q), v->block, v->block_yaw);
    cube_pose pick = above(block, 0.1 + draw->pick);
    cube_pose goal = graspable(quat_yaw(pick.q), v->target, v->target_yaw);
    cube_pose place = above(goal, 0.1 + draw->place);
    cube_pose clearance;
    pose_between(&pick, &place, 0.5, &clearance);
    clearance.p[2] = initial.p[2];
    for (int i = 0; i < 3; i++) clearance.p[i] += draw->clearance[i];

    const cube_pose poses[FRAMES] = {initial, pick, block, block, pick, clearance,
                                     place,   goal, goal,  place, final};
    static const double gap[FRAMES] = {0, 1, 1.5, 1, 1, 1, 1, 1.5, 1, 1, 1};
    static const double grasp[FRAMES] = {0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0};
    double time = 0.0;
    for (int i = 0; i < FRAMES; i++) {
        time += SEGMENT * gap[i];
        out[i] = (key_frame){.time = time, .pose = poses[i], .grasp = grasp[i]};
    }
    for (int i = 1; i < FRAMES; i++) out[i].time += draw->jitter[i - 1] * SEGMENT * JITTER;
}

static void sample(const key_frame* f, double t, double out[CUBE_ACTION]) {
    int s = 0;
    while (s < FRAMES - 2 && f[s + 1].time <= t) s++;
    double share = (t - f[s].time) / (f[s + 1].time - f[s].time), q[4];
    for (int i = 0; i < 3; i++)
        out[i] = f[s].pose.p[i] + share * (f[s + 1].pose.p[i] - f[s].pose.p[i]);
    quat_between(f[s].pose.q, f[s + 1].pose.q, cube_clip(share, 0.0, 1.0), q);
    out[3] = quat_yaw(q);
    out[4] = f[s].grasp + share * (f[s + 1].grasp - f[s].grasp);
}

// Noise smoothed along time, edges reflected with the edge sample repeated.
static void shake(cube_oracle* o, const cube_plan_draws* draw) {
    const int n = o->length;
    const double near = exp(SMOOTH_1), far = exp(SMOOTH_2), sum = 1.0 + 2.0 * near + 2.0 * far;
    const double weight[5] = {far / sum, near / sum, 1.0 / sum, near / sum, far / sum};
    for (int i = 0; i < n; i++)
        for (int j = -2; j <= 2; j++) {
            int at = i + j;
            if (at < 0) at = -1 - at;
            if (at >= n) at = 2 * n - 1 - at;
            for (int k = 0; k < CUBE_ACTION; k++)
                o->plan[i][k] +=
                    weight[j + 2] * (draw->noise[at][k] * cube_action_scale[k] * NOISE);
        }
}

void cube_plan_make(cube_oracle* o, const cube_view* v, const cube_plan_draws* draw) {
    key_frame frame[FRAMES];
    key_frames(v, draw, frame);
    o->done = 0;
    o->begun = v->time;
    o->length = 0;
    // 4.4 s give or take one jitter: 87 to 90 samples
    for (double t = 0.0; t < frame[FRAMES - 1].time && o->length < CUBE_PLAN_LONGEST;
         t += CUBE_PERIOD)
        sample(frame, t, o->plan[o->length++]);
    shake(o, draw);
}

static void begin(cube_oracle* o, const cube_view* v, rng* r) {
    cube_plan_draws d;
    for (int i = 0; i < 3; i++) d.final[i] = rng_uniform(r, cube_arm_box[0][i], cube_arm_box[1][i]);
    d.final_yaw = rng_uniform(r, -mjPI, mjPI);
    d.pick = rng_uniform(r, 0.0, 0.1);
    d.place = rng_uniform(r, 0.0, 0.1);
    for (int i = 0; i < 3; i++)
        d.clearance[i] = i < 2 ? rng_uniform(r, -0.1, 0.1) : rng_uniform(r, 0.0, 0.2);
    for (int i = 0; i < FRAMES - 1; i++) d.jitter[i] = rng_uniform(r, -1.0, 1.0);
    for (int i = 0; i < CUBE_PLAN_LONGEST; i++)
        for (int k = 0; k < CUBE_ACTION; k++) d.noise[i][k] = (double)rng_gauss(r);
    cube_plan_make(o, v, &d);
}

void cube_plan_action(cube_oracle* o, const cube_view* v, double action[CUBE_ACTION]) {
    int i = (int)floor((v->time - o->begun + 1e-7) / CUBE_PERIOD);
    if (i >= o->length - 1) {
        i = o->length - 1;
        o->done = 1;
    }
    const double now[CUBE_ACTION] = {v->effector[0], v->effector[1], v->effector[2],
                                     v->effector_yaw, v->opening};
    for (int k = 0; k < CUBE_ACTION; k++) {
        double scale = cube_action_scale[k];
        action[k] =
            cube_clip(2 * (o->plan[i][k] - now[k] - -scale) / (scale - -scale) - 1, -1.0, 1.0);
    }
}

void cube_plan_act(env* base, rng* r, float* action) {
    cube* e = (cube*)base;
    cube_view v;
    double a[CUBE_ACTION];
    cube_look(e, &v);
    if (e->fresh) begin(e->oracle, &v, r);
    e->fresh = 0;
    cube_plan_action(e->oracle, &v, a);
    for (int k = 0; k < CUBE_ACTION; k++) action[k] = (float)a[k];
    // the target stays where it is; the next plan starts from what is seen now
    if (e->oracle->done) begin(e->oracle, &v, r);
}
