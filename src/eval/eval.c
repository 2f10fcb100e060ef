// eval.c - runs all arms over the same trials and turns the outcomes into rates with intervals.
#include "eval/eval.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/stats.h"
#include "eval/draws.h"
#include "eval/paired.h"
#include "eval/pieces.h"
#include "eval/settings.h"
#include "model/model.h"
#include "plan/gpu.h"
#include "plan/lewm_gpu.h"
#include "train/lewm/lewm.h"

// 25 searches of 300 candidates keep a large GPU busy and its activations in its cache
enum { MAX_ARMS = 8, ARM_NAME = 32, FAN = 24, BATCH = 25 };

typedef struct arm_result {
    char name[ARM_NAME];
    eval_outcome* outcome;   // (trials)
    int8_t* success;         // (trials)
    uint64_t* hash;          // (trials)
    int reached;             // successes so far
    eval_times times, late;  // late: with a deadline only
} arm_result;

typedef struct evaluation {
    const eval_params* p;
    pool* threads;
    episodes* fresh;
    const episodes* data;
    data_split split;
    eval_trials* trials;
    frames* pictures;
    eval_setup setup;
    // for searches of many trials at once; NULL: the arms plan one by one
    plan_gpu* gpu;
    lewm_gpu* lewm_gpu;
    int batch;  // searches that fit it at once
    arm_result arm[MAX_ARMS];
    int arms;
    uint64_t of;   // with pieces: hash of what is evaluated
    double begun;  // clock_seconds()
} evaluation;

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for the evaluation");
}

// ---- set-up -------------------------------------------------------------------------------------

firm_status eval_plan_options(const config* settings, firm_mode mode, int candidates,
                              int iterations, int horizon, plan_options* out, firm_error* err) {
    settings_plan(settings, mode, out);
    if (candidates) plan_options_candidates(out, candidates);
    if (iterations) out->iterations = iterations;
    if (horizon) {
        out->horizon = horizon;
        if (mode == FIRM_MODE_CONTRACT) out->replan = out->horizon_max = horizon;
        if (out->horizon_max < horizon) out->horizon_max = horizon;
        if (out->replan > horizon) out->replan = horizon;
    }
    return plan_options_check(out, err);
}

static firm_status read_arms(evaluation* e, firm_error* err) {
    const char* at = e->p->arms;
    while (*at) {
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= ARM_NAME || e->arms == MAX_ARMS)
            return FAIL(err, FIRM_E_USAGE,
                        "the list of arms '%s' cannot be read; give up to %d of %s, separated "
                        "by commas",
                        e->p->arms, MAX_ARMS, eval_arm_names);
        arm_result* a = &e->arm[e->arms];
        memcpy(a->name, at, n);
        for (int i = 0; i < e->arms; i++)
            if (strcmp(e->arm[i].name, a->name) == 0)
                return FAIL(err, FIRM_E_USAGE, "the arm '%s' is listed twice", a->name);
        e->arms++;
        at += n;
        if (*at == ',' && !*++at)
            return FAIL(err, FIRM_E_USAGE, "the list of arms '%s' ends in a comma", e->p->arms);
    }
    return e->arms ? FIRM_OK
                   : FAIL(err, FIRM_E_USAGE, "no arm is given; the arms are %s", eval_arm_names);
}

