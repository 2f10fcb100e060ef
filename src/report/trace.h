// trace.h - one traced episode, read from its JSON into what the animation and the player draw.
#ifndef REPORT_TRACE_H
#define REPORT_TRACE_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "core/status.h"

enum { TRACE_DISTANCES = 8, TRACE_GOALS = 8, TRACE_LABELS = TRACE_GOALS + 1, TRACE_LABEL = 32 };

typedef struct trace_frame {
    int step, image;      // image: index of the unique picture
    int plan;             // index of the plan in hand, -1 before the first
    int solved, arrival;  // arrival: macro step, 0 unknown
    double solve_ms;      // NAN unknown
    double distance[TRACE_DISTANCES], planned[TRACE_DISTANCES];  // NAN unknown
    const cJSON* action;                                         // list of numbers or NULL
} trace_frame;

typedef struct trace_plan {
    const cJSON* path;  // [[x, y], ...], image pixels
    const cJSON* fan;   // [[[x, y], ...], ...] or NULL
    int step;           // when it was made
} trace_plan;

// A word that stands in the picture: beside a ring of the goal, or over a place.
typedef struct trace_label {
    const char* text;
    double xy[2];  // image pixels
    int ring;      // 1: beside the ring there
} trace_label;

typedef struct trace {
    const char *task, *mode, *arm;
    const char* note;     // a sentence for the reader; "" if there is none
    const char* scenery;  // another, on what the picture shows that is no part of the task
    int macro;            // controls of a macro action; 0 unknown
    int success;
    int width, height;  // of every picture
    int image_count;
    const char** image_text;  // base64 of the PNG
    uint64_t* image_hash;     // of that text
    uint8_t* read_rgb;        // (height, width, 3): the picture read last
    const char* goal_text;    // NULL if the trace has no goal image
    uint8_t* goal_rgb;
    int goal_count;
    double goal_xy[TRACE_GOALS][2], ring;  // ring: radius in image pixels
    const cJSON* outline;                  // of what is pushed, at the goal: paths, or NULL
    int label_count;
    trace_label label[TRACE_LABELS];
    int distance_count;
    struct {
        const char *name, *unit;
        double tolerance;
    } distance[TRACE_DISTANCES];
    int frame_count, plan_count;
    trace_frame* frames;
    trace_plan* plans;
} trace;

// Frames, pixels and points are bounded, so that a small file cannot ask for much memory or time.
// `name` stands in messages. Texts point into `json`, which must live longer than *t. On failure *t
// is empty.
firm_status trace_read(const cJSON* json, const char* name, trace* t, firm_error* err);
void trace_free(trace* t);
// Decodes picture `image` of the trace into rgb (height, width, 3).
firm_status trace_picture(const trace* t, int image, uint8_t* rgb, firm_error* err);

// "agent 83.1 px from the goal"
void trace_sentence(const trace* t, const trace_frame* f, char* out, size_t room);
// What the plan in hand expects: "arrives by step 40" if it comes within tolerance, else where it
// leads: "agent 31.0 px from the goal at step 40". "" where there is no plan.
void trace_expectation(const trace* t, const trace_frame* f, char* out, size_t room);
// The frame's distances as one number: its unit if there is one distance, else the largest in
// tolerances.
double trace_worst(const trace* t, const trace_frame* f);

#endif
