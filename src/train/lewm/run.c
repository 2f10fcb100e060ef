// run.c - a LeWM run from the first update to the model file.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "train/lewm/clips.h"
#include "train/lewm/lewm.h"
#include "train/pace.h"

typedef struct run {
    const config* settings;
    const lewm_run_options* opt;
    pool* p;
    nn_device device;
    clips clips;
    lewm_model* model;
    nn_graph* graph;
    nn_trainer* trainer;
    int64_t planned, last;  // updates: of the rate's schedule, of the run
    int64_t end;            // of this sitting
    FILE* metrics;
    int lock;
    double seconds_before;  // of earlier sittings
    char identity[256];     // what a resumed run must share
} run;

static double setting(const run* r, const char* key) {
    return config_real(r->settings, "lewm", key);
}

static int64_t whole(const run* r, const char* key) {
    return config_int(r->settings, "lewm", key);
}

static void path_of(const run* r, const char* name, char path[1100]) {
    snprintf(path, 1100, "%s/%s", r->opt->folder, name);
}

// ---- opening ------------------------------------------------------------------------------------

static firm_status open_device(run* r, firm_error* err) {
    const char* precision = config_text(r->settings, "lewm", "precision");
    nn_precision p = strcmp(precision, "bf16") == 0   ? NN_MIXED
                     : strcmp(precision, "tf32") == 0 ? NN_TF32
                                                      : NN_FP32;
    return nn_device_open(r->opt->device ? r->opt->device : "cpu", p, &r->device, err);
}

static firm_status open_data(run* r, const episodes* data, firm_error* err) {
    int controls = data->spec->task.controls, frames = lewm_shape_default().context + 1;
    clips_options opt = {.split_seed = (uint64_t)whole(r, "split_seed"),
                         .most = whole(r, "rows"),
                         .rows = frames * controls,
                         .controls = controls,
                         .workers = pool_threads(r->p)};
    TRY(clips_open(data, &opt, &r->clips, err));
    int64_t epoch = r->clips.count / whole(r, "batch");
    if (epoch < 1) epoch = 1;
    r->planned = (int64_t)ceil(setting(r, "epochs") * (double)epoch);
    r->last = whole(r, "updates");
    if (!r->last) r->last = (int64_t)ceil(setting(r, "stop") * (double)epoch);
    if (r->last > r->planned) r->planned = r->last;
    r->end = r->opt->until && r->opt->until < r->last ? r->opt->until : r->last;
    log_info("%lld clips of %lld rows, %lld updates an epoch; %lld updates of %lld planned",
             (long long)r->clips.count, (long long)r->clips.stored, (long long)epoch,
             (long long)r->last, (long long)r->planned);
    return FIRM_OK;
}

static firm_status open_model(run* r, const episodes* data, firm_error* err) {
    lewm_shape shape;
    lewm_shape_read(r->settings, &shape);
    shape.image = data->spec->task.image;
    TRY(lewm_create(&data->spec->task, &shape, r->opt->seed, &r->model, err));
    memcpy(r->model->action_mean, r->clips.mean, sizeof r->clips.mean);
    memcpy(r->model->action_std, r->clips.std, sizeof r->clips.std);
    mem_free(r->model->config);
    r->model->config = config_dump(r->settings);
    if (!r->model->config) return FAIL(err, FIRM_E_MEMORY, "no memory for the settings");
    snprintf(r->model->provenance, sizeof r->model->provenance,
             "version=%d world=lewm seed=%" PRIu64 " data_seed=%" PRIu64 " data_hash=%016" PRIx64,
             firm_version(), r->opt->seed, data->seed, data->hash);
    snprintf(r->identity, sizeof r->identity,
             "config %016" PRIx64 " seed %" PRIu64 " data %016" PRIx64 "%s",
             config_hash(r->settings), r->opt->seed, data->hash,
             r->device.queue ? " device cuda" : "");
    return FIRM_OK;
}

static nn_adamw_options optimiser_of(const run* r) {
    return (nn_adamw_options){.rate = (float)setting(r, "rate"),
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .eps = 1e-8f,
                              .decay = (float)setting(r, "decay"),
                              .decay_all = 1,
                              .clip = (float)setting(r, "clip"),
                              .schedule = NN_COSINE,
                              .warmup = (int)(setting(r, "warmup") * (double)r->planned),
                              .updates = (int)r->planned};
}

