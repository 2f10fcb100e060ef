// compare.c - draws the same states with both renderers and measures likeness, displacement and
// speed.
#define _GNU_SOURCE  // clock_gettime
#include "env/render/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/mem.h"
#include "io/image.h"
#ifdef FIRM_MUJOCO
#include "env/render/mjscene.h"
#endif

enum {
    SIZE = ENV_IMAGE,
    PIXELS = SIZE * SIZE,
    FRAME = 3 * PIXELS,  // bytes
    STEPS = 24,          // at most, between a reset and the state that is drawn
    REPEATS = 10,        // of each native frame, for the clock
    MOVED = 32,  // levels a pixel is brighter than usual where something moving is: not a shadow
    LEAST_PIXELS = 32,  // of a moving thing that is looked at: Reacher's finger has 40
    MARGIN = 2,         // pixels around it that are looked at as well
    REACH = 3           // pixels it is looked for around its place
};

// ---- likeness ----

double render_psnr(const uint8_t* a, const uint8_t* b) {
    double sum = 0;
    for (int i = 0; i < 3 * PIXELS; i++) sum += (double)(a[i] - b[i]) * (a[i] - b[i]);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * 3 * PIXELS / sum) : 99;
}

// ---- displacement ----

// Collects the connected pixels around `start` that are marked 1 and marks them 2; returns how
// many.
static int gather(uint8_t* mark, int start, int* found) {
    int count = 0, done = 0;
    found[count++] = start;
    mark[start] = 2;
    while (done < count) {
        int at = found[done++], x = at % SIZE, y = at / SIZE;
        const int near[4] = {x > 0 ? at - 1 : -1, x < SIZE - 1 ? at + 1 : -1,
                             y > 0 ? at - SIZE : -1, y < SIZE - 1 ? at + SIZE : -1};
        for (int k = 0; k < 4; k++)
            if (near[k] >= 0 && mark[near[k]] == 1) {
                mark[near[k]] = 2;
                found[count++] = near[k];
            }
    }
    return count;
}

// How far b must be moved so that the thing at `found` in a, with a little of its surroundings,
// fits best. Where moving it gains little, as with the end of a shadow, it counts as being in
// place.
static double best_shift(const uint8_t* a, const uint8_t* b, const int* found, int count) {
    double least = INFINITY, best = 0, in_place = 0;
    int box[4] = {SIZE, SIZE, 0, 0};
    for (int i = 0; i < count; i++) {
        int x = found[i] % SIZE, y = found[i] / SIZE;
        if (x - MARGIN < box[0]) box[0] = x - MARGIN;
        if (y - MARGIN < box[1]) box[1] = y - MARGIN;
        if (x + MARGIN > box[2]) box[2] = x + MARGIN;
        if (y + MARGIN > box[3]) box[3] = y + MARGIN;
    }
    for (int k = 0; k < 2; k++) {  // the shifted box must stay inside, too
        if (box[k] < REACH) box[k] = REACH;
        if (box[2 + k] > SIZE - 1 - REACH) box[2 + k] = SIZE - 1 - REACH;
    }
    for (int dy = -REACH; dy <= REACH; dy++)
        for (int dx = -REACH; dx <= REACH; dx++) {
            double sum = 0, away = sqrt((double)(dx * dx + dy * dy));
            for (int y = box[1]; y <= box[3]; y++)
                for (int x = box[0]; x <= box[2]; x++)
                    for (int k = 0; k < 3; k++) {
                        int d = a[3 * (y * SIZE + x) + k] - b[3 * ((y + dy) * SIZE + x + dx) + k];
                        sum += d * d;
                    }
            if (sum < least || (sum == least && away < best)) least = sum, best = away;
            if (dx == 0 && dy == 0) in_place = sum;
        }
    // a thing stands out by MOVED levels, so one that is displaced differs in place by a good part
    // of that; one that fits to a quarter of it is there, whatever shift would flatter its noise
    double numbers = 3.0 * (box[2] - box[0] + 1) * (box[3] - box[1] + 1);
    if (in_place < numbers * (MOVED / 4.0) * (MOVED / 4.0)) return 0;
    return least < 0.8 * in_place ? best : 0;
}

