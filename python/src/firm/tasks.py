"""Tasks of one's own from gymnasium environments, for everything the program does: collect, intervene, audit, train, evaluate.

    task = firm.tasks.from_gymnasium(
        "Pendulum-v1",
        state=lambda env: env.unwrapped.state,
        set_state=lambda env, s: setattr(env.unwrapped, "state", np.array(s)),
        config={"rod": firm.tasks.angle(lambda s: s[0])},
        distances={"angle": ("rod", "rad", 0.15)},
    )

The task is a folder, here runs/pendulum, with a plug-in of firm_task.h, so the program's commands take it, too: firm check runs/pendulum/task.so. Every
simulator runs in a Python process of its own. The folder holds pickled functions: open only folders that you made."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays, sims
from .errors import ArrayTypeError, MissingError, RangeError, UnavailableError, UsageError

_PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engines", "served_task.so")


@dataclass(frozen=True)
class Coordinate:
    """A named number of a configuration as a function of the state; an angle, in rad, becomes a sine and a cosine."""

    of: Callable[[np.ndarray], float]
    is_angle: bool = False


def angle(of: Callable[[np.ndarray], float]) -> Coordinate:
    """An angle in rad of the state."""
    return Coordinate(of, True)


def position(of: Callable[[np.ndarray], float]) -> Coordinate:
    """A number of the state; best scaled to about -1 .. 1."""
    return Coordinate(of)


@dataclass(frozen=True)
class Task:
    """A task in a folder."""

    folder: str  #: holds everything; keep it as long as models of the task are trained
    name: str
    state_dim: int
    action_dim: int
    image: int
    typed: str  #: the typed task (docs/formats.md)

    @property
    def path(self) -> str:
        """The plug-in, as the program takes it."""
        return os.path.join(self.folder, "task.so")


@dataclass(frozen=True)
class _Registered:
    """How to make an environment again that gymnasium.make() made."""

    spec: Any  # an id, or a gymnasium.envs.registration.EnvSpec
    bare: bool  # without its wrappers

    def __call__(self) -> Any:
        import gymnasium

        try:
            made = gymnasium.make(self.spec, render_mode="rgb_array", disable_env_checker=True)
        except (gymnasium.error.Error, ValueError) as error:  # a ValueError: of wrappers that do not say how they were made
            raise UsageError(f"gymnasium does not make this environment: {' '.join(str(error).split())}") from None
        return made.unwrapped if self.bare else made


def _recipe(env: Any) -> Any:
    """What a folder keeps of `env`: something to call, or an environment that nobody registered, as it is."""
    import gymnasium

    if isinstance(env, str):
        return _Registered(env, True)
    if isinstance(env, gymnasium.Env):
        return env if env.spec is None else _Registered(env.spec, env is env.unwrapped)
    _callable(env, "env, where it is neither a registered name nor an environment,")
    return env


def _make(recipe: Any) -> Any:
    import gymnasium

    return recipe if isinstance(recipe, gymnasium.Env) else recipe()


def _name_of(env: Any) -> str:
    """A task's name after its environment's: "Pendulum-v1" -> pendulum."""
    spec = getattr(env, "spec", None)
    long = env if isinstance(env, str) else spec.id if spec else getattr(env, "__name__", type(env).__name__)
    word = re.sub(r"\W+", "_", re.sub(r"-v\d+$", "", long.split("/")[-1].split(":")[-1])).strip("_").lower()
    return word if word.isidentifier() and word not in sims.names() else f"own_{word}".rstrip("_")


def _bounds(env: Any) -> Tuple[int, Optional[np.ndarray], Optional[np.ndarray]]:
    """Numbers of a control, and what -1 and 1 stand for; None for a choice among n."""
    from gymnasium import spaces

    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return 1, None, None
    if not isinstance(space, spaces.Box) or not space.is_bounded():
        raise UsageError(f"actions must be a bounded Box or Discrete, not {space}")
    return int(np.prod(space.shape)), space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()


def _resize(picture: np.ndarray, size: int) -> np.ndarray:
    """The mean over each cell of a size x size grid; rows and columns that do not divide are shared out whole."""
    for axis in (0, 1):
        n = picture.shape[axis]
        if n == size:
            continue
        first = np.arange(size) * n // size
        if n < size:
            picture = picture.take(first, axis)
            continue
        width = np.diff(first, append=n).reshape(-1, *([1] * (2 - axis)))
        picture = np.add.reduceat(picture, first, axis, dtype=np.float64 if axis else np.uint32) / width
    return np.rint(picture).astype(np.uint8)


class Served:
    """One simulator of a task's folder, in this process."""

    def __init__(self, folder: str):
        import cloudpickle

        with open(os.path.join(folder, "functions.pickle"), "rb") as file:
            # functions of modules are pickled by name: they are looked for where they were
            sys.path += [p for p in cloudpickle.load(file) if p not in sys.path]
            self._f = cloudpickle.load(file)
        self.task: Task = self._f["task"]
        self._coordinates: Sequence[Coordinate] = self._f["coordinates"]
        self._env = _make(self._f["env"])
        _, self._low, self._high = _bounds(self._env)
        self._env.reset(seed=0)

    def state(self) -> np.ndarray:
        """What `state` says, as (state_dim,) float64."""
        return _arrays.numbers(np.ravel(self._f["state"](self._env)), (self.task.state_dim,), "what `state` gives", np.float64)

    def reset(self, seed: int) -> np.ndarray:
        self._env.reset(seed=int(seed % 2**31))
        # through the setter, so that nothing is left that a state does not tell
        return self.set(self.state())

    def set(self, state: np.ndarray) -> np.ndarray:
        self._f["set_state"](self._env, np.array(state))
        return self.state()

    def step(self, action: np.ndarray) -> np.ndarray:
        if self._low is None or self._high is None:
            count = int(self._env.action_space.n)
            choice = min(count - 1, int((np.clip(action[0], -1, 1) + 1) / 2 * count))
            self._env.step(choice + int(self._env.action_space.start))
        else:
            raw = self._low + (np.clip(action, -1, 1) + 1) / 2 * (self._high - self._low)
            space = self._env.action_space
            self._env.step(raw.reshape(space.shape).astype(space.dtype))
        return self.state()

    def picture(self) -> np.ndarray:
        render = self._f["render"]
        picture = np.asarray(render(self._env) if render else self._env.render())
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise UsageError(f"render gives {picture.dtype} of the shape {picture.shape}; it must give RGB bytes (H, W, 3)")
        return _resize(picture, self.task.image)

    def config(self, state: np.ndarray) -> np.ndarray:
        out: List[float] = []
        for coordinate in self._coordinates:
            value = float(coordinate.of(state))
            out += [np.sin(value), np.cos(value)] if coordinate.is_angle else [value]
        return np.array(out, np.float32)


