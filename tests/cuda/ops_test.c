// ops_test.c - every CUDA kernel against ref: one call of one op with random inputs, forward and
// all gradients. Outputs, saved memory and scratch are NaN before a call and have a guarded end;
// gradients are overwritten or added to, together and one at a time; each call runs twice and once
// more as a captured CUDA graph, and the bits must be equal. Without a GPU the tests are skipped.
#include <cuda_runtime_api.h>

#include "check.h"
#include "core/rng.h"
#include "gpu.h"
#include "nn/cases.h"
#include "nn/cuda/cuda.h"

// Error allowed, as a share of the norm of what ref computes.
// float32: 1e-5, as for the cpu backend; rounding of sums up to a few thousand terms is below 2e-6.
static const double FP32 = 1e-5;
// Tensor cores may cut an operand to 10 (TF32) or 7 (BF16) bits: a product is off by at most
// 2 * 2^-10 or 2 * 2^-7 of itself. Looked at where there are enough numbers for norms to mean
// something.
static const double TF32 = 2.0 / 1024, BF16 = 2.0 / 128;
enum { ENOUGH = 256 };

enum { GUARD = 256, SEED = 11, UPDATE = 41 };  // UPDATE: part of the key of random ops

// ---- buffers ------------------------------------------------------------------------------------

// device memory with a guard behind it
typedef struct buffer {
    void* p;
    size_t bytes;
} buffer;

static int buffer_new(nn_cuda_queue* q, buffer* b, size_t bytes) {
    firm_error err = {0};
    b->bytes = bytes;
    b->p = NULL;
    if (nn_cuda_alloc(q, bytes + GUARD, &b->p, &err) == FIRM_OK) return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

// contents from the host, or NaN
static void buffer_fill(nn_cuda_queue* q, const buffer* b, const void* host) {
    cudaStream_t s = nn_cuda_stream(q);
    if (!b->p) return;
    EXPECT_INT(cudaMemsetAsync(b->p, 0xff, b->bytes + GUARD, s), cudaSuccess);
    if (host) {
        EXPECT_INT(cudaMemcpyAsync(b->p, host, b->bytes, cudaMemcpyHostToDevice, s), cudaSuccess);
        EXPECT_INT(cudaStreamSynchronize(s), cudaSuccess);
    }
}

static void buffer_read(nn_cuda_queue* q, const buffer* b, void* host, const char* what,
                        const char* part) {
    unsigned char guard[GUARD];
    firm_error err = {0};
    if (nn_cuda_download(q, host, b->p, b->bytes, &err) != FIRM_OK ||
        nn_cuda_download(q, guard, (char*)b->p + b->bytes, GUARD, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s: %s", what, part, err.message);
        memset(host, 0xff, b->bytes);
        return;
    }
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] == 0xff) continue;
        test_fail(__FILE__, __LINE__, "%s: %s: written past its end, byte %d", what, part, i);
        return;
    }
}

