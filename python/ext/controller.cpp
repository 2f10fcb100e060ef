// controller.cpp - controllers, single and many in step.
#include <cstring>
#include <memory>
#include <vector>

#include "bind.h"

// ---- parameters ---------------------------------------------------------------------------------

static firm_controller_params params_of(const nb::dict& d) {
    firm_controller_params p = firm_controller_params_default();
    auto number = [&](const char* name) { return nb::cast<int>(d[name]); };
    p.mode = (firm_mode)number("mode");
    p.seed = nb::cast<uint64_t>(d["seed"]);
    p.threads = number("threads");
    p.candidates = number("candidates");
    p.iterations = number("iterations");
    p.elites = number("elites");
    p.horizon = number("horizon");
    p.fan = number("fan");
    p.device = (firm_device)number("device");
    p.precision = (firm_precision)number("precision");
    p.gpu = number("gpu");
    p.solver = (firm_solver)number("solver");
    return p;
}

static int64_t deadline_of(double ms) {
    return ms > 0 ? firm_clock_ns() + (int64_t)(ms * 1e6) : 0;
}

// ---- a step as Python gets it -------------------------------------------------------------------

// Everything that the step points to is copied into one block, which Python cuts into arrays:
// action, distance_now, distance_planned, goal_config, plan, path, fan.
static nb::tuple pack(const firm_model_info& i, const firm_step& s) {
    const size_t a = (size_t)i.action_dim, c = (size_t)i.config_dim, d = (size_t)i.distance_dim;
    const size_t rows = (size_t)s.horizon + 1;
    const size_t plan = (size_t)(s.horizon * i.controls_per_macro) * a, path = rows * c;
    const size_t fan = s.fan_path ? (size_t)s.fan * rows * c : 0;
    const size_t total = a + 2 * d + c + plan + path + fan;
    nb::object block =
        nb::steal(PyByteArray_FromStringAndSize(nullptr, (Py_ssize_t)(total * sizeof(float))));
    if (!block.is_valid()) throw nb::python_error();
    float* to = reinterpret_cast<float*>(PyByteArray_AsString(block.ptr()));
    auto put = [&to](const float* from, size_t n) {
        if (from && n) std::memcpy(to, from, n * sizeof(float));
        if (!from && n) std::memset(to, 0, n * sizeof(float));
        to += n;
    };
    put(s.action, a);
    put(s.distance_now, d);
    put(s.distance_planned, d);
    put(s.goal_config, c);
    put(s.plan, plan);
    put(s.path, path);
    put(s.fan_path, fan);
    return nb::make_tuple(block, s.horizon, fan ? s.fan : 0, s.solved != 0, s.late != 0,
                          s.nonfinite, s.iterations, s.solve_ms, (double)s.cost, s.arrival,
                          s.reached != 0, (double)s.strange);
}

// ---- what one and many share --------------------------------------------------------------------

// Runs f() with the interpreter's lock released, one call of a controller at a time; why() is its
// sentence, copied before the next call.
template <typename F, typename W>
static void guarded(handle_lock& use, F f, W why) {
    use.check_process();
    firm_status st;
    std::string text;
    {
        turn t(use.mutex);
        st = f();
        if (st != FIRM_OK) text = why();
    }
    check(st, text.c_str());
}

// The same for act(): `pack` makes Python's form of the steps, whose pointers are good as long as
// no other call begins.
template <typename F, typename W, typename P>
static auto acted(handle_lock& use, F f, W why, P pack) {
    use.check_process();
    firm_status st;
    std::string text;
    std::unique_lock<std::mutex> mine(use.mutex, std::defer_lock);
    {
        nb::gil_scoped_release release;
        mine.lock();
        st = f();
        if (st != FIRM_OK) text = why();
    }
    check(st, text.c_str());
    return pack();
}

// ---- one ----------------------------------------------------------------------------------------

// A controller of its own, or one of many. Those of many share a lock, belong to their Controllers,
// and say in their errors which one they are.
struct Controller {
    const Model* model;
    std::shared_ptr<firm_controller> c;
    std::shared_ptr<handle_lock> use = std::make_shared<handle_lock>();
    std::string who;

    Controller(const Model& of, const nb::dict& params) : model(&of) {
        firm_controller_params p = params_of(params);
        firm_controller* made = nullptr;
        unlocked([&](firm_error* err) { return firm_controller_create(of.m, &p, &made, err); });
        c.reset(made, [lock = use](firm_controller* k) {
            if (!lock->left_behind()) firm_controller_free(k);
        });
    }
    Controller(const Model* of, firm_controller* one, std::shared_ptr<handle_lock> lock, int i)
        : model(of), c(one, [](firm_controller*) {}), use(std::move(lock)), who(name(i)) {}

    static std::string name(int i) { return "controller " + std::to_string(i) + ": "; }
    std::string why() const { return who + firm_controller_error(c.get()); }

    template <typename F>
    void call(F f) {
        guarded(
            *use, [&] { return f(c.get()); }, [&] { return why(); });
    }

