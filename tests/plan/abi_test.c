// abi_test.c - structs of older and newer headers, and what the library may write of them.
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"
#include "members.h"

enum { OLD = offsetof(firm_controller_params, gpu) };

// Creates with params of so many bytes; what lies behind them is rubbish.
static firm_status create_sized(const firm_model* m, size_t size, char beyond,
                                firm_controller** ctl, firm_error* err) {
    union {
        firm_controller_params p;
        char bytes[sizeof(firm_controller_params) + 64];
    } u;
    memset(&u, beyond, sizeof u);
    firm_controller_params p = firm_controller_params_default();
    p.size = size;
    p.mode = FIRM_MODE_CONTRACT, p.threads = 1, p.candidates = 8, p.elites = 2, p.iterations = 1;
    memcpy(&u, &p, size < sizeof p ? size : sizeof p);
    memcpy(&u, &p.size, sizeof p.size);
    return firm_controller_create(m, &u.p, ctl, err);
}

TEST(plan, abi_params_of_an_older_header_have_defaults) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controller* ctl = NULL;
    firm_error err = {0};
    EXPECT_INT(firm_abi(), FIRM_ABI);
    EXPECT_INT(firm_controller_params_default().size, sizeof(firm_controller_params));
    EXPECT_INT(firm_controller_params_default().mode, FIRM_MODE_REACH);
    // the rubbish would be a negative GPU and a wild list of cores
    REQUIRE_OK(create_sized(m, OLD, (char)0xFF, &ctl, &err), err);
    firm_controller_free(ctl);
    EXPECT_INT(create_sized(m, sizeof(firm_controller_params), (char)0xFF, &ctl, &err), FIRM_OK);
    firm_controller_free(ctl);
    // newer ones: members that nobody has set do not matter
    EXPECT_INT(create_sized(m, sizeof(firm_controller_params) + 8, 0, &ctl, &err), FIRM_OK);
    firm_controller_free(ctl);
    EXPECT_INT(create_sized(m, sizeof(firm_controller_params) + 8, 1, &ctl, &err),
               FIRM_E_UNAVAILABLE);
    EXPECT(!ctl && strstr(err.message, "newer"));
    size_t wrong[] = {0, 8, OLD - 1, (size_t)1 << 40};
    for (int i = 0; i < 4; i++) {
        EXPECT_INT(create_sized(m, wrong[i], 0, &ctl, &err), FIRM_E_USAGE);
        EXPECT(!ctl && strstr(err.message, "firm_controller_params_default"));
    }
    firm_model_free(m);
}

TEST(plan, abi_nothing_is_written_behind_a_struct) {
    struct {
        firm_model_info info;
        unsigned char after[64];
    } a;
    struct {
        firm_step step;
        unsigned char after[64];
    } b;
    firm_model* m = member_lively("tworoom", 5);
    firm_controller* ctl = member_controller(m, FIRM_MODE_CONTRACT, 1, FIRM_DEVICE_CPU);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    memset(&a, 0xA5, sizeof a);
    memset(&b, 0xA5, sizeof b);
    EXPECT_INT(firm_model_info_get(m, &a.info), FIRM_OK);
    member_show(ctl, rgb);
    EXPECT_INT(firm_controller_act(ctl, 0, &b.step), FIRM_OK);
    for (int i = 0; i < 64; i++) EXPECT(a.after[i] == 0xA5 && b.after[i] == 0xA5);
    for (int i = 0; i < 64; i++) EXPECT(a.info.reserved[i] == 0);
    for (int i = 0; i < 32; i++) EXPECT(b.step.reserved[i] == 0);
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}

TEST(plan, abi_affinity_and_gpu_are_checked) {
    firm_model* m = member_lively("tworoom", 5);
    firm_controller* ctl;
    firm_error err = {0};
    int core[2] = {0, sched_getcpu()}, none[2] = {0, 1000};
    firm_controller_params p = firm_controller_params_default();
    p.affinity = core;
    EXPECT_INT(firm_controller_create(m, &p, &ctl, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "params.threads"));
    p.threads = 2;
    REQUIRE_OK(firm_controller_create(m, &p, &ctl, &err), err);
    firm_controller_free(ctl);
    p.affinity = none;
    EXPECT_INT(firm_controller_create(m, &p, &ctl, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "core 1000"));
    p = firm_controller_params_default();
    p.gpu = -1;
    EXPECT_INT(firm_controller_create(m, &p, &ctl, &err), FIRM_E_USAGE);
    firm_model_free(m);
}
