// typed_test.c - what tasks say of a moment, by hand: which are rare, how moments are told apart
// when recorded sequences are looked up, changes of angle across the seam of a turn, and what
// TwoRoom's expert does there.
#include "check.h"
#include "env/cube.h"
#include "env/env.h"
#include "env/tworoom.h"

// The block is pushed when it moves or when it turns; neither alone is needed by the other.
TEST(env, pusht_rare_moments_are_pushes) {
    const env_spec* spec = env_find("pusht");
    if (!spec) {
        test_skip("Push-T is not built in");
        return;
    }
    const double still[7] = {100, 100, 200, 250, 3.1, 0, 0};
    static const struct {
        double dx, dy, turn;
        int rare;
    } seen[] = {{0, 0, 0, 0},    {0.4, 0.2, 0.009, 0}, {0.6, 0, 0, 1},      {0, -0.6, 0, 1},
                {0, 0, 0.02, 1}, {0, 0, -0.02, 1},     {0, 0, 6.2831853, 0}};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        double now[7];
        memcpy(now, still, sizeof now);
        now[0] += 5;  // the agent may walk as it likes
        now[2] += seen[i].dx;
        now[3] += seen[i].dy;
        now[4] += seen[i].turn;
        EXPECT_INT(env_rare(spec, now, still), seen[i].rare);
    }
}

TEST(env, pusht_change_of_angle_is_the_shorter_one) {
    const env_spec* spec = env_find("pusht");
    if (!spec) {
        test_skip("Push-T is not built in");
        return;
    }
    float chi[5];
    double now[7] = {128, 0, 256, 0, 3.1, 0, 0}, then[7] = {0, 128, 0, 256, -3.1, 0, 0};
    env_chi(spec, now, now, then, chi);
    EXPECT_NEAR(chi[0], 0.5, 1e-7);
    EXPECT_NEAR(chi[1], -0.5, 1e-7);
    EXPECT_NEAR(chi[2], 1, 1e-7);
    EXPECT_NEAR(chi[3], -1, 1e-7);
    EXPECT_NEAR(chi[4], 6.2 - 6.28318531, 1e-6);
}

// In tolerances of 20 px (256 px are 1) and 0.35 of a direction: agent from block, goal's block
// from block, goal's agent from agent, the direction now and then.
TEST(env, pusht_situation_by_hand) {
    const env_spec* spec = env_find("pusht");
    if (!spec) {
        test_skip("Push-T is not built in");
        return;
    }
    const float c[6] = {0, 1, 0.1f, 0.2f, 0.3f, 0.5f}, goal[6] = {1, 0, 0.5f, -0.2f, 0.4f, 0.3f};
    const double place = 12.8, turn = 1 / 0.35;
    const double want[10] = {-0.2 * place,
                             -0.3 * place,
                             0.1 * place,
                             -0.2 * place,
                             0.4 * place,
                             -0.4 * place,
                             0,
                             turn,
                             turn,
                             0};
    float out[10];
    EXPECT_INT(spec->task.situation_dim, 10);
    task_situation(&spec->task, c, NULL, goal, out);
    for (int i = 0; i < 10; i++) EXPECT_NEAR(out[i], want[i], 1e-5);
}

// A recalled moment has no history that could be replayed: it cannot be saved, and says so.
TEST(env, pusht_recalled_moments_cannot_be_saved) {
    const env_spec* spec = env_find("pusht");
    if (!spec) {
        test_skip("Push-T is not built in");
        return;
    }
    const double state[7] = {100, 100, 250, 300, 0.5, 0, 0};
    static char kept[1 << 16];
    env* world;
    firm_error err;
    REQUIRE_OK(env_create(spec, &world, &err), err);
    EXPECT(spec->sim->save_bytes <= sizeof kept);
    spec->sim->state_set(world, state);
    EXPECT_INT(spec->sim->save(world, kept), FIRM_OK);
    env_recall(world, state);
    EXPECT_INT(spec->sim->save(world, kept), FIRM_E_UNAVAILABLE);
    spec->sim->step(world, (float[]){0.1f, 0});
    EXPECT_INT(spec->sim->save(world, kept), FIRM_E_UNAVAILABLE);
    env_free(world);
}

TEST(env, cube_rare_moments_are_lifts) {
    const env_spec* spec = env_find("cube");
    double s[CUBE_STATE] = {0};
    s[CUBE_BLOCK] = s[CUBE_BLOCK + 1] = 1;
    s[CUBE_BLOCK + 2] = CUBE_LIFTED - 0.001;
    EXPECT_INT(env_rare(spec, s, s), 0);
    s[CUBE_BLOCK] = s[CUBE_BLOCK + 1] = -1;
    s[CUBE_BLOCK + 2] = CUBE_LIFTED + 0.001;
    EXPECT_INT(env_rare(spec, s, s), 1);
}

// The gripper from the cube in 2 cm, the way of the cube in tolerances of 4 cm, how far the gripper
// is closed in fifths; 1 of a configuration is 0.35 m.
TEST(env, cube_situation_by_hand) {
    const env_spec* spec = env_find("cube");
    float c[3] = {0.1f, -0.2f, 0}, goal[3] = {0.3f, -0.2f, 0.5f}, chi[25] = {0}, out[7];
    chi[12] = 0.2f, chi[13] = -0.2f, chi[14] = 0.4f, chi[17] = 0.6f;
    const double want[7] = {1.75, 0, 7, 0.2 * 0.35 / CUBE_TOLERANCE, 0, 0.5 * 0.35 / CUBE_TOLERANCE,
                            3};
    EXPECT_NEAR(CUBE_TOLERANCE, 0.04, 1e-9);
    EXPECT_INT(spec->task.situation_dim, 7);
    task_situation(&spec->task, c, chi, goal, out);
    for (int i = 0; i < 7; i++) EXPECT_NEAR(out[i], want[i], 1e-5);
}

// A step of length one to the door's middle, with normal noise of deviation 2 on each axis, cut at
// the bounds. The same normals are drawn beside it.
TEST(env, tworoom_expert_walks_to_the_door_with_noise) {
    const env_spec* spec = env_find("tworoom");
    env* world;
    firm_error err;
    int within = 0;
    REQUIRE_OK(env_create(spec, &world, &err), err);
    for (int i = 0; i < 50; i++) {
        double s[2];
        float action[2];
        rng r = rng_start(3, RNG_STREAM(RNG_TEST, i)), same;
        spec->sim->reset(world, &r);
        spec->sim->state_get(world, s);
        same = r;
        spec->collection->policy[0].act(world, &r, action);
        double dx = TWOROOM_WALL_X - s[0], dy = TWOROOM_DOOR_Y - s[1], far = hypot(dx, dy);
        if (far < 11) continue;  // it heads for the target already
        double want[2] = {dx / far, dy / far};
        for (int k = 0; k < 2; k++) {
            want[k] = fmin(fmax(want[k] + 2 * (double)rng_gauss(&same), -1), 1);
            EXPECT_NEAR(action[k], want[k], 1e-5);
            within += fabs(want[k]) < 1;
        }
    }
    EXPECT(within > 10);
    env_free(world);
}
