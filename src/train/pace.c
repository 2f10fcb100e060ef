// pace.c - see pace.h.
#include "train/pace.h"

#include "core/clock.h"
#include "core/fma.h"
#include "nn/count.h"

static firm_status operations(const nn_part* part, int parts, double* sum, firm_error* err) {
    *sum = 0;
    for (int i = 0; i < parts; i++) {
        double each;
        TRY(nn_count_products(part[i].graph, 1, &each, err));
        *sum += each * part[i].batch;
    }
    return FIRM_OK;
}

// The multiply-add rate now, and how long it took to find out.
static double look_at_machine(pool* p, double* rate) {
    double begun = clock_seconds();
    *rate += fma_measure(p, 20);
    return clock_seconds() - begun;
}

static firm_status make_updates(nn_trainer* t, pool* p, double seconds, train_pace* out,
                                firm_error* err) {
    double away = 0, started = 0;
    int64_t n = 0, warm = nn_trainer_prompt(t) ? 1 : 8, every = nn_trainer_prompt(t) ? 1 : 16;
    for (;; n++) {
        int look = n >= warm && (n - warm) % every == 0;
        if (look) TRY(nn_trainer_read(t, err));
        if (n == warm) started = clock_seconds();
        double spent = clock_seconds() - started - away;
        if (n >= warm && nn_trainer_prompt(t) && spent >= out->fma_count) {
            away += look_at_machine(p, &out->fma_sum);
            out->fma_count++;
        }
        if (look && n > warm && spent > seconds) break;
        TRY(nn_trainer_step(t, n, err));
    }
    out->updates_per_s = (double)(n - warm) / (clock_seconds() - started - away);
    return FIRM_OK;
}

firm_status train_pace_measure(const nn_trainer_options* opt, const nn_part* part, int parts,
                               double seconds, train_pace* out, firm_error* err) {
    nn_trainer* t;
    double work;
    *out = (train_pace){0};
    TRY(operations(part, parts, &work, err));
    TRY(nn_trainer_create(opt, part, parts, &t, err));
    firm_status st = make_updates(t, opt->p, seconds, out, err);
    nn_trainer_free(t);
    out->gflop = work * 1e-9;
    if (out->fma_count)
        out->fraction = out->updates_per_s * out->gflop / (out->fma_sum / out->fma_count);
    return st;
}
