"""The program's long work from Python: collect, intervene, audit, train, evaluate.

These functions run the program `firm` (make build), which needs HDF5 and other libraries that the wheel does not have. It is
found by the variable FIRM_PROGRAM, or on the PATH. Progress is shown by tqdm where it is installed. Ctrl-C as in the program: a training
run finishes its update and writes a checkpoint, KeyboardInterrupt says how to go on, and resume=True continues; a second Ctrl-C ends it at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _arrays
from .errors import Error, GateError, UnavailableError
from .model import Model
from .model import find as find_model
from .tasks import Task

PathLike = Union[str, "os.PathLike[str]"]


def find() -> str:
    """The program's path."""
    given = os.environ.get("FIRM_PROGRAM")
    path = shutil.which(given) if given else shutil.which("firm")
    if path is None:
        there = f"FIRM_PROGRAM names {given!r}, which cannot be run" if given else "the program firm is not on the PATH"
        raise UnavailableError(f"{there}; run `make build` in the repository and set FIRM_PROGRAM=build/firm, or `make install`")
    return path


def environment(**more: str) -> Dict[str, str]:
    """The environment of the program: Python processes that it starts find the modules of this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **more}


def sentence_of(command: str, lines: Sequence[str], status: int) -> Error:
    """The exception of a program that failed, with its last line."""
    said = next((line for line in reversed(lines) if line.strip()), f"firm {command} ended with status {status}")
    return GateError(said) if status == 1 else Error(said)


class Progress(str):
    """A line of progress, as callbacks get it: text, and where it counts something what and how far. Its `note` of a training is
    the loss, of an evaluation the rate so far; a plain message has the label "" and the total 0."""

    label: str  #: what is counted, "train tworoom grounder"
    done: int  #: so far
    total: int  #: of so many; 0: unknown
    note: str  #: "loss 0.01234"

    @classmethod
    def of(cls, line: str) -> "Progress":
        """A message, or "@progress DONE TOTAL LABEL<tab>NOTE"."""
        label, done, total, note, text = "", 0, 0, "", line
        if line.startswith("@progress "):
            _, first, second, rest = line.split(" ", 3)
            done, total = int(first), int(second)
            label, _, note = rest.partition("\t")
            text = " ".join(filter(None, [label, f"{done} of {total}" if total else str(done), note]))
        made = cls(text)
        made.label, made.done, made.total, made.note = label, done, total, note
        return made


class _Bars:
    """Progress bars of tqdm, one for each thing that the program counts; plain lines where tqdm is not installed."""

    def __init__(self) -> None:
        self.tqdm: Any = None
        try:
            from tqdm.auto import tqdm

            self.tqdm = tqdm
        except ImportError:
            pass
        self._bar: Any = None
        self._label = ""

    def counts(self, line: Progress) -> None:
        if self._bar is None or line.label != self._label or line.done < self._bar.n:
            self.close()
            self._bar, self._label = self.tqdm(total=line.total or None, desc=line.label, dynamic_ncols=True, initial=line.done), line.label
        if line.note:
            self._bar.set_postfix_str(line.note, refresh=False)
        self._bar.update(line.done - self._bar.n)

    def line(self, line: str) -> None:
        if self.tqdm is None:
            print(line, file=sys.stderr)
        else:
            self.tqdm.write(line, file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _stop(child: "subprocess.Popen[Any]") -> List[str]:
    """Passes Ctrl-C on and waits: a training run finishes its update and writes a checkpoint. A second Ctrl-C ends it at once."""
    said: List[str] = []
    child.send_signal(signal.SIGINT)
    while True:
        try:
            said += child.stderr.read().splitlines()  # type: ignore[union-attr]
            child.wait()
            return said
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)


def run(command: str, *arguments: Any, callback: Optional[Callable[[Progress], None]] = None, accept_gate: bool = False) -> Dict[str, Any]:
    """Runs `firm COMMAND ARGUMENTS --json` and returns its object. callback gets each line of progress, up to five a second; without
    one, tqdm shows bars if it is installed, and else the lines go to standard error. A failure raises with the program's sentence;
    accept_gate=True returns the object where a check failed. Ctrl-C stops the program at the next good place."""
    words = [find(), command, *(os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in arguments), "--json"]
    bars = _Bars()
    counted = callback is not None or bars.tqdm is not None
    said: List[str] = []
    with tempfile.TemporaryFile("w+") as out:
        # a session of its own: whoever sends Ctrl-C, a terminal or a notebook, it reaches the program once, from _stop()
        child = subprocess.Popen(
            words,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**({"FIRM_PROGRESS": "counts"} if counted else {})),
            start_new_session=True,
        )
        try:
            for line in child.stderr:  # type: ignore[union-attr]
                progress = Progress.of(line.rstrip("\n").split("\r")[-1])
                if not progress.label:
                    said.append(progress)
                if callback is not None:
                    callback(progress)
                elif progress.label:
                    bars.counts(progress)
                else:
                    bars.line(progress)
            status = child.wait()
        except KeyboardInterrupt:
            bars.close()
            said += [line for line in _stop(child) if not line.startswith("@progress ")]
            resume = "; resume=True continues from there" if command == "train" else ""
            raise KeyboardInterrupt(f"{sentence_of(command, said, child.returncode)}{resume}") from None
        except BaseException:
            _stop(child)
            raise
        finally:
            bars.close()
            child.stderr.close()  # type: ignore[union-attr]
        out.seek(0)
        if status == 0 or (status == 1 and accept_gate):
            return json.loads(out.read())
    raise sentence_of(command, said, status)


def _options(options: Dict[str, Any]) -> List[str]:
    """Keywords as flags: episodes=5 -> --episodes 5; True -> the flag alone; None and False: left out."""
    words: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


def _settings(settings: Optional[Dict[str, Any]]) -> List[str]:
    return [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]


def task_path(task: Union[Task, str]) -> str:
    """A task as the program takes it."""
    return task.path if isinstance(task, Task) else _arrays.path(task, "a task")


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found."""

    raw: Dict[str, Any]  #: everything the program says, as in its JSON

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """One row for each arm, for pandas.DataFrame: rates in percent with 95 % intervals, times, counts."""
        rows = []
        for name, arm in self.raw["arms"].items():
            row = {"arm": name, **{k: v for k, v in arm.items() if not isinstance(v, list)}}
            row["ci95_low"], row["ci95_high"] = arm["ci95"]
            rows.append(row)
        return rows

    @property
    def pairs(self) -> List[Dict[str, Any]]:
        """Paired statistics of every two arms on the same trials: difference in percent, its interval, trials rescued and harmed."""
        rows = []
        for pair in self.raw["pairs"]:
            row = {k: v for k, v in pair.items() if k != "ci95"}
            row["ci95_low"], row["ci95_high"] = pair["ci95"]
            rows.append(row)
        return rows

    @property
    def outcomes(self) -> Dict[str, List[int]]:
        """Every arm's outcome of every trial, 1 where the goal was reached."""
        return {name: arm["outcomes"] for name, arm in self.raw["arms"].items()}


