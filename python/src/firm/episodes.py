"""Episode files (docs/formats.md) as NumPy arrays: open, slice, draw, write.

    with firm.Episodes("tworoom", "f.h5") as data:
        states, actions = data[0].states, data[0].actions      # (T + 1, state), (T, action)
        reward = data.columns["reward"][100:200]               # only these rows are read
        pictures = data[0].frames[:3]                          # read, or drawn from the states

    firm.Episodes.write("tworoom", "mine.h5", [{"states": states, "actions": actions}])

The program `firm` (see firm.program.find) reads and writes the files, so a damaged or hostile file is refused with its sentence,
in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays
from .errors import ArrayTypeError, Error, FormatError, UsageError
from .program import environment, find, sentence_of, task_path
from .tasks import Task

PathLike = Union[str, "os.PathLike[str]"]
_TYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "u1": np.uint8, "b1": np.bool_}
_BLOCK = 1 << 24  # bytes written at a time


class Column:
    """One column of a file: read by slices, column[10:20] or column[-1]; numpy.asarray(column) reads all of it."""

    def __init__(self, file: "Episodes", name: str, dtype: Any, shape: Tuple[int, ...], first: int = 0):
        self._file, self._name, self._first = file, name, first
        self.dtype = np.dtype(dtype)
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<firm.Episodes column {self._name!r}, {self.dtype} {self.shape}>"

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, (int, np.integer)):
            return self._read(_arrays.place(rows, len(self), "row"), 1)[0]
        if not isinstance(rows, slice):
            raise UsageError(f"a column takes a row or a slice, not {_arrays.shown(rows)}; use numpy.asarray(column)[...]")
        first, last, step = rows.indices(len(self))
        picked = range(first, last, step)
        if not picked:
            return np.empty((0, *self.shape[1:]), self.dtype)
        low, high = min(picked[0], picked[-1]), max(picked[0], picked[-1])
        return self._read(low, high + 1 - low)[:: step] if step > 0 else self._read(low, high + 1 - low)[::-1][:: -step]

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        array = self[:]
        return array if dtype is None else array.astype(dtype, copy=False)

    def _read(self, first: int, rows: int) -> np.ndarray:
        return self._file._ask(self._name, self._first + first, rows, self.dtype, self.shape[1:])

    def _part(self, first: int, rows: int) -> "Column":
        return Column(self._file, self._name, self.dtype, (rows, *self.shape[1:]), self._first + first)


class Episode:
    """One episode of T controls: T + 1 rows."""

    def __init__(self, file: "Episodes", first: int, rows: int):
        self._file, self._first, self._rows = file, first, rows

    def __len__(self) -> int:
        return self._rows

    @property
    def states(self) -> np.ndarray:
        """(T + 1, state) float64."""
        return self._file.states[self._first : self._first + self._rows]

    @property
    def actions(self) -> np.ndarray:
        """(T, action) float32: row t is what was done at row t."""
        return self._file.actions[self._first : self._first + self._rows - 1]

    @property
    def configs(self) -> Column:
        """(T + 1, config) float32, the named configurations."""
        return self._file.configs._part(self._first, self._rows)

    @property
    def frames(self) -> Column:
        """(T + 1, H, W, 3) bytes, read or drawn when they are sliced."""
        return self._file.frames._part(self._first, self._rows)

    @property
    def columns(self) -> Dict[str, Column]:
        """The file's columns, the rows of this episode."""
        rows = self._file.rows
        return {k: c._part(self._first, self._rows) for k, c in self._file.columns.items() if len(c) == rows}


