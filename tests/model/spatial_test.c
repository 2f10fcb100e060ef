// spatial_test.c - Push-T's spatial features against the simulator: the agent's path is the true
// one, pushes begin where the simulator begins to move the block and point where it goes; and
// leaving the features out is what zero weights on them are.
#include "check.h"
#include "env/env.h"
#include "env/pusht.h"
#include "model/model.h"
#include "nn/exec.h"

#define SPATIAL_REAL double
#define SPATIAL_SQRT sqrt
#define SPATIAL_FN static inline
#include "nn/spatial.h"

enum { CONTROLS = 5, EACH = 8, FEATURES = (CONTROLS + 1) * EACH };

static const float mean[2] = {0.05f, -0.1f}, deviation[2] = {0.2f, 0.25f};

#ifdef FIRM_CHIPMUNK
static env* world(void) {
    env* e = NULL;
    firm_error err = {0};
    if (env_create(env_find("pusht"), &e, &err) != FIRM_OK) abort();
    return e;
}

// features of a state and five raw controls
static void features(const double* state, const float* raw, double* f) {
    const nn_push push = task_push(&env_find("pusht")->task);
    float c[SPATIAL_CONFIG];
    double wide[SPATIAL_CONFIG], u[2 * CONTROLS], pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
    const double v[2] = {state[PUSHT_VX] / 256, state[PUSHT_VY] / 256};
    env_config(env_find("pusht"), state, c);
    for (int i = 0; i < SPATIAL_CONFIG; i++) wide[i] = c[i];
    for (int i = 0; i < 2 * CONTROLS; i++)
        u[i] = ((double)raw[i] - (double)mean[i % 2]) / (double)deviation[i % 2];
    spatial_gather(&push, wide, u, pose, control);
    spatial_features(&push, pose, v, control, mean, deviation, f);
}

// a point of the block's frame, as features 0 and 1 give it, on the canvas
static void on_canvas(const double* f, const double* state, double* x, double* y) {
    double c = cos(state[PUSHT_ANGLE]), s = sin(state[PUSHT_ANGLE]);
    double px = 100 * f[0], py = 100 * f[1] + PUSHT_COG;
    *x = state[PUSHT_BX] + c * px - s * py;
    *y = state[PUSHT_BY] + s * px + c * py;
}

TEST(model, spatial_path_is_the_agents) {
    env* e = world();
    const double start[PUSHT_STATE] = {60, 80, 400, 350, 2.0, 40, -25};
    const float raw[10] = {0.3f, 0.1f, 0.25f, -0.2f, -0.1f, 0.2f, 0.4f, 0.1f, 0.0f, -0.3f};
    double f[FEATURES], s[PUSHT_STATE], x, y;
    features(start, raw, f);
    env_recall(e, start);
    for (int k = 0; k <= CONTROLS; k++) {
        e->spec->sim->state_get(e, s);
        on_canvas(f + k * EACH, start, &x, &y);
        EXPECT_NEAR(x, s[PUSHT_AX], 1e-3);
        EXPECT_NEAR(y, s[PUSHT_AY], 1e-3);
        if (k < CONTROLS) e->spec->sim->step(e, raw + 2 * k);
    }
    env_free(e);
}

static double dot(const double* a, double x, double y) {
    return a[0] * x + a[1] * y;
}

