// reach_oracle.c - what search alone can reach: plans through the true simulator on recorded pairs.
//
//     bench_reach [TASK] [--offset N] [--trials N] [--seed S] [--threads T] [--mode contract|reach]
//                 [--disturb D] [plan.key=value ...]
//
// Episodes come from the task's own data-collection policy. A trial restores a recorded state, the
// goal is the configuration `offset` rows later, the budget 2 x offset controls; success if ever
// within tolerance. --disturb adds Gaussian noise of that deviation to every executed control, to
// see what a model that is not exact will do to the search. Prints the success rate and what a
// solve costs in candidate x macro steps: the figure to tune the reach mode's settings by, before
// any model is trained.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "io/config.h"
#include "plan/cem.h"

enum { EPISODES = 400, CONTROLS = 5 };

typedef struct episode {
    int rows;
    double* state;  // (rows, state_dim)
} episode;

static void die(const char* what) {
    fprintf(stderr, "bench_reach: %s\n", what);
    exit(2);
}

static void collect(const env_spec* spec, uint64_t seed, episode* out, float* mean,
                    float* deviation) {
    firm_error err;
    env* world;
    if (env_create(spec, &world, &err) != FIRM_OK) die(err.message);
    double sum[FIRM_MAX_ACTION] = {0}, squares[FIRM_MAX_ACTION] = {0}, count = 0;
    for (int i = 0; i < EPISODES; i++) {
        rng r = rng_start(seed, RNG_STREAM(RNG_COLLECT, i));
        out[i].state = mem_calloc(
            (size_t)(spec->collection->policy[0].episode_cap + 1) * (size_t)spec->state->dim,
            sizeof(double));
        if (!out[i].state) die("out of memory");
        spec->sim->reset(world, &r);
        spec->sim->state_get(world, out[i].state);
        out[i].rows = 1;
        for (int t = 0; t < spec->collection->policy[0].episode_cap; t++) {
            float action[FIRM_MAX_ACTION];
            spec->collection->policy[0].act(world, &r, action);
            for (int k = 0; k < spec->task.action_dim; k++) {
                sum[k] += action[k];
                squares[k] += (double)action[k] * action[k];
            }
            count++;
            spec->sim->step(world, action);
            spec->sim->state_get(world,
                                 out[i].state + (size_t)out[i].rows * (size_t)spec->state->dim);
            out[i].rows++;
            if (spec->collection->policy[0].terminated(world)) break;
        }
    }
    for (int k = 0; k < spec->task.action_dim; k++) {
        mean[k] = (float)(sum[k] / count);
        deviation[k] = (float)sqrt(squares[k] / count - (sum[k] / count) * (sum[k] / count));
    }
    env_free(world);
}

typedef struct tally {
    int success, solved_at_start, solves;
    int64_t rows, worst_rows;
    double ms;
} tally;

static void run_trial(const env_spec* spec, env* world, eval_oracle* oracle, plan_solver* solver,
                      const plan_options* o, const plan_actions* actions, const double* start,
                      const double* goal_state, int budget, uint64_t seed, float disturb, tally* t,
                      int verbose) {
    float goal[FIRM_MAX_CONFIG], c0[FIRM_MAX_CONFIG];
    double state[ENV_MAX_STATE];
    env_config(spec, goal_state, goal);
    spec->sim->state_set(world, start);
    t->solved_at_start += env_success(spec, start, goal_state);
    plan_solver_reset(solver, seed);
    rng noise = rng_start(seed, RNG_STREAM(RNG_TEST, 0));
    for (int done = 0; done < budget;) {
        plan_result r;
        spec->sim->state_get(world, state);
        env_config(spec, state, c0);
        eval_oracle_start(oracle, state);
        plan_solver_solve(solver, c0, goal, 0, &r);
        t->solves++;
        t->rows += r.rows;
        t->ms += r.ms;
        if (r.rows > t->worst_rows) t->worst_rows = r.rows;
        if (verbose)
            printf(
                "  t %3d at %5.1f %5.1f goal %5.1f %5.1f cost %.2f horizon %d arrival %d rows "
                "%lld\n",
                done, state[0], state[1], goal_state[0], goal_state[1], (double)r.cost, r.horizon,
                r.arrival, (long long)r.rows);
        for (int k = 0; k < o->replan * CONTROLS && done < budget; k++, done++) {
            float raw[FIRM_MAX_ACTION];
            plan_actions_raw(actions, r.plan + k * spec->task.action_dim, 1, raw);
            for (int j = 0; j < spec->task.action_dim; j++) raw[j] += disturb * rng_gauss(&noise);
            spec->sim->step(world, raw);
            spec->sim->state_get(world, state);
            if (env_success(spec, state, goal_state)) {
                t->success++;
                return;
            }
        }
        plan_solver_advance(solver, o->replan);
    }
    if (verbose) printf("  failed\n");
}

