// lewm_product.cu - LeWM's products by cuBLASLt. An algorithm is chosen once per shape by its
// heuristic, without timing, so every run chooses the same one; those whose partial sums are added
// in the order blocks finish are left out.
#include <string.h>

#include "plan/cuda/lewm.cuh"

struct product_plan {
    int m, n, k;
    lewm_out out;
    int fused;  // GELU by the product itself
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    product_plan* next;
};

static firm_status failed(cublasStatus_t code, const product_plan* p, firm_error* err) {
    return FAIL(err, FIRM_E_UNAVAILABLE, "cuBLASLt has no product of %d x %d x %d: %s", p->m, p->k,
                p->n, cublasLtGetStatusString(code));
}
#define BLAS(call)                                                        \
    do {                                                                  \
        cublasStatus_t code_ = (call);                                    \
        if (code_ != CUBLAS_STATUS_SUCCESS) return failed(code_, p, err); \
    } while (0)

// cuBLASLt counts columns first: our row-major c = a w' with w (out, in) is its c' = w a'.
static firm_status describe(lewm_gpu* g, product_plan* p, firm_error* err) {
    const plan_precision precision = g->setup.precision;
    const cudaDataType_t in = precision == PLAN_BF16 ? CUDA_R_16BF : CUDA_R_32F,
                         out = p->out == LEWM_FLOAT ? CUDA_R_32F : in;
    const cublasComputeType_t compute =
        precision == PLAN_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t turned = CUBLAS_OP_T;
    BLAS(cublasLtMatmulDescCreate(&p->what, compute, CUDA_R_32F));
    BLAS(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                        sizeof turned));
    if (p->fused) {
        const cublasLtEpilogue_t gelu = CUBLASLT_EPILOGUE_GELU_BIAS;
        BLAS(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &gelu,
                                            sizeof gelu));
    }
    BLAS(cublasLtMatrixLayoutCreate(&p->a, in, (uint64_t)p->k, (uint64_t)p->n, p->k));
    BLAS(cublasLtMatrixLayoutCreate(&p->b, in, (uint64_t)p->k, (uint64_t)p->m, p->k));
    BLAS(cublasLtMatrixLayoutCreate(&p->c, out, (uint64_t)p->n, (uint64_t)p->m, p->n));
    return FIRM_OK;
}

static firm_status choose(lewm_gpu* g, product_plan* p, firm_error* err) {
    enum { ASKED = 16 };
    cublasLtMatmulHeuristicResult_t found[ASKED];
    cublasLtMatmulPreference_t wish;
    uint64_t workspace = LEWM_WORKSPACE;
    uint32_t orderly = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int count = 0;
    BLAS(cublasLtMatmulPreferenceCreate(&wish));
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &orderly,
                                         sizeof orderly);
    // every row begins at a multiple of 8 operands
    static const cublasLtMatmulPreferenceAttributes_t part[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t sixteen = 16;
    for (int i = 0; i < 4; i++)
        cublasLtMatmulPreferenceSetAttribute(wish, part[i], &sixteen, sizeof sixteen);
    cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(g->blas, p->what, p->a, p->b, p->c, p->c,
                                                         wish, ASKED, found, &count);
    cublasLtMatmulPreferenceDestroy(wish);
    BLAS(code);
    for (int i = 0; i < count; i++) {
        uint32_t scheme = 0;
        size_t written = 0;
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        if (cublasLtMatmulAlgoConfigGetAttribute(
                &found[i].algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme,
                &written) == CUBLAS_STATUS_SUCCESS &&
            (scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE))
            continue;
        p->algo = found[i].algo;
        return FIRM_OK;
    }
    return failed(CUBLAS_STATUS_NOT_SUPPORTED, p, err);
}

static void forget(product_plan* p) {
    if (p->what) cublasLtMatmulDescDestroy(p->what);
    if (p->a) cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) cublasLtMatrixLayoutDestroy(p->b);
    if (p->c) cublasLtMatrixLayoutDestroy(p->c);
    p->what = NULL;
    p->a = p->b = p->c = NULL;
}

static firm_status plan_of(lewm_gpu* g, const lewm_product* q, product_plan** out,
                           firm_error* err) {
    for (product_plan* p = g->plans; p; p = p->next)
        if (p->m == q->m && p->n == q->l.out && p->k == q->l.in && p->out == q->out) {
            *out = p;
            return FIRM_OK;
        }
    product_plan* p = (product_plan*)mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    p->m = q->m, p->n = q->l.out, p->k = q->l.in, p->out = q->out;
    p->next = g->plans;
    g->plans = p;
    *out = p;
    p->fused = q->out == LEWM_GELU && g->setup.precision == PLAN_BF16;
    if (p->fused && describe(g, p, err) == FIRM_OK && choose(g, p, err) == FIRM_OK) return FIRM_OK;
    if (p->fused) forget(p);
    p->fused = 0;
    TRY(describe(g, p, err));
    return choose(g, p, err);
}

firm_status lewm_product_run(lewm_gpu* g, const lewm_product* q, firm_error* err) {
    const float one = 1.0f, zero = 0.0f;
    product_plan* p = NULL;
    TRY(plan_of(g, q, &p, err));
    if (p->fused)
        BLAS(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                            &q->l.b_operand, sizeof q->l.b_operand));
    BLAS(cublasLtMatmul(g->blas, p->what, &one, q->l.w, p->a, q->a, p->b, &zero, q->c, p->c, q->c,
                        p->c, &p->algo, g->workspace, LEWM_WORKSPACE, g->stream));
    return q->out == LEWM_GELU && !p->fused ? lewm_gelu(g, q->m, &q->l, q->c, err) : FIRM_OK;
}

void lewm_products_free(lewm_gpu* g) {
    while (g->plans) {
        product_plan* p = g->plans;
        g->plans = p->next;
        forget(p);
        mem_free(p);
    }
}