// The agent drives into the block from many sides. Where the true block moves, the features have
// felt a push, and in its direction; turning follows the torque.
TEST(model, spatial_pushes_go_the_blocks_way) {
    env* e = world();
    int moved = 0, along = 0, turned = 0, alike = 0;
    for (int i = 0; i < 200; i++) {
        rng r = rng_start(6, RNG_STREAM(RNG_TEST, i));
        double angle = rng_uniform(&r, 0, 6.28), from = rng_uniform(&r, 0, 6.28), f[FEATURES];
        double s[PUSHT_STATE] = {0, 0, 256 + 45 * sin(angle), 256 - 45 * cos(angle), angle, 0, 0};
        double after[PUSHT_STATE];
        float raw[10];
        s[PUSHT_AX] = 256 + 110 * cos(from) + rng_uniform(&r, -30, 30);
        s[PUSHT_AY] = 256 + 110 * sin(from) + rng_uniform(&r, -30, 30);
        for (int k = 0; k < 10; k++) raw[k] = (float)(-0.25 * (k % 2 ? sin(from) : cos(from)));
        features(s, raw, f);
        env_recall(e, s);
        for (int k = 0; k < CONTROLS; k++) e->spec->sim->step(e, raw + 2 * k);
        e->spec->sim->state_get(e, after);
        // of the centre of gravity
        double dx = after[PUSHT_BX] - s[PUSHT_BX] - 45 * (sin(after[PUSHT_ANGLE]) - sin(angle));
        double dy = after[PUSHT_BY] - s[PUSHT_BY] + 45 * (cos(after[PUSHT_ANGLE]) - cos(angle));
        double turn = remainder(after[PUSHT_ANGLE] - angle, 2 * PUSHT_PI);
        double push = 0, torque = 0, sum[2] = {0};
        for (int k = 0; k <= CONTROLS; k++)
            for (int box = 0; box < 2; box++) {
                const double* p = f + k * EACH + 2 + 3 * box;
                push = test_worse(push, hypot(p[0], p[1]));
                sum[0] += p[0], sum[1] += p[1], torque += p[2];
            }
        if (hypot(dx, dy) < 3) continue;
        moved++;
        along += push > 0.15 && dot(sum, dx, dy) > 0;
        if (fabs(turn) < 0.1) continue;
        turned++;
        alike += torque * turn > 0;
    }
    EXPECT(moved > 60 && turned > 30);
    EXPECT(along >= 0.95 * moved);
    EXPECT(alike >= 0.85 * turned);
    env_free(e);
}
#endif

// ---- in the transition --------------------------------------------------------------------------

static firm_status fill(void* ctx, const nn_feed* feed) {
    (void)ctx;
    for (int id = 0; id < feed->graph->tensors; id++) {
        const nn_tensor* t = &feed->graph->tensor[id];
        if (t->kind != NN_INPUT) continue;
        rng r = rng_start(2, RNG_STREAM(RNG_TEST, rng_hash_text(t->name) >> 16));
        for (int i = 0; i < t->size; i++) nn_feed_real(feed, id)[i] = 0.3f * rng_gauss(&r);
    }
    return FIRM_OK;
}

static void step_once(const firm_model* m, float* c_out) {
    nn_graph* g = NULL;
    nn_exec* e = NULL;
    firm_error err = {0};
    REQUIRE_OK(nn_graph_create(m->store, &g, &err), err);
    nn_id c = nn_input1(g, "c", 6), fiber = nn_input1(g, "fiber", m->shape.fiber);
    model_transition(g, m, nn_input1(g, "u", 10), &c, &fiber);
    nn_output(g, c);
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1};
    REQUIRE_OK(nn_exec_create(g, nn_backend_ref(), &opt, NULL, &e, &err), err);
    EXPECT_INT(nn_exec_forward(e, 1, fill, NULL), FIRM_OK);
    memcpy(c_out, nn_exec_output(e, c), 6 * sizeof(float));
    nn_exec_free(e);
    nn_graph_free(g);
}

TEST(model, spatial_inputs_start_at_nothing) {
    if (!env_find("pusht")) {
        test_skip("Push-T is not in this build");
        return;
    }
    model_shape shape = {.channels = {8, 8, 8, 8},
                         .groups = 4,
                         .grounder_hidden = 8,
                         .history_width = 4,
                         .history_inner = 4,
                         .history_blocks = 1,
                         .history_heads = 1,
                         .belief = 4,
                         .fiber = 5,
                         .fiber_hidden = 4,
                         .hidden = 12,
                         .inner = 10,
                         .blocks = 1,
                         .grid = 7,
                         .history_pool = 1,
                         .spatial = 9};
    firm_model* m = NULL;
    firm_error err = {0};
    float on[6], off[6], trained[6];
    REQUIRE_OK(model_create(&env_find("pusht")->task, &shape, 0, 1, &m, &err), err);
    step_once(m, on);
    m->spatial_off = 1;
    step_once(m, off);
    EXPECT(memcmp(on, off, sizeof on) == 0);
    const nn_entry* w =
        &m->store->entry[nn_store_find(m->store, "transition.spatial.extra.weight")];
    for (size_t i = 0; i < w->count; i++) m->store->value[w->offset + i] = 0.1f;
    step_once(m, off);
    EXPECT(memcmp(on, off, sizeof on) == 0);
    m->spatial_off = 0;
    step_once(m, trained);
    EXPECT(memcmp(on, trained, sizeof on) != 0);
    firm_model_free(m);
}
