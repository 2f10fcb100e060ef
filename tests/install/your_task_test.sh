#!/usr/bin/env bash
# your_task_test.sh CMAKE BUILD SOURCE - every line of docs/your-task.md works: installs the program into
# an empty folder, then runs the page's sh blocks in another one that holds the example alone. The page's
# typed task and the example's are the same.
#
# Sizes are smaller than the page's: a few episodes, the settings `smoke`, which train for seconds, and
# few trials; these settings are for another size of picture, so the grid is given. What the page's own sizes reach is measured, not tested.
set -euo pipefail
cmake=$1 build=$2 source=$3
page=$source/docs/your-task.md

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/usr" >/dev/null
mkdir "$folder/work"
cp "$source/examples/tasks/pendulum.c" "$folder/work"
cd "$folder/work"
export PATH=$folder/usr/bin:$PATH PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$folder/usr" -name firm.pc)")

# the text of the page, without comments, is the text in the file
plain() { sed 's/ *;.*//; s/ *$//' | grep -v '^$'; }
sed -n '/^```ini$/,/^```$/p' "$page" | grep -v '^```' | plain >page.txt
sed -n '/^static const char typed/,/;$/p' pendulum.c | sed -n 's/^ *"\(.*\)\\n";*$/\1/p' | plain >file.txt
diff page.txt file.txt || { echo "docs/your-task.md shows another typed task (<) than pendulum.c has (>)"; exit 1; }
[ "$(wc -l <pendulum.c)" -le 150 ] || { echo "pendulum.c has more than 150 lines"; exit 1; }

smaller() {
    sed -e 's/--episodes 1000/--episodes 40/' -e 's/--trials 100/--trials 2/' \
        -e 's/^firm intervene .*/& --anchors 12 --branches 4/' -e 's/^firm train .*/& --config smoke --set model.grid=6/' \
        -e 's|^firm demo .*|& --trials 1|' -e 's/^firm .*/& --quiet/'
}
lines=$(sed -n '/^```sh$/,/^```$/p' "$page" | grep -v '^```')
[ "$(wc -l <<<"$lines")" -ge 10 ] || { echo "docs/your-task.md: its commands were not found"; exit 1; }
while read -r line; do
    small=$(smaller <<<"$line")
    code=0
    bash -c "$small" >out.txt 2>err.txt </dev/null || code=$?
    # trained for seconds, a model may miss a gate (1); everything else must come off
    case "$line" in "firm train"*|"firm demo"*) allowed="0 1" ;; *) allowed=0 ;; esac
    case " $allowed " in
        *" $code "*) ;;
        *) echo "docs/your-task.md: exit $code: $small"; cat out.txt err.txt; exit 1 ;;
    esac
    case "$line" in *"firm audit"*)
        if grep -q paper out.txt; then echo "firm audit shows a row of the paper for a pendulum"; exit 1; fi ;;
    esac
done <<<"$lines"
for file in pendulum.so episodes.h5 branches.h5 run/model.safetensors eval.json page/index.html pendulum.safetensors; do
    [ -s "$file" ] || { echo "docs/your-task.md did not make $file"; exit 1; }
done
echo "$(wc -l <<<"$lines") lines of docs/your-task.md work"
