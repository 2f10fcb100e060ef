// trail_test.c - a goal behind a wall, too far round for the horizon: reach mode gets there along a
// recording, in as many steps as that, and without one it stays at the wall.
#include <math.h>

#include "check.h"
#include "core/mem.h"
#include "plan/cem.h"
#include "plan/recall.h"
#include "plan/typed.h"

// A point in the plane that moves by its action, at most 1 a step and axis; a wall at x = 0 for
// |y| < 3. One control is a macro action.
#define PLACE(of, i) \
    { 1, {of, i}, {TASK_ZERO, 0}, 1 }
static const task_typed plane = {.name = "plane",
                                 .controls = 1,
                                 .horizon = 2,
                                 .action_dim = 2,
                                 .config_dim = 2,
                                 .chi_dim = 1,
                                 .distances = 1,
                                 .distance = {{"point", "m", 0.3f, {0, 0, 2, 1}}},
                                 .situation_dim = 4,
                                 .situation = {PLACE(TASK_CONFIG, 0), PLACE(TASK_CONFIG, 1),
                                               PLACE(TASK_GOAL, 0), PLACE(TASK_GOAL, 1)}};

static void step(float* at, const float* u) {
    float to[2];
    for (int i = 0; i < 2; i++) to[i] = at[i] + fmaxf(-1, fminf(1, u[i]));
    if ((at[0] < 0) != (to[0] < 0)) {
        float y = at[1] + (to[1] - at[1]) * at[0] / (at[0] - to[0]);
        if (fabsf(y) < 3) to[0] = at[0] < 0 ? -0.05f : 0.05f;
    }
    memcpy(at, to, sizeof to);
}

typedef struct maze {
    firm_model m;
    float now[2];
    plan_recall* recall;
    plan_typed typed;
    pool* threads;
    plan_solver* solver;
} maze;

static int rollout(void* context, int worker, int n, int horizon, const float* u, float* path) {
    const maze* z = context;
    (void)worker;
    for (int i = 0; i < n; i++) {
        float at[2] = {z->now[0], z->now[1]};
        for (int k = 0; k < horizon; k++, u += 2, path += 2) {
            step(at, u);
            memcpy(path, at, sizeof at);
        }
    }
    return 0;
}

static int follow(const void* context, int first, int later, float* u) {
    return plan_recall_follow(((const maze*)context)->recall, first, later, u);
}

// The recording: 3 up, 1 across at the wall's end, 3 down. Fewer steps do not do: the height of the
// end is 3 and a step at most 1 high, and no step that rises or falls passes the wall.
enum { STEPS = 7, MOMENTS = STEPS + 1 };
static float way[MOMENTS][2], controls[MOMENTS][2], chi[MOMENTS], left[MOMENTS];
static const float start[2] = {-1, 0}, goal[2] = {1.4f, 0};

static void record(void) {
    memcpy(way[0], start, sizeof start);
    for (int k = 0; k < MOMENTS; k++) {
        left[k] = (float)(STEPS - k);
        controls[k][0] = k < 3 ? 0.3f : k == 3 ? 1 : k < STEPS ? 0.16f : 0;
        controls[k][1] = k < 3 ? 1 : k > 3 && k < STEPS ? -1.0f : 0;
        if (k == STEPS) break;
        memcpy(way[k + 1], way[k], sizeof *way);
        step(way[k + 1], controls[k]);
    }
}

static const plan_options options = {.mode = FIRM_MODE_REACH,
                                     .candidates = 64,
                                     .iterations = 3,
                                     .elites = 8,
                                     .horizon = 3,
                                     .horizon_max = 3,
                                     .replan = 1,
                                     .spread = 1,
                                     .knots = 3,
                                     .box = 1,
                                     .wide_share = 0.3f,
                                     .wide_spread = 1,
                                     .recorded = 0.2f,
                                     .floor = 0.1f,
                                     .keep = 4,
                                     .running = 0.05f,
                                     .arrive = 0.7f,
                                     .ahead = 12,
                                     .ahead_price = 0.05f};

