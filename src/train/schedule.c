// schedule.c - the settings of a run: stages, loss weights, batches. Every number of the paper's
// training tables is a line in configs/TASK.ini; this file only declares the keys.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/internal.h"

const config_key train_keys[] = {
    {"data", "split_seed", CONFIG_INT, 0, 1e9, "0", NULL, "seed of the train/validation split"},
    {"data", "frame_cache_mib", CONFIG_INT, 0, 65536, "512", NULL,
     "memory for drawn frames, packed; 0: draw every time"},
    {"intervene", "mixed_anchors", CONFIG_INT, 0, 1e7, "0", NULL,
     "anchors of firm intervene --mixed where --anchors is not given; 0: the task's own number"},
    {"intervene", "mixed_branches", CONFIG_INT, 0, 1e5, "0", NULL,
     "branches of each of them; 0: the task's own number"},
    {"intervene", "planned_anchors", CONFIG_INT, 0, 1e7, "0", NULL,
     "anchors of firm intervene --planned; 0: the task's own number"},
    {"intervene", "planned_branches", CONFIG_INT, 0, 1e5, "0", NULL,
     "branches of each of them; 0: the task's own number"},
    {"intervene", "planned_candidates", CONFIG_INT, 0, 65535, "0", NULL,
     "candidates of a search of firm intervene --planned; 0: the contract's"},
    {"intervene", "attempts", CONFIG_INT, 0, 1e6, "0", NULL,
     "firm reproduce: training moments that each seed's first model attempts; 0: none"},
    {"intervene", "attempts_from", CONFIG_TEXT, 0, 0, "rollout", NULL,
     "first stage to train anew after the attempts"},
    {"ensemble", "members", CONFIG_INT, 0, MODEL_MEMBERS, "0", NULL,
     "firm reproduce: further transitions on each seed's frontend, to plan with as one; 0: none"},
    {"ensemble", "from", CONFIG_TEXT, 0, 0, "rollout", NULL,
     "first stage that these learn for themselves; after attempts it is attempts_from"},
    {"intervene", "searched", CONFIG_INT, 0, 1e6, "0", NULL,
     "firm reproduce: training moments for searches through the true simulator; 0: none"},
    {"intervene", "searched_candidates", CONFIG_INT, 8, 65535, "96", NULL,
     "candidates of a search of firm intervene --searched"},
    {"intervene", "searched_iterations", CONFIG_INT, 1, 1000, "5", NULL,
     "iterations of such a search"},
    {"intervene", "searched_kept", CONFIG_INT, 2, 65535, "16", NULL,
     "candidates of each iteration that training learns from"},
    {"intervene", "imagined_anchors", CONFIG_INT, 1, 1e6, "2048", NULL,
     "searches of firm intervene --imagined"},
    {"intervene", "imagined_candidates", CONFIG_INT, 0, 65535, "0", NULL,
     "candidates of each of them; 0: the contract's"},
    {"intervene", "imagined_iterations", CONFIG_INT, 0, 1000, "0", NULL,
     "iterations of each of them; 0: the contract's"},
    {"intervene", "imagined_kept", CONFIG_INT, 2, 65535, "8", NULL,
     "candidates of each iteration that training learns from"},
    {"train", "segments", CONFIG_INT, 1, 1e6, "16384", NULL, "factual rollout segments"},
    {"train", "held_out", CONFIG_INT, 1, 1e5, "1024", NULL, "validation segments behind the gates"},
    {"train", "frame_pool", CONFIG_INT, 0, 1e6, "0", NULL,
     "distinct pairs of frames the pixel stages see of each source; 0: all there are"},
    {"train", "frame_pool_i", CONFIG_INT, 0, 1e6, "0", NULL,
     "the same for interventions; 0: as frame_pool"},
    {"train", "structured", CONFIG_TEXT, 0, 0, "required", "required|optional",
     "whether stages with source S may do without a --structured file"},
    {"train", "lanes", CONFIG_INT, 1, 64, "32", NULL,
     "upper limit on useful threads; changing it changes the rounding of training"},
    {"train", "frontend_shard", CONFIG_INT, 1, 256, "2", NULL,
     "samples that a thread takes at once in pixel stages"},
    {"train", "history_shard", CONFIG_INT, 1, 256, "8", NULL, "the same in the history stage"},
    {"train", "rollout_shard", CONFIG_INT, 1, 1024, "32", NULL, "the same in recurrent stages"},
    {"train", "precision", CONFIG_TEXT, 0, 0, "tf32", "tf32|fp32",
     "--device cuda: how matrix products round their operands; sums are float32 in both"},
    {"train", "checkpoint_every", CONFIG_INT, 1, 1e6, "250", NULL, "updates between checkpoints"},
    {"train", "log_every", CONFIG_INT, 1, 1e6, "25", NULL, "updates between rows of metrics.csv"},
    {"train", "frames", CONFIG_INT, 0, 65536, "2048", NULL,
     "training frames whose statistics the model keeps, to notice strange frames; 0: none"},
    {"train", "recorded", CONFIG_INT, 0, 65536, "0", NULL,
     "recorded segments stored with the model, for plan.reach_recorded; 0: none"},
    {"train", "moments", CONFIG_INT, 0, 65536, "0", NULL,
     "with --recordings: moments of whole episodes stored with the model instead, for "
     "plan.reach_ahead; 0: none"},
    {"train", "support", CONFIG_INT, 0, 65536, "2048", NULL,
     "training configurations stored with the model, for the planner's reach mode; 0: none"},
    {"loss.*", "config", CONFIG_REAL, 0, 1e3, "2", NULL, "weight of future configurations"},
    {"loss.*", "displacement", CONFIG_REAL, 0, 1e3, "2", NULL, "weight of configuration changes"},
    {"loss.*", "tail", CONFIG_REAL, 0, 1e3, "0.5", NULL, "weight of the TopMean(0.25) tail"},
    {"loss.*", "chi", CONFIG_REAL, 0, 1e3, "0.5", NULL, "weight of the fiber's dynamics targets"},
    {"loss.*", "chi0", CONFIG_REAL, 0, 1e3, "0.5", NULL, "weight of the initial fiber's target"},
    {"loss.*", "displacement_kind", CONFIG_TEXT, 0, 0, "emb", "emb|rel",
     "changes as differences of coordinates, or with angles composed"},
    {"loss.*", "displacement_from", CONFIG_TEXT, 0, 0, "previous", "previous|start",
     "changes since the step before, or since the start"},
    {"loss.*", "tail_kind", CONFIG_TEXT, 0, 0, "terminal", "terminal|chord|chord-squared",
     "errors of the tail: at the horizon, or the worst joint's at every step"},
    {"stage.*", "objective", CONFIG_TEXT, 0, 0, "rollout",
     "picture|ground|geometry|physical|dynamics|rollout|read", "what the stage learns"},
    {"stage.*", "modules", CONFIG_TEXT, 0, 0, "auto", NULL,
     "what is trained, with factors of the rate: 'grounder tokenizer:0.1'; auto: by objective"},
    {"stage.*", "sources", CONFIG_TEXT, 0, 0, "F", "F|I|S|D|FI|FS|FD|IS|ID|SD|FIS|FID|FSD|ISD|FISD",
     "factual rows, interventions, a second set of them (structured or planned), imagined ones"},
    {"stage.*", "balance", CONFIG_TEXT, 0, 0, "none", "none|F|I|S|FI|FS|IS|FIS",
     "sources whose rare moments (lifted, pushed) are shown as often as the others"},
    {"stage.*", "updates", CONFIG_INT, 1, 1e7, "1000", NULL, "optimiser updates"},
    {"stage.*", "rate", CONFIG_REAL, 0, 1, "3e-4", NULL, "learning rate"},
    {"stage.*", "schedule", CONFIG_TEXT, 0, 0, "cosine", "constant|cosine",
     "shape of the learning rate"},
    {"stage.*", "floor", CONFIG_REAL, 0, 1, "0", NULL, "cosine ends at floor x rate"},
    {"stage.*", "warmup", CONFIG_INT, 0, 1e6, "0", NULL, "updates of linear warm-up"},
    {"stage.*", "batch", CONFIG_INT, 1, 65536, "256", NULL,
     "samples per update, of the factual source"},
    {"stage.*", "batch_i", CONFIG_INT, 0, 65536, "0", NULL,
     "samples of the intervention source; 0: as batch"},
    {"stage.*", "batch_s", CONFIG_INT, 0, 65536, "0", NULL,
     "samples of the structured source; 0: as batch"},
    {"stage.*", "batch_d", CONFIG_INT, 0, 65536, "0", NULL,
     "samples of the imagined source; 0: as batch"},
    {"stage.*", "weight_f", CONFIG_REAL, 0.001, 1e3, "1", NULL, "weight of the factual source"},
    {"stage.*", "weight_i", CONFIG_REAL, 0.001, 1e3, "1", NULL,
     "weight of the intervention source"},
    {"stage.*", "weight_s", CONFIG_REAL, 0.001, 1e3, "1", NULL, "weight of the structured source"},
    {"stage.*", "weight_d", CONFIG_REAL, 0.001, 1e3, "1", NULL, "weight of the imagined source"},
    {"stage.*", "doubt", CONFIG_REAL, 0, 1e6, "0", NULL,
     "rollout: members' spread, in tolerances, at which an imagined target counts half; 0: all "
     "count alike"},
    {"stage.*", "records", CONFIG_INT, 0, 1e6, "0", NULL,
     "dynamics, rollout: largest number of a source's records, to save memory; 0: all"},
    {"stage.*", "loss", CONFIG_TEXT, 0, 0, "own", NULL,
     "rollout: [loss.NAME] for all sources; own: [loss.F], [loss.I], [loss.SR] and [loss.D], each "
     "for its own"},
    {"stage.*", "spatial", CONFIG_BOOL, 0, 1, "true", NULL,
     "rollout: the transition's spatial residual sees its extra inputs"},
    {"stage.*", "average", CONFIG_REAL, 0, 1, "0", NULL,
     "share of the last updates whose weights are averaged; 0: none, the last weights stay"},
    {"stage.*", "average_every", CONFIG_INT, 1, 1e6, "10", NULL,
     "updates between two weights that are averaged"},
    {"stage.*", "noise", CONFIG_REAL, 0, 1, "0", NULL,
     "rollout: deviation of noise on a history's configurations, in their own units; 0: none"},
    {"stage.*", "bootstrap", CONFIG_BOOL, 0, 1, "false", NULL,
     "rollout, read: learn from a sample of the histories, drawn with replacement by the seed"},
    {"stage.*", "decay", CONFIG_REAL, 0, 1, "1e-4", NULL, "decoupled weight decay"},
    {"stage.*", "beta2", CONFIG_REAL, 0.5, 0.99999, "0.999", NULL, "AdamW's second-moment memory"},
    {"stage.*", "clip", CONFIG_REAL, 0, 1e3, "1", NULL, "gradient norm limit, 0: none"},
    {"stage.*", "refine", CONFIG_REAL, 0, 10, "0", NULL,
     "ground: the tokenizer learns too, at this factor of the rate (modules = auto)"},
    {"stage.*", "picture", CONFIG_REAL, -1, 1e3, "-1", NULL,
     "pixel stages: weight of reconstruction and change; -1 here and below: by objective"},
    {"stage.*", "config", CONFIG_REAL, -1, 1e3, "-1", NULL, "weight of configurations"},
    {"stage.*", "difference", CONFIG_REAL, -1, 1e3, "-1", NULL, "weight of their differences"},
    {"stage.*", "tail", CONFIG_REAL, -1, 1e3, "-1", NULL, "weight of the worst quarter of errors"},
    {"stage.*", "anchor", CONFIG_REAL, -1, 1e3, "-1", NULL,
     "weight of tokens staying as they were when the stage began"},
    {"stage.*", "equivariance", CONFIG_REAL, -1, 1e3, "-1", NULL,
     "weight of keypoints turning and shifting with the picture"},
    {"stage.*", "physical", CONFIG_REAL, -1, 1e3, "-1", NULL,
     "weight of reading the links' ends from the grounder's trunk"},
    {"stage.*", "posture", CONFIG_REAL, 0, 1e3, "0", NULL,
     "pixel stages: weight of reading chi of the moment from its frame's tokens; 0: none"},
    {"stage.*", "lag", CONFIG_INT, 1, 1000, "1", NULL,
     "picture, ground: rows between the two frames of a pair, at most"},
    {"stage.*", "gate", CONFIG_REAL, 0, 1e6, "0", NULL,
     "largest held-out figure that passes (tolerance units for ground and rollout), 0: none"},
};
const int train_key_count = sizeof train_keys / sizeof *train_keys;

