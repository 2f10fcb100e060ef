// gpu_library.c - finds libfirm-cuda.so and takes its table.
#define _GNU_SOURCE  // Dl_info, RTLD_DEFAULT
#include "plan/gpu_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// The loader, asked for by name: a reference to dlopen would make the linker of a static program,
// which has no loader, warn of it.
#pragma weak dlsym

typedef struct loader {
    void* (*open)(const char* file, int mode);
    char* (*error)(void);
    int (*close)(void* library);
    int (*where)(const void* address, Dl_info* info);
} loader;

static int find_loader(loader* l) {
    *l = (loader){0};
    if (!dlsym) return 0;
    *(void**)&l->open = dlsym(RTLD_DEFAULT, "dlopen");
    *(void**)&l->error = dlsym(RTLD_DEFAULT, "dlerror");
    *(void**)&l->close = dlsym(RTLD_DEFAULT, "dlclose");
    *(void**)&l->where = dlsym(RTLD_DEFAULT, "dladdr");
    return l->open && l->error && l->close && l->where;
}

static _Atomic(const gpu_library*) loaded;

// DIR/libfirm-cuda.so.0 of the library or program that this code is part of.
static int beside(const loader* l, char path[PATH_MAX]) {
    Dl_info info;
    const char* slash = NULL;
    if (l->where((const void*)&loaded, &info) && info.dli_fname)
        slash = strrchr(info.dli_fname, '/');
    if (!slash) return 0;
    int n = snprintf(path, PATH_MAX, "%.*s/" GPU_LIBRARY_FILE, (int)(slash - info.dli_fname),
                     info.dli_fname);
    return n > 0 && n < PATH_MAX;
}

// What the loader says of a file that is not there names only the file.
static void* open_library(const loader* l, char reason[256]) {
    char path[PATH_MAX];
    void* library = NULL;
    if (beside(l, path)) library = l->open(path, RTLD_NOW | RTLD_LOCAL);
    const char* first = library ? NULL : l->error();
    snprintf(reason, 256, "%.255s", first ? first : "");
    if (library) return library;
    library = l->open(GPU_LIBRARY_FILE, RTLD_NOW | RTLD_LOCAL);
    // a library that is there but cannot be loaded says more than one that is not
    if (!library && (!reason[0] || strstr(reason, "No such file"))) {
        const char* second = l->error();
        snprintf(reason, 256, "%.255s", second ? second : "");
    }
    return library;
}

static firm_status take(void* library, const gpu_library** out, firm_error* err) {
    static const gpu_library_build ours = GPU_LIBRARY_BUILD;
    gpu_library_entry entry = NULL;
    *(void**)&entry = dlsym(library, GPU_LIBRARY_ENTRY);
    const gpu_library* table = entry ? entry() : NULL;
    if (table && memcmp(&table->build, &ours, sizeof ours) == 0) {
        *out = table;
        return FIRM_OK;
    }
    return FAIL(err, FIRM_E_UNAVAILABLE,
                GPU_LIBRARY_FILE
                " is of another build than this; install both from one (`make "
                "cuda`), or plan on the CPU");
}

const gpu_library* gpu_library_load(firm_error* err) {
    const gpu_library* table = atomic_load(&loaded);
    if (table) return table;
    loader l;
    if (!find_loader(&l)) {
        (void)FAIL(err, FIRM_E_UNAVAILABLE,
                   "a static program cannot load " GPU_LIBRARY_FILE
                   ", which plans on GPUs; link libfirm.so, or plan on the CPU");
        return NULL;
    }
    char reason[256];
    void* library = open_library(&l, reason);
    if (!library) {
        (void)FAIL(err, FIRM_E_UNAVAILABLE,
                   "planning on a GPU needs " GPU_LIBRARY_FILE
                   " (%s); `make cuda` builds it, or plan on the CPU (--device cpu)",
                   reason);
        return NULL;
    }
    if (take(library, &table, err) != FIRM_OK) {
        l.close(library);
        return NULL;
    }
    // two threads may come here at once: the loader gives both the same library
    atomic_store(&loaded, table);
    return table;
}
