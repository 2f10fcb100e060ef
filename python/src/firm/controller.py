"""Controllers: push frames, set a goal, ask for actions."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _arrays, _core
from .errors import UsageError
from .model import Info, Model, goal_numbers, load

_MODES = ("contract", "reach")
_DEVICES = ("cpu", "cuda")
_PRECISIONS = ("fp32", "tf32", "bf16")
_SOLVERS = ("default", "cem", "mppi", "icem")


@dataclass
class Step:
    """What one call of act() found. The arrays are the caller's own."""

    action: np.ndarray  #: (action,) the control to execute now, in the environment's units
    plan: np.ndarray  #: (horizon * controls_per_macro, action) raw controls
    path: np.ndarray  #: (horizon + 1, config) predicted configurations of the plan, first the present
    fan: Optional[np.ndarray]  #: (fan, horizon + 1, config) other candidates' paths; None if none were asked for
    distance_now: np.ndarray  #: (distances,) at the current frame
    distance_planned: np.ndarray  #: (distances,) at `arrival`
    goal_config: np.ndarray  #: (config,) of the goal; free coordinates are as they are now
    solved: bool  #: this call planned; otherwise the action came from the plan in hand
    late: bool  #: the deadline cut the search short or was missed
    reached: bool  #: every distance_now is below its tolerance
    strange: float  #: how unlike the training data the frame is; above 1: do not trust the step
    cost: float  #: of the plan, in the planner's own units
    arrival: int  #: macro step of the plan that comes closest to the goal
    nonfinite: int  #: candidates dropped because their prediction was not finite
    iterations: int  #: finished by the search
    solve_ms: float  #: time of the search
    info: Info = field(repr=False)

    @property
    def distances(self) -> Dict[str, float]:
        """Distances to the goal at the current frame, by name."""
        return {d.name: float(v) for d, v in zip(self.info.distances, self.distance_now)}


def _cut(info: Info, packed: Tuple[Any, ...]) -> Step:
    (block, horizon, fan, solved, late, nonfinite, iterations, solve_ms, cost, arrival, reached, strange) = packed
    numbers = np.frombuffer(block, np.float32)
    a, c, d = info.action_dim, len(info.config), len(info.distances)
    goal = a + 2 * d
    plan = goal + c
    path = plan + horizon * info.controls_per_macro * a
    rest = path + (horizon + 1) * c
    return Step(
        numbers[:a],
        numbers[plan:path].reshape(-1, a),
        numbers[path:rest].reshape(-1, c),
        numbers[rest:].reshape(fan, horizon + 1, c) if fan else None,
        numbers[a : a + d],
        numbers[a + d : goal],
        numbers[goal:plan],
        solved,
        late,
        reached,
        strange,
        cost,
        arrival,
        nonfinite,
        iterations,
        solve_ms,
        info,
    )


def _deadline(ms: Optional[float]) -> float:
    if ms is None:
        return 0.0
    if not isinstance(ms, (int, float)) or not math.isfinite(ms) or ms <= 0:
        raise UsageError(f"the deadline is {_arrays.shown(ms)} ms; give a number above 0, or None for none")
    return float(ms)


def _place(device: str) -> Dict[str, int]:
    name, _, gpu = device.partition(":") if isinstance(device, str) else (device, "", "")
    if gpu and not gpu.isdigit():
        raise UsageError(f"there is no device {device!r}; use cpu, cuda or cuda:1")
    return dict(device=_arrays.choice(name, _DEVICES, "device"), gpu=int(gpu or 0))


