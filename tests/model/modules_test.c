// modules_test.c - the modules of src/model as built for training, in all forms that the tasks use:
// the derived gradient of each against central finite differences in double, the cpu backend
// against ref at the real sizes, and what the equations promise (causal history, E(o, 0), typed
// pairs). tasks_test.c has what concerns a task's model as a whole.
#include "check.h"
#include "env/env.h"
#include "eval/settings.h"
#include "model/model.h"
#include "nn/exec.h"
#include "train/shape.h"

static model_shape small_shape(void) {
    return (model_shape){.channels = {8, 8, 8, 8},
                         .groups = 4,
                         .grounder_hidden = 12,
                         .history_width = 12,
                         .history_inner = 10,
                         .history_blocks = 2,
                         .history_heads = 3,
                         .belief = 9,
                         .fiber = 7,
                         .fiber_hidden = 11,
                         .hidden = 12,
                         .inner = 14,
                         .blocks = 2,
                         .grid = 7,
                         .history_pool = 1};
}

// Push-T's forms: a finer grid, votes, a spatial residual
static model_shape small_votes(void) {
    model_shape s = small_shape();
    s.grid = 14;
    s.history_pool = 2;
    s.grounder = MODEL_GROUND_VOTES;
    s.grounder_hidden = 8;
    s.grounder_residual = 6;
    s.spatial = 10;
    return s;
}

// Reacher's: keypoints, staged heads
static model_shape small_keypoints(void) {
    model_shape s = small_shape();
    s.grid = 14;
    s.keypoints = 5;
    s.keypoint_width = 6;
    s.grounder = MODEL_GROUND_STAGED;
    s.grounder_residual = 7;
    return s;
}

static model_shape real_shape(const env_spec* env) {
    config* c = NULL;
    model_shape shape = {0};
    if (settings_load(&env->task, NULL, NULL, 0, &c, NULL) != FIRM_OK) abort();
    model_shape_read(c, &shape);
    config_free(c);
    return shape;
}

