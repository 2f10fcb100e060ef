// lewm_test.c - LeWM against the reference's own modules (tests/golden/lewm.txt), its sizes and
// initial weights, and its files.
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "lewm_formula.h"
#include "model/lewm/names.h"
#include "model/safetensors.h"
#include "nn/adamw.h"
#include "nn/cases.h"
#include "tasks.h"

// the inputs of a graph, by name
typedef struct feed_data {
    const char* name[4];
    const void* data[4];  // all samples of the batch
} feed_data;

static firm_status fill(void* ctx, const nn_feed* f) {
    const feed_data* d = ctx;
    for (int id = 0; id < f->graph->tensors; id++) {
        const nn_tensor* t = &f->graph->tensor[id];
        size_t size = (size_t)t->size * (t->kind == NN_BYTES ? 1 : sizeof(float));
        for (int i = 0; i < 4 && d->name[i]; i++)
            if ((t->kind == NN_INPUT || t->kind == NN_BYTES) && strcmp(t->name, d->name[i]) == 0)
                memcpy(f->slot[id], (const char*)d->data[i] + (size_t)f->first * size,
                       (size_t)f->count * size);
    }
    return FIRM_OK;
}

// runs a graph once on the cpu, deployed, and copies its output
static int run(nn_graph* g, nn_id out, feed_data* in, float* result) {
    nn_exec* e;
    firm_error err = {0};
    nn_output(g, out);
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1};
    if (nn_exec_create(g, nn_backend_cpu(), &opt, NULL, &e, &err) != FIRM_OK ||
        nn_exec_forward(e, 1, fill, in) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return 0;
    }
    memcpy(result, nn_exec_output(e, out), (size_t)nn_size(g, out) * sizeof *result);
    nn_exec_free(e);
    return 1;
}

static void expect_section(const char* section, const float* got, int count, double tol) {
    double* want = lewm_golden(section, count);
    double worst = 0;
    for (int i = 0; want && i < count; i++)
        worst = test_worse(worst, fabs((double)got[i] - want[i]));
    if (want && !(worst <= tol * test_tolerance_scale()))
        test_fail(__FILE__, __LINE__, "%s is off by %.3g, allowed %.3g", section, worst, tol);
    free(want);
}

static nn_graph* graph_of(const lewm_model* m) {
    nn_graph* g;
    firm_error err = {0};
    if (nn_graph_create(m->store, &g, &err) != FIRM_OK) abort();
    return g;
}

static void predict(const lewm_model* m, int n, const float* z, const float* u, float* out) {
    nn_graph* g = graph_of(m);
    int width = m->shape.width;
    nn_id zi = nn_input(g, "z", 2, (int[]){n, width});
    nn_id ui = nn_input(g, "u", 2, (int[]){n, lewm_action_dim(m)});
    feed_data in = {{"z", "u"}, {z, u}};
    run(g, lewm_predict(g, m, zi, lewm_embed(g, m, ui)), &in, out);
    nn_graph_free(g);
}

TEST(model, lewm_counts_parameters) {
    lewm_shape shape = lewm_shape_default();
    firm_error err = {0};
    const struct {
        const char* task;
        size_t params;
    } table[] = {
        {"tworoom", 18034478}, {"reacher", 18034478}, {"pusht", 18034478}, {"cube", 18034628}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const task_typed task = test_task(table[i].task);
        lewm_model* m;
        REQUIRE_OK(lewm_create(&task, &shape, 1, &m, &err), err);
        EXPECT_INT(lewm_params(m), table[i].params);
        if (i == 0) {
            EXPECT_INT(nn_store_params(m->store, "encoder."), 5501376);
            EXPECT_INT(nn_store_params(m->store, "projector."), 792768);
            EXPECT_INT(nn_store_params(m->store, "actions."), 156206);
            EXPECT_INT(nn_store_params(m->store, "predictor."), 10791360);
            EXPECT_INT(nn_store_params(m->store, "head."), 792768);
            lewm_part* part;
            int parts;
            REQUIRE_OK(lewm_parts(m, &part, &parts, &err), err);
            EXPECT_INT(parts, 303);
            mem_free(part);
        }
        lewm_free(m);
    }
}

