// save_test.c - a controller's state saved, restored elsewhere, and refused where it does not fit.
#include "check.h"
#include "core/mem.h"
#include "members.h"
#include "plan/controller_internal.h"

static void show(firm_controller* ctl, uint8_t* rgb, int frame, const float* action) {
    for (int i = 0; i < MEMBER_PICTURE; i++) rgb[i] = (uint8_t)(i * (frame + 3) + i / 97);
    EXPECT_INT(firm_controller_push(ctl, rgb, action), FIRM_OK);
}

static firm_controller* create(const firm_model* m, firm_mode mode, int threads, int fan) {
    firm_controller* ctl = NULL;
    firm_error err = {0};
    firm_controller_params p = firm_controller_params_default();
    p.mode = mode, p.threads = threads, p.seed = 11, p.fan = fan;
    p.candidates = 64, p.iterations = 3, p.elites = 8;
    if (firm_controller_create(m, &p, &ctl, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "no controller: %s", err.message);
    return ctl;
}

// Two controllers see and do the same from here on.
static void compare(firm_controller* a, firm_controller* b, uint8_t* rgb, int dim) {
    firm_step x, y;
    for (int i = 0; i < 12; i++) {
        EXPECT_INT(firm_controller_act(a, 0, &x), FIRM_OK);
        EXPECT_INT(firm_controller_act(b, 0, &y), FIRM_OK);
        EXPECT(memcmp(x.action, y.action, sizeof x.action) == 0);
        EXPECT(x.solved == y.solved && x.cost == y.cost && x.arrival == y.arrival &&
               x.horizon == y.horizon && x.iterations == y.iterations && x.fan == y.fan);
        EXPECT(memcmp(x.path, y.path, (size_t)((x.horizon + 1) * dim) * sizeof(float)) == 0);
        EXPECT(memcmp(x.fan_path, y.fan_path,
                      (size_t)(x.fan * (x.horizon + 1) * dim) * sizeof(float)) == 0);
        EXPECT(memcmp(x.distance_now, y.distance_now, sizeof x.distance_now) == 0);
        show(a, rgb, 50 + i, x.action);
        show(b, rgb, 50 + i, y.action);
    }
}

static void save_at(const firm_model* m, firm_mode mode, int acts, uint8_t* rgb) {
    firm_controller *a = create(m, mode, 1, 3), *b = create(m, mode, 2, 3);
    const int dim = m->task.config_dim;
    float goal[FIRM_MAX_CONFIG] = {0.2f, 0.9f, 0.4f, -0.1f, 0.3f, 0.2f};
    uint8_t given[FIRM_MAX_CONFIG] = {1, 1, 1};
    firm_step step = {0};
    size_t bytes = firm_controller_state_bytes(a);
    char* state = malloc(bytes + 1);
    EXPECT_INT(firm_controller_goal_config(a, goal, given), FIRM_OK);
    for (int i = 0; i <= acts; i++) {
        show(a, rgb, i, i ? step.action : NULL);
        if (i < acts) EXPECT_INT(firm_controller_act(a, 0, &step), FIRM_OK);
    }
    // b has a past of its own, which the state replaces
    show(b, rgb, 90, NULL);
    EXPECT_INT(firm_controller_reset(b, 77), FIRM_OK);
    state[bytes] = 0x5A;
    int64_t before = mem_count();
    EXPECT_INT(firm_controller_save(a, state, bytes), FIRM_OK);
    EXPECT_INT(firm_controller_restore(b, state, bytes), FIRM_OK);
    EXPECT_INT(mem_count() - before, 0);
    EXPECT(state[bytes] == 0x5A);
    compare(a, b, rgb, dim);
    // and once more, into the one it came from
    EXPECT_INT(firm_controller_restore(a, state, bytes), FIRM_OK);
    EXPECT_INT(firm_controller_restore(b, state, bytes), FIRM_OK);
    compare(a, b, rgb, dim);
    free(state);
    firm_controller_free(a);
    firm_controller_free(b);
}

TEST(plan, save_continues_with_the_same_bits) {
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    firm_model *one = member_lively("pusht", 5), *two = member_pair("pusht", 5, 6);
    for (int mode = 0; mode < 2; mode++) {
        save_at(one, (firm_mode)mode, 0, rgb);  // before the first solve
        save_at(one, (firm_mode)mode, 5, rgb);
        save_at(two, (firm_mode)mode, 8, rgb);
    }
    firm_model_free(one);
    firm_model_free(two);
    free(rgb);
}

static void expect_refused(firm_controller* ctl, const void* state, size_t bytes,
                           firm_status status, const char* words) {
    EXPECT_INT(firm_controller_restore(ctl, state, bytes), status);
    if (!strstr(firm_controller_error(ctl), words))
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", firm_controller_error(ctl), words);
}

TEST(plan, save_is_refused_where_it_does_not_fit) {
    firm_model *m = member_lively("tworoom", 5), *other = member_lively("tworoom", 6);
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    firm_controller *a = create(m, FIRM_MODE_REACH, 1, 0), *b = create(m, FIRM_MODE_CONTRACT, 1, 0),
                    *c = create(other, FIRM_MODE_REACH, 1, 0),
                    *d = create(m, FIRM_MODE_REACH, 1, 2);
    size_t bytes = firm_controller_state_bytes(a);
    char* state = malloc(bytes);
    firm_step step;
    member_show(a, rgb);
    EXPECT_INT(firm_controller_state_bytes(NULL), 0);
    EXPECT_INT(firm_controller_save(NULL, state, bytes), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_restore(NULL, state, bytes), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_save(a, NULL, bytes), FIRM_E_USAGE);
    EXPECT_INT(firm_controller_save(a, state, bytes - 1), FIRM_E_USAGE);
    EXPECT(strstr(firm_controller_error(a), "firm_controller_state_bytes"));
    EXPECT_INT(firm_controller_save(a, state, bytes), FIRM_OK);
    expect_refused(a, NULL, bytes, FIRM_E_USAGE, "NULL");
    expect_refused(b, state, bytes, FIRM_E_FORMAT, "other params");
    expect_refused(c, state, bytes, FIRM_E_FORMAT, "another model");
    expect_refused(d, state, bytes, FIRM_E_FORMAT, "other params");
    expect_refused(a, state, bytes - 1, FIRM_E_FORMAT, "cut off");
    expect_refused(a, state, 7, FIRM_E_FORMAT, "no controller's state");
    state[bytes / 2] ^= 4;
    expect_refused(a, state, bytes, FIRM_E_FORMAT, "checksum");
    state[bytes / 2] ^= 4;
    state[0] ^= 4;
    expect_refused(a, state, bytes, FIRM_E_FORMAT, "no controller's state");
    // nothing of these was taken
    EXPECT_INT(firm_controller_act(a, 0, &step), FIRM_OK);
    EXPECT_INT(firm_controller_act(b, 0, &step), FIRM_E_USAGE);
    free(state);
    free(rgb);
    firm_controller_free(a);
    firm_controller_free(b);
    firm_controller_free(c);
    firm_controller_free(d);
    firm_model_free(m);
    firm_model_free(other);
}

// One bit of one weight, wherever it is, makes another model; so do weights that changed places.
TEST(plan, save_tells_weights_apart) {
    firm_model* m = member_lively("tworoom", 5);
    nn_store* store = m->store;
    const size_t count = store->count, kept = store->count;
    const uint32_t sum = controller_weights_sum(m);
    const size_t where[] = {0, 1, 9, count / 2, count - 2, count - 1};
    for (size_t i = 0; i < sizeof where / sizeof *where; i++)
        for (int bit = 0; bit < 32; bit += 31) {
            uint32_t word;
            memcpy(&word, store->value + where[i], sizeof word);
            word ^= (uint32_t)1 << bit;
            memcpy(store->value + where[i], &word, sizeof word);
            EXPECT(controller_weights_sum(m) != sum);
            word ^= (uint32_t)1 << bit;
            memcpy(store->value + where[i], &word, sizeof word);
        }
    EXPECT_INT(controller_weights_sum(m), sum);
    float first[8];
    memcpy(first, store->value, sizeof first);  // as many as are taken at a time
    memmove(store->value, store->value + 8, sizeof first);
    memcpy(store->value + 8, first, sizeof first);
    EXPECT(controller_weights_sum(m) != sum);
    // the last weights count, whatever number is left over
    for (store->count = kept - 9; store->count < kept; store->count++) {
        const uint32_t before = controller_weights_sum(m);
        store->value[store->count - 1] += 1;
        EXPECT(controller_weights_sum(m) != before);
        store->value[store->count - 1] -= 1;
    }
    store->count = kept;
    firm_model_free(m);
}
