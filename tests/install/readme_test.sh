#!/usr/bin/env bash
# readme_test.sh LIBRARY SOURCE - README tells the truth: it has at most 130 lines, its C block compiles and links, and every
# command of its sh blocks works, in a folder of links to the source, so that nothing is written there.
#
# Sizes are smaller than README's: few episodes, few goals, the settings `smoke`. What its own sizes reach is measured, not tested.
set -euo pipefail
library=$1 source=$2
page=$source/README.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

lines=$(wc -l <"$page")
[ "$lines" -le 130 ] || { echo "README.md has $lines lines; at most 130"; exit 1; }

# the C block inside a function, with what it takes for granted
{
    echo '#include <firm.h>'
    echo 'extern const uint8_t goal_rgb[224 * 224 * 3];'
    echo 'const uint8_t goal_rgb[224 * 224 * 3] = {0};'
    echo 'static void die(const char* text) { (void)text; }'
    echo 'static const uint8_t* camera_rgb(void) { return goal_rgb; }'
    echo 'static void drive(const float* action) { (void)action; }'
    echo 'int main(void) {'
    sed -n '/^```c$/,/^```$/p' "$page" | grep -v '^```'
    echo 'return 0; }'
} >block.c
[ "$(sed -n '/^```c$/,/^```$/p' "$page" | grep -cv '^```')" -ge 8 ] || { echo "README.md: the C block was not found"; exit 1; }
cc -std=c17 -Wall -Wextra -Werror -I"$source/include" block.c -o block "$library" -Wl,-rpath,"$(dirname "$library")"

# the commands
mkdir work
for entry in "$source"/*; do ln -s "$entry" work/; done
rm -f work/demo work/runs
cd work
smaller() {
    sed -e 's/ *#.*//' -e 's/^make demo$/make demo DEMO_FLAGS="--trials 1"/' -e 's/--episodes 1000/--episodes 40/' \
        -e 's/^build.firm intervene .*/& --anchors 12 --branches 4/' -e 's/^build.firm train .*/& --config smoke --set model.grid=6/' \
        -e 's/^build.firm eval .*/& --trials 2/' -e 's/^build.firm demo .*/& --trials 1/'
}
commands=$(sed -n '/^```sh$/,/^```$/p' "$page" | grep -v '^```')
[ "$(wc -l <<<"$commands")" -ge 9 ] || { echo "README.md: its commands were not found"; exit 1; }
while read -r line; do
    small=$(smaller <<<"$line")
    code=0
    bash -c "$small" >"$folder/out.txt" 2>"$folder/err.txt" </dev/null || code=$?
    # trained for seconds, a model may miss a gate (1)
    case "$line" in *"firm train"*) allowed="0 1" ;; *) allowed=0 ;; esac
    # without PyPI there is no MuJoCo, and the tasks on it are not there
    case "$line" in *mujoco* | *reacher*) [ -e third_party/mujoco ] || allowed="0 1 2" ;; esac
    case " $allowed " in
        *" $code "*) ;;
        *) echo "README.md: exit $code: $small"; cat "$folder/out.txt" "$folder/err.txt"; exit 1 ;;
    esac
done <<<"$commands"
for file in demo/tworoom/index.html episodes.h5 branches.h5 run/model.safetensors page/index.html; do
    [ -s "$file" ] || { echo "README.md's commands did not make $file"; exit 1; }
done
echo "$lines lines, $(wc -l <<<"$commands") commands and the C block of README.md work"
