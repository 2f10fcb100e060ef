#!/usr/bin/env bash
# fuzz.sh SECONDS - builds the fuzz targets with clang and runs them one after the other, sharing the
# seconds. What is learnt stays in build-fuzz/corpus, so a second run starts where this one ended.
# A finding is written to build-fuzz/found-* and ends the run: replay it with build-fuzz/fuzz/NAME FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}

names=()
for source in fuzz/fuzz_*.c; do
    names+=("$(basename "$source" .c)")
done
cmake --preset fuzz --log-level=WARNING >/dev/null
cmake --build --preset fuzz --target "${names[@]}" -- --quiet

each=$((seconds / ${#names[@]}))
[ "$each" -gt 0 ] || each=1
for name in "${names[@]}"; do
    corpus=build-fuzz/corpus/$name
    mkdir -p "$corpus"
    folders=("$corpus")
    [ -d "fuzz/corpus/${name#fuzz_}" ] && folders+=("fuzz/corpus/${name#fuzz_}")
    echo "== $name for $each s"
    log=build-fuzz/$name.log
    if ! "build-fuzz/fuzz/$name" -max_total_time="$each" -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="build-fuzz/found-$name-" -print_final_stats=1 "${folders[@]}" 2>"$log"; then
        tail -n 60 "$log" >&2
        echo "== $name: found something, see build-fuzz/found-$name-* and $log" >&2
        exit 1
    fi
    awk '/^stat::number_of_executed_units/ { runs = $2 } END { print "== nothing found in " runs " runs" }' "$log"
done
