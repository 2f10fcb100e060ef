"""Models: weights and the typed description of their task."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _arrays, _core
from .errors import MissingError, UsageError

_MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


@dataclass(frozen=True)
class Distance:
    """One named distance to the goal. The goal is reached when all are below their tolerances."""

    name: str
    unit: str
    tolerance: float


@dataclass(frozen=True)
class Info:
    """What a model is made for. Frames are (image_size, image_size, 3) RGB bytes, rows from the top."""

    task: str
    image_size: int
    action_dim: int
    controls_per_macro: int
    config: Tuple[str, ...]
    distances: Tuple[Distance, ...]
    parameters: int

    @property
    def frame(self) -> Tuple[int, int, int]:
        """The shape of a frame."""
        return (self.image_size, self.image_size, 3)


@dataclass(frozen=True)
class Prediction:
    """What would come of plans, at the present and after every macro action."""

    configurations: np.ndarray  #: (plans, macros + 1, config)
    distances: Optional[np.ndarray]  #: (plans, macros + 1, distances) to the goal; None without one


def shipped() -> List[str]:
    """Names of the models that come with the package."""
    if not os.path.isdir(_MODELS):
        return []
    return sorted(f[: -len(".safetensors")] for f in os.listdir(_MODELS) if f.endswith(".safetensors"))


def find(name: Union[str, "os.PathLike[str]"]) -> str:
    """The path of a shipped model ("tworoom"), or the given path if there is such a file."""
    path = _arrays.path(name, "a model")
    inside = os.path.join(_MODELS, path + ".safetensors")
    if os.sep not in path and os.path.isfile(inside):
        return inside
    if os.sep in path or path.endswith(".safetensors") or os.path.exists(path):
        return path
    names = ", ".join(shipped()) or "none in this installation"
    raise MissingError(f"there is no shipped model {path!r} ({names}) and no such file; give a name or a path")


def load(name: Union[str, "os.PathLike[str]"]) -> "Model":
    """Loads a shipped model by its name ("tworoom", "pusht", "reacher", "cube"), or a .safetensors file."""
    return Model(find(name))


class Model:
    """A world model, read-only. Any number of controllers in any threads may share it."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]):
        self.path = _arrays.path(path, "a model")
        self._core = _core.Model(self.path)
        d = self._core.info()
        self.info = Info(
            task=d["task"],
            image_size=d["image_size"],
            action_dim=d["action_dim"],
            controls_per_macro=d["controls_per_macro"],
            config=tuple(d["config"]),
            distances=tuple(Distance(*x) for x in d["distance"]),
            parameters=d["parameters"],
        )
        self._batches: Dict[Tuple[int, int], Tuple[int, Any]] = {}

    def __repr__(self) -> str:
        return f"firm.Model({self.path!r}: {self.info.task}, {self.info.parameters:,} parameters)"

    def __reduce__(self) -> Tuple[Any, ...]:
        """Copies and other processes load the file again."""
        return Model, (os.path.abspath(self.path),)

    def _batch(self, macros: int, threads: int) -> Any:
        """Controllers for up to so many macro actions; those of fewer are let go."""
        key = (os.getpid(), threads)  # a forked process has no threads of those before
        made = self._batches.get(key)
        if made is None or made[0] < macros:
            made = self._batches[key] = macros, _core.Batch(self._core, macros, threads)
        return made[1]

    def ground(self, frames: Any, *, threads: int = 0) -> np.ndarray:
        """The configurations that frames show.

        frames: (H, W, 3) or (N, H, W, 3) bytes. Returns (config,) or (N, config) float32, in the order of
        info.config. The interpreter runs on while it works; threads 0 uses all cores."""
        array = _arrays.pixels(frames, "frames")
        one = array.ndim == 3
        array = _arrays.frames(array[None] if one else array, ("N", *self.info.frame), "frames")
        out = np.empty((len(array), len(self.info.config)), np.float32)
        self._batch(1, _arrays.integer(threads, 0, 1024, "threads")).ground(array, out)
        return out[0] if one else out

    def predict(
        self,
        frames: Any,
        actions: Any,
        *,
        history: Any = None,
        goal: Any = None,
        threads: int = 0,
    ) -> Prediction:
        """What would come of plans.

        frames: (N, H, W, 3), the present, or (N, T, H, W, 3) with up to three frames, the latest last.
        history: (N, T - 1, action), the controls executed between them; needed where T is above 1.
        actions: (N, K * controls_per_macro, action) raw controls, K macro actions.
        goal: one picture for all (H, W, 3), one each (N, H, W, 3), or a dict of named numbers; for distances."""
        info = self.info
        array = _arrays.pixels(frames, "frames")
        if array.ndim == 4:
            array = array[:, None]
        array = _arrays.frames(array, ("N", "T", *info.frame), "frames")
        n, seen = array.shape[:2]
        if seen > 3:
            raise UsageError(f"a model sees three frames, but frames has {seen}; give the latest three")
        plan = _arrays.numbers(actions, (n, "K", info.action_dim), "actions")
        if plan.shape[1] == 0 or plan.shape[1] % info.controls_per_macro:
            raise UsageError(
                f"actions has {plan.shape[1]} controls; give a multiple of {info.controls_per_macro}, "
                "the controls of a macro action"
            )
        macros = plan.shape[1] // info.controls_per_macro
        if seen > 1 and history is None:
            raise UsageError(f"{seen} frames need history: the {seen - 1} controls between them")
        past = None
        if seen > 1:
            past = _arrays.numbers(history, (n, seen - 1, info.action_dim), "history")
        picture = values = given = distances = None
        if isinstance(goal, Mapping):
            values, given = goal_numbers(info, goal)
        elif goal is not None:
            picture = _arrays.pixels(goal, "goal")
            shape = info.frame if picture.ndim == 3 else (n, *info.frame)
            picture = _arrays.frames(picture, shape, "goal")
        if goal is not None:
            distances = np.empty((n, macros + 1, len(info.distances)), np.float32)
        path = np.empty((n, macros + 1, len(info.config)), np.float32)
        self._batch(macros, _arrays.integer(threads, 0, 1024, "threads")).predict(
            array, past, plan, picture, values, given, path, distances, macros
        )
        return Prediction(path, distances)


def goal_numbers(info: Info, goal: Mapping[str, float]) -> Tuple[np.ndarray, np.ndarray]:
    """A goal of named numbers as (values, given) in the order of info.config."""
    values = np.zeros(len(info.config), np.float32)
    given = np.zeros(len(info.config), np.uint8)
    if not goal:
        raise UsageError(f"the goal names nothing; it may name: {', '.join(info.config)}")
    for name, value in goal.items():
        if name not in info.config:
            raise UsageError(f"the goal names {_arrays.shown(name)}, which {info.task} does not have; it has: {', '.join(info.config)}")
        k = info.config.index(name)
        values[k] = _arrays.numbers(value, (), f"the goal's {name}")
        given[k] = 1
    return values, given
