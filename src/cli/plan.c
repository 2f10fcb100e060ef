// plan.c - `firm plan TASK --model M --frames a.png b.png c.png --actions 'a1,a2;b1,b2' --goal
// g.png`: one decision from pictures, through the public API but for the settings.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/mem.h"
#include "eval/eval.h"
#include "io/image.h"
#include "plan/controller.h"

static const arg_option options[] = {
    {"model", 0, ARG_TEXT, 0, 0, NULL, NULL, "M", "model file; the shipped one if not given"},
    {"frames", 0, ARG_SEVERAL, 0, 0, NULL, NULL, "A.png B.png C.png",
     "the latest frames, oldest first"},
    {"actions", 0, ARG_TEXT, 0, 0, NULL, NULL, "'a1,a2;b1,b2'", "controls executed between them"},
    {"goal", 0, ARG_TEXT, 0, 0, NULL, NULL, "G.png", "the goal image"},
    {"mode", 0, ARG_CHOICE, 0, 0, "reach", "contract|reach", NULL, "planner"},
    CLI_SOLVER_OPTION,
    CLI_DEVICE_OPTIONS,
    {"deadline-ms", 0, ARG_REAL, 0, 1e9, "0", NULL, "T",
     "answer within this time; 0: take all it needs"},
};

static void show_numbers(const cJSON* list) {
    const cJSON* v;
    int first = 1;
    cJSON_ArrayForEach(v, list) {
        printf("%s%8.4f", first ? "" : "  ", v->valuedouble);
        first = 0;
    }
}

static void show(const cJSON* j) {
    const cJSON *d, *row;
    printf("next control    ");
    show_numbers(cJSON_GetObjectItemCaseSensitive(j, "action"));
    printf("\n");
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(j, "distances"))
        printf("%s: %.4g %s from the goal now, %.4g %s after macro step %.0f (tolerance %g)\n",
               cJSON_GetObjectItemCaseSensitive(d, "name")->valuestring, json_get(d, "now", 0),
               cJSON_GetObjectItemCaseSensitive(d, "unit")->valuestring, json_get(d, "planned", 0),
               cJSON_GetObjectItemCaseSensitive(d, "unit")->valuestring, json_get(j, "arrival", 0),
               json_get(d, "tolerance", 0));
    printf("path (macro step:");
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(j, "config"))
        printf(" %s", d->valuestring);
    printf(")\n");
    int step = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(j, "path")) {
        printf("  %2d  ", step++);
        show_numbers(row);
        printf("\n");
    }
    printf("controls\n");
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(j, "plan")) {
        printf("      ");
        show_numbers(row);
        printf("\n");
    }
    printf("%.1f ms, %.0f iterations%s\n", json_get(j, "solve_ms", 0), json_get(j, "iterations", 0),
           cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "late")) ? ", cut short by the deadline"
                                                                     : "");
}

static cJSON* rows_of(const float* value, int rows, int columns) {
    cJSON* list = cJSON_CreateArray();
    for (int i = 0; list && i < rows; i++) {
        cJSON* row = cJSON_CreateArray();
        if (!row || !cJSON_AddItemToArray(list, row)) {
            cJSON_Delete(row);
            cJSON_Delete(list);
            return NULL;
        }
        for (int k = 0; k < columns; k++)
            cJSON_AddItemToArray(row, json_number(value[i * columns + k], 6));
    }
    return list;
}

static int put(cJSON* object, const char* key, cJSON* item) {
    if (item && cJSON_AddItemToObject(object, key, item)) return 1;
    cJSON_Delete(item);
    return 0;
}

static int add_distances(cJSON* j, const firm_model_info* info, const firm_step* s) {
    cJSON *list = cJSON_AddArrayToObject(j, "distances"),
          *names = cJSON_AddArrayToObject(j, "config");
    int ok = list && names;
    for (int i = 0; ok && i < info->distance_dim; i++) {
        cJSON* d = cJSON_CreateObject();
        ok = d && cJSON_AddStringToObject(d, "name", info->distance_name[i]) &&
             cJSON_AddStringToObject(d, "unit", info->distance_unit[i]) &&
             json_add_number(d, "tolerance", info->distance_tolerance[i], 6) &&
             json_add_number(d, "now", s->distance_now[i], 6) &&
             json_add_number(d, "planned", s->distance_planned[i], 6);
        ok = cJSON_AddItemToArray(list, d) && ok;
    }
    for (int i = 0; ok && i < info->config_dim; i++)
        ok = cJSON_AddItemToArray(names, cJSON_CreateString(info->config_name[i]));
    return ok;
}

