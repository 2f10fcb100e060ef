// lewm_formula.c - see lewm_formula.h.
#include "lewm_formula.h"

#include "check.h"
#include "core/crc.h"
#include "core/mem.h"
#include "model/lewm/names.h"
#include "tasks.h"

static float noise_of(uint32_t crc, size_t i) {
    uint32_t h = crc + (uint32_t)i * 0x9E3779B9u;
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    h ^= h >> 16;
    return (float)(h >> 8) * (1.0f / 8388608) - 1;
}

static uint32_t crc_of(const char* name) {
    crc c;
    crc_start(&c);
    crc_add(&c, name, strlen(name));
    return crc_sum(&c);
}

float lewm_noise(const char* name, size_t i) {
    return noise_of(crc_of(name), i);
}

static int ends(const char* name, const char* end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static float weight(const lewm_part* p, float u) {
    if (p->rank == 0) return 7;
    if (strstr(p->name, "cls_token") || ends(p->name, "position_embeddings") ||
        ends(p->name, "pos_embedding"))
        return u * 0.5f;
    if (ends(p->name, "running_var")) return 1 + u * 0.5f;
    if (p->rank == 1) return ends(p->name, "weight") ? 1 + u * 0.25f : u * 0.125f;
    return u * sqrtf(1 / (float)(p->count / p->dim[0]));
}

lewm_model* lewm_formula(const lewm_shape* shape) {
    const task_typed task = test_task("tworoom");
    firm_error err = {0};
    lewm_model* m;
    lewm_part* part;
    int parts;
    if (lewm_create(&task, shape, 1, &m, &err) != FIRM_OK ||
        lewm_parts(m, &part, &parts, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    for (int i = 0; i < parts; i++) {
        uint32_t crc = crc_of(part[i].name);
        float* file = malloc(part[i].count * sizeof *file);
        if (!file) abort();
        for (size_t j = 0; j < part[i].count; j++) file[j] = weight(&part[i], noise_of(crc, j));
        lewm_part_take(m, &part[i], file);
        free(file);
    }
    mem_free(part);
    return m;
}

lewm_shape lewm_small(void) {
    return (lewm_shape){.image = 28,
                        .patch = 14,
                        .width = 24,
                        .depth = 2,
                        .heads = 3,
                        .mlp = 40,
                        .projector = 36,
                        .context = 3,
                        .predictor_depth = 2,
                        .predictor_heads = 2,
                        .predictor_head = 8,
                        .predictor_mlp = 20,
                        .action_hidden = 10,
                        .action_mlp = 48};
}

void lewm_formula_frames(int count, int size, uint8_t* out) {
    uint32_t crc = crc_of("frames");
    for (size_t i = 0; i < (size_t)count * (size_t)size * (size_t)size * 3; i++)
        out[i] = (uint8_t)((float)(i / 97 % 160) + floorf((noise_of(crc, i) + 1) * 40));
}

void lewm_formula_actions(int count, float* out) {
    for (int i = 0; i < count; i++) out[i] = 2 * lewm_noise("actions", (size_t)i);
}

double* lewm_golden(const char* section, int count) {
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/tests/golden/lewm.txt", test_source_dir());
    FILE* f = fopen(path, "r");
    double* out = malloc((size_t)count * sizeof *out);
    int found = 0, n;
    if (!out) abort();
    while (f && !found && fgets(line, sizeof line, f)) {
        char name[128];
        found = sscanf(line, "%127s %d", name, &n) == 2 && strcmp(name, section) == 0;
    }
    int good = found && n == count;
    for (int i = 0; i < count && good; i++)
        good = fscanf(f, "%lf", &out[i]) == 1 && isfinite(out[i]);
    if (f) fclose(f);
    if (good) return out;
    test_fail(__FILE__, __LINE__, "%s has no section %s of %d numbers", path, section, count);
    free(out);
    return NULL;
}
