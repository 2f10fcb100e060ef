// conv.c - convolution (image to grid) and its transpose (grid to image), one sample after the
// other with the weights packed once (conv_pass.h).
#include "nn/cpu/conv_pass.h"
#include "nn/cpu/cpu.h"

static nn_conv_shape shape_of(const nn_graph* g, const nn_node* n) {
    int turned = n->op == NN_CONVT2D;
    const nn_tensor *ti = &g->tensor[turned ? n->out : n->in[0]],
                    *tg = &g->tensor[turned ? n->in[0] : n->out];
    return (nn_conv_shape){ti->dim[0], ti->dim[1], ti->dim[2], tg->dim[0], tg->dim[1],
                           tg->dim[2], n->kernel,  n->stride,  n->pad,     turned};
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    nn_conv_shape q = shape_of(g, n);
    return nn_conv_scratch(&q);
}

static const float* sample(const void* of, int i, const nn_tensor* t) {
    return (const float*)of + (int64_t)i * t->size;
}

static void forward(const nn_call* c) {
    nn_conv_shape q = shape_of(c->graph, c->node);
    (q.turned ? nn_conv_pack_spread : nn_conv_pack_gather)(&q, c->in[1], c->scratch);
    for (int i = 0; i < c->rows; i++)
        (q.turned ? nn_conv_spread : nn_conv_gather)(
            &q, sample(c->in[0], i, nn_in(c, 0)), c->in[2], NN_CONV_SET,
            (float*)c->out + (int64_t)i * nn_out(c)->size, c->scratch);
}

static void backward(const nn_call* c) {
    nn_conv_shape q = shape_of(c->graph, c->node);
    const nn_tensor *tx = nn_in(c, 0), *ty = nn_out(c);
    for (int i = 0; i < c->rows && c->din[1]; i++) {
        const float *x = sample(c->in[0], i, tx), *dy = sample(c->dout, i, ty);
        nn_conv_weights(&q, q.turned ? dy : x, q.turned ? x : dy, c->din[1], c->scratch);
    }
    int width = ty->dim[2];
    if (c->din[2])
        nn_loops_get()->sum_rows((int64_t)c->rows * ty->size / width, width, c->dout, c->din[2]);
    if (!c->din[0]) return;
    (q.turned ? nn_conv_pack_gather : nn_conv_pack_spread)(&q, c->in[1], c->scratch);
    for (int i = 0; i < c->rows; i++)
        (q.turned ? nn_conv_gather : nn_conv_spread)(
            &q, sample(c->dout, i, ty), NULL, c->accumulate[0] ? NN_CONV_ADD : NN_CONV_SET,
            (float*)c->din[0] + (int64_t)i * tx->size, c->scratch);
}

const nn_kernel nn_cpu_conv2d = {forward, backward, NULL, scratch_bytes};
const nn_kernel nn_cpu_convt2d = {forward, backward, NULL, scratch_bytes};