class Episodes(Sequence[Episode]):
    """An open episodes file: a sequence of Episode. Threads may share it. Close it, or use it in a `with` block.

    task: a name, a firm.tasks.Task, or the path of a plug-in or task file. threads: that draw frames, 0 for all cores."""

    def __init__(self, task: Union[Task, str], path: PathLike, *, threads: int = 0):
        self.path = _arrays.path(path, "a file of episodes")
        words = [find(), "rows", task_path(task), "--data", self.path, "--threads", str(_arrays.integer(threads, 0, 1024, "threads"))]
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile()
        # a session of its own: Ctrl-C is for the caller
        self._child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=environment(), start_new_session=True
        )
        head = self._child.stdout.readline()  # type: ignore[union-attr]
        if not head.endswith(b"\n"):
            try:
                self._failed()
            finally:
                self.close()
        about = json.loads(head)
        self.task: str = about["task"]
        self.rows: int = about["rows"]  #: of all episodes together
        self.config: Tuple[str, ...] = tuple(about["config"])  #: names of the coordinates
        self.period_ms: int = about["period_ms"]  #: of a control; 0: the task has no clock
        self.state_columns: Tuple[str, ...] = tuple(about["state_columns"])  #: that hold the state; none of a task of recordings
        self.stored_frames: bool = about["stored_frames"]  #: the file holds its pictures; else they are drawn
        self.hash: str = about["hash"]  #: tells data sets apart
        self.columns: Dict[str, Column] = {
            c["name"]: Column(self, c["name"], _TYPES[c["type"]], tuple(c["shape"])) for c in about["columns"]
        }
        rows, image = self.rows, about["image"]
        self.frames = Column(self, "@frame", np.uint8, (rows, image, image, 3))  #: read or drawn when they are sliced
        self.configs = Column(self, "@config", np.float32, (rows, len(self.config)))
        self.lengths = self._ask("@length", 0, about["episodes"], np.int32, ())  #: (episodes,) rows of each
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)[:-1]])  #: (episodes,) first row of each
        self._dims = about["state"], about["action"]
        self._whole: Dict[str, np.ndarray] = {}

    # ---- talking

    def _failed(self) -> NoReturn:
        status = self._child.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()
        raise sentence_of("rows", lines, status)

    def _exchange(self, request: bytes, out: np.ndarray) -> str:
        """Asks, and fills `out`; returns the sentence of a request that was refused, else ""."""
        pipe: Any = self._child.stdout
        try:
            self._child.stdin.write(request)  # type: ignore[union-attr]
            self._child.stdin.flush()  # type: ignore[union-attr]
            head = pipe.readline()
        except BrokenPipeError:
            head = b""
        if head.startswith(b"error "):
            return head[6:].decode(errors="replace").strip()
        if not head.endswith(b"\n"):
            self._failed()
        if int(head) != out.nbytes:
            raise Error(f"{int(head)} bytes came from {self.path}, and {out.nbytes} were expected")
        view, got = memoryview(out.reshape(-1).view(np.uint8).data), 0
        while got < out.nbytes:
            more = pipe.readinto(view[got:])
            if not more:
                self._failed()
            got += more
        return ""

    def _ask(self, name: str, first: int, rows: int, dtype: Any, shape: Tuple[int, ...]) -> np.ndarray:
        out = np.empty((rows, *shape), dtype)
        with self._lock:
            if self._child.stdin is None or self._child.stdin.closed:
                raise UsageError(f"{self.path} is closed")
            try:
                refused = self._exchange(f"{name} {first} {rows}\n".encode(), out)
            except BaseException:
                self.close()  # Ctrl-C in the middle of an answer: the rest of it must not answer the next question
                raise
        if refused:
            raise FormatError(refused)
        return out

    def close(self) -> None:
        """Ends the process that reads the file. Arrays that were read stay."""
        for pipe in (self._child.stdin, self._child.stdout):
            try:
                if pipe:
                    pipe.close()
            except BrokenPipeError:
                pass
        self._child.kill()  # it may be drawing what nobody waits for; it writes no files
        self._child.wait()
        self._said.close()

    def __enter__(self) -> "Episodes":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_child"):
            self.close()

    # ---- reading

    def _all(self, name: str, dtype: Any, width: int) -> np.ndarray:
        if name not in self._whole:
            array = self._ask(name, 0, self.rows, dtype, (width,))
            array.flags.writeable = False
            self._whole[name] = array
        return self._whole[name]

    @property
    def states(self) -> np.ndarray:
        """(rows, state) float64 of all episodes, read once; read-only."""
        return self._all("@state", np.float64, self._dims[0])

    @property
    def actions(self) -> np.ndarray:
        """(rows, action) float32 of all episodes, read once; read-only. NaN in the last row of an episode."""
        return self._all("@action", np.float32, self._dims[1])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = _arrays.place(i, len(self), "episode")
        return Episode(self, int(self.offsets[i]), int(self.lengths[i]))

    def __iter__(self) -> Iterator[Episode]:
        return (self[i] for i in range(len(self)))

    def __fspath__(self) -> str:
        """Its path, so that firm.train() and the like take it."""
        return self.path

    def __repr__(self) -> str:
        return f"<firm.Episodes {self.path!r}: {self.task}, {len(self)} episodes, {self.rows} rows>"

    # ---- writing

    @staticmethod
    def write(task: Union[Task, str], path: PathLike, episodes: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
        """Writes a file that firm.train and the program take; a file that is refused is not written.

        episodes: mappings of names to arrays. "states" (T + 1, state), "actions" (T, action), and if wanted "frames"
        (T + 1, H, W, 3) bytes; any other name becomes a column of T + 1 rows. Tasks of recordings (a task file) have no
        "states": give the columns that the file names. Columns of firm.Episodes are read piece by piece while they are written."""
        if not isinstance(episodes, Sequence) or not all(isinstance(e, Mapping) for e in episodes):
            raise ArrayTypeError("episodes must be a list of mappings of names to arrays")
        if not episodes:
            raise UsageError("there are no episodes to write")
        columns = _columns(episodes)
        lengths = np.array([_rows(e, i) for i, e in enumerate(episodes)], np.int32)
        header = [f"rows-1 {len(lengths)} {lengths.sum(dtype=np.int64)} {len(columns)}"]
        header += [" ".join([c.name, c.type, *map(str, c.shape)]) for c in columns]
        words = [find(), "rows", task_path(task), "-o", _arrays.path(path, "a file of episodes"), "--json"]
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as result:
            child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=result, stderr=said, env=environment(), start_new_session=True)
            try:
                with child.stdin as pipe:  # type: ignore[union-attr]
                    pipe.write(("\n".join(header) + "\n").encode())
                    pipe.write(lengths.tobytes())
                    for column in columns:
                        for i, episode in enumerate(episodes):
                            for block in column.blocks(episode, i, int(lengths[i])):
                                pipe.write(block)
            except BrokenPipeError:
                pass  # its sentence says why
            except BaseException:
                child.kill()  # leaves nothing behind: the file is written aside
                child.wait()
                raise
            status = child.wait()
            said.seek(0)
            result.seek(0)
            if status == 0:
                return json.loads(result.read())
            raise sentence_of("rows", said.read().decode(errors="replace").splitlines(), status)


