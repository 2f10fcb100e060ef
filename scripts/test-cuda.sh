#!/usr/bin/env bash
# test-cuda.sh - what needs a GPU, on the build of `make cuda`; behind `make test-cuda`.
#
#     scripts/test-cuda.sh [tests] [memcheck] [racecheck]        default: tests
#
#     tests      build-cuda/firm_tests cuda/: kernels against ref, the executor and the trainer against the host's
#     memcheck   a short form of them under compute-sanitizer: reads and writes outside of what was allocated
#     racecheck  likewise: threads of a block that meet in shared memory
#
# FIRM_TESTS names another runner, FIRM_SANITIZER another compute-sanitizer. Every step runs even if an earlier one failed;
# the last line adds them up, and the exit status is the verdict. Without a GPU all tests are skipped, and the last line
# says so.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

runner=${FIRM_TESTS:-build-cuda/firm_tests}
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(tests)
passed=0 failed=0 skipped=0
started=$SECONDS
# Sanitizers slow a kernel down a hundredfold and more: small graphs, no programs started by tests, and short forms of
# the tests (FIRM_TEST_SHORT): the same kernels with fewer rows, iterations and updates. Each runs in a process of its own.
# Blocks of a cluster wait for each other on the GPU: under racecheck a search takes a minute there, and had not ended after
# seven where other processes took turns with it, so these tests come first, one by one. For the rest a sanitizer keeps a
# processor core busy and leaves the GPU mostly idle: one per core at a time, the longest first.
alone=(cuda/plan_cluster_tf32_twice cuda/plan_cluster_bf16_twice cuda/plan_rows_alone_cluster)
short=(cuda/exec_narrow_cube cuda/exec_narrow_pusht cuda/exec_narrow_reacher cuda/plan_rows_alone_layered
    cuda/plan_rows_alone_batch cuda/exec_caches cuda/exec_narrow_graphs cuda/exec_streams cuda/steps_ cuda/exec_gates
    cuda/update_stops cuda/ops_hard cuda/plan_fit)

if [ ! -x "$runner" ]; then
    echo "test-cuda: $runner is not there; run make cuda first" >&2
    exit 2
fi
sanitizer=${FIRM_SANITIZER:-$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)}
log=$(mktemp)
each=$(mktemp -d)
trap 'rm -rf "$log" "$each"' EXIT

# TOOL TEST: one of the short form; what it printed and its verdict go into files of its own
sanitize_one() {
    local file="$each/${2#cuda/}"
    FIRM_TEST_SHORT=1 "$sanitizer" --tool "$1" --error-exitcode 9 "$runner" "$2" > "$file.txt" 2>&1
    echo $? > "$file.rc"
}

# TOOL: the short form under compute-sanitizer; what every test printed, in order, and the worst verdict
sanitize() {
    local tool=$1 worst=0 t
    rm -f "$each"/*
    for t in "${alone[@]}"; do sanitize_one "$tool" "$t"; done
    for t in "${short[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
        sanitize_one "$tool" "$t" &
    done
    wait
    for t in "${alone[@]}" "${short[@]}"; do
        cat "$each/${t#cuda/}.txt"
        [ "$(cat "$each/${t#cuda/}.rc")" -eq 0 ] || worst=9
    done
    return $worst
}

# NAME COMMAND...: runs it and adds up its "N passed, N failed, N skipped"
step() {
    local name=$1 begin=$SECONDS verdict p f s
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$log"
    verdict=${PIPESTATUS[0]}
    read -r p f s < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log" |
        awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }')
    # a verdict that the sums do not explain (a sanitizer's finding, a crash) still counts
    [ "$verdict" -eq 0 ] || [ "$f" -gt 0 ] || f=1
    echo "== $name: $p passed, $f failed, $s skipped in $((SECONDS - begin)) s"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

for one in "${steps[@]}"; do
    case $one in
        tests) step tests "$runner" cuda/ ;;
        memcheck | racecheck)
            if [ -z "$sanitizer" ]; then
                echo "== $one: compute-sanitizer is not there; it comes with the CUDA toolkit (cuda-sanitizer package)"
                failed=$((failed + 1))
                continue
            fi
            step "$one" sanitize "$one"
            ;;
        *)
            echo "test-cuda: there is no step '$one'; give tests, memcheck or racecheck" >&2
            exit 2
            ;;
    esac
done

echo
[ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || echo "no GPU was found: nothing was tested"
echo "$passed passed, $failed failed, $skipped skipped in $((SECONDS - started)) s"
[ "$failed" -eq 0 ]
