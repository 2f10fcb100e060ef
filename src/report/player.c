// player.c - the markup and data of the episode player: pictures as data URIs (equal ones once),
// plans as SVG point lists, and the sentence of every frame as the animation shows it.
#include "report/player.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/labels.h"
#include "report/paper.h"

const char player_style[] =
    ".player{margin:.6rem 0 1rem;outline-offset:6px}\n"
    ".player .live{display:grid;grid-template-columns:minmax(0,448px) "
    "minmax(0,1fr);gap:1.6rem;align-items:start}\n"
    ".stage{position:relative;line-height:0;border:1px solid "
    "var(--line);border-radius:3px;overflow:hidden;background:#fff}\n"
    ".stage .frame{width:100%;height:auto;image-rendering:pixelated}\n"
    ".stage svg{position:absolute;inset:0;width:100%;height:100%}\n"
    ".stage polyline{fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
    ".fan polyline{stroke:#3265a8;stroke-width:.7;opacity:.24}\n"
    ".stage .halo{stroke:#fff;stroke-width:2.6;opacity:.75}.stage "
    ".plan{stroke:#3265a8;stroke-width:1.4}\n"
    ".dots circle{fill:#3265a8;stroke:#fff;stroke-width:.7}\n"
    ".goal .outer{fill:none;stroke:#fff;stroke-width:2.3;opacity:.8}.goal "
    ".inner{fill:none;stroke:#377e55;stroke-width:1.2}\n"
    ".goal .centre{fill:#377e55}\n"
    ".outline polyline{stroke:#fff;stroke-width:2.4;opacity:.8}.outline .inner{stroke:#377e55;"
    "stroke-width:1.2;stroke-dasharray:3 2.4;opacity:1}\n"
    ".names text{font-family:var(--sans);font-weight:600;fill:#1d2126;stroke:#fff;stroke-width:2;"
    "stroke-linejoin:round;paint-order:stroke;text-anchor:middle}.names .goal-name{fill:#22603c}\n"
    ".no-fan .fan,.no-plan .path,.no-plan .dots{display:none}\n"
    ".say{font-size:1.2rem;line-height:1.35;margin:0 0 "
    ".8rem;min-height:2.7em;font-variant-numeric:tabular-nums}\n"
    ".facts{display:grid;grid-template-columns:96px 1fr;gap:1.1rem;margin-bottom:1rem}\n"
    ".facts figure{margin:0;font:12px var(--sans);color:var(--soft)}\n"
    ".facts img{display:block;width:96px;border:2px solid "
    "#377e55;border-radius:2px;margin-bottom:.25rem}\n"
    ".facts dl{margin:0;display:grid;grid-template-columns:auto 1fr;gap:.28rem "
    ".9rem;font:13.5px/1.4 var(--sans);align-content:start;font-variant-numeric:tabular-nums}\n"
    ".facts dt{color:var(--soft)}.facts dd{margin:0}\n"
    ".chart svg{cursor:pointer;touch-action:pan-y;max-width:480px}\n"
    ".controls{display:flex;flex-wrap:wrap;gap:.6rem "
    "1rem;align-items:center;margin-top:.8rem;font:14px var(--sans)}\n"
    ".controls button{font:600 14px var(--sans);min-width:4.8rem;padding:.42rem .8rem;border:1px "
    "solid var(--blue);border-radius:3px;background:var(--blue);color:var(--page);cursor:pointer}\n"
    ".controls .range{flex:1 1 9rem;accent-color:var(--blue);min-width:0}\n"
    ".controls label{display:inline-flex;gap:.35rem;align-items:center;white-space:nowrap}\n"
    ".player .verdict,.player.ended .pending{display:none}.player.ended "
    ".verdict{display:inline;font-weight:600}.verdict.yes{color:var(--green)}.verdict.no{color:var("
    "--orange)}\n"
    "@media (max-width:760px){.player .live{grid-template-columns:minmax(0,1fr);gap:.9rem}"
    ".controls{margin-top:.6rem;gap:.5rem .6rem}.controls "
    ".range{flex-basis:4rem}.say{font-size:1.08rem}}\n";

