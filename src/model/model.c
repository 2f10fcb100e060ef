// model.c - creating and describing models.
#include "model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "model/lewm/lewm.h"

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
static firm_status check_forms(const model_shape* s, const task_typed* task, firm_error* err) {
    int points = task->config_dim - 2 * task->pairs;
    char coarse[16] = "";
    if (task->image % 32 == 0) snprintf(coarse, sizeof coarse, "%d, ", task->image / 32);
    if (s->grid < 1 ||
        (s->grid * 32 != task->image && s->grid * 16 != task->image && s->grid * 8 != task->image))
        return FAIL(err, FIRM_E_VALUE,
                    "model.grid = %d; pictures of %d pixels a side allow %s%d or %d", s->grid,
                    task->image, coarse, task->image / 16, task->image / 8);
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
    if (s->grounder == MODEL_GROUND_STAGED && task->pairs < 1)
        return FAIL(
            err, FIRM_E_VALUE,
            "model.grounder = staged reads the angles of joints, and the task '%s' has none; "
            "use flat",
            task->name);
    if (s->grounder == MODEL_GROUND_STAGED &&
        (s->grounder_residual < 1 || s->grounder_residual > 8192))
        return FAIL(err, FIRM_E_VALUE, "model.grounder_residual = %d; use 1 to 8192",
                    s->grounder_residual);
    if (s->spatial < 0 || s->spatial > 8192 || s->reading < 0 || s->reading > 8192 ||
        s->place < 0 || s->place > 8192)
        return FAIL(err, FIRM_E_VALUE,
                    "model.spatial = %d, model.reading = %d, model.place = %d; use 0 to 8192",
                    s->spatial, s->reading, s->place);
    if (s->spatial && !task->push.boxes)
        return FAIL(err, FIRM_E_VALUE,
                    "model.spatial = %d needs a task that says what is pushed, in a section "
                    "[push]; use 0 for %s",
                    s->spatial, task->name);
    return FIRM_OK;
}

// one graph that touches every module declares every parameter
static firm_status declare(firm_model* m, firm_error* err) {
    nn_graph* g;
    TRY(nn_graph_create(m->store, &g, err));
    int tokens[2] = {model_token_count(m), model_token_width(m)};
    nn_id image = nn_image(g, "image", m->task.image);
    nn_id before = nn_image(g, "before", m->task.image);
    nn_id p = model_tokens(g, m, image, before);
    nn_id c = model_ground(g, m, model_tokens(g, m, image, NN_NONE));
    nn_id past = nn_input(g, "past", 2, tokens), a = nn_input1(g, "action", m->task.action_dim);
    nn_id belief = model_belief(g, m, (nn_id[]){past, past, p}, (nn_id[]){a, a});
    nn_id fiber = model_fiber(g, m, belief, (nn_id[]){c, c, c});
    nn_id u = nn_input1(g, "u", m->task.controls * m->task.action_dim);
    model_transition(g, m, u, &c, &fiber);
    if (m->shape.reading) model_reading(g, m, c, fiber);
    if (m->auxiliary) {
        nn_id rgb, change, mean, logvar;
        model_chi(g, m, fiber);
        model_picture(g, m, p, &rgb, &change);
        model_next_tokens(g, m, p, belief, a, &mean, &logvar);
        if (m->shape.grounder == MODEL_GROUND_STAGED) model_physical(g, m, p);
        if (m->auxiliary & MODEL_POSTURE) model_posture(g, m, p);
    }
    int broken = g->broken || m->store->broken;
    nn_graph_free(g);
    return broken ? FAIL(err, FIRM_E_MEMORY, "no memory to describe the model") : FIRM_OK;
}

