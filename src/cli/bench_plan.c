// bench_plan.c - the planner's speed through the public controller, measurements of the machine's
// multiply-add rate and of large products in between, and every allocation of the process counted.
//
// One contract solve multiplies candidates x iterations x horizon rows through the transition; its
// rate is set beside the best float32 multiply-add rate of the same threads, and beside the best
// rate of large matrix products on the same threads or GPU, in the same run. A machine that is
// shared shows all of them only now and then, so they alternate.
#include <math.h>
#include <string.h>

#include "cli/bench.h"
#include "core/clock.h"
#include "core/fma.h"
#include "core/mem.h"
#include "eval/eval.h"
#include "model/lewm/lewm.h"
#include "model/model.h"
#include "plan/controller.h"
#include "plan/lewm_gpu.h"
#include "plan/lewm_net.h"
#include "plan/net.h"
#include "plan/peak.h"
#include "train/shape.h"

enum { FMA_MS = 40 };  // of one measurement of the multiply-add rate

typedef struct subject {
    firm_model* own;  // random weights, if there is no model file
    const firm_model* model;
    plan_options options;
    firm_controller* ctl;
    uint8_t* picture;  // (2, frame): now, goal
} subject;

static void subject_close(subject* s) {
    firm_controller_free(s->ctl);
    firm_model_free(s->own);
    mem_free(s->picture);
    *s = (subject){0};
}

// Two moments of the task's own start distribution.
static firm_status draw_pictures(const env_spec* spec, uint8_t* picture, firm_error* err) {
    env* world;
    TRY(env_create(spec, &world, err));
    firm_status status = env_render_ready(&world, 1, err);
    for (int i = 0; i < 2 && status == FIRM_OK; i++) {
        rng r = rng_start(0, RNG_STREAM(RNG_TRIAL, i + 1));
        spec->sim->reset(world, &r);
        spec->sim->render(world, picture + (size_t)i * task_frame_bytes(&spec->task));
    }
    env_free(world);
    return status;
}

static firm_status open_parts(subject* s, const env_spec* spec, const firm_model* model,
                              const config* settings, const firm_controller_params* p,
                              firm_error* err) {
    s->model = model;
    if (!model) {
        model_shape shape;
        model_shape_read(settings, &shape);
        TRY(model_create(&spec->task, &shape, 0, 1, &s->own, err));
        s->model = s->own;
    }
    TRY(eval_plan_options(settings, p->mode, 0, 0, 0, &s->options, err));
    TRY(controller_create_with(s->model, p, &s->options, NULL, &s->ctl, err));
    s->picture = mem_alloc(2 * task_frame_bytes(&spec->task));
    return s->picture ? draw_pictures(spec, s->picture, err) : cli_no_memory(err);
}

static firm_status subject_open(subject* s, const env_spec* spec, const firm_model* model,
                                const config* settings, const firm_controller_params* p,
                                firm_error* err) {
    *s = (subject){0};
    firm_status status = open_parts(s, spec, model, settings, p, err);
    if (status != FIRM_OK) subject_close(s);
    return status;
}

static int64_t allocations_so_far(void) {
    int64_t all = cli_malloc_count();
    return all >= 0 ? all : mem_count();  // under sanitizers only our own
}

// One decision from new pictures: perception and a full solve. `allocations` (2, nullable): those
// of showing the pictures and those of the decision are added.
static firm_status solve(subject* s, firm_step* step, int64_t* allocations, firm_error* err) {
    static const float still[FIRM_MAX_ACTION];
    firm_controller_reset(s->ctl, 1);
    firm_status status = FIRM_OK;
    int64_t count[3] = {allocations_so_far()};
    for (int i = 0; i < FIRM_HISTORY && status == FIRM_OK; i++)
        status = firm_controller_push(s->ctl, s->picture, i ? still : NULL);
    if (status == FIRM_OK)
        status = firm_controller_goal(s->ctl, s->picture + task_frame_bytes(&s->model->task));
    count[1] = allocations_so_far();
    if (status == FIRM_OK) status = firm_controller_act(s->ctl, 0, step);
    count[2] = allocations_so_far();
    for (int i = 0; i < 2 && allocations; i++) allocations[i] += count[i + 1] - count[i];
    if (status != FIRM_OK)
        return FAIL(err, status, "the controller failed: %s", firm_status_str(status));
    return FIRM_OK;
}

