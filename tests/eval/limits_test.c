// limits_test.c - a task of other sizes than the four: pictures of 96 pixels, futures of four macro
// actions of three controls or of ten of one, twelve coordinates. It is collected, branched,
// trained, saved, loaded and planned with; and pictures of 512 pixels are seen.
#include "check.h"
#include "core/mem.h"
#include "data/records.h"
#include "env/env.h"
#include "eval/settings.h"
#include "io/json.h"
#include "plan/controller.h"
#include "train/shape.h"
#include "train/train.h"

enum { IMAGE = 96, CONTROLS = 3, HORIZON = 4, ACTIONS = 3, STATE = 10, CONFIG = 12, ROWS = 40 };

// ---- the task: two hands of a clock, and eight places that drift with the actions ---------------

typedef struct clock_env {
    env base;
    double state[STATE];
} clock_env;

static void reset(env* e, rng* r) {
    clock_env* c = (clock_env*)e;
    for (int i = 0; i < STATE; i++) c->state[i] = rng_uniform(r, -0.8, 0.8);
    e->fault = FIRM_OK;
}

static void step(env* e, const float* action) {
    clock_env* c = (clock_env*)e;
    for (int i = 0; i < STATE; i++) c->state[i] += 0.02 * (double)action[i % ACTIONS];
}

static void state_get(const env* e, double* state) {
    memcpy(state, ((const clock_env*)e)->state, sizeof((clock_env*)e)->state);
}

static void state_set(env* e, const double* state) {
    memcpy(((clock_env*)e)->state, state, sizeof((clock_env*)e)->state);
    e->fault = FIRM_OK;
}

// A bright square at each place, on a ground that the hands shade.
static void render(const env* e, uint8_t* rgb) {
    const double* s = ((const clock_env*)e)->state;
    int side = e->spec->task.image;
    memset(rgb, (int)(100 + 40 * sin(s[0]) + 20 * cos(s[1])), task_frame_bytes(&e->spec->task));
    for (int k = 0; k < 4; k++) {
        int x = (int)((0.5 + 0.4 * s[2 + 2 * k]) * side),
            y = (int)((0.5 + 0.4 * s[3 + 2 * k]) * side);
        for (int dy = -2; dy <= 2; dy++)
            for (int dx = -2; dx <= 2; dx++)
                if (x + dx >= 0 && x + dx < side && y + dy >= 0 && y + dy < side)
                    rgb[3 * ((y + dy) * side + x + dx) + k % 3] = 255;
    }
}

static void config_of(const env_spec* spec, const double* state, float* c) {
    (void)spec;
    for (int i = 0; i < 2; i++) {
        c[2 * i] = (float)sin(state[i]);
        c[2 * i + 1] = (float)cos(state[i]);
    }
    for (int i = 2; i < STATE; i++) c[2 + i] = (float)state[i];
}

static void wander(env* e, rng* r, float* action) {
    (void)e;
    for (int i = 0; i < ACTIONS; i++) action[i] = (float)rng_uniform(r, -1, 1);
}

static const env_policy policy = {
    .name = "wander", .title = "at random", .episode_cap = ROWS - 1, .reset = reset, .act = wander};
static const env_state states = {.dim = STATE, .config = config_of};
static const env_simulator simulator = {.physics = "none",
                                        .renderer = "squares",
                                        .bytes = sizeof(clock_env),
                                        .reset = reset,
                                        .step = step,
                                        .state_get = state_get,
                                        .state_set = state_set,
                                        .render = render};
static const env_collection collection = {
    .episodes = 20,
    .validation = 4,
    .policies = 1,
    .policy = &policy,
    .interventions = {.proposal = ENV_PROPOSAL_UNIFORM, .anchors = 4, .per_anchor = 3}};
static const env_layout layout = {.state_column = "state", .state_bits = 64};
static const env_spec clock_task = {
    .task = {.name = "clock",
             .image = IMAGE,
             .controls = CONTROLS,
             .horizon = HORIZON,
             .action_dim = ACTIONS,
             .action_low = -1,
             .action_high = 1,
             .action_clamped = 1,
             .config_dim = CONFIG,
             .pairs = 2,
             .chi_dim = CONFIG,
             .config_name = {"hour_sin", "hour_cos", "minute_sin", "minute_cos", "ax", "ay", "bx",
                             "by", "cx", "cy", "dx", "dy"},
             .distances = 2,
             .distance = {{"hour", "rad", 0.1f, {.angle = 1, .first = 0}},
                          {"a", "px", 4, {.first = 4, .count = 2, .scale = 38.4f}}},
             .cost = TASK_COST_MAX},
    .title = "a clock with loose parts",
    .state = &states,
    .sim = &simulator,
    .collection = &collection,
    .layout = &layout};

// ---- from recordings to a plan ------------------------------------------------------------------

