// gpu.cu - a GPU planner's life: the device is checked, weights are folded and sent, all memory is
// taken; then starts and goals go in and plans come out.
#include <float.h>
#include <math.h>
#include <string.h>

#include "plan/cuda/internal.cuh"
#include "plan/cuda/library.cuh"

enum { MAX_CANDIDATES = 8192 };  // every candidate is ranked against every other

firm_status gpu_failed(cudaError_t code, const char* what, firm_error* err) {
    cudaGetLastError();  // the next call starts clean
    if (code == cudaErrorMemoryAllocation)
        return FAIL(err, FIRM_E_MEMORY,
                    "the GPU has not enough free memory for the planner; lower the number of "
                    "candidates or of searches at once, or end other programs on it");
    return FAIL(err, FIRM_E_UNAVAILABLE, "the GPU failed: %s (%s)", cudaGetErrorString(code), what);
}

// ---- the device ---------------------------------------------------------------------------------

firm_status gpu_choose(int number, cudaDeviceProp* prop, firm_error* err) {
    int count = 0, driver = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver) {
        cudaDriverGetVersion(&driver);
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    driver ? "the GPU's driver is older than this program's CUDA; update the "
                             "driver, or use --device cpu"
                           : "no NVIDIA driver is installed; install one, or use --device cpu");
    }
    if (code != cudaSuccess || count == 0)
        return FAIL(err, FIRM_E_UNAVAILABLE, "no CUDA GPU was found (%s); use --device cpu",
                    code == cudaSuccess ? "the driver lists none" : cudaGetErrorString(code));
    if (number >= count)
        return FAIL(err, FIRM_E_UNAVAILABLE, "there is no GPU %d; the driver lists %d, from 0",
                    number, count);
    GPU(cudaSetDevice(number));
    GPU(cudaGetDeviceProperties(prop, number));
    if (prop->major < 8)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "%s has compute capability %d.%d; the planner needs 8.0 or newer, or --device "
                    "cpu",
                    prop->name, prop->major, prop->minor);
    return FIRM_OK;
}

static firm_status find_device(plan_gpu* g, firm_error* err) {
    cudaDeviceProp prop;
    TRY(gpu_choose(g->setup.device, &prop, err));
    memcpy(g->device, prop.name, sizeof g->device);
    g->major = prop.major;
    g->minor = prop.minor;
    g->processors = prop.multiProcessorCount;
    return FIRM_OK;
}

// ---- weights ------------------------------------------------------------------------------------

static firm_status host_layer_make(host_layer* l, int in, int out, firm_error* err) {
    l->in = in;
    l->out = out;
    l->w = (float*)mem_calloc((size_t)in * (size_t)out, sizeof(float));
    l->bias = (float*)mem_calloc((size_t)out, sizeof(float));
    return l->w && l->bias ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
}

// w (inputs, columns) behind a LayerNorm's scale and shift (nullable) into columns first .. of l;
// the same arithmetic as pack() of plan/net.c.
static void fold(host_layer* l, int first, int inputs, int columns, const float* w, const float* b,
                 const float* scale, const float* shift) {
    for (int o = 0; o < columns; o++) {
        double bias = b[o];
        for (int k = 0; k < inputs; k++) {
            double weight = w[(size_t)k * (size_t)columns + (size_t)o];
            if (shift) bias += shift[k] * weight;
            l->w[(size_t)k * (size_t)l->out + (size_t)(first + o)] =
                (float)(scale ? scale[k] * weight : weight);
        }
        l->bias[first + o] = (float)bias;
    }
}

