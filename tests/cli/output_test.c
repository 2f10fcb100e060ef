// output_test.c - output that cannot be written: no such folder, a folder in the way, a full disk.
// One sentence, exit 2; what was there stays, and nothing half-written or temporary is left.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

// Commands that write; @ stands for the fixture's folder, # for the output.
static const struct {
    const char *command, *line;
} writers[] = {
    {"collect", "collect tworoom --episodes 40 -o # --quiet"},
    {"intervene", "intervene tworoom --data @/f.h5 --anchors 16 --branches 4 -o # --quiet"},
    {"train", "train tworoom --data @/f.h5 --branches @/i.h5 --config smoke -o # --quiet"},
    {"eval", "eval tworoom --arms random --trials 200 -o # --quiet"},
    {"export", "export @/run/model.safetensors -o # --quiet"},
    {"report", "report @/run -o # --quiet"},
    {"demo", "demo tworoom --model @/run/model.safetensors --trials 0 -o # --quiet"},
};
enum { WRITERS = sizeof writers / sizeof *writers };

static void fill_in(int which, const char* target, char* line, size_t room) {
    size_t n = 0;
    for (const char* at = writers[which].line; *at && n + 1 < room; at++) {
        char one[2] = {*at, 0};
        const char* piece = *at == '@' ? firm_fixture() : *at == '#' ? target : one;
        int length = snprintf(line + n, room - n, "%s", piece);
        n += (size_t)length;
    }
}

static const outcome* write_to(int which, const char* folder, long limit, const char* target) {
    char line[2048];
    fill_in(which, target, line, sizeof line);
    return firm_run(folder, limit, "%s", line);
}

TEST(cli, unwritable_output) {
    char folder[512], before[256], after[256];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    put_file(folder, "file", "precious", 8);
    for (int i = 0; i < WRITERS; i++) {
        // below a file; a run folder and pages may be made anew, files need their folder
        EXPECT_REFUSAL(write_to(i, folder, 0, "file/x"), writers[i].command, "file");
        int wants_file = strcmp(writers[i].command, "train") &&
                         strcmp(writers[i].command, "report") && strcmp(writers[i].command, "demo");
        if (wants_file)
            EXPECT_REFUSAL(write_to(i, folder, 0, "absent/x"), writers[i].command, "absent");
        else
            EXPECT_REFUSAL(write_to(i, folder, 0, "file"), writers[i].command, "file");
        size_t n;
        char* kept = get_file(folder, "file", &n);
        EXPECT(kept && n == 8 && memcmp(kept, "precious", 8) == 0);
        free(kept);
    }
    EXPECT_INT(folder_entries(folder, before, sizeof before), 1);
    // a folder where a file should go
    char inner[600];
    snprintf(inner, sizeof inner, "%s/inner", folder);
    mkdir(inner, 0755);
    EXPECT_REFUSAL(write_to(0, folder, 0, "inner"), "collect", "inner");
    EXPECT_REFUSAL(write_to(4, folder, 0, "inner"), "export", "inner");
    EXPECT_INT(folder_entries(inner, after, sizeof after), 0);
}

// Nothing in the folder, at any depth, looks temporary.
static void expect_no_temporary(const char* folder, const char* command) {
    char names[4096];
    folder_entries(folder, names, sizeof names);
    if (strstr(names, ".tmp")) test_fail(__FILE__, __LINE__, "%s left %s", command, names);
}

TEST(cli, disk_full_by_limit) {
    if (!firm_fixture()) return;
    for (int i = 0; i < WRITERS; i++) {
        char folder[512], inner[600];
        fresh_folder(folder);
        snprintf(inner, sizeof inner, "%s/out", folder);
        // the kernel would send a signal that kills; the program says which file and what to do
        const outcome* o = write_to(i, folder, 1024, "out");
        EXPECT_REFUSAL(o, writers[i].command, "cannot write out");
        EXPECT(strstr(o->err, "ulimit -f") != NULL);
        expect_no_temporary(folder, writers[i].command);
        struct stat s;
        if (stat(inner, &s) == 0 && S_ISDIR(s.st_mode)) {
            expect_no_temporary(inner, writers[i].command);
            char names[4096];
            folder_entries(inner, names, sizeof names);
            EXPECT(!strstr(names, "safetensors") && !strstr(names, "index.html"));
        } else {
            EXPECT_INT(folder_entries(folder, NULL, 0), 0);
        }
    }
}

