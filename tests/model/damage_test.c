// damage_test.c - model files that are cut, flipped, foreign or false: each gives its status and
// one sentence that names the file, never a crash. False files are made by editing the header of a
// good one and putting the right checksum in, so that the checks behind it are reached.
#include "core/file.h"
#include "files.h"
#include "model/safetensors.h"

// The bytes of a good file; the caller frees them.
static char* good_file(size_t* n, checkpoint_kind kind) {
    const char* path = temp_path("good.safetensors");
    firm_model* m = small_model(1);
    firm_error err = {0};
    char* bytes = NULL;
    if (checkpoint_write(path, m, kind, NULL, 0, NULL, 0, &err) != FIRM_OK ||
        file_read_all(path, &bytes, n, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        abort();
    }
    firm_model_free(m);
    return bytes;
}

// Parses bytes of exactly that length, so that a sanitizer sees a read past their end.
static void expect_refused(int line, const char* bytes, size_t n, firm_status want,
                           const char* word) {
    firm_error err = {0};
    firm_model* m = (firm_model*)&err;
    char* exact = malloc(n ? n : 1);
    memcpy(exact, bytes, n);
    firm_status got = checkpoint_parse_model("m.safetensors", exact, n, &m, &err);
    if (got != want || m || !strstr(err.message, "m.safetensors") || !strstr(err.message, word))
        test_fail(__FILE__, line, "status %d, expected %d with '%s': %s", got, want, word,
                  err.message);
    if (got == FIRM_OK) firm_model_free(m);
    free(exact);
}

TEST(model, damage_cut) {
    size_t n;
    char* file = good_file(&n, CHECKPOINT_MODEL);
    char of[64];
    for (size_t k = 0; k < n; k += k < 200 || k + 40 > n ? 1 : 97) {
        expect_refused(__LINE__, file, k, FIRM_E_FORMAT, "cut short");
        if (k < 8 + header_bytes(file)) continue;
        snprintf(of, sizeof of, "%zu of %zu bytes; copy it again", k, n);
        expect_refused(__LINE__, file, k, FIRM_E_FORMAT, of);
    }
    // and the other way: something was added
    char* longer = calloc(n + 1, 1);
    memcpy(longer, file, n);
    expect_refused(__LINE__, longer, n + 1, FIRM_E_FORMAT, "damaged");
    free(longer);
    mem_free(file);
}

static void flip_everywhere(checkpoint_kind kind) {
    static const char mask[] = {1, 0x20, (char)0x80};
    size_t n;
    char* file = good_file(&n, kind);
    firm_model* m;
    for (size_t at = 0; at < n; at += at < 300 || at + 30 > n ? 1 : n / 200) {
        for (int i = 0; i < 3; i++) {
            firm_error err = {0};
            file[at] ^= mask[i];
            firm_status got = checkpoint_parse_model("m.safetensors", file, n, &m, &err);
            file[at] ^= mask[i];
            if (got == FIRM_E_FORMAT && strstr(err.message, "m.safetensors")) continue;
            test_fail(__FILE__, __LINE__, "byte %zu changed: status %d: %s", at, got, err.message);
            firm_model_free(m);
        }
    }
    firm_error err = {0};
    EXPECT_INT(checkpoint_parse_model("m", file, n, &m, &err), FIRM_OK);
    firm_model_free(m);
    mem_free(file);
}

TEST(model, damage_flipped) {
    flip_everywhere(CHECKPOINT_MODEL);
}
TEST(model, damage_flipped_half) {
    flip_everywhere(CHECKPOINT_MODEL_HALF);
}
TEST(model, damage_flipped_training) {
    flip_everywhere(CHECKPOINT_TRAINING);
}

TEST(model, damage_foreign) {
    static const struct {
        const char* bytes;
        size_t n;
    } foreign[] = {
        {"# a text file of some length\n", 29},     {"\x89HDF\r\n\x1a\n and so on", 18},
        {"\x89PNG\r\n\x1a\n and so on", 18},        {"PK\x03\x04 and so on and on", 20},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10}, {"\x00\x00\x00\x00\x00\x00\x00\x80{}", 10},
        {"\x00\x00\x00\x00\x00\x00\x00\x00{}", 10}, {"\x01\x00\x00\x00\x00\x00\x00\x00{}", 10},
    };
    const char* path = temp_path("foreign.safetensors");
    firm_error err = {0};
    firm_model* m;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        expect_refused(__LINE__, foreign[i].bytes, foreign[i].n, FIRM_E_FORMAT, "not a model file");
        FILE* f = fopen(path, "wb");
        EXPECT(f && fwrite(foreign[i].bytes, 1, foreign[i].n, f) == foreign[i].n && fclose(f) == 0);
        EXPECT_INT(firm_model_load(path, &m, &err), FIRM_E_FORMAT);
        EXPECT(strstr(err.message, path));
    }
    // a safetensors file of another program
    char other[64] = "\x10\x00\x00\x00\x00\x00\x00\x00{}              ";
    expect_refused(__LINE__, other, 24, FIRM_E_FORMAT, "no checksum of firm");
    EXPECT_INT(firm_model_load(temp_path("absent.safetensors"), &m, &err), FIRM_E_MISSING);
    EXPECT_INT(firm_model_load(test_temp_dir(), &m, &err), FIRM_E_USAGE);
    EXPECT_INT(firm_model_load("", &m, &err), FIRM_E_USAGE);
    EXPECT_INT(firm_model_load(NULL, &m, NULL), FIRM_E_USAGE);
    EXPECT_INT(firm_model_load(path, NULL, &err), FIRM_E_USAGE);
}

