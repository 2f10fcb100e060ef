// shape.c - the [model] section: a model's shape as settings.
#include "train/shape.h"

#include <string.h>

const config_key model_keys[] = {
    {"model", "channel1", CONFIG_INT, 8, 512, "32", NULL, "channels of tokenizer stage 1"},
    {"model", "channel2", CONFIG_INT, 8, 512, "64", NULL, "channels of tokenizer stage 2"},
    {"model", "channel3", CONFIG_INT, 8, 512, "96", NULL, "channels of tokenizer stage 3"},
    {"model", "channel4", CONFIG_INT, 8, 512, "64", NULL,
     "channels of tokenizer stage 4, a token's width"},
    {"model", "groups", CONFIG_INT, 1, 64, "8", NULL, "groups of every GroupNorm"},
    {"model", "grounder_hidden", CONFIG_INT, 8, 4096, "512", NULL, "hidden units of the grounder"},
    {"model", "history_width", CONFIG_INT, 8, 1024, "96", NULL,
     "token width inside the history module"},
    {"model", "history_inner", CONFIG_INT, 8, 4096, "240", NULL,
     "hidden units of the history module's feed-forward parts"},
    {"model", "history_blocks", CONFIG_INT, 1, 8, "2", NULL,
     "attention blocks of the history module"},
    {"model", "history_heads", CONFIG_INT, 1, 16, "4", NULL,
     "attention heads; must divide history_width"},
    {"model", "belief", CONFIG_INT, 8, 1024, "128", NULL, "numbers in the belief b"},
    {"model", "fiber", CONFIG_INT, 8, 1024, "128", NULL, "numbers in the fiber m"},
    {"model", "fiber_hidden", CONFIG_INT, 8, 4096, "512", NULL,
     "hidden units of the fiber initialiser"},
    {"model", "hidden", CONFIG_INT, 8, 4096, "384", NULL, "width of the transition"},
    {"model", "inner", CONFIG_INT, 8, 8192, "768", NULL,
     "hidden units of the transition's residual blocks"},
    {"model", "blocks", CONFIG_INT, 1, 16, "2", NULL, "residual blocks of the transition"},
    {"model", "no_fiber", CONFIG_BOOL, 0, 1, "false", NULL, "ablation: the fiber stays zero"},
    {"model", "grid", CONFIG_INT, 2, 64, "7", NULL,
     "cells per side of the last feature map: the image's side over 32, 16 or 8"},
    {"model", "keypoints", CONFIG_INT, 0, 256, "0", NULL,
     "keypoints that are the tokens; 0: the cells of the map are"},
    {"model", "keypoint_width", CONFIG_INT, 3, 256, "32", NULL,
     "numbers of a keypoint's token; the last two are its place"},
    {"model", "history_pool", CONFIG_INT, 1, 4, "1", NULL,
     "cells per side that the history module sees as one token"},
    {"model", "grounder", CONFIG_TEXT, 0, 0, "flat", "flat|votes|staged",
     "flat: one hidden layer; votes: every cell votes; staged: a head and its correction"},
    {"model", "grounder_residual", CONFIG_INT, 8, 4096, "256", NULL,
     "hidden units of the staged grounder's correction"},
    {"model", "spatial", CONFIG_INT, 0, 8192, "0", NULL,
     "hidden units of the transition's spatial residual, for tasks with a section [push]; 0: none"},
    {"model", "reading", CONFIG_INT, 0, 4096, "0", NULL,
     "hidden units of the reading of chi, for train.recorded; 0: none"},
    {"model", "place", CONFIG_INT, 0, 4096, "0", NULL,
     "hidden units of the history module's look at the single cells of the latest frame; 0: none"},
};
const int model_key_count = sizeof model_keys / sizeof *model_keys;

void model_shape_read(const config* c, model_shape* s) {
    const char* stage[4] = {"channel1", "channel2", "channel3", "channel4"};
    for (int i = 0; i < 4; i++) s->channels[i] = (int)config_int(c, "model", stage[i]);
    s->groups = (int)config_int(c, "model", "groups");
    s->grounder_hidden = (int)config_int(c, "model", "grounder_hidden");
    s->history_width = (int)config_int(c, "model", "history_width");
    s->history_inner = (int)config_int(c, "model", "history_inner");
    s->history_blocks = (int)config_int(c, "model", "history_blocks");
    s->history_heads = (int)config_int(c, "model", "history_heads");
    s->belief = (int)config_int(c, "model", "belief");
    s->fiber = (int)config_int(c, "model", "fiber");
    s->fiber_hidden = (int)config_int(c, "model", "fiber_hidden");
    s->hidden = (int)config_int(c, "model", "hidden");
    s->inner = (int)config_int(c, "model", "inner");
    s->blocks = (int)config_int(c, "model", "blocks");
    s->no_fiber = config_bool(c, "model", "no_fiber");
    s->grid = (int)config_int(c, "model", "grid");
    s->keypoints = (int)config_int(c, "model", "keypoints");
    s->keypoint_width = (int)config_int(c, "model", "keypoint_width");
    s->history_pool = (int)config_int(c, "model", "history_pool");
    const char* grounder = config_text(c, "model", "grounder");
    s->grounder = strcmp(grounder, "votes") == 0    ? MODEL_GROUND_VOTES
                  : strcmp(grounder, "staged") == 0 ? MODEL_GROUND_STAGED
                                                    : MODEL_GROUND_FLAT;
    s->grounder_residual = (int)config_int(c, "model", "grounder_residual");
    s->spatial = (int)config_int(c, "model", "spatial");
    s->reading = (int)config_int(c, "model", "reading");
    s->place = (int)config_int(c, "model", "place");
}