static firm_status fold_weights(plan_gpu* g, firm_error* err) {
    const plan_net_shape* s = &g->setup.shape;
    const plan_net_weights* w = g->setup.weights;
    int state = s->config + s->fiber;
    host_layer* h = g->host;
    TRY(host_layer_make(&h[LAYER_IN], state + s->action, s->hidden, err));
    fold(&h[LAYER_IN], 0, h[LAYER_IN].in, s->hidden, w->w_in, w->b_in, NULL, NULL);
    if (s->spatial) {
        const plan_net_block* q = &w->spatial.block;
        const int features = nn_push_features(&w->spatial.push);
        host_layer *up = &h[LAYER_SPATIAL_UP], *down = &h[LAYER_SPATIAL_DOWN];
        TRY(host_layer_make(up, s->hidden + features, s->spatial, err));
        TRY(host_layer_make(down, s->spatial, s->hidden, err));
        fold(up, 0, s->hidden, s->spatial, q->w1, q->b1, q->ln_scale, q->ln_shift);
        memcpy(up->w + (size_t)s->hidden * (size_t)s->spatial, w->spatial.w_s,
               (size_t)features * (size_t)s->spatial * sizeof(float));
        fold(down, 0, s->spatial, s->hidden, q->w2, q->b2, NULL, NULL);
    }
    for (int b = 0; b < s->blocks; b++) {
        const plan_net_block* q = &w->block[b];
        TRY(host_layer_make(&h[LAYER_UP + b], s->hidden, s->inner, err));
        TRY(host_layer_make(&h[LAYER_DOWN + b], s->inner, s->hidden, err));
        fold(&h[LAYER_UP + b], 0, s->hidden, s->inner, q->w1, q->b1, q->ln_scale, q->ln_shift);
        fold(&h[LAYER_DOWN + b], 0, s->inner, s->hidden, q->w2, q->b2, NULL, NULL);
    }
    TRY(host_layer_make(&h[LAYER_HEADS], s->hidden, state, err));
    fold(&h[LAYER_HEADS], 0, s->hidden, s->config, w->w_c, w->b_c, w->ln_scale, w->ln_shift);
    if (s->fiber)
        fold(&h[LAYER_HEADS], s->config, s->hidden, s->fiber, w->w_m, w->b_m, w->ln_scale,
             w->ln_shift);
    return FIRM_OK;
}

float gpu_weight_scale(const host_layer* l, plan_precision precision) {
    if (precision != PLAN_TF32) return 1.0f;
    float most = 0.0f;
    for (size_t i = 0; i < (size_t)l->in * (size_t)l->out; i++) most = fmaxf(most, fabsf(l->w[i]));
    if (!(most > 0.0f) || !isfinite(most)) return 1.0f;
    return ldexpf(1.0f, ilogbf(most) - 8);
}

uint16_t gpu_operand(float x, plan_precision precision) {
    uint16_t bits;
    if (precision == PLAN_TF32) {
        __half h = __float2half_rn(x);
        memcpy(&bits, &h, 2);
    } else {
        __nv_bfloat16 b = __float2bfloat16_rn(x);
        memcpy(&bits, &b, 2);
    }
    return bits;
}

static float as_float(uint16_t bits, plan_precision precision) {
    if (precision == PLAN_TF32) {
        __half_raw h;
        h.x = bits;
        return __half2float(__half(h));
    }
    __nv_bfloat16_raw b;
    b.x = bits;
    return __bfloat162float(__nv_bfloat16(b));
}

float gpu_column_sum(const host_layer* l, float scale, int o, plan_precision precision) {
    double sum = 0.0;
    for (int k = 0; k < l->in; k++)
        sum +=
            as_float(gpu_operand(l->w[(size_t)k * (size_t)l->out + (size_t)o] / scale, precision),
                     precision);
    return (float)sum;
}

static firm_status send_layer(plan_gpu* g, const host_layer* h, layer* l, firm_error* err) {
    plan_precision how = g->setup.precision;
    size_t area = (size_t)l->in * (size_t)l->out;
    char* image = (char*)mem_calloc(area, g->element);
    if (!image) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    l->scale = gpu_weight_scale(h, how);
    for (int k = 0; k < h->in; k++)
        for (int o = 0; o < h->out; o++) {
            float v = h->w[(size_t)k * (size_t)h->out + (size_t)o];
            if (how == PLAN_FP32)
                ((float*)image)[(size_t)k * (size_t)l->out + (size_t)o] = v;
            else
                ((uint16_t*)image)[(size_t)o * (size_t)l->in + (size_t)k] =
                    gpu_operand(v / l->scale, how);
        }
    cudaError_t code = cudaMemcpy(l->w, image, area * g->element, cudaMemcpyHostToDevice);
    mem_free(image);
    GPU(code);
    GPU(cudaMemcpy(l->bias, h->bias, (size_t)h->out * sizeof(float), cudaMemcpyHostToDevice));
    return FIRM_OK;
}

