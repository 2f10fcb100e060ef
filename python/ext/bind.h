// bind.h - what the files of the extension share: errors, locks, arrays.
//
// The Python layer (python/src/firm/*.py) checks shapes and types and says what is wrong with them;
// the functions here take arrays that are right already, and refuse the others without a sentence.
#ifndef PYTHON_BIND_H
#define PYTHON_BIND_H

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "firm.h"

namespace nb = nanobind;
using namespace nb::literals;

// Becomes the Python exception of that status (firm/errors.py).
struct failure {
    firm_status status;
    std::string message;
};

inline void check(firm_status status, const char* message) {
    if (status != FIRM_OK)
        throw failure{status, message && *message ? message : firm_status_str(status)};
}

// Read-only inputs, C order, on the CPU.
using bytes_in = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
using floats_in = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using doubles_in = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using seeds_in = nb::ndarray<const uint64_t, nb::c_contig, nb::device::cpu>;
// Outputs, made by the caller.
using bytes_out = nb::ndarray<uint8_t, nb::c_contig, nb::device::cpu>;
using floats_out = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using doubles_out = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

// Arrays have as many numbers as the call will touch: the last line of defence before memory.
template <typename A>
auto pointer(const std::optional<A>& array, size_t numbers) -> decltype(array->data()) {
    if (!array) return nullptr;
    if (array->size() != numbers) throw failure{FIRM_E_USAGE, "an array has a wrong size"};
    return array->data();
}
template <typename A>
auto pointer(const A& array, size_t numbers) -> decltype(array.data()) {
    if (array.size() != numbers) throw failure{FIRM_E_USAGE, "an array has a wrong size"};
    return array.data();
}

// The lock of a handle. A handle with threads belongs to the process that made it: os.fork() leaves
// them behind, and whoever gave them work would wait for ever.
struct handle_lock {
    std::mutex mutex;
    pid_t maker = getpid();  // 0: it has no threads, any process may use its copy
    bool left_behind() const { return maker && maker != getpid(); }
    void check_process() const {
        if (left_behind())
            throw failure{FIRM_E_UNAVAILABLE,
                          "this was made before the process forked, and its threads are not here; "
                          "make another one in the process that uses it"};
    }
};

// A handle belongs to one thread at a time: others wait for it. The interpreter's lock is let go
// first, so that nobody waits for this one while holding that one.
struct turn {
    nb::gil_scoped_release interpreter;
    std::lock_guard<std::mutex> handle;
    explicit turn(std::mutex& m) : handle(m) {}
};

// Runs f(firm_error*) with the interpreter's lock released; its failure becomes an exception.
template <typename F>
void unlocked(F f) {
    firm_error err{};
    firm_status st;
    {
        nb::gil_scoped_release release;
        st = f(&err);
    }
    check(st, err.message);
}

// The same, one call of a handle at a time.
template <typename F>
void in_turn(handle_lock& use, F f) {
    use.check_process();
    firm_error err{};
    firm_status st;
    {
        turn t(use.mutex);
        st = f(&err);
    }
    check(st, err.message);
}

struct Model {
    firm_model* m = nullptr;
    firm_model_info info{};
    explicit Model(const std::string& path);
    ~Model() { firm_model_free(m); }
    size_t frame() const { return (size_t)info.image_size * (size_t)info.image_size * 3; }
};

void bind_model(nb::module_& module);
void bind_controller(nb::module_& module);
void bind_sims(nb::module_& module);

#endif
