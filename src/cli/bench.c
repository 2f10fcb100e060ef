// bench.c - `firm bench plan|train|env|render [TASK]`: speed, beside the machine's own peak where
// there is one. Planner: bench_plan.c.
#define _GNU_SOURCE  // setenv
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "env/render/compare.h"
#include "train/lewm/lewm.h"
#include "train/train.h"

static const arg_option options[] = {
    {"model", 0, ARG_TEXT, 0, 0, NULL, NULL, "M",
     "plan: a model file; else random weights of the same shape"},
    {"world", 0, ARG_CHOICE, 0, 0, NULL, "firm|lewm", NULL,
     "plan, train: kind of world model; else that of --model, or firm"},
    CLI_DEVICE_OPTIONS,
    {"batch", 0, ARG_INT, 2, 1000, "100", NULL, "N", "plan on cuda: searches solved as one batch"},
    {"repeats", 0, ARG_INT, 3, 64, "9", NULL, "N", "plan: solves measured"},
    {"seconds", 0, ARG_REAL, 0.1, 600, "2", NULL, "T", "train, env, render: time to measure for"},
    {"states", 0, ARG_INT, 0, 10000, "12", NULL, "N",
     "render: states to draw with MuJoCo's own renderer as well, for comparison"},
    {"picture", 0, ARG_OUTPUT, 0, 0, NULL, NULL, "P.png",
     "render: write the first of them, drawn by both, side by side"},
};

// ---- env, render --------------------------------------------------------------------------------

typedef struct env_work {
    env** envs;
    int render, per_item;
    uint8_t* picture;  // (threads, frame)
    float* action;     // (per_item, action_dim)
    uint64_t seed;
} env_work;

static void work_piece(void* arg, int item, int worker) {
    env_work* w = arg;
    env* e = w->envs[worker];
    // a fresh start each time: without walls, a thousand random controls can lead far away
    rng r = rng_start(w->seed, RNG_STREAM(RNG_ARM, item));
    e->spec->sim->reset(e, &r);
    for (int i = 0; i < w->per_item; i++) {
        if (w->render)
            e->spec->sim->render(e, w->picture + (size_t)worker * task_frame_bytes(&e->spec->task));
        else
            e->spec->sim->step(e, w->action + i * e->spec->task.action_dim);
    }
}

// Calls per second over all threads of the pool.
static firm_status measure_env(const env_spec* spec, int render, double seconds, uint64_t seed,
                               pool* p, double* rate, firm_error* err) {
    int threads = pool_threads(p);
    const int most = render ? 8 : 1024;
    env_work w = {.render = render, .per_item = render ? 8 : 128, .seed = seed};
    TRY(env_create_many(spec, threads, &w.envs, err));
    w.picture = mem_alloc((size_t)threads * task_frame_bytes(&spec->task));
    w.action = mem_alloc((size_t)(most * spec->task.action_dim) * sizeof *w.action);
    firm_status status = w.picture && w.action ? FIRM_OK : cli_no_memory(err);
    if (status == FIRM_OK && render) status = env_render_ready(w.envs, threads, err);
    if (status == FIRM_OK) {
        rng r = rng_start(seed, RNG_STREAM(RNG_ARM, 0));
        for (int i = 0; i < most * spec->task.action_dim; i++)
            w.action[i] = (float)rng_uniform(&r, spec->task.action_low, spec->task.action_high);
        double begun = clock_seconds(), done = 0;
        pool_for(p, threads, work_piece, &w);                   // warm-up
        if (clock_seconds() - begun < 4e-3) w.per_item = most;  // where a control takes no time
        double now = begun = clock_seconds();
        for (int items = 4 * threads; now - begun < seconds; now = clock_seconds()) {
            pool_for(p, items, work_piece, &w);
            done += (double)items * w.per_item;
        }
        *rate = done / (now - begun);
        for (int i = 0; i < threads && status == FIRM_OK; i++)
            if (w.envs[i]->fault != FIRM_OK)
                status =
                    FAIL(err, w.envs[i]->fault,
                         "the %s simulation broke down under random controls", spec->task.name);
    }
    mem_free(w.picture);
    mem_free(w.action);
    env_free_many(w.envs, threads);
    return status;
}

