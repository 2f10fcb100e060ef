// export_test.c - `firm export --accept-changes`: a model that another program changed becomes one
// that every command takes; damaged ones stay refused.
#define _GNU_SOURCE
#include "model/rewrite.h"
#include "program.h"

#define CHANGED                                                                                 \
    "was rewritten by another program, which changed its numbers or texts; if that was meant, " \
    "write it with `firm export --accept-changes`"

TEST(cli, export_accepts_changes) {
    char folder[512];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    size_t n = 0, size = 0;
    char* file = get_file(fix, "run/model.safetensors", &n);
    if (!file) return;
    char* other = rewritten(file, n, &size);
    put_file(folder, "same.safetensors", other, size);
    other[size - 1] ^= 1;  // the last bits of a number
    put_file(folder, "changed.safetensors", other, size);
    file[n - 1] ^= 1;
    put_file(folder, "damaged.safetensors", file, n);
    free(other);
    free(file);

    // the same contents need no flag and give the bytes of before
    EXPECT_INT(firm_run(folder, 0, "export same.safetensors -o a.safetensors --quiet")->code, 0);
    EXPECT_INT(
        firm_run(folder, 0, "export %s/run/model.safetensors -o b.safetensors --quiet", fix)->code,
        0);
    size_t na = 0, nb = 0;
    char *a = get_file(folder, "a.safetensors", &na), *b = get_file(folder, "b.safetensors", &nb);
    EXPECT(a && b && na == nb && memcmp(a, b, na) == 0);
    free(a);
    free(b);

    int before = folder_entries(folder, NULL, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "export changed.safetensors -o c.safetensors"), "export",
                   CHANGED);
    EXPECT_REFUSAL(
        firm_run(folder, 0, "export damaged.safetensors --accept-changes -o c.safetensors"),
        "export", "damaged.safetensors is damaged: its digest does not fit");
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
    EXPECT_INT(
        firm_run(folder, 0, "export changed.safetensors --accept-changes -o c.safetensors --quiet")
            ->code,
        0);
    EXPECT_INT(firm_run(folder, 0, "export c.safetensors -o d.safetensors --quiet")->code, 0);
}
