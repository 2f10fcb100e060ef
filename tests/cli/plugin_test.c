// plugin_test.c - tasks of one's own: the example pendulum as a user compiles and runs it, plug-ins
// that lie (one for each check of `firm check`), and plug-ins that cannot be loaded.
#include "program.h"

// Compiles a plug-in into `folder`; 0: there is no compiler, or it failed.
static int compile(const char* folder, const char* source, const char* flags, const char* name) {
    char line[2048];
    const char* root = test_source_dir();
    snprintf(line, sizeof line, "cc -shared -fPIC -O2 %s %s/%s -o %s/%s -I%s/include", flags, root,
             source, folder, name, root);
    if (system(line) == 0) return 1;
    test_fail(__FILE__, __LINE__, "failed: %s", line);
    return 0;
}

static int compile_pendulum(const char* folder) {
    return compile(folder, "examples/tasks/pendulum.c", "-Wall -Wextra -Werror -std=c17",
                   "pendulum.so");
}

static const cJSON* check_of(const cJSON* json, const char* name) {
    const cJSON* c;
    cJSON_ArrayForEach(
        c, cJSON_GetObjectItemCaseSensitive(
               json, "checks")) if (strcmp(cJSON_GetObjectItemCaseSensitive(c, "name")->valuestring,
                                           name) == 0) return c;
    return NULL;
}

TEST(cli, plugin_example_passes_every_check) {
    char folder[512];
    fresh_folder(folder);
    if (!compile_pendulum(folder)) return;
    const outcome* o = firm_run(folder, 0, "check ./pendulum.so --json");
    EXPECT_INT(o->code, 0);
    cJSON* json = JSON_OF(o);
    if (!json) return;
    EXPECT_KEYS(json, "task checks pass");
    EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(json, "task")->valuestring, "pendulum");
    EXPECT(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "pass")));
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "checks"), *c;
    EXPECT_INT(cJSON_GetArraySize(list), 12);
    cJSON_ArrayForEach(c, list) EXPECT_KEYS(c, "name pass figure sentence");
    cJSON_Delete(json);
}

// A task of the program's own passes as well.
TEST(cli, check_of_a_task_of_the_programs) {
    char folder[512];
    fresh_folder(folder);
    const outcome* o = firm_run(folder, 0, "check tworoom");
    EXPECT_INT(o->code, 0);
    EXPECT(strstr(o->out, "tworoom: all checks passed\n") != NULL);
}

#ifdef __SANITIZE_ADDRESS__  // it reports a crash and ends the process
#define CRASHED "ended the program here with status 1"
#else
#define CRASHED "crashed here with signal 11"
#endif

static const struct {
    const char *what, *check, *says;
} broken[] = {
    {"CRASH", "numbers", CRASHED},
    {"HANG", "numbers", "did not end within 2 s"},
    {"QUIT", "numbers", "ended the program here with status 5"},
    {"LOST", "numbers", "not finite"},
    {"SETTER", "restores", "state_set must bring the whole moment back"},
    {"BLANK", "pictures", "one colour"},
    {"LAZY", "pictures", "two pictures of one state differ"},
    {"BLIND", "looks", "have the same picture"},
    {"SHARED", "together", "when another one runs beside it"},
    {"CHANCE", "repeats", "no random numbers but those given"},
    {"HIDDEN", "replays", "the state leaves something out"},
    {"EASY", "goals", "nothing to plan"},
    {"HARD", "goals", "no success where it is itself the goal"},
    {"FIXED", "starts", "all the same"},
    {"DEAF", "actions", "step ignores them"},
    {"SINE", "numbers", "no sine and cosine"},
    {"STALE", "pictures", NULL},  // a picture that shows the speed is fine: the state has it
    {"LOADING", "loads", "while it was loaded"},
    {"SLOW", "speed", "make the simulator faster"},
};

