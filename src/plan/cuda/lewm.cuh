// lewm.cuh - what the files of LeWM's GPU planner share: its memory, products and kernels.
//
//   lewm.cu          its life: weights and memory, graphs, searches and rollouts
//   lewm_step.cu     the order of products and kernels of a rollout
//   lewm_rows.cu     the kernels between the products
//   lewm_product.cu  products by cuBLASLt
//   lewm_few.cu      a rollout of few candidates as one kernel
#ifndef PLAN_CUDA_LEWM_CUH
#define PLAN_CUDA_LEWM_CUH

#include <cublasLt.h>

#include "plan/cuda/internal.cuh"
#include "plan/cuda/lewm_sizes.cuh"

extern "C" {
#include "plan/lewm_gpu.h"
#include "plan/lewm_weights.h"
}

// A layer on the device: operands (out, in), the bias in float32 and as operands.
typedef struct gpu_layer {
    int in, out;
    char* w;
    float* b;
    char* b_operand;
} gpu_layer;

typedef struct gpu_block {
    gpu_layer qkv, out, up, down;
} gpu_block;

struct product_plan;
struct lewm_fewer;
struct rows_args;

struct lewm_gpu {
    lewm_gpu_setup setup;
    lewm_sizes size;
    char device[256];
    cudaStream_t stream;
    cudaEvent_t done;
    cublasLtHandle_t blas;
    struct product_plan* plans;
    struct lewm_fewer* fewer;  // NULL: every rollout is product by product
    size_t element;            // bytes of an operand
    int rows;                  // candidates of all searches

    gpu_layer patch, embed_up, embed_down, modulation, head_up, head_down;
    gpu_block block[LEWM_MAX_DEPTH];
    float* positions;  // (context, width)

    char* memory;  // all of the device memory below, and the layers
    size_t bytes;
    char* searches;   // (searches)
    float* u;         // (rows, longest * action)
    char* embedding;  // (longest, rows, action_mlp) operands
    char* condition;  // (longest, rows, width) operands: SiLU of the embedding
    char* mod;        // (longest, rows, modulation) operands
    char* qkv;        // (depth, context, rows, 3 inner) operands
    float* x;         // (context, rows, width)
    char* a;          // (context, rows, width) operands of the next product
    char* o;          // (context, rows, inner) operands
    char* h;          // (context, rows, widest) operands
    float* y;         // (longest or context, rows, width)
    float* path;      // (rows, longest, width)
    float* value;     // (rows) costs
    float* means;     // (searches, longest, width) what the final means lead to
    char* workspace;

    char* pinned;  // host: searches and means, then values and paths
    size_t pinned_bytes;
    cudaGraphExec_t iteration[2], last[2];  // of one search, of setup.searches
};

enum { LEWM_WORKSPACE = 32 << 20 };

// ---- lewm_product.cu ----
// c (m, n) = a (m, k) l, without the bias, in float32 or as operands; or GELU of it with the bias,
// as operands: in bf16 the product's own epilogue, which has GELU's tanh form (off by 5e-4 at most,
// less than the rounding of what it writes), else a kernel of ours with the exact one. A shape's
// algorithm is chosen at its first use.
enum lewm_out { LEWM_OPERANDS, LEWM_FLOAT, LEWM_GELU };
typedef struct lewm_product {
    const void* a;
    gpu_layer l;
    int m;
    void* c;
    lewm_out out;
} lewm_product;
firm_status lewm_product_run(lewm_gpu* g, const lewm_product* p, firm_error* err);
void lewm_products_free(lewm_gpu* g);

// ---- lewm_rows.cu ----
// The rows at work: `count` searches of `each` candidates, `horizon` macro steps.
typedef struct lewm_job {
    int count, each, horizon;
} lewm_job;
enum lewm_drawn { LEWM_NOISE, LEWM_MEANS };
firm_status lewm_draw(lewm_gpu* g, const lewm_job* j, lewm_drawn kind, firm_error* err);
firm_status lewm_embed(lewm_gpu* g, const lewm_job* j, firm_error* err);  // u -> embedding
firm_status lewm_silu(lewm_gpu* g, const lewm_job* j, firm_error* err);   // y -> condition
// Tokens first .. last of step t start as latents; the newest latent, if t > 0, is y + bias.
firm_status lewm_place(lewm_gpu* g, const lewm_job* j, int t, int first, int last, firm_error* err);
// Attention of tokens first .. last; window: the block whose keys and values are read.
firm_status lewm_attention(lewm_gpu* g, const lewm_job* j, int block, int window, int first,
                           int last, firm_error* err);
// x += gate * (y + bias) for tokens first .. last of step t, then the next product's operands:
// branch 0 of the attention, 1 of the MLP.
firm_status lewm_gate(lewm_gpu* g, const lewm_job* j, int t, int block, int branch, int first,
                      int last, firm_error* err);
// h = GELU(h + bias), in place.
firm_status lewm_gelu(lewm_gpu* g, int rows, const gpu_layer* l, void* h, firm_error* err);
firm_status lewm_finish(lewm_gpu* g, const lewm_job* j, firm_error* err);  // y -> the last latent
firm_status lewm_fit(lewm_gpu* g, const lewm_job* j, firm_error* err);
firm_status lewm_rows_prepare(lewm_gpu* g, firm_error* err);
rows_args lewm_rows_args(const lewm_gpu* g, const lewm_job* j);

// ---- lewm_few.cu ----
// Published sizes in bfloat16 on Hopper: packs the weights; else nothing. `takes`: the rows are few
// enough.
firm_status lewm_few_prepare(lewm_gpu* g, firm_error* err);
void lewm_few_free(lewm_gpu* g);
int lewm_few_takes(const lewm_gpu* g, const lewm_job* j);
firm_status lewm_few_run(lewm_gpu* g, const lewm_job* j, firm_error* err);  // mod -> path

// ---- lewm_step.cu ----
// Everything from u to path.
firm_status lewm_predict(lewm_gpu* g, const lewm_job* j, firm_error* err);

#endif