firm_status train_device_open(const config* settings, const char* name, nn_device* out,
                              firm_error* err) {
    int tf32 = strcmp(config_text(settings, "train", "precision"), "tf32") == 0;
    return nn_device_open(name ? name : "cpu", tf32 ? NN_TF32 : NN_FP32, out, err);
}

static int source_of(const char* text) {
    return (strchr(text, 'F') ? SOURCE_F : 0) | (strchr(text, 'I') ? SOURCE_I : 0) |
           (strchr(text, 'S') ? SOURCE_S : 0) | (strchr(text, 'D') ? SOURCE_D : 0);
}

static int is(const stage* s, const char* objective) {
    return strcmp(s->objective, objective) == 0;
}

// ---- modules ------------------------------------------------------------------------------------

static void add_module(stage* s, const char* name, size_t length, float factor) {
    if (s->modules == MOST_MODULES || length + 2 > sizeof s->module->prefix) return;
    snprintf(s->module[s->modules].prefix, sizeof s->module->prefix, "%.*s.", (int)length, name);
    s->module[s->modules++].factor = factor;
}

// "grounder tokenizer:0.1"; what cannot be read leaves the stage without modules
static void read_modules(const char* text, stage* s) {
    for (const char* at = text; *at;) {
        at += strspn(at, " ,");
        size_t n = strcspn(at, " ,"), name = strcspn(at, ":, ");
        if (n == 0) break;
        char* end = (char*)at + n;
        float factor = name < n ? strtof(at + name + 1, &end) : 1.0f;
        if (end != at + n || !(factor > 0)) {
            s->modules = 0;
            return;
        }
        add_module(s, at, name, factor);
        at += n;
    }
}

