// file_test.c - whole files or none: atomic replacement, full disks, unwritable and odd targets.
#define _GNU_SOURCE
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
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

// Neither what a link leads to nor the link itself is replaced, also where it leads nowhere.
TEST(core, file_links_are_refused) {
    char folder[512], path[600], link[600], loose[600];
    make_folder("links", folder);
    snprintf(path, sizeof path, "%s/real.txt", folder);
    snprintf(link, sizeof link, "%s/link.txt", folder);
    snprintf(loose, sizeof loose, "%s/loose.txt", folder);
    put_file(path, "old");
    EXPECT_INT(symlink("real.txt", link), 0);
    EXPECT_INT(symlink("nowhere.txt", loose), 0);
    const char* links[] = {link, loose};
    for (int i = 0; i < 2; i++) {
        file_writer w;
        file_temp t;
        firm_error err = {0};
        EXPECT_INT(file_open_write(&w, links[i], &err), FIRM_E_USAGE);
        EXPECT(strstr(err.message, links[i]) && strstr(err.message, "symbolic link"));
        EXPECT_INT(file_temp_open(&t, links[i], &err), FIRM_E_USAGE);
        EXPECT_INT(file_check_name(links[i], &err), FIRM_E_USAGE);
        struct stat s;
        EXPECT(lstat(links[i], &s) == 0 && S_ISLNK(s.st_mode));
    }
    expect_content(__LINE__, path, "old");
    EXPECT_INT(entries(folder), 3);
}

// An input is the file, not its name: other spellings, symbolic and hard links are found out.
TEST(core, file_inputs_are_not_replaced) {
    char folder[512], path[600], name[700];
    make_folder("inputs", folder);
    snprintf(path, sizeof path, "%s/in.h5", folder);
    put_file(path, "precious");
    snprintf(name, sizeof name, "%s/hard", folder);
    EXPECT_INT(link(path, name), 0);
    snprintf(name, sizeof name, "%s/soft", folder);
    EXPECT_INT(symlink("in.h5", name), 0);
    static const char* const names[] = {"in.h5", "./in.h5", "../inputs/in.h5", "hard", "soft"};
    file_writer w;
    firm_error err = {0};
    int before = file_inputs();
    file_input_note(path);
    file_input_note(folder);  // neither a folder ...
    file_input_note("/absent/file");
    EXPECT_INT(file_inputs(), before + 1);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, names[i]);
        EXPECT_INT(file_open_write(&w, name, &err), FIRM_E_USAGE);
        EXPECT(strstr(err.message, name) && strstr(err.message, "input of the same command"));
        EXPECT_INT(file_check_target(name, &err), FIRM_E_USAGE);
    }
    file_inputs_drop(before);
    EXPECT_INT(entries(folder), 3);
    snprintf(name, sizeof name, "%s/hard", folder);
    REQUIRE_OK(file_open_write(&w, name, &err), err);
    REQUIRE_OK(file_commit(&w, &err), err);
    expect_content(__LINE__, name, "");
    expect_content(__LINE__, path, "precious");
}