def _model(model: Union[Model, PathLike, None]) -> Optional[str]:
    """A model as the program takes it."""
    return model.path if isinstance(model, Model) else None if model is None else find_model(model)


def check(task: Union[Task, str], **options: Any) -> Dict[str, Any]:
    """Finds out what is wrong with a task of one's own; raises GateError if anything is."""
    return run("check", task_path(task), *_options(options))


def collect(task: Union[Task, str], out: PathLike, *, episodes: Optional[int] = None, seed: int = 0, **options: Any) -> Dict[str, Any]:
    """Records episodes into a file. Options are the flags of `firm collect` (docs/commands.md)."""
    return run("collect", task_path(task), "-o", out, *_options(dict(episodes=episodes, seed=seed, **options)))


def intervene(task: Union[Task, str], data: PathLike, out: PathLike, **options: Any) -> Dict[str, Any]:
    """Restores recorded moments and tries other actions from there."""
    return run("intervene", task_path(task), "--data", data, "-o", out, *_options(options))


def audit(task: Union[Task, str], data: PathLike, **options: Any) -> Dict[str, Any]:
    """Does restoring bring moments back? Raises GateError if it does not."""
    return run("audit", task_path(task), "--data", data, *_options(options))


def train(
    task: Union[Task, str],
    data: PathLike,
    branches: PathLike,
    *,
    out: PathLike,
    device: str = "cpu",
    seed: int = 1,
    resume: bool = False,
    callback: Optional[Callable[[Progress], None]] = None,
    config: Optional[str] = None,
    settings: Optional[Dict[str, Any]] = None,
    **options: Any,
) -> Dict[str, Any]:
    """Trains through all stages into the run folder `out`; the model is out/model.safetensors. settings: {"train.segments": 1000}.
    callback gets a Progress up to five times a second. A missed gate is in the result and does not raise."""
    flags = _options(dict(data=data, branches=branches, device=device, seed=seed, resume=resume, config=config, **options))
    return run("train", task_path(task), "-o", out, *flags, *_settings(settings), callback=callback, accept_gate=True)


def evaluate(
    task: Union[Task, str],
    model: Union[Model, PathLike, None] = None,
    *,
    arms: Sequence[str] = ("firm",),
    trials: int = 100,
    mode: str = "reach",
    callback: Optional[Callable[[Progress], None]] = None,
    settings: Optional[Dict[str, Any]] = None,
    **options: Any,
) -> Evaluation:
    """Plays the same trials with every arm. model: one of firm.load(), its name or its path; without one, the task's shipped model.
    Options are the flags of `firm eval`: offset=25, unsolved=True, seed=42."""
    flags = _options(dict(model=_model(model), arms=",".join(arms), trials=trials, mode=mode, **options))
    return Evaluation(run("eval", task_path(task), *flags, *_settings(settings), callback=callback))