static void default_modules(stage* s, float refine) {
    static const struct {
        const char *objective, *modules;
    } list[] = {{"picture", "tokenizer aux.picture"},
                {"ground", "grounder"},
                {"geometry", "tokenizer aux.picture grounder.trunk aux.physical"},
                {"physical", "grounder.trunk aux.physical"},
                {"dynamics", "history aux.next"},
                {"rollout", "fiber transition aux.chi"},
                {"read", "reading"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (is(s, list[i].objective)) read_modules(list[i].modules, s);
    if (is(s, "ground") && refine > 0) add_module(s, "tokenizer", 9, refine);
    if (stage_sees_frames(s) && s->terms.posture > 0) add_module(s, "aux.posture", 11, 1);
}

void stage_train(const stage* s, nn_graph* g) {
    for (int i = 0; s && i < s->modules; i++) nn_train(g, s->module[i].prefix);
}

int stage_trains(const stage* s, const char* prefix) {
    for (int i = 0; i < s->modules; i++)
        if (strncmp(s->module[i].prefix, prefix, strlen(prefix)) == 0) return 1;
    return 0;
}

float stage_factor(const stage* s, const char* parameter) {
    float factor = 1.0f;
    size_t longest = 0;
    for (int i = 0; i < s->modules; i++) {
        size_t n = strlen(s->module[i].prefix);
        if (n <= longest || strncmp(parameter, s->module[i].prefix, n) != 0) continue;
        longest = n;
        factor = s->module[i].factor;
    }
    return factor;
}

// ---- stages -------------------------------------------------------------------------------------

int stage_recurrent(const stage* s) {
    return is(s, "rollout") || is(s, "read");
}

int stage_sees_frames(const stage* s) {
    return !is(s, "dynamics") && !stage_recurrent(s);
}

double stage_cost(const stage* s, int from) {
    double samples = 0;
    for (int i = 0; i < SOURCES; i++) samples += s->sources >> i & 1 ? s->batch[i] : 0;
    return samples * (s->updates - from) * (stage_recurrent(s) ? 0.15 : 2);
}

static void read_terms(const config* c, const char* section, stage* s) {
    const pixel_terms defaults = {
        .picture = is(s, "picture") || is(s, "geometry"),
        .config = is(s, "ground"),
        .difference = is(s, "ground"),
        .equivariance = is(s, "geometry"),
        .physical = is(s, "geometry") || is(s, "physical"),
    };
    s->terms = defaults;
    const struct {
        const char* key;
        float* weight;
    } term[] = {{"picture", &s->terms.picture},       {"config", &s->terms.config},
                {"difference", &s->terms.difference}, {"tail", &s->terms.tail},
                {"anchor", &s->terms.anchor},         {"equivariance", &s->terms.equivariance},
                {"physical", &s->terms.physical},     {"posture", &s->terms.posture}};
    for (size_t i = 0; i < sizeof term / sizeof *term; i++) {
        double w = config_real(c, section, term[i].key);
        if (w >= 0) *term[i].weight = (float)w;
    }
}

static void read_batches(const config* c, const char* section, stage* s) {
    static const char* const batch[SOURCES] = {"batch", "batch_i", "batch_s", "batch_d"};
    static const char* const weight[SOURCES] = {"weight_f", "weight_i", "weight_s", "weight_d"};
    for (int i = 0; i < SOURCES; i++) {
        s->batch[i] = (int)config_int(c, section, batch[i]);
        if (s->batch[i] == 0) s->batch[i] = s->batch[0];
        s->weight[i] = (float)config_real(c, section, weight[i]);
    }
}

int stage_read(const config* c, int i, const char* sources, stage* s) {
    const char* name = config_member(c, "stage.*", i);
    if (!name) return 0;
    char section[64];
    snprintf(section, sizeof section, "stage.%s", name);
    *s = (stage){.index = i};
    snprintf(s->name, sizeof s->name, "%s", name);
    s->objective = config_text(c, section, "objective");
    s->sources = source_of(config_text(c, section, "sources"));
    s->balance = source_of(config_text(c, section, "balance"));
    // a restricted run gives every stage that source, whatever its own list says
    if (sources && strcmp(sources, "FI") != 0) {
        s->sources = source_of(sources);
        if (s->balance) s->balance = s->sources;
    }
    s->updates = (int)config_int(c, section, "updates");
    read_batches(c, section, s);
    s->adamw = nn_adamw_default();
    s->adamw.rate = (float)config_real(c, section, "rate");
    s->adamw.beta2 = (float)config_real(c, section, "beta2");
    s->adamw.decay = (float)config_real(c, section, "decay");
    s->adamw.clip = (float)config_real(c, section, "clip");
    s->adamw.floor = (float)config_real(c, section, "floor");
    s->adamw.warmup = (int)config_int(c, section, "warmup");
    s->adamw.updates = s->updates;
    s->adamw.schedule =
        strcmp(config_text(c, section, "schedule"), "cosine") == 0 ? NN_COSINE : NN_CONSTANT;
    read_terms(c, section, s);  // the modules follow from them
    const char* modules = config_text(c, section, "modules");
    if (strcmp(modules, "auto") == 0)
        default_modules(s, (float)config_real(c, section, "refine"));
    else
        read_modules(modules, s);
    s->records = (int)config_int(c, section, "records");
    s->average = config_real(c, section, "average");
    s->average_every = (int)config_int(c, section, "average_every");
    s->noise = (float)config_real(c, section, "noise");
    s->bootstrap = config_bool(c, section, "bootstrap");
    // a restricted run may leave D out
    if (s->sources & SOURCE_D || !sources) s->doubt = (float)config_real(c, section, "doubt");
    s->lag = (int)config_int(c, section, "lag");
    s->loss = config_text(c, section, "loss");
    if (strcmp(s->loss, "own") == 0) s->loss = "";
    s->spatial = config_bool(c, section, "spatial");
    s->gate_limit = config_real(c, section, "gate");
    return 1;
}

int stages_auxiliary(const config* c) {
    int parts = MODEL_AUXILIARY;
    stage s;
    for (int i = 0; stage_read(c, i, NULL, &s); i++)
        if (stage_sees_frames(&s) && s.terms.posture > 0) parts |= MODEL_POSTURE;
    return parts;
}

firm_status stage_first(const config* c, const char* from, int* index, firm_error* err) {
    const char* name;
    *index = 0;
    if (!from) return FIRM_OK;
    for (; (name = config_member(c, "stage.*", *index)); ++*index)
        if (strcmp(name, from) == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_USAGE, "the settings have no stage called %s", from);
}

static int known_prefix(const firm_model* m, const char* prefix) {
    for (int i = 0; i < m->store->entries; i++)
        if (strncmp(m->store->entry[i].name, prefix, strlen(prefix)) == 0) return 1;
    return 0;
}

const char* stage_loss(const stage* s, int source) {
    static const char* const own[SOURCES] = {"F", "I", "SR", "D"};
    return s->loss[0] ? s->loss : own[source];
}

// a source that was not given: a mistake, unless the settings allow to do without
static firm_status check_sources(const stage* s, const config* settings, const train_set* set,
                                 firm_error* err) {
    int left = 0;
    loss_weights w;
    for (int i = 0; i < SOURCES; i++) {
        if (!(s->sources >> i & 1)) continue;
        if (is(s, "rollout")) TRY(loss_read(settings, set->env, stage_loss(s, i), &w, err));
        left += set->data.set[i].count > 0;
        if (set->data.set[i].count > 0) continue;
        if (i == PACK_D)
            return FAIL(
                err, FIRM_E_USAGE,
                "stage %s needs imagined records; add them to the pack with `firm intervene "
                "%s --imagined`, or leave D out of stage.%s.sources",
                s->name, set->env->task.name, s->name);
        if (i == PACK_I)
            return FAIL(err, FIRM_E_USAGE,
                        "stage %s needs interventions; give --branches or --sources F", s->name);
        if (strcmp(config_text(settings, "train", "structured"), "required") == 0)
            return FAIL(
                err, FIRM_E_USAGE,
                "stage %s needs a second set of interventions; make it with `firm intervene "
                "%s --structured` (or --planned) and give it with --structured, or set "
                "train.structured=optional",
                s->name, set->env->task.name);
    }
    return left
               ? FIRM_OK
               : FAIL(err, FIRM_E_USAGE, "stage %s has no source left; give --structured", s->name);
}

// Imagined records have no frames after the moment, no chi and no rare moments.
static firm_status check_imagined(const stage* s, firm_error* err) {
    if (s->sources & SOURCE_D && !is(s, "rollout"))
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.sources: source D is for the objective rollout; leave it out",
                    s->name);
    if (s->doubt > 0 && !(s->sources & SOURCE_D))
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.doubt is of source D, which stage.%s.sources lacks; add it or leave "
                    "doubt out",
                    s->name, s->name);
    return FIRM_OK;
}