    void goal(const bytes_in& rgb) {
        const uint8_t* in = pointer(rgb, model->frame());
        call([&](firm_controller* k) { return firm_controller_goal(k, in); });
    }
    void goal_config(const floats_in& values, const std::optional<bytes_in>& given) {
        const float* v = pointer(values, (size_t)model->info.config_dim);
        const uint8_t* g = pointer(given, (size_t)model->info.config_dim);
        call([&](firm_controller* k) { return firm_controller_goal_config(k, v, g); });
    }
    void push(const bytes_in& rgb, const std::optional<floats_in>& action) {
        const uint8_t* in = pointer(rgb, model->frame());
        const float* a = pointer(action, (size_t)model->info.action_dim);
        call([&](firm_controller* k) { return firm_controller_push(k, in, a); });
    }
    nb::tuple act(double deadline_ms) {
        const int64_t deadline = deadline_of(deadline_ms);
        firm_step step;
        return acted(
            *use, [&] { return firm_controller_act(c.get(), deadline, &step); },
            [&] { return why(); }, [&] { return pack(model->info, step); });
    }
    void config(const floats_out& out) {
        float* to = pointer(out, (size_t)model->info.config_dim);
        call([&](firm_controller* k) { return firm_controller_config(k, to); });
    }
    void predict(const floats_in& plan, int macros, const floats_out& path,
                 const std::optional<floats_out>& distance) {
        const firm_model_info& i = model->info;
        if (macros < 1 || macros > 1000) throw failure{FIRM_E_USAGE, "a plan has a wrong size"};
        const float* p = pointer(plan, (size_t)(macros * i.controls_per_macro * i.action_dim));
        float* to = pointer(path, (size_t)((macros + 1) * i.config_dim));
        float* d = pointer(distance, (size_t)((macros + 1) * i.distance_dim));
        call([&](firm_controller* k) { return firm_controller_predict(k, p, macros, to, d); });
    }
    void reset(uint64_t seed) {
        call([&](firm_controller* k) { return firm_controller_reset(k, seed); });
    }
    nb::bytes save() {
        std::vector<char> state(firm_controller_state_bytes(c.get()));
        call([&](firm_controller* k) {
            return firm_controller_save(k, state.data(), state.size());
        });
        return nb::bytes(state.data(), state.size());
    }
    void restore(const nb::bytes& state) {
        call([&](firm_controller* k) {
            return firm_controller_restore(k, state.c_str(), state.size());
        });
    }
    size_t bytes() const { return firm_controller_bytes(c.get()); }
};

// ---- many ---------------------------------------------------------------------------------------

struct Controllers {
    const Model* model;
    firm_controllers* all = nullptr;
    int count;
    std::shared_ptr<handle_lock> use = std::make_shared<handle_lock>();

    Controllers(const Model& of, const nb::dict& params, int n) : model(&of), count(n) {
        firm_controller_params p = params_of(params);
        unlocked([&](firm_error* err) { return firm_controllers_create(of.m, &p, n, &all, err); });
    }
    ~Controllers() {
        if (!use->left_behind()) firm_controllers_free(all);
    }

    Controller at(int i) const {
        firm_controller* c = firm_controllers_at(all, i);
        if (!c) throw failure{FIRM_E_USAGE, "there is no such controller"};
        return Controller(model, c, use, i);
    }
    std::string why() const {
        for (int i = 0; i < count; i++) {
            const char* text = firm_controller_error(firm_controllers_at(all, i));
            if (*text) return Controller::name(i) + text;
        }
        return "";
    }
    template <typename F>
    void call(F f) {
        guarded(*use, f, [&] { return why(); });
    }

    void goal(const bytes_in& rgb) {
        const uint8_t* in = pointer(rgb, (size_t)count * model->frame());
        call([&] { return firm_controllers_goal(all, in); });
    }
    void push(const bytes_in& rgb, const std::optional<floats_in>& action) {
        const uint8_t* in = pointer(rgb, (size_t)count * model->frame());
        const float* a = pointer(action, (size_t)(count * model->info.action_dim));
        call([&] { return firm_controllers_push(all, in, a); });
    }
    nb::list act(double deadline_ms) {
        const int64_t deadline = deadline_of(deadline_ms);
        std::vector<firm_step> steps((size_t)count);
        return acted(
            *use, [&] { return firm_controllers_act(all, deadline, steps.data()); },
            [&] { return why(); },
            [&] {
                nb::list out;
                for (const firm_step& s : steps) out.append(pack(model->info, s));
                return out;
            });
    }
};

void bind_controller(nb::module_& m) {
    nb::class_<Controller>(m, "Controller")
        .def(nb::init<const Model&, const nb::dict&>(), "model"_a, "params"_a,
             nb::keep_alive<1, 2>())
        .def("goal", &Controller::goal, "rgb"_a)
        .def("goal_config", &Controller::goal_config, "values"_a, "given"_a.none())
        .def("push", &Controller::push, "rgb"_a, "action"_a.none())
        .def("act", &Controller::act, "deadline_ms"_a)
        .def("config", &Controller::config, "out"_a)
        .def("predict", &Controller::predict, "plan"_a, "macros"_a, "path"_a, "distance"_a.none())
        .def("reset", &Controller::reset, "seed"_a)
        .def("save", &Controller::save)
        .def("restore", &Controller::restore, "state"_a)
        .def("bytes", &Controller::bytes);
    nb::class_<Controllers>(m, "Controllers")
        .def(nb::init<const Model&, const nb::dict&, int>(), "model"_a, "params"_a, "count"_a,
             nb::keep_alive<1, 2>())
        .def("at", &Controllers::at, "i"_a, nb::keep_alive<0, 1>())
        .def("goal", &Controllers::goal, "rgb"_a)
        .def("push", &Controllers::push, "rgb"_a, "action"_a.none())
        .def("act", &Controllers::act, "deadline_ms"_a);
}
