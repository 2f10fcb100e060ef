// grounder.c - G: tokens of E(o, 0) to named coordinates, sine-cosine pairs on the unit circle. The
// same map serves the current image and the goal image. Three forms, see model_grounder.
#include "model/model.h"

// a small start matters: at gain 1 the same 1,000 updates end at 1.4 px, at 0.03 at 0.1 px
// (an agent in pictures of 224 px)
#define SMALL_START 0.03f

// ---- flat: LayerNorm over all tokens, one hidden layer ------------------------------------------

typedef struct flat_names {
    const char *norm, *hidden, *out;
} flat_names;

static nn_id flat(nn_graph* g, const flat_names* name, nn_id tokens, int hidden, int numbers) {
    int size = nn_size(g, tokens);
    nn_id h = nn_layernorm(g, name->norm, nn_reshape(g, tokens, 1, &size));
    h = nn_gelu(g, nn_linear(g, name->hidden, h, hidden, 1.4f));
    return nn_linear(g, name->out, h, numbers, SMALL_START);
}

static nn_id flat_ground(nn_graph* g, const firm_model* m, nn_id tokens) {
    static const flat_names name = {"grounder.norm", "grounder.hidden", "grounder.out"};
    return flat(g, &name, tokens, m->shape.grounder_hidden, m->task.config_dim);
}

nn_id model_posture(nn_graph* g, const firm_model* m, nn_id tokens) {
    static const flat_names name = {"aux.posture.norm", "aux.posture.hidden", "aux.posture.out"};
    return flat(g, &name, tokens, 256, m->task.chi_dim);
}

// ---- votes: the grid is kept --------------------------------------------------------------------

// The head starts small and learns at one rate; these bring its numbers into the range they need.
#define SHARP 10.0f   // how much votes on points count: a few cells decide
#define TURN 10.0f    // votes on angles, whose length does not matter
#define STRETCH 2.0f  // votes on points: offsets, half the picture as 1

// Two convolutions let a cell see its surroundings: (cells, grounder_hidden).
static nn_id look_around(nn_graph* g, const firm_model* m, nn_id tokens) {
    int grid = m->shape.grid, width = m->shape.grounder_hidden;
    nn_id h = nn_reshape(g, tokens, 3, (int[]){grid, grid, nn_last(g, tokens)});
    h = nn_conv(g, "grounder.look1", h, width, 3, 1, 1);
    h = nn_gelu(g, nn_groupnorm(g, "grounder.norm1", h, m->shape.groups));
    nn_id more = nn_conv(g, "grounder.look2", h, width, 3, 1, 1);
    h = nn_gelu(g, nn_add(g, h, nn_groupnorm(g, "grounder.norm2", more, m->shape.groups)));
    return nn_reshape(g, h, 2, (int[]){grid * grid, width});
}

// A cell votes on every quantity, a pair (sin, cos) or a point (x, y): how much it counts (a
// softmax over the cells, logits in *weight) and its vote. A vote on a point is an offset from the
// cell's own place, so what is learned is the same all over the picture.
static nn_id count_votes(nn_graph* g, const firm_model* m, nn_id seen, nn_id* weight) {
    int grid = m->shape.grid, cells = grid * grid, dim = m->task.config_dim;
    int all = dim / 2, pairs = m->task.pairs, points = all - pairs;
    nn_id raw = nn_linear(g, "grounder.vote", seen, 3 * all, SMALL_START);
    *weight = nn_scale(g, nn_slice(g, raw, 1, pairs, points), SHARP);
    nn_id value = nn_scale(g, nn_slice(g, raw, 1, all + 2 * pairs, 2 * points), STRETCH);
    value = nn_coords(g, nn_reshape(g, value, 3, (int[]){grid, grid, 2 * points}));
    value = nn_reshape(g, value, 2, (int[]){cells, 2 * points + 2});
    if (pairs) {
        nn_id turn = nn_scale(g, nn_slice(g, raw, 1, all, 2 * pairs), TURN);
        *weight = nn_concat(g, 1, 2, (nn_id[]){nn_slice(g, raw, 1, 0, pairs), *weight});
        value = nn_concat(g, 1, 2, (nn_id[]){turn, value});
    }
    nn_id sums = nn_softpool(g, *weight, value), part[FIRM_MAX_CONFIG / 2];
    for (int q = 0; q < all; q++) {  // of each row its own quantity, and for points the place
        nn_id row = nn_reshape(g, nn_slice(g, sums, 0, q, 1), 1, (int[]){dim + 2});
        part[q] = nn_slice(g, row, 0, 2 * q, 2);
        if (q >= pairs) part[q] = nn_add(g, part[q], nn_slice(g, row, 0, dim, 2));
    }
    return nn_pairnorm(g, nn_concat(g, 0, all, part), pairs);
}

