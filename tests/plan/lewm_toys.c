// lewm_toys.c - see lewm_toys.h.
#include "lewm_toys.h"

#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "tasks.h"

task_typed toy_lewm_task(void) {
    return test_task("tworoom");
}

static int ends(const char* name, const char* with) {
    size_t n = strlen(name), k = strlen(with);
    return n >= k && strcmp(name + n - k, with) == 0;
}

static lewm_model* make(const lewm_shape* shape, uint64_t seed) {
    const task_typed task = toy_lewm_task();
    lewm_model* m = NULL;
    firm_error err = {0};
    if (lewm_create(&task, shape, seed, &m, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    for (int e = 0; e < m->store->entries; e++) {
        const nn_entry* entry = &m->store->entry[e];
        float* value = m->store->value + entry->offset;
        rng r = rng_start(seed, RNG_STREAM(RNG_TEST, (uint64_t)e));
        const int norm = strstr(entry->name, "norm") != NULL;
        for (size_t i = 0; i < entry->count; i++) {
            float x = (float)rng_gauss(&r);
            if (strncmp(entry->name, "actions.", 8) == 0)
                value[i] *= 3;  // so that actions matter
            else if (strstr(entry->name, "modulation"))
                value[i] = 0.3f * x;
            else if (ends(entry->name, "running_var"))
                value[i] = 0.5f + 0.2f * x * x;
            else if (ends(entry->name, "running_mean"))
                value[i] = 0.2f * x;
            else if (norm && ends(entry->name, "weight"))
                value[i] = 1 + 0.2f * x;
            else if (norm && ends(entry->name, "bias"))
                value[i] = 0.2f * x;
        }
    }
    return m;
}

static lewm_shape odd_shape(int context) {
    return (lewm_shape){.image = 224,
                        .patch = 56,
                        .width = 42,
                        .depth = 1,
                        .heads = 2,
                        .mlp = 20,
                        .projector = 50,
                        .context = context,
                        .predictor_depth = 3,
                        .predictor_heads = 3,
                        .predictor_head = 18,
                        .predictor_mlp = 261,  // more than one part of a hidden layer
                        .action_hidden = 5,
                        .action_mlp = 33,
                        .dropout = 0.1f};
}

lewm_model* toy_lewm(int context, uint64_t seed) {
    const lewm_shape shape = odd_shape(context);
    return make(&shape, seed);
}

lewm_model* toy_lewm_even(int context, uint64_t seed) {
    lewm_shape shape = odd_shape(context);
    shape.width = 48;
    shape.projector = 56;
    shape.predictor_heads = 2;
    shape.predictor_head = 40;
    shape.predictor_mlp = 72;
    shape.action_mlp = 32;
    return make(&shape, seed);
}

lewm_model* toy_lewm_wide(int context, uint64_t seed) {
    const lewm_shape full = lewm_shape_default();
    lewm_shape shape = odd_shape(context);
    shape.width = full.width;
    shape.projector = full.projector;
    shape.predictor_depth = 2;
    shape.predictor_heads = full.predictor_heads;
    shape.predictor_head = full.predictor_head;
    shape.predictor_mlp = full.predictor_mlp;
    shape.action_mlp = 32;
    return make(&shape, seed);
}

lewm_model* toy_lewm_full(uint64_t seed) {
    const lewm_shape full = lewm_shape_default();
    lewm_shape shape = full;
    shape.patch = 56;
    shape.depth = 1;
    return make(&shape, seed);
}
