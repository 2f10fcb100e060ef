// firm.h - FIRM-WM in C: goal image in, actions out.
//
//     firm_model* model;  firm_controller* ctl;  firm_error err;
//     firm_controller_params p = firm_controller_params_default();
//     if (firm_model_load("models/tworoom.safetensors", &model, &err)) die(err.message);
//     if (firm_controller_create(model, &p, &ctl, &err)) die(err.message);
//     firm_controller_goal(ctl, goal_rgb);
//     for (;;) {
//         firm_controller_push(ctl, camera_rgb, last_action);   // NULL action with the first frame
//         firm_controller_act(ctl, firm_clock_ns() + 50000000, &step);
//         drive(step.action);
//     }
//
// Threads: a firm_model is read-only once loaded and may be shared by any number of controllers in
// any threads. Every other handle belongs to one thread at a time. Each firm_x made here is
// released by firm_x_free(); NULL is fine there. Anywhere else a handle or buffer that is NULL
// gives FIRM_E_USAGE unless it is marked nullable. Nothing here calls exit(), prints, or changes
// global state except firm_set_log(). After firm_controller_create() no call below allocates
// memory.
#ifndef FIRM_H
#define FIRM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define FIRM_API
#else
#define FIRM_API __attribute__((visibility("default")))
#endif

// ---- library ------------------------------------------------------------------------------------

#define FIRM_VERSION 200  // 0.2.0 as major * 10000 + minor * 100 + patch
// Moves when programs compiled with an older header must be compiled again. While it stays, the
// structs below keep their layout: firm_controller_params grows at its end and says its size, the
// structs that the library fills take new members from `reserved`. It is the number in
// libfirm.so.0 and in the version of its symbols, FIRM_0.
#define FIRM_ABI 0

// code, meaning: makes the enum and the texts of firm_status_str()
#define FIRM_STATUS_MAP(X)                                     \
    X(OK, "success")                                           \
    X(E_USAGE, "the call or its arguments are wrong")          \
    X(E_MISSING, "a file or folder is missing")                \
    X(E_FORMAT, "a file is damaged or of another kind")        \
    X(E_TASK, "made for another task")                         \
    X(E_VALUE, "a value is out of range or not finite")        \
    X(E_IO, "reading or writing failed")                       \
    X(E_MEMORY, "out of memory")                               \
    X(E_UNAVAILABLE, "not available in this build or machine") \
    X(E_GATE, "ran, but a check failed")                       \
    X(E_INTERNAL, "a mistake in this library")                 \
    X(E_STOPPED, "stopped by a signal")

typedef enum firm_status {
#define FIRM_STATUS_ENUM(name, text) FIRM_##name,
    FIRM_STATUS_MAP(FIRM_STATUS_ENUM)
#undef FIRM_STATUS_ENUM
} firm_status;

// Filled by a failing call when given; nothing to free. `message` is one sentence that names the
// file or argument and the cure.
typedef struct firm_error {
    firm_status status;
    char where[64];
    char message[448];
} firm_error;

typedef enum firm_log_level { FIRM_LOG_INFO, FIRM_LOG_WARN } firm_log_level;
typedef void (*firm_log_fn)(void* user, firm_log_level level, const char* text);

FIRM_API int firm_version(void);                         // compare with FIRM_VERSION
FIRM_API int firm_abi(void);                             // must equal FIRM_ABI
FIRM_API const char* firm_status_str(firm_status s);     // constant text, never NULL
FIRM_API void firm_set_log(firm_log_fn fn, void* user);  // NULL is silent, the library's default
FIRM_API int64_t firm_clock_ns(void);  // the monotonic clock that deadlines refer to

// ---- model: weights and the typed description of a task -----------------------------------------

typedef struct firm_model firm_model;

enum { FIRM_MAX_ACTION = 32, FIRM_MAX_CONFIG = 32, FIRM_HISTORY = 3 };

typedef struct firm_model_info {
    const char* task;  // "tworoom", ...; strings live as long as the model
    int image_size;    // frames are image_size x image_size x 3 bytes, RGB, rows from the top
    int action_dim;    // numbers per raw control
    int controls_per_macro;
    int config_dim;                              // named coordinates of a configuration
    const char* config_name[FIRM_MAX_CONFIG];    // "agent_x", ...
    int distance_dim;                            // named distances to the goal
    const char* distance_name[FIRM_MAX_CONFIG];  // "agent", ...
    const char* distance_unit[FIRM_MAX_CONFIG];  // "px", "rad", ...
    float distance_tolerance[FIRM_MAX_CONFIG];   // the goal is reached when all are below
    size_t parameters;                           // of all its models, if it is an ensemble
    uint64_t reserved[64];                       // zero
} firm_model_info;

