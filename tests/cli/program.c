// program.c - see program.h. The program is FIRM_BINARY_DIR/firm.
#define _GNU_SOURCE
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/env.h"
#include "io/image.h"

enum { MAX_WORDS = 128 };

// Splits `line` in place into words.
static int split(char* line, char** word) {
    int n = 0;
    for (char* at = line; *at && n < MAX_WORDS - 1;) {
        while (*at == ' ') *at++ = 0;
        if (!*at) break;
        char end = *at == '\'' ? '\'' : ' ';
        if (end == '\'') at++;
        word[n++] = at;
        while (*at && *at != end) at++;
        if (*at) *at++ = 0;
    }
    word[n] = NULL;
    return n;
}

// What keeps smoke training short: few frames, every stage and several shards.
static const char* shorter(const char* line) {
    if (!strstr(line, "--config smoke") || strstr(line, "train.segments")) return "";
    if (strstr(line, "--config smoke-cube"))  // whose pictures take longest to draw
        return " --set train.segments=6 --set train.held_out=2 --set train.frame_pool=6";
    return strstr(line, "--config smoke-")
               ? " --set train.segments=12 --set train.held_out=4"
               : " --set train.segments=8 --set train.held_out=4 --set train.support=64 "
                 "--set stage.tokenizer.batch=4 --set stage.grounder.batch=8 "
                 "--set stage.history.batch=4 --set stage.rollout-f.batch=16 "
                 "--set stage.rollout-fi.batch=16";
}

// The child borrows our memory until it has become the program: fork() would copy the page tables,
// which under a sanitizer are large. Between the two it only makes system calls.
static pid_t spawn(const char* folder, const char* line, long file_limit, const char* out,
                   const char* err) {
    char text[4096], *word[1 + MAX_WORDS] = {FIRM_BINARY_DIR "/firm"};
    snprintf(text, sizeof text, "%s%s", line, shorter(line));
    split(text, word + 1);
    pid_t child = vfork();
    if (child != 0) return child;
    int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644),
        e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (o < 0 || e < 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0 || chdir(folder) != 0) _exit(126);
    if (file_limit) {
        struct rlimit limit = {(rlim_t)file_limit, (rlim_t)file_limit};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(126);
    }
    execv(word[0], word);
    _exit(127);
}