class _Planner:
    """What Controller and Controllers share: the model, the options, the deadline."""

    def __init__(
        self,
        model: Union[Model, str, "os.PathLike[str]"],
        *,
        mode: str = "reach",
        deadline_ms: Optional[float] = None,
        device: str = "cpu",
        seed: int = 0,
        threads: int = 0,
        candidates: int = 0,
        iterations: int = 0,
        elites: int = 0,
        horizon: int = 0,
        fan: int = 0,
        precision: str = "fp32",
        solver: str = "default",
    ):
        self.model = model if isinstance(model, Model) else load(model)
        self.deadline_ms = deadline_ms
        self._ms = _deadline(deadline_ms)
        self._info = self.model.info
        self._frame = self._info.frame
        counts = dict(threads=threads, candidates=candidates, iterations=iterations, elites=elites, horizon=horizon, fan=fan)
        self._seed = _arrays.integer(seed, 0, 2**64 - 1, "seed")
        params = dict(
            mode=_arrays.choice(mode, _MODES, "mode"),
            seed=self._seed,
            precision=_arrays.choice(precision, _PRECISIONS, "precision"),
            solver=_arrays.choice(solver, _SOLVERS, "solver"),
            **_place(device),
            **{name: _arrays.integer(count, 0, 2**31 - 1, name) for name, count in counts.items()},
        )
        self._core: Any = self._make(params)

    def _make(self, params: Dict[str, int]) -> Any:
        raise NotImplementedError

    def _time(self, deadline_ms: Optional[float]) -> float:
        return self._ms if deadline_ms is None else _deadline(deadline_ms)

    def _pictures(self, value: Any, name: str, *before: int) -> np.ndarray:
        return _arrays.frames(value, (*before, *self._frame), name)

    def _controls(self, value: Any, name: str, *before: int) -> Optional[np.ndarray]:
        return None if value is None else _arrays.numbers(value, (*before, self._info.action_dim), name)


class Controller(_Planner):
    """Plans with a model towards a goal: push what the camera sees, set a goal, ask for actions.

    mode: "reach" (earliest arrival, a new plan after every macro action) or "contract" (the paper's planner).
    deadline_ms: time for each act(), None for none. device: "cpu", "cuda" or "cuda:1". A number that is 0 stands
    for the model's own default, threads 0 for all cores. The same seed and inputs give the same actions, for any
    number of threads. Threads may share a controller: each call waits for the one before it. After os.fork() a process makes
    its own, also of Controllers and of Simulators."""

    def _make(self, params: Dict[str, int]) -> Any:
        return _core.Controller(self.model._core, params)

    def goal(self, goal: Any) -> None:
        """Sets the goal: a picture (H, W, 3), or a dict of named numbers of a configuration, where what is not named
        is free. Forgets the plan in hand, keeps the frames seen. The names are in model.info.config."""
        if isinstance(goal, Mapping):
            self._core.goal_config(*goal_numbers(self._info, goal))
        else:
            self._core.goal(self._pictures(goal, "goal"))

    def push(self, frame: Any, action: Any = None) -> None:
        """Appends a frame (H, W, 3) and the control executed between the frame before and this one; None with the
        first frame of an episode."""
        self._core.push(self._pictures(frame, "frame"), self._controls(action, "action"))

    def act(self, deadline_ms: Optional[float] = None) -> Step:
        """The next control. Needs a goal and at least one frame. deadline_ms overrides the controller's own."""
        return _cut(self._info, self._core.act(self._time(deadline_ms)))

    def config(self) -> np.ndarray:
        """The configuration of the latest frame, in the order of model.info.config."""
        out = np.empty(len(self._info.config), np.float32)
        self._core.config(out)
        return out

    def predict(self, plan: Any, *, distances: bool = False) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """What would come of a plan from the latest frame on: plan (K * controls_per_macro, action) raw controls. Returns
        the path (K + 1, config), first the present, and with distances=True those to the goal (K + 1, distances)."""
        info = self._info
        controls = _arrays.numbers(plan, ("K", info.action_dim), "plan")
        macros, rest = divmod(len(controls), info.controls_per_macro)
        if rest or not macros:
            raise UsageError(f"the plan has {len(controls)} controls; give a multiple of {info.controls_per_macro}")
        path = np.empty((macros + 1, len(info.config)), np.float32)
        d = np.empty((macros + 1, len(info.distances)), np.float32) if distances else None
        self._core.predict(controls, min(macros, 1000), path, d)
        return path, d

    def reset(self, seed: int = 0) -> None:
        """Forgets frames, goal and plan, and restarts the random numbers from `seed`."""
        self._core.reset(_arrays.integer(seed, 0, 2**64 - 1, "seed"))

    def save(self) -> bytes:
        """The controller's state: frames, goal, plan, random numbers. Restore only what you saved."""
        return self._core.save()

    def restore(self, state: bytes) -> None:
        """Continues from a state of a controller of the same model and parameters."""
        if not isinstance(state, bytes):
            raise UsageError(f"a saved state is bytes, not {type(state).__name__}")
        self._core.restore(state)

    @property
    def bytes(self) -> int:
        """Memory that the controller took when it was made; it takes none later."""
        return self._core.bytes()


