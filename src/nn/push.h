// push.h - a disc that pushes a rigid shape, as numbers: what op SPATIAL (spatial.h) knows of a
// task. Lengths are in the task's own unit, say pixels; the shape is a few boxes in a frame of its
// own.
#ifndef NN_PUSH_H
#define NN_PUSH_H

enum {
    NN_PUSH_BOXES = 4,
    NN_PUSH_CONTROLS = 20,  // of a macro action, at most
    NN_PUSH_FEATURES = (NN_PUSH_CONTROLS + 1) * (2 + 3 * NN_PUSH_BOXES)
};

typedef struct nn_push {
    int boxes;               // of the shape; 0: nothing is pushed, and all else is 0
    int angle;               // coordinate: the sine of the shape's angle; its cosine comes next
    int agent[2], block[2];  // coordinates x, y of the disc and of the origin of the shape's frame
    float scale;             // length of a coordinate's 1
    // A control a of the disc (the first two numbers of an action, one for x and one for y) moves
    // it from p and its speed v to p + motion[0] a + motion[1] v and motion[2] a + motion[3] v.
    float motion[4];
    float radius;     // of the disc
    float centre[2];  // the shape's centre of gravity, in its frame
    // Lengths: width of the hinge where a push begins, depth inside a box where it has faded out,
    // overlap that makes a push of 1, lever that makes a torque of 1, distance that makes 1.
    float soft, deep, unit, arm, far;
    float box[NN_PUSH_BOXES][4];  // centre x, y and half sides, in the shape's frame
    // sizes of the inputs; 0 in a task, which says them elsewhere
    int config, action, controls;  // coordinates, numbers of a control, controls of a macro action
} nn_push;

// Numbers of a point (a macro, for kernels of a GPU), and of all points: now and after each
// control.
#define NN_PUSH_EACH(boxes) (2 + 3 * (boxes))
static inline int nn_push_features(const nn_push* s) {
    return s->boxes ? (s->controls + 1) * NN_PUSH_EACH(s->boxes) : 0;
}
// Sizes are within the bounds above, and every coordinate is there.
static inline int nn_push_fits(const nn_push* s) {
    const int at[] = {s->angle, s->angle + 1, s->agent[0], s->agent[1], s->block[0], s->block[1]};
    for (int i = 0; i < 6; i++)
        if (at[i] < 0 || at[i] >= s->config) return 0;
    return s->boxes >= 1 && s->boxes <= NN_PUSH_BOXES && s->controls >= 1 &&
           s->controls <= NN_PUSH_CONTROLS && s->action >= 2;
}

#endif