static void read_text(const char* path, char* text, size_t room) {
    FILE* f = fopen(path, "r");
    size_t n = f ? fread(text, 1, room - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
}

static void outcome_of(int status, const char* out, const char* err, outcome* o) {
    o->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    o->killed = WIFSIGNALED(status);
    read_text(out, o->out, sizeof o->out);
    read_text(err, o->err, sizeof o->err);
}

const outcome* firm_run(const char* folder, long file_limit, const char* format, ...) {
    static outcome o;
    char line[4096], out[600], err[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    snprintf(out, sizeof out, "%s/stdout.txt", test_temp_dir());
    snprintf(err, sizeof err, "%s/stderr.txt", test_temp_dir());
    pid_t child = spawn(folder, line, file_limit, out, err);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    outcome_of(status, out, err, &o);
    return &o;
}

pid_t firm_start(const char* folder, const char* line) {
    char out[600], err[600];
    snprintf(out, sizeof out, "%s/started-out.txt", test_temp_dir());
    snprintf(err, sizeof err, "%s/started-err.txt", test_temp_dir());
    return spawn(folder, line, 0, out, err);
}

void firm_await(pid_t child) {
    char path[64], text[4096];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    for (int i = 0; i < 20000 && !(caught & 1ull << (SIGTERM - 1)); i++) {
        usleep(1000);
        read_text(path, text, sizeof text);
        const char* at = strstr(text, "SigCgt:");
        caught = at ? strtoull(at + 7, NULL, 16) : 0;
    }
}

const outcome* firm_end(pid_t child) {
    static outcome o;
    char out[600], err[600];
    int status = 0;
    snprintf(out, sizeof out, "%s/started-out.txt", test_temp_dir());
    snprintf(err, sizeof err, "%s/started-err.txt", test_temp_dir());
    if (waitpid(child, &status, 0) != child) abort();
    outcome_of(status, out, err, &o);
    return &o;
}

// ---- files --------------------------------------------------------------------------------------

void fresh_folder(char path[512]) {
    static int number;
    snprintf(path, 512, "%s/folder-%d", test_temp_dir(), number++);
    if (mkdir(path, 0755) != 0) abort();
}

int folder_entries(const char* path, char* names, size_t room) {
    DIR* dir = opendir(path);
    if (!dir) return -1;
    int n = 0;
    if (names) names[0] = 0;
    for (struct dirent* e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        n++;
        size_t used = names ? strlen(names) : 0;
        if (names) snprintf(names + used, room - used, "%s ", e->d_name);
    }
    closedir(dir);
    return n;
}

void put_file(const char* folder, const char* name, const void* bytes, size_t n) {
    char path[1100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

char* get_file(const char* folder, const char* name, size_t* n) {
    char path[1100];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &s) != 0) return NULL;
    char* bytes = malloc((size_t)s.st_size + 1);
    if (!bytes) abort();
    *n = fread(bytes, 1, (size_t)s.st_size, f);
    bytes[*n] = 0;  // so that texts are texts
    fclose(f);
    return bytes;
}

// ---- what every case starts from ----------------------------------------------------------------

static int run_step(const char* folder, const char* line) {
    const outcome* o = firm_run(folder, 0, "%s --quiet", line);
    if (o->code != 0)
        test_fail(__FILE__, __LINE__, "fixture: firm %s: exit %d, %s", line, o->code, o->err);
    return o->code == 0;
}

static int draw_frames(const char* folder) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    const env_spec* spec = env_find("tworoom");
    firm_error err;
    env* world;
    if (env_create(spec, &world, &err) != FIRM_OK) return 0;
    double state[2] = {60, 60};
    int ok = 1;
    for (int i = 0; i < 4 && ok; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/frame-%d.png", folder, i);
        state[0] = i < 3 ? 60 + 4 * i : 90;  // three steps to the right; the goal farther on
        spec->sim->state_set(world, state);
        spec->sim->render(world, rgb);
        ok = image_write_png(path, ENV_IMAGE, ENV_IMAGE, rgb, &err) == FIRM_OK;
    }
    env_free(world);
    return ok;
}

const char* firm_fixture(void) {
    static char folder[512];
    static int tried, good;
    if (!tried) {
        tried = 1;
        fresh_folder(folder);
        good =
            run_step(folder, "collect tworoom -o f.h5 --episodes 60") &&
            run_step(folder, "intervene tworoom --data f.h5 -o i.h5 --anchors 16 --branches 4") &&
            run_step(folder, "train tworoom --data f.h5 --branches i.h5 -o run --config smoke") &&
            draw_frames(folder);
    }
    if (!good)
        test_fail(__FILE__, __LINE__, "the data set and model for these tests could not be made");
    return good ? folder : NULL;
}

// ---- expectations -------------------------------------------------------------------------------

cJSON* json_of(const char* file, int line, const outcome* o) {
    const char* end = NULL;
    cJSON* json = o->code <= 1 ? cJSON_ParseWithOpts(o->out, &end, 0) : NULL;
    if (!json || strspn(end, " \n") != strlen(end)) {
        test_fail(file, line, "exit %d, not one JSON object: '%.200s' (stderr: %.300s)", o->code,
                  o->out, o->err);
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

void expect_keys(const char* file, int line, const cJSON* json, const char* keys) {
    char text[512], *save, *key;
    snprintf(text, sizeof text, "%s", keys);
    for (key = strtok_r(text, " ", &save); key; key = strtok_r(NULL, " ", &save))
        if (!cJSON_GetObjectItemCaseSensitive(json, key))
            test_fail(file, line, "the key '%s' is missing", key);
}

void expect_refusal(const char* file, int line, const outcome* o, const char* command,
                    const char* says) {
    char start[64];
    snprintf(start, sizeof start, "firm %s: ", command);
    if (o->code != 2)
        test_fail(file, line, "exit %d, expected 2 (stderr: %.300s)", o->code, o->err);
    if (o->out[0]) test_fail(file, line, "stdout has '%.100s'", o->out);
    if (strncmp(o->err, start, strlen(start)) != 0)
        test_fail(file, line, "'%.300s' does not start '%s'", o->err, start);
    const char* end = strchr(o->err, '\n');
    if (!end || end[1]) test_fail(file, line, "not one line: '%.400s'", o->err);
    if (!strstr(o->err, says)) test_fail(file, line, "'%s' is not in '%.400s'", says, o->err);
}
