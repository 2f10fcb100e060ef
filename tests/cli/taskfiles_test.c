// taskfiles_test.c - docs/task-files.md as a reader follows it: its files are the examples', and
// every command line of it runs, in small.
#include "../data/recording.h"
#include "program.h"

static char* read_page(void) {
    size_t n;
    char* page = get_file(test_source_dir(), "docs/task-files.md", &n);
    if (!page) test_fail(__FILE__, __LINE__, "docs/task-files.md is not there");
    return page;
}

// The n-th fenced block that begins so, as a text of its own; the caller frees it.
static char* block(const char* page, const char* fence, int n) {
    const char* at = page;
    for (; n >= 0 && at; n--) {
        at = strstr(at, fence);
        if (at) at += strlen(fence);
    }
    const char* end = at ? strstr(at, "```") : NULL;
    if (!end) {
        test_fail(__FILE__, __LINE__, "block %s is missing", fence);
        return calloc(1, 1);
    }
    char* text = calloc(1, (size_t)(end - at) + 1);
    memcpy(text, at, (size_t)(end - at));
    return text;
}

// Without comments, empty lines and spaces at the end.
static char* plain(const char* text) {
    char* out = calloc(1, strlen(text) + 2);
    for (const char* at = text; *at;) {
        size_t n = strcspn(at, "\n"), kept = n;
        for (size_t i = 0; i < n; i++)
            if (at[i] == ';' && (i == 0 || at[i - 1] == ' ')) {
                kept = i;
                break;
            }
        while (kept && at[kept - 1] == ' ') kept--;
        if (kept) {
            strncat(out, at, kept);
            strcat(out, "\n");
        }
        at += n + (at[n] == '\n');
    }
    return out;
}

// The page's file and the example are one task file.
static void expect_example(const char* page, int n, const char* name) {
    char path[128], *in_page = block(page, "```ini\n", n);
    size_t bytes;
    snprintf(path, sizeof path, "examples/tasks/%s", name);
    char* file = get_file(test_source_dir(), path, &bytes);
    char *a = plain(in_page), *b = plain(file ? file : "");
    EXPECT_TEXT(a, b);
    free(a);
    free(b);
    free(file);
    free(in_page);
}

// What makes a line of the page short: flags behind its command.
static const char* in_small(const char* line) {
    static const struct {
        const char *command, *more;
    } shorter[] = {
        {"train robot", " --config smoke"},
        {"train examples",
         " --config smoke --set model.grid=8 --set train.frame_pool=40 "
         "--set train.frame_pool_i=40"},
        {"intervene", " --anchors 6 --branches 3"},
        {"audit", " --anchors 6"},
        {"eval examples", " --trials 3"},
    };
    for (size_t i = 0; i < sizeof shorter / sizeof *shorter; i++)
        if (strstr(line, shorter[i].command) == line) return shorter[i].more;
    return "";
}

// Runs the "firm ..." lines of a block; what stands behind two spaces is a comment.
static void run_lines(const char* folder, const char* text) {
    int lines = 0;
    for (const char* at = text; *at;) {
        char line[1024], full[2048], *word;
        size_t n = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, at);
        at += n + (at[n] == '\n');
        if (strncmp(line, "firm ", 5) != 0) continue;
        if ((word = strstr(line, "  "))) *word = 0;
        if ((word = strstr(line, "--episodes 600"))) memcpy(word, "--episodes  30", 14);
        snprintf(full, sizeof full, "%s%s --quiet", line + 5, in_small(line + 5));
        while ((word = strstr(full, " examples/"))) {
            char rest[2048];
            snprintf(rest, sizeof rest, "%s", word + 1);
            snprintf(word, sizeof full - (size_t)(word - full), " %s/%s", test_source_dir(), rest);
        }
        const outcome* o = firm_run(folder, 0, "%s", full);
        if (o->code != 0)
            test_fail(__FILE__, __LINE__, "firm %s: exit %d: %s", full, o->code, o->err);
        lines++;
    }
    EXPECT(lines == 5);
}

// The page's arm pushes the page's box, whose place is made up of the same columns.
static void run_pushing(const char* folder, const char* page, const char* words) {
    static const char config[] = "[config]\nbox = angle qpos[0]\n";
    static const char box[] = "box_x = xpos[0]\nbox_y = xpos[1] + 0.1\n";
    char text[4096], *plainly = plain(words), *push = block(page, "```ini\n", 2);
    char *angles = strstr(plainly, "[config]\n"), *after = strstr(plainly, "[distance]");
    EXPECT(angles && after && strstr(push, "[push]"));
    if (angles && after) {
        int head = (int)(angles - plainly), rest = (int)(after - angles) - 9;
        snprintf(text, sizeof text, "%.*s%s%.*s%s%s%s", head, plainly, config, rest, angles + 9,
                 box, after, push);
        put_file(folder, "push.ini", text, strlen(text));
        const outcome* o =
            firm_run(folder, 0,
                     "train push.ini --data robot.h5 --sources F -o pushing --config "
                     "smoke --set model.spatial=16 --quiet");
        if (o->code != 0) test_fail(__FILE__, __LINE__, "exit %d: %s", o->code, o->err);
        EXPECT_REFUSAL(firm_run(folder, 0,
                                "train robot.ini --data robot.h5 --sources F -o pushing --config "
                                "smoke --set model.spatial=16 --quiet"),
                       "train", "[push]");
    }
    free(push);
    free(plainly);
}

TEST(cli, taskfiles_page_with_recordings) {
    char folder[512], path[600], *page = read_page();
    const char* fix = firm_fixture();
    firm_error err = {0};
    pool* p;
    episodes* e;
    if (!page || !fix) return;
    fresh_folder(folder);
    expect_example(page, 0, "robot.ini");
    char *words = block(page, "```ini\n", 0), *lines = block(page, "```sh\n", 0);
    put_file(folder, "robot.ini", words, strlen(words));
    static const char* const name[] = {"a.png", "b.png", "c.png", "g.png"};
    for (int i = 0; i < 4; i++) {
        char from[32];
        size_t n;
        snprintf(from, sizeof from, "frame-%d.png", i);
        char* bytes = get_file(fix, from, &n);
        if (bytes) put_file(folder, name[i], bytes, n);
        free(bytes);
    }
    collect_options opt = {.episodes = 20, .seed = 4};
    REQUIRE_OK(pool_create(1, &p, &err), err);
    REQUIRE_OK(episodes_collect(env_find("tworoom"), &opt, p, &e, &err), err);
    snprintf(path, sizeof path, "%s/robot.h5", folder);
    if (recording_write(&(recording){.arm = 1}, e, path)) {
        run_lines(folder, lines);
        run_pushing(folder, page, words);
    }
    episodes_free(e);
    pool_free(p);
    free(words);
    free(lines);
    free(page);
}

TEST(cli, taskfiles_page_with_a_model) {
    char folder[512], path[700], *page = read_page();
    if (!page) return;
    expect_example(page, 1, "point_mass.ini");
    snprintf(path, sizeof path, "%s/examples/tasks/point_mass.ini", test_source_dir());
    fresh_folder(folder);
    const outcome* o = firm_run(folder, 0, "check %s", path);
    if (o->code == 2) {  // no MuJoCo, or no models: both come with `make mujoco`
        EXPECT(strstr(o->err, "MuJoCo"));
        test_skip("without MuJoCo or its models; run `make mujoco`");
    } else {
        EXPECT_INT(o->code, 0);
        char* lines = block(page, "```sh\n", 1);
        run_lines(folder, lines);
        free(lines);
    }
    free(page);
}
