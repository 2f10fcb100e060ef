// lewm.cu - a LeWM planner's life on a GPU: weights are folded and sent, all memory is taken, one
// iteration of a search is captured; then latents go in and plans come out.
#include <math.h>
#include <string.h>

#include "plan/cuda/lewm.cuh"
#include "plan/cuda/library.cuh"

enum { MOST_CANDIDATES = 8192 };  // every candidate is ranked against every other

// ---- sizes and memory ---------------------------------------------------------------------------

static firm_status check(const lewm_gpu_setup* setup, firm_error* err) {
    const lewm_shape* s = &setup->model->shape;
    const plan_options* o = &setup->options;
    TRY(plan_options_check(o, err));
    if (o->candidates > MOST_CANDIDATES || setup->searches < 1)
        return FAIL(err, FIRM_E_VALUE,
                    "the GPU planner takes up to %d candidates and at least one search; asked for "
                    "%d and %d",
                    MOST_CANDIDATES, o->candidates, setup->searches);
    if (s->width % 8 || s->width > 512 || s->predictor_head % 8 || s->predictor_head > 256 ||
        s->predictor_mlp % 8 || s->projector % 8 || s->action_mlp % 8 || s->action_hidden > 256)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "the GPU planner takes models of LeWM whose widths are multiples of 8 (at most "
                    "512 a latent, 256 a head); plan on the CPU");
    return FIRM_OK;
}