int main(int argc, char** argv) {
    int offset = 25, trials = 200, threads = 0, verbose = 0;
    uint64_t seed = 7;
    float disturb = 0.0f;
    firm_mode mode = FIRM_MODE_REACH;
    const char* task = "tworoom";
    firm_error err;
    config* settings;
    if (config_create(plan_keys, plan_key_count, &settings, &err) != FIRM_OK) die(err.message);
    for (int i = 1; i < argc; i++) {
        const char* next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--offset") == 0)
            offset = atoi(next), i++;
        else if (strcmp(argv[i], "--trials") == 0)
            trials = atoi(next), i++;
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(next, NULL, 10), i++;
        else if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(next), i++;
        else if (strcmp(argv[i], "--mode") == 0)
            mode = strcmp(next, "contract") ? FIRM_MODE_REACH : FIRM_MODE_CONTRACT, i++;
        else if (strcmp(argv[i], "--disturb") == 0)
            disturb = (float)atof(next), i++;
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = 1;
        else if (strchr(argv[i], '=')) {
            if (config_set(settings, argv[i], &err) != FIRM_OK) die(err.message);
        } else
            task = argv[i];
    }
    const env_spec* spec;
    if (env_find_or_fail(task, &spec, &err) != FIRM_OK) die(err.message);
    if (offset < 1 || offset > spec->collection->policy[0].episode_cap || trials < 1)
        die("give an offset within an episode and some trials");

    static episode data[EPISODES];
    float mean[FIRM_MAX_ACTION], deviation[FIRM_MAX_ACTION];
    collect(spec, seed, data, mean, deviation);
    plan_actions actions = plan_actions_of(&spec->task, mean, deviation);
    plan_setup setup = {.actions = actions, .seed = seed};
    settings_plan(settings, mode, &setup.options);
    if (pool_create(threads, &setup.threads, &err) != FIRM_OK) die(err.message);
    eval_oracle* oracle;
    plan_solver* solver;
    env* world;
    if (eval_oracle_create(spec, &actions, pool_threads(setup.threads), &oracle, &err) != FIRM_OK ||
        env_create(spec, &world, &err) != FIRM_OK)
        die(err.message);
    setup.world = eval_oracle_world(oracle);
    if (plan_solver_create(&setup, &solver, &err) != FIRM_OK) die(err.message);

    int pairs = 0;
    for (int i = 0; i < EPISODES; i++) pairs += data[i].rows > offset ? data[i].rows - offset : 0;
    if (pairs == 0) die("no episode is that long");
    rng draw = rng_start(seed, RNG_STREAM(RNG_TRIAL, offset));
    tally t = {0};
    double begun = clock_seconds();
    for (int n = 0; n < trials; n++) {
        int at = (int)rng_below(&draw, (uint32_t)pairs), e = 0;
        for (; at >= (data[e].rows > offset ? data[e].rows - offset : 0); e++)
            at -= data[e].rows > offset ? data[e].rows - offset : 0;
        const double* start = data[e].state + (size_t)at * (size_t)spec->state->dim;
        int before = t.success;
        int64_t rows = t.rows;
        run_trial(spec, world, oracle, solver, &setup.options, &actions, start,
                  start + (size_t)offset * (size_t)spec->state->dim, 2 * offset, (uint64_t)n,
                  disturb, &t, verbose);
        if (verbose)
            printf("trial %d %s rows %lld\n", n, t.success > before ? "ok" : "FAILED",
                   (long long)(t.rows - rows));
    }
    printf(
        "%s %s offset %d: %d of %d (%.1f %%), solved at start %d, %.2f solves and %.0f rows per "
        "episode, "
        "%.0f rows per solve (most %lld), %.1f s\n",
        task, mode == FIRM_MODE_REACH ? "reach" : "contract", offset, t.success, trials,
        100.0 * t.success / trials, t.solved_at_start, (double)t.solves / trials,
        (double)t.rows / trials, (double)t.rows / t.solves, (long long)t.worst_rows,
        clock_seconds() - begun);
    plan_solver_free(solver);
    eval_oracle_free(oracle);
    env_free(world);
    pool_free(setup.threads);
    config_free(settings);
    for (int i = 0; i < EPISODES; i++) mem_free(data[i].state);
    return 0;
}
