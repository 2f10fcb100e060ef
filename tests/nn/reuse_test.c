// reuse_test.c - an executor is used again and again, and batches must not repeat each other.
#include "cases.h"
#include "check.h"
#include "nn/trainer.h"

static nn_id input, output;

static void build_sum(nn_graph* g, nn_setup* s) {
    input = nn_input1(g, "x", 2);
    s->out = output = nn_scale(g, input, 3);
    nn_output(g, s->out);
}

typedef struct taken {
    int first[8], count[8], calls;
    float value[40];
} taken;

static void take(void* to, const nn_exec* e, int first, int count) {
    taken* t = to;
    if (t->calls == 8 || 2 * (first + count) > 40) return;
    t->first[t->calls] = first;
    t->count[t->calls++] = count;
    memcpy(t->value + 2 * first, nn_exec_output(e, output), (size_t)(2 * count) * sizeof(float));
}

// the samples' own numbers
static firm_status fill_numbers(void* ctx, const nn_feed* feed) {
    (void)ctx;
    float* x = nn_feed_real(feed, input);
    for (int i = 0; i < feed->count; i++) {
        x[2 * i] = (float)(feed->first + i);
        x[2 * i + 1] = -(float)(feed->first + i);
    }
    return FIRM_OK;
}

// 11 samples in batches of 4: 4, 4 and 3, and the same again the second time.
TEST(nn, exec_streams_as_often_as_asked) {
    nn_exec_options opt = {.batch = 4, .shard = 2, .lanes = 1};
    nn_setup s;
    if (!nn_setup_graph(&s, build_sum, nn_backend_cpu(), &opt, NULL)) return;
    for (int round = 0; round < 2; round++) {
        taken t = {0};
        static const int first[3] = {0, 4, 8}, count[3] = {4, 4, 3};
        EXPECT_INT(nn_exec_stream(s.exec, 11, fill_numbers, NULL, take, &t), FIRM_OK);
        EXPECT_INT(t.calls, 3);
        for (int i = 0; i < 3; i++) {
            EXPECT_INT(t.first[i], first[i]);
            EXPECT_INT(t.count[i], count[i]);
        }
        for (int i = 0; i < 11; i++) {
            EXPECT_NEAR(t.value[2 * i], 3 * i, 0);
            EXPECT_NEAR(t.value[2 * i + 1], -3 * i, 0);
        }
    }
    nn_setup_free(&s);
}

// Of a huge table no two picks of a few hundred are equal, within an update or between neighbours.
TEST(nn, picks_of_neighbouring_updates_are_other_rows) {
    enum { UPDATES = 4, BATCH = 256, ALL = UPDATES * BATCH };
    static int64_t row[ALL];
    nn_pick key = {.seed = 1, .stream = 2};
    int64_t rows = (int64_t)1 << 60;
    int equal = 0, upper = 0;
    for (int i = 0; i < ALL; i++) row[i] = nn_pick_row(&key, i / BATCH, i % BATCH, rows);
    for (int i = 0; i < ALL; i++) {
        for (int j = 0; j < i; j++) equal += row[i] == row[j];
        upper += row[i] >= rows / 2;
        EXPECT(row[i] >= 0 && row[i] < rows);
    }
    EXPECT_INT(equal, 0);
    EXPECT(upper > 400 && upper < 624);  // half of them, within seven deviations
}
