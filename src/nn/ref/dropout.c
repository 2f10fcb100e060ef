// dropout.c - dropout, reference: in training an element is 0 with probability alpha, else divided
// by 1 - alpha. Element e of the batch draws word e % 4 of block e / 4 of the node's key, so the
// choice depends on the seed, the update, the node and the element alone.
#include "nn/ref/ref.h"

double nn_ref_dropped(const nn_call* c, uint64_t element) {
    if (!c->train || c->node->alpha == 0) return 1;
    uint32_t word[4];
    nn_key key = nn_key_of(c, RNG_DROPOUT);
    rng_block(key.seed, key.stream, key.first + element / 4, word);
    return nn_kept(word[element % 4], c->node->alpha) ? 1 / (1 - (double)c->node->alpha) : 0;
}

static uint64_t start_of(const nn_call* c) {
    return (uint64_t)c->first * (uint64_t)nn_in(c, 0)->size;
}

void nn_ref_dropout_forward(const nn_call* c) {
    const double* x = c->in[0];
    double* y = c->out;
    for (size_t i = 0; i < (size_t)c->rows * (size_t)nn_in(c, 0)->size; i++)
        y[i] = x[i] * nn_ref_dropped(c, start_of(c) + i);
}

void nn_ref_dropout_backward(const nn_call* c) {
    const double* dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (size_t i = 0; dx && i < (size_t)c->rows * (size_t)nn_in(c, 0)->size; i++)
        dx[i] += dy[i] * nn_ref_dropped(c, start_of(c) + i);
}
