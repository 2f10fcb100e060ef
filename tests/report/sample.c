// sample.c - the generator behind sample.h. Pictures follow the drawing rules of TwoRoom closely
// enough to look at: white rooms, black walls, a red dot.
#include "sample.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "io/image.h"
#include "io/json.h"

enum { SIDE = 224 };

static void draw_rooms(double x, double y, uint8_t* rgb) {
    for (int row = 0; row < SIDE; row++) {
        for (int col = 0; col < SIDE; col++) {
            int border = (col >= 10 && col < 14) || (col >= 210 && col < 214) ||
                         (row >= 10 && row < 14) || (row >= 210 && row < 214);
            int wall = col >= 107 && col <= 117 && (row < 35 || row > 63);
            double base = border || wall ? 0 : 255,
                   w = exp(-((col - x) * (col - x) + (row - y) * (row - y)) / 98);
            uint8_t* p = rgb + 3 * (row * SIDE + col);
            p[0] = (uint8_t)(base * (1 - w) + 255 * w);
            p[1] = p[2] = (uint8_t)(base * (1 - w));
        }
    }
}

static void add_picture(cJSON* to, const char* key, double x, double y) {
    static uint8_t rgb[SIDE * SIDE * 3];
    uint8_t* png = NULL;
    size_t n = 0;
    firm_error err;
    draw_rooms(x, y, rgb);
    if (image_encode_png(SIDE, SIDE, rgb, &png, &n, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "no sample picture: %s", err.message);
        return;
    }
    char* text = image_base64(png, n);
    cJSON_AddStringToObject(to, key, text);
    mem_free(text);
    mem_free(png);
}

// One control of the way through the door to the goal.
static void advance(double* x, double* y, double gx, double gy) {
    double tx = gx, ty = gy;
    if (*x < 118 && gx > 118) tx = *x < 98 && fabs(*y - 49) > 9 ? 96 : 125, ty = 49;
    double dx = tx - *x, dy = ty - *y, d = hypot(dx, dy);
    if (d > 5) dx *= 5 / d, dy *= 5 / d;
    *x += dx;
    *y += dy;
}

static cJSON* point(double x, double y) {
    cJSON* p = cJSON_CreateArray();
    cJSON_AddItemToArray(p, cJSON_CreateNumber(round(x * 10) / 10));
    cJSON_AddItemToArray(p, cJSON_CreateNumber(round(y * 10) / 10));
    return p;
}

static cJSON* path_from(double x, double y, double gx, double gy, double turn, double stretch) {
    cJSON* path = cJSON_CreateArray();
    double px = x, py = y, c = cos(turn) * stretch, s = sin(turn) * stretch;
    for (int k = 0; k <= 5; k++) {
        double rx = px - x, ry = py - y;
        cJSON_AddItemToArray(path, point(x + c * rx - s * ry, y + s * rx + c * ry));
        for (int i = 0; i < 5; i++) advance(&px, &py, gx, gy);
    }
    return path;
}

