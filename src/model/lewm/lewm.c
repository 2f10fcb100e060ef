// lewm.c - creating and describing LeWM models.
#include "model/lewm/lewm.h"

#include "core/mem.h"

lewm_shape lewm_shape_default(void) {
    return (lewm_shape){.image = 224,
                        .patch = 14,
                        .width = 192,
                        .depth = 12,
                        .heads = 3,
                        .mlp = 768,
                        .projector = 2048,
                        .context = 3,
                        .predictor_depth = 6,
                        .predictor_heads = 16,
                        .predictor_head = 64,
                        .predictor_mlp = 2048,
                        .action_hidden = 10,
                        .action_mlp = 768,
                        .dropout = 0.1f};
}

static firm_status check_shape(const lewm_shape* s, firm_error* err) {
    const struct {
        const char* name;
        int value, most;
    } size[] = {{"image", s->image, 1024},
                {"patch", s->patch, 128},
                {"width", s->width, 4096},
                {"depth", s->depth, LEWM_MAX_DEPTH},
                {"heads", s->heads, 256},
                {"mlp", s->mlp, 16384},
                {"projector", s->projector, 16384},
                {"context", s->context, LEWM_MAX_CONTEXT},
                {"predictor_depth", s->predictor_depth, LEWM_MAX_DEPTH},
                {"predictor_heads", s->predictor_heads, 256},
                {"predictor_head", s->predictor_head, 256},
                {"predictor_mlp", s->predictor_mlp, 16384},
                {"action_hidden", s->action_hidden, 4096},
                {"action_mlp", s->action_mlp, 16384}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (size[i].value < 1 || size[i].value > size[i].most)
            return FAIL(err, FIRM_E_VALUE, "lewm.%s = %d; use 1 to %d", size[i].name, size[i].value,
                        size[i].most);
    if (s->image % s->patch)
        return FAIL(err, FIRM_E_VALUE, "lewm.patch = %d does not divide pictures of %d pixels",
                    s->patch, s->image);
    if (s->width % s->heads)
        return FAIL(err, FIRM_E_VALUE, "lewm.heads = %d does not divide lewm.width = %d", s->heads,
                    s->width);
    if (!(s->dropout >= 0 && s->dropout < 1))
        return FAIL(err, FIRM_E_VALUE, "lewm.dropout = %g; use 0 to below 1", (double)s->dropout);
    return FIRM_OK;
}

// one graph that touches every module declares every parameter
static firm_status declare(lewm_model* m, firm_error* err) {
    nn_graph* g;
    TRY(nn_graph_create(m->store, &g, err));
    nn_id z = lewm_encode(g, m, nn_frames(g, "frames", m->shape.context, m->shape.image));
    int dim[] = {m->shape.context, lewm_action_dim(m)};
    lewm_predict(g, m, z, lewm_embed(g, m, nn_input(g, "actions", 2, dim)));
    int broken = g->broken || m->store->broken;
    nn_graph_free(g);
    return broken ? FAIL(err, FIRM_E_MEMORY, "no memory to describe the model") : FIRM_OK;
}

firm_status lewm_create(const task_typed* task, const lewm_shape* shape, uint64_t seed,
                        lewm_model** out, firm_error* err) {
    *out = NULL;
    TRY(task_check(task, task->name, err));
    TRY(check_shape(shape, err));
    lewm_model* m = mem_calloc(1, sizeof *m);
    if (!m) return FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    m->task = *task;
    m->shape = *shape;
    for (int i = 0; i < FIRM_MAX_ACTION; i++) m->action_std[i] = 1;
    firm_status st = nn_store_create(&m->store, err);
    if (st == FIRM_OK) st = declare(m, err);
    if (st == FIRM_OK) st = nn_store_seal(m->store, seed, err);
    if (st == FIRM_OK && !(m->config = mem_strdup("")))
        st = FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    if (st != FIRM_OK) {
        lewm_free(m);
        return st;
    }
    *out = m;
    return FIRM_OK;
}

void lewm_free(lewm_model* m) {
    if (!m) return;
    nn_store_free(m->store);
    mem_free(m->config);
    mem_free(m);
}

int lewm_action_dim(const lewm_model* m) {
    return m->task.controls * m->task.action_dim;
}

size_t lewm_params(const lewm_model* m) {
    return nn_store_params(m->store, "");
}

const float* lewm_weight(const lewm_model* m, const char* name) {
    int at = nn_store_find(m->store, name);
    CHECK(at >= 0, "LeWM has no parameter %s", name);
    return m->store->value + m->store->entry[at].offset;
}

void lewm_standardise(const lewm_model* m, const float* raw, float* out) {
    for (int i = 0; i < m->task.action_dim; i++)
        out[i] = (raw[i] - m->action_mean[i]) / m->action_std[i];
}