static firm_model* make(const env_spec* env, const model_shape* shape) {
    firm_model* m = NULL;
    firm_error err = {0};
    if (model_create(&env->task, shape, MODEL_AUXILIARY | MODEL_POSTURE, 5, &m, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    for (int i = 0; i < 3; i++) {
        m->stats.image_mean[i] = 0.5f;
        m->stats.image_std[i] = 0.3f;
    }
    // away from the tidy start (gains 1, offsets 0), so that every path has a gradient
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        if (e->init == NN_INIT_NORMAL) continue;
        rng r = rng_start(5, RNG_STREAM(RNG_TEST, rng_hash_text(e->name) >> 16));
        for (size_t j = 0; j < e->count; j++)
            m->store->value[e->offset + j] += 0.2f * rng_gauss(&r);
    }
    return m;
}

// ---- graphs: a module, its output times random numbers as the loss
// -------------------------------

typedef struct rig {
    nn_graph* graph;
    nn_exec* exec;
    nn_id out[2];
    int outs;
} rig;

typedef void (*build_fn)(nn_graph* g, const firm_model* m, rig* r);

static nn_id tokens_in(nn_graph* g, const firm_model* m, const char* name) {
    return nn_input(g, name, 2, (int[]){model_token_count(m), model_token_width(m)});
}

static void keep(nn_graph* g, rig* r, nn_id x) {
    char name[16];
    snprintf(name, sizeof name, "weights%d", r->outs);
    nn_output(g, x);
    r->out[r->outs++] = x;
    nn_id by = nn_input(g, name, g->tensor[x].rank, nn_dims(g, x));
    // losses are means; this keeps the gradient of one parameter near 1 whatever the output's size
    nn_loss(g, name, nn_mul(g, x, by), sqrtf((float)nn_size(g, x)));
}

static void build_tokens(nn_graph* g, const firm_model* m, rig* r) {
    nn_id image = nn_image(g, "image", m->task.image),
          before = nn_image(g, "before", m->task.image);
    keep(g, r, model_tokens(g, m, image, before));
}

static void build_still_tokens(nn_graph* g, const firm_model* m, rig* r) {
    keep(g, r, model_tokens(g, m, nn_image(g, "image", m->task.image), NN_NONE));
}

static void build_ground(nn_graph* g, const firm_model* m, rig* r) {
    keep(g, r, model_ground(g, m, tokens_in(g, m, "tokens")));
}

static nn_id belief_of_inputs(nn_graph* g, const firm_model* m) {
    nn_id p[MODEL_HISTORY] = {tokens_in(g, m, "part0"), tokens_in(g, m, "part2"),
                              tokens_in(g, m, "part4")};
    nn_id a[MODEL_HISTORY - 1] = {nn_input1(g, "part1", m->task.action_dim),
                                  nn_input1(g, "part3", m->task.action_dim)};
    return model_belief(g, m, p, a);
}

static void build_belief(nn_graph* g, const firm_model* m, rig* r) {
    keep(g, r, belief_of_inputs(g, m));
}

static void build_fiber(nn_graph* g, const firm_model* m, rig* r) {
    int n = m->task.config_dim;
    nn_id c[MODEL_HISTORY] = {nn_input1(g, "c0", n), nn_input1(g, "c1", n), nn_input1(g, "c2", n)};
    keep(g, r, model_fiber(g, m, nn_input1(g, "belief", m->shape.belief), c));
}

// two macro steps, so that the second reads what the first made
static void build_transition(nn_graph* g, const firm_model* m, rig* r) {
    int controls = m->task.controls * m->task.action_dim;
    nn_id c = nn_input1(g, "c", m->task.config_dim), fiber = nn_input1(g, "fiber", m->shape.fiber);
    model_transition(g, m, nn_input1(g, "u0", controls), &c, &fiber);
    model_transition(g, m, nn_input1(g, "u1", controls), &c, &fiber);
    keep(g, r, c);
    if (!m->shape.no_fiber) keep(g, r, fiber);
}

static void build_chi(nn_graph* g, const firm_model* m, rig* r) {
    keep(g, r, model_chi(g, m, nn_input1(g, "fiber", m->shape.fiber)));
}

static void build_picture(nn_graph* g, const firm_model* m, rig* r) {
    nn_id rgb, change;
    model_picture(g, m, tokens_in(g, m, "tokens"), &rgb, &change);
    keep(g, r, rgb);
    keep(g, r, change);
}

static void build_next(nn_graph* g, const firm_model* m, rig* r) {
    nn_id mean, logvar, belief = nn_input1(g, "belief", m->shape.belief);
    model_next_tokens(g, m, tokens_in(g, m, "tokens"), belief,
                      nn_input1(g, "a", m->task.action_dim), &mean, &logvar);
    keep(g, r, mean);
    keep(g, r, logvar);
}

static void build_physical(nn_graph* g, const firm_model* m, rig* r) {
    keep(g, r, model_physical(g, m, tokens_in(g, m, "tokens")));
}

static void build_posture(nn_graph* g, const firm_model* m, rig* r) {
    keep(g, r, model_posture(g, m, tokens_in(g, m, "tokens")));
}

// all of it, from images to chi: gradients through the inputs of every module
static void build_chain(nn_graph* g, const firm_model* m, rig* r) {
    static const char* const name[] = {"image0", "image1", "image2"};
    nn_id image[MODEL_HISTORY], p[MODEL_HISTORY], c[MODEL_HISTORY];
    for (int i = 0; i < MODEL_HISTORY; i++) {
        image[i] = nn_image(g, name[i], m->task.image);
        p[i] = model_tokens(g, m, image[i], i ? image[i - 1] : NN_NONE);
        c[i] = model_ground(g, m, i ? model_tokens(g, m, image[i], NN_NONE) : p[0]);
    }
    nn_id a[] = {nn_input1(g, "a0", m->task.action_dim), nn_input1(g, "a1", m->task.action_dim)};
    nn_id fiber = model_fiber(g, m, model_belief(g, m, p, a), c);
    nn_id u = nn_input1(g, "u", m->task.controls * m->task.action_dim);
    model_transition(g, m, u, &c[2], &fiber);
    keep(g, r, c[2]);
    keep(g, r, model_chi(g, m, fiber));
}

static const struct {
    const char *name, *trains;  // parameters that the module must use
    build_fn build;
} module[] = {
    {"tokenizer", "tokenizer.", build_tokens},
    {"tokenizer of a still image", "tokenizer.", build_still_tokens},
    {"grounder", "grounder.", build_ground},
    {"history", "history.", build_belief},
    {"fiber", "fiber.", build_fiber},
    {"transition", "transition.", build_transition},
    {"chi decoder", "aux.chi.", build_chi},
    {"picture decoder", "aux.picture.", build_picture},
    {"next tokens", "aux.next.", build_next},
    {"physical head", "aux.physical.", build_physical},  // of staged grounders
    {"posture head", "aux.posture.", build_posture},
    {"whole chain", "", build_chain},
};
enum { MODULES = sizeof module / sizeof *module };

// Inputs are functions of their name and the sample's number; one of them can be moved.
typedef struct moved {
    const char* name;  // NULL: none
    float by;
} moved;

static firm_status fill(void* ctx, const nn_feed* feed) {
    const moved* change = ctx;
    for (int id = 0; id < feed->graph->tensors; id++) {
        const nn_tensor* t = &feed->graph->tensor[id];
        for (int s = 0; s < feed->count && (t->kind == NN_INPUT || t->kind == NN_BYTES); s++) {
            uint64_t sub = (rng_hash_text(t->name) >> 17) + (uint64_t)(feed->first + s);
            rng r = rng_start(9, RNG_STREAM(RNG_TEST, sub));
            size_t at = (size_t)s * (size_t)t->size;
            for (int i = 0; i < t->size; i++) {
                if (t->kind == NN_INPUT)
                    nn_feed_real(feed, id)[at + (size_t)i] = rng_gauss(&r);
                else
                    nn_feed_bytes(feed, id)[at + (size_t)i] = (uint8_t)rng_u32(&r);
            }
            if (change && change->name && strcmp(change->name, t->name) == 0)
                nn_feed_real(feed, id)[at] += change->by;
        }
    }
    return FIRM_OK;
}

static int rig_make(rig* r, const firm_model* m, build_fn build, const char* trains,
                    const nn_backend* b, int batch, int train) {
    firm_error err = {0};
    *r = (rig){0};
    firm_status status = nn_graph_create(m->store, &r->graph, &err);
    if (status == FIRM_OK) {
        if (train) nn_train(r->graph, trains);
        build(r->graph, m, r);
        nn_exec_options opt = {.batch = batch, .shard = 1, .lanes = 1, .train = train};
        status = nn_exec_create(r->graph, b, &opt, NULL, &r->exec, &err);
    }
    if (status != FIRM_OK)
        test_fail(__FILE__, __LINE__, "no graph on %s: %s", b->name, err.message);
    return status == FIRM_OK;
}

static void rig_free(rig* r) {
    nn_exec_free(r->exec);
    nn_graph_free(r->graph);
}

// ---- gradients against finite differences
// --------------------------------------------------------

static double loss_at(rig* r, double* value, double to) {
    double kept = *value;
    *value = to;
    EXPECT_INT(nn_exec_forward(r->exec, 1, fill, NULL), FIRM_OK);
    *value = kept;
    return nn_exec_loss(r->exec);
}

// `picks` random elements of every trained parameter; returns how many parameters have a gradient
static int check_gradient(rig* r, const firm_model* m, const char* name, int picks) {
    const double step = 1e-5;
    const nn_trained* list;
    rng pick = rng_start(3, RNG_STREAM(RNG_TEST, 0));
    EXPECT_INT(nn_exec_gradient(r->exec, fill, NULL), FIRM_OK);
    int count = nn_exec_trained(r->exec, &list), alive = 0;
    size_t total = nn_exec_grad_count(r->exec);
    double* grad = malloc((total + 1) * sizeof *grad);
    memcpy(grad, nn_exec_ref_grad(r->exec), total * sizeof *grad);
    for (int i = 0; i < count; i++) {
        const nn_entry* e = &m->store->entry[list[i].entry];
        double* value = nn_exec_ref_params(r->exec) + e->offset;
        const double* got = grad + list[i].offset;
        double size = 0;
        for (size_t j = 0; j < e->count; j++) size += got[j] * got[j];
        size = sqrt(size / (double)e->count);
        alive += size > 0;
        for (int k = 0; k < (test_short() && i % 8 ? 0 : picks); k++) {
            size_t j = rng_below(&pick, (uint32_t)e->count);
            double high = loss_at(r, value + j, value[j] + step);
            double low = loss_at(r, value + j, value[j] - step);
            double want = (high - low) / (2 * step);
            double tol = 1e-5 * fmax(fmax(fabs(want), size), 1e-3) * test_tolerance_scale();
            if (!(fabs(got[j] - want) <= tol))
                test_fail(__FILE__, __LINE__,
                          "%s: d loss / d %s[%zu] is %.10g, expected %.10g +- %.2g", name, e->name,
                          j, got[j], want, tol);
        }
    }
    free(grad);
    return alive;
}

static int entries_under(const firm_model* m, const char* prefix) {
    int n = 0;
    for (int i = 0; i < m->store->entries; i++)
        n += strncmp(m->store->entry[i].name, prefix, strlen(prefix)) == 0;
    return n;
}

static void gradcheck(const firm_model* m, int i) {
    rig r;
    if (rig_make(&r, m, module[i].build, module[i].trains, nn_backend_ref(), 1, 1)) {
        int alive = check_gradient(&r, m, module[i].name, i == MODULES - 1 ? 1 : 3);
        int all = entries_under(m, module[i].trains);
        // only what an equation leaves out may have none: E(o, 0) the change, the chain other heads
        if (module[i].build == build_still_tokens) all -= 1;
        if (module[i].build == build_chain)
            all -= entries_under(m, "aux.picture.") + entries_under(m, "aux.next.") +
                   entries_under(m, "aux.physical.") + entries_under(m, "aux.posture.");
        if (m->shape.no_fiber) all -= 2;
        if (alive != all)
            test_fail(__FILE__, __LINE__, "%s: %d of %d parameters have a gradient", module[i].name,
                      alive, all);
    }
    rig_free(&r);
}

static int has_module(const firm_model* m, int i) {
    return module[i].build != build_physical || m->shape.grounder == MODEL_GROUND_STAGED;
}

static void gradcheck_all(const char* task, model_shape shape) {
    if (!env_find(task)) {
        test_skip("a task is not in this build");
        return;
    }
    firm_model* m = make(env_find(task), &shape);
    for (int i = 0; i < MODULES; i++)
        if (has_module(m, i)) gradcheck(m, i);
    firm_model_free(m);
}

TEST(model, modules_gradient) {
    gradcheck_all("tworoom", small_shape());
}
TEST(model, modules_gradient_votes) {
    gradcheck_all("pusht", small_votes());
}
TEST(model, modules_gradient_keypoints) {
    gradcheck_all("reacher", small_keypoints());
}

// a belief that looks at single cells, and at what single keypoints see
TEST(model, modules_gradient_place) {
    model_shape cells = small_shape(), points = small_keypoints();
    cells.place = points.place = 8;
    firm_model* m = make(env_find("tworoom"), &cells);
    gradcheck(m, 3);
    gradcheck(m, MODULES - 1);
    firm_model_free(m);
    if (!env_find("reacher")) return;
    m = make(env_find("reacher"), &points);
    gradcheck(m, 3);
    firm_model_free(m);
}

// a task with angles: configurations start with (sin, cos) pairs of unit length
TEST(model, modules_gradient_pairs) {
    env_spec spec = *env_find("tworoom");
    static const char* const names[] = {"a_sin", "a_cos", "b_sin", "b_cos", "x"};
    spec.task.config_dim = 5;
    spec.task.pairs = 2;
    for (int i = 0; i < 5; i++) snprintf(spec.task.config_name[i], TASK_NAME, "%s", names[i]);
    model_shape shape = small_shape();
    firm_model* m = make(&spec, &shape);
    gradcheck(m, 2);
    gradcheck(m, 5);
    rig r;
    if (rig_make(&r, m, build_ground, "", nn_backend_cpu(), 2, 0)) {
        EXPECT_INT(nn_exec_forward(r.exec, 2, fill, NULL), FIRM_OK);
        const float* c = nn_exec_output(r.exec, r.out[0]);
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < 2; k++)
                EXPECT_NEAR(hypot(c[5 * s + 2 * k], c[5 * s + 2 * k + 1]), 1, 1e-6);
    }
    rig_free(&r);
    firm_model_free(m);
}

