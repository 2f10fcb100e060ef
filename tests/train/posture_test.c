// posture_test.c - the term `posture` of pixel stages: its target is chi of the moment whose frame
// is seen, its loss a mean square, and a stage that has it trains its head. (Pairs and their chi:
// data/records_test.c; the head's gradients: model/modules_test.c.)
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "small.h"
#include "train/frontend.h"

static int open_tworoom(small* s, const char* more) {
    small_options few = {.task = "tworoom",
                         .settings = "smoke",
                         .set = {"train.frame_pool=24", "stage.grounder.sources=FI",
                                 "stage.grounder.lag=7", "stage.grounder.posture=0.5",
                                 "stage.grounder.config=0", "stage.grounder.difference=0", more},
                         .episodes = 30,
                         .anchors = 6,
                         .per_anchor = 2};
    return small_collect(s, &few) && small_open(s, &(train_options){.seed = 5}, 1) &&
           small_model(s, 5);
}

typedef struct shown {  // what pair_fill() gave the graph
    frontend_batch b;
    float chi[64 * TASK_MAX_CHI];
} shown;

static firm_status fill_and_keep(void* ctx, const nn_feed* feed) {
    shown* f = ctx;
    TRY(pair_fill(&f->b, feed));
    memcpy(f->chi + feed->first * f->b.set->env->task.chi_dim, nn_feed_real(feed, f->b.graph->chi),
           (size_t)(feed->count * f->b.set->env->task.chi_dim) * sizeof(float));
    return FIRM_OK;
}

static float* values_of(firm_model* m, const char* name) {
    int at = nn_store_find(m->store, name);
    if (at < 0) abort();
    return m->store->value + m->store->entry[at].offset;
}

// The moment `controls` before a scene: of the recording, or of a branch and the recording that it
// left.
static const double* earlier(const small* s, int64_t scene, int controls) {
    const scenes* from = &s->set.data.from;
    const int states = task_span(&s->env->task) + 1;
    int64_t row = scene, left = controls;
    if (scene >= from->e->rows) {
        int64_t branch = (scene - from->e->rows) / states, c = (scene - from->e->rows) % states;
        if (controls < c) return scene_state(from, scene - controls);
        left = controls - c;
        row = from->b[0]->row[branch / from->b[0]->per_anchor];
    }
    int64_t start = from->e->offset[episodes_of_row(from->e, row)];
    return scene_state(from, row - left > start ? row - left : start);
}

// Targets are env_chi() of the frame's moment in deviations, cut at eight. With an output layer
// that says b whatever it sees, the term is the mean of (b - target)^2, and the loss half of it.
static void check_source(small* s, const stage* what, int source) {
    enum { ROWS = 20 };
    static shown f;
    const int dim = s->env->task.chi_dim;
    const model_stats* stats = &s->model->stats;
    frontend_graph g;
    nn_exec* e;
    firm_error err;
    const pairs* from = train_pairs(&s->set, source, what->lag);
    REQUIRE_OK(pixel_graph(s->model, what, 0, &g, &err), err);
    EXPECT_INT(g.g->terms, 1);
    EXPECT_TEXT(g.g->term[0].name, "posture");
    f.b = (frontend_batch){.set = &s->set,
                           .model = s->model,
                           .graph = &g,
                           .from = from,
                           .rows = from->count,
                           .pick = -1};
    memset(values_of(s->model, "aux.posture.out.weight"), 0, (size_t)(256 * dim) * sizeof(float));
    for (int k = 0; k < dim; k++) values_of(s->model, "aux.posture.out.bias")[k] = 0.3f * (float)k;
    nn_exec_options opt = {.batch = ROWS, .shard = 4, .lanes = 1};
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_cpu(), &opt, NULL, &e, &err), err);
    EXPECT_INT(nn_exec_forward(e, ROWS, fill_and_keep, &f), FIRM_OK);
    double sum = 0, moved = 0;
    EXPECT(from->count >= ROWS);
    for (int i = 0; i < ROWS; i++) {
        float chi[TASK_MAX_CHI];
        int64_t scene = from->scene[2 * i];
        env_chi(s->env, earlier(s, scene, 0), earlier(s, scene, 1),
                earlier(s, scene, s->env->task.controls), chi);
        for (int k = 0; k < dim; k++) {
            double want = ((double)chi[k] - stats->chi_mean[k]) / stats->chi_std[k];
            want = want > 8 ? 8 : want < -8 ? -8 : want;
            EXPECT_NEAR(f.chi[i * dim + k], want, 1e-4);
            sum += (0.3 * k - want) * (0.3 * k - want);
            moved += fabs(want);
        }
    }
    EXPECT(moved > 1);
    EXPECT_NEAR(nn_exec_term(e, 0), sum / (ROWS * dim), 1e-4 * sum / (ROWS * dim));
    EXPECT_NEAR(nn_exec_loss(e), 0.5 * sum / (ROWS * dim), 1e-4 * sum / (ROWS * dim));
    nn_exec_free(e);
    nn_graph_free(g.g);
}

