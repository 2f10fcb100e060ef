#!/usr/bin/env bash
# wheel.sh - builds the wheel of the Python package into build-python/dist and gives it the manylinux tag that its libraries
# allow: the newest glibc they ask for.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build-python/venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet --disable-pip-version-check wheel
rm -rf build-python/dist
$venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build-python/dist ./python
wheel=$(ls build-python/dist/*.whl)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && python3 -m zipfile -e "$OLDPWD/$wheel" .)
for library in "$work"/firm/_core*.so; do
    needs=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    if extra=$(grep -vE '^(libc|libm|libpthread|libdl|ld-linux.*)\.so' <<<"$needs"); then
        echo "wheel: $(basename "$library") needs more than libc and libm: $extra" >&2
        exit 1
    fi
done
newest=$(find "$work/firm" -name '*.so*' -exec objdump -T {} + | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -1)
$venv/bin/python -m wheel tags --remove --platform-tag "manylinux_2_${newest#GLIBC_2.}_$(uname -m)" "$wheel"
ls -l build-python/dist
