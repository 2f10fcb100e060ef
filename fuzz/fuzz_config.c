// fuzz_config.c - the config parser on arbitrary bytes: as a file's text, under odd file names, as
// an override, and as a file with NUL bytes on disk. What is accepted must dump, read back and hash
// equal.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_config && build-fuzz/fuzz/fuzz_config -max_total_time=600 CORPUS
//     fuzz/corpus/config
//
// The first byte chooses the way in, the rest is the input.
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "io/config.h"
#include "must.h"

// one key of every type and range, two families, names that differ by a letter
static const config_key keys[] = {
    {"plan", "candidates", CONFIG_INT, 2, 100000, "300", NULL, "sampled plans"},
    {"plan", "elites", CONFIG_INT, -INFINITY, INFINITY, "30", NULL, "kept plans"},
    {"plan", "spread", CONFIG_REAL, 0, 10, "1.0", NULL, "initial spread"},
    {"plan", "mode", CONFIG_TEXT, 0, 0, "contract", "contract|reach", "planner"},
    {"stage.*", "updates", CONFIG_INT, 0, 1e9, "100", NULL, "optimiser steps"},
    {"stage.*", "rate", CONFIG_REAL, -INFINITY, 1, "1e-3", NULL, "learning rate"},
    {"stage.*", "modules", CONFIG_TEXT, 0, 0, "", NULL, "trained modules"},
    {"loss.*", "weight", CONFIG_REAL, 0, INFINITY, "1", NULL, "weight"},
    {"plans", "resume", CONFIG_BOOL, 0, 0, "no", NULL, "continue"},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static config* fresh(void) {
    config* c = NULL;
    MUST(config_create(keys, KEYS, &c, NULL) == FIRM_OK);
    return c;
}

// touches every value by its type, then compares with a config read from the dump
static void check_whole(config* c) {
    MUST(config_int(c, "plan", "candidates") >= 2 && config_int(c, "plan", "candidates") <= 100000);
    MUST(config_real(c, "plan", "spread") >= 0 && config_real(c, "plan", "spread") <= 10);
    MUST(config_bool(c, "plans", "resume") <= 1);
    MUST(isfinite(config_real(c, "plan", "elites")));
    for (int i = 0;; i++) {
        const char* member = config_member(c, "stage.*", i);
        if (!member) break;
        char section[128];
        snprintf(section, sizeof section, "stage.%s", member);
        MUST(config_int(c, section, "updates") >= 0);
        MUST(config_real(c, section, "rate") <= 1);
        MUST(strlen(config_text(c, section, "modules")) < 200);
    }
    char* dump = config_dump(c);
    config* again = fresh();
    firm_error err = {0};
    MUST(dump);
    if (config_read_text(again, "dump", dump, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n%s\n", err.message, dump);
        abort();
    }
    char* second = config_dump(again);
    MUST(second && strcmp(dump, second) == 0);
    MUST(config_hash(c) == config_hash(again));
    mem_free(dump);
    mem_free(second);
    config_free(again);
}

// the bytes as they are, NULs included, through a file that lives in memory
static firm_status read_as_file(config* c, const uint8_t* data, size_t size, firm_error* err) {
    int fd = memfd_create("config", MFD_CLOEXEC);
    char path[64];
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    firm_status status = config_read_file(c, path, err);
    close(fd);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    int way = data[0] % 4;
    data++, size--;
    char* text = malloc(size + 1);
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;

    config* c = fresh();
    firm_error err = {0};
    firm_status status = FIRM_OK;
    if (way == 0) {
        status = config_read_text(c, "fuzz.ini", text, &err);
    } else if (way == 1) {
        status = read_as_file(c, data, size, &err);
    } else if (way == 2) {
        // overrides, one a line, on top of a file that has members
        MUST(config_read_text(c, "base", "[stage.a]\n[loss.x]\n[stage.b]\nupdates = 1\n", &err) ==
             FIRM_OK);
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
            err.message[0] = 0;
            status = config_set(c, line, &err);
            MUST(status == FIRM_OK || err.message[0]);
        }
        status = FIRM_OK;
    } else {
        // the input as a file's name, in a sentence and on disk
        MUST(config_read_text(c, text, "[plan]\nelits = 1\n", &err) == FIRM_E_VALUE);
        MUST(strstr(err.message, ":2: ") && strstr(err.message, "elites"));
        status = config_read_text(c, text, "[plan]\nelites = 1\n", &err);
        MUST(status == FIRM_OK);
        if (strlen(text) == 0 || strchr(text, '/') == NULL) (void)config_read_file(c, text, &err);
    }
    MUST(status == FIRM_OK || err.message[0]);
    if (status == FIRM_OK) check_whole(c);
    // refused or not, the same config still takes a good file
    MUST(config_read_text(c, "good.ini", "[plan]\ncandidates = 7\n[stage.good]\nupdates = 2\n",
                          &err) == FIRM_OK);
    MUST(config_int(c, "plan", "candidates") == 7 && config_int(c, "stage.good", "updates") == 2);
    config_free(c);
    free(text);
    return 0;
}

#include "replay.h"