// One GPU planner of a kind for all arms and trials. The batch way, whatever the batch: a search
// gives the same bits alone and among others there.
static firm_status prepare_gpu(evaluation* e, firm_error* err) {
    const eval_params* p = e->p;
    const int searches = p->mode == FIRM_MODE_CONTRACT && e->setup.options.solver == PLAN_CEM;
    e->setup.precision = p->precision;
    if (p->device != FIRM_DEVICE_CUDA) return FIRM_OK;
    if (!p->model && !p->lewm)
        return FAIL(err, FIRM_E_USAGE,
                    "only arms with a model plan on a GPU; give --model, or --device cpu");
    e->setup.device = p->device;
    e->batch = p->batch ? p->batch : BATCH;
    if (e->batch > p->trials) e->batch = p->trials;
    if (!searches) e->batch = 1;
    if (p->lewm && searches) {
        TRY(lewm_gpu_create(&(lewm_gpu_setup){.model = p->lewm->lewm,
                                              .options = e->setup.options,
                                              .precision = (plan_precision)p->precision,
                                              .searches = e->batch},
                            &e->lewm_gpu, err));
        e->setup.lewm_batch = lewm_gpu_device_of(e->lewm_gpu);
    }
    // batches of searches are of one model: an ensemble's trials run one by one, each member on the
    // GPU
    if (!p->model || p->model->members) return FIRM_OK;
    plan_gpu_choice choice = {(plan_precision)p->precision, PLAN_GPU_BATCH, e->batch, 0};
    TRY(plan_gpu_for_model(p->model, &e->setup.options, &choice, &e->gpu, err));
    e->setup.batch = plan_gpu_device_of(e->gpu);
    return FIRM_OK;
}

firm_status eval_check_model(const firm_model* m, const episodes* data, int fresh,
                             firm_error* err) {
    TRY(eval_check_held_out(m->provenance, data, fresh, err));
    for (int i = 0; i < m->members; i++)
        TRY(eval_check_held_out(m->member[i]->provenance, data, fresh, err));
    return FIRM_OK;
}

// The settings that a LeWM holds are those of its training, which split the episodes by itself.
static firm_status check_split(const firm_model* lewm, uint64_t split_seed, firm_error* err) {
    config* c;
    if (!lewm->config[0]) return FIRM_OK;
    TRY(config_create(lewm_keys, lewm_key_count, &c, err));
    firm_status st = config_read_text(c, "the model of LeWM", lewm->config, err);
    const uint64_t own = st == FIRM_OK ? (uint64_t)config_int(c, "lewm", "split_seed") : 0;
    config_free(c);
    TRY(st);
    if (own == split_seed) return FIRM_OK;
    return FAIL(err, FIRM_E_USAGE,
                "the model of LeWM was trained with lewm.split_seed %" PRIu64
                " and the trials' split has seed %" PRIu64
                ", so trials may be training episodes; use --set data.split_seed=%" PRIu64
                " for the trials, too",
                own, split_seed, own);
}

static firm_status check_models(const evaluation* e, int fresh, uint64_t split_seed,
                                firm_error* err) {
    if (e->p->model) TRY(eval_check_model(e->p->model, e->data, fresh, err));
    if (!e->p->lewm) return FIRM_OK;
    TRY(eval_check_model(e->p->lewm, e->data, fresh, err));
    return fresh ? FIRM_OK : check_split(e->p->lewm, split_seed, err);
}

// Trials of a file count as held out under the split they were drawn with, and under no other.
static firm_status take_trials(evaluation* e, uint64_t split_seed, firm_error* err) {
    const eval_params* p = e->p;
    e->data = p->set->rows;
    if (p->set->split_seed != split_seed)
        return FAIL(err, FIRM_E_USAGE,
                    "the trials' data were split with seed %" PRIu64
                    " and the settings say %" PRIu64
                    ", so trials may be training episodes; write them again with `firm trials "
                    "--set data.split_seed=%" PRIu64 "`",
                    p->set->split_seed, split_seed, split_seed);
    TRY(check_models(e, 0, split_seed, err));
    return eval_trials_take(p->set, p->trials, &e->trials, err);
}

static firm_status collect_fresh(evaluation* e, firm_error* err) {
    const eval_params* p = e->p;
    TRY(eval_fresh_episodes(p->spec, p->trials, p->episodes, p->seed, e->threads, &e->fresh, err));
    e->data = e->fresh;
    return FIRM_OK;
}

