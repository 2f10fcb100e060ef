// cluster.cu - the cluster way's host side: whether it can be taken, the weights packed for its
// blocks, launches. The kernel is in cluster_kernel.cu.
#include <string.h>

#include "plan/cuda/cluster.cuh"

using namespace cluster_layout;

static const char* const clock_names[CLOCKS] = {
    "start of a rollout", "in: products",    "in: sum, statistics, send",
    "in: wait",           "up: products",    "up: sum, GELU, send",
    "up: wait",           "down: products",  "down: sum, add, send",
    "down: wait",         "heads: products", "heads: sum, add, send",
    "heads: wait",        "costs",           "all clusters meet",
    "rank and refit"};

struct cluster_way {
    cluster_args args;
    int clusters;  // that fit on the device at once
    char* memory;
    float* value;
};

const char* cluster_why_not(const plan_gpu* g) {
    const plan_net_shape* s = &g->setup.shape;
    const plan_options* o = &g->setup.options;
    int longest = g->size.longest * s->action;
    if (g->major != 9) return "it needs compute capability 9.0";
    if (g->setup.precision == PLAN_FP32) return "it has no float32 products";
    if (s->spatial) return "it has no spatial residual";
    if (s->hidden != HIDDEN || s->inner != INNER || s->blocks != BLOCKS || s->fiber != FIBER ||
        s->config + s->action > X_IN - FIBER || s->config > 8)
        return "it is made for hidden 384, inner 768, 2 blocks and fiber 128";
    if (o->elites > MAX_ELITES || g->size.horizon * s->action > MAX_FIT || longest > 65536 ||
        (o->candidates + 4 + o->elites * g->size.horizon * s->action) * 4 > SCRATCH)
        return "so many candidates, elites or macro steps do not fit its shared memory";
    return NULL;
}

// Fragment (k16 tile, n8 tile) of `l` for all lanes: inputs from `order` (NULL: as they come),
// outputs column .. column + 7; out of range: 0.
static void fragment(const plan_gpu* g, const host_layer* l, float scale, const int* order, int k16,
                     const int* column, uint16_t* out) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int k = k16 * 16 + lane % 4 * 2 + i % 2 + i / 2 * 8, o = column[lane / 4];
            if (order) k = order[k];
            float v =
                k >= 0 && k < l->in && o >= 0 ? l->w[(size_t)k * (size_t)l->out + (size_t)o] : 0.0f;
            out[lane * 4 + i] = gpu_operand(v / scale, g->setup.precision);
        }
}

// Where each part of a packed image begins, in bytes.
enum {
    UP_BYTES = BLOCKS * RANKS * WARPS * 18 * 256,
    IN_BYTES = RANKS * 30 * 256,
    HEADS_BYTES = RANKS * 48 * 256,
    VECTOR_BYTES = RANKS * VECTORS * 4,
    AT_DOWN_IMAGE = UP_BYTES,
    AT_IN_IMAGE = 2 * UP_BYTES,
    AT_HEADS_IMAGE = AT_IN_IMAGE + IN_BYTES,
    AT_VECTOR_IMAGE = AT_HEADS_IMAGE + HEADS_BYTES,
    IMAGE = AT_VECTOR_IMAGE + VECTOR_BYTES
};

