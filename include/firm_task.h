// firm_task.h - a task of your own: a simulator and the meaning of its numbers, in one shared
// library that the program loads.
//
//     cc -shared -fPIC task.c -o task.so $(pkg-config --cflags firm)
//     firm check ./task.so
//
// Every command of `firm` that takes the name of a task also takes ./task.so. The library exports
// one function, firm_task_entry(), and needs nothing of FIRM but this header. docs/your-task.md
// builds one from the start.
//
// Every table begins with its size: a later version of this header may add fields at the end, and
// what an older library does not have counts as NULL or 0. The tables and texts stay where they
// are while the library is loaded.
//
// Threads: several threads run simulators side by side, each its own. A function may change the
// simulator it is given and nothing else: no variables outside of it.
//
// The same state and the same actions must lead to the same states and pictures, bit for bit.
#ifndef FIRM_TASK_H
#define FIRM_TASK_H

#include <stddef.h>
#include <stdint.h>

#define FIRM_TASK_ABI 1  // given to firm_task_entry(); changes only when old libraries cannot run

#ifdef __cplusplus
extern "C" {
#define FIRM_TASK_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define FIRM_TASK_EXPORT __attribute__((visibility("default")))
#endif

// Random numbers, drawn by the program from its seed: use no others.
typedef struct firm_random {
    size_t size;
    double (*uniform)(struct firm_random* r);  // at least 0, below 1
    double (*gauss)(struct firm_random* r);    // mean 0, deviation 1
} firm_random;

static inline double firm_random_between(firm_random* r, double low, double high) {
    return low + (high - low) * r->uniform(r);
}

// A simulator: `bytes` of memory, zeroed, that these functions run. NULL is allowed where it says
// so. `state`: state_dim numbers that say all about a moment. `c`: the configuration, its named
// coordinates in the order of the task's [config]; an angle is two numbers, sine and cosine.
typedef struct firm_simulator {
    size_t size;   // sizeof(firm_simulator)
    size_t bytes;  // of one simulator

    void (*reset)(void* sim, firm_random* random);      // a random start
    void (*step)(void* sim, const float* action);       // one control
    void (*state_get)(const void* sim, double* state);  //
    void (*state_set)(void* sim, const double* state);  // back to a recorded moment, exactly
    void (*render)(const void* sim, uint8_t* rgb);      // (image, image, 3), rows from the top
    void (*config)(const double* state, float* c);      //

    int (*open)(void* sim, char* why, size_t room);  // NULL: zeroed memory will do. 0: done;
                                                     // else `why` gets a sentence
    void (*close)(void* sim);                        // NULL: nothing to release
    int (*success)(const double* state, const double* goal);  // NULL: all distances are within
                                                              // their tolerances
    int (*fits)(const double* state);                         // NULL: every finite state can be set
    // What the hidden part of the model learns to tell, `chi` numbers: speeds, contacts. `before`
    // is the state one control earlier, `macro_before` one macro action earlier. NULL: the change
    // of c over the last control.
    void (*chi)(const double* state, const double* before, const double* macro_before, float* chi);
} firm_simulator;

// How episodes are recorded. 0 and NULL stand for what the comments say.
typedef struct firm_collection {
    size_t size;         // sizeof(firm_collection)
    const char* policy;  // its name. NULL: "smooth", and act is NULL too
    // The next action of an episode. NULL: smooth random actions that fill the bounds.
    void (*act)(void* sim, firm_random* random, float* action);
    int (*done)(const void* sim);  // ends an episode early. NULL: never
    int steps;                     // controls of an episode; 0: 100
    int episodes;                  // by default; 0: 1000
    int anchors, branches;         // interventions: recorded moments, and other futures of each;
                                   // 0: 128 and 32
} firm_collection;

typedef struct firm_task {
    size_t size;          // sizeof(firm_task)
    const char* typed;    // names, units, distances, tolerances, actions, picture: the words of
                          // docs/formats.md, "Typed tasks"
    const char* title;    // one line for people
    const char* version;  // of physics and picture, noted in every data file: "pendulum 1"
    int state_dim;        // 1 to 64
    const firm_simulator* simulator;
    const firm_collection* collection;  // NULL: everything by default
} firm_task;

// What the library exports. Returns NULL when it cannot serve this ABI.
FIRM_TASK_EXPORT const firm_task* firm_task_entry(int abi);

#ifdef __cplusplus
}
#endif

#endif