double render_shift(const uint8_t* a, const uint8_t* b, const uint8_t* still, uint8_t* mark,
                    int* found) {
    double most = 0;
    for (int i = 0; i < PIXELS; i++) {
        mark[i] = 0;
        for (int k = 0; k < 3; k++) mark[i] |= a[3 * i + k] - still[3 * i + k] > MOVED;
    }
    for (int i = 0; i < PIXELS; i++) {
        if (mark[i] != 1) continue;
        int count = gather(mark, i, found);
        double shift = count >= LEAST_PIXELS ? best_shift(a, b, found, count) : 0;
        if (shift > most) most = shift;
    }
    return most;
}

// ---- drawing ----

#ifdef FIRM_MUJOCO

static int by_byte(const void* a, const void* b) {
    return *(const uint8_t*)a - *(const uint8_t*)b;
}

// The colour each pixel has in half of the frames: what stands still.
static void usual(const uint8_t* frames, int states, uint8_t* column, uint8_t* out) {
    for (int i = 0; i < 3 * PIXELS; i++) {
        for (int s = 0; s < states; s++) column[s] = frames[(size_t)s * FRAME + (size_t)i];
        qsort(column, (size_t)states, 1, by_byte);
        out[i] = column[states / 2];
    }
}

typedef struct compared {
    env *native, *gl;
    double* state;   // (states, state_dim)
    uint8_t *a, *b;  // (states, frame) of gl and native
    uint8_t *still, *mark, *column;
    int* found;
} compared;

static firm_status open_one(const env_spec* spec, const char* renderer, env** out,
                            firm_error* err) {
    TRY(mjscene_use(renderer, err));
    TRY(env_create(spec, out, err));
    return env_render_ready(out, 1, err);
}

static firm_status random_states(const env_spec* spec, compared* c, int states, uint64_t seed,
                                 firm_error* err) {
    rng r = rng_start(seed, RNG_STREAM(RNG_ARM, 0));
    for (int s = 0; s < states; s++) {
        spec->sim->reset(c->native, &r);
        int steps = (int)rng_uniform(&r, 0, STEPS);
        for (int i = 0; i < steps; i++) {
            float action[FIRM_MAX_ACTION];
            for (int k = 0; k < spec->task.action_dim; k++)
                action[k] = (float)rng_uniform(&r, spec->task.action_low, spec->task.action_high);
            spec->sim->step(c->native, action);
        }
        if (c->native->fault != FIRM_OK)
            return FAIL(err, c->native->fault, "the simulation of %s broke down", spec->task.name);
        spec->sim->state_get(c->native, c->state + (size_t)s * (size_t)spec->state->dim);
    }
    return FIRM_OK;
}

