// keys.c - the settings of a LeWM run. Defaults are the published recipe: 100 epochs planned,
// stopped after ten.
#include <string.h>

#include "train/lewm/lewm.h"

const config_key lewm_keys[] = {
    {"lewm", "split_seed", CONFIG_INT, 0, 1e9, "0", NULL, "seed of the train/validation split"},
    {"lewm", "rows", CONFIG_INT, 0, 1e9, "0", NULL,
     "most rows of training episodes that are used, and on a GPU kept there; 0: all"},
    {"lewm", "batch", CONFIG_INT, 2, 4096, "128", NULL, "clips of an update"},
    {"lewm", "shard", CONFIG_INT, 1, 4096, "2", NULL, "CPU: clips a thread takes at once"},
    {"lewm", "lanes", CONFIG_INT, 1, 64, "8", NULL,
     "CPU: upper limit of useful threads; changing it changes the rounding"},
    {"lewm", "epochs", CONFIG_REAL, 0.001, 1e6, "100", NULL,
     "epochs that the learning rate is planned for"},
    {"lewm", "stop", CONFIG_REAL, 0.001, 1e6, "10", NULL, "epochs that are trained"},
    {"lewm", "updates", CONFIG_INT, 0, 1e9, "0", NULL,
     "updates to train, instead of lewm.stop; 0: by lewm.stop"},
    {"lewm", "rate", CONFIG_REAL, 0, 1, "5e-5", NULL, "highest learning rate"},
    {"lewm", "warmup", CONFIG_REAL, 0, 1, "0.01", NULL,
     "share of the planned updates over which the rate rises; a cosine follows"},
    {"lewm", "decay", CONFIG_REAL, 0, 1, "1e-3", NULL, "weight decay, on all parameters"},
    {"lewm", "clip", CONFIG_REAL, 0, 1e6, "1", NULL, "largest norm of a gradient; 0: any"},
    {"lewm", "sigreg", CONFIG_REAL, 0, 1e3, "0.09", NULL, "weight of SIGReg"},
    {"lewm", "directions", CONFIG_INT, 1, 65536, "1024", NULL, "random directions of SIGReg"},
    {"lewm", "precision", CONFIG_TEXT, 0, 0, "bf16", "bf16|tf32|fp32",
     "GPU: precision of products; with bf16 that of the encoder's blocks, the others are tf32"},
    {"lewm", "checkpoint_every", CONFIG_INT, 1, 1e9, "1000", NULL, "updates between checkpoints"},
    {"lewm", "snapshots", CONFIG_INT, 1, 1000, "4", NULL,
     "parts the run is cut into; after each but the last its model is kept as "
     "model-UPDATE.safetensors"},
    {"lewm", "log_every", CONFIG_INT, 1, 1e9, "50", NULL, "updates between rows of metrics.csv"},
    {"lewm", "patch", CONFIG_INT, 1, 128, "14", NULL, "pixels of a patch's side"},
    {"lewm", "width", CONFIG_INT, 1, 4096, "192", NULL, "numbers of a token and of a latent"},
    {"lewm", "depth", CONFIG_INT, 1, LEWM_MAX_DEPTH, "12", NULL, "blocks of the encoder"},
    {"lewm", "heads", CONFIG_INT, 1, 256, "3", NULL, "heads of the encoder"},
    {"lewm", "mlp", CONFIG_INT, 1, 16384, "768", NULL, "hidden units of an encoder block"},
    {"lewm", "projector", CONFIG_INT, 1, 16384, "2048", NULL,
     "hidden units of projector and prediction head"},
    {"lewm", "predictor_depth", CONFIG_INT, 1, LEWM_MAX_DEPTH, "6", NULL,
     "blocks of the predictor"},
    {"lewm", "predictor_heads", CONFIG_INT, 1, 256, "16", NULL,
     "attention heads of a predictor block"},
    {"lewm", "predictor_head", CONFIG_INT, 1, 256, "64", NULL, "numbers of a predictor head"},
    {"lewm", "predictor_mlp", CONFIG_INT, 1, 16384, "2048", NULL,
     "hidden units of a predictor block"},
    {"lewm", "action_mlp", CONFIG_INT, 1, 16384, "768", NULL,
     "hidden units of the action embedder"},
    {"lewm", "dropout", CONFIG_REAL, 0, 0.99, "0.1", NULL, "dropout of the predictor"},
};
const int lewm_key_count = sizeof lewm_keys / sizeof *lewm_keys;

firm_status lewm_settings(const char* file, const char* const* overrides, int count, config** out,
                          firm_error* err) {
    firm_status st = config_create(lewm_keys, lewm_key_count, out, err);
    if (st == FIRM_OK && file) st = config_read_file(*out, file, err);
    for (int i = 0; i < count && st == FIRM_OK; i++) st = config_set(*out, overrides[i], err);
    if (st != FIRM_OK) {
        config_free(*out);
        *out = NULL;
    }
    return st;
}

void lewm_shape_read(const config* c, lewm_shape* out) {
    const struct {
        const char* key;
        int* to;
    } size[] = {{"patch", &out->patch},
                {"width", &out->width},
                {"depth", &out->depth},
                {"heads", &out->heads},
                {"mlp", &out->mlp},
                {"projector", &out->projector},
                {"predictor_depth", &out->predictor_depth},
                {"predictor_heads", &out->predictor_heads},
                {"predictor_head", &out->predictor_head},
                {"predictor_mlp", &out->predictor_mlp},
                {"action_mlp", &out->action_mlp}};
    *out = lewm_shape_default();
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        *size[i].to = (int)config_int(c, "lewm", size[i].key);
    out->dropout = (float)config_real(c, "lewm", "dropout");
}
