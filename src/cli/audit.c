// audit.c - `firm audit TASK --data F.h5`: can recorded moments be restored and replayed exactly?
#include "cli/cli.h"
#include "data/branches.h"
#include "report/paper.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5", "recorded episodes"},
    {"anchors", 0, ARG_INT, 1, 10000000, NULL, NULL, "N",
     "moments to replay; the task's own number if not given"},
    {"seed", 0, ARG_SEED, 0, 0, NULL, NULL, "S", "which moments; 0 if not given"},
};

static void show(const cJSON* j) {
    const cJSON* paper = cJSON_GetObjectItemCaseSensitive(j, "paper");
    printf("reset-replay error of %s in tolerance units, after %.0f controls\n\n",
           cJSON_GetObjectItemCaseSensitive(j, "task")->valuestring, json_get(j, "controls", 0));
    printf("          anchors   mean        P95         max\n");
    printf("  ours    %7.0f   %-9.3g   %-9.3g   %-9.3g\n", json_get(j, "anchors", 0),
           json_get(j, "h5_mean", 0), json_get(j, "h5_p95", 0), json_get(j, "max", 0));
    if (cJSON_IsObject(paper))
        printf("  paper   %7.0f   %-9.3g   %-9.3g   %-9.3g\n", json_get(paper, "anchors", 0),
               json_get(paper, "h5_mean", 0), json_get(paper, "h5_p95", 0),
               json_get(paper, "max", 0));
    printf("\ngate (P95 at most 0.25 after %.0f to %.0f controls, max at most 1): %s\n",
           json_get(j, "controls_per_macro", 0), json_get(j, "controls", 0),
           cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "pass")) ? "passed" : "failed");
}

// Of a task that the paper does not have there is nothing to compare with: null.
static int add_paper(cJSON* j, const char* task) {
    const paper_audit* p = paper_find_audit(task);
    if (!p) return cJSON_AddNullToObject(j, "paper") != NULL;
    cJSON* paper = cJSON_AddObjectToObject(j, "paper");
    return paper && cJSON_AddNumberToObject(paper, "anchors", p->anchors) &&
           json_add_number(paper, "h5_mean", p->h5_mean, 6) &&
           json_add_number(paper, "h5_p95", p->h5_p95, 6) &&
           json_add_number(paper, "max", p->max, 6);
}

static cJSON* describe(const env_spec* spec, const audit_result* r) {
    cJSON *j = cJSON_CreateObject(), *p95;
    int ok = j && cJSON_AddStringToObject(j, "task", spec->task.name) &&
             cJSON_AddNumberToObject(j, "anchors", r->anchors) &&
             cJSON_AddNumberToObject(j, "controls", task_span(&spec->task)) &&
             cJSON_AddNumberToObject(j, "controls_per_macro", spec->task.controls) &&
             json_add_number(j, "h5_mean", r->h5_mean, 6) &&
             json_add_number(j, "h5_p95", r->h5_p95, 6) && json_add_number(j, "max", r->max, 6) &&
             cJSON_AddBoolToObject(j, "pass", r->pass) &&
             (p95 = cJSON_AddArrayToObject(j, "p95_by_horizon")) && add_paper(j, spec->task.name);
    for (int i = 0; ok && i < r->horizons; i++)
        ok = cJSON_AddItemToArray(p95, json_number(r->p95[i], 6));
    if (ok) return j;
    cJSON_Delete(j);
    return NULL;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    config* settings;
    episodes* e;
    pool* p = NULL;
    audit_result r;
    TRY(cli_task(a, 0, &spec, err));
    TRY(env_need_simulator(spec, "an audit", err));
    TRY(cli_settings(a, &spec->task, NULL, &settings, err));
    uint64_t split = (uint64_t)config_int(settings, "data", "split_seed");
    uint64_t seed = args_given(a, "seed") ? (uint64_t)args_int(a, "seed") : 0;
    config_free(settings);
    TRY(cli_read_data(a, spec, &e, err));
    firm_status status = pool_create((int)args_int(a, "threads"), &p, err);
    if (status == FIRM_OK)
        status = branches_audit(e, (int)args_int(a, "anchors"), seed, split, p, &r, err);
    pool_free(p);
    episodes_free(e);
    TRY(status);
    TRY(cli_finish(a, describe(spec, &r), show, err));
    if (r.pass) return FIRM_OK;
    return FAIL(err, FIRM_E_GATE,
                "the audit failed: restored episodes of %s do not replay (P95 %.3g, max %.3g "
                "tolerance units)",
                spec->task.name, r.h5_p95, r.max);
}

const cli_command cli_audit = {"audit",
                               "audit TASK --data F.h5",
                               "check that recorded moments can be restored and replayed",
                               "",
                               options,
                               sizeof options / sizeof *options,
                               1,
                               1,
                               run};
