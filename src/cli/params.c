// params.c - `firm params [TASK]`: deployed parameters by module beside the paper's.
#include "cli/cli.h"
#include "model/model.h"
#include "report/paper.h"
#include "train/shape.h"

static void show(const cJSON* json) {
    const cJSON *task, *m;
    cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(json, "tasks")) {
        printf("%s\n  module        ours      paper     difference\n",
               paper_task_title(task->string));
        cJSON_ArrayForEach(m, task) {
            double ours = json_get(m, "params", 0), paper = json_get(m, "paper_params", 0);
            printf("  %-12s %8.3fM", m->string, ours * 1e-6);
            if (paper > 0)
                printf(" %8.3fM     %+.2f %%\n", paper * 1e-6, 100.0 * (ours / paper - 1.0));
            else
                printf("        -\n");
        }
    }
}

static int add_module(cJSON* task, const char* name, size_t count, double paper_millions) {
    cJSON* m = cJSON_AddObjectToObject(task, name);
    // a task that the paper does not have has no such number
    return m && cJSON_AddNumberToObject(m, "params", (double)count) &&
           (paper_millions > 0 ? json_add_number(m, "paper_params", paper_millions * 1e6, 9) != NULL
                               : cJSON_AddNullToObject(m, "paper_params") != NULL);
}

static firm_status add_task(const args* a, const env_spec* spec, cJSON* tasks, firm_error* err) {
    config* settings;
    model_shape shape;
    firm_model* model;
    TRY(cli_settings(a, &spec->task, NULL, &settings, err));
    model_shape_read(settings, &shape);
    config_free(settings);
    TRY(model_create(&spec->task, &shape, 0, 0, &model, err));
    model_params n = model_count(model);
    firm_model_free(model);
    static const paper_params none = {0};
    const paper_params* paper = paper_find_params(spec->task.name);
    if (!paper) paper = &none;
    cJSON* t = cJSON_AddObjectToObject(tasks, spec->task.name);
    int ok = t && add_module(t, "frontend", n.frontend, paper->frontend) &&
             add_module(t, "grounder", n.grounder, paper->grounder) &&
             add_module(t, "transition", n.transition, paper->transition) &&
             add_module(t, "total", n.total, paper->total);
    return ok ? FIRM_OK : cli_no_memory(err);
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* only = NULL;
    if (a->positionals) TRY(cli_task(a, 0, &only, err));
    cJSON* json = cJSON_CreateObject();
    cJSON* tasks = json ? cJSON_AddObjectToObject(json, "tasks") : NULL;
    firm_status status = tasks ? FIRM_OK : cli_no_memory(err);
    if (only && status == FIRM_OK) status = add_task(a, only, tasks, err);
    for (int i = 0; status == FIRM_OK && !only && env_at(i); i++)
        status = add_task(a, env_at(i), tasks, err);
    if (status == FIRM_OK) return cli_finish(a, json, show, err);
    cJSON_Delete(json);
    return status;
}

const cli_command cli_params = {
    "params", "params [TASK]", "count parameters by module, beside the paper's", "", NULL, 0, 0, 1,
    run};
