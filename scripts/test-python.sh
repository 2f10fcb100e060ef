#!/usr/bin/env bash
# test-python.sh - installs the Python package into a virtual environment of its own, build-python/venv, and runs its tests.
#
#     scripts/test-python.sh [short]
#
# The whole form (make test-python) installs as a user does, and adds PyTorch, Minari and pygame where PyPI has them. LeRobot and
# stable-worldmodel are large: their tests run where somebody has put them into the environment. The short form, part of `make test`,
# leaves out what takes long, and builds in the environment itself, so that what did not change is not compiled again. Needs
# python3 with venv, and PyPI the first time; without one of them it says so and exits with 77.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
form=${1:-whole}
venv=build-python/venv

python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python: skipped, python3 with venv is not there (apt-get install python3-venv)"; exit 77; }
[ -x $venv/bin/python ] || python3 -m venv $venv || exit 2
install() { $venv/bin/pip install --quiet --disable-pip-version-check "$@"; }

if ! $venv/bin/python -c 'import gymnasium, mujoco, pytest, tqdm, cloudpickle, nanobind, scikit_build_core' 2>/dev/null &&
    ! install pytest "gymnasium>=1.0" mujoco==3.11.0 tqdm nanobind scikit-build-core; then
    echo "python: skipped, the packages that the tests need could not be fetched; is PyPI within reach?"
    exit 77
fi
how=()
[ "$form" = short ] && how=(--no-build-isolation)
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
