// study_steps.c - a study step by step: each is a command line of the program that is run unless
// its result is there. Here they are put together, as chains of what depends on what.
#include "cli/study_steps.h"

#include <string.h>

#include "core/file.h"
#include "core/log.h"
#include "model/model.h"

// ---- command lines ------------------------------------------------------------------------------

void line_add(line* l, const char* word) {
    CHECK(l->words < LINE_WORDS, "a command of the study has too many words");
    snprintf(l->word[l->words++], LINE_WORD, "%s", word);
}

void line_flag(line* l, const char* flag, const char* value) {
    line_add(l, flag);
    line_add(l, value);
}

void line_settings(const study* s, const env_spec* spec, const char* config, line* l) {
    const char* set[ARGS_MAX_VALUES];
    char quick[64];
    int n = args_list(s->a, "set", set);
    if (!config && args_given(s->a, "config")) config = args_text(s->a, "config");
    if (!config && args_switch(s->a, "quick")) {
        snprintf(quick, sizeof quick, "%s-quick", spec->task.name);
        config = quick;
    }
    if (config) line_flag(l, "--config", config);
    for (int i = 0; i < n; i++) line_flag(l, "--set", set[i]);
    line_flag(l, "--threads", s->threads);
}

void line_begin(line* l, const char* command, const env_spec* spec) {
    l->words = 0;
    line_add(l, command);
    line_add(l, spec->task.name);
}

// ---- a task's steps -----------------------------------------------------------------------------

static const char* in_folder_of(const char* folder, const char* name, char out[LINE_WORD]) {
    snprintf(out, LINE_WORD, "%.1000s/%s", folder, name);
    return out;
}

static const char* in_folder(places* p, const char* name) {
    return in_folder_of(p->folder, name, p->file);
}

static void find_places(const study* s, int task, const char* plus, places* p) {
    const env_spec* spec = p->spec = s->task[task];
    p->plus = plus;
    p->attempts = plus ? s->attempts[task] : 0;
    p->searched = plus ? s->searched[task] : 0;
    p->anew = s->anew[task];
    p->members = plus ? s->members[task] : 0;
    p->apart = s->apart[task];
    p->packed = s->packed[task][plus != NULL];
    snprintf(p->folder, sizeof p->folder, "%.400s/%s%s", s->out, spec->task.name,
             plus ? "-plus" : "");
    // both sets of settings learn from the same episodes, so their trials are the same
    snprintf(p->data, sizeof p->data, "%.400s/%s/episodes.h5", s->out, spec->task.name);
    snprintf(p->trials, sizeof p->trials, "%.400s/%s", s->out, spec->task.name);
    snprintf(p->branches, sizeof p->branches, "%s/branches.h5", p->folder);
    snprintf(p->structured, sizeof p->structured, "%s/structured.h5", p->folder);
}

static firm_status collect(study* s, places* p, firm_error* err) {
    static line l;
    line_begin(&l, "collect", p->spec);
    line_flag(&l, "-o", p->data);
    if (args_given(s->a, "episodes")) line_flag(&l, "--episodes", args_text(s->a, "episodes"));
    line_flag(&l, "--threads", s->threads);
    TRY(study_add(s, &l, (step_result){.file = p->data}, err));
    line_begin(&l, "describe", p->spec);
    line_flag(&l, "--data", p->data);
    TRY(study_add(s, &l, (step_result){.file = in_folder(p, "describe.json"), .save = 1}, err));
    line_begin(&l, "audit", p->spec);
    line_flag(&l, "--data", p->data);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = in_folder(p, "audit.json"), .save = 1}, err);
}

// What searches through the first seed's model propose: the plus settings' second set.
static void add_planned(const study* s, const places* p, line* l) {
    char model[LINE_WORD];
    snprintf(model, sizeof model, "%.400s/%s/seed-%s/model.safetensors", s->out, p->spec->task.name,
             s->seed[0]);
    line_add(l, "--planned");
    line_flag(l, "--model", model);
    line_flag(l, "--seed", "2");
}

static firm_status intervene(study* s, places* p, firm_error* err) {
    static line l;
    line_begin(&l, "intervene", p->spec);
    line_flag(&l, "--data", p->data);
    line_flag(&l, "-o", p->branches);
    if (p->plus) {
        line_add(&l, "--mixed");
        line_flag(&l, "--seed", "1");
    }
    line_settings(s, p->spec, p->plus, &l);
    TRY(study_add(s, &l, (step_result){.file = p->branches}, err));
    if (!p->spec->collection->structured && !p->plus) return FIRM_OK;
    line_begin(&l, "intervene", p->spec);
    line_flag(&l, "--data", p->data);
    line_flag(&l, "-o", p->structured);
    if (p->plus)
        add_planned(s, p, &l);
    else
        line_add(&l, "--structured");
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = p->structured}, err);
}

