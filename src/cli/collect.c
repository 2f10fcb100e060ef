// collect.c - `firm collect TASK -o F.h5`: records episodes of the task's data-collection policy.
#include <inttypes.h>

#include "cli/cli.h"
#include "core/clock.h"

enum { PAIR_OFFSET = 25 };  // solved_at_offset: pairs this many rows apart, as in the evaluation

static const arg_option options[] = {
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "F.h5", "the file to write"},
    {"episodes", 0, ARG_INT, 1, 10000000, NULL, NULL, "N",
     "episodes; the task's own number if not given"},
    {"seed", 0, ARG_SEED, 0, 0, "0", NULL, "S", "episode e depends on (S, e) alone"},
    {"policy", 0, ARG_TEXT, 0, 0, NULL, NULL, "NAME",
     "how to act; the task's default if not given (Push-T: demo or weak)"},
    {"pixels", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "also write every frame (large; frames can be drawn when needed)"},
};

static void show(const cJSON* j) {
    printf("%s: %.0f episodes, %.0f rows (%.1f each), seed %.0f, %.1f s\n",
           cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, "episodes", 0),
           json_get(j, "rows", 0), json_get(j, "mean_rows", 0), json_get(j, "seed", 0),
           json_get(j, "seconds", 0));
    printf("%.2f %% of pairs %d rows apart are solved at the start\n",
           json_get(j, "solved_at_offset", 0), PAIR_OFFSET);
}

static firm_status record(const args* a, const env_spec* spec, const char* path, pool* p,
                          cJSON** json, firm_error* err) {
    collect_options opt = {.episodes = (int)args_int(a, "episodes"),
                           .seed = (uint64_t)args_int(a, "seed"),
                           .policy = args_text(a, "policy"),
                           .pixels = args_switch(a, "pixels")};
    double begun = clock_seconds();
    episodes* e;
    TRY(episodes_collect(spec, &opt, p, &e, err));
    firm_status status = episodes_write(e, &opt, p, path, err);
    if (status == FIRM_OK) {
        int ended = 0;
        for (int i = 0; i < e->count; i++) ended += e->ended[i];
        cJSON* j = *json = cJSON_CreateObject();
        if (!(j && cJSON_AddStringToObject(j, "task", spec->task.name) &&
              cJSON_AddStringToObject(j, "file", path) &&
              cJSON_AddStringToObject(j, "policy", e->policy) &&
              cJSON_AddNumberToObject(j, "seed", (double)opt.seed) &&
              cli_add_stats(j, e, PAIR_OFFSET, 100.0 * ended / e->count) &&
              cJSON_AddBoolToObject(j, "pixels", opt.pixels) &&
              json_add_number(j, "seconds", clock_seconds() - begun, 4)))
            status = cli_no_memory(err);
    }
    episodes_free(e);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char* path;
    pool* p;
    cJSON* json = NULL;
    TRY(cli_task(a, 0, &spec, err));
    TRY(env_need_simulator(spec, "collecting", err));
    TRY(cli_required(a, "output", &path, err));
    TRY(cli_check_output(path, err));
    TRY(pool_create((int)args_int(a, "threads"), &p, err));
    firm_status status = record(a, spec, path, p, &json, err);
    pool_free(p);
    if (status == FIRM_OK) return cli_finish(a, json, show, err);
    cJSON_Delete(json);
    return status;
}

const cli_command cli_collect = {
    "collect",
    "collect TASK -o F.h5 [--episodes N --seed S --policy NAME --pixels]",
    "record episodes",
    "",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
