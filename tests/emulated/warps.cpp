// warps.cpp - the threads of a block as contexts that take turns.
#include "warps.h"

#include <ucontext.h>

#include <vector>

dim3 blockIdx, blockDim, gridDim, threadIdx;
unsigned char* launched_room;

enum { STACK = 1 << 16 };

struct fiber {
    ucontext_t context;
    bool done;
    std::vector<char> stack;
};

struct warp {
    warp_exchange words;
    int arrived, phase;
};

struct warpgroup {
    uint64_t what;
    int arrived, phase;
};

static std::vector<fiber> fibers;
static std::vector<warp> warps;
static std::vector<warpgroup> groups;
static unsigned current, alive, arrived, phase;
static ucontext_t scheduler;
static const std::function<void()>* body;

static void let_others(void) {
    unsigned mine = current;
    swapcontext(&fibers[mine].context, &scheduler);
}

// A barrier counts the threads that still run.
static void pass_if_complete(void) {
    if (arrived && arrived == alive) arrived = 0, phase++;
}

void __syncthreads(void) {
    unsigned before = phase;
    arrived++;
    pass_if_complete();
    while (phase == before) let_others();
}

static void entry(void) {
    (*body)();
    fibers[current].done = true;
    alive--;
    pass_if_complete();
    let_others();
}

static void run_block(unsigned threads) {
    warps.assign((threads + 31) / 32, warp());
    groups.assign((threads + 127) / 128, warpgroup());
    alive = threads, arrived = 0;
    for (unsigned i = 0; i < threads; i++) {
        fiber& f = fibers[i];
        f.done = false;
        f.stack.resize(STACK);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, entry, 0);
    }
    while (alive)
        for (current = 0; current < threads; current++) {
            if (fibers[current].done) continue;
            threadIdx = dim3{current, 0, 0};
            swapcontext(&scheduler, &fibers[current].context);
        }
}

void emulate(unsigned blocks, unsigned threads, size_t room, const std::function<void()>& kernel) {
    body = &kernel;
    blockDim = dim3{threads, 1, 1};
    gridDim = dim3{blocks, 1, 1};
    if (fibers.size() < threads) fibers.resize(threads);
    launched_room = (unsigned char*)aligned_alloc(128, (room + 128) / 128 * 128);
    for (unsigned i = 0; i < blocks; i++) {
        blockIdx = dim3{i, 0, 0};
        memset(launched_room, 0xff, room);  // what nobody wrote is not a number
        run_block(threads);
    }
    free(launched_room);
}

warp_words warp_instruction(const uint32_t* words, int count, void (*work)(warp_exchange*)) {
    unsigned lane = current % 32;
    warp* w = &warps[current / 32];
    memcpy(w->words.in[lane], words, (size_t)count * 4);
    int before = w->phase;
    if (++w->arrived == 32) {
        work(&w->words);
        w->arrived = 0;
        w->phase++;
    }
    while (w->phase == before) let_others();
    warp_words result;
    memcpy(result.word, w->words.out[lane], sizeof result.word);
    return result;
}

void group_meets(uint64_t what) {
    warpgroup* g = &groups[current / 128];
    if (g->arrived && g->what != what) abort();
    g->what = what;
    int before = g->phase;
    if (++g->arrived == 128) {
        g->arrived = 0;
        g->phase++;
    }
    while (g->phase == before) let_others();
}

float __shfl_xor_sync(unsigned, float x, int other) {
    uint32_t words[2] = {bits_of(x), (uint32_t)other};
    warp_words w = warp_instruction(words, 2, [](warp_exchange* e) {
        for (unsigned i = 0; i < 32; i++) e->out[i][0] = e->in[i ^ e->in[i][1]][0];
    });
    return float_of(w.word[0]);
}

int __any_sync(unsigned, int x) {
    uint32_t words[1] = {x != 0};
    warp_words w = warp_instruction(words, 1, [](warp_exchange* e) {
        uint32_t any = 0;
        for (int i = 0; i < 32; i++) any |= e->in[i][0];
        for (int i = 0; i < 32; i++) e->out[i][0] = any;
    });
    return (int)w.word[0];
}

int __all_sync(unsigned lanes, int x) {
    return !__any_sync(lanes, !x);
}