// What is trained, and on what: the graph, its clips and the optimiser.
static firm_status open_parts(run* r, nn_part* part, nn_trainer_options* opt, firm_error* err) {
    TRY(nn_graph_create(r->model->store, &r->graph, err));
    nn_train(r->graph, "");
    nn_random(r->graph, r->opt->seed);
    lewm_objective at =
        lewm_train(r->graph, r->model, (float)setting(r, "sigreg"), (int)whole(r, "directions"));
    clips_feed(&r->clips, &at, r->model->shape.context + 1, r->model->task.controls);
    *part = (nn_part){.label = "",
                      .graph = r->graph,
                      .batch = (int)whole(r, "batch"),
                      .shard = (int)whole(r, "shard"),
                      .weight = 1,
                      .fill = clips_fill,
                      .ctx = &r->clips,
                      .rows = r->clips.count,
                      .pick = {r->opt->seed, RNG_STREAM(RNG_BATCH, 0)},
                      .windows = &r->clips.windows};
    *opt = (nn_trainer_options){.device = &r->device,
                                .store = r->model->store,
                                .p = r->p,
                                .lanes = (int)whole(r, "lanes"),
                                .adamw = optimiser_of(r)};
    return FIRM_OK;
}

static firm_status open_trainer(run* r, firm_error* err) {
    nn_part part;
    nn_trainer_options opt;
    TRY(open_parts(r, &part, &opt, err));
    return nn_trainer_create(&opt, &part, 1, &r->trainer, err);
}

// ---- checkpoints --------------------------------------------------------------------------------

enum { NOTES = 3 };

static void notes_of(lewm_note note[NOTES]) {
    static const char* const key[NOTES] = {"run", "update", "seconds"};
    for (int i = 0; i < NOTES; i++) note[i] = (lewm_note){.key = key[i]};
}

static firm_status write_checkpoint(run* r, int64_t update, double seconds, firm_error* err) {
    char path[1100];
    lewm_note note[NOTES];
    lewm_extra extra = {.name = "optimiser.moments"};
    TRY(nn_trainer_pull(r->trainer, err));
    extra.data = nn_trainer_moments(r->trainer, &extra.count);
    notes_of(note);
    snprintf(note[0].value, sizeof note[0].value, "%s", r->identity);
    snprintf(note[1].value, sizeof note[1].value, "%lld", (long long)update);
    text_add_number(note[2].value, sizeof note[2].value, seconds);
    path_of(r, "checkpoint.safetensors", path);
    return lewm_write(path, r->model, &(lewm_training){&extra, 1, note, NOTES}, err);
}

// Weights, moments, and where the run goes on. Nothing in the file is trusted.
static firm_status read_checkpoint(run* r, int64_t* update, firm_error* err) {
    char path[1100];
    lewm_note note[NOTES];
    lewm_extra extra = {.name = "optimiser.moments"};
    extra.data = nn_trainer_moments(r->trainer, &extra.count);
    notes_of(note);
    path_of(r, "checkpoint.safetensors", path);
    TRY(lewm_read_training(path, r->model, &(lewm_training){&extra, 1, note, NOTES}, err));
    if (strcmp(note[0].value, r->identity) != 0)
        return FAIL(err, FIRM_E_VALUE,
                    "%s belongs to a run with other settings, seed, data or device; use them "
                    "again, or a new folder",
                    path);
    words w = {note[1].value}, v = {note[2].value};
    *update = words_whole(&w, 0, r->last);
    r->seconds_before = words_number(&v, 0, 1e12);
    if (!words_end(&w) || !words_end(&v))
        return FAIL(err, FIRM_E_FORMAT, "%s does not say where it stands; begin the run anew",
                    path);
    for (size_t i = extra.count / 2; i < extra.count; i++)
        if (extra.data[i] < 0)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: optimiser.moments holds a mean of squares below 0; begin the run anew",
                        path);
    return nn_trainer_resume(r->trainer, *update, err);
}

// ---- metrics.csv --------------------------------------------------------------------------------

static const char COLUMNS[] = "stage,update,loss,prediction,sigreg,grad_norm,lr,seconds\n";

// where the rows up to `update` end
static size_t rows_end(const char* text, int64_t update) {
    const char* row = strchr(text, '\n');
    for (row = row ? row + 1 : text + strlen(text); *row;) {
        const char *comma = strchr(row, ','), *next = strchr(row, '\n');
        if (!next || !comma || strtoll(comma + 1, NULL, 10) > update) break;
        row = next + 1;
    }
    return (size_t)(row - text);
}

