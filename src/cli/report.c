// report.c - `firm report RUN... -o DIR`: one HTML page with tables, figures and moving pictures.
#include "report/report.h"

#include "cli/cli.h"

static const arg_option options[] = {
    {"output", 'o', ARG_TEXT, 0, 0, NULL, NULL, "DIR", "folder of the page"},
};

static void show(const cJSON* j) {
    printf("%s\n", cJSON_GetObjectItemCaseSensitive(j, "page")->valuestring);
}

static firm_status run(const args* a, firm_error* err) {
    const char* folder;
    char page[1024];
    TRY(cli_required(a, "output", &folder, err));
    TRY(report_write(a->positional, a->positionals, folder, page, err));
    cJSON* json = cJSON_CreateObject();
    if (json && !cJSON_AddStringToObject(json, "page", page)) {
        cJSON_Delete(json);
        json = NULL;
    }
    return cli_finish(a, json, show, err);
}

const cli_command cli_report = {
    "report",
    "report RUN... -o DIR",
    "turn runs and results into one page",
    "RUN is a run folder (train.json, metrics.csv, eval-*.json, trace-*.json, ...) or one\n"
    "JSON file made by another command.\n",
    options,
    sizeof options / sizeof *options,
    1,
    ARGS_MAX_VALUES,
    run};