// Seconds this thread has computed, which other programs do not stretch; where a GPU draws,
// seconds.
static double now(int software) {
    struct timespec t;
    if (!software || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return clock_seconds();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void draw_all(const env_spec* spec, compared* c, int states, render_report* out) {
    double native = 0, gl = 0, begun;
    int software = strcmp(out->gl, "gl-osmesa") == 0;
    for (int s = 0; s < states; s++) {
        const double* state = c->state + (size_t)s * (size_t)spec->state->dim;
        uint8_t *a = c->a + (size_t)s * FRAME, *b = c->b + (size_t)s * FRAME;
        spec->sim->state_set(c->native, state);
        spec->sim->state_set(c->gl, state);
        if (s == 0) {  // warm-up
            spec->sim->render(c->gl, a);
            spec->sim->render(c->native, b);
        }
        begun = now(software);
        for (int i = 0; i < REPEATS; i++) spec->sim->render(c->native, b);
        native += (now(software) - begun) / REPEATS;
        begun = now(software);
        spec->sim->render(c->gl, a);
        gl += now(software) - begun;
    }
    out->native_per_s = states / native;
    out->gl_per_s = states / gl;
    out->ratio = gl / native;
}

static void liken(const compared* c, int states, render_report* out) {
    out->psnr_least = INFINITY;
    usual(c->a, states, c->column, c->still);
    for (int s = 0; s < states; s++) {
        const uint8_t *a = c->a + (size_t)s * FRAME, *b = c->b + (size_t)s * FRAME;
        double db = render_psnr(a, b), shift = render_shift(a, b, c->still, c->mark, c->found);
        out->psnr_mean += db / states;
        if (db < out->psnr_least) out->psnr_least = db;
        if (shift > out->shift_most) out->shift_most = shift;
    }
}

static firm_status write_pair(const compared* c, const char* path, firm_error* err) {
    uint8_t* pair = mem_alloc(2 * FRAME);
    if (!pair) return FAIL(err, FIRM_E_MEMORY, "no memory for a picture");
    for (int y = 0; y < SIZE; y++) {
        memcpy(pair + 6 * SIZE * y, c->a + 3 * SIZE * y, 3 * SIZE);
        memcpy(pair + 6 * SIZE * y + 3 * SIZE, c->b + 3 * SIZE * y, 3 * SIZE);
    }
    firm_status status = image_write_png(path, 2 * SIZE, SIZE, pair, err);
    mem_free(pair);
    return status;
}

static firm_status compare(const env_spec* spec, const char* gl, int states, uint64_t seed,
                           const char* picture, compared* c, render_report* out, firm_error* err) {
    size_t n = (size_t)states;
    c->state = mem_alloc(n * (size_t)spec->state->dim * sizeof *c->state);
    c->a = mem_alloc(n * FRAME);
    c->b = mem_alloc(n * FRAME);
    c->still = mem_alloc(FRAME);
    c->mark = mem_alloc(PIXELS);
    c->column = mem_alloc(n);
    c->found = mem_alloc(PIXELS * sizeof *c->found);
    if (!c->state || !c->a || !c->b || !c->still || !c->mark || !c->column || !c->found)
        return FAIL(err, FIRM_E_MEMORY, "no memory to compare %d pictures", states);
    TRY(open_one(spec, gl, &c->gl, err));
    TRY(open_one(spec, "native", &c->native, err));
    TRY(random_states(spec, c, states, seed, err));
    draw_all(spec, c, states, out);
    liken(c, states, out);
    return picture ? write_pair(c, picture, err) : FIRM_OK;
}

firm_status render_compare(const env_spec* spec, const char* gl, int states, uint64_t seed,
                           const char* picture, render_report* out, firm_error* err) {
    *out = (render_report){.states = states};
    snprintf(out->gl, sizeof out->gl, "%s", gl);
    if (!spec->sim->render_ready)
        return FAIL(err, FIRM_E_UNAVAILABLE, "%s has one renderer only", spec->task.name);
    if (spec->task.image != SIZE)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "renderers are compared on pictures of %d pixels a side; those of %s have %d",
                    SIZE, spec->task.name, spec->task.image);
    if (states < 1 || states > 100000)
        return FAIL(err, FIRM_E_VALUE, "%d states to compare; give 1 to 100000", states);
    compared c = {0};
    firm_status status = compare(spec, gl, states, seed, picture, &c, out, err);
    firm_status back = mjscene_use("native", NULL);
    CHECK(back == FIRM_OK, "the renderer native is gone");
    env_free(c.native);
    env_free(c.gl);
    mem_free(c.state);
    mem_free(c.a);
    mem_free(c.b);
    mem_free(c.still);
    mem_free(c.mark);
    mem_free(c.column);
    mem_free(c.found);
    return status;
}

const char* render_name(const env_spec* spec) {
    const char* choice = spec->sim->render_ready ? mjscene_choice() : NULL;
    return choice ? choice : "native";
}

#else

const char* render_name(const env_spec* spec) {
    (void)spec;
    return "native";
}

firm_status render_compare(const env_spec* spec, const char* gl, int states, uint64_t seed,
                           const char* picture, render_report* out, firm_error* err) {
    (void)gl, (void)seed, (void)picture;
    *out = (render_report){.states = states};
    return FAIL(err, FIRM_E_UNAVAILABLE, "%s has one renderer only in this build", spec->task.name);
}

#endif

const char* render_label(const env_spec* spec) {
    const char* name = render_name(spec);
    return strcmp(name, "native") == 0 ? spec->sim->renderer : name;
}
