// model.c - creating and describing models.
#include "model/model.h"

#include <string.h>

#include "core/mem.h"

const config_key model_keys[] = {
    {"model", "channel1", CONFIG_INT, 8, 512, "32", NULL, "channels of tokenizer stage 1"},
    {"model", "channel2", CONFIG_INT, 8, 512, "64", NULL, "channels of tokenizer stage 2"},
    {"model", "channel3", CONFIG_INT, 8, 512, "96", NULL, "channels of tokenizer stage 3"},
    {"model", "channel4", CONFIG_INT, 8, 512, "64", NULL,
     "channels of tokenizer stage 4, a token's width"},
    {"model", "groups", CONFIG_INT, 1, 64, "8", NULL, "groups of every GroupNorm"},
    {"model", "grounder_hidden", CONFIG_INT, 8, 4096, "512", NULL, "hidden units of the grounder"},
    {"model", "history_width", CONFIG_INT, 8, 1024, "96", NULL,
     "token width inside the history module"},
    {"model", "history_inner", CONFIG_INT, 8, 4096, "240", NULL,
     "hidden units of its feed-forward parts"},
    {"model", "history_blocks", CONFIG_INT, 1, 8, "2", NULL,
     "attention blocks of the history module"},
    {"model", "history_heads", CONFIG_INT, 1, 16, "4", NULL,
     "attention heads; must divide history_width"},
    {"model", "belief", CONFIG_INT, 8, 1024, "128", NULL, "numbers in the belief b"},
    {"model", "fiber", CONFIG_INT, 8, 1024, "128", NULL, "numbers in the fiber m"},
    {"model", "fiber_hidden", CONFIG_INT, 8, 4096, "512", NULL,
     "hidden units of the fiber initialiser"},
    {"model", "hidden", CONFIG_INT, 8, 4096, "384", NULL, "width of the transition"},
    {"model", "inner", CONFIG_INT, 8, 8192, "768", NULL, "hidden units of its residual blocks"},
    {"model", "blocks", CONFIG_INT, 1, 16, "2", NULL, "residual blocks of the transition"},
    {"model", "no_fiber", CONFIG_BOOL, 0, 1, "false", NULL, "ablation: the fiber stays zero"},
    {"model", "grid", CONFIG_INT, 7, 28, "7", NULL,
     "cells per side of the last feature map: 7, 14 or 28"},
    {"model", "keypoints", CONFIG_INT, 0, 256, "0", NULL,
     "geometry encoder: so many keypoints are the tokens; 0: the cells are"},
    {"model", "keypoint_width", CONFIG_INT, 3, 256, "32", NULL,
     "numbers of a keypoint's token, the last two its place"},
    {"model", "history_pool", CONFIG_INT, 1, 4, "1", NULL,
     "cells per side that the history module sees as one token"},
    {"model", "grounder", CONFIG_TEXT, 0, 0, "flat", "flat|votes|staged",
     "flat: one hidden layer; votes: every cell votes; staged: a head and its correction"},
    {"model", "grounder_residual", CONFIG_INT, 8, 4096, "256", NULL,
     "hidden units of the staged grounder's correction"},
    {"model", "spatial", CONFIG_INT, 0, 8192, "0", NULL,
     "hidden units of Push-T's spatial residual in the transition; 0: none"},
    {"model", "reading", CONFIG_INT, 0, 4096, "0", NULL,
     "hidden units of the reading of chi, for train.recorded; 0: none"},
};
const int model_key_count = sizeof model_keys / sizeof *model_keys;

void model_shape_read(const config* c, model_shape* s) {
    const char* stage[4] = {"channel1", "channel2", "channel3", "channel4"};
    for (int i = 0; i < 4; i++) s->channels[i] = (int)config_int(c, "model", stage[i]);
    s->groups = (int)config_int(c, "model", "groups");
    s->grounder_hidden = (int)config_int(c, "model", "grounder_hidden");
    s->history_width = (int)config_int(c, "model", "history_width");
    s->history_inner = (int)config_int(c, "model", "history_inner");
    s->history_blocks = (int)config_int(c, "model", "history_blocks");
    s->history_heads = (int)config_int(c, "model", "history_heads");
    s->belief = (int)config_int(c, "model", "belief");
    s->fiber = (int)config_int(c, "model", "fiber");
    s->fiber_hidden = (int)config_int(c, "model", "fiber_hidden");
    s->hidden = (int)config_int(c, "model", "hidden");
    s->inner = (int)config_int(c, "model", "inner");
    s->blocks = (int)config_int(c, "model", "blocks");
    s->no_fiber = config_bool(c, "model", "no_fiber");
    s->grid = (int)config_int(c, "model", "grid");
    s->keypoints = (int)config_int(c, "model", "keypoints");
    s->keypoint_width = (int)config_int(c, "model", "keypoint_width");
    s->history_pool = (int)config_int(c, "model", "history_pool");
    const char* grounder = config_text(c, "model", "grounder");
    s->grounder = strcmp(grounder, "votes") == 0    ? MODEL_GROUND_VOTES
                  : strcmp(grounder, "staged") == 0 ? MODEL_GROUND_STAGED
                                                    : MODEL_GROUND_FLAT;
    s->grounder_residual = (int)config_int(c, "model", "grounder_residual");
    s->spatial = (int)config_int(c, "model", "spatial");
    s->reading = (int)config_int(c, "model", "reading");
}

