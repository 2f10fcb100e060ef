// trainer.c - the part of a trainer that is the same on every device: which parameters are trained,
// their rate factors, and the rows that are picked.
#include "nn/trainer.h"

#include "core/mem.h"
#include "core/rng.h"
#include "nn/gpu.h"

int64_t nn_pick_row(const nn_pick* key, int64_t update, int sample, int64_t rows) {
    uint32_t word[4];
    rng_block(key->seed, key->stream, ((uint64_t)update << 20) + (uint64_t)sample, word);
    uint64_t wide = ((uint64_t)word[0] << 32) | word[1];
    return (int64_t)(((unsigned __int128)wide * (uint64_t)rows) >> 64);
}

int nn_trainer_find(const nn_trainer* t, int entry) {
    for (int i = 0; i < t->trained_count; i++)
        if (t->trained[i].entry == entry) return i;
    return -1;
}

// same order and padding as a layout's own list, so that one part alone needs no translation
static void collect_trained(nn_trainer* t) {
    for (int p = 0; p < t->parts; p++) {
        const nn_graph* g = t->part[p].graph;
        for (int i = 0; i < g->tensors; i++) {
            const nn_tensor* x = &g->tensor[i];
            if (x->kind != NN_PARAM || !x->wants_grad || nn_trainer_find(t, x->entry) >= 0)
                continue;
            t->scale[t->trained_count] = t->opt.scale ? t->opt.scale[x->entry] : 1.0f;
            t->trained[t->trained_count++] =
                (nn_trained){.entry = x->entry, .offset = t->grad_count, .count = (size_t)x->size};
            t->grad_count += ((size_t)x->size + 15) / 16 * 16;
        }
    }
    t->opt.scale = NULL;  // the caller's
}

static const nn_trainer_kind* kind_of(const nn_device* d) {
    if (!d->queue) return &nn_trainer_cpu;
    CHECK(nn_gpu_linked(), "a queue without a device behind it");
    return nn_gpu_linked()->trainer;
}

firm_status nn_trainer_create(const nn_trainer_options* opt, const nn_part* part, int parts,
                              nn_trainer** out, firm_error* err) {
    *out = NULL;
    CHECK(parts > 0 && parts <= NN_MAX_PARTS, "%d parts", parts);
    nn_trainer* t = mem_calloc(1, sizeof *t);
    if (!t) return FAIL(err, FIRM_E_MEMORY, "no memory for training");
    t->kind = kind_of(opt->device);
    t->opt = *opt;
    t->parts = parts;
    size_t entries = (size_t)opt->store->entries + 1;
    t->trained = mem_calloc(entries, sizeof *t->trained);
    t->scale = mem_calloc(entries, sizeof *t->scale);
    int ok = t->trained && t->scale;
    for (int p = 0; p < parts; p++) {
        CHECK(part[p].weight > 0, "part %d has weight %g", p, (double)part[p].weight);
        CHECK(part[p].graph->store == opt->store, "part %d has another store", p);
        t->part[p] = part[p];
        t->term[p] = mem_calloc((size_t)part[p].graph->terms + 1, sizeof **t->term);
        ok = ok && t->term[p];
    }
    firm_status st = FIRM_OK;
    if (ok) {
        collect_trained(t);
        st = t->kind->open(t, err);
    } else {
        st = FAIL(err, FIRM_E_MEMORY, "no memory for training");
    }
    if (st != FIRM_OK) {
        nn_trainer_free(t);
        return st;
    }
    *out = t;
    return FIRM_OK;
}

void nn_trainer_free(nn_trainer* t) {
    if (!t) return;
    t->kind->close(t);
    for (int p = 0; p < t->parts; p++) mem_free(t->term[p]);
    mem_free(t->trained);
    mem_free(t->scale);
    mem_free(t);
}

firm_status nn_trainer_step(nn_trainer* t, int64_t update, firm_error* err) {
    CHECK(update == t->next, "update %lld where %lld comes next", (long long)update,
          (long long)t->next);
    TRY(t->kind->step(t, update, err));
    t->next++;
    return FIRM_OK;
}

firm_status nn_trainer_read(nn_trainer* t, firm_error* err) {
    return t->kind->read(t, err);
}

int nn_trainer_prompt(const nn_trainer* t) {
    return t->kind->prompt;
}

double nn_trainer_loss(const nn_trainer* t) {
    return t->loss;
}

double nn_trainer_term(const nn_trainer* t, int part, int term) {
    return t->term[part][term];
}

double nn_trainer_norm(const nn_trainer* t) {
    return t->norm;
}

float nn_trainer_rate(const nn_trainer* t, int64_t update) {
    return nn_schedule_rate(&t->opt.adamw, update);
}

int nn_trainer_parts(const nn_trainer* t, const nn_part** part) {
    *part = t->part;
    return t->parts;
}

firm_status nn_trainer_pull(nn_trainer* t, firm_error* err) {
    return t->kind->pull(t, err);
}

float* nn_trainer_moments(nn_trainer* t, size_t* count) {
    *count = 2 * t->grad_count;
    return t->moments;
}

firm_status nn_trainer_resume(nn_trainer* t, int64_t update, firm_error* err) {
    TRY(t->kind->resume(t, update, err));
    t->next = update;
    return FIRM_OK;
}
