// warps.cpp - the threads of one or more blocks as contexts that take turns. A context is made by
// makecontext(); afterwards _setjmp() and _longjmp() switch, since swapcontext() asks the kernel
// twice each time, which was half of the tests' time.
#include "warps.h"

#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <vector>

dim3 blockIdx, blockDim, gridDim, threadIdx;
unsigned char* launched_room;

enum { STACK = 1 << 16 };

struct fiber {
    ucontext_t context;  // where it begins
    jmp_buf here;        // where it is
    bool begun, done;
    std::unique_ptr<char[]> stack;  // of which most is never touched
};

struct warp {
    warp_exchange words;
    int arrived, phase;
};

struct warpgroup {
    uint64_t what;
    int arrived, phase;
    void* own[128];
};

enum { NAMED = 16 };
struct named {
    int arrived, phase;
};

// a block at work
struct block {
    unsigned number, alive, arrived, phase;
    unsigned char* room;
    std::vector<warpgroup> groups;
    named barriers[NAMED];
};

static std::vector<fiber> fibers;  // of all blocks at work, one after the other
static std::vector<warp> warps;
static std::vector<block> blocks_at_work;
static unsigned current;
static jmp_buf turns;  // where a context that waits or has ended goes on
static const std::function<void()>* body;

void let_others(void) {
    if (!_setjmp(fibers[current].here)) _longjmp(turns, 1);
}

static block* own_block(void) {
    return &blocks_at_work[current / blockDim.x];
}

// A barrier counts the threads that still run.
static void pass_if_complete(block* b) {
    if (b->arrived && b->arrived == b->alive) b->arrived = 0, b->phase++;
}

void __syncthreads(void) {
    block* b = own_block();
    unsigned before = b->phase;
    b->arrived++;
    pass_if_complete(b);
    while (b->phase == before) let_others();
}

void __syncwarp(void) {
    __any_sync(~0u, 0);
}

unsigned char* room_of(unsigned number) {
    return blocks_at_work[number - blocks_at_work[0].number].room;
}

static void entry(void) {
    (*body)();
    fibers[current].done = true;
    own_block()->alive--;
    pass_if_complete(own_block());
    let_others();
}

// In a function of its own: what changes here does not live across a jump.
static void take_turn(fiber* f) {
    if (_setjmp(turns)) return;
    if (f->begun) _longjmp(f->here, 1);
    f->begun = true;
    setcontext(&f->context);
}

static void run_blocks(unsigned first, unsigned count, size_t room) {
    const unsigned threads = blockDim.x;
    unsigned alive = count;
    warps.assign(count * ((threads + 31) / 32), warp());
    blocks_at_work.assign(count, block());
    if (fibers.size() < count * threads) fibers.resize(count * threads);
    for (unsigned i = 0; i < count; i++) {
        unsigned char* p = (unsigned char*)aligned_alloc(128, (room + 128) / 128 * 128);
        memset(p, 0xff, room);  // what nobody wrote is not a number
        std::vector<warpgroup> groups((threads + 127) / 128);
        blocks_at_work[i] = block{first + i, threads, 0, 0, p, groups, {}};
    }
    for (unsigned i = 0; i < count * threads; i++) {
        fiber& f = fibers[i];
        f.begun = f.done = false;
        if (!f.stack) f.stack.reset(new char[STACK]);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = nullptr;  // nobody returns
        makecontext(&f.context, entry, 0);
    }
    while (alive) {
        for (current = 0; current < count * threads; current++) {
            if (fibers[current].done) continue;
            threadIdx = dim3{current % threads, 0, 0};
            blockIdx = dim3{own_block()->number, 0, 0};
            launched_room = own_block()->room;
            take_turn(&fibers[current]);
        }
        alive = 0;
        for (const block& b : blocks_at_work) alive += b.alive;
    }
    for (const block& b : blocks_at_work) free(b.room);
}

static void launch(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
    body = &kernel;
    blockDim = dim3{threads, 1, 1};
    gridDim = dim3{blocks, 1, 1};
}

void emulate(unsigned blocks, unsigned threads, size_t room, const std::function<void()>& kernel) {
    launch(blocks, threads, kernel);
    for (unsigned i = 0; i < blocks; i++) run_blocks(i, 1, room);
}

void emulate_together(unsigned blocks, unsigned threads, size_t room,
                      const std::function<void()>& kernel) {
    launch(blocks, threads, kernel);
    run_blocks(0, blocks, room);
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

void group_works(uint64_t what, void* own, void (*work)(void** all, const void* how),
                 const void* how) {
    const unsigned thread = current % blockDim.x;
    warpgroup* g = &own_block()->groups[thread / 128];
    if (g->arrived && g->what != what) abort();
    g->what = what;
    g->own[thread % 128] = own;
    int before = g->phase;
    if (++g->arrived == 128) {
        if (work) work(g->own, how);
        g->arrived = 0;
        g->phase++;
    }
    while (g->phase == before) let_others();
}

void group_meets(uint64_t what) {
    group_works(what, NULL, NULL, NULL);
}

static int come(named* n, int threads) {
    int before = n->phase;
    if (++n->arrived == threads) n->arrived = 0, n->phase++;
    return before;
}
void some_meet(int number, int threads) {
    named* n = &own_block()->barriers[number];
    int before = come(n, threads);
    while (n->phase == before) let_others();
}
void some_arrive(int number, int threads) {
    come(&own_block()->barriers[number], threads);
}

void all_meet(void) {
    static named all;
    int before = come(&all, (int)(blocks_at_work.size() * blockDim.x));
    while (all.phase == before) let_others();
}

int __shfl_sync(unsigned, int x, int from) {
    uint32_t words[2] = {(uint32_t)x, (uint32_t)from};
    warp_words w = warp_instruction(words, 2, [](warp_exchange* e) {
        for (unsigned i = 0; i < 32; i++) e->out[i][0] = e->in[e->in[i][1]][0];
    });
    return (int)w.word[0];
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