// Trials from the file of them, the data given, or fresh episodes.
static firm_status find_trials(evaluation* e, firm_error* err) {
    const eval_params* p = e->p;
    const uint64_t split_seed = (uint64_t)config_int(p->settings, "data", "split_seed");
    uint8_t* taken;
    if (p->set) return take_trials(e, split_seed, err);
    e->data = p->data;
    if (p->data) TRY(data_split_make(e->data, split_seed, &e->split, err));
    trial_options draw = {.count = p->trials,
                          .offset = p->offset,
                          .seed = p->seed,
                          .unsolved = p->unsolved,
                          .split = p->data ? &e->split : NULL};
    TRY(eval_draw_begin(p->draw, p->settings, p->data, &draw, &taken, err));
    firm_status status = p->data ? FIRM_OK : collect_fresh(e, err);
    if (status == FIRM_OK) status = check_models(e, !p->data, split_seed, err);
    if (status == FIRM_OK) status = eval_trials_draw(e->data, &draw, &e->trials, err);
    mem_free(taken);
    return status;
}

static firm_status prepare(evaluation* e, firm_error* err) {
    const eval_params* p = e->p;
    TRY(read_arms(e, err));
    e->setup = (eval_setup){.spec = p->spec,
                            .model = p->model,
                            .lewm = p->lewm,
                            .threads = p->threads,
                            .seed = p->planner_seed ? *p->planner_seed : p->seed,
                            .deadline_ms = p->deadline_ms,
                            .fan = p->traces ? FAN : 0};
    TRY(eval_plan_options(p->settings, p->mode, p->candidates, p->iterations, p->horizon,
                          &e->setup.options, err));
    if (p->solver) e->setup.options.solver = (plan_solver_kind)(p->solver - FIRM_SOLVER_CEM);
    if (e->setup.fan > e->setup.options.candidates) e->setup.fan = e->setup.options.candidates;

    TRY(prepare_gpu(e, err));

    TRY(pool_create(p->threads, &e->threads, err));
    TRY(find_trials(e, err));
    TRY(frames_open(e->data, 1, 0, &e->pictures, err));

    // the oracle searches in the same standardised action coordinates as the model
    float mean[FIRM_MAX_ACTION], deviation[FIRM_MAX_ACTION];
    const firm_model* model = p->model ? p->model : p->lewm;
    if (model) {
        memcpy(mean, model->stats.action_mean, sizeof mean);
        memcpy(deviation, model->stats.action_std, sizeof deviation);
    } else if (p->set) {
        memcpy(mean, p->set->action_mean, sizeof mean);
        memcpy(deviation, p->set->action_std, sizeof deviation);
    } else if (p->data) {
        data_action_stats(e->data, &e->split, mean, deviation);
    } else {
        // fresh episodes are all "training" ones here: there is no model that could have seen them
        TRY(data_split_make(e->data, 0, &e->split, err));
        data_action_stats(e->data, &e->split, mean, deviation);
    }
    e->setup.actions = plan_actions_of(&p->spec->task, mean, deviation);
    return FIRM_OK;
}

// ---- time ---------------------------------------------------------------------------------------

static int plans(const arm_result* a) {
    return strcmp(a->name, "random") != 0;
}

// With a limit on the whole evaluation, a trial may take an equal share of the time that is left,
// and each of its decisions an equal share of that. Trials that end early leave more to the rest.
static double decision_ms(const evaluation* e, const arm_result* a, int trial) {
    const eval_params* p = e->p;
    if (p->seconds <= 0) return p->deadline_ms;
    int trials = e->trials->count - trial;
    for (const arm_result* later = a + 1; later < e->arm + e->arms; later++)
        trials += plans(later) ? e->trials->count : 0;
    int controls = e->setup.options.replan * e->setup.actions.controls;
    int decisions = (2 * p->offset + controls - 1) / controls;
    double left = e->begun + p->seconds - clock_seconds();
    double ms = fmax(1.0, left * 1e3 / ((double)trials * decisions));
    return p->deadline_ms > 0 ? fmin(ms, p->deadline_ms) : ms;
}

