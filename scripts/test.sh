#!/usr/bin/env bash
# test.sh - the whole ladder behind `make test`: the suite in the release build, the same under the
# address and undefined-behaviour sanitizers, and the thread pool under the thread sanitizer. `make arm` asks for the
# tests of libfirm on 64-bit ARM, under qemu-user.
#
#     scripts/test.sh [release] [asan] [tsan] [python] [arm]        default: the first four
#
# The Python package's tests run beside the others; name them last.
# Every step runs even if an earlier one failed; the last line adds them up, and the exit status is
# the verdict. Full output of each step: <build folder>/Testing/Temporary/LastTest.log
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(release asan tsan python)
passed=0 failed=0 skipped=0 broken=0
# an allocation that must fail in a test returns NULL under the sanitizers too
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

folder_of() { [ "$1" = release ] && echo build || echo "build-$1"; }

# the libraries and the example are built, too, where tests or users of the build need them
build() {
    local target=firm_tests
    [ "$1" = release ] || [ "$1" = arm ] && target=all
    cmake --preset "$1" --log-level=WARNING >/dev/null && cmake --build --preset "$1" --target "$target" -- --quiet
}

# Adds up a ctest log. One runner reports many tests ("N passed, N failed, N skipped"); any other
# program counts as one; one that died after reporting no failure is a failure of its own.
count() {
    awk '
        /^[0-9]+\/[0-9]+ Testing: / { summary = 0; f = 0 }
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { summary = 1; passed += $1; f = $3; failed += f; skipped += $5 }
        /^Test Passed\.$/ { if (!summary) passed++ }
        /^Test Failed\.$/ { if (!summary || f == 0) failed++ }
        /^Test Skipped\.$/ { if (!summary) skipped++ }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# The short form of the Python package's tests keeps one core busy. So it begins with the first step's tests, runs beside
# them, and shows its output at the end. Where Python or PyPI is missing it counts as one test that is skipped.
python='' python_log=$(mktemp)
trap '[ -z "$python" ] || kill -- "-$python" 2>/dev/null; rm -f "$python_log"' EXIT
begin_python() {
    [ -n "$python" ] && return
    setsid scripts/test-python.sh short >"$python_log" 2>&1 </dev/null &
    python=$!
}

end_python() {
    local verdict sum
    begin_python
    wait "$python"
    verdict=$?
    python=''
    cat "$python_log"
    sum=$(grep -E '[0-9]+ (passed|failed|skipped|errors?)' "$python_log" | tail -1)
    of() { grep -oE "[0-9]+ $1" <<<"$sum" | grep -oE '[0-9]+' || echo 0; }
    p=$(of passed) f=$(($(of failed) + $(of error))) s=$(of skipped)
    [ "$verdict" -ne 77 ] || s=1
    [ "$verdict" -eq 0 ] || [ "$verdict" -eq 77 ] || [ "$f" -gt 0 ] || f=1
    echo "== python: $p passed, $f failed, $s skipped"
}

started=$SECONDS
for step in "${steps[@]}"; do
    if [ "$step" = python ]; then
        end_python
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
        continue
    fi
    folder=$(folder_of "$step")
    begin=$SECONDS
    echo "== $step: building in $folder"
    if ! build "$step"; then
        echo "== $step: the build failed"
        broken=$((broken + 1))
        continue
    fi
    echo "== $step: built in $((SECONDS - begin)) s, testing"
    [[ " ${steps[*]} " != *" python "* ]] || begin_python
    begin=$SECONDS
    ctest --preset "$step" -j "$(nproc)"  # few tests keep more than one core busy
    verdict=$?
    read -r p f s < <(count "$folder/Testing/Temporary/LastTest.log")
    # a verdict that the log does not explain (a test not found, a time-out) still counts
    [ "$verdict" -eq 0 ] || [ "$f" -gt 0 ] || f=1
    echo "== $step: $p passed, $f failed, $s skipped in $((SECONDS - begin)) s"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done

echo
[ "$broken" -eq 0 ] || echo "builds that failed: $broken"
echo "took $((SECONDS - started)) s; $skipped skipped"
echo "$passed passed, $((failed + broken)) failed"
[ $((failed + broken)) -eq 0 ] && [ "$passed" -gt 0 ]
