// branches_file.c - interventions as an HDF5 file: anchors (row, episode, step), branches (actions,
// all states), and for other readers the configurations and chi after each macro action. The hash
// of the episodes file they were made from is kept, so that the two cannot be mixed up.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "data/branches.h"
#include "data/hdf5.h"
#include "data/made_for.h"
#include "env/render/compare.h"

// values of the attribute `proposal`
static const char structured_name[] = "structured", mixed_name[] = "mixed",
                  planned_name[] = "planned";

static uint64_t branches_hash(const branches* b) {
    size_t items = (size_t)b->anchors * (size_t)b->per_anchor;
    size_t span = (size_t)task_span(&b->spec->task);
    uint64_t h = hdf5_hash(HDF5_HASH_START, b->row, sizeof *b->row * (size_t)b->anchors);
    h = hdf5_hash(h, b->state, items * (span + 1) * sizeof *b->state * (size_t)b->spec->state->dim);
    return hdf5_hash(h, b->action,
                     items * span * sizeof *b->action * (size_t)b->spec->task.action_dim);
}

// ---- writing ------------------------------------------------------------------------------------

// configurations and chi after each macro action, (anchors, per_anchor, horizon, config_dim |
// chi_dim)
static void fill_targets(const branches* b, float* c, float* chi) {
    const env_spec* spec = b->spec;
    const int dim = spec->state->dim, controls = spec->task.controls;
    const int macros = spec->task.horizon, states = task_span(&spec->task) + 1;
    for (int item = 0; item < b->anchors * b->per_anchor; item++)
        for (int k = 1; k <= macros; k++) {
            const double* now = b->state + ((int64_t)item * states + k * controls) * dim;
            const int64_t at = (int64_t)item * macros + k - 1;
            env_config(spec, now, c + at * spec->task.config_dim);
            env_chi(spec, now, now - dim, now - controls * dim, chi + at * spec->task.chi_dim);
        }
}

const char* branches_proposal(const branches* b) {
    if (b->anchor_class) return structured_name;
    if (b->mixed) return mixed_name;
    if (b->planned) return planned_name;
    return b->spec->collection->interventions.proposal == ENV_PROPOSAL_UNIFORM ? "uniform"
                                                                               : "clipped gaussian";
}

// Of structured sets: the anchors' classes, and what the numbers there mean.
static firm_status write_classes(hdf5_writer* w, const branches* b, firm_error* err) {
    const env_structured* set = b->spec->collection->structured;
    char names[128] = "", attribute[64];
    if (!b->anchor_class) return FIRM_OK;
    for (int i = 0; i < set->classes; i++)
        text_add(names, sizeof names, "%s%s", i ? " " : "", set->class_name[i]);
    snprintf(attribute, sizeof attribute, "%s_names", set->column);
    TRY(hdf5_put_text(w, attribute, names, err));
    names[0] = 0;
    for (int i = 0; i < set->manoeuvres; i++)
        text_add(names, sizeof names, "%s%s", i ? " " : "", set->manoeuvre_name[i]);
    TRY(hdf5_put_text(w, "manoeuvre_names", names, err));
    return hdf5_put(w, set->column, H5T_STD_I32LE, H5T_NATIVE_INT, 1,
                    &(hsize_t){(hsize_t)b->anchors}, b->anchor_class, err);
}

static firm_status write_attributes(hdf5_writer* w, const branches* b, firm_error* err) {
    char text[64];
    TRY(made_for_put(w, b->spec, err));
    TRY(hdf5_put_text(w, "kind", "interventions", err));
    snprintf(text, sizeof text, "%d.%d.%d", FIRM_VERSION / 10000, FIRM_VERSION / 100 % 100,
             FIRM_VERSION % 100);
    TRY(hdf5_put_text(w, "version", text, err));
    TRY(hdf5_put_u64(w, "seed", b->seed, err));
    TRY(hdf5_put_text(w, "proposal", branches_proposal(b), err));
    snprintf(text, sizeof text, "%s%s",
             b->spec->collection->interventions.replay ? "replay + " : "", branches_proposal(b));
    TRY(hdf5_put_text(w, "policy", text, err));
    TRY(hdf5_put_text(w, "physics", b->spec->sim->physics, err));
    TRY(hdf5_put_text(w, "renderer", render_label(b->spec), err));
    TRY(hdf5_put_u64(w, "data_hash", b->data_hash, err));
    return hdf5_put_u64(w, "checksum", branches_hash(b), err);
}

