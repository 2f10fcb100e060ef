"""Simulators of the four tasks, many in step, without any other package. gymnasium's forms are in firm.envs."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from . import _arrays, _core, scenes
from .errors import UnavailableError, UsageError
from .model import Distance

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engines")
# task: the library of simulators that it is in; None: the extension itself
_LIBRARIES = {"tworoom": None, "pusht": "pusht", "reacher": "mujoco", "cube": "mujoco"}
_MUJOCO = "3.11.0"  # whose library firm/engines/mujoco.so was linked with


@dataclass(frozen=True)
class TaskInfo:
    """What a task is: the sizes and names of its states, controls and pictures."""

    task: str
    title: str
    physics: str
    renderer: str
    image_size: int
    period_ms: int
    action_dim: int
    action_low: float
    action_high: float
    state_dim: int
    config: Tuple[str, ...]
    distances: Tuple[Distance, ...]


def names() -> List[str]:
    """The tasks that have simulators, whether or not their engines are there."""
    return list(_LIBRARIES)


def _load_mujoco() -> None:
    """Loads the library of the `mujoco` wheel, so that firm/engines/mujoco.so finds it by its name."""
    spec = importlib.util.find_spec("mujoco")
    folder = list(spec.submodule_search_locations or [""])[0] if spec else ""
    path = os.path.join(folder, f"libmujoco.so.{_MUJOCO}")
    if not spec or not os.path.isfile(path):
        there = "is of another version" if spec else "is not installed"
        raise UnavailableError(f"Reacher and Cube need the package mujoco {_MUJOCO}, which {there}; run: pip install mujoco=={_MUJOCO}")
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def _library(task: str) -> Optional[str]:
    if os.sep in task:
        return None  # a plug-in, which the extension opens
    if task not in _LIBRARIES:
        raise UsageError(f"there is no task {task!r}; the tasks are: {', '.join(_LIBRARIES)}, and plug-ins by path, as in ./task.so")
    name = _LIBRARIES[task]
    if name is None:
        return None
    path = os.path.join(_HERE, name + ".so")
    if not os.path.isfile(path):
        cure = {
            "pusht": "Chipmunk 7; run: apt-get install libchipmunk-dev",
            "mujoco": "MuJoCo; run: pip install mujoco==" + _MUJOCO + " (or make mujoco)",
        }[name]
        raise UnavailableError(f"the task {task!r} was left out when this package was built, because the machine lacked {cure}, then install firm-wm again from source")
    if name == "mujoco":
        _load_mujoco()
        scenes.find_or_fail(task)
    return path


class Simulators:
    """`count` simulators of one task, run side by side by a thread pool. The task is a name ("tworoom"), or the path of
    a plug-in ("./task.so", docs/your-task.md).

    States are float64, as the reference package's setters take them. Each simulator has a goal state, which success and
    distances refer to. The same seeds give the same bits, for any number of threads (0: all cores)."""

    def __init__(self, task: Union[str, "os.PathLike[str]"], count: int = 1, *, threads: int = 0):
        task = _arrays.path(task, "a task")
        self._core = _core.Sims(
            task,
            _library(task),
            _arrays.integer(count, 1, 65536, "count"),
            _arrays.integer(threads, 0, 1024, "threads"),
        )
        self.count = count
        d = self._core.info()
        d["config"] = tuple(d["config"])
        d["distances"] = tuple(Distance(*x) for x in d.pop("distance"))
        self.info = TaskInfo(**d)
        self._frame = (self.info.image_size, self.info.image_size, 3)

    def __len__(self) -> int:
        return self.count

    def _mask(self, mask: Any) -> Optional[np.ndarray]:
        return None if mask is None else _arrays.mask(mask, self.count).astype(np.uint8)

    def reset(self, seeds: Any, mask: Any = None) -> None:
        """Draws a random start and a random goal for each: seeds (count,) whole numbers from 0 on."""
        self._core.reset(self._mask(mask), _arrays.seeds(seeds, self.count))

    def set(self, i: int, state: Any = None, goal: Any = None) -> None:
        """Sets the state of simulator i, as the reference package's setter does, and its goal: (state_dim,) each."""
        dim = (self.info.state_dim,)
        a = None if state is None else _arrays.numbers(state, dim, "state", np.float64)
        b = None if goal is None else _arrays.numbers(goal, dim, "goal", np.float64)
        self._core.set(_arrays.integer(i, 0, self.count - 1, "i"), a, b)

    def step(self, actions: Any, mask: Any = None) -> None:
        """One control: actions (count, action_dim) float32."""
        array = _arrays.numbers(actions, (self.count, self.info.action_dim), "actions")
        self._core.step(self._mask(mask), array)

    def look(self) -> Dict[str, np.ndarray]:
        """All numbers at once: states, goals, configs, distances and success, by these names."""
        n = self.count
        out: Dict[str, np.ndarray] = {
            "states": np.empty((n, self.info.state_dim)),
            "goals": np.empty((n, self.info.state_dim)),
            "configs": np.empty((n, len(self.info.config)), np.float32),
            "distances": np.empty((n, len(self.info.distances)), np.float32),
        }
        success = np.empty(n, np.uint8)
        self._core.look(None, None, out["states"], out["goals"], out["configs"], out["distances"], success)
        out["success"] = success.astype(bool)
        return out

    def frames(self, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Pictures (count, H, W, 3); drawn into `out` if it is given."""
        if out is None:
            out = np.empty((self.count, *self._frame), np.uint8)
        else:
            _output(out, (self.count, *self._frame), np.uint8)
        self._core.look(None, frames=out)
        return out

    def states(self) -> np.ndarray:
        """(count, state_dim) float64."""
        out = np.empty((self.count, self.info.state_dim))
        self._core.look(None, state=out)
        return out

    def goals(self) -> np.ndarray:
        """(count, state_dim) float64, the goal states."""
        out = np.empty((self.count, self.info.state_dim))
        self._core.look(None, goal=out)
        return out

    def configs(self) -> np.ndarray:
        """(count, config) float32, the named configurations."""
        out = np.empty((self.count, len(self.info.config)), np.float32)
        self._core.look(None, config=out)
        return out

    def distances(self) -> np.ndarray:
        """(count, distances) float32, to the goals."""
        out = np.empty((self.count, len(self.info.distances)), np.float32)
        self._core.look(None, distance=out)
        return out

    def success(self) -> np.ndarray:
        """(count,) bool: the task's own test of the goals."""
        out = np.empty(self.count, np.uint8)
        self._core.look(None, success=out)
        return out.astype(bool)

    def picture(self, state: Any) -> np.ndarray:
        """The picture (H, W, 3) of any state; no simulator moves."""
        out = np.empty(self._frame, np.uint8)
        self._core.picture(_arrays.numbers(state, (self.info.state_dim,), "state", np.float64), out)
        return out


def _output(out: Any, shape: Tuple[int, ...], dtype: Any) -> None:
    if not isinstance(out, np.ndarray) or out.dtype != dtype or out.shape != shape:
        raise UsageError(f"out must be an array of {np.dtype(dtype)} with the shape {shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise UsageError("out must be writable and in C order")
