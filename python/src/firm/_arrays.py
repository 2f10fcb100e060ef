"""Arguments that should be arrays: checked, named in errors, and copied only where they must be."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .errors import ArrayTypeError, RangeError, UsageError


def _words(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ")"


def _is_shape(shape: Tuple[int, ...], wanted: Sequence[Any]) -> bool:
    return len(shape) == len(wanted) and all(
        not isinstance(w, int) or s == w for s, w in zip(shape, wanted)
    )


def frames(value: Any, wanted: Sequence[Any], name: str) -> np.ndarray:
    """RGB bytes of the wanted shape, in C order. Letters in `wanted` stand for any number above 0."""
    try:
        array = value if type(value) is np.ndarray else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ArrayTypeError(f"{name} must be RGB bytes (uint8): {error}") from None
    if array.dtype != np.uint8:
        raise ArrayTypeError(
            f"{name} must be RGB bytes (uint8), but holds {array.dtype}; "
            "convert numbers in 0 .. 1 with (255 * x).astype(numpy.uint8)"
        )
    if not _is_shape(array.shape, wanted) or array.size == 0:
        hint = ""
        if len(array.shape) >= 3 and array.shape[-3] == 3 and array.shape[-1] != 3:
            hint = "; colours come last: use numpy.moveaxis(x, -3, -1)"
        raise UsageError(f"{name} must have the shape {_words(wanted)}, but has {_words(array.shape)}{hint}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def numbers(value: Any, wanted: Sequence[Any], name: str, dtype: Any = np.float32) -> np.ndarray:
    """Finite numbers of the wanted shape as `dtype`, in C order."""
    try:
        array = value if type(value) is np.ndarray else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ArrayTypeError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ArrayTypeError(f"{name} must hold numbers, but holds {array.dtype}")
    if not _is_shape(array.shape, wanted):
        raise UsageError(f"{name} must have the shape {_words(wanted)}, but has {_words(array.shape)}")
    array = array.astype(dtype, order="C", copy=False)
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        raise RangeError(f"{name} is not finite at {_words(where)}")
    return array


def integer(value: Any, low: int, high: Optional[int], name: str) -> int:
    """A whole number in low .. high."""
    try:
        number = int(value)
        whole = number == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ArrayTypeError(f"{name} must be a whole number, not {value!r}")
    if number < low or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"{low} to {high}"
        raise UsageError(f"{name} is {number}; give {bounds}")
    return number
