// pack.c - `firm pack TASK --data F.h5 --branches I.h5 -o P.h5`: what training reads, in one file.
#include "cli/cli.h"
#include "core/file.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5", "recorded episodes"},
    {"branches", 0, ARG_TEXT, 0, 0, NULL, NULL, "I.h5",
     "interventions; not needed with --sources F"},
    {"structured", 0, ARG_TEXT, 0, 0, NULL, NULL, "S.h5",
     "structured interventions, for stages that have source S"},
    {"pack", 0, ARG_TEXT, 0, 0, NULL, NULL, "Q.h5",
     "an earlier pack instead of all these: with --pictures its frames are drawn, once for all "
     "runs"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "P.h5", "the file to write"},
    {"pictures", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "frames as pictures: larger, but training needs no simulator"},
    {"sources", 0, ARG_CHOICE, 0, 0, NULL, "F|I|FI", NULL, "as for firm train"},
    {"from", 0, ARG_TEXT, 0, 0, NULL, NULL, "STAGE",
     "only what this stage and later ones read, for firm train --init C --from STAGE"},
    {"ablations", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "also what runs with --sources F and I read"},
};

static void show(const cJSON* j) {
    printf("%s: %.0f frames as %s, %.0f pairs, %.1f MB\n",
           cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, "frames", 0),
           cJSON_GetObjectItemCaseSensitive(j, "frames_as")->valuestring, json_get(j, "pairs", 0),
           json_get(j, "bytes", 0) * 1e-6);
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char* path;
    config* settings = NULL;
    train_inputs in = {0};
    cJSON* json = NULL;
    TRY(cli_task(a, 0, &spec, err));
    TRY(cli_required(a, "output", &path, err));
    TRY(cli_check_output(path, err));
    train_options opt = {.threads = (int)args_int(a, "threads"),
                         .sources = args_text(a, "sources"),
                         .from = args_text(a, "from"),
                         .ablations = args_switch(a, "ablations")};
    firm_status status = cli_settings(a, &spec->task, NULL, &settings, err);
    if (status == FIRM_OK) status = cli_train_inputs(a, spec, args_text(a, "pack"), &in, err);
    if (status == FIRM_OK)
        status =
            train_pack(settings, spec, &in, &opt, args_switch(a, "pictures"), path, &json, err);
    cli_free_inputs(&in);
    config_free(settings);
    return status == FIRM_OK ? cli_finish(a, json, show, err) : status;
}

const cli_command cli_pack = {
    "pack",
    "pack TASK --data F.h5 --branches I.h5 -o P.h5 [--pictures]\n"
    "       firm pack TASK --pack Q.h5 -o P.h5 --pictures",
    "put all that training reads into one small file",
    "Records, pairs of frames and statistics for the stages of the task's settings. Frames are\n"
    "stored as states and drawn again where the file is used; with --pictures as pictures.\n",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