// the published sizes: every number within 1e-3, as between two programs on a GPU; here 2e-4
TEST(model, lewm_equals_the_reference) {
    enum { W = 192, BYTES = 224 * 224 * 3 };
    const double tol = 2e-4;
    lewm_shape shape = lewm_shape_default();
    lewm_model* m = lewm_formula(&shape);
    uint8_t* frames = malloc(3 * BYTES);
    float u[2 * 5 * 10], z[3 * W], out[3 * W], last[2 * W], cost[2];
    if (!frames) abort();
    lewm_formula_frames(3, 224, frames);
    lewm_formula_actions(2 * 5 * 10, u);
    nn_graph* g = graph_of(m);
    feed_data in = {{"frames"}, {frames}};
    int frames_seen = test_short() ? 1 : 3;
    run(g, lewm_encode(g, m, nn_frames(g, "frames", frames_seen, 224)), &in, z);
    nn_graph_free(g);
    double* all = lewm_golden("latents", 3 * W);
    for (int i = 0; all && i < 3 * W; i++) {
        if (i < frames_seen * W) EXPECT_NEAR((double)z[i], all[i], tol);
        z[i] = (float)all[i];
    }
    free(all);
    g = graph_of(m);
    nn_id ui = nn_input(g, "u", 2, (int[]){3, 10});
    feed_data actions = {{"u"}, {u}};
    run(g, lewm_embed(g, m, ui), &actions, out);
    nn_graph_free(g);
    expect_section("embeddings", out, 3 * W, 1e-6);
    for (int n = 1; n <= 3; n++) {
        char section[] = "predictions0";
        section[11] = (char)('0' + n);
        predict(m, n, z, u, out);
        expect_section(section, out, n * W, tol);
    }
    // two candidates of five actions from one frame; windows of 1, 2, 3, 3, 3 latents
    for (int candidate = 0; candidate < 2; candidate++) {
        float path[6 * W];
        memcpy(path, z, W * sizeof *path);
        for (int t = 0; t < 5; t++) {
            int n = t < 3 ? t + 1 : 3, from = t + 1 - n;
            predict(m, n, path + from * W, u + (candidate * 5 + from) * 10, out);
            memcpy(path + (t + 1) * W, out + (n - 1) * W, W * sizeof *path);
        }
        memcpy(last + candidate * W, path + 5 * W, W * sizeof *path);
        cost[candidate] = 0;
        for (int i = 0; i < W; i++) {
            float d = path[5 * W + i] - z[2 * W + i];
            cost[candidate] += d * d;
        }
    }
    expect_section("rollout", last, 2 * W, tol);
    expect_section("costs", cost, 2, 5e-3);
    free(frames);
    lewm_free(m);
}

// ---- training -----------------------------------------------------------------------------------

TEST(model, lewm_fresh_predictor_is_its_head) {
    lewm_shape shape = lewm_small();
    const task_typed task = test_task("tworoom");
    firm_error err = {0};
    lewm_model* m;
    REQUIRE_OK(lewm_create(&task, &shape, 3, &m, &err), err);
    float z[24], u[10], got[24], want[24];
    for (int i = 0; i < 24; i++) z[i] = lewm_noise("z", (size_t)i);
    lewm_formula_actions(10, u);
    predict(m, 1, z, u, got);
    // without blocks: a predictor of no depth is head(norm(z + position))
    lewm_model bare = *m;
    bare.shape.predictor_depth = 0;
    predict(&bare, 1, z, u, want);
    for (int i = 0; i < 24; i++) EXPECT_NEAR((double)got[i], (double)want[i], 0);
    lewm_free(m);
}

