// gemm.cu - matrix products by cuBLASLt. A shape's algorithm is chosen once, by cuBLASLt's own
// heuristic, and kept in the queue: no timing, so every run of a program chooses the same one.
// Algorithms that add partial sums in the order blocks finish are left out.
#include <string.h>

#include "nn/cuda/queue.cuh"

extern "C" {
#include "core/mem.h"
}

// Everything an algorithm depends on. Alignments are of the addresses, 16 bytes or 4.
typedef struct gemm_shape {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t ta, tb, bias, align_a, align_b, align_c;
    int32_t half, half_out;  // operands, result in bfloat16
    int32_t gelu;
} gemm_shape;

struct gemm_plan {
    gemm_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    int usable;
    cublasStatus_t status;  // why not
    gemm_plan* next;
};

static void plan_free(gemm_plan* p) {
    if (p->desc) cublasLtMatmulDescDestroy(p->desc);
    if (p->a) cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) cublasLtMatrixLayoutDestroy(p->b);
    if (p->c) cublasLtMatrixLayoutDestroy(p->c);
    mem_free(p);
}

void nn_cuda_plans_free(nn_cuda_queue* q) {
    for (int i = 0; i < GEMM_BUCKETS; i++) {
        while (q->plans[i]) {
            gemm_plan* p = q->plans[i];
            q->plans[i] = p->next;
            plan_free(p);
        }
    }
}

static cublasComputeType_t compute_type(nn_cuda_precision p) {
    if (p == NN_CUDA_TF32 || p == NN_CUDA_MIXED) return CUBLAS_COMPUTE_32F_FAST_TF32;
    if (p == NN_CUDA_BF16) return CUBLAS_COMPUTE_32F_FAST_16BF;
    return CUBLAS_COMPUTE_32F;
}

// cuBLASLt counts columns first, so our row-major c = a b is its c^T = b^T a^T: a and b change
// places, and the bias over our columns runs along its rows, as its epilogue wants it
static cublasStatus_t describe(gemm_plan* p, nn_cuda_precision precision, const void* pre) {
    const gemm_shape* s = &p->shape;
    cublasComputeType_t compute = s->half ? CUBLAS_COMPUTE_32F : compute_type(precision);
    cudaDataType_t type = s->half ? CUDA_R_16BF : CUDA_R_32F;
    cudaDataType_t result = s->half_out ? CUDA_R_16BF : CUDA_R_32F;
    cublasOperation_t first = s->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = s->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (s->gelu == NN_CUDA_GELU)
        epilogue = s->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (s->gelu == NN_CUDA_GELU_SLOPE) epilogue = CUBLASLT_EPILOGUE_DGELU;
    cublasStatus_t st[10] = {
        cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F),
        cublasLtMatrixLayoutCreate(&p->a, type, s->tb ? s->k : s->n, s->tb ? s->n : s->k, s->ldb),
        cublasLtMatrixLayoutCreate(&p->b, type, s->ta ? s->m : s->k, s->ta ? s->k : s->m, s->lda),
        cublasLtMatrixLayoutCreate(&p->c, result, s->n, s->m, s->ldc),
    };
    if (p->desc) {
        st[4] = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                               sizeof first);
        st[5] = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                               sizeof second);
        st[6] = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                               sizeof epilogue);
    }
    if (p->desc && s->gelu) {
        int32_t half = CUDA_R_16BF;
        st[7] = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                               &s->ldc, sizeof s->ldc);
        st[8] = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE,
                                               &half, sizeof half);
        // the heuristic wants to see an address
        st[9] = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                               &pre, sizeof pre);
    }
    for (int i = 0; i < 10; i++)
        if (st[i] != CUBLAS_STATUS_SUCCESS) return st[i];
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t pref,
                             cublasLtMatmulPreferenceAttributes_t a, const void* value,
                             size_t bytes) {
    return cublasLtMatmulPreferenceSetAttribute(pref, a, value, bytes);
}

// the heuristic's best algorithm whose partial sums, if any, are added in a fixed order
static cublasStatus_t choose(nn_cuda_queue* q, gemm_plan* p) {
    enum { ASKED = 16 };
    cublasLtMatmulHeuristicResult_t found[ASKED];
    cublasLtMatmulPreference_t pref = NULL;
    int count = 0;
    uint64_t workspace = q->workspace_bytes;
    uint32_t orderly = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, a = (uint32_t)p->shape.align_b,
             b = (uint32_t)p->shape.align_a, c = (uint32_t)p->shape.align_c;
    cublasStatus_t st = cublasLtMatmulPreferenceCreate(&pref);
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    cublasStatus_t set[6] = {
        prefer(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
        prefer(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &orderly, sizeof orderly),
        prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a),
        prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b),
        prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c),
        prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c),
    };
    for (int i = 0; i < 6 && st == CUBLAS_STATUS_SUCCESS; i++) st = set[i];
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulAlgoGetHeuristic(q->blas, p->desc, p->a, p->b, p->c, p->c, pref, ASKED,
                                            found, &count);
    cublasLtMatmulPreferenceDestroy(pref);
    for (int i = 0; i < count && st == CUBLAS_STATUS_SUCCESS && !p->usable; i++) {
        uint32_t scheme = 0;
        size_t written = 0;
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        if (cublasLtMatmulAlgoConfigGetAttribute(
                &found[i].algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme,
                &written) == CUBLAS_STATUS_SUCCESS &&
            (scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE))
            continue;
        p->algo = found[i].algo;
        p->usable = 1;
    }
    return st == CUBLAS_STATUS_SUCCESS && !p->usable ? CUBLAS_STATUS_NOT_SUPPORTED : st;
}

