// store_test.c - the parameter block: initial values depend on name and seed alone, layout,
// finding, running out of memory.
#include "nn/store.h"

#include "check.h"
#include "core/mem.h"

static const int SHAPE[] = {63, 65};

static nn_store* new_store(void) {
    nn_store* s = NULL;
    firm_error err = {0};
    if (nn_store_create(&s, &err) != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return s;
}

static const float* values(const nn_store* s, const char* name) {
    return s->value + s->entry[nn_store_find(s, name)].offset;
}

TEST(nn, store_layout_and_find) {
    nn_store* s = new_store();
    firm_error err = {0};
    if (!s) return;
    int a = nn_store_declare(s, "enc.weight", NN_INIT_NORMAL, 1, 2, (int[]){3, 7});
    int b = nn_store_declare(s, "enc.bias", NN_INIT_ZERO, 0, 1, (int[]){7});
    int c = nn_store_declare(s, "dec.gamma", NN_INIT_ONE, 0, 1, (int[]){17});
    EXPECT_INT(nn_store_declare(s, "enc.bias", NN_INIT_ZERO, 0, 1, (int[]){7}), b);  // not twice
    EXPECT_INT(s->entries, 3);
    EXPECT_INT(nn_store_find(s, "enc.weight"), a);
    EXPECT_INT(nn_store_find(s, "dec.gamma"), c);
    EXPECT_INT(nn_store_find(s, "enc"), -1);
    EXPECT_INT(nn_store_find(s, ""), -1);
    EXPECT(s->value == NULL);
    REQUIRE_OK(nn_store_seal(s, 1, &err), err);
    EXPECT(s->value != NULL);
    for (int i = 0; i < s->entries; i++) {
        const nn_entry* e = &s->entry[i];
        EXPECT_INT(e->offset % 16, 0);
        EXPECT(e->offset + e->count <= s->count);
        for (int j = 0; j < i; j++) EXPECT(s->entry[j].offset + s->entry[j].count <= e->offset);
    }
    EXPECT_INT((uintptr_t)s->value % 64, 0);
    EXPECT_INT(nn_store_params(s, ""), 3 * 7 + 7 + 17);
    EXPECT_INT(nn_store_params(s, "enc."), 3 * 7 + 7);
    EXPECT_INT(nn_store_params(s, "none"), 0);
    EXPECT_INT(nn_store_declare(s, "enc.bias", NN_INIT_ZERO, 0, 1, (int[]){7}),
               b);  // sealed: known
    for (int i = 0; i < 7; i++) EXPECT_NEAR(values(s, "enc.bias")[i], 0, 0);
    for (int i = 0; i < 17; i++) EXPECT_NEAR(values(s, "dec.gamma")[i], 1, 0);
    nn_store_free(s);
    nn_store_free(NULL);
}

// other parameters, their order and number do not matter; names and seeds do
TEST(nn, store_init_by_name_and_seed) {
    nn_store *s = new_store(), *t = new_store(), *u = new_store();
    firm_error err = {0};
    if (!s || !t || !u) return;
    size_t bytes = (size_t)SHAPE[0] * (size_t)SHAPE[1] * sizeof(float);
    nn_store_declare(s, "a", NN_INIT_NORMAL, 0.5f, 2, SHAPE);
    nn_store_declare(s, "b", NN_INIT_NORMAL, 0.5f, 2, SHAPE);
    for (int i = 0; i < 200; i++) {  // enough to make the entry list grow
        char name[24];
        snprintf(name, sizeof name, "other%d", i);
        nn_store_declare(t, name, NN_INIT_NORMAL, 1, 1, (int[]){3});
    }
    nn_store_declare(t, "b", NN_INIT_NORMAL, 0.5f, 2, SHAPE);
    nn_store_declare(t, "a", NN_INIT_NORMAL, 0.5f, 2, SHAPE);
    nn_store_declare(u, "a", NN_INIT_NORMAL, 0.5f, 2, SHAPE);
    REQUIRE_OK(nn_store_seal(s, 5, &err), err);
    REQUIRE_OK(nn_store_seal(t, 5, &err), err);
    REQUIRE_OK(nn_store_seal(u, 6, &err), err);
    EXPECT(memcmp(values(s, "a"), values(t, "a"), bytes) == 0);
    EXPECT(memcmp(values(s, "b"), values(t, "b"), bytes) == 0);
    EXPECT(memcmp(values(s, "a"), values(s, "b"), bytes) != 0);
    EXPECT(memcmp(values(s, "a"), values(u, "a"), bytes) != 0);
    // drawing again touches the prefix only, and the first seed gives the first values back
    nn_store_init(s, "a", 6);
    EXPECT(memcmp(values(s, "a"), values(u, "a"), bytes) == 0);
    EXPECT(memcmp(values(s, "b"), values(t, "b"), bytes) == 0);
    nn_store_init(s, "a", 5);
    EXPECT(memcmp(values(s, "a"), values(t, "a"), bytes) == 0);
    nn_store_free(s);
    nn_store_free(t);
    nn_store_free(u);
}

// 4095 normals of deviation 0.5: mean and deviation within four standard errors, neighbours
// unrelated
TEST(nn, store_init_statistics) {
    nn_store* s = new_store();
    firm_error err = {0};
    if (!s) return;
    int n = SHAPE[0] * SHAPE[1];
    nn_store_declare(s, "w", NN_INIT_NORMAL, 0.5f, 2, SHAPE);
    REQUIRE_OK(nn_store_seal(s, 11, &err), err);
    const float* v = values(s, "w");
    double sum = 0, square = 0, lag = 0, fourth = 0;
    for (int i = 0; i < n; i++) {
        double z = (double)v[i] / 0.5;
        sum += z;
        square += z * z;
        fourth += z * z * z * z;
        if (i) lag += z * (double)v[i - 1] / 0.5;
    }
    EXPECT_NEAR(sum / n, 0, 4 / sqrt(n));
    EXPECT_NEAR(square / n, 1, 4 * sqrt(2.0 / n));
    EXPECT_NEAR(fourth / n, 3, 4 * sqrt(96.0 / n));
    EXPECT_NEAR(lag / n, 0, 4 / sqrt(n));
    nn_store_free(s);
}

// every allocation fails once: create and seal report it, nothing is left behind (see the asan
// preset)
TEST(nn, store_out_of_memory) {
    int failures = 0;
    for (int n = 0;; n++) {
        nn_store* s = NULL;
        firm_error err = {0};
        mem_fail_after(n);
        firm_status st = nn_store_create(&s, &err);
        if (st == FIRM_OK) {
            for (int i = 0; i < 100; i++) {
                char name[16];
                snprintf(name, sizeof name, "p%d", i);
                nn_store_declare(s, name, NN_INIT_ZERO, 0, 1, (int[]){5});
            }
            st = nn_store_seal(s, 1, &err);
        }
        mem_fail_after(-1);
        nn_store_free(s);
        if (st == FIRM_OK) break;
        EXPECT_INT(st, FIRM_E_MEMORY);
        EXPECT(err.message[0] != 0);
        failures++;
    }
    EXPECT_INT(failures, 4);  // the store, its list twice, the block
}