static size_t lines(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static void set_sizes(lewm_gpu* g, const lewm_weights* w) {
    const lewm_shape* s = &w->shape;
    const plan_options* o = &g->setup.options;
    lewm_sizes* z = &g->size;
    *z = {};
    z->width = s->width, z->inner = w->inner, z->heads = s->predictor_heads;
    z->head = s->predictor_head, z->depth = s->predictor_depth, z->context = s->context;
    z->mlp = s->predictor_mlp, z->projector = s->projector, z->action = w->action;
    z->action_hidden = s->action_hidden, z->action_mlp = s->action_mlp;
    z->candidates = o->candidates, z->elites = o->elites, z->horizon = o->horizon;
    z->longest = o->horizon_max > o->horizon ? o->horizon_max : o->horizon;
    z->modulation = z->depth * LEWM_CHUNKS * z->width;
    z->z0_at = lines(sizeof(lewm_search));
    z->goal_at = z->z0_at + (size_t)z->width * 4;
    z->mean_at = z->goal_at + (size_t)z->width * 4;
    z->spread_at = z->mean_at + (size_t)(z->longest * z->action) * 4;
    z->stride = lines(z->spread_at + (size_t)(z->longest * z->action) * 4);
    g->element = g->setup.precision == PLAN_BF16 ? 2 : 4;
    g->rows = g->setup.searches * z->candidates;
}

// Walks over all device memory: counts it, and hands it out where there is some.
typedef struct slab {
    char* at;
    size_t bytes;
} slab;

static char* cut(slab* m, size_t bytes) {
    char* at = m->at ? m->at + m->bytes : NULL;
    m->bytes += lines(bytes);
    return at;
}

static void place_layer(slab* m, gpu_layer* l, const lewm_fold* from, size_t element) {
    l->in = from->in;
    l->out = from->out;
    l->w = cut(m, (size_t)from->in * (size_t)from->out * element);
    l->b = (float*)cut(m, (size_t)from->out * 4);
    l->b_operand = cut(m, (size_t)from->out * element);
}

static void place_all(lewm_gpu* g, slab* m, const lewm_weights* w) {
    const lewm_sizes* s = &g->size;
    const size_t e = g->element, rows = (size_t)g->rows, c = (size_t)s->context,
                 p = (size_t)s->longest, width = (size_t)s->width, inner = (size_t)s->inner;
    const size_t widest = (size_t)(s->mlp > s->projector ? s->mlp : s->projector);
    place_layer(m, &g->patch, &w->patch, 4);
    place_layer(m, &g->embed_up, &w->embed_up, 4);
    place_layer(m, &g->embed_down, &w->embed_down, e);
    place_layer(m, &g->modulation, &w->modulation, e);
    for (int i = 0; i < s->depth; i++) {
        place_layer(m, &g->block[i].qkv, &w->block[i].qkv, e);
        place_layer(m, &g->block[i].out, &w->block[i].out, e);
        place_layer(m, &g->block[i].up, &w->block[i].up, e);
        place_layer(m, &g->block[i].down, &w->block[i].down, e);
    }
    place_layer(m, &g->head_up, &w->head_up, e);
    place_layer(m, &g->head_down, &w->head_down, e);
    g->positions = (float*)cut(m, c * width * 4);
    g->searches = cut(m, (size_t)g->setup.searches * s->stride);
    g->u = (float*)cut(m, rows * p * (size_t)s->action * 4);
    g->embedding = cut(m, p * rows * (size_t)s->action_mlp * e);
    g->condition = cut(m, p * rows * width * e);
    g->mod = cut(m, p * rows * (size_t)s->modulation * e);
    g->qkv = cut(m, (size_t)s->depth * c * rows * 3 * inner * e);
    g->x = (float*)cut(m, c * rows * width * 4);
    g->a = cut(m, c * rows * width * e);
    g->o = cut(m, c * rows * inner * e);
    g->h = cut(m, c * rows * widest * e);
    g->y = (float*)cut(m, (p > c ? p : c) * rows * width * 4);
    g->path = (float*)cut(m, rows * p * width * 4);
    g->value = (float*)cut(m, rows * 4);
    g->means = (float*)cut(m, (size_t)g->setup.searches * p * width * 4);
    g->workspace = cut(m, LEWM_WORKSPACE);
}

static firm_status take_memory(lewm_gpu* g, const lewm_weights* w, firm_error* err) {
    const lewm_sizes* s = &g->size;
    slab m = {};
    place_all(g, &m, w);
    g->bytes = m.bytes;
    GPU(cudaMalloc((void**)&g->memory, g->bytes));
    // rows that no search fills are multiplied along
    GPU(cudaMemset(g->memory, 0, g->bytes));
    m = {g->memory, 0};
    place_all(g, &m, w);
    const size_t path = (size_t)s->longest * (size_t)s->width * 4;
    g->pinned_bytes = (size_t)g->setup.searches * (s->stride + path) + (size_t)g->rows * (4 + path);
    GPU(cudaMallocHost((void**)&g->pinned, g->pinned_bytes));
    memset(g->pinned, 0, g->pinned_bytes);
    return FIRM_OK;
}

// (in, out) on the host becomes (out, in) on the device.
static firm_status send_layer(const gpu_layer* to, const lewm_fold* from, size_t element,
                              firm_error* err) {
    const size_t in = (size_t)from->in, out = (size_t)from->out;
    char* room = (char*)mem_alloc(in * out * element);
    if (!room) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) {
            const float x = from->w[i * out + o];
            if (element == 2)
                ((__nv_bfloat16*)room)[o * in + i] = __float2bfloat16(x);
            else
                ((float*)room)[o * in + i] = x;
        }
    cudaError_t code = cudaMemcpy(to->w, room, in * out * element, cudaMemcpyHostToDevice);
    mem_free(room);
    GPU(code);
    GPU(cudaMemcpy(to->b, from->b, out * 4, cudaMemcpyHostToDevice));
    if (element != 2) return FIRM_OK;
    __nv_bfloat16* bias = (__nv_bfloat16*)mem_alloc(out * sizeof *bias);
    if (!bias) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    for (size_t o = 0; o < out; o++) bias[o] = __float2bfloat16(from->b[o]);
    code = cudaMemcpy(to->b_operand, bias, out * element, cudaMemcpyHostToDevice);
    mem_free(bias);
    GPU(code);
    return FIRM_OK;
}