cJSON* sample_trace(int frames, const char* task, const char* mode) {
    double x = 52, y = 150, gx = 176, gy = 138;
    cJSON *t = cJSON_CreateObject(), *list, *d;
    rng r = rng_start(7, RNG_STREAM(RNG_TEST, 1));
    cJSON_AddStringToObject(t, "task", task);
    cJSON_AddStringToObject(t, "mode", mode);
    cJSON_AddStringToObject(t, "arm", "firm");
    cJSON_AddNumberToObject(t, "start_row", 31);
    add_picture(t, "goal_png", gx, gy);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(t, "goal_xy"), point(gx, gy));
    cJSON_AddNumberToObject(t, "tolerance", 16);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(t, "distances"), d = cJSON_CreateObject());
    cJSON_AddStringToObject(d, "name", "agent");
    cJSON_AddStringToObject(d, "unit", "px");
    cJSON_AddNumberToObject(d, "tolerance", 16);
    list = cJSON_AddArrayToObject(t, "frames");
    for (int i = 0; i < frames; i++) {
        cJSON *f = cJSON_CreateObject(), *a;
        double lx = x, ly = y;
        cJSON_AddItemToArray(list, f);
        cJSON_AddNumberToObject(f, "step", i);
        add_picture(f, "png", x, y);
        if (i % 5 == 0) {
            cJSON* fan = cJSON_CreateArray();
            for (int k = 0; k < 32; k++)
                cJSON_AddItemToArray(
                    fan, path_from(x, y, gx, gy, 0.5 * rng_gauss(&r), 1 + 0.2 * rng_gauss(&r)));
            cJSON_AddItemToObject(f, "plan_xy", path_from(x, y, gx, gy, 0.03, 1));
            cJSON_AddItemToObject(f, "fan_xy", fan);
        }
        cJSON_AddNumberToObject(f, "solved", i % 5 == 0);
        cJSON_AddNumberToObject(f, "solve_ms", i % 5 == 0 ? 11.8 + 0.1 * i : 0);
        cJSON_AddNumberToObject(f, "arrival", 5);
        cJSON_AddItemToArray(cJSON_AddArrayToObject(f, "distance"),
                             json_number(fabs(hypot(x - gx, y - gy) + 0.2 * rng_gauss(&r)), 4));
        cJSON_AddItemToArray(cJSON_AddArrayToObject(f, "planned"), json_number(1.2, 4));
        advance(&x, &y, gx, gy);
        a = cJSON_AddArrayToObject(f, "action");
        cJSON_AddItemToArray(a, json_number((x - lx) / 5, 3));
        cJSON_AddItemToArray(a, json_number((y - ly) / 5, 3));
    }
    cJSON_AddBoolToObject(t, "success", hypot(x - gx, y - gy) < 16);
    return t;
}

static void add_arm(cJSON* arms, const char* name, int seed, double rate, double ms) {
    cJSON *arm = cJSON_AddObjectToObject(arms, name), *ci, *outcomes;
    rng hard = rng_start(5, RNG_STREAM(RNG_TEST, 2)),
        luck = rng_start((uint64_t)seed, RNG_STREAM(RNG_TEST, rng_hash_text(name) & 0xffff));
    int wins = 0, start = 0;
    outcomes = cJSON_CreateArray();
    for (int i = 0; i < 100; i++) {
        // a trial has its own difficulty, shared by all arms
        double difficulty = 0.6 * rng_uniform(&hard, 0, 100) + 0.4 * rng_uniform(&luck, 0, 100);
        int at_start = i % 11 == 4, won = at_start || difficulty < rate;
        wins += won;
        start += at_start;
        cJSON_AddItemToArray(outcomes, cJSON_CreateNumber(at_start ? 2 : won));
    }
    double half = 196 * sqrt(wins / 100.0 * (1 - wins / 100.0) / 100);
    cJSON_AddNumberToObject(arm, "successes", wins);
    cJSON_AddNumberToObject(arm, "success_rate", wins);
    cJSON_AddItemToObject(arm, "ci95", ci = cJSON_CreateArray());
    cJSON_AddItemToArray(ci, json_number(fmax(0, wins - half), 4));
    cJSON_AddItemToArray(ci, json_number(fmin(100, wins + half), 4));
    cJSON_AddNumberToObject(arm, "solved_at_start", start);
    json_add_number(arm, "success_rate_unsolved", 100.0 * (wins - start) / (100 - start), 4);
    if (ms > 0) {
        json_add_number(arm, "seconds_per_episode", ms * 2.1 / 1000, 4);
        json_add_number(arm, "ms_per_solve", ms, 4);
    } else {
        cJSON_AddNullToObject(arm, "seconds_per_episode");
        cJSON_AddNullToObject(arm, "ms_per_solve");
    }
    cJSON_AddItemToObject(arm, "outcomes", outcomes);
}

