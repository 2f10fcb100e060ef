// proposal_test.c - `firm intervene --proposal NAME` and the switches that are short for it;
// searches in the imagination from pack to student.
#include "io/json.h"
#include "program.h"

// Names and switches give the same file; `own` is what no name gives.
TEST(cli, proposals_by_name_and_by_switch_are_the_same) {
    static const struct {
        const char *name, *other, *proposal;
    } ways[] = {{"--proposal own", "", "clipped gaussian"},
                {"--proposal mixed", "--mixed", "mixed"},
                {"--proposal planned --candidates 12", "--planned --candidates 12", "planned"}};
    const char* fix = firm_fixture();
    char folder[512], model[700];
    if (!fix) return;
    fresh_folder(folder);
    snprintf(model, sizeof model, "--model %s/run/model.safetensors", fix);
    for (int k = 0; k < 3; k++) {
        char* bytes[2];
        size_t n[2] = {0, 0};
        for (int way = 0; way < 2; way++) {
            const outcome* o = firm_run(
                folder, 0,
                "intervene tworoom --data %s/f.h5 --anchors 3 --branches 3 -o i.h5 --json %s %s",
                fix, way ? ways[k].other : ways[k].name, k == 2 ? model : "");
            EXPECT_INT(o->code, 0);
            cJSON* j = JSON_OF(o);
            if (j)
                EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "proposal")->valuestring,
                            ways[k].proposal);
            cJSON_Delete(j);
            bytes[way] = get_file(folder, "i.h5", &n[way]);
        }
        EXPECT(bytes[0] && bytes[1] && n[0] == n[1] && memcmp(bytes[0], bytes[1], n[0]) == 0);
        free(bytes[0]);
        free(bytes[1]);
    }
    EXPECT_REFUSAL(
        firm_run(folder, 0, "intervene tworoom --data %s/f.h5 -o x.h5 --proposal mixed --planned",
                 fix),
        "intervene", "two sets");
    EXPECT_REFUSAL(firm_run(folder, 0, "intervene tworoom --proposal attempts --mixed -o x.h5"),
                   "intervene", "leave out the other sets");
    EXPECT_REFUSAL(firm_run(folder, 0, "intervene tworoom --proposal clever --data f.h5 -o x.h5"),
                   "intervene", "clever");
}

// ---- imagined -----------------------------------------------------------------------------------

#define FEW "--config smoke --set train.frame_pool=40"
#define SMALL                                                                   \
    "--anchors 20 --candidates 12 --set intervene.imagined_iterations=2 --set " \
    "intervene.imagined_kept=4"

// A folder with p.h5, a pack of the fixture's data; NULL if it could not be made.
static const char* make_pack(char folder[512]) {
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return NULL;
    const outcome* o = firm_run(
        folder, 0, "pack tworoom --data %s/f.h5 --branches %s/i.h5 " FEW " -o p.h5 --quiet", fix,
        fix);
    EXPECT_INT(o->code, 0);
    return o->code == 0 ? fix : NULL;
}