static firm_status send_weights(lewm_gpu* g, const lewm_weights* w, firm_error* err) {
    const size_t e = g->element;
    TRY(send_layer(&g->patch, &w->patch, 4, err));
    TRY(send_layer(&g->embed_up, &w->embed_up, 4, err));
    TRY(send_layer(&g->embed_down, &w->embed_down, e, err));
    TRY(send_layer(&g->modulation, &w->modulation, e, err));
    for (int i = 0; i < g->size.depth; i++) {
        TRY(send_layer(&g->block[i].qkv, &w->block[i].qkv, e, err));
        TRY(send_layer(&g->block[i].out, &w->block[i].out, e, err));
        TRY(send_layer(&g->block[i].up, &w->block[i].up, e, err));
        TRY(send_layer(&g->block[i].down, &w->block[i].down, e, err));
    }
    TRY(send_layer(&g->head_up, &w->head_up, e, err));
    TRY(send_layer(&g->head_down, &w->head_down, e, err));
    GPU(cudaMemcpy(g->positions, w->positions, (size_t)(g->size.context * g->size.width) * 4,
                   cudaMemcpyHostToDevice));
    return FIRM_OK;
}

// ---- what is captured ---------------------------------------------------------------------------

static firm_status iterate(lewm_gpu* g, int count, firm_error* err) {
    const lewm_job j = {count, g->size.candidates, g->size.horizon};
    TRY(lewm_draw(g, &j, LEWM_NOISE, err));
    TRY(lewm_predict(g, &j, err));
    return lewm_fit(g, &j, err);
}

// The means' own path; the candidates' paths and costs of the last iteration are gone after it.
static firm_status roll_means(lewm_gpu* g, int count, firm_error* err) {
    const lewm_job j = {count, 1, g->size.horizon};
    TRY(lewm_draw(g, &j, LEWM_MEANS, err));
    TRY(lewm_predict(g, &j, err));
    GPU(cudaMemcpyAsync(g->means, g->path,
                        (size_t)count * (size_t)(g->size.horizon * g->size.width) * 4,
                        cudaMemcpyDeviceToDevice, g->stream));
    return FIRM_OK;
}

typedef firm_status (*work_fn)(lewm_gpu* g, int count, firm_error* err);

// Runs the work once, so that every product has its algorithm and every kernel is loaded, then
// captures it.
static firm_status capture(lewm_gpu* g, work_fn work, int count, cudaGraphExec_t* out,
                           firm_error* err) {
    cudaGraph_t graph = NULL;
    TRY(work(g, count, err));
    GPU(cudaStreamSynchronize(g->stream));
    GPU(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal));
    firm_status status = work(g, count, err);
    cudaError_t code = cudaStreamEndCapture(g->stream, &graph);
    if (status == FIRM_OK && code == cudaSuccess) code = cudaGraphInstantiate(out, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    TRY(status);
    GPU(code);
    return FIRM_OK;
}

// ---- life ---------------------------------------------------------------------------------------

static firm_status build(lewm_gpu* g, const lewm_weights* w, firm_error* err) {
    cudaDeviceProp prop;
    TRY(gpu_choose(g->setup.device, &prop, err));
    memcpy(g->device, prop.name, sizeof g->device);
    set_sizes(g, w);
    GPU(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking));
    GPU(cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming | cudaEventBlockingSync));
    cublasStatus_t blas = cublasLtCreate(&g->blas);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return FAIL(err, FIRM_E_UNAVAILABLE, "cuBLASLt failed: %s", cublasLtGetStatusString(blas));
    TRY(take_memory(g, w, err));
    TRY(send_weights(g, w, err));
    TRY(lewm_rows_prepare(g, err));
    TRY(lewm_few_prepare(g, err));
    if (g->setup.options.mode != FIRM_MODE_CONTRACT) return FIRM_OK;
    for (int i = 0; i < (g->setup.searches > 1 ? 2 : 1); i++) {
        const int count = i ? g->setup.searches : 1;
        TRY(capture(g, iterate, count, &g->iteration[i], err));
        TRY(capture(g, roll_means, count, &g->last[i], err));
    }
    GPU(cudaStreamSynchronize(g->stream));
    return FIRM_OK;
}

