#!/usr/bin/env python3
"""kill.py - kills the program at random moments and checks that nothing is lost.

  scripts/kill.py [--firm build/firm] [--kills 100] [--interrupts 20] [--seed 1] [--keep FOLDER]

SIGKILL over collect, intervene, pack, trials, train and reproduce: every output is absent, old or
complete; what is run again or resumed ends in the bytes of an uninterrupted run, leaves no temporary
file, and `firm report` reads it. SIGINT in trainings: exit 130 and a checkpoint at the last update
made. The moments are drawn from the seed over the time that an uninterrupted run takes, so the seed
fixes them up to the machine's speed. A finding ends the study with status 1.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SMALL = (
    "--config smoke --set stage.tokenizer.updates=2 --set stage.grounder.updates=6 "
    "--set stage.history.updates=4 --set stage.rollout-f.updates=150 "
    "--set stage.rollout-fi.updates=40 --set stage.tokenizer.batch=2 "
    "--set stage.grounder.batch=2 --set stage.grounder.anchor=0.1 --set stage.history.batch=2 "
    "--set stage.rollout-f.batch=4 --set stage.rollout-fi.batch=4 --set train.segments=32 "
    "--set train.held_out=4 --set train.support=16 --set train.frame_pool=48 "
    "--set train.checkpoint_every=7 --set train.log_every=1"
).split()
UPDATES = [2, 6, 4, 150, 40]  # of the stages, in order
# share of the kills; single commands take a blink, studies minutes
SHARES = {"collect": 0.20, "intervene": 0.20, "pack": 0.15, "trials": 0.15, "train": 0.22,
          "reproduce": 0.08}


class Finding(Exception):
    """Something was lost."""


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def expect(condition, text):
    if not condition:
        raise Finding(text)


class Program:
    def __init__(self, path, root, seed):
        self.path = os.path.abspath(path)
        self.root = root
        self.random = random.Random(seed)

    def start(self, line, folder):
        def as_from_a_terminal():  # a shell's background would ignore it
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        with open(os.path.join(self.root, "stderr.txt"), "wb") as err:
            return subprocess.Popen([self.path] + line, cwd=folder, stdout=subprocess.DEVNULL,
                                    stderr=err, start_new_session=True,
                                    preexec_fn=as_from_a_terminal)

    def said(self):
        return (read(os.path.join(self.root, "stderr.txt")) or b"").decode(errors="replace")

    def run(self, line, folder):
        """To its end, which must be a good one; the seconds it took."""
        begun = time.time()
        code = self.start(line, folder).wait()
        expect(code == 0, f"exit {code} of firm {' '.join(line)}: {self.said()}")
        return time.time() - begun

    def strike(self, line, folder, when, which=signal.SIGKILL):
        """Sends a signal after so many seconds, or when `when()` holds. The exit status, and
        whether the signal met it alive."""
        process = self.start(line, folder)
        if which != signal.SIGKILL:
            await_handlers(process)
        end = None if callable(when) else time.time() + when
        while not when() if callable(when) else time.time() < end:
            if process.poll() is not None:
                return process.returncode, False
            time.sleep(0.0005)
        process.send_signal(which)
        code = process.wait()
        await_session(process.pid)
        return code, True


def await_handlers(process):
    bit = 1 << (signal.SIGINT - 1)
    while process.poll() is None:
        status = (read(f"/proc/{process.pid}/status") or b"").decode()
        at = status.find("SigCgt:")
        if at >= 0 and int(status[at + 7:].split()[0], 16) & bit:
            return
        time.sleep(0.001)


def await_session(session):
    """Until the steps of a killed study have gone, too."""
    for _ in range(6000):
        out = subprocess.run(["ps", "-o", "stat=", "-s", str(session)], capture_output=True,
                             text=True, check=False).stdout
        if all(s.strip().startswith("Z") for s in out.splitlines()):
            return
        time.sleep(0.01)
    raise Finding(f"steps of the study {session} live on")


def expect_no_temporary(folder):
    for where, _, names in os.walk(folder):
        for name in names:
            expect(not name.endswith(".tmp"), f"{where}/{name} was left behind")


# ---- commands that write one file ----------------------------------------------------------------


def kill_writer(firm, name, line, kills):
    """Kills while `out` does not exist and while an old one does, in turn."""
    folder = os.path.join(firm.root, name)
    os.makedirs(folder)
    target = os.path.join(folder, "out")
    line = line + ["-o", "out", "--quiet"]
    seconds = max(firm.run(line, folder) for _ in range(3))
    complete = read(target)
    done = left = finished = 0
    while done < kills:
        os.remove(target) if os.path.exists(target) else None
        old = b"old" if done % 2 else None
        if old:
            with open(target, "wb") as f:
                f.write(old)
        _, met = firm.strike(line, folder, firm.random.uniform(0, seconds))
        now = read(target)
        expect(now in (old, complete), f"{target} is neither absent nor old nor complete")
        if not met:
            expect(now == complete, f"{target} is not complete at the end")
            continue
        done += 1
        left += any(n.endswith(".tmp") for n in os.listdir(folder))
        finished += now == complete
        firm.run(line, folder)
        expect(read(target) == complete, f"{target} differs when it is made again")
        expect_no_temporary(folder)
    return f"{done} kills, {left} within a write, {finished} after it"


# ---- training ------------------------------------------------------------------------------------


def position(run):
    """Updates that the checkpoint of a run stands after; 0: there is none."""
    bytes_ = read(os.path.join(run, "checkpoint.safetensors"))
    if bytes_ is None:
        return 0
    notes = json.loads(bytes_[8:8 + int.from_bytes(bytes_[:8], "little")])["__metadata__"]
    stage, update = int(notes["firm.run.stage"]), int(notes["firm.run.update"])
    return sum(UPDATES[:stage]) + update


def rows(run):
    """metrics.csv without the header and without the last column, the time."""
    text = read(os.path.join(run, "metrics.csv"))
    if text is None:
        return None
    lines = text.decode().split("\n")
    expect(lines[0].startswith("stage,update,loss,") and len(lines) > 1,
           f"{run}/metrics.csv has no header")
    return [line.rsplit(",", 1)[0] for line in lines[1:-1]]


class Trainings:
    def __init__(self, firm):
        self.firm = firm
        self.folder = os.path.join(firm.root, "train")
        os.makedirs(self.folder)
        self.line = ["train", "tworoom", "--data", "../f.h5", "--branches", "../i.h5", "--seed",
                     "7", "--quiet"] + SMALL
        self.seconds = firm.run(self.line + ["-o", "whole"], self.folder)
        self.whole = os.path.join(self.folder, "whole")
        self.model = read(os.path.join(self.whole, "model.safetensors"))
        self.rows = rows(self.whole)
        expect(len(self.rows) == sum(UPDATES), "a row is missing in an uninterrupted run")

    def path(self, run):
        return os.path.join(self.folder, run)

    def lines(self, run):
        return (read(os.path.join(self.path(run), "metrics.csv")) or b"").count(b"\n")

    def check_killed(self, run):
        folder = self.path(run)
        model = read(os.path.join(folder, "model.safetensors"))
        expect(model in (None, self.model), f"{run}/model.safetensors is neither absent nor whole")
        config = read(os.path.join(folder, "config.ini"))
        expect(config in (None, read(os.path.join(self.whole, "config.ini"))),
               f"{run}/config.ini is not whole")
        result = read(os.path.join(folder, "train.json"))
        expect(result is None or json.loads(result)["pass"], f"{run}/train.json is not whole")
        done = rows(folder)
        expect(done is None or done == self.rows[:len(done)], f"{run}/metrics.csv differs")
        expect((done is None and position(folder) == 0) or position(folder) <= len(done),
               f"{run}/metrics.csv is behind the checkpoint")

    def check_finished(self, run):
        self.firm.run(self.line + ["-o", run, "--resume"], self.folder)
        expect(read(os.path.join(self.path(run), "model.safetensors")) == self.model,
               f"{run}: the resumed model differs")
        expect(rows(self.path(run)) == self.rows, f"{run}: the resumed metrics.csv differs")
        expect_no_temporary(self.path(run))
        self.firm.run(["report", run, "-o", f"page-{run}", "--quiet"], self.folder)
        shutil.rmtree(self.path(run))

    def kill(self, kills, per_run=4):
        done = runs = 0
        while done < kills:
            run = f"killed-{runs}"
            runs += 1
            for _ in range(min(per_run, kills - done)):
                more = ["--resume"] if os.path.exists(self.path(run)) else []
                # what is left to do is less each time; at least two kills come early enough
                _, met = self.firm.strike(self.line + ["-o", run] + more, self.folder,
                                          self.firm.random.uniform(0, self.seconds))
                if not met:
                    break
                done += 1
                if os.path.exists(self.path(run)):
                    self.check_killed(run)
            self.check_finished(run)
        return f"{done} kills in {runs} runs"

    def interrupt(self, times):
        done = within = 0
        while done < times:
            run = f"stopped-{done}"
            shutil.rmtree(self.path(run), ignore_errors=True)
            # one at any time, then three within a stage: most of the time goes elsewhere
            stage = self.firm.random.randrange(len(UPDATES))
            row = sum(UPDATES[:stage]) + self.firm.random.randrange(UPDATES[stage])
            when = self.firm.random.uniform(0, self.seconds) if done % 4 == 0 else \
                lambda run=run, row=row: self.lines(run) > row
            code, met = self.firm.strike(self.line + ["-o", run], self.folder, when, signal.SIGINT)
            if not met or code == 0:
                continue
            done += 1
            expect(code == 130, f"{run}: exit {code}, not 130: {self.firm.said()}")
            said = self.firm.said()
            expect("; to go on: " in said and said.endswith(" --resume\n") and
                   said.count("\n") == 1, f"{run}: it says '{said}'")
            made = rows(self.path(run)) if os.path.exists(self.path(run)) else None
            expect(position(self.path(run)) == len(made or []),
                   f"{run}: {len(made or [])} updates, checkpoint at {position(self.path(run))}")
            within += "stopped after update" in said
            if os.path.exists(self.path(run)):
                expect_no_temporary(self.path(run))
            self.check_finished(run)
        return f"{done} interrupts, {within} within updates"


# ---- a study -------------------------------------------------------------------------------------


def study_results(folder):
    """Every file that is the same whenever it is made."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            key = os.path.relpath(path, folder)
            if name.endswith((".h5", ".ini")) or name == "model.safetensors":
                found[key] = read(path)
            elif name.startswith("eval-"):
                arms = json.loads(read(path))["arms"]
                found[key] = {a: (arms[a]["outcomes"], arms[a]["closest"]) for a in arms}
            elif name == "metrics.csv":
                found[key] = rows(where)
    return found


