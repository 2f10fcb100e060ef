// whole_path_test.c - the miniature study: collect, intervene, audit, train, evaluate, plan,
// export, report and demo with the smoke settings, every JSON result checked for its keys; runs
// that are repeated with other threads, or killed and resumed, give the same bytes.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/json.h"
#include "program.h"

static const char arm_keys[] =
    "successes success_rate ci95 solved_at_start success_rate_unsolved success_rate_shown "
    "seconds_per_episode "
    "ms_per_solve outcomes";

static void check_eval(const cJSON* json, int arms) {
    EXPECT_KEYS(json, "task model mode offset trials arms");
    const cJSON* arm;
    int n = 0;
    cJSON_ArrayForEach(arm, cJSON_GetObjectItemCaseSensitive(json, "arms")) {
        EXPECT_KEYS(arm, arm_keys);
        double rate = json_get(arm, "success_rate", -1);
        EXPECT(rate >= 0 && rate <= 100);
        EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(arm, "outcomes")),
                   json_get(json, "trials", -1));
        n++;
    }
    EXPECT_INT(n, arms);
}

TEST(cli, whole_path) {
    char folder[512];
    const cJSON* s;
    cJSON* j;
    fresh_folder(folder);
    if ((j = JSON_OF(
             firm_run(folder, 0, "collect tworoom -o f.h5 --episodes 80 --seed 4 --json")))) {
        EXPECT_KEYS(j, "task episodes rows mean_rows solved_at_offset seconds");
        EXPECT_NEAR(json_get(j, "episodes", 0), 80, 0);
        EXPECT_NEAR(json_get(j, "mean_rows", 0), 92, 12);
        // a file describes itself as its collection did
        cJSON* d = JSON_OF(firm_run(folder, 0, "describe tworoom --data f.h5 --json"));
        static const char* const same[] = {"seed",        "episodes",         "rows",
                                           "mean_rows",   "min_rows",         "max_rows",
                                           "ended",       "solved_at_offset", "within_tolerances",
                                           "action_mean", "action_std",       "state"};
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
            const cJSON *a = cJSON_GetObjectItemCaseSensitive(j, same[i]),
                        *b = cJSON_GetObjectItemCaseSensitive(d, same[i]);
            if (!a || !b || !cJSON_Compare(a, b, 1))
                test_fail(__FILE__, __LINE__, "collect and describe differ in '%s'", same[i]);
        }
        cJSON_Delete(d);
        EXPECT(strstr(firm_run(folder, 0, "describe tworoom --data f.h5")->out, "pos_agent[1]"));
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(
             firm_run(folder, 0,
                      "intervene tworoom --data f.h5 -o i.h5 --anchors 20 --branches 4 --json")))) {
        EXPECT_NEAR(json_get(j, "anchors", 0), 20, 0);
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(firm_run(folder, 0, "audit tworoom --data f.h5 --json")))) {
        EXPECT_KEYS(j, "task anchors h5_mean h5_p95 max pass paper");
        EXPECT_KEYS(cJSON_GetObjectItemCaseSensitive(j, "paper"), "h5_mean h5_p95 max");
        EXPECT(json_get(j, "max", -1) == 0 &&
               cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "pass")));
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(firm_run(
             folder, 0,
             "train tworoom --data f.h5 --branches i.h5 -o run --config smoke --seed 2 --json")))) {
        EXPECT_KEYS(j, "task seed device stages seconds model");
        EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "stages")), 5);
        cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(j, "stages"))
            EXPECT_KEYS(s, "name updates seconds gate gate_limit pass");
        cJSON_Delete(j);
    }
    static const char* const modes[] = {"contract", "reach"};
    for (int i = 0; i < 2; i++) {
        j = JSON_OF(
            firm_run(folder, 0,
                     "eval tworoom --model run/model.safetensors --data f.h5 --trials 10 --mode %s "
                     "--traces 1 --candidates 32 --iterations 3 "
                     "--arms firm,oracle-config,oracle-dynamics,random -o run/eval-%s.json --json",
                     modes[i], modes[i]));
        if (!j) continue;
        check_eval(j, 4);
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "mode")->valuestring, modes[i]);
        // the file holds the same object
        firm_error err;
        cJSON* saved;
        char path[600];
        snprintf(path, sizeof path, "%s/run/eval-%s.json", folder, modes[i]);
        if (json_read_file(path, &saved, &err) != FIRM_OK)
            test_fail(__FILE__, __LINE__, "%s", err.message);
        else
            EXPECT(cJSON_Compare(j, saved, 1));
        cJSON_Delete(saved);
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(firm_run(folder, 0, "report run -o page --json")))) {
        size_t n = 0;
        char* page = get_file(folder, cJSON_GetObjectItemCaseSensitive(j, "page")->valuestring, &n);
        EXPECT(page && n > 20000);
        if (page) page[n] = 0;
        EXPECT(page && strstr(page, "<svg") && strstr(page, "oracle-dynamics") &&
               strstr(page, "data:image/png;base64"));
        free(page);
        cJSON_Delete(j);
    }
}

