// rows_test.c - episode files as bytes over streams: what is served is what the file holds, what is
// recorded comes back, and no header, cut or flipped byte leads to a file or a crash.
#define _GNU_SOURCE
#include "data/rows.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "support.h"

// A stream of bytes for rows_record(): two columns beside the state and the lengths.
typedef struct stream {
    char* bytes;
    size_t size;
} stream;

static stream make_stream(const episodes* e) {
    stream s;
    FILE* f = open_memstream(&s.bytes, &s.size);
    fprintf(f, "rows-1 %d %lld 3\n@state f8 2\naction f4 2\nseen b1\n", e->count,
            (long long)e->rows);
    fwrite(e->length, sizeof *e->length, (size_t)e->count, f);
    fwrite(e->state, sizeof *e->state * 2, (size_t)e->rows, f);
    fwrite(e->action, sizeof *e->action * 2, (size_t)e->rows, f);
    for (int64_t i = 0; i < e->rows; i++) fputc(i % 3 == 0, f);
    fclose(f);
    return s;
}

static firm_status record(const void* bytes, size_t n, const char* path, episodes** out,
                          firm_error* err) {
    // fmemopen takes no empty buffer
    FILE* in = n ? fmemopen((void*)(uintptr_t)bytes, n, "r") : fopen("/dev/null", "r");
    firm_status status = rows_record(env_find("tworoom"), path, in, out, err);
    fclose(in);
    return status;
}