// values of the formula model's tensor, as scripts/reference/lewm.py samples them
static void sampled(const lewm_model* m, const lewm_part* p, const float* values, float out[4],
                    int* count) {
    lewm_model shifted = *m;
    nn_store store = *m->store;
    shifted.store = &store;
    store.value = (float*)values;
    float* file = malloc(p->count * sizeof *file);
    if (!file) abort();
    lewm_part_give(&shifted, p, file);
    size_t stride = p->count / 4 > 1 ? p->count / 4 : 1;
    *count = 0;
    for (size_t i = 0; i < p->count && *count < 4; i += stride) out[(*count)++] = file[i];
    free(file);
}

// Where the gradient is 0 but for rounding (a bias before a batch norm, a bias of keys), AdamW
// steps by the sign of the rounding: such numbers take what the reference has.
static void forgive_zero_gradients(const char* name, int count, float* got) {
    char section[2][PART_NAME + 16];
    snprintf(section[0], sizeof section[0], "gradient.%s", name);
    snprintf(section[1], sizeof section[1], "after.%s", name);
    double *grad = lewm_golden(section[0], count), *after = lewm_golden(section[1], count);
    for (int i = 0; grad && after && i < count; i++)
        if (fabs(grad[i]) < 1e-6) got[i] = (float)after[i];
    free(grad);
    free(after);
}

static void expect_parts(const lewm_model* m, const char* prefix, const float* values, double tol) {
    lewm_part* part;
    int parts, count;
    firm_error err = {0};
    REQUIRE_OK(lewm_parts(m, &part, &parts, &err), err);
    for (int i = 0; i < parts; i++) {
        char section[PART_NAME + 16];
        float four[4];
        int buffer = m->store->entry[part[i].entry].buffer;
        if (strcmp(prefix, "gradient.") == 0 && buffer) continue;
        snprintf(section, sizeof section, "%s%s", prefix, part[i].name);
        sampled(m, &part[i], values, four, &count);
        if (strcmp(prefix, "after.") == 0 && !buffer)
            forgive_zero_gradients(part[i].name, count, four);
        expect_section(section, four, count, tol);
    }
    mem_free(part);
}

TEST(model, lewm_step_equals_the_reference) {
    enum { CLIPS = 5 };
    firm_error err = {0};
    lewm_shape shape = lewm_small();
    lewm_model* m = lewm_formula(&shape);
    uint8_t frames[CLIPS * 4 * 28 * 28 * 3];
    float u[CLIPS * 4 * 10];
    lewm_formula_frames(CLIPS * 4, 28, frames);
    lewm_formula_actions(CLIPS * 4 * 10, u);
    nn_graph* g = graph_of(m);
    nn_train(g, "");
    lewm_train(g, m, 0, 8);
    feed_data in = {{"frames", "actions"}, {frames, u}};
    nn_exec_options opt = {.batch = CLIPS, .shard = 2, .lanes = 2, .train = 1};
    nn_exec* e;
    REQUIRE_OK(nn_exec_create(g, nn_backend_cpu(), &opt, NULL, &e, &err), err);
    EXPECT_INT(nn_exec_gradient(e, fill, &in), FIRM_OK);
    float loss = (float)nn_exec_term(e, 0);
    expect_section("step_prediction", &loss, 1, 1e-6);
    // gradients in the store's layout
    const nn_trained* list;
    int count = nn_exec_trained(e, &list);
    float* grad = calloc(m->store->count, sizeof *grad);
    if (!grad) abort();
    for (int i = 0; i < count; i++)
        memcpy(grad + m->store->entry[list[i].entry].offset, nn_exec_grad(e) + list[i].offset,
               list[i].count * sizeof *grad);
    expect_parts(m, "gradient.", grad, 2e-6);
    free(grad);
    nn_adamw_options adamw = {.rate = 1e-3f,
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .eps = 1e-8f,
                              .decay = 1e-1f,
                              .decay_all = 1,
                              .clip = 1,
                              .schedule = NN_CONSTANT};
    nn_adamw* a;
    REQUIRE_OK(adamw_of(e, &adamw, NULL, &a, &err), err);
    float norm = (float)nn_adamw_step(a, m->store, NULL);
    expect_section("step_norm", &norm, 1, 1e-5);
    expect_parts(m, "after.", m->store->value, 2e-6);
    nn_adamw_free(a);
    nn_exec_free(e);
    nn_graph_free(g);
    lewm_free(m);
}