firm_status branches_write(const branches* b, const char* path, firm_error* err) {
    const env_spec* spec = b->spec;
    const hsize_t a = (hsize_t)b->anchors, k = (hsize_t)b->per_anchor;
    const hsize_t span = (hsize_t)task_span(&spec->task), macros = (hsize_t)spec->task.horizon;
    const size_t items = (size_t)b->anchors * (size_t)b->per_anchor;
    float* c = mem_calloc(items, macros * sizeof *c * (size_t)spec->task.config_dim);
    float* chi = mem_calloc(items, macros * sizeof *chi * (size_t)spec->task.chi_dim);
    hdf5_writer w;
    firm_status status =
        c && chi ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    if (status == FIRM_OK) status = hdf5_create(&w, path, err);
    if (status == FIRM_OK) {
        fill_targets(b, c, chi);
        const struct {
            const char* name;
            hid_t file_type, memory_type;
            int rank;
            hsize_t dims[4];
            const void* data;
        } column[] = {
            {"anchor_row", H5T_STD_I64LE, H5T_NATIVE_INT64, 1, {a}, b->row},
            {"state",
             H5T_IEEE_F64LE,
             H5T_NATIVE_DOUBLE,
             4,
             {a, k, span + 1, (hsize_t)spec->state->dim},
             b->state},
            {"action",
             H5T_IEEE_F32LE,
             H5T_NATIVE_FLOAT,
             4,
             {a, k, span, (hsize_t)spec->task.action_dim},
             b->action},
            {"config",
             H5T_IEEE_F32LE,
             H5T_NATIVE_FLOAT,
             4,
             {a, k, macros, (hsize_t)spec->task.config_dim},
             c},
            {"chi",
             H5T_IEEE_F32LE,
             H5T_NATIVE_FLOAT,
             4,
             {a, k, macros, (hsize_t)spec->task.chi_dim},
             chi},
        };
        status = write_attributes(&w, b, err);
        if (status == FIRM_OK) status = write_classes(&w, b, err);
        for (size_t i = 0; i < sizeof column / sizeof column[0] && status == FIRM_OK; i++)
            status = hdf5_put(&w, column[i].name, column[i].file_type, column[i].memory_type,
                              column[i].rank, column[i].dims, column[i].data, err);
        if (status == FIRM_OK)
            status = hdf5_commit(&w, err);
        else
            hdf5_abandon(&w);
    }
    mem_free(c);
    mem_free(chi);
    return status;
}

// ---- reading ------------------------------------------------------------------------------------

static firm_status check_source(hdf5_file* file, const char* path, const episodes* e,
                                firm_error* err) {
    char kind[32], task[TASK_NAME];
    made_for_name(file, task);
    if (!hdf5_get_text(file, "kind", kind, sizeof kind) || strcmp(kind, "interventions") != 0)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s does not hold interventions; give a file made by `firm intervene`", path);
    if (strcmp(task, e->spec->task.name) != 0)
        return FAIL(err, FIRM_E_TASK,
                    "%s holds interventions of '%s', not of '%s'; run `firm intervene %s`", path,
                    task, e->spec->task.name, e->spec->task.name);
    TRY(made_for_check(file, path, e->spec, err));
    uint64_t hash = 0;
    if (!hdf5_get_u64(file, "data_hash", &hash) || hash != e->hash)
        return FAIL(
            err, FIRM_E_VALUE,
            "%s was made from other episodes than the data set given; run `firm intervene` on this "
            "data set",
            path);
    return FIRM_OK;
}

static firm_status check_shapes(hdf5_file* file, const char* path, const env_spec* spec,
                                branches* b, firm_error* err) {
    int rank, rank2, rank3, span = task_span(&spec->task);
    int64_t rows[HDF5_MAX_RANK], state[HDF5_MAX_RANK], action[HDF5_MAX_RANK];
    TRY(hdf5_shape(file, "anchor_row", &rank, rows, err));
    TRY(hdf5_shape(file, "state", &rank2, state, err));
    TRY(hdf5_shape(file, "action", &rank3, action, err));
    int fit = rank == 1 && rank2 == 4 && rank3 == 4 && rows[0] >= 1 && rows[0] <= 1000000 &&
              state[0] == rows[0] && action[0] == rows[0] && state[1] >= 1 && state[1] <= 65536 &&
              state[1] == action[1] && state[2] == span + 1 && action[2] == span &&
              state[3] == spec->state->dim && action[3] == spec->task.action_dim &&
              rows[0] * state[1] <= INT32_MAX / (span + 1);
    if (!fit)
        return FAIL(err, FIRM_E_FORMAT,
                    "the columns of %s do not fit each other; run `firm intervene` again", path);
    b->anchors = (int)rows[0];
    b->per_anchor = (int)state[1];
    return FIRM_OK;
}

