// image.cu - byte images cut into patches; no gradients. Image (H, W, 3) -> patches row-major,
// inside a patch pixels row-major, then channels: a row of a patch is a run of neighbouring bytes.
#include "nn/cuda/device.cuh"

namespace {

#define CHANGE_LEVELS 8  // a pixel counts as changed if a channel moved by more than this

// Where numbers come from: element i of the output lies at byte `at` of the images.
struct patch_grid {
    divider size;    // numbers of one image
    divider patch;   // numbers of one patch
    divider row;     // numbers of a row of a patch
    divider grid;    // patches in a row of the image
    uint32_t side;   // pixels of a patch's side
    uint32_t line;   // bytes in a line of the image
    uint32_t image;  // bytes of an image
    uint32_t bytes;  // that make one number
};

__device__ __forceinline__ size_t byte_at(const patch_grid& g, uint32_t i) {
    uint32_t inside, in_patch, in_row, gx;
    uint32_t sample = split(i, g.size, &inside);
    uint32_t patch = split(inside, g.patch, &in_patch), y = split(in_patch, g.row, &in_row);
    uint32_t gy = split(patch, g.grid, &gx);
    return (size_t)sample * g.image + (size_t)(gy * g.side + y) * g.line + gx * g.side * 3 +
           in_row * g.bytes;
}

struct channels3 {
    float scale[3], shift[3];
};

__device__ __forceinline__ float of_channel(const float (&v)[3], uint32_t channel) {
    return channel == 0 ? v[0] : channel == 1 ? v[1] : v[2];
}

template <int V>
__device__ __forceinline__ void load_bytes(int (&x)[V], const uint8_t* p) {
    if constexpr (V == 4) {
        uchar4 v = *(const uchar4*)p;
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    } else {
        for (int i = 0; i < V; i++) x[i] = p[i];
    }
}

// PATCHES: o scale + shift; PATCHDIFF (before given): (o - before) scale. V 4: rows of patches,
// lines and images are multiples of 4 bytes, so four numbers are four neighbouring bytes.
template <int V, bool DIFF>
__global__ void __launch_bounds__(MAP_THREADS)
    patch_kernel(uint32_t count, patch_grid g, channels3 ch, const uint8_t* o,
                 const uint8_t* before, float* y) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V;
    if (i >= count) return;
    size_t at = byte_at(g, i);
    uint32_t channel = i % 3;  // a sample, a patch and a row hold whole pixels
    int a[V], b[V] = {};
    load_bytes<V>(a, o + at);
    if (DIFF) load_bytes<V>(b, before + at);
    float v[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
        uint32_t k = (channel + j) % 3;
        v[j] = (float)(a[j] - b[j]) * of_channel(ch.scale, k);
        if (!DIFF) v[j] += of_channel(ch.shift, k);
    }
    store<V>(y + i, v);
}

__global__ void __launch_bounds__(MAP_THREADS)
    patchmask_kernel(uint32_t count, patch_grid g, const uint8_t* o, const uint8_t* before,
                     float* y) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x;
    if (i >= count) return;
    size_t at = byte_at(g, i);
    int changed = 0;
#pragma unroll
    for (int k = 0; k < 3; k++)
        changed |= abs((int)o[at + k] - (int)before[at + k]) > CHANGE_LEVELS;
    y[i] = (float)changed;
}

static patch_grid grid_of(const nn_call* c, uint32_t per_pixel) {
    const nn_tensor* image = nn_in(c, 0);
    uint32_t side = (uint32_t)c->node->patch, width = (uint32_t)image->dim[image->rank - 2];
    uint32_t images = (uint32_t)image->size / (width * width * 3);
    return patch_grid{divide_by((uint32_t)nn_out(c)->size / images),
                      divide_by(side * side * per_pixel),
                      divide_by(side * per_pixel),
                      divide_by(width / side),
                      side,
                      width * 3,
                      width * width * 3,
                      3 / per_pixel};
}

template <bool DIFF>
static void patch_run(const nn_call* c, const channels3& ch) {
    nn_cuda_queue* q = queue_of(c);
    patch_grid g = grid_of(c, 3);
    uint32_t count = elements(q, (int64_t)c->rows * nn_out(c)->size);
    const uint8_t *o = (const uint8_t*)c->in[0], *before = DIFF ? (const uint8_t*)c->in[1] : NULL;
    int quads = (g.row.d | g.line | g.image) % 4 == 0 && (uintptr_t)o % 4 == 0 &&
                (uintptr_t)before % 4 == 0 && aligned16(c->out);
    launch(q, "patches", quads ? patch_kernel<4, DIFF> : patch_kernel<1, DIFF>,
           blocks_for(count, (quads ? 4 : 1) * MAP_THREADS), MAP_THREADS, count, g, ch, o, before,
           (float*)c->out);
}

// (o / 255 - mean) / std as one product and one sum
static void patches_forward(const nn_call* c) {
    channels3 ch;
    for (int k = 0; k < 3; k++) {
        ch.scale[k] = (float)(1.0 / 255.0 / (double)c->node->std[k]);
        ch.shift[k] = (float)(-(double)c->node->mean[k] / (double)c->node->std[k]);
    }
    patch_run<false>(c, ch);
}

static void patchdiff_forward(const nn_call* c) {
    channels3 ch = {};
    for (int k = 0; k < 3; k++) ch.scale[k] = (float)(1.0 / 255.0 / (double)c->node->std[k]);
    patch_run<true>(c, ch);
}

static void patchmask_forward(const nn_call* c) {
    uint32_t count = elements(queue_of(c), (int64_t)c->rows * nn_out(c)->size);
    launch(queue_of(c), "patchmask", patchmask_kernel, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, grid_of(c, 1), (const uint8_t*)c->in[0], (const uint8_t*)c->in[1],
           (float*)c->out);
}

}  // namespace

const nn_kernel nn_cuda_patches = {patches_forward, NULL, NULL, NULL};
const nn_kernel nn_cuda_patchdiff = {patchdiff_forward, NULL, NULL, NULL};
const nn_kernel nn_cuda_patchmask = {patchmask_forward, NULL, NULL, NULL};