// A resumed run drops the rows after its checkpoint.
static firm_status open_metrics(run* r, int64_t update, firm_error* err) {
    char path[1100], *text = NULL;
    size_t n = 0;
    path_of(r, "metrics.csv", path);
    if (update > 0 && file_exists(path)) TRY(file_read_all(path, &text, &n, err));
    int keeps = text && strncmp(text, COLUMNS, strlen(COLUMNS)) == 0;
    file_writer w;
    firm_status st = file_open_write(&w, path, err);
    if (st == FIRM_OK)
        st = file_put(&w, keeps ? text : COLUMNS, keeps ? rows_end(text, update) : strlen(COLUMNS),
                      err);
    if (st == FIRM_OK) st = file_commit(&w, err);
    mem_free(text);
    TRY(st);
    r->metrics = fopen(path, "ae");
    return r->metrics ? FIRM_OK : file_failed(err, "write", path, errno);
}

static firm_status write_row(run* r, int64_t update, double seconds, firm_error* err) {
    fprintf(r->metrics, "lewm,%lld,%.6g,%.6g,%.6g,%.4g,%.6g,%.2f\n", (long long)update,
            nn_trainer_loss(r->trainer), nn_trainer_term(r->trainer, 0, 0),
            nn_trainer_term(r->trainer, 0, 1), nn_trainer_norm(r->trainer),
            (double)nn_trainer_rate(r->trainer, update - 1), seconds);
    if (fflush(r->metrics) == 0 && !ferror(r->metrics)) return FIRM_OK;
    char path[1100];
    int code = errno;
    path_of(r, "metrics.csv", path);
    return file_failed(err, "write", path, code);
}

// ---- updates ------------------------------------------------------------------------------------

static firm_status look(run* r, int64_t update, firm_error* err) {
    TRY(nn_trainer_read(r->trainer, err));
    if (isfinite(nn_trainer_loss(r->trainer))) return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE, "the loss is not finite at update %lld; lower lewm.rate",
                (long long)update);
}

// whether `update` ends a part of the run that is not the last
static int ends_part(const run* r, int64_t update) {
    int64_t parts = whole(r, "snapshots");
    return update < r->last && update * parts / r->last > (update - 1) * parts / r->last;
}

// The model as it is now, whose provenance says after how many updates.
static firm_status write_model(run* r, const char* name, int64_t update, firm_error* err) {
    char path[1100], *origin = r->model->provenance;
    const size_t said = strlen(origin);
    path_of(r, name, path);
    text_add(origin, sizeof r->model->provenance, " updates=%" PRId64, update);
    firm_status st = lewm_write(path, r->model, NULL, err);
    origin[said] = 0;
    return st;
}

static firm_status write_snapshot(run* r, int64_t update, firm_error* err) {
    char name[64];
    TRY(nn_trainer_pull(r->trainer, err));
    snprintf(name, sizeof name, "model-%lld.safetensors", (long long)update);
    return write_model(r, name, update, err);
}

static firm_status make_updates(run* r, int64_t from, double started, firm_error* err) {
    char note[64] = "";
    progress bar;
    progress_begin(&bar, "lewm", (int)r->last);
    firm_status st = FIRM_OK;
    for (int64_t u = from; u < r->end && st == FIRM_OK; u++) {
        st = nn_trainer_step(r->trainer, u, err);
        int row = (u + 1) % whole(r, "log_every") == 0 || u + 1 == r->end;
        if (st == FIRM_OK && (row || nn_trainer_prompt(r->trainer))) {
            st = look(r, u, err);
            snprintf(note, sizeof note, "loss %.5f", nn_trainer_loss(r->trainer));
        }
        double seconds = r->seconds_before + clock_seconds() - started;
        if (st == FIRM_OK && row) st = write_row(r, u + 1, seconds, err);
        progress_step(&bar, (int)u + 1, note);
        int stop = interrupt_seen();
        if (st == FIRM_OK &&
            ((u + 1) % whole(r, "checkpoint_every") == 0 || u + 1 == r->end || stop))
            st = write_checkpoint(r, u + 1, seconds, err);
        if (st == FIRM_OK && ends_part(r, u + 1)) st = write_snapshot(r, u + 1, err);
        if (st == FIRM_OK && stop)
            st = FAIL(err, FIRM_E_STOPPED, "stopped after update %lld", (long long)u + 1);
    }
    progress_end(&bar);
    return st == FIRM_OK ? nn_trainer_pull(r->trainer, err) : st;
}

// ---- the end ------------------------------------------------------------------------------------