// Reads a .safetensors model file, of one model or of an ensemble. The caller frees *model.
FIRM_API firm_status firm_model_load(const char* path, firm_model** model, firm_error* err);
FIRM_API firm_status firm_model_info_get(const firm_model* model, firm_model_info* info);
FIRM_API void firm_model_free(firm_model* model);

// ---- controller: push frames, set a goal, ask for actions ---------------------------------------

typedef struct firm_controller firm_controller;

typedef enum firm_mode {
    FIRM_MODE_CONTRACT,  // the paper's planner: terminal cost, replan after the whole plan
    FIRM_MODE_REACH      // earliest arrival, replan after every macro action
} firm_mode;

// Where a controller plans; it sees on the CPU.
typedef enum firm_device {
    FIRM_DEVICE_CPU,
    FIRM_DEVICE_CUDA  // an NVIDIA GPU: params.gpu of CUDA_VISIBLE_DEVICES; never falls back
} firm_device;

// Operands of the search's matrix products; sums are float32.
typedef enum firm_precision {
    FIRM_PRECISION_FP32,
    FIRM_PRECISION_TF32,  // 10-bit mantissas on a GPU's tensor cores; not on the CPU
    FIRM_PRECISION_BF16   // 7-bit mantissas; the CPU needs AMX or AVX512-BF16 instructions
} firm_precision;

// How a search fits its next candidates to those it has tried.
typedef enum firm_solver {
    FIRM_SOLVER_DEFAULT,  // the model's own; that of the shipped models is cem
    FIRM_SOLVER_CEM,      // mean and deviation of the best candidates: the paper's
    FIRM_SOLVER_MPPI,     // of all candidates, weighted by their cost
    FIRM_SOLVER_ICEM      // cem with noise that is coloured in time, fewer candidates later on
} firm_solver;

// Start from firm_controller_params_default(). Zero in any number means the model's own default for
// the task and mode. The size tells the library which members there are: a program compiled with an
// older header has fewer, and the others have their defaults.
typedef struct firm_controller_params {
    size_t size;  // of this struct
    firm_mode mode;
    uint64_t seed;  // same seed, same model, same inputs: same actions, for any thread count
    int threads;    // 0: all cores
    int candidates, iterations;
    int elites;   // 0: the model's own share of the candidates, rounded up
    int horizon;  // macro actions looked ahead
    int fan;      // candidates of the last iteration kept for display; 0: none
    firm_device device;
    firm_precision precision;
    int gpu;  // FIRM_DEVICE_CUDA: index of the GPU, 0 for the first
    // (threads) the core that each thread is bound to, read by create; NULL: none is bound. Needs
    // `threads`. Thread 0 is the caller's own, which the library never binds.
    const int* affinity;
    firm_solver solver;
} firm_controller_params;

// What one call of firm_controller_act() found. Pointers stay valid until the next call on the
// same controller.
typedef struct firm_step {
    float action[FIRM_MAX_ACTION];  // the raw control to execute now, in the environment's units
    int solved;      // 1 if this call planned, 0 if the action came from the plan in hand
    int late;        // 1 if the deadline cut the search short or was missed
    int nonfinite;   // candidates dropped because their prediction was not finite
    int iterations;  // iterations finished by the solve
    double solve_ms;
    float cost;   // of the returned plan, in the planner's own units
    int arrival;  // macro step of the plan that comes closest to the goal, 1..horizon; the last one
                  // where the plan follows a recording farther
    float distance_now[FIRM_MAX_CONFIG];      // named distances at the current frame
    float distance_planned[FIRM_MAX_CONFIG];  // named distances at `arrival`
    int horizon, fan;
    const float* plan;         // (horizon * controls_per_macro, action_dim) raw controls
    const float* path;         // (horizon + 1, config_dim) predicted configurations of the plan
    const float* fan_path;     // (fan, horizon + 1, config_dim), or NULL
    const float* goal_config;  // (config_dim) of the goal; free coordinates are as they are now
    int reached;               // 1 if every distance_now is below its tolerance
    // How unlike the training data the current frame is; above 1: outside, do not trust the step.
    // Tells blank, foreign and broken pictures and places never seen, as far as the model file has
    // their statistics; not a scene that looks as in training and behaves differently.
    float strange;
    uint64_t reserved[32];  // zero
} firm_step;

// In the header, so that its size is the caller's.
static inline firm_controller_params firm_controller_params_default(void) {
    firm_controller_params p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.mode = FIRM_MODE_REACH;
    return p;
}
// Takes all memory the controller will ever use. The model must outlive it. Nullable: params, err.
FIRM_API firm_status firm_controller_create(const firm_model* model,
                                            const firm_controller_params* params,
                                            firm_controller** ctl, firm_error* err);
