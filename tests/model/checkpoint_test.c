// checkpoint_test.c - model files: what is written is read back, to the bit where it can be; what
// goes wrong with writing leaves nothing behind; training checkpoints. damage_test.c has the
// damaged files, files.h the small models both use.
#include "core/each_failing.h"
#include "core/file.h"
#include "core/mem.h"
#include "env/env.h"
#include "files.h"
#include "model/half.h"
#include "model/safetensors.h"

// ---- half precision -----------------------------------------------------------------------------

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

TEST(model, half_known_values) {
    static const struct {
        float value;
        uint16_t half;
    } known[] = {
        {0, 0},
        {-0.0f, 0x8000},
        {1, 0x3c00},
        {-2, 0xc000},
        {65504, 0x7bff},
        {65519.9f, 0x7bff},
        {65520, 0x7c00},
        {-1e30f, 0xfc00},
        {0x1p-14f, 0x400},
        {0x1p-24f, 1},
        {0x1p-25f, 0},
        {0x1.002p-25f, 1},
        {0x3p-25f, 2},
        {2049, 0x6800},
        {2051, 0x6802},
        {1.0f / 3, 0x3555},
        {INFINITY, 0x7c00},
        {0x1.ff8p-15f, 0x3ff},
        {0x1.ffcp-15f, 0x400},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        EXPECT_INT(half_from_float(known[i].value), known[i].half);
    EXPECT(isnan(half_to_float(half_from_float(NAN))));
    // every half comes back as itself
    for (uint32_t h = 0; h < 65536; h++) {
        float f = half_to_float((uint16_t)h);
        if (isnan(f))
            EXPECT((h & 0x7c00) == 0x7c00 && (h & 0x3ff));
        else
            EXPECT_INT(half_from_float(f), h);
    }
}

#ifdef __FLT16_MANT_DIG__
static int same_as_compiler(uint32_t bits) {
    float f = float_of(bits);
    _Float16 want = (_Float16)f;
    uint16_t w;
    memcpy(&w, &want, sizeof w);
    if (isnan(f)) return isnan(half_to_float(half_from_float(f)));
    return half_from_float(f) == w && half_to_float(w) == (float)want;
}

TEST(model, half_as_the_compiler_has_it) {
    // around every half and every tie between two, and a walk over all exponents
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float low = half_to_float((uint16_t)h), high = half_to_float((uint16_t)(h + 1));
        float tie = h + 1 < 0x7c00 ? (low + high) / 2 : 65520;
        uint32_t bits;
        memcpy(&bits, &tie, sizeof bits);
        for (uint32_t d = 0; d < 3; d++) {
            EXPECT(same_as_compiler(bits - 1 + d));
            EXPECT(same_as_compiler((bits - 1 + d) | 0x80000000));
        }
    }
    for (uint64_t bits = 0; bits < UINT32_MAX; bits += 40503)
        EXPECT(same_as_compiler((uint32_t)bits));
}
#endif

// ---- model files --------------------------------------------------------------------------------

static int same_model(const firm_model* a, const firm_model* b) {
    int same = memcmp(&a->task, &b->task, sizeof a->task) == 0 &&
               memcmp(&a->shape, &b->shape, sizeof a->shape) == 0;
    same &= memcmp(&a->stats, &b->stats, sizeof a->stats) == 0;
    return same && strcmp(a->config, b->config) == 0 && strcmp(a->provenance, b->provenance) == 0;
}

// the largest difference over the deployed parameters, in units of `scale` times the value plus
// floor
static double worst(const firm_model* read, const firm_model* wrote, double scale, double floor) {
    double most = 0;
    for (int i = 0; i < read->store->entries; i++) {
        const nn_entry* e = &read->store->entry[i];
        int at = nn_store_find(wrote->store, e->name);
        EXPECT(at >= 0);
        const float* want = wrote->store->value + wrote->store->entry[at].offset;
        const float* got = read->store->value + e->offset;
        for (size_t j = 0; j < e->count; j++)
            most =
                test_worse(most, fabs((double)got[j] - want[j]) / (scale * fabs(want[j]) + floor));
    }
    return most;
}

