// golden_test.c - what the tasks make keeps its bits: episodes of every policy, what the columns of
// their files hold, typed conversions, pictures, branches of every kind and the audit.
//
// The numbers were printed by this test (FIRM_GOLDEN_WRITE=1 build/firm_tests data/golden). They
// change only when a task is changed on purpose. They hold for x86-64 with the pinned versions of
// MuJoCo and Chipmunk.
#include "check.h"
#include "data/branches.h"
#include "data/hdf5.h"
#include "data/support.h"
#include "env/env.h"

enum { ANCHORS = 4, PER_ANCHOR = 6, PICTURES = 5, MOST_CONFIG = 32, MOST_CHI = 32 };

typedef struct golden {
    const char *task, *policy;
    int episodes;
    uint64_t rows, columns, typed, pictures, plain, mixed, structured, audit;  // hashes
} golden;

static const golden goldens[] = {
    {"tworoom", "expert", 8, 0xd62f598cdc968fb8, 0xad0dd5471d5bbebd, 0x356e40df662326b5,
     0xa978cab56298c4cb, 0x7aa7b959c2c9a6e9, 0x8fe3905cbe40c233, 0x0, 0xbcdc67d422a5f4f9},
    {"reacher", "uniform", 6, 0x7df055bd903ed4e, 0xad54e130fa00d69f, 0xd68092b07a080d3c,
     0x941ac4b7a20a1754, 0xed8443bf9f9d01a3, 0xc38c3ef40e09681e, 0x0, 0xbcdc67d422a5f4f9},
    {"pusht", "demo", 6, 0xfaa7ef146f50467, 0xe06476bef263643f, 0xf54c1ae1c442c1a8,
     0x23510e862f1d8527, 0x4fd60e8f91e1eec3, 0xfb65dc5d1b143f76, 0xdaaa992b6eb86b2,
     0xbcdc67d422a5f4f9},
    {"pusht", "weak", 6, 0x5147417aeac0b055, 0x16cf2f7ea48c878d, 0x5ed461b3e6f8b28f,
     0xacbcb2e8ff450b2f, 0x5bb6c814fdfda59c, 0xc3baca4a8434cb56, 0xae235bf5f26fa3e0,
     0xc5e33a1c5c0e59f9},
    {"cube", "plan", 6, 0xa0a936b38b413af2, 0x1210e4c409158b71, 0xff12c4de62a8184a,
     0x85f45e1cae9c1019, 0x2632843d938ad458, 0x49657dc1a3287278, 0x0, 0xd91f268bf1eb2b5b},
    {"cube", "markov", 6, 0xf9e544e55a756c60, 0xb34a80c551cd53a6, 0x489ec3278eef1318,
     0xe2321f5f399a5f98, 0x7682694f220f9e78, 0x186d0cbf78b8c1a2, 0x0, 0x8fdcc013e2bd3642},
};

// Everything but the pictures that the writer takes from the task.
static uint64_t columns_hash(const episodes* e) {
    const env_spec* spec = e->spec;
    uint64_t hash = HDF5_HASH_START;
    for (int64_t row = 0; row < e->rows; row++)
        for (int i = 0; i < spec->layout->columns; i++) {
            double out[ENV_MAX_COLUMN] = {0};
            if (!spec->layout->column[i].get) continue;
            spec->layout->column[i].get(e->state + row * spec->state->dim,
                                        e->extra ? e->extra + row * spec->layout->extra_dim : NULL,
                                        out);
            hash = hdf5_hash(hash, out, (size_t)spec->layout->column[i].width * sizeof *out);
        }
    return hash;
}

// c, chi and the verdicts of every row, compared with the row five earlier.
static uint64_t typed_hash(const episodes* e) {
    const env_spec* spec = e->spec;
    uint64_t hash = HDF5_HASH_START;
    for (int i = 0; i < e->count; i++)
        for (int t = 5; t < e->length[i]; t++) {
            const double *now = e->state + (e->offset[i] + t) * spec->state->dim,
                         *before = now - spec->state->dim, *macro = now - 5 * spec->state->dim;
            float c[MOST_CONFIG] = {0}, chi[MOST_CHI] = {0};
            env_config(spec, now, c);
            env_chi(spec, now, before, macro, chi);
            int verdict[4] = {env_success(spec, now, macro), env_fits(spec, now),
                              spec->state->rare ? env_rare(spec, now, before) : -1,
                              spec->state->erratic ? env_erratic(spec, now) : -1};
            hash = hdf5_hash(hash, c, sizeof c);
            hash = hdf5_hash(hash, chi, sizeof chi);
            hash = hdf5_hash(hash, verdict, sizeof verdict);
        }
    return hash;
}

static uint64_t pictures_hash(const episodes* e, firm_error* err) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    uint64_t hash = HDF5_HASH_START;
    env* world;
    if (env_create(e->spec, &world, err) != FIRM_OK) return 0;
    if (env_render_ready(&world, 1, err) != FIRM_OK) hash = 0;
    for (int i = 0; i < PICTURES && hash; i++) {
        const int64_t row = e->rows * i / PICTURES;
        if (env_picture(world, e->state + row * e->spec->state->dim, rgb) != FIRM_OK) hash = 1;
        hash = hdf5_hash(hash, rgb, sizeof rgb);
    }
    env_free(world);
    return hash;
}

