// trials_test.c - trials as a file, from the command line: the outcomes are those of the data set,
// flags that contradict the file and models that may know its trials are refused.
#define _GNU_SOURCE  // unlink
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json.h"
#include "program.h"

// What depends on the clock, and nothing else, may differ.
static void drop_times(cJSON* json) {
    static const char* const keys[] = {"seconds", "seconds_per_episode", "ms_per_solve",
                                       "ms_per_solve_mean", "seconds_ratio"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(json, keys[i]);
    cJSON* item;
    cJSON_ArrayForEach(item, json) if (cJSON_IsObject(item) || cJSON_IsArray(item))
        drop_times(item);
}

// Evaluates with both; everything but times must be equal, outcomes and hashes included.
static void expect_equal(const char* folder, const char* task, const char* data, const char* file,
                         const char* flags) {
    cJSON* a =
        JSON_OF(firm_run(folder, 0, "eval %s --data %s %s --json --quiet", task, data, flags));
    cJSON* b = JSON_OF(
        firm_run(folder, 0, "eval %s --trials-file %s %s --json --quiet", task, file, flags));
    if (a && b) {
        EXPECT_KEYS(b, "trials_from trials_hash data_hash start_rows offset seed arms");
        drop_times(a);
        drop_times(b);
        char *x = cJSON_Print(a), *y = cJSON_Print(b);
        EXPECT_TEXT(y, x);
        cJSON_free(x);
        cJSON_free(y);
    }
    cJSON_Delete(a);
    cJSON_Delete(b);
}

TEST(cli, trials_file_equals_data) {
    char folder[512], data[600], flags[800];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    snprintf(data, sizeof data, "%s/f.h5", fix);
    cJSON* j = JSON_OF(
        firm_run(folder, 0, "trials tworoom --data %s --trials 8 -o t.h5 --json --quiet", data));
    EXPECT_KEYS(j,
                "task file trials offset unsolved_only seed split_seed episodes solved_at_start "
                "trials_hash data_hash");
    cJSON_Delete(j);
    static const char* const modes[] = {"contract", "reach"};
    for (int i = 0; i < 2; i++) {
        // with a model, and all arms
        snprintf(flags, sizeof flags,
                 "--model %s/run/model.safetensors --mode %s --trials 8 --candidates 24 "
                 "--iterations 3 --arms firm,oracle-config,oracle-dynamics,random",
                 fix, modes[i]);
        expect_equal(folder, "tworoom", data, "t.h5", flags);
        // without one the data's action statistics count; fewer trials than the file has
        snprintf(flags, sizeof flags,
                 "--mode %s --trials 5 --candidates 24 --iterations 3 --arms oracle-dynamics",
                 modes[i]);
        expect_equal(folder, "tworoom", data, "t.h5", flags);
    }
    EXPECT_INT(firm_run(folder, 0,
                        "trials tworoom --data %s --trials 4 --offset 40 --unsolved --seed 5 -o "
                        "u.h5 --quiet",
                        data)
                   ->code,
               0);
    expect_equal(folder, "tworoom", data, "u.h5",
                 "--trials 4 --offset 40 --unsolved --seed 5 --arms random");
    // all of it, and its own offset and seed, where no flag says otherwise
    j = JSON_OF(firm_run(folder, 0, "eval tworoom --trials-file u.h5 --arms random --json"));
    const cJSON* n = cJSON_GetObjectItemCaseSensitive(j, "trials");
    EXPECT(cJSON_IsNumber(n) && n->valueint == 4);
    n = cJSON_GetObjectItemCaseSensitive(j, "offset");
    EXPECT(cJSON_IsNumber(n) && n->valueint == 40);
    EXPECT(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "unsolved_only")));
    cJSON_Delete(j);
}

// Fresh trials as a file are those that an evaluation collects for itself.
TEST(cli, fresh_trials_file_equals_fresh) {
    char folder[512];
    fresh_folder(folder);
    cJSON* t = JSON_OF(firm_run(folder, 0,
                                "trials tworoom --draw fresh --unsolved --trials 3 --offset 40 -o "
                                "t.h5 --json --quiet"));
    cJSON* a = JSON_OF(firm_run(folder, 0,
                                "eval tworoom --draw fresh --unsolved --trials 3 --offset 40 "
                                "--arms random --json --quiet"));
    cJSON* b = JSON_OF(
        firm_run(folder, 0, "eval tworoom --trials-file t.h5 --arms random --json --quiet"));
    if (t && a && b) {
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(t, "draw")->valuestring, "fresh");
        drop_times(a);
        drop_times(b);
        char *x = cJSON_Print(a), *y = cJSON_Print(b);
        EXPECT_TEXT(y, x);  // "fresh episodes" in both
        EXPECT(strstr(y, "fresh episodes") != NULL);
        cJSON_free(x);
        cJSON_free(y);
    }
    cJSON_Delete(t);
    cJSON_Delete(a);
    cJSON_Delete(b);
    EXPECT_REFUSAL(firm_run(folder, 0, "trials tworoom --draw fresh --data f.h5 -o u.h5"), "trials",
                   "leave --data out");
}