TEST(model, modules_gradient_no_fiber) {
    model_shape shape = small_shape();
    shape.no_fiber = 1;
    firm_model* m = make(env_find("tworoom"), &shape);
    gradcheck(m, 5);
    firm_model_free(m);
}

// ---- cpu against ref at the real size
// ------------------------------------------------------------

// |a - b| over |b|
static double difference(const float* a, const float* b, size_t n) {
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        s += (double)b[i] * b[i];
    }
    return s > 0 ? sqrt(d / s) : d > 0 ? INFINITY : 0;
}

// The short form runs the CPU's kernels alone: those of `ref` go through the narrow models above.
static void run_alone(const firm_model* m, int i) {
    rig cpu = {0};
    const nn_trained* list;
    if (rig_make(&cpu, m, module[i].build, module[i].trains, nn_backend_cpu(), 2, 1)) {
        EXPECT_INT(nn_exec_gradient(cpu.exec, fill, NULL), FIRM_OK);
        double sum = 0;
        int count = nn_exec_trained(cpu.exec, &list);
        for (int k = 0; k < count; k++)
            for (size_t j = 0; j < list[k].count; j++)
                sum += fabs((double)nn_exec_grad(cpu.exec)[list[k].offset + j]);
        EXPECT(count > 0 && sum > 0 && isfinite(sum));
    }
    rig_free(&cpu);
}

