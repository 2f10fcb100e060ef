// yardstick_test.c - the measure that GPU planners are held to, tried where no GPU is needed: sound
// rollouts in another order of sums pass it, and each kind of defect it is there for fails it.
#include "yardstick.h"

#include "../plan/toys.h"
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"

enum { ROWS = 24, HORIZON = 3 };

static const plan_net_shape usual = {4, 2, 32, 10, 128, 256, 2, 0};

// a start and candidates for a shape
typedef struct inputs {
    float *c0, *m0, *u;
} inputs;

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

static inputs inputs_make(const plan_net_shape* s, int n, int horizon) {
    inputs in = {normals(s->config, 1), normals(s->fiber + 1, 2),
                 normals(n * horizon * s->action, 3)};
    for (int p = 0; p < s->pairs; p++) in.c0[2 * p] = 0.6f, in.c0[2 * p + 1] = -0.8f;
    return in;
}

static void inputs_free(inputs* in) {
    free(in->c0), free(in->m0), free(in->u);
}

static const plan_net_shape shapes[] = {
    {2, 0, 128, 10, 384, 768, 2, 0}, {6, 1, 128, 10, 96, 200, 2, 0}, {8, 3, 5, 25, 37, 53, 2, 0},
    {3, 0, 0, 1, 1, 1, 1, 0},        {6, 1, 19, 10, 41, 50, 1, 71},  {4, 2, 7, 3, 13, 6, 0, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// The truth of the yardstick is the formula, written down a second time in toys.c; what is left is
// the rounding of weights into which a LayerNorm's scale was folded. And the CPU's planner, whose
// vector kernels know nothing of rounded.c, is sound by it.
TEST(measure, yardstick_knows_the_cpu_planner) {
    for (int i = 0; i < SHAPES; i++) {
        const plan_net_shape* s = &shapes[i];
        toy_net t = toy_net_make(*s, 100 + (uint64_t)i);
        inputs in = inputs_make(s, ROWS, HORIZON);
        yardstick y =
            yardstick_make(s, &t.weights, PLAN_FP32, 0, ROWS, HORIZON, in.c0, in.m0, in.u);
        double formula[ROWS * HORIZON * 8];
        toy_net_rollout(&t, ROWS, HORIZON, in.c0, in.m0, in.u, formula);
        yardstick_reading f = yardstick_read_double(&y, formula);
        EXPECT_NEAR(f.off, 0, 1e-6);
        plan_net* net = NULL;
        firm_error err = {0};
        float got[ROWS * HORIZON * 8];
        REQUIRE_OK(plan_net_create(s, &t.weights, PLAN_FP32, &net, &err), err);
        void* scratch = mem_alloc(plan_net_scratch_bytes(net));
        plan_net_rollout(net, scratch, ROWS, HORIZON, in.c0, in.m0, in.u, got);
        yardstick_reading r = yardstick_read(&y, got);
        printf("  hidden %d: the CPU's planner reads %.2f (off by %.2g)\n", s->hidden, r.most,
               r.off);
        EXPECT(yardstick_sound(&r));
        mem_free(scratch);
        plan_net_free(net);
        yardstick_free(&y);
        inputs_free(&in);
        toy_net_free(&t);
    }
}

// ---- defects ------------------------------------------------------------------------------------

typedef enum defect {
    NONE,
    BIAS,       // a block's first bias is lost
    BIAS_LAST,  // the last one, of c
    ROW,        // the weights of one input of a block are too large by damage_share
    COLUMN,     // one hidden unit's weights are not there
    STEP,       // predictions come a macro step late
    ONE,        // one row of many has another's prediction
    SUMS,       // sums in the operands' format
    DEFECTS
} defect;
static const char* const defect_name[] = {"none",        "bias", "last bias", "row off",
                                          "column lost", "late", "one row",   "narrow sums"};
// by precision: a hundredth of one input in 128 is less than 16-bit operands are off by anyway
static const float damage_share[] = {0.01f, 0.1f, 0.5f};

static void damage(toy_net* t, defect d, plan_precision p) {
    const plan_net_shape* s = &t->shape;
    plan_net_block* q = &t->weights.block[1];
    if (d == BIAS) memset((float*)q->b1, 0, (size_t)s->inner * sizeof(float));
    if (d == BIAS_LAST) memset((float*)t->weights.b_c, 0, (size_t)s->config * sizeof(float));
    for (int o = 0; o < s->inner && d == ROW; o++)
        ((float*)q->w1)[7 * s->inner + o] *= 1 + damage_share[p];
    for (int k = 0; k < s->hidden && d == COLUMN; k++) ((float*)q->w1)[k * s->inner + 9] = 0;
}

static yardstick_reading read_with(defect d, rounded_way way, const inputs* in) {
    toy_net t = toy_net_make(usual, 40), bad = toy_net_make(usual, 40);
    enum { SIZE = ROWS * HORIZON * 4 };
    double got[SIZE];
    yardstick y = yardstick_make(&usual, &t.weights, way.precision, way.raw, ROWS, HORIZON, in->c0,
                                 in->m0, in->u);
    damage(&bad, d, way.precision);
    way.sums = d == SUMS ? SUMS_OPERAND : SUMS_FLOAT;
    way.turn = 7;
    rounded_rollout(&usual, &bad.weights, way, ROWS, HORIZON, in->c0, in->m0, in->u, got);
    if (d == STEP) memmove(got + 4, got, (SIZE - 4) * sizeof *got);
    if (d == ONE) memcpy(got + 4 * HORIZON * 5, got, 4 * HORIZON * sizeof *got);
    yardstick_reading r = yardstick_read_double(&y, got);
    yardstick_free(&y);
    toy_net_free(&t);
    toy_net_free(&bad);
    return r;
}

TEST(measure, yardstick_passes_rounding_and_fails_defects) {
    inputs in = inputs_make(&usual, ROWS, HORIZON);
    for (int i = 0; i < 5; i++) {
        rounded_way way = {.precision = (plan_precision)((i + 1) / 2), .raw = i > 0 && i % 2 == 0};
        for (defect d = NONE; d < DEFECTS; d++) {
            if (d == SUMS && way.precision == PLAN_FP32) continue;     // its own are meant to be
            if (test_short() && (i * DEFECTS + (int)d) % 5) continue;  // each defect once
            yardstick_reading r = read_with(d, way, &in);
            printf("  %s%s, %-12s reads %.3g, first %.3g, last %.3g (off by %.2g)\n",
                   plan_precision_name(way.precision), way.raw ? " raw" : "", defect_name[d],
                   r.most, r.first, r.last, r.off);
            EXPECT_INT(yardstick_sound(&r), d == NONE);
        }
    }
    inputs_free(&in);
}
