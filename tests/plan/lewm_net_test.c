// lewm_net_test.c - the planner's copy of LeWM's predictor against the model's own graph, step by
// step, and what every rollout promises.
#include "plan/lewm_net.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "lewm_toys.h"
#include "nn/exec.h"
#include "plan/lewm_gpu.h"

enum { N = 7, P = 6 };

typedef struct window {
    const float *z, *u;
    nn_id z_in, u_in;
} window;

static firm_status fill(void* context, const nn_feed* f) {
    const window* w = context;
    memcpy(nn_feed_real(f, w->z_in), w->z, (size_t)nn_size(f->graph, w->z_in) * sizeof(float));
    memcpy(nn_feed_real(f, w->u_in), w->u, (size_t)nn_size(f->graph, w->u_in) * sizeof(float));
    return FIRM_OK;
}

// The last token of a window of n latents, by the graph.
static void predict(const lewm_model* m, int n, const float* z, const float* u, float* out) {
    const int width = m->shape.width;
    nn_graph* g;
    nn_exec* e;
    firm_error err = {0};
    nn_exec_options one = {.batch = 1, .shard = 1, .lanes = 1};
    REQUIRE_OK(nn_graph_create(m->store, &g, &err), err);
    window w = {z, u, nn_input(g, "z", 2, (int[]){n, width}),
                nn_input(g, "u", 2, (int[]){n, lewm_action_dim(m)})};
    nn_id y = lewm_predict(g, m, w.z_in, lewm_embed(g, m, w.u_in));
    nn_output(g, y);
    REQUIRE_OK(nn_exec_create(g, nn_backend_cpu(), &one, NULL, &e, &err), err);
    EXPECT_INT(nn_exec_forward(e, 1, fill, &w), FIRM_OK);
    memcpy(out, nn_exec_output(e, y) + (n - 1) * width, (size_t)width * sizeof *out);
    nn_exec_free(e);
    nn_graph_free(g);
}

// One candidate as the reference rolls it out: the whole window at every step.
static void by_graph(const lewm_model* m, const float* z0, const float* u, float* path) {
    const int width = m->shape.width, action = lewm_action_dim(m);
    float* z = malloc((size_t)((P + 1) * width) * sizeof *z);
    memcpy(z, z0, (size_t)width * sizeof *z);
    for (int t = 0; t < P; t++) {
        int n = t + 1 < m->shape.context ? t + 1 : m->shape.context, first = t + 1 - n;
        predict(m, n, z + first * width, u + first * action, z + (t + 1) * width);
    }
    memcpy(path, z + width, (size_t)(P * width) * sizeof *path);
    free(z);
}

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

// windows that grow and that slide, two and three tokens long
TEST(plan, lewm_net_predicts_as_the_model) {
    for (int context = 1; context <= 3; context++) {
        lewm_model* m = toy_lewm(context, 5);
        lewm_net* net;
        firm_error err = {0};
        if (!m) return;
        REQUIRE_OK(lewm_net_create(m, &net, &err), err);
        const int width = m->shape.width, action = lewm_action_dim(m);
        float *z0 = normals(width, 1), *u = normals(N * P * action, 2),
              *got = malloc((size_t)(N * P * width) * sizeof *got),
              *want = malloc((size_t)(P * width) * sizeof *want);
        void* scratch = mem_alloc(lewm_net_scratch_bytes(net));
        memset(scratch, 0xff, lewm_net_scratch_bytes(net));
        EXPECT_INT(lewm_net_rollout(net, scratch, N, P, z0, u, got), 0);
        double worst = 0, moved = 0;
        for (int i = 0; i < N; i++) {
            by_graph(m, z0, u + i * P * action, want);
            for (int j = 0; j < P * width; j++)
                worst = test_worse(worst, fabs((double)got[i * P * width + j] - (double)want[j]));
            for (int j = 0; j < width; j++)
                moved = fmax(moved, fabs((double)want[(P - 1) * width + j] - (double)want[j]));
        }
        EXPECT_NEAR(worst, 0, 2e-5);
        EXPECT(moved > 0.1);
        mem_free(scratch);
        free(want), free(got), free(u), free(z0);
        lewm_net_free(net);
        lewm_free(m);
    }
}

// any split of the candidates, more than LEWM_MOST of them, a candidate that is not finite
TEST(plan, lewm_net_same_bits_for_any_split) {
    enum { MANY = 191 };
    lewm_model* m = toy_lewm(3, 5);
    lewm_net* net;
    firm_error err = {0};
    if (!m) return;
    REQUIRE_OK(lewm_net_create(m, &net, &err), err);
    const int width = m->shape.width, action = lewm_action_dim(m), size = P * width;
    float *z0 = normals(width, 1), *u = normals(MANY * P * action, 2),
          *whole = malloc((size_t)(MANY * size) * sizeof *whole),
          *part = malloc((size_t)(MANY * size) * sizeof *part);
    void* scratch = mem_alloc(lewm_net_scratch_bytes(net));
    u[50 * P * action + 3] = NAN;
    EXPECT_INT(lewm_net_rollout(net, scratch, MANY, P, z0, u, whole), 1);
    EXPECT(isnan(whole[50 * size]));
    static const int cuts[] = {0, 1, 13, 14, 40, 90, MANY};
    int64_t before = mem_count();
    for (int i = 0; i < 6; i++)
        lewm_net_rollout(net, scratch, cuts[i + 1] - cuts[i], P, z0, u + cuts[i] * P * action,
                         part + cuts[i] * size);
    EXPECT_INT(mem_count() - before, 0);
    EXPECT_INT(memcmp(whole, part, (size_t)(MANY * size) * sizeof *whole), 0);
    mem_free(scratch);
    free(part), free(whole), free(u), free(z0);
    lewm_net_free(net);
    lewm_free(m);
}

// The published model, a rollout of five steps: 139,778,228 multiply-adds without any saving. With
// 786,432 of an MLP, and of V and the output layer of a window's first token in one 36,864:
//     5 (1,482,340 + 786,432) of actions and heads
//   + (6 + 5 + 5) (36,864 + 786,432) of first tokens
//   + (6 + 5 + 5) (786,432 + 2 x 6,144 + 786,432) of second ones
//   + (6 + 6 + 6) (786,432 + 3 x 6,144 + 786,432) of third ones
// On a GPU three steps of one token each, then two of a whole window whose last block runs for one
// token:
//     3 (1,482,340 + 6 x 1,572,864 + 786,432) + 2 x 1,024 x 6 (1 + 2 + 3)
//   + 2 (1,482,340 + 18 x 393,216 + 16 x 1,179,648 + 786,432 + 2 x 1,024 (5 + 10 + 18))
TEST(plan, lewm_net_saves_what_can_be_saved) {
    const task_typed task = toy_lewm_task();
    lewm_shape shape = lewm_shape_default();
    lewm_model* m;
    lewm_net* net;
    firm_error err = {0};
    REQUIRE_OK(lewm_create(&task, &shape, 1, &m, &err), err);
    REQUIRE_OK(lewm_net_create(m, &net, &err), err);
    EXPECT_INT(lewm_net_macs(m, 5), 78522356);
    EXPECT_INT(lewm_gpu_macs(m, 5), 91768820);
    lewm_net_free(net);
    for (int64_t n = 0; n < 8; n++) {
        mem_fail_after(n);
        firm_status status = lewm_net_create(m, &net, &err);
        mem_fail_after(-1);
        EXPECT_INT(status, FIRM_E_MEMORY);
        EXPECT(net == NULL);
    }
    lewm_free(m);
}
