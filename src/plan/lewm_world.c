// lewm_world.c - LeWM behind the seam: its encoder makes latents of frames, its predictor
// (lewm_net.h) rolls them out, and the squared distance of latents is the price.
//
// The latest frame alone starts a search, as in the reference. A frame is encoded when a search
// starts from it: an encoding costs as much as twenty rollouts. Between searches the state, and
// with it the distance to the goal, is that of the last search's frame.
//
// LeWM has no tolerance of its own. Training spreads the latents' numbers like standard normals
// (SIGReg), so that those of unrelated frames differ by 1.4 in the root mean square; `units` counts
// this difference in multiples of MODEL_LATENT_TOLERANCE. The reach mode arrives by it.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "model/lewm/lewm.h"
#include "nn/exec.h"
#include "plan/lewm_gpu.h"
#include "plan/lewm_net.h"
#include "plan/net_kernels.h"
#include "plan/worlds.h"

typedef struct lewm_world {
    const lewm_model* m;
    pool* threads;
    lewm_net *net, *own_net;  // on the CPU: in use; to be freed
    size_t stride;            // bytes of one thread's scratch
    char* scratch;            // (threads)
    int workers;
    lewm_gpu* gpu;       // on a GPU
    firm_status failed;  // of its last rollout
    float* z0;           // (width) where rollouts start
    // the encoder
    nn_graph* graph;
    nn_exec* encoder;
    nn_id image, latent;
    const uint8_t* rgb;  // being encoded
    uint8_t* frame;      // the latest
    int frames;          // 0: none yet
} lewm_world;

static size_t picture_bytes(const lewm_world* w) {
    return (size_t)w->m->shape.image * (size_t)w->m->shape.image * 3;
}

// ---- encode and start ---------------------------------------------------------------------------

static firm_status fill(void* context, const nn_feed* feed) {
    lewm_world* w = context;
    memcpy(nn_feed_bytes(feed, w->image), w->rgb, picture_bytes(w));
    return FIRM_OK;
}

static firm_status encode(void* context, const uint8_t* rgb, float* state) {
    lewm_world* w = context;
    w->rgb = rgb;
    TRY(nn_exec_forward(w->encoder, 1, fill, w));
    memcpy(state, nn_exec_output(w->encoder, w->latent), (size_t)w->m->shape.width * sizeof *state);
    return FIRM_OK;
}

static firm_status push(void* context, const uint8_t* rgb, const float* action, int soon,
                        plan_seen* seen) {
    (void)action, (void)soon, (void)seen;
    lewm_world* w = context;
    memcpy(w->frame, rgb, picture_bytes(w));
    w->frames = 1;
    return FIRM_OK;
}

static firm_status start(void* context, float* state) {
    lewm_world* w = context;
    TRY(encode(w, w->frame, state));
    memcpy(w->z0, state, (size_t)w->m->shape.width * sizeof *state);
    return FIRM_OK;
}

static firm_status status(const void* context) {
    return ((const lewm_world*)context)->failed;
}

static int frames(const void* context) {
    return ((const lewm_world*)context)->frames;
}

static void reset(void* context) {
    ((lewm_world*)context)->frames = 0;
}

static void walk(void* context, blob* b) {
    lewm_world* w = context;
    BLOB_FIELD(b, w->frames);
    blob_field(b, w->frame, picture_bytes(w));
}

static size_t bytes(const void* context) {
    const lewm_world* w = context;
    return sizeof *w + (w->own_net ? lewm_net_bytes(w->own_net) : 0) +
           (w->gpu ? lewm_gpu_bytes(w->gpu) : 0) + (size_t)w->workers * w->stride +
           nn_exec_bytes(w->encoder) + picture_bytes(w);
}

static const char* device_name(const void* context) {
    const lewm_world* w = context;
    return w->gpu ? lewm_gpu_device(w->gpu) : "cpu";
}

static const char* way(const void* context) {
    const lewm_world* w = context;
    return w->gpu ? "graph" : lewm_net_simd(w->net);
}

// ---- roll out -----------------------------------------------------------------------------------

static int rollout(void* context, int worker, int n, int horizon, const float* u, float* path) {
    lewm_world* w = context;
    return lewm_net_rollout(w->net, w->scratch + (size_t)worker * w->stride, n, horizon, w->z0, u,
                            path);
}

static int gpu_rollout(void* context, int worker, int n, int horizon, const float* u, float* path) {
    (void)worker;
    lewm_world* w = context;
    int nonfinite = n;
    w->failed = lewm_gpu_rollout(w->gpu, n, horizon, w->z0, u, path, &nonfinite, NULL);
    for (int i = 0; i < n * horizon * w->m->shape.width && w->failed != FIRM_OK; i++) path[i] = NAN;
    return nonfinite;
}

// ---- price --------------------------------------------------------------------------------------

static float squared(const lewm_world* w, const float* z, const float* goal) {
    enum { LANES = 16 };
    const int width = w->m->shape.width, even = width / LANES * LANES;
    float part[LANES] = {0}, sum = 0;
    for (int j = 0; j < even; j += LANES)
        for (int k = 0; k < LANES; k++)
            part[k] += (z[j + k] - goal[j + k]) * (z[j + k] - goal[j + k]);
    for (int k = 0; k < LANES; k++) sum += part[k];
    for (int j = even; j < width; j++) sum += (z[j] - goal[j]) * (z[j] - goal[j]);
    return sum;
}

