// trainer_kind.h - what a device provides behind trainer.h: a table of functions over the state
// that trainer.c prepares. The host's is trainer_cpu.c, a GPU's cuda/trainer.c.
#ifndef NN_TRAINER_KIND_H
#define NN_TRAINER_KIND_H

#include "nn/trainer.h"

typedef struct nn_trainer_kind {
    int prompt;
    firm_status (*open)(nn_trainer* t, firm_error* err);  // sets t->state and t->moments
    void (*close)(nn_trainer* t);                         // also after a failed open
    firm_status (*step)(nn_trainer* t, int64_t update, firm_error* err);
    firm_status (*read)(nn_trainer* t, firm_error* err);  // sets loss, norm and term
    firm_status (*pull)(nn_trainer* t, firm_error* err);
    firm_status (*resume)(nn_trainer* t, int64_t update, firm_error* err);
} nn_trainer_kind;

struct nn_trainer {
    const nn_trainer_kind* kind;
    nn_trainer_options opt;
    nn_part part[NN_MAX_PARTS];
    int parts;
    int64_t next;  // update expected

    // what any part trains: the first part's parameters in its order, then those of the others
    nn_trained* trained;
    int trained_count;
    size_t grad_count;
    float* scale;  // (trained_count) rate factors

    float* moments;  // (2, grad_count) on the host
    double loss, norm;
    double* term[NN_MAX_PARTS];
    void* state;  // of the kind
};

extern const nn_trainer_kind nn_trainer_cpu;
extern const nn_trainer_kind nn_trainer_cuda;  // of nn/cuda

// Place of an entry in t->trained, or -1.
int nn_trainer_find(const nn_trainer* t, int entry);

#endif
