// layers_test.c - the picture of the flow stays true: a folder of src/ includes from itself, from
// folders to its left in env data model train plan eval report, and from core, nn, task and io; nn
// and task include from core alone, core from nothing, cli from all. The folders of libfirm include
// from one another only, and no header but those of the C library. CUDA headers and sources appear
// in the cuda/ folders of nn and plan only. Prints the graph it found.
#define _GNU_SOURCE
#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static const char* const folders[] = {"core",  "nn",    "task", "io",   "env",    "data",
                                      "model", "train", "plan", "eval", "report", "cli"};
enum { FOLDERS = sizeof folders / sizeof folders[0] };

// libfirm is made of these: what they need, a robot needs.
static const char* const runtime[] = {"core", "nn", "task", "model", "plan"};

static int in_runtime(int folder) {
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
        if (strcmp(folders[folder], runtime[i]) == 0) return 1;
    return 0;
}

typedef struct scan {
    char root[512];  // holds src/ and include/
    char first_violation[1024];
    int violations, includes;
    int graph[FOLDERS][FOLDERS];  // [from][to]: number of includes
} scan;

static scan* current;  // nftw passes no argument

// in this order each folder may see all before it; core comes first
static int folder_index(const char* name, size_t n) {
    for (int i = 0; i < FOLDERS; i++)
        if (strlen(folders[i]) == n && memcmp(folders[i], name, n) == 0) return i;
    return -1;
}

static int present(const char* format, const char* a, const char* b) {
    char path[1600];
    snprintf(path, sizeof path, format, a, b);
    return access(path, R_OK) == 0;
}

static void violation(const char* file, int line, const char* include, const char* why) {
    if (current->violations++ == 0)
        snprintf(current->first_violation, sizeof current->first_violation,
                 "%s:%d: includes \"%s\": %s", file + strlen(current->root) + 1, line, include,
                 why);
}

static void check_quoted(const char* file, int line, int from, const char* include) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", file);
    *strrchr(folder, '/') = 0;
    current->includes++;
    if (strstr(include, "..")) {
        violation(file, line, include, "write the path from src/, without ..");
    } else if (present("%s/src/%s", current->root, include)) {
        int to = folder_index(include, strcspn(include, "/"));
        if (to < 0)
            violation(file, line, include, "not in a folder of the flow");
        else if (to > from)
            violation(file, line, include, "that folder is to the right in the flow");
        else if (in_runtime(from) && !in_runtime(to))
            violation(file, line, include, "libfirm does not have that folder");
        else
            current->graph[from][to]++;
    } else if (present("%s/%s", folder, include)) {
        current->graph[from][from]++;  // a neighbour, named without its folder
    } else if (!present("%s/include/%s", current->root, include)) {
        violation(file, line, include, "there is no such file");
    }
}

// headers of the CUDA toolkit
static int is_cuda(const char* include) {
    static const char* const starts[] = {"cuda", "cublas", "cudnn", "cooperative_groups", "nv"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(include, starts[i], strlen(starts[i])) == 0) return 1;
    return 0;
}

// headers of libraries that the program links and libfirm does not
static int is_foreign(const char* include) {
    static const char* const starts[] = {"cjson/", "hdf5",  "H5",       "ini.h", "png.h",
                                         "zlib.h", "cblas", "chipmunk", "mujoco"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(include, starts[i], strlen(starts[i])) == 0) return 1;
    return 0;
}

static int scan_file(const char* path, const struct stat* s, int type, struct FTW* f) {
    (void)s, (void)f;
    const char* ending = strrchr(path, '.');
    if (type != FTW_F || !ending) return 0;
    int known = 0;
    static const char* const endings[] = {".c", ".h", ".cu", ".cuh", ".inc"};
    for (int i = 0; i < 5; i++) known |= strcmp(ending, endings[i]) == 0;
    if (!known) return 0;

    const char* inside = path + strlen(current->root) + strlen("/src/");
    int from = folder_index(inside, strcspn(inside, "/"));
    int cuda = strncmp(inside, "nn/cuda/", 8) == 0 || strncmp(inside, "plan/cuda/", 10) == 0;
    FILE* file = fopen(path, "r");
    char text[1024], include[512];
    if (from < 0) violation(path, 0, "", "the folder is not part of the flow");
    if (!cuda && strncmp(ending, ".cu", 3) == 0)
        violation(path, 0, "", "CUDA sources belong in nn/cuda and plan/cuda");
    for (int line = 1; file && from >= 0 && fgets(text, sizeof text, file); line++) {
        if (sscanf(text, " # include \"%500[^\"]\"", include) == 1)
            check_quoted(path, line, from, include);
        if (sscanf(text, " # include <%500[^>]>", include) == 1 && !cuda && is_cuda(include))
            violation(path, line, include, "CUDA headers belong in nn/cuda and plan/cuda");
        if (sscanf(text, " # include <%500[^>]>", include) == 1 && in_runtime(from) &&
            is_foreign(include))
            violation(path, line, include, "libfirm needs libc and libm alone");
    }
    if (file) fclose(file);
    return 0;
}

