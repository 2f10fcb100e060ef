// checkpoint_meta.h - the "firm.*" texts of a model file: format, task, shape, statistics,
// settings. Between the container (safetensors.h) and the tensors (checkpoint.c).
#ifndef MODEL_CHECKPOINT_META_H
#define MODEL_CHECKPOINT_META_H

#include "model/checkpoint.h"
#include "model/safetensors.h"

// ---- writing ----
typedef struct checkpoint_meta {
    safetensors_text* text;
    int texts;
    void* memory;  // keys and values made here
    char* typed;   // the task as text
} checkpoint_meta;

firm_status checkpoint_meta_make(const char* path, const firm_model* m, int training,
                                 const checkpoint_note* note, int notes, checkpoint_meta* out,
                                 firm_error* err);
void checkpoint_meta_free(checkpoint_meta* meta);

// ---- reading: each takes one part; `file` is used in messages ----
// Of an ensemble's models, member 1 is the first; further ones have their number in their keys.
firm_status checkpoint_meta_format(const char* file, const safetensors* s, int* training,
                                   firm_error* err);
firm_status checkpoint_meta_task(const char* file, const safetensors* s, task_typed* task,
                                 firm_error* err);
firm_status checkpoint_meta_shape(const char* file, const safetensors* s, model_shape* shape,
                                  firm_error* err);
firm_status checkpoint_meta_members(const char* file, const safetensors* s, int* members,
                                    firm_error* err);  // beside the first; 0 if it says nothing
// Fills what the model's task uses and leaves the rest of *stats alone.
firm_status checkpoint_meta_stats(const char* file, const safetensors* s, const firm_model* m,
                                  model_stats* stats, firm_error* err);
firm_status checkpoint_meta_origin(const char* file, const safetensors* s, firm_model* m,
                                   firm_error* err);  // config and provenance
// Statistics and provenance of member 2 .. of `first`, whose action statistics it must share.
firm_status checkpoint_meta_member(const char* file, const safetensors* s, int member,
                                   const firm_model* first, firm_model* m, firm_error* err);
// Whether that member says that it shares the first model's tokenizer and grounder.
int checkpoint_meta_shares(const safetensors* s, int member);
firm_status checkpoint_meta_notes(const char* file, const safetensors* s, checkpoint_note* note,
                                  int notes, firm_error* err);
// The file's task and shape are the model's, or a sentence with what differs.
firm_status checkpoint_meta_same(const char* file, const safetensors* s, const firm_model* m,
                                 firm_error* err);
// ... of which a run of the model's shape can begin: it may lack the reading, and use the fiber or
// not.
firm_status checkpoint_meta_begins(const char* file, const safetensors* s, const firm_model* m,
                                   firm_error* err);
// The model read from `file` can be a member of `first`'s ensemble, or a sentence with what
// differs.
firm_status checkpoint_meta_joins(const char* file, const firm_model* m, const firm_model* first,
                                  firm_error* err);

#endif
