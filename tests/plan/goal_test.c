// goal_test.c - goals as numbers, whole or in part; what a controller says of the present and of
// plans that are not its own.
#include "check.h"
#include "env/env.h"
#include "members.h"

enum { ROOM = (1 + ENV_HORIZON) * FIRM_MAX_CONFIG };

// Push-T's configuration: the block's angle (sin, cos), then two points.
static firm_controller* watcher(const firm_model* m, firm_mode mode, uint8_t* rgb) {
    firm_controller* ctl = member_controller(m, mode, 1, FIRM_DEVICE_CPU);
    member_show(ctl, rgb);
    return ctl;
}

TEST(plan, goal_numbers_act_as_their_picture) {
    firm_model* m = member_lively("tworoom", 5);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    for (int mode = 0; mode < 2; mode++) {
        firm_controller *a = watcher(m, (firm_mode)mode, rgb),
                        *b = watcher(m, (firm_mode)mode, rgb);
        firm_step x, y;
        float goal[2] = {controller_goal_config(a)[0], controller_goal_config(a)[1]};
        uint8_t all[2] = {1, 9};
        EXPECT_INT(firm_controller_goal_config(b, goal, mode ? all : NULL), FIRM_OK);
        for (int i = 0; i < 7; i++) {
            EXPECT_INT(firm_controller_act(a, 0, &x), FIRM_OK);
            EXPECT_INT(firm_controller_act(b, 0, &y), FIRM_OK);
            EXPECT(memcmp(x.action, y.action, sizeof x.action) == 0 && x.cost == y.cost);
            EXPECT(x.distance_now[0] == y.distance_now[0] && x.distance_now[0] > 0);
        }
        firm_controller_free(a);
        firm_controller_free(b);
    }
    free(rgb);
    firm_model_free(m);
}