typedef struct world {
    env_spec spec;
    episodes* data;
    branches* inter;
    config* settings;
    char folder[1024], model[1100];
} world;

static void world_close(world* w) {
    branches_free(w->inter);
    episodes_free(w->data);
    config_free(w->settings);
}

static firm_status collect(world* w, int controls, int horizon, firm_error* err) {
    static const char* const set[] = {"model.grid=3"};
    collect_options opt = {.episodes = 20, .seed = 3};
    intervene_options branch = {.seed = 4};
    *w = (world){.spec = clock_task};
    w->spec.task.controls = controls;
    w->spec.task.horizon = horizon;
    snprintf(w->folder, sizeof w->folder, "%s/clock-%d", test_temp_dir(), controls);
    snprintf(w->model, sizeof w->model, "%s/model.safetensors", w->folder);
    TRY(settings_load(&clock_task.task, "smoke", set, 1, &w->settings, err));
    TRY(episodes_collect(&w->spec, &opt, NULL, &w->data, err));
    return branches_collect(w->data, &branch, NULL, &w->inter, err);
}

static void check_training(const world* w) {
    firm_error err = {0};
    cJSON* json = NULL;
    train_inputs in = {.data = w->data, .interventions = w->inter};
    train_options opt = {.folder = w->folder, .seed = 1, .threads = 1};
    EXPECT_INT(train_run(w->settings, &w->spec, &in, &opt, &json, &err), FIRM_OK);
    if (!json) test_fail(__FILE__, __LINE__, "%s", err.message);
    const cJSON* errors = cJSON_GetObjectItemCaseSensitive(json, "rollout_error");
    EXPECT_INT(cJSON_GetArraySize(errors), w->spec.task.horizon);
    cJSON_Delete(json);
}

// A frame of the episode's row into the controller.
static void show(firm_controller* ctl, env* e, const world* w, int64_t row, int goal) {
    static uint8_t rgb[IMAGE * IMAGE * 3];
    state_set(e, w->data->state + row * STATE);
    render(e, rgb);
    const float* before = row > 0 ? w->data->action + (row - 1) * ACTIONS : NULL;
    EXPECT_INT(goal ? firm_controller_goal(ctl, rgb) : firm_controller_push(ctl, rgb, before),
               FIRM_OK);
}

static void check_plans(const world* w, firm_mode mode) {
    firm_error err = {0};
    firm_model* m;
    firm_model_info info;
    firm_controller* ctl;
    firm_step now;
    env* e;
    REQUIRE_OK(firm_model_load(w->model, &m, &err), err);
    EXPECT_INT(firm_model_info_get(m, &info), FIRM_OK);
    EXPECT_INT(info.image_size, IMAGE);
    EXPECT_INT(info.controls_per_macro, w->spec.task.controls);
    EXPECT_INT(info.config_dim, CONFIG);
    EXPECT_INT(m->task.horizon, w->spec.task.horizon);
    EXPECT_INT(m->shape.grid, 3);
    firm_controller_params params = firm_controller_params_default();
    params.mode = mode;
    params.threads = 1;
    REQUIRE_OK(firm_controller_create(m, &params, &ctl, &err), err);
    REQUIRE_OK(env_create(&w->spec, &e, &err), err);
    for (int row = 0; row < FIRM_HISTORY; row++) show(ctl, e, w, row, 0);
    show(ctl, e, w, 30, 1);
    // a macro action is handed out control by control; reach mode then plans anew
    const int controls = w->spec.task.controls;
    for (int i = 0; i < 2 * controls; i++) {
        EXPECT_INT(firm_controller_act(ctl, 0, &now), FIRM_OK);
        for (int k = 0; k < ACTIONS; k++) EXPECT(fabsf(now.action[k]) < 100);
        EXPECT(now.horizon > 0 && isfinite(now.distance_planned[1]));
        if (mode == FIRM_MODE_REACH) EXPECT_INT(now.solved, i % controls == 0);
        show(ctl, e, w, 3 + i, 0);
    }
    env_free(e);
    firm_controller_free(ctl);
    firm_model_free(m);
}

TEST(eval, a_task_of_other_sizes_is_learned_and_planned) {
    static const int sizes[][2] = {{CONTROLS, HORIZON}, {1, 10}};
    for (int i = 0; i < 2; i++) {
        firm_error err = {0};
        world w;
        char path[1100];
        branches* back;
        REQUIRE_OK(collect(&w, sizes[i][0], sizes[i][1], &err), err);
        snprintf(path, sizeof path, "%s-branches.h5", w.folder);
        REQUIRE_OK(branches_write(w.inter, path, &err), err);
        REQUIRE_OK(branches_read(path, w.data, &back, &err), err);
        size_t numbers = (size_t)(4 * 3 * sizes[i][0] * sizes[i][1] * ACTIONS);
        EXPECT(memcmp(back->action, w.inter->action, numbers * sizeof(float)) == 0);
        branches_free(back);
        check_training(&w);
        check_plans(&w, FIRM_MODE_CONTRACT);
        check_plans(&w, FIRM_MODE_REACH);
        world_close(&w);
    }
}