TEST(cli, fresh_trials_and_half_precision) {
    const char* fix = firm_fixture();
    cJSON* j;
    char folder[512];
    fresh_folder(folder);
    if (!fix) return;
    if ((j = JSON_OF(firm_run(folder, 0,
                              "export %s/run/model.safetensors -o half.safetensors --half --json",
                              fix)))) {
        EXPECT_KEYS(j, "model task params precision");
        cJSON_Delete(j);
    }
    struct stat full, half;
    char path[700];
    snprintf(path, sizeof path, "%s/run/model.safetensors", fix);
    EXPECT_INT(stat(path, &full), 0);
    snprintf(path, sizeof path, "%s/half.safetensors", folder);
    EXPECT_INT(stat(path, &half), 0);
    EXPECT(half.st_size < full.st_size * 2 / 3);
    for (int i = 0; i < 2; i++) {
        j = JSON_OF(firm_run(folder, 0,
                             "eval tworoom --model half.safetensors --trials 6 --offset 40 --mode "
                             "reach --candidates 24 --iterations 3 --threads %d --json",
                             i + 1));
        if (!j) continue;
        check_eval(j, 1);
        // the trials and outcomes do not depend on the threads
        static char first[4096];
        cJSON* arm =
            cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(j, "arms"), "firm");
        char* now = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(arm, "closest"));
        if (i == 0)
            snprintf(first, sizeof first, "%s", now);
        else
            EXPECT_TEXT(now, first);
        cJSON_free(now);
        cJSON_Delete(j);
    }
}

// A search that would take minutes ends in the time it is given, on every trial.
TEST(cli, eval_in_limited_time) {
    const char* fix = firm_fixture();
    if (!fix) return;
    cJSON* j = JSON_OF(firm_run(
        fix, 0,
        "eval tworoom --data f.h5 --arms oracle-dynamics,random --trials 3 --iterations 10000 "
        "--candidates 3000 --seconds 2 --json --quiet"));
    if (!j) return;
    check_eval(j, 2);
    const cJSON* arm = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(j, "arms"),
                                                        "oracle-dynamics");
    EXPECT(json_get(arm, "late_solves", 0) >= 1);
    EXPECT_NEAR(json_get(j, "seconds_limit", 0), 2, 0);
    EXPECT(json_get(j, "seconds", 1e9) < 20);  // generous: the machine may be busy
    cJSON_Delete(j);
}

TEST(cli, plan_from_pictures) {
    const char* fix = firm_fixture();
    cJSON* j;
    if (!fix) return;
    j = JSON_OF(firm_run(
        fix, 0,
        "plan tworoom --model run/model.safetensors --frames frame-0.png frame-1.png frame-2.png "
        "--actions '0.8,0;0.8,0' --goal frame-3.png --mode contract --json"));
    if (j) {
        EXPECT_KEYS(j, "task mode action distances arrival path plan solve_ms");
        EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "plan")), 25);
        EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "path")), 6);
        EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "action")), 2);
        cJSON_Delete(j);
    }
    // one frame is enough, and a deadline is kept to
    j = JSON_OF(firm_run(
        fix, 0,
        "plan tworoom --model run/model.safetensors --frames frame-0.png --goal frame-3.png "
        "--deadline-ms 0.001 --json"));
    if (j) {
        EXPECT(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "late")));
        cJSON_Delete(j);
    }
    EXPECT_INT(
        firm_run(
            fix, 0,
            "plan tworoom --model run/model.safetensors --frames frame-0.png --goal frame-3.png")
            ->code,
        0);
}

