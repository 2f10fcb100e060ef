// page.c - the report page: an episode to watch first, then the table that says how often it
// arrives; everything else is folded below. Parts without data are left out. Figures are set into
// the page and kept as files of their own.
#include "report/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "io/image.h"
#include "report/animation.h"
#include "report/page_style.h"
#include "report/paper.h"
#include "report/player.h"
#include "report/study.h"
#include "report/tables.h"

typedef struct page {
    const report_data* data;
    figure_list figures;
    report_outputs* out;
    html body;
    int sections;
} page;

static report_output* add_output(report_outputs* out, const char* stem, const char* extension) {
    char name[192];
    snprintf(name, sizeof name, "%s%s", stem, extension);
    report_output* o = report_append(&out->items, &out->count, sizeof *o);
    if (o) memcpy(o->name, name, sizeof name);
    return o;
}

void report_outputs_free(report_outputs* out) {
    for (int i = 0; i < out->count; i++) html_free(&out->items[i].bytes);
    mem_free(out->items);
    memset(out, 0, sizeof *out);
}

// A part that is folded away until the reader asks for it.
static void open_fold(page* p, const char* id, const char* title, const char* note) {
    html_add(&p->body, "<details class=\"fold\" id=\"%s\"><summary>%s</summary>\n", id, title);
    if (note) html_add(&p->body, "<p class=\"note\">%s</p>\n", note);
    p->sections++;
}

static void close_fold(page* p) {
    html_put(&p->body, "</details>\n");
}

// caption is the page's own text; the title of the figure carries names from outside and is escaped
static void put_figure(page* p, const figure* f, const char* caption) {
    if (!f) return;
    html_put(&p->body, "<figure><figcaption>");
    html_text(&p->body, caption);
    html_put(&p->body, "</figcaption>\n");
    svg_inline(&p->body, f->width, f->height, f->title, &f->body);
    html_put(&p->body, "</figure>\n");
}

// ---- head ---------------------------------------------------------------------------------------

// Tasks in order of appearance; returns how many.
static int list_tasks(const report_data* data, const char** tasks, int room) {
    int n = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const char* task = report_text(data->docs[i].json, "task");
        int known = !task[0];
        for (int k = 0; k < n; k++) known |= strcmp(tasks[k], task) == 0;
        if (!known && n < room) tasks[n++] = task;
    }
    return n;
}

static void put_task_names(html* h, const report_data* data) {
    const char* tasks[16];
    int n = list_tasks(data, tasks, 16);
    for (int i = 0; i < n; i++) {
        html_put(h, i == 0 ? "" : i == n - 1 ? " and " : ", ");
        html_text(h, paper_task_title(tasks[i]));
    }
    if (!n) html_put(h, "the given runs");
}

// Did a learned model take part in anything that is shown?
static int has_model(const report_data* data) {
    int oracles = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        int oracle =
            d->kind == DOC_TRACE && strcmp(report_text(d->json, "arm"), "oracle-dynamics") == 0;
        oracle |=
            d->kind == DOC_EVAL && cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(d->json, "model"));
        if (!oracle) return 1;
        oracles++;
    }
    return oracles == 0;
}

static const char* lede(const report_data* data) {
    if (!has_model(data))
        return "Planning to a goal image by search through the true simulator. No trained model "
               "took part.";
    return "A compact world model sees camera frames and one goal image, and plans actions that "
           "lead there.";
}

static void put_head(html* h, const report_data* data) {
    html_put(h,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
             "name=\"color-scheme\" content=\"light dark\">\n<title>FIRM-WM on ");
    put_task_names(h, data);
    html_put(h, "</title>\n<style>\n");
    html_put(h, page_style);
    html_put(h, svg_style);
    html_put(h, player_style);
    html_put(h,
             "</style>\n<noscript><style>.player "
             ".live{display:none}</style></noscript>\n</head>\n<body>\n<header>\n<h1>FIRM-WM on ");
    put_task_names(h, data);
    html_put(h, "</h1>\n<p class=\"lede\">");
    html_put(h, lede(data));
    html_put(h, "</p>\n</header>\n<main>\n");
}

// ---- the episode --------------------------------------------------------------------------------

static void put_sentence(page* p, const char* cls, const char* text) {
    if (!text[0]) return;
    html_add(&p->body, "<p class=\"%s\">", cls);
    html_text(&p->body, text);
    html_put(&p->body, "</p>\n");
}

