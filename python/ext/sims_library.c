// sims_library.c - what a library of simulators exports (cmake/python.cmake builds them).
#include "sims.h"

__attribute__((visibility("default"))) const env_spec* firm_sims_find(const char* task) {
    return env_find(task);
}