// ---- false files --------------------------------------------------------------------------------

// The file with the first `from` in its header replaced, size and checksum put right.
static char* edited(const char* file, size_t n, const char* from, const char* to, size_t* size) {
    size_t header = header_bytes(file), tail = n - 8 - header;
    char* text = calloc(header + strlen(to) + 16, 1);
    memcpy(text, file + 8, header);
    char* at = strstr(text, from);
    if (!at) {
        test_fail(__FILE__, __LINE__, "'%s' is not in the header", from);
        at = text;
    }
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
    size_t used = strlen(text);
    while (used % 8) text[used++] = ' ';
    char* out = malloc(8 + used + tail);
    uint64_t word = used;
    memcpy(out, &word, 8);
    memcpy(out + 8, text, used);
    memcpy(out + 8 + used, file + 8 + header, tail);
    *size = 8 + used + tail;
    EXPECT(safetensors_seal(out, *size));
    free(text);
    return out;
}

TEST(model, damage_false_header) {
    static const struct {
        const char *from, *to;
        firm_status want;
        const char* word;
    } edit[] = {
        // meaning
        {"\"tworoom\"", "\"threeroom\"", FIRM_E_FORMAT,
         "for the task 'threeroom' and describes the task 'tworoom'"},
        {"\"tworoom\"", "\"\\u001b[2J\"", FIRM_E_FORMAT, "'?'"},
        {"firm.task", "firm.tusk", FIRM_E_FORMAT, "tworoom"},
        {"name = tworoom", "name = tearoom", FIRM_E_FORMAT, "describes the task 'tearoom'"},
        {"image = 224", "image = 128", FIRM_E_FORMAT, "pictures of 128 pixels"},
        {"agent_x = position", "agent_x = angle", FIRM_E_FORMAT, "line 17 of the task"},
        {"\"firm-model\"", "\"firm-other\"", FIRM_E_FORMAT, "no model file of firm"},
        {"\"firm.format_version\":\"1\"", "\"firm.format_version\":\"2\"", FIRM_E_FORMAT,
         "version '2'"},
        {"firm.format\"", "firm.farmat\"", FIRM_E_FORMAT, "no model file"},
        {"firm.config", "firm.canfig", FIRM_E_FORMAT, "settings"},
        {"firm.provenance\":\"",
         "firm.provenance\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxx"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxx"
         "xxxxxxxxxxxxxxxxxxx",
         FIRM_E_FORMAT, "settings"},
        // shape
        {" hidden=4 ", " hidden=5 ", FIRM_E_FORMAT,
         "tensor transition.in.weight is 15 x 4, a model of "
         "its shape has 15 x 5"},
        {" hidden=4 ", " hidden=8192 ", FIRM_E_FORMAT, "more numbers than it holds"},
        {" hidden=4 ", " hidden=8193 ", FIRM_E_FORMAT, "hidden of the model's shape"},
        {" hidden=4 ", " hidden=-4 ", FIRM_E_FORMAT, "hidden of the model's shape"},
        {" hidden=4 ", " hidden= 4 ", FIRM_E_FORMAT, "hidden of the model's shape"},
        {" hidden=4 ", " hidden=99999999999999999999 ", FIRM_E_FORMAT,
         "hidden of the model's shape"},
        {" hidden=4 ", " hidden=0 ", FIRM_E_FORMAT, "no possible model"},
        {" hidden=4 ", " ", FIRM_E_FORMAT, "hidden of the model's shape"},
        {" blocks=2 ", " blocks=3 ", FIRM_E_FORMAT,
         "lacks the tensor transition.block2.norm.gamma"},
        {" blocks=2 ", " blocks=1 ", FIRM_E_FORMAT, "transition.block1."},
        {" blocks=2 ", " blocks=500 ", FIRM_E_FORMAT, "more numbers than it holds"},
        {" groups=1 ", " groups=3 ", FIRM_E_FORMAT, "groups"},
        {" groups=1 ", " groups=0 ", FIRM_E_FORMAT, "groups"},
        {"heads=2", "heads=3", FIRM_E_FORMAT, "heads"},
        {"heads=2", "heads=0", FIRM_E_FORMAT, "heads"},
        {"no_fiber=0", "no_fiber=2", FIRM_E_FORMAT, "no_fiber"},
        {" no_fiber=0", "", FIRM_E_FORMAT, "no_fiber of the model's shape"},
        {" grid=7 ", " grid=8 ", FIRM_E_FORMAT, "model.grid = 8"},
        {" grid=7 ", " ", FIRM_E_FORMAT, "grid of the model's shape"},
        {" keypoints=0 ", " keypoints=5000 ", FIRM_E_FORMAT, "more numbers than"},
        {" grounder=0 ", " grounder=3 ", FIRM_E_FORMAT, "model.grounder"},
        {" spatial=0", " spatial=5", FIRM_E_FORMAT, "model.spatial = 5"},
        {" reading=0 ", " reading=-1 ", FIRM_E_FORMAT, "reading of the model's shape"},
        {" place=0", " place=0 ", FIRM_E_FORMAT, "place of the model's shape"},
        {" place=0", " place=0 more=1", FIRM_E_FORMAT, "place of the model's shape"},
        {" place=0", " place=8193", FIRM_E_FORMAT, "place of the model's shape"},
        {" place=0", " place=5", FIRM_E_FORMAT,
         "lacks the tensor history.place.norm.gamma of a model of its shape"},
        {" place=0", " place=8192", FIRM_E_FORMAT, "more numbers than it holds"},
        {"channel4=2", "channel4=4", FIRM_E_FORMAT, "m.safetensors"},
        // statistics
        {"image_std\":\"0.25 ", "image_std\":\"-0.25 ", FIRM_E_FORMAT, "image_std is not 3 finite"},
        {"image_std\":\"0.25 ", "image_std\":\"0 ", FIRM_E_FORMAT, "above 0"},
        {"image_std\":\"0.25 ", "image_std\":\"nan ", FIRM_E_FORMAT, "above 0"},
        {"image_std\":\"0.25 ", "image_std\":\"1e99 ", FIRM_E_FORMAT, "above 0"},
        {"image_std\":\"0.25 ", "image_std\":\"", FIRM_E_FORMAT, "above 0"},
        {"image_std\":\"0.25 ", "image_std\":\"0.25 0.25 ", FIRM_E_FORMAT, "above 0"},
        {"image_std\":\"0.25 ", "image_std\":\" ", FIRM_E_FORMAT, "above 0"},
        {"image_mean\":\"", "image_mean\":\"inf ", FIRM_E_FORMAT, "3 finite numbers;"},
        {"firm.chi_std", "firm.chi_sdt", FIRM_E_FORMAT, "chi_std"},
        {"firm.action_mean\":\"", "firm.action_mean\":\"x", FIRM_E_FORMAT, "action_mean"},
        // container
        {"{\"dtype\":\"F32\"", "{\"dtype\":\"F64\"", FIRM_E_FORMAT,
         "none of F32, F16, BF16 and I64"},
        {"{\"dtype\":\"F32\"", "{\"dtype\":\"F16\"", FIRM_E_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\"", "{\"dtype\":7", FIRM_E_FORMAT, "lacks dtype"},
        {"{\"dtype\":\"F32\"", "{\"x\":0,\"dtype\":\"F32\"", FIRM_E_FORMAT, "lacks dtype"},
        {"{\"dtype\":\"F32\",", "{", FIRM_E_FORMAT, "lacks dtype"},
        {"\"shape\":[48,2]", "\"shape\":[2,48]", FIRM_E_FORMAT,
         "is 2 x 48, a model of its shape has 48 x 2"},
        {"\"shape\":[48,2]", "\"shape\":[96]", FIRM_E_FORMAT, "is 96, a model"},
        {"\"shape\":[48,2]", "\"shape\":[48,2,1]", FIRM_E_FORMAT, "is 48 x 2 x 1, a model"},
        {"\"shape\":[48,2]", "\"shape\":[48,-2]", FIRM_E_FORMAT, "counts"},
        {"\"shape\":[48,2]", "\"shape\":[48.5,2]", FIRM_E_FORMAT, "counts"},
        {"\"shape\":[48,2]", "\"shape\":[48,2,1,1,1]", FIRM_E_FORMAT, "counts"},
        {"\"shape\":[48,2]", "\"shape\":[1e300,2]", FIRM_E_FORMAT, "counts"},
        {"\"shape\":[48,2]", "\"shape\":[4503599627370496,4503599627370496]", FIRM_E_FORMAT,
         "counts"},
        {"\"shape\":[48,2]", "\"shape\":[4503599627370496,1024]", FIRM_E_FORMAT, "data_offsets"},
        {"\"shape\":[48,2]", "\"shape\":[48,\"2\"]", FIRM_E_FORMAT, "counts"},
        {"\"shape\":[48,2]", "\"shape\":{}", FIRM_E_FORMAT, "lacks dtype, shape"},
        {"[0,384]", "[0,388]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[4,384]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[384,0]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[-384,0]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[8,392]", FIRM_E_FORMAT, "neighbour"},
        {"[0,384]", "[1e15,1e15]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[0]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[0,384,5]", FIRM_E_FORMAT, "data_offsets"},
        {"[0,384]", "[null,384]", FIRM_E_FORMAT, "data_offsets"},
        {"[384,392]", "[0,8]", FIRM_E_FORMAT, "neighbour"},
        {"tokenizer.stage1.image.weight", "tokenizer.stage1.image.bias", FIRM_E_FORMAT, "twice"},
        {"tokenizer.stage1.image.weight", "tokenizer.stage1.other", FIRM_E_FORMAT,
         "lacks the tensor"},
        {"tokenizer.stage1.image.weight", "a\\nb", FIRM_E_FORMAT, "unreadable name"},
        {"tokenizer.stage1.image.weight", "", FIRM_E_FORMAT, "unreadable name"},
        {"\"firm.format\":", "\"firm.task\":\"x\",\"firm.format\":", FIRM_E_FORMAT,
         "firm.task twice"},
        {"\"firm.format\":", "\"firm.count\":3,\"firm.format\":", FIRM_E_FORMAT, "not text"},
        {"{\"__metadata__\":",
         "{\"more\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"__metadata__\":",
         FIRM_E_FORMAT, "holds the tensor more"},
        {"{\"__metadata__\":", "{\"more\":[],\"__metadata__\":", FIRM_E_FORMAT,
         "tensor more lacks"},
        {"{\"__metadata__\":", "{\"__metadote__\":", FIRM_E_FORMAT, "not a model file"},
        {"{\"__metadata__\":", "{__metadata__\":", FIRM_E_FORMAT, "not JSON"},
        {"]}}", "]}}x", FIRM_E_FORMAT, "behind its JSON header"},
        {"]}}", "]}", FIRM_E_FORMAT, "not JSON"},
    };
    size_t n, size;
    char* file = good_file(&n, CHECKPOINT_MODEL);
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        char* bytes = edited(file, n, edit[i].from, edit[i].to, &size);
        firm_error err = {0};
        firm_model* m = NULL;
        firm_status got = checkpoint_parse_model("m.safetensors", bytes, size, &m, &err);
        if (got != edit[i].want || !strstr(err.message, "m.safetensors") ||
            !strstr(err.message, edit[i].word))
            test_fail(__FILE__, __LINE__, "%s -> %s: status %d, expected %d with '%s': %s",
                      edit[i].from, edit[i].to, got, edit[i].want, edit[i].word, err.message);
        firm_model_free(m);
        free(bytes);
    }
    // a file without the description is one of version 0.1, of a task known then
    {
        char* bytes = edited(file, n, "firm.typed", "firm.tipped", &size);
        firm_error err = {0};
        firm_model* m = NULL;
        EXPECT_INT(checkpoint_parse_model("m.safetensors", bytes, size, &m, &err), FIRM_OK);
        if (m) EXPECT_INT(m->task.config_dim, 2);
        firm_model_free(m);
        free(bytes);
    }
    // words that an older file does not have stand for TwoRoom's forms
    const char* newer =
        " grid=7 keypoints=0 keypoint_width=32 history_pool=1 grounder=0 "
        "grounder_residual=256 spatial=0 reading=0 place=0";
    static const char* const cut[] = {
        "", " grid=7 keypoints=0",
        " grid=7 keypoints=0 keypoint_width=32 history_pool=1 grounder=0 grounder_residual=256 "
        "spatial=0 reading=0"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char* bytes = edited(file, n, newer, cut[i], &size);
        firm_error err = {0};
        firm_model* m = NULL;
        REQUIRE_OK(checkpoint_parse_model("m", bytes, size, &m, &err), err);
        EXPECT(m->shape.grid == 7 && m->shape.history_pool == 1 && m->shape.spatial == 0);
        EXPECT(m->shape.reading == 0 && m->shape.place == 0);
        firm_model_free(m);
        free(bytes);
    }
    // an edit that changes nothing is accepted: the checks above are not about the editing
    char* bytes = edited(file, n, "firm.task", "firm.task", &size);
    firm_model* m = NULL;
    firm_error err = {0};
    REQUIRE_OK(checkpoint_parse_model("m", bytes, size, &m, &err), err);
    firm_model_free(m);
    free(bytes);
    mem_free(file);
}