static firm_status count(study* s, places* p, firm_error* err) {
    static line l;
    line_begin(&l, "params", p->spec);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = in_folder(p, "params.json"), .save = 1}, err);
}

// All there is to learn from.
static void add_sources(const places* p, line* l) {
    line_flag(l, "--data", p->data);
    line_flag(l, "--branches", p->branches);
    if (p->plus || p->spec->collection->structured) line_flag(l, "--structured", p->structured);
}

// Frames are drawn once for all trainings.
static firm_status pack(study* s, places* p, firm_error* err) {
    static line l;
    if (!p->packed) return FIRM_OK;
    line_begin(&l, "pack", p->spec);
    add_sources(p, &l);
    line_add(&l, "--pictures");
    if (!p->plus && study_ablation_at(s, p->spec, 0)) line_add(&l, "--ablations");
    line_flag(&l, "-o", in_folder(p, "pack.h5"));
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = in_folder(p, "pack.h5")}, err);
}

static firm_status train(study* s, places* p, const char* seed, const study_ablation* ablation,
                         const char* kind, char run[LINE_WORD], firm_error* err) {
    static line l;
    char result[LINE_WORD];
    snprintf(run, LINE_WORD, "%s/%s%s%s%s-%s", p->folder, ablation ? "ablation-" : "",
             ablation ? ablation->name : "", ablation ? "-" : "", kind, seed);
    snprintf(result, sizeof result, "%.1000s/train.json", run);
    line_begin(&l, "train", p->spec);
    if (p->packed)
        line_flag(&l, "--pack", in_folder(p, "pack.h5"));
    else
        add_sources(p, &l);
    line_flag(&l, "-o", run);
    line_flag(&l, "--seed", seed);
    line_flag(&l, "--device", args_text(s->a, "device"));
    line_add(&l, "--resume");
    if (p->plus) line_flag(&l, "--recordings", p->data);
    if (ablation) line_add(&l, ablation->flag);
    if (ablation && ablation->value) line_add(&l, ablation->value);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = result, .ungated = ablation != NULL}, err);
}

// ---- attempts of the plus settings ----

static void numbered(const places* p, const char* name, int number, char out[LINE_WORD]) {
    snprintf(out, LINE_WORD, "%s/%s-%d.h5", p->folder, name, number);
}

// Other ones for every number.
static firm_status draw_moments(study* s, places* p, int number, int count, firm_error* err) {
    static line l;
    char text[32], path[LINE_WORD];
    numbered(p, "moments", number, path);
    line_begin(&l, "trials", p->spec);
    line_flag(&l, "--data", p->data);
    line_add(&l, "--training");
    line_add(&l, "--unsolved");
    snprintf(text, sizeof text, "%d", count);
    line_flag(&l, "--trials", text);
    snprintf(text, sizeof text, "%d", 20 + number);
    line_flag(&l, "--seed", text);
    line_flag(&l, "-o", path);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = path}, err);
}

// The first model of the number-th seed (from 1) adds what came of its plans to the pack before.
static firm_status attempt(study* s, places* p, int number, firm_error* err) {
    static line l;
    char before[LINE_WORD], longer[LINE_WORD], moments[LINE_WORD], first[LINE_WORD], text[32];
    numbered(p, "pack", number - 1, before);
    numbered(p, "pack", number, longer);
    numbered(p, "moments", number, moments);
    snprintf(first, sizeof first, "%s/first-%s", p->folder, s->seed[number - 1]);
    line_begin(&l, "intervene", p->spec);
    line_add(&l, "--attempts");
    line_flag(&l, "--moments", moments);
    line_flag(&l, "--pack", before);
    snprintf(text, sizeof text, "%d", number);
    line_flag(&l, "--seed", text);
    line_flag(&l, "--model", in_folder_of(first, "model.safetensors", p->file));
    line_flag(&l, "--device", args_text(s->a, "device"));
    line_flag(&l, "--threads", s->threads);
    line_flag(&l, "-o", longer);
    return study_add(s, &l, (step_result){.file = longer}, err);
}

// What the stages learned anew read: pack-0, or what searches are added to for it.
static firm_status pack_for_attempts(study* s, places* p, firm_error* err) {
    static line l;
    char file[LINE_WORD];
    if (p->searched)
        in_folder_of(p->folder, "pack-recorded.h5", file);
    else
        numbered(p, "pack", 0, file);
    line_begin(&l, "pack", p->spec);
    add_sources(p, &l);
    line_flag(&l, "--from", p->anew);
    line_flag(&l, "-o", file);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = file}, err);
}

