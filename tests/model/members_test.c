// members_test.c - ensembles in model files: what is put together is written and read back, what
// does not belong together is refused and leaves the first model as it was.
#define _GNU_SOURCE
#include "core/file.h"
#include "files.h"
#include "model/safetensors.h"

// Trained on the same data as small_model(1), with another seed.
static firm_model* relative(uint64_t seed) {
    firm_model* m = small_model(seed);
    for (int i = 0; i < 3; i++) m->stats.image_mean[i] += 0.01f * (float)seed;
    return m;
}

static void write_model(const char* path, const firm_model* m) {
    firm_error err = {0};
    REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
}

// small_model(1) with relatives 2 and 3 as members, by way of files.
static firm_model* make_three(void) {
    firm_model *m = small_model(1), *other;
    firm_error err = {0};
    for (uint64_t seed = 2; seed < 4; seed++) {
        const char* path = temp_path("member.safetensors");
        write_model(path, other = relative(seed));
        firm_model_free(other);
        EXPECT_INT(checkpoint_add_member(path, m, &err), FIRM_OK);
    }
    EXPECT_INT(m->members, 2);
    return m;
}

// the largest difference over the deployed parameters
static double apart(const firm_model* read, const firm_model* wrote) {
    double most = 0;
    for (int i = 0; i < read->store->entries; i++) {
        const nn_entry* e = &read->store->entry[i];
        const nn_entry* w = &wrote->store->entry[nn_store_find(wrote->store, e->name)];
        for (size_t j = 0; j < e->count; j++)
            most = test_worse(most, fabs((double)read->store->value[e->offset + j] -
                                         (double)wrote->store->value[w->offset + j]));
    }
    return most;
}

TEST(model, members_round_trip) {
    char path[512];
    snprintf(path, sizeof path, "%s", temp_path("three.safetensors"));
    firm_error err = {0};
    firm_model *m = make_three(), *read = NULL;
    m->support_count = 2, m->support_radius = 0.5f;
    m->support = mem_calloc(4, sizeof *m->support);
    for (int half = 0; half < 2; half++) {
        REQUIRE_OK(checkpoint_write(path, m, half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL, NULL,
                                    0, NULL, 0, &err),
                   err);
        REQUIRE_OK(firm_model_load(path, &read, &err), err);
        EXPECT_INT(read->members, 2);
        EXPECT_INT(read->support_count, 2);
        EXPECT_INT(model_count(read).total, 3 * (model_count(m->member[0]).total));
        for (int i = 0; i < 2 && i < read->members; i++) {
            const firm_model *got = read->member[i], *want = m->member[i];
            double most = apart(got, want);
            EXPECT(half ? most > 0 && most < 1e-3 : most == 0);
            EXPECT(apart(got, m) > 0.01);  // and it is not the first one's
            EXPECT(memcmp(&got->stats, &want->stats, sizeof got->stats) == 0);
            EXPECT_TEXT(got->provenance, want->provenance);
            EXPECT(!got->support && !got->recorded && got->members == 0);
        }
        firm_model_free(read);
    }
    firm_model_free(m);
}

// a second trip through a file changes nothing, and neither does a file without members
TEST(model, members_same_bytes) {
    firm_model *m = make_three(), *read = NULL;
    for (int single = 0; single < 2; single++) {
        char first[512], second[512], *a = NULL, *b = NULL;
        size_t na, nb;
        firm_error err = {0};
        snprintf(first, sizeof first, "%s", temp_path("once.safetensors"));
        snprintf(second, sizeof second, "%s", temp_path("twice.safetensors"));
        write_model(first, single ? m->member[0] : m);
        REQUIRE_OK(firm_model_load(first, &read, &err), err);
        write_model(second, read);
        firm_model_free(read);
        REQUIRE_OK(file_read_all(first, &a, &na, &err), err);
        REQUIRE_OK(file_read_all(second, &b, &nb, &err), err);
        EXPECT(na == nb && memcmp(a, b, na) == 0);
        a[8 + header_bytes(a) - 1] = 0;
        EXPECT((strstr(a + 8, "member") == NULL) == single);
        mem_free(a);
        mem_free(b);
    }
    firm_model_free(m);
}

// ---- a shared tokenizer and grounder ------------------------------------------------------------

// m's tokenizer, grounder and statistics of pictures become those of `first`.
static void see_alike(firm_model* m, const firm_model* first) {
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        if (model_is_sight(e->name))
            memcpy(m->store->value + e->offset, first->store->value + e->offset,
                   e->count * sizeof(float));
    }
    m->stats = first->stats;
}

// small_model(1) with two members: the second shares its sight, the third does not, by the last
// number of its grounder.
static firm_model* make_sharing(void) {
    firm_model *m = small_model(1), *other;
    firm_error err = {0};
    for (uint64_t seed = 2; seed < 4; seed++) {
        const char* path = temp_path("member.safetensors");
        see_alike(other = small_model(seed), m);
        const nn_entry* e = &other->store->entry[nn_store_find(other->store, "grounder.out.bias")];
        if (seed == 3) other->store->value[e->offset + e->count - 1] += 0.5f;
        write_model(path, other);
        firm_model_free(other);
        EXPECT_INT(checkpoint_add_member(path, m, &err), FIRM_OK);
    }
    return m;
}