// Trials kept one by one: what is there is taken, what is missing is run, and the whole is what one
// process alone has. Pieces of something else are refused.
TEST(cli, eval_pieces) {
    char folder[512];
    fresh_folder(folder);
#define PIECES                                                                               \
    "eval tworoom --seed 5 --trials 4 --unsolved --offset 20 --arms oracle-dynamics,random " \
    "--candidates 12 --iterations 2 --json --quiet "
    cJSON* a = JSON_OF(firm_run(folder, 0, PIECES));
    cJSON* b = JSON_OF(firm_run(folder, 0, PIECES "--pieces p"));
    char path[700];
    snprintf(path, sizeof path, "%s/p/oracle-dynamics/0002/trial.json", folder);
    EXPECT_INT(unlink(path), 0);
    // one that is there is believed: here a trial that is said to have taken 39 controls
    size_t n = 0;
    char* text = get_file(folder, "p/oracle-dynamics/0001/trial.json", &n);
    cJSON* piece = text ? cJSON_Parse(text) : NULL;
    EXPECT(cJSON_SetNumberHelper(cJSON_GetObjectItemCaseSensitive(piece, "steps"), 39) == 39);
    char* changed = cJSON_Print(piece);
    cJSON* c = NULL;
    if (a && b && changed) {
        drop_times(a);
        drop_times(b);
        char *x = cJSON_Print(a), *y = cJSON_Print(b);
        EXPECT_TEXT(y, x);
        cJSON_free(x);
        cJSON_free(y);
        put_file(folder, "p/oracle-dynamics/0001/trial.json", changed, strlen(changed));
        c = JSON_OF(firm_run(folder, 0, PIECES "--pieces p"));
    }
    const cJSON* oracle = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(c, "arms"), "oracle-dynamics");
    const cJSON* steps = cJSON_GetObjectItemCaseSensitive(oracle, "controls");
    EXPECT_NEAR(cJSON_GetNumberValue(cJSON_GetArrayItem(steps, 1)), 39, 0);
    struct stat s;
    EXPECT_INT(stat(path, &s), 0);  // run again
    EXPECT_REFUSAL(firm_run(folder, 0, PIECES "--pieces p --planner-seed 6"), "eval",
                   "of another evaluation");
    EXPECT_REFUSAL(firm_run(folder, 0, PIECES "--pieces p --seconds 9"), "eval", "leave out");
    cJSON_free(changed);
    cJSON_Delete(piece);
    free(text);
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(c);
}

#ifdef FIRM_CHIPMUNK
TEST(cli, pusht_trials_file_equals_data) {
    char folder[512];
    fresh_folder(folder);
    EXPECT_INT(
        firm_run(folder, 0, "collect pusht --policy weak --episodes 12 -o f.h5 --quiet")->code, 0);
    EXPECT_INT(firm_run(folder, 0, "trials pusht --data f.h5 --trials 3 -o t.h5 --quiet")->code, 0);
    expect_equal(folder, "pusht", "f.h5", "t.h5",
                 "--trials 3 --candidates 12 --iterations 2 --arms oracle-dynamics,random");
    expect_equal(
        folder, "pusht", "f.h5", "t.h5",
        "--trials 2 --mode reach --candidates 12 --iterations 2 --arms oracle-dynamics,random");
}
#endif

