#!/usr/bin/env bash
# test-python.sh - installs the Python package into a virtual environment of its own, build-python/venv, and runs its tests.
#
#     scripts/test-python.sh [short]
#
# The whole form (make test-python) adds gymnasium, MuJoCo and, where PyPI has it, PyTorch. The short form, part of `make
# test`, leaves out PyTorch and what takes long. Needs python3 with venv, and PyPI the first time; without one of them it
# says so and exits with 77.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
form=${1:-whole}
venv=build-python/venv

python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python: skipped, python3 with venv is not there (apt-get install python3-venv)"; exit 77; }
[ -x $venv/bin/python ] || python3 -m venv $venv || exit 2
install() { $venv/bin/pip install --quiet --disable-pip-version-check "$@"; }

if ! $venv/bin/python -c 'import gymnasium, mujoco, pytest' 2>/dev/null && ! install pytest "gymnasium>=1.0" mujoco==3.11.0; then
    echo "python: skipped, the packages that the tests need could not be fetched; is PyPI within reach?"
    exit 77
fi
install --upgrade ./python || { echo "python: pip install ./python failed"; exit 1; }
if [ "$form" = whole ] && ! $venv/bin/python -c 'import torch' 2>/dev/null; then
    install torch || echo "python: PyTorch could not be fetched; its tests are skipped"
fi

# firm.program runs the program, if it was built
[ -x build/firm ] && export FIRM_PROGRAM=${FIRM_PROGRAM:-$PWD/build/firm}
select=()
[ "$form" = short ] && select=(-m "not long")
$venv/bin/python -m pytest -q -p no:cacheprovider "${select[@]}" python/tests
