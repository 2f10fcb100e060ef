// gradients.c - see gradients.h.
#include "measure/gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static float spread;  // factor of values before they are rounded
static half_fault seeded;

static float half_of(float x) {
    uint32_t bits;
    x *= spread;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, 4);
    return x;
}

static float* halves(const float* from, size_t count) {
    float* to = malloc((count + 1) * sizeof *to);
    if (!to) abort();
    for (size_t i = 0; i < count; i++) to[i] = half_of(from[i]);
    return to;
}

static const nn_node* maker(const nn_graph* g, nn_id id) {
    for (int i = 0; i < g->nodes; i++)
        if (g->node[i].out == id) return &g->node[i];
    return NULL;
}

// whether a parameter of a node is one of the encoder's blocks, "encoder.3.up.weight"
static int of_block(const nn_graph* g, nn_id param) {
    const nn_tensor* t = &g->tensor[g->tensor[param].root];
    const char* name = t->kind == NN_PARAM ? g->store->entry[t->entry].name : "";
    return strncmp(name, "encoder.", 8) == 0 && name[8] >= '0' && name[8] <= '9';
}

// nodes whose values are bfloat16 on the GPU
static int is_half(const nn_call* c) {
    const nn_graph* g = c->graph;
    const nn_node *n = c->node, *before;
    switch (n->op) {
        case NN_LINEAR:
        case NN_LAYERNORM: return of_block(g, n->in[1]);
        case NN_ATTENTION:
        case NN_ERFGELU:
            before = maker(g, n->in[0]);
            return before && before->op == NN_LINEAR && of_block(g, before->in[1]);
        default: return 0;
    }
}

static size_t numbers(const nn_call* c, nn_id id) {
    const nn_tensor* t = &c->graph->tensor[id];
    return (size_t)t->size * (t->kind == NN_PARAM ? 1 : (size_t)c->rows);
}

// The call with rounded inputs, but for those of norms, which are float32.
static void round_call(const nn_call* c, nn_call* to, float* made[3], int back) {
    const nn_node* n = c->node;
    int inputs = n->op == NN_LINEAR ? 2 : n->op == NN_LAYERNORM ? 0 : 1;
    *to = *c;
    for (int i = 0; i < inputs; i++) to->in[i] = made[i] = halves(c->in[i], numbers(c, n->in[i]));
    if (back) to->dout = made[2] = halves(c->dout, numbers(c, n->out));
}

static void forward(const nn_call* c) {
    const nn_kernel* k = &nn_backend_cpu()->kernel[c->node->op];
    if (!is_half(c)) {
        k->forward(c);
        return;
    }
    nn_call rounded;
    float* made[3] = {NULL};
    round_call(c, &rounded, made, 0);
    k->forward(&rounded);
    for (int i = 0; i < 3; i++) free(made[i]);
}

static void seed_fault(const nn_call* c) {
    const nn_tensor *y = nn_out(c), *x = nn_in(c, 0);
    int width = x->dim[x->rank - 1], tokens = y->dim[y->rank - 2];
    float* d = c->din[0];
    size_t rows = numbers(c, c->node->in[0]) / (size_t)width;
    for (size_t r = 0; r < rows && d; r++)
        for (int i = 0; i < width; i++) {
            float* at = d + r * (size_t)width + i;
            if (c->node->op == NN_ATTENTION) {
                if (seeded == HALF_LOST_TOKEN && (int)(r % (size_t)tokens) == tokens - 1) *at = 0;
                if (seeded == HALF_WRONG_SCALE) *at *= 1.2f;
            } else if (c->node->op == NN_ERFGELU) {
                if (seeded == HALF_LOST_CHUNK && i >= width - 64) *at = 0;
            }
        }
}

static void backward(const nn_call* c) {
    const nn_kernel* k = &nn_backend_cpu()->kernel[c->node->op];
    if (!is_half(c)) {
        k->backward(c);
        return;
    }
    nn_call rounded;
    float* made[3] = {NULL};
    round_call(c, &rounded, made, 1);
    k->backward(&rounded);
    if (seeded != HALF_SOUND) seed_fault(c);
    for (int i = 0; i < 3; i++) free(made[i]);
}

const nn_backend* half_backend(int turn, half_fault fault) {
    static const nn_op ops[] = {NN_LINEAR, NN_LAYERNORM, NN_ATTENTION, NN_ERFGELU};
    static nn_backend b;
    b = *nn_backend_cpu();
    b.packed = NULL, b.pack = NULL, b.weight_tile = NULL;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        b.kernel[ops[i]].forward = forward, b.kernel[ops[i]].backward = backward;
    spread = 1 + (float)turn * 0x1p-20f;
    seeded = fault;
    return &b;
}

int half_pieces(const nn_store* store, const nn_exec* e, half_piece** out) {
    const nn_trained* list;
    int count = nn_exec_trained(e, &list), pieces = 0, rows = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(store->entry[list[i].entry].name, "encoder.positions") == 0)
            rows = store->entry[list[i].entry].dim[0];
    half_piece* piece = malloc((size_t)(count + rows) * sizeof *piece);
    if (!piece) abort();
    for (int i = 0; i < count; i++) {
        const nn_entry* n = &store->entry[list[i].entry];
        piece[pieces] = (half_piece){n->name, n->rank == 2, -1, list[i].offset, list[i].count};
        const half_piece all = piece[pieces++];
        if (strcmp(n->name, "encoder.positions") != 0) continue;
        for (int t = 0; t < rows; t++) {
            half_piece* row = &piece[pieces++];
            *row = all;
            row->matrix = 0;
            row->token = t;
            row->count = all.count / (size_t)rows;
            row->offset = all.offset + (size_t)t * row->count;
        }
    }
    *out = piece;
    return pieces;
}

double half_off(const half_piece* p, const float* got, const float* want) {
    int keys = strstr(p->name, "encoder.") && strstr(p->name, "qkv.bias");
    double miss = 0, size = 0;
    for (size_t j = 0; j < p->count; j++) {
        if (keys && j / (p->count / 3) == 1) continue;
        double a = got[p->offset + j], b = want[p->offset + j];
        miss += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(miss / (size + 1e-30));
}

void half_measure(const half_case* c, nn_exec* host, double* measure) {
    firm_error err = {0};
    half_piece* piece;
    int count = half_pieces(c->graph->store, host, &piece);
    for (int i = 0; i < count; i++) measure[i] = 0;
    for (int turn = 0; turn < HALF_TURNS; turn++) {
        nn_exec* e;
        nn_exec_options opt = {.batch = c->batch, .shard = 1, .lanes = 2, .train = 1};
        if (nn_exec_create(c->graph, half_backend(turn, HALF_SOUND), &opt, c->p, &e, &err) !=
            FIRM_OK) {
            test_fail(__FILE__, __LINE__, "%s", err.message);
            break;
        }
        nn_exec_set_update(e, c->update);
        EXPECT_INT(nn_exec_gradient(e, c->fill, c->ctx), FIRM_OK);
        for (int i = 0; i < count; i++) {
            double off = half_off(&piece[i], nn_exec_grad(e), nn_exec_grad(host));
            measure[i] += off * off / HALF_TURNS;
        }
        nn_exec_free(e);
    }
    for (int i = 0; i < count; i++) measure[i] = sqrt(measure[i]);
    free(piece);
}

double half_allowed(double measure) {
    return (0.003 + 2.5 * measure) * test_tolerance_scale();
}
