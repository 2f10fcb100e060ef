// trace_test.c - what is said of a frame is true of that frame.
#include "report/trace.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "report/labels.h"
#include "sample.h"

static trace episode(trace_plan* plans) {
    trace t = {.distance_count = 2, .macro = 5, .plan_count = 1, .plans = plans};
    t.distance[0].name = "angle", t.distance[0].unit = "rad", t.distance[0].tolerance = 0.35;
    t.distance[1].name = "block", t.distance[1].unit = "px", t.distance[1].tolerance = 20;
    return t;
}

TEST(report, a_plan_arrives_only_where_it_comes_within_tolerance) {
    trace_plan plans[1] = {{.step = 10}};
    trace t = episode(plans);
    trace_frame f = {.step = 12, .arrival = 3, .distance = {1, 184}, .planned = {0.3, 19}};
    char text[256];
    trace_sentence(&t, &f, text, sizeof text);
    EXPECT_TEXT(text, "angle 1.000 rad, block 184.0 px from the goal");
    trace_expectation(&t, &f, text, sizeof text);
    EXPECT_TEXT(text, "arrives by step 25");  // made at step 10, three macro actions of five
    f.planned[1] = 184;
    trace_expectation(&t, &f, text, sizeof text);
    EXPECT_TEXT(text, "angle 0.300 rad, block 184.0 px from the goal at step 25");
    f.planned[1] = NAN;  // what is not known stands in nobody's way
    t.macro = 0;
    trace_expectation(&t, &f, text, sizeof text);
    EXPECT_TEXT(text, "arrives");
    f.planned[0] = NAN;
    trace_expectation(&t, &f, text, sizeof text);
    EXPECT_TEXT(text, "");
    f.planned[0] = 0;
    f.plan = -1;  // before the first plan
    trace_expectation(&t, &f, text, sizeof text);
    EXPECT_TEXT(text, "");
}

static double shared(label_box a, label_box b) {
    double wide = fmin(a.right, b.right) - fmax(a.left, b.left),
           high = fmin(a.bottom, b.bottom) - fmax(a.top, b.top);
    return fmin(wide, high);
}

TEST(report, labels_keep_clear_of_rings_edges_and_one_another) {
    trace t = {.width = 224, .height = 224, .goal_count = 2, .ring = 6, .label_count = 2};
    // two rings side by side, in the middle and at every edge
    for (int x = 0; x <= 204; x += 12) {
        for (int y = 0; y <= 224; y += 8) {
            label_box box[TRACE_LABELS];
            for (int i = 0; i < 2; i++) {
                t.goal_xy[i][0] = x + 20 * i, t.goal_xy[i][1] = y;
                t.label[i] = (trace_label){"agent's goal", {x + 20.0 * i, y}, 1};
            }
            labels_place(&t, 4, 9, box);
            EXPECT(shared(box[0], box[1]) <= 0);
            for (int i = 0; i < 2; i++) {
                EXPECT(box[i].left >= 0 && box[i].right <= 224);
                EXPECT(box[i].top >= 0 && box[i].bottom <= 224);
                for (int k = 0; k < 2; k++) {
                    double gx = t.goal_xy[k][0], gy = t.goal_xy[k][1];
                    EXPECT(shared(box[i], (label_box){gx - 6, gy - 6, gx + 6, gy + 6}) <= 0);
                }
            }
        }
    }
    // a word over a place stands in its middle
    t.label_count = 1;
    t.label[0] = (trace_label){"decoration", {98, 126}, 0};
    label_box box[TRACE_LABELS];
    labels_place(&t, 4, 9, box);
    EXPECT_NEAR((box[0].left + box[0].right) / 2, 98, 1e-9);
    EXPECT_NEAR(box[0].right - box[0].left, 40, 1e-9);
}

TEST(report, trace_reads_its_marks) {
    cJSON* json = sample_trace(2, "tworoom", "reach");
    firm_error err;
    trace t;
    cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "goal_names"), cJSON_CreateString("goal"));
    cJSON_AddStringToObject(json, "scenery_name", "decoration");
    const double xy[] = {98, 126};
    cJSON_AddItemToObject(json, "scenery_xy", cJSON_CreateDoubleArray(xy, 2));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "goal_outline"), cJSON_CreateArray());
    EXPECT_INT(trace_read(json, "a.json", &t, &err), FIRM_OK);
    EXPECT_INT(t.label_count, 2);
    EXPECT_TEXT(t.label[0].text, "decoration");
    EXPECT_TEXT(t.label[1].text, "goal");
    EXPECT_INT(t.label[1].ring, 1);
    EXPECT_NEAR(t.label[1].xy[0], t.goal_xy[0][0], 0);
    EXPECT(t.outline != NULL);
    trace_free(&t);
    // more names than rings, names that are none or too long for the picture: left out
    cJSON_ReplaceItemInArray(cJSON_GetObjectItemCaseSensitive(json, "goal_names"), 0,
                             cJSON_CreateString("a name that no picture has enough room for"));
    cJSON_ReplaceItemInObjectCaseSensitive(json, "scenery_name", cJSON_CreateNumber(3));
    EXPECT_INT(trace_read(json, "a.json", &t, &err), FIRM_OK);
    EXPECT_INT(t.label_count, 0);
    trace_free(&t);
    cJSON_ReplaceItemInObjectCaseSensitive(json, "goal_outline",
                                           cJSON_CreateIntArray((int[]){1}, 1));
    EXPECT_INT(trace_read(json, "a.json", &t, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "a.json: goal_outline") != NULL);
    cJSON_Delete(json);
}