firm_status bench_solve_ms(const env_spec* spec, const firm_model* model, const config* settings,
                           const firm_controller_params* p, int repeats, double* ms,
                           firm_error* err) {
    subject s;
    eval_times times = {0};
    TRY(subject_open(&s, spec, model, settings, p, err));
    firm_status status = FIRM_OK;
    for (int i = 0; i < repeats && status == FIRM_OK; i++) {
        firm_step step;
        status = solve(&s, &step, NULL, err);
        if (status == FIRM_OK) status = eval_times_add(&times, step.solve_ms, err);
    }
    *ms = eval_times_quantile(&times, 0.5);
    eval_times_free(&times);
    subject_close(&s);
    return status;
}

typedef struct measured {
    eval_times times;   // of the search alone
    eval_times before;  // perception, before each
    double peak, fma;
    int batch;               // 0: not measured
    double batch_ms;         // per search, `batch` at once; GPU only
    int64_t allocations[2];  // perception of frames and goal; decisions
    int64_t own;             // of the library alone, during decisions
    int iterations, horizon, threads;
} measured;

// One measured decision, after one of the peak and one of the multiply-add rate.
static firm_status measure_once(subject* s, const firm_controller_params* how, pool* p,
                                firm_step* step, measured* m, firm_error* err) {
    double peak = 0, fma = 0;
    if (how->device == FIRM_DEVICE_CPU) {
        TRY(plan_measure_peak(p, &peak, err));
        fma = fma_measure(p, FMA_MS);
    } else if (m->times.count % 3 == 0)
        TRY(plan_gpu_peak((plan_precision)how->precision, &peak, err));
    if (peak > m->peak) m->peak = peak;
    if (fma > m->fma) m->fma = fma;
    int64_t own = mem_count();
    TRY(solve(s, step, m->allocations, err));
    m->own += mem_count() - own;
    double ms = controller_search_ms(s->ctl);
    TRY(eval_times_add(&m->before, step->solve_ms - ms, err));
    return eval_times_add(&m->times, ms, err);
}

static firm_status measure(subject* s, const firm_controller_params* how, int repeats, measured* m,
                           firm_error* err) {
    pool* p;
    firm_step step = {0};
    TRY(pool_create(how->threads, &p, err));
    m->threads = pool_threads(p);
    // warm-up: page faults, clock rate
    firm_status status = solve(s, &step, NULL, err);
    if (status == FIRM_OK && step.solve_ms < 1000) status = solve(s, &step, NULL, err);
    for (int i = 0; i < repeats && status == FIRM_OK; i++)
        status = measure_once(s, how, p, &step, m, err);
    m->iterations = step.iterations;
    m->horizon = step.horizon;
    pool_free(p);
    return status;
}

// Numbers of a start: what is remembered, and what is seen of it and of a goal.
typedef struct start_size {
    int memory, state;
} start_size;

static start_size start_of(const firm_model* m) {
    return m->lewm ? (start_size){0, m->lewm->shape.width}
                   : (start_size){m->shape.fiber, m->task.config_dim};
}

// Searches from as many starts to as many goals, all at once, and per search.
static firm_status run_batch(subject* s, plan_device gpu, measured* m, plan_problem* problem,
                             plan_answer* answer, float* numbers, firm_error* err) {
    const start_size n = start_of(s->model);
    const int each = n.memory + 2 * n.state;
    rng_fill_normal(1, RNG_STREAM(RNG_TRIAL, 0), 0, numbers, m->batch * each);
    for (int i = 0; i < m->batch; i++) {
        float* at = numbers + i * each;
        for (int k = 0; k < 2 * n.state && !s->model->lewm; k++) at[n.memory + k] *= 0.3f;
        problem[i] = (plan_problem){.now = at + n.memory,
                                    .memory = at,
                                    .goal = at + n.memory + n.state,
                                    .seed = (uint64_t)i};
    }
    eval_times times = {0};
    firm_status status = FIRM_OK;
    for (int i = 0; i < 6 && status == FIRM_OK; i++) {
        int64_t begun = clock_ns();
        status = gpu.solve(gpu.context, m->batch, problem, s->options.iterations, 0, answer, err);
        double ms = (double)(clock_ns() - begun) * 1e-6;
        if (status == FIRM_OK && i) status = eval_times_add(&times, ms, err);
    }
    m->batch_ms = eval_times_quantile(&times, 0.5) / m->batch;
    eval_times_free(&times);
    return status;
}

static firm_status solve_batch(subject* s, plan_device gpu, measured* m, firm_error* err) {
    const start_size each = start_of(s->model);
    size_t n = (size_t)m->batch;
    plan_problem* problem = mem_calloc(n, sizeof *problem);
    plan_answer* answer = mem_calloc(n, sizeof *answer);
    float* numbers = mem_calloc(n, (size_t)(each.memory + 2 * each.state) * sizeof *numbers);
    firm_status status = problem && answer && numbers
                             ? run_batch(s, gpu, m, problem, answer, numbers, err)
                             : cli_no_memory(err);
    mem_free(problem);
    mem_free(answer);
    mem_free(numbers);
    return status;
}

