// fuzz_report.c - the report's readers on arbitrary files: JSON documents (traces above all, then
// evaluations, training records and the others) and metrics.csv. What is accepted is drawn where it
// is small, and must not be more than the reader promises.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_report && build-fuzz/fuzz/fuzz_report -max_total_time=600 CORPUS
//     fuzz/corpus/report
//
// An input that begins with "stage," is a metrics.csv, any other a JSON file.
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "must.h"
#include "report/animation.h"
#include "report/inputs.h"
#include "report/page.h"
#include "report/player.h"

static void check_trace(const trace* t) {
    MUST(t->frame_count >= 1 && t->frame_count <= 5000);
    MUST(t->width >= 8 && t->width <= 1024 && t->height >= 8 && t->height <= 1024);
    MUST((int64_t)t->frame_count * t->width * t->height <= 256000000);
    for (int i = 0; i < t->frame_count; i++) {
        char text[64];
        MUST(t->frames[i].image >= 0 && t->frames[i].image < t->image_count);
        MUST(t->frames[i].plan >= -1 && t->frames[i].plan < t->plan_count);
        trace_sentence(t, &t->frames[i], text, sizeof text);
        MUST(memchr(text, 0, sizeof text));
    }
}

static void read_trace(const report_doc* d) {
    firm_error err = {0};
    trace t;
    firm_status status = trace_read(d->json, d->path, &t, &err);
    MUST(status == FIRM_OK || (status == FIRM_E_FORMAT && strstr(err.message, d->path)));
    if (status != FIRM_OK) return;
    check_trace(&t);
    if (t.frame_count <= 2 && t.width * t.height <= 4096) {
        html png = {0}, page = {0};
        svg_plot plot = {0};
        MUST(animation_make(&t, &png, NULL) == FIRM_OK && png.size > 0);
        player_put(&page, &t, 1, NULL, 0, 0, &plot, "");
        html_free(&page);
        html_free(&png);
    }
    trace_free(&t);
}

static void read_documents(const char* path) {
    firm_error err = {0};
    report_data data;
    report_outputs out = {0};
    int traces = 0;
    firm_status status = report_data_read(&path, 1, &data, &err);
    MUST(status == FIRM_OK || err.message[0]);
    if (status != FIRM_OK) return;
    for (int i = 0; i < data.doc_count; i++) {
        traces += data.docs[i].kind == DOC_TRACE;
        if (data.docs[i].kind == DOC_TRACE) read_trace(&data.docs[i]);
    }
    if (!traces) {
        status = page_build(&data, &out, &err);
        MUST(status == FIRM_OK || err.message[0]);
        report_outputs_free(&out);
    }
    report_data_free(&data);
}

static void read_curves(const char* path) {
    firm_error err = {0};
    report_metrics m;
    firm_status status = report_metrics_read(path, 0, &m, &err);
    MUST(status == FIRM_OK || (status == FIRM_E_FORMAT && strstr(err.message, path)));
    for (int i = 0; status == FIRM_OK && i < m.rows; i++) {
        MUST(m.row_stage[i] >= 0 && m.row_stage[i] < m.stages);
        MUST(isfinite(m.values[i * m.columns + m.update]));
    }
    report_metrics_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    int fd = memfd_create("report", MFD_CLOEXEC);
    char path[64];
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (size > 6 && memcmp(data, "stage,", 6) == 0)
        read_curves(path);
    else
        read_documents(path);
    close(fd);
    return 0;
}

#include "replay.h"
