// moments_test.c - the golden moments (tests/golden/moment-TASK): their pictures are what the
// simulators draw of their states. FIRM_GOLDEN_WRITE=1 records the moments anew and writes both.
#include "../plan/golden_values.h"
#include "../plan/pictures.h"
#include "check.h"
#include "core/mem.h"
#include "env/env.h"

enum { STATES = GOLDEN_FRAMES + 1, GOAL_STEPS = 25 };

typedef struct moment {
    double state[STATES][ENV_MAX_STATE];  // the last is the goal's
    float action[GOLDEN_FRAMES - 1][FIRM_MAX_ACTION];
} moment;

// three rows of an episode and the one that follows 25 controls later
static void record(moment* m, env* world) {
    const env_spec* spec = world->spec;
    rng r = rng_start(4, RNG_STREAM(RNG_TEST, 30));
    float action[FIRM_MAX_ACTION];
    spec->sim->reset(world, &r);
    for (int t = 0; t < 3; t++) {  // as in the middle of an episode
        spec->collection->policy[0].act(world, &r, action);
        spec->sim->step(world, action);
    }
    spec->sim->state_get(world, m->state[0]);
    for (int t = 1; t < GOLDEN_FRAMES; t++) {
        spec->collection->policy[0].act(world, &r, m->action[t - 1]);
        spec->sim->step(world, m->action[t - 1]);
        spec->sim->state_get(world, m->state[t]);
    }
    for (int t = 0; t < GOAL_STEPS; t++) {
        spec->collection->policy[0].act(world, &r, action);
        spec->sim->step(world, action);
    }
    spec->sim->state_get(world, m->state[GOLDEN_FRAMES]);
}

static void write_line(FILE* out, const char* name, int i, const double* v, int n) {
    fprintf(out, "%s%d %d", name, i, n);
    for (int k = 0; k < n; k++) fprintf(out, " %.17g", v[k]);
    fputc('\n', out);
}

static void write_moment(const moment* m, const env_spec* spec) {
    golden_values g;
    const int dim = spec->task.action_dim;
    if (!golden_begin(&g, "moment", spec->task.name)) return;
    for (int i = 0; i < STATES; i++) write_line(g.out, "state", i, m->state[i], spec->state->dim);
    for (int i = 0; i + 1 < GOLDEN_FRAMES; i++) {
        double a[FIRM_MAX_ACTION] = {0};
        for (int k = 0; k < dim; k++) a[k] = (double)m->action[i][k];
        write_line(g.out, "action", i, a, dim);
    }
    golden_end(&g);
}

static int read_states(moment* m, const env_spec* spec) {
    golden_values g;
    int ok = golden_open(&g, "moment", spec->task.name);
    for (int i = 0; ok && i < STATES; i++) {
        char name[24];
        snprintf(name, sizeof name, "state%d", i);
        golden_read(&g, name, m->state[i], spec->state->dim);
    }
    mem_free(g.text);
    return ok;
}

static void write_pictures(const uint8_t* rgb, const char* task) {
    char path[1024];
    golden_pictures_path(path, sizeof path, task);
    uint8_t* bytes = mem_alloc(2 * STATES * (size_t)PICTURES_BYTES);
    size_t n = pictures_pack(rgb, STATES, bytes);
    FILE* f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        test_fail(__FILE__, __LINE__, "%s cannot be written", path);
    mem_free(bytes);
}

static void compare_pictures(const uint8_t* rgb, const char* task) {
    golden_moment kept;
    if (golden_moment_open(&kept, task))
        for (int i = 0; i < STATES; i++)
            EXPECT_INT(
                memcmp(golden_frame(&kept, i), rgb + (size_t)i * PICTURES_BYTES, PICTURES_BYTES),
                0);
    golden_moment_close(&kept);
}

static void expect_pictures(const char* task) {
    const env_spec* spec = env_find(task);
    env* world = NULL;
    moment m = {0};
    firm_error err = {0};
    if (!spec) {
        test_skip("the task needs a library that is not here");
        return;
    }
    firm_status st = env_create(spec, &world, &err);
    if (st == FIRM_E_UNAVAILABLE) {
        test_skip(err.message);
        return;
    }
    if (st == FIRM_OK) st = env_render_ready(&world, 1, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    if (st == FIRM_OK && golden_writing()) {
        record(&m, world);
        write_moment(&m, spec);
    }
    uint8_t* rgb = mem_alloc(STATES * (size_t)PICTURES_BYTES);
    int ok = st == FIRM_OK && read_states(&m, spec);
    for (int i = 0; ok && i < STATES; i++)
        ok = env_picture(world, m.state[i], rgb + (size_t)i * PICTURES_BYTES) == FIRM_OK;
    EXPECT(ok);
    if (ok && golden_writing()) write_pictures(rgb, task);
    if (ok) compare_pictures(rgb, task);
    mem_free(rgb);
    env_free(world);
}

TEST(env, golden_moment_of_tworoom) {
    expect_pictures("tworoom");
}
TEST(env, golden_moment_of_pusht) {
    expect_pictures("pusht");
}
TEST(env, golden_moment_of_reacher) {
    expect_pictures("reacher");
}
TEST(env, golden_moment_of_cube) {
    expect_pictures("cube");
}

TEST(env, packed_pictures_that_are_cut_are_refused) {
    uint8_t* rgb = mem_calloc(1, PICTURES_BYTES);
    uint8_t* bytes = mem_alloc(2 * (size_t)PICTURES_BYTES);
    rgb[300] = 7;
    size_t n = pictures_pack(rgb, 1, bytes);
    EXPECT_INT(pictures_unpack(bytes, n, 1, rgb), 1);
    EXPECT_INT(rgb[300], 7);
    EXPECT_INT(pictures_unpack(bytes, n - 1, 1, rgb), 0);
    EXPECT_INT(pictures_unpack(bytes, n, 2, rgb), 0);
    EXPECT_INT(pictures_unpack((uint8_t[]){64}, 1, 1, rgb), 0);  // no row above the first
    mem_free(bytes);
    mem_free(rgb);
}