static float cost(const void* context, const float* z, const float* goal) {
    return squared(context, z, goal);
}

static void measure(const void* context, const float* z, const float* goal, float* distance) {
    const lewm_world* w = context;
    *distance = sqrtf(squared(w, z, goal) / (float)w->m->shape.width);
}

static float units(const void* context, const float* z, const float* goal) {
    float distance;
    measure(context, z, goal, &distance);
    return distance / MODEL_LATENT_TOLERANCE;
}

// ---- opening ------------------------------------------------------------------------------------

static void close_world(void* context) {
    lewm_world* w = context;
    if (!w) return;
    lewm_net_free(w->own_net);
    lewm_gpu_free(w->gpu);
    nn_exec_free(w->encoder);
    nn_graph_free(w->graph);
    mem_free(w->scratch);
    mem_free(w->z0);
    mem_free(w->frame);
    mem_free(w);
}

static firm_status open_encoder(lewm_world* w, firm_error* err) {
    const nn_exec_options one = {.batch = 1, .shard = 1, .lanes = 1};
    TRY(nn_graph_create(w->m->store, &w->graph, err));
    w->image = nn_frames(w->graph, "frames", 1, w->m->shape.image);
    w->latent = lewm_encode(w->graph, w->m, w->image);
    nn_output(w->graph, w->latent);
    return nn_exec_create(w->graph, nn_backend_cpu(), &one, NULL, &w->encoder, err);
}

static firm_status open_world(lewm_world* w, const plan_world_setup* s, firm_error* err) {
    const net_kernels* same;  // what a processor lacks for FIRM it lacks for LeWM
    if (s->device != FIRM_DEVICE_CUDA) TRY(net_kernels_pick(s->precision, &same, err));
    if (w->m->shape.image != w->m->task.image)
        return FAIL(err, FIRM_E_TASK, "the model sees pictures of %d pixels, its task has %d",
                    w->m->shape.image, w->m->task.image);
    TRY(open_encoder(w, err));
    w->z0 = mem_calloc((size_t)w->m->shape.width, sizeof *w->z0);
    w->frame = mem_calloc(1, picture_bytes(w));
    if (!w->z0 || !w->frame) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
    if (s->device == FIRM_DEVICE_CUDA)
        return lewm_gpu_create(&(lewm_gpu_setup){.model = w->m,
                                                 .options = *s->options,
                                                 .precision = s->precision,
                                                 .searches = 1,
                                                 .device = s->gpu},
                               &w->gpu, err);
    if (s->like)
        w->net = ((const lewm_world*)s->like->sight.context)->net;
    else
        TRY(lewm_net_create_bf16(w->m, s->precision == PLAN_BF16 ? lewm_products_get() : NULL,
                                 &w->own_net, err));
    if (w->own_net) w->net = w->own_net;
    w->workers = pool_threads(s->threads);
    w->stride = (lewm_net_scratch_bytes(w->net) + 4095) / 4096 * 4096;
    // zeroed, so that the pages are there before the first solve
    w->scratch = mem_calloc((size_t)w->workers, w->stride);
    return w->scratch ? FIRM_OK
                      : FAIL(err, FIRM_E_MEMORY, "no memory for %d planner threads", w->workers);
}

firm_status plan_world_lewm(const plan_world_setup* setup, plan_world* out, firm_error* err) {
    lewm_world* w = mem_calloc(1, sizeof *w);
    *out = (plan_world){0};
    if (!w) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
    w->m = setup->model->lewm;
    w->threads = setup->threads;
    firm_status st = open_world(w, setup, err);
    if (st != FIRM_OK) {
        close_world(w);
        return st;
    }
    *out = (plan_world){.sight = {.context = w,
                                  .goal = encode,
                                  .push = push,
                                  .start = start,
                                  .status = status,
                                  .frames = frames,
                                  .reset = reset,
                                  .walk = walk,
                                  .bytes = bytes,
                                  .device = device_name,
                                  .way = way,
                                  .close = close_world},
                        .model = {.context = w,
                                  .state = w->m->shape.width,
                                  .action = lewm_action_dim(w->m),
                                  .lanes = w->gpu ? 1 : 4,
                                  .piece = LEWM_MOST,
                                  .workers = w->gpu ? 1 : w->workers,
                                  .whole = w->gpu != NULL,
                                  .rollout = w->gpu ? gpu_rollout : rollout},
                        .price = {.context = w,
                                  .state = w->m->shape.width,
                                  .distances = 1,
                                  .cost = cost,
                                  .units = units,
                                  .measure = measure},
                        .memory = w->z0};
    // a whole search on the GPU knows the rule cem
    if (setup->options->mode == FIRM_MODE_CONTRACT && setup->options->solver == PLAN_CEM)
        out->device = lewm_gpu_device_of(w->gpu);
    return FIRM_OK;
}