static firm_status finish(run* r, double seconds, cJSON** result, firm_error* err) {
    char path[1100];
    TRY(write_model(r, "model.safetensors", r->end, err));
    cJSON* json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "world", "lewm");
    cJSON_AddStringToObject(json, "task", r->model->task.name);
    cJSON_AddNumberToObject(json, "updates", (double)r->end);
    cJSON_AddNumberToObject(json, "planned", (double)r->planned);
    cJSON_AddNumberToObject(json, "batch", (double)whole(r, "batch"));
    cJSON_AddNumberToObject(json, "clips", (double)r->clips.count);
    cJSON_AddNumberToObject(json, "parameters", (double)lewm_params(r->model));
    json_add_number(json, "seconds", seconds, 5);
    path_of(r, "model.safetensors", path);
    cJSON_AddStringToObject(json, "model", path);
    path_of(r, "train.json", path);
    firm_status st = json_write_file(path, json, err);
    if (result && st == FIRM_OK)
        *result = json;
    else
        cJSON_Delete(json);
    return st;
}

static firm_status write_settings(run* r, firm_error* err) {
    char path[1100];
    file_writer w;
    path_of(r, "config.ini", path);
    TRY(file_open_write(&w, path, err));
    TRY(file_put(&w, r->model->config, strlen(r->model->config), err));
    return file_commit(&w, err);
}

static firm_status train(run* r, cJSON** result, firm_error* err) {
    char path[1100];
    int64_t update = 0;
    double started = clock_seconds();
    path_of(r, "checkpoint.safetensors", path);
    TRY(file_make_dirs(r->opt->folder, err));
    TRY(file_lock_folder(r->opt->folder, "training", &r->lock, err));
    int there = file_exists(path);
    if (there && !r->opt->resume)
        return FAIL(err, FIRM_E_USAGE, "%s already holds a run; add --resume or use a new folder",
                    r->opt->folder);
    TRY(open_trainer(r, err));
    if (there) TRY(read_checkpoint(r, &update, err));
    TRY(write_settings(r, err));
    TRY(open_metrics(r, update, err));
    interrupt_hold();
    firm_status st = make_updates(r, update, started, err);
    if (st != FIRM_E_STOPPED) interrupt_release();
    TRY(st);
    return finish(r, r->seconds_before + clock_seconds() - started, result, err);
}

static firm_status open_run(run* r, const episodes* data, firm_error* err) {
    TRY(open_device(r, err));
    TRY(pool_create(r->opt->threads, &r->p, err));
    TRY(open_data(r, data, err));
    return open_model(r, data, err);
}

static void close_run(run* r) {
    if (r->metrics) fclose(r->metrics);
    nn_trainer_free(r->trainer);
    nn_graph_free(r->graph);
    lewm_free(r->model);
    clips_close(&r->clips);
    file_unlock(r->lock);
    pool_free(r->p);
    nn_device_close(&r->device);
}

firm_status lewm_run(const config* settings, const episodes* data, const lewm_run_options* opt,
                     cJSON** result, firm_error* err) {
    run r = {.settings = settings, .opt = opt, .device = nn_device_cpu(), .lock = -1};
    firm_status st = open_run(&r, data, err);
    if (st == FIRM_OK) st = train(&r, result, err);
    close_run(&r);
    return st;
}

// ---- how fast -----------------------------------------------------------------------------------

static firm_status measure(run* r, double seconds, lewm_speed* out, firm_error* err) {
    nn_part part;
    nn_trainer_options opt;
    train_pace found;
    TRY(open_parts(r, &part, &opt, err));
    opt.adamw.updates = 1 << 30;  // no end in sight, so batches are prepared as in a long run
    TRY(train_pace_measure(&opt, &part, 1, seconds, &found, err));
    *out = (lewm_speed){.batch = part.batch,
                        .updates_per_s = found.updates_per_s,
                        .gflop_per_update = found.gflop,
                        .fma_gflops = found.fma_count ? found.fma_sum / found.fma_count : 0,
                        .fraction = found.fraction};
    return FIRM_OK;
}

firm_status lewm_bench(const config* settings, const env_spec* env, const lewm_run_options* opt,
                       double seconds, lewm_speed* out, firm_error* err) {
    const collect_options few = {.episodes = 8, .seed = 1};
    run r = {.settings = settings, .opt = opt, .device = nn_device_cpu(), .lock = -1};
    episodes* data = NULL;
    pool* p;
    TRY(pool_create(opt->threads, &p, err));
    firm_status st = episodes_collect(env, &few, p, &data, err);
    pool_free(p);
    if (st == FIRM_OK) st = open_run(&r, data, err);
    if (st == FIRM_OK) st = measure(&r, seconds, out, err);
    close_run(&r);
    episodes_free(data);
    return st;
}