// By name and by switch, with another guide, and a second set added to the first.
TEST(cli, imagined_records_are_added_to_a_pack) {
    const char* ways[] = {"--proposal imagined --pack p.h5", "--imagined --pack p.h5 --threads 3",
                          NULL, "--imagined --pack q0.h5 --seed 2"};
    char folder[512];
    const char* fix = make_pack(folder);
    if (!fix) return;
    char* bytes[4] = {0};
    size_t n[4] = {0};
    char guide[700];
    snprintf(guide, sizeof guide, "--imagined --pack p.h5 --guide %s/models/tworoom.safetensors",
             test_source_dir());
    ways[2] = guide;
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "q%d.h5", i);
        cJSON* j = JSON_OF(firm_run(folder, 0,
                                    "intervene tworoom %s --model %s/run/model.safetensors " SMALL
                                    " -o %s --json --quiet",
                                    ways[i], fix, name));
        EXPECT_NEAR(json_get(j, "searches", 0), 20, 0);
        EXPECT_NEAR(json_get(j, "records", 0), (i == 3 ? 2 : 1) * 20 * 9, 0);
        EXPECT_NEAR(json_get(j, "spread", -1), 0, 0);
        if (j)
            EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "proposal")->valuestring, "imagined");
        cJSON_Delete(j);
        bytes[i] = get_file(folder, name, &n[i]);
    }
    EXPECT(bytes[0] && bytes[1] && n[0] == n[1] && memcmp(bytes[0], bytes[1], n[0]) == 0);
    EXPECT(bytes[0] && bytes[2] && (n[0] != n[2] || memcmp(bytes[0], bytes[2], n[0]) != 0));
    for (int i = 0; i < 4; i++) free(bytes[i]);
    cJSON* j =
        JSON_OF(firm_run(folder, 0,
                         "train tworoom --pack q3.h5 " FEW " --init %s/run/model.safetensors "
                         "--from rollout-fi --set stage.rollout-fi.sources=FID --set "
                         "stage.rollout-fi.loss=F -o student --json --quiet",
                         fix));
    const cJSON* figures = cJSON_GetObjectItemCaseSensitive(j, "imagined");
    EXPECT_NEAR(json_get(figures, "records", 0), 38 * 9, 0);
    EXPECT_NEAR(json_get(figures, "held_out", 0), 2 * 9, 0);
    EXPECT_KEYS(figures, "error error_p95");
    cJSON_Delete(j);
    // a pack of these says so, with pictures, too
    j = JSON_OF(firm_run(folder, 0, "pack tworoom --pack q3.h5 " FEW " --pictures -o r.h5 --json"));
    EXPECT_NEAR(json_get(cJSON_GetObjectItemCaseSensitive(j, "records"), "imagined", 0), 40 * 9, 0);
    cJSON_Delete(j);
}

TEST(cli, imagined_records_need_what_the_pack_was_made_of) {
    char folder[512];
    const char* fix = make_pack(folder);
    if (!fix) return;
    static const char* const lines[][2] = {
        {"--model run/model.safetensors", "--pack is missing"},
        {"--pack p.h5", "--model is missing"},
        {"--pack p.h5 --model m --data f.h5", "leave out --data"},
        {"--pack p.h5 --model m --moments t.h5", "leave out --moments"},
        {"--pack p.h5 --model m --branches 4", "leave out --branches"},
        {"--pack p.h5 --model m --mixed", "leave out the other sets"},
        {"--pack p.h5 --model m", "m does not exist"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        EXPECT_REFUSAL(
            firm_run(folder, 0, "intervene tworoom --imagined %s -o q.h5 --quiet", lines[i][0]),
            "intervene", lines[i][1]);
    EXPECT_REFUSAL(firm_run(folder, 0, "intervene tworoom --data f.h5 --guide m -o q.h5"),
                   "intervene", "--guide belongs to --imagined");
    // a teacher of other episodes, or of another split, may know what the student must not
    static const char* const others[][2] = {{"--seed 9", ""},
                                            {"--seed 0", "--set data.split_seed=4"}};
    for (int i = 0; i < 2; i++) {
        EXPECT_INT(firm_run(folder, 0, "collect tworoom -o other.h5 --episodes 60 --quiet %s",
                            others[i][0])
                       ->code,
                   0);
        EXPECT_INT(firm_run(folder, 0,
                            "train tworoom --data other.h5 --sources F --config smoke %s -o "
                            "other-%d --quiet",
                            others[i][1], i)
                       ->code,
                   0);
        EXPECT_REFUSAL(firm_run(folder, 0,
                                "intervene tworoom --imagined --pack p.h5 --model "
                                "other-%d/model.safetensors " SMALL " -o q.h5 --quiet",
                                i),
                       "intervene", "may know some that are held out");
    }
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "intervene tworoom --imagined --pack p.h5 --model "
                            "%s/run/model.safetensors --candidates 8 --set "
                            "intervene.imagined_kept=9 -o q.h5 --quiet",
                            fix),
                   "intervene", "no more than there are");
}
