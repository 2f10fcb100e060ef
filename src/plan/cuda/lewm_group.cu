// lewm_group.cu - the host's side of lewm_group.cuh: which planners can use it, weights packed for
// it, and its launch.
#include <stdlib.h>
#include <string.h>

#include "plan/cuda/lewm.cuh"
#include "plan/cuda/lewm_group.cuh"

using namespace lewm_group;

// What a planner keeps for it; all pointers into one memory.
struct lewm_grouped {
    char* memory;
    int groups;      // that the GPU runs at once
    bool near;       // clusters' shared memory
    int candidates;  // of a group
    group_args args;
};

// Published LeWM's sizes but for depth and the number of heads, in bfloat16.
static bool fits(const lewm_gpu* g) {
    const lewm_sizes* s = &g->size;
    return g->setup.precision == PLAN_BF16 && s->width == WIDTH && s->head == HEAD &&
           s->mlp == s->heads * UNITS && s->projector == s->mlp && s->context <= CONTEXT &&
           s->depth <= DEPTH;
}

// Two layers that follow one another: the first one's columns in `segments` pieces of `segment`
// numbers per part.
typedef struct packing {
    const gpu_layer *in, *out;
    int segment, segments, k_out;
} packing;

static size_t in_count(const lewm_gpu* g, const packing* p) {
    return (size_t)packed_count(g->size.heads, WIDTH / 16, p->segment * p->segments / 8 / WARPS);
}
static size_t out_count(const lewm_gpu* g, const packing* p) {
    return (size_t)packed_count(g->size.heads, p->k_out / 16, WIDTH / 8 / WARPS);
}

static packing packing_of(const lewm_gpu* g, int attention, int block) {
    const gpu_block* b = &g->block[block];
    if (attention) return {&b->qkv, &b->out, HEAD, 3, HEAD};
    if (block == g->size.depth) return {&g->head_up, &g->head_down, UNITS, 1, UNITS};
    return {&b->up, &b->down, UNITS, 1, UNITS};
}

static firm_status pack(const lewm_gpu* g, const pack_args* p, firm_error* err) {
    const unsigned count = (unsigned)packed_count(p->splits, p->k_tiles, p->n_tiles);
    lewm_pack_kernel<<<(count + THREADS - 1) / THREADS, THREADS, 0, g->stream>>>(*p);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

static firm_status pack_layers(const lewm_gpu* g, const packing* p, uint4* to, layers* out,
                               firm_error* err) {
    const int heads = g->size.heads;
    const pack_args first = {(const bf16*)p->in->w,
                             p->in->in,
                             heads,
                             WIDTH / 16,
                             p->segment * p->segments / 8 / WARPS,
                             p->segment,
                             heads * p->segment,
                             p->segment,
                             0,
                             to},
                    second = {(const bf16*)p->out->w,
                              p->out->in,
                              heads,
                              p->k_out / 16,
                              WIDTH / 8 / WARPS,
                              WIDTH,
                              0,
                              0,
                              p->k_out,
                              to + in_count(g, p)};
    *out = {first.to, second.to, p->in->b, p->out->b};
    TRY(pack(g, &first, err));
    return pack(g, &second, err);
}

// A launch of so many groups: as clusters, or else of blocks that are all there at once.
typedef struct launch {
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute;
} launch;

static int candidates_of(bool near) {
    return near ? (int)room_sizes<true>::CANDIDATES : (int)room_sizes<false>::CANDIDATES;
}

static void set_launch(const lewm_gpu* g, int groups, int cluster, bool near, launch* l) {
    *l = {};
    l->config.gridDim = dim3((unsigned)(groups * g->size.heads));
    l->config.blockDim = dim3(THREADS);
    l->config.dynamicSmemBytes = near ? (int)room_sizes<true>::ROOM : (int)room_sizes<false>::ROOM;
    l->config.stream = g->stream;
    l->config.attrs = &l->attribute;
    l->config.numAttrs = 1;
    if (cluster) {
        l->attribute.id = cudaLaunchAttributeClusterDimension;
        l->attribute.val.clusterDim.x = (unsigned)g->size.heads;
        l->attribute.val.clusterDim.y = l->attribute.val.clusterDim.z = 1;
    } else {
        l->attribute.id = cudaLaunchAttributeCooperative;
        l->attribute.val.cooperative = 1;
    }
}

static bool said_no(cudaError_t code) {
    if (code != cudaSuccess) cudaGetLastError();
    return code != cudaSuccess;
}

// How many clusters of `heads` blocks the GPU runs at once.
template <bool NEAR>
static int clusters_of(const lewm_gpu* g) {
    int clusters = 0, capability = 0;
    if (g->size.heads > 16 || (NEAR && room_sizes<NEAR>::ROWS % g->size.heads) ||
        said_no(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor,
                                       g->setup.device)) ||
        capability < 9 ||
        said_no(cudaFuncSetAttribute(lewm_group_kernel<NEAR>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     room_sizes<NEAR>::ROOM)) ||
        said_no(cudaFuncSetAttribute(lewm_group_kernel<NEAR>,
                                     cudaFuncAttributeNonPortableClusterSizeAllowed, 1)))
        return 0;
    launch l;
    set_launch(g, 1, 1, NEAR, &l);
    return said_no(cudaOccupancyMaxActiveClusters(&clusters, lewm_group_kernel<NEAR>, &l.config))
               ? 0
               : clusters;
}