static firm_status search(study* s, places* p, firm_error* err) {
    static line l;
    char moments[LINE_WORD], file[LINE_WORD];
    TRY(draw_moments(s, p, 0, p->searched, err));
    numbered(p, "moments", 0, moments);
    numbered(p, "pack", 0, file);
    line_begin(&l, "intervene", p->spec);
    line_add(&l, "--searched");
    line_flag(&l, "--moments", moments);
    line_flag(&l, "--pack", in_folder(p, "pack-recorded.h5"));
    line_flag(&l, "-o", file);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = file}, err);
}

// Searches and every seed's first model, then what comes of these models' plans, when the chain
// `before` has made what they read.
static firm_status attempts(study* s, places* p, int before, firm_error* err) {
    char run[LINE_WORD];
    int first = s->chains;
    if (p->searched) {
        TRY(study_chain_begin(s, before, before + 1, 1, err));
        TRY(search(s, p, err));
    }
    for (int i = 0; i < s->seeds; i++) {
        TRY(study_chain_begin(s, before, before + 1, 0, err));
        TRY(train(s, p, s->seed[i], NULL, "first", run, err));
        TRY(draw_moments(s, p, i + 1, p->attempts, err));
    }
    TRY(study_chain_begin(s, first, s->chains, 1, err));
    for (int i = 0; i < s->seeds; i++) TRY(attempt(s, p, i + 1, err));
    return FIRM_OK;
}

// The transition anew, from what all the seeds' attempts added; the first run's eyes.
static firm_status train_again(study* s, places* p, const char* seed, char run[LINE_WORD],
                               firm_error* err) {
    static line l;
    char result[LINE_WORD], pack[LINE_WORD], first[LINE_WORD];
    numbered(p, "pack", s->seeds, pack);
    snprintf(first, sizeof first, "%s/first-%s", p->folder, seed);
    snprintf(run, LINE_WORD, "%s/seed-%s", p->folder, seed);
    snprintf(result, sizeof result, "%.1000s/train.json", run);
    line_begin(&l, "train", p->spec);
    line_flag(&l, "--pack", pack);
    line_flag(&l, "--init", in_folder_of(first, "checkpoint.safetensors", p->file));
    line_flag(&l, "--from", p->anew);
    line_flag(&l, "-o", run);
    line_flag(&l, "--seed", seed);
    line_flag(&l, "--device", args_text(s->a, "device"));
    line_add(&l, "--resume");
    line_flag(&l, "--recordings", p->data);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = result}, err);
}

// ---- several transitions on one frontend ----

static void ensemble_folder(const places* p, const char* seed, char out[LINE_WORD]) {
    snprintf(out, LINE_WORD, "%s/ensemble-%s", p->folder, seed);
}

// The k-th further transition on a seed's frontend: its last stages, learned again with another
// seed from the weights that the seed's own began with.
static firm_status train_member(study* s, places* p, const char* seed, int k, firm_error* err) {
    static line l;
    char run[LINE_WORD], word[LINE_WORD], result[LINE_WORD];
    ensemble_folder(p, seed, word);
    snprintf(run, sizeof run, "%.1000s/member-%d", word, k);
    snprintf(result, sizeof result, "%.1000s/train.json", run);
    line_begin(&l, "train", p->spec);
    if (p->attempts) {
        numbered(p, "pack", s->seeds, word);
        line_flag(&l, "--pack", word);
    } else if (p->packed) {
        line_flag(&l, "--pack", in_folder(p, "pack.h5"));
    } else {
        add_sources(p, &l);
    }
    snprintf(word, sizeof word, "%s/%s-%s/checkpoint.safetensors", p->folder,
             p->attempts ? "first" : "seed", seed);
    line_flag(&l, "--init", word);
    line_flag(&l, "--from", p->attempts ? p->anew : p->apart);
    line_flag(&l, "-o", run);
    snprintf(word, sizeof word, "%s%02d", seed, k);  // 1 has 101, 102
    line_flag(&l, "--seed", word);
    line_flag(&l, "--device", args_text(s->a, "device"));
    line_add(&l, "--resume");
    line_flag(&l, "--recordings", p->data);
    line_settings(s, p->spec, p->plus, &l);
    return study_add(s, &l, (step_result){.file = result}, err);
}

// A seed's model with its members as one, when the chains from `first` on have trained them.
static firm_status join(study* s, places* p, const char* seed, int first, firm_error* err) {
    static line l;
    char run[LINE_WORD], model[LINE_WORD];
    ensemble_folder(p, seed, run);
    l.words = 0;
    line_add(&l, "export");
    snprintf(model, sizeof model, "%s/seed-%s/model.safetensors", p->folder, seed);
    line_add(&l, model);
    for (int k = 1; k <= p->members; k++) {
        snprintf(model, sizeof model, "%.1000s/member-%d/model.safetensors", run, k);
        line_flag(&l, "--member", model);
    }
    line_flag(&l, "-o", in_folder_of(run, "model.safetensors", model));
    TRY(study_chain_begin(s, first, s->chains, 0, err));
    TRY(study_add(s, &l, (step_result){.file = model}, err));
    return study_evaluate_run(s, p, run, s->chains - 1, err);
}