TEST(cli, demo_leaves_a_page) {
    const char* fix = firm_fixture();
    char folder[512];
    fresh_folder(folder);
    if (!fix) return;
    const outcome* o = firm_run(
        folder, 0,
        "demo tworoom --model %s/run/model.safetensors --trials 3 --set plan.reach_candidates=40 "
        "--set plan.reach_iterations=3 --quiet",
        fix);
    EXPECT_INT(o->code, 0);
    EXPECT(!o->err[0]);
    // the last line is the page's path
    static const char wanted[] = "\ndemo/tworoom/index.html\n";
    size_t n = strlen(o->out);
    EXPECT_TEXT(n > strlen(wanted) ? o->out + n - strlen(wanted) : o->out, wanted);
    char* page = get_file(folder, "demo/tworoom/index.html", &n);
    EXPECT(page != NULL && n > 10000);
    free(page);
}

TEST(cli, tables_and_benches) {
    cJSON* j;
    const cJSON *t, *m;
    if ((j = JSON_OF(firm_run("/", 0, "tasks --json")))) {
        EXPECT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "tasks")) >= 1);
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(firm_run("/", 0, "params tworoom --json")))) {
        t = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(j, "tasks"),
                                             "tworoom");
        EXPECT_KEYS(t, "frontend grounder transition total");
        cJSON_ArrayForEach(m, t) {
            double ours = json_get(m, "params", 0), paper = json_get(m, "paper_params", 1);
            EXPECT_NEAR(ours / paper, 1, 0.02);
        }
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(firm_run("/", 0, "bench env --seconds 0.1 --json")))) {
        EXPECT_KEYS(j, "task threads steps_per_s");
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(firm_run("/", 0, "bench render tworoom --seconds 0.1 --threads 1 --json")))) {
        EXPECT_KEYS(j, "task renderer threads frames_per_s gl_frames_per_s ratio psnr_db");
        cJSON_Delete(j);
    }
    if ((j = JSON_OF(
             firm_run("/", 0, "bench train tworoom --config smoke --seconds 0.1 --json")))) {
        EXPECT_KEYS(j,
                    "task device threads frontend_frames_per_s recurrent_updates_per_s "
                    "fma_gflops fraction_of_fma_frontend fraction_of_fma_recurrent");
        cJSON_Delete(j);
    }
}

// Nothing is allocated between creating a controller and freeing it, by whatever library.
TEST(cli, a_solve_allocates_nothing) {
    cJSON* j = JSON_OF(
        firm_run("/", 0, "bench plan tworoom --set plan.contract_iterations=2 --repeats 3 --json"));
    if (!j) return;
    EXPECT_KEYS(j,
                "task device threads precision ms_per_solve gflops peak_gflops fraction_of_peak "
                "fma_gflops fraction_of_fma allocations");
    double fma = json_get(j, "fma_gflops", 0);
    EXPECT(fma > 0);
    EXPECT_NEAR(json_get(j, "fraction_of_fma", 0), json_get(j, "gflops", 0) / fma, 1e-3);
    EXPECT_NEAR(json_get(j, "allocations", -1), 0, 0);
    EXPECT_NEAR(json_get(j, "perception_allocations", -1), 0, 0);
    cJSON_Delete(j);
}

// The precision reaches every planner on the CPU: where the processor lacks it, each refuses.
TEST(cli, precision_reaches_the_planner) {
    setenv("FIRM_SIMD", "avx2", 1);
    EXPECT_REFUSAL(firm_run("/", 0, "eval tworoom --trials 1 --precision bf16 --quiet"), "eval",
                   "AVX512-BF16");
    EXPECT_REFUSAL(firm_run("/", 0, "bench plan tworoom --precision bf16 --quiet"), "bench",
                   "AVX512-BF16");
    unsetenv("FIRM_SIMD");
    EXPECT_REFUSAL(firm_run("/", 0, "eval tworoom --trials 1 --precision tf32 --quiet"), "eval",
                   "fp32 or bf16");
}

// ---- the same bytes -----------------------------------------------------------------------------

