// schedule.c - the settings of a run: stages, loss weights, batches. Every number of the paper's
// training tables is a line in configs/TASK.ini; this file only declares the keys.
#include <stdio.h>
#include <string.h>

#include "train/internal.h"

const config_key train_keys[] = {
    {"data", "split_seed", CONFIG_INT, 0, 1e9, "0", NULL, "seed of the train/validation split"},
    {"data", "frame_cache_mib", CONFIG_INT, 0, 65536, "512", NULL, "memory for rendered frames"},
    {"train", "segments", CONFIG_INT, 1, 1e6, "16384", NULL, "factual rollout segments"},
    {"train", "held_out", CONFIG_INT, 1, 1e5, "1024", NULL, "validation segments behind the gates"},
    {"train", "lanes", CONFIG_INT, 1, 64, "8", NULL,
     "gradient blocks: the most threads that help; part of the result's bits"},
    {"train", "frontend_shard", CONFIG_INT, 1, 256, "4", NULL,
     "samples a thread takes at once, pixel stages"},
    {"train", "history_shard", CONFIG_INT, 1, 256, "8", NULL, "likewise, history stage"},
    {"train", "rollout_shard", CONFIG_INT, 1, 1024, "128", NULL, "likewise, recurrent stages"},
    {"train", "precision", CONFIG_TEXT, 0, 0, "tf32", "tf32|fp32",
     "--device cuda: how matrix products round their operands; sums are float32 in both"},
    {"train", "frame_pool", CONFIG_INT, 0, 1e6, "0", NULL,
     "picture, ground: distinct pairs of frames, drawn once, that all updates of a stage pick "
     "from; "
     "0: new ones for every update"},
    {"train", "checkpoint_every", CONFIG_INT, 1, 1e6, "250", NULL, "updates between checkpoints"},
    {"train", "log_every", CONFIG_INT, 1, 1e6, "25", NULL, "updates between rows of metrics.csv"},
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
    {"stage.*", "objective", CONFIG_TEXT, 0, 0, "rollout", "picture|ground|dynamics|rollout",
     "what the stage learns"},
    {"stage.*", "sources", CONFIG_TEXT, 0, 0, "F", "F|I|FI", "factual rows, interventions or both"},
    {"stage.*", "updates", CONFIG_INT, 1, 1e7, "1000", NULL, "optimiser updates"},
    {"stage.*", "rate", CONFIG_REAL, 0, 1, "3e-4", NULL, "learning rate"},
    {"stage.*", "schedule", CONFIG_TEXT, 0, 0, "cosine", "constant|cosine",
     "shape of the learning rate"},
    {"stage.*", "floor", CONFIG_REAL, 0, 1, "0", NULL, "cosine ends at floor x rate"},
    {"stage.*", "warmup", CONFIG_INT, 0, 1e6, "0", NULL, "updates of linear warm-up"},
    {"stage.*", "batch", CONFIG_INT, 1, 65536, "256", NULL,
     "samples per update, of the factual source"},
    {"stage.*", "batch_i", CONFIG_INT, 0, 65536, "0", NULL,
     "of the intervention source; 0: as batch"},
    {"stage.*", "decay", CONFIG_REAL, 0, 1, "1e-4", NULL, "decoupled weight decay"},
    {"stage.*", "beta2", CONFIG_REAL, 0.5, 0.99999, "0.999", NULL, "AdamW's second-moment memory"},
    {"stage.*", "clip", CONFIG_REAL, 0, 1e3, "1", NULL, "gradient norm limit, 0: none"},
    {"stage.*", "refine", CONFIG_REAL, 0, 10, "0", NULL,
     "ground: the tokenizer learns too, at this factor of the rate"},
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
    return (strchr(text, 'F') ? SOURCE_F : 0) | (strchr(text, 'I') ? SOURCE_I : 0);
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
    // a restricted run gives every stage that source, whatever its own list says
    if (sources && strcmp(sources, "FI") != 0) s->sources = source_of(sources);
    s->updates = (int)config_int(c, section, "updates");
    s->batch = (int)config_int(c, section, "batch");
    s->batch_i = (int)config_int(c, section, "batch_i");
    if (s->batch_i == 0) s->batch_i = s->batch;
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
    s->refine = (float)config_real(c, section, "refine");
    s->lag = (int)config_int(c, section, "lag");
    s->gate_limit = config_real(c, section, "gate");
    return 1;
}
