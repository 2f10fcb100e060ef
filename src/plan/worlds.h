// worlds.h - opens the world (world.h) of a model file, on the CPU or a GPU.
#ifndef PLAN_WORLDS_H
#define PLAN_WORLDS_H

#include "core/pool.h"
#include "model/model.h"
#include "plan/gpu.h"
#include "plan/options.h"
#include "plan/world.h"

typedef struct plan_world_setup {
    const firm_model* model;  // must outlive the world, as must the pool
    const plan_options* options;
    int longest;    // macro steps that rollouts take at most
    pool* threads;  // NULL: the caller alone
    firm_device device;
    plan_precision precision;
    int gpu;           // index of the GPU
    plan_gpu* shared;  // of one FIRM model: planned with instead of one of its own, or NULL
    const plan_world*
        like;  // on the CPU, of the same model: its packed weights are shared, or NULL
} plan_world_setup;

// The owner closes it with out->sight.close(out->sight.context), also its `like` after it.
firm_status plan_world_open(const plan_world_setup* setup, plan_world* out, firm_error* err);

// firm_world.c: FIRM from pixels; an ensemble's members see, start and predict each for itself.
firm_status plan_world_firm(const plan_world_setup* setup, plan_world* out, firm_error* err);

// lewm_world.c: LeWM from pixels.
firm_status plan_world_lewm(const plan_world_setup* setup, plan_world* out, firm_error* err);

#endif
