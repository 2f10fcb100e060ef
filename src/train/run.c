// run.c - a training run from the first stage to the model file: order of stages, checkpoints,
// results.
#include "train/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "train/shape.h"

static void run_path(const train_run_state* run, const char* name, char path[1100]) {
    snprintf(path, 1100, "%s/%s", run->opt->folder, name);
}

// ---- checkpoints --------------------------------------------------------------------------------

static void cut_section(char* text, const char* title) {
    char* from = strstr(text, title);
    char* next = from ? strstr(from + 1, "\n[") : NULL;
    if (from) memmove(from, next ? next + 1 : from + strlen(from), next ? strlen(next + 1) + 1 : 1);
}

// of the settings that shape the weights: the planner's and the trials' may change while a run is
// resumed
static uint64_t training_hash(const config* settings) {
    char* text = config_dump(settings);
    if (!text) return 0;
    cut_section(text, "[plan]");
    cut_section(text, "[trials]");
    uint64_t hash = rng_hash_text(text);
    mem_free(text);
    return hash;
}

// settings, seed, sources, data and kind of device: a run may only be continued with the same ones
void run_identity(const train_run_state* run, char text[256]) {
    snprintf(text, 256,
             "config %016" PRIx64 " seed %" PRIu64 " sources %s mismatch %d data %016" PRIx64 "%s",
             training_hash(run->settings), run->opt->seed,
             run->opt->sources ? run->opt->sources : "FI", run->opt->mismatch,
             run->set.data.data_hash, run->set.device.queue ? " device cuda" : "");
    if (run->opt->from) text_add(text, 256, " from %.40s", run->opt->from);
    if (run->set.data.imagined_hash)
        text_add(text, 256, " imagined %016" PRIx64, run->set.data.imagined_hash);
}

// ---- the tokenizer a stage began with -----------------------------------------------------------

static int anchored(const nn_entry* e) {
    return strncmp(e->name, "tokenizer.", 10) == 0;
}

static firm_status alloc_anchor(train_run_state* run, firm_error* err) {
    const nn_store* store = run->model->store;
    run->anchor_count = 0;
    for (int i = 0; i < store->entries; i++)
        if (anchored(&store->entry[i])) run->anchor_count += store->entry[i].count;
    mem_free(run->anchor);
    run->anchor = mem_alloc(run->anchor_count * sizeof *run->anchor);
    return run->anchor ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory to remember the tokenizer");
}

void run_swap_anchor(train_run_state* run) {
    nn_store* store = run->model->store;
    float* at = run->anchor;
    for (int i = 0; i < store->entries; i++) {
        if (!anchored(&store->entry[i])) continue;
        float* value = store->value + store->entry[i].offset;
        for (size_t j = 0; j < store->entry[i].count; j++) {
            float keep = value[j];
            value[j] = at[j];
            at[j] = keep;
        }
        at += store->entry[i].count;
    }
}

firm_status run_note_anchor(train_run_state* run, firm_error* err) {
    const nn_store* store = run->model->store;
    TRY(alloc_anchor(run, err));
    float* at = run->anchor;
    for (int i = 0; i < store->entries; i++) {
        if (!anchored(&store->entry[i])) continue;
        memcpy(at, store->value + store->entry[i].offset, store->entry[i].count * sizeof *at);
        at += store->entry[i].count;
    }
    return FIRM_OK;
}

firm_status run_checkpoint(train_run_state* run, int index, int update, nn_trainer* trainer,
                           double seconds, firm_error* err) {
    char path[1100], own[256];
    run_notes notes;
    run_identity(run, own);
    run_notes_fill(run, index, update, seconds, own, &notes);
    checkpoint_extra extra[3] = {{.name = "optimiser.moments"}};
    int extras = trainer ? 1 : 0;
    if (trainer) {
        TRY(nn_trainer_pull(trainer, err));
        extra[0].data = nn_trainer_moments(trainer, &extra[0].count);
        if (run->anchor)
            extra[extras++] = (checkpoint_extra){"stage.anchor", run->anchor, run->anchor_count};
        if (run->average)
            extra[extras++] =
                (checkpoint_extra){"stage.average", run->average, run->model->store->count};
    }
    run_path(run, "checkpoint.safetensors", path);
    return checkpoint_write(path, run->model, CHECKPOINT_TRAINING, extra, extras, notes.note,
                            RUN_NOTES, err);
}

