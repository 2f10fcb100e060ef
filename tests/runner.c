// runner.c - runs the registered tests, all or those whose name starts with an argument.
#define _GNU_SOURCE
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MAX_TESTS = 1024 };
static struct {
    const char* name;
    test_fn fn;
} tests[MAX_TESTS];
static int count, failures_in_test, skipped_test, times;
static char temp_dir[256];

void test_register(const char* name, test_fn fn) {
    if (count == MAX_TESTS) abort();
    tests[count].name = name;
    tests[count++].fn = fn;
}

void test_fail(const char* file, int line, const char* fmt, ...) {
    va_list args;
    va_start(args, fmt);
    printf("  %s:%d: ", file, line);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    failures_in_test++;
}

void test_skip(const char* why) {
    printf("  skipped: %s\n", why);
    skipped_test = 1;
}

int test_short(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 1;
#else
    return getenv("FIRM_TEST_SHORT") != NULL;
#endif
}

double test_tolerance_scale(void) {
    const char* text = getenv("FIRM_TOL_SCALE");
    return text ? atof(text) : 1.0;
}

const char* test_temp_dir(void) {
    if (!temp_dir[0]) {
        const char* base = getenv("TMPDIR");
        snprintf(temp_dir, sizeof temp_dir, "%s/firm-tests-XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(temp_dir)) {
            perror("mkdtemp");
            abort();
        }
    }
    return temp_dir;
}

const char* test_source_dir(void) {
    return FIRM_SOURCE_DIR;
}

static int remove_entry(const char* path, const struct stat* s, int type, struct FTW* f) {
    (void)s, (void)type, (void)f;
    return remove(path);
}

static int by_name(const void* a, const void* b) {
    return strcmp(*(const char* const*)a, *(const char* const*)b);
}

// --part=2/3: every third of the wanted tests, from the second on; what ctest runs side by side
static int in_part(int nth, int argc, char** argv) {
    int part = 1, parts = 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--part=", 7) != 0) continue;
        if (sscanf(argv[i], "--part=%d/%d", &part, &parts) != 2 || part < 1 || part > parts) {
            fprintf(stderr, "%s is no part, such as --part=2/3\n", argv[i]);
            exit(2);
        }
    }
    return nth % parts == part - 1;
}

// names begin with what is asked for, and not with what --not= leaves out
static int wanted(const char* name, int argc, char** argv) {
    int filters = 0;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--not=", 6) == 0 &&
            strncmp(name, argv[i] + 6, strlen(argv[i] + 6)) == 0)
            return 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') continue;
        filters++;
        if (strncmp(name, argv[i], strlen(argv[i])) == 0) return 1;
    }
    return filters == 0;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// what this process and the programs it started and waited for have cost, on all cores
static double cpu_seconds(void) {
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage u;
        if (getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &u) != 0) continue;
        sum += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec);
        sum += 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    }
    return sum;
}

// "ok   nn/conv2d", and how long it took where somebody may have wondered; --times: always
static void print_verdict(const char* word, const char* name, double took, double cpu) {
    printf("%-4s %s", word, name);
    if (times)
        printf(" (%.2f s, %.2f s of CPU time)", took, cpu);
    else if (took >= 1)
        printf(" (%.1f s)", took);
    printf("\n");
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    // whoever began this may ignore them (nohup does), and tests send them to programs
    static const int ours[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) signal(ours[i], SIG_DFL);
    qsort(tests, (size_t)count, sizeof tests[0], by_name);
    int passed = 0, failed = 0, skipped = 0, nth = 0;
    for (int i = 1; i < argc; i++) times |= strcmp(argv[i], "--times") == 0;
    for (int i = 0; i < count; i++) {
        if (argc > 1 && strcmp(argv[1], "--list") == 0) {
            printf("%s\n", tests[i].name);
            continue;
        }
        if (!wanted(tests[i].name, argc, argv) || !in_part(nth++, argc, argv)) continue;
        failures_in_test = skipped_test = 0;
        double begin = seconds(), cpu_begin = cpu_seconds();
        tests[i].fn();
        double took = seconds() - begin, cpu = cpu_seconds() - cpu_begin;
        if (failures_in_test) {
            print_verdict("FAIL", tests[i].name, took, cpu);
            failed++;
        } else if (skipped_test) {
            skipped++;
        } else {
            print_verdict("ok", tests[i].name, took, cpu);
            passed++;
        }
    }
    if (temp_dir[0]) nftw(temp_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (argc > 1 && strcmp(argv[1], "--list") == 0) return 0;
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || passed + skipped == 0;
}