TEST(model, checkpoint_round_trip) {
    const char* path = temp_path("round.safetensors");
    firm_error err = {0};
    firm_model *m = small_model(1), *read = NULL;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT(same_model(m, read));
    EXPECT(!read->auxiliary && nn_store_params(read->store, "aux.") == 0);
    for (int i = 0; i < read->store->entries; i++) {
        const nn_entry* e = &read->store->entry[i];
        const nn_entry* w = &m->store->entry[nn_store_find(m->store, e->name)];
        EXPECT(memcmp(read->store->value + e->offset, m->store->value + w->offset,
                      e->count * sizeof(float)) == 0);
    }
    EXPECT(model_count(read).total == model_count(m).total);
    firm_model_free(read);
    firm_model_free(m);
}

// the support of the training data travels with a model file; a wrong one is refused
TEST(model, checkpoint_support) {
    char path[512];
    firm_error err;
    firm_model *m = small_model(3), *read = NULL;
    snprintf(path, sizeof path, "%s/support.safetensors", test_temp_dir());
    m->support_count = 5;
    m->support_radius = 0.25f;
    m->support = mem_calloc(10, sizeof *m->support);
    for (int i = 0; i < 10; i++) m->support[i] = 0.125f * (float)i;
    for (int half = 0; half < 2; half++) {
        REQUIRE_OK(checkpoint_write(path, m, half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL, NULL,
                                    0, NULL, 0, &err),
                   err);
        REQUIRE_OK(firm_model_load(path, &read, &err), err);
        EXPECT_INT(read->support_count, 5);
        EXPECT_NEAR(read->support_radius, 0.25, 0);
        EXPECT(memcmp(read->support, m->support, 10 * sizeof(float)) == 0);
        firm_model_free(read);
    }
    m->support_radius = 0;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    EXPECT_INT(firm_model_load(path, &read, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "support") != NULL);
    firm_model_free(m);
}

// so do the statistics of the training frames, in full precision
TEST(model, checkpoint_tokens) {
    char path[512];
    firm_error err;
    firm_model *m = small_model(3), *read = NULL;
    const size_t width = (size_t)model_token_width(m);
    snprintf(path, sizeof path, "%s/tokens.safetensors", test_temp_dir());
    m->token_radius = 1.2345678f;
    m->token_stats = mem_calloc(2 * width, sizeof *m->token_stats);
    for (size_t i = 0; i < 2 * width; i++) m->token_stats[i] = 0.1234567f * (float)i;
    for (int half = 0; half < 2; half++) {
        REQUIRE_OK(checkpoint_write(path, m, half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL, NULL,
                                    0, NULL, 0, &err),
                   err);
        REQUIRE_OK(firm_model_load(path, &read, &err), err);
        EXPECT_NEAR(read->token_radius, m->token_radius, 0);
        EXPECT(memcmp(read->token_stats, m->token_stats, 2 * width * sizeof(float)) == 0);
        firm_model_free(read);
    }
    m->token_stats[width] = -1;  // a deviation
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    EXPECT_INT(firm_model_load(path, &read, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "tokens.statistics") != NULL);
    m->token_stats[width] = 1;
    m->token_radius = 0;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    EXPECT_INT(firm_model_load(path, &read, &err), FIRM_E_FORMAT);
    firm_model_free(m);
}

static void fill(float** list, int count, float first) {
    *list = mem_calloc((size_t)count, sizeof **list);
    for (int i = 0; i < count; i++) (*list)[i] = first + 0.125f * (float)(i % 16 - 8);
}

// so do recorded segments: controls, what came of them, and the moment they began in
TEST(model, checkpoint_recorded) {
    enum { COUNT = 3, LENGTH = ENV_SPAN * 2, POINTS = (ENV_HORIZON + 1) * 2 };
    char path[512];
    firm_error err;
    firm_model *m = small_model(3), *read = NULL;
    const int chi = m->task.chi_dim;
    snprintf(path, sizeof path, "%s/recorded.safetensors", test_temp_dir());
    m->recorded_count = COUNT;
    fill(&m->recorded, COUNT * LENGTH, 0);
    fill(&m->recorded_path, COUNT * POINTS, 1);
    fill(&m->recorded_chi, COUNT * chi, 2);
    for (int half = 0; half < 2; half++) {
        REQUIRE_OK(checkpoint_write(path, m, half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL, NULL,
                                    0, NULL, 0, &err),
                   err);
        REQUIRE_OK(firm_model_load(path, &read, &err), err);
        EXPECT_INT(read->recorded_count, COUNT);
        EXPECT(memcmp(read->recorded, m->recorded, COUNT * LENGTH * sizeof(float)) == 0);
        EXPECT(memcmp(read->recorded_path, m->recorded_path, COUNT * POINTS * sizeof(float)) == 0);
        EXPECT(memcmp(read->recorded_chi, m->recorded_chi, (size_t)(COUNT * chi) * sizeof(float)) ==
               0);
        firm_model_free(read);
    }
    m->recorded_path[7] = NAN;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    EXPECT_INT(firm_model_load(path, &read, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "recorded.path") != NULL);
    firm_model_free(m);
}

