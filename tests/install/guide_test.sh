#!/usr/bin/env bash
# guide_test.sh PROGRAM SOURCE - every command in the sh blocks of docs/quick-start.md, docs/training.md and docs/planning.md
# works, in a folder of links to the source, so that nothing is written there. The pages are run one after the other.
#
# Sizes are smaller than the pages': few episodes and trials, the settings `smoke`. README's test runs `make`.
set -euo pipefail
program=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir build
ln -s "$program" build/firm
ln -s "$source/models" "$source/third_party" .

smaller() {
    sed -E -e 's/--episodes [0-9]+/--episodes 60/' -e 's/--trials [0-9]+/--trials 2/' -e 's/ --config [a-z-]+//' \
        -e 's/^build.firm intervene .*/& --anchors 12 --branches 4/' -e 's/^build.firm train .*/& --config smoke/' \
        -e 's/^build.firm demo .*/& --trials 1/' -e 's/^build.firm .*/& --quiet/'
}
count=0
for page in quick-start training planning; do
    commands=$(sed -n '/^```sh$/,/^```$/p' "$source/docs/$page.md" | grep '^build/firm ')
    while read -r line; do
        small=$(smaller <<<"$line")
        code=0
        bash -c "$small" >out.txt 2>err.txt </dev/null || code=$?
        # trained for seconds, a model may miss a gate (1)
        if [ "$code" -ne 0 ] && { [ "$code" -ne 1 ] || [[ $line != *"firm train"* ]]; }; then
            echo "docs/$page.md: exit $code: $small"
            cat out.txt err.txt
            exit 1
        fi
        count=$((count + 1))
    done <<<"$commands"
done
[ "$count" -ge 18 ] || { echo "only $count commands were found"; exit 1; }
for file in demo/tworoom/index.html eval.json run/model.safetensors page/index.html trained/model.safetensors trained-page/index.html shipped.safetensors; do
    [ -s "$file" ] || { echo "the pages' commands did not make $file"; exit 1; }
done
echo "$count commands of quick start, training and planning work"