static void compare(const firm_model* m, int i) {
    rig ref = {0}, cpu = {0};
    const nn_trained* list;
    double limit = 1e-4 * test_tolerance_scale();
    if (rig_make(&ref, m, module[i].build, module[i].trains, nn_backend_ref(), 2, 1) &&
        rig_make(&cpu, m, module[i].build, module[i].trains, nn_backend_cpu(), 2, 1)) {
        EXPECT_INT(nn_exec_gradient(ref.exec, fill, NULL), FIRM_OK);
        EXPECT_INT(nn_exec_gradient(cpu.exec, fill, NULL), FIRM_OK);
        for (int k = 0; k < ref.outs; k++) {
            double d = difference(nn_exec_output(cpu.exec, cpu.out[k]),
                                  nn_exec_output(ref.exec, ref.out[k]),
                                  2 * (size_t)nn_size(ref.graph, ref.out[k]));
            if (!(d <= limit))
                test_fail(__FILE__, __LINE__, "%s: output %d differs by %.2g", module[i].name, k,
                          d);
        }
        int count = nn_exec_trained(ref.exec, &list);
        for (int k = 0; k < count; k++) {
            double d = difference(nn_exec_grad(cpu.exec) + list[k].offset,
                                  nn_exec_grad(ref.exec) + list[k].offset, list[k].count);
            if (!(d <= limit))
                test_fail(__FILE__, __LINE__, "%s: the gradient of %s differs by %.2g",
                          module[i].name, m->store->entry[list[k].entry].name, d);
        }
    }
    rig_free(&ref);
    rig_free(&cpu);
}

