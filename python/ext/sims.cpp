// sims.cpp - simulators, many in step (sims.h).
#include "sims.h"

#include "bind.h"

struct Sims {
    const env_spec* spec = nullptr;
    sims* s = nullptr;
    handle_lock use;

    Sims(const std::string& task, const std::optional<std::string>& library, int count,
         int threads) {
        unlocked([&](firm_error* err) {
            firm_status st =
                sims_task(task.c_str(), library ? library->c_str() : nullptr, &spec, err);
            return st == FIRM_OK ? sims_create(spec, count, threads, &s, err) : st;
        });
        // one alone has no threads; but a plug-in's may have what it likes
        if (count == 1 && task.find('/') == std::string::npos) use.maker = 0;
    }
    ~Sims() {
        if (!use.left_behind()) sims_free(s);
    }
    size_t count() const { return (size_t)sims_count(s); }
    size_t dim() const { return (size_t)spec->state->dim; }

    nb::dict info() const {
        const task_typed& t = spec->task;
        nb::list config, distance;
        for (int k = 0; k < t.config_dim; k++) config.append(t.config_name[k]);
        for (int k = 0; k < t.distances; k++)
            distance.append(nb::make_tuple(t.distance[k].name, t.distance[k].unit,
                                           (double)t.distance[k].tolerance));
        nb::dict d;
        d["task"] = t.name;
        d["title"] = spec->title;
        d["physics"] = spec->sim->physics;
        d["renderer"] = spec->sim->renderer;
        d["image_size"] = t.image;
        d["period_ms"] = t.period_ms;
        d["action_dim"] = t.action_dim;
        d["action_low"] = (double)t.action_low;
        d["action_high"] = (double)t.action_high;
        d["state_dim"] = spec->state->dim;
        d["config"] = config;
        d["distance"] = distance;
        return d;
    }

    void reset(const std::optional<bytes_in>& mask, const seeds_in& seeds) {
        const uint8_t* m = pointer(mask, count());
        const uint64_t* seed = pointer(seeds, count());
        in_turn(use, [&](firm_error* err) { return sims_reset(s, m, seed, err); });
    }
    void set(int i, const std::optional<doubles_in>& state, const std::optional<doubles_in>& goal) {
        const double* to = pointer(state, dim());
        const double* aim = pointer(goal, dim());
        in_turn(use, [&](firm_error* err) { return sims_set(s, i, to, aim, err); });
    }
    void step(const std::optional<bytes_in>& mask, const floats_in& action) {
        const uint8_t* m = pointer(mask, count());
        const float* a = pointer(action, count() * (size_t)spec->task.action_dim);
        in_turn(use, [&](firm_error* err) { return sims_step(s, m, a, err); });
    }
    void look(const std::optional<bytes_in>& mask, const std::optional<bytes_out>& frames,
              const std::optional<doubles_out>& state, const std::optional<doubles_out>& goal,
              const std::optional<floats_out>& config, const std::optional<floats_out>& distance,
              const std::optional<bytes_out>& success) {
        const task_typed& t = spec->task;
        const uint8_t* m = pointer(mask, count());
        sims_view v{};
        v.frames = pointer(frames, count() * sims_frame_bytes(s));
        v.state = pointer(state, count() * dim());
        v.goal = pointer(goal, count() * dim());
        v.config = pointer(config, count() * (size_t)t.config_dim);
        v.distance = pointer(distance, count() * (size_t)t.distances);
        v.success = pointer(success, count());
        in_turn(use, [&](firm_error* err) { return sims_look(s, m, &v, err); });
    }
    void picture(const doubles_in& state, const bytes_out& rgb) {
        const double* from = pointer(state, dim());
        uint8_t* to = pointer(rgb, sims_frame_bytes(s));
        in_turn(use, [&](firm_error* err) { return sims_picture(s, from, to, err); });
    }
};

void bind_sims(nb::module_& m) {
    nb::class_<Sims>(m, "Sims")
        .def(nb::init<const std::string&, const std::optional<std::string>&, int, int>(), "task"_a,
             "library"_a.none(), "count"_a, "threads"_a)
        .def("info", &Sims::info)
        .def("reset", &Sims::reset, "mask"_a.none(), "seeds"_a)
        .def("set", &Sims::set, "i"_a, "state"_a.none(), "goal"_a.none())
        .def("step", &Sims::step, "mask"_a.none(), "action"_a)
        .def("look", &Sims::look, "mask"_a.none(), "frames"_a.none() = nb::none(),
             "state"_a.none() = nb::none(), "goal"_a.none() = nb::none(),
             "config"_a.none() = nb::none(), "distance"_a.none() = nb::none(),
             "success"_a.none() = nb::none())
        .def("picture", &Sims::picture, "state"_a, "rgb"_a);
}
