// pack.c - `firm pack`: opens the data as a run would and writes what its stages will read. Frames
// that no stage asks for are left out.
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

typedef struct needs {
    int seen[PACK_SOURCES], after[PACK_SOURCES];
    int list[PACK_LISTS];  // of the pack
} needs;

static void add_needs(const config* settings, int first, const char* sources, const pack* p,
                      needs* n) {
    stage s;
    for (int i = first; stage_read(settings, i, sources, &s); i++)
        for (int k = 0; k < SOURCES; k++) {
            if (!(s.sources >> k & 1)) continue;
            if (stage_sees_frames(&s)) {
                int list = pack_find(p, k, s.lag);
                if (list >= 0) n->list[list] = 1;
                continue;
            }
            n->seen[k] = 1;
            if (strcmp(s.objective, "dynamics") == 0) n->after[k] = n->after[PACK_HELD] = 1;
        }
}

static void drop_unneeded(pack* p, const needs* n) {
    for (int k = 0; k < PACK_SOURCES; k++) {
        records* r = &p->set[k];
        for (int i = 0; i < r->histories * RECORD_FRAMES && !n->seen[k]; i++) r->seen[i] = -1;
        for (int i = 0; i < r->count && r->after && !n->after[k]; i++) r->after[i] = -1;
    }
    // an earlier pack may have pairs that these stages do not see
    int kept = 0;
    for (int i = 0; i < p->lists; i++) {
        if (n->list[i] || p->list[i].source == PACK_HELD)
            p->list[kept++] = p->list[i];
        else
            pairs_free(&p->list[i].p);
    }
    p->lists = kept;
}

static cJSON* result_json(const train_set* s, const pack_file* made, int as_pictures,
                          const char* path) {
    cJSON* out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "task", s->env->task.name);
    cJSON_AddStringToObject(out, "file", path);
    cJSON_AddStringToObject(out, "frames_as", as_pictures ? "pictures" : "states");
    cJSON_AddNumberToObject(out, "frames", (double)made->scenes);
    cJSON_AddNumberToObject(out, "bytes", (double)made->bytes);
    static const char* const name[PACK_SOURCES] = {"factual", "interventions", "structured",
                                                   "imagined", "held_out"};
    cJSON* records = cJSON_AddObjectToObject(out, "records");
    for (int i = 0; i < PACK_SOURCES; i++)
        cJSON_AddNumberToObject(records, name[i], s->data.set[i].count);
    int pairs = 0;
    for (int i = 0; i < s->data.lists; i++)
        if (s->data.list[i].source != PACK_HELD) pairs += s->data.list[i].p.count;
    cJSON_AddNumberToObject(out, "pairs", pairs);
    return out;
}

firm_status train_pack(const config* settings, const env_spec* env, const train_inputs* in,
                       const train_options* opt, int as_pictures, const char* path, cJSON** result,
                       firm_error* err) {
    if (config_int(settings, "train", "frame_pool") == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "a pack of all frames would be huge; set train.frame_pool to the number of "
                    "pairs the pixel stages are to see");
    if (in->data && in->data->pixels && !as_pictures)
        return FAIL(err, FIRM_E_USAGE,
                    "the data set has pictures of its own, which states cannot give back; add "
                    "--pictures");
    pool* p;
    train_set s = {0};
    pack_file made = {0};
    needs n = {.seen = {[PACK_HELD] = 1}};
    TRY(pool_create(opt->threads, &p, err));
    firm_status st = train_set_open(settings, env, in, opt, pool_threads(p), &s, err);
    int first = 0;
    if (st == FIRM_OK) st = stage_first(settings, opt->from, &first, err);
    add_needs(settings, first, opt->sources, &s.data, &n);
    if (opt->ablations) {
        add_needs(settings, first, "F", &s.data, &n);
        add_needs(settings, first, "I", &s.data, &n);
    }
    if (st == FIRM_OK && s.data.picture && !as_pictures)
        st = FAIL(err, FIRM_E_USAGE,
                  "the pack holds pictures, which states cannot be made from; add --pictures to "
                  "keep them in %s",
                  path);
    if (st == FIRM_OK) {
        drop_unneeded(&s.data, &n);
        st = pack_write(&s.data, as_pictures ? s.pictures : NULL, p, path, &made, err);
    }
    if (st == FIRM_OK && result) *result = result_json(&s, &made, as_pictures, path);
    train_set_close(&s);
    pool_free(p);
    return st;
}
