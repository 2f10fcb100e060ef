// cuda.h - the CUDA backend: float32, one file per op family under the same names as in ref/ and
// cpu/, matrix products by cuBLASLt. Usable from C and from .cu files; CUDA's own types stay
// hidden.
//
// A kernel's call (backend.h) carries device pointers and a queue. Everything is put on the queue's
// stream: nothing waits, allocates or reads from the device, so a sequence of calls may be captured
// as a CUDA graph. Two things must happen before a capture:
//   - nn_cuda_prepare() once per graph and queue: device copies of what nodes keep on the host
//     (attention masks);
//   - one plain run of the same calls: it chooses the algorithm of every matrix product (kept per
//     shape in the queue) and lets the driver load the kernels.
// save_bytes() and scratch_bytes() grow with the rows, so memory for a batch does for a smaller
// one. A queue belongs to one thread at a time. Sums are formed in an order given by the shapes
// alone, so the same inputs give the same bits on the same GPU.
#ifndef NN_CUDA_CUDA_H
#define NN_CUDA_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "nn/backend.h"

// stream, cuBLASLt handle, workspace, precision, masks, first error
typedef struct nn_cuda_queue nn_cuda_queue;

// Of the operands of matrix products (linear, conv2d, convt2d); sums are always float32, and so is
// everything else. Storage is float32 in the first three.
typedef enum nn_cuda_precision {
    NN_CUDA_FP32,
    NN_CUDA_TF32,  // 10 bits of mantissa, tensor cores
    NN_CUDA_BF16,  // 7 bits of mantissa, rounded inside the product
    NN_CUDA_MIXED  // TF32, and blocks of vision transformers (vit.h) in bfloat16 storage
} nn_cuda_precision;

// Device 0 (CUDA_VISIBLE_DEVICES chooses which that is). FIRM_E_UNAVAILABLE without a usable GPU.
firm_status nn_cuda_queue_create(nn_cuda_precision p, nn_cuda_queue** out, firm_error* err);
void nn_cuda_queue_free(nn_cuda_queue* q);  // NULL is fine; waits for the queue's work

void* nn_cuda_stream(nn_cuda_queue* q);              // cudaStream_t
const char* nn_cuda_device(const nn_cuda_queue* q);  // "NVIDIA H200"
int nn_cuda_processors(const nn_cuda_queue* q);      // streaming multiprocessors
nn_cuda_precision nn_cuda_precision_of(const nn_cuda_queue* q);

// The first error since the queue was made (a launch, a product, work that failed later), or NULL.
// Kernels return no status: they note it here. Work that fails while it runs is seen after a wait.
const char* nn_cuda_error(nn_cuda_queue* q);
// For kernels: notes a failed launch just before, and an error of our own (first one stays).
void nn_cuda_check(nn_cuda_queue* q, const char* what);
void nn_cuda_note(nn_cuda_queue* q, const char* fmt, ...) __attribute__((format(printf, 2, 3)));
// Waits for the queue; FIRM_E_UNAVAILABLE with nn_cuda_error()'s text if anything went wrong. Not
// in a capture.
firm_status nn_cuda_wait(nn_cuda_queue* q, firm_error* err);

// A second stream for work that may run beside the queue's own (queue.cuh); made once.
firm_status nn_cuda_open_aside(nn_cuda_queue* q, firm_error* err);
// The queue waits for all work aside. Before a capture ends, and before what that work reads or
// writes is used otherwise.
void nn_cuda_rejoin(nn_cuda_queue* q);

// Other ways to do the same work, for tests; a queue begins with none.
enum {
    NN_CUDA_WAY_IN_TURN = 1,    // nothing aside
    NN_CUDA_WAY_GELU_APART = 2  // a block's GELU in kernels of its own, as where no product does it
};
void nn_cuda_set_ways(nn_cuda_queue* q, unsigned ways);
unsigned nn_cuda_ways(const nn_cuda_queue* q);

