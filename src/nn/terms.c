// terms.c - see terms.h.
#include "nn/terms.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

static size_t size_of(const nn_graph* g, int i) {
    return (size_t)g->tensor[g->term[i].tensor].size;
}

firm_status nn_terms_make(const nn_graph* g, int batch, int shards, nn_terms* out,
                          firm_error* err) {
    *out = (nn_terms){.g = g};
    int ok = (out->term = mem_calloc((size_t)g->terms + 1, sizeof *out->term)) != NULL;
    for (int i = 0; i < g->terms && ok; i++) {
        size_t n = (size_t)batch * size_of(g, i);
        nn_term_state* t = &out->term[i];
        ok = (t->sum = mem_calloc((size_t)shards, sizeof *t->sum)) != NULL;
        if (!ok || g->term[i].reduce != NN_REDUCE_TOPMEAN) continue;
        t->error = mem_calloc(n, sizeof *t->error);
        t->seed = mem_calloc(n, sizeof *t->seed);
        t->heap = mem_calloc(n, sizeof *t->heap);
        ok = t->error && t->seed && t->heap;
    }
    return ok ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory to run a graph");
}

void nn_terms_free(nn_terms* t) {
    for (int i = 0; t->term && i < t->g->terms; i++) {
        mem_free(t->term[i].sum);
        mem_free(t->term[i].error);
        mem_free(t->term[i].seed);
        mem_free(t->term[i].heap);
    }
    mem_free(t->term);
    t->term = NULL;
}

static double real_at(const nn_term_rows* r, const void* p, size_t i) {
    return r->real == sizeof(double) ? ((const double*)p)[i] : (double)((const float*)p)[i];
}

void nn_terms_note(nn_terms* t, int i, const nn_term_rows* r, const void* value) {
    size_t size = size_of(t->g, i), n = (size_t)r->rows * size;
    nn_term_state* s = &t->term[i];
    double sum = 0;
    for (size_t j = 0; j < n; j++) {
        double x = real_at(r, value, j);
        sum += x;
        if (s->error) s->error[(size_t)r->first * size + j] = x;
    }
    s->sum[r->shard] = sum;
}

// error a is worse than b; equal errors: the earlier sample counts as worse, so the choice is fixed
static int worse(const double* error, int a, int b) {
    return error[a] > error[b] || (error[a] == error[b] && a < b);
}

static void sift_down(int* heap, int n, int i, const double* error) {
    for (;;) {
        int least = i, l = 2 * i + 1, r = l + 1;
        if (l < n && worse(error, heap[least], heap[l])) least = l;
        if (r < n && worse(error, heap[least], heap[r])) least = r;
        if (least == i) return;
        int keep = heap[i];
        heap[i] = heap[least];
        heap[least] = keep;
        i = least;
    }
}

// mean of the r largest errors: a heap of the r largest so far, its mildest member on top
static double topmean(const nn_term* term, nn_term_state* t, int n) {
    // the float nearest to 0.1 is a little more than a tenth and must not take one more element
    int r = (int)ceil((double)term->share * n * (1 - 1e-6));
    if (r < 1) r = 1;
    for (int i = 0; i < r; i++) t->heap[i] = i;
    for (int i = r / 2 - 1; i >= 0; i--) sift_down(t->heap, r, i, t->error);
    for (int i = r; i < n; i++) {
        if (!worse(t->error, i, t->heap[0])) continue;
        t->heap[0] = i;
        sift_down(t->heap, r, 0, t->error);
    }
    memset(t->seed, 0, (size_t)n * sizeof *t->seed);
    for (int i = 0; i < r; i++) t->seed[t->heap[i]] = 1;
    double sum = 0;  // in sample order, so that the value does not depend on heap layout
    for (int i = 0; i < n; i++) {
        if (t->seed[i] != 0) sum += t->error[i];
        t->seed[i] *= term->weight / (float)r;
    }
    return sum / r;
}

void nn_terms_reduce(nn_terms* t, int count, int shards) {
    t->loss = 0;
    for (int i = 0; i < t->g->terms; i++) {
        nn_term_state* s = &t->term[i];
        int n = count * (int)size_of(t->g, i);
        if (t->g->term[i].reduce == NN_REDUCE_TOPMEAN) {
            s->value = topmean(&t->g->term[i], s, n);
        } else {
            double sum = 0;
            for (int k = 0; k < shards; k++) sum += s->sum[k];
            s->value = sum / n;
        }
        t->loss += (double)t->g->term[i].weight * s->value;
    }
}

void nn_terms_seed(const nn_terms* t, int i, const nn_term_rows* r, void* grad) {
    size_t size = size_of(t->g, i), n = (size_t)r->rows * size;
    const float* chosen = t->term[i].seed;
    const double even = t->g->term[i].weight / ((double)r->total * (double)size);
    if (chosen) chosen += (size_t)r->first * size;
    for (size_t j = 0; j < n; j++) {
        if (r->real == sizeof(double))
            ((double*)grad)[j] = chosen ? chosen[j] : even;
        else
            ((float*)grad)[j] = chosen ? chosen[j] : (float)even;
    }
}
