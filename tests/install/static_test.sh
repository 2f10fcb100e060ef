#!/usr/bin/env bash
# static_test.sh SHARED ARCHIVE SOURCE - the library stands alone: libfirm.so needs libc and libm and is
# small; the example linked with -static runs in a folder that holds nothing but it and a model.
set -euo pipefail
shared=$1 archive=$2 source=$3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
needed=$(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux' | sort | tr '\n' ' ')
[ "$needed" = "libc.so.6 libm.so.6 " ] || { echo "libfirm.so needs $needed"; exit 1; }
strip -o "$folder/stripped" "$shared"
size=$(stat -c %s "$folder/stripped")
[ "$size" -le 1500000 ] || { echo "libfirm.so has $size bytes when stripped"; exit 1; }
rm "$folder/stripped"

mkdir "$folder/lib" "$folder/root"
cp "$archive" "$folder/lib/libfirm.a"
"${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$source/include" "$source/examples/control_loop.c" -o "$folder/root/control_loop" \
    -static -L"$folder/lib" -lfirm -lm
cp "$source/models/tworoom.safetensors" "$folder/root/model"
if [ "$(id -u)" -ne 0 ]; then
    echo "libfirm.so needs libc and libm, $size bytes; chroot is root's alone, the rest is skipped"
    exit 77
fi
text=$(chroot "$folder/root" /control_loop model 0) || { echo "in an empty root it exits $?: $text"; exit 1; }
grep -q '^reached after [0-9]* controls$' <<<"$text" || { echo "in an empty root it did not reach its goal: $text"; exit 1; }
echo "libfirm.so needs libc and libm, $size bytes; static in an empty root: $(tail -n 1 <<<"$text")"
