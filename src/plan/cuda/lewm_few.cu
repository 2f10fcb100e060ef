// lewm_few.cu - the host's side of lewm_few.cuh: which planners can use it, weights packed for it,
// and its launch.
#include "plan/cuda/lewm.cuh"
#include "plan/cuda/lewm_few_kernel.cuh"

using namespace lewm_few;

// What a planner keeps for it.
struct lewm_fewer {
    char* weights;
    int clusters;  // that the GPU runs at once
    few_args args;
};

// Published LeWM's sizes but for its depth, in bfloat16.
static bool fits(const lewm_gpu* g) {
    const lewm_sizes* s = &g->size;
    return !g->setup.in_turn && g->setup.precision == PLAN_BF16 && s->width == WIDTH &&
           s->heads == BLOCKS && s->head == HEAD && s->mlp == BLOCKS * UNITS &&
           s->projector == s->mlp && s->context == CONTEXT && s->depth <= DEPTH;
}

static bool said_no(cudaError_t code) {
    if (code != cudaSuccess) cudaGetLastError();
    return code != cudaSuccess;
}

typedef struct launch {
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute;
} launch;

static void set_launch(const lewm_gpu* g, int clusters, launch* l) {
    *l = {};
    l->config.gridDim = dim3((unsigned)(clusters * BLOCKS));
    l->config.blockDim = dim3(THREADS);
    l->config.dynamicSmemBytes = ROOM;
    l->config.stream = g->stream;
    l->config.attrs = &l->attribute;
    l->config.numAttrs = 1;
    l->attribute.id = cudaLaunchAttributeClusterDimension;
    l->attribute.val.clusterDim.x = BLOCKS;
    l->attribute.val.clusterDim.y = l->attribute.val.clusterDim.z = 1;
}

// how many clusters the GPU runs at once
static int clusters_of(const lewm_gpu* g) {
    int clusters = 0, capability = 0;
    if (said_no(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor,
                                       g->setup.device)) ||
        capability != 9 ||
        said_no(cudaFuncSetAttribute(lewm_few_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     ROOM)) ||
        said_no(cudaFuncSetAttribute(lewm_few_kernel,
                                     cudaFuncAttributeNonPortableClusterSizeAllowed, 1)))
        return 0;
    launch l;
    set_launch(g, 1, &l);
    return said_no(cudaOccupancyMaxActiveClusters(&clusters, lewm_few_kernel, &l.config))
               ? 0
               : clusters;
}

// A layer's pieces, for all blocks; where the next ones go.
static firm_status pack(const lewm_gpu* g, const gpu_layer* l, pack_args p, char** to,
                        firm_error* err) {
    p.w = (const bf16*)l->w;
    p.in = l->in;
    p.to = *to;
    p.stride = (size_t)pieces_of_step(g->size.depth) * PIECE;
    *to += (size_t)(p.columns * p.tiles) * PIECE;
    lewm_few_pack_kernel<<<(unsigned)(packed_count(p) + 255) / 256, 256, 0, g->stream>>>(p);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

static firm_status pack_mlp(const lewm_gpu* g, const gpu_layer* up, const gpu_layer* down,
                            char** to, firm_error* err) {
    const pack_args first = {NULL, 0, COLUMNS, UNITS / 64, 64, UNITS, 0, NULL, 0},
                    then = {NULL, 0, UNITS / 64, COLUMNS, 64, 0, UNITS, NULL, 0};
    TRY(pack(g, up, first, to, err));
    return pack(g, down, then, to, err);
}

static firm_status pack_all(const lewm_gpu* g, char* to, few_args* a, firm_error* err) {
    const lewm_sizes* s = &g->size;
    for (int i = 0; i < s->depth; i++) {
        const gpu_block* b = &g->block[i];
        const pack_args qkv = {NULL, 0, COLUMNS, 3, s->inner, HEAD, 0, NULL, 0},
                        out = {NULL, 0, 1, COLUMNS, 64, 0, HEAD, NULL, 0};
        TRY(pack(g, &b->qkv, qkv, &to, err));
        TRY(pack(g, &b->out, out, &to, err));
        TRY(pack_mlp(g, &b->up, &b->down, &to, err));
        a->qkv_bias[i] = b->qkv.b, a->out_bias[i] = b->out.b;
        a->up_bias[i] = b->up.b, a->down_bias[i] = b->down.b;
    }
    a->up_bias[s->depth] = g->head_up.b, a->down_bias[s->depth] = g->head_down.b;
    return pack_mlp(g, &g->head_up, &g->head_down, &to, err);
}

firm_status lewm_few_prepare(lewm_gpu* g, firm_error* err) {
    if (!fits(g)) return FIRM_OK;
    const int clusters = clusters_of(g);
    if (clusters * CANDIDATES < g->size.candidates) return FIRM_OK;
    lewm_fewer* w = (lewm_fewer*)mem_calloc(1, sizeof *w);
    if (!w) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    g->fewer = w;
    w->clusters = clusters;
    const size_t bytes = (size_t)(BLOCKS * pieces_of_step(g->size.depth)) * PIECE;
    GPU(cudaMalloc((void**)&w->weights, bytes));
    g->bytes += bytes;
    w->args.weights = w->weights;
    // of every candidate a share, and clusters are at least half full: fewer numbers than g->qkv
    // has
    w->args.kept = (bf16*)g->qkv;
    return pack_all(g, w->weights, &w->args, err);
}

void lewm_few_free(lewm_gpu* g) {
    if (!g->fewer) return;
    if (g->fewer->weights) cudaFree(g->fewer->weights);
    mem_free(g->fewer);
    g->fewer = NULL;
}

int lewm_few_takes(const lewm_gpu* g, const lewm_job* j) {
    return g->fewer && j->count * j->each <= g->fewer->clusters * CANDIDATES;
}

firm_status lewm_few_run(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const lewm_fewer* w = g->fewer;
    few_args a = w->args;
    a.r = lewm_rows_args(g, j);
    a.each = (a.r.rows + w->clusters - 1) / w->clusters;
    const int clusters = (a.r.rows + a.each - 1) / a.each;
    launch l;
    set_launch(g, clusters, &l);
    GPU(cudaLaunchKernelEx(&l.config, lewm_few_kernel, a));
    return FIRM_OK;
}
