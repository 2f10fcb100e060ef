// anywhere.h - marks functions of headers that the host and the kernels of a GPU both compile, so
// that the two cannot drift apart.
#ifndef CORE_ANYWHERE_H
#define CORE_ANYWHERE_H

#ifdef __CUDACC__
#define ANYWHERE static __host__ __device__ __forceinline__
#else
#define ANYWHERE static inline
#endif

#endif
