// arms_test.c - running trials: what the arms can do, budgets, traces, and results that depend
// neither on threads nor on the order of trials.
#include "eval/arms.h"

#include "check.h"
#include "core/clock.h"
#include "env/env.h"
#include "eval/arm_trial.h"
#include "eval/eval.h"
#include "eval/settings.h"
#include "model/model.h"
#include "report/trace.h"
#include "train/shape.h"

typedef struct stage {
    const env_spec* spec;
    episodes* data;
    eval_trials* trials;
    frames* pictures;
    config* settings;
    firm_model* model;
} stage;

static int stage_open(stage* s, int trials, int offset) {
    firm_error err;
    *s = (stage){.spec = env_find("tworoom")};
    collect_options collect = {.episodes = 60, .seed = 11};
    trial_options draw = {
        .count = trials, .offset = offset, .seed = 2, .unsolved = 1, .split = NULL, .training = 0};
    model_shape shape;
    int ok = settings_load(&s->spec->task, "smoke", NULL, 0, &s->settings, &err) == FIRM_OK &&
             episodes_collect(s->spec, &collect, NULL, &s->data, &err) == FIRM_OK &&
             eval_trials_draw(s->data, &draw, &s->trials, &err) == FIRM_OK &&
             frames_open(s->data, 1, 0, &s->pictures, &err) == FIRM_OK;
    if (ok) {
        model_shape_read(s->settings, &shape);
        ok = model_create(&s->spec->task, &shape, 0, 5, &s->model, &err) == FIRM_OK;
    }
    if (!ok) test_fail(__FILE__, __LINE__, "%s", err.message);
    return ok;
}

static void stage_close(stage* s) {
    frames_free(s->pictures);
    eval_trials_free(s->trials);
    episodes_free(s->data);
    config_free(s->settings);
    firm_model_free(s->model);
}

