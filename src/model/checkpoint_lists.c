// checkpoint_lists.c - see checkpoint_lists.h.
#include "model/checkpoint_lists.h"

#include <string.h>

#include "core/mem.h"

#define SUPPORT_POINTS "support.points"  // (count, config_dim)
#define SUPPORT_RADIUS "support.radius"  // (1)
#define TOKEN_STATS "tokens.statistics"  // (2, width)
#define TOKEN_RADIUS "tokens.radius"     // (1)
// lists of as many rows; the last is there for whole episodes only
enum { RECORDED_LISTS = 4 };
static const char* const recorded_name[RECORDED_LISTS] = {"recorded.controls", "recorded.path",
                                                          "recorded.chi", "recorded.left"};

// ---- support ------------------------------------------------------------------------------------

static firm_status read_support(const char* file, const safetensors* s, firm_model* m,
                                firm_error* err) {
    const safetensors_tensor* points = safetensors_find(s, SUPPORT_POINTS);
    const safetensors_tensor* radius = safetensors_find(s, SUPPORT_RADIUS);
    if (!points && !radius) return FIRM_OK;
    if (!points || !radius || points->rank != 2 || points->dim[0] > 65536 || points->count == 0 ||
        points->dim[1] != (size_t)m->task.config_dim || radius->count != 1 ||
        !safetensors_finite(points) || !safetensors_finite(radius))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: %s is not a list of configurations; make the file again", file,
                    SUPPORT_POINTS);
    m->support = mem_alloc(points->count * sizeof *m->support);
    if (!m->support) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    safetensors_copy(points, m->support);
    safetensors_copy(radius, &m->support_radius);
    m->support_count = (int)points->dim[0];
    if (!(m->support_radius > 0))
        return FAIL(err, FIRM_E_FORMAT, "%s: %s is %g, not above 0; make the file again", file,
                    SUPPORT_RADIUS, (double)m->support_radius);
    return FIRM_OK;
}

static void collect_support(const firm_model* m, safetensors_type type, safetensors_tensor* tensor,
                            int* tensors) {
    size_t count = (size_t)m->support_count, dim = (size_t)m->task.config_dim;
    if (!m->support) return;
    tensor[(*tensors)++] = (safetensors_tensor){.name = SUPPORT_POINTS,
                                                .type = type,
                                                .rank = 2,
                                                .dim = {count, dim},
                                                .count = count * dim,
                                                .value = m->support};
    tensor[(*tensors)++] = (safetensors_tensor){.name = SUPPORT_RADIUS,
                                                .type = type,
                                                .rank = 1,
                                                .dim = {1},
                                                .count = 1,
                                                .value = &m->support_radius};
}

// ---- statistics of the tokens: float32 always ---------------------------------------------------

static int all_positive(const float* value, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(value[i] >= 0)) return 0;
    return 1;
}

static firm_status read_tokens(const char* file, const safetensors* s, firm_model* m,
                               firm_error* err) {
    const safetensors_tensor* stats = safetensors_find(s, TOKEN_STATS);
    const safetensors_tensor* radius = safetensors_find(s, TOKEN_RADIUS);
    const size_t width = (size_t)model_token_width(m);
    if (!stats && !radius) return FIRM_OK;
    int sound = stats && radius && stats->rank == 2 && stats->dim[0] == 2 &&
                stats->dim[1] == width && width <= MODEL_TOKEN_WIDTH && radius->count == 1 &&
                safetensors_finite(stats) && safetensors_finite(radius);
    if (sound) {
        m->token_stats = mem_alloc(2 * width * sizeof *m->token_stats);
        if (!m->token_stats) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
        safetensors_copy(stats, m->token_stats);
        safetensors_copy(radius, &m->token_radius);
        sound = all_positive(m->token_stats + width, width) && m->token_radius > 0;
    }
    if (sound) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s: %s is not the tokens' mean and deviation; make the file again", file,
                TOKEN_STATS);
}

static void collect_tokens(const firm_model* m, safetensors_tensor* tensor, int* tensors) {
    size_t width = (size_t)model_token_width(m);
    if (!m->token_stats) return;
    tensor[(*tensors)++] = (safetensors_tensor){.name = TOKEN_STATS,
                                                .type = SAFETENSORS_F32,
                                                .rank = 2,
                                                .dim = {2, width},
                                                .count = 2 * width,
                                                .value = m->token_stats};
    tensor[(*tensors)++] = (safetensors_tensor){.name = TOKEN_RADIUS,
                                                .type = SAFETENSORS_F32,
                                                .rank = 1,
                                                .dim = {1},
                                                .count = 1,
                                                .value = &m->token_radius};
}