// Training moments make a model's attempts, or searches, and nothing else; an evaluation's trials
// make none.
TEST(cli, attempts_from_training_moments) {
    char folder[512];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    EXPECT_INT(firm_run(folder, 0,
                        "pack tworoom --config smoke --set train.frame_pool=20 --sources F "
                        "--data %s/f.h5 -o p.h5 --quiet",
                        fix)
                   ->code,
               0);
    EXPECT_INT(
        firm_run(folder, 0, "trials tworoom --data %s/f.h5 --trials 3 -o t.h5 --quiet", fix)->code,
        0);
    EXPECT_INT(firm_run(folder, 0,
                        "trials tworoom --data %s/f.h5 --training --trials 3 -o m.h5 --quiet", fix)
                   ->code,
               0);
#define ATTEMPT "intervene tworoom --attempts --model %s/run/model.safetensors --quiet %s %s"
    cJSON* j =
        JSON_OF(firm_run(folder, 0, ATTEMPT, fix, "--pack p.h5 -o q.h5 --json", "--moments m.h5"));
    EXPECT_KEYS(j, "task file attempts reached records seed proposal seconds");
    const cJSON* made = cJSON_GetObjectItemCaseSensitive(j, "records");
    EXPECT(cJSON_IsNumber(made) && made->valueint == 9);
    cJSON_Delete(j);
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --trials-file m.h5 --arms random --quiet"),
                   "eval", "no evaluation may use");
    static const struct {
        const char *flags, *says;
    } cases[] = {
        {"--pack p.h5 --moments t.h5", "nothing may be learned from"},
        {"--pack p.h5", "--moments"},
        {"--moments m.h5", "--pack"},
        {"--moments m.h5 --pack m.h5", "no pack"},
        {"--moments m.h5 --pack p.h5 --mixed", "leave out"},
        {"--moments m.h5 --pack p.h5 --data x.h5", "leave out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT_REFUSAL(firm_run(folder, 0, ATTEMPT, fix, "-o never.h5", cases[i].flags),
                       "intervene", cases[i].says);
    EXPECT_INT(firm_run(folder, 0,
                        "trials tworoom --data %s/f.h5 --training --trials 3 --set "
                        "data.split_seed=7 -o s.h5 --quiet",
                        fix)
                   ->code,
               0);
    EXPECT_REFUSAL(firm_run(folder, 0, ATTEMPT, fix, "-o never.h5 --pack p.h5", "--moments s.h5"),
                   "intervene", "splits");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "intervene tworoom --data %s/f.h5 --moments m.h5 -o x.h5", fix),
        "intervene", "belong to --attempts");
#define SEARCH "intervene tworoom --searched --quiet --moments m.h5 --pack p.h5 %s"
    j = JSON_OF(firm_run(folder, 0, SEARCH,
                         "-o r.h5 --json --candidates 12 --set intervene.searched_iterations=2 "
                         "--set intervene.searched_kept=4"));
    EXPECT_KEYS(j, "task file searches reached records seed proposal seconds");
    made = cJSON_GetObjectItemCaseSensitive(j, "records");
    // two searches each, of two iterations, of which four are kept
    EXPECT(cJSON_IsNumber(made) && made->valueint == 2 * 3 * 2 * 4);
    cJSON_Delete(j);
    static const struct {
        const char *flags, *says;
    } wrong[] = {{"--attempts", "one after the other"},
                 {"--mixed", "leave out"},
                 {"--model x", "true simulator"},
                 {"--candidates 8 --set intervene.searched_kept=9", "no more than there are"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char flags[100];
        snprintf(flags, sizeof flags, "-o never.h5 %s", wrong[i].flags);
        EXPECT_REFUSAL(firm_run(folder, 0, SEARCH, flags), "intervene", wrong[i].says);
    }
    char names[400];
    folder_entries(folder, names, sizeof names);
    EXPECT(!strstr(names, "never"));
}

