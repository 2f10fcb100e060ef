// file_test.c - whole files or none: atomic replacement, full disks, unwritable and odd targets.
#define _GNU_SOURCE
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/mem.h"

// a fresh folder per test, so that left-over files can be counted
static void make_folder(const char* name, char out[512]) {
    snprintf(out, 512, "%s/%s", test_temp_dir(), name);
    if (mkdir(out, 0755) != 0 && errno != EEXIST) abort();
}

static int entries(const char* folder) {
    int n = 0;
    DIR* d = opendir(folder);
    for (struct dirent* e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static void put_file(const char* path, const char* text) {
    FILE* f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

static void expect_content(int line, const char* path, const char* want) {
    char* bytes;
    size_t n;
    firm_error err;
    if (file_read_all(path, &bytes, &n, &err) != FIRM_OK) {
        test_fail(__FILE__, line, "%s", err.message);
        return;
    }
    if (strcmp(bytes, want) != 0)
        test_fail(__FILE__, line, "%s holds '%s', expected '%s'", path, bytes, want);
    mem_free(bytes);
}

TEST(core, file_write_is_atomic) {
    char folder[512], path[600];
    make_folder("atomic", folder);
    snprintf(path, sizeof path, "%s/out.bin", folder);
    put_file(path, "old");
    file_writer w;
    firm_error err;
    REQUIRE_OK(file_open_write(&w, path, &err), err);
    REQUIRE_OK(file_put(&w, "ne", 2, &err), err);
    REQUIRE_OK(file_put(&w, NULL, 0, &err), err);
    expect_content(__LINE__, path, "old");
    REQUIRE_OK(file_put(&w, "w", 1, &err), err);
    REQUIRE_OK(file_commit(&w, &err), err);
    expect_content(__LINE__, path, "new");
    file_abandon(&w);  // harmless now
    EXPECT_INT(file_commit(&w, &err), FIRM_E_IO);
    EXPECT_INT(file_put(&w, "x", 1, &err), FIRM_E_IO);
    expect_content(__LINE__, path, "new");

    REQUIRE_OK(file_open_write(&w, path, &err), err);
    REQUIRE_OK(file_put(&w, "third", 5, &err), err);
    file_abandon(&w);
    expect_content(__LINE__, path, "new");
    EXPECT_INT(entries(folder), 1);

    // two writers of one target do not disturb each other
    file_writer v;
    REQUIRE_OK(file_open_write(&w, path, &err), err);
    REQUIRE_OK(file_open_write(&v, path, &err), err);
    REQUIRE_OK(file_put(&w, "first", 5, &err), err);
    REQUIRE_OK(file_put(&v, "second", 6, &err), err);
    REQUIRE_OK(file_commit(&w, &err), err);
    REQUIRE_OK(file_commit(&v, &err), err);
    expect_content(__LINE__, path, "second");
    EXPECT_INT(entries(folder), 1);

    struct stat s;
    mode_t mask = umask(022);
    umask(mask);
    EXPECT(stat(path, &s) == 0 && (s.st_mode & 0777) == (0666 & ~mask));
}

TEST(core, file_write_follows_links) {
    char folder[512], path[600], link[600];
    make_folder("links", folder);
    snprintf(path, sizeof path, "%s/real.txt", folder);
    snprintf(link, sizeof link, "%s/link.txt", folder);
    put_file(path, "old");
    EXPECT_INT(symlink("real.txt", link), 0);
    file_writer w;
    firm_error err;
    REQUIRE_OK(file_open_write(&w, link, &err), err);
    REQUIRE_OK(file_put(&w, "new", 3, &err), err);
    REQUIRE_OK(file_commit(&w, &err), err);
    expect_content(__LINE__, path, "new");
    struct stat s;
    EXPECT(lstat(link, &s) == 0 && S_ISLNK(s.st_mode));
    EXPECT_INT(entries(folder), 2);
}

TEST(core, file_full_device) {
    if (access("/dev/full", W_OK) != 0) {
        test_skip("there is no /dev/full");
        return;
    }
    file_writer w;
    firm_error err = {0};
    // small: seen when flushed; large: seen by the write itself
    REQUIRE_OK(file_open_write(&w, "/dev/full", &err), err);
    REQUIRE_OK(file_put(&w, "x", 1, &err), err);
    EXPECT_INT(file_commit(&w, &err), FIRM_E_IO);
    EXPECT(strstr(err.message, "/dev/full") && strstr(err.message, "No space left"));
    char* large = calloc(1, 1 << 20);
    REQUIRE_OK(file_open_write(&w, "/dev/full", &err), err);
    EXPECT_INT(file_put(&w, large, 1 << 20, &err), FIRM_E_IO);
    EXPECT(strstr(err.message, "No space left") != NULL);
    EXPECT_INT(file_put(&w, large, 1, &err), FIRM_E_IO);
    EXPECT_INT(file_commit(&w, &err), FIRM_E_IO);
    file_abandon(&w);
    free(large);
    struct stat s;
    EXPECT(stat("/dev/full", &s) == 0 && S_ISCHR(s.st_mode));  // not renamed over

    char temp[1100];
    EXPECT_INT(file_temp_name("/dev/full", temp, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "not a regular file") != NULL);
}

// A disk that fills up under a regular file, played by a limit on file sizes in a child process.
// Returns 0, or the line of the first expectation that did not hold.
static int write_beyond_limit(const char* folder, const char* path) {
    struct rlimit limit = {100000, 100000};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return __LINE__;
    file_writer w;
    firm_error err = {0};
    static char block[65536];
    firm_status status = file_open_write(&w, path, &err);
    for (int i = 0; i < 4 && status == FIRM_OK; i++)
        status = file_put(&w, block, sizeof block, &err);
    if (status != FIRM_E_IO || !strstr(err.message, path)) return __LINE__;
    if (entries(folder) != 1) return __LINE__;
    // the last bytes still in the buffer when the limit is met: commit must see it
    if (file_open_write(&w, path, &err) != FIRM_OK) return __LINE__;
    if (file_put(&w, block, 65536, &err) != FIRM_OK) return __LINE__;
    if (fseek(w.stream, 99999, SEEK_SET) != 0 || fputs("xyz", w.stream) < 0) return __LINE__;
    if (file_commit(&w, &err) != FIRM_E_IO) return __LINE__;
    return entries(folder) == 1 ? 0 : __LINE__;
}

TEST(core, file_full_disk_leaves_old_file) {
    char folder[512], path[600];
    make_folder("limit", folder);
    snprintf(path, sizeof path, "%s/out.bin", folder);
    put_file(path, "old");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(write_beyond_limit(folder, path) % 256);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status));
    EXPECT_INT(WEXITSTATUS(status), 0);
    expect_content(__LINE__, path, "old");
    EXPECT_INT(entries(folder), 1);
}

TEST(core, file_unwritable_targets) {
    char folder[512], path[600], inside[700], temp[1100];
    make_folder("unwritable", folder);
    file_writer w;
    firm_error err = {0};
    EXPECT_INT(file_open_write(&w, "", &err), FIRM_E_USAGE);
    EXPECT_INT(file_open_write(&w, folder, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, folder) && strstr(err.message, "folder"));
    snprintf(path, sizeof path, "%s/none/out.bin", folder);
    EXPECT_INT(file_open_write(&w, path, &err), FIRM_E_MISSING);
    EXPECT(strstr(err.message, path) != NULL);
    EXPECT_INT(file_temp_name(path, temp, &err), FIRM_E_MISSING);
    EXPECT_INT(temp[0], 0);
    snprintf(path, sizeof path, "%s/plain", folder);
    put_file(path, "x");
    snprintf(inside, sizeof inside, "%s/out.bin", path);
    EXPECT_INT(file_open_write(&w, inside, &err), FIRM_E_MISSING);
    EXPECT_INT(file_make_dirs(inside, &err), FIRM_E_IO);
    EXPECT_INT(file_make_dirs(path, &err), FIRM_E_IO);
    EXPECT(strstr(err.message, "is a file") != NULL);
    char long_name[2000];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[1999] = 0;
    EXPECT_INT(file_open_write(&w, long_name, &err), FIRM_E_USAGE);
    EXPECT_INT(file_make_dirs(long_name, &err), FIRM_E_USAGE);
    long_name[300] = 0;
    EXPECT(file_open_write(&w, long_name, &err) != FIRM_OK);
    EXPECT_INT(entries(folder), 1);
}

TEST(core, file_permissions) {
    char folder[512], path[600], temp[1100];
    make_folder("locked", folder);
    snprintf(path, sizeof path, "%s/out.bin", folder);
    put_file(path, "old");
    chmod(path, 0444);
    chmod(folder, 0555);
    int root = geteuid() == 0;
    if (root) {  // root may write anywhere: act as nobody, for whom the folders above must be open
        chmod(test_temp_dir(), 0755);
        if (seteuid(65534) != 0) {
            test_skip("cannot act as another user");
            return;
        }
    }
    file_writer w;
    firm_error err = {0};
    EXPECT_INT(file_open_write(&w, path, &err), FIRM_E_IO);
    EXPECT(strstr(err.message, path) && strstr(err.message, "Permission denied"));
    snprintf(path, sizeof path, "%s/new.bin", folder);
    EXPECT_INT(file_open_write(&w, path, &err), FIRM_E_IO);
    EXPECT_INT(file_temp_name(path, temp, &err), FIRM_E_IO);
    snprintf(path, sizeof path, "%s/sub/deep", folder);
    EXPECT_INT(file_make_dirs(path, &err), FIRM_E_IO);
    if (root && seteuid(0) != 0) abort();
    chmod(folder, 0755);
    EXPECT_INT(entries(folder), 1);
}

TEST(core, file_move_into_place) {
    char folder[512], path[600], temp[1100];
    make_folder("move", folder);
    snprintf(path, sizeof path, "%s/out.h5", folder);
    firm_error err;
    REQUIRE_OK(file_temp_name(path, temp, &err), err);
    EXPECT(!file_exists(temp) && strncmp(temp, path, strlen(path)) == 0);
    put_file(temp, "data");
    REQUIRE_OK(file_move(temp, path, &err), err);
    expect_content(__LINE__, path, "data");
    EXPECT_INT(entries(folder), 1);
    // a target that became a folder meanwhile: refused, and the temporary file goes
    put_file(temp, "data");
    EXPECT_INT(file_move(temp, folder, &err), FIRM_E_USAGE);
    EXPECT(!file_exists(temp));
    EXPECT_INT(file_move(temp, path, &err), FIRM_E_MISSING);
}

TEST(core, file_read) {
    char folder[512], path[600];
    make_folder("read", folder);
    snprintf(path, sizeof path, "%s/a.bin", folder);
    firm_error err = {0};
    char* bytes;
    size_t n;
    EXPECT_INT(file_read_all(path, &bytes, &n, &err), FIRM_E_MISSING);
    EXPECT(strstr(err.message, path) && bytes == NULL && n == 0);
    EXPECT_INT(file_read_all(folder, &bytes, &n, &err), FIRM_E_USAGE);
    size_t sizes[] = {0, 1, 63, 64, 65535, 65536, 200001};
    char* want = malloc(200001);
    for (size_t i = 0; i < 200001; i++) want[i] = (char)(i * 7 + i / 256);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        FILE* f = fopen(path, "wb");
        EXPECT(fwrite(want, 1, sizes[i], f) == sizes[i]);
        fclose(f);
        REQUIRE_OK(file_read_all(path, &bytes, &n, &err), err);
        EXPECT(n == sizes[i] && memcmp(bytes, want, n) == 0 && bytes[n] == 0);
        mem_free(bytes);
    }
    free(want);
    // files without a size: /proc counts as one of 0 bytes
    REQUIRE_OK(file_read_all("/proc/self/status", &bytes, &n, &err), err);
    EXPECT(n > 10 && strstr(bytes, "Name:") != NULL);
    mem_free(bytes);
    REQUIRE_OK(file_read_all("/dev/null", &bytes, &n, &err), err);
    EXPECT_INT(n, 0);
    mem_free(bytes);
}

TEST(core, file_make_dirs_like_mkdir_p) {
    char path[600];
    firm_error err;
    snprintf(path, sizeof path, "%s/x/y//z/", test_temp_dir());
    REQUIRE_OK(file_make_dirs(path, &err), err);
    REQUIRE_OK(file_make_dirs(path, &err), err);
    EXPECT(file_exists(path));
    REQUIRE_OK(file_make_dirs("/", &err), err);
    REQUIRE_OK(file_make_dirs(".", &err), err);
    EXPECT_INT(file_make_dirs("", &err), FIRM_E_USAGE);
}
