"""Episodes from and to other packages' data sets: Minari, LeRobot, stable-worldmodel.

    with firm.Episodes("tworoom", "f.h5") as data:
        firm.convert.to_minari(data, "tworoom/expert-v0")
        firm.convert.to_lerobot(data, "me/tworoom", root="lerobot/tworoom")
        firm.convert.to_stable_worldmodel(data, "tworoom.h5")
    firm.convert.from_minari("tworoom", "back.h5", "tworoom/expert-v0")
    firm.convert.from_lerobot("robot.ini", "robot.h5", "me/robot")

Each package is an extra of its own: pip install 'firm-wm[minari]', 'firm-wm[lerobot]'. stable-worldmodel reads our files, so it needs none.
An episode of T controls has T + 1 rows here and in Minari; in LeRobot and stable-worldmodel every row has an action, and that of the
last row says nothing."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from .episodes import Episode, Episodes, PathLike
from .errors import UnavailableError, UsageError
from .tasks import Task

# a data set's own account of its rows, which every package writes anew
_INDEX = ("ep_len", "ep_offset", "step_idx", "ep_idx", "episode_idx")


def _need(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise UnavailableError(f"the package {package} is not complete here ({error}); run: pip install 'firm-wm[{package}]'") from None


class _Later(Mapping[str, Any]):
    """One episode to be written, each array made when it is asked for: a data set need not fit into memory."""

    def __init__(self, parts: Mapping[str, Callable[[], Any]]):
        self._parts = parts

    def __getitem__(self, key: str) -> Any:
        return self._parts[key]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


# ---- stable-worldmodel ----


def to_stable_worldmodel(episodes: Episodes, path: PathLike, task: Union[Task, str, None] = None) -> Dict[str, Any]:
    """Writes a file that stable-worldmodel's HDF5 data sets read: our layout, with every frame in the column `pixels`.

    task: needed where it is no built-in one. Such files are episode files: firm.Episodes opens them, which is the way back."""
    if not episodes.state_columns:
        raise UsageError(f"{episodes.path} holds recordings under names of its own, which stable-worldmodel reads as they are")
    made = (*_INDEX, "action", "pixels", *episodes.state_columns)

    def one(episode: Episode) -> Mapping[str, Any]:
        kept = {name: (lambda c=c: c) for name, c in episode.columns.items() if name not in made}
        return _Later({"states": lambda: episode.states, "actions": lambda: episode.actions, "frames": lambda: episode.frames, **kept})

    return Episodes.write(task or episodes.task, path, [one(episode) for episode in episodes])


# ---- Minari ----


def to_minari(episodes: Episodes, dataset_id: str, *, frames: bool = True, **options: Any) -> Any:
    """Makes a Minari data set of the episodes and returns it. Observations are dicts of "state" and, with frames=True, "pixels";
    the rewards are the column `reward`, 0 where there is none. Minari keeps pictures as JPEG, so they lose a little. Options go to minari.create_dataset_from_buffers: author="me"."""
    minari = _need("minari")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    first = episodes[0]
    shape: Dict[str, Any] = {"state": spaces.Box(-np.inf, np.inf, (episodes.states.shape[1],), np.float64)}
    if frames:
        shape["pixels"] = spaces.Box(0, 255, episodes.frames.shape[1:], np.uint8)
    buffers = []
    for i, episode in enumerate(episodes):
        steps = len(episode) - 1
        seen: Dict[str, Any] = {"state": np.array(episode.states)}
        if frames:
            seen["pixels"] = episode.frames[:]
        columns = episode.columns
        reward = np.nan_to_num(columns["reward"][1:]) if "reward" in columns else np.zeros(steps)
        flags = {k: np.array(columns[k][1:], bool) if k in columns else np.zeros(steps, bool) for k in ("terminated", "truncated")}
        if not flags["terminated"].any():
            flags["truncated"][-1] = True
        buffers.append(
            EpisodeBuffer(id=i, observations=seen, actions=np.array(episode.actions), rewards=reward, terminations=flags["terminated"], truncations=flags["truncated"])
        )
    return minari.create_dataset_from_buffers(
        dataset_id,
        buffer=buffers,
        observation_space=spaces.Dict(shape),
        action_space=spaces.Box(-np.inf, np.inf, first.actions.shape[1:], np.float32),
        **options,
    )


def from_minari(
    task: Union[Task, str],
    path: PathLike,
    dataset: Any,
    *,
    state: Optional[Callable[[Any], Any]] = None,
    frames: Optional[Callable[[Any], Any]] = None,
    columns: Optional[Callable[[Any], Mapping[str, Any]]] = None,
) -> Dict[str, Any]:
    """Writes the episodes of a Minari data set, or of its id, into a file of a task.

    state: the states (T + 1, state) of an episode's observations, by default their "state"; frames: its pictures (T + 1, H, W, 3), where they are to be
    stored. columns: for a task of recordings, all of its columns of an EpisodeData, instead of state and frames."""
    minari = _need("minari")
    if isinstance(dataset, str):
        dataset = minari.load_dataset(dataset)

    states = state or (lambda seen: seen["state"])

    def one(i: int) -> Mapping[str, Any]:
        if columns is not None:
            return columns(dataset[i])
        parts: Dict[str, Callable[[], Any]] = {"states": lambda: states(dataset[i].observations), "actions": lambda: dataset[i].actions}
        if frames is not None:
            parts["frames"] = lambda: frames(dataset[i].observations)  # type: ignore[misc]
        parts["reward"] = lambda: np.concatenate([[np.nan], np.asarray(dataset[i].rewards, np.float64)])
        parts["terminated"] = lambda: np.concatenate([[False], np.asarray(dataset[i].terminations, bool)])
        parts["truncated"] = lambda: np.concatenate([[False], np.asarray(dataset[i].truncations, bool)])
        return _Later(parts)

    return Episodes.write(task, path, [one(int(i)) for i in dataset.episode_indices])


# ---- LeRobot ----


def to_lerobot(episodes: Episodes, repo_id: str, *, root: Optional[PathLike] = None, fps: Optional[int] = None, text: str = "", **options: Any) -> Any:
    """Makes a LeRobot data set of the episodes on this machine and returns it: `observation.image` (stored without loss),
    `observation.state` (float32), `action`. fps: from the task's period where it has one. text: what LeRobot calls the task.
    Options go to LeRobotDataset.create."""
    kind = _need("lerobot.datasets.lerobot_dataset").LeRobotDataset
    if fps is None:
        if not episodes.period_ms:
            raise UsageError(f"{episodes.task} has no clock; give fps")
        fps = round(1000 / episodes.period_ms)
    features = {
        "observation.image": {"dtype": "image", "shape": episodes.frames.shape[1:], "names": ["height", "width", "channels"]},
        "observation.state": {"dtype": "float32", "shape": (episodes.states.shape[1],), "names": None},
        "action": {"dtype": "float32", "shape": (episodes.actions.shape[1],), "names": None},
    }
    options = {"use_videos": False, **options}
    made = kind.create(repo_id, fps, features, root=None if root is None else os.fspath(root), **options)
    for episode in episodes:
        pictures, states = episode.frames[:], episode.states.astype(np.float32)
        actions = np.concatenate([episode.actions, episode.actions[-1:] * 0])
        for picture, s, a in zip(pictures, states, actions):
            made.add_frame({"observation.image": picture, "observation.state": s, "action": a, "task": text or episodes.task})
        made.save_episode()
    if hasattr(made, "finalize"):
        made.finalize()
    return made


def from_lerobot(
    task: Union[Task, str],
    path: PathLike,
    dataset: Any,
    *,
    root: Optional[PathLike] = None,
    columns: Optional[Mapping[str, str]] = None,
    episodes: Optional[Sequence[int]] = None,
) -> Dict[str, Any]:
    """Writes a LeRobot data set, or that of a repo_id, into a file of a task.

    columns: name in our file by name in the data set. Without it, a task of recordings gets every feature under its own name, and
    any other task {"observation.state": "states", "action": "actions"}. Pictures become RGB bytes. episodes: only these."""
    if isinstance(dataset, str):
        dataset = _need("lerobot.datasets.lerobot_dataset").LeRobotDataset(dataset, root=None if root is None else os.fspath(root))
    if columns is None:
        recording = isinstance(task, str) and task.endswith(".ini")
        own = {key: key for key in dataset.features if key.split(".")[0] in ("observation", "action")}
        columns = own if recording else {"observation.state": "states", "action": "actions"}
    for key in columns:
        if key not in dataset.features:
            raise UsageError(f"the data set has no feature {key!r}; it has: {', '.join(dataset.features)}")
    index = np.asarray(dataset.hf_dataset.with_format("numpy")["episode_index"]).ravel()
    wanted = np.unique(index) if episodes is None else np.asarray(episodes)

    def read(number: int, key: str) -> np.ndarray:
        rows = np.flatnonzero(index == number)
        if not len(rows):
            raise UsageError(f"the data set has no episode {number}")
        if dataset.features[key]["dtype"] in ("image", "video"):
            return np.stack([_bytes(dataset[int(row)][key]) for row in rows])
        return np.stack([np.asarray(value) for value in dataset.hf_dataset.with_format("numpy").select(rows)[key]])

    chosen = columns
    return Episodes.write(
        task, path, [_Later({ours: functools.partial(read, int(n), key) for key, ours in chosen.items()}) for n in wanted]
    )


def _bytes(picture: Any) -> np.ndarray:
    """A picture of LeRobot, (3, H, W) in 0 .. 1, as (H, W, 3) bytes."""
    return np.rint(np.moveaxis(np.asarray(picture), 0, -1) * 255).astype(np.uint8)
