// trace_test.c - what is said of a frame is true of that frame.
#include "report/trace.h"

#include "check.h"

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
    EXPECT_TEXT(text, "comes within angle 0.300 rad, block 184.0 px of the goal");
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