static void build_sigreg(nn_graph* g, nn_setup* s) {
    int size = 4 * 12;
    nn_random(g, 5);
    nn_id z = nn_addp(g, nn_input(g, "sigreg", 2, (int[]){4, 12}),
                      nn_param(g, "p", NN_INIT_ZERO, 0, 1, &size));
    s->out = nn_sigreg(g, z, 32);
    nn_output(g, s->out);
    nn_loss(g, "sigreg", s->out, 1);
}

// Every sample has its own shift of z, so that the gradient of the shifts is that of z.
TEST(model, lewm_sigreg_equals_the_reference) {
    enum { BATCH = 9, SIZE = 48 };
    float z[BATCH * SIZE], sum[SIZE] = {0};
    for (int i = 0; i < BATCH * SIZE; i++) z[i] = 2 * lewm_noise("sigreg", (size_t)i);
    feed_data in = {{"sigreg"}, {z}};
    const nn_backend* backend[] = {nn_backend_ref(), nn_backend_cpu()};
    double* want = lewm_golden("sigreg_gradient", BATCH * SIZE);
    for (int i = 0; want && i < BATCH * SIZE; i++) sum[i % SIZE] += (float)want[i];
    for (int b = 0; want && b < 2; b++) {
        nn_setup s;
        nn_exec_options opt = {.batch = BATCH, .shard = 2, .lanes = 2, .train = 1};
        if (!nn_setup_graph(&s, build_sigreg, backend[b], &opt, NULL)) return;
        nn_exec_set_update(s.exec, 3);
        EXPECT_INT(nn_exec_gradient(s.exec, fill, &in), FIRM_OK);
        float loss = (float)nn_exec_loss(s.exec);
        expect_section("sigreg", &loss, 1, 2e-6);
        for (int i = 0; i < SIZE; i++)
            EXPECT_NEAR((double)nn_exec_grad(s.exec)[i], (double)sum[i], 2e-6);
        nn_setup_free(&s);
    }
    free(want);
}

// ---- files --------------------------------------------------------------------------------------