// ---- memory -------------------------------------------------------------------------------------

static void set_sizes(plan_gpu* g) {
    const plan_net_shape* n = &g->setup.shape;
    const plan_options* o = &g->setup.options;
    sizes* s = &g->size;
    *s = {};
    s->config = n->config, s->pairs = n->pairs, s->fiber = n->fiber, s->action = n->action;
    s->hidden = n->hidden, s->inner = n->inner, s->blocks = n->blocks;
    s->candidates = o->candidates, s->elites = o->elites, s->horizon = o->horizon;
    s->longest = o->mode == FIRM_MODE_REACH ? o->horizon_max : o->horizon;
    s->state = s->config + s->fiber;
    s->x_in = round_up(s->state + s->action, PAD_IN);
    s->h_in = round_up(s->hidden, PAD_IN);
    s->g_in = round_up(s->inner, PAD_IN);
    s->spatial = n->spatial;
    const int features = nn_push_features(&g->setup.weights->spatial.push);
    s->s_in = n->spatial ? round_up(s->hidden + features, PAD_IN) : 0;
    s->v_in = round_up(n->spatial, PAD_IN);
    s->fit = s->longest * s->action;
    s->m0_at = sizeof(search);
    s->mean_at = s->m0_at + (size_t)s->fiber * 4;
    s->spread_at = s->mean_at + (size_t)s->fit * 4;
    s->search_stride = (s->spread_at + (size_t)s->fit * 4 + 63) / 64 * 64;
    g->element = g->setup.precision == PLAN_FP32 ? 4 : 2;
    g->rows = round_up(g->setup.searches * s->candidates, PAD_ROWS);
}

static size_t layout(plan_gpu* g, char* memory) {
    const sizes* s = &g->size;
    size_t at = 0, rows = (size_t)g->rows, e = g->element, searches = (size_t)g->setup.searches;
    auto take = [&](auto** slot, size_t bytes) {
        if (memory) *(char**)slot = memory + at;
        at += (bytes + 255) / 256 * 256;
    };
    take(&g->searches, searches * s->search_stride);
    take(&g->path, searches * (size_t)(s->longest * s->config) * 4);  // follows the searches
    take(&g->x, (size_t)s->longest * rows * (size_t)s->x_in * e);
    take(&g->state, rows * (size_t)s->state * 4);
    take(&g->h, rows * (size_t)s->h_in * 4);
    take(&g->a, rows * (size_t)s->h_in * e);
    take(&g->g, rows * (size_t)s->g_in * e);
    take(&g->gs, rows * (size_t)s->v_in * e);
    take(&g->spatial, rows * (size_t)s->s_in * e);
    take(&g->velocity, 2 * ((size_t)s->fiber + 1) * 4);
    take(&g->u, rows * (size_t)s->fit * 4);
    take(&g->c, rows * (size_t)(s->longest * s->config) * 4);
    take(&g->value, rows * 4);
    take(&g->u_low, (size_t)s->action * 4);
    take(&g->u_high, (size_t)s->action * 4);
    auto layer_at = [&](int which, int in, int out) {
        layer* l = &g->layers[which];
        l->in = in;
        l->out = round_up(out, PAD_OUT);
        take(&l->w, (size_t)l->in * (size_t)l->out * e);
        take(&l->bias, (size_t)l->out * 4);
    };
    layer_at(LAYER_IN, s->x_in, s->hidden);
    if (s->spatial) {
        layer_at(LAYER_SPATIAL_UP, s->s_in, s->spatial);
        layer_at(LAYER_SPATIAL_DOWN, s->v_in, s->hidden);
    }
    for (int b = 0; b < s->blocks; b++) {
        layer_at(LAYER_UP + b, s->h_in, s->inner);
        layer_at(LAYER_DOWN + b, s->g_in, s->hidden);
    }
    layer_at(LAYER_HEADS, s->h_in, s->state);
    return at;
}