cJSON* sample_eval(const char* task, const char* mode, int offset, int seed, double rate) {
    cJSON *e = cJSON_CreateObject(), *arms, *p, *ci;
    cJSON_AddStringToObject(e, "task", task);
    cJSON_AddStringToObject(e, "model", "models/tworoom.safetensors");
    cJSON_AddStringToObject(e, "mode", mode);
    cJSON_AddStringToObject(e, "config_hash", "9f3ac41d0b77e215");
    char text[96];
    snprintf(text, sizeof text, "version=100 seed=%d sources=FI data_seed=7 data_hash=0123", seed);
    cJSON_AddStringToObject(e, "provenance", text);
    cJSON_AddNumberToObject(e, "seed", 42);
    cJSON_AddNumberToObject(e, "offset", offset);
    cJSON_AddNumberToObject(e, "trials", 100);
    arms = cJSON_AddObjectToObject(e, "arms");
    add_arm(arms, "firm", seed, rate, 318.2);
    add_arm(arms, "oracle-dynamics", 9, rate + 1.5, 41.5);
    add_arm(arms, "oracle-config", seed + 20, rate + 0.5, 318.9);
    add_arm(arms, "random", 9, 30, 0);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(e, "pairs"), p = cJSON_CreateObject());
    cJSON_AddStringToObject(p, "a", "firm");
    cJSON_AddStringToObject(p, "b", "random");
    cJSON_AddNumberToObject(p, "difference", 71);
    cJSON_AddItemToObject(p, "ci95", ci = cJSON_CreateArray());
    cJSON_AddItemToArray(ci, cJSON_CreateNumber(62));
    cJSON_AddItemToArray(ci, cJSON_CreateNumber(80));
    cJSON_AddNumberToObject(p, "rescue", 72);
    cJSON_AddNumberToObject(p, "harm", 1);
    return e;
}

static void add_series(cJSON* to, const char* key, double scale) {
    cJSON* a = cJSON_AddArrayToObject(to, key);
    for (int k = 1; k <= 5; k++)
        cJSON_AddItemToArray(a, json_number(scale * (0.3 + pow(k, 1.3)), 4));
}

cJSON* sample_train(const char* task, int seed) {
    static const struct {
        const char* name;
        int updates;
        double gate, limit;
    } stages[] = {{"tokenizer", 500, 0, 0},
                  {"grounder", 1000, 0.0104, 0.03},
                  {"history", 500, 0, 0},
                  {"factual", 3000, 0.041, 0.2},
                  {"joint", 3000, 0.028, 0.1}};
    cJSON *t = cJSON_CreateObject(), *list, *gates;
    cJSON_AddStringToObject(t, "task", task);
    cJSON_AddNumberToObject(t, "seed", seed);
    cJSON_AddStringToObject(t, "device", "cpu");
    cJSON_AddNumberToObject(t, "threads", 2);
    cJSON_AddNumberToObject(t, "version", 100);
    cJSON_AddStringToObject(t, "config_hash", "9f3ac41d0b77e215");
    list = cJSON_AddArrayToObject(t, "stages");
    for (int i = 0; i < 5; i++) {
        cJSON* s = cJSON_CreateObject();
        cJSON_AddItemToArray(list, s);
        cJSON_AddStringToObject(s, "name", stages[i].name);
        cJSON_AddNumberToObject(s, "updates", stages[i].updates);
        cJSON_AddNumberToObject(s, "seconds", 180.5 * (i + 1));
        if (stages[i].limit > 0) {
            cJSON_AddNumberToObject(s, "gate", stages[i].gate * (1 + 0.1 * seed));
            cJSON_AddNumberToObject(s, "gate_limit", stages[i].limit);
            cJSON_AddBoolToObject(s, "pass", 1);
        }
    }
    cJSON_AddNumberToObject(t, "seconds", 4102);
    cJSON_AddStringToObject(t, "model", "model.safetensors");
    gates = cJSON_AddObjectToObject(t, "gates");
    cJSON_AddNumberToObject(gates, "grounder_error_px", 0.166);
    add_series(gates, "rollout_error", 0.0032 * (1 + 0.15 * seed));
    add_series(gates, "rollout_error_p95", 0.0078 * (1 + 0.15 * seed));
    return t;
}

