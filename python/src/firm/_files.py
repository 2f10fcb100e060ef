"""Model files (docs/formats.md): safetensors with texts, whose digest covers contents."""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import Any, Dict, Mapping, Tuple

import numpy as np

from .errors import FormatError, MissingError, ReadWriteError

_TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def read(path: str) -> Tuple[Dict[str, str], Dict[str, np.ndarray]]:
    """The texts and the tensors of a file. firm.load() checks more than this does."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}") from None
    except OSError as error:
        raise ReadWriteError(f"{path} cannot be read: {error.strerror}") from None
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        texts = header.pop("__metadata__", {})
        body = memoryview(data)[8 + length :]
        tensors = {}
        for name, t in header.items():
            first, last = t["data_offsets"]
            tensors[name] = np.frombuffer(body[first:last], _TYPES[t["dtype"]]).reshape(t["shape"]).copy()
        found = digest(texts, tensors)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        raise FormatError(f"{path} is damaged or no model file; make it again") from None
    if texts.get("firm.format") not in ("firm-model", "firm-lewm"):
        raise FormatError(f"{path} is no model of this project; give a model.safetensors that firm wrote")
    if texts.get("firm.digest") != found:
        raise FormatError(f"{path} is damaged: its contents have the digest {found}, not {texts.get('firm.digest')}")
    return texts, tensors


def _dtype(array: np.ndarray) -> str:
    return next((name for name, kind in _TYPES.items() if kind == array.dtype), "F32")


def digest(texts: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> str:
    """What firm.digest of a file must be."""
    crc = 0
    for key in sorted(k for k in texts if k.startswith("firm.") and k not in ("firm.digest", "firm.checksum")):
        crc = zlib.crc32(f"{key}\0{texts[key]}\0".encode(), crc)
    for name in sorted(tensors, key=lambda n: n.encode()):
        array = tensors[name]
        crc = zlib.crc32("\0".join([name, _dtype(array), *map(str, array.shape), "", ""]).encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return f"{crc:08x}"


def write(path: str, texts: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> None:
    """A complete file with a right digest, or none."""
    texts = {k: v for k, v in texts.items() if k != "firm.checksum"}
    texts["firm.digest"] = digest(texts, tensors)
    header: Dict[str, Any] = {"__metadata__": texts}
    at = 0
    for name, array in tensors.items():
        header[name] = {"dtype": _dtype(array), "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "wb") as file:
            file.write(struct.pack("<Q", len(head)))
            file.write(head)
            for array in tensors.values():
                file.write(np.ascontiguousarray(array).tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.remove(beside)
        raise ReadWriteError(f"{path} cannot be written: {error.strerror}") from None