// How many groups of `heads` blocks there are at once; 0 where blocks cannot wait for others.
static int groups_of(const lewm_gpu* g) {
    int together = 0, processors = 0, each = 0;
    const int device = g->setup.device;
    if (said_no(cudaFuncSetAttribute(lewm_group_kernel<false>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     room_sizes<false>::ROOM)) ||
        said_no(cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device)) ||
        said_no(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device)) ||
        said_no(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, lewm_group_kernel<false>,
                                                              THREADS, room_sizes<false>::ROOM)))
        return 0;
    return together && each ? processors / g->size.heads : 0;
}

// Clusters where they hold all candidates, through their shared memory where it can be.
static int choose_groups(const lewm_gpu* g, int* cluster, bool* near) {
    const char* told = getenv("FIRM_LEWM_ROLLOUT");  // until the loser is gone
    const int best = told ? atoi(told) : LEWM_GPU_NEAR | LEWM_GPU_GROUPS,
              ways = g->setup.ways ? g->setup.ways : best,
              nearby = ways & LEWM_GPU_NEAR ? clusters_of<true>(g) : 0;
    *near = nearby * candidates_of(true) >= g->size.candidates;
    *cluster = 1;
    if (*near) return nearby;
    if (!(ways & LEWM_GPU_GROUPS)) return 0;
    const int clusters = clusters_of<false>(g);
    *cluster = clusters * candidates_of(false) >= g->size.candidates;
    return *cluster ? clusters : groups_of(g);
}

firm_status lewm_group_prepare(lewm_gpu* g, firm_error* err) {
    if (!fits(g)) return FIRM_OK;
    int cluster = 0;
    bool near = false;
    const int groups = choose_groups(g, &cluster, &near), depth = g->size.depth;
    if (groups < 1 || g->size.candidates > groups * candidates_of(near)) return FIRM_OK;
    lewm_grouped* w = (lewm_grouped*)mem_calloc(1, sizeof *w);
    if (!w) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    g->grouped = w;
    w->groups = groups;
    w->near = near;
    w->candidates = candidates_of(near);
    size_t weights = 0;
    for (int i = 0; i < 2 * depth + 1; i++) {
        const packing p = packing_of(g, i % 2, i / 2);
        weights += in_count(g, &p) + out_count(g, &p);
    }
    const size_t part = near ? 0
                             : (size_t)(groups * g->size.heads) * room_sizes<false>::ROWS * WIDTH *
                                   sizeof(float),
                 bytes = weights * sizeof(uint4) + part + (size_t)groups * 128;
    GPU(cudaMalloc((void**)&w->memory, bytes));
    g->bytes += bytes;
    uint4* to = (uint4*)w->memory;
    for (int i = 0; i < 2 * depth + 1; i++) {
        const packing p = packing_of(g, i % 2, i / 2);
        TRY(pack_layers(g, &p, to, i % 2 ? &w->args.attention[i / 2] : &w->args.mlp[i / 2], err));
        to += in_count(g, &p) + out_count(g, &p);
    }
    w->args.splits = g->size.heads;
    w->args.cluster = cluster;
    w->args.part = (float*)to;
    w->args.met = (unsigned*)((char*)to + part);
    return FIRM_OK;
}

void lewm_group_free(lewm_gpu* g) {
    if (!g->grouped) return;
    if (g->grouped->memory) cudaFree(g->grouped->memory);
    mem_free(g->grouped);
    g->grouped = NULL;
}

int lewm_group_takes(const lewm_gpu* g, const lewm_job* j) {
    return g->grouped && j->count * j->each <= g->grouped->groups * g->grouped->candidates;
}

firm_status lewm_group_run(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    lewm_grouped* w = g->grouped;
    group_args a = w->args;
    a.r = lewm_rows_args(g, j);
    a.each = (a.r.rows + w->groups - 1) / w->groups;
    const int groups = (a.r.rows + a.each - 1) / a.each;
    if (!a.cluster) GPU(cudaMemsetAsync(a.met, 0, (size_t)groups * 128, g->stream));
    launch l;
    set_launch(g, groups, a.cluster, w->near, &l);
    GPU(cudaLaunchKernelEx(&l.config, w->near ? lewm_group_kernel<true> : lewm_group_kernel<false>,
                           a));
    return FIRM_OK;
}