firm_status run_read_moments(train_run_state* run, nn_trainer* trainer, firm_error* err) {
    char path[1100];
    run_path(run, "checkpoint.safetensors", path);
    checkpoint_extra extra = {.name = "optimiser.moments"};
    extra.data = nn_trainer_moments(trainer, &extra.count);
    TRY(checkpoint_read_training(path, run->model, &extra, 1, NULL, 0, err));
    for (size_t i = extra.count / 2; i < extra.count; i++)  // the second moments: means of squares
        if (extra.data[i] < 0)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: optimiser.moments holds a mean of squares below 0; start the run "
                        "again in a new folder",
                        path);
    return FIRM_OK;
}

firm_status run_read_average(train_run_state* run, firm_error* err) {
    char path[1100];
    run_path(run, "checkpoint.safetensors", path);
    checkpoint_extra extra = {"stage.average", run->average, run->model->store->count};
    return checkpoint_read_training(path, run->model, &extra, 1, NULL, 0, err);
}

firm_status run_read_checkpoint(train_run_state* run, int* stage_index, int* update,
                                firm_error* err) {
    char path[1100], own[256];
    run_notes notes;
    run_path(run, "checkpoint.safetensors", path);
    run_notes_begin(&notes);
    TRY(checkpoint_read_training(path, run->model, NULL, 0, notes.note, RUN_NOTES, err));
    run_identity(run, own);
    TRY(run_notes_read(run, path, own, &notes, stage_index, update, err));
    stage s;
    if (*update > 0 && stage_read(run->settings, *stage_index, run->opt->sources, &s) &&
        s.terms.anchor > 0) {
        TRY(alloc_anchor(run, err));
        checkpoint_extra extra = {"stage.anchor", run->anchor, run->anchor_count};
        TRY(checkpoint_read_training(path, run->model, &extra, 1, NULL, 0, err));
    }
    return FIRM_OK;
}

// ---- other weights to begin with ----------------------------------------------------------------

// Does one of the stages before `first` train the parameter?
static int trained_before(const train_run_state* run, int first, const char* parameter) {
    stage s;
    for (int i = 0; i < first && stage_read(run->settings, i, run->opt->sources, &s); i++)
        for (int k = 0; k < s.modules; k++)
            if (strncmp(parameter, s.module[k].prefix, strlen(s.module[k].prefix)) == 0) return 1;
    return 0;
}

// A settings file stands on top of the task's own stages, so more may be left out than it names.
static void log_init(const train_run_state* run, int first) {
    char names[512] = "";
    for (int i = 0; i < first; i++)
        text_add(names, sizeof names, "%s%s", i ? ", " : "",
                 config_member(run->settings, "stage.*", i));
    log_info("weights of %s%s%s", run->opt->init, first ? " as these stages left them: " : "",
             names);
}

// Where stages are left out, only what they would have made is taken: parts that are first trained
// later begin with the seed's own weights, as in a whole run.
static firm_status read_init(train_run_state* run, int first, firm_error* err) {
    nn_store* store = run->model->store;
    size_t bytes = store->count * sizeof(float);
    float* fresh = mem_alloc(bytes);
    if (!fresh) return FAIL(err, FIRM_E_MEMORY, "no memory for the initial weights");
    memcpy(fresh, store->value, bytes);
    firm_status st = checkpoint_read_weights(run->opt->init, run->model, err);
    for (int i = 0; i < store->entries && first > 0 && st == FIRM_OK; i++) {
        const nn_entry* e = &store->entry[i];
        if (!trained_before(run, first, e->name))
            memcpy(store->value + e->offset, fresh + e->offset, e->count * sizeof *fresh);
    }
    mem_free(fresh);
    if (st == FIRM_OK) log_init(run, first);
    return st;
}