// ---- running ------------------------------------------------------------------------------------

// Outcomes of trials first .. done - 1 are there.
static void note_outcomes(arm_result* a, int first, int done, progress* bar) {
    char note[48];
    for (int i = first; i < done; i++) {
        a->success[i] = (int8_t)a->outcome[i].success;
        a->hash[i] = a->outcome[i].hash;
        a->reached += a->success[i];
    }
    snprintf(note, sizeof note, "success %.1f %%", 100.0 * a->reached / done);
    progress_step(bar, done, note);
}

// Trials first .. last - 1, one after the other.
static firm_status run_singly(evaluation* e, arm_result* a, cJSON* traces, int first, int last,
                              progress* bar, firm_error* err) {
    eval_arm* arm;
    TRY(eval_arm_create(a->name, &e->setup, &arm, err));
    firm_status status = FIRM_OK;
    for (int i = first; i < last && status == FIRM_OK; i++) {
        eval_trace trace = {0};
        int traced = traces && i < e->p->traces;
        eval_arm_deadline(arm, decision_ms(e, a, i));
        status = eval_arm_run(arm, e->trials, e->pictures, i, &a->outcome[i], &a->times,
                              traced ? &trace : NULL, err);
        if (status == FIRM_OK && traced) {
            if (cJSON_AddItemToArray(traces, trace.json))
                trace.json = NULL;
            else
                status = no_memory(err);
        }
        eval_trace_free(&trace);
        if (status == FIRM_OK) note_outcomes(a, i, i + 1, bar);
    }
    a->late = eval_arm_take_late(arm);
    eval_arm_free(arm);
    return status;
}

// Trials first .. last - 1, e->batch at a time.
static firm_status run_together(evaluation* e, arm_result* a, int first, int last, progress* bar,
                                firm_error* err) {
    eval_setup setup = e->setup;
    setup.threads = 1;  // the trials themselves are spread over the threads
    eval_arm** arm = mem_calloc((size_t)e->batch, sizeof *arm);
    if (!arm) return no_memory(err);
    firm_status status = FIRM_OK;
    for (int i = 0; i < e->batch && status == FIRM_OK; i++)
        status = eval_arm_create(a->name, &setup, &arm[i], err);
    for (int i = first; i < last && status == FIRM_OK; i += e->batch) {
        int count = last - i < e->batch ? last - i : e->batch;
        status = eval_arms_run(arm, e->threads, e->trials, e->pictures, i, count, &a->outcome[i],
                               &a->times, err);
        if (status == FIRM_OK) note_outcomes(a, i, i + count, bar);
    }
    for (int i = 0; i < e->batch; i++) eval_arm_free(arm[i]);
    mem_free(arm);
    return status;
}

// For the time left: an arm that does not plan costs next to nothing beside one that does.
static double arm_cost(const evaluation* e, const arm_result* a) {
    return e->trials->count * (plans(a) ? 1 : 0.01);
}

static firm_status run_arm(evaluation* e, arm_result* a, cJSON* traces, firm_error* err) {
    int n = e->trials->count;
    a->outcome = mem_calloc((size_t)n, sizeof *a->outcome);
    a->success = mem_calloc((size_t)n, sizeof *a->success);
    a->hash = mem_calloc((size_t)n, sizeof *a->hash);
    if (!a->outcome || !a->success || !a->hash) return no_memory(err);
    progress bar;
    char label[48];
    snprintf(label, sizeof label, "eval %s", a->name);
    progress_run_part(arm_cost(e, a));
    progress_begin(&bar, label, n);
    // deadlines and traces are a single trial's
    int together = eval_arms_together(a->name, &e->setup) && e->p->deadline_ms <= 0;
    int alone = !together ? n : !traces ? 0 : e->p->traces < n ? e->p->traces : n;
    firm_status status = FIRM_OK;
    const eval_pieces pieces = {e->p->pieces, a->name, e->of};
    if (e->p->pieces) {
        status = eval_pieces_run(&pieces, &e->setup, e->trials, e->pictures, a->outcome, &a->times,
                                 &bar, err);
        if (status == FIRM_OK) note_outcomes(a, 0, n, &bar);
    } else if (alone) {
        status = run_singly(e, a, traces, 0, alone, &bar, err);
    }
    if (status == FIRM_OK && alone < n && !e->p->pieces)
        status = run_together(e, a, alone, n, &bar, err);
    progress_end(&bar);
    return status;
}