// A recorded future of 12 controls ends where a simulation of them ends.
TEST(eval, records_of_other_horizons_follow_the_simulation) {
    firm_error err = {0};
    world w;
    records r = {0};
    env* e;
    REQUIRE_OK(collect(&w, CONTROLS, HORIZON, &err), err);
    scenes from = {.e = w.data, .b = {w.inter}};
    REQUIRE_OK(records_of_branches(&from, 0, &r, &err), err);
    REQUIRE_OK(env_create(&clock_task, &e, &err), err);
    EXPECT_INT(r.count, 12);
    for (int i = 0; i < r.count; i++) {
        double state[STATE];
        float c[CONFIG];
        state_set(e, w.data->state + w.inter->row[i / 3] * STATE);
        for (int t = 0; t < CONTROLS * HORIZON; t++) {
            step(e, r.action + (i * CONTROLS * HORIZON + t) * ACTIONS);
            if ((t + 1) % CONTROLS) continue;
            state_get(e, state);
            config_of(&clock_task, state, c);
            EXPECT(memcmp(c, r.config + (i * (HORIZON + 1) + (t + 1) / CONTROLS) * CONFIG,
                          sizeof c) == 0);
        }
    }
    env_free(e);
    records_free(&r);
    world_close(&w);
}

// ---- the ends of the ranges ---------------------------------------------------------------------

static firm_status shape_for(const char* grid, model_shape* out, firm_error* err) {
    config* settings;
    char set[32];
    snprintf(set, sizeof set, "model.grid=%s", grid);
    TRY(settings_load(&clock_task.task, "smoke", (const char* const[]){set}, 1, &settings, err));
    model_shape_read(settings, out);
    config_free(settings);
    return FIRM_OK;
}

TEST(eval, pictures_of_any_allowed_size_are_seen) {
    static const struct {
        int image;
        const char* grid;
    } sizes[] = {{64, "2"}, {80, "5"}, {96, "12"}, {240, "15"}, {512, "16"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        env_spec spec = clock_task;
        model_shape shape;
        firm_model* m;
        firm_controller* ctl;
        firm_error err = {0};
        env* e;
        rng r = rng_start(1, RNG_STREAM(RNG_TEST, i));
        spec.task.image = sizes[i].image;
        REQUIRE_OK(shape_for(sizes[i].grid, &shape, &err), err);
        REQUIRE_OK(model_create(&spec.task, &shape, 1, 1, &m, &err), err);
        EXPECT_INT(model_token_count(m), atoi(sizes[i].grid) * atoi(sizes[i].grid));
        REQUIRE_OK(firm_controller_create(m, NULL, &ctl, &err), err);
        REQUIRE_OK(env_create(&spec, &e, &err), err);
        uint8_t* rgb = mem_alloc(task_frame_bytes(&spec.task));
        reset(e, &r);
        render(e, rgb);
        EXPECT_INT(firm_controller_push(ctl, rgb, NULL), FIRM_OK);
        EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
        mem_free(rgb);
        env_free(e);
        firm_controller_free(ctl);
        firm_model_free(m);
    }
}

TEST(eval, sizes_out_of_range_are_refused) {
    static const struct {
        int image, controls, horizon;
        const char *grid, *sentence;
    } bad[] = {{48, 3, 4, "3", "the picture's side: 48; use 64 to 512"},
               {576, 3, 4, "18", "the picture's side: 576; use 64 to 512"},
               {100, 3, 4, "3", "multiple of 16; use 96"},
               {96, 0, 4, "3", "controls of a macro action: 0; use 1 to 100"},
               {96, 3, 21, "3", "macro actions of a horizon: 21; use 1 to 20"},
               {96, 50, 20, "3", "20 macro actions of 50 controls are 1000 controls"},
               {96, 3, 4, "7", "model.grid = 7; pictures of 96 pixels a side allow 3, 6 or 12"},
               {80, 3, 4, "3", "pictures of 80 pixels a side allow 5 or 10"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        task_typed task = clock_task.task;
        model_shape shape;
        firm_model* m = NULL;
        firm_error err = {0};
        task.image = bad[i].image;
        task.controls = bad[i].controls;
        task.horizon = bad[i].horizon;
        REQUIRE_OK(shape_for(bad[i].grid, &shape, &err), err);
        EXPECT_INT(model_create(&task, &shape, 0, 1, &m, &err), FIRM_E_VALUE);
        if (!strstr(err.message, bad[i].sentence))
            test_fail(__FILE__, __LINE__, "'%s' is not in '%s'", bad[i].sentence, err.message);
    }
}