static eval_arm* make_arm(const stage* s, const char* name, firm_mode mode, int threads) {
    firm_error err;
    float mean[2] = {0, 0}, deviation[2] = {0.7f, 0.7f};
    eval_setup setup = {.spec = s->spec,
                        .model = s->model,
                        .threads = threads,
                        .seed = 3,
                        .fan = 4,
                        .actions = plan_actions_of(&s->spec->task, mean, deviation)};
    eval_arm* arm = NULL;
    if (eval_plan_options(s->settings, mode, 0, 0, 0, &setup.options, &err) != FIRM_OK ||
        eval_arm_create(name, &setup, &arm, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return arm;
}

static int run_all(const stage* s, eval_arm* arm, eval_outcome* out) {
    firm_error err;
    int reached = 0;
    for (int i = 0; i < s->trials->count; i++) {
        if (eval_arm_run(arm, s->trials, s->pictures, i, &out[i], NULL, NULL, &err) != FIRM_OK) {
            test_fail(__FILE__, __LINE__, "trial %d: %s", i, err.message);
            return -1;
        }
        reached += out[i].success;
        EXPECT(out[i].steps >= 1 && out[i].steps <= 2 * s->trials->offset);
        EXPECT(out[i].success == (out[i].closest < 1.0f));
        if (!out[i].success) EXPECT_INT(out[i].steps, 2 * s->trials->offset);
        EXPECT(out[i].hash == s->trials->trial[i].hash);
    }
    return reached;
}

TEST(eval, oracle_reaches_what_random_does_not) {
    stage s;
    eval_outcome out[30];
    if (stage_open(&s, 30, 40)) {
        eval_arm* oracle = make_arm(&s, "oracle-dynamics", FIRM_MODE_REACH, 2);
        eval_arm* random = make_arm(&s, "random", FIRM_MODE_REACH, 2);
        if (oracle && random) {
            int reached = run_all(&s, oracle, out), solves = 0;
            EXPECT(reached >= 29);
            // a new plan for every macro action of 5 controls
            for (int i = 0; i < 30; i++) solves += out[i].solves == (out[i].steps + 4) / 5;
            EXPECT_INT(solves, 30);
            int by_chance = run_all(&s, random, out);
            EXPECT(by_chance <= 10);
            EXPECT_INT(out[0].solves, 0);
        }
        eval_arm_free(oracle);
        eval_arm_free(random);
    }
    stage_close(&s);
}

static void same_outcomes(const eval_outcome* a, const eval_outcome* b, int n) {
    for (int i = 0; i < n; i++) {
        EXPECT_INT(a[i].success, b[i].success);
        EXPECT_INT(a[i].steps, b[i].steps);
        EXPECT(a[i].closest == b[i].closest);
    }
}

// The learned arms run with random weights here: what is tested is the loop, not the model.
TEST(eval, outcomes_do_not_depend_on_threads_or_order) {
    enum { N = 5 };
    static const char* const names[] = {"firm", "oracle-config", "oracle-dynamics", "random"};
    stage s;
    firm_error err;
    if (stage_open(&s, N, 25))
        for (int k = 0; k < 4; k++)
            for (int mode = 0; mode < 2; mode++) {
                eval_outcome one[N], two[N], back[N];
                eval_arm *a = make_arm(&s, names[k], (firm_mode)mode, 1),
                         *b = make_arm(&s, names[k], (firm_mode)mode, 2);
                if (a && b && run_all(&s, a, one) >= 0 && run_all(&s, b, two) >= 0) {
                    same_outcomes(one, two, N);
                    for (int i = N - 1; i >= 0; i--)
                        if (eval_arm_run(a, s.trials, s.pictures, i, &back[i], NULL, NULL, &err) !=
                            FIRM_OK)
                            test_fail(__FILE__, __LINE__, "%s", err.message);
                    same_outcomes(one, back, N);
                }
                eval_arm_free(a);
                eval_arm_free(b);
            }
    stage_close(&s);
}

// One trial with its record; the caller deletes it. NULL if it failed.
static cJSON* record_of(const stage* s, eval_arm* arm, int trial, eval_outcome* o) {
    eval_trace t = {0};
    firm_error err;
    if (eval_arm_run(arm, s->trials, s->pictures, trial, o, NULL, &t, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        eval_trace_free(&t);
        return NULL;
    }
    return t.json;
}

static const cJSON* frames_of(const cJSON* record) {
    return cJSON_GetObjectItemCaseSensitive(record, "frames");
}

// Two trials with the same start and goal: each draws its own noise, and draws it again alike.
TEST(eval, every_trial_has_noise_of_its_own) {
    static const char* const names[] = {"firm", "oracle-config", "oracle-dynamics", "random"};
    stage s;
    if (stage_open(&s, 2, 25)) {
        s.trials->trial[1] = s.trials->trial[0];
        for (int k = 0; k < 4; k++) {
            eval_arm* arm = make_arm(&s, names[k], FIRM_MODE_CONTRACT, 1);
            if (!arm) continue;
            cJSON* first[3];
            eval_outcome o;
            for (int i = 0; i < 3; i++) {
                cJSON* record = record_of(&s, arm, i % 2, &o);
                const cJSON* frame = cJSON_GetArrayItem(frames_of(record), 0);
                first[i] = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(frame, "action"), 1);
                cJSON_Delete(record);
            }
            EXPECT(cJSON_GetArraySize(first[0]) == s.spec->task.action_dim);
            EXPECT(!cJSON_Compare(first[0], first[1], 1));
            EXPECT(cJSON_Compare(first[0], first[2], 1));
            for (int i = 0; i < 3; i++) cJSON_Delete(first[i]);
            eval_arm_free(arm);
        }
    }
    stage_close(&s);
}

// The record's true distances tell how near a trial came: the least after any control, not
// the last.
TEST(eval, closest_is_the_least_distance_after_a_control) {
    enum { N = 6 };
    stage s;
    int turned_back = 0;
    if (stage_open(&s, N, 25)) {
        eval_arm* arm = make_arm(&s, "random", FIRM_MODE_REACH, 1);
        for (int i = 0; arm && i < N; i++) {
            eval_outcome o = {0};
            cJSON* record = record_of(&s, arm, i, &o);
            const cJSON* frame;
            double least = INFINITY, last = INFINITY, start = NAN;
            cJSON_ArrayForEach(frame, frames_of(record)) {
                const cJSON* d = cJSON_GetObjectItemCaseSensitive(frame, "true_distance");
                double units = cJSON_GetArrayItem(d, 0)->valuedouble / 16;  // px
                if (isnan(start)) {
                    start = units;
                    continue;
                }
                last = units;
                if (units < least) least = units;
            }
            EXPECT_NEAR(o.closest, least, 1e-3);
            turned_back += last > least + 0.1;
            cJSON_Delete(record);
        }
        EXPECT(turned_back > 0);
        eval_arm_free(arm);
    }
    stage_close(&s);
}

// Contract mode executes all 25 controls of a plan before the next solve.
TEST(eval, contract_solves_twice_a_trial) {
    stage s;
    eval_outcome out[6];
    if (stage_open(&s, 6, 25)) {
        static const char* const names[] = {"firm", "oracle-dynamics"};
        for (int k = 0; k < 2; k++) {
            eval_arm* arm = make_arm(&s, names[k], FIRM_MODE_CONTRACT, 1);
            if (arm && run_all(&s, arm, out) >= 0)
                for (int i = 0; i < 6; i++) EXPECT_INT(out[i].solves, out[i].steps > 25 ? 2 : 1);
            eval_arm_free(arm);
        }
    }
    stage_close(&s);
}

TEST(eval, trace_reads_back) {
    stage s;
    firm_error err;
    if (stage_open(&s, 2, 25)) {
        static const char* const names[] = {"firm", "oracle-dynamics", "random"};
        for (int k = 0; k < 3; k++) {
            eval_arm* arm = make_arm(&s, names[k], FIRM_MODE_REACH, 1);
            eval_trace t = {0};
            eval_outcome o;
            trace read;
            if (!arm) continue;
            if (eval_arm_run(arm, s.trials, s.pictures, 1, &o, NULL, &t, &err) != FIRM_OK ||
                trace_read(t.json, "trace", &read, &err) != FIRM_OK) {
                test_fail(__FILE__, __LINE__, "%s", err.message);
            } else {
                EXPECT_TEXT(read.task, "tworoom");
                EXPECT_TEXT(read.arm, names[k]);
                EXPECT_INT(read.success, o.success);
                EXPECT_INT(read.frame_count, o.steps + 1);
                EXPECT_INT(read.width, 224);
                EXPECT_INT(read.goal_count, 1);
                EXPECT_NEAR(read.ring, 16, 0);
                // the goal's ring stands where the goal's agent is
                const double* goal = s.data->state + 2 * s.trials->trial[1].goal;
                EXPECT_NEAR(read.goal_xy[0][0], goal[0], 0.01);
                EXPECT_NEAR(read.goal_xy[0][1], goal[1], 0.01);
                EXPECT_INT(read.plan_count, o.solves);
                const trace_frame* last = &read.frames[read.frame_count - 1];
                // the true distance tells the outcome; firm's own comes from pixels and may differ
                const cJSON* shot = cJSON_GetArrayItem(
                    cJSON_GetObjectItemCaseSensitive(t.json, "frames"), read.frame_count - 1);
                const cJSON* truth =
                    cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(shot, "true_distance"), 0);
                EXPECT_INT(truth->valuedouble < 16, o.success);
                if (k > 0) EXPECT_NEAR(last->distance[0], truth->valuedouble, 1e-3);
                if (k < 2) {
                    EXPECT(read.frames[0].solved && read.plans[0].path && read.plans[0].fan);
                    EXPECT_INT(cJSON_GetArraySize(read.plans[0].fan), 4);
                }
                trace_free(&read);
            }
            eval_trace_free(&t);
            eval_arm_free(arm);
        }
    }
    stage_close(&s);
}

TEST(eval, arms_refuse_what_they_cannot_do) {
    stage s;
    firm_error err;
    if (stage_open(&s, 1, 25)) {
        eval_setup setup = {.spec = s.spec};
        eval_arm* arm;
        EXPECT_INT(eval_arm_create("firn", &setup, &arm, &err), FIRM_E_USAGE);
        EXPECT(strstr(err.message, "oracle-dynamics") != NULL);
        EXPECT_INT(eval_arm_create("firm", &setup, &arm, &err), FIRM_E_USAGE);
        EXPECT(strstr(err.message, "--model") != NULL);
        eval_params p = {.spec = s.spec,
                         .settings = s.settings,
                         .trials = 5,
                         .offset = 25,
                         .arms = "random,random"};
        cJSON* json;
        EXPECT_INT(eval_run(&p, &json, NULL, &err), FIRM_E_USAGE);
        p.arms = "random,";
        EXPECT_INT(eval_run(&p, &json, NULL, &err), FIRM_E_USAGE);
        p.arms = "";
        EXPECT_INT(eval_run(&p, &json, NULL, &err), FIRM_E_USAGE);
    }
    stage_close(&s);
}

TEST(eval, result_has_its_keys) {
    stage s;
    firm_error err;
    cJSON *json = NULL, *traces = NULL;
    if (stage_open(&s, 1, 25)) {
        eval_params p = {.spec = s.spec,
                         .model = s.model,
                         .model_path = "m",
                         .settings = s.settings,
                         .data = s.data,
                         .mode = FIRM_MODE_REACH,
                         .trials = 8,
                         .offset = 25,
                         .seed = 1,
                         .threads = 1,
                         .traces = 2,
                         .arms = "oracle-dynamics,firm,random"};
        if (eval_run(&p, &json, &traces, &err) != FIRM_OK) {
            test_fail(__FILE__, __LINE__, "%s", err.message);
        } else {
            static const char* const top[] = {"task",   "model", "mode", "offset",
                                              "trials", "arms",  "pairs"};
            static const char* const per_arm[] = {"successes",
                                                  "success_rate",
                                                  "ci95",
                                                  "solved_at_start",
                                                  "success_rate_unsolved",
                                                  "seconds_per_episode",
                                                  "ms_per_solve",
                                                  "outcomes"};
            for (int i = 0; i < 7; i++) EXPECT(cJSON_HasObjectItem(json, top[i]));
            cJSON *arms = cJSON_GetObjectItem(json, "arms"), *arm, *o;
            EXPECT_INT(cJSON_GetArraySize(arms), 3);
            EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItem(json, "pairs")), 3);
            cJSON_ArrayForEach(arm, arms) {
                for (int i = 0; i < 8; i++) EXPECT(cJSON_HasObjectItem(arm, per_arm[i]));
                cJSON* outcomes = cJSON_GetObjectItem(arm, "outcomes");
                int sum = 0;
                cJSON_ArrayForEach(o, outcomes) sum += o->valueint;
                EXPECT_INT(cJSON_GetArraySize(outcomes), 8);
                EXPECT_NEAR(json_get(arm, "successes", -1), sum, 0);
                EXPECT_NEAR(json_get(arm, "success_rate", -1), 100.0 * sum / 8, 1e-6);
                // Wilson's interval: (k + z^2/2 -+ z sqrt(k (n - k) / n + z^2/4)) / (n + z^2)
                double z = 1.959964, half = z * sqrt(sum * (8 - sum) / 8.0 + z * z / 4);
                cJSON* ci = cJSON_GetObjectItem(arm, "ci95");
                for (int i = 0; i < 2; i++)
                    EXPECT_NEAR(cJSON_GetArrayItem(ci, i)->valuedouble,
                                100 * (sum + z * z / 2 + (i ? half : -half)) / (8 + z * z), 1e-3);
            }
            cJSON* pair;
            cJSON_ArrayForEach(pair, cJSON_GetObjectItem(json, "pairs")) {
                const char* name[2] = {cJSON_GetObjectItem(pair, "a")->valuestring,
                                       cJSON_GetObjectItem(pair, "b")->valuestring};
                double won[2], net = json_get(pair, "rescue", 0) - json_get(pair, "harm", 0);
                for (int i = 0; i < 2; i++)
                    won[i] = json_get(cJSON_GetObjectItem(arms, name[i]), "successes", -1);
                EXPECT_NEAR(won[0] - won[1], net, 0);
                EXPECT_NEAR(json_get(pair, "difference", NAN), 100 * net / 8, 1e-4);
            }
            EXPECT_INT(cJSON_GetArraySize(traces), 2);
        }
        cJSON_Delete(json);
        cJSON_Delete(traces);
    }
    stage_close(&s);
}

