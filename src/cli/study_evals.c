// study_evals.c - the trials of a study and who meets them: every model in both modes, on near and
// far goals, the study's trials and fresh ones; arms without a model; LeWM.
#include <string.h>

#include "cli/study_steps.h"
#include "core/file.h"

int study_fresh(const study* s) {
    if (args_switch(s->a, "quick") && !args_given(s->a, "fresh")) return 0;
    return (int)args_int(s->a, "fresh");
}

// Evaluations of every model: the paper's protocol, then our planner and farther goals.
// oracle-config beside firm is a part of the error budget.
typedef struct evaluation {
    const char *mode, *arms;
    int offset;
} evaluation;
static const evaluation evaluations[] = {{"contract", "firm,oracle-config", 25},
                                         {"reach", "firm,oracle-config", 25},
                                         {"contract", "firm", 50},
                                         {"reach", "firm", 50},
                                         {"contract", "firm", STUDY_FAR},
                                         {"reach", "firm", STUDY_FAR}};
enum { EVALUATIONS = sizeof evaluations / sizeof *evaluations };
static const int offsets[] = {25, 50, STUDY_FAR};

int study_controls(const study* s, const env_spec* spec, int offset) {
    if (offset != STUDY_FAR) return offset;
    if (args_switch(s->a, "near") || args_switch(s->a, "quick")) return 0;
    return spec->study ? spec->study->far : 0;
}

static const char* trials_file(const places* p, const char* draw, int offset, char out[LINE_WORD]) {
    snprintf(out, LINE_WORD, "%s/%s-%d.h5", p->trials, draw, offset);
    return out;
}

static firm_status draw_trials(study* s, places* p, const char* draw, int offset, firm_error* err) {
    static line l;
    char path[LINE_WORD], text[32];
    const int fresh = strcmp(draw, "fresh") == 0;
    line_begin(&l, "trials", p->spec);
    if (!fresh) line_flag(&l, "--data", p->data);
    line_flag(&l, "--draw", draw);
    if (fresh) line_add(&l, "--unsolved");
    snprintf(text, sizeof text, "%d", fresh ? study_fresh(s) : (int)args_int(s->a, "trials"));
    line_flag(&l, "--trials", text);
    snprintf(text, sizeof text, "%d", offset);
    line_flag(&l, "--offset", text);
    line_flag(&l, "-o", trials_file(p, draw, offset, path));
    line_settings(s, p->spec, NULL, &l);
    return study_add(s, &l, (step_result){.file = path}, err);
}

// The same trials for all models, drawn once.
firm_status study_draw_trials(study* s, places* p, firm_error* err) {
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const int n = study_controls(s, p->spec, offsets[i]);
        if (n) TRY(draw_trials(s, p, "study", n, err));
        if (n && study_fresh(s)) TRY(draw_trials(s, p, "fresh", n, err));
    }
    return FIRM_OK;
}

// What one evaluation runs; the model is DIR/model.safetensors or `lewm`, both NULL for arms
// without.
typedef struct who {
    const char *run, *lewm, *folder, *label;
} who;

// label: words of the result's name before its mode, such as "fresh-".
static firm_status evaluate(study* s, places* p, const who* w, const evaluation* e,
                            const char* draw, firm_error* err) {
    static line l;
    char path[LINE_WORD], word[LINE_WORD];
    const int offset = study_controls(s, p->spec, e->offset);
    if (!offset) return FIRM_OK;
    snprintf(path, sizeof path, "%.900s/eval-%s%s%s-%d.json", w->folder, w->label,
             strcmp(draw, "fresh") == 0 ? "fresh-" : "", e->mode, offset);
    line_begin(&l, "eval", p->spec);
    if (w->run) {
        snprintf(word, sizeof word, "%.900s/model.safetensors", w->run);
        line_flag(&l, "--model", word);
    }
    if (w->lewm) line_flag(&l, "--lewm", w->lewm);
    if (w->run || w->lewm) line_flag(&l, "--device", args_text(s->a, "device"));
    line_flag(&l, "--trials-file", trials_file(p, draw, offset, word));
    line_flag(&l, "--mode", e->mode);
    line_flag(&l, "--arms", e->arms);
    line_flag(&l, "--threads", s->threads);
    if (strstr(e->arms, "oracle-dynamics")) {
        // hours of work: what is done is kept
        snprintf(word, sizeof word, "%.900s/oracle-%s", w->folder, e->mode);
        line_flag(&l, "--pieces", word);
    }
    if (w->run && strcmp(e->mode, "reach") == 0 && strcmp(draw, "study") == 0)
        line_flag(&l, "--traces", "1");
    line_flag(&l, "-o", path);
    return study_add(s, &l, (step_result){.file = path}, err);
}

// Arms without a model: random actions on the study's trials and on fresh ones, the true simulator
// on the fresh ones, which none solves at the start: the error budget's.
firm_status study_evaluate_oracles(study* s, places* p, int task, firm_error* err) {
    static const evaluation random[] = {{"contract", "random", 25}, {"reach", "random", 25}};
    static const evaluation oracle[] = {{"contract", "oracle-dynamics,random", 25},
                                        {"reach", "oracle-dynamics,random", 25}};
    for (int m = 0; m < 2; m++) {
        TRY(evaluate(s, p, &(who){.folder = p->folder, .label = "random-"}, &random[m], "study",
                     err));
        if (s->oracle[task] && study_fresh(s))
            TRY(evaluate(s, p, &(who){.folder = p->folder, .label = "oracle-"}, &oracle[m], "fresh",
                         err));
    }
    return FIRM_OK;
}

// Evaluations of a run's model, when the chain `trained` has made it.
firm_status study_evaluate_run(study* s, places* p, const char* run, int trained, firm_error* err) {
    const who w = {.run = run, .folder = run, .label = ""};
    for (int fresh = 0; fresh < (study_fresh(s) ? 2 : 1); fresh++)
        for (int k = 0; k < EVALUATIONS; k++) {
            if (!study_controls(s, p->spec, evaluations[k].offset)) continue;
            TRY(study_chain_begin(s, trained, trained + 1, 0, err));
            TRY(evaluate(s, p, &w, &evaluations[k], fresh ? "fresh" : "study", err));
        }
    return FIRM_OK;
}

// LeWM on the trials of the seeds, once: it is one model.
firm_status study_evaluate_lewm(study* s, places* p, int before, firm_error* err) {
    char folder[LINE_WORD], model[LINE_WORD];
    snprintf(folder, sizeof folder, "%.900s/lewm", p->folder);
    study_lewm(s, p->spec, model);
    if (!s->only_say) TRY(file_make_dirs(folder, err));
    for (int fresh = 0; fresh < (study_fresh(s) ? 2 : 1); fresh++)
        for (int k = 0; k < EVALUATIONS; k++) {
            evaluation e = evaluations[k];
            e.arms = "lewm";
            TRY(study_chain_begin(s, before, before + 1, 1, err));
            TRY(evaluate(s, p, &(who){.lewm = model, .folder = folder, .label = ""}, &e,
                         fresh ? "fresh" : "study", err));
        }
    return FIRM_OK;
}

firm_status study_evaluate_ablation(study* s, places* p, const char* run, firm_error* err) {
    return evaluate(s, p, &(who){.run = run, .folder = run, .label = ""},
                    &(evaluation){"contract", "firm", 25}, "study", err);
}