// Structured sets say so in `proposal` and tell the class of every anchor.
static firm_status read_classes(hdf5_file* file, const char* path, branches* b, firm_error* err) {
    const env_structured* set = b->spec->collection->structured;
    char proposal[32];
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    if (!hdf5_get_text(file, "proposal", proposal, sizeof proposal)) return FIRM_OK;
    b->mixed = strcmp(proposal, mixed_name) == 0;
    b->planned = strcmp(proposal, planned_name) == 0;
    if (strcmp(proposal, structured_name) != 0) return FIRM_OK;
    if (!set)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is a structured set, which the task '%s' does not have; run `firm "
                    "intervene` again",
                    path, b->spec->task.name);
    TRY(hdf5_shape(file, set->column, &rank, dims, err));
    if (rank != 1 || dims[0] != b->anchors)
        return FAIL(err, FIRM_E_FORMAT,
                    "the columns of %s do not fit each other; run `firm intervene` again", path);
    b->anchor_class = mem_calloc((size_t)b->anchors, sizeof *b->anchor_class);
    if (!b->anchor_class) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    TRY(hdf5_get(file, set->column, HDF5_INT32, b->anchor_class, err));
    for (int i = 0; i < b->anchors; i++)
        if (b->anchor_class[i] < 0 || b->anchor_class[i] >= set->classes)
            return FAIL(err, FIRM_E_FORMAT,
                        "anchor %d of %s has the unknown class %d; run `firm intervene` again", i,
                        path, b->anchor_class[i]);
    return FIRM_OK;
}

// An anchor has a history, and what is restored and reached are states of the task.
static firm_status check_numbers(const char* path, const episodes* e, const branches* b,
                                 firm_error* err) {
    const int dim = e->spec->state->dim, span = task_span(&e->spec->task);
    const int64_t states = (int64_t)b->anchors * b->per_anchor * (span + 1),
                  actions = (int64_t)b->anchors * b->per_anchor * span;
    for (int i = 0; i < b->anchors; i++) {
        const int64_t row = b->row[i];
        if (row < 0 || row >= e->rows ||
            row - e->offset[episodes_of_row(e, row)] < FIRM_HISTORY - 1)
            return FAIL(err, FIRM_E_VALUE,
                        "anchor %d of %s is row %" PRId64 " of %" PRId64
                        ", which is none or begins an episode; run `firm intervene` again",
                        i, path, row, e->rows);
    }
    for (int64_t i = 0; i < states; i++) {
        int fine = 1;
        for (int k = 0; k < dim; k++) fine = fine && isfinite(b->state[i * dim + k]);
        if (!fine || !env_fits(e->spec, b->state + i * dim))
            return FAIL(err, FIRM_E_VALUE,
                        "a state of branch %" PRId64 " of %s %s; run `firm intervene` again",
                        i / (span + 1), path, fine ? "cannot occur in the task" : "is not finite");
    }
    for (int64_t i = 0; i < actions * e->spec->task.action_dim; i++)
        if (!isfinite(b->action[i]))
            return FAIL(err, FIRM_E_VALUE,
                        "an action in %s is not finite; run `firm intervene` again", path);
    return FIRM_OK;
}

static firm_status fill(hdf5_file* file, const char* path, const episodes* e, branches* b,
                        firm_error* err) {
    const env_spec* spec = e->spec;
    TRY(check_shapes(file, path, spec, b, err));
    const size_t items = (size_t)b->anchors * (size_t)b->per_anchor;
    const size_t span = (size_t)task_span(&spec->task);
    b->row = mem_calloc((size_t)b->anchors, sizeof *b->row);
    b->state = mem_calloc(items, (span + 1) * sizeof *b->state * (size_t)spec->state->dim);
    b->action = mem_calloc(items, span * sizeof *b->action * (size_t)spec->task.action_dim);
    if (!b->row || !b->state || !b->action)
        return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    TRY(hdf5_get(file, "anchor_row", HDF5_INT64, b->row, err));
    TRY(hdf5_get(file, "state", HDF5_DOUBLE, b->state, err));
    TRY(hdf5_get(file, "action", HDF5_FLOAT, b->action, err));

    TRY(read_classes(file, path, b, err));
    uint64_t checksum = 0;
    if (!hdf5_get_u64(file, "checksum", &checksum) || checksum != branches_hash(b))
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s does not match its checksum: it was changed or damaged; run `firm intervene` again",
            path);
    return check_numbers(path, e, b, err);
}

firm_status branches_read(const char* path, const episodes* e, branches** out, firm_error* err) {
    *out = NULL;
    hdf5_file* file;
    TRY(hdf5_open(path, &file, err));
    firm_status status = check_source(file, path, e, err);
    branches* b = NULL;
    if (status == FIRM_OK) {
        b = mem_calloc(1, sizeof *b);
        status = b ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    }
    if (status == FIRM_OK) {
        *b = (branches){.spec = e->spec, .data_hash = e->hash};
        hdf5_get_u64(file, "seed", &b->seed);
        status = fill(file, path, e, b, err);
    }
    hdf5_close(file);
    if (status != FIRM_OK) {
        branches_free(b);
        return status;
    }
    *out = b;
    return FIRM_OK;
}
