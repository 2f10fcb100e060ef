// stats.c - see stats.h. Two passes over the rows in double, the second for the spread around the
// first's mean.
#include "data/stats.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "data/hdf5_read.h"

const double stats_near[STATS_NEAR] = {1.0, 0.5, 0.25};

static void lengths(const episodes* e, data_stats* s) {
    s->mean_rows = (double)e->rows / e->count;
    s->min_rows = s->max_rows = e->length[0];
    for (int i = 1; i < e->count; i++) {
        if (e->length[i] < s->min_rows) s->min_rows = e->length[i];
        if (e->length[i] > s->max_rows) s->max_rows = e->length[i];
    }
}

static void states(const episodes* e, data_stats* s) {
    const int dim = e->spec->state->dim;
    for (int k = 0; k < dim; k++) s->state_min[k] = s->state_max[k] = e->state[k];
    for (int64_t row = 0; row < e->rows; row++)
        for (int k = 0; k < dim; k++) {
            const double v = e->state[row * dim + k];
            s->state_mean[k] += v / (double)e->rows;
            s->state_min[k] = fmin(s->state_min[k], v);
            s->state_max[k] = fmax(s->state_max[k], v);
        }
    for (int64_t row = 0; row < e->rows; row++)
        for (int k = 0; k < dim; k++) {
            const double d = e->state[row * dim + k] - s->state_mean[k];
            s->state_std[k] += d * d / (double)e->rows;
        }
    for (int k = 0; k < dim; k++) s->state_std[k] = sqrt(s->state_std[k]);
}

static void actions(const episodes* e, data_stats* s) {
    const int dim = e->spec->task.action_dim;
    const double n = (double)(e->rows - e->count);  // each episode's last row has none
    if (n < 1) return;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < e->count; i++)
            for (int t = 0; t < e->length[i] - 1; t++)
                for (int k = 0; k < dim; k++) {
                    const double v = e->action[(e->offset[i] + t) * dim + k];
                    if (pass) {
                        s->action_std[k] += (v - s->action_mean[k]) * (v - s->action_mean[k]) / n;
                    } else {
                        s->action_mean[k] += v / n;
                        s->action_largest = fmax(s->action_largest, fabs(v));
                    }
                }
    for (int k = 0; k < dim; k++) s->action_std[k] = sqrt(s->action_std[k]);
}

static void pairs(const episodes* e, int offset, data_stats* s) {
    const env_spec* spec = e->spec;
    int64_t n = 0, count[STATS_NEAR] = {0};
    for (int i = 0; i < e->count; i++)
        for (int t = 0; t + offset < e->length[i]; t++, n++) {
            const double* from = e->state + (e->offset[i] + t) * spec->state->dim;
            float a[FIRM_MAX_CONFIG], b[FIRM_MAX_CONFIG];
            env_config(spec, from, a);
            env_config(spec, from + (int64_t)offset * spec->state->dim, b);
            const double units = task_tolerance_units(&spec->task, a, b);
            for (int k = 0; k < STATS_NEAR; k++) count[k] += units <= stats_near[k];
        }
    for (int k = 0; k < STATS_NEAR; k++)
        s->near[k] = n ? 100.0 * (double)count[k] / (double)n : NAN;
}

void stats_of(const episodes* e, int offset, data_stats* out) {
    memset(out, 0, sizeof *out);
    lengths(e, out);
    states(e, out);
    actions(e, out);
    pairs(e, offset, out);
}

double stats_ended(const char* path, const episodes* e) {
    hdf5_file* file = e->pixels;  // a file with pixels is open already
    double ended = NAN;
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    if (!file && hdf5_open(path, &file, NULL) != FIRM_OK) return ended;
    int8_t* flag = NULL;
    if (hdf5_width(file, "terminated") == 1 &&
        hdf5_shape(file, "terminated", &rank, dims, NULL) == FIRM_OK && dims[0] == e->rows)
        flag = mem_alloc((size_t)e->rows);
    if (flag && hdf5_get(file, "terminated", HDF5_INT8, flag, NULL) == FIRM_OK) {
        int count = 0;
        for (int i = 0; i < e->count; i++) count += flag[e->offset[i] + e->length[i] - 1] != 0;
        ended = 100.0 * count / e->count;
    }
    mem_free(flag);
    if (!e->pixels) hdf5_close(file);
    return ended;
}