static firm_status take_memory(plan_gpu* g, firm_error* err) {
    const sizes* s = &g->size;
    size_t free_bytes = 0, total = 0;
    g->bytes = layout(g, NULL);
    GPU(cudaMemGetInfo(&free_bytes, &total));
    if (g->bytes > free_bytes)
        return FAIL(err, FIRM_E_MEMORY,
                    "the GPU planner needs %.0f MB and %s has %.0f MB free; lower the number of "
                    "candidates or of searches at once",
                    (double)g->bytes * 1e-6, g->device, (double)free_bytes * 1e-6);
    GPU(cudaMalloc((void**)&g->memory, g->bytes));
    GPU(cudaMemset(g->memory, 0, g->bytes));
    layout(g, g->memory);
    size_t searches = (size_t)g->setup.searches, cs = (size_t)(s->longest * s->config);
    g->pinned_bytes = searches * (s->search_stride + cs * 4) +
                      searches * (size_t)s->candidates * (cs + (size_t)s->fit + 1) * 4 + 4096;
    GPU(cudaMallocHost((void**)&g->pinned, g->pinned_bytes));
    return FIRM_OK;
}

// ---- creation -----------------------------------------------------------------------------------

static firm_status check_setup(const plan_gpu_setup* p, firm_error* err) {
    const plan_net_shape* s = &p->shape;
    if (s->config < 1 || s->config > FIRM_MAX_CONFIG || s->pairs < 0 || 2 * s->pairs > s->config ||
        s->fiber < 0 || s->action < 1 || s->hidden < 1 || s->inner < 1 || s->blocks < 0 ||
        s->blocks > PLAN_MAX_BLOCKS || s->config != p->task->config_dim)
        return FAIL(err, FIRM_E_VALUE,
                    "a transition of config %d, fiber %d, action %d, hidden %d, inner %d, blocks "
                    "%d cannot be planned with; check the model file's dimensions",
                    s->config, s->fiber, s->action, s->hidden, s->inner, s->blocks);
    if (!plan_net_spatial_fits(s, p->weights))
        return FAIL(err, FIRM_E_VALUE,
                    "a spatial residual of %d units with config %d, action %d cannot be planned "
                    "with; check the model file's dimensions",
                    s->spatial, s->config, s->action);
    if (p->options.candidates > MAX_CANDIDATES)
        return FAIL(err, FIRM_E_VALUE,
                    "%d candidates are too many for the GPU planner; give at most %d, or use "
                    "--device cpu",
                    p->options.candidates, MAX_CANDIDATES);
    if (p->searches < 1 || (int64_t)p->searches * p->options.candidates > 1 << 24)
        return FAIL(err, FIRM_E_VALUE, "%d searches of %d candidates at once are too many",
                    p->searches, p->options.candidates);
    return FIRM_OK;
}

static void set_cost(plan_gpu* g) {
    const task_typed* task = g->setup.task;
    g->cost = {};
    g->cost.largest = task->cost == TASK_COST_MAX;
    g->cost.config = task->config_dim;
    g->cost.distances = task->distances;
    g->cost.priced = task_priced(task);
    for (int i = 0; i < task->distances; i++) {
        g->cost.rule[i] = task->distance[i].rule;
        g->cost.tolerance[i] = task->distance[i].tolerance;
    }
}

