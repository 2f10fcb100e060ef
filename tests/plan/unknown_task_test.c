// unknown_task_test.c - a model of a task that no code here knows: its file says everything, and a
// controller that was given nothing else reaches the goal.
//
// The weights are the shipped ones of a task that there is a simulator for, and all names are
// changed: nothing that looks a task up by name can help.
#include "check.h"
#include "env/env.h"
#include "model/checkpoint.h"

static const char name[] = "warehouse";

static void rename_task(task_typed* t) {
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->config_name[0], TASK_NAME, "cart_east");
    snprintf(t->config_name[1], TASK_NAME, "cart_south");
    snprintf(t->distance[0].name, TASK_NAME, "cart");
    snprintf(t->distance[0].unit, TASK_UNIT, "dm");
    t->distance[0].tolerance = 14;
}

// The shipped model under other names, as a file.
static int write_model(char* path, size_t room) {
    char shipped[1024];
    firm_model* m = NULL;
    firm_error err = {0};
    snprintf(shipped, sizeof shipped, "%s/models/tworoom.safetensors", test_source_dir());
    snprintf(path, room, "%s/%s.safetensors", test_temp_dir(), name);
    firm_status st = firm_model_load(shipped, &m, &err);
    if (m) rename_task(&m->task);
    if (st == FIRM_OK) st = checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    firm_model_free(m);
    return st == FIRM_OK;
}

TEST(plan, a_task_that_nobody_knows_is_controlled) {
    static const double start[2] = {60, 150}, goal[2] = {160, 60};  // in the other room
    static uint8_t rgb[ENV_FRAME_BYTES];
    char path[1024];
    firm_model* m;
    firm_model_info info;
    firm_controller* ctl;
    firm_error err = {0};
    if (!write_model(path, sizeof path)) return;
    EXPECT(env_find(name) == NULL);
    REQUIRE_OK(firm_model_load(path, &m, &err), err);
    EXPECT_INT(firm_model_info_get(m, &info), FIRM_OK);
    EXPECT_TEXT(info.task, name);
    EXPECT_TEXT(info.config_name[1], "cart_south");
    EXPECT_TEXT(info.distance_unit[0], "dm");
    EXPECT_NEAR(info.distance_tolerance[0], 14, 0);
    firm_controller_params few = firm_controller_params_default();
    few.candidates = 32, few.elites = 8, few.iterations = 4;
    REQUIRE_OK(firm_controller_create(m, test_short() ? &few : NULL, &ctl, &err), err);

    // a simulator of the same world stands in for the cart
    const env_spec* world = env_find("tworoom");
    env* e;
    REQUIRE_OK(env_create(world, &e, &err), err);
    world->sim->state_set(e, goal);
    world->sim->render(e, rgb);
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    world->sim->state_set(e, start);
    firm_step step = {0};
    float last[FIRM_MAX_ACTION];
    const int most = test_short() ? 6 : 100;  // where release arrives
    int controls = 0;
    for (;; controls++) {
        world->sim->render(e, rgb);
        EXPECT_INT(firm_controller_push(ctl, rgb, controls ? last : NULL), FIRM_OK);
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        if (step.distance_now[0] < info.distance_tolerance[0] || controls == most) break;
        memcpy(last, step.action, sizeof last);
        world->sim->step(e, last);
    }
    double there[2];
    world->sim->state_get(e, there);
    EXPECT(hypot(there[0] - start[0], there[1] - start[1]) > 5);
    EXPECT(test_short() || controls < most);
    EXPECT(test_short() || hypot(there[0] - goal[0], there[1] - goal[1]) < 16);
    env_free(e);
    firm_controller_free(ctl);
    firm_model_free(m);
}
