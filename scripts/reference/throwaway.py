"""What the scripts beside this one share: a throw-away virtual environment, and the reference package's
environments without the training libraries that the package's own __init__ files want."""

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import venv

REFERENCE = "stable-worldmodel==0.1.1"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_inside(script, packages, alone=(), **variables):
    """Runs `script --inside` with these packages installed; those of `alone` without what they depend on."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = os.path.join(folder, "bin", "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
        subprocess.check_call(pip + list(packages))
        if alone:
            subprocess.check_call(pip + ["--no-deps", *alone])
        subprocess.check_call([python, os.path.abspath(script), "--inside"], env={**os.environ, **variables})


def load(module, *packages):
    """Imports stable_worldmodel.envs.MODULE; `packages` are those on the way whose __init__ is passed over."""
    if "stable_worldmodel" not in sys.modules:
        base = list(importlib.util.find_spec("stable_worldmodel").submodule_search_locations)[0]
        for package in ("", ".envs", *(".envs." + p for p in packages)):
            stand_in = types.ModuleType("stable_worldmodel" + package)
            stand_in.__path__ = [os.path.join(base, *package.split(".")[1:])]
            sys.modules[stand_in.__name__] = stand_in
        top = sys.modules["stable_worldmodel"]
        top.utils = importlib.import_module("stable_worldmodel.utils")
        top.spaces = importlib.import_module("stable_worldmodel.spaces")
    return importlib.import_module("stable_worldmodel.envs." + module)
