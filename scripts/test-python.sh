#!/usr/bin/env bash
# test-python.sh - installs the Python package into a virtual environment of its own, build-python/venv, and runs its tests.
#
#     scripts/test-python.sh [short|asan|packages]
#
# The whole form (make test-python) installs as a user does, and adds PyTorch, Minari and pygame where PyPI has them. LeRobot and
# stable-worldmodel are large: their tests run where somebody has put them into the environment. The short form, part of `make test`,
# leaves out what takes long, builds in the environment itself, so that what did not change is not compiled again, and takes libfirm's
# objects from the release build that FIRM_BUILT names; `packages` only fetches what it needs. The form asan
# compiles the extension with all of libfirm in it under the address and undefined behaviour sanitizers, into build-python/asan, and
# runs the tests that call it in this process. Needs python3 with venv, and PyPI the first time; without one of them it says so and
# exits with 77.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
form=${1:-whole}
venv=build-python/venv

python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python: skipped, python3 with venv is not there (apt-get install python3-venv)"; exit 77; }
[ -x $venv/bin/python ] || python3 -m venv $venv || exit 2
install() { $venv/bin/pip install --quiet --no-compile --disable-pip-version-check "$@"; }

if ! $venv/bin/python -c 'import gymnasium, mujoco, pytest, tqdm, cloudpickle, nanobind, scikit_build_core' 2>/dev/null &&
    ! install pytest "gymnasium>=1.0" mujoco==3.11.0 tqdm nanobind scikit-build-core; then
    echo "python: skipped, the packages that the tests need could not be fetched; is PyPI within reach?"
    exit 77
fi

[ "$form" != packages ] || exit 0

if [ "$form" = asan ]; then
    build=build-python/asan package=$PWD/build-python/asan/package
    cmake -S . -B $build -G Ninja --log-level=WARNING -DFIRM_PYTHON=ON -DFIRM_RUNTIME_ONLY=ON -DFIRM_TESTS=OFF -DFIRM_SANITIZE=address,undefined -DPython_EXECUTABLE="$PWD/$venv/bin/python" >/dev/null &&
        cmake --build $build --target firm_python -- --quiet && cmake --install $build --component python --prefix "$package" >/dev/null &&
        cp python/src/firm/*.py "$package/firm/" || { echo "python: the build with sanitizers failed"; exit 1; }
    # Python itself leaks, and so does NumPy: leaks are tested by the memory of a process (test_controller). No program: its
    # process would have the sanitizer's library without its code
    export PYTHONPATH=$package PYTHONMALLOC=malloc FIRM_PROGRAM=/none ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)" exec $venv/bin/python -m pytest -q -p no:cacheprovider -m "not long" \
        -k "not leave_nothing" python/tests/test_{model,controller,sims,envs,tasks,hostile}.py
fi

how=()
[ "$form" = short ] && how=(--no-build-isolation ${FIRM_BUILT:+--config-settings=cmake.define.FIRM_BUILT="$FIRM_BUILT"})
install --upgrade "${how[@]}" ./python || { echo "python: pip install ./python failed"; exit 1; }
if [ "$form" = whole ]; then
    # module:package; Minari's pictures need Pillow, which it does not ask for
    for entry in torch:torch 'minari:minari[hdf5]' PIL:pillow pygame:pygame; do
        $venv/bin/python -c "import ${entry%%:*}" 2>/dev/null || install "${entry#*:}" || echo "python: ${entry#*:} could not be fetched; its tests are skipped"
    done
fi

# firm.program runs the program, if it was built
[ -x build/firm ] && export FIRM_PROGRAM=${FIRM_PROGRAM:-$PWD/build/firm}
select=()
[ "$form" = short ] && select=(-m "not long")
$venv/bin/python -m pytest -q -p no:cacheprovider "${select[@]}" python/tests
