// describe.c - `firm describe TASK --data F.h5`: the distribution of a recorded data set in one
// table, to stand beside another's. `firm collect` adds the same figures to its own result.
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "data/stats.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5", "recorded episodes"},
    {"offset", 0, ARG_INT, 1, 100000, "25", NULL, "N", "rows between the two of a pair"},
};

// ---- as JSON ------------------------------------------------------------------------------------

static int add_list(cJSON* to, const char* key, const double* value, int n) {
    cJSON* list = cJSON_AddArrayToObject(to, key);
    for (int i = 0; list && i < n; i++)
        if (!cJSON_AddItemToArray(list, json_number(value[i], 6))) return 0;
    return list != NULL;
}

static int add_column(cJSON* all, const char* name, const data_stats* s, int at, int width) {
    cJSON* column = cJSON_AddObjectToObject(all, name);
    return column && add_list(column, "mean", s->state_mean + at, width) &&
           add_list(column, "std", s->state_std + at, width) &&
           add_list(column, "min", s->state_min + at, width) &&
           add_list(column, "max", s->state_max + at, width);
}

// Of recorded data alone, the numbers that the task reads: {"qpos[3]": {"mean": [..], ..}, ..}
static int add_recorded(cJSON* all, const env_spec* spec, const data_stats* s) {
    const env_source* from = spec->layout->recording->state;
    for (int k = 0; k < spec->state->dim; k++) {
        char name[96];
        snprintf(name, sizeof name, "%.64s[%d]", from[k].column, from[k].index);
        if (!add_column(all, name, s, k, 1)) return 0;
    }
    return 1;
}

// {"qpos": {"mean": [..], "std": [..], "min": [..], "max": [..]}, "qvel": ..}
static int add_state(cJSON* j, const env_spec* spec, const data_stats* s) {
    const env_layout* l = spec->layout;
    cJSON* all = cJSON_AddObjectToObject(j, "state");
    int rest = 0, at = 0;
    if (all && l->recording) return add_recorded(all, spec, s);
    for (int i = 0; i < 4 && l->state_more[i].name; i++) rest += l->state_more[i].width;
    for (int i = -1; all && i < 4 && (i < 0 || l->state_more[i].name); i++) {
        const int width = i < 0 ? spec->state->dim - rest : l->state_more[i].width;
        if (!add_column(all, i < 0 ? l->state_column : l->state_more[i].name, s, at, width))
            return 0;
        at += width;
    }
    return all != NULL;
}

int cli_add_stats(cJSON* j, const episodes* e, int offset, double ended) {
    data_stats s;
    const int actions = e->spec->task.action_dim;
    stats_of(e, offset, &s);
    return cJSON_AddNumberToObject(j, "episodes", e->count) &&
           cJSON_AddNumberToObject(j, "rows", (double)e->rows) &&
           json_add_number(j, "mean_rows", s.mean_rows, 6) &&
           cJSON_AddNumberToObject(j, "min_rows", s.min_rows) &&
           cJSON_AddNumberToObject(j, "max_rows", s.max_rows) &&
           json_add_number(j, "ended", ended, 5) && cJSON_AddNumberToObject(j, "offset", offset) &&
           json_add_number(j, "solved_at_offset", episodes_solved_at(e, offset), 5) &&
           add_list(j, "within_tolerances", s.near, STATS_NEAR) &&
           add_list(j, "action_mean", s.action_mean, actions) &&
           add_list(j, "action_std", s.action_std, actions) &&
           json_add_number(j, "action_largest", s.action_largest, 6) && add_state(j, e->spec, &s);
}

// ---- as text ------------------------------------------------------------------------------------

static double entry(const cJSON* object, const char* key, int i) {
    const cJSON* v = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, key), i);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static void show(const cJSON* j) {
    const cJSON *column, *state = cJSON_GetObjectItemCaseSensitive(j, "state");
    const double offset = json_get(j, "offset", 0), ended = json_get(j, "ended", NAN);
    printf("%s, seed ", cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring);
    const cJSON* seed = cJSON_GetObjectItemCaseSensitive(j, "seed");
    cJSON_IsNumber(seed) ? printf("%.0f\n", seed->valuedouble) : printf("unknown\n");
    printf("  episodes %.0f, rows %.0f: mean %.1f, least %.0f, most %.0f\n",
           json_get(j, "episodes", 0), json_get(j, "rows", 0), json_get(j, "mean_rows", 0),
           json_get(j, "min_rows", 0), json_get(j, "max_rows", 0));
    if (isfinite(ended)) printf("  ended by the task: %.1f %% of the episodes\n", ended);
    printf(
        "  pairs %.0f rows apart: solved %.2f %%; within 1, 1/2, 1/4 tolerance: %.2f, %.2f, %.2f "
        "%%\n",
        offset, json_get(j, "solved_at_offset", 0), entry(j, "within_tolerances", 0),
        entry(j, "within_tolerances", 1), entry(j, "within_tolerances", 2));
    const char* row = "  %-26s %10.4g %10.4g %10.4g %10.4g\n";
    printf("\n  %-26s %10s %10s %10s %10s\n", "", "mean", "deviation", "least", "most");
    const int actions = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "action_mean"));
    for (int i = 0; i < actions; i++)
        printf("  action[%d]%17s %10.4g %10.4g\n", i, "", entry(j, "action_mean", i),
               entry(j, "action_std", i));
    printf("  %-26s %43.4g\n", "action, largest", json_get(j, "action_largest", 0));
    cJSON_ArrayForEach(column, state) {
        const int n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(column, "mean"));
        for (int i = 0; i < n; i++) {
            char name[64];
            snprintf(name, sizeof name, n > 1 ? "%s[%d]" : "%s", column->string, i);
            printf(row, name, entry(column, "mean", i), entry(column, "std", i),
                   entry(column, "min", i), entry(column, "max", i));
        }
    }
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    episodes* e;
    TRY(cli_task(a, 0, &spec, err));
    TRY(cli_read_data(a, spec, &e, err));
    const char* path = args_text(a, "data");
    cJSON* j = cJSON_CreateObject();
    int ok = j && cJSON_AddStringToObject(j, "task", spec->task.name) &&
             cJSON_AddStringToObject(j, "file", path) &&
             (e->seed == UINT64_MAX ? cJSON_AddNullToObject(j, "seed")
                                    : cJSON_AddNumberToObject(j, "seed", (double)e->seed)) &&
             cli_add_stats(j, e, (int)args_int(a, "offset"), stats_ended(path, e));
    episodes_free(e);
    if (ok) return cli_finish(a, j, show, err);
    cJSON_Delete(j);
    return cli_no_memory(err);
}

const cli_command cli_describe = {"describe",
                                  "describe TASK --data F.h5",
                                  "show what a data set holds: lengths, actions, states, pairs",
                                  "",
                                  options,
                                  sizeof options / sizeof *options,
                                  1,
                                  1,
                                  run};