// Device memory, 256-byte aligned, uninitialised. Not in a capture.
firm_status nn_cuda_alloc(nn_cuda_queue* q, size_t bytes, void** out, firm_error* err);
void nn_cuda_release(void* p);  // NULL is fine
// Copies of bytes, in the queue's order; host memory may be reused when they return. Not in a
// capture.
firm_status nn_cuda_upload(nn_cuda_queue* q, void* device, const void* host, size_t bytes,
                           firm_error* err);
firm_status nn_cuda_download(nn_cuda_queue* q, void* host, const void* device, size_t bytes,
                             firm_error* err);

// Device copies of what a node keeps in host memory, for calls on this queue; call it again for
// every graph made (a mask is found by its address, and a freed graph's address may come back).
firm_status nn_cuda_prepare_node(nn_cuda_queue* q, const nn_graph* g, const nn_node* n,
                                 firm_error* err);
firm_status nn_cuda_prepare(nn_cuda_queue* q, const nn_graph* g, firm_error* err);  // all nodes

// The table. Its alloc, release, upload and download are synchronous and need no queue; kernels
// need nn_call.queue.
const nn_backend* nn_backend_cuda(void);

// Row-major d (m, n) = beta * c + op(a) op(b) [+ bias (n) to every row]: a is (m, k), or (k, m)
// with ta; b is (k, n), or (n, k) with tb. Numbers are float32, or bfloat16 where `half` (operands)
// or `half_out` (c, d and bias) says so. c may be d, and counts only where beta is not 0.
typedef struct nn_cuda_product {
    int ta, tb, half, half_out;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b, *c, *bias;
    void* d;
    float beta;
    int gelu;   // NN_CUDA_GELU: d = gelu(x), pre = x; NN_CUDA_GELU_SLOPE: d = x gelu'(pre)
    void* pre;  // bfloat16, as d
} nn_cuda_product;
// GELU in its tanh form, which is off by at most 5e-4, less than bfloat16 rounds its results by
enum { NN_CUDA_GELU = 1, NN_CUDA_GELU_SLOPE };
void nn_cuda_multiply(nn_cuda_queue* q, const nn_cuda_product* p);
// Whether there is an algorithm for it.
int nn_cuda_multiplies(nn_cuda_queue* q, const nn_cuda_product* p);

// In float32: row-major c (m, n) = beta * c + op(a) op(b) [+ bias (n) to every row]; leading
// dimensions given; op transposes where ta, tb are set: a is (m, k), or (k, m) with ta. bias may be
// NULL.
void nn_cuda_gemm(nn_cuda_queue* q, int ta, int tb, int64_t m, int64_t n, int64_t k, const float* a,
                  int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                  const float* bias);

// dst (cols) += sums over the rows of src (rows, cols), in a fixed order. Scratch: see the second.
void nn_cuda_column_sums(nn_cuda_queue* q, int64_t rows, int64_t cols, const float* src, float* dst,
                         void* scratch);
size_t nn_cuda_column_sums_bytes(int64_t rows, int64_t cols);

// Measured peak of a large square product, in TFLOP/s: float32 and TF32 on float32 storage, BF16 on
// bf16 storage. Takes about a second and, for its time, under 1 GB.
firm_status nn_cuda_peak(nn_cuda_queue* q, nn_cuda_precision p, double* tflops, firm_error* err);

extern const nn_kernel nn_cuda_linear, nn_cuda_conv2d, nn_cuda_convt2d, nn_cuda_layernorm,
    nn_cuda_groupnorm, nn_cuda_gelu, nn_cuda_add, nn_cuda_addp, nn_cuda_mul, nn_cuda_pairnorm,
    nn_cuda_clamp, nn_cuda_relative, nn_cuda_concat, nn_cuda_slice, nn_cuda_mean, nn_cuda_attention,
    nn_cuda_coords, nn_cuda_softpool, nn_cuda_spatial, nn_cuda_patches, nn_cuda_patchdiff,
    nn_cuda_patchmask, nn_cuda_mse, nn_cuda_bce, nn_cuda_nll, nn_cuda_chord, nn_cuda_adanorm,
    nn_cuda_batchnorm, nn_cuda_erfgelu, nn_cuda_silu, nn_cuda_dropout, nn_cuda_prepend,
    nn_cuda_sigreg;

#ifdef __cplusplus
}
#endif

#endif