firm_status stage_check(const stage* s, const config* settings, const train_set* set,
                        const firm_model* m, firm_error* err) {
    TRY(check_imagined(s, err));
    TRY(check_sources(s, settings, set, err));
    if (stage_recurrent(s) && (stage_trains(s, "tokenizer") || stage_trains(s, "grounder")))
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s: recurrent stages see remembered tokens; train the tokenizer and "
                    "the grounder in a stage of their own",
                    s->name);
    if (s->modules == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.modules cannot be read; write names and factors like "
                    "'grounder tokenizer:0.1'",
                    s->name);
    if (!stage_recurrent(s) && (s->noise > 0 || s->bootstrap))
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s: noise and bootstrap are for the objectives rollout and read; leave "
                    "them out",
                    s->name);
    if (is(s, "read") && (s->modules > 1 || strcmp(s->module[0].prefix, "reading.") != 0))
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s: the objective read trains the reading alone; leave modules out",
                    s->name);
    for (int i = 0; i < s->modules; i++)
        if (!known_prefix(m, s->module[i].prefix))
            return FAIL(err, FIRM_E_VALUE, "stage.%s trains '%.*s', but the model has no such part",
                        s->name, (int)strlen(s->module[i].prefix) - 1, s->module[i].prefix);
    if (stage_sees_frames(s) && s->terms.equivariance > 0 && !m->shape.keypoints)
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.equivariance needs keypoints; set model.keypoints, or equivariance "
                    "= 0",
                    s->name);
    if (stage_sees_frames(s) && s->terms.physical > 0 && m->shape.grounder != MODEL_GROUND_STAGED)
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.physical needs model.grounder = staged; use physical = 0", s->name);
    if (!stage_sees_frames(s) && s->terms.posture > 0)
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.posture is for stages that see frames; leave it out of the objective "
                    "%s",
                    s->name, s->objective);
    if (stage_sees_frames(s) && s->terms.anchor > 0 &&
        config_int(settings, "train", "frame_pool") == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "stage.%s.anchor remembers the tokens of all its frames; set train.frame_pool",
                    s->name);
    return FIRM_OK;
}