// A goal image in which the agent is outside says so: nobody can read it.
TEST(eval, goals_that_are_not_shown_are_counted) {
    enum { TRIALS = 4, HIDDEN = 1, OFFSET = 2 };
    const env_spec* spec = env_find("pusht");
    firm_error err;
    trial_set* set;
    cJSON* json = NULL;
    config* settings;
    if (!spec) {
        test_skip("Push-T is not built in");
        return;
    }
    REQUIRE_OK(trial_set_create(spec, TRIALS, &set, &err), err);
    set->offset = OFFSET;
    for (int i = 0; i < TRIALS; i++) {
        set->row[i] = 100 * i;
        set->draw[i] = i;
        for (int r = 0; r < TRIAL_ROWS; r++) {
            const double state[7] = {256, 256, 320, 320, 0, 0, 0};
            double* to = set->rows->state + (i * TRIAL_ROWS + r) * spec->state->dim;
            memcpy(to, state, sizeof state);
            if (r == TRIAL_ROWS - 1) to[0] = i < HIDDEN ? 600 : 100 + 50 * i;
        }
    }
    for (int k = 0; k < spec->task.action_dim; k++) set->action_std[k] = 1;
    REQUIRE_OK(settings_load(&spec->task, NULL, NULL, 0, &settings, &err), err);
    eval_params p = {.spec = spec,
                     .settings = settings,
                     .set = set,
                     .trials = TRIALS,
                     .offset = OFFSET,
                     .threads = 1,
                     .arms = "random"};
    if (eval_run(&p, &json, NULL, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    EXPECT_INT((int)json_get(json, "goals_shown", -1), TRIALS - HIDDEN);
    cJSON_Delete(json);
    config_free(settings);
    trial_set_free(set);
}

static int64_t deadline_given;

static firm_status note_deadline(eval_arm* arm, int64_t deadline_ns, firm_step* step) {
    (void)arm;
    *step = (firm_step){0};
    deadline_given = deadline_ns;
    return FIRM_OK;
}

// A decision's time runs from the moment its frame came, so that perception counts.
TEST(eval, a_deadline_counts_from_the_frame) {
    const arm_ops ops = {.name = "noting", .act = note_deadline};
    eval_outcome out = {0};
    eval_arm arm = {.ops = &ops, .setup = {.deadline_ms = 20}};
    arm_trial t = {.arm = &arm, .out = &out};
    firm_error err = {0};
    arm.seen_ns = clock_ns() - 5000000;
    REQUIRE_OK(arm_trial_decide(&t, NULL, &err), err);
    EXPECT(deadline_given == arm.seen_ns + 20000000);
    arm.seen_ns = 0;  // an arm without frames: from now
    int64_t before = clock_ns();
    REQUIRE_OK(arm_trial_decide(&t, NULL, &err), err);
    EXPECT(deadline_given >= before + 20000000 && deadline_given <= clock_ns() + 20000000);
}