def kill_study(firm, kills, per_study=4):
    line = ["reproduce", "--tasks", "tworoom", "--seeds", "1,2", "--episodes", "60", "--trials",
            "2", "--oracle-minutes", "0", "--jobs", "2", "--quiet"] + SMALL
    seconds = firm.run(line + ["-o", "study"], firm.root)
    whole = study_results(os.path.join(firm.root, "study"))
    expect(len(whole) >= 14, f"an uninterrupted study has only {sorted(whole)}")
    done = studies = 0
    while done < kills:
        name = f"study-{studies}"
        folder = os.path.join(firm.root, name)
        studies += 1
        for _ in range(min(per_study, kills - done)):
            _, met = firm.strike(line + ["-o", name], firm.root,
                                 firm.random.uniform(0, 0.9 * seconds))
            if not met:
                break
            done += 1
            for key, value in study_results(folder).items() if os.path.exists(folder) else ():
                same = value == whole[key][:len(value)] if key.endswith(".csv") else \
                    value == whole[key]
                expect(same, f"{name}/{key} is neither absent nor complete")
        firm.run(line + ["-o", name], firm.root)
        expect(study_results(folder) == whole, f"{name} differs from an uninterrupted study")
        expect_no_temporary(folder)
        firm.run(["report", name, "-o", f"page-{name}", "--quiet"], firm.root)
        shutil.rmtree(folder)
    return f"{done} kills in {studies} studies"