// [[x, y], ...] as "x,y x,y"; far points are cut to what SVG readers can take
static void put_points(html* h, const cJSON* path) {
    const cJSON* p;
    int first = 1;
    html_put(h, "\"");
    cJSON_ArrayForEach(p, path) {
        double x = fmax(-9999, fmin(9999, p->child->valuedouble)),
               y = fmax(-9999, fmin(9999, p->child->next->valuedouble));
        html_add(h, "%s%.1f,%.1f", first ? "" : " ", x, y);
        first = 0;
    }
    html_put(h, "\"");
}

static void put_plans(html* h, const trace* t) {
    html_put(h, "\"plans\":[");
    for (int i = 0; i < t->plan_count; i++) {
        const cJSON* path;
        int n = 0;
        html_put(h, i ? ",\n{\"p\":" : "\n{\"p\":");
        put_points(h, t->plans[i].path);
        html_put(h, ",\"f\":[");
        cJSON_ArrayForEach(path, t->plans[i].fan) {
            if (n == 100) break;  // more lines than can be told apart
            if (n++) html_put(h, ",");
            put_points(h, path);
        }
        html_put(h, "]}");
    }
    html_put(h, "]");
}

static void put_frame(html* h, const trace* t, const trace_frame* f) {
    char text[256];
    trace_sentence(t, f, text, sizeof text);
    html_add(h, "{\"i\":%d,\"s\":%d,\"p\":%d,\"w\":", f->image, f->step, f->plan);
    html_json(h, text);
    html_put(h, ",\"a\":\"");
    const cJSON* a;
    int n = 0;
    cJSON_ArrayForEach(a, f->action) {
        if (!cJSON_IsNumber(a) || n == 8) break;
        html_put(h, n++ ? ", " : "");
        html_number(h, a->valuedouble, 2);
    }
    if (!n) html_put(h, "\u2013");
    html_put(h, "\",\"n\":\"");
    if (f->solved && isfinite(f->solve_ms)) {
        html_add(h, "new plan, %.1f ms", f->solve_ms);
    } else {
        html_put(h, f->solved ? "new plan" : f->plan >= 0 ? "following the plan" : "\u2013");
    }
    html_put(h, "\",\"e\":");
    trace_expectation(t, f, text, sizeof text);
    html_json(h, text[0] ? text : "\u2013");
    html_put(h, "}");
}

static void put_data(html* h, const trace* t) {
    html_put(h, "<script type=\"application/json\">{\"images\":[");
    for (int i = 0; i < t->image_count; i++)
        html_add(h, "%s\"%s\"", i ? ",\n" : "\n", t->image_text[i]);
    html_put(h, "],\n");
    put_plans(h, t);
    html_put(h, ",\n\"frames\":[");
    for (int i = 0; i < t->frame_count; i++) {
        html_put(h, i ? ",\n" : "\n");
        put_frame(h, t, &t->frames[i]);
    }
    html_put(h, "]}</script>\n");
}

static void put_outline(html* h, const trace* t, const char* cls) {
    const cJSON* path;
    cJSON_ArrayForEach(path, t->outline) {
        html_add(h, "<polyline class=\"%s\" points=", cls);
        put_points(h, path);
        html_put(h, "/>");
    }
}

// Letters are a thirtieth of the picture high, and seldom wider than 0.62 of that.
static void put_names(html* h, const trace* t) {
    double size = fmax(t->width, t->height) / 30.0;
    label_box box[TRACE_LABELS];
    labels_place(t, 0.62 * size, 1.2 * size, box);
    html_add(h, "<g class=\"names\" font-size=\"%.2f\">", size);
    for (int i = 0; i < t->label_count; i++) {
        html_add(h, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">",
                 t->label[i].ring ? "goal-name" : "other-name", (box[i].left + box[i].right) / 2,
                 (box[i].top + box[i].bottom) / 2 + 0.35 * size);
        html_text(h, t->label[i].text);
        html_put(h, "</text>");
    }
    html_put(h, "</g>");
}