def _rows_of(episode: Mapping[str, Any], key: str, i: int) -> Any:
    """An array of an episode, which has rows, or a Column."""
    value = episode[key]
    array = value if isinstance(value, Column) else _arrays.array(value, f"{key!r} of episode {i}", "an array")
    if not array.shape:
        raise UsageError(f"{key!r} of episode {i} is one number; give one row for each moment")
    return array


class _Written:
    """A column of a new file, after the first episode's array."""

    def __init__(self, key: str, array: Any):
        self.key, self.shape = key, tuple(array.shape[1:])
        self.name = {"states": "@state", "actions": "action", "frames": "pixels"}.get(key, key)
        kind = array.dtype.kind
        if kind not in "fiub":
            raise UsageError(f"{key!r} of episode 0 holds {array.dtype}, which is no number")
        self.type = "b1" if kind == "b" else "u1" if array.dtype == np.uint8 else "i8" if kind in "iu" else "f4" if array.dtype.itemsize <= 4 else "f8"
        if key in ("states", "actions"):
            self.type = "f8" if key == "states" else "f4"
        if key == "frames" and self.type != "u1":
            raise UsageError(f"frames must be RGB bytes (uint8), but hold {array.dtype}")

    def blocks(self, episode: Mapping[str, Any], i: int, rows: int) -> Iterator[bytes]:
        if self.key not in episode:
            raise UsageError(f"episode {i} has no {self.key!r}, which episode 0 has")
        array = _rows_of(episode, self.key, i)
        short = self.key == "actions" and len(array) == rows - 1
        if tuple(array.shape[1:]) != self.shape or len(array) != rows - short:
            raise UsageError(f"{self.key!r} of episode {i} has the shape {tuple(array.shape)}, not {(rows - short, *self.shape)}")
        dtype = np.dtype(_TYPES[self.type])
        some = max(1, _BLOCK // max(1, dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))))
        for first in range(0, len(array), some):
            yield np.ascontiguousarray(array[first : first + some], dtype).tobytes()
        if short:
            yield np.full(self.shape, np.nan, dtype).tobytes()


def _columns(episodes: Sequence[Mapping[str, Any]]) -> List[_Written]:
    for key in episodes[0]:
        if not isinstance(key, str):
            raise ArrayTypeError(f"names of columns are text, not {_arrays.shown(key)}")
    columns = [_Written(key, _rows_of(episodes[0], key, 0)) for key in episodes[0]]
    for i, episode in enumerate(episodes):
        more = set(episode) - set(episodes[0])
        if more:
            raise UsageError(f"episode {i} has {sorted(more)[0]!r}, which episode 0 has not")
    if not columns:
        raise UsageError("episode 0 has no arrays")
    return columns


def _rows(episode: Mapping[str, Any], i: int) -> int:
    """T + 1, from any array but the actions, which may have T rows."""
    key = next((key for key in episode if key != "actions"), "actions")
    rows = len(_rows_of(episode, key, i)) if key in episode else 0
    if rows < 1:
        raise UsageError(f"episode {i} has no rows")
    return rows
