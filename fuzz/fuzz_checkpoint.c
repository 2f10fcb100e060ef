// fuzz_checkpoint.c - the model file parser on arbitrary bytes, as they come and with the right
// digest or checksum put in, so that the checks behind it are reached. What is accepted must be a
// whole model that writes and reads back equal. What is accepted as it comes is also accepted by
// the reader that takes changes.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_checkpoint && build-fuzz/fuzz/fuzz_checkpoint -max_total_time=600
//     -max_len=20000 CORPUS fuzz/corpus/checkpoint
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/checkpoint.h"
#include "model/safetensors.h"
#include "must.h"

static void check_numbers(const firm_model* m) {
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        for (size_t j = 0; j < e->count; j++) MUST(isfinite(m->store->value[e->offset + j]));
    }
    for (int i = 0; i < m->task.chi_dim; i++) MUST(m->stats.chi_std[i] > 0);
    MUST(m->config && memchr(m->provenance, 0, sizeof m->provenance));
}

static void check_same(const firm_model* a, const firm_model* b) {
    MUST(a->store->count == b->store->count);
    MUST(memcmp(a->store->value, b->store->value, a->store->count * sizeof(float)) == 0);
    MUST(memcmp(&a->stats, &b->stats, sizeof a->stats) == 0);
}

// Every promise of a loaded model, and a second trip through a file (in memory, where /dev/shm is).
static void check_whole(const firm_model* m) {
    firm_error err = {0};
    firm_model* again = NULL;
    check_numbers(m);
    MUST(m->members >= 0 && m->members <= MODEL_MEMBERS);
    for (int i = 0; i < m->members; i++) {
        check_numbers(m->member[i]);
        MUST(m->member[i]->members == 0 && strcmp(m->member[i]->task.name, m->task.name) == 0);
    }

    char target[96];
    snprintf(target, sizeof target, "/dev/shm/firm-fuzz-%ld.safetensors", (long)getpid());
    MUST(checkpoint_write(target, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err) == FIRM_OK);
    MUST(firm_model_load(target, &again, &err) == FIRM_OK);
    unlink(target);
    check_same(again, m);
    MUST(again->members == m->members);
    for (int i = 0; i < m->members; i++) check_same(again->member[i], m->member[i]);
    firm_model_free(again);
}

typedef firm_status (*parser)(const char*, const char*, size_t, firm_model**, firm_error*);

static firm_status parse_with(parser call, const char* bytes, size_t size) {
    firm_error err = {0};
    firm_model* m = NULL;
    firm_status status = call("fuzz.safetensors", bytes, size, &m, &err);
    MUST((status == FIRM_OK) == (m != NULL));
    MUST(status == FIRM_OK || status == FIRM_E_FORMAT || status == FIRM_E_TASK);
    MUST(status == FIRM_OK || strstr(err.message, "fuzz.safetensors"));
    if (m) check_whole(m);
    firm_model_free(m);
    return status;
}

static void parse(const char* bytes, size_t size) {
    firm_status status = parse_with(checkpoint_parse_model, bytes, size);
    firm_status changed = parse_with(checkpoint_parse_changed, bytes, size);
    MUST(status != FIRM_OK || changed == FIRM_OK);
}

// The header's size as its closing braces say, so that edits which change its length are not lost.
static int reframe(char* bytes, size_t size) {
    size_t end = size;
    while (end > 10 && !(bytes[end - 1] == '}' && bytes[end - 2] == '}')) end--;
    uint64_t header = end - 8;
    if (end <= 10) return 0;
    memcpy(bytes, &header, sizeof header);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    char* bytes = malloc(size ? size : 1);  // exactly so long: a read past the end is seen
    MUST(bytes);
    memcpy(bytes, data, size);
    parse(bytes, size);
    if (safetensors_seal(bytes, size)) parse(bytes, size);
    if (reframe(bytes, size) && safetensors_seal(bytes, size)) parse(bytes, size);
    free(bytes);
    return 0;
}

#include "replay.h"