static firm_status send_bounds(plan_gpu* g, firm_error* err) {
    const plan_net_weights* w = g->setup.weights;
    if (g->size.spatial) {
        size_t bytes = 2 * (size_t)g->size.fiber * 4;
        GPU(cudaMemcpy(g->velocity, w->spatial.w_v, bytes, cudaMemcpyHostToDevice));
        GPU(cudaMemcpy((char*)g->velocity + bytes, w->spatial.b_v, 8, cudaMemcpyHostToDevice));
        g->push = w->spatial.push;
        memcpy(g->action_mean, w->spatial.mean, sizeof g->action_mean);
        memcpy(g->action_std, w->spatial.std, sizeof g->action_std);
    }
    for (int i = 0; i < g->size.action; i++) {
        float low = w->u_low ? w->u_low[i] : -INFINITY, high = w->u_high ? w->u_high[i] : INFINITY;
        GPU(cudaMemcpy(g->u_low + i, &low, 4, cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(g->u_high + i, &high, 4, cudaMemcpyHostToDevice));
    }
    return FIRM_OK;
}

// float32 has no batch way of its own: the layered one has large tiles too
static int batched(const plan_gpu_setup* s) {
    return s->precision != PLAN_FP32 &&
           (s->way == PLAN_GPU_BATCH || (s->way == PLAN_GPU_AUTO && s->searches > 1));
}

static firm_status build(plan_gpu* g, firm_error* err) {
    TRY(check_setup(&g->setup, err));
    TRY(find_device(g, err));
    set_sizes(g);
    set_cost(g);
    const char* why = g->setup.way == PLAN_GPU_LAYERED ? "" : cluster_why_not(g);
    if (g->setup.way == PLAN_GPU_CLUSTER && why)
        return FAIL(err, FIRM_E_UNAVAILABLE, "the planner's cluster way cannot be taken: %s", why);
    TRY(fold_weights(g, err));
    GPU(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking));
    GPU(cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming | cudaEventBlockingSync));
    TRY(take_memory(g, err));
    for (int i = 0; i < LAYERS; i++)
        if (g->host[i].w) TRY(send_layer(g, &g->host[i], &g->layers[i], err));
    TRY(send_bounds(g, err));
    if (batched(&g->setup)) TRY(fused_create(g, err));
    if (batched(&g->setup) && !g->fused) TRY(batch_create(g, err));
    TRY(layered_create(g, err));
    if (!batched(&g->setup) && g->setup.way != PLAN_GPU_LAYERED && !why)
        TRY(cluster_create(g, err));
    if (g->setup.way == PLAN_GPU_CLUSTER && !g->cluster)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "%s cannot hold clusters of 16 multiprocessors now; plan with the layered way",
                    g->device);
    GPU(cudaStreamSynchronize(g->stream));
    return FIRM_OK;
}

static void cuda_plan_free(plan_gpu* g);

static firm_status cuda_plan_create(const plan_gpu_setup* setup, plan_gpu** out, firm_error* err) {
    *out = NULL;
    plan_gpu* g = (plan_gpu*)mem_calloc(1, sizeof *g);
    if (!g) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    g->setup = *setup;
    firm_status status = build(g, err);
    g->setup.weights = NULL;  // the caller's; all copied
    for (int i = 0; i < LAYERS; i++) {
        mem_free(g->host[i].w);
        mem_free(g->host[i].bias);
        g->host[i] = {};
    }
    if (status != FIRM_OK) {
        cuda_plan_free(g);
        return status;
    }
    *out = g;
    return FIRM_OK;
}

static void cuda_plan_free(plan_gpu* g) {
    if (!g) return;
    cudaSetDevice(g->setup.device);
    if (g->stream) cudaStreamSynchronize(g->stream);
    layered_free(g);
    cluster_free(g);
    fused_free(g);
    if (g->memory) cudaFree(g->memory);
    if (g->batch_memory) cudaFree(g->batch_memory);
    if (g->pinned) cudaFreeHost(g->pinned);
    if (g->done) cudaEventDestroy(g->done);
    if (g->stream) cudaStreamDestroy(g->stream);
    mem_free(g);
}

static size_t cuda_plan_bytes(const plan_gpu* g) {
    return g->bytes;
}
static const char* cuda_plan_device(const plan_gpu* g) {
    return g->device;
}
static const char* cuda_plan_way_name(const plan_gpu* g) {
    return g->cluster ? "cluster" : g->fused ? "fused" : g->batched ? "batch" : "layered";
}

