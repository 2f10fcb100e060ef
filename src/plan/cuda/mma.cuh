// mma.cuh - what the kernels on the tensor cores are made of: copies into shared memory, asking a
// barrier, fragments, the product of two fragments, and what becomes of the heads' results.
#ifndef PLAN_CUDA_MMA_CUH
#define PLAN_CUDA_MMA_CUH

#include <type_traits>

#include "plan/cuda/internal.cuh"

// 16 bytes, asynchronously
static __device__ __forceinline__ void copy16(uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
// Has the barrier in shared memory passed its phase of this parity? Asks for a while.
static __device__ __forceinline__ uint32_t barrier_passed(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done;
}
// four 8 x 8 matrices of 16-bit numbers, one row address per lane
static __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}
// d += a b: a 16 x 16, b 16 x 8
template <typename T>
static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
    if constexpr (std::is_same<T, __half>::value)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <typename T>
static __device__ __forceinline__ uint32_t pack_two(float a, float b) {
    uint32_t bits;
    if constexpr (std::is_same<T, __half>::value) {
        __half2 v = __floats2half2_rn(a, b);
        memcpy(&bits, &v, 4);
    } else {
        __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
        memcpy(&bits, &v, 4);
    }
    return bits;
}

// c and m move on: two neighbouring coordinates of a row's state. P: product or batch_product.
template <typename T, typename P>
static __device__ __forceinline__ void finish_state(const P& p, int row, int col, float v0,
                                                    float v1) {
    if (col >= p.outputs) return;
    bool two = col + 1 < p.outputs;
    float* state = (float*)p.out + (size_t)row * p.out_stride + col;
    v0 += state[0];
    if (two) v1 += state[1];
    if (col < 2 * p.pairs) {
        // the tiny number only keeps a pair of exact zeros from becoming 0 / 0
        float length = sqrtf(fmaf(v0, v0, fmaf(v1, v1, 1e-12f)));
        v0 /= length;
        v1 /= length;
    }
    state[0] = v0;
    if (two) state[1] = v1;
    if (col < p.config) p.c[(size_t)row * p.c_stride + col] = v0;
    if (two && col + 1 < p.config) p.c[(size_t)row * p.c_stride + col + 1] = v1;
    if (p.x) {
        T* x = (T*)p.x + (size_t)row * p.x_stride + col;
        x[0] = operand<T>(v0);
        if (two) x[1] = operand<T>(v1);
    }
}

#endif