// ---- recorded sequences -------------------------------------------------------------------------

typedef struct recorded_list {
    size_t width;  // numbers of each sequence
    float** value;
} recorded_list;

// episodes: moments of whole episodes; else segments.
static void recorded_lists(firm_model* m, int episodes, recorded_list list[RECORDED_LISTS]) {
    const size_t config = (size_t)m->task.config_dim, action = (size_t)m->task.action_dim;
    const size_t controls = (size_t)(episodes ? m->task.controls : task_span(&m->task));
    const recorded_list all[RECORDED_LISTS] = {
        {controls * action, &m->recorded},
        {episodes ? config : (size_t)task_points(&m->task) * config, &m->recorded_path},
        {(size_t)m->task.chi_dim, &m->recorded_chi},
        {1, &m->recorded_left}};
    memcpy(list, all, sizeof all);
}

// Each moment but an episode's last is followed by one that is a macro action nearer to its end.
static int counts_down(const float* left, int count) {
    for (int i = 0; i < count; i++) {
        int last = left[i] == 0;
        if (!(left[i] >= 0) || (!last && (i + 1 == count || left[i + 1] != left[i] - 1))) return 0;
    }
    return 1;
}

static firm_status read_recorded(const char* file, const safetensors* s, firm_model* m,
                                 firm_error* err) {
    recorded_list list[RECORDED_LISTS];
    const int episodes = safetensors_find(s, recorded_name[RECORDED_LISTS - 1]) != NULL;
    recorded_lists(m, episodes, list);
    const safetensors_tensor* first = safetensors_find(s, recorded_name[0]);
    for (int i = 0; i < RECORDED_LISTS - !episodes; i++) {
        const safetensors_tensor* t = safetensors_find(s, recorded_name[i]);
        if (!t && !first) continue;
        if (!t || !first || t->rank != 2 || t->dim[0] > 65536 || t->count == 0 ||
            t->dim[0] != first->dim[0] || t->dim[1] != list[i].width || !safetensors_finite(t))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: %s is not a list of %zu numbers for each recorded sequence; make the "
                        "file again",
                        file, recorded_name[i], list[i].width);
        *list[i].value = mem_alloc(t->count * sizeof **list[i].value);
        if (!*list[i].value) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
        safetensors_copy(t, *list[i].value);
        m->recorded_count = (int)t->dim[0];
    }
    if (episodes && !counts_down(m->recorded_left, m->recorded_count))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: %s does not count down to the end of each episode; make the file again",
                    file, recorded_name[RECORDED_LISTS - 1]);
    return FIRM_OK;
}

static void collect_recorded(const firm_model* m, safetensors_type type, safetensors_tensor* tensor,
                             int* tensors) {
    recorded_list list[RECORDED_LISTS];
    const int episodes = m->recorded_left != NULL;
    recorded_lists((firm_model*)m, episodes, list);
    size_t count = (size_t)m->recorded_count;
    for (int i = 0; i < RECORDED_LISTS - !episodes && m->recorded; i++)
        tensor[(*tensors)++] = (safetensors_tensor){.name = recorded_name[i],
                                                    .type = type,
                                                    .rank = 2,
                                                    .dim = {count, list[i].width},
                                                    .count = count * list[i].width,
                                                    .value = *list[i].value};
}

static int is_recorded(const char* name) {
    for (int i = 0; i < RECORDED_LISTS; i++)
        if (strcmp(name, recorded_name[i]) == 0) return 1;
    return 0;
}

// ---- all of them --------------------------------------------------------------------------------

int checkpoint_list_known(const char* tensor) {
    return strcmp(tensor, SUPPORT_POINTS) == 0 || strcmp(tensor, SUPPORT_RADIUS) == 0 ||
           strcmp(tensor, TOKEN_STATS) == 0 || strcmp(tensor, TOKEN_RADIUS) == 0 ||
           is_recorded(tensor);
}

firm_status checkpoint_lists_read(const char* file, const safetensors* s, firm_model* m,
                                  firm_error* err) {
    TRY(read_support(file, s, m, err));
    TRY(read_tokens(file, s, m, err));
    return read_recorded(file, s, m, err);
}

void checkpoint_lists_collect(const firm_model* m, safetensors_type type,
                              safetensors_tensor* tensor, int* tensors) {
    collect_support(m, type, tensor, tensors);
    collect_tokens(m, tensor, tensors);
    collect_recorded(m, type, tensor, tensors);
}
