// model.cpp - models: loading, description, batches of frames and plans.
#include "batch.h"
#include "bind.h"

Model::Model(const std::string& path) {
    unlocked([&](firm_error* err) { return firm_model_load(path.c_str(), &m, err); });
    check(firm_model_info_get(m, &info), nullptr);
}

static nb::dict info(const Model& model) {
    const firm_model_info& i = model.info;
    nb::list config, distance;
    for (int k = 0; k < i.config_dim; k++) config.append(i.config_name[k]);
    for (int k = 0; k < i.distance_dim; k++)
        distance.append(nb::make_tuple(i.distance_name[k], i.distance_unit[k],
                                       (double)i.distance_tolerance[k]));
    nb::dict d;
    d["task"] = i.task;
    d["image_size"] = i.image_size;
    d["action_dim"] = i.action_dim;
    d["controls_per_macro"] = i.controls_per_macro;
    d["config"] = config;
    d["distance"] = distance;
    d["parameters"] = i.parameters;
    return d;
}

static std::string typed(const Model& model) {
    std::string text(1 << 16, 0);
    if (!model_typed(model.m, text.data(), text.size())) throw std::bad_alloc();
    return text.c_str();
}

// Controllers that answer questions about batches. It is made for a number of macro actions.
struct Batch {
    const Model* model;
    batch* b = nullptr;
    handle_lock use;

    Batch(const Model& of, int macros, int threads) : model(&of) {
        unlocked([&](firm_error* err) { return batch_create(of.m, macros, threads, &b, err); });
    }
    ~Batch() {
        if (!use.left_behind()) batch_free(b);
    }

    void ground(const bytes_in& frames, const floats_out& config) {
        const firm_model_info& i = model->info;
        const size_t n = frames.size() / model->frame();
        const uint8_t* in = pointer(frames, n * model->frame());
        float* out = pointer(config, n * (size_t)i.config_dim);
        in_turn(use, [&](firm_error* err) { return batch_ground(b, in, (int)n, out, err); });
    }

    void predict(const bytes_in& frames, const std::optional<floats_in>& history,
                 const floats_in& plan, const std::optional<bytes_in>& goal,
                 const std::optional<floats_in>& values, const std::optional<bytes_in>& given,
                 const floats_out& path, const std::optional<floats_out>& distance, int macros) {
        const firm_model_info& i = model->info;
        const size_t wide = (size_t)i.action_dim, c = (size_t)i.config_dim;
        const size_t rows = (size_t)macros + 1;
        if (macros < 1 || macros > batch_macros(b))
            throw failure{FIRM_E_USAGE, "a batch has a wrong size"};
        const size_t n = plan.size() / ((size_t)(macros * i.controls_per_macro) * wide);
        if (n < 1) throw failure{FIRM_E_USAGE, "a batch has a wrong size"};
        const size_t seen = frames.size() / (n * model->frame());
        batch_question q{};
        q.count = (int)n;
        q.seen = (int)seen;
        q.macros = macros;
        q.frames = pointer(frames, n * seen * model->frame());
        q.history = pointer(history, n * (seen - 1) * wide);
        q.plan = pointer(plan, n * (size_t)(macros * i.controls_per_macro) * wide);
        if (seen < 1 || (seen > 1 && !q.history))
            throw failure{FIRM_E_USAGE, "a batch has a wrong size"};
        q.one_goal = goal && goal->size() == model->frame();
        q.goal = pointer(goal, (q.one_goal ? 1 : n) * model->frame());
        q.goal_values = pointer(values, c);
        q.goal_given = pointer(given, c);
        float* p = pointer(path, n * rows * c);
        float* d = pointer(distance, n * rows * (size_t)i.distance_dim);
        if (d && !q.goal && !q.goal_values) throw failure{FIRM_E_USAGE, "there is no goal"};
        in_turn(use, [&](firm_error* err) { return batch_predict(b, &q, p, d, err); });
    }
};

void bind_model(nb::module_& m) {
    nb::class_<Model>(m, "Model")
        .def(nb::init<const std::string&>(), "path"_a)
        .def("info", &info)
        .def("typed", &typed);
    nb::class_<Batch>(m, "Batch")
        .def(nb::init<const Model&, int, int>(), "model"_a, "macros"_a, "threads"_a,
             nb::keep_alive<1, 2>())
        .def("ground", &Batch::ground, "frames"_a, "config"_a)
        .def("predict", &Batch::predict, "frames"_a, "history"_a.none(), "plan"_a, "goal"_a.none(),
             "values"_a.none(), "given"_a.none(), "path"_a, "distance"_a.none(), "macros"_a);
}