static firm_status check_shape(const model_shape* s, firm_error* err) {
    for (int i = 0; i < 4; i++)
        if (s->channels[i] < 1 || s->channels[i] > 512 || s->groups < 1 ||
            s->channels[i] % s->groups)
            return FAIL(err, FIRM_E_VALUE,
                        "model.groups = %d does not divide the %d channels of stage %d", s->groups,
                        s->channels[i], i + 1);
    if (32 % s->groups)
        return FAIL(err, FIRM_E_VALUE, "model.groups = %d; use 1, 2, 4, 8, 16 or 32", s->groups);
    if (s->history_heads < 1 || s->history_width % s->history_heads)
        return FAIL(err, FIRM_E_VALUE,
                    "model.history_heads = %d does not divide history_width = %d", s->history_heads,
                    s->history_width);
    const int size[] = {s->grounder_hidden, s->history_width, s->history_inner, s->history_blocks,
                        s->belief,          s->fiber,         s->fiber_hidden,  s->hidden,
                        s->inner,           s->blocks};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (size[i] < 1 || size[i] > 8192)
            return FAIL(err, FIRM_E_VALUE, "a size in the [model] section is %d; use 1 to 8192",
                        size[i]);
    return FIRM_OK;
}

// the forms of the modules against each other and against what the task's configuration is made of
static firm_status check_forms(const model_shape* s, const env_spec* env, firm_error* err) {
    int points = env->config_dim - 2 * env->pairs;
    if (s->grid != 7 && s->grid != 14 && s->grid != 28)
        return FAIL(err, FIRM_E_VALUE, "model.grid = %d; use 7, 14 or 28", s->grid);
    if (s->keypoints < 0 || s->keypoints > 256 ||
        (s->keypoints && (s->keypoint_width < 3 || s->keypoint_width > 256)))
        return FAIL(err, FIRM_E_VALUE,
                    "model.keypoints = %d of keypoint_width = %d; use up to 256 of 3 to 256",
                    s->keypoints, s->keypoint_width);
    if (s->history_pool < 1 || s->grid % s->history_pool || (s->keypoints && s->history_pool > 1))
        return FAIL(err, FIRM_E_VALUE,
                    "model.history_pool = %d does not divide the %d cells of model.grid%s",
                    s->history_pool, s->grid, s->keypoints ? "; keypoints are not pooled" : "");
    if (s->grounder < MODEL_GROUND_FLAT || s->grounder > MODEL_GROUND_STAGED)
        return FAIL(err, FIRM_E_VALUE, "model.grounder is of the unknown form %d", s->grounder);
    if (s->grounder == MODEL_GROUND_VOTES && s->grounder_hidden % s->groups)
        return FAIL(err, FIRM_E_VALUE, "model.groups = %d does not divide grounder_hidden = %d",
                    s->groups, s->grounder_hidden);
    if (s->grounder == MODEL_GROUND_VOTES && (s->keypoints || points < 2 || points % 2))
        return FAIL(err, FIRM_E_VALUE,
                    "model.grounder = votes needs cells and points of the picture to vote on; %s",
                    s->keypoints ? "set model.keypoints = 0" : "use flat for this task");
    if (s->grounder == MODEL_GROUND_STAGED && env->pairs < 1)
        return FAIL(
            err, FIRM_E_VALUE,
            "model.grounder = staged reads the angles of joints, and the task '%s' has none; "
            "use flat",
            env->name);
    if (s->grounder == MODEL_GROUND_STAGED &&
        (s->grounder_residual < 1 || s->grounder_residual > 8192))
        return FAIL(err, FIRM_E_VALUE, "model.grounder_residual = %d; use 1 to 8192",
                    s->grounder_residual);
    if (s->spatial < 0 || s->spatial > 8192 || s->reading < 0 || s->reading > 8192)
        return FAIL(err, FIRM_E_VALUE, "model.spatial = %d, model.reading = %d; use 0 to 8192",
                    s->spatial, s->reading);
    if (s->spatial && (env->config_dim != 6 || env->pairs != 1 || env->action_dim != 2))
        return FAIL(err, FIRM_E_VALUE, "model.spatial = %d knows Push-T's block only; use 0 for %s",
                    s->spatial, env->name);
    return FIRM_OK;
}