static void cuda_lewm_free(lewm_gpu* g);

static firm_status cuda_lewm_create(const lewm_gpu_setup* setup, lewm_gpu** out, firm_error* err) {
    *out = NULL;
    TRY(check(setup, err));
    lewm_gpu* g = (lewm_gpu*)mem_calloc(1, sizeof *g);
    if (!g) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    g->setup = *setup;
    lewm_weights w = {};
    firm_status status = lewm_weights_take(setup->model, &w, err);
    if (status == FIRM_OK) status = build(g, &w, err);
    lewm_weights_free(&w);
    g->setup.model = NULL;  // the caller's; all copied
    if (status != FIRM_OK) {
        cuda_lewm_free(g);
        return status;
    }
    *out = g;
    return FIRM_OK;
}

static void cuda_lewm_free(lewm_gpu* g) {
    if (!g) return;
    cudaSetDevice(g->setup.device);
    if (g->stream) cudaStreamSynchronize(g->stream);
    for (int i = 0; i < 2; i++) {
        if (g->iteration[i]) cudaGraphExecDestroy(g->iteration[i]);
        if (g->last[i]) cudaGraphExecDestroy(g->last[i]);
    }
    lewm_products_free(g);
    lewm_few_free(g);
    if (g->blas) cublasLtDestroy(g->blas);
    if (g->memory) cudaFree(g->memory);
    if (g->pinned) cudaFreeHost(g->pinned);
    if (g->done) cudaEventDestroy(g->done);
    if (g->stream) cudaStreamDestroy(g->stream);
    mem_free(g);
}

static size_t cuda_lewm_bytes(const lewm_gpu* g) {
    return g->bytes;
}
static int cuda_lewm_whole(const lewm_gpu* g) {
    const lewm_job one = {1, g->size.candidates, g->size.horizon};
    return lewm_few_takes(g, &one);
}
static const char* cuda_lewm_device(const lewm_gpu* g) {
    return g->device;
}

// ---- searching ----------------------------------------------------------------------------------

static void write_search(lewm_gpu* g, int i, const plan_problem* p) {
    const lewm_sizes* s = &g->size;
    lewm_search* q = lewm_search_at(g->pinned, *s, i);
    *q = {};
    q->seed = p->seed;
    q->solve = p->solve;
    q->elite_cost = INFINITY;
    memcpy(lewm_part(q, s->z0_at), p->now, (size_t)s->width * 4);
    if (p->goal) memcpy(lewm_part(q, s->goal_at), p->goal, (size_t)s->width * 4);
    float *mean = lewm_part(q, s->mean_at), *spread = lewm_part(q, s->spread_at);
    for (int j = 0; j < s->longest * s->action; j++) {
        mean[j] = 0.0f;
        spread[j] = g->setup.options.spread;
    }
}

static firm_status send(lewm_gpu* g, int count, firm_error* err) {
    GPU(cudaSetDevice(g->setup.device));
    GPU(cudaMemcpyAsync(g->searches, g->pinned, (size_t)count * g->size.stride,
                        cudaMemcpyHostToDevice, g->stream));
    return FIRM_OK;
}

static firm_status wait_done(lewm_gpu* g, firm_error* err) {
    GPU(cudaEventRecord(g->done, g->stream));
    GPU(cudaEventSynchronize(g->done));
    return FIRM_OK;
}

