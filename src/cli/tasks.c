// tasks.c - `firm tasks`: what there is to plan in.
#include "cli/cli.h"

static void show(const cJSON* json) {
    const cJSON* t;
    cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(json, "tasks")) {
        printf("%-9s %s\n", cJSON_GetObjectItemCaseSensitive(t, "name")->valuestring,
               cJSON_GetObjectItemCaseSensitive(t, "title")->valuestring);
        const cJSON* d;
        printf("          action %g, configuration:", json_get(t, "action_dim", 0));
        cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(t, "config"))
            printf(" %s", d->valuestring);
        printf("; reached when");
        int first = 1;
        cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(t, "distances")) {
            printf("%s %s < %g %s", first ? "" : " and",
                   cJSON_GetObjectItemCaseSensitive(d, "name")->valuestring,
                   json_get(d, "tolerance", 0),
                   cJSON_GetObjectItemCaseSensitive(d, "unit")->valuestring);
            first = 0;
        }
        const cJSON* model = cJSON_GetObjectItemCaseSensitive(t, "model");
        const cJSON* policies = cJSON_GetObjectItemCaseSensitive(t, "policies");
        printf("\n          %s", cJSON_GetArraySize(policies) ? "policies:" : "no simulator");
        cJSON_ArrayForEach(d, policies)
            printf(" %s (%s)", cJSON_GetObjectItemCaseSensitive(d, "name")->valuestring,
                   cJSON_GetObjectItemCaseSensitive(d, "title")->valuestring);
        printf("\n          %s\n", cJSON_IsString(model) ? model->valuestring : "no shipped model");
    }
}

static int describe(const env_spec* spec, cJSON* list) {
    cJSON* t = cJSON_CreateObject();
    if (!t || !cJSON_AddItemToArray(list, t)) {
        cJSON_Delete(t);
        return 0;
    }
    int ok = cJSON_AddStringToObject(t, "name", spec->task.name) &&
             cJSON_AddStringToObject(t, "title", spec->title) &&
             cJSON_AddNumberToObject(t, "action_dim", spec->task.action_dim) &&
             cJSON_AddNumberToObject(t, "state_dim", spec->state->dim) &&
             cJSON_AddNumberToObject(t, "chi_dim", spec->task.chi_dim) &&
             cJSON_AddNumberToObject(t, "image_size", spec->task.image) &&
             cJSON_AddNumberToObject(t, "default_episodes", spec->collection->episodes);
    cJSON *names = cJSON_AddArrayToObject(t, "config"),
          *distances = cJSON_AddArrayToObject(t, "distances");
    for (int i = 0; names && i < spec->task.config_dim; i++)
        ok = ok && cJSON_AddItemToArray(names, cJSON_CreateString(spec->task.config_name[i]));
    for (int i = 0; distances && i < spec->task.distances; i++) {
        cJSON* d = cJSON_CreateObject();
        ok = ok && d && cJSON_AddStringToObject(d, "name", spec->task.distance[i].name) &&
             cJSON_AddStringToObject(d, "unit", spec->task.distance[i].unit) &&
             json_add_number(d, "tolerance", spec->task.distance[i].tolerance, 6);
        ok = cJSON_AddItemToArray(distances, d) && ok;
    }
    cJSON* policies = cJSON_AddArrayToObject(t, "policies");
    for (int i = 0; policies && i < spec->collection->policies; i++) {
        cJSON* d = cJSON_CreateObject();
        ok = ok && d && cJSON_AddStringToObject(d, "name", spec->collection->policy[i].name) &&
             cJSON_AddStringToObject(d, "title", spec->collection->policy[i].title);
        ok = cJSON_AddItemToArray(policies, d) && ok;
    }
    char path[1024];
    firm_error ignored;  // no model for a task is an answer here
    if (cli_shipped_model(spec, path, &ignored) == FIRM_OK)
        ok = ok && cJSON_AddStringToObject(t, "model", path);
    else
        ok = ok && cJSON_AddNullToObject(t, "model");
    return ok && names && distances && policies;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* only = NULL;
    if (a->positionals) TRY(cli_task(a, 0, &only, err));
    cJSON* json = cJSON_CreateObject();
    cJSON* list = json ? cJSON_AddArrayToObject(json, "tasks") : NULL;
    int ok = list != NULL;
    if (ok && only) ok = describe(only, list);
    for (int i = 0; ok && !only && env_at(i); i++) ok = describe(env_at(i), list);
    if (!ok) {
        cJSON_Delete(json);
        return cli_no_memory(err);
    }
    return cli_finish(a, json, show, err);
}

const cli_command cli_tasks = {"tasks",
                               "tasks [TASK]",
                               "list the tasks of this build, or describe one",
                               "TASK is one of the list, or the path of a plug-in: ./task.so\n",
                               NULL,
                               0,
                               0,
                               1,
                               run};
