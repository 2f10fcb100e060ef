"""Arguments, arrays above all: checked, named in errors, and copied only where they must be."""

from __future__ import annotations

import operator
import os
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .errors import ArrayTypeError, PlaceError, RangeError, UsageError


def _words(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ")"


def _is_shape(shape: Tuple[int, ...], wanted: Sequence[Any]) -> bool:
    return len(shape) == len(wanted) and all(
        not isinstance(w, int) or s == w for s, w in zip(shape, wanted)
    )


def shown(value: Any) -> str:
    """A value as a sentence shows it: on one line, and not all of it."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def array(value: Any, name: str, words: str) -> np.ndarray:
    """What NumPy makes of it; `words` say what it must be."""
    try:
        return value if type(value) is np.ndarray else np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArrayTypeError(f"{name} must be {words}: {' '.join(str(error).split())}") from None


def pixels(value: Any, name: str) -> np.ndarray:
    """An array that frames() will check."""
    return array(value, name, "RGB bytes (uint8)")


def frames(value: Any, wanted: Sequence[Any], name: str) -> np.ndarray:
    """RGB bytes of the wanted shape, in C order. Letters in `wanted` stand for any number above 0."""
    found = pixels(value, name)
    if found.dtype != np.uint8:
        raise ArrayTypeError(
            f"{name} must be RGB bytes (uint8), but holds {found.dtype}; "
            "convert numbers in 0 .. 1 with (255 * x).astype(numpy.uint8)"
        )
    if not _is_shape(found.shape, wanted) or found.size == 0:
        hint = ""
        if len(found.shape) >= 3 and found.shape[-3] == 3 and found.shape[-1] != 3:
            hint = "; colours come last: use numpy.moveaxis(x, -3, -1)"
        raise UsageError(f"{name} must have the shape {_words(wanted)}, but has {_words(found.shape)}{hint}")
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def numbers(value: Any, wanted: Sequence[Any], name: str, dtype: Any = np.float32) -> np.ndarray:
    """Finite numbers of the wanted shape as `dtype`, in C order."""
    found = array(value, name, "an array of numbers")
    if found.dtype.kind not in "fiub":
        raise ArrayTypeError(f"{name} must hold numbers, but holds {found.dtype}")
    if not _is_shape(found.shape, wanted):
        raise UsageError(f"{name} must have the shape {_words(wanted)}, but has {_words(found.shape)}")
    cast = found.astype(dtype, order="C", copy=False)
    if not np.isfinite(cast).all():
        where = np.argwhere(~np.isfinite(cast))[0]
        large = np.isfinite(found[tuple(where)])
        raise RangeError(f"{name} is {f'too large for {cast.dtype}' if large else 'not finite'} at {_words(where)}")
    return cast


def _whole(value: Any, count: int, name: str, kinds: str, words: str) -> np.ndarray:
    found = array(value, name, words)
    if found.shape != (count,):
        raise UsageError(f"{name} must have the shape {_words((count,))}, but has {_words(found.shape)}")
    if found.dtype.kind not in kinds:
        raise ArrayTypeError(f"{name} must be {words}, but holds {found.dtype}")
    return found


def seeds(value: Any, count: int) -> np.ndarray:
    """Whole numbers 0 .. 2**64 - 1, one for each of `count`."""
    found = _whole(value, count, "seeds", "iu", "whole numbers from 0 to 2**64 - 1")
    if (found < 0).any():
        raise UsageError(f"seeds has {found.min()}; give whole numbers from 0 on")
    return found.astype(np.uint64)


def mask(value: Any, count: int, name: str = "mask") -> np.ndarray:
    """Which of `count` are meant, as bools."""
    return _whole(value, count, name, "biu", "True or False for each") != 0


def integer(value: Any, low: int, high: Optional[int], name: str) -> int:
    """A whole number in low .. high."""
    try:
        number = int(value)
        whole = number == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ArrayTypeError(f"{name} must be a whole number, not {shown(value)}")
    if number < low or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"{low} to {high}"
        raise UsageError(f"{name} is {number}; give {bounds}")
    return number


def place(value: Any, count: int, what: str) -> int:
    """A place in a sequence, from the end where it is negative."""
    try:
        i = operator.index(value)
    except TypeError:
        raise ArrayTypeError(f"a {what}'s number must be whole, not {shown(value)}") from None
    if not -count <= i < count:
        raise PlaceError(f"there is no {what} {i}; there are {count}, counted from 0")
    return i % count


def choice(value: Any, names: Sequence[str], what: str) -> int:
    """The place of a name in a list of them."""
    if not isinstance(value, str) or value not in names:
        raise UsageError(f"there is no {what} {shown(value)}; the {what}s are: {', '.join(names)}")
    return names.index(value)


def path(value: Any, what: str) -> str:
    """A path or a name as text."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise ArrayTypeError(f"{what} must be a name or a path, not {shown(value)}")
    text = os.fsdecode(value)
    if not text or "\0" in text:
        raise UsageError(f"{what} must be a name or a path, not {shown(text)}")
    return text
