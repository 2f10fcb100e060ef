// statistics.c - tokens of a frame beside those of the training frames.
#include <math.h>

#include "core/mem.h"
#include "model/model.h"

void model_drop_tokens(firm_model* m) {
    mem_free(m->token_stats);
    m->token_stats = NULL;
    m->token_radius = 0;
}

void model_pool_tokens(const firm_model* m, const float* tokens, float* pooled) {
    int count = model_token_count(m), width = model_token_width(m);
    for (int k = 0; k < width; k++) pooled[k] = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < width; k++) pooled[k] += tokens[i * width + k];
    for (int k = 0; k < width; k++) pooled[k] /= (float)count;
}

float model_token_distance(const firm_model* m, const float* pooled) {
    int width = model_token_width(m);
    const float *mean = m->token_stats, *deviation = m->token_stats + width;
    float sum = 0;
    for (int k = 0; k < width; k++) {
        // a channel that never moves may move a little
        float z = (pooled[k] - mean[k]) / (deviation[k] + 1e-3f);
        sum += z * z;
    }
    return sqrtf(sum / (float)width);
}