static firm_status measure_batch(subject* s, const firm_controller_params* how, measured* m,
                                 firm_error* err) {
    const plan_precision precision = (plan_precision)how->precision;
    plan_gpu* gpu = NULL;
    lewm_gpu* lewm = NULL;
    if (s->model->lewm)
        TRY(lewm_gpu_create(&(lewm_gpu_setup){.model = s->model->lewm,
                                              .options = s->options,
                                              .precision = precision,
                                              .searches = m->batch,
                                              .device = how->gpu},
                            &lewm, err));
    else
        TRY(plan_gpu_for_model(s->model, &s->options,
                               &(plan_gpu_choice){precision, PLAN_GPU_BATCH, m->batch, how->gpu},
                               &gpu, err));
    firm_status status =
        solve_batch(s, lewm ? lewm_gpu_device_of(lewm) : plan_gpu_device_of(gpu), m, err);
    lewm_gpu_free(lewm);
    plan_gpu_free(gpu);
    return status;
}

// The rates of the median and of the best solve as shares of the float32 multiply-add rate.
static int add_fma(cJSON* j, double median, double best, double fma) {
    return json_add_number(j, "fma_gflops", fma, 5) &&
           json_add_number(j, "fraction_of_fma", median / fma, 4) &&
           json_add_number(j, "fraction_of_fma_best", best / fma, 4);
}

// Where the searches' time went, those of the warm-up too.
static int add_phases(cJSON* j, const plan_phases* p) {
    double all = (double)(p->draw + p->roll + p->price + p->fit);
    if (all <= 0) all = 1;
    return json_add_number(j, "share_draw", (double)p->draw / all, 4) &&
           json_add_number(j, "share_roll", (double)p->roll / all, 4) &&
           json_add_number(j, "share_price", (double)p->price / all, 4) &&
           json_add_number(j, "share_fit", (double)p->fit / all, 4);
}

// Multiply-adds of one rollout by all members.
static double rollout_macs(const firm_model* m, int gpu, int horizon) {
    if (m->lewm)
        return (double)(gpu ? lewm_gpu_macs(m->lewm, horizon) : lewm_net_macs(m->lewm, horizon));
    const model_shape* shape = &m->shape;
    const task_typed* task = &m->task;
    plan_net_shape net = {
        task->config_dim, task->pairs,  shape->fiber,  task->controls * task->action_dim,
        shape->hidden,    shape->inner, shape->blocks, shape->spatial};
    const nn_push push = task_push(task);
    return (double)plan_net_macs(&net, &push) * (1 + m->members) * horizon;
}

static firm_status describe(const subject* s, const firm_controller_params* how, measured* m,
                            cJSON* j, firm_error* err) {
    int members = 1 + s->model->members, gpu = how->device == FIRM_DEVICE_CUDA;
    double work =
        2.0 * rollout_macs(s->model, gpu, m->horizon) * s->options.candidates * m->iterations;
    double median = eval_times_quantile(&m->times, 0.5), best = m->times.ms[0];
    int ok = cJSON_AddStringToObject(j, "world", s->model->lewm ? "lewm" : "firm") &&
             cJSON_AddStringToObject(j, "device", gpu ? "cuda" : "cpu") &&
             cJSON_AddStringToObject(j, "device_name", controller_device(s->ctl)) &&
             cJSON_AddStringToObject(j, "way", controller_way(s->ctl)) &&
             cJSON_AddNumberToObject(j, "threads", m->threads) &&
             cJSON_AddStringToObject(j, "precision",
                                     plan_precision_name((plan_precision)how->precision)) &&
             cJSON_AddStringToObject(j, "mode", "contract") &&
             cJSON_AddNumberToObject(j, "members", members) &&
             cJSON_AddNumberToObject(j, "candidates", s->options.candidates) &&
             cJSON_AddNumberToObject(j, "iterations", m->iterations) &&
             cJSON_AddNumberToObject(j, "horizon", m->horizon) &&
             cJSON_AddNumberToObject(j, "solves", m->times.count) &&
             json_add_number(j, "ms_per_solve", median, 5) &&
             json_add_number(j, "ms_p50", median, 5) &&
             json_add_number(j, "ms_p99", eval_times_quantile(&m->times, 0.99), 5) &&
             json_add_number(j, "ms_max", m->times.ms[m->times.count - 1], 5) &&
             json_add_number(j, "ms_best", best, 5) &&
             json_add_number(j, "perception_ms", eval_times_quantile(&m->before, 0.5), 5) &&
             json_add_number(j, "gflop_per_solve", work * 1e-9, 5) &&
             json_add_number(j, "gflops", work / median * 1e-6, 5) &&
             json_add_number(j, "peak_gflops", m->peak, 5) &&
             json_add_number(j, "fraction_of_peak", work / median * 1e-6 / m->peak, 4) &&
             json_add_number(j, "fraction_of_peak_best", work / best * 1e-6 / m->peak, 4) &&
             (gpu || (add_fma(j, work / median * 1e-6, work / best * 1e-6, m->fma) &&
                      add_phases(j, controller_phases(s->ctl)))) &&
             cJSON_AddNumberToObject(j, "allocations", (double)m->allocations[1]) &&
             cJSON_AddNumberToObject(j, "library_allocations", (double)m->own) &&
             cJSON_AddNumberToObject(j, "perception_allocations", (double)m->allocations[0]) &&
             cJSON_AddStringToObject(j, "allocations_counted",
                                     cli_malloc_count() >= 0 ? "process" : "library") &&
             cJSON_AddNumberToObject(j, "controller_bytes", (double)firm_controller_bytes(s->ctl));
    if (m->batch)
        ok = ok && cJSON_AddNumberToObject(j, "batch", m->batch) &&
             json_add_number(j, "batch_ms_per_solve", m->batch_ms, 5) &&
             json_add_number(j, "batch_ratio", median / m->batch_ms, 4) &&
             json_add_number(j, "batch_gflops", work / m->batch_ms * 1e-6, 5) &&
             json_add_number(j, "batch_fraction_of_peak", work / m->batch_ms * 1e-6 / m->peak, 4);
    return ok ? FIRM_OK : cli_no_memory(err);
}

