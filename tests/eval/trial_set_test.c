// trial_set_test.c - trials as a file: read back as drawn, fewer of them as a smaller draw gives,
// pictures of their own kept, and files that are cut, foreign, damaged or wrong refused in one
// sentence.
#define _GNU_SOURCE
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/mem.h"
#include "data/frames.h"
#include "data/hdf5.h"
#include "env/env.h"
#include "eval/trials.h"

enum { TRIALS = 40, OFFSET = 20 };

typedef struct drawn {
    episodes* data;
    data_split split;
    trial_options opt;
    eval_trials* trials;
    trial_set* set;
} drawn;

static const env_spec* task(void) {
    return env_find("tworoom");
}

static const char* temp_path(const char* name) {
    static char path[4][1024];
    static int next;
    char* to = path[next++ % 4];
    snprintf(to, 1024, "%s/%s", test_temp_dir(), name);
    return to;
}

static int draw(drawn* d, episodes* data) {
    firm_error err = {0};
    *d = (drawn){.data = data, .opt = {TRIALS, OFFSET, 9, 0, NULL, 0}};
    if (data && data_split_make(data, 3, &d->split, &err) == FIRM_OK) {
        d->opt.split = &d->split;
        if (eval_trials_draw(data, &d->opt, &d->trials, &err) == FIRM_OK &&
            eval_trials_pack(d->trials, &d->opt, 3, &d->set, &err) == FIRM_OK)
            return 1;
    }
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static void drawn_free(drawn* d) {
    trial_set_free(d->set);
    eval_trials_free(d->trials);
    data_split_free(&d->split);
    episodes_free(d->data);
}

static episodes* collect(int count) {
    firm_error err;
    collect_options opt = {.episodes = count, .seed = 6};
    episodes* e = NULL;
    if (episodes_collect(task(), &opt, NULL, &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return e;
}

// The same trials, wherever their rows lie now.
static void expect_same(const eval_trials* a, const eval_trials* b) {
    EXPECT_INT(a->count, b->count);
    EXPECT_INT(a->offset, b->offset);
    EXPECT(eval_trials_hash(a) == eval_trials_hash(b));
    const size_t state = sizeof(double) * (size_t)task()->state->dim,
                 action = sizeof(float) * (size_t)task()->task.action_dim;
    for (int i = 0; i < a->count && i < b->count; i++) {
        const eval_trial *x = &a->trial[i], *y = &b->trial[i];
        EXPECT_INT(x->row, y->row);
        EXPECT_INT(x->draw, y->draw);
        EXPECT_INT(x->solved, y->solved);
        EXPECT(memcmp(a->data->state + (x->start - 2) * 2, b->data->state + (y->start - 2) * 2,
                      3 * state) == 0);
        EXPECT(memcmp(a->data->state + x->goal * 2, b->data->state + y->goal * 2, state) == 0);
        EXPECT(memcmp(a->data->action + (x->start - 2) * 2, b->data->action + (y->start - 2) * 2,
                      2 * action) == 0);
    }
}

TEST(eval, trial_set_reads_back) {
    firm_error err;
    drawn d;
    trial_set* s;
    if (!draw(&d, collect(150))) return;
    const char* path = temp_path("trials.h5");
    REQUIRE_OK(trial_set_write(d.set, d.data, path, &err), err);
    REQUIRE_OK(eval_trials_read(path, task(), 0, &s, &err), err);
    EXPECT_INT(s->count, TRIALS);
    EXPECT(s->seed == 9 && s->split_seed == 3 && s->unsolved == 0);
    EXPECT(s->rows->hash == d.data->hash && s->rows->seed == 6);
    EXPECT(s->trials_hash == eval_trials_hash(d.trials));
    float mean[2], std[2];
    data_action_stats(d.data, &d.split, mean, std);
    EXPECT(memcmp(mean, s->action_mean, sizeof mean) == 0);
    EXPECT(memcmp(std, s->action_std, sizeof std) == 0);
    for (int i = 0; i < s->count; i++) {
        EXPECT(d.split.is_valid[s->episode[i]]);
        EXPECT_INT(s->episode[i], episodes_of_row(d.data, s->row[i]));
    }
    // fewer are what a smaller draw from the data themselves gives
    for (int count = 1; count <= TRIALS; count += 13) {
        eval_trials *direct, *taken;
        trial_options opt = d.opt;
        opt.count = count;
        REQUIRE_OK(eval_trials_draw(d.data, &opt, &direct, &err), err);
        REQUIRE_OK(eval_trials_take(s, count, &taken, &err), err);
        expect_same(direct, taken);
        eval_trials_free(direct);
        eval_trials_free(taken);
    }
    eval_trials* all;
    REQUIRE_OK(eval_trials_take(s, 0, &all, &err), err);
    expect_same(d.trials, all);
    eval_trials_free(all);
    EXPECT_INT(eval_trials_take(s, TRIALS + 1, &all, &err), FIRM_E_USAGE);
    EXPECT(all == NULL && strstr(err.message, "holds 40") != NULL);
    trial_set_free(s);
    drawn_free(&d);
}

// A data set with pictures may come from elsewhere, where they are drawn otherwise.
TEST(eval, trial_set_keeps_pictures) {
    firm_error err;
    static uint8_t rgb[ENV_FRAME_BYTES], want[ENV_FRAME_BYTES];
    episodes *e = collect(12), *read;
    if (!e) return;
    collect_options opt = {.episodes = 12, .seed = 6, .pixels = 1};
    pool* p;
    const char *data = temp_path("pixels.h5"), *path = temp_path("pixel-trials.h5");
    REQUIRE_OK(pool_create(1, &p, &err), err);
    REQUIRE_OK(episodes_write(e, &opt, p, data, &err), err);
    pool_free(p);
    episodes_free(e);
    // one byte of every picture becomes what no renderer draws
    hid_t file = H5Fopen(data, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t pixels = H5Dopen2(file, "pixels", H5P_DEFAULT), space = H5Dget_space(pixels);
    hsize_t dims[4], start[4] = {0}, count[4] = {0, 1, 1, 1};
    H5Sget_simple_extent_dims(space, dims, NULL);
    count[0] = dims[0];
    hid_t memory = H5Screate_simple(1, dims, NULL);
    uint8_t* odd = malloc(dims[0]);
    for (hsize_t i = 0; i < dims[0]; i++) odd[i] = (uint8_t)(i * 7);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    EXPECT(H5Dwrite(pixels, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, odd) >= 0);
    free(odd);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(pixels);
    H5Fclose(file);

    REQUIRE_OK(episodes_read(data, task(), &read, &err), err);
    drawn d;
    trial_set* s;
    eval_trials* t;
    frames *from, *to;
    if (!draw(&d, read)) return;
    REQUIRE_OK(trial_set_write(d.set, d.data, path, &err), err);
    REQUIRE_OK(eval_trials_read(path, task(), 0, &s, &err), err);
    REQUIRE_OK(eval_trials_take(s, 0, &t, &err), err);
    REQUIRE_OK(frames_open(d.data, 1, 0, &from, &err), err);
    REQUIRE_OK(frames_open(s->rows, 1, 0, &to, &err), err);
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < TRIAL_ROWS; k++) {
            const eval_trial *x = &d.trials->trial[i], *y = &t->trial[i];
            const int goal = k == FIRM_HISTORY;
            EXPECT_INT(frames_get(from, 0, goal ? x->goal : x->start - 2 + k, want), FIRM_OK);
            EXPECT_INT(frames_get(to, 0, goal ? y->goal : y->start - 2 + k, rgb), FIRM_OK);
            EXPECT(memcmp(rgb, want, sizeof rgb) == 0);
            EXPECT_INT(rgb[0], (uint8_t)((goal ? x->goal : x->start - 2 + k) * 7));
        }
    frames_free(from);
    frames_free(to);
    eval_trials_free(t);
    trial_set_free(s);
    drawn_free(&d);
}

// ---- files that are wrong -----------------------------------------------------------------------

static void expect_refused(const char* path, const char* name, firm_status want, const char* word) {
    firm_error err = {0};
    trial_set* s;
    firm_status got = eval_trials_read(path, env_find(name), 0, &s, &err);
    EXPECT_INT(got, want);
    EXPECT(s == NULL);
    if (!strstr(err.message, word) || !strstr(err.message, path) || strchr(err.message, '\n'))
        test_fail(__FILE__, __LINE__, "'%s' does not mention '%s' and the file in one line",
                  err.message, word);
}

// Numbers changed before writing, so that the checksum fits them.
TEST(eval, trial_set_wrong_numbers) {
    firm_error err;
    drawn d;
    if (!draw(&d, collect(150))) return;
    trial_set* s = d.set;
    const char* path = temp_path("wrong.h5");
#define WRONG(place, value, status, word)                        \
    do {                                                         \
        __typeof__(place) kept = (place);                        \
        (place) = (value);                                       \
        REQUIRE_OK(trial_set_write(s, d.data, path, &err), err); \
        expect_refused(path, "tworoom", FIRM_E_##status, word);  \
        (place) = kept;                                          \
    } while (0)
    WRONG(s->rows->state[11], NAN, VALUE, "trial 1 of");
    WRONG(s->rows->state[11], INFINITY, VALUE, "not finite");
    WRONG(s->rows->state[11], -900.0, VALUE, "cannot occur");
    WRONG(s->rows->state[12], s->rows->state[12] + 0.5, FORMAT, "trials_hash");
    WRONG(s->rows->action[0], NAN, VALUE, "an action of trial 0");
    WRONG(s->action_std[1], 0.0f, VALUE, "action statistics");
    WRONG(s->action_mean[0], NAN, VALUE, "action statistics");
    WRONG(s->row[0], 1, VALUE, "trial 0");
    WRONG(s->row[5], s->row[4], VALUE, "trial 5");
    WRONG(s->episode[5], -1, VALUE, "trial 5");
    WRONG(s->draw[7], s->draw[8], VALUE, "draw");
    WRONG(s->draw[7], TRIALS, VALUE, "trial 7");
    WRONG(s->offset, 0, FORMAT, "offset 0");
    WRONG(s->unsolved, 2, FORMAT, "unsolved 2");
    WRONG(s->seed, 1ull << 60, FORMAT, "seed");
    WRONG(s->trials_hash, 1, FORMAT, "trials_hash");
    // a set that says "unsolved" and holds a solved pair
    double kept[2];
    memcpy(kept, s->rows->state + 6, sizeof kept);
    memcpy(s->rows->state + 6, s->rows->state + 4, sizeof kept);
    eval_trials* t;
    REQUIRE_OK(eval_trials_take(s, 0, &t, &err), err);
    EXPECT(t->trial[0].solved);
    uint64_t hash = s->trials_hash;
    s->trials_hash = eval_trials_hash(t);
    eval_trials_free(t);
    WRONG(s->unsolved, 1, FORMAT, "unsolved");
    s->trials_hash = hash;
    memcpy(s->rows->state + 6, kept, sizeof kept);
    // and the set as it was is fine
    trial_set* again;
    REQUIRE_OK(trial_set_write(s, d.data, path, &err), err);
    REQUIRE_OK(eval_trials_read(path, task(), 0, &again, &err), err);
    trial_set_free(again);
    drawn_free(&d);
}

static void put_number(const char* path, const char* attribute, uint64_t value) {
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t a = H5Aopen(file, attribute, H5P_DEFAULT);
    EXPECT(H5Awrite(a, H5T_NATIVE_UINT64, &value) >= 0);
    H5Aclose(a);
    H5Fclose(file);
}

static void take_away(const char* path, const char* attribute, const char* column) {
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    if (attribute) EXPECT(H5Adelete(file, attribute) >= 0);
    if (column) EXPECT(H5Ldelete(file, column, H5P_DEFAULT) >= 0);
    H5Fclose(file);
}

TEST(eval, trial_set_wrong_files) {
    firm_error err;
    drawn d;
    if (!draw(&d, collect(150))) return;
    const char* path = temp_path("damaged.h5");
#define FRESH() REQUIRE_OK(trial_set_write(d.set, d.data, path, &err), err)
    FRESH();
    static const char* const attributes[] = {"offset",    "unsolved",  "seed",        "split_seed",
                                             "data_hash", "data_seed", "trials_hash", "checksum"};
    static const char* const columns[] = {"row",    "episode",     "draw",      "state",
                                          "action", "action_mean", "action_std"};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        FRESH();
        take_away(path, attributes[i], NULL);
        expect_refused(path, "tworoom", FIRM_E_FORMAT, attributes[i]);
    }
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        FRESH();
        take_away(path, NULL, columns[i]);
        expect_refused(path, "tworoom", FIRM_E_FORMAT, columns[i]);
    }
    FRESH();
    put_number(path, "format_version", 2);
    expect_refused(path, "tworoom", FIRM_E_FORMAT, "format version 2");
    // split, data hash and the rest are under the checksum
    FRESH();
    put_number(path, "split_seed", 4);
    expect_refused(path, "tworoom", FIRM_E_FORMAT, "checksum");
    FRESH();
    put_number(path, "data_hash", 4);
    expect_refused(path, "tworoom", FIRM_E_FORMAT, "checksum");
    FRESH();
    take_away(path, "kind", NULL);
    expect_refused(path, "tworoom", FIRM_E_FORMAT, "does not hold trials");
    FRESH();
    if (env_find("pusht")) expect_refused(path, "pusht", FIRM_E_TASK, "'tworoom', not of 'pusht'");
    struct stat whole;
    EXPECT_INT(stat(path, &whole), 0);
    for (int twelfths = 0; twelfths < 12; twelfths++) {
        FRESH();
        EXPECT_INT(truncate(path, whole.st_size * twelfths / 12), 0);
        expect_refused(path, "tworoom", FIRM_E_FORMAT, "damaged.h5");
    }
    expect_refused(temp_path("absent.h5"), "tworoom", FIRM_E_MISSING, "absent.h5");
    // episodes are no trials
    collect_options opt = {.episodes = 150, .seed = 6};
    REQUIRE_OK(episodes_write(d.data, &opt, NULL, path, &err), err);
    expect_refused(path, "tworoom", FIRM_E_FORMAT, "does not hold trials");
    drawn_free(&d);
}

// Whichever bit of the file flips: refused, or the same trials.
TEST(eval, trial_set_flipped_bits) {
    firm_error err;
    drawn d;
    trial_set* back;
    if (!draw(&d, collect(150))) return;
    const char *path = temp_path("good.h5"), *bad = temp_path("flipped.h5");
    REQUIRE_OK(trial_set_write(d.set, d.data, path, &err), err);
    struct stat whole;
    EXPECT_INT(stat(path, &whole), 0);
    const size_t size = (size_t)whole.st_size;
    unsigned char* bytes = malloc(size);
    FILE* f = fopen(path, "rb");
    EXPECT(fread(bytes, 1, size, f) == size);
    fclose(f);
    rng r = rng_start(8, RNG_STREAM(RNG_TEST, 4));
    int refused = 0, unharmed = 0;
    for (int i = 0; i < (test_short() ? 100 : 400); i++) {
        size_t at = rng_below(&r, (uint32_t)size);
        unsigned char kept = bytes[at];
        bytes[at] ^= (unsigned char)(1u << rng_below(&r, 8));
        f = fopen(bad, "wb");
        fwrite(bytes, 1, size, f);
        fclose(f);
        bytes[at] = kept;
        if (eval_trials_read(bad, task(), 0, &back, &err) == FIRM_OK) {
            EXPECT(back->trials_hash == d.set->trials_hash && back->rows->hash == d.data->hash);
            EXPECT(back->split_seed == 3 && back->count == TRIALS);
            unharmed++;
            trial_set_free(back);
        } else {
            EXPECT(strstr(err.message, bad) != NULL && !strchr(err.message, '\n'));
            refused++;
        }
    }
    EXPECT(refused > 0 && unharmed > 0);
    free(bytes);
    drawn_free(&d);
}