// A seed's own training is the chain `own`.
static firm_status ensemble(study* s, places* p, const char* seed, int before, int own,
                            firm_error* err) {
    char run[LINE_WORD];
    const int first = s->chains;
    // an empty chain behind the seed's own, so that all to wait for stand together
    TRY(study_chain_begin(s, own, own + 1, 0, err));
    for (int k = 1; k <= p->members; k++) {
        // after attempts the frontend is the first model's; otherwise that of the seed's own run
        const int after = p->attempts ? before : own;
        TRY(study_chain_begin(s, after, after + 1, 0, err));
        ensemble_folder(p, seed, run);
        if (!s->only_say) TRY(file_make_dirs(run, err));
        TRY(train_member(s, p, seed, k, err));
    }
    return join(s, p, seed, first, err);
}

// Every seed and its evaluations, when the chain `before` has ended.
static firm_status train_seeds(study* s, places* p, int before, firm_error* err) {
    char run[LINE_WORD];
    if (p->attempts) {
        TRY(attempts(s, p, before, err));
        before = s->chains - 1;
    }
    for (int i = 0; i < s->seeds; i++) {
        TRY(study_chain_begin(s, before, before + 1, 0, err));
        const int own = s->chains - 1;
        if (p->attempts)
            TRY(train_again(s, p, s->seed[i], run, err));
        else
            TRY(train(s, p, s->seed[i], NULL, "seed", run, err));
        TRY(study_evaluate_run(s, p, run, own, err));
        if (p->members) TRY(ensemble(s, p, s->seed[i], before, own, err));
    }
    return FIRM_OK;
}

static firm_status ablate(study* s, places* p, int before, firm_error* err) {
    char run[LINE_WORD];
    const study_ablation* a;
    for (int i = 0; (a = study_ablation_at(s, p->spec, i)); i++) {
        for (int k = 0; k < (a->once ? 1 : s->seeds); k++) {
            TRY(study_chain_begin(s, before, before + 1, 0, err));
            s->chain[s->chains - 1].behind = 1;
            TRY(train(s, p, s->seed[k], a, "seed", run, err));
            TRY(study_evaluate_ablation(s, p, run, err));
        }
    }
    return FIRM_OK;
}

// first: the chain that trains the study's own model of the first seed, whose plans are among the
// interventions.
static firm_status add_plus(study* s, int task, int first, firm_error* err) {
    places p;
    const char* plus = study_plus(s, s->task[task]);
    if (!plus) return FIRM_OK;
    s->adding_plus = 1;
    find_places(s, task, plus, &p);
    if (!s->only_say) TRY(file_make_dirs(p.folder, err));
    TRY(study_chain_begin(s, first, first + 1, 1, err));
    int before = s->chains - 1;
    TRY(intervene(s, &p, err));
    TRY(count(s, &p, err));
    TRY(pack(s, &p, err));
    if (p.attempts) TRY(pack_for_attempts(s, &p, err));
    return train_seeds(s, &p, before, err);
}

firm_status study_add_task(study* s, int task, firm_error* err) {
    places p;
    s->adding = task;
    s->adding_plus = 0;
    find_places(s, task, NULL, &p);
    if (!s->only_say) TRY(file_make_dirs(p.folder, err));
    TRY(study_chain_begin(s, 0, 0, 1, err));
    int before = s->chains - 1;
    TRY(collect(s, &p, err));
    TRY(study_draw_trials(s, &p, err));
    TRY(intervene(s, &p, err));
    TRY(count(s, &p, err));
    TRY(pack(s, &p, err));
    TRY(study_chain_begin(s, before, before + 1, 1, err));
    TRY(study_evaluate_oracles(s, &p, task, err));
    if (args_given(s->a, "lewm")) TRY(study_evaluate_lewm(s, &p, before, err));
    int first = s->chains;
    TRY(train_seeds(s, &p, before, err));
    TRY(ablate(s, &p, before, err));
    return add_plus(s, task, first, err);
}

firm_status study_report(study* s, char page[1024], firm_error* err) {
    char folder[LINE_WORD], markdown[LINE_WORD];
    snprintf(folder, sizeof folder, "%.900s/report", s->out);
    snprintf(markdown, sizeof markdown, "%.900s/report.md", folder);
    char* argv[] = {"report", (char*)s->out, "-o", folder, "--markdown", markdown};
    cJSON* json = NULL;
    TRY(file_make_dirs(folder, err));
    TRY(cli_run(sizeof argv / sizeof *argv, argv, &json, err));
    snprintf(page, 1024, "%s", cJSON_GetObjectItemCaseSensitive(json, "page")->valuestring);
    cJSON_Delete(json);
    return FIRM_OK;
}
