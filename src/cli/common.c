// common.c - what the commands share: task, settings, data and model from the arguments, and the
// way a result leaves the program.
#define _GNU_SOURCE
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/file.h"
#include "eval/settings.h"
#include "model/model.h"
#include "plan/gpu.h"

firm_status cli_no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "out of memory");
}

firm_status cli_finish(const args* a, cJSON* json, void (*show)(const cJSON* json),
                       firm_error* err) {
    if (!json) return cli_no_memory(err);
    if (a->capture) {
        *(cJSON**)a->capture = json;
        return FIRM_OK;
    }
    firm_status status = FIRM_OK;
    if (args_switch(a, "json"))
        status = json_print(json, err);
    else
        show(json);
    cJSON_Delete(json);
    return status;
}

firm_status cli_task(const args* a, int which, const env_spec** spec, firm_error* err) {
    CHECK(which < a->positionals, "firm %s: argument %d was not required", a->command, which);
    return env_open_task(a->positional[which], spec, err);
}

firm_status cli_settings(const args* a, const task_typed* task, const firm_model* model,
                         config** out, firm_error* err) {
    const char* set[ARGS_MAX_VALUES];
    const char* file = args_text(a, "config");
    int count = args_list(a, "set", set);
    // LeWM's are those of its training, which say nothing of plans or data
    if (!model || model->lewm || !model->config || !model->config[0])
        return settings_load(task, file, set, count, out, err);
    TRY(settings_from_text(task->name, model->config, out, err));
    firm_status status = FIRM_OK;
    if (file) status = settings_add(*out, task, file, err);
    for (int i = 0; i < count && status == FIRM_OK; i++) status = config_set(*out, set[i], err);
    if (status != FIRM_OK) {
        config_free(*out);
        *out = NULL;
    }
    return status;
}

firm_status cli_required(const args* a, const char* name, const char** out, firm_error* err) {
    *out = args_text(a, name);
    if (*out) return FIRM_OK;
    return FAIL(err, FIRM_E_USAGE, "--%s is missing; see firm %s --help", name, a->command);
}

firm_status cli_read_data(const args* a, const env_spec* spec, episodes** out, firm_error* err) {
    const char* path;
    TRY(cli_required(a, "data", &path, err));
    return episodes_read(path, spec, out, err);
}

static firm_status let_go(firm_model** model, firm_status status) {
    firm_model_free(*model);
    *model = NULL;
    return status;
}

firm_status cli_load_world(const char* path, const env_spec* spec, firm_model** out,
                           firm_error* err) {
    TRY(firm_model_load(path, out, err));
    firm_status status = task_expect(path, &(*out)->task, &spec->task, err);
    return status == FIRM_OK ? FIRM_OK : let_go(out, status);
}

firm_status cli_load_model(const char* path, const env_spec* spec, firm_model** out,
                           firm_error* err) {
    TRY(cli_load_world(path, spec, out, err));
    if (!(*out)->lewm) return FIRM_OK;
    return let_go(out, FAIL(err, FIRM_E_USAGE,
                            "%s is a model of LeWM and this command needs one of FIRM; `firm plan "
                            "--model` and `firm eval --lewm` take it",
                            path));
}

firm_status cli_load_lewm(const char* path, const env_spec* spec, firm_model** out,
                          firm_error* err) {
    TRY(cli_load_world(path, spec, out, err));
    if ((*out)->lewm) return FIRM_OK;
    return let_go(out,
                  FAIL(err, FIRM_E_USAGE,
                       "%s is a model of FIRM; --lewm takes one of LeWM, --model this one", path));
}

// It is an input without being named.
static firm_status found_model(const char* path) {
    file_input_note(path);
    return FIRM_OK;
}

firm_status cli_shipped_model(const env_spec* spec, char path[1024], firm_error* err) {
    static const char* const places[] = {"%s/../models/%s.safetensors",
                                         "%s/../share/firm/models/%s.safetensors",
                                         "%s/models/%s.safetensors"};
    char folder[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n > 0) {
        folder[n] = 0;
        char* slash = strrchr(folder, '/');
        if (slash) *slash = 0;
    }
    for (size_t i = 0; n > 0 && i < sizeof places / sizeof *places; i++) {
        int length = snprintf(path, 1024, places[i], folder, spec->task.name);
        if (length > 0 && length < 1024 && file_exists(path)) return found_model(path);
    }
    snprintf(path, 1024, "models/%s.safetensors", spec->task.name);
    if (file_exists(path)) return found_model(path);
    return FAIL(err, FIRM_E_MISSING,
                "no shipped model models/%s.safetensors was found; give one with --model, or train "
                "one with firm "
                "train %s",
                spec->task.name, spec->task.name);
}

firm_status cli_model_path(const args* a, const env_spec* spec, char path[1024], firm_error* err) {
    if (!args_given(a, "model")) return cli_shipped_model(spec, path, err);
    snprintf(path, 1024, "%s", args_text(a, "model"));
    return FIRM_OK;
}

firm_status cli_check_output(const char* path, firm_error* err) {
    return file_check_target(path, err);
}

firm_status cli_device(const args* a, firm_device* device, firm_precision* precision,
                       firm_error* err) {
    const char* name = args_text(a, "precision");
    plan_precision p = PLAN_FP32;
    *device = strcmp(args_text(a, "device"), "cuda") == 0 ? FIRM_DEVICE_CUDA : FIRM_DEVICE_CPU;
    if (name)
        TRY(plan_precision_read(name, &p, err));
    else if (*device == FIRM_DEVICE_CUDA)
        p = PLAN_TF32;
    if (*device == FIRM_DEVICE_CPU && p == PLAN_TF32)
        return FAIL(err, FIRM_E_USAGE,
                    "--precision %s is for --device cuda; the CPU plans in fp32 or bf16", name);
    *precision = (firm_precision)p;
    return FIRM_OK;
}

firm_status cli_numbers(const char* text, int rows, int columns, float* out) {
    const char* at = text ? text : "";
    int n = 0;
    while (*at && n < rows * columns) {
        char* end;
        out[n] = strtof(at, &end);
        if (end == at || !isfinite(out[n])) break;
        n++;
        at = end + strspn(end, " ");
        char wanted = n == rows * columns ? 0 : n % columns ? ',' : ';';
        if (*at != wanted) break;
        if (*at) at++;
    }
    return n == rows * columns && !*at ? FIRM_OK : FIRM_E_USAGE;
}

firm_solver cli_solver(const args* a) {
    static const char* const names[] = {"", "cem", "mppi", "icem"};
    const char* text = args_text(a, "solver");
    for (int i = 1; i <= FIRM_SOLVER_ICEM && text; i++)
        if (strcmp(text, names[i]) == 0) return (firm_solver)i;
    return FIRM_SOLVER_DEFAULT;
}

firm_mode cli_mode(const char* text) {
    return strcmp(text, "reach") == 0 ? FIRM_MODE_REACH : FIRM_MODE_CONTRACT;
}

firm_status cli_check_draw(const args* a, firm_error* err) {
    if (!args_given(a, "draw") || !args_given(a, "seed")) return FIRM_OK;
    return FAIL(err, FIRM_E_USAGE,
                "--draw %s has a seed of its own (section [trials] of the settings); leave --seed "
                "out",
                args_text(a, "draw"));
}
