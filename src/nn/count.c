// count.c - counts products node by node.
#include "nn/count.h"

#include "nn/layout.h"

// operations of one product of the node
static double product_of(const nn_graph* g, const nn_node* n) {
    const nn_tensor *x = &g->tensor[n->in[0]], *y = &g->tensor[n->out];
    switch (n->op) {
        case NN_LINEAR: return 2.0 * x->size * y->dim[y->rank - 1];
        case NN_CONV2D: return 2.0 * y->size * n->kernel * n->kernel * x->dim[2];
        case NN_CONVT2D: return 2.0 * x->size * n->kernel * n->kernel * y->dim[2];
        case NN_ATTENTION: return 2.0 * y->dim[0] * y->size;
        case NN_SOFTPOOL: return 2.0 * x->dim[0] * y->size;
        default: return 0;
    }
}

static int wanted(const nn_graph* g, const nn_node* n, int input) {
    return n->in[input] != NN_NONE && g->tensor[n->in[input]].wants_grad;
}

// Attention multiplies queries with keys and weights with values; each product has one for either
// gradient. The others are one product with one for the gradient of each of two inputs.
static double node_operations(const nn_graph* g, const nn_node* n, int back) {
    double one = product_of(g, n);
    if (one == 0) return 0;
    if (n->op == NN_ATTENTION) return one * (back ? 6 : 2);
    return one * (1 + (back ? wanted(g, n, 0) + wanted(g, n, 1) : 0));
}

firm_status nn_count_products(const nn_graph* g, int train, double* operations, firm_error* err) {
    nn_layout at;
    *operations = 0;
    TRY(nn_layout_make(g, nn_backend_cpu(), 1, train, NULL, &at, err));
    for (int i = 0; i < g->nodes; i++)
        *operations += node_operations(g, &g->node[i], at.runs_back[i]);
    nn_layout_free(&at);
    return FIRM_OK;
}