static uint32_t hash(const gemm_shape* s) {
    const unsigned char* p = (const unsigned char*)s;
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < sizeof *s; i++) h = (h ^ p[i]) * 16777619u;
    return h % GEMM_BUCKETS;
}

// the plan of a shape, made at first sight; NULL when there is no memory for it
static gemm_plan* plan_of(nn_cuda_queue* q, const gemm_shape* s, const void* pre) {
    gemm_plan** bucket = &q->plans[hash(s)];
    for (gemm_plan* p = *bucket; p; p = p->next)
        if (memcmp(&p->shape, s, sizeof *s) == 0) return p;
    gemm_plan* p = (gemm_plan*)mem_calloc(1, sizeof *p);
    if (!p) return NULL;
    p->shape = *s;
    p->status = describe(p, q->precision, pre);
    if (p->status == CUBLAS_STATUS_SUCCESS) p->status = choose(q, p);
    p->next = *bucket;
    *bucket = p;
    return p;
}

static int32_t alignment(const void* p) {
    return aligned16(p) ? 16 : 4;
}

namespace {
struct repeat_row {
    const float* row;
    divider cols;
    float beta;
    __device__ void operator()(const float* x, float* y, uint32_t i) const {
        uint32_t col;
        split(i, cols, &col);
        y[0] = beta != 0 ? row[col] + beta * x[0] : row[col];
    }
};
}  // namespace

// c = beta * c + bias in every row, where no algorithm adds the bias itself
static void bias_first(nn_cuda_queue* q, int64_t m, int64_t n, const float* bias, float beta,
                       float* c, int64_t ldc) {
    if (ldc != n) {
        nn_cuda_note(q, "a product with a bias needs a dense result");
        return;
    }
    map_arrays<1, 1> arrays = {{c}, {c}, {0}};
    map(q, "bias", m * n, arrays, repeat_row{bias, divide_by((uint32_t)n), beta});
}

static gemm_shape shape_of(const nn_cuda_product* p) {
    gemm_shape s;
    memset(&s, 0, sizeof s);  // compared as bytes
    s.m = p->m, s.n = p->n, s.k = p->k, s.lda = p->lda, s.ldb = p->ldb, s.ldc = p->ldc;
    s.ta = p->ta != 0, s.tb = p->tb != 0, s.bias = p->bias != NULL;
    s.align_a = alignment(p->a), s.align_b = alignment(p->b), s.align_c = alignment(p->d);
    if (p->beta != 0 && alignment(p->c) < s.align_c) s.align_c = alignment(p->c);
    s.half = p->half != 0, s.half_out = p->half_out != 0, s.gelu = p->gelu;
    return s;
}

int nn_cuda_multiplies(nn_cuda_queue* q, const nn_cuda_product* p) {
    gemm_shape s = shape_of(p);
    gemm_plan* plan = plan_of(q, &s, p->pre);
    return plan && plan->usable;
}

void nn_cuda_multiply(nn_cuda_queue* q, const nn_cuda_product* p) {
    gemm_shape s = shape_of(p);
    gemm_plan* plan = plan_of(q, &s, p->pre);
    if (!plan || !plan->usable) {
        nn_cuda_note(q, "no product of %lld x %lld x %lld: %s", (long long)p->m, (long long)p->k,
                     (long long)p->n, plan ? cublasLtGetStatusString(plan->status) : "no memory");
        return;
    }
    const float one = 1.0f;
    const void* before = p->beta != 0 ? p->c : p->d;
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    if (p->bias) {
        st = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias,
                                            sizeof p->bias);
    }
    if (p->gelu && st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                            &p->pre, sizeof p->pre);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmul(q->blas, plan->desc, &one, p->b, plan->a, p->a, plan->b, &p->beta,
                            before, plan->c, p->d, plan->c, &plan->algo, q->workspace,
                            q->workspace_bytes, q->stream);
    if (st != CUBLAS_STATUS_SUCCESS)
        nn_cuda_note(q, "product of %lld x %lld x %lld: %s", (long long)p->m, (long long)p->k,
                     (long long)p->n, cublasLtGetStatusString(st));
}