// and so do moments of whole episodes, whose ends are counted down to
TEST(model, checkpoint_recorded_episodes) {
    enum { COUNT = 7, MACRO = ENV_CONTROLS * 2 };
    static const float two[COUNT] = {3, 2, 1, 0, 2, 1, 0};
    // no end; an end too early; a number that is none of moments
    static const float bad[][COUNT] = {
        {3, 2, 1, 0, 2, 1, 1}, {3, 2, 1, 1, 2, 1, 0}, {3, 2, 1, 0, 2, 1, -1}};
    char path[512];
    firm_error err;
    firm_model *m = small_model(3), *read = NULL;
    const int chi = m->task.chi_dim;
    snprintf(path, sizeof path, "%s/episodes.safetensors", test_temp_dir());
    m->recorded_count = COUNT;
    fill(&m->recorded, COUNT * MACRO, 0);
    fill(&m->recorded_path, COUNT * 2, 1);
    fill(&m->recorded_chi, COUNT * chi, 2);
    fill(&m->recorded_left, COUNT, 0);
    memcpy(m->recorded_left, two, sizeof two);
    for (int half = 0; half < 2; half++) {
        REQUIRE_OK(checkpoint_write(path, m, half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL, NULL,
                                    0, NULL, 0, &err),
                   err);
        REQUIRE_OK(firm_model_load(path, &read, &err), err);
        EXPECT_INT(read->recorded_count, COUNT);
        EXPECT(memcmp(read->recorded, m->recorded, COUNT * MACRO * sizeof(float)) == 0);
        EXPECT(memcmp(read->recorded_path, m->recorded_path, COUNT * 2 * sizeof(float)) == 0);
        EXPECT(memcmp(read->recorded_left, two, sizeof two) == 0);
        firm_model_free(read);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(m->recorded_left, bad[i], sizeof two);
        REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
        EXPECT_INT(firm_model_load(path, &read, &err), FIRM_E_FORMAT);
        EXPECT(strstr(err.message, "recorded.left") != NULL);
    }
    firm_model_free(m);
}

