// deadline_test.c - the search under a deadline: it is anytime, it forgets a stall, and with time
// enough it finds what it finds without one. Most tests tell the time themselves.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/clock.h"
#include "members.h"
#include "plan/cem_internal.h"
#include "plan/pace.h"
#include "toys.h"

static const float goal[ECHO_CONFIG] = {0.7f, -1.2f, 0.1f, 2.0f};
static const float zero[ECHO_CONFIG] = {0};
static const int64_t MS = 1000000;

// ---- a model that takes its time ----------------------------------------------------------------

static int64_t pretended_ns;

static int64_t pretended_now(void) {
    return pretended_ns;
}

// The echo, at row_ns a candidate and macro step; a batch is as long as its fullest units.
typedef struct slow {
    echo e;
    plan_model inner;
    int64_t row_ns;
    int64_t stall_ns;  // once, in the next batch
    int uneven;        // batches take up to a twentieth longer, four of a hundred a third
    int stop;          // once, in the next batch: the process stops itself
    int widest;        // candidates of the largest batch
    int64_t calls;
} slow;

static int slow_rollout(void* context, int worker, int n, int horizon, const float* u, float* c) {
    slow* s = context;
    int64_t ns = s->row_ns * ((n + 7) / 8 * 8) * horizon, draw = s->calls * 7919 % 100;
    if (s->uneven) ns += draw < 4 ? ns / 3 : ns * draw / 2000;
    pretended_ns += ns + s->stall_ns;
    s->stall_ns = 0;
    s->calls++;
    if (n > s->widest) s->widest = n;
    if (s->stop) {
        s->stop = 0;
        raise(SIGSTOP);
    }
    return s->inner.rollout(s->inner.context, worker, n, horizon, u, c);
}

