// measure.c - distances, costs and places of typed configurations.
//
// The planner minimises task_cost_value or arrives by task_tolerance_units, in which gates, audits
// and plots speak, too.
#include <math.h>

#include "task/task.h"

static int is_free(const uint8_t* given, int coordinate) {
    return given && !given[coordinate];
}

uint32_t task_priced(const task_typed* t) {
    uint32_t bits = 0;
    for (int i = 0; i < t->distances; i++) {
        const task_rule* r = &t->distance[i].rule;
        for (int k = 0; k < (r->angle ? 2 : r->count); k++) bits |= 1u << (r->first + k);
    }
    return bits;
}

void task_measure_given(const task_typed* t, const uint8_t* given, const float* c,
                        const float* goal, float* distance) {
    for (int i = 0; i < t->distances; i++) {
        const task_rule* r = &t->distance[i].rule;
        const float *a = c + r->first, *b = goal + r->first;
        if (r->angle) {
            // of the rotation between the two directions; their lengths do not matter
            distance[i] = is_free(given, r->first)
                              ? 0.0f
                              : fabsf(atan2f(a[0] * b[1] - a[1] * b[0], a[1] * b[1] + a[0] * b[0]));
            continue;
        }
        float sum = 0.0f;
        for (int k = 0; k < r->count; k++)
            if (!is_free(given, r->first + k)) sum += (a[k] - b[k]) * (a[k] - b[k]);
        distance[i] = r->scale * sqrtf(sum);
    }
}

float task_tolerance_units_given(const task_typed* t, const uint8_t* given, const float* c,
                                 const float* goal) {
    float distance[TASK_MAX_DISTANCE];
    task_measure_given(t, given, c, goal, distance);
    float worst = 0.0f;
    for (int i = 0; i < t->distances; i++) {
        float units = distance[i] / t->distance[i].tolerance;
        if (!(units >= 0.0f)) return INFINITY;  // not a number is infinitely far, never reached
        if (units > worst) worst = units;
    }
    return worst;
}

float task_cost_value_given(const task_typed* t, const uint8_t* given, const float* c,
                            const float* goal) {
    if (t->cost == TASK_COST_MAX) {
        float units = task_tolerance_units_given(t, given, c, goal);
        return units * units;
    }
    // sine-cosine pairs lie on the unit circle, so their squared difference is the squared chord
    const uint32_t priced = task_priced(t);
    float sum = 0.0f;
    for (int i = 0; i < t->config_dim; i++) {
        float d = c[i] - goal[i];
        if ((priced >> i & 1) && !is_free(given, i)) sum += d * d;
    }
    return sum;
}

void task_measure(const task_typed* t, const float* c, const float* goal, float* distance) {
    task_measure_given(t, NULL, c, goal, distance);
}

float task_tolerance_units(const task_typed* t, const float* c, const float* goal) {
    return task_tolerance_units_given(t, NULL, c, goal);
}

float task_cost_value(const task_typed* t, const float* c, const float* goal) {
    return task_cost_value_given(t, NULL, c, goal);
}

int task_is_visible(const task_typed* t, const float* c) {
    for (int i = 0; i < t->ranges; i++) {
        const task_range* r = &t->visible[i];
        if (!(c[r->coordinate] >= r->low && c[r->coordinate] <= r->high)) return 0;
    }
    return 1;
}

// Pair k becomes the sine and cosine of the sum of the angles 0 .. k.
static void add_angles(const task_typed* t, float* c) {
    for (int k = 1; k < t->pairs; k++) {
        const float* before = c + 2 * (k - 1);
        float sin = c[2 * k], cos = c[2 * k + 1];
        c[2 * k] = before[0] * cos + before[1] * sin;
        c[2 * k + 1] = before[1] * cos - before[0] * sin;
    }
}

static float weigh(const task_typed* t, const float* weight, const float* c) {
    float sum = weight[t->config_dim];
    for (int i = 0; i < t->config_dim; i++) sum += weight[i] * c[i];
    return sum;
}

void task_project(const task_typed* t, const float* c, float* xy) {
    float straight[FIRM_MAX_CONFIG], chain[FIRM_MAX_CONFIG];
    for (int i = 0; i < t->config_dim; i++) straight[i] = chain[i] = c[i];
    add_angles(t, chain);
    for (int p = 0; p < t->points; p++) {
        const float* from = t->point[p].chain ? chain : straight;
        float w = weigh(t, t->point[p].w, from);
        if (!(w > 1e-6f)) w = 1e-6f;  // beside or behind the camera: far away
        xy[2 * p] = weigh(t, t->point[p].x, from) / w;
        xy[2 * p + 1] = weigh(t, t->point[p].y, from) / w;
    }
}

void task_situation(const task_typed* t, const float* c, const float* chi, const float* goal,
                    float* out) {
    static const float zero = 0.0f;
    for (int i = 0; i < t->situation_dim; i++) {
        const task_term* term = &t->situation[i];
        const float* value[2];
        for (int k = 0; k < 2; k++) {
            const task_ref* r = k ? &term->minus : &term->plus;
            value[k] = r->of == TASK_CONFIG ? c + r->index
                       : r->of == TASK_CHI  ? chi + r->index
                       : r->of == TASK_GOAL ? goal + r->index
                                            : &zero;
        }
        out[i] = term->times * (*value[0] - *value[1]) / term->over;
    }
}

int task_situation_reads_chi(const task_typed* t) {
    for (int i = 0; i < t->situation_dim; i++)
        if (t->situation[i].plus.of == TASK_CHI || t->situation[i].minus.of == TASK_CHI) return 1;
    return 0;
}