firm_status model_create(const task_typed* task, const model_shape* shape, int auxiliary,
                         uint64_t seed, firm_model** out, firm_error* err) {
    *out = NULL;
    TRY(task_check(task, task->name, err));
    TRY(check_shape(shape, err));
    TRY(check_forms(shape, task, err));
    firm_model* m = mem_calloc(1, sizeof *m);
    if (!m) return FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    m->task = *task;
    m->shape = *shape;
    m->auxiliary = auxiliary;
    for (int i = 0; i < 3; i++) m->stats.image_std[i] = 1;
    for (int i = 0; i < FIRM_MAX_ACTION; i++) m->stats.action_std[i] = 1;
    for (int i = 0; i < TASK_MAX_CHI; i++) m->stats.chi_std[i] = 1;
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

int model_learned_from(const firm_model* m, uint64_t data_hash) {
    char name[48];
    snprintf(name, sizeof name, "data_hash=%016" PRIx64, data_hash);
    if (!strstr(m->provenance, name)) return 0;
    for (int i = 0; i < m->members; i++)
        if (!strstr(m->member[i]->provenance, name)) return 0;
    return 1;
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
    mem_free(m->recorded_left);
    m->recorded = m->recorded_path = m->recorded_chi = m->recorded_left = NULL;
    m->recorded_count = 0;
}

void firm_model_free(firm_model* m) {
    if (!m) return;
    for (int i = 0; i < m->members; i++) firm_model_free(m->member[i]);
    nn_store_free(m->store);
    lewm_free(m->lewm);
    model_drop_support(m);
    model_drop_tokens(m);
    model_drop_recorded(m);
    mem_free(m->config);
    mem_free(m);
}

int model_is_sight(const char* parameter) {
    return strncmp(parameter, "tokenizer.", 10) == 0 || strncmp(parameter, "grounder.", 9) == 0;
}

int model_sees_alike(const firm_model* m, const firm_model* first) {
    const model_stats *a = &m->stats, *b = &first->stats;
    if (memcmp(a->image_mean, b->image_mean, sizeof a->image_mean) != 0 ||
        memcmp(a->image_std, b->image_std, sizeof a->image_std) != 0)
        return 0;
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        if (!model_is_sight(e->name)) continue;
        int other = nn_store_find(first->store, e->name);
        if (other < 0 || first->store->entry[other].count != e->count ||
            memcmp(m->store->value + e->offset,
                   first->store->value + first->store->entry[other].offset,
                   e->count * sizeof(float)) != 0)
            return 0;
    }
    return 1;
}

model_params model_count(const firm_model* m) {
    model_params p;
    if (m->lewm) return (model_params){.total = lewm_params(m->lewm)};
    p.frontend = nn_store_params(m->store, "tokenizer.") + nn_store_params(m->store, "history.");
    p.grounder = nn_store_params(m->store, "grounder.");
    p.transition = nn_store_params(m->store, "fiber.") + nn_store_params(m->store, "transition.");
    p.total = p.frontend + p.grounder + p.transition + nn_store_params(m->store, "reading.");
    for (int i = 0; i < m->members; i++) {
        model_params more = model_count(m->member[i]);
        if (m->member[i]->shares) {
            const size_t tokenizer = nn_store_params(m->store, "tokenizer.");
            more.frontend -= tokenizer;
            more.total -= tokenizer + more.grounder;
            more.grounder = 0;
        }
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
    const task_typed* e = &m->task;
    info->task = e->name;
    info->image_size = e->image;
    info->action_dim = e->action_dim;
    info->controls_per_macro = e->controls;
    if (m->lewm) {
        info->parameters = lewm_params(m->lewm);
        // its state has no names; how far two states are apart is one number
        info->distance_dim = 1;
        info->distance_name[0] = "latent";
        info->distance_unit[0] = "deviations";
        info->distance_tolerance[0] = MODEL_LATENT_TOLERANCE;
        return FIRM_OK;
    }
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
    int a = m->task.action_dim;
    for (int i = 0; i < controls * a; i++)
        out[i] = (raw[i] - m->stats.action_mean[i % a]) / m->stats.action_std[i % a];
}