static const char* path_of(const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

static int same_store(const lewm_model* a, const lewm_model* b) {
    return a->store->count == b->store->count &&
           memcmp(a->store->value, b->store->value, a->store->count * sizeof(float)) == 0;
}

TEST(model, lewm_file_comes_back) {
    firm_error err = {0};
    lewm_shape shape = lewm_small();
    shape.dropout = 0.25f;
    lewm_model *m = lewm_formula(&shape), *back;
    m->action_mean[0] = -0.1f, m->action_mean[1] = 1.0f / 3;
    m->action_std[0] = 0.2f, m->action_std[1] = 1e-3f;
    snprintf(m->provenance, sizeof m->provenance, "firm 0.1.0, seed 7");
    const char* path = path_of("lewm.safetensors");
    REQUIRE_OK(lewm_write(path, m, NULL, &err), err);
    EXPECT(lewm_is_file(path));
    REQUIRE_OK(lewm_read(path, NULL, &back, &err), err);
    EXPECT(same_store(m, back));
    EXPECT(memcmp(&m->shape, &back->shape, sizeof m->shape) == 0);
    EXPECT(memcmp(m->action_mean, back->action_mean, sizeof m->action_mean) == 0);
    EXPECT(memcmp(m->action_std, back->action_std, sizeof m->action_std) == 0);
    EXPECT_TEXT(back->task.name, "tworoom");
    EXPECT_TEXT(back->provenance, m->provenance);
    lewm_free(back);

    // a run's moments and notes; another size is refused
    float moments[6] = {1, 2, 3, 4, 5, 6}, read[6] = {0};
    lewm_extra extra = {"optimiser.moments", moments, 6};
    lewm_note note = {.key = "update", .value = "41"}, seen = {.key = "update"};
    REQUIRE_OK(lewm_write(path, m, &(lewm_training){&extra, 1, &note, 1}, &err), err);
    lewm_model* other = lewm_formula(&shape);
    memset(other->store->value, 0, other->store->count * sizeof(float));
    extra.data = read;
    lewm_training run = {&extra, 1, &seen, 1};
    REQUIRE_OK(lewm_read_training(path, other, &run, &err), err);
    EXPECT(same_store(m, other));
    EXPECT(memcmp(read, moments, sizeof read) == 0);
    EXPECT_TEXT(seen.value, "41");
    EXPECT_INT(lewm_read(path, NULL, &back, &err), FIRM_E_FORMAT);  // a tensor too many
    EXPECT(strstr(err.message, "tensors") != NULL);
    extra.count = 5;
    EXPECT_INT(lewm_read_training(path, other, &run, &err), FIRM_E_FORMAT);
    lewm_free(other);
    lewm_free(m);
}

// replaces the first occurrence of a text in a file's header by another of the same length
static void exchange(char* bytes, size_t n, const char* from, const char* to) {
    size_t length = strlen(from);
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(bytes + i, from, length) == 0) {
            memcpy(bytes + i, to, length);
            return;
        }
    test_fail(__FILE__, __LINE__, "no %s in the file", from);
}

// the same tensors under their other names, in bfloat16, without any of our texts
static void write_foreign(const lewm_model* m, const char* path, int later) {
    firm_error err = {0};
    lewm_part* part;
    int parts;
    REQUIRE_OK(lewm_parts(m, &part, &parts, &err), err);
    FILE* f = fopen(path, "wb");
    char header[65536] = "{";
    size_t at = 0;
    for (int i = 0; i < parts; i++) {
        char dims[64] = "";
        int count = part[i].kind == PART_COUNT;
        for (int d = 0; d < part[i].rank; d++)
            snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%zu", d ? "," : "",
                     part[i].dim[d]);
        size_t bytes = part[i].count * (count ? 8 : 2), n = strlen(header);
        snprintf(header + n, sizeof header - n,
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                 i ? "," : "", later && part[i].later[0] ? part[i].later : part[i].name,
                 count ? "I64" : "BF16", dims, at, at + bytes);
        at += bytes;
    }
    strcat(header, "}");
    uint64_t size = strlen(header);
    fwrite(&size, sizeof size, 1, f);
    fwrite(header, 1, size, f);
    for (int i = 0; i < parts; i++) {
        float* file = malloc(part[i].count * sizeof *file);
        if (!file) abort();
        lewm_part_give(m, &part[i], file);
        for (size_t j = 0; j < part[i].count; j++) {
            uint32_t bits;
            memcpy(&bits, &file[j], sizeof bits);
            uint16_t half = (uint16_t)(bits >> 16);
            int64_t whole = (int64_t)file[j];
            if (part[i].kind == PART_COUNT)
                fwrite(&whole, sizeof whole, 1, f);
            else
                fwrite(&half, sizeof half, 1, f);
        }
        free(file);
    }
    fclose(f);
    mem_free(part);
}

