#!/usr/bin/env bash
# setup-mujoco.sh - brings what Reacher and Cube need into third_party/: the MuJoCo library with its
# headers, and the scenes. Called by `make mujoco` and `make test`; does nothing the second time.
#
#     third_party/mujoco/    include/mujoco/*.h, lib/libmujoco.so, LICENSE, VERSION
#     third_party/scenes/    reacher/ (from dm_control), manipspace/ (from ogbench), with their licences,
#                            and models for examples/tasks: dm_control/, gymnasium/
#
# They come from four wheels on PyPI, pinned by version and hash in scripts/mujoco.txt. Python is used here,
# to fetch and unpack, and nowhere else: nothing of it is installed and nothing needs it at run time.
set -euo pipefail
cd "$(dirname "$0")/.."

pins=scripts/mujoco.txt
to=third_party
stamp=$to/mujoco/VERSION
wanted=$(sha256sum "$pins" | cut -d' ' -f1)
[ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ] && exit 0

case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-aarch64) platform=manylinux_2_28_$(uname -m) ;;
    *)
        echo "setup: MuJoCo is fetched for Linux on x86_64 and aarch64 only; Reacher and Cube stay out" >&2
        exit 2
        ;;
esac
scripts/setup.sh mujoco

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "setup: fetching MuJoCo and the scenes of Reacher and Cube into $to/ (85 MB, once)"
if ! python3 -m pip --disable-pip-version-check download --quiet --no-deps --require-hashes --only-binary=:all: \
    --implementation cp --python-version 3.11 --platform "$platform" --dest "$work" -r "$pins"; then
    echo "setup: the packages of $pins could not be fetched; is PyPI within reach?" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, os, sys, zipfile

work = sys.argv[1]
# wheel, prefix inside it, folder it becomes, what is taken
parts = [
    ("mujoco", "mujoco/include/", "mujoco/include/", ()),
    ("mujoco", "mujoco/libmujoco", "mujoco/lib/libmujoco", ()),
    ("mujoco", "mujoco-*.dist-info/licenses/LICENSE", "mujoco/LICENSE", ()),
    ("dm_control", "dm_control/suite/reacher.xml", "scenes/reacher/reacher.xml", ()),
    ("dm_control", "dm_control/suite/common/", "scenes/reacher/common/", (".xml",)),
    ("dm_control", "dm_control-*.dist-info/licenses/LICENSE", "scenes/reacher/LICENSE", ()),
    ("dm_control", "dm_control/suite/", "scenes/dm_control/", tuple(f"suite/{name}.xml" for name in (
        "ball_in_cup", "cartpole", "finger", "pendulum", "point_mass",
        "common/materials", "common/skybox", "common/visual"))),
    ("dm_control", "dm_control-*.dist-info/licenses/LICENSE", "scenes/dm_control/LICENSE", ()),
    ("gymnasium", "gymnasium/envs/mujoco/assets/", "scenes/gymnasium/", ("pusher_v5.xml", "/reacher.xml")),
    ("gymnasium", "gymnasium-*.dist-info/licenses/LICENSE", "scenes/gymnasium/LICENSE", ()),
    ("ogbench", "ogbench/manipspace/descriptions/", "scenes/manipspace/", (".xml", ".obj", ".stl", "LICENSE")),
    ("ogbench", "ogbench-*.dist-info/LICENSE", "scenes/manipspace/LICENSE", ()),
]
for wheel, prefix, folder, endings in parts:
    archive = zipfile.ZipFile(glob.glob(f"{work}/{wheel}-*.whl")[0])
    head, star, tail = prefix.partition("*")
    for name in archive.namelist():
        if star and not (name.startswith(head) and name.endswith(tail)):
            continue
        if not star and not name.startswith(prefix):
            continue
        # of the manipulation scenes only those with an arm and a cube
        if name.endswith("/") or (endings and not name.endswith(endings)) or "/metaworld/" in name:
            continue
        path = os.path.join(work, "new", folder + ("" if star else name[len(prefix):]))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(archive.read(name))
PYTHON

mkdir -p "$to"
library=$(cd "$work/new/mujoco/lib" && ls libmujoco.so.*)
ln -s "$library" "$work/new/mujoco/lib/libmujoco.so"
chmod +x "$work/new/mujoco/lib/$library"
echo "$wanted" >"$work/new/mujoco/VERSION"
for part in scenes mujoco; do # the stamp comes last
    rm -rf "${to:?}/$part"
    cp -r "$work/new/$part" "$to/$part.new"
    mv "$to/$part.new" "$to/$part"
done
echo "setup: done; the next build has Reacher and Cube"
