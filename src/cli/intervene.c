// intervene.c - `firm intervene TASK --data F.h5 -o I.h5`: common-reset branches of training
// episodes.
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "data/attempts.h"
#include "data/branches.h"
#include "data/planned.h"
#include "data/proposals.h"
#include "data/searched.h"
#include "eval/proposers.h"
#include "eval/trials.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5", "recorded episodes"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "I.h5", "the file to write"},
    {"anchors", 0, ARG_INT, 1, 10000000, NULL, NULL, "N",
     "anchors, the moments to restore, or to search from; the task's own number, or that of the "
     "settings, if not given"},
    {"branches", 0, ARG_INT, 1, 100000, NULL, NULL, "N",
     "branches of each anchor; the task's own number if not given"},
    {"proposal", 0, ARG_CHOICE, 0, 0, NULL, PROPOSAL_NAMES, NULL,
     "where the actions come from; the task's own noise if not given"},
    {"structured", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "short for --proposal structured"},
    {"mixed", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "short for --proposal mixed"},
    {"planned", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "short for --proposal planned"},
    {"attempts", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "short for --proposal attempts"},
    {"searched", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "short for --proposal searched"},
    {"imagined", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "short for --proposal imagined"},
    {"moments", 0, ARG_TEXT, 0, 0, NULL, NULL, "T.h5",
     "--attempts, --searched: starts and goals in training episodes, of firm trials --training"},
    {"pack", 0, ARG_TEXT, 0, 0, NULL, NULL, "P.h5",
     "--attempts, --searched, --imagined: what training reads, of firm pack; for the first two "
     "with frames as states"},
    {"model", 0, ARG_TEXT, 0, 0, NULL, NULL, "M",
     "--planned, --attempts, --imagined: model file; the shipped one if not given, but of "
     "--imagined, which needs one of the pack's data"},
    {"guide", 0, ARG_TEXT, 0, 0, NULL, NULL, "G",
     "--imagined: model whose searches pick the sequences; --model if not given"},
    {"candidates", 0, ARG_INT, 8, 65535, NULL, NULL, "N",
     "--planned, --searched, --imagined: candidates of a search; the settings' number, or the "
     "contract's, if not given"},
    {"seed", 0, ARG_SEED, 0, 0, NULL, NULL, "S", "seed of anchors and actions; 0 if not given"},
    CLI_DEVICE_OPTIONS,
};

// One proposal, by --proposal or by its switch.
static firm_status choose(const args* a, const proposal** out, firm_error* err) {
    const proposal* found = NULL;
    for (int i = 0; i < proposal_count; i++) {
        const proposal* k = &proposals[i];
        int named = args_given(a, "proposal") && strcmp(args_text(a, "proposal"), k->name) == 0;
        if (!named && (k == PROPOSAL_OWN || !args_switch(a, k->name))) continue;
        if (found && found->adds && k->adds)
            return FAIL(err, FIRM_E_USAGE, "--%s and --%s are added one after the other",
                        found->name, k->name);
        if (found && (found->adds || k->adds))
            return FAIL(err, FIRM_E_USAGE,
                        "--%s has moments of its own and adds to --pack; leave out the other sets",
                        k->adds ? k->name : found->name);
        if (found)
            return FAIL(err, FIRM_E_USAGE, "%s and %s are two sets; make one after the other",
                        found->name, k->name);
        found = k;
    }
    *out = found ? found : PROPOSAL_OWN;
    return FIRM_OK;
}

static void show_addition(const cJSON* j) {
    const char* what = cJSON_HasObjectItem(j, "searches") ? "searches" : "attempts";
    printf("%s: %.0f %s, of which %.0f reached their goals, %.0f records in all, %.1f s\n",
           cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, what, 0), what,
           json_get(j, "reached", 0), json_get(j, "records", 0), json_get(j, "seconds", 0));
}

static void show(const cJSON* j) {
    printf("%s: %.0f anchors x %.0f branches of %.0f controls, %.1f s\n",
           cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, "anchors", 0),
           json_get(j, "per_anchor", 0), json_get(j, "controls", 0), json_get(j, "seconds", 0));
    const cJSON* c;
    cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(j, "classes"))
        printf("  %-8s %.0f anchors\n", c->string, c->valuedouble);
}

