// control_loop.c - a robot's loop around libfirm: camera frames and one goal image in, actions out.
//
//     control_loop models/tworoom.safetensors [deadline_ms]
//
// Only firm.h is used. The camera and the robot are a stand-in of about fifty lines: a picture of
// two rooms with a red dot, which an action moves by up to 5 px in x and in y. Replace camera() and
// drive() by your own and the rest stays. Each line printed is one control period: how far the goal
// is by name and unit, and what the plan expects. Exit status: 0 reached, 1 not reached, 2 bad
// usage or input.
#include <firm.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 224, MAX_CONTROLS = 100 };

// ---- the stand-in robot: positions in pixels, x to the right, y down
// -----------------------------

typedef struct robot {
    float x, y;
} robot;

static int door(float y) {
    return y >= 35 && y <= 63;
}

// what a camera above the rooms sees: black walls, a soft red dot of 7 px deviation
static void camera(const robot* r, uint8_t* rgb) {
    float nearest = expf(-(powf(r->x - roundf(r->x), 2) + powf(r->y - roundf(r->y), 2)) / 98);
    for (int row = 0; row < SIZE; row++) {
        for (int col = 0; col < SIZE; col++) {
            int border = (row >= 10 && row <= 13) || (row >= 210 && row <= 213) ||
                         (col >= 10 && col <= 13) || (col >= 210 && col <= 213);
            int wall = col >= 107 && col <= 117 && !door((float)row);
            float base = border || wall ? 0 : 255;
            float dx = (float)col - r->x, dy = (float)row - r->y;
            float dot = expf(-(dx * dx + dy * dy) / 98) / nearest;
            uint8_t* pixel = rgb + 3 * (row * SIZE + col);
            pixel[0] = (uint8_t)(base * (1 - dot) + 255 * dot);
            pixel[1] = pixel[2] = (uint8_t)(base * (1 - dot));
        }
    }
}

static float clamp(float v, float low, float high) {
    return v < low ? low : v > high ? high : v;
}

// one control period: the wall between the rooms lets the dot through at the door only
static void drive(robot* r, const float* action) {
    float x = clamp(r->x + 5 * clamp(action[0], -1, 1), 21, 203);
    float y = clamp(r->y + 5 * clamp(action[1], -1, 1), 21, 203);
    if (r->x < 112 && x > 100 && !door(y)) x = 99.5f;
    if (r->x >= 112 && x < 124 && !door(y)) x = 124.5f;
    r->x = x;
    r->y = y;
}

// ---- the loop
// ------------------------------------------------------------------------------------

static void log_line(void* user, firm_log_level level, const char* text) {
    (void)user;
    fprintf(stderr, "%s%s\n", level == FIRM_LOG_WARN ? "warning: " : "", text);
}

// Prints the named distances of one step.
static void report(const firm_model_info* info, const firm_step* step, int control) {
    printf("%3d ", control);
    for (int i = 0; i < info->distance_dim; i++)
        printf(" %s %.1f %s,", info->distance_name[i], step->distance_now[i],
               info->distance_unit[i]);
    printf(" planned %.1f at macro step %d", step->distance_planned[0], step->arrival);
    if (step->solved)
        printf(", solved%s in %.0f ms", step->late ? " (cut short)" : "", step->solve_ms);
    printf("\n");
}

static int run(firm_controller* ctl, const firm_model_info* info, double deadline_ms) {
    static uint8_t frame[SIZE * SIZE * 3];
    robot r = {150, 85};
    firm_status status;

    // the goal is a picture of how things should look, taken here by moving the robot there once
    camera(&r, frame);
    status = firm_controller_goal(ctl, frame);
    if (status != FIRM_OK) goto failed;

    r = (robot){75, 80};
    firm_step step = {0};
    for (int control = 0; control <= MAX_CONTROLS; control++) {
        camera(&r, frame);
        status = firm_controller_push(ctl, frame, control ? step.action : NULL);
        if (status != FIRM_OK) goto failed;
        int64_t deadline = deadline_ms > 0 ? firm_clock_ns() + (int64_t)(deadline_ms * 1e6) : 0;
        status = firm_controller_act(ctl, deadline, &step);
        if (status != FIRM_OK) goto failed;
        report(info, &step, control);
        if (step.strange > 1)
            printf("     the picture is unlike those of the training: %.1f\n", step.strange);
        if (step.reached) {
            printf("reached after %d controls\n", control);
            return 0;
        }
        drive(&r, step.action);
    }
    printf("not reached in %d controls\n", MAX_CONTROLS);
    return 1;

failed:
    fprintf(stderr, "control_loop: %s\n", firm_status_str(status));
    return 2;
}

int main(int argc, char** argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr,
                "usage: control_loop MODEL.safetensors [deadline_ms, default 500, 0 for none]\n");
        return 2;
    }
    double deadline_ms = argc == 3 ? atof(argv[2]) : 500;
    if (firm_abi() != FIRM_ABI) {
        fprintf(stderr, "control_loop: compiled for another libfirm\n");
        return 2;
    }
    firm_set_log(log_line, NULL);

    int code = 2;
    firm_model* model = NULL;
    firm_controller* ctl = NULL;
    firm_error err;
    firm_controller_params params = firm_controller_params_default();
    params.mode = FIRM_MODE_REACH;
    params.seed = 1;

    if (firm_model_load(argv[1], &model, &err) != FIRM_OK) {
        fprintf(stderr, "control_loop: %s\n", err.message);
        goto cleanup;
    }
    firm_model_info info;
    firm_model_info_get(model, &info);
    if (info.image_size != SIZE || info.action_dim != 2) {
        fprintf(stderr, "control_loop: %s is a model for %s, this robot is a dot in two rooms\n",
                argv[1], info.task);
        goto cleanup;
    }
    if (firm_controller_create(model, &params, &ctl, &err) != FIRM_OK) {
        fprintf(stderr, "control_loop: %s\n", err.message);
        goto cleanup;
    }
    printf("%s: %zu parameters, controller %.1f MB\n", info.task, info.parameters,
           (double)firm_controller_bytes(ctl) / 1e6);
    code = run(ctl, &info, deadline_ms);

cleanup:
    firm_controller_free(ctl);
    firm_model_free(model);
    return code;
}