TEST(model, lewm_reads_files_of_others) {
    firm_error err = {0};
    lewm_shape shape = lewm_small();
    shape.predictor_head = 64, shape.predictor_heads = 1;  // what such files mean
    shape.heads = 1, shape.dropout = 0.1f;
    lewm_model *m = lewm_formula(&shape), *back;
    for (size_t i = 0; i < m->store->count; i++) {  // as bfloat16 has them
        uint32_t bits;
        memcpy(&bits, &m->store->value[i], sizeof bits);
        bits &= 0xffff0000u;
        memcpy(&m->store->value[i], &bits, sizeof bits);
    }
    const float mean[2] = {0.5f, -1}, std[2] = {2, 3};
    lewm_foreign foreign = {&m->task, mean, std};
    for (int later = 0; later < 2; later++) {
        const char* path = path_of("foreign.safetensors");
        write_foreign(m, path, later);
        REQUIRE_OK(lewm_read(path, &foreign, &back, &err), err);
        EXPECT(same_store(m, back));
        EXPECT(memcmp(&m->shape, &back->shape, sizeof m->shape) == 0);
        EXPECT_NEAR((double)back->action_mean[1], -1, 0);
        EXPECT_NEAR((double)back->action_std[0], 2, 0);
        lewm_free(back);
        EXPECT_INT(lewm_read(path, NULL, &back, &err), FIRM_E_FORMAT);
        EXPECT(strstr(err.message, "task") != NULL);
        // damage: a tensor missing, and one of another shape
        char* bytes;
        size_t n;
        REQUIRE_OK(file_read_all(path, &bytes, &n, &err), err);
        exchange(bytes, n, "action_encoder.embed.0.weight", "action_encoder.embed.7.weight");
        EXPECT_INT(lewm_parse("x", bytes, n, &foreign, &back, &err), FIRM_E_FORMAT);
        exchange(bytes, n, "action_encoder.embed.7.weight", "action_encoder.embed.0.weight");
        exchange(bytes, n, "\"shape\":[48,10]", "\"shape\":[10,48]");
        EXPECT(lewm_parse("x", bytes, n, &foreign, &back, &err) != FIRM_OK);
        mem_free(bytes);
    }
    lewm_free(m);
}

// A model accepted from changed bytes is sound: its sizes fit its tensors and all numbers are
// finite. Nothing else may happen but a refusal with a sentence.
TEST(model, lewm_survives_changed_bytes) {
    firm_error err = {0};
    lewm_shape shape = lewm_small();
    shape.predictor_head = 64, shape.predictor_heads = 1, shape.heads = 1;
    lewm_model *m = lewm_formula(&shape), *back;
    const float mean[2] = {0, 0}, std[2] = {1, 1};
    lewm_foreign foreign = {&m->task, mean, std};
    const char* path = path_of("changed.safetensors");
    write_foreign(m, path, 0);
    char *bytes, *copy;
    size_t n, accepted = 0;
    uint64_t header;
    REQUIRE_OK(file_read_all(path, &bytes, &n, &err), err);
    memcpy(&header, bytes, sizeof header);
    copy = malloc(n);
    if (!copy) abort();
    for (size_t i = 0; i < (test_short() ? 100 : 1500); i++) {
        size_t at = (size_t)((lewm_noise("place", i) + 1) / 2 * (float)(header + 7));
        memcpy(copy, bytes, n);
        copy[at] = (char)((lewm_noise("byte", i) + 1) * 127);
        size_t length = i % 5 ? n : (size_t)((lewm_noise("cut", i) + 1) / 2 * (float)n);
        err.message[0] = 0;
        if (lewm_parse("changed", copy, length, &foreign, &back, &err) == FIRM_OK) {
            accepted++;
            EXPECT(lewm_params(back) == lewm_params(m));
            for (size_t k = 0; k < back->store->count; k++)
                if (!isfinite(back->store->value[k])) EXPECT(0);
            lewm_free(back);
        } else {
            EXPECT(back == NULL && err.message[0] != 0);
        }
    }
    EXPECT(accepted < 1500);
    free(copy);
    mem_free(bytes);
    lewm_free(m);
}