// ---- the end ------------------------------------------------------------------------------------

static firm_status finish(train_run_state* run, cJSON** result, firm_error* err) {
    char path[1100], model_path[1100];
    run_path(run, "model.safetensors", model_path);
    TRY(support_fill(&run->set, run->model, (int)config_int(run->settings, "train", "support"),
                     err));
    TRY(tokens_fill(&run->set, run->model, (int)config_int(run->settings, "train", "frames"),
                    run->p, err));
    if (!run->model->recorded_left)
        TRY(recorded_fill(&run->set.data.set[PACK_F], run->model,
                          (int)config_int(run->settings, "train", "recorded"), err));
    TRY(checkpoint_write(model_path, run->model, CHECKPOINT_MODEL, NULL, 0, NULL, 0, err));
    int held;
    rollout_error follow;
    TRY(imagined_follow(&run->set, run->model, run->p, &held, &follow, err));
    if (held)
        log_info("imagined: %.4f from the teacher after %d macro actions, on %d records held out",
                 follow.mean[run->set.env->task.horizon - 1], run->set.env->task.horizon, held);
    cJSON* json = run_results(run, model_path, held, &follow);
    run_path(run, "train.json", path);
    firm_status st = json_write_file(path, json, err);
    if (result && st == FIRM_OK)
        *result = json;
    else
        cJSON_Delete(json);
    TRY(st);
    for (int i = 0; i < run->results; i++)
        if (!run->result[i].pass)
            return FAIL(
                err, FIRM_E_GATE,
                "stage %s missed its gate: held-out %.4f, limit %.4f; the model was written to %s",
                run->result[i].name, run->result[i].gate, run->result[i].limit, model_path);
    return FIRM_OK;
}

// ---- the run ------------------------------------------------------------------------------------

// Is that what the file holds?
static int same_text(const char* path, const char* text) {
    char* bytes;
    size_t n;
    firm_error none;
    if (file_read_all(path, &bytes, &n, &none) != FIRM_OK) return 0;
    int same = n == strlen(text) && memcmp(bytes, text, n) == 0;
    mem_free(bytes);
    return same;
}

static firm_status describe(train_run_state* run, firm_error* err) {
    char path[1100];
    mem_free(run->model->config);
    run->model->config = config_dump(run->settings);
    if (!run->model->config) return FAIL(err, FIRM_E_MEMORY, "no memory for the settings");
    snprintf(run->model->provenance, sizeof run->model->provenance,
             "version=%d seed=%" PRIu64 " sources=%s data_seed=%" PRIu64 " data_hash=%016" PRIx64,
             firm_version(), run->opt->seed, run->opt->sources ? run->opt->sources : "FI",
             run->set.data.data_seed, run->set.data.data_hash);
    run_path(run, "config.ini", path);
    if (same_text(path, run->model->config)) return FIRM_OK;  // it may be this run's --config
    file_writer w;
    TRY(file_open_write(&w, path, err));
    TRY(file_put(&w, run->model->config, strlen(run->model->config), err));
    return file_commit(&w, err);
}

static firm_status add_recordings(train_run_state* run, firm_error* err) {
    const int moments = (int)config_int(run->settings, "train", "moments");
    if (!run->opt->recordings || moments == 0) return FIRM_OK;
    return train_add_episodes(run->model, run->set.env, run->opt->recordings,
                              (uint64_t)config_int(run->settings, "data", "split_seed"), moments,
                              err);
}

// Of the stages from `index` on, the first from its update on.
static double cost_left(const train_run_state* run, int index, int update) {
    double sum = 0;
    stage s;
    for (; stage_read(run->settings, index, run->opt->sources, &s); index++, update = 0) {
        sum += stage_cost(&s, update);
        if (run->opt->until && strcmp(s.name, run->opt->until) == 0) break;
    }
    return sum;
}

