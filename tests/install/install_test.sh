#!/usr/bin/env bash
# install_test.sh CMAKE BUILD SOURCE - installs into an empty folder, moves it, and builds the example
# the way a user would: pkg-config alone, against the shared library and against the archive.
set -euo pipefail
cmake=$1 build=$2 source=$3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/moved"
prefix=$folder/moved

for file in include/firm.h include/firm_task.h bin/firm; do
    [ -e "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
[ "$(find "$prefix/include" -type f | wc -l)" -eq 2 ] || { echo "there are other headers than firm.h and firm_task.h"; exit 1; }

pc=$(find "$prefix" -name firm.pc)
[ -n "$pc" ] || { echo "not installed: firm.pc"; exit 1; }
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$pc")
library=$(dirname "$PKG_CONFIG_PATH")
for file in libfirm.so libfirm.a; do
    [ -e "$library/$file" ] || { echo "not installed: $file"; exit 1; }
done

cd "$folder"
cc=${CC:-cc}
flags="-std=c17 -Wall -Wextra -Wpedantic -Werror"
# shellcheck disable=SC2046,SC2086
$cc $flags "$source/examples/control_loop.c" -o shared $(pkg-config --cflags --libs firm) -lm
# shellcheck disable=SC2046,SC2086
$cc $flags "$source/examples/control_loop.c" -o static $(pkg-config --cflags firm) \
    $(pkg-config --static --libs firm | sed s/-lfirm/-l:libfirm.a/)

# both run, and say in one sentence that there is no such model; exit 2 as for any bad input
for program in shared static; do
    set +e
    text=$(LD_LIBRARY_PATH=$library ./$program no-such-model.safetensors 2>&1)
    code=$?
    set -e
    if [ "$code" -ne 2 ] || ! grep -q no-such-model <<<"$text"; then
        echo "$program: exit $code, expected 2 and a sentence naming the file: $text"
        exit 1
    fi
done
# as text first: grep -q leaves at the first match, and a pipe that nobody reads fails ldd
with_shared=$(ldd shared) with_static=$(ldd static)
grep -q libfirm.so <<<"$with_shared" || { echo "the shared example does not use libfirm.so"; exit 1; }
if grep -q libfirm.so <<<"$with_static"; then
    echo "the static example uses libfirm.so"
    exit 1
fi
# the lines of docs/deployment.md, in a home whose .local is this prefix; nothing else says where firm is
mkdir home
ln -s "$prefix" home/.local
cat >loop.c <<'END'
#include <firm.h>
int main(void) {
    firm_model* m;
    firm_error err;
    return firm_model_load("no-such-model", &m, &err) == FIRM_E_MISSING ? 0 : 1;
}
END
lines=$(grep -oE '`(export PKG_CONFIG_PATH=|cc loop\.c )[^`]*`' "$source/docs/deployment.md" | tr -d '`')
[ "$(grep -c '^cc loop.c' <<<"$lines")" -eq 2 ] || { echo "docs/deployment.md: the lines with cc loop.c were not found"; exit 1; }
setting=$(grep '^export' <<<"$lines")
while read -r line; do
    if ! env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH HOME="$folder/home" bash -c "$setting && $line && ./a.out"; then
        echo "docs/deployment.md: this does not work: $setting; $line"
        exit 1
    fi
done < <(grep '^cc' <<<"$lines")
echo "installed, moved, and the example built against libfirm.so and libfirm.a"