// What the deciding cells saw corrects the count a little; at the start it does not.
static nn_id votes(nn_graph* g, const firm_model* m, nn_id tokens) {
    int numbers = m->task.config_dim / 2 * m->shape.grounder_hidden;
    nn_id weight, seen = look_around(g, m, tokens), c = count_votes(g, m, seen, &weight);
    nn_id decided = nn_reshape(g, nn_softpool(g, weight, seen), 1, &numbers);
    nn_id x = nn_concat(g, 0, 2, (nn_id[]){decided, c});
    x = nn_gelu(g, nn_linear(g, "grounder.correct", x, m->shape.grounder_residual, 1.0f));
    return nn_add(g, c, nn_linear(g, "grounder.out", x, m->task.config_dim, 0.0f));
}

// ---- staged: a configuration head, then a residual head -----------------------------------------

static nn_id everything(nn_graph* g, nn_id tokens) {
    int size = nn_size(g, tokens);
    return nn_layernorm(g, "grounder.trunk.norm", nn_reshape(g, tokens, 1, &size));
}

static nn_id trunk(nn_graph* g, const firm_model* m, nn_id all) {
    return nn_gelu(g, nn_linear(g, "grounder.trunk.hidden", all, m->shape.grounder_hidden, 1.4f));
}

// the residual head sees the tokens again, and what the first head made of them
static nn_id staged(nn_graph* g, const firm_model* m, nn_id tokens) {
    int dim = m->task.config_dim;
    nn_id all = everything(g, tokens);
    nn_id c = nn_linear(g, "grounder.config.out", trunk(g, m, all), dim, SMALL_START);
    nn_id x = nn_concat(g, 0, 2, (nn_id[]){all, nn_pairnorm(g, c, m->task.pairs)});
    x = nn_gelu(g, nn_linear(g, "grounder.residual.hidden", x, m->shape.grounder_residual, 1.4f));
    return nn_add(g, c, nn_linear(g, "grounder.residual.out", x, dim, 0.0f));
}

nn_id model_physical(nn_graph* g, const firm_model* m, nn_id tokens) {
    return nn_linear(g, "aux.physical.out", trunk(g, m, everything(g, tokens)), 2 * m->task.pairs,
                     SMALL_START);
}

void model_physical_target(const firm_model* m, const float* c, float* xy) {
    float sin = 0, cos = 1, x = 0, y = 0;  // of the sum of the angles so far; the end so far
    for (int j = 0; j < m->task.pairs; j++, c += 2) {
        float turned = sin * c[1] + cos * c[0];
        cos = cos * c[1] - sin * c[0];
        sin = turned;
        xy[2 * j] = x += cos;
        xy[2 * j + 1] = y += sin;
    }
}

nn_id model_ground(nn_graph* g, const firm_model* m, nn_id tokens) {
    nn_id c = m->shape.grounder == MODEL_GROUND_VOTES    ? votes(g, m, tokens)
              : m->shape.grounder == MODEL_GROUND_STAGED ? staged(g, m, tokens)
                                                         : flat_ground(g, m, tokens);
    return nn_pairnorm(g, c, m->task.pairs);
}