TEST(cli, check_finds_out_plugins_that_lie) {
    char folder[512], flags[64];
    fresh_folder(folder);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        if (test_short() && i % 3) continue;
        snprintf(flags, sizeof flags, "-DBREAK=%s", broken[i].what);
        if (!compile(folder, "tests/cli/broken_task.c", flags, "b.so")) return;
        const outcome* o = firm_run(folder, 0, "check ./b.so --json --only %s --limit %d",
                                    strcmp(broken[i].check, "loads") ? broken[i].check : "starts",
                                    strcmp(broken[i].what, "HANG") == 0 ? 2 : 60);
        EXPECT_INT(o->code, broken[i].says ? 1 : 0);
        cJSON* json = JSON_OF(o);
        const cJSON* c = json ? check_of(json, broken[i].check) : NULL;
        const char* said =
            c ? cJSON_GetObjectItemCaseSensitive(c, "sentence")->valuestring : "(no such check)";
        if (!c || cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "pass")) == !!broken[i].says ||
            (broken[i].says && !strstr(said, broken[i].says)))
            test_fail(__FILE__, __LINE__, "%s: check %s says '%s'", broken[i].what, broken[i].check,
                      said);
        if (broken[i].says && !strstr(o->err, "checks failed; the first: "))
            test_fail(__FILE__, __LINE__, "%s: stderr is '%s'", broken[i].what, o->err);
        cJSON_Delete(json);
    }
}

TEST(cli, plugins_that_cannot_be_loaded) {
    static const struct {
        const char *what, *says;
    } bad[] = {{"OTHER_ABI", "does not serve version 1"},
               {"NO_RENDER", "has no function render"},
               {"NO_STATE", "state_dim is 0; use 1 to 64"},
               {"NAMED", "calls its task 'tworoom'"},
               {"WORDS", "[task] period_us"},
               {"CHI", "say chi = 2"},
               {"COUNTS", "steps = 3; use 30"},
               {"REFUSES", "could not make a simulator: the licence server is away"}};
    char folder[512], flags[64];
    fresh_folder(folder);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(flags, sizeof flags, "-DBREAK=%s", bad[i].what);
        if (!compile(folder, "tests/cli/broken_task.c", flags, "b.so")) return;
        EXPECT_REFUSAL(firm_run(folder, 0, "collect ./b.so --episodes 10 -o d.h5"), "collect",
                       bad[i].says);
    }
    put_file(folder, "text.so", "no library", 10);
    EXPECT_REFUSAL(firm_run(folder, 0, "check ./text.so"), "check", "cannot be loaded");
    EXPECT_REFUSAL(firm_run(folder, 0, "check tworoom --only colours"), "check",
                   "the checks are: starts, numbers");
    EXPECT_REFUSAL(firm_run(folder, 0, "check ./nothing.so"), "check", "there is no file");
    EXPECT_REFUSAL(firm_run(folder, 0, "check nothing.so"), "check", "there is no file");
    EXPECT_REFUSAL(firm_run(folder, 0, "check nothing"), "check", "by path, as in ./task.so");
    put_file(folder, "empty.c", "int x;\n", 7);
    char line[1200];
    snprintf(line, sizeof line, "cc -shared -fPIC %s/empty.c -o %s/empty.so", folder, folder);
    EXPECT_INT(system(line), 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "check ./empty.so"), "check", "exports no firm_task_entry");
}

// A table of an older header: what it lacks is NULL, here chi, which then is the change of c.
TEST(cli, plugins_of_an_older_header_run) {
    char folder[512];
    fresh_folder(folder);
    if (!compile(folder, "tests/cli/broken_task.c", "-DBREAK=OLD", "old.so")) return;
    EXPECT_INT(firm_run(folder, 0, "collect ./old.so --episodes 12 -o d.h5")->code, 0);
    EXPECT_INT(
        firm_run(folder, 0, "intervene ./old.so --data d.h5 --anchors 4 --branches 3 -o i.h5")
            ->code,
        0);
}

// Files are matched by the typed task, not by its name alone.
TEST(cli, plugin_files_of_another_version_are_refused) {
    char folder[512];
    fresh_folder(folder);
    if (!compile_pendulum(folder) ||
        !compile(folder, "tests/cli/broken_task.c", "-DBREAK=TOLERANT", "other.so"))
        return;
    EXPECT_INT(firm_run(folder, 0, "collect ./pendulum.so --episodes 30 -o d.h5")->code, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "audit ./other.so --data d.h5"), "audit",
                   "made for another version of the task pendulum");
    EXPECT_REFUSAL(firm_run(folder, 0, "audit tworoom --data d.h5"), "audit", "'pendulum'");
    EXPECT_INT(
        firm_run(folder, 0, "trials ./pendulum.so --data d.h5 --trials 4 --offset 25 -o t.h5")
            ->code,
        0);
    EXPECT_REFUSAL(firm_run(folder, 0, "eval ./other.so --trials-file t.h5 --arms random"), "eval",
                   "another version");
}
