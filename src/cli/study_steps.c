// study_steps.c - a study step by step: each is a command line of the program that is run unless
// its result is there. Here they are put together, as chains of what depends on what.
#include <string.h>

#include "cli/study.h"
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

static void line_begin(line* l, const char* command, const env_spec* spec) {
    l->words = 0;
    line_add(l, command);
    line_add(l, spec->task.name);
}

// ---- a task's steps -----------------------------------------------------------------------------

// Where the files of a task, or of its second settings, lie.
typedef struct places {
    const env_spec* spec;
    const char* plus;  // its second settings; NULL: the study's own
    int attempts;      // of plus: moments that each seed's first model attempts
    const char* anew;  // ... and the stage from which on it is then learned anew
    int searched;      // of plus: moments of searches before the attempts
    int packed;        // trainings read pack.h5
    char folder[512];
    char data[LINE_WORD], branches[LINE_WORD], structured[LINE_WORD], file[LINE_WORD];
} places;

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
    p->packed = s->packed[task][plus != NULL];
    snprintf(p->folder, sizeof p->folder, "%.400s/%s%s", s->out, spec->task.name,
             plus ? "-plus" : "");
    // both sets of settings learn from the same episodes, so their trials are the same
    snprintf(p->data, sizeof p->data, "%.400s/%s/episodes.h5", s->out, spec->task.name);
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

// LeWM on the trials of the seeds' evaluations, once: it is one model.
static firm_status evaluate_lewm(study* s, places* p, const char* mode, const char* offset,
                                 firm_error* err) {
    static line l;
    char path[LINE_WORD], model[LINE_WORD];
    snprintf(path, sizeof path, "%.900s/lewm/eval-%s-%s.json", p->folder, mode, offset);
    study_lewm(s, p->spec, model);
    line_begin(&l, "eval", p->spec);
    line_flag(&l, "--lewm", model);
    line_flag(&l, "--device", args_text(s->a, "device"));
    line_flag(&l, "--data", p->data);
    line_flag(&l, "--mode", mode);
    line_flag(&l, "--offset", offset);
    line_flag(&l, "--arms", "lewm");
    line_flag(&l, "--trials", args_text(s->a, "trials"));
    line_flag(&l, "--threads", s->threads);
    line_flag(&l, "-o", path);
    return study_add(s, &l, (step_result){.file = path}, err);
}

// One evaluation; run NULL: arms without a model, into the task's folder.
static firm_status evaluate(study* s, places* p, const char* run, const char* mode,
                            const char* offset, const char* arms, firm_error* err) {
    static line l;
    char path[LINE_WORD], model[LINE_WORD];
    if (run)
        snprintf(path, sizeof path, "%.900s/eval-%s-%s.json", run, mode, offset);
    else
        snprintf(path, sizeof path, "%.900s/eval-oracle-%s-%s.json", p->folder, mode, offset);
    line_begin(&l, "eval", p->spec);
    if (run) {
        snprintf(model, sizeof model, "%.900s/model.safetensors", run);
        line_flag(&l, "--model", model);
        line_flag(&l, "--device", args_text(s->a, "device"));
    }
    line_flag(&l, "--data", p->data);
    line_flag(&l, "--mode", mode);
    line_flag(&l, "--offset", offset);
    line_flag(&l, "--arms", arms);
    line_flag(&l, "--trials", args_text(s->a, "trials"));
    line_flag(&l, "--threads", s->threads);
    if (run && strcmp(mode, "reach") == 0) line_flag(&l, "--traces", "1");
    line_flag(&l, "-o", path);
    return study_add(s, &l, (step_result){.file = path}, err);
}

// Evaluations of every model: the paper's protocol, then our planner and farther goals.
// oracle-config beside firm is a part of the error budget.
static const struct {
    const char *mode, *offset, *arms;
} evaluations[] = {{"contract", "25", "firm,oracle-config"},
                   {"reach", "25", "firm,oracle-config"},
                   {"contract", "50", "firm"},
                   {"reach", "50", "firm"}};

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

// Evaluations of a run's model, when the chain `trained` has made it.
static firm_status evaluate_all(study* s, places* p, const char* run, int trained,
                                firm_error* err) {
    for (size_t k = 0; k < sizeof evaluations / sizeof *evaluations; k++) {
        TRY(study_chain_begin(s, trained, trained + 1, 0, err));
        TRY(evaluate(s, p, run, evaluations[k].mode, evaluations[k].offset, evaluations[k].arms,
                     err));
    }
    return FIRM_OK;
}

