// lewm_costs.c - what a LeWM model of firm says of plans, through the public header alone: the part of
// lewm_exchange.py that runs here.
//
//     lewm_costs MODEL PICTURES PLANS COUNT
//
// PICTURES holds the start and the goal as raw RGB bytes, PLANS COUNT plans of five macro actions of raw
// controls, float32. Prints the distance between the goal's latent and that after each macro action (root
// mean square over their numbers), six a line.
#include <firm.h>
#include <stdio.h>
#include <stdlib.h>

enum { MACROS = 5 };

static void* read_file(const char* path, size_t bytes) {
    FILE* f = fopen(path, "rb");
    void* to = malloc(bytes);
    if (!f || !to || fread(to, 1, bytes, f) != bytes) {
        fprintf(stderr, "lewm_costs: %s does not hold %zu bytes\n", path, bytes);
        exit(2);
    }
    fclose(f);
    return to;
}

static void must(firm_status status, const char* message) {
    if (status == FIRM_OK) return;
    fprintf(stderr, "lewm_costs: %s\n", message);
    exit(2);
}

int main(int argc, char** argv) {
    firm_model* model;
    firm_controller* ctl;
    firm_model_info info;
    firm_error err;
    if (argc != 5) {
        fprintf(stderr, "usage: lewm_costs MODEL PICTURES PLANS COUNT\n");
        return 2;
    }
    const int count = (int)strtol(argv[4], NULL, 10);
    firm_controller_params p = firm_controller_params_default();
    p.mode = FIRM_MODE_CONTRACT;
    p.threads = 1;
    must(firm_model_load(argv[1], &model, &err), err.message);
    must(firm_model_info_get(model, &info), "no info");
    const size_t frame = (size_t)info.image_size * (size_t)info.image_size * 3,
                 plan = (size_t)(MACROS * info.controls_per_macro * info.action_dim);
    unsigned char* rgb = read_file(argv[2], 2 * frame);
    float *plans = read_file(argv[3], (size_t)count * plan * sizeof *plans), distance[MACROS + 1];
    must(firm_controller_create(model, &p, &ctl, &err), err.message);
    must(firm_controller_push(ctl, rgb, NULL), "the frame was not taken");
    must(firm_controller_goal(ctl, rgb + frame), "the goal was not taken");
    for (int i = 0; i < count; i++) {
        must(firm_controller_predict(ctl, plans + (size_t)i * plan, MACROS, NULL, distance), "no prediction");
        for (int k = 0; k <= MACROS; k++) printf("%.9g%c", (double)distance[k], k < MACROS ? ' ' : '\n');
    }
    firm_controller_free(ctl);
    firm_model_free(model);
    free(rgb);
    free(plans);
    return 0;
}
