"""The scenes of Reacher and Cube: meshes and XML that come from dm_control and ogbench.

A wheel that was built after `make mujoco` has them inside. Otherwise `python -m firm.scenes` fetches the two packages
from PyPI, pinned by hash, and keeps the scenes in the user's cache. FIRM_MODELS_DIR names another folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from typing import List, Optional

from .errors import UnavailableError

# as in scripts/mujoco.txt
_PINS = {
    "dm_control": ("1.0.44", "4353cdf0eca4964ee776ddca680d3cba1056f0cbf57fc4fd6c31c3594a2087c5"),
    "ogbench": ("1.2.1", "597ac2207935e4edc46de5d5742e940a753f2329e18612e9cfe7f9e857435f83"),
}
_NEEDED = {"reacher": "reacher/reacher.xml", "cube": "manipspace/cube.xml"}
# package, folder inside it, folder it becomes, what is taken
_PARTS = [
    ("dm_control", "dm_control/suite/reacher.xml", "reacher/reacher.xml", ()),
    ("dm_control", "dm_control/suite/common/", "reacher/common/", (".xml",)),
    ("ogbench", "ogbench/manipspace/descriptions/", "manipspace/", (".xml", ".obj", ".stl", "LICENSE")),
]


def cache() -> str:
    """Where fetched scenes are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "firm", "scenes")


def _folders() -> List[str]:
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engines", "scenes")
    return [here, cache()]


def find(task: str) -> Optional[str]:
    """The folder with a task's scene, None if it is nowhere."""
    given = os.environ.get("FIRM_MODELS_DIR")
    for folder in [given] if given else _folders():
        if os.path.isfile(os.path.join(folder, _NEEDED[task])):
            return folder
    return None


def find_or_fail(task: str) -> None:
    """Tells the simulators where the scene is (they read FIRM_MODELS_DIR)."""
    folder = find(task)
    if folder is None:
        raise UnavailableError(f"the scene of {task!r} is not there; run: python -m firm.scenes (fetches 75 MB from PyPI, once), or set FIRM_MODELS_DIR")
    os.environ["FIRM_MODELS_DIR"] = folder


def fetch(folder: Optional[str] = None) -> str:
    """Fetches the scenes into `folder`, by default the cache; returns it."""
    folder = folder or cache()
    with tempfile.TemporaryDirectory() as work:
        for name, (version, digest) in _PINS.items():
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
            command += ["--only-binary=:all:", "--dest", work, f"{name}=={version}"]
            try:
                subprocess.run(command, check=True)
            except subprocess.CalledProcessError:
                raise UnavailableError(f"{name} {version} could not be fetched; is PyPI within reach?") from None
            wheel = next(f for f in os.listdir(work) if f.startswith(name + "-"))
            with open(os.path.join(work, wheel), "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != digest:
                    raise UnavailableError(f"{wheel} is not the file that was expected; nothing of it was used")
            _unpack(name, os.path.join(work, wheel), os.path.join(work, "new"))
        for part in os.listdir(os.path.join(work, "new")):
            _move(os.path.join(work, "new", part), os.path.join(folder, part))
    return folder


def _unpack(package: str, wheel: str, to: str) -> None:
    archive = zipfile.ZipFile(wheel)
    for name, prefix, target, endings in _PARTS:
        for member in archive.namelist() if name == package else ():
            wanted = member.startswith(prefix) and not member.endswith("/") and "/metaworld/" not in member
            if not wanted or (endings and not member.endswith(endings)):
                continue
            path = os.path.normpath(os.path.join(to, target + member[len(prefix) :]))
            if not path.startswith(to + os.sep):
                raise UnavailableError(f"{wheel} has a file outside of its folder; nothing of it was used")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(archive.read(member))


def _move(new: str, to: str) -> None:
    import shutil

    os.makedirs(os.path.dirname(to), exist_ok=True)
    beside = to + f".{os.getpid()}"
    shutil.copytree(new, beside)
    if os.path.exists(to):
        shutil.rmtree(to)
    os.rename(beside, to)


if __name__ == "__main__":
    print(fetch())