// All seeds of the plus settings as one, when the chains from `first` on have trained them.
static firm_status ensemble(study* s, places* p, int first, firm_error* err) {
    static line l;
    char run[LINE_WORD], model[LINE_WORD];
    const int members = s->seeds < 1 + MODEL_MEMBERS ? s->seeds : 1 + MODEL_MEMBERS;
    snprintf(run, sizeof run, "%s/ensemble", p->folder);
    if (!s->only_say) TRY(file_make_dirs(run, err));
    l.words = 0;
    line_add(&l, "export");
    for (int i = 0; i < members; i++) {
        snprintf(model, sizeof model, "%s/seed-%s/model.safetensors", p->folder, s->seed[i]);
        if (i) line_add(&l, "--member");
        line_add(&l, model);
    }
    line_flag(&l, "-o", in_folder_of(run, "model.safetensors", model));
    TRY(study_chain_begin(s, first, first + s->seeds, 0, err));
    TRY(study_add(s, &l, (step_result){.file = model}, err));
    return evaluate_all(s, p, run, s->chains - 1, err);
}

// Every seed and its evaluations, when the chain `before` has ended.
static firm_status train_seeds(study* s, places* p, int before, firm_error* err) {
    char run[LINE_WORD];
    if (p->attempts) {
        TRY(attempts(s, p, before, err));
        before = s->chains - 1;
    }
    const int first = s->chains;
    for (int i = 0; i < s->seeds; i++) {
        TRY(study_chain_begin(s, before, before + 1, 0, err));
        if (p->attempts)
            TRY(train_again(s, p, s->seed[i], run, err));
        else
            TRY(train(s, p, s->seed[i], NULL, "seed", run, err));
        if (!p->plus) TRY(evaluate_all(s, p, run, s->chains - 1, err));
    }
    // of the plus settings the trainings stand together, so that the ensemble can wait for them
    for (int i = 0; i < s->seeds && p->plus; i++) {
        snprintf(run, sizeof run, "%s/seed-%s", p->folder, s->seed[i]);
        TRY(evaluate_all(s, p, run, first + i, err));
    }
    return p->plus && s->seeds > 1 ? ensemble(s, p, first, err) : FIRM_OK;
}

static firm_status ablate(study* s, places* p, int before, firm_error* err) {
    char run[LINE_WORD];
    const study_ablation* a;
    for (int i = 0; (a = study_ablation_at(s, p->spec, i)); i++) {
        for (int k = 0; k < (a->once ? 1 : s->seeds); k++) {
            TRY(study_chain_begin(s, before, before + 1, 0, err));
            s->chain[s->chains - 1].behind = 1;
            TRY(train(s, p, s->seed[k], a, "seed", run, err));
            TRY(evaluate(s, p, run, "contract", "25", "firm", err));
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
    static const char* const modes[] = {"contract", "reach"};
    places p;
    s->adding = task;
    s->adding_plus = 0;
    find_places(s, task, NULL, &p);
    if (!s->only_say) TRY(file_make_dirs(p.folder, err));
    TRY(study_chain_begin(s, 0, 0, 1, err));
    int before = s->chains - 1;
    TRY(collect(s, &p, err));
    TRY(intervene(s, &p, err));
    TRY(count(s, &p, err));
    TRY(pack(s, &p, err));
    TRY(study_chain_begin(s, before, before + 1, 1, err));
    for (int m = 0; m < 2 && s->oracle[task]; m++)
        TRY(evaluate(s, &p, NULL, modes[m], "25", "oracle-dynamics,random", err));
    for (size_t k = 0; args_given(s->a, "lewm") && k < sizeof evaluations / sizeof *evaluations;
         k++) {
        char folder[LINE_WORD];
        snprintf(folder, sizeof folder, "%.900s/lewm", p.folder);
        if (!s->only_say) TRY(file_make_dirs(folder, err));
        TRY(study_chain_begin(s, before, before + 1, 1, err));
        TRY(evaluate_lewm(s, &p, evaluations[k].mode, evaluations[k].offset, err));
    }
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