static firm_status put_episode(page* p, const report_doc* d, int number, firm_error* err) {
    trace t;
    svg_plot plot = {0};
    char stem[200];
    TRY(trace_read(d->json, d->path, &t, err));
    snprintf(stem, sizeof stem, "distance-%.60s-%.40s-%d", t.task, t.mode, number);
    figure* chart = figure_distance(&p->figures, &t, stem, &plot);
    snprintf(stem, sizeof stem, "episode-%.60s-%.40s-%d", t.task, t.mode, number);
    char slug[160];
    html_slug(stem, slug, sizeof slug);
    report_output* o = add_output(p->out, slug, ".png");
    firm_status status = o ? animation_make(&t, &o->bytes, err)
                           : FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    char* base64 =
        status == FIRM_OK ? image_base64((const uint8_t*)o->bytes.data, o->bytes.size) : NULL;
    if (status == FIRM_OK && !base64)
        status = FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    if (status == FIRM_OK) {
        if (number > 1) {
            html_put(&p->body, "<h3>");
            html_text(&p->body, paper_task_title(t.task));
            html_put(&p->body, "</h3>\n");
        }
        put_sentence(p, "caveat", t.note);
        player_put(&p->body, &t, number, chart ? &chart->body : NULL, chart ? chart->width : 0,
                   chart ? chart->height : 0, &plot, base64);
        put_sentence(p, "scenery", t.scenery);
    }
    mem_free(base64);
    trace_free(&t);
    return status;
}

static void put_legend(page* p) {
    html_put(
        &p->body,
        "<p class=\"note\">Thin lines are candidates of the last search. The strong line is "
        "the plan, with a dot per macro action; it may go on after it arrives. Green rings and "
        "lines mark the goal. ");
    html_put(&p->body, has_model(p->data) ? "The model reads distances from the pixels.</p>\n"
                                          : "Distances come from the true state.</p>\n");
}

// The first episode is what the page opens with; others are folded.
static firm_status section_episodes(page* p, firm_error* err) {
    int number = 0;
    for (int i = 0; i < p->data->doc_count; i++) {
        if (p->data->docs[i].kind != DOC_TRACE) continue;
        if (number == 0) html_put(&p->body, "<section id=\"episode\">\n");
        if (number == 1) open_fold(p, "episodes", "More episodes", NULL);
        TRY(put_episode(p, &p->data->docs[i], ++number, err));
        if (number > 1) continue;
        put_legend(p);
        html_put(&p->body, "</section>\n");
        p->sections++;
    }
    if (number > 1) close_fold(p);
    return FIRM_OK;
}

// ---- the answer ---------------------------------------------------------------------------------

typedef firm_status (*maker)(const report_data*, sheet_list*, firm_error*);

static void fold_sheet(page* p, const sheet* s) {
    open_fold(p, s->id, s->title, NULL);
    sheet_html(&p->body, s);
    close_fold(p);
}

// All sheets of a maker, each folded.
static firm_status fold_sheets(page* p, maker make, firm_error* err) {
    sheet_list list = {0};
    firm_status status = make(p->data, &list, err);
    for (int i = 0; i < list.count && status == FIRM_OK; i++) fold_sheet(p, &list.items[i]);
    sheet_list_free(&list);
    return status;
}

static firm_status put_groups(page* p, firm_error* err) {
    for (int i = 0; i < p->data->group_count; i++) {
        sheet_list list = {0};
        firm_status status = table_success(p->data, &p->data->groups[i], &list, err);
        for (int k = 0; k < list.count && status == FIRM_OK; k++) {
            html_put(&p->body, "<h3>");
            html_text(&p->body, list.items[k].title);
            html_put(&p->body, "</h3>\n");
            sheet_html(&p->body, &list.items[k]);
        }
        sheet_list_free(&list);
        TRY(status);
    }
    return FIRM_OK;
}

static void put_offsets(page* p) {
    int open = 0;
    const char* task;
    for (int i = 0; (task = study_task(p->data, i)); i++) {
        figure* f = figure_offsets(&p->figures, p->data, task);
        if (!f) continue;
        if (!open++) html_put(&p->body, "<div class=\"figures\">\n");
        put_figure(p, f, f->title);
    }
    if (open)
        html_put(&p->body,
                 "</div>\n<p class=\"note\">Whiskers are 95 % intervals (Wilson\u2019s).</p>\n");
}

static const char success_note[] =
    "All arms meet the same trials. A trial succeeds when every named distance falls below its "
    "tolerance at some control. Trials that are solved at the start are counted apart.";

// The one table that answers how often it arrives. One or two groups of trials are their own answer
// (NULL); of many, it is the shipped models' on fresh trials, else both planners'.
static const sheet* answer(const report_data* data, const sheet_list* front,
                           const sheet_list* list) {
    if (data->group_count <= 2) return NULL;
    if (front->count) return &front->items[0];
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].id, "modes") == 0) return &list->items[i];
    return NULL;
}