// ---- searching ----------------------------------------------------------------------------------

static search* pinned_search(const plan_gpu* g, int i) {
    return (search*)(g->pinned + (size_t)i * g->size.search_stride);
}
static char* pinned_rest(const plan_gpu* g) {
    return g->pinned + (size_t)g->setup.searches * g->size.search_stride;
}

static void write_search(plan_gpu* g, int i, const plan_problem* p, const float* mean,
                         const float* spread) {
    const sizes* s = &g->size;
    search* q = pinned_search(g, i);
    *q = {};
    q->seed = p->seed;
    q->solve = p->solve;
    q->elite_cost = INFINITY;
    memcpy(q->c0, p->now, (size_t)s->config * 4);
    if (p->goal) memcpy(q->goal, p->goal, (size_t)s->config * 4);
    if (s->fiber) memcpy((char*)q + s->m0_at, p->memory, (size_t)s->fiber * 4);
    float *to_mean = (float*)((char*)q + s->mean_at),
          *to_spread = (float*)((char*)q + s->spread_at);
    for (int j = 0; j < s->fit; j++) {
        to_mean[j] = mean ? mean[j] : 0.0f;
        to_spread[j] = spread ? spread[j] : g->setup.options.spread;
    }
}

// Spins for as long as one search takes on a GPU of its own, and longer; in a large batch, or
// behind other programs' work, the core is left to others.
static cudaError_t wait_for_stream(const plan_gpu* g) {
    const int64_t spin_ns = 4000000;
    cudaError_t code = cudaEventRecord(g->done, g->stream);
    if (code != cudaSuccess) return code;
    const int64_t until = clock_ns() + spin_ns;
    while ((code = cudaEventQuery(g->done)) == cudaErrorNotReady && clock_ns() < until)
        cudaGetLastError();  // that it is not ready is no error to find later
    if (code != cudaErrorNotReady) return code;
    cudaGetLastError();
    return cudaEventSynchronize(g->done);
}

// All that was asked of the GPU is done.
static firm_status wait_done(const plan_gpu* g, firm_error* err) {
    cudaError_t code = wait_for_stream(g);
    if (g->fused) TRY(fused_failed(g, code, err));
    GPU(code);
    return FIRM_OK;
}

// A thread has one GPU at a time; this planner's is chosen before anything is sent.
static firm_status send_searches(plan_gpu* g, int count, firm_error* err) {
    GPU(cudaSetDevice(g->setup.device));
    GPU(cudaMemcpyAsync(g->searches, g->pinned, (size_t)count * g->size.search_stride,
                        cudaMemcpyHostToDevice, g->stream));
    return FIRM_OK;
}

static firm_status cuda_plan_solve(plan_gpu* g, int count, const plan_problem* problem,
                                   int iterations, int all, plan_answer* answer, firm_error* err) {
    const sizes* s = &g->size;
    if (count < 1 || count > g->setup.searches || iterations < 1)
        return FAIL(err, FIRM_E_USAGE, "%d searches of %d iterations asked for; made for %d", count,
                    iterations, g->setup.searches);
    for (int i = 0; i < count; i++) write_search(g, i, &problem[i], NULL, NULL);
    TRY(send_searches(g, count, err));
    if (count == 1 && g->cluster && iterations <= g->setup.options.iterations) {
        TRY(cluster_solve(g, iterations, err));
    } else {
        for (int i = 0; i < iterations; i++) TRY(layered_iteration(g, count, err));
        TRY(layered_means(g, count, err));
    }
    size_t head = (size_t)count * s->search_stride;
    size_t paths = (size_t)count * (size_t)(s->horizon * s->config) * 4;
    char* rest = pinned_rest(g);
    GPU(cudaMemcpyAsync(g->pinned, g->searches, head, cudaMemcpyDeviceToHost, g->stream));
    GPU(cudaMemcpyAsync(rest, g->path, paths, cudaMemcpyDeviceToHost, g->stream));
    size_t values = (size_t)(count * s->candidates) * 4;
    size_t cs = values * (size_t)(s->horizon * s->config);
    if (all) {
        GPU(cudaMemcpyAsync(rest + paths, g->value, values, cudaMemcpyDeviceToHost, g->stream));
        GPU(cudaMemcpyAsync(rest + paths + values, g->c, cs, cudaMemcpyDeviceToHost, g->stream));
    }
    TRY(wait_done(g, err));
    for (int i = 0; i < count; i++) {
        const search* q = pinned_search(g, i);
        plan_answer* a = &answer[i];
        *a = {};
        a->nonfinite = q->nonfinite;
        a->elites = q->elites;
        a->elite_cost = q->elite_cost;
        a->plan = (const float*)((const char*)q + s->mean_at);
        a->path = (const float*)rest + (size_t)i * (size_t)(s->horizon * s->config);
        if (all) {
            a->value = (const float*)(rest + paths) + (size_t)i * (size_t)s->candidates;
            a->paths = (const float*)(rest + paths + values) +
                       (size_t)i * (size_t)(s->candidates * s->horizon * s->config);
        }
    }
    return FIRM_OK;
}