static firm_status cuda_lewm_solve(lewm_gpu* g, int count, const plan_problem* problem,
                                   int iterations, int all, plan_answer* answer, firm_error* err) {
    const lewm_sizes* s = &g->size;
    if (count < 1 || count > g->setup.searches || iterations < 1 || !g->iteration[0])
        return FAIL(err, FIRM_E_USAGE, "%d searches of %d iterations asked for; made for %d", count,
                    iterations, g->iteration[0] ? g->setup.searches : 0);
    const int many = count > 1, ran = many ? g->setup.searches : 1;
    // a batch that is not full goes on with the last problem
    for (int i = 0; i < ran; i++) write_search(g, i, &problem[i < count ? i : count - 1]);
    TRY(send(g, ran, err));
    for (int i = 0; i < iterations; i++) GPU(cudaGraphLaunch(g->iteration[many], g->stream));
    const size_t path = (size_t)(s->horizon * s->width) * 4, head = (size_t)count * s->stride,
                 means = (size_t)count * path, values = (size_t)(count * s->candidates) * 4,
                 paths = (size_t)(count * s->candidates) * path;
    char* rest = g->pinned + (size_t)g->setup.searches * s->stride;
    if (all) {
        GPU(cudaMemcpyAsync(rest + means, g->value, values, cudaMemcpyDeviceToHost, g->stream));
        GPU(cudaMemcpyAsync(rest + means + values, g->path, paths, cudaMemcpyDeviceToHost,
                            g->stream));
    }
    GPU(cudaGraphLaunch(g->last[many], g->stream));
    GPU(cudaMemcpyAsync(g->pinned, g->searches, head, cudaMemcpyDeviceToHost, g->stream));
    GPU(cudaMemcpyAsync(rest, g->means, means, cudaMemcpyDeviceToHost, g->stream));
    TRY(wait_done(g, err));
    for (int i = 0; i < count; i++) {
        lewm_search* q = lewm_search_at(g->pinned, *s, i);
        plan_answer* a = &answer[i];
        *a = {};
        a->nonfinite = q->nonfinite;
        a->elites = q->elites;
        a->elite_cost = q->elite_cost;
        a->plan = lewm_part(q, s->mean_at);
        a->path = (const float*)(rest + (size_t)i * path);
        if (all) {
            a->value = (const float*)(rest + means) + (size_t)i * (size_t)s->candidates;
            a->paths =
                (const float*)(rest + means + values + (size_t)i * (size_t)s->candidates * path);
        }
    }
    return FIRM_OK;
}

static firm_status cuda_lewm_rollout(lewm_gpu* g, int n, int horizon, const float* z0,
                                     const float* u, float* path, int* nonfinite, firm_error* err) {
    const lewm_sizes* s = &g->size;
    if (n < 1 || n > s->candidates || horizon < 1 || horizon > s->longest)
        return FAIL(err, FIRM_E_USAGE, "%d candidates of %d macro steps; made for %d of %d", n,
                    horizon, s->candidates, s->longest);
    // always as many rows: a shape's algorithm is chosen once
    const lewm_job j = {1, s->candidates, horizon};
    const size_t actions = (size_t)n * (size_t)(horizon * s->action) * 4,
                 numbers = (size_t)(horizon * s->width);
    plan_problem p = {z0, NULL, NULL, 0, 0};
    write_search(g, 0, &p);
    TRY(send(g, 1, err));
    char* rest = g->pinned + (size_t)g->setup.searches * s->stride;
    memcpy(rest, u, actions);
    GPU(cudaMemcpyAsync(g->u, rest, actions, cudaMemcpyHostToDevice, g->stream));
    TRY(lewm_predict(g, &j, err));
    GPU(cudaMemcpyAsync(rest, g->path, (size_t)n * numbers * 4, cudaMemcpyDeviceToHost, g->stream));
    TRY(wait_done(g, err));
    memcpy(path, rest, (size_t)n * numbers * 4);
    *nonfinite = 0;
    for (int i = 0; i < n; i++) {
        int finite = 1;
        for (size_t k = 0; k < numbers; k++) finite &= isfinite(path[(size_t)i * numbers + k]) != 0;
        *nonfinite += !finite;
    }
    return FIRM_OK;
}

extern const gpu_lewm_planner cuda_lewm_planner = {
    cuda_lewm_create, cuda_lewm_free,  cuda_lewm_bytes,  cuda_lewm_device,
    cuda_lewm_whole,  cuda_lewm_solve, cuda_lewm_rollout};