// Beside MuJoCo's own renderer in software, where the task has it: one thread each, the same
// states.
static firm_status add_comparison(const args* a, const env_spec* spec, double rate, cJSON* j,
                                  firm_error* err) {
    render_report r = {0};
    firm_error why;
    int states = (int)args_int(a, "states");
    firm_status status = FIRM_E_UNAVAILABLE;
    const char* name = render_name(spec);  // before the comparison chooses for itself
    if (states > 0 && spec->sim->render_ready) {
        setenv("LP_NUM_THREADS", "0", 0);  // Mesa's rasteriser would take the other cores too
        status = render_compare(spec, "gl-osmesa", states, (uint64_t)args_int(a, "seed"),
                                args_text(a, "picture"), &r, &why);
        if (status == FIRM_E_UNAVAILABLE)
            log_warn("no comparison: %s", why.message);
        else if (status != FIRM_OK)
            return FAIL(err, status, "%s", why.message);
    }
    int ok =
        cJSON_AddStringToObject(j, "renderer", name) && json_add_number(j, "frames_per_s", rate, 5);
    if (status == FIRM_OK)
        ok = ok && json_add_number(j, "gl_frames_per_s", r.gl_per_s, 5) &&
             json_add_number(j, "ratio", r.ratio, 4) &&
             json_add_number(j, "psnr_db", r.psnr_mean, 4) &&
             json_add_number(j, "psnr_db_least", r.psnr_least, 4) &&
             json_add_number(j, "shift_px", r.shift_most, 3) &&
             json_add_number(j, "frames_per_s_one_thread", r.native_per_s, 5) &&
             cJSON_AddStringToObject(j, "gl", r.gl) &&
             cJSON_AddNumberToObject(j, "states", r.states);
    else
        ok = ok && cJSON_AddNullToObject(j, "gl_frames_per_s") &&
             cJSON_AddNullToObject(j, "ratio") && cJSON_AddNullToObject(j, "psnr_db");
    return ok ? FIRM_OK : cli_no_memory(err);
}

static firm_status bench_env(const args* a, const env_spec* spec, int render, cJSON* j,
                             firm_error* err) {
    pool* p;
    double rate = 0;
    TRY(pool_create((int)args_int(a, "threads"), &p, err));
    int threads = pool_threads(p);
    firm_status status = measure_env(spec, render, args_real(a, "seconds"),
                                     (uint64_t)args_int(a, "seed"), p, &rate, err);
    pool_free(p);
    TRY(status);
    int ok = cJSON_AddNumberToObject(j, "threads", threads) != NULL;
    if (!render)
        ok = ok && json_add_number(j, "steps_per_s", rate, 5);
    else if (ok)
        return add_comparison(a, spec, rate, j, err);
    return ok ? FIRM_OK : cli_no_memory(err);
}

// ---- train --------------------------------------------------------------------------------------

// null: not measured
static int add_share(cJSON* j, const char* key, double value) {
    return value > 0 ? json_add_number(j, key, value, 4) != 0
                     : cJSON_AddNullToObject(j, key) != NULL;
}

static firm_status bench_train_lewm(const args* a, const env_spec* spec, cJSON* j,
                                    firm_error* err) {
    const char* set[ARGS_MAX_VALUES];
    config* settings;
    lewm_speed s;
    TRY(lewm_settings(args_text(a, "config"), set, args_list(a, "set", set), &settings, err));
    const int threads = (int)args_int(a, "threads");
    const lewm_run_options opt = {.seed = (uint64_t)args_int(a, "seed"),
                                  .threads = threads,
                                  .device = args_text(a, "device")};
    firm_status status = lewm_bench(settings, spec, &opt, args_real(a, "seconds"), &s, err);
    config_free(settings);
    TRY(status);
    int ok = cJSON_AddStringToObject(j, "world", "lewm") &&
             cJSON_AddStringToObject(j, "device", opt.device) &&
             cJSON_AddNumberToObject(j, "threads", threads ? threads : pool_cores()) &&
             cJSON_AddNumberToObject(j, "batch", s.batch) &&
             json_add_number(j, "updates_per_s", s.updates_per_s, 5) &&
             json_add_number(j, "ms_per_update", 1e3 / s.updates_per_s, 5) &&
             json_add_number(j, "gflop_per_update", s.gflop_per_update, 5) &&
             json_add_number(j, "gflops", s.gflop_per_update * s.updates_per_s, 5) &&
             add_share(j, "fma_gflops", s.fma_gflops) &&
             add_share(j, "fraction_of_fma", s.fraction);
    return ok ? FIRM_OK : cli_no_memory(err);
}