// Structured sets: how many anchors each class has.
static int add_classes(const branches* b, cJSON* j) {
    int count[ENV_MAX_CLASS] = {0};
    if (!b->anchor_class) return 1;
    cJSON* classes = cJSON_AddObjectToObject(j, "classes");
    for (int i = 0; i < b->anchors; i++) count[b->anchor_class[i]]++;
    for (int c = 0; classes && c < b->spec->collection->structured->classes; c++)
        if (!cJSON_AddNumberToObject(classes, b->spec->collection->structured->class_name[c],
                                     count[c]))
            return 0;
    return classes != NULL;
}

// --NAME if given, else what the settings say for the set asked for; 0: nothing.
static int count_of(const args* a, const proposal* k, const config* settings, const char* name) {
    char key[64];
    if (args_given(a, name) || !k->settings) return (int)args_int(a, name);
    snprintf(key, sizeof key, "%s_%s", k->settings, name);
    return (int)config_int(settings, "intervene", key);
}

// Branches off recorded moments: what with, and the file to write.
typedef struct branching {
    const proposal* kind;
    const config* settings;
    const char* path;
    uint64_t seed;
    episodes* e;
    firm_model* model;  // of planned ones
    pilots pilots;
    planned* planned;  // NULL: others
} branching;

static firm_status branch(const args* a, const branching* w, pool* p, cJSON** json,
                          firm_error* err) {
    const episodes* e = w->e;
    intervene_options opt = {.anchors = count_of(a, w->kind, w->settings, "anchors"),
                             .per_anchor = count_of(a, w->kind, w->settings, "branches"),
                             .structured = w->kind->structured,
                             .mixed = w->kind->by == PROPOSAL_MIXED,
                             .propose = w->planned ? planned_make : NULL,
                             .ctx = w->planned,
                             .seed = w->seed,
                             .split_seed = (uint64_t)config_int(w->settings, "data", "split_seed")};
    double begun = clock_seconds();
    branches* b;
    TRY(branches_collect(e, &opt, p, &b, err));
    firm_status status = branches_write(b, w->path, err);
    if (status == FIRM_OK) {
        cJSON* j = *json = cJSON_CreateObject();
        if (!(j && cJSON_AddStringToObject(j, "task", e->spec->task.name) &&
              cJSON_AddStringToObject(j, "file", w->path) &&
              cJSON_AddNumberToObject(j, "anchors", b->anchors) &&
              cJSON_AddNumberToObject(j, "per_anchor", b->per_anchor) &&
              cJSON_AddNumberToObject(j, "controls", task_span(&e->spec->task)) &&
              cJSON_AddNumberToObject(j, "seed", (double)w->seed) &&
              cJSON_AddStringToObject(j, "proposal", branches_proposal(b)) && add_classes(b, j) &&
              json_add_number(j, "seconds", clock_seconds() - begun, 4)))
            status = cli_no_memory(err);
    }
    branches_free(b);
    return status;
}

// The searches of planned branches.
static firm_status open_planned(const args* a, branching* w, firm_error* err) {
    char path[1024];
    if (w->kind->by != PROPOSAL_PILOT) {
        if (args_given(a, "model") || args_given(a, "candidates"))
            return FAIL(err, FIRM_E_USAGE, "--model and --candidates belong to --planned");
        return FIRM_OK;
    }
    TRY(cli_model_path(a, w->e->spec, path, err));
    TRY(cli_load_model(path, w->e->spec, &w->model, err));
    TRY(pilots_open_depths(w->model, count_of(a, w->kind, w->settings, "candidates"),
                           (int)args_int(a, "threads"), &w->pilots, err));
    return planned_open(w->pilots.pilot, w->e, w->seed, &w->planned, err);
}

// ---- attempts and searches, into a pack ---------------------------------------------------------

