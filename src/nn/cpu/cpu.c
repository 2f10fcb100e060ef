// cpu.c - the table of the cpu backend: float32, products by register tiles (gemm.h), vectorised
// loops around them. Kernels are single-threaded; shards run side by side (exec.h).
#include "nn/cpu/cpu.h"

#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "core/simd.h"
#include "nn/cpu/tile.h"

extern const nn_loops nn_loops_plain;
extern const nn_tiles nn_tiles_plain;
#if defined(__x86_64__)
extern const nn_loops nn_loops_avx2, nn_loops_avx512;
extern const nn_tiles nn_tiles_avx2, nn_tiles_avx512;
#elif defined(__aarch64__)
extern const nn_loops nn_loops_neon;
extern const nn_tiles nn_tiles_neon;
#endif

static const nn_loops* chosen;
static const nn_tiles* tiles;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void nn_cpu_choose(void) {
    chosen = &nn_loops_plain;
    tiles = &nn_tiles_plain;
#if defined(__x86_64__)
    simd_level level = simd_best();
    if (level == SIMD_AVX2) chosen = &nn_loops_avx2, tiles = &nn_tiles_avx2;
    if (level == SIMD_AVX512) chosen = &nn_loops_avx512, tiles = &nn_tiles_avx512;
#elif defined(__aarch64__)
    if (simd_best() == SIMD_NEON) chosen = &nn_loops_neon, tiles = &nn_tiles_neon;
#endif
}

const nn_loops* nn_loops_get(void) {
    pthread_once(&once, nn_cpu_choose);
    return chosen;
}

const nn_tiles* nn_tiles_get(void) {
    pthread_once(&once, nn_cpu_choose);
    return tiles;
}

static void upload(void* device, const float* host, size_t count) {
    memcpy(device, host, count * sizeof *host);
}

static void download(float* host, const void* device, size_t count) {
    memcpy(host, device, count * sizeof *host);
}

const nn_backend* nn_backend_cpu(void) {
    static nn_backend backend;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!backend.name) {
        nn_loops_get();
        backend = (nn_backend){
            .name = "cpu",
            .real = sizeof(float),
            .kernel = {[NN_LINEAR] = nn_cpu_linear,
                       [NN_CONV2D] = nn_cpu_conv2d,
                       [NN_CONVT2D] = nn_cpu_convt2d,
                       [NN_LAYERNORM] = nn_cpu_layernorm,
                       [NN_GROUPNORM] = nn_cpu_groupnorm,
                       [NN_ADANORM] = nn_cpu_adanorm,
                       [NN_BATCHNORM] = nn_cpu_batchnorm,
                       [NN_GELU] = nn_cpu_gelu,
                       [NN_ERFGELU] = nn_cpu_erfgelu,
                       [NN_SILU] = nn_cpu_silu,
                       [NN_ADD] = nn_cpu_add,
                       [NN_ADDP] = nn_cpu_addp,
                       [NN_MUL] = nn_cpu_mul,
                       [NN_PAIRNORM] = nn_cpu_pairnorm,
                       [NN_CLAMP] = nn_cpu_clamp,
                       [NN_RELATIVE] = nn_cpu_relative,
                       [NN_DROPOUT] = nn_cpu_dropout,
                       [NN_CONCAT] = nn_cpu_concat,
                       [NN_SLICE] = nn_cpu_slice,
                       [NN_MEAN] = nn_cpu_mean,
                       [NN_PREPEND] = nn_cpu_prepend,
                       [NN_ATTENTION] = nn_cpu_attention,
                       [NN_COORDS] = nn_cpu_coords,
                       [NN_SOFTPOOL] = nn_cpu_softpool,
                       [NN_SPATIAL] = nn_cpu_spatial,
                       [NN_PATCHES] = nn_cpu_patches,
                       [NN_PATCHDIFF] = nn_cpu_patchdiff,
                       [NN_PATCHMASK] = nn_cpu_patchmask,
                       [NN_MSE] = nn_cpu_mse,
                       [NN_BCE] = nn_cpu_bce,
                       [NN_NLL] = nn_cpu_nll,
                       [NN_SIGREG] = nn_cpu_sigreg,
                       [NN_CHORD] = nn_cpu_chord},
            .gather =
                {[NN_BATCHNORM] = &nn_cpu_batchnorm_gather, [NN_SIGREG] = &nn_cpu_sigreg_gather},
            .alloc = mem_alloc,
            .release = mem_free,
            .upload = upload,
            .download = download,
            .packed = nn_cpu_packed,
            .pack = nn_cpu_pack,
            .weight_tile = nn_cpu_weight_tile,
        };
    }
    pthread_mutex_unlock(&lock);
    return &backend;
}
