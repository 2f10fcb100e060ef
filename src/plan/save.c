// save.c - a controller's state as bytes: what it has seen, wants and plans, and where its random
// streams stand. Model, settings and threads are not in it: a blob is restored into a controller
// that was created like the one it comes from.
#include <string.h>

#include "core/crc.h"
#include "model/lewm/lewm.h"
#include "plan/controller_internal.h"

typedef struct head {
    char kind[8];
    uint32_t checksum;         // of all that follows
    uint32_t version;          // FIRM_VERSION: the layout is a library's own
    uint32_t model, settings;  // checksums of the weights and of the search's settings
    uint64_t bytes;            // of head and state
} head;

static const char kind[8] = "firmctl";
enum { COVERED = offsetof(head, version) };

// Four sums that do not wait for one another, each changed by any change of a word: every
// controller makes this sum of its whole model when it is created, and a CRC would take longer than
// all the rest.
enum { LANES = 4 };

static void mix(uint64_t lane[LANES], const void* block) {
    uint64_t word[LANES];
    memcpy(word, block, sizeof word);
    for (int i = 0; i < LANES; i++) lane[i] = (lane[i] ^ word[i]) * 0x9e3779b97f4a7c15u;
}

static void add_weights(const nn_store* store, uint64_t lane[LANES]) {
    const size_t bytes = store->count * sizeof *store->value, block = LANES * sizeof *lane;
    const char* at = (const char*)store->value;
    char last[LANES * sizeof *lane] = {0};
    for (size_t i = 0; i + block <= bytes; i += block) mix(lane, at + i);
    memcpy(last, at + bytes / block * block, bytes % block);
    mix(lane, last);
}

uint32_t controller_weights_sum(const firm_model* m) {
    uint64_t lane[LANES] = {1, 2, 3, 4};
    add_weights(m->lewm ? m->lewm->store : m->store, lane);
    for (int i = 0; i < m->members; i++) add_weights(m->member[i]->store, lane);
    crc sum;
    crc_start(&sum);
    crc_add(&sum, m->task.name, strlen(m->task.name));
    crc_add(&sum, lane, sizeof lane);
    return crc_sum(&sum);
}

// The search's settings, member by member: a struct may have gaps.
static uint32_t settings_sum(const firm_controller* c) {
    const plan_options* o = &c->options;
    const double value[] = {
        o->mode,           o->candidates, o->iterations,  o->elites,         o->horizon,
        o->replan,         o->spread,     o->horizon_max, o->knots,          o->box,
        o->floor,          o->wide_share, o->wide_spread, o->recorded,       o->keep,
        o->price,          o->running,    o->arrive,      o->stray,          o->patience,
        c->m->members + 1, c->fan,        o->solver,      o->temperature,    o->colour,
        o->decay,          o->momentum,   o->carry,       o->ensemble_price, o->ensemble_quantile,
        o->ahead,          o->ahead_price};
    crc sum;
    crc_start(&sum);
    crc_add(&sum, value, sizeof value);
    return crc_sum(&sum);
}

static void walk(firm_controller* c, blob* b) {
    const size_t state = (size_t)c->world.model.state;
    blob_field(b, c->state, state * sizeof *c->state);
    BLOB_FIELD(b, c->strange);
    blob_field(b, c->goal, state * sizeof *c->goal);
    blob_field(b, c->named, state * sizeof *c->named);
    BLOB_FIELD(b, c->partial);
    BLOB_FIELD(b, c->has_goal);
    BLOB_FIELD(b, c->given);
    BLOB_FIELD(b, c->ready);
    blob_field(b, c->raw, (size_t)(c->longest * c->world.model.action) * sizeof *c->raw);
    plan_solver_walk(c->solver, b, &c->result);
    c->world.sight.walk(c->world.sight.context, b);
}

static size_t count(firm_controller* c) {
    blob b = {.way = BLOB_COUNT};
    walk(c, &b);
    return sizeof(head) + b.bytes;
}

static head head_of(const firm_controller* c, size_t bytes) {
    head h = {.version = FIRM_VERSION,
              .model = c->weights_sum,
              .settings = settings_sum(c),
              .bytes = bytes};
    memcpy(h.kind, kind, sizeof h.kind);
    return h;
}

static uint32_t checksum(const void* saved, size_t bytes) {
    crc sum;
    crc_start(&sum);
    crc_add(&sum, (const char*)saved + COVERED, bytes - COVERED);
    return crc_sum(&sum);
}

size_t firm_controller_state_bytes(const firm_controller* c) {
    return c ? count((firm_controller*)c) : 0;  // counting reads nothing but sizes
}

firm_status firm_controller_save(firm_controller* c, void* state, size_t bytes) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    const size_t needed = count(c);
    if (!state || bytes < needed)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "a controller's state needs %zu bytes, not %zu; ask "
                    "firm_controller_state_bytes()",
                    needed, state ? bytes : 0);
    head h = head_of(c, needed);
    blob b = {.way = BLOB_SAVE, .at = (char*)state + sizeof h};
    memcpy(state, &h, sizeof h);
    walk(c, &b);
    h.checksum = checksum(state, needed);
    memcpy(state, &h, sizeof h);
    return FIRM_OK;
}

static firm_status check(firm_controller* c, const void* state, size_t bytes) {
    head h, own = head_of(c, count(c));
    if (!state) return FAIL(&c->error, FIRM_E_USAGE, "the state to restore is NULL");
    if (bytes >= sizeof h) memcpy(&h, state, sizeof h);
    if (bytes < sizeof h || memcmp(h.kind, kind, sizeof kind) != 0)
        return FAIL(&c->error, FIRM_E_FORMAT,
                    "these bytes are no controller's state; give what firm_controller_save() made");
    if (h.version != own.version)
        return FAIL(&c->error, FIRM_E_FORMAT,
                    "the state was saved by another libfirm, version %u, this one is %u", h.version,
                    own.version);
    if (h.model != own.model)
        return FAIL(&c->error, FIRM_E_FORMAT,
                    "the state was saved with another model; load the one it was saved with");
    if (h.settings != own.settings || h.bytes != own.bytes)
        return FAIL(&c->error, FIRM_E_FORMAT,
                    "the state is of a controller with other params; create this one with the same "
                    "mode, candidates, iterations, elites, horizon and fan");
    if (bytes < h.bytes || checksum(state, own.bytes) != h.checksum)
        return FAIL(&c->error, FIRM_E_FORMAT,
                    "the state is damaged or cut off: its checksum does not hold");
    return FIRM_OK;
}

firm_status firm_controller_restore(firm_controller* c, const void* state, size_t bytes) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    TRY(check(c, state, bytes));
    blob b = {.way = BLOB_RESTORE, .at = (char*)state + sizeof(head)};  // only read
    walk(c, &b);
    c->has_truth = 0;
    c->accepted_ms = 0;
    return FIRM_OK;
}
