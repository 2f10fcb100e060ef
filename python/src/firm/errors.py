"""Exceptions: one class for each status of the library, each with the library's own sentence."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of this package. Its text is one sentence that names the cause and the cure."""


class UsageError(Error, ValueError):
    """The call or its arguments are wrong."""


class MissingError(Error, FileNotFoundError):
    """A file or folder is missing."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FormatError(Error, ValueError):
    """A file is damaged or of another kind."""


class TaskError(Error, ValueError):
    """Something was made for another task."""


class RangeError(Error, ValueError):
    """A value is out of range or not finite."""


class ReadWriteError(Error, OSError):
    """Reading or writing failed."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class OutOfMemory(Error, MemoryError):
    """Out of memory."""


class UnavailableError(Error, RuntimeError):
    """Not available in this build or on this machine; the sentence names what to install."""


class GateError(Error, RuntimeError):
    """It ran, but a check failed."""


class InternalError(Error, RuntimeError):
    """A mistake in the library."""


class ArrayTypeError(Error, TypeError):
    """An argument is of the wrong type, or an array of the wrong type of numbers."""


class PlaceError(Error, IndexError):
    """There is no such row, episode or controller."""


# in the order of firm_status, from 1
_BY_STATUS = (
    UsageError,
    MissingError,
    FormatError,
    TaskError,
    RangeError,
    ReadWriteError,
    OutOfMemory,
    UnavailableError,
    GateError,
    InternalError,
    KeyboardInterrupt,
)


def of_status(status: int, message: str) -> BaseException:
    """The exception of a firm_status; called by the extension."""
    kind = _BY_STATUS[status - 1] if 1 <= status <= len(_BY_STATUS) else InternalError
    return kind(message)
