// predict.c - what a controller knows and expects: the present configuration, and what would come
// of a plan of the caller's.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "plan/controller.h"
#include "plan/controller_internal.h"

static firm_status need_frame(firm_controller* c) {
    if (controller_has_seen(c)) return FIRM_OK;
    return FAIL(&c->error, FIRM_E_USAGE,
                "no frame was seen; give the camera's with firm_controller_push");
}

firm_status firm_controller_config(firm_controller* c, float* config) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    if (!config)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "there is nowhere to put the configuration: it is NULL");
    TRY(need_frame(c));
    TRY(controller_named(c));
    memcpy(config, controller_now(c), (size_t)c->world.price.named * sizeof *config);
    return FIRM_OK;
}

static firm_status take_plan(firm_controller* c, const float* plan, int macros) {
    const int numbers = macros * c->world.model.action, dim = c->actions.dim;
    for (int i = 0; i < numbers; i++) {
        if (!isfinite(plan[i]))
            return FAIL(&c->error, FIRM_E_VALUE,
                        "number %d of control %d of the plan is not finite", i % dim, i / dim);
        c->trial[i] = (plan[i] - c->actions.mean[i % dim]) / c->actions.deviation[i % dim];
    }
    return FIRM_OK;
}

static firm_status roll_out(firm_controller* c, int macros) {
    const int dim = c->world.model.state;
    const plan_model* model = &c->world.model;
    TRY(controller_start(c));
    memcpy(c->path, controller_now(c), (size_t)dim * sizeof *c->path);
    model->rollout(model->context, 0, 1, macros, c->trial, c->path + dim);
    return c->world.sight.status(c->world.sight.context);
}

firm_status firm_controller_predict(firm_controller* c, const float* plan, int macros, float* path,
                                    float* distance) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    const task_typed* task = &c->m->task;
    if (!plan || macros < 1 || macros > c->longest)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "a plan of %d macro actions cannot be predicted; give 1 to %d, of %d controls "
                    "of %d numbers each",
                    plan ? macros : 0, c->longest, task->controls, task->action_dim);
    if (distance && !c->has_goal)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "distances need a goal and there is none; set one, or ask for the path alone");
    TRY(need_frame(c));
    TRY(take_plan(c, plan, macros));
    TRY(controller_failed(c, roll_out(c, macros), "predicting"));
    size_t numbers = (size_t)((macros + 1) * c->world.price.named);
    if (path) memcpy(path, c->path, numbers * sizeof *path);
    const plan_price* price = &c->world.price;
    if (distance && price->given) price->given(price->context, controller_given(c));
    if (distance) controller_aim(c, controller_now(c), c->aim);
    for (int k = 0; k <= macros && distance; k++)
        price->measure(price->context, c->path + k * price->state, c->aim,
                       distance + k * price->distances);
    return FIRM_OK;
}

// ---- many plans at once -------------------------------------------------------------------------

typedef struct many {
    int count, macros;
    float *u, *mean, *each;  // standardised plans, predictions, and the members' own
} many;

static void many_free(many* m) {
    mem_free(m->u);
    mem_free(m->mean);
    mem_free(m->each);
}

static firm_status many_alloc(firm_controller* c, many* m) {
    const plan_model* model = &c->world.model;
    const size_t n = (size_t)m->count, macros = (size_t)m->macros,
                 path = macros * (size_t)model->state;
    m->u = mem_alloc(n * macros * (size_t)model->action * sizeof *m->u);
    m->mean = mem_alloc(n * path * sizeof *m->mean);
    m->each = mem_alloc(n * path * (size_t)(model->members ? model->members : 1) * sizeof *m->each);
    if (m->u && m->mean && m->each) return FIRM_OK;
    return FAIL(&c->error, FIRM_E_MEMORY, "no memory to predict %d plans", m->count);
}

// As many at a time as the world has room for.
static void roll_many(const firm_controller* c, const many* m) {
    const plan_model* model = &c->world.model;
    const size_t action = (size_t)(m->macros * model->action),
                 path = (size_t)(m->macros * model->state);
    for (int from = 0; from < m->count; from += c->options.candidates) {
        int n = m->count - from < c->options.candidates ? m->count - from : c->options.candidates;
        const float* u = m->u + (size_t)from * action;
        float* mean = m->mean + (size_t)from * path;
        if (model->members)
            model->rollout_each(model->context, 0, n, m->macros, u, mean,
                                m->each + (size_t)(from * model->members) * path);
        else
            model->rollout(model->context, 0, n, m->macros, u, mean);
    }
}

static float spread_of(const firm_controller* c, const many* m, int plan, int macro) {
    const plan_model* model = &c->world.model;
    const plan_price* price = &c->world.price;
    const float* mean = m->mean + (size_t)((plan * m->macros + macro) * model->state);
    float sum = 0;
    for (int k = 0; k < model->members; k++) {
        int own = (plan * model->members + k) * m->macros + macro;
        sum += price->units(price->context, m->each + (size_t)own * (size_t)model->state, mean);
    }
    return model->members ? sum / (float)model->members : 0;
}

static firm_status predict_all(firm_controller* c, many* m, const float* plan, float* path,
                               float* spread) {
    const int numbers = m->macros * c->world.model.action, dim = c->actions.dim;
    const size_t state = (size_t)c->world.model.state;
    for (int i = 0; i < m->count * numbers; i++)
        m->u[i] = (plan[i] - c->actions.mean[i % dim]) / c->actions.deviation[i % dim];
    TRY(controller_start(c));
    roll_many(c, m);
    for (int i = 0; i < m->count; i++) {
        float* to = path + (size_t)(i * (m->macros + 1)) * state;
        memcpy(to, controller_now(c), state * sizeof *to);
        memcpy(to + state, m->mean + (size_t)(i * m->macros) * state,
               (size_t)m->macros * state * sizeof *to);
        for (int k = 0; k < m->macros; k++) spread[i * m->macros + k] = spread_of(c, m, i, k);
    }
    return c->world.sight.status(c->world.sight.context);
}

firm_status controller_predict_many(firm_controller* c, int count, int macros, const float* plan,
                                    float* path, float* spread) {
    many m = {.count = count, .macros = macros};
    CHECK(macros >= 1 && macros <= c->longest, "%d macro actions", macros);
    controller_begin(c);
    TRY(need_frame(c));
    TRY(controller_named(c));
    if (c->world.price.given) c->world.price.given(c->world.price.context, NULL);
    firm_status st = many_alloc(c, &m);
    if (st == FIRM_OK)
        st = controller_failed(c, predict_all(c, &m, plan, path, spread), "predicting");
    many_free(&m);
    return st;
}
