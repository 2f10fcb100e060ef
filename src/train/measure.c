// measure.c - how well a model sees and predicts held-out episodes, where no simulator could try
// it: the figures of the gates, for `firm eval` on recorded data alone.
#include <inttypes.h>
#include <stdio.h>

#include "core/clock.h"
#include "train/internal.h"

static int add_numbers(cJSON* to, const char* key, const double* value, int n) {
    cJSON* list = cJSON_AddArrayToObject(to, key);
    for (int i = 0; list && i < n; i++)
        if (!cJSON_AddItemToArray(list, json_number(value[i], 4))) return 0;
    return list != NULL;
}

static int add_ground(cJSON* to, const task_typed* t, const ground_error* e) {
    cJSON* all = cJSON_AddObjectToObject(to, "grounder_error");
    int ok = all && json_add_number(all, "units", e->mean_units, 4) &&
             json_add_number(all, "units_p95", e->p95_units, 4);
    for (int d = 0; d < t->distances && ok; d++) {
        cJSON* one = cJSON_AddObjectToObject(all, t->distance[d].name);
        ok = one && cJSON_AddStringToObject(one, "unit", t->distance[d].unit) &&
             json_add_number(one, "mean", e->mean[d], 4) &&
             json_add_number(one, "max", e->max[d], 4);
    }
    return ok;
}

static cJSON* result_json(const train_set* s, const ground_error* ground,
                          const rollout_error* rollout, double seconds) {
    cJSON* j = cJSON_CreateObject();
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->data.data_hash);
    int ok = j && cJSON_AddStringToObject(j, "task", s->env->task.name) &&
             cJSON_AddStringToObject(j, "data_hash", hash) &&
             cJSON_AddNumberToObject(j, "held_out_episodes", s->split.valid_count) &&
             cJSON_AddNumberToObject(j, "held_out_segments", s->data.set[PACK_HELD].count) &&
             add_ground(j, &s->env->task, ground) &&
             add_numbers(j, "rollout_error", rollout->mean, s->env->task.horizon) &&
             add_numbers(j, "rollout_error_p95", rollout->p95, s->env->task.horizon) &&
             json_add_number(j, "seconds", seconds, 5);
    if (ok) return j;
    cJSON_Delete(j);
    return NULL;
}

static firm_status measure(train_set* s, const firm_model* m, pool* p, cJSON** out,
                           firm_error* err) {
    double begun = clock_seconds();
    ground_error ground;
    rollout_error rollout;
    history_cache cache = {0};
    const records* held = &s->data.set[PACK_HELD];
    TRY(gate_ground(s, m, p, &ground, err));
    firm_status st = cache_histories(s, m, held, p, "encode held-out", &cache, err);
    if (st == FIRM_OK) st = gate_rollout(s, m, held, &cache, p, &rollout, err);
    cache_free(&cache);
    if (st != FIRM_OK) return st;
    *out = result_json(s, &ground, &rollout, clock_seconds() - begun);
    return *out ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for the result");
}

firm_status train_measure(const config* settings, const env_spec* env, const train_inputs* in,
                          const train_options* opt, const firm_model* m, cJSON** result,
                          firm_error* err) {
    pool* p = NULL;
    train_set s = {0};
    nn_device device;
    *result = NULL;
    if (m->members)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "the file holds %d models; without a simulator they are measured one by one: "
                    "give a file of one",
                    m->members + 1);
    TRY(train_device_open(settings, opt->device, &device, err));
    firm_status st = pool_create(opt->threads, &p, err);
    if (st == FIRM_OK) st = train_set_open(settings, env, in, opt, pool_threads(p), &s, err);
    s.device = device;
    if (st == FIRM_OK) st = measure(&s, m, p, result, err);
    train_set_close(&s);
    pool_free(p);
    nn_device_close(&device);
    return st;
}
