// random.cuh - numbers drawn on the device under the host's keys (nn_key in backend.h).
#ifndef NN_CUDA_RANDOM_CUH
#define NN_CUDA_RANDOM_CUH

#include "nn/cuda/device.cuh"

// The update stands on the device, so that one captured graph serves all of them.
struct device_key {
    uint64_t seed, stream;
    const int64_t* clock;
};

static inline device_key device_key_of(const nn_call* c, rng_purpose purpose) {
    nn_key key = nn_key_of(c, purpose);
    return device_key{key.seed, key.stream, c->clock};
}

__device__ __forceinline__ void draw(const device_key& key, uint64_t block, uint32_t word[4]) {
    rng_block(key.seed, key.stream, ((uint64_t)*key.clock << 32) + block, word);
}

#endif
