"""The four tasks as gymnasium environments, single and vectorised.

    import firm, gymnasium
    env = gymnasium.make("firm/TwoRoom-v0", render_mode="rgb_array")
    envs = gymnasium.make_vec("firm/PushT-v0", num_envs=64)

`import firm` registers them; `gymnasium.make("firm:firm/TwoRoom-v0")` imports it on the way. States, steps and pictures are
those of the reference package (docs/environments.md). An episode ends when the goal state is reached: reward 1, else 0.
Pictures are drawn as "rgb_array"; gymnasium makes a window of them for render_mode="human", with pygame."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, Union

import gymnasium
import numpy as np
from gymnasium import spaces

try:
    from gymnasium.vector import AutoresetMode
except ImportError:  # before gymnasium 1.1
    from enum import Enum

    class AutoresetMode(Enum):  # type: ignore[no-redef]
        """When a vectorised environment starts its next episode."""

        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"
        DISABLED = "Disabled"


from . import _arrays
from .errors import ArrayTypeError, UsageError
from .sims import Simulators

OBSERVATIONS = ("pixels", "state", "both")
# id, task, controls of an episode
_ENVIRONMENTS = (
    ("firm/TwoRoom-v0", "tworoom", 100),
    ("firm/PushT-v0", "pusht", 200),
    ("firm/Reacher-v0", "reacher", 200),
    ("firm/Cube-v0", "cube", 200),
)


def register() -> None:
    """Registers the environments with gymnasium; a second call does nothing."""
    for name, task, steps in _ENVIRONMENTS:
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="firm.envs:Environment",
                vector_entry_point="firm.envs:Environments",
                max_episode_steps=steps,
                kwargs={"task": task},
            )


def _observation_space(sims: Simulators, kind: str) -> spaces.Space:
    _arrays.choice(kind, OBSERVATIONS, "observation")
    size = sims.info.image_size
    pixels = spaces.Box(0, 255, (size, size, 3), np.uint8)
    state = spaces.Box(-np.inf, np.inf, (sims.info.state_dim,), np.float64)
    forms: Dict[str, spaces.Space] = {"pixels": pixels, "state": state, "both": spaces.Dict(pixels=pixels, state=state)}
    return forms[kind]


def _action_space(sims: Simulators) -> spaces.Box:
    info = sims.info
    return spaces.Box(info.action_low, info.action_high, (info.action_dim,), np.float32)


def _render_mode(mode: Optional[str], metadata: Dict[str, Any]) -> Optional[str]:
    if mode is not None:
        _arrays.choice(mode, metadata["render_modes"], "render mode")
    return mode


def _options(options: Optional[Dict[str, Any]], known: Sequence[str]) -> Dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise ArrayTypeError(f"options must be a dict with: {', '.join(known)}")
    for name in options:
        if name not in known:
            raise UsageError(f"reset has no option {_arrays.shown(name)}; its options are: {', '.join(known)}")
    return options


class Environment(gymnasium.Env):
    """One environment. observation: "pixels" (224, 224, 3), "state", or "both" as a dict.

    reset(seed=..., options={"state": ..., "goal": ...}) starts from these states, (state_dim,) each. info has the state,
    the goal state, the named configuration, the distances to the goal by name, and success."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, task: str, render_mode: Optional[str] = None, observation: str = "pixels"):
        self.sims = Simulators(task, 1, threads=1)
        self.render_mode = _render_mode(render_mode, self.metadata)
        self.observation_space = _observation_space(self.sims, observation)
        self.action_space = _action_space(self.sims)
        self._kind = observation

    def _observe(self) -> Any:
        if self._kind == "pixels":
            return self.sims.frames()[0]
        if self._kind == "state":
            return self.sims.states()[0]
        return {"pixels": self.sims.frames()[0], "state": self.sims.states()[0]}

    def _info(self) -> Dict[str, Any]:
        now = self.sims.look()
        return {
            "state": now["states"][0],
            "goal": now["goals"][0],
            "config": now["configs"][0],
            "distances": {d.name: float(v) for d, v in zip(self.sims.info.distances, now["distances"][0])},
            "success": bool(now["success"][0]),
        }

    def reset(self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        """A new episode. The same seed gives the same start and goal."""
        super().reset(seed=seed)
        given = _options(options, ("state", "goal"))
        draw = seed if seed is not None else int(self.np_random.integers(2**63))
        self.sims.reset([draw])
        if given:
            self.sims.set(0, given.get("state"), given.get("goal"))
        return self._observe(), self._info()

    def step(self, action: Any) -> Tuple[Any, float, bool, bool, Dict[str, Any]]:
        """One control."""
        self.sims.step(_arrays.array(action, "action", "an array of numbers")[None])
        info = self._info()
        return self._observe(), float(info["success"]), info["success"], False, info

    def render(self) -> Optional[np.ndarray]:
        """The picture, where the render mode asks for it."""
        return self.sims.frames()[0] if self.render_mode == "rgb_array" else None

    def goal_pixels(self) -> np.ndarray:
        """The picture of the goal state: what a controller is given."""
        return self.sims.picture(self.sims.goals()[0])


class Environments(gymnasium.vector.VectorEnv):
    """Many environments of one task, stepped and drawn side by side by a thread pool in C: gymnasium.make_vec().

    threads: 0 for all cores. copy=False hands out the same arrays again at every step: faster, for those who are done with
    an observation before the next. autoreset_mode is gymnasium's. options of reset() have one row for each environment, or
    one for all."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        *,
        render_mode: Optional[str] = None,
        observation: str = "pixels",
        max_episode_steps: Optional[int] = None,
        autoreset_mode: Union[AutoresetMode, str] = AutoresetMode.NEXT_STEP,
        threads: int = 0,
        copy: bool = True,
    ):
        self.sims = Simulators(task, num_envs, threads=threads)
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**Environments.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = _render_mode(render_mode, self.metadata)
        self.single_observation_space = _observation_space(self.sims, observation)
        self.single_action_space = _action_space(self.sims)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._kind = observation
        self._copy = copy
        self._limit = max_episode_steps
        self._elapsed = np.zeros(num_envs, np.int64)
        self._done = np.zeros(num_envs, bool)
        size = self.sims.info.image_size
        self._pixels = None if copy else np.empty((num_envs, size, size, 3), np.uint8)

    def _observe(self) -> Any:
        if self._kind == "state":
            return self.sims.states()
        pixels = self.sims.frames(self._pixels)
        return pixels if self._kind == "pixels" else {"pixels": pixels, "state": self.sims.states()}

    def _info(self) -> Dict[str, Any]:
        every = np.ones(self.num_envs, bool)
        now = self.sims.look()
        info: Dict[str, Any] = {
            "state": now["states"],
            "goal": now["goals"],
            "config": now["configs"],
            "distances": {d.name: now["distances"][:, k] for k, d in enumerate(self.sims.info.distances)},
            "success": now["success"],
        }
        info.update({"_" + name: every for name in list(info)})
        return info

    def _seeds(self, seed: Any) -> Sequence[Optional[int]]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            seed = [int(seed) + i for i in range(self.num_envs)]
        if not isinstance(seed, (list, tuple, np.ndarray)):
            raise ArrayTypeError(f"seed must be a whole number, or one for each environment, not {_arrays.shown(seed)}")
        if len(seed) != self.num_envs:
            raise UsageError(f"{len(seed)} seeds were given for {self.num_envs} environments")
        return [None if s is None else _arrays.integer(s, 0, 2**64 - 1, "seed") for s in seed]

    def _restart(self, mask: np.ndarray, seeds: Sequence[Optional[int]] = ()) -> None:
        draws = self.np_random.integers(2**63, size=self.num_envs).astype(np.uint64)
        for i, seed in enumerate(seeds):
            if seed is not None:
                draws[i] = seed
        self.sims.reset(draws, mask)
        self._elapsed[mask] = 0
        self._done[mask] = False

    def reset(
        self,
        *,
        seed: Union[int, Sequence[Optional[int]], None] = None,
        options: Optional[Dict[str, Any]] = None,
    ) -> Tuple[Any, Dict[str, Any]]:
        """New episodes. A seed stands for the seeds seed + i; a sequence gives each its own."""
        given = _options(options, ("state", "goal", "reset_mask"))
        seeds = self._seeds(seed)
        if seeds[0] is not None:
            super().reset(seed=seeds[0])
        mask = _arrays.mask(given.get("reset_mask", np.ones(self.num_envs, bool)), self.num_envs, "reset_mask")
        self._restart(mask, seeds)
        state, goal = (self._rows(given, name) for name in ("state", "goal"))
        if state is not None or goal is not None:
            for i in np.flatnonzero(mask):
                self.sims.set(int(i), None if state is None else state[i], None if goal is None else goal[i])
        return self._observe(), self._info()

    def _rows(self, options: Dict[str, Any], name: str) -> Optional[np.ndarray]:
        if name not in options:
            return None
        dim, words = self.sims.info.state_dim, f"options[{name!r}]"
        given = _arrays.array(options[name], words, "an array of numbers")
        array = _arrays.numbers(given, (dim,) if given.ndim == 1 else (self.num_envs, dim), words, np.float64)
        return np.broadcast_to(array, (self.num_envs, dim))

    def step(self, actions: Any) -> Tuple[Any, np.ndarray, np.ndarray, np.ndarray, Dict[str, Any]]:
        """One control of each."""
        again = self._done.copy() if self.autoreset_mode == AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        self.sims.step(actions, None if not again.any() else ~again)
        self._elapsed += 1
        if again.any():
            self._restart(again)
        info = self._info()
        terminated = info["success"] & ~again
        truncated = np.zeros(self.num_envs, bool)
        if self._limit is not None:
            truncated = (self._elapsed >= self._limit) & ~again
        rewards = terminated.astype(np.float64)
        self._done = terminated | truncated
        if self.autoreset_mode == AutoresetMode.SAME_STEP and self._done.any():
            return self._same_step(rewards, terminated, truncated, info)
        return self._observe(), rewards, terminated, truncated, info

    def _same_step(
        self, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, last: Dict[str, Any]
    ) -> Tuple[Any, np.ndarray, np.ndarray, np.ndarray, Dict[str, Any]]:
        done = self._done.copy()
        final = self._observe()
        if self._pixels is not None and self._kind != "state":
            final = final.copy() if self._kind == "pixels" else {k: v.copy() for k, v in final.items()}
        self._restart(done)
        info = self._info()
        info.update(final_obs=final, _final_obs=done, final_info=last, _final_info=done)
        return self._observe(), rewards, terminated, truncated, info

    def render(self) -> Optional[Tuple[np.ndarray, ...]]:
        """The pictures, where the render mode asks for them."""
        return tuple(self.sims.frames()) if self.render_mode == "rgb_array" else None

    def goal_pixels(self) -> np.ndarray:
        """The pictures of the goal states, (num_envs, H, W, 3)."""
        return np.stack([self.sims.picture(goal) for goal in self.sims.goals()])


register()
