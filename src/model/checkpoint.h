// checkpoint.h - model files: safetensors (little-endian header length, JSON header, raw tensors)
// with the metadata needed to deploy. docs/formats.md describes the keys. Files are written whole
// or not at all and carry a digest of their texts and numbers, so a cut file or a flipped byte is
// noticed.
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include "model/model.h"

// More than the model: optimiser moments and counters of a training run.
typedef struct checkpoint_extra {
    const char* name;  // tensor name, e.g. "optimiser.moments"
    float* data;
    size_t count;
} checkpoint_extra;

typedef struct checkpoint_note {
    const char* key;  // stored in __metadata__ with a "firm." prefix
    char value[1024];
} checkpoint_note;

typedef enum checkpoint_kind {
    CHECKPOINT_MODEL,       // deployed parameters only, float32
    CHECKPOINT_MODEL_HALF,  // likewise in float16
    CHECKPOINT_TRAINING     // all parameters in float32, extras and notes
} checkpoint_kind;

firm_status checkpoint_write(const char* path, const firm_model* m, checkpoint_kind kind,
                             const checkpoint_extra* extra, int extras, const checkpoint_note* note,
                             int notes, firm_error* err);

// Reads weights and statistics into a model of the same task and shape (FIRM_E_TASK / FIRM_E_FORMAT
// with what differs). Extras must have the stated sizes and finite numbers; notes that the file
// lacks get an empty value.
firm_status checkpoint_read_training(const char* path, firm_model* m, const checkpoint_extra* extra,
                                     int extras, checkpoint_note* note, int notes, firm_error* err);
// Reads weights and statistics alone, of a training checkpoint or of a model file of the same
// shape, which must be no ensemble; training heads that a model file lacks stay as they are.
firm_status checkpoint_read_weights(const char* path, firm_model* m, firm_error* err);
// Makes the model in `path` a member of m's ensemble: of the same task, shape and action
// statistics, and no ensemble itself. Its support and recorded segments are left behind. A refusal
// leaves m as it was.
firm_status checkpoint_add_member(const char* path, firm_model* m, firm_error* err);
// The same as firm_model_load, from memory; for fuzzing. `name` is used in messages.
firm_status checkpoint_parse_model(const char* name, const char* bytes, size_t n, firm_model** out,
                                   firm_error* err);
// firm_model_load of a file that another program rewrote with other numbers or texts: its digest is
// not believed, everything else is checked. Damaged files are refused.
firm_status checkpoint_load_changed(const char* path, firm_model** out, firm_error* err);
firm_status checkpoint_parse_changed(const char* name, const char* bytes, size_t n,
                                     firm_model** out, firm_error* err);  // likewise, from memory

#endif