// ---- results as JSON ----------------------------------------------------------------------------

static cJSON* pair_of(double lo, double hi) {
    cJSON* pair = cJSON_CreateArray();
    int ok = pair && cJSON_AddItemToArray(pair, json_number(lo, 6)) &&
             cJSON_AddItemToArray(pair, json_number(hi, 6));
    if (ok) return pair;
    cJSON_Delete(pair);
    return NULL;
}

static int put(cJSON* object, const char* key, cJSON* item) {
    if (item && cJSON_AddItemToObject(object, key, item)) return 1;
    cJSON_Delete(item);
    return 0;
}

// Whether the goal's picture shows all that moves. One that does not leaves open what is wanted.
static int goal_shown(const evaluation* e, int trial) {
    return eval_goal_visible(e->data, e->trials->trial[trial].goal);
}

static int goals_shown(const evaluation* e) {
    int n = 0;
    for (int i = 0; i < e->trials->count; i++) n += goal_shown(e, i);
    return n;
}

static firm_status arm_json(const evaluation* e, arm_result* a, cJSON* into, firm_error* err) {
    int n = e->trials->count, solved = 0, unsolved_reached = 0, late = 0, nonfinite = 0,
        iterations = 0, shown = goals_shown(e), shown_reached = 0;
    double seconds = 0.0, steps = 0.0;
    stats_interval ci = stats_wilson((double)a->reached / n, n);
    cJSON* json = cJSON_AddObjectToObject(into, a->name);
    cJSON *outcomes = cJSON_CreateArray(), *controls = cJSON_CreateArray(),
          *closest = cJSON_CreateArray();
    for (int i = 0; i < n; i++) {
        const eval_outcome* o = &a->outcome[i];
        solved += o->solved_at_start;
        unsolved_reached += o->success && !o->solved_at_start;
        shown_reached += o->success && goal_shown(e, i);
        late += o->late;
        iterations += o->iterations;
        nonfinite += o->nonfinite;
        seconds += o->seconds;
        steps += o->steps;
        cJSON_AddItemToArray(outcomes, cJSON_CreateNumber(o->success));
        cJSON_AddItemToArray(controls, cJSON_CreateNumber(o->steps));
        cJSON_AddItemToArray(closest, json_number(o->closest, 4));
    }
    int ok = json && cJSON_GetArraySize(outcomes) == n && cJSON_GetArraySize(controls) == n &&
             cJSON_GetArraySize(closest) == n;
    ok = ok && cJSON_AddNumberToObject(json, "successes", a->reached) &&
         json_add_number(json, "success_rate", 100.0 * a->reached / n, 6) &&
         put(json, "ci95", pair_of(100 * ci.lo, 100 * ci.hi)) &&
         cJSON_AddNumberToObject(json, "solved_at_start", solved) &&
         json_add_number(json, "success_rate_unsolved",
                         n > solved ? 100.0 * unsolved_reached / (n - solved) : NAN, 6) &&
         json_add_number(json, "success_rate_shown", shown ? 100.0 * shown_reached / shown : NAN,
                         6) &&
         json_add_number(json, "seconds_per_episode", seconds / n, 5) &&
         json_add_number(json, "ms_per_solve",
                         a->times.count ? eval_times_quantile(&a->times, 0.5) : NAN, 5) &&
         json_add_number(json, "ms_per_solve_mean",
                         a->times.count ? eval_times_mean(&a->times) : NAN, 5) &&
         json_add_number(json, "solves_per_episode", (double)a->times.count / n, 5) &&
         json_add_number(json, "controls_per_episode", steps / n, 5) &&
         json_add_number(json, "iterations_per_solve",
                         a->times.count ? (double)iterations / a->times.count : NAN, 5) &&
         cJSON_AddNumberToObject(json, "late_solves", late) &&
         cJSON_AddNumberToObject(json, "nonfinite_candidates", nonfinite);
    if (a->late.count)
        ok = ok && json_add_number(json, "late_ms_p99", eval_times_quantile(&a->late, 0.99), 5);
    // a list that was taken over must not be deleted twice
    ok = put(json, "outcomes", outcomes) && ok;
    ok = put(json, "controls", controls) && ok;
    ok = put(json, "closest", closest) && ok;
    return ok ? FIRM_OK : no_memory(err);
}