static void train_line(char* line, size_t room, const char* fix, const char* run, int threads,
                       const char* more) {
    snprintf(line, room,
             "train tworoom --data %s/f.h5 --branches %s/i.h5 -o %s --config smoke --seed 7 "
             "--set train.frame_pool=48 --set stage.grounder.anchor=0.1 --threads %d --quiet %s",
             fix, fix, run, threads, more);
}

TEST(cli, training_gives_the_same_bytes) {
    char folder[512], line[2048];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    train_line(line, sizeof line, fix, "one", 1, "");
    EXPECT_INT(firm_run(folder, 0, "%s", line)->code, 0);
    train_line(line, sizeof line, fix, "two", 2, "");
    EXPECT_INT(firm_run(folder, 0, "%s", line)->code, 0);
    size_t n, k;
    char* first = get_file(folder, "one/model.safetensors", &n);
    char* second = get_file(folder, "two/model.safetensors", &k);
    EXPECT(first && second && n == k && memcmp(first, second, n) == 0);
    free(second);

    // killed as soon as a checkpoint is there, again and again, and resumed to the end; the third
    // one lies within the stage that remembers the tokens it began with
    char path[700];
    snprintf(path, sizeof path, "%s/killed/checkpoint.safetensors", folder);
    int kills = 0;
    for (int round = 0; round < 3; round++) {
        train_line(line, sizeof line, fix, "killed", 2, round ? "--resume" : "");
        struct stat s, old = {0};
        stat(path, &old);
        pid_t child = firm_start(folder, line);
        int status = 0, done = 0;
        for (int wait = 0; wait < 2000 && !done; wait++) {
            usleep(5000);
            done = waitpid(child, &status, WNOHANG) == child;
            // a new checkpoint since this round began: it is a new file, so it has another inode or
            // time
            if (!done && stat(path, &s) == 0 &&
                (s.st_ino != old.st_ino || s.st_mtim.tv_nsec != old.st_mtim.tv_nsec ||
                 s.st_mtim.tv_sec != old.st_mtim.tv_sec))
                break;
        }
        if (!done) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
        kills += WIFSIGNALED(status);
    }
    EXPECT(kills >= 1);
    train_line(line, sizeof line, fix, "killed", 1, "--resume");
    EXPECT_INT(firm_run(folder, 0, "%s", line)->code, 0);
    char* resumed = get_file(folder, "killed/model.safetensors", &k);
    EXPECT(first && resumed && n == k && memcmp(first, resumed, n) == 0);
    free(first);
    free(resumed);
}

TEST(cli, intervene_counts_come_from_settings) {
    const char* fix = firm_fixture();
    if (!fix) return;
    char folder[512];
    fresh_folder(folder);
    static const char line[] =
        "intervene tworoom --data %s/f.h5 --mixed --set intervene.mixed_anchors=5 --set "
        "intervene.mixed_branches=3 %s -o m.h5 --json --quiet";
    for (int given = 0; given < 2; given++) {  // a flag comes before a setting
        cJSON* j = JSON_OF(firm_run(folder, 0, line, fix, given ? "--anchors 4" : ""));
        if (!j) return;
        EXPECT_NEAR(json_get(j, "anchors", 0), given ? 4 : 5, 0);
        EXPECT_NEAR(json_get(j, "per_anchor", 0), 3, 0);
        cJSON_Delete(j);
    }
}

// a study's evaluations without the wait
#define SMALL_SEARCHES                                                \
    "--set plan.reach_candidates=24 --set plan.reach_iterations=2 "   \
    "--set plan.contract_candidates=24 --set plan.contract_elites=4 " \
    "--set plan.contract_iterations=3"