def _word(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise UsageError(f"{what} {_arrays.shown(value)} must be a word of letters, digits and _")
    return value


def _above_zero(value: Any, what: str) -> float:
    number = float(_arrays.numbers(value, (), what, np.float64))
    if number <= 0:
        raise RangeError(f"{what} is {number:g}; give a number above 0")
    return number


def _callable(of: Any, what: str) -> None:
    if not callable(of):
        raise ArrayTypeError(f"{what} must be a function, not {_arrays.shown(of)}")


def _config_kinds(config: Any) -> List[bool]:
    """Which coordinates are angles."""
    if not isinstance(config, dict) or not config or not all(isinstance(c, Coordinate) for c in config.values()):
        raise UsageError("config must map names to firm.tasks.angle(...) or firm.tasks.position(...)")
    for name, coordinate in config.items():
        _callable(coordinate.of, f"the coordinate {_word(name, 'the coordinate')}")
    kinds = [c.is_angle for c in config.values()]
    if kinds != sorted(kinds, reverse=True):
        raise UsageError("angles come first in config")
    return kinds


def _distance_line(config: Dict[str, Coordinate], name: str, words: Any) -> str:
    what = f"the distance {_word(name, 'the distance')!r}"
    if not isinstance(words, (tuple, list)) or len(words) not in (3, 4) or not isinstance(words[0], (str, tuple, list)):
        raise UsageError(f"{what} must be (coordinates, unit, tolerance) or (coordinates, unit, tolerance, scale)")
    of = [words[0]] if isinstance(words[0], str) else list(words[0])
    for one in of:
        if not isinstance(one, str) or one not in config:
            raise UsageError(f"{what} is of {_arrays.shown(one)}, which config does not have")
    unit, tolerance = words[1], _above_zero(words[2], f"the tolerance of {what}")
    if not isinstance(unit, str) or not unit.strip() or any(c in unit for c in ",\r\n"):
        raise UsageError(f"the unit of {what} is {_arrays.shown(unit)}; give a word such as 'm'")
    scale = _above_zero(words[3], f"the scale of {what}") if len(words) == 4 else 1.0
    if len(of) == 1 and config[of[0]].is_angle:
        return f"{name} = angle {of[0]}, {unit}, {tolerance:.9g}"
    if not of or any(config[one].is_angle for one in of):
        raise UsageError(f"{what} joins an angle with others, or is of nothing; give angles distances of their own")
    return f"{name} = norm {' '.join(of)}, {scale:.9g} {unit}, {tolerance:.9g}"


def _distance_lines(config: Dict[str, Coordinate], distances: Any) -> List[str]:
    if not isinstance(distances, dict) or not distances:
        raise UsageError("distances must map names to (coordinates, unit, tolerance)")
    return [_distance_line(config, name, words) for name, words in distances.items()]


def from_gymnasium(
    env: Union[str, Callable[[], Any]],
    folder: Union[str, "os.PathLike[str]", None] = None,
    *,
    config: Dict[str, Coordinate],
    distances: Dict[str, Sequence[Any]],
    state: Callable[[Any], Any],
    set_state: Callable[[Any, np.ndarray], None],
    render: Optional[Callable[[Any], np.ndarray]] = None,
    name: Optional[str] = None,
    image: int = 224,
    controls: int = 5,
    steps: int = 100,
    episodes: int = 1000,
    anchors: int = 128,
    branches: int = 32,
) -> Task:
    """Writes a task into `folder`, by default runs/NAME, which must be new or a task's.

    env: a registered name, an environment of gymnasium.make(), or a function that makes one. state, set_state and render get an
    environment like it: a name's without wrappers. name: by default after the environment. config: the named coordinates that a picture shows, angles
    first. distances: (coordinates, unit, tolerance[, scale]) each. state, set_state: read a moment as numbers and bring it back, exactly.
    render: the picture, where env.render() shows more than the state. Controls are scaled to -1 .. 1; a choice among n is one number.
    image: pixels a side; controls: of a macro action; steps: controls of an episode."""
    import cloudpickle

    if not os.path.isfile(_PLUGIN):
        raise UnavailableError(f"{_PLUGIN} is missing; install firm-wm again")
    recipe = _recipe(env)
    name = _word(_name_of(env) if name is None else name, "the name")
    kinds = _config_kinds(config)
    folder = os.path.join("runs", name) if folder is None else folder
    folder = os.path.abspath(_arrays.path(folder, "the folder"))
    for of, what in ((state, "state"), (set_state, "set_state"), *(() if render is None else ((render, "render"),))):
        _callable(of, what)
    if _arrays.integer(image, 64, 512, "image") % 16:
        raise UsageError(f"image is {image}; give a multiple of 16")
    controls = _arrays.integer(controls, 1, 100, "controls")  # the library says more about it
    counts = dict(steps=steps, episodes=episodes, anchors=anchors, branches=branches)
    counts = {what: _arrays.integer(count, 1, 10**7, what) for what, count in counts.items()}
    kept = dict(env=recipe, coordinates=list(config.values()), state=state, set_state=set_state, render=render)
    try:
        copy = cloudpickle.loads(cloudpickle.dumps(kept))["env"]  # an environment of the caller's stays where it is
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise UsageError(f"the task cannot be kept in a folder ({' '.join(str(error).split())}); give functions that hold no open files or windows") from None
    made = _make(copy)
    made.reset(seed=0)
    dim = _arrays.array(state(made), "what `state` gives", "numbers").size
    if not 1 <= dim <= 64:
        raise UsageError(f"a state has {dim} numbers; 1 to 64 are possible")
    _arrays.numbers(np.ravel(state(made)), (dim,), "what `state` gives", np.float64)
    numbers, *_ = _bounds(made)
    wide = sum(2 if k else 1 for k in kinds)
    lines = ["[task]", f"name = {name}", f"image = {image}", "period_ms = 0", f"controls = {controls}", "cost = sum", f"chi = {wide}"]
    lines += ["[action]", f"count = {numbers}", "low = -1", "high = 1", "clamped = yes", "[config]"]
    lines += [f"{word} = {'angle' if c.is_angle else 'position'}" for word, c in config.items()]
    lines += ["[distance]", *_distance_lines(config, distances), ""]
    task = Task(folder, name, dim, numbers, image, "\n".join(lines))
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.isfile(os.path.join(folder, "typed")):
        raise UsageError(f"{folder} holds other things; name a new folder")
    os.makedirs(folder, exist_ok=True)
    title = f"{env if isinstance(env, str) else name} of gymnasium"
    serve: Dict[str, Any] = dict(state=dim, action=numbers, config=wide, image=image, **counts)
    serve.update(title=title, version=f"{name} 1", python=sys.executable)
    with open(os.path.join(folder, "functions.pickle"), "wb") as file:
        cloudpickle.dump([os.path.abspath(p) for p in sys.path], file)
        cloudpickle.dump(dict(task=task, **kept), file)
    for part, text in (("serve", "".join(f"{k} {v}\n" for k, v in serve.items())), ("typed", task.typed)):
        with open(os.path.join(folder, part), "w") as out:
            out.write(text)
    shutil.copyfile(_PLUGIN, task.path)
    return task


def open_folder(folder: Union[str, "os.PathLike[str]"]) -> Task:
    """The task that from_gymnasium() wrote there. It runs what is pickled there: open only what you made."""
    folder = _arrays.path(folder, "the folder")
    if not os.path.isfile(os.path.join(folder, "functions.pickle")):
        raise MissingError(f"{folder} holds no task of from_gymnasium()")
    return Served(folder).task
