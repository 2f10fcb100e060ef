// lewm.h - LeWM (LeWorldModel, arXiv 2603.19312), a world model whose state is a latent vector: the
// second kind of model file beside FIRM's (model/model.h).
//
//   encoder.c     z = projector(class token of a vision transformer over the frame)
//   actions.c     c = embedding of one macro action, standardised
//   predictor.c   zhat_{k+1} = head(transformer over z_0 .. z_k, each block conditioned on c_k)
//
// Builders are forward only, as FIRM's. Parameters are those of the reference, the query, key and
// value matrices of the encoder side by side in one; file.c knows the reference's names.
#ifndef MODEL_LEWM_LEWM_H
#define MODEL_LEWM_LEWM_H

#include "nn/graph.h"
#include "task/task.h"

enum { LEWM_MAX_DEPTH = 48, LEWM_MAX_CONTEXT = 16 };

// Sizes; lewm_shape_default is the published model's.
typedef struct lewm_shape {
    int image, patch;  // pixels a side
    int width;         // of a token and of a latent
    int depth, heads;  // encoder
    int mlp;           // hidden units of an encoder block
    int projector;     // hidden units of the projector and of the prediction head
    int context;       // latents the predictor sees at most
    int predictor_depth, predictor_heads, predictor_head;  // predictor_head: width of a head
    int predictor_mlp;
    int action_hidden, action_mlp;  // action embedder
    float dropout;                  // of the predictor, in training
} lewm_shape;

lewm_shape lewm_shape_default(void);

typedef struct lewm_model {
    task_typed task;
    lewm_shape shape;
    // of raw controls, over all rows of the training data
    float action_mean[FIRM_MAX_ACTION], action_std[FIRM_MAX_ACTION];
    nn_store* store;
    char* config;          // resolved settings of the training run as text; "" if unknown
    char provenance[256];  // one line: version, seed, data hash
} lewm_model;

// Declares all parameters and draws them from the seed. FIRM_E_VALUE says which size is no good.
firm_status lewm_create(const task_typed* task, const lewm_shape* shape, uint64_t seed,
                        lewm_model** out, firm_error* err);
void lewm_free(lewm_model* m);             // NULL is fine
int lewm_action_dim(const lewm_model* m);  // numbers of a macro action: controls * action_dim
size_t lewm_params(const lewm_model* m);   // parameters, without the running statistics

// ---- builders ----
// Frames (F, image, image, 3) bytes -> latents (F, width).
nn_id lewm_encode(nn_graph* g, const lewm_model* m, nn_id frames);
// Block i of the encoder over tokens (..., T, width).
nn_id lewm_block(nn_graph* g, const lewm_shape* s, int i, nn_id x);
// Standardised macro actions (n, action) -> embeddings (n, width). Element j * action_dim + d is
// dimension d of raw control j.
nn_id lewm_embed(nn_graph* g, const lewm_model* m, nn_id actions);
// Latents and action embeddings (n, width), n <= context -> predictions (n, width): row k is the
// latent after action k. Positions count from the first row.
nn_id lewm_predict(nn_graph* g, const lewm_model* m, nn_id latents, nn_id embeddings);

// The training objective over clips of context + 1 frames (inputs "frames", bytes, and "actions",
// (context + 1, action) standardised): predictions of frames 1 .. against their latents, and SIGReg
// of all latents along `directions` random directions. The last action is not used.
typedef struct lewm_objective {
    nn_id frames, actions;
    nn_id latents, predictions;  // (context + 1, width), (context, width)
} lewm_objective;
lewm_objective lewm_train(nn_graph* g, const lewm_model* m, float sigreg, int directions);

// A parameter of the model by its name in the store, for code that runs it in its own layout.
// Weights are (in, out).
const float* lewm_weight(const lewm_model* m, const char* name);

// raw control (action_dim) -> standardised
void lewm_standardise(const lewm_model* m, const float* raw, float* out);

// ---- files (file.c) ----
// Safetensors with the reference's tensor names, either naming of its encoder, F32, F16 or BF16,
// all shapes checked. A file that firm wrote also holds the task and the action statistics. For any
// other, `task` and `statistics` must be given: the task the weights were trained for, and a text
// "mean0 .. meanN std0 .. stdN" of its controls.
typedef struct lewm_foreign {
    const task_typed* task;
    const float *action_mean, *action_std;  // (action_dim)
} lewm_foreign;
firm_status lewm_read(const char* path, const lewm_foreign* foreign, lewm_model** out,
                      firm_error* err);
firm_status lewm_parse(const char* name, const char* bytes, size_t n, const lewm_foreign* foreign,
                       lewm_model** out, firm_error* err);  // from memory
// Whether a model file is one of LeWM rather than of FIRM; 0 for anything that cannot be read.
int lewm_is_file(const char* path);
int lewm_is(const char* bytes, size_t n);  // from memory

typedef struct lewm_extra {
    const char* name;
    float* data;
    size_t count;
} lewm_extra;
typedef struct lewm_note {
    const char* key;  // "firm." is put before it
    char value[256];
} lewm_note;
// What a training run keeps beside the model.
typedef struct lewm_training {
    const lewm_extra* extra;
    int extras;
    lewm_note* note;
    int notes;
} lewm_training;
// Writes the file whole or not at all. run: NULL for a model.
firm_status lewm_write(const char* path, const lewm_model* m, const lewm_training* run,
                       firm_error* err);
// Reads weights, extras (sizes must fit) and notes (absent: empty) into a model of the same task
// and sizes.
firm_status lewm_read_training(const char* path, lewm_model* m, const lewm_training* run,
                               firm_error* err);

#endif
