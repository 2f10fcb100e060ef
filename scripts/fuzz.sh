#!/usr/bin/env bash
# fuzz.sh - runs the fuzz targets, as many side by side as there are cores.
#
#     scripts/fuzz.sh [--jobs N] [--built] SECONDS [TARGET...]      e.g. scripts/fuzz.sh 600; scripts/fuzz.sh 60 png packs
#     scripts/fuzz.sh --bundle [FILE.tar.xz]                        build-fuzz/bundle.tar.xz
#
# Each target gets so many seconds. They are built with clang first; --built takes build-fuzz as it is, on a machine without clang.
# --bundle builds, runs nothing, and packs the targets, the shared libraries they need (build-fuzz/lib) and what was learnt. Unpacked
# in a checkout on a machine with a C library at least as new, it is what --built takes.
# What is learnt stays in build-fuzz/corpus, so a second run starts where this one ended. A finding is written to
# build-fuzz/found-*, the other targets go on, and the exit status is 1. Replay it with build-fuzz/fuzz/NAME FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc) built='' bundle=''
while [[ ${1:-} == --* ]]; do
    case $1 in
        --jobs) jobs=$2; shift ;;
        --built) built=1 ;;
        --bundle) bundle=1 ;;
        *) echo "fuzz: unknown option '$1'" >&2; exit 2 ;;
    esac
    shift
done
file='' seconds=60
if [ -n "$bundle" ]; then file=${1:-build-fuzz/bundle.tar.xz}; else seconds=${1:-60}; fi
[ $# -eq 0 ] || shift

names=()
for source in fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    [ $# -eq 0 ] || [[ " $* " == *" ${name#fuzz_} "* ]] || continue
    names+=("$name")
done
[ ${#names[@]} -gt 0 ] || { echo "fuzz: no target is called $*" >&2; exit 2; }
if [ -z "$built" ]; then
    cmake --preset fuzz --log-level=WARNING >/dev/null
    cmake --build --preset fuzz --target "${names[@]}" -- --quiet
fi
if [ -n "$bundle" ]; then
    rm -rf build-fuzz/lib
    mkdir -p build-fuzz/lib build-fuzz/corpus
    ldd "${names[@]/#/build-fuzz/fuzz/}" | awk '$3 ~ /^\// { print $3 }' | sort -u | while read -r library; do
        case $(basename "$library") in
            libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.*) ;;  # of the system
            *) cp -L "$library" build-fuzz/lib/ ;;
        esac
    done
    tar -cJf "$file" "${names[@]/#/build-fuzz/fuzz/}" build-fuzz/lib build-fuzz/corpus
    echo "$file: $(stat -c %s "$file") bytes"
    exit
fi
# only for the targets: what a bundle brings is older than the system's own programs expect
beside=()
[ ! -d build-fuzz/lib ] || beside=(env "LD_LIBRARY_PATH=$PWD/build-fuzz/lib")

run() {
    local name=$1 corpus=build-fuzz/corpus/$1 log=build-fuzz/$1.log
    local folders=("$corpus")
    mkdir -p "$corpus"
    [ -d "fuzz/corpus/${name#fuzz_}" ] && folders+=("fuzz/corpus/${name#fuzz_}")
    if ! "${beside[@]}" "build-fuzz/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="build-fuzz/found-$name-" -print_final_stats=1 "${folders[@]}" >/dev/null 2>"$log"; then
        tail -n 60 "$log" >&2
        echo "== $name: found something, see build-fuzz/found-$name-* and $log" >&2
        return 1
    fi
    awk -v name="$name" '/^stat::number_of_executed_units/ { runs = $2 } END { print "== " name ": nothing found in " runs " runs" }' "$log"
}

echo "== ${#names[@]} targets, $seconds s each, $jobs at a time"
found=0 going=0
for name in "${names[@]}"; do
    if [ "$going" -ge "$jobs" ]; then
        wait -n || found=1
        going=$((going - 1))
    fi
    run "$name" &
    going=$((going + 1))
done
while [ "$going" -gt 0 ]; do
    wait -n || found=1
    going=$((going - 1))
done
exit $found