TEST(model, modules_cpu_as_ref) {
    for (int t = 0; env_at(t); t++) {
        model_shape shape = real_shape(env_at(t));
        firm_model* m = make(env_at(t), &shape);
        for (int i = 0; i < MODULES - 1; i++)
            if (has_module(m, i)) (test_short() ? run_alone : compare)(m, i);
        firm_model_free(m);
    }
}

// ---- what the equations promise
// ------------------------------------------------------------------

// The belief is made of five parts in time order (frame, action, frame, action, frame). With all
// but one part cut off it must follow the inputs up to that part and no later one.
TEST(model, modules_history_is_causal) {
    model_shape shape = small_shape();
    firm_model* m = make(env_find("tworoom"), &shape);
    const nn_entry* e = &m->store->entry[nn_store_find(m->store, "history.belief.weight")];
    size_t n = e->count, each = n / 5;
    float *weight = m->store->value + e->offset, *kept = malloc(n * sizeof *kept), before[64],
          after[64];
    memcpy(kept, weight, n * sizeof *kept);
    EXPECT(e->dim[0] == 5 * shape.history_width && shape.belief <= 64);
    rig r;
    if (rig_make(&r, m, build_belief, "", nn_backend_cpu(), 1, 0)) {
        for (size_t part = 0; part < 5; part++) {
            memset(weight, 0, n * sizeof *weight);
            memcpy(weight + part * each, kept + part * each, each * sizeof *weight);
            nn_exec_pull_params(r.exec);
            EXPECT_INT(nn_exec_forward(r.exec, 1, fill, NULL), FIRM_OK);
            memcpy(before, nn_exec_output(r.exec, r.out[0]), (size_t)shape.belief * sizeof(float));
            for (size_t input = 0; input < 5; input++) {
                char name[16];
                snprintf(name, sizeof name, "part%zu", input);
                EXPECT_INT(nn_exec_forward(r.exec, 1, fill, &(moved){name, 1.0f}), FIRM_OK);
                memcpy(after, nn_exec_output(r.exec, r.out[0]),
                       (size_t)shape.belief * sizeof(float));
                int follows = memcmp(before, after, (size_t)shape.belief * sizeof(float)) != 0;
                if (follows != (input <= part))
                    test_fail(__FILE__, __LINE__, "part %zu of the history %s input %zu", part,
                              follows ? "follows" : "ignores", input);
            }
        }
    }
    rig_free(&r);
    free(kept);
    firm_model_free(m);
}