TEST(train, posture_reads_chi_of_the_frame_that_is_seen) {
    small s;
    stage what;
    if (!open_tworoom(&s, NULL)) return;
    EXPECT(stage_read(s.settings, 1, NULL, &what));
    check_source(&s, &what, PACK_F);
    check_source(&s, &what, PACK_I);
    // where a tenth of the deviation counts as one, targets are cut
    for (int k = 0; k < s.env->task.chi_dim; k++) s.model->stats.chi_std[k] *= 0.1f;
    check_source(&s, &what, PACK_F);
    small_close(&s);
}

// Without the term a model has no such head; with it, a stage's own list of modules decides.
TEST(train, stages_with_posture_train_its_head) {
    small s;
    stage what;
    firm_error err = {0};
    small_options o = {.task = "tworoom", .settings = "smoke", .episodes = 30, .anchors = 4};
    o.per_anchor = 2;
    if (!small_collect(&s, &o) || !small_open(&s, &(train_options){.seed = 5}, 1) ||
        !small_model(&s, 5))
        return;
    EXPECT_INT(stages_auxiliary(s.settings), MODEL_AUXILIARY);
    EXPECT_INT(nn_store_params(s.model->store, "aux.posture."), 0);
    for (int i = 0; stage_read(s.settings, i, NULL, &what); i++)
        EXPECT(what.terms.posture == 0 && !stage_trains(&what, "aux.posture."));
    const struct {
        const char *set, *more;
        int index, trains;
        const char* says;  // of stage_check(); NULL: it passes
    } row[] = {
        {"stage.tokenizer.posture=0.25", NULL, 0, 1, NULL},
        {"stage.grounder.posture=0.25", NULL, 1, 1, NULL},
        {"stage.grounder.posture=0.25", "stage.grounder.modules=tokenizer aux.posture", 1, 1, NULL},
        {"stage.grounder.posture=0.25", "stage.grounder.modules=tokenizer", 1, 0, NULL},
        {"stage.grounder.modules=grounder aux.posture", NULL, 1, 1,
         "stage.grounder trains 'aux.posture', but the model has no such part"},
        {"stage.history.posture=0.25", NULL, 2, 0, "stage.history.posture is for stages that see"},
        {"stage.rollout-f.posture=0.25", NULL, 3, 0, "leave it out of the objective rollout"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        o.set[0] = row[i].set;
        o.set[1] = row[i].more;
        firm_model_free(s.model);
        s.model = NULL;
        if (!small_settings(&s, &o) || !small_model(&s, 5)) return;
        EXPECT(stage_read(s.settings, row[i].index, NULL, &what));
        EXPECT_INT(stage_trains(&what, "aux.posture."), row[i].trains);
        firm_status st = stage_check(&what, s.settings, &s.set, s.model, &err);
        EXPECT_INT(st, row[i].says ? FIRM_E_VALUE : FIRM_OK);
        EXPECT(!row[i].says || strstr(err.message, row[i].says));
        EXPECT_INT(nn_store_find(s.model->store, "aux.posture.out.weight") >= 0,
                   what.terms.posture > 0 && row[i].says == NULL);
    }
    EXPECT_INT(config_set(s.settings, "stage.grounder.posture=-1", &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "posture"));
    small_close(&s);
}

// A whole run: the term has its columns in metrics.csv, and the model for use no such head.
TEST(train, posture_runs_with_its_stage) {
    small s;
    char folder[600], path[700], *text;
    size_t n;
    firm_error err;
    firm_model* m;
    if (!open_tworoom(&s, "stage.grounder.updates=2")) return;
    train_inputs in = small_inputs(&s);
    snprintf(folder, sizeof folder, "%s/posture", test_temp_dir());
    train_options opt = {.seed = 5, .folder = folder, .threads = 2};
    REQUIRE_OK(train_run(s.settings, s.env, &in, &opt, NULL, &err), err);
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    REQUIRE_OK(file_read_all(path, &text, &n, &err), err);
    double value[2] = {-1, -1};
    const char* const name[2] = {"posture", "i_posture"};
    const char* line = strstr(text, "\ngrounder,1,");
    EXPECT(line != NULL);
    for (int i = 0; i < 2 && line; i++) {
        const char *head = text, *field = line + 1;
        size_t length = strlen(name[i]);
        while (*head && (strncmp(head, name[i], length) != 0 || head[length] != ',')) {
            head += strcspn(head, ",");
            head += *head == ',';
            field += strcspn(field, ",\n");
            field += *field == ',';
        }
        if (*head && *field != ',') value[i] = strtod(field, NULL);
    }
    // standardised targets and a head that starts at almost 0
    EXPECT(value[0] > 0.1 && value[0] < 10 && value[1] > 0.1 && value[1] < 30);
    mem_free(text);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    REQUIRE_OK(firm_model_load(path, &m, &err), err);
    EXPECT_INT(nn_store_find(m->store, "aux.posture.out.weight"), -1);
    firm_model_free(m);
    small_close(&s);
}