# ---- all of it -----------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description="kills firm at random moments")
    parser.add_argument("--firm", default="build/firm")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--interrupts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="work there and leave everything")
    a = parser.parse_args()
    root = a.keep or tempfile.mkdtemp(prefix="firm-kill-")
    os.makedirs(root, exist_ok=True)
    firm = Program(a.firm, root, a.seed)
    counts = {k: round(a.kills * v) for k, v in SHARES.items()}
    counts["train"] += a.kills - sum(counts.values())
    data = ["--data", "../f.h5"]
    both = data + ["--branches", "../i.h5"] + SMALL
    begun = time.time()
    try:
        firm.run("collect tworoom --episodes 400 -o f.h5 --quiet".split(), root)
        firm.run("intervene tworoom --data f.h5 --anchors 32 --branches 8 -o i.h5 --quiet".split(),
                 root)
        jobs = [
            ("collect", lambda: kill_writer(firm, "collect", [
                "collect", "tworoom", "--episodes", "2000"], counts["collect"])),
            ("intervene", lambda: kill_writer(firm, "intervene", [
                "intervene", "tworoom", "--anchors", "200", "--branches", "64"] + data,
                counts["intervene"])),
            ("pack", lambda: kill_writer(firm, "pack", [
                "pack", "tworoom", "--pictures"] + both, counts["pack"])),
            ("trials", lambda: kill_writer(firm, "trials", [
                "trials", "tworoom", "--trials", "2000"] + data, counts["trials"])),
            ("train", lambda: Trainings(firm).kill(counts["train"])),
            ("reproduce", lambda: kill_study(firm, counts["reproduce"])),
        ]
        for name, job in jobs:
            print(f"{name}: {job()}, {time.time() - begun:.0f} s so far", flush=True)
        shutil.rmtree(os.path.join(root, "train"))
        print(f"SIGINT: {Trainings(firm).interrupt(a.interrupts)}, "
              f"{time.time() - begun:.0f} s so far", flush=True)
    except Finding as finding:
        print(f"FOUND: {finding}\nsee {root}", file=sys.stderr)
        return 1
    if not a.keep:
        shutil.rmtree(root)
    print(f"{a.kills} kills and {a.interrupts} interrupts: nothing was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
