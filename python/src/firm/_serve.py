"""The Python process behind a task of firm.tasks.from_gymnasium(): python -m firm._serve FOLDER, a socket as its standard input.

Started by the plug-in (ext/served_task.c, which says what is asked and answered); ends when its socket does."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import traceback

import numpy as np

from . import tasks


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def serve(folder: str, connection: socket.socket) -> None:
    """Answers until the other side closes."""
    served = tasks.Served(folder)
    size = {"r": 8, "s": 4 * served.task.action_dim, "w": 8 * served.task.state_dim, "c": 8 * served.task.state_dim, "p": 0}
    connection.sendall(b"\0")
    while True:
        try:
            what = _exactly(connection, 1).decode()
            data = _exactly(connection, size[what])
        except EOFError:
            return
        try:
            if what == "r":
                answer = served.reset(struct.unpack("=Q", data)[0])
            elif what == "s":
                answer = served.step(np.frombuffer(data, np.float32))
            elif what == "w":
                answer = served.set(np.frombuffer(data, np.float64))
            elif what == "p":
                answer = served.picture()
            else:
                answer = served.config(np.frombuffer(data, np.float64))
        except Exception:
            traceback.print_exc()
            connection.sendall(b"\1")
        else:
            connection.sendall(b"\0" + np.ascontiguousarray(answer).tobytes())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends it
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    serve(sys.argv[1], socket.socket(fileno=os.dup(0)))
