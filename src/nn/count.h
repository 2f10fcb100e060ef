// count.h - the arithmetic of a graph, counted from its nodes.
#ifndef NN_COUNT_H
#define NN_COUNT_H

#include "nn/graph.h"

// Operations (two a multiply-add) of all matrix products, convolutions and attention of one sample,
// forward, and with `train` backward as far as gradients are wanted. Pointwise work is not counted.
firm_status nn_count_products(const nn_graph* g, int train, double* operations, firm_error* err);

#endif