TEST(model, members_share_what_is_equal) {
    firm_error err = {0};
    firm_model *m = make_sharing(), *read = NULL;
    char path[512], apart_path[512], *a = NULL, *b = NULL;
    size_t na, nb;
    EXPECT(m->member[0]->shares && !m->member[1]->shares);
    const size_t one = model_count(m->member[1]).total,
                 sight = nn_store_params(m->store, "tokenizer.") +
                         nn_store_params(m->store, "grounder.");
    EXPECT(sight > 0 && sight < one);
    EXPECT_INT(model_count(m).total, 3 * one - sight);
    EXPECT_INT(model_count(m).grounder, 2 * nn_store_params(m->store, "grounder."));
    EXPECT_INT(model_count(m).frontend, 3 * model_count(m->member[1]).frontend -
                                            nn_store_params(m->store, "tokenizer."));
    for (int half = 0; half < 2; half++) {
        checkpoint_kind kind = half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL;
        snprintf(path, sizeof path, "%s", temp_path("shared.safetensors"));
        snprintf(apart_path, sizeof apart_path, "%s", temp_path("apart.safetensors"));
        REQUIRE_OK(checkpoint_write(path, m, kind, NULL, 0, NULL, 0, &err), err);
        m->member[0]->shares = 0;
        REQUIRE_OK(checkpoint_write(apart_path, m, kind, NULL, 0, NULL, 0, &err), err);
        m->member[0]->shares = 1;
        REQUIRE_OK(file_read_all(path, &a, &na, &err), err);
        REQUIRE_OK(file_read_all(apart_path, &b, &nb, &err), err);
        EXPECT(nb - na > (half ? 2 : 4) * sight);
        mem_free(a), mem_free(b);
        REQUIRE_OK(firm_model_load(path, &read, &err), err);
        EXPECT(read->member[0]->shares && !read->member[1]->shares);
        EXPECT_INT(model_count(read).total, 3 * one - sight);
        EXPECT(model_sees_alike(read->member[0], read));
        for (int i = 0; i < 2; i++)
            EXPECT(half ? apart(read->member[i], m->member[i]) < 1e-3
                        : apart(read->member[i], m->member[i]) == 0);
        firm_model_free(read);
    }
    // pictures that are standardised in another way are other pictures
    m->member[0]->stats.image_std[1] *= 1.5f;
    EXPECT(!model_sees_alike(m->member[0], m));
    firm_model_free(m);
}

// ---- what does not belong together --------------------------------------------------------------

static void refused(int line, firm_model* m, const firm_model* other, firm_status want,
                    const char* word) {
    char path[512];
    firm_error err = {0};
    int before = m->members;
    snprintf(path, sizeof path, "%s", temp_path("other.safetensors"));
    write_model(path, other);
    firm_status got = checkpoint_add_member(path, m, &err);
    if (got != want || !strstr(err.message, path) || !strstr(err.message, word))
        test_fail(__FILE__, line, "status %d, expected %d with '%s': %s", got, want, word,
                  err.message);
    EXPECT_INT(m->members, before);
}

TEST(model, members_refused) {
    firm_error err = {0};
    firm_model *m = small_model(1), *other, *three = make_three();
    model_shape shape = small_shape();
    refused(__LINE__, m, three, FIRM_E_FORMAT, "ensemble of 3 models");
    shape.inner++;
    REQUIRE_OK(model_create(&m->task, &shape, 0, 1, &other, &err), err);
    refused(__LINE__, m, other, FIRM_E_FORMAT, "model.inner = 6 and the first model 5");
    firm_model_free(other);
    other = relative(2);
    other->stats.action_std[1] *= 1.0001f;
    refused(__LINE__, m, other, FIRM_E_FORMAT, "action_std[1]");
    firm_model_free(other);
    // the same sizes for another task: what differs is said of the task
    shape = small_shape();
    const task_typed elsewhere = test_task("pusht");
    REQUIRE_OK(model_create(&elsewhere, &shape, 0, 1, &other, &err), err);
    refused(__LINE__, m, other, FIRM_E_TASK, "pusht");
    firm_model_free(other);

    EXPECT_INT(checkpoint_add_member(temp_path("absent.safetensors"), m, &err), FIRM_E_MISSING);
    EXPECT_INT(m->members, 0);
    const char* path = temp_path("member.safetensors");
    write_model(path, other = relative(2));
    for (int i = 0; i < MODEL_MEMBERS; i++) REQUIRE_OK(checkpoint_add_member(path, m, &err), err);
    EXPECT_INT(checkpoint_add_member(path, m, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "at most 8") && m->members == MODEL_MEMBERS);
    firm_model_free(other);

    // a training run begins with one model
    path = temp_path("three.safetensors");
    write_model(path, three);
    float before = m->store->value[0];
    EXPECT_INT(checkpoint_read_weights(path, m, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "ensemble of 3 models") && m->store->value[0] == before);
    firm_model_free(three);
    firm_model_free(m);
}

