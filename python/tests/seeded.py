#!/usr/bin/env python3
"""Tries the tests with the defects of defects.txt, seeded into a copy of the package one at a time, and says which test sees each.

    build-python/venv/bin/python python/tests/seeded.py                   after make build and make test-python
    build-python/venv/bin/python python/tests/seeded.py torch/ ext/fan    those whose name starts so

An entry is as in tests/defects.txt: name | file | files of tests | what is wrong, then `- a piece of one line`, `+ what stands there
instead`. Its own tests run first, the long ones too; if they see nothing, all short ones follow. The copy is build-python/seeded. Exit
status 0 when every defect is seen."""

import filecmp
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COPY = os.path.join(ROOT, "build-python", "seeded")
BUILD, PACKAGE = os.path.join(COPY, "build"), os.path.join(COPY, "package")
PARTS = ("CMakeLists.txt", "cmake", "include", "src", "python", "models", "configs")


def entries():
    """(name, file, tests, why, old, new) of each entry; a ValueError if one does not match its file."""
    with open(os.path.join(HERE, "defects.txt"), encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    found = []
    for head, old, new in zip(lines[::3], lines[1::3], lines[2::3]):
        if head.count(" | ") != 3 or old[:2] != "- " or new[:2] != "+ ":
            raise ValueError(f"not an entry: {head}")
        name, path, tests, why = head.split(" | ")
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            times = file.read().count(old[2:])
        if times != 1:
            raise ValueError(f"{name}: '{old[2:]}' is {times} times in {path}, expected once")
        found.append((name, path, tests.split(), why, old[2:], new[2:]))
    if len(lines) % 3 or len({e[0] for e in found}) != len(found):
        raise ValueError("an entry is unfinished, or two have one name")
    return found


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    return done.returncode, done.stdout


def build():
    """The copy as it is now, compiled and laid out as it would be installed."""
    status, said = run("cmake", "--build", BUILD, "--target", "firm_python")
    if status == 0:
        status, said = run("cmake", "--install", BUILD, "--component", "python", "--prefix", PACKAGE)
    if status:
        raise ValueError(f"it does not compile:\n{said[-3000:]}")
    shutil.copytree(os.path.join(COPY, "python", "src", "firm"), os.path.join(PACKAGE, "firm"), dirs_exist_ok=True)


def bring_up_to_date():
    """Files that are equal keep their time, so that little is compiled again."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z", *PARTS], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    wanted = {p for p in listed.split("\0") if os.path.isfile(os.path.join(ROOT, p))}
    for part in PARTS:
        for base, _, files in os.walk(os.path.join(COPY, part)):
            for path in (os.path.join(base, name) for name in files):
                if os.path.relpath(path, COPY) not in wanted:
                    os.remove(path)
    for path in wanted:
        source, to = os.path.join(ROOT, path), os.path.join(COPY, path)
        if not os.path.isfile(to) or not filecmp.cmp(source, to, shallow=False):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(source, to)


def prepare():
    bring_up_to_date()
    if os.path.isdir(os.path.join(ROOT, "third_party")) and not os.path.lexists(os.path.join(COPY, "third_party")):
        os.symlink(os.path.realpath(os.path.join(ROOT, "third_party")), os.path.join(COPY, "third_party"))
    status, said = run("cmake", "-S", COPY, "-B", BUILD, "-G", "Ninja", "-DFIRM_PYTHON=ON", "-DFIRM_RUNTIME_ONLY=ON", "-DFIRM_TESTS=OFF", "-DPython_EXECUTABLE=" + sys.executable)
    if status:
        raise ValueError(said[-3000:])
    build()


def first_failure(*arguments):
    """The first test that fails, None if all pass."""
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "FIRM_PROGRAM": os.path.join(ROOT, "build", "firm"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        status, said = run(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments, cwd=HERE, env=environment, timeout=600)
    except subprocess.TimeoutExpired:
        return "hangs"
    failed = [line.split(" - ")[0].split(" ", 1)[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else None if status == 0 else f"died with status {status}"


def seen_by(path, tests, old, new):
    place = os.path.join(COPY, path)
    with open(place, encoding="utf-8") as file:
        text = file.read()
    try:
        with open(place, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        build()
        skip = ["--deselect=test_docs.py::test_every_seeded_defect_matches_its_file", "-k", "not ten_thousand and not nobody_here_wrote"]
        return first_failure(*skip, *(t + ".py" for t in tests)) or first_failure(*skip, "-m", "not long", ".")
    finally:
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)


def main(wanted):
    chosen = [e for e in entries() if not wanted or e[0].startswith(tuple(wanted))]
    prepare()
    sound = first_failure("-m", "not long", ".")
    if sound:
        sys.exit(f"{sound} fails without a defect")
    survived = 0
    for name, path, tests, why, old, new in chosen:
        begun = time.time()
        seen = seen_by(path, tests, old, new)
        survived += not seen
        print(f"{'caught  ' if seen else 'SURVIVED'} {name:28} {seen or why} ({time.time() - begun:.0f} s)", flush=True)
    build()
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return survived > 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(str(error))