static firm_status cuda_plan_rollout(plan_gpu* g, int n, int horizon, const float* c0,
                                     const float* m0, const float* u, float* c_out, int* nonfinite,
                                     firm_error* err) {
    const sizes* s = &g->size;
    if (n < 1 || n > s->candidates || horizon < 1 || horizon > s->longest)
        return FAIL(err, FIRM_E_USAGE, "%d candidates of %d macro steps do not fit %d of %d", n,
                    horizon, s->candidates, s->longest);
    plan_problem p = {c0, m0, NULL, 0, 0};
    write_search(g, 0, &p, NULL, NULL);
    TRY(send_searches(g, 1, err));
    size_t us = (size_t)(n * horizon * s->action) * 4, cs = (size_t)(n * horizon * s->config) * 4;
    char* rest = pinned_rest(g);
    memcpy(rest, u, us);
    GPU(cudaMemcpyAsync(g->u, rest, us, cudaMemcpyHostToDevice, g->stream));
    if (g->cluster)
        TRY(cluster_rollout(g, n, horizon, err));
    else
        TRY(layered_rollout(g, n, horizon, err));
    GPU(cudaMemcpyAsync(rest + us, g->c, cs, cudaMemcpyDeviceToHost, g->stream));
    TRY(wait_done(g, err));
    memcpy(c_out, rest + us, cs);
    *nonfinite = 0;
    for (int i = 0; i < n; i++) {
        int bad = 0;
        for (int k = 0; k < horizon * s->config; k++)
            bad |= !isfinite(c_out[i * horizon * s->config + k]);
        *nonfinite += bad;
    }
    return FIRM_OK;
}

static firm_status cuda_plan_draw(plan_gpu* g, uint64_t seed, uint64_t solve, int iteration,
                                  const float* mean, const float* spread, float* u,
                                  firm_error* err) {
    const sizes* s = &g->size;
    float c0[FIRM_MAX_CONFIG] = {0};
    float* zeros = (float*)mem_calloc((size_t)s->fiber + 1, sizeof(float));
    if (!zeros) return FAIL(err, FIRM_E_MEMORY, "no memory for a drawing of candidates");
    plan_problem p = {c0, zeros, NULL, seed, solve};
    write_search(g, 0, &p, mean, spread);
    mem_free(zeros);
    pinned_search(g, 0)->iteration = iteration;
    TRY(send_searches(g, 1, err));
    TRY(search_draw(g, 1, 0, 0, s->candidates, s->horizon, err));
    GPU(cudaMemcpyAsync(u, g->u, (size_t)(s->candidates * s->horizon * s->action) * 4,
                        cudaMemcpyDeviceToHost, g->stream));
    TRY(wait_done(g, err));
    return FIRM_OK;
}