// How many times longer arm b takes inside its planner; NaN where one does not plan.
static double seconds_ratio(const arm_result* a, const arm_result* b, int n) {
    double first = 0, second = 0;
    for (int i = 0; i < n; i++) {
        first += a->outcome[i].seconds;
        second += b->outcome[i].seconds;
    }
    return plans(a) && plans(b) && first > 0 ? second / first : NAN;
}

static firm_status pairs_json(const evaluation* e, cJSON* result, firm_error* err) {
    cJSON* list = cJSON_AddArrayToObject(result, "pairs");
    if (!list) return no_memory(err);
    for (int i = 0; i < e->arms; i++)
        for (int k = i + 1; k < e->arms; k++) {
            const arm_result *a = &e->arm[i], *b = &e->arm[k];
            paired_difference d;
            TRY(paired_compare(&(paired_arm){a->success, a->hash},
                               &(paired_arm){b->success, b->hash}, e->trials->count, &d, err));
            cJSON* json = cJSON_CreateObject();
            if (!json || !cJSON_AddItemToArray(list, json)) {
                cJSON_Delete(json);
                return no_memory(err);
            }
            int ok =
                cJSON_AddStringToObject(json, "a", a->name) &&
                cJSON_AddStringToObject(json, "b", b->name) &&
                json_add_number(json, "difference", d.difference, 6) &&
                put(json, "ci95", pair_of(d.lo, d.hi)) &&
                cJSON_AddNumberToObject(json, "rescue", d.rescue) &&
                cJSON_AddNumberToObject(json, "harm", d.harm) &&
                json_add_number(json, "seconds_ratio", seconds_ratio(a, b, e->trials->count), 5);
            if (!ok) return no_memory(err);
        }
    return FIRM_OK;
}

static int add_hex(cJSON* json, const char* key, uint64_t value) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return cJSON_AddStringToObject(json, key, text) != NULL;
}

// Where the model comes from, so that a report can tell seeds and ablations apart.
static int add_model(const firm_model* m, cJSON* json) {
    int ok = cJSON_AddNumberToObject(json, "members", m->members + 1) &&
             cJSON_AddStringToObject(json, "provenance", m->provenance) &&
             cJSON_AddBoolToObject(json, "no_fiber", m->shape.no_fiber);
    const char* seed = strstr(m->provenance, " seed=");
    const char* sources = strstr(m->provenance, " sources=");
    if (seed) ok = ok && cJSON_AddNumberToObject(json, "model_seed", strtod(seed + 6, NULL));
    if (sources) {
        char text[8];
        snprintf(text, sizeof text, "%.*s", (int)strspn(sources + 9, "FI"), sources + 9);
        ok = ok && cJSON_AddStringToObject(json, "sources", text);
    }
    return ok;
}