FIRM_API size_t firm_controller_bytes(const firm_controller* ctl);  // what create reserved; NULL: 0
// Encodes a goal image (H, W, 3). Forgets the plan in hand, keeps the history.
FIRM_API firm_status firm_controller_goal(firm_controller* ctl, const uint8_t* rgb);
// A goal as numbers in the order of config_name, in the units of a configuration: values
// (config_dim) are copied. Nullable: given (config_dim), where 0 leaves a coordinate free ("block
// at x, y, agent anywhere"): its value is not read, and it counts in no distance or cost. A
// distance all of whose coordinates are free is 0. An angle is two numbers, NAME_sin and NAME_cos,
// given or free together; they are brought to length 1. Otherwise like firm_controller_goal().
// Contract searches on a GPU take whole goals only (FIRM_E_UNAVAILABLE).
FIRM_API firm_status firm_controller_goal_config(firm_controller* ctl, const float* values,
                                                 const uint8_t* given);
// Appends a frame and the raw control executed between the previous frame and this one (NULL with
// the first frame of an episode). Frames follow each other at the control period.
FIRM_API firm_status firm_controller_push(firm_controller* ctl, const uint8_t* rgb,
                                          const float* action);
// The next raw control. deadline_ns is an absolute firm_clock_ns() time, 0 for none. The search
// uses the time that is left after perception: with little of it, fewer candidates and a shorter
// look ahead. With none, the control of the plan in hand comes back. Needs a goal and at least one
// frame.
FIRM_API firm_status firm_controller_act(firm_controller* ctl, int64_t deadline_ns,
                                         firm_step* step);
// Copies the configuration of the latest frame to config (config_dim).
FIRM_API firm_status firm_controller_config(firm_controller* ctl, float* config);
// What would come of a plan from the latest frame on: plan (macros * controls_per_macro,
// action_dim) raw controls, at most as many macros as the search looks ahead. Nullable: path
// (macros + 1, config_dim), first the present configuration; distance (macros + 1, distance_dim) to
// the goal, which must be set. Changes nothing that act does. Needs at least one frame.
FIRM_API firm_status firm_controller_predict(firm_controller* ctl, const float* plan, int macros,
                                             float* path, float* distance);
// Forgets history, goal and plan, and restarts the random streams from `seed`.
FIRM_API firm_status firm_controller_reset(firm_controller* ctl, uint64_t seed);
// The controller's state as bytes: history, goal, plan in hand, random streams. A controller of the
// same model and params (threads, device and seed may differ), created here or in another process
// of the same libfirm, continues from it with the same actions. The caller owns the bytes. Save
// writes firm_controller_state_bytes(), which is constant for a controller (NULL: 0), and needs
// room for them. Restore takes all or, with a sentence, nothing: a state of another model, of other
// params or a damaged one gives FIRM_E_FORMAT. The checksum finds accidents, not forgeries: restore
// only what you saved.
FIRM_API size_t firm_controller_state_bytes(const firm_controller* ctl);
FIRM_API firm_status firm_controller_save(firm_controller* ctl, void* state, size_t bytes);
FIRM_API firm_status firm_controller_restore(firm_controller* ctl, const void* state, size_t bytes);
// Why the last call on this controller failed: one sentence, or "" if it succeeded. Valid until the
// next call on it.
FIRM_API const char* firm_controller_error(const firm_controller* ctl);
FIRM_API void firm_controller_free(firm_controller* ctl);

// ---- controllers: many environments in step -----------------------------------------------------

typedef struct firm_controllers firm_controllers;

// `count` controllers of one model that share threads and the planner's weights, and act as single
// ones with the seeds params->seed + i would, to the bit. On the CPU only. The model must outlive
// them. Nullable: params, err.
FIRM_API firm_status firm_controllers_create(const firm_model* model,
                                             const firm_controller_params* params, int count,
                                             firm_controllers** ctls, firm_error* err);
// One of them, for everything else: its goal in numbers, reset, error, state. It belongs to ctls.
// NULL if there is none of that number.
FIRM_API firm_controller* firm_controllers_at(firm_controllers* ctls, int i);
// Each does for all what the function of one does: rgb (count, H, W, 3), action (count,
// action_dim), step (count). All are tried; the status is that of the first that failed, and its
// controller has the sentence. After a reset a controller ignores its row of `action`, which must
// be finite. Nullable: action, when every controller sees its first frame. A deadline is for the
// whole call.
FIRM_API firm_status firm_controllers_goal(firm_controllers* ctls, const uint8_t* rgb);
FIRM_API firm_status firm_controllers_push(firm_controllers* ctls, const uint8_t* rgb,
                                           const float* action);
FIRM_API firm_status firm_controllers_act(firm_controllers* ctls, int64_t deadline_ns,
                                          firm_step* step);
FIRM_API void firm_controllers_free(firm_controllers* ctls);

#ifdef __cplusplus
}
#endif
#endif
