// page.c - the report page: title and key figures first, then results, an episode to watch, the
// trials, the model's errors, training, and where everything came from. Sections without data are
// left out. Figures are set into the page and kept as files of their own.
#include "report/page.h"

#include <math.h>
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
    html nav, body;
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

static void open_section(page* p, const char* id, const char* title, const char* note) {
    html_add(&p->nav, "<a href=\"#%s\">%s</a>\n", id, title);
    html_add(&p->body, "<section id=\"%s\"><h2>%s</h2>\n", id, title);
    if (note) html_add(&p->body, "<p class=\"note\">%s</p>\n", note);
    p->sections++;
}

static void close_section(page* p) {
    html_put(&p->body, "</section>\n");
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

static void group_name(const report_group* g, char* out, size_t room) {
    snprintf(out, room, "%s, %s mode, goals %d controls away", paper_task_title(g->task), g->mode,
             g->offset);
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

// One value per distinct text of a key over the documents of some kinds (bits): "seed 1, 2, 3".
static int put_distinct(html* h, const report_data* data, int kinds, const char* key,
                        const char* label, int before) {
    char seen[16][96];
    int n = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const cJSON* v = cJSON_GetObjectItemCaseSensitive(data->docs[i].json, key);
        char text[96];
        if (!(kinds >> data->docs[i].kind & 1)) continue;
        table_fact(key, v, text, sizeof text);
        int known = !text[0];
        for (int k = 0; k < n; k++) known |= strcmp(seen[k], text) == 0;
        if (known || n == 16) continue;
        memcpy(seen[n], text, sizeof text);
        if (n == 0) {
            html_put(h, before ? " \u00b7 " : "");
            html_put(h, label);
        }
        html_put(h, n ? ", <b>" : " <b>");
        html_text(h, seen[n++]);
        html_put(h, "</b>");
    }
    return before || n;
}

static void put_tiles(html* h, const report_data* data) {
    int n = 0;
    for (int i = 0; i < data->group_count && n < 8; i++) {
        const report_group* g = &data->groups[i];
        for (int k = 0; k < g->count; k++) {
            const report_entry* e = &g->entries[k];
            if (strcmp(e->arm, "firm") != 0 || e->variant[0] || e->edition[0]) continue;
            html_put(h, n++ ? "" : "<div class=\"tiles\">\n");
            html_put(h, "<div class=\"tile\"><strong>");
            html_number(h, e->mean, e->mean == floor(e->mean) ? 0 : 1);
            html_put(h, "<small> %</small></strong><b>");
            html_text(h, paper_task_title(g->task));
            html_put(h, "</b>, ");
            html_text(h, g->mode);
            html_add(h, "<br>%d controls away", g->offset);
            if (table_has_paper(g)) {
                paper_value v = paper_success(g->task, "firm", "");
                html_put(h, "<br>paper ");
                table_value(h, v.mean, v.sd, 1);
            }
            html_put(h, "</div>\n");
        }
    }
    if (n) html_put(h, "</div>\n");
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

// Is one of the tasks the paper's?
static int of_the_paper(const report_data* data) {
    for (int i = 0; i < data->group_count; i++)
        if (paper_find_params(data->groups[i].task)) return 1;
    return 0;
}

static const char* lede(const report_data* data) {
    if (!has_model(data))
        return "Planning to goal images by search through the true simulator: what search alone "
               "reaches. No trained model took part.";
    if (of_the_paper(data))
        return "Planning to goal images from pixels with a compact typed world model: measured "
               "success, with the paper\u2019s numbers beside ours.";
    if (data->group_count)
        return "Planning to goal images from pixels with a compact typed world model: measured "
               "success.";
    return "Planning to goal images from pixels with a compact typed world model.";
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
    html_put(h, "</p>\n<p class=\"prov\">");
    int all = -1, any = put_distinct(h, data, all, "config_hash", "config", 0);
    any = put_distinct(h, data, 1 << DOC_TRAIN, "seed", "training seed", any);
    any = put_distinct(h, data, 1 << DOC_EVAL, "seed", "trials of seed", any);
    any = put_distinct(h, data, all, "version", "firm", any);
    put_distinct(h, data, all, "device", "device", any);
    html_put(h, "</p>\n");
}

// ---- sections -----------------------------------------------------------------------------------

static void section_success(page* p) {
    const report_data* data = p->data;
    if (!data->group_count) return;
    open_section(p, "success", "Success",
                 "All arms of a table meet the same trials. A trial succeeds when every named "
                 "distance falls below its tolerance at any step; "
                 "some are within tolerance before the first control, so success among the others "
                 "stands beside it.");
    for (int i = 0; i < data->group_count; i++) {
        const report_group* g = &data->groups[i];
        char name[256];
        group_name(g, name, sizeof name);
        html_put(&p->body, "<h3>");
        html_text(&p->body, name);
        if (g->trials) html_add(&p->body, " <span class=\"sd\">%d trials</span>", g->trials);
        html_put(&p->body, "</h3>\n");
        table_success(&p->body, data, g);
    }
    int seeds = 0;
    for (int i = 0; i < data->group_count; i++) {
        for (int k = 0; k < data->groups[i].count; k++)
            seeds |= data->groups[i].entries[k].count > 1;
    }
    html_put(&p->body, "<div class=\"figures\">\n");
    for (int i = 0; i < data->group_count; i++) {
        char name[256];
        group_name(&data->groups[i], name, sizeof name);
        put_figure(p, figure_success(&p->figures, &data->groups[i]), name);
    }
    html_put(&p->body, "</div>\n<p class=\"note\">Whiskers: 95 % interval");
    html_put(&p->body, seeds ? "; where an arm has several runs, one standard deviation around "
                               "their mean, with each run as a dot. "
                             : ". ");
    if (of_the_paper(data))
        html_put(&p->body,
                 "The small triangle marks the paper\u2019s figure where it reports one.");
    html_put(&p->body, "</p>\n");
    close_section(p);
}

// Tables that compare with the paper. A page of one run has those that its results fill.
static firm_status section_study(page* p,
                                 firm_status (*make)(const report_data*, sheet_list*, firm_error*),
                                 firm_error* err) {
    sheet_list list = {0};
    firm_status status = make(p->data, &list, err);
    for (int i = 0; i < list.count && status == FIRM_OK; i++) {
        open_section(p, list.items[i].id, list.items[i].title, NULL);
        sheet_html(&p->body, &list.items[i]);
        close_section(p);
    }
    sheet_list_free(&list);
    return status;
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
        html_put(&p->body, "<h3>");
        html_text(&p->body, paper_task_title(t.task));
        if (t.mode[0]) {
            html_put(&p->body, ", ");
            html_text(&p->body, t.mode);
            html_put(&p->body, " mode");
        }
        if (t.arm[0]) {
            html_put(&p->body, " <span class=\"sd\">planned by ");
            html_text(&p->body, t.arm);
            html_put(&p->body, "</span>");
        }
        html_put(&p->body, "</h3>\n");
        if (t.note[0]) {
            html_put(&p->body, "<p class=\"caveat\">");
            html_text(&p->body, t.note);
            html_put(&p->body, "</p>\n");
        }
        player_put(&p->body, &t, number, chart ? &chart->body : NULL, chart ? chart->width : 0,
                   chart ? chart->height : 0, &plot, base64);
    }
    mem_free(base64);
    trace_free(&t);
    return status;
}

static firm_status section_episodes(page* p, firm_error* err) {
    int number = 0;
    for (int i = 0; i < p->data->doc_count; i++) {
        if (p->data->docs[i].kind != DOC_TRACE) continue;
        if (!number) {
            open_section(
                p, "episode", "An episode, as planned",
                "Thin lines are candidates of the last search, the strong line is the "
                "plan with a dot per macro step, the green ring is the goal "
                "with its tolerance. Distances are the planner\u2019s own: firm reads them "
                "from the pixels, the oracles from the true state.");
        }
        TRY(put_episode(p, &p->data->docs[i], ++number, err));
    }
    if (number) close_section(p);
    return FIRM_OK;
}

static void section_pairs(page* p) {
    html table = {0};
    if (table_pairs(&table, p->data)) {
        open_section(p, "pairs", "Paired differences",
                     "The same trials under two arms. Rescued: won by the first arm only; harmed: "
                     "won by the second only.");
        html_bytes(&p->body, table.data, table.size);
        close_section(p);
    }
    p->body.failed |= table.failed;
    html_free(&table);
}

static void section_trials(page* p) {
    const report_data* data = p->data;
    int before = p->figures.count, open = 0;
    for (int i = 0; i < data->group_count; i++) {
        figure* f = figure_trials(&p->figures, data, &data->groups[i]);
        if (!f) continue;
        if (!open++) {
            open_section(p, "trials", "Every trial",
                         "One cell per trial, in the same place for every arm: a column of misses "
                         "is a hard trial, a lone one an arm\u2019s own failure.");
            html_put(&p->body, "<div class=\"figures\">\n");
        }
        char name[256];
        group_name(&data->groups[i], name, sizeof name);
        put_figure(p, f, name);
    }
    if (p->figures.count > before) {
        html_put(&p->body, "</div>\n");
        close_section(p);
    }
}

static void section_rollout(page* p) {
    const char* tasks[16];
    int n = list_tasks(p->data, tasks, 16), open = 0;
    for (int i = 0; i < n; i++) {
        figure* f = figure_rollout(&p->figures, p->data, tasks[i]);
        if (!f) continue;
        if (!open++) {
            open_section(p, "rollout", "Rollout error",
                         "Error of the predicted configuration on held-out data by look-ahead, in "
                         "units of the task\u2019s success tolerance (1 is as wrong as a miss).");
            html_put(&p->body, "<div class=\"figures\">\n");
        }
        put_figure(p, f, paper_task_title(tasks[i]));
    }
    if (open) {
        html_put(&p->body, "</div>\n");
        close_section(p);
    }
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

static void section_training(page* p) {
    const report_data* data = p->data;
    html table = {0};
    int gates = table_gates(&table, data), rows = table_held_out(&table, data);
    for (int i = 0; i < data->metrics_count; i++) rows += data->metrics[i].rows;
    if (gates || rows) {
        open_section(p, "training", "Training",
                     gates ? "A gate is an error on held-out data that a stage must stay below; a "
                             "run that misses one says so."
                           : NULL);
        html_bytes(&p->body, table.data, table.size);
        html_put(&p->body, "<div class=\"figures\">\n");
        for (int i = 0; i < data->metrics_count; i++) {
            const report_metrics* m = &data->metrics[i];
            const char* task = data->runs[m->run].task;
            for (int k = 0; k < m->stages; k++) {
                char caption[256];
                if (drawn_before(data, i, m->stage[k])) continue;
                snprintf(caption, sizeof caption, "%s%s%s", paper_task_title(task),
                         task[0] ? ", " : "", m->stage[k]);
                put_figure(p, figure_curve(&p->figures, data, task, m->stage[k]), caption);
            }
        }
        html_put(&p->body, "</div>\n");
        if (rows)
            html_put(&p->body,
                     "<p class=\"note\">Pale lines are the recorded values, strong lines their "
                     "running mean.</p>\n");
        close_section(p);
    }
    p->body.failed |= table.failed;
    html_free(&table);
}

static void section_model(page* p) {
    html tables = {0};
    int n = table_params(&tables, p->data);
    n += table_audit(&tables, p->data);
    n += table_bench(&tables, p->data);
    if (n) {
        open_section(p, "model", "Model, data and speed", NULL);
        html_bytes(&p->body, tables.data, tables.size);
        close_section(p);
    }
    p->body.failed |= tables.failed;
    html_free(&tables);
}

// ---- all of it ----------------------------------------------------------------------------------

static firm_status build(page* p, firm_error* err) {
    section_success(p);
    TRY(section_episodes(p, err));
    TRY(section_study(p, study_success, err));
    TRY(section_study(p, study_pairs, err));
    TRY(section_study(p, study_reasons, err));
    section_pairs(p);
    section_trials(p);
    section_rollout(p);
    section_training(p);
    if (p->data->study) TRY(section_study(p, study_means, err));
    section_model(p);
    if (!p->sections) {
        return FAIL(err, FIRM_E_MISSING,
                    "%s and the other inputs hold nothing to show; run firm train, firm eval or "
                    "firm demo first and give its folder",
                    p->data->runs[0].path);
    }
    open_section(p, "provenance", "Where it came from", NULL);
    table_provenance(&p->body, p->data);
    close_section(p);

    for (int i = 0; i < p->figures.count; i++) {
        const figure* f = &p->figures.items[i];
        report_output* o = add_output(p->out, f->file, ".svg");
        if (!o) return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
        svg_file(&o->bytes, f->width, f->height, f->title, &f->body);
        if (o->bytes.failed) return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    }
    report_output* o = add_output(p->out, "index", ".html");
    if (!o || p->nav.failed || p->body.failed || p->figures.failed)
        return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    html* h = &o->bytes;
    put_head(h, p->data);
    if (p->sections > 2) {
        html_put(h, "<nav aria-label=\"sections\">\n");
        html_bytes(h, p->nav.data, p->nav.size);
        html_put(h, "</nav>\n");
    }
    put_tiles(h, p->data);
    html_put(h, "</header>\n<main>\n");
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
    html_free(&p.nav);
    html_free(&p.body);
    return status;
}
