// checks.c - the checks of `firm check`, cheapest first. All of them walk: a start from a seed,
// then controls with actions uniform in the bounds, each held for a while.
#include "data/checks.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/pool.h"
#include "data/branches.h"
#include "data/hdf5.h"

enum {
    CONTROLS = 60,
    STARTS = 8,
    HELD = 4,
    EVERY = 6,
    EPISODES = 12,
    ANCHORS = 8,
    THREADS = 4,
    FAR = 25
};
#define SLOWEST_MS 500.0  // of a control or a picture; data sets have 100,000s of them

// One walk: states, and hashes of the pictures where asked for.
typedef struct trail {
    double state[(CONTROLS + 1) * ENV_MAX_STATE];
    float action[CONTROLS * FIRM_MAX_ACTION];
    uint64_t picture[CONTROLS + 1];
    int rows;  // until the simulator broke down
} trail;

typedef struct bench {
    const env_spec* spec;
    env *a, *b;
    trail *one, *two;
    uint8_t *rgb, *other;
    size_t bytes;  // of a picture
} bench;

static void say(check_result* r, int pass, double figure, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
static void say(check_result* r, int pass, double figure, const char* format, ...) {
    va_list more;
    va_start(more, format);
    vsnprintf(r->sentence, sizeof r->sentence, format, more);
    va_end(more);
    r->pass = pass;
    r->figure = figure;
}

// ---- walking ----

static const double* row_of(const bench* w, const trail* t, int row) {
    return t->state + (size_t)row * (size_t)w->spec->state->dim;
}

static void draw_action(const task_typed* t, rng* g, float* action) {
    for (int i = 0; i < t->action_dim; i++)
        action[i] = (float)rng_uniform(g, (double)t->action_low, (double)t->action_high);
}

static rng walk_rng(uint64_t seed) {
    return rng_start(seed, RNG_STREAM(RNG_COLLECT, 0));
}

// Notes a row; 0: the simulator broke down.
static int note(const bench* w, env* e, trail* t, int row, uint8_t* rgb) {
    w->spec->sim->state_get(e, t->state + (size_t)row * (size_t)w->spec->state->dim);
    t->rows = row + 1;
    if (e->fault != FIRM_OK || !env_fits(w->spec, row_of(w, t, row))) return 0;
    if (rgb) {
        w->spec->sim->render(e, rgb);
        t->picture[row] = hdf5_hash(HDF5_HASH_START, rgb, w->bytes);
    }
    return 1;
}

static void take_step(const bench* w, env* e, trail* t, int control, rng* g) {
    const int n = w->spec->task.action_dim;
    float* action = t->action + control * n;
    if (control % HELD == 0)
        draw_action(&w->spec->task, g, action);
    else
        memcpy(action, action - n, (size_t)n * sizeof *action);
    w->spec->sim->step(e, action);
}

// rgb: scratch for pictures; NULL: none.
static int walk(const bench* w, env* e, uint64_t seed, trail* t, uint8_t* rgb) {
    rng g = walk_rng(seed);
    w->spec->sim->reset(e, &g);
    int fine = note(w, e, t, 0, rgb);
    for (int i = 0; i < CONTROLS && fine; i++) {
        take_step(w, e, t, i, &g);
        fine = note(w, e, t, i + 1, rgb);
    }
    return fine;
}

static int same_rows(const bench* w, const trail* a, const trail* b, int pictures) {
    for (int i = 0; i < a->rows && i < b->rows; i++)
        if (memcmp(row_of(w, a, i), row_of(w, b, i), (size_t)w->spec->state->dim * 8) != 0 ||
            (pictures && a->picture[i] != b->picture[i]))
            return i;
    return a->rows == b->rows ? a->rows : a->rows < b->rows ? a->rows : b->rows;
}

static double apart(const bench* w, const double* state, const double* other) {
    float c[FIRM_MAX_CONFIG], d[FIRM_MAX_CONFIG];
    env_config(w->spec, state, c);
    env_config(w->spec, other, d);
    return (double)task_tolerance_units(&w->spec->task, c, d);
}

// Walks or says why not.
static int walked(bench* w, uint64_t seed, uint8_t* rgb, check_result* r) {
    if (walk(w, w->a, seed, w->one, rgb)) return 1;
    say(r, 0, w->one->rows - 1,
        "after %d controls from start %d a state is not finite or does not fit", w->one->rows - 1,
        (int)seed);
    return 0;
}

// ---- the checks ----

static void check_starts(bench* w, check_result* r) {
    int different = 0;
    for (int i = 0; i < STARTS; i++) {
        rng g = walk_rng((uint64_t)i);
        w->spec->sim->reset(w->a, &g);
        if (!note(w, w->a, i ? w->two : w->one, 0, NULL)) {
            say(r, 0, i, "start %d has a state that is not finite or does not fit", i);
            return;
        }
        different += i && memcmp(row_of(w, w->one, 0), row_of(w, w->two, 0),
                                 (size_t)w->spec->state->dim * 8) != 0;
    }
    if (different == 0)
        say(r, 0, 1, "%d starts are all the same; draw them from the random numbers given", STARTS);
    else
        say(r, 1, different + 1, "%d random starts, %d of them different", STARTS, different + 1);
}

static int odd_number(const bench* w, int row, char* what, size_t room) {
    const task_typed* t = &w->spec->task;
    float c[FIRM_MAX_CONFIG], chi[TASK_MAX_CHI];
    const double *now = row_of(w, w->one, row), *before = row ? row_of(w, w->one, row - 1) : now,
                 *macro = row_of(w, w->one, row < t->controls ? 0 : row - t->controls);
    env_config(w->spec, now, c);
    env_chi(w->spec, now, before, macro, chi);
    for (int i = 0; i < t->config_dim; i++)
        if (!isfinite(c[i])) return snprintf(what, room, "%s is not finite", t->config_name[i]);
    for (int i = 0; i < t->pairs; i++)
        if (!(fabsf(c[2 * i] * c[2 * i] + c[2 * i + 1] * c[2 * i + 1] - 1) < 1e-3f))
            return snprintf(what, room, "%s and %s are no sine and cosine", t->config_name[2 * i],
                            t->config_name[2 * i + 1]);
    for (int i = 0; i < t->chi_dim; i++)
        if (!isfinite(chi[i])) return snprintf(what, room, "number %d of chi is not finite", i);
    return 0;
}

static void check_numbers(bench* w, check_result* r) {
    for (int s = 0; s < STARTS; s++) {
        char what[160];
        if (!walked(w, (uint64_t)s, NULL, r)) return;
        for (int row = 0; row <= CONTROLS; row++)
            if (odd_number(w, row, what, sizeof what)) {
                say(r, 0, row, "after %d controls from start %d %s", row, s, what);
                return;
            }
    }
    say(r, 1, STARTS * CONTROLS, "states, coordinates and chi are finite over %d controls",
        STARTS * CONTROLS);
}

// The lowest against the highest actions, from the same start. What the goal is about may need more
// than that to move (a grasp), so any change of the state will do.
static void check_actions(bench* w, check_result* r) {
    const task_typed* t = &w->spec->task;
    int moved = 0;
    double most = 0;
    for (int s = 0; s < STARTS; s++) {
        double end[2][ENV_MAX_STATE];
        for (int k = 0; k < 2; k++) {
            rng g = walk_rng((uint64_t)s);
            float action[FIRM_MAX_ACTION];
            for (int i = 0; i < t->action_dim; i++) action[i] = k ? t->action_high : t->action_low;
            w->spec->sim->reset(w->a, &g);
            for (int i = 0; i < FAR; i++) w->spec->sim->step(w->a, action);
            w->spec->sim->state_get(w->a, end[k]);
        }
        moved += memcmp(end[0], end[1], (size_t)w->spec->state->dim * sizeof(double)) != 0;
        if (env_fits(w->spec, end[0]) && env_fits(w->spec, end[1]))
            most = fmax(most, apart(w, end[0], end[1]));
    }
    if (moved == 0)
        say(r, 0, 0, "%d lowest and %d highest actions end in the same state; step ignores them",
            FAR, FAR);
    else
        say(r, 1, most, "%d lowest and %d highest actions end up to %.3g tolerance units apart",
            FAR, FAR, most);
}

static void check_repeats(bench* w, check_result* r) {
    for (int s = 0; s < STARTS / 2; s++) {
        if (!walked(w, (uint64_t)s, w->rgb, r)) return;
        walk(w, w->b, (uint64_t)s, w->two, w->other);
        int same = same_rows(w, w->one, w->two, 1);
        if (same <= CONTROLS) {
            say(r, 0, same,
                "the same start and actions give another state or picture after %d controls; use "
                "no "
                "clock, no random numbers but those given, and no variables outside the simulator",
                same);
            return;
        }
    }
    say(r, 1, 0, "the same start and actions give the same states and pictures, bit for bit");
}

static void check_restores(bench* w, check_result* r) {
    double worst = 0;
    for (int s = 0; s < STARTS; s++) {
        if (!walked(w, (uint64_t)s, NULL, r)) return;
        for (int row = 0; row <= CONTROLS; row += EVERY) {
            double back[ENV_MAX_STATE];
            walk(w, w->b, (uint64_t)(STARTS + s), w->two, NULL);  // somewhere else
            env_recall(w->b, row_of(w, w->one, row));
            if (w->b->fault != FIRM_OK) {
                say(r, 0, row, "a recorded state cannot be set again");
                return;
            }
            w->spec->sim->state_get(w->b, back);
            worst = fmax(worst, apart(w, back, row_of(w, w->one, row)));
        }
    }
    if (worst > 0.25)
        say(r, 0, worst,
            "a state that was set is %.3g tolerance units away from what is read back; state_set "
            "must bring the whole moment back",
            worst);
    else
        say(r, 1, worst, "recorded states are set and read back within %.2g tolerance units",
            worst);
}

static void check_replays(bench* w, check_result* r) {
    firm_error err = {0};
    pool* p = NULL;
    episodes* e = NULL;
    audit_result audit = {0};
    collect_options opt = {.episodes = EPISODES, .seed = 1};
    firm_status status = pool_create(1, &p, &err);
    if (status == FIRM_OK) status = episodes_collect(w->spec, &opt, p, &e, &err);
    if (status == FIRM_OK) status = branches_audit(e, ANCHORS, 1, 1, p, &audit, &err);
    episodes_free(e);
    pool_free(p);
    if (status != FIRM_OK)
        say(r, 0, NAN, "%.300s", err.message);
    else if (!audit.pass)
        say(r, 0, audit.max,
            "restored moments replay up to %.3g tolerance units beside the recording (P95 %.3g; "
            "0.25 and at most 1 are allowed); the state leaves something out",
            audit.max, audit.h5_p95);
    else
        say(r, 1, audit.max, "%d restored moments replay within %.2g tolerance units",
            audit.anchors, audit.max);
}

// Colours of a picture, counted up to 2.
static int colours(const bench* w, const uint8_t* rgb) {
    for (size_t i = 3; i < w->bytes; i++)
        if (rgb[i] != rgb[i % 3]) return 2;
    return 1;
}

static void check_pictures(bench* w, check_result* r) {
    int shown = 0;
    for (int s = 0; s < STARTS / 2; s++) {
        if (!walked(w, (uint64_t)s, w->rgb, r)) return;
        walk(w, w->b, (uint64_t)(STARTS + s), w->two, NULL);
        for (int row = 0; row <= CONTROLS; row += EVERY, shown++) {
            const double* state = row_of(w, w->one, row);
            memset(w->rgb, 0x55, w->bytes);
            memset(w->other, 0xaa, w->bytes);
            if (env_picture(w->a, state, w->rgb) != FIRM_OK ||
                env_picture(w->b, state, w->other) != FIRM_OK) {
                say(r, 0, shown, "a recorded state cannot be drawn");
                return;
            }
            if (memcmp(w->rgb, w->other, w->bytes) != 0) {
                say(r, 0, shown,
                    "two pictures of one state differ; every byte of a picture must be written and "
                    "follow from the state alone");
                return;
            }
            if (colours(w, w->rgb) == 1) {
                say(r, 0, shown, "a picture has one colour only; render draws nothing");
                return;
            }
            if (hdf5_hash(HDF5_HASH_START, w->rgb, w->bytes) != w->one->picture[row] &&
                !w->spec->sim->picture) {
                say(r, 0, shown,
                    "the picture of a state that was set is not the one drawn when the state came "
                    "about; the picture shows something that the state leaves out");
                return;
            }
        }
    }
    say(r, 1, shown, "%d pictures follow from their states, byte for byte", shown);
}

// Configurations that the tolerances tell apart must look different.
static void check_looks(bench* w, check_result* r) {
    double least = 1;
    int pairs = 0;
    for (int s = 0; s < STARTS; s++) {
        if (!walked(w, (uint64_t)s, NULL, r)) return;
        walk(w, w->b, (uint64_t)(STARTS + s), w->two, NULL);
        for (int row = 0; row < w->two->rows && row <= CONTROLS; row += EVERY) {
            const double *a = row_of(w, w->one, row), *b = row_of(w, w->two, row);
            float c[FIRM_MAX_CONFIG], d[FIRM_MAX_CONFIG];
            env_config(w->spec, a, c);
            env_config(w->spec, b, d);
            if (apart(w, a, b) < 2 || !task_is_visible(&w->spec->task, c) ||
                !task_is_visible(&w->spec->task, d) || env_picture(w->a, a, w->rgb) != FIRM_OK ||
                env_picture(w->b, b, w->other) != FIRM_OK)
                continue;
            size_t different = 0;
            for (size_t i = 0; i < w->bytes; i++) different += w->rgb[i] != w->other[i];
            least = fmin(least, (double)different / (double)w->bytes);
            pairs++;
        }
    }
    if (pairs == 0)
        say(r, 0, 0, "no two states of %d walks are two tolerances apart; nothing moves far enough",
            STARTS);
    else if (least == 0)
        say(r, 0, 0,
            "two states more than two tolerances apart have the same picture; a controller cannot "
            "tell them from pixels");
    else
        say(r, 1, 100 * least,
            "%d pairs of states two tolerances apart differ in at least %.3g %% of their bytes",
            pairs, 100 * least);
}

static void check_goals(bench* w, check_result* r) {
    int solved = 0, pairs = 0;
    for (int s = 0; s < STARTS; s++) {
        if (!walked(w, (uint64_t)s, NULL, r)) return;
        walk(w, w->b, (uint64_t)(STARTS + s), w->two, NULL);
        for (int row = 0; row < w->two->rows && row <= CONTROLS; row += EVERY, pairs++) {
            const double* now = row_of(w, w->one, row);
            if (!env_success(w->spec, now, now)) {
                say(r, 0, row, "a state is no success where it is itself the goal");
                return;
            }
            solved += env_success(w->spec, now, row_of(w, w->two, row)) != 0;
        }
    }
    if (solved == pairs)
        say(r, 0, 100, "any state counts as success for any goal: there is nothing to plan");
    else
        say(r, 1, 100.0 * solved / pairs,
            "%.3g %% of states and goals of other episodes are solved", 100.0 * solved / pairs);
}

static void check_speed(bench* w, check_result* r) {
    double begun = clock_seconds();
    if (!walked(w, 0, NULL, r)) return;
    const double control = 1e3 * (clock_seconds() - begun) / CONTROLS;
    begun = clock_seconds();
    for (int i = 0; i < STARTS; i++) w->spec->sim->render(w->a, w->rgb);
    const double picture = 1e3 * (clock_seconds() - begun) / STARTS;
    say(r, control < SLOWEST_MS && picture < SLOWEST_MS, control + picture,
        "%.3g ms a control and %.3g ms a picture%s", control, picture,
        control < SLOWEST_MS && picture < SLOWEST_MS
            ? ""
            : "; a data set has 100,000 of them: make the simulator faster");
}

typedef struct crowd {
    const bench* w;
    env** e;
    trail** t;
    uint8_t** rgb;
} crowd;

static void walk_one(void* arg, int item, int worker) {
    (void)worker;
    crowd* c = arg;
    walk(c->w, c->e[item], 7, c->t[item], c->rgb[item]);
}

// Side by side: two simulators take turns in one thread, then several run in threads.
static int alternate(bench* w) {
    rng g[2] = {walk_rng(7), walk_rng(8)};
    env* e[2] = {w->a, w->b};
    trail* t = w->two;
    for (int k = 0; k < 2; k++) w->spec->sim->reset(e[k], &g[k]);
    note(w, w->a, t, 0, w->rgb);
    for (int i = 0; i < CONTROLS; i++) {
        float action[FIRM_MAX_ACTION];
        take_step(w, w->a, t, i, &g[0]);
        draw_action(&w->spec->task, &g[1], action);
        w->spec->sim->step(w->b, action);
        note(w, w->a, t, i + 1, w->rgb);
    }
    return same_rows(w, w->one, t, 1);
}

static firm_status in_threads(bench* w, int* same, firm_error* err) {
    crowd c = {w, NULL, NULL, NULL};
    pool* p = NULL;
    firm_status status = pool_create(THREADS, &p, err);
    if (status == FIRM_OK) status = env_create_many(w->spec, THREADS, &c.e, err);
    if (status == FIRM_OK) status = env_render_ready(c.e, THREADS, err);
    c.t = mem_calloc(THREADS, sizeof *c.t);
    c.rgb = mem_calloc(THREADS, sizeof *c.rgb);
    for (int i = 0; i < THREADS && c.t && c.rgb; i++) {
        c.t[i] = mem_calloc(1, sizeof **c.t);
        c.rgb[i] = mem_calloc(1, w->bytes);
        if (!c.t[i] || !c.rgb[i]) status = FAIL(err, FIRM_E_MEMORY, "no memory for simulators");
    }
    if (!c.t || !c.rgb) status = FAIL(err, FIRM_E_MEMORY, "no memory for simulators");
    if (status == FIRM_OK) {
        pool_for(p, THREADS, walk_one, &c);
        for (int i = 0; i < THREADS; i++) {
            int s = same_rows(w, w->one, c.t[i], 1);
            *same = s < *same ? s : *same;
        }
    }
    for (int i = 0; i < THREADS && c.t && c.rgb; i++) mem_free(c.t[i]), mem_free(c.rgb[i]);
    mem_free(c.t);
    mem_free(c.rgb);
    env_free_many(c.e, THREADS);
    pool_free(p);
    return status;
}

static void check_together(bench* w, check_result* r) {
    firm_error err = {0};
    if (!walked(w, 7, w->rgb, r)) return;
    int same = alternate(w);
    if (same <= CONTROLS) {
        say(r, 0, same,
            "a simulator moves otherwise after %d controls when another one runs beside it; keep "
            "everything inside the simulator, in no variable outside of it",
            same);
        return;
    }
    if (in_threads(w, &same, &err) != FIRM_OK)
        say(r, 0, NAN, "%.300s", err.message);
    else if (same <= CONTROLS)
        say(r, 0, same,
            "%d threads, each with a simulator of its own, give another state or picture after %d "
            "controls; functions must not share anything that changes",
            THREADS, same);
    else
        say(r, 1, THREADS, "%d threads give the same states and pictures as one", THREADS);
}

// ---- the list ----

static const struct {
    const char* name;
    void (*run)(bench* w, check_result* r);
} checks[] = {
    {"starts", check_starts},     {"numbers", check_numbers},   {"actions", check_actions},
    {"repeats", check_repeats},   {"restores", check_restores}, {"replays", check_replays},
    {"pictures", check_pictures}, {"looks", check_looks},       {"goals", check_goals},
    {"speed", check_speed},       {"together", check_together}};

const char* check_name(int i) {
    return i >= 0 && i < (int)(sizeof checks / sizeof *checks) ? checks[i].name : NULL;
}

firm_status check_run(int i, const env_spec* spec, check_result* out, firm_error* err) {
    bench w = {.spec = spec, .bytes = task_frame_bytes(&spec->task)};
    *out = (check_result){0};
    w.one = mem_calloc(1, sizeof *w.one);
    w.two = mem_calloc(1, sizeof *w.two);
    w.rgb = mem_calloc(1, w.bytes);
    w.other = mem_calloc(1, w.bytes);
    firm_status status = w.one && w.two && w.rgb && w.other
                             ? FIRM_OK
                             : FAIL(err, FIRM_E_MEMORY, "no memory to check %s", spec->task.name);
    if (status == FIRM_OK) status = env_create(spec, &w.a, err);
    if (status == FIRM_OK) status = env_create(spec, &w.b, err);
    if (status == FIRM_OK) status = env_render_ready(&w.a, 1, err);
    if (status == FIRM_OK) status = env_render_ready(&w.b, 1, err);
    if (status == FIRM_OK) checks[i].run(&w, out);
    env_free(w.a);
    env_free(w.b);
    mem_free(w.one);
    mem_free(w.two);
    mem_free(w.rgb);
    mem_free(w.other);
    return status;
}