static const float* values_of(const firm_model* m, const char* name) {
    int at = nn_store_find(m->store, name);
    if (at < 0) abort();
    return m->store->value + m->store->entry[at].offset;
}

// GELU(W LayerNorm(x) + b), in double
static void place_by_hand(const firm_model* m, const float* x, int n, double* out) {
    const float *gamma = values_of(m, "history.place.norm.gamma"),
                *beta = values_of(m, "history.place.norm.beta"),
                *weight = values_of(m, "history.place.weight"),
                *bias = values_of(m, "history.place.bias");
    const int units = m->shape.place;
    double mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int k = 0; k < units; k++) {
        double sum = bias[k];
        for (int i = 0; i < n; i++)
            sum += weight[i * units + k] *
                   ((x[i] - mean) / sqrt(square + 1e-5) * (double)gamma[i] + (double)beta[i]);
        out[k] = 0.5 * sum * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
    }
}

// With all of the belief's weights at 0 but those of the place, it is what the equation says of the
// latest frame's tokens.
TEST(model, modules_place_by_hand) {
    enum { UNITS = 8, SIDE = 7 };
    model_shape shape = small_shape();
    shape.place = UNITS;
    firm_model* m = make(env_find("tworoom"), &shape);
    const int n = SIDE * SIDE * shape.channels[3], before = 5 * shape.history_width;
    const nn_entry* e = &m->store->entry[nn_store_find(m->store, "history.belief.weight")];
    EXPECT(e->dim[0] == before + UNITS && e->dim[1] == shape.belief);
    memset(m->store->value + e->offset, 0, (size_t)(before * shape.belief) * sizeof(float));
    const float *weight = values_of(m, "history.belief.weight") + before * shape.belief,
                *bias = values_of(m, "history.belief.bias");
    float tokens[SIDE * SIDE * 8];
    double seen[UNITS];
    rng g = rng_start(9, RNG_STREAM(RNG_TEST, rng_hash_text("part4") >> 17));  // as in fill()
    for (int i = 0; i < n; i++) tokens[i] = rng_gauss(&g);
    place_by_hand(m, tokens, n, seen);
    rig r;
    if (rig_make(&r, m, build_belief, "", nn_backend_cpu(), 1, 0)) {
        EXPECT_INT(nn_exec_forward(r.exec, 1, fill, NULL), FIRM_OK);
        for (int k = 0; k < shape.belief; k++) {
            double want = bias[k];
            for (int i = 0; i < UNITS; i++) want += seen[i] * weight[i * shape.belief + k];
            EXPECT_NEAR(nn_exec_output(r.exec, r.out[0])[k], want, 1e-4);
        }
    }
    rig_free(&r);
    firm_model_free(m);
}