// Its own standard output under a name of the system's: written there, whatever it is.
TEST(core, file_descriptors_are_written_directly) {
    char folder[512], path[600], name[64];
    make_folder("descriptor", folder);
    snprintf(path, sizeof path, "%s/out.txt", folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    EXPECT_INT(write(fd, "one ", 4), 4);
    static const char* const names[] = {"/dev/fd/%d", "/proc/self/fd/%d"};
    for (int i = 0; i < 2; i++) {
        file_writer w;
        firm_error err;
        snprintf(name, sizeof name, names[i], fd);
        REQUIRE_OK(file_open_write(&w, name, &err), err);
        REQUIRE_OK(file_put(&w, "two ", 4, &err), err);
        REQUIRE_OK(file_commit(&w, &err), err);
    }
    EXPECT_INT(write(fd, "three", 5), 5);
    close(fd);
    expect_content(__LINE__, path, "one two two three");
    EXPECT_INT(entries(folder), 1);
}

// The lock is the process's: another one is refused until it ends, even if it is killed.
TEST(core, file_lock_dies_with_its_process) {
    char folder[512];
    make_folder("lock", folder);
    int ready[2], lock = -1;
    if (pipe(ready) != 0) abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // also where this test ends early
        firm_error none;
        int own;
        char c = file_lock_folder(folder, "training", &own, &none) == FIRM_OK ? 'y' : 'n';
        if (write(ready[1], &c, 1) != 1) _exit(1);
        for (;;) pause();
    }
    char c = 0;
    EXPECT_INT(read(ready[0], &c, 1), 1);
    EXPECT_INT(c, 'y');
    firm_error err = {0};
    EXPECT_INT(file_lock_folder(folder, "training", &lock, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "another training is at work in") && strstr(err.message, folder));
    EXPECT_INT(lock, -1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    REQUIRE_OK(file_lock_folder(folder, "training", &lock, &err), err);
    file_unlock(lock);
    REQUIRE_OK(file_lock_folder(folder, "training", &lock, &err), err);
    file_unlock(lock);
    file_unlock(-1);
    EXPECT_INT(entries(folder), 0);
    close(ready[0]);
    close(ready[1]);
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

    file_temp temp;
    EXPECT_INT(file_temp_open(&temp, "/dev/full", &err), FIRM_E_USAGE);
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
    char folder[512], path[600], inside[700];
    file_temp temp;
    make_folder("unwritable", folder);
    file_writer w;
    firm_error err = {0};
    EXPECT_INT(file_open_write(&w, "", &err), FIRM_E_USAGE);
    EXPECT_INT(file_open_write(&w, folder, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, folder) && strstr(err.message, "folder"));
    snprintf(path, sizeof path, "%s/none/out.bin", folder);
    EXPECT_INT(file_open_write(&w, path, &err), FIRM_E_MISSING);
    EXPECT(strstr(err.message, path) != NULL);
    EXPECT_INT(file_temp_open(&temp, path, &err), FIRM_E_MISSING);
    EXPECT_INT(temp.path[0], 0);
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
    char folder[512], path[600];
    file_temp temp;
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
    EXPECT_INT(file_temp_open(&temp, path, &err), FIRM_E_IO);
    snprintf(path, sizeof path, "%s/sub/deep", folder);
    EXPECT_INT(file_make_dirs(path, &err), FIRM_E_IO);
    if (root && seteuid(0) != 0) abort();
    chmod(folder, 0755);
    EXPECT_INT(entries(folder), 1);
}

static void put_temp(const file_temp* t, const char* text) {
    if (write(t->fd, text, strlen(text)) != (ssize_t)strlen(text)) abort();
}

TEST(core, file_move_into_place) {
    char folder[512], path[600];
    file_temp t;
    make_folder("move", folder);
    snprintf(path, sizeof path, "%s/out.h5", folder);
    firm_error err;
    REQUIRE_OK(file_temp_open(&t, path, &err), err);
    EXPECT(file_exists(t.path) && strncmp(t.path, path, strlen(path)) == 0);
    put_temp(&t, "data");
    REQUIRE_OK(file_move(&t, path, &err), err);
    expect_content(__LINE__, path, "data");
    EXPECT_INT(entries(folder), 1);
    // a target that became a folder meanwhile: refused, and the temporary file goes
    REQUIRE_OK(file_temp_open(&t, path, &err), err);
    put_temp(&t, "other");
    EXPECT_INT(file_move(&t, folder, &err), FIRM_E_USAGE);
    EXPECT_INT(entries(folder), 1);
    EXPECT_INT(file_move(&t, path, &err), FIRM_E_IO);
    REQUIRE_OK(file_temp_open(&t, path, &err), err);
    temp_remove(&t);
    temp_remove(&t);  // harmless now
    expect_content(__LINE__, path, "data");
    EXPECT_INT(entries(folder), 1);
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
