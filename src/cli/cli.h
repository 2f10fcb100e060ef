// cli.h - the commands and what they share. main.c dispatches; each command is one file.
//
// A command reads its args, calls the library and ends with cli_finish(): its result is one JSON
// object, printed as such with --json, else turned into text by the command's own function.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/args.h"
#include "core/pool.h"
#include "data/episodes.h"
#include "env/env.h"
#include "io/config.h"
#include "io/json.h"
#include "train/train.h"

typedef struct cli_command {
    const char* name;
    const char* usage;    // after "firm "
    const char* summary;  // one line
    const char* more;     // further help text; "" or whole lines
    const arg_option* options;
    int option_count;
    int min, max;  // positional arguments
    firm_status (*run)(const args* a, firm_error* err);
} cli_command;

#define CLI_COMMANDS(X) \
    X(tasks)            \
    X(check)            \
    X(collect)          \
    X(intervene)        \
    X(describe)         \
    X(audit)            \
    X(pack)             \
    X(rows)             \
    X(train) X(plan) X(trials) X(eval) X(params) X(report) X(bench) X(demo) X(reproduce) X(export)
#define CLI_DECLARE(name) extern const cli_command cli_##name;
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

// Runs a command line without the leading "firm". capture (nullable): receives the JSON result
// instead of printing it; the caller deletes it.
firm_status cli_run(int argc, char** argv, cJSON** capture, firm_error* err);

// Takes over `json` (NULL: out of memory): captured, printed, or shown by `show`. A command whose
// check failed calls it too before it returns FIRM_E_GATE, so that the result is still seen.
firm_status cli_finish(const args* a, cJSON* json, void (*show)(const cJSON* json),
                       firm_error* err);
firm_status cli_no_memory(firm_error* err);

// The task named by the first positional argument; `which` counts from 0.
firm_status cli_task(const args* a, int which, const env_spec** spec, firm_error* err);
// Settings: of the model's training run if it is one of FIRM and has some, else the task's; then
// --config and --set.
firm_status cli_settings(const args* a, const task_typed* task, const firm_model* model,
                         config** out, firm_error* err);
// --NAME must be given.
firm_status cli_required(const args* a, const char* name, const char** out, firm_error* err);
// Episodes of --data.
firm_status cli_read_data(const args* a, const env_spec* spec, episodes** out, firm_error* err);
// Episodes and branches of --data, --branches and --structured, or the pack if one is given.
firm_status cli_train_inputs(const args* a, const env_spec* spec, const char* pack,
                             train_inputs* in, firm_error* err);
void cli_free_inputs(train_inputs* in);
// Loads a model and checks that it is for the task. World: FIRM's or LeWM's.
firm_status cli_load_world(const char* path, const env_spec* spec, firm_model** out,
                           firm_error* err);
firm_status cli_load_lewm(const char* path, const env_spec* spec, firm_model** out,
                          firm_error* err);
firm_status cli_load_model(const char* path, const env_spec* spec, firm_model** out,
                           firm_error* err);
// models/TASK.safetensors: beside the program's source tree, in its share folder, or here.
firm_status cli_shipped_model(const env_spec* spec, char path[1024], firm_error* err);
// --model if given, else the shipped one
firm_status cli_model_path(const args* a, const env_spec* spec, char path[1024], firm_error* err);
// `firm intervene --imagined` with the output `path` (imagine.c).
firm_status cli_imagine(const args* a, const env_spec* spec, const char* path, firm_error* err);
// Fails early when a file cannot be written there.
firm_status cli_check_output(const char* path, firm_error* err);
firm_mode cli_mode(const char* text);
// --solver; without it the model's own.
firm_solver cli_solver(const args* a);
#define CLI_SOLVER_OPTION                                               \
    {                                                                   \
        "solver", 0, ARG_CHOICE, 0, 0, NULL, "cem|mppi|icem", NULL,     \
            "update rule of the search; from the settings if not given" \
    }
// --device and --precision; without the latter fp32 on the CPU and tf32 on a GPU.
firm_status cli_device(const args* a, firm_device* device, firm_precision* precision,
                       firm_error* err);
#define CLI_DEVICE_OPTIONS                                                                     \
    {"device", 0, ARG_CHOICE, 0, 0, "cpu", "cpu|cuda", NULL, "device to compute on"}, {        \
        "precision", 0, ARG_CHOICE, 0, 0, NULL, "fp32|tf32|bf16", NULL,                        \
            "precision of the planner's products; tf32 on a GPU, fp32 on the CPU if not given" \
    }

// "a1,a2;b1,b2" into out (rows, columns); FIRM_E_USAGE where it is anything else. NULL is "".
firm_status cli_numbers(const char* text, int rows, int columns, float* out);

// A named draw of trials has a seed of its own.
firm_status cli_check_draw(const args* a, firm_error* err);

// A data set's distribution under the keys of `firm describe`; ended: percent of episodes that the
// task ended, NaN if unknown. 0: out of memory.
int cli_add_stats(cJSON* json, const episodes* e, int offset, double ended);

// Calls of malloc and its kin by this process so far; -1 where they are not counted (sanitizer
// builds).
int64_t cli_malloc_count(void);

#endif
