// broken_task.c - the example pendulum with one thing wrong, for tests of `firm check` and of what
// is refused when a plug-in is loaded. Compiled by plugin_test.c with -DBREAK=NAME.
#define firm_task_entry whole_entry
#include "../../examples/tasks/pendulum.c"
#undef firm_task_entry

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CRASH 1
#define HANG 2
#define QUIT 3
#define LOST 4      // a state becomes NaN
#define SETTER 5    // state_set does nothing
#define BLANK 6     // render paints one colour
#define LAZY 7      // render leaves some bytes as they were
#define BLIND 8     // render does not show the angle
#define SHARED 9    // state in a variable outside the simulator
#define CHANCE 10   // steps depend on how often they were called
#define HIDDEN 11   // the state leaves the speed out
#define EASY 12     // everything is a success
#define HARD 13     // nothing is
#define FIXED 14    // one start
#define DEAF 15     // actions are ignored
#define SINE 16     // no sine and cosine
#define STALE 17    // the picture shows more than the state
#define SLOW 18     // pictures take long
#define LOADING 19  // crashes when it is loaded
#define OTHER_ABI 20
#define NO_RENDER 21
#define NO_STATE 22
#define NAMED 23     // like a task of the program's
#define WORDS 24     // its typed task cannot be read
#define CHI 25       // chi does not fit the default
#define OLD 26       // a table of an older header, cut before chi
#define TOLERANT 27  // another tolerance
#define REFUSES 28   // open fails
#define COUNTS 29    // episodes too short

static void step_wrong(void* sim, const float* action) {
    pendulum* p = sim;
    static double shared;
    static int calls;
    const float none = 0;
    if (BREAK == CRASH) *(volatile int*)(uintptr_t)(p->speed == 12345) = 1;
    if (BREAK == QUIT) exit(5);
    for (volatile int i = 0; BREAK == HANG; i++) {
    }
    if (BREAK == SHARED) p->speed += 0.1 * shared;
    if (BREAK == CHANCE) p->speed += 1e-6 * ++calls;
    step(sim, BREAK == DEAF ? &none : action);
    shared = p->speed;
    if (BREAK == LOST && p->angle > 1) p->angle = NAN;
}

static void reset_wrong(void* sim, firm_random* random) {
    reset(sim, random);
    if (BREAK == FIXED) memset(sim, 0, sizeof(pendulum));
}

static void state_get_wrong(const void* sim, double* state) {
    state_get(sim, state);
    if (BREAK == HIDDEN) state[1] = 0;
}

static void state_set_wrong(void* sim, const double* state) {
    if (BREAK != SETTER) state_set(sim, state);
}

static void config_wrong(const double* state, float* c) {
    config(state, c);
    if (BREAK == SINE) c[0] = 2 * c[0];
}

static int success_wrong(const double* state, const double* goal) {
    (void)state, (void)goal;
    return BREAK == EASY;
}

static void render_wrong(const void* sim, uint8_t* rgb) {
    pendulum p = *(const pendulum*)sim;
    if (BREAK == BLIND) p.angle = 0.3;
    if (BREAK == STALE && fabs(p.speed) > 0.2) p.angle += 0.1 * p.speed;
    if (BREAK == SLOW) usleep(600000);
    render(&p, rgb);
    if (BREAK == BLANK) memset(rgb, 255, IMAGE * IMAGE * 3);
}

// leaves the last rows as the memory was
static void render_lazy(const void* sim, uint8_t* rgb) {
    static uint8_t whole[IMAGE * IMAGE * 3];
    render(sim, whole);
    memcpy(rgb, whole, sizeof whole - 3 * IMAGE);
}

static int open_wrong(void* sim, char* why, size_t room) {
    (void)sim;
    strncpy(why, "the licence server is away", room - 1);
    return 1;
}

#if BREAK == LOADING
__attribute__((constructor)) static void crash_now(void) {
    *(volatile int*)(uintptr_t)8 = 1;
}
#endif

FIRM_TASK_EXPORT const firm_task* firm_task_entry(int abi);
const firm_task* firm_task_entry(int abi) {
    static firm_simulator s;
    static firm_collection c;
    static firm_task t;
    static char text[sizeof typed + 64];
    s = simulator;
    s.step = step_wrong;
    s.reset = reset_wrong;
    s.state_get = state_get_wrong;
    s.state_set = state_set_wrong;
    s.config = config_wrong;
    s.render = BREAK == LAZY ? render_lazy : BREAK == NO_RENDER ? NULL : render_wrong;
    if (BREAK == EASY || BREAK == HARD) s.success = success_wrong;
    if (BREAK == CHI) s.chi = NULL;
    if (BREAK == OLD) s.size = offsetof(firm_simulator, chi);
    if (BREAK == REFUSES) s.open = open_wrong;
    t = task;
    t.simulator = &s;
    t.typed = text;
    strcpy(text, typed);
    if (BREAK == NAMED) memcpy(strstr(text, "pendulum\n"), "tworoom\n ", 9);
    if (BREAK == WORDS) memcpy(strstr(text, "period_ms"), "period_us", 9);
    if (BREAK == CHI) memcpy(strstr(text, "chi = 2"), "chi = 3", 7);
    if (BREAK == TOLERANT) memcpy(strstr(text, "0.15"), "0.25", 4);
    if (BREAK == NO_STATE) t.state_dim = 0;
    if (BREAK == COUNTS) {
        c = (firm_collection){.size = sizeof c, .steps = 3};
        t.collection = &c;
    }
    return abi == FIRM_TASK_ABI && BREAK != OTHER_ABI ? &t : NULL;
}