static firm_status same_data(const args* a, const trial_set* t, const pack* p, firm_error* err) {
    char split[48];
    snprintf(split, sizeof split, "split_seed %" PRIu64 ",", t->split_seed);
    if (t->rows->hash == p->data_hash && strncmp(p->selection, split, strlen(split)) == 0)
        return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE,
                "%s and %s come from different episodes or splits of them, so a training moment of "
                "one may be held out in the other; make both from the same --data and "
                "data.split_seed",
                args_text(a, "moments"), args_text(a, "pack"));
}

// What is to be added, where to, and the file to write.
typedef struct addition {
    const proposal* kind;
    const config* settings;
    const trial_set* moments;
    pack* to;
    const char* path;
    uint64_t seed;
} addition;

// `made` under the key `what`, of which some reached their goals.
static cJSON* addition_json(const addition* m, const char* what, int made, int reached,
                            double begun) {
    cJSON* j = cJSON_CreateObject();
    int ok =
        j && cJSON_AddStringToObject(j, "task", m->to->spec->task.name) &&
        cJSON_AddStringToObject(j, "file", m->path) && cJSON_AddNumberToObject(j, what, made) &&
        cJSON_AddNumberToObject(j, "reached", reached) &&
        cJSON_AddNumberToObject(j, "records", m->to->set[PACK_S].count) &&
        cJSON_AddNumberToObject(j, "seed", (double)m->seed) &&
        cJSON_AddStringToObject(j, "proposal", strcmp(what, "searches") == 0 ? "searched" : what) &&
        json_add_number(j, "seconds", clock_seconds() - begun, 4);
    if (ok) return j;
    cJSON_Delete(j);
    return NULL;
}

static firm_status attempt(const args* a, const addition* m, pool* p, cJSON** json,
                           firm_error* err) {
    firm_device device;
    firm_precision precision;
    pilots by = {0};
    char path[1024];
    double begun = clock_seconds();
    int reached = 0;
    firm_model* model = NULL;
    episodes* made = NULL;
    pack_file file = {0};
    TRY(cli_device(a, &device, &precision, err));
    TRY(cli_model_path(a, m->to->spec, path, err));
    TRY(cli_load_model(path, m->to->spec, &model, err));
    firm_status status = pilots_open(model, device, precision, pool_threads(p), &by, err);
    if (status == FIRM_OK)
        status = attempts_make(by.pilot, m->moments, m->seed, p, &made, &reached, err);
    if (status == FIRM_OK) status = attempts_add(made, m->seed, m->to, err);
    if (status == FIRM_OK) status = pack_write(m->to, NULL, p, m->path, &file, err);
    if (status == FIRM_OK && !(*json = addition_json(m, "attempts", made->count, reached, begun)))
        status = cli_no_memory(err);
    episodes_free(made);
    pilots_free(&by);
    firm_model_free(model);
    return status;
}

static firm_status search(const args* a, const addition* m, pool* p, cJSON** json,
                          firm_error* err) {
    searched_options opt = {
        .candidates = count_of(a, m->kind, m->settings, "candidates"),
        .iterations = (int)config_int(m->settings, "intervene", "searched_iterations"),
        .keep = (int)config_int(m->settings, "intervene", "searched_kept"),
        .seed = m->seed};
    double begun = clock_seconds();
    searched made;
    pack_file file = {0};
    TRY(searched_make(m->moments, &opt, &proposers_search, p, &made, err));
    firm_status status = searched_add(&made, m->to, err);
    if (status == FIRM_OK) status = pack_write(m->to, NULL, p, m->path, &file, err);
    if (status == FIRM_OK &&
        !(*json = addition_json(m, "searches", made.from->anchors, made.reached, begun)))
        status = cli_no_memory(err);
    searched_free(&made);
    return status;
}

static firm_status check_addition(const args* a, int searched, firm_error* err) {
    if (args_given(a, "data") || args_given(a, "anchors") || args_given(a, "branches"))
        return FAIL(err, FIRM_E_USAGE,
                    "--%s takes its moments from --moments and adds to --pack; leave out "
                    "--data, --anchors, --branches and the other sets",
                    searched ? "searched" : "attempts");
    if (searched && (args_given(a, "model") || args_given(a, "device")))
        return FAIL(err, FIRM_E_USAGE,
                    "--searched asks the true simulator; leave out --model and --device");
    if (!searched && args_given(a, "candidates"))
        return FAIL(err, FIRM_E_USAGE, "--candidates belongs to --planned and --searched");
    return FIRM_OK;
}

