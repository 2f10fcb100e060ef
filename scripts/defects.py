#!/usr/bin/env python3
"""defects.py - seeds the defects of tests/defects.txt one at a time and says which tests see them.

    scripts/defects.py                      all that have no result yet
    scripts/defects.py plan/ core/pool      those whose name starts so
    scripts/defects.py --survivors          those that survived the last time
    scripts/defects.py --fresh --workers 2  forgets old results; two copies of the tree side by side
    scripts/defects.py --check              only checks that every entry still matches its file

A worker keeps a copy of the tree with its own build, so that one defect costs one compilation and a
link. The first worker builds with all cores before the others start; where ccache is installed, these
find in its cache what the first compiled. All tests are run once without a defect; those that fail are
named and take no part. Then, for each defect, a worker runs the tests of the folder that should see it,
then the other folders, and stops at the first failed test. A folder that takes ten times as long as
without a defect, and two minutes at least, hangs: that counts as seen. Results are kept in build-defects/results.tsv: a stopped run goes on where it was. The
exit status is 0 when at least nine of ten defects are caught, else 1; an entry that does not match or does
not compile ends the run with status 2.
"""
import argparse
import hashlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = "tests/defects.txt"
# the test that compares the list with the sources would see every defect
LEFT_OUT = "tests/measure/defects_test.c"
# cheapest first; after its own folder a defect meets the rest in this order
FOLDERS = ["core", "io", "task", "nn", "plan", "measure", "eval", "report", "env", "data", "model", "train", "cli"]
# tests of a folder use no source to the right of it; those of model and train use the planner, too
FLOW = ["core", "nn", "task", "io", "env", "data", "model", "train", "plan", "measure", "eval", "report", "cli"]
TEST_SECONDS = 1200  # the most for a folder without a defect
HANG_TIMES, HANG_SECONDS = 10, 120  # with one it hangs after so many times its seconds, and no sooner than this
NEEDED = 0.9
SURVIVED, OWN_ONLY = "", "-"  # verdicts; any other is the test that saw the defect


class Broken(Exception):
    """An entry that cannot be tried."""


class Defect:
    def __init__(self, name, path, folder, why):
        self.name, self.path, self.folder, self.why = name, path, folder, why
        self.old = self.new = None

    def folders(self, own):
        """Folders of tests that could see it, its own first."""
        source = self.path.split("/")[1]
        first = FLOW.index("model" if source == "plan" else source)
        rest = [] if own else [f for f in FOLDERS if f != self.folder and FLOW.index(f) >= first]
        return [self.folder] + rest

    def key(self):
        text = "\n".join([self.name, self.path, self.folder, self.old, self.new])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def applied(self, text):
        """The file's text with the defect; its old text must be a piece of exactly one line."""
        if text.count(self.old) != 1:
            raise Broken(f"{self.name}: '{self.old}' is {text.count(self.old)} times in {self.path}, "
                         f"expected once; bring the entry in {LIST} up to date")
        return text.replace(self.old, self.new)


def read_list(root):
    """Entries: `name | file | folder of tests | what is wrong`, then `- old text`, `+ new text`."""
    defects = []
    with open(os.path.join(root, LIST), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            last = defects[-1] if defects else None
            if line.startswith("- ") and last and last.old is None:
                last.old = line[2:]
            elif line.startswith("+ ") and last and last.old and last.new is None:
                last.new = line[2:]
            elif line.count(" | ") == 3 and (last is None or last.new):
                defects.append(Defect(*line.split(" | ")))
            else:
                raise Broken(f"{LIST}:{number}: not an entry: {line}")
    names = [d.name for d in defects]
    if not defects or defects[-1].new is None or len(set(names)) != len(names):
        raise Broken(f"{LIST}: an entry is unfinished, or two have one name")
    for d in defects:
        if d.folder not in FOLDERS:
            raise Broken(f"{d.name}: there is no folder of tests '{d.folder}'")
        with open(os.path.join(root, d.path), encoding="utf-8") as f:
            d.applied(f.read())
    return defects


# ---- a copy of the tree -------------------------------------------------------------------------


def tree_files(root):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, check=True,
                         stdout=subprocess.PIPE).stdout.decode()
    return [p for p in out.split("\0")
            if p and p != LEFT_OUT and os.path.isfile(os.path.join(root, p))]


def build_environment(folder):
    """For cmake and the compiler: with ccache, paths below the folder count as equal in all copies."""
    env = dict(os.environ)
    if shutil.which("ccache"):
        env.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")
        env.setdefault("CCACHE_BASEDIR", folder)
        env.setdefault("CCACHE_NOHASHDIR", "1")
    return env