// one graph that touches every module declares every parameter
static firm_status declare(firm_model* m, firm_error* err) {
    nn_graph* g;
    TRY(nn_graph_create(m->store, &g, err));
    int tokens[2] = {model_token_count(m), model_token_width(m)};
    nn_id image = nn_image(g, "image", ENV_IMAGE), before = nn_image(g, "before", ENV_IMAGE);
    nn_id p = model_tokens(g, m, image, before);
    nn_id c = model_ground(g, m, model_tokens(g, m, image, NN_NONE));
    nn_id past = nn_input(g, "past", 2, tokens), a = nn_input1(g, "action", m->env->action_dim);
    nn_id belief = model_belief(g, m, (nn_id[]){past, past, p}, (nn_id[]){a, a});
    nn_id fiber = model_fiber(g, m, belief, (nn_id[]){c, c, c});
    nn_id u = nn_input1(g, "u", MODEL_CONTROLS * m->env->action_dim);
    model_transition(g, m, u, &c, &fiber);
    if (m->shape.reading) model_reading(g, m, c, fiber);
    if (m->auxiliary) {
        nn_id rgb, change, mean, logvar;
        model_chi(g, m, fiber);
        model_picture(g, m, p, &rgb, &change);
        model_next_tokens(g, m, p, belief, a, &mean, &logvar);
        if (m->shape.grounder == MODEL_GROUND_STAGED) model_physical(g, m, p);
    }
    int broken = g->broken || m->store->broken;
    nn_graph_free(g);
    return broken ? FAIL(err, FIRM_E_MEMORY, "no memory to describe the model") : FIRM_OK;
}

firm_status model_create(const env_spec* env, const model_shape* shape, int auxiliary,
                         uint64_t seed, firm_model** out, firm_error* err) {
    *out = NULL;
    TRY(check_shape(shape, err));
    TRY(check_forms(shape, env, err));
    firm_model* m = mem_calloc(1, sizeof *m);
    if (!m) return FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    m->env = env;
    m->shape = *shape;
    m->auxiliary = auxiliary;
    for (int i = 0; i < 3; i++) m->stats.image_std[i] = 1;
    for (int i = 0; i < FIRM_MAX_ACTION; i++) m->stats.action_std[i] = 1;
    for (int i = 0; i < ENV_MAX_CHI; i++) m->stats.chi_std[i] = 1;
    firm_status st = nn_store_create(&m->store, err);
    if (st == FIRM_OK) st = declare(m, err);
    if (st == FIRM_OK) st = nn_store_seal(m->store, seed, err);
    if (st == FIRM_OK && !(m->config = mem_strdup("")))
        st = FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    if (st != FIRM_OK) {
        firm_model_free(m);
        return st;
    }
    *out = m;
    return FIRM_OK;
}

void model_drop_support(firm_model* m) {
    mem_free(m->support);
    m->support = NULL;
    m->support_count = 0;
}

void model_drop_recorded(firm_model* m) {
    mem_free(m->recorded);
    mem_free(m->recorded_path);
    mem_free(m->recorded_chi);
    m->recorded = m->recorded_path = m->recorded_chi = NULL;
    m->recorded_count = 0;
}

void firm_model_free(firm_model* m) {
    if (!m) return;
    for (int i = 0; i < m->members; i++) firm_model_free(m->member[i]);
    nn_store_free(m->store);
    model_drop_support(m);
    model_drop_recorded(m);
    mem_free(m->config);
    mem_free(m);
}

model_params model_count(const firm_model* m) {
    model_params p;
    p.frontend = nn_store_params(m->store, "tokenizer.") + nn_store_params(m->store, "history.");
    p.grounder = nn_store_params(m->store, "grounder.");
    p.transition = nn_store_params(m->store, "fiber.") + nn_store_params(m->store, "transition.");
    p.total = p.frontend + p.grounder + p.transition + nn_store_params(m->store, "reading.");
    for (int i = 0; i < m->members; i++) {
        model_params more = model_count(m->member[i]);
        p.frontend += more.frontend;
        p.grounder += more.grounder;
        p.transition += more.transition;
        p.total += more.total;
    }
    return p;
}

firm_status firm_model_info_get(const firm_model* m, firm_model_info* info) {
    if (info) memset(info, 0, sizeof *info);
    if (!m || !info) return FIRM_E_USAGE;
    const env_spec* e = m->env;
    info->task = e->name;
    info->image_size = ENV_IMAGE;
    info->action_dim = e->action_dim;
    info->controls_per_macro = MODEL_CONTROLS;
    info->config_dim = e->config_dim;
    for (int i = 0; i < e->config_dim; i++) info->config_name[i] = e->config_name[i];
    info->distance_dim = e->distances;
    for (int i = 0; i < e->distances; i++) {
        info->distance_name[i] = e->distance[i].name;
        info->distance_unit[i] = e->distance[i].unit;
        info->distance_tolerance[i] = e->distance[i].tolerance;
    }
    info->parameters = model_count(m).total;
    return FIRM_OK;
}

void model_standardise(const firm_model* m, const float* raw, int controls, float* out) {
    int a = m->env->action_dim;
    for (int i = 0; i < controls * a; i++)
        out[i] = (raw[i] - m->stats.action_mean[i % a]) / m->stats.action_std[i % a];
}