static firm_status put_success(page* p, const sheet_list* front, const sheet_list* list,
                               firm_error* err) {
    const sheet* first = answer(p->data, front, list);
    firm_status status = FIRM_OK;
    html_put(&p->body, "<section id=\"success\"><h2>How often it arrives</h2>\n");
    p->sections++;
    if (first) {
        sheet_html(&p->body, first);  // with a note of its own
    } else {
        html_add(&p->body, "<p class=\"note\">%s</p>\n", success_note);
        status = put_groups(p, err);
    }
    put_offsets(p);
    html_put(&p->body, "</section>\n");
    if (status == FIRM_OK && first) {
        open_fold(p, "arms", "Every arm", success_note);
        status = put_groups(p, err);
        close_fold(p);
    }
    for (int i = 0; i < list->count && status == FIRM_OK; i++) {
        // of a group or two, both planners' table is what their own tables say
        int modes = strcmp(list->items[i].id, "modes") == 0;
        if (&list->items[i] != first && (first || !modes)) fold_sheet(p, &list->items[i]);
    }
    return status;
}

static firm_status section_success(page* p, firm_error* err) {
    if (!p->data->group_count) return FIRM_OK;
    sheet_list list = {0}, front = {0};
    firm_status status = study_front(p->data, &front, err);
    if (status == FIRM_OK) status = study_success(p->data, &list, err);
    if (status == FIRM_OK) status = put_success(p, &front, &list, err);
    sheet_list_free(&front);
    sheet_list_free(&list);
    return status;
}

// ---- details ------------------------------------------------------------------------------------

static void fold_bars(page* p) {
    const report_data* data = p->data;
    int seeds = 0, paper = 0;
    if (!data->group_count) return;
    open_fold(p, "bars", "Success as bars", NULL);
    html_put(&p->body, "<div class=\"figures\">\n");
    for (int i = 0; i < data->group_count; i++) {
        char name[192];
        table_group_name(&data->groups[i], name, sizeof name);
        put_figure(p, figure_success(&p->figures, &data->groups[i]), name);
        paper |= table_has_paper(&data->groups[i]);
        for (int k = 0; k < data->groups[i].count; k++)
            seeds |= data->groups[i].entries[k].count > 1;
    }
    html_put(&p->body,
             "</div>\n<p class=\"note\">Percent of all trials; the pale part was solved at the "
             "start. Whiskers: 95 % interval");
    html_put(&p->body, seeds ? "; of several runs, one standard deviation around their mean, with "
                               "each run as a dot. "
                             : ". ");
    html_put(&p->body, paper ? "The small triangle is the paper\u2019s figure.</p>\n" : "</p>\n");
    close_fold(p);
}

static void put_pair_figures(page* p) {
    const cJSON* pair;
    html_put(&p->body, "<div class=\"figures\">\n");
    for (int i = 0; i < p->data->doc_count; i++) {
        const report_doc* d = &p->data->docs[i];
        if (d->kind != DOC_EVAL) continue;
        cJSON_ArrayForEach(pair, cJSON_GetObjectItemCaseSensitive(d->json, "pairs")) {
            figure* f = figure_pair(&p->figures, d, pair);
            if (f) put_figure(p, f, f->title);
        }
    }
    html_put(&p->body, "</div>\n");
}

static firm_status fold_pairs(page* p, firm_error* err) {
    sheet_list list = {0};
    firm_status status = table_pairs(p->data, &list, err);
    if (status == FIRM_OK && list.count) {
        open_fold(p, "pairs", list.items[0].title, NULL);
        sheet_html(&p->body, &list.items[0]);
        put_pair_figures(p);
        close_fold(p);
    }
    sheet_list_free(&list);
    return status;
}

static void fold_trials(page* p) {
    const report_data* data = p->data;
    int open = 0;
    for (int i = 0; i < data->group_count; i++) {
        figure* f = figure_trials(&p->figures, data, &data->groups[i]);
        if (!f) continue;
        if (!open++) {
            open_fold(p, "trials", "Every trial",
                      "One cell per trial, in the same place for every arm. A column of misses is "
                      "a hard trial, a lone miss an arm\u2019s own failure.");
            html_put(&p->body, "<div class=\"figures\">\n");
        }
        char name[192];
        table_group_name(&data->groups[i], name, sizeof name);
        put_figure(p, f, name);
    }
    if (!open) return;
    html_put(&p->body, "</div>\n");
    close_fold(p);
}

static void fold_rollout(page* p) {
    const char* task;
    int open = 0;
    for (int i = 0; (task = study_task(p->data, i)); i++) {
        figure* f = figure_rollout(&p->figures, p->data, task);
        if (!f) continue;
        if (!open++) {
            open_fold(p, "rollout", "Error by horizon",
                      "Error of the predicted configuration on held-out data by look-ahead, in "
                      "tolerance units: 1 is as far off as a goal that is just missed.");
            html_put(&p->body, "<div class=\"figures\">\n");
        }
        put_figure(p, f, paper_task_title(task));
    }
    if (!open) return;
    html_put(&p->body, "</div>\n");
    close_fold(p);
}

