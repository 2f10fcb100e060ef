// lewm_world_test.c - controllers of LeWM: what they promise is what any other promises; and that
// a search finds the goal of a model whose answer is known.
#include "check.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "lewm_toys.h"
#include "model/model.h"
#include "plan/cem.h"
#include "plan/lewm_net.h"
#include "plan/worlds.h"
#include "toys.h"

enum { PICTURE = 224 * 224 * 3, ACTS = 7 };

static firm_model* model(void) {
    lewm_model* lewm = toy_lewm(3, 5);
    firm_model* m = NULL;
    firm_error err = {0};
    if (lewm && model_of_lewm(lewm, &m, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return m;
}

static void draw(uint8_t* rgb, int which) {
    for (int i = 0; i < PICTURE; i++)
        rgb[i] = (uint8_t)((i * 7 + which * 31 + i / 672 * which) & 255);
}

static firm_controller* controller(const firm_model* m, firm_mode mode, int threads) {
    firm_controller* ctl = NULL;
    firm_error err = {0};
    firm_controller_params p = firm_controller_params_default();
    p.mode = mode, p.threads = threads, p.candidates = 20, p.iterations = 3, p.elites = 5;
    p.seed = 9;
    if (firm_controller_create(m, &p, &ctl, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return ctl;
}

// ACTS controls in a row; what came out of them.
static void act(firm_controller* ctl, uint8_t* rgb, float* out) {
    firm_step step;
    draw(rgb, 1);
    EXPECT_INT(firm_controller_push(ctl, rgb, NULL), FIRM_OK);
    draw(rgb, 2);
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    for (int i = 0; i < ACTS; i++) {
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        memcpy(out + 3 * i, step.action, 2 * sizeof *out);
        out[3 * i + 2] = step.distance_now[0];
        draw(rgb, 3 + i);
        EXPECT_INT(firm_controller_push(ctl, rgb, step.action), FIRM_OK);
    }
}

TEST(plan, lewm_controllers_keep_the_promises) {
    firm_model* m = model();
    uint8_t* rgb = malloc(PICTURE);
    for (int mode = 0; mode < 2; mode++) {
        float first[3 * ACTS], again[3 * ACTS];
        for (int threads = 1; threads <= 5; threads += 2) {
            firm_controller* ctl = controller(m, (firm_mode)mode, threads);
            if (!ctl) continue;
            act(ctl, rgb, threads == 1 ? first : again);
            if (threads > 1) EXPECT_INT(memcmp(first, again, sizeof first), 0);
            firm_controller_reset(ctl, 9);
            int64_t counted = mem_count(), mallocs = test_malloc_count();
            act(ctl, rgb, again);
            EXPECT_INT(mem_count() - counted, 0);
            EXPECT_INT(test_malloc_count() - mallocs, 0);
            EXPECT_INT(memcmp(first, again, sizeof first), 0);
            EXPECT(firm_controller_bytes(ctl) > 100000);
            firm_controller_free(ctl);
        }
        EXPECT(first[2] > 0 && isfinite(first[2]));
    }
    free(rgb);
    firm_model_free(m);
}

TEST(plan, lewm_controllers_are_saved_and_restored) {
    firm_model* m = model();
    uint8_t* rgb = malloc(PICTURE);
    for (int mode = 0; mode < 2; mode++) {
        firm_controller *a = controller(m, (firm_mode)mode, 1),
                        *b = controller(m, (firm_mode)mode, 2);
        float out[3 * ACTS];
        size_t bytes = firm_controller_state_bytes(a);
        void* state = malloc(bytes);
        act(a, rgb, out);
        EXPECT_INT(firm_controller_save(a, state, bytes), FIRM_OK);
        EXPECT_INT(firm_controller_restore(b, state, bytes), FIRM_OK);
        for (int i = 0; i < ACTS; i++) {
            firm_step x, y;
            EXPECT_INT(firm_controller_act(a, 0, &x), FIRM_OK);
            EXPECT_INT(firm_controller_act(b, 0, &y), FIRM_OK);
            EXPECT_INT(memcmp(x.action, y.action, sizeof x.action), 0);
            EXPECT_INT(x.solved, y.solved);
        }
        free(state);
        firm_controller_free(a);
        firm_controller_free(b);
    }
    free(rgb);
    firm_model_free(m);
}

TEST(plan, lewm_states_have_no_names) {
    firm_model* m = model();
    firm_model_info info;
    uint8_t* rgb = malloc(PICTURE);
    EXPECT_INT(firm_model_info_get(m, &info), FIRM_OK);
    EXPECT_INT(info.config_dim, 0);
    EXPECT_INT(info.distance_dim, 1);
    EXPECT(strcmp(info.distance_name[0], "latent") == 0);
    EXPECT_INT(info.parameters, lewm_params(m->lewm));
    firm_controller* ctl = controller(m, FIRM_MODE_CONTRACT, 1);
    float numbers[FIRM_MAX_CONFIG] = {0}, plan[10] = {0}, distance[2];
    firm_step step;
    draw(rgb, 1);
    EXPECT_INT(firm_controller_push(ctl, rgb, NULL), FIRM_OK);
    EXPECT_INT(firm_controller_goal_config(ctl, numbers, NULL), FIRM_E_UNAVAILABLE);
    EXPECT(strstr(firm_controller_error(ctl), "pictures"));
    EXPECT_INT(firm_controller_config(ctl, numbers), FIRM_E_UNAVAILABLE);
    // the goal is where it stands
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    EXPECT(step.path == NULL && step.fan_path == NULL && step.goal_config == NULL);
    EXPECT_NEAR(step.distance_now[0], 0, 0);
    EXPECT_INT(step.reached, 1);
    EXPECT(step.distance_planned[0] > 0);
    EXPECT_INT(firm_controller_predict(ctl, plan, 1, NULL, distance), FIRM_OK);
    EXPECT_NEAR(distance[0], 0, 0);
    EXPECT(distance[1] > 0 && isfinite(distance[1]));
    firm_controller_params p = firm_controller_params_default();
    firm_controller* none;
    firm_error err = {0};
    p.device = FIRM_DEVICE_CUDA;
    EXPECT_INT(firm_controller_create(m, &p, &none, &err), FIRM_E_UNAVAILABLE);
    firm_controller_free(ctl);
    free(rgb);
    firm_model_free(m);
}

// Rollouts begin at the latent of the frame pushed last; the distance is the root of the mean square, units are multiples of the
// tolerance.
TEST(plan, lewm_world_starts_at_its_frame_and_measures_latents) {
    firm_model* m = model();
    firm_error err = {0};
    plan_options o;
    plan_world world;
    lewm_net* net;
    REQUIRE_OK(plan_options_of_text("the test", "", FIRM_MODE_CONTRACT, &o, &err), err);
    plan_world_setup setup = {.model = m, .options = &o, .longest = o.horizon};
    REQUIRE_OK(plan_world_open(&setup, &world, &err), err);
    REQUIRE_OK(lewm_net_create(m->lewm, &net, &err), err);
    const int width = world.model.state, action = world.model.action;
    const size_t path_bytes = (size_t)(5 * width) * sizeof(float);
    uint8_t* rgb = malloc(PICTURE);
    float *z = malloc((size_t)width * sizeof *z), *u = malloc((size_t)(5 * action) * sizeof *u),
          *got = malloc(path_bytes), *want = malloc(path_bytes);
    void* scratch = mem_alloc(lewm_net_scratch_bytes(net));
    rng_fill_normal(3, RNG_STREAM(RNG_TEST, 1), 0, u, 5 * action);
    for (int which = 1; which < 3; which++) {
        plan_seen seen = {.state = z};
        draw(rgb, which);
        EXPECT_INT(world.sight.push(world.sight.context, rgb, NULL, 1, &seen), FIRM_OK);
        EXPECT_INT(world.sight.start(world.sight.context, z), FIRM_OK);
        EXPECT_INT(world.model.rollout(world.model.context, 0, 1, 5, u, got), 0);
        EXPECT_INT(lewm_net_rollout(net, scratch, 1, 5, z, u, want), 0);
        EXPECT_INT(memcmp(got, want, path_bytes), 0);
    }
    double square = 0;
    float distance = 0;
    for (int j = 0; j < width; j++) square += pow((double)got[j] - (double)z[j], 2);
    world.price.measure(world.price.context, got, z, &distance);
    EXPECT(square > 0);
    EXPECT_NEAR(distance, sqrt(square / width), 1e-5 * sqrt(square / width));
    EXPECT_NEAR(world.price.cost(world.price.context, got, z), square, 1e-5 * square);
    EXPECT_NEAR(world.price.units(world.price.context, got, z),
                sqrt(square / width) / (double)MODEL_LATENT_TOLERANCE, 1e-4);
    mem_free(scratch);
    free(want), free(got), free(u), free(z), free(rgb);
    lewm_net_free(net);
    world.sight.close(world.sight.context);
    firm_model_free(m);
}

// The goal is what a plan of our own leads to: the search must end far nearer to it than doing
// nothing does, and its cost is the squared distance of the latents.
TEST(plan, lewm_searches_lead_to_the_goal) {
    firm_model* m = model();
    firm_error err = {0};
    for (int solver = 0; solver < 3; solver++) {
        plan_options o;
        plan_world world;
        plan_solver* s;
        REQUIRE_OK(plan_options_of_text("the test", "", FIRM_MODE_CONTRACT, &o, &err), err);
        o.solver = (plan_solver_kind)solver;
        o.iterations = 15;
        plan_world_setup setup = {.model = m, .options = &o, .longest = o.horizon};
        REQUIRE_OK(plan_world_open(&setup, &world, &err), err);
        const int width = world.model.state, action = world.model.action;
        uint8_t* rgb = malloc(PICTURE);
        float *z = malloc((size_t)width * sizeof *z), *u = malloc((size_t)(5 * action) * sizeof *u),
              *path = malloc((size_t)(5 * width) * sizeof *path);
        plan_seen seen = {.state = z};
        draw(rgb, 4);
        EXPECT_INT(world.sight.push(world.sight.context, rgb, NULL, 1, &seen), FIRM_OK);
        EXPECT_INT(world.sight.start(world.sight.context, z), FIRM_OK);
        rng_fill_normal(3, RNG_STREAM(RNG_TEST, 1), 0, u, 5 * action);
        EXPECT_INT(world.model.rollout(world.model.context, 0, 1, 5, u, path), 0);
        plan_setup search = {.world = world,
                             .options = o,
                             .actions = {.dim = 2, .controls = 5, .deviation = {1, 1}}};
        REQUIRE_OK(plan_solver_create(&search, &s, &err), err);
        plan_result r;
        const float* goal = path + 4 * width;
        plan_solver_solve(s, z, goal, 0, &r);
        double began = 0, ended = 0;  // began: of doing nothing
        float* idle = malloc((size_t)(5 * width) * sizeof *idle);
        memset(u, 0, (size_t)(5 * action) * sizeof *u);
        EXPECT_INT(world.model.rollout(world.model.context, 0, 1, 5, u, idle), 0);
        for (int j = 0; j < width; j++) {
            began += pow((double)idle[4 * width + j] - (double)goal[j], 2);
            ended += pow((double)r.path[5 * width + j] - (double)goal[j], 2);
        }
        EXPECT_NEAR(r.cost, ended, 1e-4 * (1 + ended));
        free(idle);
        if (!(ended < 0.15 * began))
            test_fail(__FILE__, __LINE__, "%s: %g of %g is left", plan_solver_name(o.solver), ended,
                      began);
        plan_solver_free(s);
        world.sight.close(world.sight.context);
        free(path), free(u), free(z), free(rgb);
    }
    firm_model_free(m);
}
