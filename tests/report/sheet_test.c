// sheet_test.c - the table engine: what a table shows, and that HTML and Markdown show the same.
#include "report/sheet.h"

#include "check.h"
#include "core/mem.h"

static int contains(const char* text, const char* part) {
    return text && strstr(text, part) != NULL;
}

// Two arms, one of which measured nothing; a unit; a column of the paper's; an empty column.
static void fill(sheet_list* list) {
    sheet_new(list, "id", "A <title>", "A note.", "arm|<what|rate;%|time;s|~paper;%");
    sheet_line_new(list, SHEET_OURS);
    sheet_key(list, 2);
    sheet_put(list, "a|b");
    sheet_put(list, "x < y");
    sheet_value(list, 98.25, 1.04, 1);
    sheet_look(list, TONE_STRONG);
    sheet_none(list);
    sheet_value(list, 90, NAN, 0);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "silent");
    sheet_put(list, "words");
    sheet_value(list, NAN, NAN, 1);
    sheet_none(list);
    sheet_value(list, 80, NAN, 0);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "c");
    sheet_none(list);
    sheet_value(list, -0.04, NAN, 1);
}

TEST(report, tables_show_no_line_and_no_column_without_numbers) {
    sheet_list list = {0};
    html h = {0}, m = {0};
    fill(&list);
    sheet_html(&h, &list.items[0]);
    sheet_markdown(&m, &list.items[0]);
    EXPECT(!contains(h.data, "silent") && !contains(m.data, "silent"));
    EXPECT(!contains(h.data, "time") && !contains(m.data, "time"));
    EXPECT_TEXT(
        m.data,
        "## A &lt;title>\n\nA note.\n\n| arm | what | rate, % | paper, % |\n"
        "|---|---|---:|---:|\n"
        "| **a\\|b** | x &lt; y | 98.2 \u00b1 1.0 | 90 |\n| c | \u2013 | 0.0 | \u2013 |\n\n");
    EXPECT(contains(h.data,
                    "<tr class=\"us\"><th scope=\"row\"><i class=\"key k2\"></i>a|b</th><td "
                    "class=\"left\">x &lt; y</td><td class=\"big\">98.2<span class=\"sd\"> \u00b1 "
                    "1.0</span></td><td class=\"paper\">90</td></tr>"));
    EXPECT(contains(h.data, "<th scope=\"col\">rate<small>%</small></th>"));
    html_free(&h);
    html_free(&m);
    sheet_list_free(&list);
}

// Nothing measured: no table, whatever is quoted.
TEST(report, tables_of_quotations_alone_are_dropped) {
    sheet_list list = {0};
    sheet_new(&list, "id", "Title", NULL, "arm|rate;%");
    sheet_line_new(&list, SHEET_QUOTED);
    sheet_put(&list, "theirs");
    sheet_value(&list, 90, NAN, 1);
    sheet_line_new(&list, SHEET_OURS);
    sheet_put(&list, "ours");
    sheet_value(&list, NAN, NAN, 1);
    sheet_drop_empty(&list);
    EXPECT_INT(list.count, 0);
    sheet_new(&list, "id", "Title", NULL, "file|<made from");  // words alone are enough
    sheet_line_new(&list, SHEET_PLAIN);
    sheet_put(&list, "f");
    sheet_put(&list, "w");
    sheet_drop_empty(&list);
    EXPECT_INT(list.count, 1);
    sheet_list_free(&list);
}

TEST(report, tables_write_numbers_for_reading) {
    sheet_list list = {0};
    html m = {0};
    char long_text[600];
    memset(long_text, 'w', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    sheet_new(&list, "id", "T", NULL, "a|b|c|d|e|f|g|<h");
    sheet_line_new(&list, SHEET_PLAIN);
    sheet_count(&list, 1613442);
    sheet_figure(&list, 0.0123456);
    sheet_figure(&list, 0.00001);
    sheet_seconds(&list, 65);
    sheet_seconds(&list, 7320);
    sheet_interval(&list, -3.2, 7);
    sheet_pass(&list, 0);
    sheet_put(&list, "%s", long_text);
    sheet_put(&list, "one too many");
    sheet_markdown(&m, &list.items[0]);
    EXPECT(contains(m.data,
                    "| 1\u2009613\u2009442 | 0.0123 | 1.00e-05 | 1 min 05 s | 2 h 02 min | "
                    "\u22123.2 to 7.0 | missed |"));
    EXPECT(contains(m.data, long_text) && !contains(m.data, "one too many"));
    html_free(&m);
    sheet_list_free(&list);
}