static cJSON* describe(const firm_model_info* info, const char* mode, const firm_step* s) {
    cJSON* j = cJSON_CreateObject();
    cJSON* action = cJSON_CreateArray();
    for (int i = 0; action && i < info->action_dim; i++)
        cJSON_AddItemToArray(action, json_number(s->action[i], 6));
    int ok = j && cJSON_AddStringToObject(j, "task", info->task) &&
             cJSON_AddStringToObject(j, "mode", mode);
    ok = put(j, "action", action) && ok;
    ok = ok && add_distances(j, info, s) && cJSON_AddNumberToObject(j, "arrival", s->arrival) &&
         json_add_number(j, "cost", s->cost, 6) && json_add_number(j, "solve_ms", s->solve_ms, 5) &&
         cJSON_AddNumberToObject(j, "iterations", s->iterations) &&
         cJSON_AddBoolToObject(j, "late", s->late) &&
         cJSON_AddNumberToObject(j, "nonfinite", s->nonfinite) &&
         put(j, "path", rows_of(s->path, s->horizon + 1, info->config_dim)) &&
         put(j, "goal_config", rows_of(s->goal_config, 1, info->config_dim)) &&
         put(j, "plan", rows_of(s->plan, s->horizon * info->controls_per_macro, info->action_dim));
    if (ok) return j;
    cJSON_Delete(j);
    return NULL;
}

// The model's own settings, with --config and --set on top.
static firm_status make_controller(const args* a, const firm_model* model,
                                   const firm_controller_params* p, firm_controller** out,
                                   firm_error* err) {
    config* settings;
    plan_options options;
    TRY(cli_settings(a, &model->task, model, &settings, err));
    firm_status status = eval_plan_options(settings, p->mode, 0, 0, 0, &options, err);
    if (p->solver) options.solver = (plan_solver_kind)(p->solver - FIRM_SOLVER_CEM);
    if (status == FIRM_OK) status = controller_create_with(model, p, &options, NULL, out, err);
    config_free(settings);
    return status;
}

static firm_status decide(const args* a, const firm_model* model, const firm_model_info* info,
                          const char* const* frame, int frames, const char* goal, cJSON** json,
                          firm_error* err) {
    float action[(FIRM_HISTORY - 1) * FIRM_MAX_ACTION];
    if (cli_numbers(args_text(a, "actions"), frames - 1, info->action_dim, action) != FIRM_OK)
        return FAIL(err, FIRM_E_USAGE,
                    "--actions is '%s'; give the %d control%s between the frames as %d number%s "
                    "each, like '0.5,-1;1,0'",
                    args_given(a, "actions") ? args_text(a, "actions") : "", frames - 1,
                    frames == 2 ? "" : "s", info->action_dim, info->action_dim == 1 ? "" : "s");
    size_t bytes = (size_t)info->image_size * (size_t)info->image_size * 3;
    uint8_t* rgb = mem_alloc((size_t)(frames + 1) * bytes);
    if (!rgb) return cli_no_memory(err);
    firm_status status = FIRM_OK;
    // all pictures are read and checked before the planner is made
    for (int i = 0; i <= frames && status == FIRM_OK; i++)
        status = image_read_png(i < frames ? frame[i] : goal, info->image_size, info->image_size,
                                rgb + (size_t)i * bytes, err);
    firm_controller_params p = firm_controller_params_default();
    if (status == FIRM_OK) status = cli_device(a, &p.device, &p.precision, err);
    p.mode = cli_mode(args_text(a, "mode"));
    p.solver = cli_solver(a);
    p.seed = (uint64_t)args_int(a, "seed");
    p.threads = (int)args_int(a, "threads");
    firm_controller* ctl = NULL;
    firm_step step;
    if (status == FIRM_OK) status = make_controller(a, model, &p, &ctl, err);
    int made = status == FIRM_OK;
    for (int i = 0; i < frames && status == FIRM_OK; i++)
        status = firm_controller_push(ctl, rgb + (size_t)i * bytes,
                                      i ? action + (i - 1) * info->action_dim : NULL);
    if (status == FIRM_OK) status = firm_controller_goal(ctl, rgb + (size_t)frames * bytes);
    double ms = args_real(a, "deadline-ms");
    if (status == FIRM_OK)
        status =
            firm_controller_act(ctl, ms > 0 ? firm_clock_ns() + (int64_t)(ms * 1e6) : 0, &step);
    if (made && status != FIRM_OK)
        status = FAIL(err, status, "the controller failed: %s", firm_status_str(status));
    if (status == FIRM_OK) {
        *json = describe(info, args_text(a, "mode"), &step);
        if (!*json) status = cli_no_memory(err);
    }
    firm_controller_free(ctl);
    mem_free(rgb);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char *goal, *frame[ARGS_MAX_VALUES];
    char path[1024];
    firm_model* model;
    firm_model_info info;
    cJSON* json = NULL;
    TRY(cli_task(a, 0, &spec, err));
    TRY(cli_model_path(a, spec, path, err));
    TRY(cli_required(a, "goal", &goal, err));
    int frames = args_list(a, "frames", frame);
    if (frames < 1 || frames > FIRM_HISTORY)
        return FAIL(err, FIRM_E_USAGE, "--frames has %d pictures; give 1 to %d, oldest first",
                    frames, FIRM_HISTORY);
    TRY(cli_load_world(path, spec, &model, err));
    firm_model_info_get(model, &info);
    firm_status status = decide(a, model, &info, frame, frames, goal, &json, err);
    firm_model_free(model);
    TRY(status);
    return cli_finish(a, json, show, err);
}

const cli_command cli_plan = {
    "plan",
    "plan TASK [--model M] --frames a.png b.png c.png --actions 'a1,a2;b1,b2' --goal g.png",
    "plan once, from pictures",
    "",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