TEST(cli, trials_file_refusals) {
    char folder[512], model[600];
    size_t n;
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    snprintf(model, sizeof model, "%s/run/model.safetensors", fix);
    EXPECT_INT(
        firm_run(folder, 0, "trials tworoom --data %s/f.h5 --trials 6 -o t.h5 --quiet", fix)->code,
        0);
    static const struct {
        const char *flags, *says;
    } cases[] = {
        {"--data t.h5", "give one"},
        {"--trials 7", "more than the 6 trials of t.h5"},
        {"--offset 26", "--offset 26 contradicts t.h5"},
        {"--seed 43", "--seed 43 contradicts t.h5"},
        {"--unsolved", "--unsolved contradicts t.h5"},
        {"--set data.split_seed=7", "split with seed 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT_REFUSAL(
            firm_run(folder, 0, "eval tworoom --trials-file t.h5 --arms random --quiet %s",
                     cases[i].flags),
            "eval", cases[i].says);
    // flags that agree are fine
    EXPECT_INT(firm_run(folder, 0,
                        "eval tworoom --trials-file t.h5 --arms random --trials 6 --offset 25 "
                        "--seed 42 --quiet")
                   ->code,
               0);

    // the leak check is that of --data: the same seed, yet not the training file
    EXPECT_INT(firm_run(folder, 0, "collect tworoom -o more.h5 --episodes 70 --quiet")->code, 0);
    EXPECT_INT(
        firm_run(folder, 0, "trials tworoom --data more.h5 --trials 6 -o more-t.h5 --quiet")->code,
        0);
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval tworoom --model %s --data more.h5 --trials 6 --quiet", model),
        "eval", "may be training episodes");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval tworoom --model %s --trials-file more-t.h5 --quiet", model),
        "eval", "may be training episodes");
    // trials of another split of the training file itself
    EXPECT_INT(firm_run(folder, 0,
                        "trials tworoom --data %s/f.h5 --set data.split_seed=7 --trials 6 -o s.h5 "
                        "--quiet",
                        fix)
                   ->code,
               0);
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --model %s --trials-file s.h5 --quiet", model),
                   "eval", "may be training episodes");

    // damaged and foreign files
    char* bytes = get_file(folder, "t.h5", &n);
    if (!bytes) return;
    put_file(folder, "cut.h5", bytes, n / 2);
    free(bytes);
    put_file(folder, "text.h5", "hello", 5);
    int before = folder_entries(folder, NULL, 0);
#define REFUSED(file, says)                                                                  \
    EXPECT_REFUSAL(                                                                          \
        firm_run(folder, 0, "eval tworoom --trials-file %s --arms random -o o.json --quiet", \
                 file),                                                                      \
        "eval", says)
    REFUSED("cut.h5", "cut.h5");
    REFUSED("text.h5", "text.h5");
    REFUSED("absent.h5", "absent.h5");
    REFUSED("more.h5", "does not hold trials");
    EXPECT_REFUSAL(firm_run(folder, 0, "trials tworoom --data cut.h5 -o o.h5 --quiet"), "trials",
                   "cut.h5");
    EXPECT_REFUSAL(firm_run(folder, 0, "trials tworoom --data t.h5 -o o.h5 --quiet"), "trials",
                   "holds trials, not episodes");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "trials tworoom --data %s/f.h5 --trials 100000 -o o.h5 --quiet", fix),
        "trials", "fewer trials");
    EXPECT_REFUSAL(firm_run(folder, 0, "trials tworoom --data more.h5"), "trials",
                   "--output is missing");
    // a full disk leaves nothing
    EXPECT_REFUSAL(
        firm_run(folder, 4096, "trials tworoom --data more.h5 --trials 6 -o o.h5 --quiet"),
        "trials", "o.h5");
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
}

// a draw by its name: the file says it, an evaluation of the file and of the data are the same
TEST(cli, trials_of_a_draw) {
    char folder[512], data[600];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    snprintf(data, sizeof data, "%s/f.h5", fix);
    const char* few = "--set trials.study_trials=2 --trials 2";
    cJSON* j = JSON_OF(firm_run(
        folder, 0, "trials tworoom --data %s --draw tuning %s -o t.h5 --json --quiet", data, few));
    if (j) {
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "draw")->valuestring, "tuning");
        EXPECT_NEAR(json_get(j, "seed", 0), 7, 0);
    }
    cJSON_Delete(j);
    j = JSON_OF(firm_run(
        folder, 0, "eval tworoom --trials-file t.h5 --draw tuning --arms random --json --quiet"));
    cJSON* k = JSON_OF(
        firm_run(folder, 0, "eval tworoom --data %s --draw tuning %s --arms random --json --quiet",
                 data, few));
    if (j && k) {
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "draw")->valuestring, "tuning");
        drop_times(j);
        drop_times(k);
        EXPECT(cJSON_Compare(j, k, 1));
    }
    cJSON_Delete(j);
    cJSON_Delete(k);
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval tworoom --trials-file t.h5 --draw study --arms random"), "eval",
        "t.h5");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval tworoom --data %s --draw study --seed 3 --arms random", data),
        "eval", "--seed");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --draw tuning --arms random"), "eval",
                   "--data");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "trials tworoom --data %s --draw tuning --training -o x.h5", data),
        "trials", "--training");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "trials tworoom --data %s --draw study --trials 101 -o x.h5", data),
        "trials", "study_trials");
}
