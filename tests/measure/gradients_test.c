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

// How many pieces are further off than they may be, the largest share of what is allowed, and which
// token's row that is (-1: none's).
typedef struct verdict {
    int bad, token;
    double most;
} verdict;

static verdict judge(const half_case* c, nn_exec* host, const nn_backend* b,
                     const double* measure) {
    firm_error err = {0};
    nn_exec* e;
    verdict v = {.token = -1};
    nn_exec_options opt = {.batch = c->batch, .shard = 1, .lanes = 2, .train = 1};
    if (nn_exec_create(c->graph, b, &opt, c->p, &e, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return v;
    }
    half_piece* piece;
    int count = half_pieces(c->graph->store, host, &piece);
    nn_exec_set_update(e, c->update);
    EXPECT_INT(nn_exec_gradient(e, c->fill, c->ctx), FIRM_OK);
    for (int i = 0; i < count; i++) {
        const char* name = piece[i].name;
        if (!strstr(name, "encoder.") || strstr(name, "encoder.norm.bias")) continue;
        double off = half_off(&piece[i], nn_exec_grad(e), nn_exec_grad(host)),
               share = off / half_allowed(measure[i]);
        v.bad += !(share <= 1);
        if (!(share <= v.most)) v.token = piece[i].token;
        v.most = test_worse(v.most, share);
    }
    nn_exec_free(e);
    free(piece);
    return v;
}

static void tell(const lewm_shape* shape, int clips) {
    static const struct {
        const char* name;
        half_fault fault;
    } wrong[] = {{"a token is lost", HALF_LOST_TOKEN},
                 {"64 hidden units are lost", HALF_LOST_CHUNK},
                 {"attention's gradient is a fifth too large", HALF_WRONG_SCALE}};
    firm_error err = {0};
    const int side = shape->image / shape->patch, last = side * side;
    scene s = {.model = lewm_formula(shape), .image = shape->image};
    s.frames = malloc((size_t)clips * 4 * (size_t)shape->image * (size_t)shape->image * 3);
    s.actions = malloc((size_t)clips * 40 * sizeof(float));
    pool* p;
    nn_exec* host;
    REQUIRE_OK(pool_create(2, &p, &err), err);
    REQUIRE_OK(nn_graph_create(s.model->store, &s.graph, &err), err);
    lewm_formula_frames(clips * 4, shape->image, s.frames);
    lewm_formula_actions(clips * 40, s.actions);
    nn_train(s.graph, "");
    nn_random(s.graph, 17);
    s.at = lewm_train(s.graph, s.model, 0.09f, 64);
    const half_case c = {s.graph, clips, 7, fill, &s, p};
    nn_exec_options opt = {.batch = clips, .shard = 1, .lanes = 2, .train = 1};
    REQUIRE_OK(nn_exec_create(s.graph, nn_backend_cpu(), &opt, p, &host, &err), err);
    nn_exec_set_update(host, 7);
    EXPECT_INT(nn_exec_gradient(host, fill, &s), FIRM_OK);
    half_piece* piece;
    double* measure = malloc((size_t)half_pieces(s.model->store, host, &piece) * sizeof *measure);
    half_measure(&c, host, measure);
    for (int turn = -3; turn < 0; turn++) {
        verdict v = judge(&c, host, half_backend(turn, HALF_SOUND), measure);
        printf("  %d tokens, sound: %.2f of what is allowed\n", last + 1, v.most);
        EXPECT_INT(v.bad, 0);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        verdict v = judge(&c, host, half_backend(-1, wrong[i].fault), measure);
        printf("  %d tokens, %s: %.2f of what is allowed, %d gradients\n", last + 1, wrong[i].name,
               v.most, v.bad);
        EXPECT(v.bad > 0 && v.most > 1.2);
        if (wrong[i].fault == HALF_LOST_TOKEN) EXPECT_INT(v.token, last);
    }
    free(piece);
    free(measure);
    nn_exec_free(host);
    nn_graph_free(s.graph);
    lewm_free(s.model);
    pool_free(p);
    free(s.frames);
    free(s.actions);
}

TEST(measure, rounded_gradients_tell_wrong_kernels) {
    lewm_shape shape = lewm_small();
    shape.image = 112, shape.width = 128, shape.heads = 2, shape.mlp = 256, shape.projector = 96;
    shape.depth = 2;
    tell(&shape, 3);
    if (test_short()) return;  // the same code with more tokens, for the numbers
    shape.image = 224, shape.width = 192, shape.heads = 3, shape.mlp = 384;
    tell(&shape, 2);
}