static int maze_open(maze* z, const plan_options* o, int threads) {
    firm_error err = {0};
    record();
    *z = (maze){.m = {.task = plane,
                      .recorded = controls[0],
                      .recorded_path = way[0],
                      .recorded_chi = chi,
                      .recorded_left = left,
                      .recorded_count = MOMENTS}};
    memcpy(z->now, start, sizeof start);
    plan_setup setup = {
        .options = *o, .actions = {.dim = 2, .controls = 1, .deviation = {1, 1}}, .seed = 4};
    firm_status st = pool_create(threads, &z->threads, &err);
    if (st == FIRM_OK)
        st =
            plan_recall_create(&z->m, &setup.actions,
                               &(plan_recall_size){12, o->horizon_max, o->ahead}, &z->recall, &err);
    z->typed = (plan_typed){.task = &z->m.task, .recall = z->recall};
    setup.threads = z->threads;
    setup.world.model = (plan_model){
        .context = z, .state = 2, .action = 2, .lanes = 1, .workers = threads, .rollout = rollout};
    setup.world.price = plan_typed_price(&z->typed);
    setup.world.sight = (plan_sight){.context = z, .follow = follow};
    if (st == FIRM_OK) st = plan_solver_create(&setup, &z->solver, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return st == FIRM_OK;
}

static void maze_close(maze* z) {
    plan_solver_free(z->solver);
    plan_recall_free(z->recall);
    pool_free(z->threads);
}

// One search and one step. Returns whether the goal is reached.
static int walk_on(maze* z) {
    plan_result r;
    plan_solver_solve(z->solver, z->now, goal, 0, &r);
    step(z->now, r.plan);
    plan_solver_advance(z->solver, 1);
    return task_tolerance_units(&plane, z->now, goal) < 1;
}

// The same with the recordings looked through before.
static int walk(maze* z) {
    plan_recalled found;
    plan_recall_find(z->recall, z->now, chi, goal, &found);
    plan_solver_recall(z->solver, &found);
    return walk_on(z);
}

static int steps_to_goal(const plan_options* o, int most) {
    maze z;
    int done = 0, there = 0;
    if (maze_open(&z, o, 1))
        while (done < most && !there) there = walk(&z), done++;
    maze_close(&z);
    return there ? done : 0;
}

TEST(plan, reach_follows_a_recording_round_a_wall) {
    EXPECT_INT(steps_to_goal(&options, 2 * STEPS), STEPS);
    plan_options near = options;
    near.ahead = 0;
    EXPECT_INT(steps_to_goal(&near, 4 * STEPS), 0);
    // nor does a longer search, only one that looks as far as the goal is
    near.iterations = 30;
    EXPECT_INT(steps_to_goal(&near, 4 * STEPS), 0);
}

// Found once and never disturbed, a recording is done to its end: between solves plans are shifted
// and go on with its next macro action.
TEST(plan, a_recording_in_hand_is_followed_to_its_end) {
    maze z;
    plan_options still = options;
    still.spread = 1e-6f;
    still.floor = still.wide_share = 0;
    if (!maze_open(&z, &still, 1)) return;
    for (int k = 0; k < STEPS; k++) {
        EXPECT_INT(k == 0 ? walk(&z) : walk_on(&z), k == STEPS - 1);
        EXPECT_NEAR(z.now[0], way[k + 1][0], 1e-4);
        EXPECT_NEAR(z.now[1], way[k + 1][1], 1e-4);
    }
    // it has ended: what is left in hand is the mean action, and nothing breaks
    for (int k = 0; k < 5; k++) walk_on(&z);
    EXPECT_NEAR(z.now[0], way[STEPS][0], 1e-3);
    maze_close(&z);
}

TEST(plan, followed_recordings_have_the_same_bits_for_any_threads) {
    maze one, two;
    if (maze_open(&one, &options, 1) && maze_open(&two, &options, 3))
        for (int k = 0; k < STEPS; k++) {
            EXPECT_INT(walk(&one), walk(&two));
            EXPECT(memcmp(one.now, two.now, sizeof one.now) == 0);
        }
    maze_close(&one);
    maze_close(&two);
}

// A solver that is saved on the way goes on as if nothing had happened.
TEST(plan, a_followed_recording_is_saved) {
    enum { BEFORE = 3 };
    maze one, two;
    plan_options alone = options;
    alone.recorded = 0;  // what it follows then comes from the solves before alone
    if (!maze_open(&one, &options, 1) || !maze_open(&two, &alone, 1)) return;
    for (int k = 0; k < BEFORE; k++) walk(&one);
    plan_result r = {0};
    blob b = {.way = BLOB_COUNT};
    plan_solver_walk(one.solver, &b, &r);
    char* saved = mem_alloc(b.bytes);
    b = (blob){.way = BLOB_SAVE, .at = saved};
    plan_solver_walk(one.solver, &b, &r);
    b = (blob){.way = BLOB_RESTORE, .at = saved};
    plan_solver_walk(two.solver, &b, &r);
    mem_free(saved);
    memcpy(two.now, one.now, sizeof one.now);
    int there = 0;
    for (int k = BEFORE; k < STEPS; k++) there = walk(&two);
    EXPECT(there);
    maze_close(&one);
    maze_close(&two);
}

// ---- the cost by hand ---------------------------------------------------------------------------

TEST(plan, cost_beyond_the_horizon_by_hand) {
    maze z;
    if (!maze_open(&z, &options, 1)) return;
    const plan_price by = plan_typed_price(&z.typed);
    plan_cost cost = {.by = by,
                      .mode = FIRM_MODE_REACH,
                      .price = 0.2f,
                      .arrive = 0.7f,
                      .ahead = 20,
                      .ahead_price = 0.1f};
    // two steps that go up as the recording does, 0.1 m beside it
    float path[2][2] = {{-0.6f, 1}, {-0.3f, 2}};
    plan_trail trail = {.first = 0};
    int arrival = 0;
    // the recording's last step, 5 beyond the horizon of 2, ends 0.08 m beside the goal
    EXPECT_NEAR(plan_cost_trail(&cost, start, path[0], 2, &trail, goal, &arrival),
                0.08 / 0.3 + 0.2 * 2 + 0.1 * 5, 1e-4);
    EXPECT_INT(arrival, 2);
    // it is not looked at so far: the step before ends 1 m above
    cost.ahead = 6;
    EXPECT_NEAR(plan_cost_trail(&cost, start, path[0], 2, &trail, goal, &arrival),
                hypot(0.08, 1) / 0.3 + 0.2 * 2 + 0.1 * 4, 1e-4);
    // with no recording the path costs what it did
    trail.first = -1;
    EXPECT_NEAR(plan_cost_trail(&cost, start, path[0], 2, &trail, goal, &arrival),
                plan_cost_path(&cost, start, path[0], 2, goal, NULL), 0);
    EXPECT_NEAR(plan_cost_path(&cost, start, path[0], 2, goal, &arrival),
                hypot(2.0, 1) / 0.3 + 0.2 * 2, 1e-4);
    EXPECT_INT(arrival, 1);
    maze_close(&z);
}