TEST(cli, reproduce_resumes) {
    char folder[512];
    fresh_folder(folder);
    static const char study[] =
        "reproduce --tasks tworoom --seeds 1 --config smoke --episodes 60 --trials 4 --fresh 3 "
        "--near -o study " SMALL_SEARCHES " --threads 1";
    char line[600];
    snprintf(line, sizeof line, "%s --json --quiet", study);
    cJSON* j = JSON_OF(firm_run(folder, 0, "%s", line));
    if (!j) return;
    EXPECT_KEYS(j, "estimated_seconds page");
    // collect, describe, audit, four files of trials, intervene, params, random twice, the true
    // simulator twice, train, eight evaluations
    EXPECT_NEAR(json_get(j, "done", 0), 22, 0);
    cJSON_Delete(j);
    size_t n;
    char* page = get_file(folder, "study/report/index.html", &n);
    EXPECT(page != NULL);
    free(page);
    char path[700];
    snprintf(path, sizeof path, "%s/study/tworoom/seed-1/eval-reach-50.json", folder);
    EXPECT_INT(unlink(path), 0);
    // started again, it says at once what is left, from the speeds it knows: here those of a
    // machine that needs 10^8 ms for a plan
    char* speeds = get_file(folder, "study/speeds.json", &n);
    cJSON* known = speeds ? cJSON_Parse(speeds) : NULL;
    cJSON* of_task = cJSON_GetObjectItemCaseSensitive(known, "tworoom");
    EXPECT(json_get(of_task, "reach_ms", 0) > 0);
    cJSON_ReplaceItemInObjectCaseSensitive(of_task, "reach_ms", cJSON_CreateNumber(1e8));
    char* slow = cJSON_PrintUnformatted(known);
    put_file(folder, "study/speeds.json", slow, strlen(slow));
    const outcome* o = firm_run(folder, 0, "%s --plan-only", study);
    EXPECT(o->code == 0 && strstr(o->err,
                                  "study: 21 of 22 steps are there\n"
                                  "left: about 1333.3 hours\n  1 eval 1333.3 hours\n"));
    // the estimate of all steps counts those that are left once, and those that are there too: the
    // other evaluation in reach mode, of the trials 25 controls away, with two arms
    if ((j = JSON_OF(firm_run(folder, 0, "%s --plan-only", line)))) {
        EXPECT(json_get(j, "estimated_seconds", 0) > 2 * 1333.3 * 3600);
        cJSON_Delete(j);
    }
    free(speeds);
    cJSON_free(slow);
    cJSON_Delete(known);
    if ((j = JSON_OF(firm_run(folder, 0, "%s --no-estimate", line)))) {
        const cJSON* by_command = cJSON_GetObjectItemCaseSensitive(j, "command_seconds");
        EXPECT(json_get(by_command, "eval", -1) >= 0 && cJSON_GetArraySize(by_command) == 1);
        EXPECT(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "estimated_seconds")));
        EXPECT_NEAR(json_get(j, "done", 0), 1, 0);
        EXPECT_NEAR(json_get(j, "skipped", 0), 21, 0);
        cJSON_Delete(j);
    }
    char* tables = get_file(folder, "study/report/report.md", &n);
    EXPECT(tables && strstr(tables, "| TwoRoom | main | contract, 25 | 1 |") &&
           !strstr(tables, "Reacher") && !strstr(tables, "not run"));
    // the same tables alone, without a page
    if ((j = JSON_OF(firm_run(folder, 0, "report study --markdown again.md --json --quiet")))) {
        EXPECT(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "page")));
        char* again = get_file(folder, "again.md", &n);
        EXPECT(tables && again && strcmp(tables, again) == 0);
        free(again);
        cJSON_Delete(j);
    }
    free(tables);
}

// A seed trained beside another is the same model as alone, and a step that fails says why.
TEST(cli, reproduce_side_by_side) {
    char folder[512];
    size_t n = 0, k = 0;
    fresh_folder(folder);
    char line[1024];
    const int steps = test_short() ? 19 : 24;  // a seed: a training and four evaluations
    snprintf(line, sizeof line,
             "reproduce --tasks tworoom --seeds %s --config smoke --episodes 60 --trials 2 "
             "--oracle-minutes 0 --fresh 0 --near " SMALL_SEARCHES
             " --json --quiet -o s --jobs 2 --no-estimate",
             test_short() ? "1,2" : "1,2,3");
    cJSON* j = JSON_OF(firm_run(folder, 0, "%s", line));
    if (!j) return;
    EXPECT_NEAR(json_get(j, "done", 0), steps, 0);
    EXPECT_NEAR(json_get(j, "jobs", 0), 2, 0);
    EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "step_seconds")), steps);
    // evaluations of the first seed are begun after the training of the last
    const cJSON* step;
    int at = 0, training = -1, evaluation = -1;
    cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(j, "steps")) {
        if (strncmp(step->valuestring, "firm train", 10) == 0) training = at;
        if (strncmp(step->valuestring, "firm eval", 9) == 0 && evaluation < 0) evaluation = at;
        at++;
    }
    EXPECT(training >= 0 && training < evaluation);
    cJSON_Delete(j);
    EXPECT_INT(firm_run(folder, 0,
                        "train tworoom --data s/tworoom/episodes.h5 --branches "
                        "s/tworoom/branches.h5 -o alone --seed 2 --config smoke " SMALL_SEARCHES
                        " --quiet")
                   ->code,
               0);
    char* alone = get_file(folder, "alone/model.safetensors", &n);
    char* beside = get_file(folder, "s/tworoom/seed-2/model.safetensors", &k);
    EXPECT(alone && beside && n == k && memcmp(alone, beside, n) == 0);
    free(alone);
    free(beside);
    // a model that is none: the evaluation that reads it fails, and so does the study
    put_file(folder, "s/tworoom/seed-2/model.safetensors", "no model", 8);
    char path[700];
    snprintf(path, sizeof path, "%s/s/tworoom/seed-2/eval-contract-25.json", folder);
    EXPECT_INT(unlink(path), 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "%s", line), "reproduce", "seed-2/model.safetensors");
}