static void* host_new(size_t bytes) {
    void* p = calloc(1, bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

// ---- one op -------------------------------------------------------------------------------------

// A graph with the op of a case, `rows` samples of random inputs, and what ref makes of them.
typedef struct trial {
    char text[192];
    nn_store* store;
    nn_graph* graph;
    const nn_node* node;
    int rows;
    int first[NN_MAX_IN];      // an earlier input that is the same tensor, or itself; -1: absent
    int bytes[NN_MAX_IN];      // images
    size_t count[NN_MAX_IN];   // numbers of each input
    float* in[NN_MAX_IN];      // host inputs (images: bytes)
    float* before[NN_MAX_IN];  // what gradients hold before they are added to
    float* dout;
    size_t out_count;
    float* want_out;
    float* want[2][NN_MAX_IN];  // gradients: overwritten, added to
} trial;

static int is_param(const trial* t, int i) {
    const nn_graph* g = t->graph;
    return g->tensor[g->tensor[t->node->in[i]].root].kind == NN_PARAM;
}

static int has_gradient(const trial* t, int i) {
    return t->first[i] >= 0 && !t->bytes[i] && nn_backend_ref()->kernel[t->node->op].backward;
}

static float* normals(uint64_t stream, size_t count, float scale) {
    float* x = host_new(((count + 3) / 4 * 4) * sizeof *x);
    rng_fill_normal(SEED, RNG_STREAM(RNG_TEST, stream), 0, x, (int64_t)count);
    for (size_t i = 0; i < count; i++) x[i] *= scale;
    return x;
}

// the second image repeats the first with small and large changes
static void fill_images(trial* t) {
    rng r = rng_start(SEED, RNG_STREAM(RNG_TEST, 77));
    uint8_t *o = (uint8_t*)t->in[0], *before = (uint8_t*)t->in[1];
    for (size_t i = 0; i < t->count[0]; i++) {
        int level = (int)rng_below(&r, 256), change = (int)rng_below(&r, 41) - 20;
        o[i] = (uint8_t)level;
        if (!before) continue;
        level += rng_below(&r, 4) == 0 ? change : 0;
        before[i] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
    }
}

// hard: far-out values, and every fifth sample all zero
static void fill_inputs(trial* t, int hard) {
    for (int i = 0; i < t->node->in_count; i++) {
        if (t->first[i] != i) continue;
        if (t->bytes[i]) {
            t->in[i] = host_new(t->count[i]);
            continue;
        }
        float wide = t->node->op == NN_ATTENTION || t->node->op == NN_SIGREG ? 3.0f : 40.0f;
        t->in[i] = normals(100 + (uint64_t)i, t->count[i], hard && !is_param(t, i) ? wide : 1.0f);
        t->before[i] = normals(200 + (uint64_t)i, t->count[i], 1);
        size_t size = (size_t)nn_size(t->graph, t->node->in[i]);
        for (size_t j = 0; hard && !is_param(t, i) && j < t->count[i]; j++)
            if (j / size % 5 == 4) t->in[i][j] = 0;
        // targets are in 0..1, and what pushes near what is pushed
        if ((t->node->op == NN_BCE && i == 1) || (t->node->op == NN_SPATIAL && i == 0))
            for (size_t j = 0; j < t->count[i]; j++) t->in[i][j] = 1 / (1 + expf(-t->in[i][j]));
    }
    if (t->bytes[0]) fill_images(t);
}

static double* doubled(const float* x, size_t count) {
    double* d = host_new(count * sizeof *d);
    for (size_t i = 0; i < count; i++) d[i] = x[i];
    return d;
}

static float* floated(double* d, size_t count) {
    float* x = host_new(count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = (float)d[i];
    free(d);
    return x;
}

// accumulate as the executor sets it: the second gradient of a tensor given twice is always added
static void set_accumulate(const trial* t, nn_call* c, int add) {
    for (int i = 0; i < t->node->in_count; i++)
        c->accumulate[i] =
            t->first[i] >= 0 && (add || is_param(t, i) || (t->first[i] != i && c->din[i]));
}

static void run_ref(trial* t) {
    nn_call c = {.graph = t->graph, .node = t->node, .rows = t->rows};
    c.train = 1, c.batch = t->rows, c.update = UPDATE;
    const nn_kernel* k = &nn_backend_ref()->kernel[t->node->op];
    const nn_gather* gather = nn_backend_ref()->gather[t->node->op];
    double* sum[2] = {NULL, NULL};
    for (int i = 0; i < 2 && gather; i++)
        sum[i] = host_new(gather->count(t->graph, t->node, i) * sizeof **sum);
    c.sum = sum[0], c.sum_back = sum[1];
    double *in[NN_MAX_IN] = {0}, *out = host_new(t->out_count * sizeof *out);
    void* scratch = host_new(k->scratch_bytes ? k->scratch_bytes(t->graph, t->node, t->rows) : 0);
    c.scratch = scratch;
    for (int i = 0; i < t->node->in_count; i++) {
        int f = t->first[i];
        if (f == i && !t->bytes[i]) in[i] = doubled(t->in[i], t->count[i]);
        if (f >= 0) c.in[i] = t->bytes[f] ? (void*)t->in[f] : (void*)in[f];
    }
    c.out = out;
    if (gather) gather->shard(&c, 0, sum[0]);
    k->forward(&c);
    double* dout = doubled(t->dout, t->out_count);
    c.dout = dout;
    if (gather) gather->shard(&c, 1, sum[1]);
    for (int add = 0; add < 2 && k->backward; add++) {
        double* grad[NN_MAX_IN] = {0};
        for (int i = 0; i < t->node->in_count; i++) {
            if (!has_gradient(t, i)) continue;
            if (t->first[i] == i) grad[i] = doubled(t->before[i], t->count[i]);
            c.din[i] = grad[t->first[i]];
        }
        set_accumulate(t, &c, add);
        // ref zeroes what is to be overwritten before it adds anything, so a repeated input adds
        k->backward(&c);
        for (int i = 0; i < t->node->in_count; i++)
            if (grad[i]) t->want[add][i] = floated(grad[i], t->count[i]);
    }
    t->want_out = floated(out, t->out_count);
    free(dout);
    free(scratch);
    free(sum[0]);
    free(sum[1]);
    for (int i = 0; i < NN_MAX_IN; i++) free(in[i]);
}

static void trial_free(trial* t) {
    for (int i = 0; i < NN_MAX_IN; i++) {
        free(t->in[i]);
        free(t->before[i]);
        free(t->want[0][i]);
        free(t->want[1][i]);
    }
    free(t->dout);
    free(t->want_out);
    nn_graph_free(t->graph);
    nn_store_free(t->store);
}

static int trial_make(trial* t, const nn_case* c, int rows, int hard) {
    firm_error err = {0};
    memset(t, 0, sizeof *t);
    if (nn_store_create(&t->store, &err) != FIRM_OK ||
        nn_graph_create(t->store, &t->graph, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        trial_free(t);
        return 0;
    }
    nn_train(t->graph, "");
    nn_id out = c->build(t->graph, c);
    t->node = &t->graph->node[t->graph->tensor[out].producer];
    EXPECT_INT(t->node->op, c->op);
    t->rows = rows;
    snprintf(t->text, sizeof t->text, "%s, %d rows%s", nn_case_text(c), rows, hard ? ", hard" : "");
    for (int i = 0; i < t->node->in_count; i++) {
        t->first[i] = t->node->in[i] == NN_NONE ? -1 : i;
        if (t->first[i] < 0) continue;
        for (int j = i - 1; j >= 0; j--)
            if (t->node->in[j] == t->node->in[i]) t->first[i] = j;
        t->bytes[i] = t->graph->tensor[t->node->in[i]].kind == NN_BYTES;
        t->count[i] =
            (size_t)nn_size(t->graph, t->node->in[i]) * (size_t)(is_param(t, i) ? 1 : rows);
    }
    t->out_count = (size_t)rows * (size_t)nn_size(t->graph, out);
    t->dout = normals(300, t->out_count, 1);
    fill_inputs(t, hard);
    run_ref(t);
    return 1;
}

// ---- the same on the device ---------------------------------------------------------------------

typedef struct device {
    nn_cuda_queue* q;
    buffer in[NN_MAX_IN], grad[NN_MAX_IN], out, dout, save, scratch, clock;
    float *got_out[2], *got[2][NN_MAX_IN];  // results of two runs
} device;

static int device_make(device* d, nn_cuda_queue* q, const trial* t) {
    const nn_kernel* k = &nn_backend_cuda()->kernel[t->node->op];
    firm_error err = {0};
    memset(d, 0, sizeof *d);
    d->q = q;
    if (nn_cuda_prepare(q, t->graph, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", t->text, err.message);
        return 0;
    }
    size_t save = k->save_bytes ? k->save_bytes(t->graph, t->node, t->rows) : 0;
    size_t scratch = k->scratch_bytes ? k->scratch_bytes(t->graph, t->node, t->rows) : 0;
    int ok = buffer_new(q, &d->out, t->out_count * sizeof(float)) &&
             buffer_new(q, &d->dout, t->out_count * sizeof(float)) &&
             buffer_new(q, &d->save, save) && buffer_new(q, &d->scratch, scratch) &&
             buffer_new(q, &d->clock, sizeof(int64_t));
    for (int r = 0; r < 2; r++) d->got_out[r] = host_new(t->out_count * sizeof(float));
    if (ok) buffer_fill(q, &d->dout, t->dout);
    if (ok) buffer_fill(q, &d->clock, &(int64_t){UPDATE});
    for (int i = 0; i < t->node->in_count && ok; i++) {
        if (t->first[i] != i) continue;
        ok = buffer_new(q, &d->in[i], t->count[i] * (t->bytes[i] ? 1 : sizeof(float)));
        if (ok) buffer_fill(q, &d->in[i], t->in[i]);
        if (!ok || !has_gradient(t, i)) continue;
        ok = buffer_new(q, &d->grad[i], t->count[i] * sizeof(float));
        for (int r = 0; r < 2; r++) d->got[r][i] = host_new(t->count[i] * sizeof(float));
    }
    return ok;
}

static void device_free(device* d) {
    buffer* single[] = {&d->out, &d->dout, &d->save, &d->scratch, &d->clock};
    for (int i = 0; i < 5; i++) nn_cuda_release(single[i]->p);
    for (int i = 0; i < NN_MAX_IN; i++) {
        nn_cuda_release(d->in[i].p);
        nn_cuda_release(d->grad[i].p);
        for (int r = 0; r < 2; r++) free(d->got[r][i]);
    }
    for (int r = 0; r < 2; r++) free(d->got_out[r]);
}

// bit i of wanted: the gradient of input i (and of its repetitions)
typedef struct way {
    unsigned wanted;
    int add, captured;
} way;

// nothing to poison is no work: a captured graph must not hold an empty step
static void poison(device* d) {
    if (d->scratch.bytes)
        EXPECT_INT(cudaMemsetAsync(d->scratch.p, 0xff, d->scratch.bytes, nn_cuda_stream(d->q)),
                   cudaSuccess);
}

static void enqueue(device* d, const trial* t, nn_call* c) {
    const nn_kernel* k = &nn_backend_cuda()->kernel[t->node->op];
    poison(d);
    k->forward(c);
    poison(d);
    int any = 0;
    for (int i = 0; i < t->node->in_count; i++) any |= c->din[i] != NULL;
    if (any) k->backward(c);
}

static void enqueue_captured(device* d, const trial* t, nn_call* c) {
    cudaStream_t s = nn_cuda_stream(d->q);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t st = cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    EXPECT_INT(st, cudaSuccess);
    enqueue(d, t, c);
    st = cudaStreamEndCapture(s, &graph);
    if (st == cudaSuccess) st = cudaGraphInstantiate(&exec, graph, 0);
    if (st == cudaSuccess) st = cudaGraphLaunch(exec, s);
    if (st == cudaSuccess) st = cudaStreamSynchronize(s);
    if (st != cudaSuccess)
        test_fail(__FILE__, __LINE__, "%s: capture: %s", t->text, cudaGetErrorString(st));
    if (exec) cudaGraphExecDestroy(exec);
    if (graph) cudaGraphDestroy(graph);
}

// forward and backward from fresh buffers; results to got[r]
static void run_device(device* d, const trial* t, way w, int r) {
    nn_call c = {.graph = t->graph, .node = t->node, .rows = t->rows, .queue = d->q};
    c.train = 1, c.batch = t->rows, c.clock = d->clock.p;
    for (int i = 0; i < t->node->in_count; i++) {
        int f = t->first[i];
        if (f < 0) continue;
        c.in[i] = d->in[f].p;
        if (f == i) buffer_fill(d->q, &d->grad[i], w.add || is_param(t, i) ? t->before[i] : NULL);
        if (d->grad[f].p && (w.wanted >> f & 1)) c.din[i] = d->grad[f].p;
    }
    set_accumulate(t, &c, w.add);
    buffer_fill(d->q, &d->out, NULL);
    buffer_fill(d->q, &d->save, NULL);
    buffer_fill(d->q, &d->scratch, NULL);
    c.out = d->out.p;
    c.dout = d->dout.p;
    c.save = d->save.p;
    c.scratch = d->scratch.p;
    if (w.captured)
        enqueue_captured(d, t, &c);
    else
        enqueue(d, t, &c);
    const char* error = nn_cuda_error(d->q);
    if (error) test_fail(__FILE__, __LINE__, "%s: %s", t->text, error);
    buffer_read(d->q, &d->out, d->got_out[r], t->text, "output");
    for (int i = 0; i < t->node->in_count; i++)
        if (d->grad[i].p && (w.wanted >> i & 1))
            buffer_read(d->q, &d->grad[i], d->got[r][i], t->text, "gradient");
    buffer guarded[] = {d->save, d->scratch};
    for (int i = 0; i < 2; i++) {
        void* rest = host_new(guarded[i].bytes);
        buffer_read(d->q, &guarded[i], rest, t->text, i ? "scratch" : "save");
        free(rest);
    }
}

// ---- comparing ----------------------------------------------------------------------------------

typedef struct bounds {
    double allowed;
    size_t least;               // results with fewer numbers are not compared with ref
    double worst[NN_OP_COUNT];  // largest error met
} bounds;

static void compare(const trial* t, bounds* b, const char* part, int i, const float* got,
                    const float* want, size_t count) {
    double error = sqrt(nn_nmse(got, want, count)), allowed = b->allowed * test_tolerance_scale();
    if (count < b->least) return;
    if (!(error <= b->worst[t->node->op])) b->worst[t->node->op] = error;
    if (!(error <= allowed))
        test_fail(__FILE__, __LINE__, "%s: %s %d is off by %.3g of its norm, allowed %.3g", t->text,
                  part, i, error, allowed);
}

static void compare_with_ref(const device* d, const trial* t, way w, bounds* b) {
    compare(t, b, "output", 0, d->got_out[0], t->want_out, t->out_count);
    for (int i = 0; i < t->node->in_count; i++)
        if (d->grad[i].p && (w.wanted >> i & 1))
            compare(t, b, w.add ? "added gradient" : "gradient", i, d->got[0][i], t->want[w.add][i],
                    t->count[i]);
}

static void compare_bits(const device* d, const trial* t, way w, const char* what) {
    int same = memcmp(d->got_out[0], d->got_out[1], t->out_count * sizeof(float)) == 0;
    for (int i = 0; i < t->node->in_count; i++)
        if (d->grad[i].p && (w.wanted >> i & 1))
            same &= memcmp(d->got[0][i], d->got[1][i], t->count[i] * sizeof(float)) == 0;
    if (!same) test_fail(__FILE__, __LINE__, "%s: other bits %s", t->text, what);
}

static void try_op(nn_cuda_queue* q, const nn_case* c, int rows, int hard, bounds* b) {
    trial t;
    device d;
    if (!trial_make(&t, c, rows, hard)) return;
    if (device_make(&d, q, &t)) {
        for (int add = 0; add < 2; add++) {
            way all = {~0u, add, 0}, captured = {~0u, add, 1};
            run_device(&d, &t, all, 0);
            compare_with_ref(&d, &t, all, b);
            run_device(&d, &t, all, 1);
            compare_bits(&d, &t, all, "the second time");
            run_device(&d, &t, captured, 1);
            compare_bits(&d, &t, captured, "from a captured graph");
        }
        for (int i = 0; i < t.node->in_count && t.node->in_count > 1; i++) {
            way one = {1u << i, 0, 0};
            if (t.first[i] != i || !has_gradient(&t, i)) continue;
            run_device(&d, &t, one, 0);
            compare_with_ref(&d, &t, one, b);
        }
    }
    device_free(&d);
    trial_free(&t);
}

// ---- cases --------------------------------------------------------------------------------------

// products ref has to form for one forward pass, roughly
static double work(const nn_case* c, int rows) {
    const int* a = c->a;
    double size = 1;
    for (int i = 0; i < 7; i++) size *= a[i] > 1 ? a[i] : 1;  // at least the numbers of a sample
    if (c->op == NN_CONV2D || c->op == NN_CONVT2D)
        size = (double)a[0] * a[1] * a[2] * abs(a[3]) * a[4] * a[4];
    if (c->op == NN_ATTENTION) size = 8.0 * a[0] * a[0] * a[1];
    return size * rows;
}

// T, D, heads, block: a token sees its own and earlier blocks of this many; the last two see all
static nn_id build_history(nn_graph* g, const nn_case* c) {
    static uint8_t mask[590 * 590];
    int T = c->a[0], block = c->a[3];
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++) mask[t * T + s] = t >= T - 2 || s / block <= t / block;
    return nn_attention(g, nn_case_leaf(g, "x", 1, 2, (int[]){T, 3 * c->a[1]}), c->a[2], mask);
}

// Shapes of the models, each way a kernel can go, and both sides of its limits. The two
// convolutions with one channel are there because 80 samples of unrolled patches take two chunks.
// clang-format off
static const nn_case real_cases[] = {
    {NN_LINEAR, nn_case_build, {0, 384, 768, 1}, 256, 0, 1},
    {NN_LINEAR, nn_case_build, {0, 1152, 384, 1}, 300, 0, 1},
    {NN_LINEAR, nn_case_build, {0, 130, 131, 1}, 1024, 0, 1},
    {NN_LINEAR, nn_case_build, {3136, 48, 32, 1}, 16, 0, 1},
    {NN_CONV2D, nn_case_build, {56, 56, 32, 64, 3, 2, 1}, 2, 0, 1},
    {NN_CONV2D, nn_case_build, {28, 28, 64, 96, 3, 2, 1}, 3, 0, 1},
    {NN_CONV2D, nn_case_build, {14, 14, 96, 64, 3, 2, 1}, 5, 0, 1},
    {NN_CONV2D, nn_case_build, {9, 7, 8, 12, 1, 1, 0}, 3, 0, 1},
    {NN_CONV2D, nn_case_build, {56, 56, 32, 1, 3, 1, 1}, 80, 0, 1},
    {NN_CONVT2D, nn_case_build, {9, 7, 8, 12, 1, 1, 0}, 3, 0, 1},
    {NN_CONVT2D, nn_case_build, {7, 7, 64, 32, 4, 2, 1}, 9, 0, 1},
    {NN_CONVT2D, nn_case_build, {56, 56, 1, 32, 3, 1, 1}, 80, 0, 1},
    {NN_LAYERNORM, nn_case_build, {1, 1024}, 300, 0, 1},
    {NN_LAYERNORM, nn_case_build, {1, 1025}, 300, 0, 1},
    {NN_LAYERNORM, nn_case_build, {1, 1152}, 1024, 0, 1},
    {NN_LAYERNORM, nn_case_build, {590, 128}, 3, 0, 1},
    {NN_GROUPNORM, nn_case_build, {3136, 0, 32, 8}, 64, 0, 1},
    {NN_GROUPNORM, nn_case_build, {196, 0, 96, 8}, 9, 0, 1},
    {NN_GROUPNORM, nn_case_build, {49, 0, 66, 3}, 9, 0, 1},
    {NN_GROUPNORM, nn_case_build, {3136, 0, 32, 8}, 1, 0, 1},
    {NN_ATTENTION, build_history, {149, 128, 4, 49}, 3, 0, 1},
    {NN_ATTENTION, build_history, {590, 128, 4, 196}, 1, 0, 1},
    {NN_ATTENTION, build_history, {64, 16, 2, 7}, 2, 0, 1},
    {NN_ATTENTION, build_history, {65, 32, 2, 65}, 2, 0, 1},
    {NN_ATTENTION, build_history, {37, 40, 1, 5}, 2, 0, 1},
    {NN_ATTENTION, build_history, {40, 192, 4, 13}, 2, 0, 1},
    {NN_ATTENTION, build_history, {33, 128, 2, 9}, 2, 0, 1},
    {NN_ATTENTION, build_history, {35, 130, 2, 9}, 2, 0, 1},
    {NN_ATTENTION, build_history, {33, 256, 2, 32}, 2, 0, 1},
    {NN_PATCHES, nn_case_build, {224, 4}, 5, 0, 1},
    {NN_PATCHDIFF, nn_case_build, {224, 4}, 5, 0, 1},
    {NN_PATCHMASK, nn_case_build, {224, 4}, 5, 0, 1},
};
// clang-format on
enum { REAL_CASES = sizeof real_cases / sizeof *real_cases };

static void print_worst(const char* what, const bounds* b) {
    for (int i = 0; i < NN_OP_COUNT; i++)
        if (b->worst[i] > 0) printf("  %s %-10s %.2e\n", what, nn_op_name(i), b->worst[i]);
}

static int uses_products(nn_op op) {
    return op == NN_LINEAR || op == NN_CONV2D || op == NN_CONVT2D;
}

// ---- tests --------------------------------------------------------------------------------------

TEST(cuda, ops_table_is_complete) {
    const nn_backend *cuda = nn_backend_cuda(), *ref = nn_backend_ref();
    for (int i = 0; i < NN_OP_COUNT; i++) {
        if (!cuda->kernel[i].forward || !cuda->kernel[i].backward != !ref->kernel[i].backward)
            test_fail(__FILE__, __LINE__, "%s has no CUDA kernel", nn_op_name(i));
    }
}

// memory taken for a batch must do for a smaller one
TEST(cuda, ops_memory_grows_with_rows) {
    firm_error err = {0};
    for (int i = 0; i < nn_case_count() + REAL_CASES; i++) {
        const nn_case* c = i < REAL_CASES ? &real_cases[i] : &nn_cases[i - REAL_CASES];
        nn_store* store = NULL;
        nn_graph* g = NULL;
        REQUIRE_OK(nn_store_create(&store, &err), err);
        REQUIRE_OK(nn_graph_create(store, &g, &err), err);
        nn_id out = c->build(g, c);
        const nn_node* n = &g->node[g->tensor[out].producer];
        const nn_kernel* k = &nn_backend_cuda()->kernel[c->op];
        size_t save = 0, scratch = 0;
        int shrank = 0;
        for (int rows = 1; rows <= 1100; rows++) {
            size_t more_save = k->save_bytes ? k->save_bytes(g, n, rows) : 0;
            size_t more_scratch = k->scratch_bytes ? k->scratch_bytes(g, n, rows) : 0;
            if (more_save < save || more_scratch < scratch) shrank = rows;
            save = more_save;
            scratch = more_scratch;
        }
        if (shrank)
            test_fail(__FILE__, __LINE__, "%s: less memory for %d rows than for one fewer",
                      nn_case_text(c), shrank);
        nn_graph_free(g);
        nn_store_free(store);
    }
}

TEST(cuda, ops_equal_ref) {
    const double ref_work = 3e7;
    const int rows[] = {1, 3, 300, 1024};
    bounds b = {.allowed = FP32};
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    for (int i = 0; q && i < nn_case_count(); i++) {
        const nn_case* c = &nn_cases[i];
        try_op(q, c, c->batch, 0, &b);
        for (int j = 0; j < 4; j++)
            if (rows[j] != c->batch && work(c, rows[j]) < ref_work) try_op(q, c, rows[j], 0, &b);
    }
    print_worst("fp32", &b);
    nn_cuda_queue_free(q);
}

TEST(cuda, ops_equal_ref_in_real_shapes) {
    bounds b = {.allowed = FP32};
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    for (int i = 0; q && i < REAL_CASES; i++) try_op(q, &real_cases[i], real_cases[i].batch, 0, &b);
    print_worst("fp32", &b);
    nn_cuda_queue_free(q);
}

TEST(cuda, ops_hard_values) {
    const nn_op hard[] = {NN_GELU,      NN_CLAMP,     NN_PAIRNORM, NN_BCE,
                          NN_LAYERNORM, NN_GROUPNORM, NN_ATTENTION};
    bounds b = {.allowed = FP32};
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    for (int i = 0; q && i < nn_case_count(); i++)
        for (size_t j = 0; j < sizeof hard / sizeof *hard; j++)
            if (nn_cases[i].op == hard[j]) try_op(q, &nn_cases[i], 7, 1, &b);
    print_worst("hard", &b);
    nn_cuda_queue_free(q);
}

static void products_at(nn_cuda_precision p, double allowed, const char* what) {
    bounds b = {.allowed = allowed, .least = ENOUGH};
    nn_cuda_queue* q = gpu_queue(p);
    for (int i = 0; q && i < nn_case_count(); i++)
        if (uses_products(nn_cases[i].op)) try_op(q, &nn_cases[i], nn_cases[i].batch, 0, &b);
    for (int i = 0; q && i < REAL_CASES; i++)
        if (uses_products(real_cases[i].op)) try_op(q, &real_cases[i], real_cases[i].batch, 0, &b);
    print_worst(what, &b);
    nn_cuda_queue_free(q);
}

TEST(cuda, ops_products_in_tf32) {
    products_at(NN_CUDA_TF32, TF32, "tf32");
}

TEST(cuda, ops_products_in_bf16) {
    products_at(NN_CUDA_BF16, BF16, "bf16");
}

// a call whose mask was not prepared does nothing and says so
TEST(cuda, ops_unprepared_mask) {
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    const nn_case small = {NN_ATTENTION, build_history, {5, 4, 2, 2}, 1, 0, 0};
    trial t;
    if (q && trial_make(&t, &small, 1, 0)) {
        nn_call c = {.graph = t.graph, .node = t.node, .rows = 1, .queue = q};
        EXPECT(nn_cuda_error(q) == NULL);
        nn_backend_cuda()->kernel[NN_ATTENTION].forward(&c);
        const char* text = nn_cuda_error(q);
        EXPECT(text && strstr(text, "nn_cuda_prepare"));
        firm_error err = {0};
        EXPECT_INT(nn_cuda_wait(q, &err), FIRM_E_UNAVAILABLE);
        trial_free(&t);
    }
    nn_cuda_queue_free(q);
}

TEST(cuda, ops_too_much_memory) {
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    firm_error err = {0};
    void* p = NULL;
    if (q) {
        EXPECT_INT(nn_cuda_alloc(q, (size_t)1 << 46, &p, &err), FIRM_E_MEMORY);
        EXPECT(p == NULL && strstr(err.message, "smaller batch"));
        EXPECT(nn_cuda_error(q) == NULL);  // a refusal is not a failure of the queue
    }
    nn_cuda_queue_free(q);
}

TEST(cuda, ops_peak) {
    const char* name[] = {"fp32", "tf32", "bf16"};
    double rate[3] = {0};
    firm_error err = {0};
    nn_cuda_queue* q = gpu_queue(NN_CUDA_FP32);
    for (int p = 0; q && p < 3; p++) {
        if (nn_cuda_peak(q, (nn_cuda_precision)p, &rate[p], &err) != FIRM_OK)
            test_fail(__FILE__, __LINE__, "%s", err.message);
        printf("  %s: %s %.1f TFLOP/s\n", nn_cuda_device(q), name[p], rate[p]);
    }
    if (q) EXPECT(rate[0] > 0 && rate[1] > 0 && rate[2] > 0);
    nn_cuda_queue_free(q);
}