static void pack_rank(plan_gpu* g, int rank, char* image) {
    cluster_args* a = &g->cluster->args;
    const host_layer *in = &g->host[LAYER_IN], *heads = &g->host[LAYER_HEADS];
    int config = g->size.config, order[X_IN], column[8];
    float* v = (float*)(image + AT_VECTOR_IMAGE) + rank * VECTORS;
    // x is held as [m, c, u], the weights expect [c, m, u]
    for (int k = 0; k < X_IN; k++)
        order[k] = k < FIBER ? config + k : k < FIBER + config ? k - FIBER : k;
    a->scale_in = gpu_weight_scale(in, g->setup.precision);
    a->scale_heads = gpu_weight_scale(heads, g->setup.precision);
    for (int k = 0; k < 10; k++)
        for (int n = 0; n < 3; n++) {
            for (int j = 0; j < 8; j++) column[j] = rank * 24 + n * 8 + j;
            fragment(g, in, a->scale_in, order, k, column,
                     (uint16_t*)(image + AT_IN_IMAGE + ((rank * 10 + k) * 3 + n) * 256));
        }
    for (int o = 0; o < 24; o++) v[V_IN + o] = in->bias[rank * 24 + o];
    for (int n = 0; n < 2; n++) {
        for (int j = 0; j < 8; j++) {
            column[j] = n == 0 ? config + rank * 8 + j : j < config ? j : -1;
            v[V_HEADS + n * 8 + j] = column[j] < 0 ? 0.0f : heads->bias[column[j]];
            v[V_HEADS_SUM + n * 8 + j] =
                column[j] < 0
                    ? 0.0f
                    : gpu_column_sum(heads, a->scale_heads, column[j], g->setup.precision);
        }
        for (int k = 0; k < 24; k++)
            fragment(g, heads, a->scale_heads, NULL, k, column,
                     (uint16_t*)(image + AT_HEADS_IMAGE + ((rank * 24 + k) * 2 + n) * 256));
    }
    for (int b = 0; b < BLOCKS; b++) {
        const host_layer *up = &g->host[LAYER_UP + b], *down = &g->host[LAYER_DOWN + b];
        a->scale_up[b] = gpu_weight_scale(up, g->setup.precision);
        a->scale_down[b] = gpu_weight_scale(down, g->setup.precision);
        for (int w = 0; w < WARPS; w++)
            for (int i = 0; i < 18; i++) {
                size_t at =
                    ((((size_t)b * RANKS + (size_t)rank) * WARPS + (size_t)w) * 18 + (size_t)i) *
                    256;
                int k = i / 3, n = i % 3;
                for (int j = 0; j < 8; j++) column[j] = rank * 48 + (w % 2 * 3 + n) * 8 + j;
                fragment(g, up, a->scale_up[b], NULL, w / 2 * 6 + k, column,
                         (uint16_t*)(image + at));
                for (int j = 0; j < 8; j++) column[j] = rank * 24 + n * 8 + j;
                fragment(g, down, a->scale_down[b], NULL, w * 6 + k, column,
                         (uint16_t*)(image + AT_DOWN_IMAGE + at));
            }
        for (int o = 0; o < 48; o++) {
            v[V_UP + b * 48 + o] = up->bias[rank * 48 + o];
            v[V_UP_SUM + b * 48 + o] =
                gpu_column_sum(up, a->scale_up[b], rank * 48 + o, g->setup.precision);
        }
        for (int o = 0; o < 24; o++) v[V_DOWN + b * 24 + o] = down->bias[rank * 24 + o];
    }
}

static firm_status send_image(plan_gpu* g, char* to, firm_error* err) {
    char* image = (char*)mem_calloc(1, IMAGE);
    if (!image) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    for (int rank = 0; rank < RANKS; rank++) pack_rank(g, rank, image);
    cudaError_t code = cudaMemcpy(to, image, IMAGE, cudaMemcpyHostToDevice);
    mem_free(image);
    GPU(code);
    return FIRM_OK;
}

static void configure(const plan_gpu* g, int clusters, cudaLaunchConfig_t* config,
                      cudaLaunchAttribute* attribute) {
    *config = {};
    config->gridDim = dim3((unsigned)(clusters * RANKS));
    config->blockDim = dim3(THREADS);
    config->dynamicSmemBytes = SHARED;
    config->stream = g->stream;
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = RANKS;
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    config->attrs = attribute;
    config->numAttrs = 1;
}

