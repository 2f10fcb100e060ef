// blas.c - the only calls of OpenBLAS: see blas.h.
#define _GNU_SOURCE
#include "nn/cpu/blas.h"

#include <cblas.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

// OpenBLAS's own allocator: marks a buffer as used, and maps one where all are.
void* blas_memory_alloc(int place) __attribute__((weak));
void blas_memory_free(void* buffer) __attribute__((weak));

enum { MOST = 64, BUFFER_MIB = 129 };  // OpenBLAS maps 128 MiB at a time

// Held by every product, and alone by whoever maps buffers: so it is known how many are free.
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static int wanted;              // threads of all callers
static atomic_int mapped;       // buffers that OpenBLAS has
static atomic_int multiplying;  // threads inside it

// 1 if OpenBLAS will get one more buffer when it asks.
static int room_for_one(void) {
    const size_t bytes = (size_t)BUFFER_MIB << 20;
    void* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 0;
    munmap(p, bytes);
    return 1;
}

// OpenBLAS has `count` buffers at least, or all that there is memory for; nobody multiplies now.
static int map_buffers(int count) {
    void* held[MOST];
    int n = 0;
    if (!blas_memory_alloc || !blas_memory_free) mapped = MOST;  // another BLAS, with other habits
    if (mapped >= count) return 1;
    while (n < count && (n < mapped || room_for_one())) held[n++] = blas_memory_alloc(0);
    for (int i = 0; i < n; i++) blas_memory_free(held[i]);
    mapped = n;
    return n == count;
}

// For all callers together one for each core, and for this one as many as it has threads.
static int buffers_for(int threads) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int count = wanted + threads < cores ? wanted + threads : (int)cores;
    if (count < threads) count = threads;
    return count < MOST ? count : MOST;
}

firm_status nn_blas_reserve(int threads, firm_error* err) {
    pthread_rwlock_wrlock(&lock);
    openblas_set_num_threads(1);  // our pools are the only source of threads
    int count = buffers_for(threads), done = map_buffers(count);
    if (done) wanted += threads;
    pthread_rwlock_unlock(&lock);
    if (done) return FIRM_OK;
    return FAIL(err, FIRM_E_MEMORY,
                "no memory for matrix products: they need %d MiB of address space for each of %d "
                "threads; raise the limit (ulimit -v) or use fewer --threads",
                BUFFER_MIB, count);
}

void nn_blas_release(int threads) {
    pthread_rwlock_wrlock(&lock);
    wanted -= threads;
    pthread_rwlock_unlock(&lock);
}

int nn_blas_product(int ta, int tb, int m, int n, int k, const float* a, int lda, const float* b,
                    int ldb, float beta, float* c, int ldc) {
    pthread_rwlock_rdlock(&lock);
    int fits = 1, full = atomic_fetch_add(&multiplying, 1) >= mapped;
    if (full) {  // more threads than were asked for: this one multiplies alone
        atomic_fetch_sub(&multiplying, 1);
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_wrlock(&lock);
        atomic_fetch_add(&multiplying, 1);
        fits = map_buffers(1);
    }
    if (fits)
        cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                    m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
    atomic_fetch_sub(&multiplying, 1);
    pthread_rwlock_unlock(&lock);
    return fits;
}
