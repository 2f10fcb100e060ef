// memory_test.c - little memory: the program does its work or ends soon, with status 2 and one
// sentence. No library may wait for memory that never comes.
#define _GNU_SOURCE
#include <sys/resource.h>

#include "program.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOWED 1  // sanitizers map terabytes of address space for themselves
#else
#define SHADOWED 0
#endif

enum { SECONDS = 20 };

// The program under a limit of address space (megabytes, 0: none) and of SECONDS of computing.
static const outcome* run_within(long megabytes, const char* folder, const char* line) {
    struct rlimit space, time;
    struct rusage used;
    getrlimit(RLIMIT_AS, &space);
    getrlimit(RLIMIT_CPU, &time);
    getrusage(RUSAGE_SELF, &used);
    // the child inherits them; this process has its own computing behind it
    struct rlimit less = {(rlim_t)megabytes << 20, space.rlim_max};
    struct rlimit soon = {(rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + SECONDS,
                          time.rlim_max};
    setrlimit(RLIMIT_CPU, &soon);
    if (megabytes) setrlimit(RLIMIT_AS, &less);
    const outcome* o = firm_run(folder, 0, "%s", line);
    setrlimit(RLIMIT_AS, &space);
    setrlimit(RLIMIT_CPU, &time);
    return o;
}

static void works_or_says_why(const char* folder, const char* line, long megabytes) {
    const outcome* o = run_within(megabytes, folder, line);
    const char* end = strchr(o->err, '\n');
    int said = o->code == 2 && strstr(o->err, "no memory") && end && end[1] == 0 && !o->out[0];
    if (!said && o->code != 0)
        test_fail(__FILE__, __LINE__, "%ld MB: firm %.20s: status %d: %s", megabytes, line, o->code,
                  o->err);
}

TEST(cli, little_memory_is_said_or_enough) {
    static const long megabytes[] = {50, 80, 100, 150, 200, 300, 500, 0};
    char plan[1200];
    const char* fix = firm_fixture();
    if (SHADOWED) {
        test_skip("sanitizers need all address space");
        return;
    }
    if (!fix) return;
    snprintf(plan, sizeof plan,
             "plan tworoom --model %s/models/tworoom.safetensors --frames frame-0.png --goal "
             "frame-3.png --mode contract --threads 2 --set plan.contract_iterations=1",
             test_source_dir());
    for (size_t i = 0; i < sizeof megabytes / sizeof *megabytes; i++)
        works_or_says_why(fix, plan, megabytes[i]);
    EXPECT_INT(run_within(0, fix, plan)->code, 0);
    EXPECT_INT(run_within(50, fix, plan)->code, 2);
    static const char train[] =
        "train tworoom --data f.h5 --branches i.h5 --config smoke --threads 2 --quiet -o little";
    works_or_says_why(fix, train, 200);
}