static firm_status bench_both(const args* a, const env_spec* spec, const firm_model* model,
                              const config* settings, cJSON* j, firm_error* err) {
    int repeats = (int)args_int(a, "repeats");
    firm_controller_params how = firm_controller_params_default();
    how.mode = FIRM_MODE_CONTRACT;
    how.threads = (int)args_int(a, "threads");
    TRY(cli_device(a, &how.device, &how.precision, err));
    subject s;
    // searches of many problems at once are of one model
    if (model && model->members && args_given(a, "batch"))
        return FAIL(err, FIRM_E_USAGE,
                    "--batch is for single models and %s is an ensemble of %d; leave it out",
                    args_text(a, "model"), model->members + 1);
    int batch = how.device == FIRM_DEVICE_CUDA && !(model && model->members);
    measured m = {.batch = batch ? (int)args_int(a, "batch") : 0};
    double reach_ms;
    TRY(subject_open(&s, spec, model, settings, &how, err));
    firm_status status = measure(&s, &how, repeats, &m, err);
    if (status == FIRM_OK && m.batch) status = measure_batch(&s, &how, &m, err);
    if (status == FIRM_OK) status = describe(&s, &how, &m, j, err);
    eval_times_free(&m.times);
    eval_times_free(&m.before);
    subject_close(&s);
    TRY(status);
    // minutes
    if (model && model->lewm && how.device == FIRM_DEVICE_CPU)
        return cJSON_AddNullToObject(j, "reach_ms_per_solve") ? FIRM_OK : cli_no_memory(err);
    how.mode = FIRM_MODE_REACH;
    TRY(bench_solve_ms(spec, model, settings, &how, repeats, &reach_ms, err));
    return json_add_number(j, "reach_ms_per_solve", reach_ms, 5) ? FIRM_OK : cli_no_memory(err);
}

// The model of --model, or for --world lewm random weights of the published sizes, or NULL: random
// weights of the settings' shape.
static firm_status open_model(const args* a, const env_spec* spec, firm_model** out,
                              firm_error* err) {
    const char *path = args_text(a, "model"), *world = args_text(a, "world");
    const int lewm = world && strcmp(world, "lewm") == 0;
    *out = NULL;
    if (path && lewm) return cli_load_lewm(path, spec, out, err);
    if (path) return (world ? cli_load_model : cli_load_world)(path, spec, out, err);
    if (!lewm) return FIRM_OK;
    lewm_shape shape = lewm_shape_default();
    shape.image = spec->task.image;
    lewm_model* m;
    TRY(lewm_create(&spec->task, &shape, 1, &m, err));
    return model_of_lewm(m, out, err);
}

firm_status bench_plan(const args* a, const env_spec* spec, cJSON* j, firm_error* err) {
    firm_model* model = NULL;
    config* settings = NULL;
    firm_status status = open_model(a, spec, &model, err);
    if (status == FIRM_OK) status = cli_settings(a, &spec->task, model, &settings, err);
    if (status == FIRM_OK) status = bench_both(a, spec, model, settings, j, err);
    config_free(settings);
    firm_model_free(model);
    return status;
}