static firm_status run_stages(train_run_state* run, cJSON** result, firm_error* err) {
    char path[1100];
    int index = 0, update = 0;
    stage s;
    TRY(stage_first(run->settings, run->opt->until, &index, err));  // it must be there
    TRY(stage_first(run->settings, run->opt->from, &index, err));
    if (config_member(run->settings, "stage.*", MAX_STAGES))
        return FAIL(err, FIRM_E_VALUE, "the settings have more than %d stages; leave some out",
                    MAX_STAGES);
    for (int i = index; stage_read(run->settings, i, run->opt->sources, &s); i++)
        TRY(stage_check(&s, run->settings, &run->set, run->model, err));
    run_path(run, "checkpoint.safetensors", path);
    TRY(file_make_dirs(run->opt->folder, err));
    TRY(file_lock_folder(run->opt->folder, "training", &run->lock, err));
    if (run->opt->resume && !file_exists(path))
        log_info("%s holds no checkpoint; the run starts at its beginning", run->opt->folder);
    if (run->opt->resume && file_exists(path)) {
        TRY(run_read_checkpoint(run, &index, &update, err));
        log_info("resuming %s at stage %d, update %d", run->opt->folder, index + 1, update);
    } else if (!run->opt->resume && file_exists(path)) {
        return FAIL(err, FIRM_E_USAGE, "%s already holds a run; add --resume or use a new folder",
                    run->opt->folder);
    } else if (run->opt->init) {
        TRY(read_init(run, index, err));
    } else {
        TRY(train_set_stats(&run->set, &run->model->stats, err));
    }
    TRY(describe(run, err));
    TRY(add_recordings(run, err));  // before the stages: a wrong file should not cost hours
    TRY(metrics_open(run, index, update, err));
    progress_run_begin(cost_left(run, index, update));
    run->shown = 1;
    for (; stage_read(run->settings, index, run->opt->sources, &s); index++) {
        TRY(stage_run(run, &s, update, err));
        run->seconds_before = 0;
        mem_free(run->anchor);
        run->anchor = NULL;
        update = 0;
        TRY(run_checkpoint(run, index + 1, 0, NULL, 0, err));
        if (run->opt->until && strcmp(s.name, run->opt->until) == 0) {
            log_info("stopped after stage %s; --resume goes on", s.name);
            return FIRM_OK;
        }
    }
    return finish(run, result, err);
}

firm_status train_run(const config* settings, const env_spec* env, const train_inputs* in,
                      const train_options* opt, cJSON** result, firm_error* err) {
    train_run_state run = {.settings = settings, .opt = opt, .lock = -1};
    model_shape shape;
    stage first;
    if (!stage_read(settings, 0, opt->sources, &first))
        return FAIL(err, FIRM_E_VALUE,
                    "there is nothing to train: the settings of %s have no [stage.NAME] section; "
                    "give some with --config FILE",
                    env->task.name);
    model_shape_read(settings, &shape);
    nn_device device;
    TRY(train_device_open(settings, opt->device, &device, err));
    firm_status st = pool_create(opt->threads, &run.p, err);
    if (st == FIRM_OK)
        st = train_set_open(settings, env, in, opt, pool_threads(run.p), &run.set, err);
    if (st == FIRM_OK)
        st = model_create(&env->task, &shape, stages_auxiliary(settings), opt->seed, &run.model,
                          err);
    run.set.device = device;
    if (st == FIRM_OK) st = run_stages(&run, result, err);
    if (run.shown) progress_run_end();
    if (run.metrics) fclose(run.metrics);
    file_unlock(run.lock);
    run_drop_caches(&run);
    mem_free(run.anchor);
    average_drop(&run);
    firm_model_free(run.model);
    train_set_close(&run.set);
    pool_free(run.p);
    nn_device_close(&device);
    return st;
}
