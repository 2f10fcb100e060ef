// api_test.c - firm.h called wrongly: every call answers with a status, and the controller with a
// sentence. Nothing crashes.
#include "check.h"
#include "members.h"
#include "plan/perceive.h"

TEST(plan, api_takes_no_null) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controller *ctl = member_controller(m, FIRM_MODE_REACH, 1, FIRM_DEVICE_CPU), *none = ctl;
    firm_model_info info = {.image_size = 7};
    firm_error err = {0};
    firm_step step = {.horizon = 7};
    uint8_t* rgb = calloc(1, MEMBER_PICTURE);

    EXPECT_INT(firm_model_info_get(NULL, &info), FIRM_E_USAGE);
    EXPECT_INT(info.image_size, 0);  // and nothing in it looks like an answer
    EXPECT_INT(firm_model_info_get(m, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_model_info_get(m, &info), FIRM_OK);
    EXPECT_INT(info.image_size, 224);

    EXPECT_INT(firm_controller_create(NULL, NULL, &none, &err), FIRM_E_USAGE);
    EXPECT(none == NULL && strstr(err.message, "firm_model_load"));
    EXPECT_INT(firm_controller_create(m, NULL, NULL, &err), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_create(NULL, NULL, NULL, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_bytes(NULL), 0);
    EXPECT_INT(firm_controller_goal(NULL, rgb), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_push(NULL, rgb, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_act(NULL, 0, &step), FIRM_E_USAGE);
    EXPECT_INT(step.horizon, 0);
    EXPECT_INT(firm_controller_act(NULL, 0, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_reset(NULL, 1), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(NULL), "firm_controller_create"));
    firm_controller_free(NULL);
    firm_model_free(NULL);

    EXPECT_INT(firm_controller_goal(ctl, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_push(ctl, NULL, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_act(ctl, 0, NULL), FIRM_E_USAGE);
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}

TEST(plan, api_refuses_modes_that_do_not_exist) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controller* ctl = NULL;
    int mode[] = {-1, 2, 1 << 30};
    for (int i = 0; i < 3; i++) {
        firm_error err = {0};
        firm_controller_params p = firm_controller_params_default();
        p.mode = (firm_mode)mode[i];
        EXPECT_INT(firm_controller_create(m, &p, &ctl, &err), FIRM_E_USAGE);
        EXPECT(!ctl && strstr(err.message, "FIRM_MODE_REACH"));
    }
    firm_model_free(m);
}

TEST(plan, api_tells_why_the_last_call_failed) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controller* ctl = member_controller(m, FIRM_MODE_REACH, 1, FIRM_DEVICE_CPU);
    uint8_t* rgb = calloc(1, MEMBER_PICTURE);
    float action[2] = {0, NAN};
    firm_step step;
    EXPECT_TEXT(firm_controller_error(ctl), "");
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "firm_controller_goal"));
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    EXPECT_TEXT(firm_controller_error(ctl), "");
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "firm_controller_push"));
    EXPECT_INT(firm_controller_push(ctl, rgb, action), FIRM_E_VALUE);
    EXPECT(strstr(firm_controller_error(ctl), "number 1 of the action is not finite"));
    EXPECT_INT(firm_controller_goal(ctl, NULL), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(ctl), "224 x 224 x 3"));
    EXPECT_INT(firm_controller_reset(ctl, 1), FIRM_OK);
    EXPECT_TEXT(firm_controller_error(ctl), "");
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}

// when the change between frames is encoded makes no difference to what comes out
TEST(plan, api_sees_the_same_ahead_of_time) {
    firm_model* m = member_lively("tworoom", 5);
    firm_error err = {0};
    pool* threads;
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    static const float still[FIRM_MAX_ACTION];
    float fiber[4][8], c[FIRM_MAX_CONFIG];
    REQUIRE_OK(pool_create(2, &threads, &err), err);
    EXPECT(m->shape.fiber <= 8);
    for (int way = 0; way < 4; way++) {  // ahead: no frame, the last one, the one before, both
        perception* p;
        REQUIRE_OK(perception_create(m, NULL, threads, &p, &err), err);
        for (int i = 0; i < 5; i++) {
            for (int k = 0; k < MEMBER_PICTURE; k++) rgb[k] = (uint8_t)(k * (i + 3) + k / 97);
            int soon = i == 4 ? way & 1 : i == 3 ? way >> 1 : 0;
            EXPECT_INT(perception_push(p, rgb, i ? still : NULL, soon), FIRM_OK);
        }
        EXPECT_INT(perception_state(p, NULL, c, fiber[way]), FIRM_OK);
        EXPECT_INT(memcmp(fiber[way], fiber[0], (size_t)m->shape.fiber * sizeof(float)), 0);
        perception_free(p);
    }
    EXPECT(fiber[0][0] != 0);
    pool_free(threads);
    free(rgb);
    firm_model_free(m);
}

TEST(plan, api_plans_anew_for_a_new_goal) {
    firm_model* m = member_lively("tworoom", 5);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    for (int mode = 0; mode < 2; mode++) {
        firm_controller* ctl = member_controller(m, (firm_mode)mode, 1, FIRM_DEVICE_CPU);
        firm_step step;
        if (!ctl) continue;
        member_show(ctl, rgb);
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT_INT(step.solved, 1);
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT_INT(step.solved, 0);
        EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT_INT(step.solved, 1);
        firm_controller_free(ctl);
    }
    free(rgb);
    firm_model_free(m);
}