@dataclass
class Steps:
    """What one call of Controllers.act() found: arrays over the controllers, and each one's Step."""

    action: np.ndarray  #: (count, action)
    distance_now: np.ndarray  #: (count, distances)
    reached: np.ndarray  #: (count,) bool
    strange: np.ndarray  #: (count,)
    late: np.ndarray  #: (count,) bool
    steps: List[Step] = field(repr=False)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, i: int) -> Step:
        return self.steps[i]


class Controllers(_Planner):
    """`count` controllers of one model that work side by side, each as a single one with the seed `seed` + i would.

    Options are those of Controller but for the device; they plan on the CPU. A deadline is for the whole act().
    controllers[i] is one of them, a Controller, for everything else: its configuration, predictions, saved state."""

    def __init__(self, model: Union[Model, str, "os.PathLike[str]"], count: int, **options: Any):
        self.count = _arrays.integer(count, 1, 65536, "count")
        super().__init__(model, device="cpu", **options)

    def _make(self, params: Dict[str, int]) -> Any:
        return _core.Controllers(self.model._core, params, self.count)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Controller:
        place = _arrays.place(i, self.count, "controller")
        one = Controller.__new__(Controller)
        vars(one).update(vars(self), _core=self._core.at(place))
        one._seed = (self._seed + place) % 2**64
        return one

    def __iter__(self) -> Iterator[Controller]:
        return (self[i] for i in range(self.count))

    def goal(self, goal: Any, index: Optional[int] = None) -> None:
        """Sets goals: pictures (count, H, W, 3); or a dict of named numbers, for all; with an index, one controller's."""
        if index is not None:
            self[index].goal(goal)
        elif isinstance(goal, Mapping):
            for one in self:
                one.goal(goal)
        else:
            self._core.goal(self._pictures(goal, "goal", self.count))

    def push(self, frames: Any, actions: Any = None) -> None:
        """Appends frames (count, H, W, 3) and the controls before them (count, action). A controller that was reset
        ignores its row of actions; None is for first frames alone."""
        self._core.push(self._pictures(frames, "frames", self.count), self._controls(actions, "actions", self.count))

    def act(self, deadline_ms: Optional[float] = None) -> Steps:
        """The next control of each."""
        steps = [_cut(self._info, packed) for packed in self._core.act(self._time(deadline_ms))]
        return Steps(
            np.stack([s.action for s in steps]),
            np.stack([s.distance_now for s in steps]),
            np.array([s.reached for s in steps]),
            np.array([s.strange for s in steps], np.float32),
            np.array([s.late for s in steps]),
            steps,
        )

    def reset(self, index: Optional[int] = None, seed: Optional[int] = None) -> None:
        """Forgets frames, goal and plan: of one controller, with this seed or else its own; of all, with the seeds `seed` + i."""
        if index is not None:
            one = self[index]
            one.reset(one._seed if seed is None else seed)
            return
        first = self._seed if seed is None else _arrays.integer(seed, 0, 2**64 - 1, "seed")
        for i, one in enumerate(self):
            one.reset((first + i) % 2**64)
