// kinds.c - a model of LeWM behind the same handle as one of FIRM.
#include <string.h>

#include "core/mem.h"
#include "model/lewm/lewm.h"
#include "model/model.h"

firm_status model_of_lewm(lewm_model* lewm, firm_model** out, firm_error* err) {
    firm_model* m = *out = mem_calloc(1, sizeof *m);
    char* config = m ? mem_strdup(lewm->config) : NULL;
    if (!m || !config) {
        lewm_free(lewm);
        mem_free(m);
        *out = NULL;
        return FAIL(err, FIRM_E_MEMORY, "no memory for a model");
    }
    m->task = lewm->task;
    m->lewm = lewm;
    m->config = config;
    memcpy(m->stats.action_mean, lewm->action_mean, sizeof m->stats.action_mean);
    memcpy(m->stats.action_std, lewm->action_std, sizeof m->stats.action_std);
    memcpy(m->provenance, lewm->provenance, sizeof m->provenance);
    return FIRM_OK;
}
