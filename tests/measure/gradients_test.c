// gradients_test.c - the measure of rounded gradients knows sound kernels from wrong ones.
#include "measure/gradients.h"

#include <stdlib.h>
#include <string.h>

#include "../model/lewm_formula.h"
#include "check.h"
#include "core/pool.h"

typedef struct scene {
    lewm_model* model;
    nn_graph* graph;
    lewm_objective at;
    uint8_t* frames;
    float* actions;
    int image;
} scene;

enum { CLIPS = 3 };

static firm_status fill(void* ctx, const nn_feed* f) {
    const scene* s = ctx;
    size_t bytes = 4 * (size_t)s->image * (size_t)s->image * 3;
    for (int i = 0; i < f->count; i++) {
        size_t clip = (size_t)(f->first + i);
        memcpy(nn_feed_bytes(f, s->at.frames) + (size_t)i * bytes, s->frames + clip * bytes, bytes);
        memcpy(nn_feed_real(f, s->at.actions) + (size_t)i * 40, s->actions + clip * 40,
               40 * sizeof(float));
    }
    return FIRM_OK;
}

// How many gradients are further off than they may be, and the largest share of what is allowed.
static int unsound(const half_case* c, nn_exec* host, const nn_backend* b, const double* measure,
                   double* most) {
    firm_error err = {0};
    nn_exec* e;
    const nn_trained* list;
    int bad = 0, count = nn_exec_trained(host, &list);
    nn_exec_options opt = {.batch = c->batch, .shard = 1, .lanes = 2, .train = 1};
    *most = 0;
    if (nn_exec_create(c->graph, b, &opt, c->p, &e, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return 0;
    }
    nn_exec_set_update(e, c->update);
    EXPECT_INT(nn_exec_gradient(e, c->fill, c->ctx), FIRM_OK);
    for (int i = 0; i < count; i++) {
        const char* name = c->graph->store->entry[list[i].entry].name;
        if (!strstr(name, "encoder.") || strstr(name, "encoder.norm.bias")) continue;
        double off = half_off(c->graph->store, &list[i], nn_exec_grad(e), nn_exec_grad(host)),
               share = off / half_allowed(measure[i]);
        bad += !(share <= 1);
        *most = test_worse(*most, share);
    }
    nn_exec_free(e);
    return bad;
}

TEST(measure, rounded_gradients_tell_wrong_kernels) {
    static const struct {
        const char* name;
        half_fault fault;
    } wrong[] = {{"a token is lost", HALF_LOST_TOKEN},
                 {"64 hidden units are lost", HALF_LOST_CHUNK},
                 {"attention's gradient is a fifth too large", HALF_WRONG_SCALE}};
    firm_error err = {0};
    lewm_shape shape = lewm_small();
    shape.image = 112, shape.width = 128, shape.heads = 2, shape.mlp = 256, shape.projector = 96;
    shape.depth = 2;
    scene s = {.model = lewm_formula(&shape), .image = shape.image};
    s.frames = malloc((size_t)CLIPS * 4 * 112 * 112 * 3);
    s.actions = malloc(CLIPS * 40 * sizeof(float));
    pool* p;
    nn_exec* host;
    REQUIRE_OK(pool_create(2, &p, &err), err);
    REQUIRE_OK(nn_graph_create(s.model->store, &s.graph, &err), err);
    lewm_formula_frames(CLIPS * 4, shape.image, s.frames);
    lewm_formula_actions(CLIPS * 40, s.actions);
    nn_train(s.graph, "");
    nn_random(s.graph, 17);
    s.at = lewm_train(s.graph, s.model, 0.09f, 64);
    const half_case c = {s.graph, CLIPS, 7, fill, &s, p};
    nn_exec_options opt = {.batch = CLIPS, .shard = 1, .lanes = 2, .train = 1};
    REQUIRE_OK(nn_exec_create(s.graph, nn_backend_cpu(), &opt, p, &host, &err), err);
    nn_exec_set_update(host, 7);
    EXPECT_INT(nn_exec_gradient(host, fill, &s), FIRM_OK);
    const nn_trained* list;
    double* measure = malloc((size_t)nn_exec_trained(host, &list) * sizeof *measure);
    half_measure(&c, host, measure);
    double most;
    for (int turn = -3; turn < 0; turn++) {
        EXPECT_INT(unsound(&c, host, half_backend(turn, HALF_SOUND), measure, &most), 0);
        printf("  sound: %.2f of what is allowed\n", most);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int bad = unsound(&c, host, half_backend(-1, wrong[i].fault), measure, &most);
        printf("  %s: %.2f of what is allowed, %d gradients\n", wrong[i].name, most, bad);
        EXPECT(bad > 0 && most > 1.2);
    }
    free(measure);
    nn_exec_free(host);
    nn_graph_free(s.graph);
    lewm_free(s.model);
    pool_free(p);
    free(s.frames);
    free(s.actions);
}