// Likewise the model of the arm lewm.
static int add_lewm(const firm_model* m, const char* path, cJSON* json) {
    cJSON* lewm = cJSON_AddObjectToObject(json, "lewm");
    const char *seed = strstr(m->provenance, " seed="),
               *updates = strstr(m->provenance, " updates=");
    int ok = lewm && put(lewm, "model", path ? cJSON_CreateString(path) : cJSON_CreateNull()) &&
             cJSON_AddStringToObject(lewm, "provenance", m->provenance);
    if (seed) ok = ok && cJSON_AddNumberToObject(lewm, "model_seed", strtod(seed + 6, NULL));
    if (updates) ok = ok && cJSON_AddNumberToObject(lewm, "updates", strtod(updates + 9, NULL));
    return ok;
}

static firm_status header_json(const evaluation* e, cJSON* json, firm_error* err) {
    const eval_params* p = e->p;
    const plan_options* o = &e->setup.options;
    cJSON* plan;
    int ok =
        cJSON_AddStringToObject(json, "task", p->spec->task.name) &&
        put(json, "model",
            p->model_path ? cJSON_CreateString(p->model_path) : cJSON_CreateNull()) &&
        cJSON_AddStringToObject(json, "mode", p->mode == FIRM_MODE_REACH ? "reach" : "contract") &&
        cJSON_AddStringToObject(json, "solver", plan_solver_name(e->setup.options.solver)) &&
        cJSON_AddNumberToObject(json, "offset", p->offset) &&
        cJSON_AddNumberToObject(json, "trials", e->trials->count) &&
        cJSON_AddNumberToObject(json, "budget", 2 * p->offset) &&
        cJSON_AddNumberToObject(json, "seed", (double)p->seed) &&
        (!p->planner_seed ||
         cJSON_AddNumberToObject(json, "planner_seed", (double)*p->planner_seed)) &&
        cJSON_AddStringToObject(json, "trials_from",
                                p->draw != TRIAL_FRESH && (p->data || p->set)
                                    ? "validation episodes"
                                    : "fresh episodes") &&
        (!p->draw || cJSON_AddStringToObject(json, "draw", eval_draw_name(p->draw))) &&
        cJSON_AddBoolToObject(json, "unsolved_only", p->unsolved) &&
        cJSON_AddNumberToObject(json, "goals_shown", goals_shown(e)) &&
        add_hex(json, "trials_hash", eval_trials_hash(e->trials)) &&
        add_hex(json, "data_hash", e->data->hash) &&
        json_add_number(json, "deadline_ms", p->deadline_ms > 0 ? p->deadline_ms : NAN, 6) &&
        json_add_number(json, "seconds_limit", p->seconds > 0 ? p->seconds : NAN, 6) &&
        cJSON_AddStringToObject(json, "device",
                                e->setup.device == FIRM_DEVICE_CUDA ? "cuda" : "cpu") &&
        cJSON_AddStringToObject(json, "precision",
                                plan_precision_name((plan_precision)p->precision)) &&
        cJSON_AddNumberToObject(json, "batch", e->gpu || e->lewm_gpu ? e->batch : 1) &&
        (plan = cJSON_AddObjectToObject(json, "plan")) &&
        cJSON_AddNumberToObject(plan, "candidates", o->candidates) &&
        cJSON_AddNumberToObject(plan, "iterations", o->iterations) &&
        cJSON_AddNumberToObject(plan, "elites", o->elites) &&
        cJSON_AddNumberToObject(plan, "horizon", o->horizon) &&
        cJSON_AddNumberToObject(plan, "horizon_max", o->horizon_max) &&
        cJSON_AddNumberToObject(plan, "replan", o->replan);
    // of a single model these do nothing
    if (p->model && p->model->members)
        ok = ok && json_add_number(plan, "ensemble_price", o->ensemble_price, 6) &&
             json_add_number(plan, "ensemble_quantile", o->ensemble_quantile, 6);
    if (p->model) ok = ok && add_model(p->model, json);
    if (p->lewm) ok = ok && add_lewm(p->lewm, p->lewm_path, json);
    cJSON* start = ok ? cJSON_AddArrayToObject(json, "start_rows") : NULL;
    cJSON* solved = ok ? cJSON_AddArrayToObject(json, "start_solved") : NULL;
    for (int i = 0; start && solved && i < e->trials->count; i++) {
        const eval_trial* t = &e->trials->trial[i];
        ok = ok && cJSON_AddItemToArray(start, cJSON_CreateNumber((double)t->row)) &&
             cJSON_AddItemToArray(solved, cJSON_CreateNumber(t->solved));
    }
    return ok && start && solved ? FIRM_OK : no_memory(err);
}