static firm_status run_addition(const args* a, const env_spec* spec, const proposal* k,
                                const char* path, firm_error* err) {
    const int searched = k->by == PROPOSAL_SEARCH;
    const char *moments, *from;
    trial_set* t = NULL;
    config* settings = NULL;
    pool* workers = NULL;
    pack p = {0};
    cJSON* json = NULL;
    TRY(check_addition(a, searched, err));
    TRY(cli_required(a, "moments", &moments, err));
    TRY(cli_required(a, "pack", &from, err));
    TRY(cli_settings(a, &spec->task, NULL, &settings, err));
    firm_status status = eval_trials_read(moments, spec, 1, &t, err);
    if (status == FIRM_OK) status = pack_read(from, spec, &p, err);
    if (status == FIRM_OK) status = same_data(a, t, &p, err);
    if (status == FIRM_OK) status = pool_create((int)args_int(a, "threads"), &workers, err);
    if (status == FIRM_OK) {
        addition m = {.kind = k,
                      .settings = settings,
                      .moments = t,
                      .to = &p,
                      .path = path,
                      .seed = args_given(a, "seed") ? (uint64_t)args_int(a, "seed") : 0};
        status =
            searched ? search(a, &m, workers, &json, err) : attempt(a, &m, workers, &json, err);
    }
    pool_free(workers);
    pack_free(&p);
    trial_set_free(t);
    config_free(settings);
    if (status == FIRM_OK) return cli_finish(a, json, show_addition, err);
    cJSON_Delete(json);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    config* settings = NULL;
    pool* p = NULL;
    cJSON* json = NULL;
    branching w = {.seed = args_given(a, "seed") ? (uint64_t)args_int(a, "seed") : 0};
    TRY(cli_task(a, 0, &spec, err));
    TRY(choose(a, &w.kind, err));
    TRY(cli_required(a, "output", &w.path, err));
    TRY(cli_check_output(w.path, err));
    if (w.kind->by == PROPOSAL_IMAGINER) return cli_imagine(a, spec, w.path, err);
    if (args_given(a, "guide"))
        return FAIL(err, FIRM_E_USAGE, "--guide belongs to --imagined; leave it out");
    TRY(env_need_simulator(spec, "intervening", err));
    if (w.kind->adds) return run_addition(a, spec, w.kind, w.path, err);
    if (args_given(a, "moments") || args_given(a, "pack") || args_given(a, "device"))
        return FAIL(err, FIRM_E_USAGE,
                    "--moments and --pack belong to --attempts and --searched, --pack also to "
                    "--imagined, --device to --attempts and --imagined");
    TRY(cli_settings(a, &spec->task, NULL, &settings, err));
    w.settings = settings;
    firm_status status = cli_read_data(a, spec, &w.e, err);
    if (status == FIRM_OK) status = pool_create((int)args_int(a, "threads"), &p, err);
    if (status == FIRM_OK) status = open_planned(a, &w, err);
    if (status == FIRM_OK) status = branch(a, &w, p, &json, err);
    planned_free(w.planned);
    pilots_free(&w.pilots);
    firm_model_free(w.model);
    pool_free(p);
    episodes_free(w.e);
    config_free(settings);
    if (status == FIRM_OK) return cli_finish(a, json, show, err);
    cJSON_Delete(json);
    return status;
}

const cli_command cli_intervene = {
    "intervene",
    "intervene TASK --data F.h5 -o I.h5 [--anchors N --branches N --proposal NAME]\n"
    "       firm intervene TASK --proposal attempts --moments T.h5 --pack P.h5 --model M -o Q.h5\n"
    "       firm intervene TASK --proposal searched --moments T.h5 --pack P.h5 -o Q.h5\n"
    "       firm intervene TASK --proposal imagined --pack P.h5 --model M -o Q.h5",
    "restore recorded moments and try other actions from them",
    PROPOSAL_LINES,
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
