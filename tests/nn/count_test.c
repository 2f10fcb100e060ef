// count_test.c - the arithmetic of small graphs, counted by hand.
#include "nn/count.h"

#include "check.h"

static double count(const nn_graph* g, int train) {
    double operations = -1;
    firm_error err;
    if (nn_count_products(g, train, &operations, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return operations;
}

static void with_store(void (*check)(nn_graph* g)) {
    nn_store* store;
    nn_graph* g;
    firm_error err;
    REQUIRE_OK(nn_store_create(&store, &err), err);
    REQUIRE_OK(nn_graph_create(store, &g, &err), err);
    nn_train(g, "");
    check(g);
    nn_graph_free(g);
    nn_store_free(store);
}

// the first layer's input wants no gradient: two of three products; the second has all three
static void check_linear(nn_graph* g) {
    nn_id h = nn_linear(g, "a", nn_input1(g, "x", 3), 5, 1);
    nn_id y = nn_linear(g, "b", nn_gelu(g, h), 2, 1);
    nn_loss(g, "mse", nn_mse(g, y, nn_input1(g, "target", 2)), 1);
    EXPECT_NEAR(count(g, 0), 2 * (3 * 5 + 5 * 2), 0);
    EXPECT_NEAR(count(g, 1), 2 * (2 * 3 * 5 + 3 * 5 * 2), 0);
}

TEST(nn, count_of_linear_layers) {
    with_store(check_linear);
}

static void check_images(nn_graph* g) {
    nn_id x = nn_input(g, "x", 3, (int[]){6, 4, 3});
    nn_id h = nn_conv(g, "a", x, 8, 3, 2, 1);          // (3, 2, 8)
    nn_id y = nn_convt(g, "b", h, 5, 4, 2, 1);         // (6, 4, 5)
    nn_id t = nn_reshape(g, y, 2, (int[]){8, 3 * 5});  // 8 tokens, q, k and v of 5
    static const uint8_t all[64] = {1, 1};
    nn_id z = nn_attention(g, t, 1, all);
    nn_loss(g, "mse", nn_mse(g, z, nn_input(g, "target", 2, (int[]){8, 5})), 1);
    double conv = 2 * 6 * 8 * 9 * 3, up = 2 * 6 * 8 * 16 * 5, attention = 2 * 8 * 8 * 5;
    EXPECT_NEAR(count(g, 0), conv + up + 2 * attention, 0);
    EXPECT_NEAR(count(g, 1), 2 * conv + 3 * up + 6 * attention, 0);
}

TEST(nn, count_of_convolutions_and_attention) {
    with_store(check_images);
}
