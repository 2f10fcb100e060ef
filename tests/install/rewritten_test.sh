#!/usr/bin/env bash
# rewritten_test.sh PROGRAM MODEL [PYTHON] - a shipped model that Python's safetensors read and wrote
# again with its metadata loads and is the same model; with a number changed it is refused, until
# `firm export --accept-changes` takes it. Skipped where PYTHON (python3) lacks safetensors or numpy:
#     python3 -m venv V && V/bin/pip install safetensors numpy
#     tests/install/rewritten_test.sh build/firm models/tworoom.safetensors V/bin/python
set -euo pipefail
program=$(realpath "$1") model=$(realpath "$2")
python=$(realpath -s "$(command -v "${3:-python3}" || echo python3)")
"$python" -c 'import numpy, safetensors.numpy' 2>/dev/null ||
    { echo "${3:-python3} has no safetensors and numpy"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/rewrite.py" <<'END'
import json, sys, zlib
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

source, same, changed = sys.argv[1:]
with safe_open(source, "np") as f:
    metadata = f.metadata()
tensors = load_file(source)
save_file(tensors, same, metadata=metadata)
name = max(tensors, key=lambda n: tensors[n].size)
tensors[name] = tensors[name].copy()
tensors[name].flat[0] += 1
save_file(tensors, changed, metadata=metadata)


def digest(path):
    """As docs/formats.md has it."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    metadata = header.pop("__metadata__")
    crc = 0
    for key in sorted(k for k in metadata if k.startswith("firm.") and k not in ("firm.digest", "firm.checksum")):
        crc = zlib.crc32(f"{key}\0{metadata[key]}\0".encode(), crc)
    for name in sorted(header):
        t = header[name]
        crc = zlib.crc32("\0".join([name, t["dtype"], *map(str, t["shape"]), "", ""]).encode(), crc)
        crc = zlib.crc32(data[slice(*t["data_offsets"])], crc)
    return f"{crc:08x}", metadata["firm.digest"]


for path, fits in ((source, True), (same, True), (changed, False)):
    computed, stored = digest(path)
    if (computed == stored) != fits:
        sys.exit(f"{path}: the digest is {stored}, by docs/formats.md it is {computed}")
END

complain() { echo "$*"; exit 1; }
export_half() { "$program" export "$@" --half --quiet >/dev/null; }
cd "$folder"
export_half "$model" -o firm.safetensors
"$python" rewrite.py firm.safetensors same.safetensors changed.safetensors
if cmp -s firm.safetensors same.safetensors; then complain "Python wrote the bytes of before: nothing is tested"; fi

# the same model comes back to the bit, without any flag
export_half same.safetensors -o back.safetensors || complain "the rewritten model was refused"
cmp firm.safetensors back.safetensors || complain "the rewritten model is another one"

set +e
text=$(export_half changed.safetensors -o refused.safetensors 2>&1)
code=$?
set -e
[ "$code" -eq 2 ] && grep -q 'rewritten by another program, which changed' <<<"$text" ||
    complain "a changed number: exit $code, expected 2 and a sentence: $text"
export_half changed.safetensors --accept-changes -o accepted.safetensors
export_half accepted.safetensors -o again.safetensors
cmp accepted.safetensors again.safetensors || complain "the accepted model does not stay the same"
if cmp -s firm.safetensors accepted.safetensors; then complain "the changed number got lost"; fi
echo "a model that $("$python" -c 'import safetensors; print("safetensors", safetensors.__version__)') rewrote loads"
