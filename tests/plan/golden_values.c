// golden_values.c - see golden_values.h.
#include "golden_values.h"

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "pictures.h"
#include "tasks.h"

int golden_writing(void) {
    return getenv("FIRM_GOLDEN_WRITE") != NULL;
}

static int fail(const golden_values* g, const char* why) {
    test_fail(__FILE__, __LINE__, "%s: %s", g->path, why);
    return 0;
}

int golden_open(golden_values* g, const char* what, const char* task) {
    size_t n;
    firm_error err = {0};
    *g = (golden_values){0};
    snprintf(g->path, sizeof g->path, "%s/tests/golden/%s-%s.txt", test_source_dir(), what, task);
    return file_read_all(g->path, &g->text, &n, &err) == FIRM_OK || fail(g, err.message);
}

int golden_begin(golden_values* g, const char* what, const char* task) {
    if (!golden_writing()) return golden_open(g, what, task);
    *g = (golden_values){0};
    snprintf(g->path, sizeof g->path, "%s/tests/golden/%s-%s.txt", test_source_dir(), what, task);
    g->out = fopen(g->path, "w");
    if (!g->out) return fail(g, "cannot be written");
    fprintf(g->out, "# %s of %s; made by FIRM_GOLDEN_WRITE=1 build/firm_tests\n", what, task);
    return 1;
}

void golden_end(golden_values* g) {
    if (g->out && fclose(g->out) != 0) fail(g, "cannot be written");
    if (g->text) printf("  worst deviation: %.2g tolerances\n", g->worst);
    mem_free(g->text);
    *g = (golden_values){0};
}

// Where the numbers of a line stand that begins with this name; NULL: not there, or other in count.
static const char* find(const golden_values* g, const char* name, int n) {
    size_t length = strlen(name);
    for (const char* line = g->text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
        char* end;
        if (strtol(line + length, &end, 10) == n) return end;
    }
    fail(g, name);
    return NULL;
}

void golden_read(const golden_values* g, const char* name, double* v, int n) {
    const char* at = find(g, name, n);
    for (int i = 0; i < n; i++) {
        char* end = (char*)at;
        v[i] = at ? strtod(at, &end) : 0;
        if (at && end == at) fail(g, name);
        at = end;
    }
}

void golden_expect(golden_values* g, const char* name, const float* v, int n, double tolerance) {
    if (g->out) {
        fprintf(g->out, "%s %d", name, n);
        for (int i = 0; i < n; i++) fprintf(g->out, " %.9g", (double)v[i]);
        fputc('\n', g->out);
        return;
    }
    const char* at = find(g, name, n);
    for (int i = 0; at && i < n; i++) {
        char* end;
        double want = strtod(at, &end), allowed = tolerance * (1 + fabs(want));
        double off = fabs((double)v[i] - want) / allowed;
        if (end == at) fail(g, name);
        // a deviation that is no number stays the worst
        if (!(off <= g->worst) && !isnan(g->worst)) g->worst = off;
        if (!(off <= test_tolerance_scale()))
            test_fail(__FILE__, __LINE__, "%s[%d] is %.9g, expected %.9g +- %.3g", name, i,
                      (double)v[i], want, allowed * test_tolerance_scale());
        at = end;
    }
}

void golden_expect_one(golden_values* g, const char* name, double v, double tolerance) {
    golden_expect(g, name, &(float){(float)v}, 1, tolerance);
}

void golden_expect_digest(golden_values* g, const char* name, const float* v, int n,
                          double tolerance) {
    double sum = 0, square = 0;
    float digest[GOLDEN_DIGEST];
    for (int i = 0; i < n; i++) {
        sum += (double)v[i];
        square += (double)v[i] * (double)v[i];
    }
    digest[0] = (float)(sum / n);
    digest[1] = (float)sqrt(square / n);
    for (int i = 2; i < GOLDEN_DIGEST; i++)
        digest[i] = v[(int64_t)(i - 2) * (n - 1) / (GOLDEN_DIGEST - 3)];
    golden_expect(g, name, digest, GOLDEN_DIGEST, tolerance);
}

// ---- moments ------------------------------------------------------------------------------------

void golden_pictures_path(char* path, size_t room, const char* task) {
    snprintf(path, room, "%s/tests/golden/moment-%s.pictures", test_source_dir(), task);
}

static int read_actions(golden_moment* m, const char* task) {
    golden_values g;
    const int dim = test_task(task).action_dim;
    int ok = golden_open(&g, "moment", task);
    for (int i = 0; ok && i + 1 < GOLDEN_FRAMES; i++) {
        char name[24];
        double a[FIRM_MAX_ACTION];
        snprintf(name, sizeof name, "action%d", i);
        golden_read(&g, name, a, dim);
        for (int k = 0; k < dim; k++) m->action[i][k] = (float)a[k];
    }
    mem_free(g.text);
    return ok;
}

int golden_moment_open(golden_moment* m, const char* task) {
    char path[1024];
    char* bytes = NULL;
    size_t n;
    firm_error err = {0};
    *m = (golden_moment){.rgb = mem_alloc((GOLDEN_FRAMES + 1) * (size_t)PICTURES_BYTES)};
    golden_pictures_path(path, sizeof path, task);
    if (!read_actions(m, task)) return 0;
    firm_status st = file_read_all(path, &bytes, &n, &err);
    int ok = st == FIRM_OK && pictures_unpack((uint8_t*)bytes, n, GOLDEN_FRAMES + 1, m->rgb);
    if (!ok) test_fail(__FILE__, __LINE__, "%s: %s", path, st == FIRM_OK ? "cut" : err.message);
    mem_free(bytes);
    return ok;
}

const uint8_t* golden_frame(const golden_moment* m, int i) {
    return m->rgb + (size_t)i * PICTURES_BYTES;
}

void golden_moment_close(golden_moment* m) {
    mem_free(m->rgb);
    *m = (golden_moment){0};
}

firm_model* golden_model(const char* task) {
    char path[1024];
    firm_model* m = NULL;
    firm_error err = {0};
    snprintf(path, sizeof path, "%s/models/%s.safetensors", test_source_dir(), task);
    if (firm_model_load(path, &m, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return m;
}

void golden_actions(const task_typed* task, float* u) {
    int n = 25 * task->action_dim;
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, 12), 0, u, n);
    for (int i = 0; i < n; i++) u[i] *= 0.5f;
}
