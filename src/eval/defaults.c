// defaults.c - the rules behind settings that nobody wrote. The stages are the paper's simplest;
// sizes and numbers of updates follow the task.
#include "eval/defaults.h"

#include <math.h>

#include "core/text.h"

enum {
    PLAIN_IMAGE = 224,   // pixels a side that the numbers of updates below are for
    LEAST_GRID = 6,      // cells a side: fewer cannot tell places apart
    MOST_TOKENS = 10,    // cells a side that the history module takes one by one
    FEW_COORDINATES = 6  // that the smaller grounder reads
};

static int within(int n, int least, int most) {
    return n < least ? least : n > most ? most : n;
}

// The coarsest map with enough cells: a 32nd, a 16th or an 8th of the picture's side.
static int grid_of(int image) {
    if (image % 32 == 0 && image / 32 >= LEAST_GRID) return image / 32;
    return image / 16 >= LEAST_GRID ? image / 16 : image / 8;
}

static int pool_of(int grid) {
    if (grid <= MOST_TOKENS) return 1;
    return grid % 2 == 0 ? 2 : grid % 3 == 0 ? 3 : 1;
}

// Angles and positions: a pair counts once.
static int freedoms(const task_typed* t) {
    return t->config_dim - t->pairs;
}

// Updates that see pictures cost as many multiply-adds as the picture has pixels: small pictures
// are shown more often, large ones less; and the less there is to tell, the less often.
static int pixel_updates(int updates, const task_typed* t) {
    double times = (double)PLAIN_IMAGE * PLAIN_IMAGE / ((double)t->image * t->image);
    double most = freedoms(t) == 1 ? 0.5 : freedoms(t) == 2 ? 1.5 : 3;
    return (int)(updates * fmin(fmax(times, 0.6), most));
}

// More that moves takes longer to learn.
static int rollout_updates(const task_typed* t) {
    return within(1000 * (freedoms(t) + 1), 2000, 4000);
}

defaults defaults_choose(const task_typed* t) {
    const int grid = grid_of(t->image), rollouts = rollout_updates(t);
    return (defaults){
        .grid = grid,
        .pool = pool_of(grid),
        .grounder_hidden = t->config_dim <= FEW_COORDINATES ? 512 : 768,
        .picture_updates = pixel_updates(100, t),
        // angles take longer to learn than places
        .ground_updates = pixel_updates(t->pairs ? 1500 : 1000, t),
        .history_updates = 500,
        .warm_updates = rollouts / 4,
        // longer futures cost more, each update
        .rollout_updates =
            within(rollouts * TASK_HORIZON / t->horizon, rollouts / 2, rollouts * 3 / 2),
        .lag = within(task_span(t), 5, 20),
        .ground_gate = 0.25,
        .rollout_gate = 1,
        .horizon = t->horizon,
        // as many controls as 16 macro actions of 5 have
        .horizon_most = within(80 / t->controls, t->horizon, 40),
        .candidates = within(64 * t->action_dim, 128, 512),
    };
}

#define PUT(...) CHECK(text_add(out, DEFAULTS_TEXT, __VA_ARGS__), "the defaults do not fit")

static void put_model(const defaults* d, char* out) {
    PUT("[model]\ngrid = %d\nhistory_pool = %d\ngrounder_hidden = %d\n", d->grid, d->pool,
        d->grounder_hidden);
    PUT("[data]\nframe_cache_mib = 1024\n");
    PUT("[train]\nframe_pool = 20000\nframe_pool_i = 10000\n");
}

static void put_stages(const defaults* d, char* out) {
    PUT("[stage.tokenizer]\nobjective = picture\nsources = F\nupdates = %d\nrate = 2e-4\n"
        "batch = 64\nschedule = constant\n",
        d->picture_updates);
    PUT("[stage.grounder]\nobjective = ground\nsources = FI\nupdates = %d\nrate = 3e-4\n"
        "batch = 48\nschedule = cosine\nwarmup = 20\nbeta2 = 0.95\nclip = 0\nlag = %d\n"
        "refine = 2\ngate = %g\n",
        d->ground_updates, d->lag, d->ground_gate);
    PUT("[stage.history]\nobjective = dynamics\nsources = F\nupdates = %d\nrate = 3e-4\n"
        "batch = 128\nschedule = cosine\n",
        d->history_updates);
    PUT("[stage.rollout-f]\nobjective = rollout\nsources = F\nupdates = %d\nrate = 3e-4\n"
        "batch = 256\nschedule = constant\nbeta2 = 0.95\nwarmup = 50\n",
        d->warm_updates);
    PUT("[stage.rollout-fi]\nobjective = rollout\nsources = FI\nupdates = %d\nrate = 3e-4\n"
        "batch = 256\nschedule = cosine\nbeta2 = 0.95\nwarmup = 50\ngate = %g\n",
        d->rollout_updates, d->rollout_gate);
}

static void put_losses(const task_typed* t, char* out) {
    static const char* const source[] = {"F", "I"};
    for (int i = 0; i < 2; i++)
        PUT("[loss.%s]\nconfig = 2\ndisplacement = 2\ndisplacement_kind = %s\ntail = %s\n"
            "chi = 0.5\nchi0 = 0.5\n",
            source[i], t->pairs ? "rel" : "emb", i ? "1" : "0.5");
}

void defaults_settings(const task_typed* t, const defaults* d, char out[DEFAULTS_TEXT]) {
    out[0] = 0;
    put_model(d, out);
    put_stages(d, out);
    put_losses(t, out);
    PUT("[plan]\ncontract_horizon = %d\nreach_horizon = %d\nreach_horizon_max = %d\n"
        "reach_candidates = %d\n",
        d->horizon, d->horizon, d->horizon_most, d->candidates);
}

void defaults_say(const task_typed* t, const defaults* d, char out[DEFAULTS_TEXT]) {
    out[0] = 0;
    PUT("settings of %s, chosen by the rules of docs/defaults.md:\n", t->name);
    PUT("  pictures of %d pixels: %d x %d cells, %d updates of the grounder (%d hidden units, %d "
        "coordinates)\n",
        t->image, d->grid, d->grid, d->ground_updates, d->grounder_hidden, t->config_dim);
    PUT("  futures of %d x %d controls: %d + %d updates of the transition\n", t->horizon,
        t->controls, d->warm_updates, d->rollout_updates);
    PUT("  gates in tolerances: grounding %g, prediction %g\n", d->ground_gate, d->rollout_gate);
    PUT("  plans: contract %d macro actions; reach %d to %d with %d candidates", d->horizon,
        d->horizon, d->horizon_most, d->candidates);
}
