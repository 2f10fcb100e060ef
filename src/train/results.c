// results.c - what a run has to say: train.json and the object of `firm train --json`.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "train/run.h"

// every named distance, in its unit
static void add_grounding(const env_spec* env, const stage_result* r, cJSON* to) {
    cJSON_DeleteItemFromObject(to, "grounder_error");
    cJSON* all = cJSON_AddObjectToObject(to, "grounder_error");
    json_add_number(all, "units", r->gate, 4);
    json_add_number(all, "units_p95", r->detail[2 * env->task.distances], 4);
    for (int d = 0; d < env->task.distances; d++) {
        cJSON* one = cJSON_AddObjectToObject(all, env->task.distance[d].name);
        cJSON_AddStringToObject(one, "unit", env->task.distance[d].unit);
        json_add_number(one, "mean", r->detail[2 * d], 4);
        json_add_number(one, "max", r->detail[2 * d + 1], 4);
    }
}

static void add_rollouts(const env_spec* env, const stage_result* r, cJSON* to) {
    cJSON_DeleteItemFromObject(to, "rollout_error");
    cJSON_DeleteItemFromObject(to, "rollout_error_p95");
    cJSON* mean = cJSON_AddArrayToObject(to, "rollout_error");
    cJSON* p95 = cJSON_AddArrayToObject(to, "rollout_error_p95");
    for (int k = 0; k < env->task.horizon; k++) {
        cJSON_AddItemToArray(mean, json_number(r->detail[k], 4));
        cJSON_AddItemToArray(p95, json_number(r->detail[env->task.horizon + k], 4));
    }
}

// How closely the model follows the teacher of imagined records, on those held out.
static void add_imagined(const train_set* set, int held, const rollout_error* follow, cJSON* to) {
    cJSON* j = cJSON_AddObjectToObject(to, "imagined");
    cJSON_AddNumberToObject(j, "records", set->data.set[PACK_D].count - held);
    cJSON_AddNumberToObject(j, "held_out", held);
    cJSON* mean = cJSON_AddArrayToObject(j, "error");
    cJSON* p95 = cJSON_AddArrayToObject(j, "error_p95");
    for (int k = 0; k < set->env->task.horizon; k++) {
        cJSON_AddItemToArray(mean, json_number(follow->mean[k], 4));
        cJSON_AddItemToArray(p95, json_number(follow->p95[k], 4));
    }
}

static void replace_number(cJSON* to, const char* key, double value) {
    cJSON_DeleteItemFromObject(to, key);
    json_add_number(to, key, value, 4);
}

// a stage's own figures; the last of each kind stand beside the stages too
static cJSON* stage_json(const train_run_state* run, int i, cJSON* out) {
    const stage_result* r = &run->result[i];
    const env_spec* env = run->set.env;
    cJSON* s = cJSON_CreateObject();
    cJSON_AddStringToObject(s, "name", r->name);
    cJSON_AddNumberToObject(s, "updates", r->updates);
    json_add_number(s, "seconds", r->seconds, 5);
    json_add_number(s, "gate", r->gate, 5);
    if (r->limit > 0)
        json_add_number(s, "gate_limit", r->limit, 5);
    else
        cJSON_AddNullToObject(s, "gate_limit");
    cJSON_AddBoolToObject(s, "pass", r->pass);
    // a run that began later in the schedule has fewer results than the settings have stages
    stage full;
    int index;
    if (stage_first(run->settings, r->name, &index, NULL) != FIRM_OK) return s;
    stage_read(run->settings, index, run->opt->sources, &full);
    if (strcmp(full.objective, "ground") == 0) {
        char key[64];
        add_grounding(env, r, s);
        add_grounding(env, r, out);
        snprintf(key, sizeof key, "grounder_error_%s", env->task.distance[0].unit);
        replace_number(out, key, r->detail[0]);
        snprintf(key, sizeof key, "grounder_error_max_%s", env->task.distance[0].unit);
        replace_number(out, key, r->detail[1]);
    } else if (strcmp(full.objective, "rollout") == 0) {
        add_rollouts(env, r, s);
        add_rollouts(env, r, out);
    }
    return s;
}

// how much there was to learn from, as in the paper's table of data sets; how many episodes that
// came from is not known of a pack's file
static void add_data(const train_set* set, cJSON* to) {
    const records *f = &set->data.set[PACK_F], *i = &set->data.set[PACK_I],
                  *s = &set->data.set[PACK_S];
    cJSON* d = cJSON_AddObjectToObject(to, "data");
    if (set->split.train_count) {
        cJSON_AddNumberToObject(d, "training_episodes", set->split.train_count);
        cJSON_AddNumberToObject(d, "validation_episodes", set->split.valid_count);
    }
    cJSON_AddNumberToObject(d, "segments", f->count);
    cJSON_AddNumberToObject(d, "intervention_states", i->histories);
    cJSON_AddNumberToObject(d, "branch_rollouts", i->count);
    cJSON_AddNumberToObject(d, "structured_rollouts", s->count);
    if (set->data.set[PACK_D].count)
        cJSON_AddNumberToObject(d, "imagined_rollouts", set->data.set[PACK_D].count);
}

cJSON* run_results(const train_run_state* run, const char* model_path, int held,
                   const rollout_error* follow) {
    const nn_device* device = &run->set.device;
    cJSON* out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "task", run->set.env->task.name);
    cJSON_AddNumberToObject(out, "seed", (double)run->opt->seed);
    cJSON_AddStringToObject(out, "device", device->name);
    if (device->queue)
        cJSON_AddStringToObject(out, "precision", device->precision == NN_TF32 ? "tf32" : "fp32");
    cJSON_AddNumberToObject(out, "threads", pool_threads(run->p));
    cJSON_AddStringToObject(out, "sources", run->opt->sources ? run->opt->sources : "FI");
    cJSON_AddBoolToObject(out, "no_fiber", run->model->shape.no_fiber);
    cJSON_AddBoolToObject(out, "mismatch", run->opt->mismatch);
    add_data(&run->set, out);
    if (held) add_imagined(&run->set, held, follow, out);
    cJSON* stages = cJSON_AddArrayToObject(out, "stages");
    double seconds = 0;
    int pass = 1;
    for (int i = 0; i < run->results; i++) {
        cJSON_AddItemToArray(stages, stage_json(run, i, out));
        seconds += run->result[i].seconds;
        pass &= run->result[i].pass;
    }
    json_add_number(out, "seconds", seconds, 6);
    cJSON_AddBoolToObject(out, "pass", pass);
    cJSON_AddStringToObject(out, "model", model_path);
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, config_hash(run->settings));
    cJSON_AddStringToObject(out, "config_hash", hash);
    cJSON_AddNumberToObject(out, "version", firm_version());
    return out;
}
