// report.c - `firm report RUN... -o DIR`: one HTML page with tables, figures and moving pictures,
// and with --markdown the tables beside the paper's as a small text file.
#include "report/report.h"

#include "cli/cli.h"

static const arg_option options[] = {
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "DIR", "folder of the page"},
    {"markdown", 0, ARG_OUTPUT, 0, 0, NULL, NULL, "FILE.md",
     "the tables beside the paper's as Markdown; -o may be left out then"},
};

static void show(const cJSON* j) {
    static const char* const keys[] = {"page", "markdown"};
    for (int i = 0; i < 2; i++) {
        const cJSON* path = cJSON_GetObjectItemCaseSensitive(j, keys[i]);
        if (cJSON_IsString(path)) printf("%s\n", path->valuestring);
    }
}

static int add_path(cJSON* json, const char* key, const char* path) {
    return path ? cJSON_AddStringToObject(json, key, path) != NULL
                : cJSON_AddNullToObject(json, key) != NULL;
}

static firm_status run(const args* a, firm_error* err) {
    const char *folder = args_text(a, "output"), *markdown = args_text(a, "markdown");
    char page[1024];
    if (!markdown) TRY(cli_required(a, "output", &folder, err));
    if (markdown) TRY(cli_check_output(markdown, err));
    if (folder) TRY(report_write(a->positional, a->positionals, folder, page, err));
    if (markdown) TRY(report_markdown(a->positional, a->positionals, markdown, err));
    cJSON* json = cJSON_CreateObject();
    if (json &&
        !(add_path(json, "page", folder ? page : NULL) && add_path(json, "markdown", markdown))) {
        cJSON_Delete(json);
        json = NULL;
    }
    return cli_finish(a, json, show, err);
}

const cli_command cli_report = {
    "report",
    "report RUN... -o DIR [--markdown FILE.md]",
    "turn runs and results into one page",
    "RUN is a run folder (train.json, metrics.csv, eval-*.json, trace-*.json, ...), the folder\n"
    "of a study, a folder of results named like docs/results, or one JSON file.\n",
    options,
    sizeof options / sizeof *options,
    1,
    ARGS_MAX_VALUES,
    run};
