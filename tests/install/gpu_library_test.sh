#!/usr/bin/env bash
# gpu_library_test.sh SHARED ARCHIVE SOURCE - what a program of libfirm says when it asks for a GPU and libfirm-cuda.so is not
# there, is no library, is of another build; and when the program is static. Each is one sentence with the cure, and planning
# on the CPU goes on. That the real one plans is for tests/cuda, on a machine with a GPU.
set -euo pipefail
shared=$1 archive=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib"
cp -L "$shared" "$folder/lib/libfirm.so.0"
ln -s libfirm.so.0 "$folder/lib/libfirm.so"
cp "$archive" "$folder/libfirm.a"
cd "$folder"
cat >ask.c <<'END'
#include <firm.h>
#include <stdio.h>
int main(int argc, char** argv) {
    firm_model* m;
    firm_controller* c = NULL;
    firm_error err;
    if (argc != 2 || firm_model_load(argv[1], &m, &err)) return 9;
    firm_controller_params p = firm_controller_params_default();
    p.device = FIRM_DEVICE_CUDA;
    for (int i = 0; i < 2; i++) {  // the second time like the first
        firm_status st = firm_controller_create(m, &p, &c, &err);
        printf("%d %s\n", st == FIRM_E_UNAVAILABLE, err.message);
    }
    p.device = FIRM_DEVICE_CPU;
    printf("%d\n", firm_controller_create(m, &p, &c, &err));
    firm_controller_free(c);
    firm_model_free(m);
    return 0;
}
END
cc=${CC:-cc} flags="-std=c17 -Wall -Wextra -Werror -I$source/include"
# shellcheck disable=SC2086
$cc $flags ask.c -o ask -Llib -lfirm -Wl,-rpath,"$folder/lib"
# shellcheck disable=SC2086
$cc $flags ask.c -o ask-static -static libfirm.a -lm

expect() { # program, words of the sentence
    local text
    text=$("./$1" "$source/models/tworoom.safetensors") || { echo "$1: exit $?"; exit 1; }
    [ "$(sed -n 1p <<<"$text")" = "$(sed -n 2p <<<"$text")" ] && [ "$(sed -n 3p <<<"$text")" = 0 ] && [ "$(wc -l <<<"$text")" = 3 ] &&
        grep -q "^1 .*$2" <<<"$text" || { echo "$1 should say '$2' twice and then 0, but says: $text"; exit 1; }
}
expect ask 'needs libfirm-cuda.so.0 (.*No such file.*make cuda.*--device cpu'
echo "not a library" >lib/libfirm-cuda.so.0
expect ask 'needs libfirm-cuda.so.0 (.*lib/libfirm-cuda.so.0: .*make cuda'
echo 'const void* firm_cuda_planners(void) { static const long long t[64] = {9}; return t; }' >other.c
$cc -shared -fPIC other.c -o lib/libfirm-cuda.so.0
expect ask 'libfirm-cuda.so.0 is of another build'
echo 'int nothing;' >other.c
$cc -shared -fPIC other.c -o lib/libfirm-cuda.so.0
expect ask 'libfirm-cuda.so.0 is of another build'
expect ask-static 'a static program cannot load libfirm-cuda.so.0'
echo "five cases, one sentence each"