static firm_status bench_train(const args* a, const env_spec* spec, cJSON* j, firm_error* err) {
    config* settings;
    train_speed s;
    TRY(cli_settings(a, &spec->task, NULL, &settings, err));
    int threads = (int)args_int(a, "threads");
    firm_status status = train_bench(settings, spec, args_text(a, "device"), threads,
                                     args_real(a, "seconds"), &s, err);
    config_free(settings);
    TRY(status);
    int ok = cJSON_AddStringToObject(j, "device", args_text(a, "device")) &&
             cJSON_AddNumberToObject(j, "threads", threads ? threads : pool_cores()) &&
             json_add_number(j, "frontend_frames_per_s", s.frontend_frames_per_s, 5) &&
             json_add_number(j, "recurrent_updates_per_s", s.recurrent_updates_per_s, 5) &&
             cJSON_AddNumberToObject(j, "frontend_batch", s.frontend_batch) &&
             cJSON_AddNumberToObject(j, "recurrent_batch", s.recurrent_batch) &&
             add_share(j, "fma_gflops", s.fma_gflops) &&
             add_share(j, "fraction_of_fma_frontend", s.fraction_of_fma_frontend) &&
             add_share(j, "fraction_of_fma_recurrent", s.fraction_of_fma_recurrent);
    return ok ? FIRM_OK : cli_no_memory(err);
}

// ---- command ------------------------------------------------------------------------------------

static void show(const cJSON* json) {
    const cJSON* v;
    cJSON_ArrayForEach(v, json) {
        if (cJSON_IsString(v))
            printf("  %-26s %s\n", v->string, v->valuestring);
        else if (cJSON_IsNumber(v))
            printf("  %-26s %.6g\n", v->string, v->valuedouble);
        else if (cJSON_IsNull(v))
            printf("  %-26s -\n", v->string);
    }
}

static firm_status run(const args* a, firm_error* err) {
    const char* what = a->positional[0];
    const env_spec* spec = env_at(0);
    if (a->positionals > 1) TRY(cli_task(a, 1, &spec, err));
    TRY(env_need_simulator(spec, "a benchmark", err));
    const char* world = args_text(a, "world");
    int of_model = strcmp(what, "train") == 0 || strcmp(what, "plan") == 0;
    if (strcmp(args_text(a, "device"), "cuda") == 0 && !of_model)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "bench %s has no GPU version; measure with --device cpu", what);
    if (world && !of_model)
        return FAIL(err, FIRM_E_USAGE, "--world is for bench plan and bench train; leave it out");
    cJSON* j = cJSON_CreateObject();
    if (!j || !cJSON_AddStringToObject(j, "task", spec->task.name)) {
        cJSON_Delete(j);
        return cli_no_memory(err);
    }
    firm_status status;
    if (strcmp(what, "plan") == 0)
        status = bench_plan(a, spec, j, err);
    else if (strcmp(what, "train") == 0)
        status =
            (world && strcmp(world, "lewm") == 0 ? bench_train_lewm : bench_train)(a, spec, j, err);
    else if (strcmp(what, "env") == 0)
        status = bench_env(a, spec, 0, j, err);
    else if (strcmp(what, "render") == 0)
        status = bench_env(a, spec, 1, j, err);
    else
        status = FAIL(err, FIRM_E_USAGE, "there is no bench '%s'; give plan, train, env or render",
                      what);
    if (status == FIRM_OK) return cli_finish(a, j, show, err);
    cJSON_Delete(j);
    return status;
}

const cli_command cli_bench = {"bench",
                               "bench plan|train|env|render [TASK]",
                               "measure speed",
                               "",
                               options,
                               sizeof options / sizeof *options,
                               1,
                               2,
                               run};
