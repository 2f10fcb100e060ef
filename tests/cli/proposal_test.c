// proposal_test.c - `firm intervene --proposal NAME` and the switches that are short for it.
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
