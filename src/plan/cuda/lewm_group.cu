// lewm_group.cu - the host's side of lewm_group.cuh: which planners can use it, weights packed for
// it, and its launch.
#include <string.h>

#include "plan/cuda/lewm.cuh"
#include "plan/cuda/lewm_group.cuh"

using namespace lewm_group;

// What a planner keeps for it; all pointers into one memory.
struct lewm_grouped {
    char* memory;
    int groups;  // that the GPU runs at once
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

// How many groups of `heads` blocks the GPU holds at once; 0 where blocks cannot wait for others.
static int groups_of(const lewm_gpu* g) {
    int together = 0, processors = 0, each = 0;
    const int device = g->setup.device;
    if (cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess ||
        cudaFuncSetAttribute(lewm_group_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             ROOM) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, lewm_group_kernel, THREADS, ROOM) !=
            cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return together && each ? processors / g->size.heads : 0;
}

firm_status lewm_group_prepare(lewm_gpu* g, firm_error* err) {
    if (!fits(g)) return FIRM_OK;
    const int groups = groups_of(g), depth = g->size.depth;
    if (groups < 1 || g->size.candidates > groups * CANDIDATES) return FIRM_OK;
    lewm_grouped* w = (lewm_grouped*)mem_calloc(1, sizeof *w);
    if (!w) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    g->grouped = w;
    w->groups = groups;
    size_t weights = 0;
    for (int i = 0; i < 2 * depth + 1; i++) {
        const packing p = packing_of(g, i % 2, i / 2);
        weights += in_count(g, &p) + out_count(g, &p);
    }
    const size_t part = (size_t)(groups * g->size.heads) * ROWS * WIDTH * sizeof(float),
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
    return g->grouped && j->count * j->each <= g->grouped->groups * CANDIDATES;
}

firm_status lewm_group_run(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    lewm_grouped* w = g->grouped;
    group_args a = w->args;
    a.r = lewm_rows_args(g, j);
    a.each = (a.r.rows + w->groups - 1) / w->groups;
    const int groups = (a.r.rows + a.each - 1) / a.each;
    GPU(cudaMemsetAsync(a.met, 0, (size_t)groups * 128, g->stream));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(groups * a.splits));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = ROOM;
    config.stream = g->stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    GPU(cudaLaunchKernelEx(&config, lewm_group_kernel, a));
    return FIRM_OK;
}
