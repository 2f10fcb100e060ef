// checkpoint_lists.h - what lies beside the parameters in a model file: where the training data
// lie, what their frames look like, recorded sequences (model.h). Each is optional, and of an
// ensemble only the first model has them.
#ifndef MODEL_CHECKPOINT_LISTS_H
#define MODEL_CHECKPOINT_LISTS_H

#include "model/model.h"
#include "model/safetensors.h"

enum { CHECKPOINT_LISTS = 8 };  // tensors at most

int checkpoint_list_known(const char* tensor);
// Lists of wrong shapes and impossible values are refused; those that are absent stay NULL.
firm_status checkpoint_lists_read(const char* file, const safetensors* s, firm_model* m,
                                  firm_error* err);
// Appends those that the model has; the values stay the model's.
void checkpoint_lists_collect(const firm_model* m, safetensors_type type,
                              safetensors_tensor* tensor, int* tensors);

#endif