// A file that is there already survives a failed attempt to replace it.
TEST(cli, disk_full_keeps_the_old_file) {
    char folder[512];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    static const int files[] = {0, 1, 3, 4};
    for (int i = 0; i < 4; i++) {
        put_file(folder, "old", "precious", 8);
        EXPECT_REFUSAL(write_to(files[i], folder, 1024, "old"), writers[files[i]].command, "old");
        size_t n;
        char* kept = get_file(folder, "old", &n);
        EXPECT(kept && n == 8 && memcmp(kept, "precious", 8) == 0);
        free(kept);
        EXPECT_INT(folder_entries(folder, NULL, 0), 1);
    }
}

// A real full disk: a file system of one page in a name space of its own, where that is allowed.
TEST(cli, disk_full_for_real) {
    char folder[512], out[600], script[3000];
    if (!firm_fixture()) return;
    fresh_folder(folder);
    snprintf(out, sizeof out, "%s/result.txt", test_temp_dir());
    for (int i = 0; i < WRITERS; i++) {
        char line[2048], target[600];
        snprintf(target, sizeof target, "%s/out", folder);
        fill_in(i, target, line, sizeof line);
        // what is left is listed inside the name space, where the disk can be seen
        snprintf(script, sizeof script,
                 "%s/firm %s; code=$?; find %s -name '*.tmp*' -o -name '*.safetensors' -o -name "
                 "index.html; exit $code",
                 FIRM_BINARY_DIR, line, folder);
        pid_t child = fork();
        if (child == 0) {
            int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            if (o < 0 || dup2(o, 1) < 0 || dup2(o, 2) < 0) _exit(90);
            if (unshare(CLONE_NEWNS) != 0 ||
                mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                mount("tmpfs", folder, "tmpfs", 0, "size=4k") != 0)
                _exit(90);
            execl("/bin/sh", "sh", "-c", script, (char*)NULL);
            _exit(90);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 90) {
            test_skip("mounting a small file system is not allowed here");
            return;
        }
        EXPECT_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 2);
        size_t n;
        char* text = get_file(test_temp_dir(), "result.txt", &n);
        if (!text) continue;
        text[n] = 0;
        char start[64];
        snprintf(start, sizeof start, "firm %s: ", writers[i].command);
        const char* end = strchr(text, '\n');
        if (strncmp(text, start, strlen(start)) != 0 || !end || end[1])
            test_fail(__FILE__, __LINE__, "not one sentence, or something left: '%s'", text);
        free(text);
    }
}

