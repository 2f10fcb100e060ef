// fuzz_branches.c - the reader of interventions on files that are wrong in what they hold, in their
// structure, or cut; see hdf5_harm.h for the input. What is accepted must be sound, and records and
// pairs are made of it.
//
//     ninja -C build-fuzz fuzz_branches
//     build-fuzz/fuzz/fuzz_branches -max_total_time=600 CORPUS fuzz/corpus/branches
#include "data/samples.h"
#include "env/env.h"
#include "hdf5_harm.h"

static const episodes* recorded(void) {
    static episodes* e;
    if (!e) e = sample_episodes(2);
    MUST(e);
    return e;
}

static void write_branches(const char* path, const change* numbers, int count) {
    branches* b = sample_branches(recorded());
    const int items = b->anchors * b->per_anchor, states = items * 26 * 2, actions = items * 50;
    MUST(b && b->row && b->state && b->action);
    for (int i = 0; i < count; i++) {
        const change* c = &numbers[i];
        switch (c->what % 4) {
            case 0: b->row[c->where % b->anchors] = c->value.whole; break;
            case 1: b->state[c->where % states] = c->value.real; break;
            case 2: b->action[c->where % actions] = c->value.single; break;
            case 3: b->data_hash ^= c->value.number; break;
        }
    }
    firm_error err = {0};
    MUST(branches_write(b, path, &err) == FIRM_OK);
    branches_free(b);
}

static void check_branches(const char* path) {
    const episodes* e = recorded();
    firm_error err = {0};
    branches* b = NULL;
    const firm_status status = branches_read(path, e, &b, &err);
    MUST((status == FIRM_OK) == (b != NULL));
    if (!harm_accepted(status, &err, path)) return;
    const int64_t states = (int64_t)b->anchors * b->per_anchor * 26;
    for (int i = 0; i < b->anchors; i++) {
        MUST(b->row[i] >= 0 && b->row[i] < e->rows);
        MUST(b->row[i] - e->offset[episodes_of_row(e, b->row[i])] >= 2);
    }
    for (int64_t i = 0; i < states; i++) MUST(env_fits(e->spec, b->state + 2 * i));
    const scenes from = {e, {b, NULL}};
    records r;
    pairs p;
    MUST(records_of_branches(&from, 0, &r, &err) == FIRM_OK);
    MUST(pairs_of_branches(&from, 0, 0, 3, &p, &err) == FIRM_OK);
    for (int i = 0; i < r.count * ENV_POINTS * 2; i++) MUST(isfinite(r.config[i]));
    for (int i = 0; i < 2 * p.count; i++) MUST(p.scene[i] >= 0 && p.scene[i] < scenes_count(&from));
    records_free(&r);
    pairs_free(&p);
    branches_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const char* const column[] = {"anchor_row", "state", "action", "config", NULL};
    static const char* const attribute[] = {"kind",      "task",     "proposal", "seed",
                                            "data_hash", "checksum", NULL};
    static const harm_target target = {column, attribute, write_branches, check_branches};
    harm_run(&target, data, size);
    return 0;
}

#include "replay.h"
