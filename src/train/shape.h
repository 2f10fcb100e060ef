// shape.h - the [model] section of a task's settings, read into a model_shape.
#ifndef TRAIN_SHAPE_H
#define TRAIN_SHAPE_H

#include "io/config.h"
#include "model/model.h"

extern const config_key model_keys[];
extern const int model_key_count;
void model_shape_read(const config* c, model_shape* shape);

#endif
