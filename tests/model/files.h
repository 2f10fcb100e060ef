// files.h - what the tests of model files share: a small model with statistics and settings, paths
// in the run's temporary folder, and the size field of a file's frame.
#ifndef TESTS_MODEL_FILES_H
#define TESTS_MODEL_FILES_H

#include "check.h"
#include "core/mem.h"
#include "model/checkpoint.h"
#include "tasks.h"

static inline model_shape small_shape(void) {
    return (model_shape){.channels = {2, 2, 2, 2},
                         .groups = 1,
                         .grounder_hidden = 3,
                         .history_width = 4,
                         .history_inner = 3,
                         .history_blocks = 1,
                         .history_heads = 2,
                         .belief = 3,
                         .fiber = 3,
                         .fiber_hidden = 4,
                         .hidden = 4,
                         .inner = 5,
                         .blocks = 2,
                         .grid = 7,
                         .keypoint_width = 32,
                         .history_pool = 1,
                         .grounder_residual = 256};
}

// TwoRoom, auxiliary parameters included; aborts the test program when out of memory.
static inline firm_model* small_model(uint64_t seed) {
    model_shape shape = small_shape();
    firm_model* m = NULL;
    firm_error err = {0};
    const task_typed task = test_task("tworoom");
    if (model_create(&task, &shape, 1, seed, &m, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    for (int i = 0; i < 3; i++) {
        m->stats.image_mean[i] = 0.1f + 0.3f * (float)i;
        m->stats.image_std[i] = 0.25f / (float)(i + 1);
    }
    for (int i = 0; i < m->task.action_dim; i++) {
        m->stats.action_mean[i] = -1e-7f / 3 * (float)(i + 1);
        m->stats.action_std[i] = 0.7f / (float)(i + 1);
    }
    for (int i = 0; i < m->task.chi_dim; i++) {
        m->stats.chi_mean[i] = 1.0f / 3 + (float)i;
        m->stats.chi_std[i] = 1e-20f * (float)(i + 1);
    }
    mem_free(m->config);
    m->config = mem_strdup("[model]\nhidden = 4\n");
    if (!m->config) abort();
    snprintf(m->provenance, sizeof m->provenance, "firm 0.1.0, seed %d", (int)seed);
    return m;
}

// Overwritten by the next call.
static inline const char* temp_path(const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

static inline size_t header_bytes(const char* file) {
    uint64_t n;
    memcpy(&n, file, sizeof n);
    return (size_t)n;
}

#endif