// An output that is an input, under whatever name: refused before any work, and the input stays.
TEST(cli, outputs_never_replace_inputs) {
    static const struct {
        const char *command, *input, *line;
    } cases[] = {
        {"intervene", "f.h5", "intervene tworoom --data f.h5 --anchors 16 --branches 4 -o #"},
        {"trials", "f.h5", "trials tworoom --data f.h5 --trials 4 -o #"},
        {"pack", "f.h5",
         "pack tworoom --data f.h5 --branches i.h5 --config smoke --set train.frame_pool=16 -o #"},
        {"pack", "i.h5",
         "pack tworoom --data f.h5 --branches i.h5 --config smoke --set train.frame_pool=16 -o #"},
        {"eval", "f.h5", "eval tworoom --arms random --data f.h5 --trials 4 -o #"},
        {"eval", "m.safetensors",
         "eval tworoom --arms random --model m.safetensors --trials 4 -o #"},
        {"collect", "c.ini", "collect tworoom --episodes 5 --config c.ini -o #"},
        {"export", "m.safetensors", "export m.safetensors -o #"},
        {"export", "n.safetensors", "export m.safetensors --member n.safetensors -o #"},
        {"report", "train.json", "report train.json --markdown #"},
        {"report", "train.json", "report . --markdown #"},
        {"train", "run/model.safetensors",
         "train tworoom --data f.h5 --branches i.h5 --config smoke --init # -o run"},
    };
    char folder[512], script[2048];
    const char* fix = firm_fixture();
    if (!fix) return;
    fresh_folder(folder);
    snprintf(script, sizeof script,
             "cd %s && cp %s/f.h5 %s/i.h5 . && cp %s/run/model.safetensors m.safetensors && "
             "cp m.safetensors n.safetensors && cp %s/run/train.json . && cp %s/run/config.ini "
             "c.ini && mkdir run && cp m.safetensors run/model.safetensors",
             folder, fix, fix, fix, fix, fix);
    if (system(script) != 0) abort();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = 0, k = 0;
        char* before = get_file(folder, cases[i].input, &n);
        for (int way = 0; way < 3; way++) {
            char target[700], own[600], line[1500];
            snprintf(own, sizeof own, "%s/%s", folder, cases[i].input);
            snprintf(target, sizeof target,
                     way == 0   ? "%s"
                     : way == 1 ? "%s/hard"
                                : "%s/soft",
                     way == 0 ? cases[i].input : folder);
            if (way == 1 && link(own, target) != 0) abort();
            if (way == 2 && symlink(own, target) != 0) abort();
            size_t used = 0;
            for (const char* at = cases[i].line; *at; at++) {
                char one[2] = {*at, 0};
                used += (size_t)snprintf(line + used, sizeof line - used, "%s",
                                         *at == '#' ? target : one);
            }
            EXPECT_REFUSAL(firm_run(folder, 0, "%s --quiet", line), cases[i].command,
                           strcmp(cases[i].command, "train") == 0 ? cases[i].input : target);
            if (way > 0) EXPECT_INT(unlink(target), 0);
        }
        char* after = get_file(folder, cases[i].input, &k);
        EXPECT(before && after && n == k && memcmp(before, after, n) == 0);
        free(before);
        free(after);
    }
    EXPECT_INT(folder_entries(folder, NULL, 0), 7);
    // what a run wrote about itself may be given to it again
    EXPECT_INT(firm_run(fix, 0,
                        "train tworoom --data f.h5 --branches i.h5 -o run --config run/config.ini "
                        "--resume --quiet")
                   ->code,
               0);
}

// An output that is a symbolic link is refused, also one that leads nowhere, in a run folder too.
TEST(cli, outputs_are_not_written_through_links) {
    char folder[512], path[700];
    struct stat s;
    if (!firm_fixture()) return;
    for (int i = 0; i < WRITERS; i++) {
        static const char* const inner[] = {
            [2] = "metrics.csv", [5] = "index.html", [6] = "trace-demo.json"};
        int folders = i == 2 || i >= 5;
        for (int loose = 0; loose < 2; loose++) {
            fresh_folder(folder);
            put_file(folder, "precious", "precious", 8);
            snprintf(path, sizeof path, "%s/out", folder);
            if (folders) {
                mkdir(path, 0755);
                snprintf(path, sizeof path, "%s/out/%s", folder, inner[i]);
            }
            char to[600];
            snprintf(to, sizeof to, "%s/%s", folder, loose ? "nowhere" : "precious");
            if (symlink(to, path) != 0) abort();
            EXPECT_REFUSAL(write_to(i, folder, 0, "out"), writers[i].command, "symbolic link");
            EXPECT(lstat(path, &s) == 0 && S_ISLNK(s.st_mode));
            EXPECT_INT(folder_entries(folder, NULL, 0), 2);
            size_t n = 0;
            char* kept = get_file(folder, "precious", &n);
            EXPECT(kept && n == 8 && memcmp(kept, "precious", 8) == 0);
            free(kept);
        }
    }
}

TEST(cli, standard_output_full) {
    if (access("/dev/full", W_OK) != 0) {
        test_skip("there is no /dev/full");
        return;
    }
    static const char* const lines[] = {"tasks --json", "tasks", "params --json", "--help"};
    for (int i = 0; i < 4; i++) {
        char script[600];
        snprintf(script, sizeof script, "%s/firm %s >/dev/full 2>%s/full.txt", FIRM_BINARY_DIR,
                 lines[i], test_temp_dir());
        int status = system(script);
        EXPECT_INT(WEXITSTATUS(status), 2);
        size_t n;
        char* text = get_file(test_temp_dir(), "full.txt", &n);
        if (text) text[n] = 0;
        EXPECT(text && strstr(text, "standard output") != NULL);
        free(text);
    }
}