static void scan_tree(scan* out, const char* root) {
    char src[600];
    memset(out, 0, sizeof *out);
    snprintf(out->root, sizeof out->root, "%s", root);
    snprintf(src, sizeof src, "%s/src", root);
    current = out;
    if (nftw(src, scan_file, 16, FTW_PHYS) != 0) violation(root, 0, src, "cannot be walked");
    current = NULL;
}

TEST(core, layers_hold) {
    static scan s;
    scan_tree(&s, test_source_dir());
    if (s.violations)
        test_fail(__FILE__, __LINE__, "%d violations, the first: %s", s.violations,
                  s.first_violation);
    EXPECT(s.includes > 30);
    for (int from = 1; from < FOLDERS; from++) {
        int any = 0;
        for (int to = 0; to < from; to++)
            if (s.graph[from][to])
                any += printf("%s%s", any ? " " : (printf("  %-6s <- ", folders[from]), ""),
                              folders[to]);
        if (any) printf("\n");
    }
}

// The checker sees what it is there to see.
static void put(const char* root, const char* name, const char* text) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char* c = path + strlen(root) + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        mkdir(path, 0755);
        *c = '/';
    }
    FILE* f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

TEST(core, layers_checker_works) {
    static const struct {
        const char *name, *text, *want;
    } cases[] = {
        {"src/data/a.c", "#include \"core/x.h\"\n#include \"env/y.h\"\n#include \"nn/n.h\"\n",
         NULL},
        {"src/cli/a.c", "#include \"plan/p.h\"\n#include <stdio.h>\n#include \"firm.h\"\n", NULL},
        {"src/nn/cpu/a.c", "#include \"nn/n.h\"\n", NULL},
        {"src/nn/a.c", "#include \"cpu/k.h\"\n", NULL},
        {"src/nn/cuda/a.cu", "#include <cuda_runtime.h>\n", NULL},
        {"src/env/a.c", "\n#include \"plan/p.h\"\n", "src/env/a.c:2: includes \"plan/p.h\""},
        {"src/core/a.c", "#  include \"nn/n.h\"\n", "src/core/a.c:1"},
        {"src/nn/a.c", "#include \"env/y.h\"\n", "to the right"},
        {"src/env/a.c", "#include \"../core/x.h\"\n", "without .."},
        {"src/env/a.c", "#include \"core/absent.h\"\n", "no such file"},
        {"src/plan/cuda/a.c", "#include <cuda_runtime_api.h>\n#include \"plan/p.h\"\n", NULL},
        {"src/plan/a.c", "#include <cublasLt.h>\n", "nn/cuda"},
        {"src/env/cuda/a.c", "#include <cuda_runtime.h>\n", "plan/cuda"},
        {"src/plan/a.cu", "", "CUDA sources"},
        {"src/nn/cuda/a.cu", "#include \"plan/p.h\"\n", "to the right"},
        {"src/other/a.c", "", "not part of the flow"},
        {"src/model/a.c", "#include \"nn/n.h\"\n#include \"core/x.h\"\n", NULL},
        {"src/model/a.c", "#include \"env/y.h\"\n", "libfirm does not have"},
        {"src/plan/a.c", "#include <cjson/cJSON.h>\n", "libc and libm"},
        {"src/eval/a.c", "#include <cjson/cJSON.h>\n#include \"env/y.h\"\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char root[512];
        static scan s;
        snprintf(root, sizeof root, "%s/tree%zu", test_temp_dir(), i);
        mkdir(root, 0755);
        put(root, "include/firm.h", "");
        put(root, "src/core/x.h", "");
        put(root, "src/env/y.h", "");
        put(root, "src/nn/n.h", "");
        put(root, "src/nn/cpu/k.h", "");
        put(root, "src/plan/p.h", "");
        put(root, cases[i].name, cases[i].text);
        scan_tree(&s, root);
        EXPECT_INT(s.violations, cases[i].want != NULL);
        if (cases[i].want && !strstr(s.first_violation, cases[i].want))
            test_fail(__FILE__, __LINE__, "'%s' is not in '%s'", cases[i].want, s.first_violation);
    }
}