// ---- damaged files ------------------------------------------------------------------------------

static void expect_damaged(int line, const char* bytes, size_t n, const char* word) {
    firm_error err = {0};
    firm_model* m = NULL;
    char* exact = malloc(n);  // so that a sanitizer sees a read past the end
    memcpy(exact, bytes, n);
    firm_status got = checkpoint_parse_model("m.safetensors", exact, n, &m, &err);
    if (got != FIRM_E_FORMAT || m || !strstr(err.message, "m.safetensors") ||
        !strstr(err.message, word))
        test_fail(__FILE__, line, "status %d with '%s' expected: %s", got, word, err.message);
    firm_model_free(m);
    free(exact);
}

// Replaces the first `from` of the header by as many characters, with the right checksum.
static void expect_edit_refused(int line, char* file, size_t n, const char* from, const char* to,
                                const char* word) {
    size_t length = strlen(from);
    char* at = memmem(file + 8, header_bytes(file), from, length);
    if (!at || strlen(to) != length) {
        test_fail(__FILE__, line, "cannot put '%s' for '%s'", to, from);
        return;
    }
    memcpy(at, to, length);
    EXPECT(safetensors_seal(file, n));
    expect_damaged(line, file, n, word);
    memcpy(at, from, length);
}

TEST(model, members_damaged) {
    const char* path = temp_path("damaged.safetensors");
    firm_model *m = make_three(), *read;
    firm_error err = {0};
    char* file = NULL;
    size_t n;
    write_model(path, m);
    REQUIRE_OK(file_read_all(path, &file, &n, &err), err);
    for (size_t cut = n - 1; cut > 1000; cut -= 997)
        expect_damaged(__LINE__, file, cut, "cut short");
    expect_edit_refused(__LINE__, file, n, "\"firm.members\":\"3\"", "\"firm.members\":\"9\"",
                        "from 2 to 8");
    expect_edit_refused(__LINE__, file, n, "\"firm.members\":\"3\"", "\"firm.members\":\"1\"",
                        "from 2 to 8");
    // one model fewer than there is, and one more
    expect_edit_refused(__LINE__, file, n, "\"firm.members\":\"3\"", "\"firm.members\":\"2\"",
                        "member.3.");
    expect_edit_refused(__LINE__, file, n, "\"firm.members\":\"3\"", "\"firm.members\":\"4\"",
                        "firm.member.4.image_mean");
    expect_edit_refused(__LINE__, file, n, "\"member.3.transition.in.weight\"",
                        "\"member.4.transition.in.weight\"", "member.4.transition.in.weight");
    expect_edit_refused(__LINE__, file, n, "firm.member.2.action_std", "firm.member.2.action_sTd",
                        "firm.member.2.action_std");
    expect_edit_refused(__LINE__, file, n, "firm.member.2.action_std\":\"0.69",
                        "firm.member.2.action_std\":\"0.68", "action_std[0]");
    expect_edit_refused(__LINE__, file, n, "firm.member.3.provenance", "firm.member.3.provenancE",
                        "make the file again");
    EXPECT(safetensors_seal(file, n));
    EXPECT_INT(checkpoint_parse_model("m", file, n, &read, &err), FIRM_OK);
    firm_model_free(read);
    mem_free(file);
    firm_model_free(m);
}

TEST(model, members_damaged_sharing) {
    const char* path = temp_path("damaged.safetensors");
    firm_model *m = make_sharing(), *read;
    firm_error err = {0};
    char* file = NULL;
    size_t n;
    write_model(path, m);
    REQUIRE_OK(file_read_all(path, &file, &n, &err), err);
    // the second says nothing of sharing, or shares something else
    expect_edit_refused(__LINE__, file, n, "firm.member.2.shares", "firm.member.2.sharEs",
                        "member.2.tokenizer.");
    expect_edit_refused(__LINE__, file, n, "tokenizer grounder", "tokenizer groundeR",
                        "firm.member.2.shares");
    // the third shares, too, and has a tokenizer all the same
    expect_edit_refused(__LINE__, file, n, "firm.member.2.shares", "firm.member.3.shares",
                        "member.2.tokenizer.");
    // the second shares, and has a grounder all the same
    expect_edit_refused(__LINE__, file, n, "\"member.3.grounder.out.bias\"",
                        "\"member.2.grounder.out.bias\"", "is said to share");
    EXPECT(safetensors_seal(file, n));
    EXPECT_INT(checkpoint_parse_model("m", file, n, &read, &err), FIRM_OK);
    firm_model_free(read);
    mem_free(file);
    // statistics of pictures of its own
    m->member[0]->stats.image_mean[0] += 0.25f;
    write_model(path, m);
    REQUIRE_OK(file_read_all(path, &file, &n, &err), err);
    expect_damaged(__LINE__, file, n, "image_mean");
    mem_free(file);
    m->member[0]->stats = m->stats;
    firm_model_free(m);
}
