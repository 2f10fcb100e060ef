// gates_test.c - what the program says of a check that holds and of one that is missed, in words
// and by its exit status.
#include "data/branches.h"
#include "data/episodes_internal.h"
#include "env/env.h"
#include "program.h"

// Writes 60 episodes whose rows from the 27th on are moved by px towards the middle, so that a
// replay across that row misses its recording by as much.
static int write_moved(const char* path, double px) {
    firm_error err;
    episodes* e;
    collect_options opt = {.episodes = 60, .seed = 5};
    firm_status status = episodes_collect(env_find("tworoom"), &opt, NULL, &e, &err);
    if (status == FIRM_OK) {
        for (int i = 0; i < e->count; i++)
            for (int t = 27; t < e->length[i]; t++) {
                double* x = e->state + 2 * (e->offset[i] + t);
                *x = (float)(*x + (*x < 112 ? px : -px));  // files hold float32
            }
        e->hash = episodes_hash(e);
        status = episodes_write(e, &opt, NULL, path, &err);
        episodes_free(e);
    }
    if (status != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return status == FIRM_OK;
}

TEST(cli, audit_says_whether_it_passed) {
    char folder[512], path[700];
    fresh_folder(folder);
    for (int moved = 0; moved < 2; moved++) {
        snprintf(path, sizeof path, "%s/%d.h5", folder, moved);
        if (!write_moved(path, moved ? 8 : 0)) return;  // half a tolerance
        const outcome* o = firm_run(folder, 0, "audit tworoom --data %d.h5 --quiet", moved);
        EXPECT_INT(o->code, moved);
        EXPECT((strstr(o->out, "passed") != NULL) == !moved);
        EXPECT((strstr(o->out, "failed") != NULL) == moved);
        EXPECT((strstr(o->err, "the audit failed") != NULL) == moved);
    }
}

// The printed line of a stage, without what follows it.
static const char* line_of(const outcome* o, const char* stage) {
    static char line[256];
    char head[64];
    snprintf(head, sizeof head, "\n  %s ", stage);
    const char* at = strstr(o->out, head);
    snprintf(line, sizeof line, "%.*s", at ? (int)strcspn(at + 1, "\n") : 0, at ? at + 1 : "");
    return line;
}

TEST(cli, training_says_which_gates_were_missed) {
    const char* fix = firm_fixture();
    char folder[512];
    if (!fix) return;
    fresh_folder(folder);
    const outcome* o =
        firm_run(folder, 0,
                 "train tworoom --data %s/f.h5 --branches %s/i.h5 -o run --config smoke "
                 "--set stage.grounder.gate=1000 --set stage.rollout-f.gate=0.001",
                 fix, fix);
    EXPECT_INT(o->code, 1);
    EXPECT(strstr(line_of(o, "tokenizer"), " -") != NULL);
    EXPECT(strstr(line_of(o, "grounder"), " 1000.0000 passed") != NULL);
    EXPECT(strstr(line_of(o, "rollout-f"), " 0.0010 MISSED") != NULL);
    EXPECT(strstr(o->err, "gate 1000.0000: pass\n") && strstr(o->err, "gate 0.0010: FAIL\n"));
    EXPECT(strstr(o->err, "stage rollout-f missed its gate") != NULL);
}
