// cases.h - one list of op cases for all engine tests: gradcheck_test.c compares ref with finite
// differences on the small ones, backend_test.c compares the other backends with ref on all of
// them.
//
// A case builds a small graph around one op. Every input of the op that can have a gradient is a
// graph input plus a trained parameter of the same shape, so that the gradient of the parameter
// shows the gradient of the op's input. The loss is the mean of output * r with a random r.
#ifndef TESTS_NN_CASES_H
#define TESTS_NN_CASES_H

#include "core/pool.h"
#include "nn/adamw.h"
#include "nn/exec.h"

typedef struct nn_case nn_case;
struct nn_case {
    nn_op op;
    nn_id (*build)(nn_graph* g, const nn_case* c);  // returns the op's output
    int a[7];                                       // shape, meaning given by build
    int batch, shard;
    int large;  // too large for finite differences
};

extern const nn_case nn_cases[];
int nn_case_count(void);
nn_id nn_case_build(nn_graph* g, const nn_case* c);  // as nn_cases build that op
const char* nn_op_name(nn_op op);
const char* nn_case_text(const nn_case* c);  // for messages; overwritten by the next call

// An input plus a trained parameter `name`.p, normal with deviation `scale`.
nn_id nn_case_leaf(nn_graph* g, const char* name, float scale, int rank, const int* dim);

// Store, graph and exec of one case; `out` is readable after a run.
typedef struct nn_setup {
    nn_store* store;
    nn_graph* graph;
    nn_exec* exec;
    nn_id out;
    int batch;
} nn_setup;

enum {
    NN_CASE_TRAIN = 1,
    NN_CASE_SHARED =
        2,  // the op's inputs are loss terms too, so that the op must add to a gradient
    NN_CASE_SHARED_ONE = 4,  // shifted by i: only its input i is
};

// 1 on success; a failure is reported as a failed check and leaves nothing behind.
int nn_setup_case(nn_setup* s, const nn_case* c, const nn_backend* b, pool* p, int shard,
                  int flags);
// Likewise for a graph made by `build`, which declares parameters, losses and outputs itself.
typedef void (*nn_setup_fn)(nn_graph* g, nn_setup* s);
int nn_setup_graph(nn_setup* s, nn_setup_fn build, const nn_backend* b, const nn_exec_options* opt,
                   pool* p);
void nn_setup_free(nn_setup* s);

// Fills every input of the graph from its name and the sample's number alone. Names starting with
// "unit" are uniform in 0..1, the rest normal; images are noise, "before..." close to their
// partner.
firm_status nn_case_fill(void* ctx, const nn_feed* feed);

// Sum of (a - b)^2 over sum of b^2; 0 where both are all zero.
double nn_nmse(const float* a, const float* b, size_t count);

// Compares the gradient of a ref exec (made with train) with central finite differences, at most
// `per_entry` elements per parameter; failures name `what`.
void nn_check_gradient(nn_setup* s, const char* what, int per_entry);

// AdamW over what an exec trains.
static inline firm_status adamw_of(nn_exec* e, const nn_adamw_options* opt, const float* scale,
                                   nn_adamw** out, firm_error* err) {
    nn_gradient g = {.count = nn_exec_grad_count(e), .value = nn_exec_grad(e)};
    g.entries = nn_exec_trained(e, &g.trained);
    return nn_adamw_create(&g, opt, scale, out, err);
}

#endif