static void put_stage(html* h, const trace* t) {
    html_add(h,
             "<div class=\"stage\"><img class=\"frame\" decoding=\"sync\" alt=\"what the camera "
             "sees\" width=\"%d\" height=\"%d\" src=\"data:image/png;base64,%s\">\n",
             t->width, t->height, t->image_text[t->frames[0].image]);
    html_add(h,
             "<svg class=\"over\" viewBox=\"0 0 %d %d\" aria-hidden=\"true\"><g "
             "transform=\"translate(.5 .5)\">\n",
             t->width, t->height);
    html_put(h,
             "<g class=\"fan\"></g><polyline class=\"path halo\" points=\"\"/><polyline "
             "class=\"path plan\" points=\"\"/><g class=\"dots\"></g><g class=\"outline\">");
    put_outline(h, t, "outer");
    put_outline(h, t, "inner");
    html_put(h, "</g><g class=\"goal\">\n");
    for (int i = 0; i < t->goal_count; i++) {
        double x = t->goal_xy[i][0], y = t->goal_xy[i][1];
        html_add(h,
                 "<circle class=\"outer\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/><circle "
                 "class=\"inner\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>"
                 "<circle class=\"centre\" cx=\"%.1f\" cy=\"%.1f\" r=\"1.3\"/>\n",
                 x, y, t->ring, x, y, t->ring, x, y);
    }
    html_put(h, "</g>");
    put_names(h, t);
    html_put(h, "</g></svg></div>\n");
}

static void put_side(html* h, const trace* t, const html* chart, double width, double height,
                     const svg_plot* p) {
    char text[256];
    trace_sentence(t, &t->frames[0], text, sizeof text);
    html_put(h, "<div class=\"side\"><p class=\"say\">");
    html_text(h, text);
    html_put(h, "</p>\n<div class=\"facts\">");
    if (t->goal_text) {
        html_add(
            h,
            "<figure><img alt=\"goal image\" src=\"data:image/png;base64,%s\">goal image</figure>",
            t->goal_text);
    } else {
        html_put(h, "<span></span>");
    }
    html_put(h, "<dl><dt>planned by</dt><dd>");
    html_text(h, t->arm[0] ? t->arm : "\u2013");
    if (t->mode[0]) {
        html_put(h, ", ");
        html_text(h, t->mode);
        html_put(h, " mode");
    }
    html_put(h,
             "</dd><dt>step</dt><dd class=\"step\"></dd><dt>control</dt><dd "
             "class=\"action\"></dd><dt>planner</dt><dd class=\"solve\"></dd>"
             "<dt>the plan</dt><dd class=\"expects\"></dd><dt>outcome</dt>");
    html_add(h,
             "<dd><span class=\"verdict %s\">%s</span><span class=\"pending\">on the way</span>"
             "</dd></dl></div>\n",
             t->success ? "yes" : "no", t->success ? "goal reached" : "goal missed");
    if (chart) {
        html_add(h,
                 "<div class=\"chart\"><svg class=\"fig\" viewBox=\"0 0 %g %g\" role=\"img\" "
                 "aria-label=\"distance to the goal over time\" "
                 "data-left=\"%g\" data-right=\"%g\" data-top=\"%g\" data-bottom=\"%g\" "
                 "data-x0=\"%g\" data-x1=\"%g\">\n",
                 width, height, p->left, p->right, p->top, p->bottom, p->x0, p->x1);
        html_bytes(h, chart->data, chart->size);
        h->failed |= chart->failed;
        html_put(h, "</svg></div>\n");
    }
    html_put(h, "</div>\n");
}

void player_put(html* h, const trace* t, int number, const html* chart, double chart_width,
                double chart_height, const svg_plot* plot, const char* apng_base64) {
    html_add(h,
             "<div class=\"player\" id=\"episode-%d\" tabindex=\"0\">\n<div class=\"live\"><div>\n",
             number);
    put_stage(h, t);
    html_add(
        h,
        "<div class=\"controls\"><button type=\"button\" class=\"play\">Play</button>"
        "<input type=\"range\" class=\"range\" min=\"0\" max=\"%d\" value=\"0\" "
        "aria-label=\"frame\">"
        "<label><input type=\"checkbox\" class=\"toggle\" value=\"fan\" checked> candidates</label>"
        "<label><input type=\"checkbox\" class=\"toggle\" value=\"plan\" checked> "
        "plan</label></div></div>\n",
        t->frame_count - 1);
    put_side(h, t, chart, chart_width, chart_height, plot);
    html_put(h, "</div>\n");
    html_add(h,
             "<noscript><img class=\"moving\" alt=\"the episode as a moving picture\" "
             "src=\"data:image/png;base64,%s\"></noscript>\n",
             apng_base64);
    put_data(h, t);
    html_put(h, "</div>\n");
}