class Tree:
    """A worker's copy; files that are equal keep their time, so that little is built again."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, str(jobs)
        self.build = os.path.join(folder, "build")
        self.env = build_environment(os.path.dirname(folder))
        self.proc = None

    def bring_up_to_date(self, jobs):
        wanted = set(tree_files(ROOT))
        for base, folders, files in os.walk(self.folder):
            folders[:] = [f for f in folders if os.path.join(base, f) != self.build
                          and not os.path.islink(os.path.join(base, f))]
            for name in files:
                path = os.path.join(base, name)
                if os.path.relpath(path, self.folder) not in wanted:
                    os.remove(path)
        for path in sorted(wanted):
            source, to = os.path.join(ROOT, path), os.path.join(self.folder, path)
            with open(source, "rb") as f:
                data = f.read()
            if os.path.exists(to):
                with open(to, "rb") as f:
                    if f.read() == data:
                        continue
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, "wb") as f:
                f.write(data)
            shutil.copymode(source, to)
        libraries = os.path.join(ROOT, "third_party")
        here = os.path.join(self.folder, "third_party")
        if os.path.isdir(libraries) and not os.path.lexists(here):
            os.symlink(os.path.realpath(libraries), here)
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            self.run(["cmake", "--preset", "release", "--log-level=WARNING"])
        self.compile(jobs)

    def run(self, command):
        done = subprocess.run(command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode:
            raise Broken(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")

    def compile(self, jobs=None):
        self.run(["cmake", "--build", "build", "--target", "firm", "firm_tests", "-j", jobs or self.jobs])

    def names(self, folder):
        out = subprocess.run([os.path.join(self.build, "firm_tests"), "--list"], cwd=self.folder, check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        return [n for n in out.split() if n.startswith(folder + "/")]

    def failures(self, folder):
        """The tests of the folder that fail as it is."""
        done = subprocess.run([os.path.join(self.build, "firm_tests"), folder + "/"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=TEST_SECONDS)
        failed = re.findall(r"^FAIL (\S+)", done.stdout, re.M)
        if done.returncode and not failed:
            raise Broken(f"the tests of {folder} died without a defect:\n{done.stdout[-2000:]}")
        return failed

    def first_failure(self, folder, limit, left_out=()):
        """The first test of the folder that fails, or None; beyond the limit, in seconds, it hangs."""
        names = self.names(folder)
        self.proc = subprocess.Popen([os.path.join(self.build, "firm_tests"), folder + "/"] +
                                     [f"--not={name}" for name in left_out], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     errors="replace", start_new_session=True)
        alarm = threading.Timer(limit, self.stop)
        alarm.start()
        begun, done, verdict, skipped = time.time(), set(), None, 0
        try:
            for line in self.proc.stdout:
                word = re.match(r"(ok  |FAIL) (\S+)", line)
                skipped += line.startswith("  skipped: ")
                if word:
                    done.add(word[2])
                if word and word[1] == "FAIL":
                    verdict = word[2]
                    break
            if verdict:
                self.stop()
            status = self.proc.wait()
        finally:
            alarm.cancel()
            self.stop()
        if verdict:
            return verdict
        if time.time() - begun >= limit:
            return f"{folder}: hangs"
        if status == 0:
            return None
        left = [n for n in names if n not in done]
        return f"{left[skipped] if skipped < len(left) else folder}: died"

    def stop(self):
        """Ends our own test program with what it started."""
        if self.proc and self.proc.poll() is None:
            os.killpg(self.proc.pid, signal.SIGKILL)
            self.proc.wait()

    def restore(self, path):
        shutil.copyfile(os.path.join(ROOT, path), os.path.join(self.folder, path))

    def try_defect(self, d, study):
        path = os.path.join(self.folder, d.path)
        with open(path, encoding="utf-8") as f:
            text = d.applied(f.read())
        try:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            self.compile()
            for folder in d.folders(study.own):
                seen = self.first_failure(folder, study.limits[folder], study.left_out)
                if seen:
                    return seen
            return None
        finally:
            self.restore(d.path)


# ---- the study ----------------------------------------------------------------------------------


class Results:
    def __init__(self, path):
        self.path, self.lock, self.seen = path, threading.Lock(), {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    key, _, verdict = line.rstrip("\n").split("\t")
                    self.seen[key] = verdict

    def add(self, d, verdict):
        with self.lock:
            self.seen[d.key()] = verdict
            with open(self.path, "a", encoding="utf-8") as f:
                f.write(f"{d.key()}\t{d.name}\t{verdict}\n")


def take(items):
    """The next one, None at the end."""
    try:
        return items.get_nowait()
    except queue.Empty:
        return None


class Study:
    """What the workers share."""

    def __init__(self, results, own):
        self.results, self.own = results, own
        self.sound, self.todo = queue.Queue(), queue.Queue()  # folders without a defect, then defects
        self.built = threading.Event()
        self.left_out, self.limits, self.failed = [], {}, []

    def build(self, tree, first):
        """The first worker has all cores; the others wait for it, as they would only compile the same."""
        if not first:
            self.built.wait()
        try:
            if not self.failed:
                tree.bring_up_to_date(str(os.cpu_count() or 1) if first else tree.jobs)
        finally:
            self.built.set()

    def try_sound(self, tree):
        """The tests without a defect, shared among the workers: one that fails anyway sees nothing."""
        while not self.failed and (folder := take(self.sound)):
            begun = time.time()
            for name in tree.failures(folder):
                print(f"left out: {name} fails without a defect", flush=True)
                self.left_out.append(name)
            self.limits[folder] = max(HANG_SECONDS, HANG_TIMES * (time.time() - begun))
            self.sound.task_done()
        while not self.failed and self.sound.unfinished_tasks:
            time.sleep(0.2)

    def try_defects(self, tree):
        while not self.failed and (d := take(self.todo)):
            begun = time.time()
            seen = tree.try_defect(d, self)
            if self.failed:  # we were stopped: that the tests died says nothing
                return
            self.results.add(d, seen or (OWN_ONLY if self.own else SURVIVED))
            took = time.time() - begun
            print(f"{'caught  ' if seen else 'SURVIVED'} {d.name:32} {seen or d.why} ({took:.0f} s)", flush=True)

    def work(self, tree, first):
        try:
            self.build(tree, first)
            self.try_sound(tree)
            self.try_defects(tree)
        except (Broken, OSError, subprocess.SubprocessError) as e:
            self.failed.append(str(e))


def summarise(defects, results):
    tried = [d for d in defects if results.seen.get(d.key(), OWN_ONLY) != OWN_ONLY]
    survived = [d for d in tried if results.seen[d.key()] == SURVIVED]
    elsewhere = [d for d in tried if results.seen[d.key()]
                 and not results.seen[d.key()].startswith(d.folder)]
    for d in survived:
        print(f"survivor: {d.name} ({d.path}): {d.why}")
    for d in defects:
        if results.seen.get(d.key()) == OWN_ONLY:
            print(f"survived its own folder: {d.name} ({d.path}): {d.why}")
    print(f"{len(tried) - len(survived)} of {len(tried)} caught, {len(elsewhere)} of them by another folder; "
          f"{len(defects) - len(tried)} not tried to the end")
    return len(tried) == len(defects) and len(tried) - len(survived) >= NEEDED * len(tried)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("only", nargs="*", help="names or their beginnings")
    p.add_argument("--check", action="store_true", help="check the list and stop")
    p.add_argument("--fresh", action="store_true", help="forget all results")
    p.add_argument("--survivors", action="store_true", help="try again those that survived")
    p.add_argument("--own", action="store_true", help="only the folder that should see the defect")
    p.add_argument("--workers", type=int, default=1, help="copies of the tree at work (1)")
    p.add_argument("--dir", default=os.path.join(ROOT, "build-defects"), help="where copies and results live")
    a = p.parse_args()
    defects = read_list(ROOT)
    print(f"{len(defects)} defects, every one matches its file")
    if a.check:
        return 0
    os.makedirs(a.dir, exist_ok=True)
    path = os.path.join(a.dir, "results.tsv")
    if a.fresh and os.path.exists(path):
        os.remove(path)
    results, needed = Results(path), set()
    study = Study(results, a.own)
    for d in defects:
        verdict = results.seen.get(d.key())
        named = not a.only or any(d.name.startswith(o) for o in a.only)
        due = verdict is None or (verdict == OWN_ONLY and not a.own)
        due = due or (a.survivors and verdict in (SURVIVED, OWN_ONLY))
        if named and (due or a.only):
            study.todo.put(d)
            needed.update(d.folders(a.own))
    for folder in reversed(FOLDERS):  # the longest first
        if folder in needed:
            study.sound.put(folder)
    trees = [Tree(os.path.join(a.dir, str(i + 1)), max(1, (os.cpu_count() or 1) // a.workers))
             for i in range(max(1, min(a.workers, study.todo.qsize())))]
    for t in trees:
        os.makedirs(t.folder, exist_ok=True)
    threads = [threading.Thread(target=study.work, args=(t, t is trees[0])) for t in trees]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: no test stays behind
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    except KeyboardInterrupt:
        study.failed.append("interrupted; the same command goes on where it was")
        for t in trees:
            t.stop()
    if study.failed:
        print("\n".join(study.failed), file=sys.stderr)
        return 2
    return 0 if summarise(defects, results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as e:
        print(e, file=sys.stderr)
        sys.exit(2)
