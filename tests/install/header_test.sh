#!/usr/bin/env bash
# header_test.sh HEADER c|c++ VERSION - firm.h, and firm_task.h beside it, compile alone and twice, with every warning an error,
# and says the version that the build says.
set -euo pipefail
header=$1 language=$2 version=$3

case $language in
    c) compilers="${CC:-cc} gcc clang" flags="-x c -std=c17 -Wstrict-prototypes" ;;
    c++) compilers="${CXX:-c++} g++ clang++" flags="-x c++ -std=c++17 -Wold-style-cast" ;;
    *) echo "language '$language'?"; exit 1 ;;
esac

IFS=. read -r major minor patch <<<"$version"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/user" <<END
#include "firm.h"
#include "firm.h"
#if FIRM_VERSION != $major * 10000 + $minor * 100 + $patch
#error FIRM_VERSION differs from the version of the build
#endif
int main(void) { return firm_status_str(FIRM_OK) == 0; }
END

cat >"$folder/task" <<END
#include "firm_task.h"
#include "firm_task.h"
static const firm_task none = {sizeof(firm_task), 0, 0, 0, 0, 0, 0};
FIRM_TASK_EXPORT const firm_task* firm_task_entry(int abi) { return abi == FIRM_TASK_ABI ? &none : 0; }
double draw(firm_random* r);
double draw(firm_random* r) { return firm_random_between(r, 0, 1); }
END

tried=0 seen=" "
for compiler in $compilers; do
    path=$(command -v "$compiler") || continue
    path=$(readlink -f "$path")
    case $seen in *" $path "*) continue ;; esac
    seen="$seen$path "
    # shellcheck disable=SC2086
    "$compiler" $flags -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wconversion -Werror \
        -I"$(dirname "$header")" -c "$folder/user" -o "$folder/user.o"
    # shellcheck disable=SC2086
    "$compiler" $flags -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wconversion -Werror \
        -I"$(dirname "$header")" -c "$folder/task" -o "$folder/task.o"
    echo "$compiler takes it as $language"
    tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || { echo "no $language compiler on this machine"; exit 77; }
