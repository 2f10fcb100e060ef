// report.c - `firm report RUN... -o DIR`: one HTML page with tables, figures and moving pictures,
// and with --markdown the tables beside the paper's as a small text file.
#include "report/report.h"

#include "cli/cli.h"

static const arg_option options[] = {
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "DIR", "folder of the page"},
    {"markdown", 0, ARG_OUTPUT, 0, 0, NULL, NULL, "FILE.md",
     "the tables beside the paper's as Markdown; -o may be left out then"},
    {"lines", 0, ARG_OUTPUT, 0, 0, NULL, NULL, "DIR",
     "all results as DIR/results-TASK.jsonl; later RUNs replace results of the same name"},
};

static void show(const cJSON* j) {
    static const char* const keys[] = {"page", "markdown"};
    for (int i = 0; i < 2; i++) {
        const cJSON* path = cJSON_GetObjectItemCaseSensitive(j, keys[i]);
        if (cJSON_IsString(path)) printf("%s\n", path->valuestring);
    }
    const cJSON* file;
    cJSON_ArrayForEach(file, cJSON_GetObjectItemCaseSensitive(j, "lines"))
        printf("%s\n", file->valuestring);
}

static int add_path(cJSON* json, const char* key, const char* path) {
    return path ? cJSON_AddStringToObject(json, key, path) != NULL
                : cJSON_AddNullToObject(json, key) != NULL;
}

static firm_status run(const args* a, firm_error* err) {
    const char *folder = args_text(a, "output"), *markdown = args_text(a, "markdown"),
               *lines = args_text(a, "lines");
    char page[1024];
    cJSON* files = NULL;
    if (!markdown && !lines) TRY(cli_required(a, "output", &folder, err));
    if (markdown) TRY(cli_check_output(markdown, err));
    if (folder) TRY(report_write(a->positional, a->positionals, folder, page, err));
    if (markdown) TRY(report_markdown(a->positional, a->positionals, markdown, err));
    if (lines) TRY(report_lines(a->positional, a->positionals, lines, &files, err));
    cJSON* json = cJSON_CreateObject();
    int ok = json && add_path(json, "page", folder ? page : NULL) &&
             add_path(json, "markdown", markdown);
    if (ok && files) {
        ok = cJSON_AddItemToObject(json, "lines", files);
        if (ok) files = NULL;
    }
    cJSON_Delete(files);
    if (!ok) {
        cJSON_Delete(json);
        json = NULL;
    }
    return cli_finish(a, json, show, err);
}

const cli_command cli_report = {
    "report",
    "report RUN... -o DIR [--markdown FILE.md --lines DIR]",
    "turn runs and results into one page",
    "RUN is a run folder (train.json, metrics.csv, eval-*.json, trace-*.json, ...), the folder\n"
    "of a study, a folder of results named like docs/results or kept as results-TASK.jsonl, or "
    "one\n"
    "JSON file.\n",
    options,
    sizeof options / sizeof *options,
    1,
    ARGS_MAX_VALUES,
    run};