static void build_tokens_twice(nn_graph* g, const firm_model* m, rig* r) {
    nn_id image = nn_image(g, "image", m->task.image), same = nn_image(g, "image", m->task.image);
    nn_id other = nn_image(g, "before", m->task.image);
    nn_id still = model_tokens(g, m, image, NN_NONE);
    keep(g, r, nn_sub(g, model_tokens(g, m, image, same), still));
    keep(g, r, nn_sub(g, model_tokens(g, m, image, other), still));
}

// leaving the change out is the same as no change, and not the same as some change
TEST(model, modules_still_image) {
    model_shape shape = small_shape();
    firm_model* m = make(env_find("tworoom"), &shape);
    rig r;
    if (rig_make(&r, m, build_tokens_twice, "", nn_backend_cpu(), 1, 0)) {
        EXPECT_INT(nn_exec_forward(r.exec, 1, fill, NULL), FIRM_OK);
        double still = 0, change = 0;
        for (int i = 0; i < nn_size(r.graph, r.out[0]); i++) {
            still = test_worse(still, fabs(nn_exec_output(r.exec, r.out[0])[i]));
            change = test_worse(change, fabs(nn_exec_output(r.exec, r.out[1])[i]));
        }
        EXPECT_NEAR(still, 0, 1e-5);
        EXPECT(change > 0.1 && isfinite(change));
    }
    rig_free(&r);
    firm_model_free(m);
}

TEST(model, modules_action_units) {
    model_shape shape = small_shape();
    firm_model* m = make(env_find("tworoom"), &shape);
    float raw[6] = {0.5f, -1, 0, 1, 0.25f, 2}, standard[6];
    m->stats.action_mean[0] = 0.5f, m->stats.action_std[0] = 2;
    m->stats.action_mean[1] = -1, m->stats.action_std[1] = 0.5f;
    model_standardise(m, raw, 3, standard);
    EXPECT(standard[0] == 0 && standard[1] == 0 && standard[2] == -0.25f && standard[3] == 4);
    EXPECT(standard[4] == -0.125f && standard[5] == 6);
    firm_model_free(m);
}