firm_status cluster_create(plan_gpu* g, firm_error* err) {
    cluster_way* w = (cluster_way*)mem_calloc(1, sizeof *w);
    if (!w) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    g->cluster = w;
    cluster_fn kernel = cluster_kernel_of(g->setup.precision, false);
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute;
    configure(g, 1, &config, &attribute);
    cudaError_t code = cudaSuccess;
    for (int timed = 1; timed >= 0 && code == cudaSuccess; timed--) {
        kernel = cluster_kernel_of(g->setup.precision, timed);
        GPU(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    }
    if (code == cudaSuccess) code = cudaOccupancyMaxActiveClusters(&w->clusters, kernel, &config);
    if (code != cudaSuccess || w->clusters < 1) {
        cudaGetLastError();
        cluster_free(g);  // a GPU in parts, say; the layered way does
        return FIRM_OK;
    }
    int wanted = (g->size.candidates + ROWS - 1) / ROWS;
    if (w->clusters > wanted) w->clusters = wanted;

    const sizes* s = &g->size;
    int quads = (s->horizon * s->action + 3) / 4;
    size_t noise = (size_t)g->setup.options.iterations * (size_t)s->candidates * (size_t)quads * 16;
    size_t stage = (size_t)w->clusters * RANKS * 2 * G_CHUNK;
    size_t value = (size_t)round_up(s->candidates, 64) * 4;
    size_t image = ((size_t)IMAGE + 255) / 256 * 256;
    GPU(cudaMalloc((void**)&w->memory, image + stage + noise + value + 256));
    TRY(send_image(g, w->memory, err));
    g->bytes += image + stage + noise + value + 256;
    g->noise = (float*)(w->memory + image + stage);
    cluster_args* a = &w->args;
    a->s = *s;
    a->cost = g->cost;
    a->searches = g->searches;
    a->w_up = (const uint2*)w->memory;
    a->w_down = (const uint2*)(w->memory + AT_DOWN_IMAGE);
    a->w_in = (const uint2*)(w->memory + AT_IN_IMAGE);
    a->w_heads = (const uint2*)(w->memory + AT_HEADS_IMAGE);
    a->vectors = (const float*)(w->memory + AT_VECTOR_IMAGE);
    a->u_low = g->u_low;
    a->u_high = g->u_high;
    a->noise = g->noise;
    a->c = g->c;
    a->path = g->path;
    a->value[0] = g->value;
    a->value[1] = (float*)(w->memory + image + stage + noise);
    a->barrier = (unsigned*)(w->memory + image + stage + noise + value);
    a->stage = w->memory + image;
    a->quads = quads;
    return FIRM_OK;
}

void cluster_free(plan_gpu* g) {
    if (!g->cluster) return;
    if (g->cluster->memory) cudaFree(g->cluster->memory);
    mem_free(g->cluster);
    g->cluster = NULL;
}

static firm_status launch(plan_gpu* g, const cluster_args* args, firm_error* err) {
    int clusters = (args->n + ROWS - 1) / ROWS;
    if (clusters > g->cluster->clusters) clusters = g->cluster->clusters;
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute;
    configure(g, clusters, &config, &attribute);
    GPU(cudaLaunchKernelEx(&config, cluster_kernel_of(g->setup.precision, args->clocks != NULL),
                           *args));
    return FIRM_OK;
}

firm_status cluster_solve(plan_gpu* g, int iterations, firm_error* err) {
    cluster_args a = g->cluster->args;
    a.n = g->size.candidates;
    a.horizon = g->size.horizon;
    a.iterations = iterations;
    TRY(search_noise(g, iterations, a.barrier, err));
    if (g->timing) a.clocks = (unsigned long long*)((char*)a.barrier + 128);
    return launch(g, &a, err);
}

firm_status cluster_clocks(plan_gpu* g, int room, const char** name, double* cycles, int* count,
                           firm_error* err) {
    unsigned long long value[CLOCKS];
    GPU(cudaMemcpy(value, (char*)g->cluster->args.barrier + 128, sizeof value,
                   cudaMemcpyDeviceToHost));
    *count = room < CLOCKS ? room : CLOCKS;
    for (int i = 0; i < *count; i++) {
        name[i] = clock_names[i];
        cycles[i] = (double)value[i];
    }
    return FIRM_OK;
}

firm_status cluster_rollout(plan_gpu* g, int n, int horizon, firm_error* err) {
    cluster_args a = g->cluster->args;
    a.n = n;
    a.horizon = horizon;
    a.iterations = 1;
    a.u = g->u;
    return launch(g, &a, err);
}