// what a search for part of a goal minimises, and what it tells
static void search_in_part(const firm_model* m, firm_mode mode, uint8_t* rgb) {
    const task_typed* t = &m->task;
    firm_controller* ctl = watcher(m, mode, rgb);
    firm_step step;
    float now[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG], want[TASK_MAX_DISTANCE];
    uint8_t given[FIRM_MAX_CONFIG] = {0};
    EXPECT_INT(firm_controller_config(ctl, now), FIRM_OK);
    EXPECT(memcmp(now, controller_config(ctl), (size_t)t->config_dim * sizeof *now) == 0);
    // the last coordinate alone
    const int last = t->config_dim - 1;
    for (int i = 0; i < t->config_dim; i++) goal[i] = NAN;
    goal[last] = now[last] + 0.3f;
    given[last] = 1;
    EXPECT_INT(firm_controller_goal_config(ctl, goal, given), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    EXPECT_INT(step.solved, 1);
    EXPECT_INT(step.reached, 0);
    EXPECT(isfinite(step.cost));
    for (int i = 0; i < last; i++) EXPECT(step.goal_config[i] == now[i]);
    for (int i = 0; i < t->distances; i++) {
        const task_rule* r = &t->distance[i].rule;
        int counts = !r->angle && r->first + r->count > last;
        EXPECT_NEAR(step.distance_now[i], counts ? 0.3 * (double)r->scale : 0, 1e-3);
        if (!counts) EXPECT(step.distance_planned[i] == 0);
    }
    const float* at = step.path + step.arrival * t->config_dim;
    task_measure_given(t, given, at, step.goal_config, want);
    for (int i = 0; i < t->distances; i++) EXPECT_NEAR(step.distance_planned[i], want[i], 0);
    if (mode == FIRM_MODE_CONTRACT)
        EXPECT_NEAR(step.cost,
                    task_cost_value_given(t, given, step.path + step.horizon * t->config_dim,
                                          step.goal_config),
                    0);
    // where it is already
    goal[last] = now[last];
    EXPECT_INT(firm_controller_goal_config(ctl, goal, given), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    EXPECT_INT(step.reached, 1);
    // a picture is a whole goal again
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    task_measure(t, now, controller_goal_config(ctl), want);
    for (int i = 0; i < t->distances; i++) EXPECT_NEAR(step.distance_now[i], want[i], 0);
    firm_controller_free(ctl);
}

TEST(plan, goal_in_part_leaves_the_rest_free) {
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    const char* const task[] = {"tworoom", "pusht"};
    for (int i = 0; i < 4; i++) {
        firm_model* m = member_lively(task[i / 2], 5);
        search_in_part(m, i % 2 ? FIRM_MODE_REACH : FIRM_MODE_CONTRACT, rgb);
        firm_model_free(m);
    }
    free(rgb);
}

TEST(plan, goal_numbers_are_checked) {
    firm_model* m = member_lively("pusht", 5);
    firm_controller* ctl = member_controller(m, FIRM_MODE_CONTRACT, 1, FIRM_DEVICE_CPU);
    const int dim = m->task.config_dim;
    float goal[FIRM_MAX_CONFIG];
    uint8_t given[FIRM_MAX_CONFIG] = {0}, *rgb = malloc(MEMBER_PICTURE);
    firm_step step;
    EXPECT(m->task.pairs == 1);
    for (int i = 0; i < dim; i++) goal[i] = 0.1f * (float)i;
    EXPECT_INT(firm_controller_goal_config(NULL, goal, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_goal_config(ctl, NULL, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_goal_config(ctl, goal, given), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "every coordinate free"));
    given[1] = 1;
    EXPECT_INT(firm_controller_goal_config(ctl, goal, given), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "both numbers of an angle"));
    goal[0] = goal[1] = 0;
    EXPECT_INT(firm_controller_goal_config(ctl, goal, NULL), FIRM_E_VALUE);
    EXPECT(strstr(firm_controller_error(ctl), "are both 0"));
    goal[1] = 2;
    goal[3] = NAN;
    EXPECT_INT(firm_controller_goal_config(ctl, goal, NULL), FIRM_E_VALUE);
    EXPECT(strstr(firm_controller_error(ctl), m->task.config_name[3]));
    EXPECT_INT(firm_controller_push(ctl, memset(rgb, 9, MEMBER_PICTURE), NULL), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_E_USAGE);  // none of these was a goal
    goal[3] = 0.3f;
    EXPECT_INT(firm_controller_goal_config(ctl, goal, NULL), FIRM_OK);
    EXPECT_NEAR(controller_goal_config(ctl)[1], 1, 0);  // to length 1
    EXPECT_NEAR(controller_goal_config(ctl)[3], 0.3f, 0);
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}

TEST(plan, predict_agrees_with_the_search) {
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    for (int way = 0; way < 4; way++) {
        firm_mode mode = way % 2 ? FIRM_MODE_REACH : FIRM_MODE_CONTRACT;
        firm_model* m = way < 2 ? member_lively("pusht", 5) : member_pair("pusht", 5, 6);
        const int dim = m->task.config_dim, n = m->task.distances;
        for (int i = 0; i < m->task.action_dim; i++) {  // as a trained model's, not 0 and 1
            m->stats.action_mean[i] = 0.1f * (float)(i + 1);
            m->stats.action_std[i] = 0.4f + 0.2f * (float)i;
        }
        firm_controller *ctl = watcher(m, mode, rgb), *other = watcher(m, mode, rgb);
        firm_step step, same;
        float path[32 * FIRM_MAX_CONFIG], distance[32 * TASK_MAX_DISTANCE];
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT(step.horizon < 32);
        EXPECT_INT(firm_controller_predict(ctl, step.plan, step.horizon, path, distance), FIRM_OK);
        double worst = 0;
        for (int i = 0; i < (step.horizon + 1) * dim; i++)
            worst = test_worse(worst, fabs((double)path[i] - step.path[i]));
        EXPECT_NEAR(worst, 0, 1e-4);  // raw controls and back is not exact
        for (int i = 0; i < n; i++) {
            EXPECT_NEAR(distance[i], step.distance_now[i], 1e-6 * fabs(step.distance_now[i]));
            EXPECT_NEAR(distance[step.arrival * n + i], step.distance_planned[i],
                        1e-3 * fabs(step.distance_planned[i]));
        }
        EXPECT_INT(firm_controller_predict(ctl, step.plan, 1, NULL, NULL), FIRM_OK);
        // and act goes on as if nobody had asked
        EXPECT_INT(firm_controller_act(other, 0, &same), FIRM_OK);
        for (int i = 0; i < 30; i++) {
            EXPECT_INT(firm_controller_push(ctl, rgb, step.action), FIRM_OK);
            EXPECT_INT(firm_controller_push(other, rgb, same.action), FIRM_OK);
            EXPECT_INT(firm_controller_predict(ctl, step.plan, 2, path, NULL), FIRM_OK);
            EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
            EXPECT_INT(firm_controller_act(other, 0, &same), FIRM_OK);
            EXPECT(memcmp(step.action, same.action, sizeof same.action) == 0);
            if (test_short() && i == 6) break;
        }
        firm_controller_free(ctl);
        firm_controller_free(other);
        firm_model_free(m);
    }
    free(rgb);
}

TEST(plan, predict_is_checked) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controller* ctl = member_controller(m, FIRM_MODE_CONTRACT, 1, FIRM_DEVICE_CPU);
    uint8_t* rgb = calloc(1, MEMBER_PICTURE);
    float plan[ENV_HORIZON * ENV_CONTROLS * 2] = {0}, path[ROOM], distance[8];
    EXPECT_INT(firm_controller_config(ctl, path), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "firm_controller_push"));
    EXPECT_INT(firm_controller_predict(ctl, plan, 1, path, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_push(ctl, rgb, NULL), FIRM_OK);
    EXPECT_INT(firm_controller_config(ctl, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_config(NULL, path), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_predict(NULL, plan, 1, path, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_predict(ctl, plan, 1, path, distance), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "need a goal"));
    EXPECT_INT(firm_controller_predict(ctl, NULL, 1, path, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_predict(ctl, plan, 0, path, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_predict(ctl, plan, 1000, path, NULL), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "1000 macro actions"));
    EXPECT_INT(firm_controller_predict(ctl, plan, ENV_HORIZON, path, NULL), FIRM_OK);
    plan[3] = INFINITY;
    EXPECT_INT(firm_controller_predict(ctl, plan, 1, path, NULL), FIRM_E_VALUE);
    EXPECT(strstr(firm_controller_error(ctl), "number 1 of control 1"));
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}