// What pieces must agree on: trials, model, mode, planner and every setting.
static firm_status note_what(evaluation* e, const cJSON* header, firm_error* err) {
    if (!e->p->pieces) return FIRM_OK;
    char* text = cJSON_PrintUnformatted(header);
    if (!text) return no_memory(err);
    const uint64_t settings = config_hash(e->p->settings);
    e->of =
        stats_hash(stats_hash(STATS_HASH_START, text, strlen(text)), &settings, sizeof settings);
    cJSON_free(text);
    return FIRM_OK;
}

static firm_status run_arms(evaluation* e, cJSON* arms, cJSON* traces, firm_error* err) {
    double cost = 0;
    for (int i = 0; i < e->arms; i++) cost += arm_cost(e, &e->arm[i]);
    progress_run_begin(cost);
    firm_status status = FIRM_OK;
    for (int i = 0; i < e->arms && status == FIRM_OK; i++) {
        status = run_arm(e, &e->arm[i], i == 0 ? traces : NULL, err);
        if (status == FIRM_OK) status = arm_json(e, &e->arm[i], arms, err);
    }
    progress_run_end();
    return status;
}

static firm_status run_all(evaluation* e, cJSON* json, cJSON* traces, firm_error* err) {
    TRY(prepare(e, err));
    // every arm is opened once before the first long one runs, so that a mistake shows at once
    for (int i = 0; i < e->arms; i++) {
        eval_arm* arm;
        TRY(eval_arm_create(e->arm[i].name, &e->setup, &arm, err));
        eval_arm_free(arm);
    }
    TRY(header_json(e, json, err));
    TRY(note_what(e, json, err));
    cJSON* arms = cJSON_AddObjectToObject(json, "arms");
    if (!arms) return no_memory(err);
    TRY(run_arms(e, arms, traces, err));
    TRY(pairs_json(e, json, err));
    return json_add_number(json, "seconds", clock_seconds() - e->begun, 5) ? FIRM_OK
                                                                           : no_memory(err);
}

firm_status eval_run(const eval_params* p, cJSON** result, cJSON** traces, firm_error* err) {
    evaluation e = {.p = p, .begun = clock_seconds()};
    cJSON *json = cJSON_CreateObject(), *record = traces ? cJSON_CreateArray() : NULL;
    firm_status status =
        json && (record || !traces) ? run_all(&e, json, record, err) : no_memory(err);
    for (int i = 0; i < e.arms; i++) {
        mem_free(e.arm[i].outcome);
        mem_free(e.arm[i].success);
        mem_free(e.arm[i].hash);
        eval_times_free(&e.arm[i].times);
        eval_times_free(&e.arm[i].late);
    }
    plan_gpu_free(e.gpu);
    lewm_gpu_free(e.lewm_gpu);
    frames_free(e.pictures);
    eval_trials_free(e.trials);
    data_split_free(&e.split);
    episodes_free(e.fresh);
    pool_free(e.threads);
    if (status != FIRM_OK) {
        cJSON_Delete(json);
        cJSON_Delete(record);
        json = record = NULL;
    }
    *result = json;
    if (traces) *traces = record;
    return status;
}