static firm_status cuda_plan_fit(plan_gpu* g, const float* u, const float* c, const float* goal,
                                 float* mean, float* spread, plan_answer* answer, firm_error* err) {
    const sizes* s = &g->size;
    float c0[FIRM_MAX_CONFIG] = {0};
    float* zeros = (float*)mem_calloc((size_t)s->fiber + 1, sizeof(float));
    if (!zeros) return FAIL(err, FIRM_E_MEMORY, "no memory for a fit");
    plan_problem p = {c0, zeros, goal, 0, 0};
    write_search(g, 0, &p, mean, spread);
    mem_free(zeros);
    TRY(send_searches(g, 1, err));
    size_t n = (size_t)(s->candidates * s->horizon);
    GPU(cudaMemcpyAsync(g->u, u, n * (size_t)s->action * 4, cudaMemcpyHostToDevice, g->stream));
    GPU(cudaMemcpyAsync(g->c, c, n * (size_t)s->config * 4, cudaMemcpyHostToDevice, g->stream));
    TRY(search_fit(g, 1, err));
    GPU(cudaMemcpyAsync(g->pinned, g->searches, s->search_stride, cudaMemcpyDeviceToHost,
                        g->stream));
    char* rest = pinned_rest(g);
    GPU(cudaMemcpyAsync(rest, g->value, (size_t)s->candidates * 4, cudaMemcpyDeviceToHost,
                        g->stream));
    TRY(wait_done(g, err));
    const search* q = pinned_search(g, 0);
    size_t width = (size_t)(s->horizon * s->action) * 4;
    memcpy(mean, (const char*)q + s->mean_at, width);
    memcpy(spread, (const char*)q + s->spread_at, width);
    *answer = {};
    answer->nonfinite = q->nonfinite;
    answer->elites = q->elites;
    answer->elite_cost = q->elite_cost;
    answer->value = (const float*)rest;
    return FIRM_OK;
}

static firm_status cuda_plan_phases(plan_gpu* g, int count, const plan_problem* problem,
                                    int iterations, double ms[3], firm_error* err) {
    cudaEvent_t mark[4] = {};
    firm_status status = FIRM_OK;
    ms[0] = ms[1] = ms[2] = 0.0;
    for (int i = 0; i < count; i++) write_search(g, i, &problem[i], NULL, NULL);
    TRY(send_searches(g, count, err));
    for (int i = 0; i < 4; i++)
        if (cudaEventCreate(&mark[i]) != cudaSuccess)
            status = FAIL(err, FIRM_E_UNAVAILABLE, "the GPU made no event to measure with");
    for (int i = 0; i < iterations && status == FIRM_OK; i++) {
        status = layered_marked(g, count, mark, err);
        if (status == FIRM_OK) status = wait_done(g, err);
        for (int k = 0; k < 3 && status == FIRM_OK; k++) {
            float took = 0.0f;
            cudaEventElapsedTime(&took, mark[k], mark[k + 1]);
            ms[k] += took;
        }
    }
    for (int i = 0; i < 4; i++)
        if (mark[i]) cudaEventDestroy(mark[i]);
    return status;
}

static firm_status cuda_plan_clocks(plan_gpu* g, const plan_problem* problem, int iterations,
                                    int room, const char** name, double* cycles, int* count,
                                    firm_error* err) {
    plan_answer a;
    *count = 0;
    if (g->fused) {
        TRY(cuda_plan_solve(g, 1, problem, iterations, 0, &a, err));
        return fused_clocks(g, room, name, cycles, count, err);
    }
    if (!g->cluster) return FIRM_OK;
    g->timing = 1;
    firm_status status = cuda_plan_solve(g, 1, problem, iterations, 0, &a, err);
    g->timing = 0;
    TRY(status);
    return cluster_clocks(g, room, name, cycles, count, err);
}

extern const gpu_planner cuda_planner = {cuda_plan_create,  cuda_plan_free,     cuda_plan_bytes,
                                         cuda_plan_device,  cuda_plan_way_name, cuda_plan_solve,
                                         cuda_plan_rollout, cuda_plan_draw,     cuda_plan_fit,
                                         cuda_plan_clocks,  cuda_plan_phases,   cuda_plan_peak};