void nn_cuda_gemm(nn_cuda_queue* q, int ta, int tb, int64_t m, int64_t n, int64_t k, const float* a,
                  int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                  const float* bias) {
    nn_cuda_product p = {};
    p.ta = ta, p.tb = tb, p.m = m, p.n = n, p.k = k;
    p.a = a, p.lda = lda, p.b = b, p.ldb = ldb;
    p.beta = beta, p.c = c, p.d = c, p.ldc = ldc, p.bias = bias;
    gemm_shape s = shape_of(&p);
    gemm_plan* plan = bias ? plan_of(q, &s, NULL) : NULL;
    if (plan && !plan->usable) {
        bias_first(q, m, n, bias, beta, c, ldc);
        p.beta = 1.0f, p.bias = NULL;
    }
    nn_cuda_multiply(q, &p);
}

// ---- peak ---------------------------------------------------------------------------------------

enum { PEAK_SIZE = 8192, PEAK_RUNS = 5 };

// best of a few timed products, in seconds; the first one, untimed, loads the kernels
static cudaError_t time_product(nn_cuda_queue* q, gemm_plan* p, char* memory, size_t bytes,
                                cublasStatus_t* blas, double* best) {
    const float one = 1.0f, zero = 0.0f;
    void *a = memory, *b = memory + bytes, *c = memory + 2 * bytes;
    cudaEvent_t from = NULL, to = NULL;
    cudaError_t st = cudaEventCreate(&from);
    if (st == cudaSuccess) st = cudaEventCreate(&to);
    *best = 0;
    for (int i = 0; i <= PEAK_RUNS && st == cudaSuccess; i++) {
        float ms = 0;
        st = cudaEventRecord(from, q->stream);
        *blas = cublasLtMatmul(q->blas, p->desc, &one, b, p->a, a, p->b, &zero, c, p->c, c, p->c,
                               &p->algo, q->workspace, q->workspace_bytes, q->stream);
        if (st == cudaSuccess) st = cudaEventRecord(to, q->stream);
        if (st == cudaSuccess) st = cudaEventSynchronize(to);
        if (st == cudaSuccess) st = cudaEventElapsedTime(&ms, from, to);
        if (i > 0 && (*best == 0 || ms / 1e3 < *best)) *best = ms / 1e3;
    }
    if (from) cudaEventDestroy(from);
    if (to) cudaEventDestroy(to);
    return st;
}

firm_status nn_cuda_peak(nn_cuda_queue* q, nn_cuda_precision p, double* tflops, firm_error* err) {
    int half = p == NN_CUDA_BF16;
    size_t bytes = (size_t)PEAK_SIZE * PEAK_SIZE * (half ? 2 : 4);
    void* memory;
    *tflops = 0;
    TRY(nn_cuda_alloc(q, 3 * bytes, &memory, err));
    // a pattern of small finite numbers in either format: zeros would draw less power
    cudaError_t cuda = cudaMemsetAsync(memory, 0x3c, 3 * bytes, q->stream);
    gemm_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.shape.m = plan.shape.n = plan.shape.k = PEAK_SIZE;
    plan.shape.lda = plan.shape.ldb = plan.shape.ldc = PEAK_SIZE;
    plan.shape.align_a = plan.shape.align_b = plan.shape.align_c = 16;
    plan.shape.half = plan.shape.half_out = half;
    cublasStatus_t st = describe(&plan, p, NULL);
    if (st == CUBLAS_STATUS_SUCCESS) st = choose(q, &plan);
    double seconds = 0;
    if (st == CUBLAS_STATUS_SUCCESS && cuda == cudaSuccess)
        cuda = time_product(q, &plan, (char*)memory, bytes, &st, &seconds);
    if (plan.desc) cublasLtMatmulDescDestroy(plan.desc);
    if (plan.a) cublasLtMatrixLayoutDestroy(plan.a);
    if (plan.b) cublasLtMatrixLayoutDestroy(plan.b);
    if (plan.c) cublasLtMatrixLayoutDestroy(plan.c);
    nn_cuda_release(memory);
    if (st != CUBLAS_STATUS_SUCCESS)
        return FAIL(err, FIRM_E_UNAVAILABLE, "a product of %d cannot be timed on %s: %s", PEAK_SIZE,
                    q->name, cublasLtGetStatusString(st));
    if (cuda != cudaSuccess || seconds <= 0)
        return FAIL(err, FIRM_E_UNAVAILABLE, "a product of %d cannot be timed on %s: %s", PEAK_SIZE,
                    q->name, cudaGetErrorString(cuda));
    *tflops = 2.0 * PEAK_SIZE * (double)PEAK_SIZE * PEAK_SIZE / seconds / 1e12;
    return FIRM_OK;
}