// 96 candidates of 2 macro steps: one batch takes 192 row_ns.
static plan_solver* make(slow* s, firm_mode mode, int64_t row_ns) {
    plan_solver* solver = NULL;
    firm_error err = {0};
    *s = (slow){.row_ns = row_ns};
    plan_setup setup = echo_setup(&s->e, mode);
    setup.options.candidates = 96;
    setup.options.elites = 12;
    setup.options.iterations = 12;
    setup.options.patience = 0;
    s->inner = setup.world.model;
    setup.world.model.context = s;
    setup.world.model.rollout = slow_rollout;
    setup.world.model.lanes = 8;
    if (plan_solver_create(&setup, &solver, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    pretended_ns = 1000 * MS;
    clock_pretend(pretended_now);
    return solver;
}

static void done(plan_solver* s) {
    clock_pretend(NULL);
    plan_solver_free(s);
}

// What a solve with so much time does; *over: ns past the deadline, 0 or more.
static plan_result solve(plan_solver* s, int64_t ns, int64_t* over) {
    plan_result r;
    int64_t deadline = clock_ns() + ns;
    plan_solver_solve(s, zero, goal, deadline, &r);
    if (over) *over = clock_ns() > deadline ? clock_ns() - deadline : 0;
    return r;
}

static double miss(const float* u) {
    double sum = 0;
    for (int j = 0; j < ECHO_CONFIG; j++) sum += pow((double)u[j] - (double)goal[j], 2);
    return sum;
}

// ---- the pace -----------------------------------------------------------------------------------

TEST(plan, pace_is_the_second_longest_of_the_last) {
    plan_pace p = {0};
    EXPECT_NEAR(plan_pace_expect(&p, 3, 5), 0, 0);
    plan_pace_add(&p, 3, 5, 1500);  // 100 a unit and step
    EXPECT_NEAR(plan_pace_expect(&p, 3, 5), 1500, 1e-9);
    EXPECT_NEAR(plan_pace_expect(&p, 3, 2), 600, 1e-9);
    EXPECT_NEAR(plan_pace_least(&p, 3, 5), 0, 0);  // one entry may be a stall
    plan_pace_add(&p, 3, 5, 150000);               // a stall
    EXPECT_NEAR(plan_pace_expect(&p, 3, 5), 1500, 1e-9);
    plan_pace_add(&p, 3, 5, 1800);
    EXPECT_NEAR(plan_pace_expect(&p, 3, 5), 1800, 1e-9);
    EXPECT_NEAR(plan_pace_least(&p, 3, 5), 1500, 1e-9);
    plan_pace_add(&p, 3, 5, 300000);  // a second one counts, for sixteen entries
    EXPECT_NEAR(plan_pace_expect(&p, 3, 5), 150000, 1e-9);
    for (int i = 0; i < PACE_WINDOW - 1; i++) plan_pace_add(&p, 3, 5, 1650);
    EXPECT_NEAR(plan_pace_expect(&p, 3, 5), 1650, 1e-9);
}

TEST(plan, pace_of_a_width_not_measured_is_that_of_the_nearest) {
    plan_pace p = {0};
    plan_pace_add(&p, 2, 1, 200);
    EXPECT_NEAR(plan_pace_expect(&p, 3, 1), 300, 1e-9);    // wider: by the unit
    EXPECT_NEAR(plan_pace_expect(&p, 100, 1), 1e4, 1e-6);  // much wider
    EXPECT_NEAR(plan_pace_expect(&p, 1, 1), 200, 1e-9);    // narrower: twice that
    plan_pace_add(&p, 9, 1, 450);
    EXPECT_NEAR(plan_pace_expect(&p, 8, 1), 400, 1e-9);  // 8 to 15 are one class
    EXPECT_NEAR(plan_pace_expect(&p, 15, 1), 750, 1e-9);
    EXPECT_NEAR(plan_pace_expect(&p, 7, 1), 700, 1e-9);  // the class of 2 is as near: it is slower
}

// ---- solves -------------------------------------------------------------------------------------

TEST(plan, time_enough_gives_the_bits_of_no_deadline) {
    for (int mode = 0; mode < 2; mode++) {
        float plan[2][ECHO_CONFIG];
        for (int deadline = 0; deadline < 2; deadline++) {
            slow w;
            plan_solver* s = make(&w, (firm_mode)mode, 100);
            plan_result r = solve(s, 1, NULL);  // so that the pace is known
            plan_solver_solve(s, zero, goal, 0, &r);
            plan_solver_reset(s, 5);
            plan_solver_solve(s, zero, goal, deadline ? clock_ns() + 1000 * MS : 0, &r);
            EXPECT_INT(r.late, 0);
            EXPECT_INT(r.iterations, 12);
            memcpy(plan[deadline], r.plan, sizeof plan[deadline]);
            done(s);
        }
        EXPECT_INT(memcmp(plan[0], plan[1], sizeof plan[0]), 0);
    }
}

TEST(plan, one_stall_changes_nothing) {
    for (int mode = 0; mode < 2; mode++) {
        slow w;
        plan_solver* s = make(&w, (firm_mode)mode, 20000);  // a whole iteration: 3.84 ms
        int before = 0;
        for (int i = 0; i < 4; i++) before = solve(s, 30 * MS, NULL).iterations;
        EXPECT(before >= 6);
        w.stall_ns = 120 * MS;
        int64_t over;
        EXPECT_INT(solve(s, 30 * MS, &over).late, 1);
        EXPECT(over > 80 * MS);
        for (int i = 0; i < 20; i++) {
            EXPECT_INT(solve(s, 30 * MS, &over).iterations, before);
            EXPECT_INT(over, 0);
        }
        done(s);
    }
}

// the first batch ever stalls: there is nothing to compare it with
TEST(plan, a_stall_at_the_very_start_is_outlived) {
    for (int mode = 0; mode < 2; mode++) {
        slow w;
        plan_solver* s = make(&w, (firm_mode)mode, 20000);
        w.stall_ns = 500 * MS;
        EXPECT_INT(solve(s, 30 * MS, NULL).iterations, 1);
        plan_result r = solve(s, 30 * MS, NULL);
        EXPECT(r.iterations >= 1 && !r.empty);
        r = solve(s, 30 * MS, NULL);
        EXPECT(r.iterations >= 6);
        EXPECT(miss(r.plan) < 0.5 * miss(zero));
        done(s);
    }
}

TEST(plan, too_little_time_for_an_iteration_tries_fewer_candidates) {
    for (int mode = 0; mode < 2; mode++) {
        slow w;
        plan_solver* s = make(&w, (firm_mode)mode, 20000);  // a whole iteration: 3.84 ms
        for (int i = 0; i < 30; i++) {
            int64_t over;
            int64_t ns = (i % 2 ? 3 : 2) * MS;
            plan_result r = solve(s, ns, &over);
            EXPECT_INT(r.late, 1);
            EXPECT(r.iterations >= 1 && !r.empty);
            EXPECT(w.widest < 96);
            // the first batch of all finds out how long one takes
            if (i) EXPECT_INT(over, 0);
            EXPECT(miss(r.plan) < miss(zero));
        }
        done(s);
    }
}

// A batch may take longer than all that were seen before, and what comes after the last one takes
// time, too: some of the time is planned for nothing.
TEST(plan, batches_of_uneven_length_end_in_time) {
    enum { SOLVES = 1000 };
    for (int mode = 0; mode < 2; mode++)
        for (int64_t ms = 10; ms <= 20; ms += 10) {
            slow w;
            plan_solver* s = make(&w, (firm_mode)mode, 15000);  // a whole iteration: 2.88 ms
            int late = 0, iterations = 0;
            w.uneven = 1;
            for (int i = 0; i < SOLVES; i++) {
                int64_t over;
                iterations += solve(s, ms * MS, &over).iterations;
                late += over > 0;
            }
            EXPECT(late <= SOLVES / 100);
            EXPECT(iterations >= 3 * SOLVES);
            printf("  %d of %d solves of %d ms late, %.1f iterations each\n", late, SOLVES, (int)ms,
                   (double)iterations / SOLVES);
            done(s);
        }
}

// however few candidates there is time for, two elites say how far apart good plans are
TEST(plan, a_narrow_search_has_two_elites) {
    slow w;
    plan_solver* s = make(&w, FIRM_MODE_CONTRACT, 100000);
    int64_t over;
    solve(s, 3 * MS, &over);  // finds out how long a candidate takes
    plan_result r = solve(s, 3 * MS, &over);
    EXPECT(r.iterations >= 1 && s->now.candidates < 10);
    EXPECT_INT(s->now.elites, 2);
    done(s);
}

TEST(plan, too_little_time_for_the_horizon_cuts_it) {
    for (int mode = 0; mode < 2; mode++) {
        slow w;
        plan_solver* s = make(&w, (firm_mode)mode, 20000);  // 8 candidates, 1 step: 0.16 ms
        for (int i = 0; i < 5; i++) solve(s, 3 * MS, NULL);
        plan_solver_reset(s, 1);
        int64_t over;
        plan_result r = solve(s, MS / 4, &over);
        EXPECT_INT(r.horizon, 1);
        EXPECT_INT(r.iterations, 1);
        EXPECT(r.late && !r.empty);
        EXPECT_INT(over, 0);
        EXPECT(isfinite(r.cost));
        r = solve(s, 3 * MS, NULL);
        EXPECT_INT(r.horizon, 2);
        done(s);
    }
}

TEST(plan, no_time_at_all_is_told) {
    for (int mode = 0; mode < 2; mode++) {
        slow w;
        plan_solver* s = make(&w, (firm_mode)mode, 20000);
        plan_result r = solve(s, -MS, NULL);
        EXPECT_INT(r.empty, 1);
        EXPECT_INT(w.calls, 0);
        for (int j = 0; j < ECHO_CONFIG; j++) EXPECT_NEAR(r.plan[j], 0, 0);
        solve(s, 30 * MS, NULL);
        r = solve(s, -MS, NULL);
        EXPECT_INT(r.empty, mode == FIRM_MODE_CONTRACT);  // reach has a plan in hand
        done(s);
    }
}

// a search that ran out of time before it arrived looks further ahead the next time
TEST(plan, a_search_cut_short_looks_further_next_time) {
    slow w = {.row_ns = 20000};
    plan_setup setup = echo_setup(&w.e, FIRM_MODE_REACH);
    firm_error err = {0};
    plan_solver* s;
    static const float far[ECHO_CONFIG] = {50, 50, 50, 50};
    w.inner = setup.world.model;
    setup.world.model.context = &w;
    setup.world.model.rollout = slow_rollout;
    setup.world.model.lanes = 8;
    setup.options.horizon_max = 8;
    REQUIRE_OK(plan_solver_create(&setup, &s, &err), err);
    clock_pretend(pretended_now);
    int want[] = {2, 4, 8, 8};
    for (int i = 0; i < 4; i++) {
        plan_result r;
        plan_solver_solve(s, zero, far, clock_ns() + 4 * MS, &r);
        EXPECT_INT(r.horizon, want[i]);
        EXPECT(r.iterations >= 1);
    }
    done(s);
}

// ---- the real clock -----------------------------------------------------------------------------

// Solves in a process that is stopped for 200 ms inside the third: it tells how many iterations
// each did.
static void solves_of_a_stopped_process(int to) {
    slow w;
    plan_solver* s = make(&w, FIRM_MODE_REACH, 0);
    clock_pretend(NULL);
    for (int i = 0; i < 12; i++) {
        plan_result r;
        w.stop = i == 2;
        plan_solver_solve(s, zero, goal, clock_ns() + 50 * MS, &r);
        char iterations = (char)r.iterations;
        if (write(to, &iterations, 1) != 1) _exit(1);
    }
    plan_solver_free(s);
}

TEST(plan, a_stopped_process_plans_again) {
    int ends[2];
    char iterations[12] = {0};
    if (pipe(ends) != 0) return test_fail(__FILE__, __LINE__, "no pipe");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        solves_of_a_stopped_process(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    int status = 0;
    EXPECT_INT(waitpid(child, &status, WUNTRACED), child);
    EXPECT(WIFSTOPPED(status));
    nanosleep(&(struct timespec){.tv_nsec = 200 * MS}, NULL);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    EXPECT_INT(status, 0);
    int count = 0;
    while (count < 12 && read(ends[0], iterations + count, 1) == 1) count++;
    close(ends[0]);
    EXPECT_INT(count, 12);
    EXPECT(iterations[2] < 12);  // the stop cut this one short
    // a busy machine may cut one of them short, too, but not all
    int whole = 0;
    for (int i = 3; i < 12; i++) {
        EXPECT(iterations[i] >= 1);
        whole += iterations[i] == 12;
    }
    EXPECT(whole >= 5);
}

// ---- the controller -----------------------------------------------------------------------------

TEST(plan, a_controller_without_a_plan_searches_at_the_next_control) {
    firm_model* m = member_lively("tworoom", 5);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    for (int mode = 0; mode < 2; mode++) {
        firm_controller* ctl = member_controller(m, (firm_mode)mode, 1, FIRM_DEVICE_CPU);
        firm_step step;
        if (!ctl) continue;
        member_show(ctl, rgb);
        EXPECT_INT(firm_controller_act(ctl, 1, &step), FIRM_OK);  // long past
        EXPECT(step.solved && step.late && step.iterations == 0);
        EXPECT_INT(firm_controller_push(ctl, rgb, step.action), FIRM_OK);
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT(step.solved && !step.late && step.iterations > 0);
        firm_controller_free(ctl);
    }
    free(rgb);
    firm_model_free(m);
}