void sample_metrics(const char* folder, int seed) {
    static const char* const stages[] = {"tokenizer", "grounder", "history", "factual", "joint"};
    static const int updates[] = {500, 1000, 500, 3000, 3000};
    size_t room = 400000, n = 0;
    char* text = mem_alloc(room);
    if (!text) {
        test_fail(__FILE__, __LINE__, "out of memory");
        return;
    }
    rng r = rng_start((uint64_t)seed, RNG_STREAM(RNG_TEST, 3));
    n += (size_t)snprintf(
        text, room,
        "stage,update,loss,config,displacement,tail,nll,i_config,i_tail,grad_norm,lr,seconds\n");
    for (int s = 0; s < 5; s++) {
        for (int u = 10; u <= updates[s]; u += 10) {
            double noise = exp(0.25 * rng_gauss(&r)),
                   fall = 0.002 + exp(-u / (0.12 * updates[s])) * 0.4;
            n += (size_t)snprintf(text + n, room - n, "%s,%d,", stages[s], u);
            char* at = text + n;
            size_t left = room - n;
            double nll = -1.2 + 2 * fall + 0.1 * log(noise), rollout = 0.1 * fall * noise;
            if (s == 2) {
                n += (size_t)snprintf(at, left, "%.5g,,,,%.5g,,,", nll, nll);
            } else if (s < 2) {
                n += (size_t)snprintf(at, left, "%.5g,%.5g,,,,,,", 5 * rollout, 4 * rollout);
            } else if (s == 3) {
                n += (size_t)snprintf(at, left, "%.5g,%.5g,%.5g,%.5g,,,,", rollout, 0.5 * rollout,
                                      0.2 * rollout, 0.3 * rollout * noise);
            } else {
                n += (size_t)snprintf(at, left, "%.5g,%.5g,%.5g,%.5g,,%.5g,%.5g,", 2 * rollout,
                                      0.5 * rollout, 0.2 * rollout, 0.3 * rollout, 0.6 * rollout,
                                      0.4 * rollout);
            }
            n += (size_t)snprintf(text + n, room - n, "%.3g,%.4g,%.1f\n", noise, 3e-4, 0.05 * u);
        }
    }
    sample_put(folder, "metrics.csv", text);
    mem_free(text);
}

void sample_folder(const char* name, char path[1024]) {
    firm_error err;
    snprintf(path, 1024, "%s/%s", test_temp_dir(), name);
    if (file_make_dirs(path, &err) != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
}

void sample_put(const char* folder, const char* name, const char* text) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        test_fail(__FILE__, __LINE__, "cannot write %s", path);
}

void sample_put_json(const char* folder, const char* name, cJSON* value) {
    char path[1200];
    firm_error err;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (json_write_file(path, value, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    cJSON_Delete(value);
}

char* sample_read(const char* folder, const char* name, size_t* size) {
    char path[1200], *bytes = NULL;
    firm_error err;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!file_exists(path)) return NULL;
    if (file_read_all(path, &bytes, size, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return bytes;
}

void sample_run(const char* name, int seed, int with_trace, char path[1024]) {
    sample_folder(name, path);
    sample_put(
        path, "config.ini",
        "[train]\nseed = 1\n[plan]\ncandidates = 300\niterations = 30\nelites = 30\nhorizon = 5\n");
    sample_put_json(path, "train.json", sample_train("tworoom", seed));
    sample_put_json(path, "eval-contract-25.json",
                    sample_eval("tworoom", "contract", 25, seed, 97.2 - 0.8 * seed));
    sample_put_json(path, "eval-reach-50.json",
                    sample_eval("tworoom", "reach", 50, seed, 95.5 - 0.6 * seed));
    sample_metrics(path, seed);
    if (!with_trace) return;
    sample_put_json(path, "trace-reach.json", sample_trace(48, "tworoom", "reach"));
    sample_put(path, "bench-plan.json",
               "{\"task\":\"tworoom\",\"device\":\"cpu\",\"threads\":2,\"precision\":\"fp32\",\"ms_"
               "per_solve\":689.4,\"gflops\":168.3,"
               "\"peak_gflops\":184.1,\"fraction_of_peak\":0.914,\"allocations\":0}");
    sample_put(path, "bench-env.json",
               "{\"task\":\"tworoom\",\"threads\":2,\"steps_per_s\":41000000}");
    sample_put(path, "audit.json",
               "{\"task\":\"tworoom\",\"anchors\":128,\"h5_mean\":0,\"h5_p95\":0,\"max\":0,"
               "\"pass\":true}");
    sample_put(path, "params.json",
               "{\"tasks\":{\"tworoom\":{\"frontend\":{\"params\":374816,\"paper_params\":374000},"
               "\"grounder\":{\"params\":1613442},"
               "\"transition\":{\"params\":1424130},\"total\":{\"params\":3412388}}}}");
}