static int entries(const char* folder) {
    DIR* d = opendir(folder);
    int n = 0;
    for (struct dirent* e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

// Runs requests against a file; the caller frees the answer.
static char* serve(const char* path, const char* requests, size_t* n) {
    firm_error err = {0};
    episodes* e = NULL;
    frames* f = NULL;
    pool* p = NULL;
    char* answer = NULL;
    if (episodes_read(path, env_find("tworoom"), &e, &err) != FIRM_OK ||
        pool_create(2, &p, &err) != FIRM_OK ||
        frames_open(e, pool_threads(p), 0, &f, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    FILE *in = fmemopen((void*)(uintptr_t)requests, strlen(requests), "r"),
         *out = open_memstream(&answer, n);
    EXPECT_INT(rows_serve(path, e, f, p, in, out, &err), FIRM_OK);
    fclose(in);
    fclose(out);
    frames_free(f);
    pool_free(p);
    episodes_free(e);
    return answer;
}

TEST(data, rows_there_and_back) {
    firm_error err = {0};
    episodes *e = small_set(3, 5, NULL), *back = NULL;
    stream s = make_stream(e);
    const char* path = temp_path("rows.h5");
    REQUIRE_OK(record(s.bytes, s.size, path, &back, &err), err);
    EXPECT(back->hash == e->hash);
    episodes_free(back);

    size_t n = 0;
    char* answer = serve(path, "@state 1 2\nseen 2 4\n@frame 7 1\nnone 0 1\nseen 0 100000\n", &n);
    char* at = answer ? strchr(answer, '\n') : NULL;
    if (at) {
        EXPECT(strstr(answer, "\"episodes\":3") &&
               strstr(answer, "\"state_columns\":[\"pos_agent\"]"));
        EXPECT(strncmp(++at, "32\n", 3) == 0 && memcmp(at + 3, e->state + 2, 32) == 0);
        at += 3 + 32;
        EXPECT(strncmp(at, "4\n", 2) == 0 && memcmp(at + 2, "\0\1\0\0", 4) == 0);
        at += 2 + 4;
        EXPECT(strncmp(at, "150528\n", 7) == 0);
        uint8_t* want = mem_alloc(150528);
        env* world;
        REQUIRE_OK(env_create(e->spec, &world, &err), err);
        EXPECT_INT(env_picture(world, e->state + 14, want), FIRM_OK);
        EXPECT(memcmp(at + 7, want, 150528) == 0);
        env_free(world);
        mem_free(want);
        at += 7 + 150528;
        EXPECT(strncmp(at, "error ", 6) == 0 && strstr(at, "has no column 'none'"));
        EXPECT(strstr(at, "rows 0 and 100000 after it are not in 'seen'") != NULL);
    }
    free(answer);
    free(s.bytes);
    episodes_free(e);
}

TEST(data, rows_with_bad_headers) {
    static const struct {
        const char *header, *says;
    } cases[] = {
        {"", "end in their header"},
        {"rows-2 1 9 1\naction f4 2\n", "must begin with: rows-1"},
        {"rows-1 9 1 1\naction f4 2\n", "must begin with: rows-1"},
        {"rows-1 1 -9 1\naction f4 2\n", "must begin with: rows-1"},
        {"rows-1 1 99999999999999999999 1\naction f4 2\n", "must begin with: rows-1"},
        {"rows-1 1 9 65\naction f4 2\n", "at most 64 columns"},
        {"rows-1 1 9 1\naction f9 2\n", "f4, f8, i8, u1 or b1"},
        {"rows-1 1 9 2\naction f4 2\naction f4 2\n", "a new name"},
        {"rows-1 1 9 1\nep_len f4\n", "a new name"},
        {"rows-1 1 9 1\n../x f4\n", "without / and @"},
        {"rows-1 1 9 1\n@frame u1\n", "without / and @"},
        {"rows-1 1 9 1\naction f4 0\n", "shape that is not possible"},
        {"rows-1 1 9 1\naction f4 4000 4000 4000\n", "shape that is not possible"},
        {"rows-1 1 9 1\naction f4 1 1 1 1 1 1 1 1\n", "shape that is not possible"},
        {"rows-1 1 9 1\n@state f8 3\n\x09\0\0\0", "numbers of the task's state"},
        {"rows-1 1 9 1\naction f4 2\n\x08\0\0\0", "add up to 8 rows, not to 9"},
        {"rows-1 1 9 1\naction f4 2\n\xff\xff\xff\xff", "has -1 rows"},
        {"rows-1 1 9 1\naction f4 2\n\x09\0\0\0", "end before all numbers"},
    };
    char folder[600];
    snprintf(folder, sizeof folder, "%s/none", test_temp_dir());
    if (mkdir(folder, 0755) != 0) abort();
    const char* path = temp_path("none/rows.h5");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        // the four bytes of a length may hold zeros
        const char* line = strrchr(cases[i].header, '\n');
        size_t n = strlen(cases[i].header) < 1 ? 0 : (size_t)(line - cases[i].header) + 1;
        if (n && line[1]) n += 4;
        firm_error err = {0};
        episodes* e;
        expect_failure(record(cases[i].header, n, path, &e, &err), FIRM_E_FORMAT, &err,
                       cases[i].says);
        EXPECT(e == NULL);
    }
    EXPECT_INT(entries(folder), 0);
}

TEST(data, rows_cut_or_damaged_anywhere) {
    episodes* e = small_set(1, 5, NULL);
    stream s = make_stream(e);
    char folder[600];
    snprintf(folder, sizeof folder, "%s/cut", test_temp_dir());
    if (mkdir(folder, 0755) != 0) abort();
    const char* path = temp_path("cut/rows.h5");
    for (size_t cut = 0; cut < s.size; cut += cut < 80 ? 1 : s.size / 16) {
        firm_error err = {0};
        episodes* back;
        expect_failure(record(s.bytes, cut, path, &back, &err), FIRM_E_FORMAT, &err, "rows.h5");
    }
    EXPECT_INT(entries(folder), 0);
    rng r = rng_start(9, RNG_STREAM(RNG_TEST, 1));
    for (int i = 0; i < 60; i++) {
        firm_error err = {0};
        episodes* back = NULL;
        size_t at = (size_t)rng_uniform(&r, 0, 60);
        char kept = s.bytes[at];
        s.bytes[at] = (char)rng_uniform(&r, -128, 128);
        if (record(s.bytes, s.size, path, &back, &err) == FIRM_OK)
            unlink(path);
        else
            EXPECT(err.message[0] && !strchr(err.message, '\n'));
        episodes_free(back);
        s.bytes[at] = kept;
    }
    EXPECT_INT(entries(folder), 0);
    free(s.bytes);
    episodes_free(e);
}
