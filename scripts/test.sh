#!/usr/bin/env bash
# test.sh - the whole ladder behind `make test`: the suite in the release build, the same under the
# address and undefined-behaviour sanitizers, what starts threads under the thread sanitizer, and the Python package. `make arm`
# asks for the tests of libfirm on 64-bit ARM, under qemu-user.
#
#     scripts/test.sh [release] [asan] [tsan] [python] [arm]        default: the first four
#
# The builds come first, one after the other with all cores. Then ctest runs the tests of all of them as one pool, the longest
# first, so that no core waits for the end of a step. A build that fails is counted and the others go on. The last line adds
# everything up, and the exit status is the verdict. Full output of every test: build-tests/Testing/Temporary/LastTest.log
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(release asan tsan python)
pool=build-tests
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

# Adds up a ctest log: passed, failed and skipped tests of one step. Tests of the sanitizers' builds and of Python are called
# STEP or STEP.something; any other is release's. One runner reports many tests ("N passed, N failed, N skipped"; pytest: "N failed,
# N passed, N skipped in 9 s"); any other program counts as one; one that died after reporting no failure is a failure of its own.
count() {
    awk -v step="$1" '
        function number(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART, RLENGTH) + 0 : 0 }
        /^[0-9]+\/[0-9]+ Testing: / {
            summary = f = 0
            of = $3 ~ /^(asan|tsan|arm|python)(\.|$)/ ? $3 : "release"
            sub(/\..*/, "", of)
            mine = of == step
        }
        !mine { next }
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ || /^[0-9]+ (passed|failed|skipped|error).* in [0-9.]+s/ {
            summary = 1; f = number("failed") + number("error")
            passed += number("passed"); failed += f; skipped += number("skipped")
        }
        /^Test Passed\.$/ { if (!summary) passed++ }
        /^Test Failed\.$/ { if (!summary || f == 0) failed++ }
        /^Test Skipped\.$/ { if (!summary) skipped++ }
        END { print passed + 0, failed + 0, skipped + 0 }' $pool/Testing/Temporary/LastTest.log
}

# packages for Python come over the network while the compilers work; without them the step is skipped
fetching='' started=$SECONDS broken=0 tested=()
trap '[ -z "$fetching" ] || kill -- "-$fetching" 2>/dev/null' EXIT
if [[ " ${steps[*]} " == *" python "* ]]; then
    setsid scripts/test-python.sh packages >/dev/null 2>&1 </dev/null &
    fetching=$!
fi

rm -rf $pool
mkdir -p $pool
for step in "${steps[@]}"; do
    if [ "$step" = python ]; then
        printf 'add_test(python "%s/scripts/test-python.sh" short)\nset_tests_properties(python PROPERTIES COST 9000 SKIP_RETURN_CODE 77)\n' "$PWD" >>$pool/CTestTestfile.cmake
    elif begin=$SECONDS && build "$step"; then
        echo "== $step: built in $((SECONDS - begin)) s"
        [ "$step" != release ] || export FIRM_BUILT=$PWD/build  # Python's extension takes its objects
        printf 'subdirs("%s/%s")\n' "$PWD" "$(folder_of "$step")" >>$pool/CTestTestfile.cmake
    else
        echo "== $step: the build failed"
        broken=$((broken + 1))
        continue
    fi
    tested+=("$step")
done
if [ -n "$fetching" ]; then
    wait "$fetching"
    fetching=''
fi

passed=0 failed=0 skipped=0
if [ ${#tested[@]} -gt 0 ]; then
    ctest --test-dir $pool --output-on-failure --no-tests=error -j "$(nproc)"  # few tests keep more than one core busy
    verdict=$?
    echo
    for step in "${tested[@]}"; do
        read -r p f s < <(count "$step")
        echo "== $step: $p passed, $f failed, $s skipped"
        [ "$p" -gt 0 ] || [ "$step" = python ] || f=$((f + 1))  # a build without tests
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    done
    # a verdict that the log does not explain (a test not found, a time-out) still counts
    [ "$verdict" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
fi

echo
[ "$broken" -eq 0 ] || echo "builds that failed: $broken"
echo "took $((SECONDS - started)) s; $skipped skipped"
echo "$passed passed, $((failed + broken)) failed"
[ $((failed + broken)) -eq 0 ] && [ "$passed" -gt 0 ]
