// bf16_search_test.c - whole searches of the shipped models with bfloat16 operands: close to those
// in float32, without allocation, the same for any threads, and refused where they cannot be.
#define _GNU_SOURCE
#include "check.h"
#include "core/mem.h"
#include "core/simd.h"
#include "env/env.h"
#include "golden_values.h"
#include "toys.h"

// One search from the golden moment of a task.
typedef struct found {
    float plan[512], end[FIRM_MAX_CONFIG], distance[FIRM_MAX_CONFIG];
    int numbers;
    int64_t allocations, mallocs;
} found;

static void search(const firm_model* m, const golden_moment* at, firm_precision precision,
                   int threads, found* out) {
    firm_controller* c;
    firm_error err;
    firm_step step;
    firm_controller_params p = firm_controller_params_default();
    p.mode = FIRM_MODE_CONTRACT, p.candidates = 64, p.elites = 8, p.iterations = 3;
    p.seed = 7, p.threads = threads, p.precision = precision;
    REQUIRE_OK(firm_controller_create(m, &p, &c, &err), err);
    int64_t own = mem_count(), all = test_malloc_count();
    for (int i = 0; i < GOLDEN_FRAMES; i++)
        EXPECT_INT(firm_controller_push(c, golden_frame(at, i), i ? at->action[i - 1] : NULL),
                   FIRM_OK);
    EXPECT_INT(firm_controller_goal(c, golden_frame(at, GOLDEN_FRAMES)), FIRM_OK);
    EXPECT_INT(firm_controller_act(c, 0, &step), FIRM_OK);
    out->allocations = mem_count() - own;
    out->mallocs = test_malloc_count() - all;
    out->numbers = step.horizon * ENV_CONTROLS * m->task.action_dim;
    memcpy(out->plan, step.plan, (size_t)out->numbers * sizeof *out->plan);
    memcpy(out->end, step.path + step.horizon * m->task.config_dim,
           (size_t)m->task.config_dim * sizeof *out->end);
    memcpy(out->distance, step.distance_planned, sizeof out->distance);
    firm_controller_free(c);
}

// Rounding changes which candidates are elites, so a plan may differ; where it leads does not
// differ by much: measured 0.010 (TwoRoom) to 0.029 tolerances (Push-T). The bound is the GPU's.
static void expect_close(const char* task) {
    golden_moment at;
    firm_model* m = NULL;
    if (simd_best_bf16() == SIMD_PLAIN) {
        test_skip("the processor has no bfloat16 instructions");
        return;
    }
    if (golden_moment_open(&at, task) && (m = golden_model(task))) {
        found f32 = {0}, bf16 = {0}, again = {0};
        search(m, &at, FIRM_PRECISION_FP32, 1, &f32);
        search(m, &at, FIRM_PRECISION_BF16, 1, &bf16);
        search(m, &at, FIRM_PRECISION_BF16, 3, &again);
        EXPECT_INT(bf16.numbers, f32.numbers);
        EXPECT(memcmp(bf16.end, f32.end, sizeof bf16.end) != 0);
        EXPECT_INT(memcmp(bf16.plan, again.plan, sizeof bf16.plan), 0);
        EXPECT_INT(memcmp(bf16.end, again.end, sizeof bf16.end), 0);
        EXPECT_INT(bf16.allocations, 0);
        EXPECT_INT(bf16.mallocs, 0);
        double off = task_tolerance_units(&m->task, bf16.end, f32.end);
        printf("  %s: the plans end %.3f tolerances apart\n", task, off);
        EXPECT(off <= 0.25);
    }
    firm_model_free(m);
    golden_moment_close(&at);
}

TEST(plan, bf16_search_of_tworoom_is_close) {
    expect_close("tworoom");
}
TEST(plan, bf16_search_of_pusht_is_close) {
    expect_close("pusht");
}
TEST(plan, bf16_search_of_reacher_is_close) {
    expect_close("reacher");
}
TEST(plan, bf16_search_of_cube_is_close) {
    expect_close("cube");
}

TEST(plan, bf16_controllers_are_refused_where_they_cannot_be) {
    firm_model* m = golden_model("tworoom");
    firm_controller* c = NULL;
    firm_error err = {0};
    firm_controller_params p = firm_controller_params_default();
    p.precision = FIRM_PRECISION_TF32;
    EXPECT_INT(firm_controller_create(m, &p, &c, &err), FIRM_E_USAGE);
    EXPECT(!c && strstr(err.message, "fp32 or bf16"));
    p.precision = FIRM_PRECISION_BF16;
    setenv("FIRM_SIMD", "avx2", 1);
    EXPECT_INT(firm_controller_create(m, &p, &c, &err), FIRM_E_UNAVAILABLE);
    EXPECT(!c && strstr(err.message, "AVX512-BF16") && strstr(err.message, "fp32"));
    unsetenv("FIRM_SIMD");
    firm_model_free(m);
}