// Was this stage of this task drawn with an earlier metrics file?
static int drawn_before(const report_data* data, int metrics, const char* stage) {
    for (int i = 0; i < metrics; i++) {
        const report_metrics* m = &data->metrics[i];
        if (strcmp(data->runs[m->run].task, data->runs[data->metrics[metrics].run].task) != 0)
            continue;
        for (int k = 0; k < m->stages; k++) {
            if (strcmp(m->stage[k], stage) == 0) return 1;
        }
    }
    return 0;
}

static void fold_curves(page* p) {
    const report_data* data = p->data;
    int rows = 0;
    for (int i = 0; i < data->metrics_count; i++) rows += data->metrics[i].rows;
    if (!rows) return;
    open_fold(p, "training", "Training curves",
              "Pale lines are the recorded values, strong lines their running mean.");
    html_put(&p->body, "<div class=\"figures\">\n");
    for (int i = 0; i < data->metrics_count; i++) {
        const report_metrics* m = &data->metrics[i];
        const char* task = data->runs[m->run].task;
        for (int k = 0; k < m->stages; k++) {
            char caption[256];
            if (drawn_before(data, i, m->stage[k])) continue;
            snprintf(caption, sizeof caption, "%s%s%s", paper_task_title(task), task[0] ? ", " : "",
                     m->stage[k]);
            put_figure(p, figure_curve(&p->figures, data, task, m->stage[k]), caption);
        }
    }
    html_put(&p->body, "</div>\n");
    close_fold(p);
}

static firm_status fold_provenance(page* p, firm_error* err) {
    sheet_list list = {0};
    firm_status status = table_provenance(p->data, &list, err);
    for (int i = 0; i < list.count && status == FIRM_OK; i++) {
        open_fold(p, list.items[i].id, list.items[i].title, NULL);
        sheet_html(&p->body, &list.items[i]);
        for (int k = 0; k < p->data->run_count; k++) {
            const report_run* r = &p->data->runs[k];
            if (!r->config) continue;
            html_put(&p->body, "<details><summary>config.ini of ");
            html_text(&p->body, r->name);
            html_add(&p->body, " <span class=\"mono sd\">%016" PRIx64 "</span></summary><pre>",
                     r->config_hash);
            html_text(&p->body, r->config);
            html_put(&p->body, "</pre></details>\n");
        }
        close_fold(p);
    }
    sheet_list_free(&list);
    return status;
}

// ---- all of it ----------------------------------------------------------------------------------

static firm_status write_figures(const page* p, firm_error* err) {
    for (int i = 0; i < p->figures.count; i++) {
        const figure* f = &p->figures.items[i];
        report_output* o = add_output(p->out, f->file, ".svg");
        if (!o) return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
        svg_file(&o->bytes, f->width, f->height, f->title, &f->body);
        if (o->bytes.failed) return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    }
    return FIRM_OK;
}

static firm_status build(page* p, firm_error* err) {
    TRY(section_episodes(p, err));
    TRY(section_success(p, err));
    fold_bars(p);
    TRY(fold_sheets(p, study_pairs, err));
    TRY(fold_sheets(p, study_reasons, err));
    TRY(fold_pairs(p, err));
    fold_trials(p);
    fold_rollout(p);
    TRY(fold_sheets(p, table_runs, err));
    fold_curves(p);
    TRY(fold_sheets(p, study_means, err));
    if (!p->sections) {
        return FAIL(err, FIRM_E_MISSING,
                    "%s and the other inputs hold nothing to show; run firm train, firm eval or "
                    "firm demo first and give its folder",
                    p->data->runs[0].path);
    }
    TRY(fold_provenance(p, err));
    TRY(write_figures(p, err));
    report_output* o = add_output(p->out, "index", ".html");
    if (!o || p->body.failed || p->figures.failed)
        return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    html* h = &o->bytes;
    put_head(h, p->data);
    html_bytes(h, p->body.data, p->body.size);
    html_put(h,
             "</main>\n<footer>Every figure of this page lies beside it as an SVG file, every "
             "episode as an animated PNG. The page needs no network.</footer>\n<script>\n");
    html_put(h, player_script);
    html_put(h, "</script>\n</body>\n</html>\n");
    return h->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}

firm_status page_build(const report_data* data, report_outputs* out, firm_error* err) {
    page p = {.data = data, .out = out};
    firm_status status = build(&p, err);
    figure_list_free(&p.figures);
    html_free(&p.body);
    return status;
}