// a run may begin with a model file: heads that only training has stay as they are, and so does the
// reading, which is trained on top of all others
TEST(model, checkpoint_begins_a_run) {
    char path[512];
    firm_error err;
    model_shape shape = small_shape();
    const task_typed task = test_task("tworoom");
    firm_model *m = small_model(3), *next = NULL, *read = NULL;
    snprintf(path, sizeof path, "%s/begin.safetensors", test_temp_dir());
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    shape.reading = 4;
    shape.no_fiber = 1;
    REQUIRE_OK(model_create(&task, &shape, 1, 4, &next, &err), err);
    const char* const own[] = {"aux.picture.rgb.weight", "reading.out.weight"};
    float before[2];
    for (int i = 0; i < 2; i++) {
        int at = nn_store_find(next->store, own[i]);
        EXPECT(at >= 0);
        before[i] = next->store->value[next->store->entry[at].offset];
    }
    REQUIRE_OK(checkpoint_read_weights(path, next, &err), err);
    for (int i = 0; i < 2; i++)
        EXPECT(next->store->value[next->store->entry[nn_store_find(next->store, own[i])].offset] ==
               before[i]);
    int there = nn_store_find(next->store, "transition.in.weight"),
        here = nn_store_find(m->store, "transition.in.weight");
    EXPECT(memcmp(next->store->value + next->store->entry[there].offset,
                  m->store->value + m->store->entry[here].offset,
                  m->store->entry[here].count * sizeof(float)) == 0);
    EXPECT(memcmp(&next->stats, &m->stats, sizeof m->stats) == 0);
    // the reading is deployed and counted
    REQUIRE_OK(checkpoint_write(path, next, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT(nn_store_find(read->store, "reading.out.weight") >= 0);
    EXPECT_INT(model_count(read).total,
               model_count(m).total + nn_store_params(read->store, "reading."));
    firm_model_free(read);
    firm_model_free(next);
    // any other difference is one
    shape.hidden++;
    REQUIRE_OK(model_create(&task, &shape, 1, 4, &next, &err), err);
    EXPECT_INT(checkpoint_read_weights(path, next, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "model.hidden"));
    firm_model_free(next);
    firm_model_free(m);
}

// The look at single cells is part of the shape: stored, deployed and counted with the frontend.
TEST(model, checkpoint_keeps_the_place) {
    char path[512];
    firm_error err;
    model_shape shape = small_shape();
    const task_typed task = test_task("tworoom");
    firm_model *m, *read;
    shape.place = 6;
    REQUIRE_OK(model_create(&task, &shape, 1, 4, &m, &err), err);
    snprintf(path, sizeof path, "%s/place.safetensors", test_temp_dir());
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT_INT(read->shape.place, 6);
    static const char* const part[] = {"history.place.norm.gamma", "history.place.weight",
                                       "history.place.bias", "history.belief.weight"};
    for (int i = 0; i < 4; i++) {
        int here = nn_store_find(m->store, part[i]), there = nn_store_find(read->store, part[i]);
        EXPECT(here >= 0 && there >= 0);
        if (here < 0 || there < 0) continue;
        const nn_entry *a = &m->store->entry[here], *b = &read->store->entry[there];
        EXPECT(a->count == b->count &&
               memcmp(m->store->value + a->offset, read->store->value + b->offset,
                      a->count * sizeof(float)) == 0);
    }
    firm_model* plain = small_model(4);
    // 98 numbers of 49 tokens: their norm, 6 units, and what the belief takes of these
    EXPECT_INT(model_count(read).frontend, model_count(plain).frontend + 2 * 98 + 99 * 6 + 6 * 3);
    EXPECT_INT(nn_store_find(plain->store, "history.place.weight"), -1);
    // a run of another shape does not begin with it
    EXPECT_INT(checkpoint_read_weights(path, plain, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "model.place = 6 and not 0"));
    firm_model_free(plain);
    firm_model_free(read);
    firm_model_free(m);
}

// Checkpoints of trainings without the term `posture` lack its head: it begins with the seed's
// weights. One with the head goes on as it was, and a model for use has none.
TEST(model, checkpoint_begins_a_posture) {
    char path[512];
    firm_error err;
    model_shape shape = small_shape();
    const task_typed task = test_task("tworoom");
    firm_model *plain = small_model(3), *with, *other, *read;
    snprintf(path, sizeof path, "%s/posture.safetensors", test_temp_dir());
    EXPECT_INT(nn_store_params(plain->store, "aux.posture."), 0);
    REQUIRE_OK(checkpoint_write(path, plain, CHECKPOINT_TRAINING, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(model_create(&task, &shape, MODEL_AUXILIARY | MODEL_POSTURE, 4, &with, &err), err);
    REQUIRE_OK(model_create(&task, &shape, MODEL_AUXILIARY | MODEL_POSTURE, 9, &other, &err), err);
    const nn_entry* e = &with->store->entry[nn_store_find(with->store, "aux.posture.out.weight")];
    EXPECT(e->dim[0] == 256 && e->dim[1] == task.chi_dim);
    const float own = with->store->value[e->offset];
    REQUIRE_OK(checkpoint_read_weights(path, with, &err), err);
    EXPECT(with->store->value[e->offset] == own && own != 0);
    int at = nn_store_find(with->store, "aux.chi.out.weight"),
        from = nn_store_find(plain->store, "aux.chi.out.weight");
    EXPECT(with->store->value[with->store->entry[at].offset] ==
           plain->store->value[plain->store->entry[from].offset]);
    // to resume is another matter: nothing may be missing
    EXPECT_INT(checkpoint_read_training(path, with, NULL, 0, NULL, 0, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "aux.posture."));
    REQUIRE_OK(checkpoint_write(path, with, CHECKPOINT_TRAINING, NULL, 0, NULL, 0, &err), err);
    EXPECT(other->store->value[e->offset] != own);
    REQUIRE_OK(checkpoint_read_weights(path, other, &err), err);
    EXPECT(other->store->value[e->offset] == own);
    REQUIRE_OK(checkpoint_write(path, with, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT_INT(model_count(read).total, model_count(plain).total);
    firm_model_free(read);
    firm_model_free(other);
    firm_model_free(with);
    firm_model_free(plain);
}

TEST(model, checkpoint_same_bytes_twice) {
    firm_error err = {0};
    firm_model* m = small_model(1);
    char *a, *b;
    size_t na, nb;
    char first[512];
    snprintf(first, sizeof first, "%s", temp_path("first.safetensors"));
    const char* second = temp_path("second.safetensors");
    REQUIRE_OK(checkpoint_write(first, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(checkpoint_write(second, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(file_read_all(first, &a, &na, &err), err);
    REQUIRE_OK(file_read_all(second, &b, &nb, &err), err);
    EXPECT(na == nb && memcmp(a, b, na) == 0);
    EXPECT(header_bytes(a) % 8 == 0 && a[8] == '{');
    mem_free(a);
    mem_free(b);
    firm_model_free(m);
}

TEST(model, checkpoint_half) {
    const char* path = temp_path("half.safetensors");
    firm_error err = {0};
    firm_model *m = small_model(1), *read, *again;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL_HALF, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT(same_model(m, read));
    double most = worst(read, m, 0x1p-11, 0x1p-25);  // half a step of ten fraction bits
    EXPECT(most > 0.5 && most <= 1);                 // rounded, and to the nearest
    // what is a half already stays what it is
    REQUIRE_OK(checkpoint_write(path, read, CHECKPOINT_MODEL_HALF, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &again, &err), err);
    EXPECT(worst(again, read, 0, 1) == 0);
    firm_model_free(again);
    firm_model_free(read);
    firm_model_free(m);
}

TEST(model, checkpoint_texts) {
    const char* path = temp_path("texts.safetensors");
    firm_error err = {0};
    firm_model *m = small_model(1), *read;
    mem_free(m->config);
    m->config =
        mem_strdup("[a]\nb = \"c\\d\"\t\x01 \xc3\xa4 \"firm.checksum\":\"12345678\" \xff\xc3\n");
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    // bytes that are no UTF-8 do not belong into JSON
    EXPECT_TEXT(read->config,
                "[a]\nb = \"c\\d\"\t\x01 \xc3\xa4 \"firm.checksum\":\"12345678\" ??\n");
    firm_model_free(read);

    // settings as large as a header may be, and larger
    mem_free(m->config);
    m->config = mem_alloc(SAFETENSORS_HEADER_LIMIT + 1);
    memset(m->config, 'x', SAFETENSORS_HEADER_LIMIT);
    m->config[SAFETENSORS_HEADER_LIMIT] = 0;
    EXPECT_INT(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), FIRM_E_VALUE);
    m->config[SAFETENSORS_HEADER_LIMIT / 2] = 0;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT_INT(strlen(read->config), SAFETENSORS_HEADER_LIMIT / 2);
    firm_model_free(read);
    firm_model_free(m);
}

// files of version 1 as they were first written (also the seeds of fuzz_checkpoint) stay readable
TEST(model, checkpoint_version_1) {
    static const char* const name[] = {"model", "half", "training"};
    for (int i = 0; i < 3; i++) {
        char path[1024];
        firm_error err = {0};
        firm_model* m = NULL;
        snprintf(path, sizeof path, "%s/fuzz/corpus/checkpoint/%s.safetensors", test_source_dir(),
                 name[i]);
        REQUIRE_OK(firm_model_load(path, &m, &err), err);
        const nn_entry* e = &m->store->entry[nn_store_find(m->store, "transition.in.weight")];
        float first = m->store->value[e->offset], last = m->store->value[e->offset + e->count - 1];
        EXPECT_NEAR(first, -0.22955908, i == 1 ? 1e-4 : 1e-8);
        EXPECT_NEAR(last, -0.3359221, i == 1 ? 2e-4 : 3e-8);
        EXPECT(e->dim[0] == 13 && e->dim[1] == 1 && m->shape.hidden == 1);
        EXPECT(m->stats.chi_std[1] == 2e-20f && m->stats.image_std[0] == 0.25f);
        EXPECT_TEXT(m->config, "[model]\nhidden = 4\n");
        EXPECT_TEXT(m->provenance, "firm 0.1.0, seed 1");
        firm_model_free(m);
    }
}

// ---- training checkpoints -----------------------------------------------------------------------

enum { MOMENTS = 1000 };

static void make_training(const char* path, const firm_model* m, float* moments) {
    firm_error err = {0};
    for (int i = 0; i < MOMENTS; i++) moments[i] = (float)i / 7;
    checkpoint_extra extra[] = {{"optimiser.moments", moments, MOMENTS},
                                {"optimiser.none", NULL, 0}};
    checkpoint_note note[] = {
        {"stage", "grounder"}, {"update", "123"}, {"gates", "tokens=0.1 \"ok\""}};
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_TRAINING, extra, 2, note, 3, &err), err);
}

TEST(model, checkpoint_training) {
    const char* path = temp_path("training.safetensors");
    firm_error err = {0};
    firm_model *m = small_model(1), *other = small_model(2), *deployed;
    float moments[MOMENTS], back[MOMENTS] = {0};
    make_training(path, m, moments);

    checkpoint_extra extra[] = {{"optimiser.moments", back, MOMENTS},
                                {"optimiser.none", back + MOMENTS, 0}};
    checkpoint_note note[] = {{"gates", ""}, {"stage", ""}, {"update", ""}, {"absent", "old"}};
    other->stats.image_mean[1] = 7;
    REQUIRE_OK(checkpoint_read_training(path, other, extra, 2, note, 4, &err), err);
    EXPECT(memcmp(back, moments, sizeof back) == 0);
    EXPECT_TEXT(note[0].value, "tokens=0.1 \"ok\"");
    EXPECT_TEXT(note[1].value, "grounder");
    EXPECT_TEXT(note[2].value, "123");
    EXPECT_TEXT(note[3].value, "");
    // the auxiliary parameters too, and nothing but padding around them
    EXPECT(m->store->count == other->store->count);
    EXPECT(memcmp(m->store->value, other->store->value, m->store->count * sizeof(float)) == 0);
    EXPECT(memcmp(&m->stats, &other->stats, sizeof m->stats) == 0);

    REQUIRE_OK(firm_model_load(path, &deployed, &err), err);
    EXPECT(worst(deployed, m, 0, 1) == 0 && nn_store_params(deployed->store, "aux.") == 0);
    firm_model_free(deployed);
    firm_model_free(other);
    firm_model_free(m);
}

static void refused(int line, const char* path, firm_model* m, checkpoint_extra* extra, int extras,
                    firm_status want, const char* word) {
    firm_error err = {0};
    float first = m->store->value[0], mean = m->stats.image_mean[0];
    firm_status got = checkpoint_read_training(path, m, extra, extras, NULL, 0, &err);
    if (got != want || !strstr(err.message, path) || !strstr(err.message, word))
        test_fail(__FILE__, line, "status %d, expected %d: %s", got, want, err.message);
    if (m->store->value[0] != first || m->stats.image_mean[0] != mean)
        test_fail(__FILE__, line, "a refused file changed the model");
}

TEST(model, checkpoint_training_refused) {
    const char* path = temp_path("refused.safetensors");
    firm_model *m = small_model(1), *other = small_model(2), *wide, *bare;
    float moments[MOMENTS], back[MOMENTS];
    other->stats.image_mean[0] = 7;
    make_training(path, m, moments);

    checkpoint_extra few = {"optimiser.moments", back, MOMENTS - 1};
    refused(__LINE__, path, other, &few, 1, FIRM_E_FORMAT, "999");
    checkpoint_extra absent = {"optimiser.other", back, MOMENTS};
    refused(__LINE__, path, other, &absent, 1, FIRM_E_FORMAT, "optimiser.other");
    moments[3] = NAN;
    checkpoint_extra broken = {"optimiser.moments", moments, MOMENTS};
    firm_error err = {0};
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_TRAINING, &broken, 1, NULL, 0, &err), err);
    broken.data = back;
    refused(__LINE__, path, other, &broken, 1, FIRM_E_FORMAT, "not finite");
    make_training(path, m, moments);

    model_shape shape = small_shape();
    shape.inner++;
    REQUIRE_OK(model_create(&m->task, &shape, 1, 1, &wide, &err), err);
    refused(__LINE__, path, wide, NULL, 0, FIRM_E_FORMAT, "model.inner = 5 and not 6");

    snprintf(other->task.name, sizeof other->task.name, "elsewhere");
    refused(__LINE__, path, other, NULL, 0, FIRM_E_TASK, "elsewhere");
    other->task = m->task;
    other->task.distance[0].tolerance *= 2;
    refused(__LINE__, path, other, NULL, 0, FIRM_E_TASK, "in another way");
    other->task = m->task;

    // a model for use is no training checkpoint, and one without the auxiliary part lacks something
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    refused(__LINE__, path, other, NULL, 0, FIRM_E_FORMAT, "resume");
    shape = small_shape();
    REQUIRE_OK(model_create(&m->task, &shape, 0, 1, &bare, &err), err);
    REQUIRE_OK(checkpoint_write(path, bare, CHECKPOINT_TRAINING, NULL, 0, NULL, 0, &err), err);
    refused(__LINE__, path, other, NULL, 0, FIRM_E_FORMAT, "aux.");

    firm_model_free(bare);
    firm_model_free(wide);
    firm_model_free(other);
    firm_model_free(m);
}

// ---- writing goes wrong -------------------------------------------------------------------------

static void unwritten(int line, const char* path, const firm_model* m, checkpoint_kind kind,
                      firm_status want, const char* word) {
    firm_error err = {0};
    firm_status got = checkpoint_write(path, m, kind, NULL, 0, NULL, 0, &err);
    if (got != want || !strstr(err.message, path) || !strstr(err.message, word))
        test_fail(__FILE__, line, "status %d, expected %d: %s", got, want, err.message);
}

TEST(model, checkpoint_unwritable) {
    firm_model* m = small_model(1);
    firm_error err = {0};
    unwritten(__LINE__, temp_path("no-such-folder/m.safetensors"), m, CHECKPOINT_MODEL,
              FIRM_E_MISSING, "folder");
    unwritten(__LINE__, test_temp_dir(), m, CHECKPOINT_MODEL, FIRM_E_USAGE, "folder");
    if (file_exists("/dev/full"))
        unwritten(__LINE__, "/dev/full", m, CHECKPOINT_MODEL, FIRM_E_IO, "space");

    // values that cannot be stored leave the file of before
    const char* path = temp_path("kept.safetensors");
    firm_model* read;
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    const nn_entry* e = &m->store->entry[nn_store_find(m->store, "transition.in.weight")];
    float* value = m->store->value + e->offset + e->count - 1;
    *value = 65520;
    unwritten(__LINE__, path, m, CHECKPOINT_MODEL_HALF, FIRM_E_VALUE, "transition.in.weight");
    *value = NAN;
    unwritten(__LINE__, path, m, CHECKPOINT_MODEL, FIRM_E_VALUE, "transition.in.weight");
    *value = 1;
    m->stats.chi_std[1] = 0;
    unwritten(__LINE__, path, m, CHECKPOINT_MODEL, FIRM_E_VALUE, "chi_std[1]");
    m->stats.chi_std[1] = 1;
    m->stats.action_mean[0] = INFINITY;
    unwritten(__LINE__, path, m, CHECKPOINT_MODEL, FIRM_E_VALUE, "action_mean[0]");
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    firm_model_free(read);
    firm_model_free(m);
}

// ---- memory -------------------------------------------------------------------------------------

static char memory_path[512];
static firm_model* memory_model;

static firm_status try_load(firm_error* err) {
    firm_model* m;
    TRY(firm_model_load(memory_path, &m, err));
    firm_model_free(m);
    return FIRM_OK;
}

static firm_status try_write(firm_error* err) {
    checkpoint_note note = {"stage", "one"};
    return checkpoint_write(memory_path, memory_model, CHECKPOINT_TRAINING, NULL, 0, &note, 1, err);
}

static firm_status try_resume(firm_error* err) {
    checkpoint_note note = {"stage", ""};
    return checkpoint_read_training(memory_path, memory_model, NULL, 0, &note, 1, err);
}

TEST(model, checkpoint_out_of_memory) {
    memory_model = small_model(1);
    snprintf(memory_path, sizeof memory_path, "%s", temp_path("memory.safetensors"));
    EXPECT(FAIL_EACH(try_write) > 4);
    EXPECT(FAIL_EACH(try_resume) > 3);
    EXPECT(FAIL_EACH(try_load) > 10);
    firm_model_free(memory_model);
}
