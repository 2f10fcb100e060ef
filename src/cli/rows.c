// rows.c - `firm rows TASK --data F.h5`: an episodes file as plain bytes for a program without
// HDF5, and with -o the way back. The Python package runs it.
#include "data/rows.h"

#include "cli/cli.h"
#include "data/frames.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5", "recorded episodes to read"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "F.h5", "the file to write from standard input"},
};

static void show(const cJSON* j) {
    printf("%s: %.0f episodes, %.0f rows\n",
           cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, "episodes", 0),
           json_get(j, "rows", 0));
}

static firm_status record(const args* a, const env_spec* spec, const char* path, firm_error* err) {
    episodes* e;
    TRY(cli_check_output(path, err));
    TRY(rows_record(spec, path, stdin, &e, err));
    cJSON* j = cJSON_CreateObject();
    if (j && !(cJSON_AddStringToObject(j, "task", spec->task.name) &&
               cJSON_AddStringToObject(j, "file", path) &&
               cJSON_AddNumberToObject(j, "episodes", e->count) &&
               cJSON_AddNumberToObject(j, "rows", (double)e->rows))) {
        cJSON_Delete(j);
        j = NULL;
    }
    episodes_free(e);
    return cli_finish(a, j, show, err);
}

static firm_status serve(const args* a, const env_spec* spec, firm_error* err) {
    episodes* e;
    pool* p = NULL;
    frames* f = NULL;
    const char* path;
    TRY(cli_required(a, "data", &path, err));
    TRY(cli_read_data(a, spec, &e, err));
    firm_status status = pool_create((int)args_int(a, "threads"), &p, err);
    if (status == FIRM_OK) status = frames_open(e, pool_threads(p), 0, &f, err);
    if (status == FIRM_OK) status = rows_serve(path, e, f, p, stdin, stdout, err);
    frames_free(f);
    pool_free(p);
    episodes_free(e);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char* path = args_text(a, "output");
    TRY(cli_task(a, 0, &spec, err));
    if (path && args_given(a, "data"))
        return FAIL(err, FIRM_E_USAGE, "--data reads rows and -o writes them; give one of them");
    return path ? record(a, spec, path, err) : serve(a, spec, err);
}

const cli_command cli_rows = {
    "rows",
    "rows TASK --data F.h5\n"
    "       firm rows TASK -o F.h5",
    "exchange episodes with another program, as plain bytes",
    "With --data one line of JSON says what the file holds. Then the command answers every line\n"
    "of standard input, NAME FIRST COUNT, with the number of bytes and the bytes.\n"
    "With -o it reads the rows to write from standard input. docs/formats.md, \"Rows\", has the\n"
    "words.\n",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
