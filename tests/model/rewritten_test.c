// rewritten_test.c - model files that another program wrote again: they load as long as their texts
// and numbers are the same, and a change is not called damage. Files of Python's safetensors 0.8.0
// are among fuzz_checkpoint's seeds.
#define _GNU_SOURCE
#include "core/file.h"
#include "files.h"
#include "model/digest.h"
#include "model/rewrite.h"

#define DAMAGED "m.safetensors is damaged: its digest does not fit; copy it again"
#define CHANGED "m.safetensors was rewritten by another program, which changed its numbers or texts"

static char* written(const firm_model* m, checkpoint_kind kind, size_t* n) {
    const char* path = temp_path("written.safetensors");
    firm_error err = {0};
    char* bytes = NULL;
    if (checkpoint_write(path, m, kind, NULL, 0, NULL, 0, &err) != FIRM_OK ||
        file_read_all(path, &bytes, n, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        abort();
    }
    return bytes;
}

// A model whose texts have to be escaped.
static firm_model* texts_model(void) {
    firm_model* m = small_model(1);
    mem_free(m->config);
    m->config = mem_strdup("[a]\nb = \"c\\d\"\t\x01 \xc3\xa4 \xf0\x9f\xa6\xbe\n");
    return m;
}

static char* seed_file(const char* name, size_t* n) {
    char path[1024];
    firm_error err = {0};
    char* bytes = NULL;
    snprintf(path, sizeof path, "%s/fuzz/corpus/checkpoint/%s.safetensors", test_source_dir(),
             name);
    if (file_read_all(path, &bytes, n, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        abort();
    }
    return bytes;
}

static void expect_refused(int line, const char* bytes, size_t n, const char* says) {
    firm_error err = {0};
    firm_model* m = NULL;
    char* exact = malloc(n);  // so that a sanitizer sees a read past the end
    memcpy(exact, bytes, n);
    firm_status got = checkpoint_parse_model("m.safetensors", exact, n, &m, &err);
    if (got != FIRM_E_FORMAT || m || !strstr(err.message, says))
        test_fail(__FILE__, line, "status %d, '%s' expected: %s", got, says, err.message);
    firm_model_free(m);
    free(exact);
}

static void expect_same(int line, const char* bytes, size_t n, const char* other, size_t n2) {
    firm_error err = {0};
    firm_model *a = NULL, *b = NULL;
    if (checkpoint_parse_model("a", bytes, n, &a, &err) != FIRM_OK ||
        checkpoint_parse_model("b", other, n2, &b, &err) != FIRM_OK)
        test_fail(__FILE__, line, "%s", err.message);
    else if (memcmp(a->store->value, b->store->value, a->store->count * sizeof(float)) != 0 ||
             memcmp(&a->stats, &b->stats, sizeof a->stats) != 0 ||
             strcmp(a->config, b->config) != 0 || strcmp(a->provenance, b->provenance) != 0)
        test_fail(__FILE__, line, "two layouts of one model differ");
    firm_model_free(a);
    firm_model_free(b);
}

// ---- the digest ---------------------------------------------------------------------------------

// The value is the one that docs/formats.md's Python lines give.
TEST(model, digest_of_known_contents) {
    const char* path = temp_path("known.safetensors");
    const float value[6] = {0, 1, -2, 0.5f, 65504, 3};
    const safetensors_text text[] = {{"z", "\xc3\xa4 \"\\\n"}, {"firm.task", "t"}, {"a.b", ""}};
    const safetensors_tensor tensor[] = {
        {.name = "b",
         .type = SAFETENSORS_F32,
         .rank = 2,
         .dim = {2, 3},
         .count = 6,
         .value = value},
        {.name = "c", .type = SAFETENSORS_F16, .rank = 1, .dim = {5}, .count = 5, .value = value},
        {.name = "a", .type = SAFETENSORS_F32, .rank = 0, .count = 1, .value = value + 3},
        {.name = "B", .type = SAFETENSORS_F32, .rank = 1, .dim = {0}}};
    firm_error err = {0};
    REQUIRE_OK(safetensors_write(path, text, 3, tensor, 4, &err), err);
    char* bytes;
    size_t n;
    REQUIRE_OK(file_read_all(path, &bytes, &n, &err), err);
    static const char want[] =
        "{\"__metadata__\":{\"firm.digest\":\"76eb8b41\",\"z\":\"\xc3\xa4 "
        "\\\"\\\\\\n\",\"firm.task\":\"t\","
        "\"a.b\":\"\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"c\":{\"dtype\":\"F16\",\"shape\":[5],\"data_offsets\":[24,34]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[34,38]},"
        "\"B\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[38,38]}}";
    EXPECT_INT(n, 8 + (sizeof want + 6) / 8 * 8 + 38);
    if (memcmp(bytes + 8, want, sizeof want - 1) != 0)
        test_fail(__FILE__, __LINE__, "the header is\n%.*s", (int)header_bytes(bytes), bytes + 8);
    for (size_t i = 8 + sizeof want - 1; i < 8 + header_bytes(bytes); i++) EXPECT(bytes[i] == ' ');
    mem_free(bytes);
}

static const char* digest_in(const char* bytes, size_t n) {
    static digest_text out;
    size_t at = digest_find(bytes, n, DIGEST_KEY);
    snprintf(out, sizeof out, "%.8s", at ? bytes + at : "none");
    return out;
}

// What is written twice the same has one digest; any number, text, type or shape gives another.
TEST(model, digest_tells_models_apart) {
    firm_model* m = texts_model();
    size_t n, n2;
    char *a = written(m, CHECKPOINT_MODEL, &n), *b;
    digest_text first;
    snprintf(first, sizeof first, "%s", digest_in(a, n));
    for (int i = 0; i < 4; i++) {
        if (i == 1) m->store->value[0] = nextafterf(m->store->value[0], 1);
        if (i == 2) m->stats.chi_mean[1] += 1;
        if (i == 3) m->config[1]++;
        b = written(m, CHECKPOINT_MODEL, &n2);
        EXPECT((strcmp(digest_in(b, n2), first) == 0) == (i == 0));
        mem_free(b);
    }
    b = written(m, CHECKPOINT_MODEL_HALF, &n2);
    EXPECT(strcmp(digest_in(b, n2), first) != 0);
    mem_free(a);
    mem_free(b);
    firm_model_free(m);
}

// ---- other layouts ------------------------------------------------------------------------------

TEST(model, rewritten_loads) {
    static const checkpoint_kind kind[] = {CHECKPOINT_MODEL, CHECKPOINT_MODEL_HALF,
                                           CHECKPOINT_TRAINING};
    firm_model* m = texts_model();
    for (int i = 0; i < 3; i++) {
        size_t n, size, size2;
        char* file = written(m, kind[i], &n);
        char *other = rewritten(file, n, &size), *twice = rewritten(other, size, &size2);
        EXPECT(memmem(other, size, "\\u003D", 6) && memcmp(other, file, 8) != 0);
        expect_same(__LINE__, file, n, other, size);
        EXPECT(size == size2 && memcmp(other, twice, size) == 0);
        free(twice);
        free(other);
        mem_free(file);
    }
    firm_model_free(m);
}

// the seeds are one small model, as firm and as Python's safetensors wrote it
TEST(model, rewritten_by_python_loads) {
    size_t n, size;
    char *file = seed_file("digest", &n), *python = seed_file("python", &size);
    EXPECT(n != size || memcmp(file, python, n) != 0);
    expect_same(__LINE__, file, n, python, size);
    python[size - 1] ^= 1;
    expect_refused(__LINE__, python, size, CHANGED);
    mem_free(file);
    mem_free(python);
}

TEST(model, rewritten_cut) {
    firm_model* m = texts_model();
    size_t n, size;
    char *file = written(m, CHECKPOINT_MODEL, &n), *other = rewritten(file, n, &size), of[64];
    for (size_t k = 9; k < size; k += 97) {
        expect_refused(__LINE__, other, k, "cut short");
        if (k < 8 + header_bytes(other)) continue;
        snprintf(of, sizeof of, "%zu of %zu bytes; copy it again", k, size);
        expect_refused(__LINE__, other, k, of);
    }
    free(other);
    mem_free(file);
    firm_model_free(m);
}

// ---- changes ------------------------------------------------------------------------------------

// A changed number and a changed text: in the layout of firm that is damage, in any other not.
static void expect_changes(int line, char* bytes, size_t n, const char* says) {
    char* text = memmem(bytes, n, "firm 0.1.0, seed 1", 18);
    size_t data = 8 + header_bytes(bytes), place[] = {data, data + (n - data) / 2, n - 1};
    for (int i = 0; i < 3; i++) {
        bytes[place[i]] ^= 4;
        expect_refused(line, bytes, n, says);
        bytes[place[i]] ^= 4;
    }
    if (!text) {
        test_fail(__FILE__, line, "the file does not tell its provenance");
        return;
    }
    text[17] = '2';
    expect_refused(line, bytes, n, says);
    text[17] = '1';
    char* digits = bytes + digest_find(bytes, n, DIGEST_KEY);
    digits[0] = digits[0] == '0' ? '1' : '0';
    expect_refused(line, bytes, n, says);
}

TEST(model, rewritten_and_changed) {
    static const checkpoint_kind kind[] = {CHECKPOINT_MODEL, CHECKPOINT_MODEL_HALF};
    firm_model* m = texts_model();
    for (int i = 0; i < 2; i++) {
        size_t n, size;
        char *file = written(m, kind[i], &n), *other = rewritten(file, n, &size);
        expect_changes(__LINE__, file, n, DAMAGED);
        expect_changes(__LINE__, other, size, CHANGED);
        free(other);
        mem_free(file);
    }
    firm_model_free(m);
}

// The digest may stand first in another program's file too, by chance: the order of the tensors
// tells. In firm's own layout every byte but the first of the header may be damaged.
TEST(model, rewritten_with_the_digest_first) {
    size_t n, size;
    char *file = seed_file("digest", &n), *python = seed_file("python", &size);
    EXPECT(memcmp(file + 8, "{\"__metadata__\":{\"firm.digest\":\"", 32) == 0);
    EXPECT(memcmp(python + 8, "{\"__metadata__\":{\"firm.digest\":\"", 32) == 0);
    expect_changes(__LINE__, file, n, DAMAGED);
    expect_changes(__LINE__, python, size, CHANGED);
    mem_free(file);
    mem_free(python);
}

// Python sorts by type first: names begin anew where the type changes.
TEST(model, rewritten_with_two_types) {
    const char* path = temp_path("types.safetensors");
    const float value = 1;
    static const struct {
        const char *name[3], *says;
    } order[] = {{{"b", "c", "a"}, "was rewritten by another program"},
                 {{"c", "b", "a"}, "is damaged"}};
    for (int i = 0; i < 2; i++) {
        safetensors_tensor tensor[3];
        for (int t = 0; t < 3; t++)
            tensor[t] = (safetensors_tensor){.name = order[i].name[t],
                                             .type = t == 2 ? SAFETENSORS_F16 : SAFETENSORS_F32,
                                             .count = 1,
                                             .value = &value};
        firm_error err = {0};
        safetensors s;
        char* bytes;
        size_t n;
        REQUIRE_OK(safetensors_write(path, NULL, 0, tensor, 3, &err), err);
        REQUIRE_OK(file_read_all(path, &bytes, &n, &err), err);
        bytes[n - 1] ^= 1;
        EXPECT_INT(safetensors_parse("m", bytes, n, SAFETENSORS_REFUSE_CHANGES, &s, &err),
                   FIRM_E_FORMAT);
        if (!strstr(err.message, order[i].says)) test_fail(__FILE__, __LINE__, "%s", err.message);
        mem_free(bytes);
    }
}

// ---- accepted changes ---------------------------------------------------------------------------

TEST(model, rewritten_changes_accepted) {
    firm_model *m = texts_model(), *read = NULL;
    firm_error err = {0};
    size_t n, size;
    char *file = written(m, CHECKPOINT_MODEL, &n), *other = rewritten(file, n, &size);
    char* text = memmem(other, size, "firm 0.1.0, seed 1", 18);
    const char* path = temp_path("accepted.safetensors");
    REQUIRE_OK(checkpoint_parse_changed("m", other, size, &read, &err), err);
    firm_model_free(read);
    text[17] = '7';
    REQUIRE_OK(checkpoint_parse_changed("m", other, size, &read, &err), err);
    EXPECT_TEXT(read->provenance, "firm 0.1.0, seed 7");
    // what is written then is sound
    REQUIRE_OK(checkpoint_write(path, read, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    firm_model_free(read);
    REQUIRE_OK(firm_model_load(path, &read, &err), err);
    EXPECT_TEXT(read->provenance, "firm 0.1.0, seed 7");
    firm_model_free(read);
    // everything else is checked: a number that is not finite, a file that is damaged or cut
    uint32_t infinite = 0x7f800000;
    memcpy(other + size - 4, &infinite, 4);
    EXPECT_INT(checkpoint_parse_changed("m", other, size, &read, &err), FIRM_E_FORMAT);
    EXPECT(!read && strstr(err.message, "not finite"));
    EXPECT_INT(checkpoint_parse_changed("m", other, size - 4, &read, &err), FIRM_E_FORMAT);
    EXPECT(!read && strstr(err.message, "cut short"));
    file[n - 1] ^= 1;
    EXPECT_INT(checkpoint_parse_changed("m", file, n, &read, &err), FIRM_E_FORMAT);
    EXPECT(!read && strstr(err.message, "damaged"));
    free(other);
    mem_free(file);
    firm_model_free(m);
}

// ---- files that have a checksum and no digest ---------------------------------------------------

TEST(model, rewritten_with_a_checksum) {
    size_t n, size;
    firm_model* m = NULL;
    firm_error err = {0};
    char *file = seed_file("model", &n), *other = rewritten(file, n, &size);
    // the bytes are no longer those that the checksum covers, and nothing says what changed
    expect_refused(__LINE__, other, size, "its firm.checksum holds for the bytes that firm wrote");
    REQUIRE_OK(checkpoint_parse_changed("m", other, size, &m, &err), err);
    EXPECT_TEXT(m->provenance, "firm 0.1.0, seed 1");
    firm_model_free(m);
    file[n - 1] ^= 1;
    expect_refused(__LINE__, file, n, "m.safetensors is damaged: its checksum does not fit");
    EXPECT_INT(checkpoint_parse_changed("m", file, n, &m, &err), FIRM_E_FORMAT);
    free(other);
    mem_free(file);
}

// a file that has both is judged by its digest
TEST(model, rewritten_with_both) {
    const char* path = temp_path("both.safetensors");
    const safetensors_text text = {CHECKSUM_KEY, "00000000"};
    firm_error err = {0};
    safetensors s;
    char* bytes;
    size_t n;
    REQUIRE_OK(safetensors_write(path, &text, 1, NULL, 0, &err), err);
    REQUIRE_OK(file_read_all(path, &bytes, &n, &err), err);
    REQUIRE_OK(safetensors_parse("m", bytes, n, SAFETENSORS_REFUSE_CHANGES, &s, &err), err);
    EXPECT_TEXT(safetensors_value(&s, CHECKSUM_KEY), "00000000");
    safetensors_free(&s);
    bytes[digest_find(bytes, n, DIGEST_KEY)] ^= 1;
    EXPECT_INT(safetensors_parse("m", bytes, n, SAFETENSORS_REFUSE_CHANGES, &s, &err),
               FIRM_E_FORMAT);
    mem_free(bytes);
}
