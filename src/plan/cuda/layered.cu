// layered.cu - the layered way: nine kernels per macro step, for one search or many.
//
// One search is too short for the host to keep up with: its iteration is captured as a CUDA graph
// when the planner is created. With many searches the kernels are long enough to be launched one by
// one.
#include "plan/cuda/internal.cuh"

static int operand_bytes(const plan_gpu* g) {
    return g->setup.precision == PLAN_FP32 ? 4 : 2;
}

product layered_spatial_up(const plan_gpu* g, int rows) {
    product up = {};
    up.a = g->spatial;
    up.l = g->layers[LAYER_SPATIAL_UP];
    up.rows = rows;
    up.outputs = g->size.spatial;
    up.out = g->gs;
    up.out_stride = g->size.v_in;
    return up;
}

// One macro step of `rows` rows; c_out (rows, horizon, config).
static firm_status step(plan_gpu* g, int rows, int t, int horizon, float* c_out, firm_error* err) {
    const sizes* s = &g->size;
    size_t x_step = (size_t)g->rows * (size_t)s->x_in * (size_t)operand_bytes(g);
    char* x = (char*)g->x + (size_t)t * x_step;
    product in = {};
    in.a = x;
    in.l = g->layers[LAYER_IN];
    in.rows = rows;
    in.outputs = s->hidden;
    in.out = g->h;
    in.out_stride = s->h_in;
    TRY(product_run(g, PRODUCT_STORE, &in, err));
    if (s->spatial) {
        product up = layered_spatial_up(g, rows);
        TRY(spatial_run(g, rows, t, horizon, err));
        TRY(product_run(g, PRODUCT_GELU, &up, err));
        product down = in;
        down.a = g->gs;
        down.l = g->layers[LAYER_SPATIAL_DOWN];
        TRY(product_run(g, PRODUCT_ADD, &down, err));
    }
    for (int b = 0; b < s->blocks; b++) {
        TRY(normalise_run(g, rows, err));
        product up = {};
        up.a = g->a;
        up.l = g->layers[LAYER_UP + b];
        up.rows = rows;
        up.outputs = s->inner;
        up.out = g->g;
        up.out_stride = s->g_in;
        TRY(product_run(g, PRODUCT_GELU, &up, err));
        product down = in;
        down.a = g->g;
        down.l = g->layers[LAYER_DOWN + b];
        TRY(product_run(g, PRODUCT_ADD, &down, err));
    }
    TRY(normalise_run(g, rows, err));
    product heads = {};
    heads.a = g->a;
    heads.l = g->layers[LAYER_HEADS];
    heads.rows = rows;
    heads.outputs = t + 1 < horizon ? s->state : s->config;  // nobody reads m after the last step
    heads.out = g->state;
    heads.out_stride = s->state;
    heads.pairs = s->pairs;
    heads.config = s->config;
    heads.c = c_out + (size_t)t * (size_t)s->config;
    heads.c_stride = horizon * s->config;
    heads.x = t + 1 < horizon ? x + x_step : NULL;
    heads.x_stride = s->x_in;
    return product_run(g, PRODUCT_HEADS, &heads, err);
}

// count * n rows, n of each search.
static firm_status predict(plan_gpu* g, int count, int n, int horizon, float* c_out,
                           firm_error* err) {
    int rows = count * n;
    if (g->fused) return fused_predict(g, rows, n, horizon, c_out, err);
    for (int t = 0; t < horizon; t++)
        TRY((g->batched ? batch_step : step)(g, rows, t, horizon, c_out, err));
    return FIRM_OK;
}

static firm_status iteration(plan_gpu* g, int count, firm_error* err) {
    int n = g->size.candidates, horizon = g->size.horizon;
    TRY(search_draw(g, count, 0, 0, n, horizon, err));
    TRY(predict(g, count, n, horizon, g->c, err));
    return search_fit(g, count, err);
}

firm_status layered_marked(plan_gpu* g, int count, cudaEvent_t mark[4], firm_error* err) {
    int n = g->size.candidates, horizon = g->size.horizon;
    GPU(cudaEventRecord(mark[0], g->stream));
    TRY(search_draw(g, count, 0, 0, n, horizon, err));
    GPU(cudaEventRecord(mark[1], g->stream));
    TRY(predict(g, count, n, horizon, g->c, err));
    GPU(cudaEventRecord(mark[2], g->stream));
    TRY(search_fit(g, count, err));
    GPU(cudaEventRecord(mark[3], g->stream));
    return FIRM_OK;
}

static firm_status means(plan_gpu* g, int count, firm_error* err) {
    int horizon = g->size.horizon;
    TRY(search_draw(g, count, 1, 0, 1, horizon, err));
    return predict(g, count, 1, horizon, g->path, err);
}

firm_status layered_rollout(plan_gpu* g, int n, int horizon, firm_error* err) {
    TRY(search_draw(g, 1, 0, 1, n, horizon, err));
    return predict(g, 1, n, horizon, g->c, err);
}

static firm_status capture(plan_gpu* g, firm_status (*part)(plan_gpu*, int, firm_error*),
                           cudaGraphExec_t* out, firm_error* err) {
    cudaGraph_t graph = NULL;
    GPU(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal));
    firm_status status = part(g, 1, err);
    cudaError_t code = cudaStreamEndCapture(g->stream, &graph);
    if (status == FIRM_OK && code != cudaSuccess)
        status = gpu_failed(code, "capturing the search", err);
    if (status == FIRM_OK) {
        code = cudaGraphInstantiate(out, graph, 0);
        if (code != cudaSuccess) status = gpu_failed(code, "preparing the search", err);
    }
    if (graph) cudaGraphDestroy(graph);
    return status;
}

firm_status layered_create(plan_gpu* g, firm_error* err) {
    TRY(product_prepare(err));
    TRY(search_prepare(g, err));
    TRY(capture(g, iteration, &g->iteration_graph, err));
    return capture(g, means, &g->mean_graph, err);
}

void layered_free(plan_gpu* g) {
    if (g->iteration_graph) cudaGraphExecDestroy(g->iteration_graph);
    if (g->mean_graph) cudaGraphExecDestroy(g->mean_graph);
}

firm_status layered_iteration(plan_gpu* g, int count, firm_error* err) {
    if (count > 1) return iteration(g, count, err);
    GPU(cudaGraphLaunch(g->iteration_graph, g->stream));
    return FIRM_OK;
}

firm_status layered_means(plan_gpu* g, int count, firm_error* err) {
    if (count > 1) return means(g, count, err);
    GPU(cudaGraphLaunch(g->mean_graph, g->stream));
    return FIRM_OK;
}