TEST(model, damage_deep_header) {
    // brackets as far as a header may go: refused by depth, not by the stack's end
    enum { DEEP = 900000 };
    size_t n, size;
    char *file = good_file(&n, CHECKPOINT_MODEL), *deep = malloc(DEEP + 32);
    int used = snprintf(deep, 32, "{\"x\":");
    memset(deep + used, '[', DEEP);
    snprintf(deep + used + DEEP, 8, ",\"__m");
    char* bytes = edited(file, n, "{\"__m", deep, &size);
    expect_refused(__LINE__, bytes, size, FIRM_E_FORMAT, "not JSON");
    free(bytes);
    free(deep);
    mem_free(file);
}

TEST(model, damage_weights) {
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001};
    size_t n;
    char* file = good_file(&n, CHECKPOINT_MODEL);
    size_t data = 8 + header_bytes(file);
    for (size_t i = 0; i < 4; i++) {
        for (size_t at = data; at < n; at += 4 * 97) {
            char kept[4];
            memcpy(kept, file + at, 4);
            memcpy(file + at, &bad[i], 4);
            EXPECT(safetensors_seal(file, n));
            expect_refused(__LINE__, file, n, FIRM_E_FORMAT, "not finite");
            memcpy(file + at, kept, 4);
        }
    }
    mem_free(file);
    file = good_file(&n, CHECKPOINT_MODEL_HALF);
    uint16_t infinite = 0x7c00;
    memcpy(file + n - 2, &infinite, 2);
    EXPECT(safetensors_seal(file, n));
    expect_refused(__LINE__, file, n, FIRM_E_FORMAT, "not finite");
    mem_free(file);
}

// a small file that speaks of a huge model is refused before memory is taken for one
TEST(model, damage_takes_no_memory) {
    size_t n, size;
    char* file = good_file(&n, CHECKPOINT_MODEL);
    char* bytes = edited(file, n, " inner=5 ", " inner=8000 ", &size);
    firm_error err = {0};
    firm_model* m;
    int64_t before = mem_count();
    EXPECT_INT(checkpoint_parse_model("m.safetensors", bytes, size, &m, &err), FIRM_E_FORMAT);
    EXPECT(mem_count() - before < 10);  // the header's names and tensors, and no model
    free(bytes);
    mem_free(file);
}