static uint64_t branches_hash(const episodes* e, const intervene_options* opt, pool* p) {
    branches* b;
    firm_error err;
    if (branches_collect(e, opt, p, &b, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", e->spec->task.name, err.message);
        return 0;
    }
    const size_t n = (size_t)(b->anchors * b->per_anchor);
    uint64_t hash = hdf5_hash(HDF5_HASH_START, b->row, (size_t)b->anchors * sizeof *b->row);
    hash = hdf5_hash(hash, b->state, n * 26 * (size_t)e->spec->state->dim * sizeof *b->state);
    hash =
        hdf5_hash(hash, b->action, n * 25 * (size_t)e->spec->task.action_dim * sizeof *b->action);
    branches_free(b);
    return hash;
}

static uint64_t audit_hash(const episodes* e, pool* p) {
    audit_result a;
    firm_error err;
    if (branches_audit(e, ANCHORS, 2, 1, p, &a, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", e->spec->task.name, err.message);
        return 0;
    }
    const double figures[] = {a.anchors, a.h5_mean, a.h5_p95, a.max,    a.p95[0],
                              a.p95[1],  a.p95[2],  a.p95[3], a.p95[4], a.pass};
    return hdf5_hash(HDF5_HASH_START, figures, sizeof figures);
}

static void expect_hash(const golden* g, const char* what, uint64_t got, uint64_t want) {
    if (got != want)
        test_fail(__FILE__, __LINE__, "%s, policy %s: %s are 0x%016llx, expected 0x%016llx",
                  g->task, g->policy, what, (unsigned long long)got, (unsigned long long)want);
}

static golden measure(const golden* g, const episodes* e, pool* p) {
    firm_error err = {0};
    intervene_options opt = {
        .anchors = ANCHORS, .per_anchor = PER_ANCHOR, .seed = 3, .split_seed = 1};
    golden got = {g->task, g->policy, g->episodes, e->hash, columns_hash(e), typed_hash(e), 0,
                  0,       0,         0,           0};
    got.pictures = pictures_hash(e, &err);
    if (!got.pictures) test_fail(__FILE__, __LINE__, "%s: %s", g->task, err.message);
    got.plain = branches_hash(e, &opt, p);
    opt.mixed = 1;
    got.mixed = branches_hash(e, &opt, p);
    opt.mixed = 0;
    opt.structured = 1;
    if (e->spec->collection->structured) got.structured = branches_hash(e, &opt, p);
    got.audit = audit_hash(e, p);
    return got;
}

static void check_task(const char* task) {
    const env_spec* spec = env_find(task);
    firm_error err;
    env* world;
    if (!spec || env_create(spec, &world, &err) != FIRM_OK) {
        test_skip("the task is not in this build");
        return;
    }
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        const golden* g = &goldens[i];
        pool* p;
        episodes* e;
        if (strcmp(g->task, task) != 0) continue;
        if (test_short() && i && strcmp(goldens[i - 1].task, task) == 0) continue;
        collect_options opt = {.episodes = g->episodes, .seed = 11, .policy = g->policy};
        REQUIRE_OK(pool_create(2, &p, &err), err);
        REQUIRE_OK(episodes_collect(spec, &opt, p, &e, &err), err);
        golden got = measure(g, e, p);
        if (getenv("FIRM_GOLDEN_WRITE"))
            printf(
                "    {\"%s\", \"%s\", %d, 0x%llx, 0x%llx, 0x%llx, 0x%llx, 0x%llx, 0x%llx, "
                "0x%llx, 0x%llx},\n",
                g->task, g->policy, g->episodes, (unsigned long long)got.rows,
                (unsigned long long)got.columns, (unsigned long long)got.typed,
                (unsigned long long)got.pictures, (unsigned long long)got.plain,
                (unsigned long long)got.mixed, (unsigned long long)got.structured,
                (unsigned long long)got.audit);
        expect_hash(g, "episodes", got.rows, g->rows);
        expect_hash(g, "columns", got.columns, g->columns);
        expect_hash(g, "typed numbers", got.typed, g->typed);
        expect_hash(g, "pictures", got.pictures, g->pictures);
        expect_hash(g, "branches", got.plain, g->plain);
        expect_hash(g, "mixed branches", got.mixed, g->mixed);
        expect_hash(g, "structured branches", got.structured, g->structured);
        expect_hash(g, "audits", got.audit, g->audit);
        episodes_free(e);
        pool_free(p);
    }
    env_free(world);  // kept so far: what the task's simulators share is loaded once
}

TEST(data, golden_bits_of_tworoom) {
    check_task("tworoom");
}

TEST(data, golden_bits_of_reacher) {
    check_task("reacher");
}

TEST(data, golden_bits_of_pusht) {
    check_task("pusht");
}

TEST(data, golden_bits_of_cube) {
    check_task("cube");
}