#ifdef FIRM_MUJOCO
static int steps_with(const cJSON* j, const char* text) {
    const cJSON* step;
    int n = 0;
    cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(j, "steps")) {
        n += strstr(step->valuestring, text) != NULL;
    }
    return n;
}
#endif

// The paper's ablations are runs of the whole chain: named here, too long to run.
TEST(cli, reproduce_says_what_it_would_do) {
#ifdef FIRM_MUJOCO
    char folder[512];
    fresh_folder(folder);
    static const char line[] =
        "reproduce --tasks reacher --seeds 1,2 --plan-only --json "
        "--quiet --config smoke-reacher --oracle-minutes 0 --no-estimate";
    cJSON* j = JSON_OF(firm_run(folder, 0, "%s", line));
    if (!j) return;
    // two seeds on both sources and on either one, and two ablations with the first seed
    EXPECT_INT(steps_with(j, "firm train reacher --pack"), 8);
    EXPECT_INT(steps_with(j, "--pictures --ablations -o"), 1);
    EXPECT_INT(
        steps_with(j, "/reacher/ablation-F-seed-2 --seed 2 --device cpu --resume --sources F"), 1);
    EXPECT_INT(
        steps_with(j, "/reacher/ablation-I-seed-1 --seed 1 --device cpu --resume --sources I"), 1);
    EXPECT_INT(steps_with(j, "ablation-no-fiber-seed-1 --seed 1 --device cpu --resume --no-fiber"),
               1);
    EXPECT_INT(steps_with(j, "ablation-mismatch-seed-1 --seed 1 --device cpu --resume --mismatch"),
               1);
    EXPECT_INT(steps_with(j, "ablation-mismatch-seed-2"), 0);
    EXPECT_INT(steps_with(j, "ablation-F-seed-1/eval-contract-25.json"), 1);
    EXPECT_INT(steps_with(j, "oracle-dynamics"), 0);  // no minute was given to it
    EXPECT_INT(folder_entries(folder, NULL, 0), 0);   // nothing was made
    cJSON_Delete(j);
    // more on top of each seed's run, from the same episodes
    static const char plus[] =
        "reproduce --tasks cube --seeds 2 --plan-only --json --quiet --plus "
        "--no-ablations --config smoke-cube --oracle-minutes 0 --no-estimate -o s";
    if (!(j = JSON_OF(firm_run(folder, 0, "%s", plus)))) return;
    EXPECT_INT(steps_with(j, "firm train cube"), 5);
    EXPECT_INT(steps_with(j,
                          "firm intervene cube --data s/cube/episodes.h5 -o "
                          "s/cube-plus/branches.h5 --mixed --seed 1"),
               1);
    EXPECT_INT(steps_with(j,
                          "-o s/cube-plus/structured.h5 --planned --model "
                          "s/cube/seed-2/model.safetensors --seed 2"),
               1);
    EXPECT_INT(
        steps_with(j, "--structured s/cube-plus/structured.h5 -o s/cube-plus/first-2 --seed 2"), 1);
    // what came of its first model's plans is learned from, too
    EXPECT_INT(steps_with(j, "firm trials cube --data s/cube/episodes.h5 --training --unsolved"),
               1);
    EXPECT_INT(steps_with(j, "--pack s/cube-plus/pack-0.h5 --seed 1 --model s/cube-plus/first-2/"),
               1);
    EXPECT_INT(steps_with(j,
                          "--pack s/cube-plus/pack-1.h5 --init "
                          "s/cube-plus/first-2/checkpoint.safetensors --from belief -o "
                          "s/cube-plus/seed-2 --seed 2"),
               1);
    // models of the plus settings carry the study's episodes
    EXPECT_INT(steps_with(j, "--resume --recordings s/cube/episodes.h5"), 4);
    // two modes and three distances, on the study's trials and on fresh ones
    EXPECT_INT(steps_with(j, "-o s/cube-plus/seed-2/eval-"), 12);
    EXPECT_INT(steps_with(j, "-o s/cube-plus/seed-2/eval-fresh-reach-100.json"), 1);
    EXPECT_INT(steps_with(j,
                          "firm trials cube --draw fresh --unsolved --trials 200 --offset 100 -o "
                          "s/cube/fresh-100.h5"),
               1);
    EXPECT_INT(steps_with(j, "--trials-file s/cube/fresh-100.h5"), 6);
    EXPECT_INT(steps_with(j, "--searched"), 0);
    // two further transitions on the frontend of the seed's first model, and all three as one
    EXPECT_INT(steps_with(j,
                          "--pack s/cube-plus/pack-1.h5 --init "
                          "s/cube-plus/first-2/checkpoint.safetensors --from belief -o "
                          "s/cube-plus/ensemble-2/member-1 --seed 201"),
               1);
    EXPECT_INT(steps_with(j,
                          "firm export s/cube-plus/seed-2/model.safetensors --member "
                          "s/cube-plus/ensemble-2/member-1/model.safetensors --member "
                          "s/cube-plus/ensemble-2/member-2/model.safetensors -o "
                          "s/cube-plus/ensemble-2/model.safetensors"),
               1);
    EXPECT_INT(steps_with(j, "--model s/cube-plus/ensemble-2/model.safetensors"), 12);
    EXPECT_INT(steps_with(j, "-o s/cube/ensemble"), 0);
    cJSON_Delete(j);
    if (!(j = JSON_OF(firm_run(folder, 0, "%s --near --fresh 0", plus)))) return;
    EXPECT_INT(steps_with(j, "--model s/cube-plus/ensemble-2/model.safetensors"), 4);
    EXPECT_INT(steps_with(j, "--offset 100"), 0);
    cJSON_Delete(j);
    // without attempts the members are on the frontend of the seed's own model
    if (!(j = JSON_OF(firm_run(folder, 0,
                               "reproduce --tasks pusht --seeds 3,1 --plan-only --json --quiet "
                               "--plus --oracle-minutes 0 --no-estimate -o s"))))
        return;
    EXPECT_INT(steps_with(j,
                          "--pack s/pusht-plus/pack.h5 --init "
                          "s/pusht-plus/seed-3/checkpoint.safetensors --from history -o "
                          "s/pusht-plus/ensemble-3/member-2 --seed 302"),
               1);
    EXPECT_INT(steps_with(j, "firm export s/pusht-plus/seed-"), 2);
    cJSON_Delete(j);
    // with searches, which the attempts are then added to; and with more settings than words of a
    // study's own
    char many[512] = "";
    for (int i = 0; i < 24; i++) strcat(many, " --set train.lanes=8");
    if (!(j = JSON_OF(firm_run(folder, 0, "%s --set intervene.searched=30%s", plus, many)))) return;
    EXPECT_INT(steps_with(j, "--from belief -o s/cube-plus/pack-recorded.h5"), 1);
    EXPECT_INT(steps_with(j, "--unsolved --trials 30 --seed 20 -o s/cube-plus/moments-0.h5"), 1);
    EXPECT_INT(steps_with(j,
                          "firm intervene cube --searched --moments s/cube-plus/moments-0.h5 "
                          "--pack s/cube-plus/pack-recorded.h5 -o s/cube-plus/pack-0.h5"),
               1);
    EXPECT_INT(steps_with(j, "--pack s/cube-plus/pack-0.h5 --seed 1 --model s/cube-plus/first-2/"),
               1);
    cJSON_Delete(j);
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}
